//! The pod of a DaemonSet on one node: its tolerations and its node affinity.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};

use crate::history::POD_REVISION_LABEL;
use crate::pod_control;
use object::SharedObject;
use object::pod::node_name;
use object::taint::effect::{NO_EXECUTE, NO_SCHEDULE};
use object::well_known::taint;

/// The field by which a pod names its node before it is bound.
const NODE_NAME_FIELD: &str = "metadata.name";

/// The annotation of a DaemonSet with the number of template changes, and the label with the same number on its pods.
const TEMPLATE_GENERATION: (&str, &str) =
    ("deprecated.daemonset.template.generation", "pod-template-generation");

/// The tolerations of every daemon: it stays on its node in any condition.
const AUTOMATIC: [(&str, &str); 6] = [
    (taint::NOT_READY, NO_EXECUTE),
    (taint::UNREACHABLE, NO_EXECUTE),
    (taint::DISK_PRESSURE, NO_SCHEDULE),
    (taint::MEMORY_PRESSURE, NO_SCHEDULE),
    (taint::PID_PRESSURE, NO_SCHEDULE),
    (taint::UNSCHEDULABLE, NO_SCHEDULE),
];
/// The additional toleration of a daemon on the host's network: it may be the one that sets up the network.
const ON_HOST_NETWORK: (&str, &str) = (taint::NETWORK_UNAVAILABLE, NO_SCHEDULE);

/// Returns the template's tolerations with the automatic ones. An equal one (key, effect, operator and value) is
/// replaced, so that its `tolerationSeconds` does not apply.
pub(super) fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut all = spec.tolerations.clone().unwrap_or_default();
    let on_host_network = spec.host_network == Some(true);
    for (key, effect) in AUTOMATIC.into_iter().chain(on_host_network.then_some(ON_HOST_NETWORK)) {
        let automatic = Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Toleration::default()
        };
        let is_same = |t: &Toleration| {
            t.key == automatic.key
                && t.effect == automatic.effect
                && t.operator == automatic.operator
                && t.value.as_deref().unwrap_or_default().is_empty()
        };
        match all.iter_mut().find(|t| is_same(t)) {
            Some(given) => *given = automatic,
            None => all.push(automatic),
        }
    }
    all
}

/// Returns the affinity with one required term that only names the node: the template's own requirements were checked
/// when the node was chosen.
fn bound_to(affinity: Option<Affinity>, node: &str) -> Affinity {
    let name = NodeSelectorRequirement {
        key: NODE_NAME_FIELD.into(),
        operator: "In".into(),
        values: Some(vec![node.to_string()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![name]), match_expressions: None };
    let mut affinity = affinity.unwrap_or_default();
    let of_nodes: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    of_nodes.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
    affinity
}

/// Creates the pod for a node from the revision with this hash; the scheduler binds it.
pub(super) fn pod_for(set: &SharedObject<DaemonSet>, node: &str, hash: &str) -> Pod {
    let mut pod = pod_control::pod_of(set.object(), &set.spec.template);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_REVISION_LABEL.to_string(), hash.to_string());
    // For old clients; the hash alone decides which pods are up to date.
    let generation = set.metadata.annotations.as_ref().and_then(|a| a.get(TEMPLATE_GENERATION.0));
    labels.extend(generation.map(|number| (TEMPLATE_GENERATION.1.to_string(), number.clone())));
    let spec = pod.spec.get_or_insert_default();
    spec.tolerations = Some(tolerations(spec));
    spec.affinity = Some(bound_to(spec.affinity.take(), node));
    pod
}

/// Returns the node a pod runs on, or was created for.
pub(super) fn target_node(pod: &Pod) -> Option<&str> {
    node_name(pod).or_else(|| {
        let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
        let fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
        let named = fields.into_iter().find(|f| f.key == NODE_NAME_FIELD && f.operator == "In")?;
        match named.values.as_deref()? {
            [node] => Some(node),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(spec: &Value) -> SharedObject<DaemonSet> {
        SharedObject::from_value(
            serde_json::from_value(json!({"metadata": {"name": "agent", "namespace": "default", "uid": "u"},
                "spec": {"selector": {}, "template": {"metadata": {"labels": {"app": "agent"}}, "spec": spec}}}))
            .unwrap(),
        )
    }

    #[test]
    fn a_daemon_tolerates_the_troubles_of_its_node_ds_1() {
        let text = |spec: &Value| -> Vec<String> {
            let pod = pod_for(&set(spec), "n1", "abc");
            let all = pod.spec.unwrap().tolerations.unwrap();
            let text = |o: &Option<String>| o.clone().unwrap_or_default();
            let seconds = |t: &Toleration| t.toleration_seconds.map(|s| format!(" {s}")).unwrap_or_default();
            all.iter()
                .map(|t| {
                    format!("{}:{}{}", text(&t.key).rsplit('/').next().unwrap(), text(&t.effect), seconds(t))
                })
                .collect()
        };
        let automatic = [
            "not-ready:NoExecute", "unreachable:NoExecute", "disk-pressure:NoSchedule",
            "memory-pressure:NoSchedule", "pid-pressure:NoSchedule", "unschedulable:NoSchedule",
        ];
        assert_eq!(text(&json!({"containers": []})), automatic);
        let mut with_network = automatic.to_vec();
        with_network.push("network-unavailable:NoSchedule");
        assert_eq!(text(&json!({"containers": [], "hostNetwork": true})), with_network);
        let given = json!({"containers": [], "tolerations": [
            {"key": "mine", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 30}]});
        let mut replaced = vec!["mine:NoExecute 5", "unreachable:NoExecute", "not-ready:NoExecute"];
        replaced.extend(&automatic[2..]);
        assert_eq!(text(&given), replaced, "nothing ends it");
    }

    #[test]
    fn a_daemon_names_its_node_instead_of_what_the_template_requires_ds_1() {
        let preferred = json!([{"weight": 1, "preference": {"matchExpressions":
            [{"key": "a", "operator": "Exists"}]}}]);
        let spec = json!({"containers": [], "nodeSelector": {"disk": "ssd"}, "affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}]}}}});
        let pod = pod_for(&set(&spec), "n1", "abc");
        assert_eq!(
            serde_json::to_value(pod.spec.as_ref().unwrap().affinity.as_ref().unwrap()).unwrap(),
            json!({"nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}})
        );
        assert_eq!(pod.metadata.labels.as_ref().unwrap()["controller-revision-hash"], "abc");
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("agent-"));
        assert_eq!(target_node(&pod), Some("n1"));
        let mut bound = pod.clone();
        bound.spec.as_mut().unwrap().node_name = Some("n2".into());
        assert_eq!(target_node(&bound), Some("n2"), "a bound pod belongs to its node, whatever its affinity");
        assert_eq!(target_node(&Pod::default()), None);
    }
}
