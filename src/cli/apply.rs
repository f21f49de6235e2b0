//! `podium apply`, `podium delete` and `podium kubeconfig`, and clients of the instance of a data directory (CLI-4).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use kube::Client;

use super::flags::{InstanceArgs, ManifestRequest};
use super::output::{eprint_line, print_line};
use super::runtime::runtime;
pub(super) use cluster::apply::{ApplySummary, DEFAULT_NAMESPACE, Depth, Mode, apply_documents, read_files};
use cluster::apply::{Warnings, apply_all, delete_all, read};
use cluster::running_instance;

pub(super) fn apply(request: &ManifestRequest) -> Result<()> {
    let (documents, mut errors) = read(&request.filename, depth(request));
    runtime()?.block_on(async {
        let client = client_of(&request.instance).await?;
        let warnings = Warnings::new(|text| eprint_line(&format!("Warning: {text}")));
        let suffix = if request.dry_run { " (dry run)" } else { "" };
        errors.extend(
            apply_all(
                &client,
                &documents,
                &request.namespace,
                mode(request),
                &warnings,
                |object, outcome| {
                    print_line(&format!("{object} {outcome}{suffix}"));
                },
            )
            .await,
        );
        if errors.is_empty() { Ok(()) } else { bail!(errors.join("\n")) }
    })
}

/// Applies the manifests of `-f` at the start: only missing objects, unless the user requests all (`--reapply`). The
/// data directory may contain objects that were changed since they were first applied, and a start must not revert
/// those changes.
pub(super) async fn apply_at_start(
    client: &Client,
    documents: Vec<manifest::Document>,
    reapply: bool,
) -> Result<Option<ApplySummary>> {
    if documents.is_empty() {
        return Ok(None);
    }
    let mode = if reapply { Mode::Write } else { Mode::Missing };
    apply_documents(client, documents, DEFAULT_NAMESPACE, mode).await.map(Some)
}

/// Describes the outcome to the user.
pub(super) fn at_start(applied: &ApplySummary) -> String {
    let force = if applied.leaves_some() { " (--reapply applies them)" } else { "" };
    format!("-f: {applied}{force}")
}

pub(super) fn delete(request: &ManifestRequest) -> Result<()> {
    let (documents, mut errors) = read(&request.filename, depth(request));
    runtime()?.block_on(async {
        let warnings = Warnings::new(|text| eprint_line(&format!("Warning: {text}")));
        let client = client_of(&request.instance).await?;
        errors.extend(
            delete_all(&client, &documents, &request.namespace, mode(request), &warnings, print_line).await,
        );
        if errors.is_empty() { Ok(()) } else { bail!(errors.join("\n")) }
    })
}

fn mode(request: &ManifestRequest) -> Mode {
    if request.dry_run { Mode::DryRun } else { Mode::Write }
}

fn depth(request: &ManifestRequest) -> Depth {
    if request.recursive { Depth::Recursive } else { Depth::Flat }
}

/// Prints the kubeconfig of the instance that runs on a data directory.
pub(super) fn print_kubeconfig(instance: &InstanceArgs) -> Result<()> {
    let path = kubeconfig_of(instance)?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    print_line(text.trim_end());
    Ok(())
}

/// Returns a client of the instance that runs on a data directory.
pub(super) async fn client_of(instance: &InstanceArgs) -> Result<Client> {
    client_by(&kubeconfig_of(instance)?).await
}

/// Returns a client of the current context of a kubeconfig.
pub(super) async fn client_by(kubeconfig: &Path) -> Result<Client> {
    let config =
        console_data::kubeconfig::current_context(kubeconfig).await.map_err(|error| anyhow!(error))?;
    Ok(Client::try_from(config)?)
}

/// Returns the path of the kubeconfig of the instance that runs on a data directory. A stopped instance leaves its
/// kubeconfig there.
fn kubeconfig_of(instance: &InstanceArgs) -> Result<PathBuf> {
    let directory = instance.directory()?;
    let path = directory.join("kubeconfig");
    if running_instance(&directory).is_none() || !path.exists() {
        bail!("podium is not running on {}", directory.display());
    }
    Ok(path)
}
