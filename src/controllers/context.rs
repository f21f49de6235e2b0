//! What every controller is started with.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::balancer_pool::BalancerPool;
use super::volume_directory::VolumeDirectory;
use api::Api;
use api::http::CertificateAuthority;
use base::task::Tasks;
use object::config::NodeLifecycleConfig;
use reconcile::{Caches, Controller, QueueKey, Reconciler, WorkQueue};

/// What the controllers need to know of their cluster.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Controllers that do not run, by their kube-controller-manager names.
    pub disabled: Vec<String>,
    /// Controllers that stand still when they are started, until they are to go on.
    pub paused: BTreeSet<&'static str>,
    /// The wall clock of CronJobs that name no time zone; none = UTC.
    pub time_zone: Option<TimeZone>,
    /// The cluster's CA certificate in PEM, which every namespace gets in `kube-root-ca.crt`.
    pub root_certificate: String,
    /// Signs certificates; none = nobody does.
    pub authority: Option<Arc<CertificateAuthority>>,
    /// How fast the pods of silent nodes are evicted.
    pub node_lifecycle: NodeLifecycleConfig,
    /// How many pods that ended are kept: none = Kubernetes' 12 500, 0 = all.
    pub terminated_pod_threshold: Option<usize>,
    /// The addresses of load balancers; none = services of that type wait for another controller.
    pub balancers: Option<BalancerPool>,
    /// Where volumes are made on demand; none = nowhere.
    pub volumes: Option<VolumeDirectory>,
}

/// What a controller is started with.
#[derive(Clone)]
pub(super) struct Context {
    /// The controller's name in the registry.
    pub(super) name: &'static str,
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

    /// The builder of a controller over the shared caches.
    pub(super) fn controller<R: Reconciler>(&self, reconciler: R, queue: WorkQueue<R::Key>) -> Controller<R> {
        Controller::new(reconciler, queue, &self.caches).component(self.name)
    }
}
