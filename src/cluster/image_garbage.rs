//! Collects unused pulled images while the cluster runs (IMG-10): every five minutes, as a kubelet does, and when a node
//! is under disk pressure. All nodes share one disk and one store, so that there is one collection.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use base::clock::Clock;
use base::task::{Tasks, blocking};
use host::ImageUsers;
use images::ImageStore;
use images::garbage::{self, Collection, DiskSpace};
use images::store::RemoveError;
use object::config::Seconds;

/// The interval of collections: a kubelet's `ImageGCPeriod`.
const INTERVAL: Duration = Duration::from_mins(5);

/// The time for which whole layers of a failed pull stay for its next attempt.
const UNUSED_LAYER_AGE: Duration = Duration::from_hours(1);

/// The removal of pulled images that no container uses, with a kubelet's names and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ImageGarbageConfig {
    /// Images are removed when more of the disk than this is used, in percent; 100 never removes any.
    pub high_threshold_percent: u8,
    /// Images are removed until no more of the disk than this is used, in percent.
    pub low_threshold_percent: u8,
    /// The time for which an image stays after its last use, in seconds.
    pub minimum_age: Seconds,
}

impl Default for ImageGarbageConfig {
    fn default() -> Self {
        let minimum_age = Seconds(Duration::from_mins(2));
        Self { high_threshold_percent: 85, low_threshold_percent: 80, minimum_age }
    }
}

/// The store of a cluster, and the nodes whose containers use it.
#[derive(Clone)]
pub(super) struct Collector {
    pub(super) store: Arc<ImageStore>,
    /// The directory that contains each node's directory.
    pub(super) nodes_dir: PathBuf,
    pub(super) config: ImageGarbageConfig,
    pub(super) clock: Clock,
}

impl Collector {
    /// Starts the collections.
    pub(super) fn start(self, tasks: &Tasks) {
        tasks.spawn_restarting("image garbage collection", move || self.clone().run());
    }

    async fn run(self) {
        loop {
            self.clock.sleep(INTERVAL).await;
            self.clone().report(Self::collect_if_due).await;
        }
    }

    /// Removes every unused image that is old enough: a node is under disk pressure.
    pub(super) async fn remove_all_unused(self) {
        self.report(|collector| collector.collect(u64::MAX)).await;
    }

    /// Executes a collection and logs its result.
    async fn report(self, collect: impl FnOnce(&Self) -> Result<Collection, RemoveError> + Send + 'static) {
        match blocking(move || collect(&self)).await {
            Ok(Ok(Collection { removed, freed })) if !removed.is_empty() => {
                tracing::info!(
                    "removed {} unused images ({freed} bytes): {}",
                    removed.len(),
                    removed.join(", ")
                );
            }
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(error)) => tracing::warn!("cannot remove unused images: {error}"),
        }
    }

    fn collect(&self, needed: u64) -> Result<Collection, RemoveError> {
        garbage::collect(&self.store, needed, self.clock.now(), self.config.minimum_age.0, || {
            ImageUsers::read(&self.nodes_dir)
        })
    }

    fn collect_if_due(&self) -> Result<Collection, RemoveError> {
        let ImageGarbageConfig { high_threshold_percent, low_threshold_percent, .. } = self.config;
        let excess = |space| garbage::excess(space, high_threshold_percent, low_threshold_percent);
        let Some(needed) = space_of(&self.nodes_dir).and_then(excess) else {
            let count = self.store.remove_unused_layers(self.clock.now(), UNUSED_LAYER_AGE)?;
            if count > 0 {
                tracing::info!("removed {count} layers of pulls that have failed");
            }
            return Ok(Collection::default());
        };
        let collected = self.collect(needed)?;
        if collected.freed < needed {
            tracing::warn!(
                "image garbage collection: {needed} bytes of the disk should become free, but unused images had only \
                 {}",
                collected.freed
            );
        }
        Ok(collected)
    }
}

fn space_of(directory: &Path) -> Option<DiskSpace> {
    let about = rustix::fs::statvfs(directory).ok()?;
    Some(DiskSpace {
        capacity: about.f_blocks.saturating_mul(about.f_frsize),
        available: about.f_bavail.saturating_mul(about.f_frsize),
    })
}
