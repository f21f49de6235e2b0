//! PodGC: removes pods that no kubelet will ever stop (GC-2).
//!
//! These are pods of nodes that no longer exist, terminating pods without a node, pods on a node that is out of
//! service, and the oldest ended pods beyond a limit. A pod that had not ended is marked Failed with the
//! DisruptionTarget condition first. A node run by this process confirms the end of its processes itself
//! (`Api::hold_node`): until then its pods stay, even if its object is deleted.

use std::collections::HashSet;
use std::fmt;

use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;

use super::context::Context;
use api::{Api, ApiError};
use api::{Change, ChangeKind};
use base::sort::SliceOrder;
use object::owner::is_terminating;
use object::pod::disruption::DisruptionReason;
use object::pod::{is_terminal, node_name};
use object::storage::is_out_of_service;
use object::{Key, Kind, SharedObject, Uid};
use reconcile::{Cache, Disruption, ReconcileError, Reconciler, WorkQueue, disrupt};

/// The default limit of retained ended pods.
const TERMINATED_THRESHOLD: usize = 12_500;

/// The keys of the queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Request {
    /// The pods of a node.
    Node(String),
    /// One terminating pod without a node.
    Pod(Key),
    /// All pods that ended.
    Terminated,
}

impl Request {
    fn object(&self) -> Option<(Kind, Key)> {
        match self {
            Self::Node(name) => Some((Kind::Node, Key::new("", name.as_str()))),
            Self::Pod(key) => Some((Kind::Pod, key.clone())),
            Self::Terminated => None,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "Node {name}"),
            Self::Pod(key) => write!(f, "Pod {key}"),
            Self::Terminated => f.write_str("terminated pods"),
        }
    }
}

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| PodGc {
            api: context.api.clone(),
            pods: context.caches.of(),
            nodes: context.caches.of(),
            terminated: Mutex::default(),
            threshold: context.settings.terminated_pod_threshold.unwrap_or(TERMINATED_THRESHOLD),
            queue,
        })
        .keys_are(Request::object)
        .watches::<Pod, _>(PodGc::pod_changed)
        .watches::<Node, _>(PodGc::node_changed)
        .run(&context.tasks);
}

struct PodGc {
    api: Api,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    /// Pods that ended.
    terminated: Mutex<HashSet<Uid>>,
    /// The limit of retained ended pods; 0 retains all.
    threshold: usize,
    queue: WorkQueue<Request>,
}

impl Reconciler for PodGc {
    type Key = Request;

    fn reconcile(&self, work: &Request) -> Result<(), ReconcileError> {
        match work {
            Request::Node(name) => self.sync_node(name)?,
            Request::Pod(key) => {
                if let Some(pod) =
                    self.pods.get(key).filter(|p| is_terminating(&p.metadata) && node_name(p).is_none())
                {
                    self.remove(&pod, "PodGC: terminating pod was never scheduled")?;
                }
            }
            Request::Terminated => self.trim()?,
        }
        Ok(())
    }
}

impl PodGc {
    fn pod_changed(&self, change: &Change) {
        let Some(pod) = change.object.get::<Pod>() else { return };
        let uid = change.object.uid();
        if change.kind == ChangeKind::Deleted {
            self.terminated.lock().remove(uid);
            return;
        }
        if is_terminal(pod) {
            let mut terminated = self.terminated.lock();
            if terminated.insert(uid.to_string()) && self.threshold > 0 && terminated.len() > self.threshold {
                self.queue.add(Request::Terminated);
            }
        }
        match node_name(pod) {
            None if is_terminating(&pod.metadata) => self.queue.add(Request::Pod(change.object.key())),
            None => {}
            Some(name) => match self.nodes.get(&Key::new("", name)) {
                None => self.check_later(name),
                Some(node) if is_terminating(&pod.metadata) && is_out_of_service(&node) => {
                    self.queue.add(Request::Node(name.to_string()));
                }
                Some(_) => {}
            },
        }
    }

    fn node_changed(&self, change: &Change) {
        let name = change.object.name();
        if change.kind == ChangeKind::Deleted {
            self.check_later(name);
        } else if change.object.get::<Node>().is_some_and(is_out_of_service) {
            self.queue.add(Request::Node(name.to_string()));
        }
    }

    /// Checks the node again after the quarantine, because the cache may not show it yet.
    fn check_later(&self, node: &str) {
        let quarantine = self.api.timings().missing_node_quarantine_time.0;
        self.queue.add_after(Request::Node(node.to_string()), quarantine);
    }

    fn sync_node(&self, name: &str) -> Result<(), ApiError> {
        match self.api.get_as::<Node>(&Key::new("", name)) {
            Ok(node) if is_out_of_service(&node) => {
                for pod in self.pods.on_node(name).iter().filter(|p| is_terminating(&p.metadata)) {
                    self.remove(pod, "PodGC: node is out of service")?;
                }
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() && self.api.is_node_held(name) => {
                // Two pods with the same identity must not run (SAFE-1); the node removes them once their processes
                // are dead.
                if !self.pods.on_node(name).is_empty() {
                    self.check_later(name);
                }
                Ok(())
            }
            Err(error) if error.is_not_found() => {
                for pod in self.pods.on_node(name) {
                    self.remove(&pod, "PodGC: node no longer exists")?;
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the oldest ended pods beyond the limit.
    fn trim(&self) -> Result<(), ApiError> {
        let mut ended: Vec<SharedObject<Pod>> = self.pods.list();
        ended.retain(|pod| is_terminal(pod) && !is_terminating(&pod.metadata));
        let over = ended.len().saturating_sub(self.threshold);
        ended.order_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.key()));
        for pod in ended.iter().take(over) {
            self.remove(pod, "PodGC: too many terminated pods")?;
        }
        Ok(())
    }

    /// Marks a pod that has not ended as Failed, then removes it at once.
    fn remove(&self, pod: &SharedObject<Pod>, message: &str) -> Result<(), ApiError> {
        let disruption =
            Disruption { cause: DisruptionReason::PodGc, message, fails: true, grace_seconds: Some(0) };
        disrupt(&self.api, pod, &disruption).map(drop)
    }
}
