//! A test cluster with only the scheduler's core, described in short texts.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use crate::core::{Core, CoreAction};
use crate::cycle::NominatingInfo;
use crate::explain::verdict::Verdicts;
use crate::profile::Profile;
use crate::queue::QueueTimes;
use crate::test_objects::{named_pod, pod};
use object::SharedObject;
use object::config::Timings;

pub(super) struct Cluster {
    pub(super) core: Core,
    pub(super) verdicts: Arc<parking_lot::Mutex<Verdicts>>,
    pub(super) now: Duration,
}

impl Cluster {
    pub(super) fn new(nodes: &[SharedObject<Node>]) -> Self {
        Self::with_profile(nodes, Profile::default())
    }

    pub(super) fn with_profile(nodes: &[SharedObject<Node>], profile: Profile) -> Self {
        let verdicts = Arc::default();
        let times = QueueTimes::of(&Timings::default());
        let core = Core::new([profile].into(), times, 0, Arc::clone(&verdicts));
        let mut cluster = Self { core, verdicts, now: Duration::ZERO };
        for node in nodes {
            cluster.core.node_changed(node.clone(), cluster.now);
        }
        cluster
    }

    /// Adds a waiting pod in namespace `default` with its name as uid.
    pub(super) fn pod(&mut self, name: &str, spec: Value) {
        assert!(self.core.pod_changed(named_pod(name, spec), self.now).is_none());
    }

    /// Adds or changes a claim, volume or class with this content.
    pub(super) fn claim(&mut self, content: &Value) {
        let claim = serde_json::from_value(content.clone()).expect("a test's claim");
        self.core.claim_changed(&SharedObject::<PersistentVolumeClaim>::from_value(claim), false, self.now);
    }

    pub(super) fn volume(&mut self, content: &Value) {
        let volume = serde_json::from_value(content.clone()).expect("a test's volume");
        self.core.volume_changed(&SharedObject::<PersistentVolume>::from_value(volume), false, self.now);
    }

    pub(super) fn class(&mut self, content: &Value) {
        let class = serde_json::from_value(content.clone()).expect("a test's class");
        self.core.class_changed(&SharedObject::<StorageClass>::from_value(class), false, self.now);
    }

    /// Adds a pod on a node, with this content: `{metadata, spec, status}`, with name and uid added.
    pub(super) fn placed(&mut self, name: &str, node: &str, mut content: Value) {
        content["metadata"]["name"] = json!(name);
        content["metadata"]["uid"] = json!(name);
        content["metadata"]["namespace"] = json!("default");
        content["spec"]["nodeName"] = json!(node);
        if content["spec"]["containers"].is_null() {
            content["spec"]["containers"] = json!([]);
        }
        self.core.pod_changed(pod(content), self.now);
    }

    /// Takes the next action, as `pod -> node`, `pod: message`, or `pod evicts a, b from node`.
    pub(super) fn step(&mut self) -> String {
        match self.core.step(self.now) {
            None => "-".into(),
            Some(CoreAction::Bind { attempt, node }) => format!("{} -> {node}", attempt.pod.uid()),
            Some(CoreAction::Unschedulable {
                pod,
                nomination: NominatingInfo::Preempted(preemption),
                outranked,
                ..
            }) => {
                let names = |pods: &[Arc<crate::state::pod_info::PodInfo>]| {
                    pods.iter().map(|pod| pod.uid().to_string()).collect::<Vec<_>>().join(", ")
                };
                let taken = if outranked.is_empty() {
                    String::new()
                } else {
                    format!(", takes from {}", names(&outranked))
                };
                format!("{} evicts {} from {}{taken}", pod.uid(), names(&preemption.victims), preemption.node)
            }
            Some(CoreAction::Unschedulable { pod, message, .. } | CoreAction::Failed { pod, message }) => {
                format!("{}: {message}", pod.uid())
            }
            Some(CoreAction::Panicked { pod, message }) => format!("{} panicked: {message}", pod.uid()),
        }
    }

    pub(super) fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }
}
