//! stub
mod config;
pub use config::*;
