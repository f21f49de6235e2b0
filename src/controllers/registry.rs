//! The registry: every controller by name, started, stopped and restarted each in a task group of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ReplicationController;
use parking_lot::Mutex;

use super::context::{Context, Settings};
use super::endpoints::{self, EndpointsFormat};
use super::volume;
use api::Api;
use base::task::Tasks;
use reconcile::Caches;

type StartFn = fn(&Context);

/// The controllers by their kube-controller-manager names.
const ALL: &[(&str, StartFn)] = &[
    ("deployment", super::deployment::start),
    ("replicaset", super::replica_set::start::<ReplicaSet>),
    ("replicationcontroller", super::replica_set::start::<ReplicationController>),
    ("statefulset", super::stateful_set::start),
    ("daemonset", super::daemon_set::start),
    ("job", super::job::start),
    ("cronjob", super::cron_job::start),
    ("ttl-after-finished-controller", super::ttl_after_finished::start),
    ("disruption", super::disruption::start),
    ("horizontalpodautoscaling", super::autoscaler::start),
    ("garbagecollector", super::garbage::start),
    ("resourcequota", super::resource_quota::start),
    ("customresourcedefinition", super::custom_resource_definition::start),
    ("apiservice-registration-controller", super::api_service::start_registration),
    ("apiservice-available-controller", super::api_service::start),
    ("validatingadmissionpolicy-status-controller", super::validating_admission_policy::start),
    ("namespace", super::namespace::start),
    ("serviceaccount", super::namespace::service_account::start),
    ("serviceaccount-token", super::namespace::account_token::start),
    ("token-cleaner-controller", super::bootstrap_token::start),
    ("bootstrap-signer-controller", super::bootstrap_signer::start),
    ("root-ca-certificate-publisher-controller", super::namespace::root_certificate::start),
    ("certificatesigningrequest-approving-controller", super::certificate::start_approver),
    ("certificatesigningrequest-signing-controller", super::certificate::start_signer),
    ("certificatesigningrequest-cleaner-controller", super::certificate::start_cleaner),
    ("clusterrole-aggregation-controller", super::cluster_role_aggregation::start),
    ("flow-schema-controller", super::flow_schema::start),
    ("podgc", super::pod_gc::start),
    ("nodelifecycle", super::node_lifecycle::start),
    ("node-fence-controller", |context| {
        operators::fence_after::start(context.name, &context.api, &context.caches, &context.tasks);
    }),
    ("taint-eviction-controller", super::taint_eviction::start),
    ("endpoint", |context| endpoints::start(context, EndpointsFormat::Endpoints)),
    ("endpointslice", |context| endpoints::start(context, EndpointsFormat::Slices)),
    ("endpointslicemirroring", super::endpoints::mirror::start),
    ("ipallocator-repair-controller", super::service_addresses::start_addresses),
    ("service-cidr-controller", super::service_addresses::start_ranges),
    ("service-lb-controller", super::load_balancer::start),
    ("attachdetach", volume::attach::start),
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
            name: "",
            api: api.clone(),
            caches: caches.clone(),
            tasks: tasks.clone(),
            settings: Arc::new(settings),
        };
        let controllers = Self { context, running: Mutex::default() };
        let settings = controllers.context.settings.clone();
        for (name, _) in ALL {
            if settings.disabled.iter().any(|disabled| disabled == name) {
                continue;
            }
            if settings.paused.contains(name) {
                controllers.start_paused(name);
            } else {
                controllers.start_one(name);
            }
        }
        controllers
    }

    /// Returns the names of all controllers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(name, _)| *name)
    }

    /// Starts a controller, which rebuilds its state from the store; returns false if there is none with this name,
    /// or it is running.
    pub fn start_one(&self, name: &str) -> bool {
        self.start_in(name, self.context.tasks.child())
    }

    /// Does the same as [`Controllers::start_one`], but paused: the controller reconciles nothing before it is
    /// resumed.
    pub fn start_paused(&self, name: &str) -> bool {
        let tasks = self.context.tasks.child();
        tasks.pause();
        self.start_in(name, tasks)
    }

    fn start_in(&self, name: &str, tasks: Tasks) -> bool {
        let Some((name, start)) = ALL.iter().find(|(n, _)| *n == name) else { return false };
        let mut running = self.running.lock();
        if running.contains_key(name) {
            return false;
        }
        start(&Context { name, tasks: tasks.clone(), ..self.context.clone() });
        running.insert(name, tasks);
        true
    }

    /// Stops a controller, even in the middle of its work; returns false if it is not running.
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

    /// Pauses or resumes a controller; returns false if it is not running.
    pub fn pause_one(&self, name: &str, pauses: bool) -> bool {
        let running = self.running.lock();
        let Some(tasks) = running.get(name) else { return false };
        if pauses {
            tasks.pause();
        } else {
            tasks.resume();
        }
        true
    }

    /// Stops all controllers and waits.
    pub async fn stop(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        for tasks in running.into_values() {
            tasks.stop().await;
        }
    }
}
