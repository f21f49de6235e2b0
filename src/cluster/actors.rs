//! Starts the controllers and the scheduler, without those that are disabled; all of them stop and go on together.

use std::path::Path;
use std::sync::Arc;

use super::config::ClusterConfig;
use api::Api;
use api::http::CertificateAuthority;
use base::task::Tasks;
use base::time_zone;
use controllers::{BalancerPool, Controllers, Settings, VolumeDirectory};
use kubelet::volumes::user_of;
use reconcile::Caches;
use scheduler::config::{ConfigError, profiles};
use scheduler::{Scheduler, SchedulerConfig};
use tokio::sync::Mutex;

/// Whom the fields belong to that the controllers write, as in Kubernetes.
const CONTROLLERS: &str = "kube-controller-manager";
/// And those of the scheduler.
const SCHEDULER: &str = "kube-scheduler";

/// The control loops, running or not.
pub(super) struct Actors {
    api: Api,
    caches: Caches,
    /// They end with it.
    tasks: Tasks,
    settings: Settings,
    /// None where it is disabled.
    scheduler: Option<Scheduler>,
    // Held while they are started or stopped.
    running: Mutex<Option<Running>>,
}

struct Running {
    controllers: Controllers,
    scheduler: Tasks,
}

impl Actors {
    /// Those of a cluster; none runs before [`Actors::go_on`].
    pub(super) fn new(
        api: &Api,
        caches: &Caches,
        tasks: &Tasks,
        config: &ClusterConfig,
        authority: &Arc<CertificateAuthority>,
        balancers: Option<BalancerPool>,
        data_dir: &Path,
    ) -> Result<Self, ConfigError> {
        let nodes = data_dir.join("nodes");
        let volumes = VolumeDirectory::new(data_dir.join("volumes"), move |path| user_of(&nodes, path));
        let settings = Settings {
            disabled: config.disabled.clone(),
            time_zone: Some(time_zone::local()),
            root_certificate: authority.certificate_pem.clone(),
            authority: Some(authority.clone()),
            volumes: Some(volumes),
            balancers,
            node_lifecycle: config.file.node_lifecycle.clone(),
            terminated_pod_threshold: config.file.terminated_pod_threshold,
        };
        let mut scheduler_config = SchedulerConfig::default();
        if let Some(configuration) = &config.file.scheduler {
            scheduler_config.profiles = profiles(configuration)?;
        }
        let scheduler = (!config.is_disabled("scheduler"))
            .then(|| Scheduler::new(&api.acting_as(SCHEDULER), caches, scheduler_config));
        let (api, caches, tasks) = (api.clone(), caches.clone(), tasks.clone());
        Ok(Self { api, caches, tasks, settings, scheduler, running: Mutex::default() })
    }

    /// Starts them all, with nothing but what the store knows; does nothing where they run.
    pub(super) async fn go_on(&self) {
        let mut running = self.running.lock().await;
        if running.is_some() {
            return;
        }
        let tasks = self.tasks.child();
        if let Some(scheduler) = &self.scheduler {
            scheduler.run(&tasks);
        }
        let controllers = Controllers::start(
            &self.api.acting_as(CONTROLLERS),
            &self.caches,
            &self.tasks,
            self.settings.clone(),
        );
        *running = Some(Running { controllers, scheduler: tasks });
    }

    /// Stops them all, wherever they are in their work, and waits; does nothing where none runs.
    pub(super) async fn pause(&self) {
        let mut running = self.running.lock().await;
        if let Some(Running { controllers, scheduler }) = running.take() {
            scheduler.stop().await;
            controllers.stop().await;
        }
    }
}
