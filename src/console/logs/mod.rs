//! Logs of containers: followed, made harmless, kept in a bounded buffer, searched.
//!
//! ```text
//!  container ─► source (one task a run) ─► line (escapes, level) ─► batches ─► Buffer ─► screen
//!                                                                      query ┘
//! ```
//!
//! [`source`] is the only file that talks to the cluster; the rest is pure. Lines are parsed in its tasks,
//! so that the loop only appends: 100 000 lines a second pass through it (CON-10).

pub mod buffer;
pub mod line;
pub mod query;
mod run;
pub mod selector;
pub mod source;
mod stream;

pub use buffer::Buffer;
pub use line::{Level, LogLine};
pub use query::Query;
pub use source::{Follow, Pods, Start, Which};
