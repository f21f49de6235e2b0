//! Starts the controllers and the scheduler, without those that are disabled.

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

/// Whom the fields belong to that the controllers write, as in Kubernetes.
const CONTROLLERS: &str = "kube-controller-manager";
/// And those of the scheduler.
const SCHEDULER: &str = "kube-scheduler";

/// The running control loops.
pub(super) struct Actors {
    _controllers: Controllers,
    _scheduler: Option<Scheduler>,
}

pub(super) fn start(
    api: &Api,
    caches: &Caches,
    tasks: &Tasks,
    config: &ClusterConfig,
    authority: &Arc<CertificateAuthority>,
    balancers: Option<BalancerPool>,
    data_dir: &Path,
) -> Result<Actors, ConfigError> {
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
    let scheduler = (!config.is_disabled("scheduler")).then(|| {
        let scheduler = Scheduler::new(&api.acting_as(SCHEDULER), caches, scheduler_config);
        scheduler.run(tasks);
        scheduler
    });
    let controllers = Controllers::start(&api.acting_as(CONTROLLERS), caches, tasks, settings);
    Ok(Actors { _controllers: controllers, _scheduler: scheduler })
}
