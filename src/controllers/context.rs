//! The arguments that every controller is started with.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::balancer_pool::BalancerPool;
use super::volume_directory::VolumeDirectory;
use api::Api;
use apimachinery::certificates::CertificateAuthority;
use base::task::Tasks;
use object::config::NodeLifecycleConfig;
use reconcile::{Caches, Controller, Reconciler, WorkQueue};

/// The controllers' settings.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Controllers that do not run, by their kube-controller-manager names.
    pub disabled: Vec<String>,
    /// Controllers that are paused from the start.
    pub paused: BTreeSet<&'static str>,
    /// The time zone of CronJobs that name none; `None` means UTC.
    pub time_zone: Option<TimeZone>,
    /// The cluster's CA certificate in PEM, which every namespace gets in `kube-root-ca.crt`.
    pub root_certificate: String,
    /// Signs certificates; `None` means that no certificates are signed.
    pub authority: Option<Arc<CertificateAuthority>>,
    /// The rates of eviction from unreachable nodes.
    pub node_lifecycle: NodeLifecycleConfig,
    /// The maximum number of ended pods that are retained: `None` means Kubernetes' 12 500, 0 means no limit.
    pub terminated_pod_threshold: Option<usize>,
    /// The pool of load balancer addresses; with `None`, services of type LoadBalancer wait for another controller.
    pub balancers: Option<BalancerPool>,
    /// The directory of provisioned volumes; with `None`, no volumes are provisioned.
    pub volumes: Option<VolumeDirectory>,
}

/// The arguments of a controller's start.
#[derive(Clone)]
pub(super) struct Context {
    /// The controller's name in the registry.
    pub(super) name: &'static str,
    pub(super) api: Api,
    pub(super) caches: Caches,
    /// The controller's own task group.
    pub(super) tasks: Tasks,
    pub(super) settings: Arc<Settings>,
}

impl Context {
    /// Creates the builder of a controller over the shared caches; see [`Controller::new`].
    pub(super) fn controller<R: Reconciler>(
        &self,
        new: impl FnOnce(WorkQueue<R::Key>) -> R,
    ) -> Controller<R> {
        Controller::new(self.name, &self.caches, new)
    }
}
