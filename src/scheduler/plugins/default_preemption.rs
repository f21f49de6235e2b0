//! DefaultPreemption: tells whether evicting pods of lower priority could make room.

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
            let reason = match refusal {
                Some(refusal) if refusal.resolvable => {
                    if node.pods.iter().all(|pod| pod.priority >= unfit.pod.priority) {
                        Reason::NoVictims
                    } else {
                        // Room could be made: the pod waits for it like for any other.
                        continue;
                    }
                }
                _ => Reason::PreemptionNotHelpful,
            };
            *reasons.entry(reason).or_default() += 1;
        }
        Some(format!("preemption: {}", node_reasons(unfit.refusals.len(), &reasons)))
    }
}
