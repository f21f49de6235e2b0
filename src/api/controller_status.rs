//! The status of controllers: their work queues, their reconciles, and single steps of a paused one (CON-19).
//! The scheduler, the nodes' kubelets and the loops of the network and the cluster report the same, as far as
//! it applies to them.
//!
//! Never stored: every controller counts for itself, within bounds, from its start.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

use object::{Key, Kind};

/// The part of the cluster that a controller belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subsystem {
    /// Kubernetes' kube-controller-manager, and Podium's own controllers beside it.
    Controllers,
    /// The scheduler.
    Scheduler,
    /// The kubelet of a node.
    Kubelet,
    /// Services, DNS, Ingresses and Gateways, and the pods' network.
    Network,
    /// The cluster itself: its nodes, faults, snapshots and maintenance.
    Cluster,
}

impl Subsystem {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Controllers => "Controllers",
            Self::Scheduler => "Scheduler",
            Self::Kubelet => "Kubelet",
            Self::Network => "Network",
            Self::Cluster => "Cluster",
        }
    }
}

/// The component to name in a Fault that pauses a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PauseTarget {
    /// This component, which may have several queues.
    Component(&'static str),
    /// The kubelet of the node of this name.
    Kubelet(String),
    /// No fault pauses it, for this reason.
    Never(&'static str),
}

/// A controller's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerState {
    /// It does not run: it is down on purpose, or all controllers are stopped.
    Stopped,
    /// It waits for the initial lists of its informers.
    Starting,
    /// It works its queue.
    Running,
    /// It panicked outside of a reconcile and waits for its back-off.
    Restarting,
    /// It is paused on purpose; its work waits in the queue.
    Paused,
}

impl ControllerState {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::Restarting => "Restarting",
            Self::Paused => "Paused",
        }
    }
}

/// The present status of a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerStatus {
    /// Its state.
    pub state: ControllerState,
    /// Its subsystem.
    pub subsystem: Subsystem,
    /// The fault target that pauses it.
    pub pause: PauseTarget,
    /// The reason why it takes no single steps; `None` if it takes them while paused.
    pub takes_no_step: Option<&'static str>,
    /// The limit of concurrent reconciles; `None` if there is none.
    pub workers: Option<usize>,
    /// The start of its statistics.
    pub started_at: Timestamp,
    /// Its panics since the process started.
    pub panics: u64,
    /// Its work queue; `None` if it has none.
    pub queue: Option<QueueStatus>,
    /// Its reconciles.
    pub work: WorkStatus,
    /// Further counters, by names that read as words.
    pub counts: Vec<(&'static str, u64)>,
}

/// The state of a work queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueStatus {
    /// Keys that are due.
    pub depth: usize,
    /// Keys that are being reconciled.
    pub in_flight: usize,
    /// Keys that are due later: after a back-off or a requeue.
    pub delayed: usize,
    /// The longest wait of a due key.
    pub oldest: Option<Duration>,
    /// The durations of the reconciles in progress: their sum and the longest.
    pub unfinished: (Duration, Duration),
    /// Keys that wait outside the work queue, by reason: the scheduler's `unschedulable` and `gated`.
    pub parked: Vec<(&'static str, usize)>,
}

/// The work of a controller since its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkStatus {
    /// Completed reconciles, with any result.
    pub reconciles: u64,
    /// Reconciles that failed or panicked.
    pub errors: u64,
    /// Reconciles that ended in the last minute.
    pub last_minute: u64,
    /// Waiting times of the last keys before their reconciles.
    pub queue_duration: Option<Quantiles>,
    /// Durations of the last reconciles.
    pub work_duration: Option<Quantiles>,
    /// The last reconcile that failed.
    pub last_error: Option<ReconcileRecord>,
}

/// Quantiles of the last measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The number of measurements.
    pub count: usize,
}

/// A key of a queue, and the object it stands for, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedKey {
    /// Its text; unique in its queue.
    pub key: String,
    /// The object, which may be deleted.
    pub object: Option<(Kind, Key)>,
}

/// The result of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Nothing remains to be done.
    Done,
    /// Not finished: the key is requeued after this time.
    Requeued(Duration),
    /// It failed; the key is requeued after its back-off.
    Failed(String),
    /// It panicked; the key is requeued after its back-off.
    Panicked(String),
    /// The scheduler bound the pod to this node.
    Scheduled(String),
    /// The scheduler found no node for the pod, for this reason.
    Unschedulable(String),
    /// The scheduler has chosen a node, and the pod waits for Permit plugins.
    Waiting,
}

impl ReconcileResult {
    /// Returns the name in the API.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Requeued(_) => "Requeued",
            Self::Failed(_) => "Failed",
            Self::Panicked(_) => "Panicked",
            Self::Scheduled(_) => "Scheduled",
            Self::Unschedulable(_) => "Unschedulable",
            Self::Waiting => "Held",
        }
    }

    /// Returns true for failures and panics.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Panicked(_))
    }
}

/// A completed reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconcileRecord {
    /// Its key.
    pub key: QueuedKey,
    /// The time at which the reconcile ended.
    pub at: Timestamp,
    /// The waiting time of the key, if known.
    pub waited: Option<Duration>,
    /// Its duration.
    pub took: Duration,
    /// Its result.
    pub result: ReconcileResult,
}

/// The first keys of a queue and the last reconciles, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerKeys {
    /// Due keys in the order of processing, their waiting times, and their failures in a row.
    pub waiting: Vec<(QueuedKey, Option<Duration>, u32)>,
    /// Keys that are due later, ordered by time; the remaining delay, and their failures in a row.
    pub delayed: Vec<(QueuedKey, Duration, u32)>,
    /// Keys that are being reconciled, and for how long.
    pub in_flight: Vec<(QueuedKey, Duration)>,
    /// The last reconciles.
    pub recent: Vec<ReconcileRecord>,
    /// The last reconciles that failed.
    pub errors: Vec<ReconcileRecord>,
}

/// The reason why a step is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The controller is not paused.
    #[error("the controller is not paused; create a Fault of type Pause first")]
    NotPaused,
    /// The controller does not run.
    #[error("the controller does not run")]
    Stopped,
    /// The controller's informers have not completed their first list.
    #[error("the controller's informers have not finished their first lists")]
    NotReady,
    /// No key is due.
    #[error("no key is due in the controller's queue")]
    NothingDue,
    /// The key is not in the queue.
    #[error("the controller's queue has no key {0:?}")]
    NoSuchKey(String),
    /// The key is being reconciled.
    #[error("key {0:?} is being reconciled")]
    InFlight(String),
    /// The client cannot choose the key, because the controller has its own order.
    #[error("the scheduler chooses the next pod itself; leave spec.key empty")]
    OwnOrder,
    /// The controller takes no single steps, for this reason.
    #[error("{0}")]
    TakesNone(&'static str),
}

/// Reports the status of a controller, or of another component that works.
pub trait ControllerProbe: Send + Sync {
    /// Its present status.
    fn status(&self) -> ControllerStatus;

    /// Returns the state of its work queue; `None` if it has no queue.
    fn work_queue(&self) -> Option<QueueStatus> {
        None
    }

    /// Returns the first `most` keys of each part of its queue, and its last reconciles.
    fn keys(&self, most: usize) -> ControllerKeys;

    /// Reconciles one key of the paused controller: the next, or the one with this text.
    fn step(self: Arc<Self>, key: Option<String>) -> BoxFuture<'static, Result<ReconcileRecord, StepError>>;
}

/// A group of probes that come and go together, such as the nodes' kubelets. One call for all statuses costs
/// less than a call for each.
pub trait ProbeSource: Send + Sync {
    /// Returns all statuses by name; `None` for one that does not run.
    fn statuses(&self) -> Vec<(ProbeName, Option<ControllerStatus>)>;

    /// Returns the probe of this name: `None` if there is none, `Some(None)` if it does not run.
    fn find(&self, name: &str) -> Option<Option<Arc<dyn ControllerProbe>>>;
}

/// The name of a controller, valid as an object's name.
pub type ProbeName = Cow<'static, str>;

/// The prefix of kubelets' names, followed by the node's.
const KUBELET: &str = "kubelet:";

/// Returns the name of a node's kubelet.
pub fn kubelet_name(node: &str) -> ProbeName {
    format!("{KUBELET}{node}").into()
}

/// Returns the node of the kubelet of this name.
pub fn node_of_kubelet(name: &str) -> Option<&str> {
    name.strip_prefix(KUBELET)
}
