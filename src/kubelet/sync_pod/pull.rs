//! Finds a container's image by its pull policy, and records a kubelet's events (IMG-1, IMG-8).
//!
//! An image of the catalogue, and one that a user loaded, is present under any policy. Any other image is pulled from
//! its registry, beside the passes: the end of the pull is an event. This file never decides when to retry: it records
//! the failure, and `plan` decides.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Secret};

use super::{ActionResult, SyncPod};
use crate::faults::NodeDiskFault;
use crate::observed::{ImageState, PullEnd};
use crate::plan::image_pull;
use crate::pod_workers::{PodEvent, PullState};
use crate::runtime::{Image, ImagePull, PullProgress, PullSecret, RuntimeError};
use crate::spec;
use base::clock::{Clock, saturating_after};
use object::Key;
use object::time::go_duration;
use reconcile::EventType;

/// The interval at which the status shows a pull's progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Every so many reports of a pull's progress, an event tells it.
const REPORTS_PER_EVENT: u32 = 10;

impl SyncPod<'_> {
    /// Returns the image, by the container's pull policy. An error has already been recorded as an event and in the
    /// pod's state; a started pull has been recorded, too.
    pub(super) async fn ensure_image_exists(&mut self, container: &Container) -> Result<Image, ActionResult> {
        let name = &container.name;
        let image = container.image.clone().unwrap_or_default();
        if let ImageState::Pulled(pulled) = &self.state.observed.memory(name).image {
            return Ok(pulled.clone());
        }
        self.simulate_pull(container, &image)?;
        let policy = pull_policy(container);
        let runtime = &self.node.runtime;
        match runtime.image_status(&image).await {
            Ok(_) if policy == "Always" && runtime.is_image_pulled(&image) && runtime.can_pull(&image) => {
                Err(self.start_pull(container, &image))
            }
            Ok(present) => {
                // A loaded image is present until a user removes it, even without a container that uses it.
                if runtime.is_image_loaded(&image) {
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
                if matches!(error, RuntimeError::ImageNotFound(_)) {
                    self.node.images.lock().forget(&image);
                }
                if policy != "Never" && !matches!(error, RuntimeError::InvalidImageName(_)) {
                    if runtime.can_pull(&image) {
                        return Err(self.start_pull(container, &image));
                    }
                    self.pulling_event(name, &image);
                }
                Err(self.pull_failed(name, &image, policy, &error))
            }
        }
    }

    /// Starts a pull beside the passes.
    fn start_pull(&mut self, container: &Container, image: &str) -> ActionResult {
        let name = container.name.clone();
        self.pulling_event(&name, image);
        let pull = ImagePull { image: image.to_owned(), secrets: self.pull_secrets(&name) };
        let known = &mut self.state.observed.memory_mut(&name).image;
        let waited = known.failed_delay();
        let end = PullEnd::Event { image: image.to_owned(), progress: String::new() };
        *known = ImageState::Pulling { end, waited };
        let (workers, uid) = (self.workers.clone(), self.pod.uid().to_string());
        let (runtime, container) = (self.node.runtime.clone(), name.clone());
        let guard = self.node.tasks.spawn_guarded("image pull", async move {
            let clock = &workers.context.clock;
            let started = clock.monotonic();
            let send = |state| {
                let (container, image) = (container.clone(), pull.image.clone());
                workers.push_event(&uid, PodEvent::Pull { container, image, state });
            };
            let progress = async {
                let read = || runtime.pull_progress(&pull.image);
                report_progress(clock, read, &send).await;
            };
            tokio::select! {
                result = runtime.pull_image(&pull) => {
                    send(PullState::Over(result, clock.monotonic().saturating_sub(started)));
                }
                () = progress => {}
            }
        });
        self.state.pulls.insert(name, guard);
        ActionResult::Next
    }

    /// The content of the pod's pull secrets. As in Kubernetes, a missing secret is reported, and the pull goes
    /// on without it.
    fn pull_secrets(&self, container: &str) -> Vec<PullSecret> {
        let names = spec::spec(&self.pod).image_pull_secrets.iter().flatten().map(|secret| &secret.name);
        let (mut secrets, mut missing) = (Vec::new(), Vec::new());
        for name in names.filter(|name| !name.is_empty()) {
            let secret = self.workers.context.secrets.get(&Key::new(self.pod.namespace(), name));
            match secret.as_deref().and_then(pull_secret) {
                Some(content) => secrets.push(content),
                None => missing.push(name.as_str()),
            }
        }
        if !missing.is_empty() {
            let message = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                missing.join(", ")
            );
            self.container_event(container, EventType::Warning, "FailedToRetrieveImagePullSecret", message);
        }
        secrets
    }

    /// Cancels the pulls of images that a user has replaced meanwhile.
    pub(super) fn cancel_outdated_pulls(&mut self) {
        let (pod, observed) = (&self.pod, &mut self.state.observed);
        self.state.pulls.retain(|name, _| {
            let container = spec::container(pod, name).map(|(_, container)| container);
            let current = container.as_ref().and_then(|container| container.image.as_deref());
            let known = &mut observed.memory_mut(name).image;
            let goes_on = known.pulled_image().is_some_and(|image| current == Some(image));
            if !goes_on {
                *known = ImageState::Unknown;
            }
            goes_on
        });
    }

    /// Takes the state of a pull that runs beside the passes.
    pub(super) fn take_pull(&mut self, name: &str, image: &str, state: PullState) {
        let known = &mut self.state.observed.memory_mut(name).image;
        let ImageState::Pulling { end: PullEnd::Event { image: pulled, progress: shown }, .. } = known else {
            return;
        };
        if pulled != image {
            return;
        }
        match state {
            PullState::Running { progress, announce } => {
                if announce {
                    let message = format!("Pulling image \"{image}\": {progress}");
                    shown.clone_from(&progress);
                    self.container_event(name, EventType::Normal, "Pulling", message);
                } else {
                    *shown = progress;
                }
            }
            PullState::Over(Ok(pulled), took) => {
                let size = pulled.size_bytes;
                *known = ImageState::Pulled(pulled);
                self.state.pulls.remove(name);
                self.node.images.lock().forget(image);
                let took = go_duration(took);
                let message = format!(
                    "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: {size} \
                     bytes."
                );
                self.container_event(name, EventType::Normal, "Pulled", message);
            }
            PullState::Over(Err(error), _) => {
                self.state.pulls.remove(name);
                self.pull_failed(name, image, "IfNotPresent", &error);
            }
        }
    }

    /// Applies the faults of pulls to images that a kubelet would pull. Nothing is pulled here.
    fn simulate_pull(&mut self, container: &Container, image: &str) -> Result<(), ActionResult> {
        let name = &container.name;
        let policy = pull_policy(container);
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
        let is_over = matches!(known, ImageState::Pulling { end: PullEnd::At(until), .. } if *until <= now);
        if !is_over && !delay.is_zero() {
            let waited = known.failed_delay();
            *known = ImageState::Pulling { end: PullEnd::At(saturating_after(now, delay)), waited };
            self.pulling_event(name, image);
            return Err(ActionResult::Next);
        }
        if fails || written.is_some() {
            if delay.is_zero() {
                self.pulling_event(name, image);
            }
            let error = RuntimeError::PullFailed(match written.filter(|_| !fails) {
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
        if !self.state.observed.has_delayed_pull() {
            return;
        }
        let spec = spec::spec(&self.pod).clone();
        let containers = spec.init_containers.into_iter().flatten().chain(spec.containers);
        for container in containers {
            let image = container.image.unwrap_or_default();
            if self.state.observed.memory(&container.name).image.is_delayed()
                && self.workers.context.pulls.of(&self.node.config.name, &image).is_none()
                && self.node.disk.fault().is_none()
            {
                self.state.observed.memory_mut(&container.name).image = ImageState::Unknown;
            }
        }
    }

    fn pulling_event(&self, name: &str, image: &str) {
        self.container_event(name, EventType::Normal, "Pulling", format!("Pulling image \"{image}\""));
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

fn pull_policy(container: &Container) -> &str {
    container.image_pull_policy.as_deref().unwrap_or("IfNotPresent")
}

fn pull_secret(secret: &Secret) -> Option<PullSecret> {
    let key = |key: &str| Some(secret.data.as_ref()?.get(key)?.0.clone());
    match secret.type_.as_deref()? {
        "kubernetes.io/dockerconfigjson" => key(".dockerconfigjson").map(PullSecret::Config),
        "kubernetes.io/dockercfg" => key(".dockercfg").map(PullSecret::Registries),
        _ => None,
    }
}

/// Sends a pull's progress whenever it has changed; never returns.
async fn report_progress(clock: &Clock, read: impl Fn() -> Option<PullProgress>, send: &impl Fn(PullState)) {
    let mut shown = None;
    for report in 1_u32.. {
        clock.sleep(PROGRESS_INTERVAL).await;
        let now = read();
        if let Some(progress) = now.filter(|_| now != shown) {
            shown = now;
            let announce = report % REPORTS_PER_EVENT == 0;
            send(PullState::Running { progress: progress.to_string(), announce });
        }
    }
}
