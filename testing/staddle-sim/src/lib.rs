//! testing/staddle-sim
