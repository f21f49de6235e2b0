//! Prepares a pod for its first container: admission by the node, an address, volumes, a sandbox.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as NodeObject;

use super::{ActionResult, SyncPod};
use crate::admit::AdmitRejection;
use crate::observed::{SetupState, StopCause};
use crate::runtime::IdRange;
use crate::{eviction, plan, runtime_class, sandbox, security, service_names, spec, sysctls, volumes};
use base::backoff::BackoffPolicy;
use base::clock::saturating_after;
use object::Key;
use object::well_known::annotation;
use reconcile::EventType;

/// The time that a pod waits for its volumes before an event reports it, repeatedly: Kubernetes'
/// `podAttachAndMountTimeout`.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(123);

/// The delays before a failed update of volumes is retried; the longest one is Kubernetes'.
const REFRESH_RETRY: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_secs(10), max: Duration::from_secs(122) };

impl SyncPod<'_> {
    /// Decides whether the node accepts a new pod, or rejects it for good. Pods that ran before this kubelet started
    /// are not checked.
    pub(super) fn admit(&mut self) {
        if std::mem::replace(&mut self.state.admitted, true) || plan::is_terminal(&self.pod) || self.deleted {
            return;
        }
        self.state.observed.resize.begin(&self.pod);
        let (uid, node) = (self.pod.uid(), self.node);
        let ran = self.state.observed.sandbox.is_some()
            || self.pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        let forbidden = if ran { None } else { sysctls::refusal(&self.pod) };
        if ran || (forbidden.is_none() && eviction::is_critical(&self.pod)) {
            node.admitted.lock().add(uid, &self.pod);
            return;
        }
        let refusal = if let Some(refusal) = forbidden {
            Err(refusal)
        } else if let Some(message) = eviction::refusal(&node.eviction.conditions(), &self.pod) {
            Err(AdmitRejection { reason: "Evicted".into(), message })
        } else {
            let key = Key::new("", node.config.name.as_str());
            let object = self.workers.context.api.get_as::<NodeObject>(&key).ok();
            node.admitted.lock().try_add(uid, &self.pod, &node.config.capacity, object.as_deref())
        };
        if let Err(AdmitRejection { reason, message }) = refusal {
            self.event(EventType::Warning, &reason, message.clone());
            let message = format!("Pod was rejected: {message}");
            self.stop_pod(StopCause::Failed { reason, message, disrupted: false }, Duration::ZERO);
        }
    }

    /// Requests new volumes if the runtime has a new memory: the content written to the old one is lost.
    pub(super) fn find_memory(&mut self) {
        let memory = self.node.runtime.memory();
        let same = match (&memory, &self.state.memory) {
            (Some(here), Some(known)) => Arc::ptr_eq(here, known),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.state.memory = memory;
            if self.state.observed.setup == SetupState::Ready {
                self.state.observed.setup = SetupState::No;
            }
        }
    }

    /// Updates the volumes' content after a change, when a token is due for renewal, or after a failed update.
    pub(super) async fn refresh_volumes(&mut self) {
        let now = self.now();
        let renew = self.state.tokens.renew_at().is_some_and(|at| at <= self.workers.context.clock.now());
        let is_due = self.state.refresh_retry.take_if(|at| *at <= now).is_some();
        let retry = is_due && self.state.observed.stop.is_none();
        let is_requested = std::mem::take(&mut self.state.refresh);
        if !(is_requested || renew || retry) || self.state.observed.setup != SetupState::Ready {
            return;
        }
        (self.state.refresh_failures, self.state.refresh_retry) = match self.write_volumes().await {
            Ok(()) => (0, None),
            Err(error) => {
                tracing::debug!(pod = %self.pod.key(), "cannot update volume {}: {error}", error.volume);
                let failures = self.state.refresh_failures.saturating_add(1);
                (failures, Some(saturating_after(self.now(), REFRESH_RETRY.delay(failures))))
            }
        };
    }

    /// Allocates the pod's address and prepares its volumes.
    pub(super) async fn prepare(&mut self) -> ActionResult {
        let again = saturating_after(self.now(), Duration::from_secs(2));
        let host_network = spec::spec(&self.pod).host_network == Some(true);
        let had = self.state.observed.ips.first;
        let ip = if host_network {
            Some(self.node.config.ip)
        } else {
            self.node.ips.lock().take(self.pod.uid(), had)
        };
        let Some(ip) = ip else {
            let message = format!("no address left in the pod range of node {}", self.node.config.name);
            self.event(EventType::Warning, "FailedCreatePodSandBox", message.clone());
            self.state.observed.setup = SetupState::Blocked { until: again, message };
            return ActionResult::Replan;
        };
        self.state.observed.ips = self.node.config.ips_of(ip);
        match self.write_volumes().await {
            Ok(()) => {
                self.state.waiting_since = None;
                self.state.observed.setup = SetupState::Ready;
            }
            Err(error) => {
                let message = error.message;
                if !error.waits || self.has_waited_long() {
                    self.event(EventType::Warning, "FailedMount", message.clone());
                }
                self.state.observed.setup = SetupState::Blocked { until: again, message };
            }
        }
        ActionResult::Replan
    }

    /// Returns true if it is time to report that the pod waits for its volumes to be attached.
    fn has_waited_long(&mut self) -> bool {
        let now = self.now();
        let since = *self.state.waiting_since.get_or_insert(now);
        let long = now >= saturating_after(since, ATTACH_TIMEOUT);
        if long {
            self.state.waiting_since = Some(now);
        }
        long
    }

    async fn write_volumes(&mut self) -> Result<(), volumes::VolumeError> {
        let state = &mut *self.state;
        let (observed, memory) = (&state.observed, state.memory.as_ref());
        let tokens = &mut state.tokens;
        let warnings =
            volumes::prepare(&self.workers.context, self.node, &self.pod, observed, memory, tokens).await?;
        for warning in warnings {
            self.event(EventType::Warning, "AlreadyMountedVolume", warning);
        }
        Ok(())
    }

    pub(super) async fn run_sandbox(&mut self) -> ActionResult {
        let ips = self.state.observed.ips;
        let Some(ip) = ips.first else { return ActionResult::Replan };
        if let Err(why) = runtime_class::find_handler(&self.workers.context.api, spec::spec(&self.pod)) {
            return self.sandbox_failed(why);
        }
        let isolation = self.node.runtime.isolation();
        let namespaces = self.node.runtime.has_namespaces();
        let uid = rustix::process::geteuid().as_raw();
        let own_network =
            isolation.get(annotation::PODIUM_NETWORK).is_some_and(|network| network == "fabric");
        let settings = sysctls::SysctlSupport { root: uid == 0, own_ipc: namespaces, own_network };
        if self.state.observed.sandbox.is_some() {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            self.event(EventType::Normal, "SandboxChanged", message);
        } else if !self.node.config.hollow {
            // Events are recorded once: a recreated sandbox or a restarted kubelet has nothing new to report.
            let abilities = security::NodeAbilities { uid, namespaces };
            let ignored = security::ignored(&self.pod, abilities);
            for text in ignored.into_iter().chain(sysctls::ignored(&self.pod, settings)) {
                self.event(EventType::Warning, "SecurityContextIgnored", text);
            }
            let volumes = spec::spec(&self.pod).volumes.iter().flatten();
            let on_disk: Vec<_> =
                volumes.filter(|v| volumes::is_memory(v)).map(|v| v.name.as_str()).collect();
            if !on_disk.is_empty() && self.state.memory.is_none() {
                let message = format!(
                    "emptyDir volumes of medium Memory are on disk here, and their size limit is not \
                     enforced: {} (this node's containers have no mounts of their own)",
                    on_disk.join(", ")
                );
                self.event(EventType::Warning, "MemoryMediumIgnored", message);
            }
        }
        let services = service_names::lines_for(&self.workers.context, self.node, self.pod.namespace());
        let spec = sandbox::spec(&self.pod, (ip, ips.second), &self.node.config, &services);
        let (mut spec, warnings) = match spec {
            Ok(spec) => spec,
            Err(why) => return self.sandbox_failed(why),
        };
        spec.sysctls = sysctls::applied(&self.pod, settings);
        match self.users() {
            Ok(users) => spec.users = users,
            Err(why) => return self.sandbox_failed(why.to_owned()),
        }
        let users = spec.users;
        for warning in warnings {
            self.event(EventType::Warning, warning.reason, warning.message);
        }
        let result = self.node.runtime.run_sandbox(spec).await;
        match &result {
            Ok(record) if users.is_some() && record.spec.users.is_none() => {
                self.state.stale = true;
                let uid = self.pod.uid().to_owned();
                // It is stopped again at the next attempt if this fails.
                let _ = self.node.runtime.stop_sandbox(&uid).await;
                let why = "the node's host is of an earlier version, without user namespaces of pods \
                    (hostUsers: false): drain and restart the node";
                return self.sandbox_failed(why.to_owned());
            }
            Ok(record) => {
                if let Some(range) = record.spec.users {
                    // The node may have created the sandbox in an attempt of which this process got no answer.
                    self.workers.context.id_ranges.reserve(self.pod.uid(), range);
                }
                self.state.observed.sandbox = Some(record.clone());
            }
            Err(error) => {
                self.state.stale = true;
                if users.is_some() {
                    // A pod of another cluster may have these ids by now.
                    self.workers.context.id_ranges.release(self.pod.uid());
                }
                let message = format!("Failed to create pod sandbox: {error}");
                self.event(EventType::Warning, "FailedCreatePodSandBox", message);
            }
        }
        super::after(result.map(drop))
    }

    /// Reports the reason why the pod has no sandbox.
    fn sandbox_failed(&self, why: String) -> ActionResult {
        let message = format!("Failed to create pod sandbox: {why}");
        self.event(EventType::Warning, "FailedCreatePodSandBox", message);
        ActionResult::Failed(why)
    }

    /// Returns the ids of the pod's own user namespace, if it has one.
    fn users(&self) -> Result<Option<IdRange>, &'static str> {
        if spec::spec(&self.pod).host_users != Some(false) || self.node.config.hollow {
            return Ok(None);
        }
        let range = self.workers.context.id_ranges.take(self.pod.uid());
        range.map(Some).ok_or("could not find an empty slot to allocate a user namespace")
    }
}
