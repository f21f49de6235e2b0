//! Starting, stopping and restarting the controllers, each in a task group of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::tz::TimeZone;
use parking_lot::Mutex;

use super::volume::{self, VolumeDirectory};
use crate::api::{Api, Change};
use crate::base::task::Tasks;
use crate::object::config::NodeLifecycleConfig;
use crate::object::{Kind, Typed};
use crate::reconcile::{Caches, QueueKey, Reconciler, WorkQueue, run};

/// What the controllers need to know of their cluster.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Controllers that do not run, by their kube-controller-manager names.
    pub disabled: Vec<String>,
    /// The wall clock of CronJobs that name no time zone; none = UTC.
    pub time_zone: Option<TimeZone>,
    /// The cluster's CA certificate in PEM, which every namespace gets in `kube-root-ca.crt`.
    pub root_certificate: String,
    /// How fast the pods of silent nodes are driven away.
    pub node_lifecycle: NodeLifecycleConfig,
    /// How many pods that ended are kept: none = Kubernetes' 12 500, 0 = all.
    pub terminated_pod_threshold: Option<usize>,
    /// Where volumes are made on demand; none = nowhere.
    pub volumes: Option<VolumeDirectory>,
}

/// What a controller is started with.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) api: Api,
    pub(super) caches: Caches,
    /// The controller's own group.
    pub(super) tasks: Tasks,
    pub(super) settings: Arc<Settings>,
}

impl Context {
    /// An empty queue with the cluster's back-off.
    pub(super) fn queue<K: QueueKey>(&self) -> WorkQueue<K> {
        WorkQueue::with_timings(self.api.timings())
    }

    /// Tells the controller of every object of a kind, now and whenever one changes; waits for the first list.
    ///
    /// The cache outlives a controller that is stopped, so it must not keep it alive.
    pub(super) fn follow<T: Typed, C: Send + Sync + 'static>(
        &self,
        controller: &Arc<C>,
        heed: fn(&C, &Change),
    ) -> BoxFuture<'static, ()> {
        let controller = Arc::downgrade(controller);
        self.caches.of::<T>().on_change(move |change| {
            if let Some(controller) = controller.upgrade() {
                heed(&controller, change);
            }
        });
        self.synced::<T>()
    }

    /// Waits for a cache's first list.
    pub(super) fn synced<T: Typed>(&self) -> BoxFuture<'static, ()> {
        self.synced_kind(T::ROW)
    }

    /// Waits for the first list of a kind.
    pub(super) fn synced_kind(&self, kind: Kind) -> BoxFuture<'static, ()> {
        let caches = self.caches.clone();
        Box::pin(async move { caches.synced(kind).await })
    }

    /// Runs the reconciler once all these caches have their first list: half a picture would make it
    /// create what is there already.
    pub(super) fn run<R: Reconciler>(
        &self,
        reconciler: Arc<R>,
        queue: WorkQueue<R::Key>,
        caches: Vec<BoxFuture<'static, ()>>,
    ) {
        let tasks = self.tasks.clone();
        self.tasks.spawn(reconciler.name(), async move {
            futures::future::join_all(caches).await;
            run(reconciler, queue, &tasks);
        });
    }
}

type Start = fn(&Context);

/// The controllers by their kube-controller-manager names.
const ALL: &[(&str, Start)] = &[
    ("deployment", super::deployment::start),
    ("replicaset", super::replica_set::start),
    ("replicationcontroller", super::replica_set::start_replication),
    ("statefulset", super::stateful_set::start),
    ("daemonset", super::daemon_set::start),
    ("job", super::job::start),
    ("cronjob", super::cron_job::start),
    ("ttl-after-finished-controller", super::ttl_after_finished::start),
    ("disruption", super::disruption::start),
    ("horizontalpodautoscaling", super::autoscaler::start),
    ("garbagecollector", super::garbage::start),
    ("resourcequota", super::resource_quota::start),
    ("namespace", super::namespace::start),
    ("serviceaccount", super::namespace::service_account::start),
    ("serviceaccount-token", super::namespace::account_token::start),
    ("root-ca-certificate-publisher-controller", super::namespace::root_certificate::start),
    ("podgc", super::pod_gc::start),
    ("nodelifecycle", super::node_lifecycle::start),
    ("taint-eviction-controller", super::taint_eviction::start),
    ("endpoint", super::endpoints::start_legacy),
    ("endpointslice", super::endpoints::start_slices),
    ("endpointslicemirroring", super::endpoints::mirror::start),
    ("persistentvolume-binder", volume::binder::start),
    ("persistentvolume-expander", volume::expander::start),
    ("pvc-protection-controller", volume::protection::start_claims),
    ("pv-protection-controller", volume::protection::start_volumes),
    ("ephemeral-volume-controller", volume::ephemeral::start),
    ("directory-provisioner", volume::provisioner::start),
];

/// The running controllers.
pub struct Controllers {
    context: Context,
    running: Mutex<BTreeMap<&'static str, Tasks>>,
}

impl Controllers {
    /// Starts every controller that is not disabled. They stop with `tasks`.
    pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, settings: Settings) -> Self {
        let context = Context {
            api: api.clone(),
            caches: caches.clone(),
            tasks: tasks.clone(),
            settings: Arc::new(settings),
        };
        let controllers = Self { context, running: Mutex::default() };
        for (name, _) in ALL {
            if !controllers.context.settings.disabled.iter().any(|d| d == name) {
                controllers.start_one(name);
            }
        }
        controllers
    }

    /// The names of all controllers there are.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(name, _)| *name)
    }

    /// Whether a controller runs.
    pub fn is_running(&self, name: &str) -> bool {
        self.running.lock().contains_key(name)
    }

    /// Starts a controller with nothing but what the store knows; false when there is none of this name
    /// or it runs.
    pub fn start_one(&self, name: &str) -> bool {
        let Some((name, start)) = ALL.iter().find(|(n, _)| *n == name) else { return false };
        let mut running = self.running.lock();
        if running.contains_key(name) {
            return false;
        }
        let tasks = self.context.tasks.child();
        start(&Context { tasks: tasks.clone(), ..self.context.clone() });
        running.insert(name, tasks);
        true
    }

    /// Stops a controller, wherever it is in its work; false when it does not run.
    pub async fn stop_one(&self, name: &str) -> bool {
        let tasks = self.running.lock().remove(name);
        match tasks {
            Some(tasks) => {
                tasks.stop().await;
                true
            }
            None => false,
        }
    }

    /// Stops them all and waits.
    pub async fn stop(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        for tasks in running.into_values() {
            tasks.stop().await;
        }
    }
}
