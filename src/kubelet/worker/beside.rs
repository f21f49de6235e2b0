//! What runs beside a pass because it takes long: hooks and probes. Their end is a note.

use jiff::Timestamp;

use super::{After, Pass};
use crate::base::clock::saturating_after;
use crate::kubelet::observed::HookState;
use crate::kubelet::runtime::ContainerId;
use crate::kubelet::sync_loop::{Answer, Note};
use crate::kubelet::{hooks, probe, spec};

impl Pass<'_> {
    pub(super) fn pre_stop(&mut self, name: &str, id: &ContainerId, deadline: Timestamp) -> After {
        let Some((_, container)) = spec::container(&self.pod, name) else { return After::Next };
        let container = container.into_owned();
        let hook = container.lifecycle.as_ref().and_then(|l| l.pre_stop.clone());
        if let Some(stop) = self.attempt_mut(name, id).and_then(|a| a.stop.as_mut()) {
            stop.pre_stop = HookState::Running;
        }
        let Some(hook) = hook else { return After::Next };
        let limit = crate::base::clock::until(self.now(), deadline);
        let target = self.target(id.clone());
        self.beside(name, id, false, async move { hooks::run(&target, &container, &hook, limit).await });
        After::Next
    }

    /// Runs a hook beside the pass; its end is a note.
    pub(super) fn beside(
        &self,
        name: &str,
        id: &ContainerId,
        post_start: bool,
        hook: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let (engine, uid) = (self.engine.clone(), self.pod.uid().to_string());
        let (container, id) = (name.to_string(), id.clone());
        self.node.tasks.spawn("hook", async move {
            let result = hook.await;
            engine.note(&uid, Note::Hook { container, id, post_start, result });
        });
    }

    pub(super) fn ask_probe(&mut self, name: &str, id: ContainerId, kind: probe::ProbeKind) {
        if let Some(attempt) = self.attempt_mut(name, &id) {
            attempt.probes.asked(kind);
        }
        let target = self.target(id.clone());
        let now = self.engine.clock.both();
        let started_at = self.latest(name).map_or(now.steady, |record| now.steady_of(record.started_at));
        let blameless_until = saturating_after(started_at, self.engine.timings.pod_relist.0);
        let (engine, pod, name) = (self.engine.clone(), self.pod.clone(), name.to_string());
        self.node.tasks.spawn("probe", async move {
            let container = spec::container(&pod, &name).map(|(_, container)| container);
            let asked = container.as_ref().and_then(|container| Some((container, kind.of(container)?)));
            let outcome = match asked {
                Some((container, asked)) => {
                    let ask = || probe::check::ask(&target, container, asked);
                    probe::early::ask(&engine.clock, asked, blameless_until, ask).await
                }
                None => probe::ProbeOutcome::Success,
            };
            engine.answered(&pod.uid().to_string(), Answer { container: name, id, kind, outcome });
        });
    }

    pub(super) fn target(&self, id: ContainerId) -> probe::check::Target {
        probe::check::Target {
            runtime: self.node.runtime.clone(),
            id,
            place: probe::check::Place {
                ip: self.state.observed.ip.unwrap_or(self.node.config.ip),
                low_ports: self.node.config.low_ports,
            },
            hollow: self.node.config.hollow,
        }
    }
}
