//! Builds policy inputs from short JSON.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use crate::{Changes, Model, Peers, PolicyInputs, SetChange};
use object::{Key, TypedKind};

pub(super) fn read<T: TypedKind>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Parses `namespace/name`; without a slash, the namespace is `default`.
pub(super) fn key(text: &str) -> Key {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    Key::new(namespace, name)
}

/// Parses labels of the form `a=b,c=d`.
pub(super) fn labels(text: &str) -> Value {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into()
}

pub(super) fn namespace(own: &str) -> Namespace {
    read(json!({"metadata": {"labels": labels(own)}}))
}

pub(super) fn pod(of: &str, own: &str, ips: &[&str], more: &Value) -> Pod {
    let key = key(of);
    let all: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let mut value = json!({
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels(own)},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIP": ips.first(), "podIPs": all}});
    json_patch::merge(&mut value, more);
    read(value)
}

pub(super) fn policy(spec: &Value) -> NetworkPolicy {
    read(json!({"spec": spec}))
}

impl PolicyInputs {
    pub(super) fn with_pod(mut self, of: &str, own: &str, ips: &[&str], more: &Value) -> Self {
        self.set_pod(&key(of), Some(&pod(of, own, ips, more)));
        self
    }

    pub(super) fn with_namespace(mut self, name: &str, own: &str) -> Self {
        self.set_namespace(name, Some(&namespace(own)));
        self
    }

    pub(super) fn with_policy(mut self, of: &str, spec: &Value) -> Self {
        self.set_policy(&key(of), Some(&policy(spec)));
        self
    }
}

impl Changes {
    /// Like [`Changes::apply`], but panics on what a kernel would refuse: creating a set that exists, or removing one
    /// that does not.
    pub(super) fn apply_strictly(&self, model: &mut Model) {
        for (id, change) in &self.sets {
            let before = model.sets.get(id);
            match change {
                SetChange::Created(_) => assert!(before.is_none(), "{id}"),
                SetChange::Replaced(_) | SetChange::Removed => assert!(before.is_some(), "{id}"),
                SetChange::Changed { added, removed } => {
                    let before = before.unwrap();
                    assert!(before.is_disjoint(added) && before.is_superset(removed), "{id}");
                }
            }
        }
        self.apply(model);
        for isolation in model.pods.values().flat_map(|pod| pod.ingress.iter().chain(&pod.egress)) {
            assert!(isolation.peers.values().all(|ports| !ports.is_empty()));
            let named = isolation.peers.keys().filter_map(|peers| match peers {
                Peers::Set(id) => Some(id),
                _ => None,
            });
            assert!(named.chain(&isolation.endpoints).all(|id| model.sets.contains_key(id)));
        }
    }
}
