//! runtime/staddle-base
