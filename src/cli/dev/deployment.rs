//! The objects of a project in the cluster: applies them, removes those that the manifests no longer have, and deletes
//! at the end what it created (DEV-3).
//!
//! `DATA/dev/PROJECT.json` lists the objects that runs created, so that a run also knows those of a killed one. Objects
//! that were there before are changed as by `podium apply`, and never deleted.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::DeleteParams;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::manifests::{PreparedManifests, images_of};
use super::object_name::ObjectName;
use super::state_files::{directory, file_name, lock, replace};
use base::hex::hex;
use base::sort::SliceOrder;
use cluster::apply::{Mode, Outcome, Warnings, apply_document, delete_all};
use console_data::decoded::TypedApi;
use manifest::Document;
use object::TypedKind as _;

/// Kinds of objects that stay at the end, since data or other objects would go with them.
const RETAINED_KINDS: [&str; 4] =
    ["Namespace", "PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition"];
/// Time to wait for the end of a Job that is replaced.
const JOB_END: Duration = Duration::from_mins(1);
/// Interval of looks at a Job that ends.
const JOB_LOOK: Duration = Duration::from_millis(100);

/// The objects of a project.
pub(super) struct Deployment {
    client: Client,
    /// The project's name: the value of its pods' label.
    pub(super) project: String,
    pub(super) namespace: String,
    record: PathBuf,
    created: Vec<ObjectName>,
    _lock: File,
}

/// The result of applying manifests.
#[derive(Debug, Default)]
pub(super) struct AppliedManifests {
    /// The objects that changed, as `deployment.apps/web configured`.
    pub(super) changes: Vec<String>,
    /// The objects that were created or changed.
    pub(super) changed: Vec<ObjectName>,
    pub(super) errors: Vec<String>,
    /// The positions of the documents that were not applied.
    pub(super) failed: BTreeSet<usize>,
}

impl Deployment {
    /// Opens the project of these manifests; fails if another run has it.
    pub(super) fn open(
        data_dir: &Path,
        client: Client,
        namespace: &str,
        manifests: &[PathBuf],
    ) -> Result<Self> {
        let project = project_name(namespace, manifests);
        let directory = directory(data_dir)?;
        let Some(lock) = lock(&directory.join(format!("project-{project}.lock")))? else {
            bail!("another `podium dev` has these manifests, for {}", data_dir.display());
        };
        let record = directory.join(format!("project-{project}.json"));
        // Without the record nothing is deleted.
        let created =
            base::json::from_str(&base::optional_file::read_optional(&record)).ok().unwrap_or_default();
        Ok(Self { client, project, namespace: namespace.to_owned(), record, created, _lock: lock })
    }

    /// Applies manifests, or those at the positions of `only`, and deletes what a run created and the manifests no
    /// longer have.
    pub(super) async fn apply(
        &mut self,
        manifests: &PreparedManifests,
        only: Option<&BTreeSet<usize>>,
    ) -> AppliedManifests {
        let mut applied = AppliedManifests::default();
        let warnings = Warnings::new(|text| tracing::warn!("{text}"));
        let documents = &manifests.documents;
        for (position, document) in documents.iter().enumerate() {
            if only.is_some_and(|only| !only.contains(&position)) {
                continue;
            }
            let name = ObjectName::of(document, &self.namespace);
            if name.kind == "Job"
                && let Err(error) = self.replace_job(document, &name).await
            {
                applied.errors.push(document.error("", error.to_string()).to_string());
                applied.failed.insert(position);
                continue;
            }
            let namespace = self.namespace.clone();
            let done =
                apply_document(&self.client, document, documents, &namespace, Mode::Write, &warnings).await;
            match done {
                Ok((object, outcome)) => {
                    if outcome == Outcome::Created && !name.name.is_empty() {
                        self.record(name.clone());
                    }
                    if outcome != Outcome::Unchanged {
                        applied.changes.push(format!("{object} {outcome}"));
                        applied.changed.push(name);
                    }
                }
                Err(error) => {
                    applied.errors.extend(error);
                    applied.failed.insert(position);
                }
            }
        }
        let present: Vec<ObjectName> =
            documents.iter().map(|document| ObjectName::of(document, &self.namespace)).collect();
        let is_gone = |name: &ObjectName| !present.iter().any(|other| other.is_same(name));
        let removed: Vec<ObjectName> = self.created.iter().filter(|name| is_gone(name)).cloned().collect();
        self.delete(&removed, &mut applied).await;
        applied
    }

    /// Deletes what this project's runs created.
    pub(super) async fn delete_created(&mut self) -> AppliedManifests {
        let mut applied = AppliedManifests::default();
        self.delete(&self.created.clone(), &mut applied).await;
        applied
    }

    async fn delete(&mut self, names: &[ObjectName], applied: &mut AppliedManifests) {
        let warnings = Warnings::new(|text| tracing::warn!("{text}"));
        for name in names.iter().rev() {
            if RETAINED_KINDS.contains(&name.kind.as_str()) {
                applied.changes.push(format!("{}/{} stays", name.kind.to_lowercase(), name.name));
                self.forget(name);
                continue;
            }
            let Some(document) = name.document() else { continue };
            let deleted = parking_lot::Mutex::new(Vec::new());
            let report = |line: &str| deleted.lock().push(line.to_owned());
            let documents = [document];
            let errors =
                delete_all(&self.client, &documents, &self.namespace, Mode::Write, &warnings, report).await;
            applied.changes.extend(deleted.into_inner());
            // An object that is gone already needs no deletion.
            let errors: Vec<String> =
                errors.into_iter().filter(|error| !error.ends_with("not found")).collect();
            if errors.is_empty() {
                self.forget(name);
            }
            applied.errors.extend(errors);
        }
    }

    /// Deletes a Job of this project whose images differ, because a Job's pods never change. Waits for its end.
    async fn replace_job(&self, document: &Document, name: &ObjectName) -> Result<()> {
        if !self.created.iter().any(|known| known.is_same(name)) {
            return Ok(());
        }
        let jobs = name.api(&self.client);
        let Some(present) = jobs.get_opt(&name.name).await.map_err(crate::cli::output::api_error)? else {
            return Ok(());
        };
        if images_of(&present.data) == images_of(&document.value) {
            return Ok(());
        }
        let deleted = jobs.delete(&name.name, &DeleteParams::background()).await;
        deleted.map_err(crate::cli::output::api_error)?;
        let gone = async {
            while jobs.get_opt(&name.name).await.is_ok_and(|found| found.is_some()) {
                tokio::time::sleep(JOB_LOOK).await;
            }
        };
        if tokio::time::timeout(JOB_END, gone).await.is_err() {
            bail!("the Job does not end, so that it is not replaced");
        }
        Ok(())
    }

    /// Records an event about objects: the build of their image failed.
    pub(super) async fn warn(&self, documents: &[&Document], message: &str) {
        for document in documents {
            let name = ObjectName::of(document, &self.namespace);
            let api = name.api(&self.client);
            let Ok(Some(object)) = api.get_opt(&name.name).await else { continue };
            let event = json!({
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"generateName": format!("{}-", name.name), "namespace": name.namespace},
                "involvedObject": {
                    "apiVersion": name.api_version, "kind": name.kind, "namespace": name.namespace,
                    "name": name.name, "uid": object.metadata.uid,
                },
                "reason": "BuildFailed",
                "message": message.chars().take(1000).collect::<String>(),
                "type": "Warning",
                "count": 1,
                "firstTimestamp": now(),
                "lastTimestamp": now(),
                "source": {"component": "podium-dev"},
            });
            let events = TypedApi::<Event>::namespaced(self.client.clone(), &name.namespace);
            let Ok(event) = Event::decode(event) else { continue };
            if let Err(error) = events.create(&event).await {
                tracing::warn!("cannot record an event about {}/{}: {error}", name.kind, name.name);
            }
        }
    }

    fn record(&mut self, name: ObjectName) {
        if !self.created.iter().any(|known| known.is_same(&name)) {
            self.created.push(name);
            self.write();
        }
    }

    fn forget(&mut self, name: &ObjectName) {
        self.created.retain(|known| known != name);
        self.write();
    }

    fn write(&self) {
        let written = serde_json::to_vec_pretty(&self.created)
            .map_err(anyhow::Error::from)
            .and_then(|text| replace(&self.record, &text));
        if let Err(error) = written {
            tracing::warn!("cannot record the objects that were created: {error:#}");
        }
    }
}

fn now() -> String {
    let now = base::clock::Clock::machine().now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A name for the project of these manifests, the same in every run.
fn project_name(namespace: &str, manifests: &[PathBuf]) -> String {
    let mut paths: Vec<PathBuf> =
        manifests.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
    paths.order();
    let first =
        paths.first().and_then(|path| path.file_stem()).map(|name| name.to_string_lossy().into_owned());
    let mut sum = Sha256::new();
    sum.update(namespace);
    for path in &paths {
        sum.update([0]);
        sum.update(path.as_os_str().as_encoded_bytes());
    }
    let plain: String = file_name(&first.unwrap_or_default()).chars().take(40).collect();
    let plain = plain.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    format!("{plain}-{}", &hex(sum.finalize())[..8]).trim_start_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_a_name_that_is_a_label_dev_3() {
        let name = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            project_name("default", &paths)
        };
        assert_eq!(name(&["/a/k8s", "/b"]), name(&["/b", "/a/k8s"]));
        assert_ne!(name(&["/a/k8s"]), name(&["/b/k8s"]));
        for path in ["/a/k8s", "/", "/…", "/a/-x-", &format!("/{}", "long".repeat(60))] {
            let name = name(&[path]);
            assert!(name.len() <= 63 && !name.starts_with('-'), "{name}");
            assert!(
                name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter)),
                "{name}"
            );
        }
    }
}
