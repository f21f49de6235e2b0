//! Leads a pod with a decided node through Reserve, Permit and the wait for its plugins, until it is bound or given up.

use std::sync::Arc;
use std::time::Duration;

use super::{Core, CoreAction};
use crate::cycle::NominatingInfo;
use crate::framework::Attempt;
use crate::framework::WaitOutcome;
use crate::framework::{Permit, PluginId, PluginSet, Point};
use crate::profile::profile_of;
use crate::state::node_info::NodeName;
use crate::state::pod_info::PodInfo;
use object::Uid;

impl Core {
    /// Runs Reserve and Permit for a decided pod with assumed resources; `None` if it has to wait.
    pub(super) fn reserve_and_permit(
        &mut self,
        attempt: Attempt,
        node: NodeName,
        now: Duration,
    ) -> Option<CoreAction> {
        let (profiles, pod) = (self.profiles.clone(), attempt.pod.clone());
        let profile = profile_of(&profiles, &pod)?;
        let info = self.snapshot.node(&node)?;
        for plugin in profile.at(Point::Reserve) {
            if let Err(why) = plugin.reserve(&pod, info) {
                return Some(self.refused(attempt, plugin.id(), &why, now));
            }
        }
        let mut waits = Vec::new();
        for plugin in profile.at(Point::Permit) {
            match plugin.permit(&pod, info, &mut self.waiting_pods) {
                Permit::Allow => {}
                Permit::Refuse(why) => return Some(self.refused(attempt, plugin.id(), &why, now)),
                Permit::Wait(timeout) => waits.push((plugin.id(), timeout)),
            }
        }
        if waits.is_empty() {
            return Some(CoreAction::Bind { attempt, node });
        }
        self.waiting_pods.wait_on_permit(attempt, node, waits, now);
        None
    }

    /// Returns the action for a pod that has finished waiting.
    pub(super) fn finish_waiting(
        &mut self,
        attempt: Attempt,
        node: NodeName,
        end: WaitOutcome,
        now: Duration,
    ) -> CoreAction {
        match end {
            WaitOutcome::Bind => CoreAction::Bind { attempt, node },
            WaitOutcome::Rejected(by, why) => self.refused(attempt, by, &why, now),
            WaitOutcome::Failed(message) => {
                let pod = attempt.pod.clone();
                self.bind_failed(attempt, now);
                CoreAction::Failed { pod, message: format!("binding rejected: {message}") }
            }
        }
    }

    /// Handles a plugin's refusal after the decision: the pod waits for a change that helps.
    fn refused(&mut self, attempt: Attempt, by: PluginId, reason: &str, now: Duration) -> CoreAction {
        let pod = attempt.pod.clone();
        self.release_assumed(pod.uid(), now);
        self.queue.reject(attempt, PluginSet::default().with(by), now);
        // The plugin may decide otherwise without a change of the cluster, because it has records of its own. So the
        // flush must try the pod again.
        self.queue.changed(now);
        // Kubernetes reports the refusal as the verdict on one node, the chosen one.
        let message = format!("0/1 nodes are available: 1 {reason}.");
        CoreAction::Unschedulable {
            pod,
            message,
            nomination: NominatingInfo::Unchanged,
            outranked: Vec::new(),
        }
    }

    /// Makes a decided pod wait in PreBind: the pod is checked again after every change, until the timeout, counted
    /// from its first check, has passed.
    pub(crate) fn bind_later(
        &mut self,
        mut attempt: Attempt,
        node: NodeName,
        timeout: Duration,
        now: Duration,
    ) {
        let until = *attempt.bind_by.get_or_insert(now + timeout);
        self.waiting_pods.wait_on_pre_bind(attempt, node, until);
    }

    /// Handles a failed binding: frees the assumed resources and tries the pod again after its back-off.
    pub(crate) fn bind_failed(&mut self, attempt: Attempt, now: Duration) {
        let uid: Uid = attempt.pod.uid().to_string();
        if self.snapshot.placed(&uid).is_some_and(|placed| placed.assumed) {
            self.release_assumed(&uid, now);
        }
        self.queue.fail(attempt, now);
    }

    /// Removes a pod from the node on which it was assumed or placed, and frees its resources.
    pub(super) fn release_assumed(&mut self, uid: &str, now: Duration) {
        let Some(placed) = self.snapshot.remove_pod(&uid.to_string()) else { return };
        if placed.assumed {
            self.unreserve(&placed.pod, &placed.node);
        }
        self.remove_pod_from_node(&placed.node, &placed.pod, now);
    }

    /// Runs Unreserve in the reverse order of Reserve.
    pub(super) fn unreserve(&self, pod: &Arc<PodInfo>, node: &str) {
        let Some(profile) = profile_of(&self.profiles, pod) else { return };
        for plugin in profile.at(Point::Reserve).rev() {
            plugin.unreserve(pod, node);
        }
    }
}
