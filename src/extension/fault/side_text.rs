//! Reads a side of a fault as the command line and the console take it.

use std::collections::BTreeMap;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::FaultPeer;

/// Reads `node/NAME`, `nodes:LABEL=VALUE,…`, `pod/[NAMESPACE/]NAME`, `pods[/NAMESPACE]:LABEL=VALUE,…`, an address, a
/// range of addresses, or `all`. Returns `None` for `all`, which means everything that is not on the other side.
pub fn read_side(text: &str) -> Result<Option<FaultPeer>, String> {
    let (word, rest) = text.find(['/', ':']).map_or((text, ""), |at| (&text[..at], &text[at..]));
    let name = |name: &str| {
        if name.is_empty() { Err(format!("{text:?} has an empty name")) } else { Ok(name.to_owned()) }
    };
    let mut peer = FaultPeer::default();
    match (word, rest.strip_prefix('/'), rest.strip_prefix(':')) {
        ("all", None, None) => return Ok(None),
        ("node", Some(node), None) => peer.node = Some(name(node)?),
        ("nodes", None, Some(labels)) => peer.node_selector = Some(selector(labels)?),
        ("pod", Some(pod), None) => {
            let (namespace, pod) =
                pod.split_once('/').map_or((None, pod), |(namespace, pod)| (Some(namespace), pod));
            peer.pod = Some(name(pod)?);
            peer.namespace = namespace.map(name).transpose()?;
        }
        ("pods", None, Some(labels)) => peer.pod_selector = Some(selector(labels)?),
        ("pods", Some(pods), None) => {
            let (namespace, labels) = pods.split_once(':').unwrap_or((pods, ""));
            peer.namespace = Some(name(namespace)?);
            peer.pod_selector = Some(selector(labels)?);
        }
        _ => {
            let range =
                text.parse::<IpNet>().or_else(|_| text.parse().map(|ip: std::net::IpAddr| IpNet::from(ip)));
            let range = range.map_err(|_| {
                format!(
                    "invalid side {text:?}: must be node/NAME, nodes:LABEL=VALUE, pod/[NAMESPACE/]NAME, \
                     pods[/NAMESPACE]:LABEL=VALUE, an address, a range of addresses or all"
                )
            })?;
            peer.cidr = Some(range.to_string());
        }
    }
    Ok(Some(peer))
}

/// Parses labels with their values; an empty text selects everything.
pub(super) fn selector(text: &str) -> Result<LabelSelector, String> {
    let mut labels = BTreeMap::new();
    for label in text.split(',').filter(|label| !label.is_empty()) {
        let (key, value) =
            label.split_once('=').ok_or_else(|| format!("invalid label {label:?}: must be LABEL=VALUE"))?;
        labels.insert(key.to_owned(), value.to_owned());
    }
    let match_labels = Some(labels).filter(|labels| !labels.is_empty());
    Ok(LabelSelector { match_labels, match_expressions: None })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn sides_are_read_as_they_are_shown_fault_1() {
        for (text, peer) in [
            ("all", Value::Null),
            ("node/node-1", json!({"node": "node-1"})),
            ("nodes:zone=a,disk=ssd", json!({"nodeSelector": {"matchLabels": {"zone": "a", "disk": "ssd"}}})),
            ("pod/web-0", json!({"pod": "web-0"})),
            ("pod/shop/web-0", json!({"pod": "web-0", "namespace": "shop"})),
            ("pods:app=web", json!({"podSelector": {"matchLabels": {"app": "web"}}})),
            (
                "pods/shop:app=web",
                json!({"podSelector": {"matchLabels": {"app": "web"}}, "namespace": "shop"}),
            ),
            ("pods/shop", json!({"podSelector": {}, "namespace": "shop"})),
            ("10.0.0.0/8", json!({"cidr": "10.0.0.0/8"})),
            ("203.0.113.7", json!({"cidr": "203.0.113.7/32"})),
            ("fd00::1", json!({"cidr": "fd00::1/128"})),
            ("fd00::/64", json!({"cidr": "fd00::/64"})),
        ] {
            let read = read_side(text).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), peer, "{text}");
            if let Some(shown) = read.map(|peer| peer.to_string()) {
                let again = read_side(&shown).unwrap().unwrap();
                assert_eq!(again.to_string(), shown);
            }
        }
        for text in ["", "node", "node/", "pod/", "pod/a/", "pods:app", "web", "10.0.0.0/33", "all/1"] {
            assert!(read_side(text).is_err(), "{text:?}");
        }
    }
}
