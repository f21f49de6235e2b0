//! Finds the images of a container and of its volumes by their pull policies, and records a kubelet's events (IMG-1,
//! IMG-8, IMG-11).
//!
//! An image of the catalogue, and one that a user loaded, is present under any policy. Any other image is pulled from
//! its registry, beside the passes: the end of the pull is an event. This file never decides when to retry: it records
//! the failure, and `plan` decides.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Secret};

use super::{ActionResult, SyncPod};
use crate::needed_images::{self, ImageUser, NeededImage};
use crate::observed::{ImageState, PullEnd};
use crate::plan::image_pull::{self, is_awaited};
use crate::pod_workers::{PodEvent, PullState};
use crate::runtime::{Image, ImagePull, PullProgress, PullSecret, RuntimeError};
use crate::spec;
use base::clock::{Clock, saturating_after};
use base::disk_fault::DiskFault;
use object::Key;
use object::time::go_duration;
use object::well_known::secret_type;
use reconcile::EventType;

/// The interval at which the status shows a pull's progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Every so many reports of a pull's progress, an event tells it.
const REPORTS_PER_EVENT: u32 = 10;

impl SyncPod<'_> {
    /// Returns the container's own image once that and the images of its volumes are present, by their pull policies.
    /// All missing ones are pulled at the same time. An error has already been recorded as an event and in the pod's
    /// state; a started pull has been recorded, too.
    pub(super) async fn ensure_images_exist(&mut self, container: &Container) -> Result<Image, ActionResult> {
        let mut volumes = Ok(());
        let pod = self.pod.clone();
        for image in needed_images::of_volumes(&pod, container) {
            let ensured = self.ensure_volume_image_exists(&image).await;
            volumes = volumes.and(ensured);
        }
        let own = self.ensure_image_exists(&needed_images::own(container)).await;
        volumes.and(own)
    }

    /// Ensures that a volume's image is present. Containers share the volume, and so its pull and its back-off; a
    /// container that restarts shows the files that the pod has had.
    async fn ensure_volume_image_exists(&mut self, image: &NeededImage) -> Result<(), ActionResult> {
        let known = self.state.observed.image(&image.user);
        if is_awaited(known, self.now()) {
            return Err(ActionResult::Next);
        }
        let is_present = known.present().is_some();
        if is_present && self.node.runtime.image_status(&image.reference).await.is_ok() {
            return Ok(());
        }
        let present = self.ensure_image_exists(image).await?;
        *self.state.observed.image_mut(&image.user) = ImageState::Present(present);
        Ok(())
    }

    async fn ensure_image_exists(&mut self, needed: &NeededImage) -> Result<Image, ActionResult> {
        let NeededImage { user, reference: image, policy } = needed;
        if let ImageState::Pulled { image: pulled, .. } = self.state.observed.image(user) {
            return Ok(pulled.clone());
        }
        self.simulate_pull(needed)?;
        let runtime = &self.node.runtime;
        match runtime.image_status(image).await {
            Ok(_) if policy == "Always" && runtime.is_image_pulled(image) && runtime.can_pull(image) => {
                Err(self.start_pull(user, image))
            }
            Ok(present) => {
                // A loaded image is present until a user removes it, even without a container that uses it.
                if runtime.is_image_loaded(image) {
                    self.node.images.lock().forget(image);
                } else {
                    self.node.images.lock().add(image, present.clone());
                }
                let message = format!(
                    "Container image \"{image}\" already present on machine and can be accessed by the pod"
                );
                self.image_event(user, EventType::Normal, "Pulled", message);
                Ok(present)
            }
            Err(error) => {
                if matches!(error, RuntimeError::ImageNotFound(_)) {
                    self.node.images.lock().forget(image);
                }
                if policy != "Never" && !matches!(error, RuntimeError::InvalidImageName(_)) {
                    if runtime.can_pull(image) {
                        return Err(self.start_pull(user, image));
                    }
                    self.pulling_event(user, image);
                }
                Err(self.pull_failed(user, image, policy, &error))
            }
        }
    }

    /// Starts a pull beside the passes.
    fn start_pull(&mut self, user: &ImageUser, image: &str) -> ActionResult {
        self.pulling_event(user, image);
        let pull = ImagePull { image: image.to_owned(), secrets: self.pull_secrets(user) };
        let known = self.state.observed.image_mut(user);
        let waited = known.failed_delay();
        let end = PullEnd::Event { image: image.to_owned(), progress: String::new() };
        *known = ImageState::Pulling { end, waited };
        let (workers, uid) = (self.workers.clone(), self.pod.uid().to_string());
        let (runtime, of_user) = (self.node.runtime.clone(), user.clone());
        let guard = self.node.tasks.spawn_guarded("image pull", async move {
            let clock = &workers.context.clock;
            let started = clock.monotonic();
            let send = |state| {
                let (user, image) = (of_user.clone(), pull.image.clone());
                workers.push_event(&uid, PodEvent::Pull { user, image, state });
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
        self.state.pulls.insert(user.clone(), guard);
        ActionResult::Next
    }

    /// The content of the pod's pull secrets. As in Kubernetes, a missing secret is reported, and the pull goes
    /// on without it.
    fn pull_secrets(&self, user: &ImageUser) -> Vec<PullSecret> {
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
            self.image_event(user, EventType::Warning, "FailedToRetrieveImagePullSecret", message);
        }
        secrets
    }

    /// Forgets pulls that no longer count: those of images that a user has replaced, with the back-off of failed ones,
    /// and those that a fault delayed, once it has ended.
    pub(super) fn forget_outdated_pulls(&mut self) {
        if !self.state.observed.has_pulls() {
            return;
        }
        let pod = self.pod.clone();
        for (_, container) in spec::all_containers(&pod) {
            for NeededImage { user, reference, .. } in needed_images::of(&pod, &container) {
                let known = self.state.observed.image(&user);
                let is_replaced = known.requested_image().is_some_and(|image| image != reference);
                let is_no_longer_delayed = known.is_delayed()
                    && self.workers.context.pulls.of(&self.node.config.name, &reference).is_none()
                    && self.node.disk.fault().is_none();
                if is_replaced || is_no_longer_delayed {
                    *self.state.observed.image_mut(&user) = ImageState::Unknown;
                    // A pull that still runs is cancelled.
                    self.state.pulls.remove(&user);
                }
            }
        }
    }

    /// Takes the state of a pull that runs beside the passes.
    pub(super) fn take_pull(&mut self, user: &ImageUser, image: &str, state: PullState) {
        let known = self.state.observed.image_mut(user);
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
                    self.image_event(user, EventType::Normal, "Pulling", message);
                } else {
                    *shown = progress;
                }
            }
            PullState::Over(Ok(pulled), took) => {
                let size = pulled.size_bytes;
                *known = ImageState::Pulled { name: image.to_owned(), image: pulled };
                self.state.pulls.remove(user);
                self.node.images.lock().forget(image);
                let took = go_duration(took);
                let message = format!(
                    "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: {size} \
                     bytes."
                );
                self.image_event(user, EventType::Normal, "Pulled", message);
            }
            PullState::Over(Err(error), _) => {
                self.state.pulls.remove(user);
                self.pull_failed(user, image, "IfNotPresent", &error);
            }
        }
    }

    /// Applies the faults of pulls to images that a kubelet would pull. Nothing is pulled here.
    fn simulate_pull(&mut self, needed: &NeededImage) -> Result<(), ActionResult> {
        let NeededImage { user, reference: image, policy } = needed;
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
        let delay = delay.max(disk.map(DiskFault::delay).unwrap_or_default());
        let written = disk.and_then(DiskFault::error);
        let now = self.now();
        let known = self.state.observed.image_mut(user);
        let is_over = matches!(known, ImageState::Pulling { end: PullEnd::At(until), .. } if *until <= now);
        if !is_over && !delay.is_zero() {
            let waited = known.failed_delay();
            *known = ImageState::Pulling { end: PullEnd::At(saturating_after(now, delay)), waited };
            self.pulling_event(user, image);
            return Err(ActionResult::Next);
        }
        if fails || written.is_some() {
            if delay.is_zero() {
                self.pulling_event(user, image);
            }
            let error = RuntimeError::PullFailed(match written.filter(|_| !fails) {
                Some(error) => format!("failed to pull and unpack image \"{image}\": {error}"),
                None => format!(
                    "failed to pull image \"{image}\": the registry cannot be reached (because of a fault)"
                ),
            });
            return Err(self.pull_failed(user, image, policy, &error));
        }
        Ok(())
    }

    /// An event about an image: of the container that runs it, or of the pod whose volume shows it.
    pub(super) fn image_event(
        &self,
        user: &ImageUser,
        type_: EventType,
        reason: &str,
        message: impl Into<String>,
    ) {
        match user {
            ImageUser::Container(name) => self.container_event(name, type_, reason, message),
            ImageUser::Volume(_) => self.event(type_, reason, message),
        }
    }

    /// The event with the reason for which a container waits. A volume has none.
    pub(super) fn image_error_event(&self, user: &ImageUser, reason: &str) {
        if let ImageUser::Container(name) = user {
            self.container_event(name, EventType::Warning, "Failed", format!("Error: {reason}"));
        }
    }

    fn pulling_event(&self, user: &ImageUser, image: &str) {
        self.image_event(user, EventType::Normal, "Pulling", format!("Pulling image \"{image}\""));
    }

    fn pull_failed(
        &mut self,
        user: &ImageUser,
        image: &str,
        policy: &str,
        error: &RuntimeError,
    ) -> ActionResult {
        let (reason, message) = match (error, user) {
            (RuntimeError::InvalidImageName(message), _) => {
                self.image_event(user, EventType::Warning, "InspectFailed", message.clone());
                ("InvalidImageName", message.clone())
            }
            (RuntimeError::ImageNotFound(_), _) if policy == "Never" => {
                let message = format!("Container image \"{image}\" is not present with pull policy of Never");
                self.image_event(user, EventType::Warning, "ErrImageNeverPull", message.clone());
                ("ErrImageNeverPull", message)
            }
            (RuntimeError::Host(_) | RuntimeError::HostSilent(_), ImageUser::Container(name)) => {
                return self.create_failed(name, "RunContainerError", error.to_string());
            }
            (other, _) => {
                let message = format!("Failed to pull image \"{image}\": {other}");
                self.image_event(user, EventType::Warning, "Failed", message);
                ("ErrImagePull", other.to_string())
            }
        };
        self.image_error_event(user, reason);
        let at = self.now();
        let known = self.state.observed.image_mut(user);
        let delay = image_pull::next_delay(known, &self.workers.context.timings);
        *known = ImageState::Failed { image: image.to_owned(), reason, message, at, delay };
        ActionResult::Next
    }
}

fn pull_secret(secret: &Secret) -> Option<PullSecret> {
    let key = |key: &str| Some(secret.data.as_ref()?.get(key)?.0.clone());
    match secret.type_.as_deref()? {
        secret_type::DOCKERCONFIGJSON => key(".dockerconfigjson").map(PullSecret::Config),
        secret_type::DOCKERCFG => key(".dockercfg").map(PullSecret::Registries),
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
