//! The behavior of pods on hollow nodes: set by a rule for all pods, or for one pod at a test's request.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use parking_lot::RwLock;

use kubelet::runtime::ContainerId;
use kubelet::runtime::hollow::{ContainerBehavior, HollowRuntime};
use object::{Key, Kind, SharedObject};

use super::error::Error;
use super::wait::until;
use cluster::{Cluster, PodBehaviorFn};

/// The behavior of a pod's containers on a hollow node. The pod's `restartPolicy` decides on the consequences of a
/// failure: a failed pod, or another attempt after Kubernetes' back-off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PodBehaviour {
    /// They run until they are stopped, and their probes succeed.
    #[default]
    Runs,
    /// They run until they are stopped, but their readiness probes fail. A pod without a readiness probe is still
    /// ready, as on any node.
    Unready,
    /// They end with exit code 0 after this time.
    Succeeds {
        /// The time from their start, on the cluster's clock.
        after: Duration,
    },
    /// They end with this exit code after this time.
    Fails {
        /// The time from their start, on the cluster's clock.
        after: Duration,
        /// The exit code, which must not be 0.
        exit_code: i32,
    },
    /// They cannot be started.
    NeverStarts,
}

impl PodBehaviour {
    fn course(self) -> ContainerBehavior {
        match self {
            Self::Runs => ContainerBehavior::Runs,
            Self::Unready => ContainerBehavior::RunsUnready,
            Self::Succeeds { after } => ContainerBehavior::Ends { after, exit_code: 0 },
            Self::Fails { after, exit_code } => ContainerBehavior::Ends { after, exit_code },
            Self::NeverStarts => ContainerBehavior::StartFails,
        }
    }
}

/// The rule: returns the behavior of a pod.
type Rule = dyn Fn(&Pod) -> PodBehaviour + Send + Sync;

/// The rule for all pods of hollow nodes.
#[derive(Clone)]
pub(super) struct Behaviours(Arc<RwLock<Arc<Rule>>>);

impl Default for Behaviours {
    fn default() -> Self {
        let runs: Arc<Rule> = Arc::new(|_| PodBehaviour::Runs);
        Self(Arc::new(RwLock::new(runs)))
    }
}

impl Behaviours {
    /// Sets the rule for containers that start from now on.
    pub(super) fn set(&self, rule: impl Fn(&Pod) -> PodBehaviour + Send + Sync + 'static) {
        *self.0.write() = Arc::new(rule);
    }

    /// The interface by which nodes query the rule.
    pub(super) fn director(&self) -> PodBehaviorFn {
        let behaviours = self.clone();
        Arc::new(move |pod, container| {
            // The rule applies to sidecars but not to other init containers, which succeed.
            if is_sidecar(pod, container) {
                return ContainerBehavior::Runs;
            }
            // The lock is released before the rule runs, since the rule may take long, and may itself replace the rule.
            let rule = behaviours.0.read().clone();
            rule(pod).course()
        })
    }
}

/// Returns true if the container is a sidecar: an init container that continues to run beside the other containers.
fn is_sidecar(pod: &Pod, name: &str) -> bool {
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    init.filter(|container| container.name == name).any(|c| c.restart_policy.as_deref() == Some("Always"))
}

/// A pod on a hollow node, with containers that a test controls.
pub struct HollowPod<'a> {
    cluster: &'a Cluster,
    key: Key,
}

impl<'a> HollowPod<'a> {
    pub(super) fn new(cluster: &'a Cluster, namespace: &str, name: &str) -> Self {
        Self { cluster, key: Key::new(namespace, name) }
    }

    /// Ends the pod's containers with exit code 0. Waits for the pod to run first; returns when its status reports the
    /// end.
    pub async fn succeed(&self) -> Result<(), Error> {
        self.exit(None, 0).await
    }

    /// Ends the pod's containers with this exit code (137 is that of SIGKILL). Waits for the pod to run first; returns
    /// when its status reports the end.
    pub async fn fail(&self, exit_code: i32) -> Result<(), Error> {
        self.exit(None, exit_code).await
    }

    /// Ends one of the pod's containers with this exit code. Waits for the container to run first; returns when the
    /// pod's status reports the end.
    pub async fn exit_container(&self, container: &str, exit_code: i32) -> Result<(), Error> {
        self.exit(Some(container), exit_code).await
    }

    /// Makes the pod's readiness probes succeed or fail from now on. The status changes at the next probe, which runs
    /// within the probe's period.
    pub async fn set_ready(&self, ready: bool) -> Result<(), Error> {
        let (pod, runtime) = self.running().await?;
        runtime.set_ready(&pod.uid().to_string(), ready);
        Ok(())
    }

    async fn exit(&self, container: Option<&str>, exit_code: i32) -> Result<(), Error> {
        let (pod, runtime) = self.running().await?;
        let uid = pod.uid().to_string();
        let missing =
            container.map_or_else(|| "no container".to_string(), |name| format!("no container {name}"));
        let late = || format!("{missing} of pod {} is running", self.key);
        let api = self.cluster.api();
        let ended = until(api, Kind::Pod, late, || {
            Some(runtime.exit_containers(&uid, container, exit_code)).filter(|ended| !ended.is_empty())
        })
        .await?;
        let late = || format!("the status of pod {} does not show the end of its containers", self.key);
        until(api, Kind::Pod, late, || {
            // The pod no longer exists, or another pod has its name: then it has certainly ended.
            let Ok(pod) = api.get_as::<Pod>(&self.key) else { return Some(()) };
            let is_reported = *pod.uid() != *uid
                || pod.status.as_ref().is_some_and(|status| ended.iter().all(|id| has_exited(status, id)));
            is_reported.then_some(())
        })
        .await
    }

    /// Returns the pod, once it has a node, and that node's runtime.
    async fn running(&self) -> Result<(SharedObject<Pod>, Arc<HollowRuntime>), Error> {
        let api = self.cluster.api();
        let late = || format!("pod {} is not assigned to a node", self.key);
        let (pod, node) = until(api, Kind::Pod, late, || {
            let pod = api.get_as::<Pod>(&self.key).ok()?;
            let node = pod.spec.as_ref()?.node_name.clone()?;
            Some((pod, node))
        })
        .await?;
        let runtime = self.cluster.nodes().hollow(&node).map_err(|error| Error::Pod {
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
            reason: error.to_string(),
        })?;
        Ok((pod, runtime))
    }
}

/// Returns true if a pod's status shows that this container has ended.
fn has_exited(status: &PodStatus, id: &ContainerId) -> bool {
    let lists =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let ended = |status: &ContainerStatus| {
        let states = [&status.state, &status.last_state];
        let ended = states.into_iter().flatten().filter_map(|state| state.terminated.as_ref());
        ended.filter_map(|ended| ended.container_id.as_ref()).any(|reported| reported.ends_with(&id.0))
    };
    lists.into_iter().flatten().flatten().any(ended)
}
