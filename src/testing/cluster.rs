//! The cluster of a test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use tokio_util::sync::CancellationToken;

use api::Api;

use super::client::ClientOptions;
use super::error::Error;
use super::faults::{Failure, Faults, InjectedFailure, PausedWatches};
use super::pods::{Behaviours, HollowPod, PodBehaviour};
use super::requests::Requests;
use super::watches::Ending;
use super::{clock, definitions};
use cluster::apply;
use cluster::{ApiTransport, Cluster as Running};

/// A Kubernetes cluster in this process, which ends when this is dropped.
///
/// See [the module](super) for its parts, and [`Cluster::builder`] for its options.
pub struct Cluster {
    /// `None` once it was stopped.
    running: Option<Running>,
    door: ApiTransport,
    has_manual_clock: bool,
    faults: Arc<Faults>,
    behaviours: Behaviours,
}

/// The parts of a test's cluster other than the running cluster itself.
pub(super) struct Parts {
    pub(super) door: ApiTransport,
    pub(super) has_manual_clock: bool,
    pub(super) faults: Arc<Faults>,
    pub(super) behaviours: Behaviours,
}

impl Cluster {
    pub(super) fn new(running: Running, parts: Parts) -> Self {
        let Parts { door, has_manual_clock, faults, behaviours } = parts;
        Self { running: Some(running), door, has_manual_clock, faults, behaviours }
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the cluster runs until stop(), which consumes it")
    }

    /// Returns a client with all permissions. It needs no socket, but its requests pass through the HTTP server, so
    /// that it gets the same responses as any other client.
    pub fn client(&self) -> kube::Client {
        self.running().client()
    }

    /// Returns a client with an identity: with a name of its own, or with only the permissions of a service account.
    pub fn client_with(&self, options: &ClientOptions) -> Result<kube::Client, Error> {
        Ok(self.running().client_with(options.headers()?))
    }

    /// Returns a kubeconfig file for child processes and clients in other languages; `None` unless the cluster
    /// [listens](super::Builder::listen). The file is removed with the cluster.
    pub fn kubeconfig(&self) -> Option<&Path> {
        (self.door == ApiTransport::Socket).then(|| self.running().kubeconfig())
    }

    /// Returns the URL of the API, `https://127.0.0.1:PORT`; `None` unless the cluster
    /// [listens](super::Builder::listen).
    pub fn url(&self) -> Option<String> {
        (self.door == ApiTransport::Socket).then(|| self.running().url())
    }

    /// Returns the API without HTTP: synchronous, and without authorization. Its arguments and results are Podium's own
    /// types.
    pub fn api(&self) -> &Api {
        self.running().api()
    }

    /// Advances the manual clock by this duration, so that all timers within it fire in order, and then lets the
    /// cluster come to rest ([`Cluster::settle`]). Ten simulated minutes take a moment.
    pub async fn advance(&self, duration: Duration) -> Result<(), Error> {
        if !self.has_manual_clock {
            return Err(Error::MachineClock);
        }
        tokio::time::sleep(duration).await;
        self.settle().await
    }

    /// Lets time pass on the manual clock until there has been no write for 100 ms of simulated time. Then controllers,
    /// pods and the operator under test have finished their work, and wait for a later time or for another client.
    /// Writes of leases do not count.
    ///
    /// If the writes never end, it returns an error that names the kinds written.
    pub async fn settle(&self) -> Result<(), Error> {
        if !self.has_manual_clock {
            return Err(Error::MachineClock);
        }
        clock::settle(self.api(), clock::QUIET).await
    }

    /// Returns the current time in the cluster.
    pub fn now(&self) -> jiff::Timestamp {
        self.api().clock().now()
    }

    /// Installs definitions, new ones or replacements of existing ones; when this returns, all are established.
    pub async fn install(
        &self,
        definitions: impl IntoIterator<Item = CustomResourceDefinition>,
    ) -> Result<(), Error> {
        definitions::install(self.api(), definitions.into_iter().collect()).await
    }

    /// Applies the manifests of a text (YAML or JSON, any number of documents), as `kubectl apply` does.
    pub async fn apply(&self, manifests: &str) -> Result<(), Error> {
        let mut documents = Vec::new();
        for document in manifest::parse(manifests, "manifests") {
            documents.push(document.map_err(|error| Error::Manifest(error.to_string()))?);
        }
        self.apply_documents(documents).await
    }

    /// Applies the manifests of a file, or of every file in a directory and its subdirectories.
    pub async fn apply_files(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let paths = [PathBuf::from(path.as_ref())];
        let documents = apply::read_files(&paths, apply::Depth::Recursive);
        self.apply_documents(documents.map_err(|error| Error::Manifest(error.to_string()))?).await
    }

    async fn apply_documents(&self, documents: Vec<manifest::Document>) -> Result<(), Error> {
        let client = self.client();
        let applied =
            apply::apply_documents(&client, documents, apply::DEFAULT_NAMESPACE, apply::Mode::Write);
        applied.await.map(drop).map_err(|error| Error::Manifest(error.to_string()))
    }

    /// Returns a handle of a pod on a hollow node, to control what its containers do.
    pub fn pod<'a>(&'a self, namespace: &str, name: &str) -> HollowPod<'a> {
        HollowPod::new(self.running(), namespace, name)
    }

    /// Sets the rule for the behavior of containers that start on hollow nodes from now on.
    pub fn set_pod_behaviour(&self, behaviour: impl Fn(&Pod) -> PodBehaviour + Send + Sync + 'static) {
        self.behaviours.set(behaviour);
    }

    /// Silences a hollow node, like one that has crashed or lost its network: after 50 s it is `Unknown`, and after
    /// five minutes more its pods are evicted.
    pub async fn silence_node(&self, name: &str) -> Result<(), Error> {
        self.running().nodes().silence(name).await.map_err(|error| Error::Node(error.to_string()))
    }

    /// Ends the silence of a node.
    pub async fn wake_node(&self, name: &str) -> Result<(), Error> {
        self.running().nodes().wake(name).await.map_err(|error| Error::Node(error.to_string()))
    }

    /// Makes the processes of a hollow node unkillable from now on, like processes that hang in the kernel; attempts
    /// fail with this reason. `None` ends that.
    pub fn hold_processes(&self, node: &str, reason: Option<&str>) -> Result<(), Error> {
        let runtime = self.running().nodes().hollow(node).map_err(|error| Error::Node(error.to_string()))?;
        runtime.faults().refuse_removals(reason);
        Ok(())
    }

    /// Makes these requests fail, until the failure is [healed](InjectedFailure::heal). If several rules match a
    /// request, the first one counts.
    pub fn fail(&self, requests: Requests, failure: Failure) -> InjectedFailure {
        self.faults.inject(requests, failure, None)
    }

    /// Makes the next `times` of these requests fail.
    pub fn fail_next(&self, times: u32, requests: Requests, failure: Failure) -> InjectedFailure {
        self.faults.inject(requests, failure, Some(times))
    }

    /// Closes the open watches among these requests, as timeouts and lost connections do; clients resume such watches.
    /// Returns the number of closed watches.
    pub fn end_watches(&self, requests: &Requests) -> usize {
        self.faults.watches().end(requests, Ending::Closed)
    }

    /// Ends the open watches among these requests with `410 Gone`, so that clients have to list again. Returns the
    /// number of ended watches.
    pub fn expire_watches(&self, requests: &Requests) -> usize {
        self.faults.watches().end(requests, Ending::Expired)
    }

    /// Holds back the events of all open and new watches among these requests, so that their clients' caches become
    /// stale. When the result is [released](PausedWatches::release) or dropped, the watches deliver all these events
    /// and continue. If the watches are [expired](Self::expire_watches) meanwhile, clients miss the events in between.
    pub fn hold_watches(&self, requests: Requests) -> PausedWatches {
        PausedWatches::new(self.faults.clone(), requests)
    }

    /// Returns the resources, as plural and group, that clients currently watch by these requests.
    pub fn watched_resources(&self, requests: &Requests) -> BTreeSet<(String, String)> {
        self.faults.watches().resources(requests)
    }

    /// Stops the cluster and returns when nothing of it is left, not even a task. Pods are killed.
    ///
    /// Dropping the cluster ends it as well; its tasks then end when the runtime next polls them.
    pub async fn stop(mut self) {
        if let Some(running) = self.running.take() {
            let force = CancellationToken::new();
            force.cancel();
            running.stop(|_| {}, force).await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abandon();
        }
    }
}
