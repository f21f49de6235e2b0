//! Sessions of the console recorded to a file, and replayed without a cluster or a terminal (CON-21).
//!
//! A recording has the external input: keys, each API request with the chunks of its response, the output of terminals
//! in pods, the reports of port-forwards, the connections to other clusters, and the times of all that. The display
//! follows from it, so that a replay shows the rendering by the present program, not by the one that recorded.
//!
//! ```text
//!  terminal ──► Recorder ──► the console          Recording ──► replay ──► Screen (text, SVG, a cast)
//!  the API  ──►    │                              keys and answers at their times, under virtual time
//!                  └──► FILE (a line of JSON each)
//! ```
//!
//! A recording has everything that the servers sent, including Secrets if the session showed them; and the contexts of
//! the kubeconfig without credentials, if another cluster than the first was shown or they were listed. The file is
//! readable only by its owner.

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
