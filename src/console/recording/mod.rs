//! Sessions of the console recorded to a file, and replayed without a cluster or a terminal (CON-21).
//!
//! A recording has the external input: keys, each API request with the chunks of its response, the output of terminals
//! in pods, the reports of port-forwards, the connections to other clusters, and the times of all that. The display
//! follows from it, so that a replay shows the rendering by the present program, not by the one that recorded.
//!
//! ```text
//!  terminal ──► Recorder ──► the console          Recording ──► replay ──► Screen (text, SVG, a cast)
//!  the API  ──►    │                              keys and responses at their times, under virtual time
//!                  └──► FILE (a line of JSON each)
//! ```
//!
//! A recording has everything that the servers sent, including Secrets if the session showed them; and the contexts of
//! the kubeconfig without credentials, if the session showed a cluster other than the first, or listed the contexts.
//! The file is readable only by its owner.

mod cast;
mod client;
mod connect_events;
mod connection_ids;
mod event_writer;
mod format;
mod key_bindings;
mod recorded_clusters;
#[cfg(test)]
mod recorded_clusters_tests;
mod recorder;
mod replay;
mod replay_client;
mod replay_sources;
mod svg;
mod terminals;

pub use cast::Cast;
pub(crate) use client::recorded;
pub use format::{Recording, RecordingError};
pub(crate) use format::{SessionHeader, VERSION};
pub(crate) use key_bindings::recorded_bindings;
pub(crate) use recorder::{Recorder, Session};
pub use replay::{ReplayOptions, Screen, replay};
