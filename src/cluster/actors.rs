//! Starts the controllers and the scheduler, without those that are disabled.

use super::config::ClusterConfig;
use crate::api::Api;
use crate::base::task::Tasks;
use crate::controllers::{Controllers, Settings};
use crate::reconcile::Caches;
use crate::scheduler::{Scheduler, SchedulerConfig};

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
    ca_pem: &str,
) -> Actors {
    let settings = Settings { disabled: config.disabled.clone(), root_certificate: ca_pem.to_string() };
    let scheduler = (!config.is_disabled("scheduler")).then(|| {
        let scheduler = Scheduler::new(api, caches, SchedulerConfig::default());
        scheduler.run(tasks);
        scheduler
    });
    Actors { _controllers: Controllers::start(api, caches, tasks, settings), _scheduler: scheduler }
}
