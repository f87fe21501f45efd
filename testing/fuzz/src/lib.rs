//! testing/fuzz
