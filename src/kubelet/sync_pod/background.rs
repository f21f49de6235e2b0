//! Runs the long tasks beside a pass: hooks and probes. The end of a task is an event.

use jiff::Timestamp;

use super::{ActionResult, SyncPod};
use crate::hooks::{self, HookSuccess};
use crate::observed::HookState;
use crate::pod_workers::{PodEvent, ProbeResult};
use crate::runtime::ContainerId;
use crate::{probe, spec};
use base::clock::saturating_after;

impl SyncPod<'_> {
    pub(super) fn pre_stop(&mut self, name: &str, id: &ContainerId, deadline: Timestamp) -> ActionResult {
        let Some((_, container)) = spec::container(&self.pod, name) else { return ActionResult::Next };
        let container = container.into_owned();
        let hook = container.lifecycle.as_ref().and_then(|l| l.pre_stop.clone());
        if let Some(stop) = self.attempt_mut(name, id).and_then(|a| a.stop.as_mut()) {
            stop.pre_stop = HookState::Running;
        }
        let Some(hook) = hook else { return ActionResult::Next };
        let limit = base::clock::until(self.now(), deadline);
        let target = self.target(id.clone());
        self.in_background(
            name,
            id,
            false,
            async move { hooks::run(&target, &container, &hook, limit).await },
        );
        ActionResult::Next
    }

    /// Runs a hook beside the pass; the end of the hook is an event.
    pub(super) fn in_background(
        &self,
        name: &str,
        id: &ContainerId,
        post_start: bool,
        hook: impl Future<Output = Result<HookSuccess, String>> + Send + 'static,
    ) {
        let (workers, uid) = (self.workers.clone(), self.pod.uid().to_string());
        let (container, id) = (name.to_string(), id.clone());
        self.node.tasks.spawn("hook", async move {
            let result = hook.await;
            workers.push_event(&uid, PodEvent::Hook { container, id, post_start, result });
        });
    }

    pub(super) fn start_probe(&mut self, name: &str, id: ContainerId, kind: probe::ProbeKind) {
        if let Some(attempt) = self.attempt_mut(name, &id) {
            attempt.probes.probe_started(kind);
        }
        let target = self.target(id.clone());
        let now = self.workers.context.clock.both();
        let started_at = self.latest(name).map_or(now.steady, |record| now.steady_of(record.started_at));
        let blameless_until =
            saturating_after(started_at, self.workers.context.timings.probe_relist_tolerance.0);
        let (workers, pod, name) = (self.workers.clone(), self.pod.clone(), name.to_string());
        let node = self.node.clone();
        self.node.tasks.spawn("probe", async move {
            let container = spec::container(&pod, &name).map(|(_, container)| container);
            let probed = container.as_ref().and_then(|container| Some((container, kind.of(container)?)));
            let outcome = match probed {
                Some(_)
                    if kind == probe::ProbeKind::Readiness
                        && !target.runtime.is_ready(&pod.uid().to_string()) =>
                {
                    probe::ProbeOutcome::Failure("the hollow pod was set to not ready".into())
                }
                Some((container, probe)) => {
                    let probe_once = || probe::check::run_probe(&target, container, probe);
                    probe::first_probe::run_first_probe(
                        &workers.context.clock, probe, blameless_until, probe_once,
                    )
                    .await
                }
                None => probe::ProbeOutcome::Success,
            };
            node.counts.probed(outcome == probe::ProbeOutcome::Success);
            workers.answered(&pod.uid().to_string(), ProbeResult { container: name, id, kind, outcome });
        });
    }

    pub(super) fn target(&self, id: ContainerId) -> probe::check::Target {
        probe::check::Target {
            runtime: self.node.runtime.clone(),
            id,
            endpoint: probe::check::PodEndpoint {
                ip: self.state.observed.ips.first.unwrap_or(self.node.config.ip),
                low_ports: self.node.config.low_ports,
            },
            hollow: self.node.config.hollow,
        }
    }
}
