//! surface/staddle
