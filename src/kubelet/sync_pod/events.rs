//! Applies events to the state of a pod.

use std::time::Duration;

use super::SyncPod;
use crate::hooks::HookSuccess;
use crate::observed::{HookState, SetupState, StopCause};
use crate::plan;
use crate::pod_workers::{PodEvent, ProbeResult};
use crate::probe::{ProbeKind, ProbeOutcome};
use crate::retry::Retry;
use crate::runtime::ContainerId;
use reconcile::EventType;

impl SyncPod<'_> {
    pub(super) fn take_events(&mut self, events: Vec<PodEvent>) {
        for event in events {
            let quiet = matches!(&event, PodEvent::Probe(answer) if !self.is_news(answer));
            if !quiet {
                self.state.reported = None;
            }
            match event {
                PodEvent::Resync => self.state.stale = true,
                PodEvent::RuntimeRecovered => {
                    self.state.stale = true;
                    self.state.retry = Retry::default();
                }
                PodEvent::Refresh => {
                    self.state.refresh = true;
                    // The volumes may have waited for this change.
                    if matches!(self.state.observed.setup, SetupState::Blocked { .. }) {
                        self.state.observed.setup = SetupState::No;
                    }
                }
                PodEvent::Hook { container, id, post_start: true, result } => {
                    self.record_http_fallback(&result);
                    self.post_start_over(&container, &id, result);
                }
                PodEvent::Hook { container, id, post_start: false, result } => {
                    self.record_http_fallback(&result);
                    if result.is_err() {
                        let text = "PreStopHook failed";
                        self.container_event(&container, EventType::Warning, "FailedPreStopHook", text);
                    }
                    if let Some(stop) = self.attempt_mut(&container, &id).and_then(|a| a.stop.as_mut()) {
                        stop.pre_stop = HookState::Done;
                    }
                }
                PodEvent::Pull { user, image, state } => self.take_pull(&user, &image, state),
                PodEvent::Probe(ProbeResult { container, id, kind, outcome }) => {
                    self.probe_over(&container, &id, kind, &outcome);
                }
                PodEvent::Evict { message, grace, disrupted } => self.evict(message, grace, disrupted),
            }
        }
    }

    /// Returns true if the result of a probe changes the known state.
    fn is_news(&self, answer: &ProbeResult) -> bool {
        let attempt = self.state.observed.memory(&answer.container).current.as_ref();
        let probes = attempt.filter(|attempt| attempt.id == answer.id).map(|attempt| attempt.probes.clone());
        probes.is_some_and(|mut probes| probes.answered(answer.kind, &answer.outcome, self.now()))
    }

    /// Records that the server of a hook with scheme HTTPS has no TLS and got the request as HTTP.
    fn record_http_fallback(&self, result: &Result<HookSuccess, String>) {
        if let Ok(HookSuccess { http_fallback: Some(server) }) = result {
            let text = format!(
                "request to HTTPS lifecycle hook {server} got HTTP response, retry with HTTP succeeded"
            );
            self.event(EventType::Warning, "LifecycleHTTPFallback", text);
        }
    }

    fn post_start_over(&mut self, container: &str, id: &ContainerId, result: Result<HookSuccess, String>) {
        if let Err(message) = &result {
            tracing::debug!(pod = %self.pod.key(), container, "postStart: {message}");
            let text = "PostStartHook failed";
            self.container_event(container, EventType::Warning, "FailedPostStartHook", text);
        }
        if let Some(attempt) = self.attempt_mut(container, id) {
            attempt.post_start = result.map_or_else(HookState::Failed, |_| HookState::Done);
        }
    }

    fn probe_over(&mut self, container: &str, id: &ContainerId, kind: ProbeKind, outcome: &ProbeOutcome) {
        let runs = self.latest(container).is_some_and(|r| r.id == *id && r.exit.is_none());
        if !runs {
            return;
        }
        let now = self.now();
        let title = kind.title();
        match outcome {
            ProbeOutcome::Success => {}
            ProbeOutcome::Failure(text) => {
                let message = format!("{title} probe failed: {text}");
                self.container_event(container, EventType::Warning, "Unhealthy", message);
            }
            ProbeOutcome::Unknown(text) => {
                let message = format!("{title} probe errored and resulted in unknown state: {text}");
                self.container_event(container, EventType::Warning, "Unhealthy", message);
            }
        }
        if let Some(attempt) = self.attempt_mut(container, id) {
            attempt.probes.answered(kind, outcome, now);
        }
    }

    fn evict(&mut self, message: String, grace: Duration, disrupted: bool) {
        // A terminating container needs no restart.
        let ends = self.state.observed.stop.is_some() || self.pod.metadata.deletion_timestamp.is_some();
        if !ends && !plan::is_terminal(&self.pod) {
            self.event(EventType::Warning, "Evicted", message.clone());
            self.stop_pod(StopCause::Failed { reason: "Evicted".into(), message, disrupted }, grace);
        }
    }
}
