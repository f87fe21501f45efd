//! runtime/staddle-runtime
