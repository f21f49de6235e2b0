//! Claims, volumes and pods that use them, for tests, from JSON.

use serde_json::{Value, json};

/// Merges the fields of one object into another, recursively.
pub(crate) fn merge(to: &mut Value, from: &Value) {
    match (to, from) {
        (Value::Object(to), Value::Object(from)) => {
            for (key, value) in from {
                merge(to.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (to, from) => *to = from.clone(),
    }
}

/// Returns a claim of 1Gi in namespace `default` with its name as uid; with a volume's name it is bound to it.
pub(crate) fn claim(name: &str, more: &Value) -> Value {
    let mut claim = json!({"metadata": {"name": name, "namespace": "default", "uid": name, "annotations": {}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    merge(&mut claim, more);
    if claim["spec"]["volumeName"].is_string() {
        claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
        claim["status"] = json!({"phase": "Bound"});
    }
    claim
}

/// Returns a free volume on the nodes with this `host` label.
pub(crate) fn volume(name: &str, size: &str, class: &str, host: &str) -> Value {
    let mut volume = json!({"metadata": {"name": name}, "status": {"phase": "Available"},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": class}});
    if !host.is_empty() {
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions":
            [{"key": "host", "operator": "In", "values": [host]}]}]}});
    }
    volume
}

/// Returns the part of a pod's spec that uses a claim.
pub(crate) fn with_claim(name: &str) -> Value {
    json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]})
}
