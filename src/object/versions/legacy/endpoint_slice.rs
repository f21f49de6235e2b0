//! EndpointSlices of `discovery.k8s.io/v1beta1`: an endpoint's location is in a map.

use serde_json::{Map, Value};

use crate::well_known::label::{HOSTNAME, ZONE};

/// The keys of the `topology` map that are fields of their own in `v1`, each with its field.
const FIELDS: [(&str, &str); 2] = [(HOSTNAME, "nodeName"), (ZONE, "zone")];

pub(super) fn read(slice: &mut Value) {
    for endpoint in endpoints(slice) {
        let Some(Value::Object(mut topology)) = endpoint.remove("topology") else { continue };
        for (key, field) in FIELDS {
            if let Some(value) = topology.remove(key) {
                endpoint.entry(field).or_insert(value);
            }
        }
        if !topology.is_empty() {
            endpoint.insert("deprecatedTopology".into(), topology.into());
        }
    }
}

pub(super) fn show(slice: &mut Value) {
    for endpoint in endpoints(slice) {
        let mut topology = match endpoint.remove("deprecatedTopology") {
            Some(Value::Object(topology)) => topology,
            _ => Map::new(),
        };
        if let Some(zone) = endpoint.remove("zone") {
            topology.insert(FIELDS[1].0.into(), zone);
        }
        if let Some(node) = endpoint.get("nodeName") {
            topology.insert(FIELDS[0].0.into(), node.clone());
        }
        if !topology.is_empty() {
            endpoint.insert("topology".into(), topology.into());
        }
    }
}

fn endpoints(slice: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let list = slice.get_mut("endpoints").and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}
