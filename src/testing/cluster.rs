//! The cluster in a test's hands.

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
use super::faults::{Failure, Faults, HeldWatches, Injected};
use super::pods::{Behaviours, HollowPod, PodBehaviour};
use super::requests::Requests;
use super::watches::Ending;
use super::{clock, definitions};
use crate::apply;
use crate::cluster::{Cluster as Running, Door};

/// A Kubernetes cluster in this process, which ends when this is dropped.
///
/// See [the module](super) for what it is made of, and [`Cluster::builder`] for what can be chosen.
pub struct Cluster {
    /// None once it was stopped.
    running: Option<Running>,
    door: Door,
    has_manual_clock: bool,
    faults: Arc<Faults>,
    behaviours: Behaviours,
}

/// The parts of a cluster besides the running ones.
pub(super) struct Parts {
    pub(super) door: Door,
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
        self.running.as_ref().expect("only stop() takes it, which takes the cluster as well")
    }

    /// A client that may do everything. It needs no socket; requests are HTTP all the same, so that what it sees is what
    /// every client sees.
    pub fn client(&self) -> kube::Client {
        self.running().client()
    }

    /// A client with an identity: under a name of its own, or with no more rights than a service account has.
    pub fn client_with(&self, options: &ClientOptions) -> Result<kube::Client, Error> {
        Ok(self.running().client_with(options.headers()?))
    }

    /// A kubeconfig file for child processes and clients of other languages; none unless the cluster
    /// [listens](super::Builder::listen). It goes with the cluster.
    pub fn kubeconfig(&self) -> Option<&Path> {
        (self.door == Door::Socket).then(|| self.running().kubeconfig())
    }

    /// The URL of the API: `https://127.0.0.1:PORT`; none unless it [listens](super::Builder::listen).
    pub fn url(&self) -> Option<String> {
        (self.door == Door::Socket).then(|| self.running().url())
    }

    /// The API without HTTP: synchronous, and without authorization. Its arguments and results are Podium's own types.
    pub fn api(&self) -> &Api {
        self.running().api()
    }

    /// Lets so much time pass on the manual clock, timer by timer in their order, then lets everything come to rest
    /// ([`Cluster::settle`]): ten minutes are a moment, and what is due within them has happened.
    pub async fn advance(&self, duration: Duration) -> Result<(), Error> {
        if !self.has_manual_clock {
            return Err(Error::MachineClock);
        }
        tokio::time::sleep(duration).await;
        self.settle().await
    }

    /// Lets time pass on the manual clock until there has been no write for 100 ms of it: controllers, pods and the
    /// operator under test have finished their work, and wait for a later time or for another client. Leases do not
    /// count.
    ///
    /// If the writes never end, it returns an error that names the kinds written.
    pub async fn settle(&self) -> Result<(), Error> {
        if !self.has_manual_clock {
            return Err(Error::MachineClock);
        }
        clock::settle(self.api(), clock::QUIET).await
    }

    /// The current time in the cluster.
    pub fn now(&self) -> jiff::Timestamp {
        self.api().clock().now()
    }

    /// Has definitions served, new ones or others in the place of those there are; all are established when this answers.
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

    /// Applies the manifests of a file, or of every file of a directory and those below it.
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

    /// A pod on a hollow node, to say what becomes of it.
    pub fn pod<'a>(&'a self, namespace: &str, name: &str) -> HollowPod<'a> {
        HollowPod::new(self.running(), namespace, name)
    }

    /// From now on containers that start on hollow nodes do as this says of their pod.
    pub fn set_pod_behaviour(&self, behaviour: impl Fn(&Pod) -> PodBehaviour + Send + Sync + 'static) {
        self.behaviours.set(behaviour);
    }

    /// From now on nothing is heard of a hollow node, as of one that has crashed or lost the network: after 40 s it is
    /// `Unknown`, and after five minutes more its pods are driven away.
    pub async fn silence_node(&self, name: &str) -> Result<(), Error> {
        self.running().nodes().silence(name).await.map_err(|error| Error::Node(error.to_string()))
    }

    /// A node that was silent is heard again.
    pub async fn wake_node(&self, name: &str) -> Result<(), Error> {
        self.running().nodes().wake(name).await.map_err(|error| Error::Node(error.to_string()))
    }

    /// From now on the processes of a hollow node do not die, for this reason, as those that the kernel holds; `None` heals.
    pub fn hold_processes(&self, node: &str, why: Option<&str>) -> Result<(), Error> {
        let runtime = self.running().nodes().hollow(node).map_err(|error| Error::Node(error.to_string()))?;
        runtime.faults().refuse_removals(why);
        Ok(())
    }

    /// Makes these requests fail, until the failure is [healed](Injected::heal). If several rules match a request, the
    /// first one counts.
    pub fn fail(&self, requests: Requests, failure: Failure) -> Injected {
        self.faults.inject(requests, failure, None)
    }

    /// The next so many of these requests fail.
    pub fn fail_next(&self, times: u32, requests: Requests, failure: Failure) -> Injected {
        self.faults.inject(requests, failure, Some(times))
    }

    /// Ends the open watches among these requests, as time and lost connections do: clients go on where they were. Says
    /// how many it were.
    pub fn end_watches(&self, requests: &Requests) -> usize {
        self.faults.watches().end(requests, Ending::Closed)
    }

    /// Ends the open watches among these requests with `410 Gone`: clients have to list again. Says how many it were.
    pub fn expire_watches(&self, requests: &Requests) -> usize {
        self.faults.watches().end(requests, Ending::Expired)
    }

    /// Holds back the events of the watches among these requests, open ones and new ones: their clients' caches grow
    /// stale. They continue, with all the events held back, when this is [released](HeldWatches::release) or dropped;
    /// clients miss the events in between if their watches are [expired](Self::expire_watches) meanwhile.
    pub fn hold_watches(&self, requests: Requests) -> HeldWatches {
        HeldWatches::new(self.faults.clone(), requests)
    }

    /// The resources, as plural and group, that clients watch by these requests at the moment.
    pub fn watched_resources(&self, requests: &Requests) -> BTreeSet<(String, String)> {
        self.faults.watches().resources(requests)
    }

    /// Ends the cluster and answers when nothing of it is left, not even a task. Pods are killed.
    ///
    /// Dropping it ends it as well; its tasks then end as soon as the runtime comes to them.
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
