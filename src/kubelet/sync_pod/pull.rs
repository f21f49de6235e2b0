//! A container's image by its pull policy, told in the kubelet's own events (IMG-1).
//!
//! Never decides when to try again: it remembers what failed, and `plan` reads that.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use super::{After, SyncPod};
use crate::observed::ImageState;
use crate::plan::image_back_off_delay;
use crate::runtime::{PulledImage, RuntimeError};
use object::time::go_duration;
use reconcile::EventType;

impl SyncPod<'_> {
    /// The image, by the container's pull policy; an error has been told and remembered.
    pub(super) async fn pull(&mut self, container: &Container) -> Result<PulledImage, After> {
        let name = &container.name;
        let image = container.image.clone().unwrap_or_default();
        let policy = container.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
        let began = self.workers.context.clock.monotonic();
        let result = self.node.runtime.pull_image(&image).await;
        let loaded = self.node.runtime.has_image(&image);
        let present = loaded || self.node.images.lock().contains(&image);
        // What was pulled once and is unknown now has to be pulled again.
        let pulls = match policy {
            "Never" => false,
            "Always" => true,
            _ => !present || result.is_err(),
        };
        let valid = !matches!(result, Err(RuntimeError::InvalidImageName(_)));
        if pulls && valid {
            self.container_event(name, EventType::Normal, "Pulling", format!("Pulling image \"{image}\""));
        }
        match result {
            Ok(pulled) => {
                let message = if pulls {
                    let took = self.workers.context.clock.monotonic().saturating_sub(began);
                    pulled_message(&image, took, pulled.size_bytes)
                } else {
                    format!("Container image \"{image}\" already present on machine")
                };
                // What was loaded is there until somebody removes it, not until nobody does.
                if loaded {
                    self.node.images.lock().forget(&image);
                } else {
                    self.node.images.lock().add(&image, pulled.clone());
                }
                self.container_event(name, EventType::Normal, "Pulled", message);
                Ok(pulled)
            }
            Err(error) => {
                if matches!(error, RuntimeError::ImageNotFound(_)) {
                    self.node.images.lock().forget(&image);
                }
                Err(self.pull_failed(name, &image, policy, &error))
            }
        }
    }

    fn pull_failed(&mut self, name: &str, image: &str, policy: &str, error: &RuntimeError) -> After {
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
            RuntimeError::Host(_) => return self.create_failed(name, "RunContainerError", error.to_string()),
            other => {
                let message = format!("Failed to pull image \"{image}\": {other}");
                self.container_event(name, EventType::Warning, "Failed", message);
                ("ErrImagePull", other.to_string())
            }
        };
        self.container_event(name, EventType::Warning, "Failed", format!("Error: {reason}"));
        let at = self.now();
        let memory = self.state.observed.memory_mut(name);
        let delay = image_back_off_delay(&memory.image, &self.workers.context.timings);
        memory.image = ImageState::Failed { reason, message, at, delay };
        After::Next
    }
}

/// Nothing waits in a queue here, so that both times are the same.
fn pulled_message(image: &str, took: Duration, size_bytes: u64) -> String {
    let took = go_duration(took);
    format!(
        "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: {size_bytes} bytes."
    )
}
