//! Forks: data directories created from a snapshot (SAFE-8). The program that starts the console creates them, if it
//! runs on the machine with the snapshot's files.

use std::fmt::Debug;
use std::path::PathBuf;

use futures::future::BoxFuture;

/// Creates forks of the cluster that the console was started on.
pub trait Fork: Debug + Send + Sync {
    /// Creates a data directory from a snapshot. The directory must be empty or absent. Errors are shown verbatim.
    fn fork(
        &self,
        snapshot: String,
        directory: PathBuf,
    ) -> BoxFuture<'static, Result<ForkedDirectory, String>>;
}

/// A new data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkedDirectory {
    /// The number of objects in it.
    pub objects: usize,
}
