//! Finds a container's image by its pull policy, and records a kubelet's events (IMG-1).
//!
//! There is no registry: an image that the catalogue knows is present under any policy, and nothing is pulled. An image
//! that it does not know cannot be pulled either, and fails as a pull does unless the policy is `Never`. This file
//! never decides when to retry: it records the failure, and `plan` decides.

use k8s_openapi::api::core::v1::Container;

use super::{ActionResult, SyncPod};
use crate::faults::NodeDiskFault;
use crate::observed::ImageState;
use crate::plan::image_pull;
use crate::runtime::{Image, RuntimeError};
use crate::spec;
use base::clock::saturating_after;
use reconcile::EventType;

impl SyncPod<'_> {
    /// Returns the image, by the container's pull policy. An error has already been recorded as an event and in the
    /// pod's state.
    pub(super) async fn ensure_image_exists(&mut self, container: &Container) -> Result<Image, ActionResult> {
        let name = &container.name;
        let image = container.image.clone().unwrap_or_default();
        self.simulate_pull(container, &image)?;
        match self.node.runtime.image_status(&image).await {
            Ok(present) => {
                // A loaded image is present until a user removes it, even without a container that uses it.
                if self.node.runtime.is_image_loaded(&image) {
                    self.node.images.lock().forget(&image);
                } else {
                    self.node.images.lock().add(&image, present.clone());
                }
                let message = format!(
                    "Container image \"{image}\" already present on machine and can be accessed by the pod"
                );
                self.container_event(name, EventType::Normal, "Pulled", message);
                Ok(present)
            }
            Err(error) => {
                let policy = container.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
                if policy != "Never" && !matches!(error, RuntimeError::InvalidImageName(_)) {
                    let message = format!("Pulling image \"{image}\"");
                    self.container_event(name, EventType::Normal, "Pulling", message);
                }
                if matches!(error, RuntimeError::ImageNotFound(_)) {
                    self.node.images.lock().forget(&image);
                }
                Err(self.pull_failed(name, &image, policy, &error))
            }
        }
    }

    /// Applies the faults of pulls to images that a kubelet would pull. Nothing is pulled here.
    fn simulate_pull(&mut self, container: &Container, image: &str) -> Result<(), ActionResult> {
        let name = &container.name;
        let policy = container.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
        let is_here = || self.node.runtime.is_image_loaded(image) || self.node.images.lock().has(image);
        if policy == "Never" || policy != "Always" && is_here() {
            return Ok(());
        }
        let pulls = self.workers.context.pulls.of(&self.node.config.name, image);
        // Faults of the disk affect only images that are not present: no other image is written.
        let disk = self.node.disk.fault().filter(|_| !is_here());
        if pulls.is_none() && disk.is_none() {
            return Ok(());
        }
        let (delay, fails) = pulls.unwrap_or_default();
        let delay = delay.max(disk.map(NodeDiskFault::delay).unwrap_or_default());
        let written = disk.and_then(NodeDiskFault::error);
        let now = self.now();
        let known = &mut self.state.observed.memory_mut(name).image;
        let is_pulled = matches!(known, ImageState::Pulling { until, .. } if *until <= now);
        if !is_pulled && !delay.is_zero() {
            let waited = match known {
                ImageState::Failed { delay, .. } => Some(*delay),
                _ => None,
            };
            *known = ImageState::Pulling { until: saturating_after(now, delay), waited };
            self.container_event(name, EventType::Normal, "Pulling", format!("Pulling image \"{image}\""));
            return Err(ActionResult::Next);
        }
        if fails || written.is_some() {
            if delay.is_zero() {
                self.container_event(
                    name,
                    EventType::Normal,
                    "Pulling",
                    format!("Pulling image \"{image}\""),
                );
            }
            let error = RuntimeError::Os(match written.filter(|_| !fails) {
                Some(error) => format!("failed to pull and unpack image \"{image}\": {error}"),
                None => format!(
                    "failed to pull image \"{image}\": the registry cannot be reached (because of a fault)"
                ),
            });
            return Err(self.pull_failed(name, image, policy, &error));
        }
        Ok(())
    }

    /// A pull that a fault delays completes as soon as the fault ends.
    pub(super) fn end_slow_pulls(&mut self) {
        if !self.state.observed.pulls() {
            return;
        }
        let spec = spec::spec(&self.pod).clone();
        let containers = spec.init_containers.into_iter().flatten().chain(spec.containers);
        for container in containers {
            let image = container.image.unwrap_or_default();
            let memory = self.state.observed.memory(&container.name);
            if matches!(memory.image, ImageState::Pulling { .. })
                && self.workers.context.pulls.of(&self.node.config.name, &image).is_none()
                && self.node.disk.fault().is_none()
            {
                self.state.observed.memory_mut(&container.name).image = ImageState::Unknown;
            }
        }
    }

    fn pull_failed(&mut self, name: &str, image: &str, policy: &str, error: &RuntimeError) -> ActionResult {
        let (reason, message) = match error {
            RuntimeError::InvalidImageName(message) => {
                self.container_event(name, EventType::Warning, "InspectFailed", message.clone());
                ("InvalidImageName", message.clone())
            }
            RuntimeError::ImageNotFound(_) if policy == "Never" => {
                let message = format!("Container image \"{image}\" is not present with pull policy of Never");
                self.container_event(name, EventType::Warning, "ErrImageNeverPull", message.clone());
                ("ErrImageNeverPull", message)
            }
            RuntimeError::Host(_) | RuntimeError::HostSilent(_) => {
                return self.create_failed(name, "RunContainerError", error.to_string());
            }
            other => {
                let message = format!("Failed to pull image \"{image}\": {other}");
                self.container_event(name, EventType::Warning, "Failed", message);
                ("ErrImagePull", other.to_string())
            }
        };
        self.container_event(name, EventType::Warning, "Failed", format!("Error: {reason}"));
        let at = self.now();
        let memory = self.state.observed.memory_mut(name);
        let delay = image_pull::next_delay(&memory.image, &self.workers.context.timings);
        memory.image = ImageState::Failed { reason, message, at, delay };
        ActionResult::Next
    }
}
