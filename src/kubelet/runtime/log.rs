//! Reads container logs as the API serves them.
