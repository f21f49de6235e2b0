//! VolumeRestrictions: a `ReadWriteOncePod` claim is used by one pod only.

use crate::framework::{ChangeType, ClusterChange, NodeCheck, Plugin, PluginId, PreFilter};
use crate::reason::{Reason, Refusal};
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use object::Key;

pub(super) struct VolumeRestrictions;

/// The pod's ReadWriteOncePod claims, and the number of uses by other pods.
struct ExclusiveClaims {
    claims: Vec<Key>,
    users: usize,
}

impl ExclusiveClaims {
    /// Returns the number of these claims that another pod uses.
    fn used_by(&self, other: &PodInfo) -> usize {
        other.claims.iter().filter(|claim| self.claims.contains(&other.claim_key(claim))).count()
    }
}

impl NodeCheck for ExclusiveClaims {
    fn check(&self, _node: &NodeInfo) -> Result<(), Refusal> {
        if self.users == 0 { Ok(()) } else { Err(Refusal::resolvable(Reason::ClaimInUse)) }
    }

    fn added(&mut self, other: &PodInfo, _node: &NodeInfo) {
        self.users += self.used_by(other);
    }

    fn removed(&mut self, other: &PodInfo, _node: &NodeInfo) {
        self.users = self.users.saturating_sub(self.used_by(other));
    }
}

impl Plugin for VolumeRestrictions {
    fn id(&self) -> PluginId {
        PluginId::VolumeRestrictions
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        let storage = snapshot.storage();
        let mut claims = Vec::new();
        for used in pod.claims.iter().filter(|used| !used.ephemeral) {
            let key = pod.claim_key(used);
            let Some(claim) = storage.claim(&key) else {
                return PreFilter::Reject(Refusal::unresolvable(Reason::claim_not_found(&key.name)));
            };
            let modes = claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
            if modes.into_iter().any(|mode| mode == "ReadWriteOncePod") {
                claims.push(key);
            }
        }
        if claims.is_empty() {
            return PreFilter::Skip;
        }
        let users = claims.iter().map(|claim| storage.users(claim)).sum();
        PreFilter::Check(Box::new(ExclusiveClaims { claims, users }))
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        &[ChangeType::PodRemoved, ChangeType::ClaimChanged]
    }

    fn is_schedulable_after(&self, pod: &PodInfo, change: &ClusterChange<'_>, _snapshot: &Snapshot) -> bool {
        match change {
            ClusterChange::PodRemoved(_, other) => {
                let other_claims: Vec<Key> =
                    other.claims.iter().map(|claim| other.claim_key(claim)).collect();
                pod.claims.iter().any(|claim| other_claims.contains(&pod.claim_key(claim)))
            }
            ClusterChange::ClaimChanged(claim) => pod.uses_claim(&claim.key()),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::plugins::test_volumes::{claim, with_claim};
    use crate::test_cluster::Cluster;
    use crate::test_objects::{named_pod, sized_node};

    const IN_USE: &str = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access \
        mode";

    #[test]
    fn a_claim_for_one_pod_is_used_by_one_pod_sch_3() {
        let mut cluster = Cluster::new(&[sized_node("a", "2"), sized_node("b", "2")]);
        let alone = json!({"spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"}});
        cluster.claim(&claim("mine", &alone));
        cluster.volume(&json!({"metadata": {"name": "v"}, "spec": {}}));
        cluster.pod("first", with_claim("mine"));
        assert!(cluster.step().starts_with("first -> "));
        cluster.pod("second", with_claim("mine"));
        assert_eq!(
            cluster.step(),
            format!(
                "second: 0/2 nodes are available: 2 {IN_USE}. preemption: 0/2 nodes are available: 2 No \
                 preemption victims found for incoming pod."
            )
        );
        cluster.after(60);
        cluster.core.pod_deleted("unknown", cluster.now);
        assert_eq!(cluster.step(), "-");
        cluster.core.pod_deleted("first", cluster.now);
        assert!(cluster.step().starts_with("second -> "));
    }

    #[test]
    fn a_more_important_pod_gets_the_claim_sch_8() {
        let mut cluster = Cluster::new(&[sized_node("a", "2"), sized_node("b", "2")]);
        let alone = json!({"spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"}});
        cluster.claim(&claim("mine", &alone));
        cluster.volume(&json!({"metadata": {"name": "v"}, "spec": {}}));
        let mut low = with_claim("mine");
        low["nodeName"] = json!("b");
        cluster.core.pod_changed(named_pod("low", low), cluster.now);
        let mut high = with_claim("mine");
        high["priority"] = json!(10);
        cluster.pod("high", high);
        assert_eq!(cluster.step(), "high evicts low from b");
        let nominated = cluster.core.snapshot().nominated().node_of("high").map(ToString::to_string);
        assert_eq!(nominated.as_deref(), Some("b"), "the nominated node is the one that uses the claim");
    }
}
