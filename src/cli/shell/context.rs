//! The environment of a process inside the cluster's network.

use std::path::{Path, PathBuf};

use cluster::NetworkEntry;

/// The instance, and the namespace for short names.
pub(super) struct ShellContext<'a> {
    pub(super) data_dir: &'a Path,
    pub(super) entry: &'a NetworkEntry,
    /// Namespace in which short names are looked up.
    pub(super) namespace: &'a str,
}

impl ShellContext<'_> {
    /// Directory over which the file system with the replaced files is mounted. The mount hides the socket of the
    /// fabric's process, which the shell does not need.
    pub(super) fn directory(&self) -> PathBuf {
        self.data_dir.join("fabric")
    }

    /// Path of the kubeconfig for the shell.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory().join("kubeconfig")
    }
}
