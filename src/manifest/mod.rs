//! The manifest layer.
