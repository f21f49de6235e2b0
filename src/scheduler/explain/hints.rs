//! Hints: for each node the changes that would resolve every refusal, smallest first.
//!
//! Hints are derived from the refusals, not by trying changes: they name every obstacle on a node, with its amount.

use super::volume_changes;
use crate::explain::required_change::RequiredChange;
use crate::explain::verdict_table::{Row, VerdictTable};
use crate::framework::PluginId;
use crate::reason::Reason;
use crate::state::node_info::{NodeInfo, NodeName};
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use base::sort::SliceOrder;
use object::taint::{self, untolerated};

/// The maximum number of distinct hints per pod.
const MAX_HINTS: usize = 3;

/// All changes that one node needs to take the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) node: NodeName,
    /// The changes: at least one.
    pub(crate) changes: Vec<RequiredChange>,
    /// The number of other nodes that need the same changes.
    pub(crate) alike: usize,
}

/// Returns the hints with the least effort, smallest first; nodes that need the same changes share one hint.
pub(crate) fn hints(pod: &PodInfo, snapshot: &Snapshot, table: &VerdictTable) -> Vec<Hint> {
    let needs = |(position, row): (usize, Row<'_>)| {
        let changes = changes(pod, snapshot, &snapshot.nodes()[position], row);
        let effort: u32 = changes.iter().map(RequiredChange::effort).sum();
        let amount: i64 = changes.iter().map(RequiredChange::amount).sum();
        (!changes.is_empty()).then_some((effort, amount, position, changes))
    };
    let mut found: Vec<(u32, i64, usize, Vec<RequiredChange>)> =
        table.rows().enumerate().filter_map(needs).collect();
    found.order_by_key(|(effort, amount, position, _)| (*effort, *amount, *position));
    let mut retained: Vec<Hint> = Vec::new();
    for (_, _, position, changes) in found {
        if let Some(same) = retained.iter_mut().find(|known| known.changes == changes) {
            same.alike += 1;
        } else if retained.len() < MAX_HINTS {
            retained.push(Hint { node: snapshot.nodes()[position].name.clone(), changes, alike: 0 });
        }
    }
    retained
}

fn changes(pod: &PodInfo, snapshot: &Snapshot, node: &NodeInfo, row: Row<'_>) -> Vec<RequiredChange> {
    let mut changes = Vec::new();
    for (plugin, refusal) in row.verdicts() {
        for reason in refusal.iter().flat_map(|refusal| refusal.reasons.as_slice()) {
            match reason {
                Reason::Spread => changes.extend(skews(pod, snapshot, node)),
                reason => changes.extend(change(pod, snapshot, node, plugin, reason)),
            }
        }
    }
    changes.dedup();
    changes
}

fn change(
    pod: &PodInfo,
    snapshot: &Snapshot,
    node: &NodeInfo,
    plugin: PluginId,
    reason: &Reason,
) -> Option<RequiredChange> {
    Some(match reason {
        Reason::Unschedulable => RequiredChange::Uncordon,
        Reason::Taint { .. } => {
            RequiredChange::RemoveTaint(taint::text(untolerated(&node.taints, pod.tolerations())?))
        }
        Reason::Insufficient(resource) => {
            let (requested, has) = (pod.requests.amount(resource), node.allocatable.amount(resource));
            if requested > has {
                RequiredChange::Enlarge { resource: resource.clone(), missing: requested - has, has }
            } else {
                RequiredChange::Free(resource.clone(), requested - (has - node.requested.amount(resource)))
            }
        }
        Reason::TooManyPods => RequiredChange::RemoveAnyPod,
        Reason::Ports => {
            let taken = pod.ports.iter().find(|port| node.ports.iter().any(|other| port.conflicts(other)))?;
            RequiredChange::FreePort(taken.port)
        }
        Reason::NodeAffinity => match pod.required_nodes.missing_labels(&node.node) {
            missing if missing.is_empty() => RequiredChange::MeetNodeAffinity,
            missing => RequiredChange::AddLabels(missing.join(",")),
        },
        Reason::EnforcedNodeAffinity | Reason::AffinityConflict => RequiredChange::MeetNodeAffinity,
        Reason::SpreadLabelMissing => {
            let missing = pod.spread.iter().filter(|s| s.required && node.label(&s.topology_key).is_none());
            RequiredChange::Label(missing.map(|spread| spread.topology_key.clone()).next()?)
        }
        Reason::PodAffinity => {
            let keys = || pod.affinity.required.iter().map(|key| key.topology.clone());
            if let Some(missing) = keys().find(|key| node.label(key).is_none()) {
                RequiredChange::Label(missing)
            } else {
                RequiredChange::PlaceMatchingPod(keys().next()?)
            }
        }
        Reason::PodAntiAffinity => {
            let counts = snapshot.counts();
            let crowded = pod.affinity.forbidden.iter().find(|key| {
                let domain_count = counts.domain_count(key);
                node.domains
                    .get(domain_count.topology())
                    .is_some_and(|domain| domain_count.pods_in(domain) > 0)
            });
            RequiredChange::RemoveConflictingPods(crowded?.topology.clone())
        }
        Reason::ExistingAntiAffinity => {
            let counts = snapshot.counts();
            let shunning = counts.existing_terms().iter().find(|counted| {
                counted.term.pods.matches(&pod.pod, counts.namespaces())
                    && node.domains.get(counted.topology).is_some_and(|domain| counted.pods_in(domain) > 0)
            });
            RequiredChange::RemoveConflictingPods(shunning?.term.topology.clone())
        }
        Reason::NodeName => RequiredChange::ChangeNodeName,
        Reason::NotNamedBy(_) if plugin == PluginId::NodeAffinity => RequiredChange::MeetNodeAffinity,
        Reason::Claim(_)
        | Reason::ClaimInUse
        | Reason::UnboundClaims
        | Reason::VolumeNodeAffinityConflict
        | Reason::VolumeZone
        | Reason::NoVolumeToBind
        | Reason::VolumeMissing => return volume_changes::change(pod, snapshot, node, reason),
        Reason::NotNamedBy(_) | Reason::Spread | Reason::PreemptionNotHelpful | Reason::NoVictims => {
            return None;
        }
    })
}

/// Returns, for every constraint that the pod would violate on the node, the resulting skew.
fn skews(pod: &PodInfo, snapshot: &Snapshot, node: &NodeInfo) -> Vec<RequiredChange> {
    let required = pod.spread.iter().filter(|spread| spread.required);
    let broken = required.filter_map(|spread| {
        let domain_count = snapshot.counts().domain_count(&spread.domain_count);
        let there = domain_count.pods_in(node.domains.get(domain_count.topology())?);
        let enough = domain_count.domain_count() >= spread.min_domains;
        let fewest = if enough { domain_count.suppose().fewest() } else { 0 };
        let skew = there + i64::from(spread.counts_itself) - fewest;
        (skew > spread.max_skew).then(|| RequiredChange::RaiseMaxSkew(spread.topology_key.clone(), skew))
    });
    broken.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::test_cluster::Cluster;
    use crate::test_objects::{asking, node, sized_node};

    /// Returns the hints for the pod `p` after its attempt, as `node: change and change`.
    fn hints(cluster: &mut Cluster, spec: Value) -> Vec<String> {
        cluster.pod("p", spec);
        assert!(cluster.step().starts_with("p: 0/"));
        let verdict = cluster.verdicts.lock().get("p").unwrap();
        let describe = |hint: &super::Hint| {
            let changes: Vec<String> = hint.changes.iter().map(ToString::to_string).collect();
            let alike = if hint.alike > 0 { format!(" +{}", hint.alike) } else { String::new() };
            format!("{}{alike}: {}", hint.node, changes.join(" and "))
        };
        verdict.hints.iter().map(describe).collect()
    }

    #[test]
    fn the_smallest_change_that_would_make_it_fit_comes_first_con_9() {
        let cordoned = node(json!({"metadata": {"name": "cordoned"}, "spec": {"unschedulable": true},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}));
        let tainted = node(json!({"metadata": {"name": "tainted"},
            "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}));
        let mut cluster =
            Cluster::new(&[sized_node("small", "1"), sized_node("busy", "2"), cordoned, tainted]);
        cluster.placed("there", "busy", json!({"spec": asking("1500m")}));
        assert_eq!(
            hints(&mut cluster, asking("2")),
            [
                "cordoned: uncordon the node",
                "tainted: remove the taint gpu=yes:NoSchedule, or tolerate it",
                "busy: free 1500m cpu",
            ]
        );
        // Several changes on one node are all named; a node that is too small as a whole comes last.
        let mut cluster = Cluster::new(&[sized_node("small", "1")]);
        let mut spec = asking("1500m");
        spec["nodeSelector"] = json!({"disk": "ssd"});
        assert_eq!(
            hints(&mut cluster, spec),
            ["small: label the node disk=ssd and request at most 1 cpu, all that the node has"]
        );
        // Nodes with equal hints are summarized.
        let nodes: Vec<_> = (0..40).map(|n| sized_node(&format!("n{n:02}"), "1")).collect();
        let mut cluster = Cluster::new(&nodes);
        assert_eq!(
            hints(&mut cluster, asking("2")),
            ["n00 +39: request at most 1 cpu, all that the node has"]
        );
    }

    #[test]
    fn spreading_and_shunning_say_by_how_much_and_where_con_9() {
        let labelled = |name: &str, zone: &str| {
            node(json!({"metadata": {"name": name, "labels": {"zone": zone}},
                "spec": {"unschedulable": zone == "b"},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}))
        };
        let mut cluster = Cluster::new(&[labelled("a1", "a"), labelled("b1", "b")]);
        let web = json!({"metadata": {"labels": {"app": "web"}}});
        for name in ["w1", "w2"] {
            cluster.placed(name, "a1", web.clone());
        }
        let selector = json!({"matchLabels": {"app": "web"}});
        let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]});
        // Zone b has none: two in a are a skew of 2 already, for a pod that does not count itself.
        assert_eq!(hints(&mut cluster, spread), ["b1: uncordon the node", "a1: raise maxSkew of zone to 2"]);
        let mut cluster = Cluster::new(&[labelled("a1", "a")]);
        cluster.placed("w1", "a1", web);
        let term = json!([{"topologyKey": "zone", "labelSelector": selector}]);
        let mut shuns = json!({});
        shuns["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = term;
        assert_eq!(
            hints(&mut cluster, shuns),
            ["a1: remove the pods that anti-affinity excludes from the node's zone"]
        );
        let mut seeks = json!({});
        seeks["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!([{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]);
        assert_eq!(
            hints(&mut cluster, seeks),
            ["a1: run a pod that matches the pod affinity in the node's zone"]
        );
    }

    #[test]
    fn a_pods_volumes_say_what_they_lack_con_9_vol_2() {
        use crate::plugins::test_volumes::{claim, volume, with_claim};
        let host = |name: &str| {
            node(
                json!({"metadata": {"name": name, "labels": {"host": name, "topology.kubernetes.io/zone": name}},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}),
            )
        };
        let bound = json!({"spec": {"volumeName": "v"}});
        let class = |name: &str| json!({"spec": {"storageClassName": name}});
        let zoned =
            json!({"metadata": {"name": "v", "labels": {"topology.kubernetes.io/zone": "b"}}, "spec": {}});
        for (claims, volumes, expected) in [
            (vec![], vec![], "n: create the claim c"),
            (
                vec![claim("c", &class("now"))],
                vec![],
                "n: create a volume of 1Gi or more of class now for the claim c",
            ),
            (
                vec![claim("c", &class("hand"))],
                vec![],
                "n: create a volume of 1Gi or more of class hand for the claim c",
            ),
            (
                vec![claim("c", &bound)],
                vec![volume("v", "1Gi", "", "elsewhere")],
                "n: label the node as the node affinity of volume v requires",
            ),
            (
                vec![claim("c", &bound)],
                vec![zoned],
                "n: move volume v here from topology.kubernetes.io/zone=b",
            ),
            (
                vec![claim("c", &bound)],
                vec![],
                "n: recreate the claim c: its volume is deleted or terminating",
            ),
        ] {
            let mut cluster = Cluster::new(&[host("n")]);
            cluster
                .class(&json!({"metadata": {"name": "hand"}, "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer"}));
            for claim in &claims {
                cluster.claim(claim);
            }
            for volume in &volumes {
                cluster.volume(volume);
            }
            assert_eq!(hints(&mut cluster, with_claim("c")), [expected]);
        }
    }
}
