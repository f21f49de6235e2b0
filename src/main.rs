//! Podium.
fn main() {}
