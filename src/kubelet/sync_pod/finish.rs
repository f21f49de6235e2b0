//! The end of a pod on its node: its last status, its object, its address, its directories (POD-7, SAFE-1).

use super::{ActionResult, SyncPod};
use crate::mirror_pod::is_static;
use crate::observed::StopCause;
use crate::pod_workers::Outcome;
use crate::runtime::SandboxRecord;
use crate::status::StatusStage;
use crate::{logs, plan, spec, volumes};
use api::DeleteOptions;
use object::Kind;
use reconcile::ignore_gone;

impl SyncPod<'_> {
    /// Every process has exited: releases everything, the object last.
    pub(super) async fn remove(&mut self) -> ActionResult {
        let uid = self.pod.uid().to_string();
        let for_good = self.state.observed.stop.as_ref().is_some_and(|s| s.cause.removes_pod());
        if self.state.observed.shutdown && !for_good {
            match self.node.runtime.remove_sandbox(&uid).await {
                Ok(()) => self.workers.context.id_ranges.release(&uid),
                Err(error) => tracing::warn!(pod = %self.pod.key(), "cannot remove the sandbox: {error}"),
            }
            return ActionResult::End(Outcome::Released);
        }
        // The terminal phase is in the API before the object is removed (POD-1).
        if let Err(error) = self.write_status(StatusStage::Final) {
            return ActionResult::Failed(format!("cannot write the pod's last status: {error}"));
        }
        if let Err(error) = self.node.runtime.remove_sandbox(&uid).await {
            return ActionResult::Failed(format!("cannot remove the sandbox: {error}"));
        }
        volumes::remove(self.node, &self.pod).await;
        if let Err(error) = volumes::release_disks(&self.workers.context, self.node, &uid) {
            return ActionResult::Failed(format!("cannot report that the pod's disks are free: {error}"));
        }
        let waiting = self.node.admitted.lock().release(&uid);
        self.workers.resync(waiting);
        self.release_address();
        self.workers.context.id_ranges.release(&uid);
        if is_static(&self.pod) {
            if !self.remove_mirror() {
                return ActionResult::Failed("cannot remove the mirror pod".into());
            }
        } else if !self.deleted {
            let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::uid(uid.as_str()) };
            // The object is gone, or another pod has its name by now.
            if let Err(error) =
                ignore_gone(self.workers.context.api.delete(Kind::Pod, &self.pod.key(), &options))
            {
                return ActionResult::Failed(format!("cannot delete the pod object: {error}"));
            }
        }
        ActionResult::End(Outcome::Removed)
    }

    /// Releases the address and the disks of a pod that has ended for good, once the API shows its end. Until then no
    /// other pod may get the address: it would receive traffic meant for this pod.
    pub(super) fn release_shared(&self) {
        let observed = &self.state.observed;
        let ends = observed.stop.as_ref().is_some_and(|stop| stop.cause != StopCause::Shutdown);
        // The status of a static pod is that of its mirror pod.
        let is_over = is_static(&self.pod) || plan::is_terminal(&self.pod);
        if ends && is_over && !observed.sandbox.as_ref().is_some_and(SandboxRecord::is_alive) {
            self.release_address();
            if let Err(error) = volumes::release_disks(&self.workers.context, self.node, self.pod.uid()) {
                tracing::warn!(pod = %self.pod.key(), "cannot report the released disks yet: {error}");
            }
        }
    }

    fn release_address(&self) {
        if let Some(ip) = self.state.observed.ips.first {
            self.node.ips.lock().release(ip, self.pod.uid());
        }
    }

    /// Reads the last lines of the log of attempts that failed without a message, if their policy allows it (POD-9).
    pub(super) async fn read_log_messages(&mut self) {
        for (_, container) in spec::all_containers(&self.pod) {
            if container.termination_message_policy.as_deref() != Some("FallbackToLogsOnError") {
                continue;
            }
            let Some(record) = self.state.observed.latest(&container.name) else { continue };
            let silent = record
                .exit
                .as_ref()
                .is_some_and(|e| e.exit_code != 0 && e.message.as_ref().is_none_or(|m| m.trim().is_empty()));
            let id = record.id.clone();
            let memory = self.state.observed.memory(&container.name);
            if !silent || memory.log_message.as_ref().is_some_and(|(known, _)| *known == id) {
                continue;
            }
            let text = logs::termination_message(self.node.runtime.as_ref(), &id).await;
            self.state.observed.memory_mut(&container.name).log_message = Some((id, text));
        }
    }
}
