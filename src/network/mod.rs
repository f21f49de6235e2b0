//! The network layer.
