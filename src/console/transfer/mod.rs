//! Copies a file or a directory out of a container or into it, with `tar` in the container, as `kubectl cp` does
//! (CON-3).
//!
//! No file gets its final name before it is complete. [`archive`] is pure except for files, [`local`] is this machine's
//! end, [`remote`] the container's.

pub(crate) mod archive;
pub(crate) mod local;
pub(crate) mod remote;

pub(crate) use archive::Progress;
pub(crate) use remote::{Container, split};
