//! Decides which nodes should run: the counted ones, those of the config file, and those that Node objects request
//! (NODE-6). Decides purely; `follow` starts and ends the nodes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Taint};

use crate::node_settings::{NodeCounts, NodeSettings};
use base::sort::CollectMap;
use object::owner::is_terminating;
use object::quantity::ResourceList;
use object::well_known::annotation::{PODIUM_CAPACITY, PODIUM_NODE};

/// The origin of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A counted node, with this index.
    Count(usize),
    /// An entry of the config file that is not a counted node.
    File,
    /// Its Node object.
    Object,
}

/// A node that should run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DesiredNode {
    pub(super) name: String,
    pub(super) origin: Origin,
    /// True if the node runs no processes.
    pub(super) hollow: bool,
    /// Resources that replace or extend the default capacity of a process node or hollow node.
    pub(super) capacity: ResourceList,
    /// The taints with which the node registers.
    pub(super) taints: Vec<Taint>,
}

/// The name of a counted node.
pub(super) fn counted_name(hollow: bool, index: usize) -> String {
    if hollow { format!("hollow-{:05}", index + 1) } else { format!("node-{}", index + 1) }
}

/// The nodes that flags and config file declare, each once.
pub(super) fn declared(counts: NodeCounts, settings: &[NodeSettings]) -> Vec<DesiredNode> {
    let by_name: BTreeMap<&str, &NodeSettings> = settings.iter().map(|s| (s.name.as_str(), s)).collect_map();
    let desired = |name: String, origin: Origin, hollow: bool| {
        let configured = by_name.get(name.as_str());
        DesiredNode {
            capacity: configured.map(|s| s.capacity.clone()).unwrap_or_default(),
            taints: configured.map(|s| s.taints.clone()).unwrap_or_default(),
            name,
            origin,
            hollow,
        }
    };
    let counted = |hollow: bool, count: usize| {
        (0..count).map(move |index| (counted_name(hollow, index), Origin::Count(index), hollow))
    };
    let mut all: Vec<DesiredNode> = counted(false, counts.nodes)
        .chain(counted(true, counts.hollow))
        .map(|(name, origin, hollow)| desired(name, origin, hollow))
        .collect();
    let known: BTreeSet<String> = all.iter().map(|w| w.name.clone()).collect();
    let named = settings.iter().filter(|s| !known.contains(&s.name));
    all.extend(named.map(|s| desired(s.name.clone(), Origin::File, s.hollow == Some(true))));
    all
}

/// The node that a Node object requests.
pub(super) fn requested_node(node: &Node) -> Option<DesiredNode> {
    if is_terminating(&node.metadata) {
        return None;
    }
    let annotations = node.metadata.annotations.as_ref()?;
    let hollow = match annotations.get(PODIUM_NODE)?.as_str() {
        "process" => false,
        "hollow" => true,
        _ => return None,
    };
    let status = node.status.as_ref();
    let capacity = match annotations.get(PODIUM_CAPACITY).and_then(|text| base::json::from_str(text).ok()) {
        Some(first) => first,
        // Once a kubelet has reported, the status has the kubelet's values, not the requested ones.
        None if has_kubelet_reported(node) => ResourceList::new(),
        None => status.and_then(|s| s.capacity.clone()).unwrap_or_default(),
    };
    let name = node.metadata.name.clone()?;
    Some(DesiredNode { name, origin: Origin::Object, hollow, capacity, taints: Vec::new() })
}

/// Returns true if a kubelet has written the status. The presence of `nodeInfo` does not show it, since the API and Go
/// clients write one with empty strings.
fn has_kubelet_reported(node: &Node) -> bool {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.is_some_and(|info| !info.kubelet_version.is_empty())
}

/// The parts of a Node object that the decision needs.
#[derive(Clone, Debug)]
pub(super) struct ObservedNode {
    pub(super) uid: String,
    pub(super) requested: Option<DesiredNode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeStage {
    /// The node runs; `uid` is that of the Node object at its registration.
    Running { uid: String },
    /// The node is being started or ended, or waits for a retry.
    Busy,
}

/// A node that was started and has not ended.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) stage: NodeStage,
    pub(super) hollow: bool,
    pub(super) origin: Origin,
}

/// The cause of a node's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCause {
    /// The node's object was deleted.
    Deleted,
    /// Neither flags nor config file declare it any more.
    Dropped,
}

/// The next action for a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeAction {
    /// Start this node.
    Start(DesiredNode),
    /// End the node of this name.
    End(String, EndCause),
}

/// The steps from the running nodes to the desired ones.
///
/// `abandoned` are declared nodes whose objects were deleted. They do not run again before the next start of the
/// control plane, like a machine whose kubelet is not restarted, unless an object requests them.
pub(super) fn steps(
    declared: &[DesiredNode],
    abandoned: &BTreeSet<String>,
    objects: &BTreeMap<String, ObservedNode>,
    members: &BTreeMap<String, Member>,
) -> Vec<NodeAction> {
    let asking = objects.values().filter_map(|seen| seen.requested.as_ref());
    let mut desired: BTreeMap<&str, &DesiredNode> = asking.map(|w| (w.name.as_str(), w)).collect_map();
    desired.extend(declared.iter().filter(|w| !abandoned.contains(&w.name)).map(|w| (w.name.as_str(), w)));

    let mut steps = Vec::new();
    for (name, member) in members {
        let NodeStage::Running { uid } = &member.stage else { continue };
        let here = objects.get(name).is_some_and(|seen| seen.uid == *uid);
        let desired = desired.get(name.as_str());
        // For a node that an object requests, the kind of the first request stays in force.
        let another = |w: &DesiredNode| w.hollow != member.hollow && member.origin != Origin::Object;
        if !here {
            steps.push(NodeAction::End(name.clone(), EndCause::Deleted));
        } else if member.origin != Origin::Object && desired.is_none_or(|w| another(w)) {
            steps.push(NodeAction::End(name.clone(), EndCause::Dropped));
        }
    }
    let missing = desired.values().filter(|w| !members.contains_key(&w.name));
    steps.extend(missing.map(|w| NodeAction::Start((*w).clone())));
    steps
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NONE: NodeCounts = NodeCounts { nodes: 0, hollow: 0 };

    fn settings(text: &str) -> Vec<NodeSettings> {
        let named = |name: &str| {
            let (name, hollow) = name.strip_suffix('~').map_or((name, None), |name| (name, Some(true)));
            NodeSettings { name: name.into(), hollow, ..NodeSettings::default() }
        };
        text.split_whitespace().map(named).collect()
    }

    fn object(name: &str, requested: Option<&str>) -> Node {
        let annotations = requested.map(|how| json!({PODIUM_NODE: how})).unwrap_or_default();
        serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations}})).unwrap()
    }

    /// Parses `name:uid` words; `?` after the name marks an object that requests a node, `~` a hollow one.
    fn objects(text: &str) -> BTreeMap<String, ObservedNode> {
        let seen = |entry: &str| {
            let (name, uid) = entry.split_once(':').unwrap();
            let how = if name.ends_with('~') { "hollow" } else { "process" };
            let bare = name.trim_end_matches(['~', '?']);
            let requested = name.contains('?').then(|| requested_node(&object(bare, Some(how))).unwrap());
            (bare.to_string(), ObservedNode { uid: uid.into(), requested })
        };
        text.split_whitespace().map(seen).collect()
    }

    /// Parses members in the same form; the uid `-` means that the member is busy.
    fn members(text: &str) -> BTreeMap<String, Member> {
        let member = |entry: &str| {
            let (name, uid) = entry.split_once(':').unwrap();
            let bare = name.trim_end_matches(['~', '?']);
            let origin = if name.contains('?') { Origin::Object } else { Origin::File };
            let stage = if uid == "-" { NodeStage::Busy } else { NodeStage::Running { uid: uid.into() } };
            (bare.to_string(), Member { stage, hollow: name.ends_with('~'), origin })
        };
        text.split_whitespace().map(member).collect()
    }

    #[test]
    fn counted_and_named_nodes_are_declared_once_node_6() {
        let counts = NodeCounts { nodes: 2, hollow: 1 };
        let all = declared(counts, &settings("gpu node-2 pretend~ hollow-00001"));
        let described: Vec<String> = all
            .iter()
            .map(|w| format!("{}{} {:?}", w.name, if w.hollow { "~" } else { "" }, w.origin))
            .collect();
        let expected =
            ["node-1 Count(0)", "node-2 Count(1)", "hollow-00001~ Count(0)", "gpu File", "pretend~ File"];
        assert_eq!(described, expected);
    }

    #[test]
    fn nodes_follow_file_and_objects_node_6_node_5() {
        for (case, file, given_up, seen, running, expected) in [
            ("a name is added", "a b", "", "a:1", "a:1", "+b"),
            ("a name is removed", "a", "", "a:1 b:2", "a:1 b:2", "-b Dropped"),
            ("an object is deleted", "a b", "", "a:1", "a:1 b:2", "-b Deleted"),
            ("it stays away", "a b", "b", "a:1", "a:1", ""),
            ("until an object asks for it", "a b", "b", "a:1 b?:3", "a:1", "+b"),
            ("busy nodes are left alone", "a", "", "b?:2", "a:- b?:-", ""),
            ("an object asks", "", "", "x?:1", "", "+x"),
            ("a hollow one too", "", "", "x?~:1", "", "+x~"),
            ("it asks no more, but runs", "", "", "x:1", "x?:1", ""),
            ("it is deleted", "", "", "", "x?:1", "-x Deleted"),
            ("it was replaced", "", "", "x?:2", "x?:1", "-x Deleted"),
            ("a foreign kubelet", "", "", "x:1", "", ""),
            ("named by the file as well", "x", "", "x?:1", "x?:1", ""),
            ("the file names an object's node, then no more", "", "", "x?:1", "x:1", ""),
            ("it becomes hollow", "a~", "", "a:1", "a:1", "-a Dropped"),
        ] {
            let given_up = given_up.split_whitespace().map(str::to_string).collect();
            let steps = steps(&declared(NONE, &settings(file)), &given_up, &objects(seen), &members(running));
            let described: Vec<String> = steps
                .iter()
                .map(|step| match step {
                    NodeAction::Start(desired) => {
                        format!("+{}{}", desired.name, if desired.hollow { "~" } else { "" })
                    }
                    NodeAction::End(name, cause) => format!("-{name} {cause:?}"),
                })
                .collect();
            assert_eq!(described.join(" "), expected, "{case}");
        }
    }

    #[test]
    fn the_capacity_of_a_node_object_is_the_first_one_node_6() {
        let node = |value| {
            requested_node(&serde_json::from_value(value).unwrap()).map(|w| json!(w.capacity).to_string())
        };
        let annotations = json!({PODIUM_NODE: "hollow"});
        let capacity = json!({"cpu": "2"});
        let fresh =
            json!({"metadata": {"name": "x", "annotations": annotations}, "status": {"capacity": capacity}});
        assert_eq!(node(fresh.clone()).unwrap(), r#"{"cpu":"2"}"#);
        let mut reported = fresh;
        let empty = k8s_openapi::api::core::v1::NodeSystemInfo::default();
        reported["status"]["nodeInfo"] = serde_json::to_value(empty).unwrap();
        assert_eq!(
            node(reported.clone()).unwrap(),
            r#"{"cpu":"2"}"#,
            "no kubelet has written an empty nodeInfo"
        );
        reported["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.37.0");
        assert_eq!(node(reported.clone()).unwrap(), "{}", "a reported capacity is not a requested one");
        reported["metadata"]["annotations"][PODIUM_CAPACITY] = json!(r#"{"cpu":"3"}"#);
        assert_eq!(node(reported).unwrap(), r#"{"cpu":"3"}"#);
        assert_eq!(node(json!({"metadata": {"name": "x", "annotations": {PODIUM_NODE: "vm"}}})), None);
        let going =
            json!({"name": "x", "annotations": annotations, "deletionTimestamp": "2026-11-21T00:00:00Z"});
        assert_eq!(node(json!({"metadata": going})), None, "held by a finalizer only");
    }
}
