//! The console layer.
