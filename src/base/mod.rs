//! The base layer.
