//! The object layer.
