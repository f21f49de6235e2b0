//! A pod whose node is decided: reserved, permitted, and perhaps held, until it is bound or given up.

use std::sync::Arc;
use std::time::Duration;

use super::{Core, Step};
use crate::cycle::NominatingInfo;
use crate::framework::Attempt;
use crate::framework::End;
use crate::framework::{Permit, PluginId, PluginSet, Point};
use crate::profile::profile_of;
use crate::state::node_info::NodeName;
use crate::state::pod_info::PodInfo;
use object::Uid;

impl Core {
    /// Asks Reserve and Permit about a decided pod, whose room is taken; none when it is held back.
    pub(super) fn settle(&mut self, attempt: Attempt, node: NodeName, now: Duration) -> Option<Step> {
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
            return Some(Step::Bind { attempt, node });
        }
        self.waiting_pods.wait_on_permit(attempt, node, waits, now);
        None
    }

    /// What became of a pod that was held.
    pub(super) fn let_go(&mut self, attempt: Attempt, node: NodeName, end: End, now: Duration) -> Step {
        match end {
            End::Bind => Step::Bind { attempt, node },
            End::Rejected(by, why) => self.refused(attempt, by, &why, now),
            End::Failed(message) => {
                let pod = attempt.pod.clone();
                self.bind_failed(attempt, now);
                Step::Failed { pod, message: format!("binding rejected: {message}") }
            }
        }
    }

    /// A plugin does not let the pod go where it was to go: it waits for a change that helps.
    fn refused(&mut self, attempt: Attempt, by: PluginId, why: &str, now: Duration) -> Step {
        let pod = attempt.pod.clone();
        self.give_room_back(pod.uid(), now);
        self.queue.reject(attempt, PluginSet::default().with(by), now);
        // What the plugin keeps account of is not the cluster's: it may say otherwise next time.
        self.queue.changed(now);
        // Kubernetes tells it as the verdict on the one node that was chosen.
        let message = format!("0/1 nodes are available: 1 {why}.");
        Step::Unschedulable { pod, message, room: NominatingInfo::Unchanged, outranked: Vec::new() }
    }

    /// A decided pod waits for what it needs on its node: it is given again whenever something changed, for
    /// so long at most since it was first to be bound.
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

    /// A decided pod could not be bound: its room is free again, and it is tried again after its back-off.
    pub(crate) fn bind_failed(&mut self, attempt: Attempt, now: Duration) {
        let uid: Uid = attempt.pod.uid().to_string();
        if self.snapshot.placed(&uid).is_some_and(|placed| placed.assumed) {
            self.give_room_back(&uid, now);
        }
        self.queue.fail(attempt, now);
    }

    /// A pod does not go, or stay, where it holds room.
    pub(super) fn give_room_back(&mut self, uid: &str, now: Duration) {
        let Some(placed) = self.snapshot.remove_pod(&uid.to_string()) else { return };
        if placed.assumed {
            self.unreserve(&placed.pod, &placed.node);
        }
        self.left(&placed.node, &placed.pod, now);
    }

    /// The last plugin that set something aside for the pod is the first to give it back.
    pub(super) fn unreserve(&self, pod: &Arc<PodInfo>, node: &str) {
        let Some(profile) = profile_of(&self.profiles, pod) else { return };
        for plugin in profile.at(Point::Reserve).rev() {
            plugin.unreserve(pod, node);
        }
    }
}
