//! Asking a container.
