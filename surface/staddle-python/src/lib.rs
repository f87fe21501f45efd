//! surface/staddle-python
