//! Serves clients' requests about the node's images: the list, pulls, removals, explanations (IMG-13).
//!
//! A pull that a client requests goes on without the client: the list shows its progress, and for some minutes its
//! failure. It is the same pull as that of a pod which needs the image at the same time.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::node::Node;
use crate::runtime::{ImagePull, ImageService, RuntimeError};
use api::ApiError;
use api::node_access::ImageAccess;
use base::task::blocking;
use images::store::RemoveError;
use object::Kind;
use object::node_image::{NodeImageDetails, NodeImagePull, NodeImages};

/// The images of one node.
pub(super) struct Images {
    pub(super) node: Arc<Node>,
    pub(super) service: ImageService,
}

impl Images {
    /// Runs a call of the service where it may block.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&ImageService) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let service = self.service.clone();
        blocking(move || call(&service)).await.map_err(|error| ApiError::Internal(error.to_string()))
    }
}

impl ImageAccess for Images {
    fn list(&self) -> BoxFuture<'_, Result<NodeImages, ApiError>> {
        async {
            let used = self.node.images.lock().used();
            let mut images = self.call(|service| service.list(used)).await?;
            let running = self.service.running_pulls().into_iter().map(|pull| NodeImagePull {
                image: pull.name,
                done_bytes: pull.done,
                total_bytes: pull.total,
                error: None,
            });
            let now = self.node.clock.monotonic();
            images.pulls = self.node.requested_pulls.lock().shown(running.collect(), now);
            Ok(images)
        }
        .boxed()
    }

    fn details(&self, name: String) -> BoxFuture<'_, Result<NodeImageDetails, ApiError>> {
        async move {
            let requested = name.clone();
            let found = self.call(move |service| service.details(&requested)).await?;
            found.ok_or_else(|| not_found(name))
        }
        .boxed()
    }

    fn explain(&self, name: String) -> BoxFuture<'_, Result<String, ApiError>> {
        async move { self.service.explain(&name).await.map_err(ApiError::BadRequest) }.boxed()
    }

    fn pull(&self, name: &str) -> Result<NodeImagePull, ApiError> {
        let full_name = self.service.pullable_name(name).map_err(ApiError::BadRequest)?;
        let requested = &self.node.requested_pulls;
        if requested.lock().begin(&full_name)? {
            let (requested, runtime) = (requested.clone(), self.node.runtime.clone());
            let (clock, image) = (self.node.clock.clone(), full_name.clone());
            self.node.tasks.spawn("requested image pull", async move {
                let pull = ImagePull { image: image.clone(), secrets: Vec::new() };
                let result = runtime.pull_image(&pull).await.map(drop);
                let result = result.map_err(|error: RuntimeError| error.to_string());
                requested.lock().end(&image, result, clock.monotonic());
            });
        }
        Ok(NodeImagePull { image: full_name, ..NodeImagePull::default() })
    }

    fn remove(&self, name: String) -> BoxFuture<'_, Result<Vec<String>, ApiError>> {
        async move {
            let requested = name.clone();
            match self.call(move |service| service.remove(&requested)).await? {
                Ok(removed) => Ok(removed),
                Err(RemoveError::Unknown(_)) => Err(not_found(name)),
                Err(error @ RemoveError::InUse { .. }) => {
                    Err(ApiError::conflict(Kind::Node, &self.node.config.name, error.to_string()))
                }
                Err(error @ RemoveError::Io { .. }) => Err(ApiError::Failure(error.to_string())),
            }
        }
        .boxed()
    }
}

fn not_found(name: String) -> ApiError {
    ApiError::VirtualNotFound { resource: "images", group: "podium.dev", name }
}
