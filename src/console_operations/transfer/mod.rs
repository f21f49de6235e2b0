//! Copies a file or a directory out of a container or into it, with `tar` in the container, as `kubectl cp` does
//! (CON-3).
//!
//! No file gets its final name before it is complete. [`archive`] is pure except for files, [`local`] is this machine's
//! end, [`remote`] the container's.

pub(crate) mod archive;
pub mod local;
pub(crate) mod remote;

pub use archive::Progress;
pub use remote::{Container, split};
