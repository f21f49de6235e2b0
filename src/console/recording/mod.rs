//! Sessions of the console kept in a file, and shown again without a cluster or a terminal (CON-21).
//!
//! A recording holds what came from outside: keys, each request to the API with its answer, piece by piece, what terminals
//! in pods printed, what became of port-forwards, how other clusters were reached, and when. What is
//! shown follows from that, so that a recording shows what this program makes of it and not what another one drew.
//!
//! ```text
//!  terminal ──► Recorder ──► the console          Recording ──► replay ──► Screen (text, SVG, a cast)
//!  the API  ──►    │                              keys and answers at their times, under virtual time
//!                  └──► FILE (a line of JSON each)
//! ```
//!
//! A recording has whatever the servers told: Secrets too, where the session looked at them; and the contexts of the
//! kubeconfig, without what opens them, where another than the first was looked at or they were listed. Its file is its
//! owner's alone.

mod cast;
mod client;
mod format;
mod known;
mod noted;
mod others;
#[cfg(test)]
mod others_tests;
mod reached;
mod recorder;
mod replay;
mod replayed;
mod svg;
mod terminals;
mod told;

pub use cast::Cast;
pub(crate) use client::recorded;
pub(crate) use format::{Beginning, VERSION};
pub use format::{Recording, RecordingError};
pub(crate) use recorder::{Recorder, Session};
pub use replay::{ReplayOptions, Screen, replay};
