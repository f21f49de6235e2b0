//! Starts the controllers and the scheduler, without those that are disabled.

use super::config::ClusterConfig;
use crate::api::Api;
use crate::base::task::Tasks;
use crate::controllers::{Controllers, Settings};
use crate::reconcile::Caches;

/// The running control loops.
pub(super) struct Actors {
    _controllers: Controllers,
}

pub(super) fn start(
    api: &Api,
    caches: &Caches,
    tasks: &Tasks,
    config: &ClusterConfig,
    ca_pem: &str,
) -> Actors {
    let settings = Settings { disabled: config.disabled.clone(), root_certificate: ca_pem.to_string() };
    Actors { _controllers: Controllers::start(api, caches, tasks, settings) }
}
