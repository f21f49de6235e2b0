//! The controllers layer.
