//! The scheduler layer.
