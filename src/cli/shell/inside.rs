//! What a process needs to know that goes inside.

use std::path::{Path, PathBuf};

use crate::cluster::NetworkEntry;

/// The instance, and how names are meant.
pub(super) struct Inside<'a> {
    pub(super) data_dir: &'a Path,
    pub(super) entry: &'a NetworkEntry,
    /// In which short names are looked up.
    pub(super) namespace: &'a str,
}

impl Inside<'_> {
    /// What is shown inside instead of the directory of the fabric's process, which nobody asks from there.
    pub(super) fn directory(&self) -> PathBuf {
        self.data_dir.join("fabric")
    }

    /// Where kubectl finds the cluster, inside.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory().join("kubeconfig")
    }
}
