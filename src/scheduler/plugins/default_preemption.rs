//! DefaultPreemption: says why evicting pods of lower priority would not make room, where it would not.
//!
//! It evicts nobody: a pod that others would have to make room for waits until they go.

use std::collections::BTreeMap;

use crate::scheduler::framework::{Plugin, PluginId, Unfit};
use crate::scheduler::message::node_reasons;
use crate::scheduler::reason::Reason;

/// See the file's head.
pub(super) struct DefaultPreemption;

impl Plugin for DefaultPreemption {
    fn id(&self) -> PluginId {
        PluginId::DefaultPreemption
    }

    fn post_filter(&self, unfit: &Unfit<'_>) -> Option<String> {
        let spec = unfit.pod.pod.spec.as_ref();
        if spec.and_then(|s| s.preemption_policy.as_deref()) == Some("Never") {
            return Some("preemption: not eligible due to preemptionPolicy=Never.".into());
        }
        let mut reasons: BTreeMap<Reason, usize> = BTreeMap::new();
        for (node, refusal) in unfit.snapshot.nodes().iter().zip(unfit.refusals) {
            let reason = if refusal.as_ref().is_none_or(|refusal| !refusal.resolvable) {
                Reason::PreemptionNotHelpful
            } else if node.pods.iter().all(|pod| pod.priority >= unfit.pod.priority) {
                Reason::NoVictims
            } else {
                // There is somebody to evict here: nothing is to be said against preemption.
                return None;
            };
            *reasons.entry(reason).or_default() += 1;
        }
        Some(format!("preemption: {}", node_reasons(unfit.refusals.len(), &reasons)))
    }
}
