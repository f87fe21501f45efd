//! stores/staddle-record
