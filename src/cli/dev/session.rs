//! One run: builds images, applies manifests, and does it again whenever their files change.
//!
//! ```text
//!  SourceWatch (one task a tree) ─► Schedule ─► compare the tree ─► build ─► ImageVersions ─┐
//!                                       ▲                                                  ▼
//!                                       └──────── a new version ◄────────────────── Deployment::apply
//! ```
//!
//! Subject 0 is the manifests; the others are the images. A failed build or manifest changes nothing.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use base::backoff::BackoffPolicy;
use base::clock::{Clock, saturating_after};
use base::task::{JoinSet, blocking};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::ListParams;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::build::{BuildFailure, build};
use super::deployment::Deployment;
use super::manifests::{PreparedManifests, prepare};
use super::object_name::ObjectName;
use super::patterns::WatchRules;
use super::report::Report;
use super::rollouts::Rollouts;
use super::schedule::{OutputDetector, Schedule, Step};
use super::target::BuildTarget;
use super::tree::SourceTree;
use super::versions::{ImageVersions, Version};
use super::watch::SourceWatch;
use crate::cli::address::addresses_of_services;
use base::count::counted;
use cluster::apply::{Depth, read_files};
use console_data::decoded::TypedApi;
use console_data::project::Project;

/// The subject of the manifests.
const MANIFESTS: usize = 0;
/// The names of manifest files.
const MANIFEST_FILES: [&str; 3] = ["*.yaml", "*.yml", "*.json"];
/// The maximum number of changed files that a message names.
const NAMED_FILES: usize = 3;
/// The delays before manifests that the cluster refused are applied again.
const RETRY: BackoffPolicy = BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };
/// The maximum number of errors in a message.
const MOST_ERRORS: usize = 20;
/// The maximum number of workloads that get an event about a failed build.
const MOST_EVENTS: usize = 20;

/// A run in a cluster.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) report: Report,
    pub(super) clock: Clock,
    pub(super) project: Arc<Project>,
    deployment: Deployment,
    manifests: Vec<PathBuf>,
    depth: Depth,
    images: Vec<BuiltImage>,
    /// The files of each subject.
    sources: Vec<Vec<WatchedSource>>,
    /// The subjects that begin although no file has changed.
    forced: BTreeSet<usize>,
    /// The manifests that were applied last.
    applied: PreparedManifests,
    is_applied: bool,
    /// The part of them that the cluster refused.
    refused: Option<RefusedManifests>,
    rollouts: Rollouts,
}

/// Manifests that the cluster refused: it may accept them later, as when a webhook, a quota or a definition is not ready.
struct RefusedManifests {
    /// The positions of the documents.
    positions: BTreeSet<usize>,
    error: String,
    /// The number of attempts so far.
    attempts: u32,
}

/// An image of the run.
struct BuiltImage {
    target: BuildTarget,
    versions: Arc<Mutex<ImageVersions>>,
    /// The directory for results of builds.
    work: PathBuf,
    current: Option<Version>,
    detector: OutputDetector,
}

impl Drop for BuiltImage {
    fn drop(&mut self) {
        // A result that is being stored may still be read. What remains is removed by the next run.
        let _ = std::fs::remove_dir_all(&self.work);
    }
}

/// A watched tree, as it was at the last build.
struct WatchedSource {
    watch: SourceWatch,
    tree: Arc<SourceTree>,
    has_warned: bool,
}

impl WatchedSource {
    fn new(watch: SourceWatch) -> Self {
        Self { watch, tree: Arc::default(), has_warned: false }
    }

    /// Ignores a file from now on.
    fn ignore(&mut self, file: &Path) {
        self.watch.ignore(file);
        Arc::make_mut(&mut self.tree).forget(file);
    }

    /// Reads the tree again. Returns the files that differ from the last reading.
    async fn compare(&mut self, report: &Report) -> Result<Vec<PathBuf>, String> {
        let mut tree = self.watch.read().await.map_err(|error| error.to_string())?;
        if let Some(reason) = self.watch.shortage().filter(|_| !self.has_warned) {
            self.has_warned = true;
            report.note(&format!("{}: polled, because of {reason}", self.watch.root().display()));
        }
        let (earlier, root) = (self.tree.clone(), self.watch.root().to_path_buf());
        let compared = blocking(move || {
            let changed = tree.changes_since(&earlier, &root);
            (tree, changed)
        });
        let (tree, changed) = compared.await.map_err(|error| error.to_string())?;
        self.tree = Arc::new(tree);
        Ok(changed)
    }
}

impl Session {
    /// Prepares a run: takes the locks of its project and its images.
    pub(super) fn new(
        data_dir: &Path,
        client: Client,
        deployment: Deployment,
        targets: Vec<BuildTarget>,
        manifests: Vec<PathBuf>,
        depth: Depth,
        (report, project, clock): (Report, Arc<Project>, Clock),
    ) -> Result<Self> {
        let mut sources =
            vec![manifests.iter().map(|path| WatchedSource::new(manifest_watch(path, depth))).collect()];
        let mut images = Vec::new();
        for target in targets {
            sources.push(target.watches.iter().cloned().map(WatchedSource::new).collect());
            let versions = ImageVersions::open(data_dir, &target.entry)?;
            let work = versions.work();
            let versions = Arc::new(Mutex::new(versions));
            images.push(BuiltImage {
                target,
                versions,
                work,
                current: None,
                detector: OutputDetector::default(),
            });
        }
        let forced = (0..sources.len()).collect();
        Ok(Self {
            client,
            report,
            clock,
            project,
            deployment,
            manifests,
            depth,
            images,
            sources,
            forced,
            applied: PreparedManifests::default(),
            is_applied: false,
            refused: None,
            rollouts: Rollouts::default(),
        })
    }

    /// Runs until it is dropped.
    pub(super) async fn run(&mut self) {
        let (changes, mut changed) = mpsc::channel(64);
        let mut watchers = JoinSet::new();
        for (subject, sources) in self.sources.iter().enumerate() {
            for source in sources {
                let (watch, changes) = (source.watch.clone(), changes.clone());
                watchers.spawn(async move {
                    loop {
                        watch.changed().await;
                        if changes.send(subject).await.is_err() {
                            return;
                        }
                    }
                });
            }
        }
        let clock = self.clock.clone();
        let mut schedule = Schedule::new(self.sources.len());
        let mut during_build = BTreeSet::new();
        loop {
            for subject in &self.forced {
                schedule.note_forced(*subject, clock.now());
            }
            let step = schedule.next(clock.now());
            let Step::Begin(subject) = step else {
                let subject = next_change(&mut changed, &clock, step).await;
                if let Some(subject) = subject {
                    schedule.note_change(subject, clock.now());
                }
                continue;
            };
            let was_during_build = during_build.remove(&subject);
            let mut work = Box::pin(self.perform(subject, was_during_build));
            while let Some(changed_subject) = change_or_end(&mut changed, &mut work).await {
                schedule.note_change(changed_subject, clock.now());
                if changed_subject == subject {
                    during_build.insert(subject);
                }
            }
            drop(work);
            schedule.finish();
            if let Some(refused) = &self.refused {
                let delay = RETRY.delay(refused.attempts);
                schedule.note_retry(MANIFESTS, saturating_after(clock.now(), delay));
            }
        }
    }

    async fn perform(&mut self, subject: usize, during_build: bool) {
        let is_forced = self.forced.remove(&subject);
        let mut changed = Vec::new();
        for source in &mut self.sources[subject] {
            match source.compare(&self.report).await {
                Ok(files) => changed.extend(files),
                Err(error) => {
                    let name = self.name_of(subject);
                    self.report.failed(&name, &format!("{name}: cannot read the files: {error}"), &[]);
                    return;
                }
            }
        }
        if changed.is_empty() && !is_forced {
            if subject == MANIFESTS
                && let Some(refused) = self.refused.take()
            {
                self.deploy(Some(refused)).await;
            }
            return;
        }
        if is_forced {
            // The first build is not caused by changes.
            changed.clear();
        }
        if subject == MANIFESTS {
            if self.is_applied && !changed.is_empty() {
                self.report.note(&format!("manifests: {} changed", named(&changed)));
            }
            self.apply().await;
            return;
        }
        let image = subject - 1;
        if !is_forced && let Some(files) = self.images[image].detector.outputs(&changed, during_build) {
            let name = self.images[image].target.name();
            let text = format!(
                "{name}: every build changes {}: no longer watched; ignore {} with `watch: [\"!…\"]`",
                named(&files),
                if files.len() == 1 { "it" } else { "them" },
            );
            self.report.note(&text);
            for source in &mut self.sources[subject] {
                for file in &files {
                    source.ignore(file);
                }
            }
            return;
        }
        self.build(image, &changed).await;
    }

    fn name_of(&self, subject: usize) -> String {
        if subject == MANIFESTS {
            return "manifests".into();
        }
        self.images[subject - 1].target.name().to_owned()
    }

    async fn build(&mut self, image: usize, changed: &[PathBuf]) {
        let BuiltImage { target, versions, current, .. } = &self.images[image];
        let name = target.name().to_owned();
        let cause = match changed {
            [] => String::new(),
            changed => format!(", {} changed", named(changed)),
        };
        self.report.note(&format!("{name}: building{cause}"));
        let started = self.clock.monotonic();
        match build_version(target, versions, &self.report).await {
            Ok(version) => {
                self.report.clear(&name);
                let took = self.clock.monotonic().saturating_sub(started).as_secs_f32();
                let reference = versions.lock().reference(&version);
                if current.as_ref().is_some_and(|known| known.tag == version.tag) {
                    self.report.done(&format!("{name}: built in {took:.1} s; {reference} is unchanged"));
                    if self.is_applied {
                        return;
                    }
                } else {
                    self.report.done(&format!("{name}: built {reference} in {took:.1} s"));
                }
                self.images[image].current = Some(version);
                self.forced.insert(MANIFESTS);
            }
            Err(failure) => self.tell_failure(image, &failure).await,
        }
    }

    /// Tells that a build failed, and what stays: here, and in events of the workloads.
    async fn tell_failure(&self, image: usize, failure: &BuildFailure) {
        let BuiltImage { target, versions, current, .. } = &self.images[image];
        let name = target.name();
        let consequence = match current {
            Some(version) => {
                format!("nothing is changed, workloads stay at {}", versions.lock().reference(version))
            }
            None => "nothing is applied until it succeeds".to_owned(),
        };
        let text = format!("{name}: the build failed: {}; {consequence}", failure.reason);
        self.report.failed(name, &text, &failure.last_lines);
        let users = self.applied.users.get(image).into_iter().flatten().take(MOST_EVENTS);
        let documents: Vec<_> = users.map(|position| &self.applied.documents[*position]).collect();
        self.deployment.warn(&documents, &text).await;
    }

    async fn apply(&mut self) {
        self.refused = None;
        let waits: Vec<&str> = (self.images.iter())
            .filter(|image| image.current.is_none())
            .map(|image| image.target.name())
            .collect();
        let (paths, depth) = (self.manifests.clone(), self.depth);
        let read = blocking(move || read_files(&paths, depth)).await;
        let documents = match read.map_err(anyhow::Error::from).and_then(|read| read) {
            Ok(documents) => documents,
            Err(error) => {
                self.report.failed("manifests", &format!("manifests: nothing is changed: {error:#}"), &[]);
                return;
            }
        };
        if !waits.is_empty() {
            // The first successful build of the last of them applies the manifests.
            self.prune().await;
            return;
        }
        let versions: Vec<String> = (self.images.iter())
            .filter_map(|image| Some(image.versions.lock().reference(image.current.as_ref()?)))
            .collect();
        let targets = self.images.iter().map(|image| &image.target);
        let manifests = prepare(
            documents,
            &targets.collect::<Vec<_>>(),
            &versions,
            &self.deployment.project,
            &self.deployment.namespace,
        );
        for (image, users) in self.images.iter().zip(&manifests.users) {
            if users.is_empty() && !self.is_applied {
                let name = image.target.name();
                self.report.note(&format!("{name}: no manifest has this image"));
            }
        }
        self.project.set_namespaces(manifests.namespaces.clone());
        self.applied = manifests;
        self.deploy(None).await;
    }

    /// Applies the prepared manifests, or those that were refused before.
    async fn deploy(&mut self, earlier: Option<RefusedManifests>) {
        let only = earlier.as_ref().map(|earlier| &earlier.positions);
        let result = self.deployment.apply(&self.applied, only).await;
        for change in &result.changes {
            self.report.note(change);
        }
        let is_first = !self.is_applied && earlier.is_none();
        self.follow_up(result.changed, is_first).await;
        if !result.errors.is_empty() {
            let error = first_lines(&result.errors);
            // The same error is reported once.
            if earlier.as_ref().is_none_or(|earlier| earlier.error != error) {
                let text = format!("manifests: {error}\nwhat failed is tried again, and at the next change");
                self.report.failed("manifests", &text, &[]);
            }
            let attempts = earlier.map_or(0, |earlier| earlier.attempts) + 1;
            self.refused = Some(RefusedManifests { positions: result.failed, error, attempts });
            if attempts == 1 {
                self.prune().await;
            }
            return;
        }
        let is_repaired = self.report.clear("manifests");
        if !std::mem::replace(&mut self.is_applied, true) {
            let images = counted(self.images.len(), "image");
            self.report.done(&format!("applied; watching the manifests and the sources of {images}"));
        } else if is_repaired {
            self.report.done("manifests: applied");
        }
        self.prune().await;
    }

    /// Reports the addresses of changed Services, and follows changed workloads. The first time this concerns all, since
    /// an earlier run may have applied them.
    async fn follow_up(&mut self, mut changed: Vec<ObjectName>, is_first: bool) {
        if is_first {
            let documents = self.applied.documents.iter();
            changed =
                documents.map(|document| ObjectName::of(document, &self.deployment.namespace)).collect();
        }
        let services = changed.iter().filter(|name| name.kind == "Service" && name.api_version == "v1");
        let services: Vec<_> = services.map(|name| (name.namespace.as_str(), name.name.as_str())).collect();
        for line in addresses_of_services(&self.client, &services).await {
            self.report.note(&line);
        }
        self.rollouts.follow(changed, self.client.clone(), &self.deployment.project, &self.report);
    }

    /// Removes versions that nothing needs any more.
    async fn prune(&self) {
        if self.images.is_empty() {
            return;
        }
        let pods = TypedApi::<Pod>::all(self.client.clone());
        let used: BTreeSet<String> = match pods.list(&ListParams::default()).await {
            Ok(pods) => pods.iter().flat_map(images_of_pod).collect(),
            Err(error) => {
                // The next build tries again.
                tracing::warn!("cannot list the pods that use built images: {error}");
                return;
            }
        };
        for image in &self.images {
            let (versions, used) = (image.versions.clone(), used.clone());
            match blocking(move || versions.lock().prune(&used)).await {
                Ok(Ok(removed)) => {
                    for name in removed {
                        tracing::info!("removed the built image {name}");
                    }
                }
                Ok(Err(error)) => tracing::warn!("cannot remove built images: {error:#}"),
                Err(error) => tracing::warn!("cannot remove built images: {error}"),
            }
        }
    }

    /// Deletes what the run created.
    pub(super) async fn clean_up(&mut self) {
        self.rollouts = Rollouts::default();
        let deleted = self.deployment.delete_created().await;
        for change in &deleted.changes {
            self.report.note(change);
        }
        for error in &deleted.errors {
            self.report.failed("clean up", error, &[]);
        }
    }
}

/// Builds an image and stores the result as a version.
async fn build_version(
    target: &BuildTarget,
    versions: &Arc<Mutex<ImageVersions>>,
    report: &Report,
) -> Result<Version, BuildFailure> {
    let failed = |error: anyhow::Error| BuildFailure::new(format!("{error:#}"));
    let work = versions.lock().work_directory().map_err(|error| failed(error.into()))?;
    let result = build(target, work.path(), report).await?;
    let words: Vec<String> = target.words_of_built_file();
    let versions = versions.clone();
    let added = blocking(move || {
        let added = versions.lock().add(&result, |word| words.iter().any(|built| built == word));
        drop(work);
        added
    });
    added.await.map_err(|error| failed(error.into()))?.map_err(failed)
}

/// Waits for a change, at most until the step's time.
async fn next_change(changed: &mut mpsc::Receiver<usize>, clock: &Clock, step: Step) -> Option<usize> {
    let left = match step {
        Step::WaitUntil(due) => Some(base::clock::until(clock.now(), due)),
        _ => None,
    };
    tokio::select! {
        subject = changed.recv() => subject,
        () = clock.sleep_if_some(left) => None,
    }
}

/// Waits for a change or the end of the work, which is `None`.
async fn change_or_end(
    changed: &mut mpsc::Receiver<usize>,
    work: &mut (impl Future<Output = ()> + Unpin),
) -> Option<usize> {
    tokio::select! {
        () = work => None,
        Some(subject) = changed.recv() => Some(subject),
    }
}

fn images_of_pod(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.filter_map(|container| container.image.clone()).collect()
}

/// `src/main.rs, src/lib.rs and 3 more`.
fn named(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().take(NAMED_FILES).map(|file| file.display().to_string()).collect();
    match files.len().saturating_sub(NAMED_FILES) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// The errors, each on lines of its own, up to a number.
fn first_lines(errors: &[String]) -> String {
    let mut text = errors.iter().take(MOST_ERRORS).cloned().collect::<Vec<_>>().join("\n");
    if errors.len() > MOST_ERRORS {
        let _ = write!(text, "\n… and {} more errors", errors.len() - MOST_ERRORS);
    }
    text
}

/// Watches a manifest file or the manifests of a directory.
fn manifest_watch(path: &Path, depth: Depth) -> SourceWatch {
    let root = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if root.is_dir() {
        let recursive = MANIFEST_FILES.map(|file| format!("**/{file}"));
        let patterns: Vec<&str> = match depth {
            Depth::Flat => MANIFEST_FILES.to_vec(),
            Depth::Recursive => recursive.iter().map(String::as_str).collect(),
        };
        return SourceWatch::new(root, WatchRules::new(patterns, []));
    }
    // Editors replace a file: its directory is watched.
    let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let parent = root.parent().unwrap_or(Path::new("/")).to_path_buf();
    SourceWatch::new(parent, WatchRules::new([name.as_str()], []))
}
