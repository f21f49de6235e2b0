//! Forks: data directories made of a snapshot (SAFE-8). The program that starts the console makes them, where it runs on the
//! machine that has the snapshot's files.

use std::fmt::Debug;
use std::path::PathBuf;

use futures::future::BoxFuture;

/// Makes forks of the cluster that the console was started on.
pub trait Fork: Debug + Send + Sync {
    /// Makes a data directory of a snapshot. The directory must be empty or absent. Errors are shown as they are.
    fn fork(&self, snapshot: String, directory: PathBuf) -> BoxFuture<'static, Result<Forked, String>>;
}

/// A data directory that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forked {
    /// The number of objects in it.
    pub objects: usize,
}
