//! The priority levels and flow schemas of every cluster. Mandatory ones always have Kubernetes' values, suggested ones
//! as long as their annotation says so (`apiserver::flow_control`).

use std::sync::LazyLock;

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use serde_json::{Value, json};

use super::resource::Resource;
use object::Object;

/// The name of the level and schema of requests that are never delayed.
pub const EXEMPT: &str = "exempt";

/// The annotation of suggested objects; `false` preserves a user's changes.
pub const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
const CATCH_ALL: &str = "catch-all";

/// The suggested levels: name, nominal shares, lendable percent, number of queues, hand size.
const LEVELS: [(&str, i32, i32, i32, i32); 6] = [
    ("system", 30, 33, 64, 6),
    ("node-high", 40, 25, 64, 6),
    ("leader-election", 10, 0, 16, 4),
    ("workload-high", 40, 50, 128, 6),
    ("workload-low", 100, 90, 128, 6),
    ("global-default", 20, 50, 128, 6),
];
const QUEUE_LENGTH: i32 = 50;

/// The priority levels and flow schemas of every cluster.
pub struct DefaultFlows {
    /// The priority levels.
    pub levels: Vec<PriorityLevelConfiguration>,
    /// The flow schemas.
    pub schemas: Vec<FlowSchema>,
}

/// The priority levels and flow schemas of every cluster.
pub static DEFAULTS: LazyLock<DefaultFlows> =
    LazyLock::new(|| DefaultFlows { levels: build(levels()), schemas: build(schemas()) });

/// Returns whether the level and schema with this name are mandatory, so that their specs never change.
pub fn is_mandatory(name: &str) -> bool {
    [EXEMPT, CATCH_ALL].contains(&name)
}

/// Returns the mandatory level with this name.
pub(crate) fn mandatory_level(name: &str) -> Option<PriorityLevelConfiguration> {
    DEFAULTS
        .levels
        .iter()
        .find(|level| is_mandatory(name) && level.metadata.name.as_deref() == Some(name))
        .cloned()
}

/// Returns the mandatory schema with this name.
pub(crate) fn mandatory_schema(name: &str) -> Option<FlowSchema> {
    DEFAULTS
        .schemas
        .iter()
        .find(|schema| is_mandatory(name) && schema.metadata.name.as_deref() == Some(name))
        .cloned()
}

fn build<T: Resource>(values: Vec<Value>) -> Vec<T> {
    let read = |value: Value| {
        let mut object = Object::from_value(T::kind(), value).expect("the table has the kind's shape");
        let read = object.get_mut::<T>().expect("it was read as one");
        read.apply_defaults();
        read.clone()
    };
    values.into_iter().map(read).collect()
}

fn named(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}}, "spec": spec})
}

fn levels() -> Vec<Value> {
    let limited = |shares: i32, lendable: i32, response: Value| {
        json!({"type": "Limited", "limited": {"nominalConcurrencyShares": shares, "lendablePercent": lendable,
            "limitResponse": response}})
    };
    let mut all = vec![
        named(
            EXEMPT,
            &json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}),
        ),
        named(CATCH_ALL, &limited(5, 0, json!({"type": "Reject"}))),
    ];
    all.extend(LEVELS.map(|(name, shares, lendable, queues, hand)| {
        let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": QUEUE_LENGTH});
        named(name, &limited(shares, lendable, json!({"type": "Queue", "queuing": queuing})))
    }));
    all
}

fn groups(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect()
}

fn users(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"kind": "User", "user": {"name": name}})).collect()
}

fn accounts(names: &[&str]) -> Value {
    let account = |name| json!({"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": "kube-system"}});
    names.iter().map(|name| account(*name)).collect()
}

fn both(first: Value, second: Value) -> Value {
    let lists = [first, second].into_iter().map(|list| list.as_array().cloned().unwrap_or_default());
    lists.flatten().collect()
}

fn on(verbs: &[&str], group: &str, resources: &[&str], of_cluster: bool) -> Value {
    let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
    if of_cluster {
        rule["clusterScope"] = true.into();
    }
    rule
}

/// Builds a flow schema from its name, priority level, precedence and flow distinguisher, its subjects, and its
/// resource and path rules.
fn schema(
    (name, level, precedence, by): (&str, &str, i32, &str),
    subjects: &Value,
    (resources, paths): (Vec<Value>, Vec<Value>),
) -> Value {
    let mut rule = json!({"subjects": subjects});
    for (field, rules) in [("resourceRules", resources), ("nonResourceRules", paths)] {
        if !rules.is_empty() {
            rule[field] = rules.into();
        }
    }
    let mut spec = json!({"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence,
        "rules": [rule]});
    if !by.is_empty() {
        spec["distinguisherMethod"] = json!({"type": by});
    }
    named(name, &spec)
}

fn schemas() -> Vec<Value> {
    const USER: &str = "ByUser";
    const NAMESPACE: &str = "ByNamespace";
    const MANAGER: &str = "system:kube-controller-manager";
    const SCHEDULER: &str = "system:kube-scheduler";
    let everybody = || groups(&["system:unauthenticated", "system:authenticated"]);
    let paths = |verbs: &[&str], urls: &[&str]| vec![json!({"verbs": verbs, "nonResourceURLs": urls})];
    let all = || (vec![on(&["*"], "*", &["*"], true)], paths(&["*"], &["*"]));
    let locks = |group, resource| (vec![on(&["get", "create", "update"], group, &[resource], false)], vec![]);
    let leases = || locks("coordination.k8s.io", "leases");
    let of_nodes = vec![
        on(&["*"], "", &["nodes", "nodes/status"], true),
        on(&["*"], "coordination.k8s.io", &["leases"], false),
    ];
    let endpoint_controllers =
        both(users(&[MANAGER]), accounts(&["endpoint-controller", "endpointslicemirroring-controller"]));
    vec![
        schema((EXEMPT, EXEMPT, 1, ""), &groups(&["system:masters"]), all()),
        schema((CATCH_ALL, CATCH_ALL, 10_000, USER), &everybody(), all()),
        schema(
            ("probes", EXEMPT, 2, ""),
            &everybody(),
            (vec![], paths(&["get"], &["/healthz", "/readyz", "/livez"])),
        ),
        schema(
            ("system-leader-election", "leader-election", 100, USER),
            &both(users(&[MANAGER, SCHEDULER]), accounts(&["*"])),
            leases(),
        ),
        schema(
            ("endpoint-controller", "workload-high", 150, USER),
            &endpoint_controllers,
            locks("", "endpoints"),
        ),
        schema(("workload-leader-election", "leader-election", 200, USER), &accounts(&["*"]), leases()),
        schema(("system-node-high", "node-high", 400, USER), &groups(&["system:nodes"]), (of_nodes, vec![])),
        schema(("system-nodes", "system", 500, USER), &groups(&["system:nodes"]), all()),
        schema(("kube-controller-manager", "workload-high", 800, NAMESPACE), &users(&[MANAGER]), all()),
        schema(("kube-scheduler", "workload-high", 800, NAMESPACE), &users(&[SCHEDULER]), all()),
        schema(("kube-system-service-accounts", "workload-high", 900, NAMESPACE), &accounts(&["*"]), all()),
        schema(
            ("service-accounts", "workload-low", 9_000, USER),
            &groups(&["system:serviceaccounts"]),
            all(),
        ),
        schema(("global-default", "global-default", 9_900, USER), &everybody(), all()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate_create;

    #[test]
    fn the_default_flow_schemas_are_valid_and_name_existing_levels_api_17() {
        for level in &DEFAULTS.levels {
            assert_eq!(validate_create(&Object::new(level.clone())), [], "{:?}", level.metadata.name);
        }
        for schema in &DEFAULTS.schemas {
            assert_eq!(validate_create(&Object::new(schema.clone())), [], "{:?}", schema.metadata.name);
            let level = &schema.spec.priority_level_configuration.name;
            assert!(DEFAULTS.levels.iter().any(|l| l.metadata.name.as_ref() == Some(level)), "{level}");
        }
        assert_eq!((DEFAULTS.levels.len(), DEFAULTS.schemas.len()), (8, 13));
    }
}
