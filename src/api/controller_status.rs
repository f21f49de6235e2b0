//! How controllers work: what each tells of its work queue and of its reconciles when somebody asks, and a step of one that
//! stands still (CON-19). The scheduler, the nodes' kubelets and the loops of the network and of the cluster tell the same of
//! themselves, as far as they have it.
//!
//! Never stored: whoever works keeps its own figures, bounded, since it was started.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

use object::{Key, Kind};

/// Which part of the cluster somebody works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subsystem {
    /// Kubernetes' kube-controller-manager, and controllers of this cluster's own beside it.
    Controllers,
    /// The scheduler.
    Scheduler,
    /// The kubelet of a node.
    Kubelet,
    /// Services, DNS, Ingresses and Gateways, and the pods' network.
    Network,
    /// What keeps the cluster itself: its nodes, faults, snapshots and chores.
    Cluster,
}

impl Subsystem {
    /// As the API has it.
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

/// What a Fault names to have somebody stand still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PauseTarget {
    /// This component: several queues may be of one.
    Component(&'static str),
    /// The kubelet of the node of this name.
    Kubelet(String),
    /// No fault does, for this reason.
    Never(&'static str),
}

/// Whether a controller works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerState {
    /// It does not run: it is down on purpose, or all controllers are stopped.
    Stopped,
    /// It waits for the first lists of what it reads.
    Starting,
    /// It works its queue.
    Running,
    /// It panicked outside of a reconcile and waits for its back-off.
    Restarting,
    /// It stands still on purpose; what it is asked for waits in its queue.
    Paused,
}

impl ControllerState {
    /// As the API has it.
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

/// How a controller works now.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerStatus {
    /// Whether it works.
    pub state: ControllerState,
    /// What it works for.
    pub subsystem: Subsystem,
    /// What has it stand still.
    pub pause: PauseTarget,
    /// Why it takes no steps; none of what does while it is paused.
    pub takes_no_step: Option<&'static str>,
    /// How many keys it may reconcile at once; none where nothing limits that.
    pub workers: Option<usize>,
    /// Since when its figures count.
    pub started_at: Timestamp,
    /// Its panics since the process began.
    pub panics: u64,
    /// What waits; none of what has no queue.
    pub queue: Option<QueueStatus>,
    /// What was done.
    pub work: WorkStatus,
    /// What else it counts, by names that are read as words.
    pub counts: Vec<(&'static str, u64)>,
}

/// What waits for a controller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueStatus {
    /// Keys that are to be reconciled now.
    pub depth: usize,
    /// Keys that are being reconciled.
    pub in_flight: usize,
    /// Keys that are to be reconciled later: after a back-off, or because they asked for it.
    pub delayed: usize,
    /// How long the key has waited that waits longest of those that are due.
    pub oldest: Option<Duration>,
    /// How long keys that are being reconciled have been, together, and the longest of them.
    pub unfinished: (Duration, Duration),
    /// Keys that wait elsewhere than in a work queue, by why: the scheduler's `unschedulable` and `gated`.
    pub parked: Vec<(&'static str, usize)>,
}

/// What a controller has done since it was started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkStatus {
    /// Reconciles that have ended, however they did.
    pub reconciles: u64,
    /// Those that failed or panicked.
    pub errors: u64,
    /// How many ended in the last minute.
    pub last_minute: u64,
    /// How long the last keys waited before they were reconciled.
    pub queue_duration: Option<Quantiles>,
    /// How long the last reconciles took.
    pub work_duration: Option<Quantiles>,
    /// The last one that failed.
    pub last_error: Option<Reconciled>,
}

/// Of the last so many measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// Half of them were no longer.
    pub p50: Duration,
    /// Ninety-nine of a hundred were no longer.
    pub p99: Duration,
    /// How many there are.
    pub count: usize,
}

/// A key of a queue, and the object that it is of, where it is of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedKey {
    /// As it is written; unique in its queue.
    pub key: String,
    /// The object, which may be gone.
    pub object: Option<(Kind, Key)>,
}

/// How a reconcile ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Nothing is left to do.
    Done,
    /// Not finished: the key comes again after this long.
    Requeued(Duration),
    /// It failed; the key comes again after its back-off.
    Failed(String),
    /// It panicked; the key comes again after its back-off.
    Panicked(String),
    /// The pod has this node: the scheduler's.
    Scheduled(String),
    /// No node takes the pod, for this reason: the scheduler's.
    Unschedulable(String),
    /// The pod's node is decided, and it waits for what plugins wait for: the scheduler's.
    Held,
}

impl ReconcileResult {
    /// In a word, as the API has it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Requeued(_) => "Requeued",
            Self::Failed(_) => "Failed",
            Self::Panicked(_) => "Panicked",
            Self::Scheduled(_) => "Scheduled",
            Self::Unschedulable(_) => "Unschedulable",
            Self::Held => "Held",
        }
    }

    /// Whether something went wrong.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Panicked(_))
    }
}

/// A reconcile that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconciled {
    /// Of what.
    pub key: QueuedKey,
    /// When it ended.
    pub at: Timestamp,
    /// How long the key had waited, where that is known.
    pub waited: Option<Duration>,
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub result: ReconcileResult,
}

/// The first keys of a queue and the last reconciles, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerKeys {
    /// Keys that are due in the order in which they are taken, for how long they have waited, and after how many failures in
    /// a row.
    pub waiting: Vec<(QueuedKey, Option<Duration>, u32)>,
    /// Keys that come later, by when they do, in how long, and after how many failures in a row.
    pub delayed: Vec<(QueuedKey, Duration, u32)>,
    /// Keys that are being reconciled, and for how long they have been.
    pub in_flight: Vec<(QueuedKey, Duration)>,
    /// The last reconciles.
    pub recent: Vec<Reconciled>,
    /// The last ones that failed.
    pub errors: Vec<Reconciled>,
}

/// Why no step is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// It works by itself.
    #[error("it is not paused: a step is one reconcile of a controller that stands still")]
    NotPaused,
    /// It does not run.
    #[error("it does not run")]
    Stopped,
    /// What it reads has not been listed yet.
    #[error("what it reads is not listed yet")]
    NotReady,
    /// Nothing is to be done now.
    #[error("no key is due in its queue")]
    NothingDue,
    /// The key does not wait.
    #[error("its queue holds no key {0:?}")]
    NoSuchKey(String),
    /// The key is being reconciled.
    #[error("key {0:?} is being reconciled")]
    InFlight(String),
    /// The keys cannot be chosen among.
    #[error("it takes the keys in an order of its own: a step of it names none")]
    OwnOrder,
    /// It takes none at all.
    #[error("{0}")]
    TakesNone(&'static str),
}

/// A controller, or another part of the cluster that works, that tells how it does.
pub trait ControllerProbe: Send + Sync {
    /// How it works now.
    fn status(&self) -> ControllerStatus;

    /// How its work queue is; none where it keeps what waits in another way, or nothing waits.
    fn work_queue(&self) -> Option<QueueStatus> {
        None
    }

    /// The first `most` keys of each part of its queue, and what it has done last.
    fn keys(&self, most: usize) -> ControllerKeys;

    /// While it is paused: reconciles one key, the next or the one that is written so.
    fn step(self: Arc<Self>, key: Option<String>) -> BoxFuture<'static, Result<Reconciled, StepError>>;
}

/// Several that come and go together, as the kubelets of nodes: told of at once, which costs less than one by one.
pub trait ProbeSource: Send + Sync {
    /// All of them by their names; none of one that does not run.
    fn statuses(&self) -> Vec<(ProbeName, Option<ControllerStatus>)>;

    /// The one of this name: none where there is no such, and in it none for one that does not run.
    fn find(&self, name: &str) -> Option<Option<Arc<dyn ControllerProbe>>>;
}

/// What somebody who works is called: a name of an object.
pub type ProbeName = Cow<'static, str>;

/// What the kubelets of nodes are called, before the nodes' names.
const KUBELET: &str = "kubelet:";

/// What the kubelet of a node is called.
pub fn kubelet_name(node: &str) -> ProbeName {
    format!("{KUBELET}{node}").into()
}

/// The node whose kubelet is called so.
pub fn node_of_kubelet(name: &str) -> Option<&str> {
    name.strip_prefix(KUBELET)
}
