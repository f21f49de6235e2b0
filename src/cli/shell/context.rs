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
    /// Directory for the replaced files. It hides the socket of the fabric's process, which is not needed inside.
    pub(super) fn directory(&self) -> PathBuf {
        self.data_dir.join("fabric")
    }

    /// Path of the kubeconfig inside.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory().join("kubeconfig")
    }
}
