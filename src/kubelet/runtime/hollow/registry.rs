//! A simulated registry: with it, a hollow node pulls images that are in no catalogue. Without it, such images count as
//! present.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::runtime::{Image, ImagePull, PullProgress, RuntimeError};

/// Performs a pull of a hollow node.
pub type PullFn = Arc<dyn Fn(&ImagePull) -> BoxFuture<'static, Result<Image, RuntimeError>> + Send + Sync>;

/// The registry of a hollow node, and the images pulled from it.
#[derive(Default)]
pub(super) struct HollowRegistry {
    pull: Mutex<Option<PullFn>>,
    pulled: Mutex<BTreeMap<String, Image>>,
    progress: Mutex<Option<PullProgress>>,
}

impl HollowRegistry {
    pub(super) fn set(&self, pull: PullFn) {
        *self.pull.lock() = Some(pull);
    }

    pub(super) fn set_progress(&self, progress: Option<PullProgress>) {
        *self.progress.lock() = progress;
    }

    pub(super) fn progress(&self) -> Option<PullProgress> {
        *self.progress.lock()
    }

    pub(super) fn is_there(&self) -> bool {
        self.pull.lock().is_some()
    }

    pub(super) fn pulled(&self, reference: &str) -> Option<Image> {
        self.pulled.lock().get(reference).cloned()
    }

    pub(super) async fn pull(&self, pull: &ImagePull) -> Result<Image, RuntimeError> {
        let registry = self.pull.lock().clone();
        let Some(registry) = registry else {
            return Err(RuntimeError::ImageNotFound(format!("{} has no registry", pull.image)));
        };
        let image = registry(pull).await?;
        self.pulled.lock().insert(pull.image.clone(), image.clone());
        Ok(image)
    }
}
