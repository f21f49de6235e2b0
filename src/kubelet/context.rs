//! The dependencies of every part of a kubelet: the API, the clock, and caches of the objects that pods refer to.

use std::sync::OnceLock;

use futures::future::BoxFuture;

use super::faults::PullFaults;
use super::id_ranges::IdRanges;
use api::Api;
use base::clock::Clock;
use base::task::Tasks;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use object::config::Timings;
use reconcile::{Cache, Caches};

/// Shared by all kubelets of this process.
pub(super) struct Context {
    pub(super) api: Api,
    pub(super) clock: Clock,
    pub(super) timings: Timings,
    pub(super) config_maps: Cache<ConfigMap>,
    pub(super) secrets: Cache<Secret>,
    pub(super) services: Cache<Service>,
    pub(super) tasks: Tasks,
    /// Injected faults of image pulls.
    pub(super) pulls: PullFaults,
    /// The ids of pods with user namespaces of their own.
    pub(super) id_ranges: IdRanges,
    /// Removes the images that no container uses.
    pub(super) remove_unused_images: OnceLock<RemoveUnusedImages>,
}

/// Removes the images of this machine that no container uses, as far as they may be removed.
pub type RemoveUnusedImages = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl Context {
    pub(super) fn new(api: &Api, caches: &Caches, tasks: &Tasks) -> Self {
        Self {
            api: api.clone(),
            clock: api.clock().clone(),
            timings: api.timings().clone(),
            config_maps: caches.of(),
            secrets: caches.of(),
            services: caches.of(),
            tasks: tasks.clone(),
            pulls: PullFaults::default(),
            id_ranges: IdRanges::default(),
            remove_unused_images: OnceLock::new(),
        }
    }
}
