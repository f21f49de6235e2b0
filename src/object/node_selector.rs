//! Node selection of pods: `nodeSelector` and `nodeAffinity`, parsed once and matched often.

use k8s_openapi::api::core::v1::{Node, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

use super::selector::{Labels, Operator, Requirement};
use base::sort::SliceOrder;

/// The nodes on one of which a pod must run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodes {
    labels: Vec<(String, String)>,
    /// Alternatives; `None` if the pod requires no affinity.
    terms: Option<Vec<NodeTerm>>,
}

/// One term of a node selector: all its conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    /// `None` matches nothing: there are no conditions, or one is invalid.
    conditions: Option<Conditions>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Conditions {
    labels: Vec<Requirement>,
    /// `metadata.name` must be in (true) or not in (false) each list.
    names: Vec<(bool, Vec<String>)>,
}

impl RequiredNodes {
    /// Returns the requirements of `spec`: the selector and the affinity together.
    pub fn of(spec: &PodSpec) -> Self {
        let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
        let labels = spec.node_selector.clone().unwrap_or_default().into_iter().collect();
        Self { labels, ..affinity.map(Self::of_affinity).unwrap_or_default() }
    }

    /// Returns the requirements of an affinity.
    pub fn of_affinity(affinity: &NodeAffinity) -> Self {
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref();
        let terms = required.map(|r| r.node_selector_terms.iter().map(NodeTerm::new).collect());
        Self { labels: Vec::new(), terms }
    }

    /// Returns true if every node matches.
    pub fn is_any(&self) -> bool {
        self.labels.is_empty() && self.terms.is_none()
    }

    /// Returns true if the node matches.
    pub fn matches(&self, node: &Node) -> bool {
        let labels = labels_of(node);
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }

    /// Returns the labels of the node selector that the node lacks, as `key=value`.
    pub fn missing_labels(&self, node: &Node) -> Vec<String> {
        let labels = labels_of(node);
        let missing = self.labels.iter().filter(|(key, value)| labels.get(key) != Some(value));
        missing.map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// Returns the names of the only nodes that can match, if every term lists names, as for a DaemonSet's pods. An
    /// empty list means that the names contradict each other.
    pub fn names(&self) -> Option<Vec<&str>> {
        let mut all = Vec::new();
        let mut readable = self.terms.as_ref()?.iter().filter_map(|t| t.conditions.as_ref()).peekable();
        readable.peek()?;
        for conditions in readable {
            let mut sets = conditions.names.iter().filter(|(is_in, _)| *is_in).map(|(_, names)| names);
            let first = sets.next()?;
            let rest: Vec<_> = sets.collect();
            all.extend(first.iter().filter(|n| rest.iter().all(|r| r.contains(n))).map(String::as_str));
        }
        all.order();
        all.dedup();
        Some(all)
    }
}

impl NodeTerm {
    /// Parses a term.
    pub fn new(term: &NodeSelectorTerm) -> Self {
        Self { conditions: read(term) }
    }

    /// Returns true if the node meets all of its conditions.
    pub fn matches(&self, node: &Node) -> bool {
        let Some(conditions) = &self.conditions else { return false };
        let labels = labels_of(node);
        let name = node.metadata.name.as_deref().unwrap_or_default();
        conditions.labels.iter().all(|r| r.matches(labels))
            && conditions.names.iter().all(|(is_in, names)| names.iter().any(|n| n == name) == *is_in)
    }
}

/// Parses the conditions of a term; `None`, which matches nothing, if it has none or one is invalid.
fn read(term: &NodeSelectorTerm) -> Option<Conditions> {
    let mut conditions = Conditions::default();
    for expression in term.match_expressions.iter().flatten() {
        let operator = operator(expression)?;
        conditions.labels.push(Requirement { key: expression.key.clone(), operator });
    }
    for field in term.match_fields.iter().flatten().filter(|f| f.key == "metadata.name") {
        conditions.names.push((is_in(field)?, field.values.clone().unwrap_or_default()));
    }
    let unknown = term.match_fields.iter().flatten().any(|f| f.key != "metadata.name");
    let empty = conditions.labels.is_empty() && conditions.names.is_empty();
    (!unknown && !empty).then_some(conditions)
}

fn operator(expression: &NodeSelectorRequirement) -> Option<Operator> {
    let values = || expression.values.clone().unwrap_or_default();
    let bound = || expression.values.as_ref()?.first()?.parse().ok();
    Some(match expression.operator.as_str() {
        "In" => Operator::In(values()),
        "NotIn" => Operator::NotIn(values()),
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::GreaterThan(bound()?),
        "Lt" => Operator::LessThan(bound()?),
        _ => return None,
    })
}

fn is_in(field: &NodeSelectorRequirement) -> Option<bool> {
    match field.operator.as_str() {
        "In" => Some(true),
        "NotIn" => Some(false),
        _ => None,
    }
}

fn labels_of(node: &Node) -> &Labels {
    static EMPTY: Labels = Labels::new();
    node.metadata.labels.as_ref().unwrap_or(&EMPTY)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn required(spec: serde_json::Value) -> RequiredNodes {
        let mut spec = spec;
        spec["containers"] = json!([]);
        RequiredNodes::of(&serde_json::from_value(spec).unwrap())
    }

    fn affinity(terms: serde_json::Value) -> serde_json::Value {
        let mut required = json!({});
        required["nodeSelectorTerms"] = terms;
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    }

    #[test]
    fn selectors_terms_and_fields_sch_3() {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "n1",
            "labels": {"zone": "a", "cores": "8", "word": "many"}}}))
        .unwrap();
        let labels = |key: &str, operator: &str, values: &[&str]| {
            json!({"matchExpressions":
            [{"key": key, "operator": operator, "values": values}]})
        };
        let names = |operator: &str, values: &[&str]| {
            json!({"matchFields":
            [{"key": "metadata.name", "operator": operator, "values": values}]})
        };
        for (spec, matches) in [
            (json!({}), true),
            (json!({"nodeSelector": {"zone": "a"}}), true),
            (json!({"nodeSelector": {"zone": "a", "disk": "ssd"}}), false),
            (affinity(json!([labels("zone", "In", &["a", "b"])])), true),
            (affinity(json!([labels("zone", "NotIn", &["a"])])), false),
            (affinity(json!([labels("disk", "NotIn", &["ssd"])])), true),
            (affinity(json!([labels("disk", "Exists", &[])])), false),
            (affinity(json!([labels("disk", "DoesNotExist", &[])])), true),
            (affinity(json!([labels("cores", "Gt", &["7"])])), true),
            (affinity(json!([labels("cores", "Gt", &["8"])])), false),
            (affinity(json!([labels("cores", "Lt", &["9"])])), true),
            // Gt and Lt on words, on either side, match nothing; so do unknown operators and empty terms.
            (affinity(json!([labels("word", "Gt", &["1"])])), false),
            (affinity(json!([labels("cores", "Gt", &["few"])])), false),
            (affinity(json!([labels("zone", "Like", &["a"])])), false),
            (affinity(json!([{}])), false),
            (affinity(json!([])), false),
            // Terms are alternatives.
            (affinity(json!([{}, labels("zone", "In", &["a"])])), true),
            (affinity(json!([names("In", &["n1"])])), true),
            (affinity(json!([names("NotIn", &["n1"])])), false),
            (affinity(json!([names("In", &["n2"])])), false),
            (affinity(json!([names("Exists", &[])])), false),
        ] {
            assert_eq!(required(spec.clone()).matches(&node), matches, "{spec}");
        }
        let mut both = affinity(json!([labels("zone", "In", &["a"])]));
        both["nodeSelector"] = json!({"zone": "b"});
        assert!(!required(both).matches(&node), "selector and affinity are both required");
    }

    #[test]
    fn a_pod_that_names_its_nodes_needs_no_search() {
        let name =
            |n: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [n]}]});
        let both = json!({"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["a"]},
            {"key": "metadata.name", "operator": "In", "values": ["b"]}]});
        let label = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        assert_eq!(required(affinity(json!([name("b"), name("a")]))).names(), Some(vec!["a", "b"]));
        assert_eq!(required(affinity(json!([both]))).names(), Some(vec![]));
        assert_eq!(required(affinity(json!([name("a"), label]))).names(), None);
        assert_eq!(required(affinity(json!([{}]))).names(), None);
        assert_eq!(required(json!({})).names(), None);
    }
}
