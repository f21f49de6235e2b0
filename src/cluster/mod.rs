//! The cluster layer.
