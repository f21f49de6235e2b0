//! The integration tests of `podium-lab`. Some start the `podium` beside it: `cargo test --workspace` builds both.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod controller_trial;
#[path = "../it/needs.rs"]
#[allow(dead_code, reason = "these tests have few requirements")]
mod needs;
#[path = "../it/processes.rs"]
#[allow(dead_code, reason = "these tests start few processes")]
mod processes;
mod simulator;
mod torture;
