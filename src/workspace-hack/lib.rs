//! Nothing: a crate for its dependencies alone.
//!
//! Each of our crates depends on it, so that third-party crates are built with the same features for every package that
//! Cargo builds, and `cargo test -p podium-controllers` uses what `cargo test` has built. `cargo hakari generate` writes
//! its manifest; a stale one costs time and nothing else.
