//! Parses the target of a fault in the notation of the command line and the console.

use super::FaultTarget;
use super::side_text::selector;

/// Parses `kubelet/NODE`, `kubelets:LABEL=VALUE,…`, `node/NODE`, `nodes:LABEL=VALUE,…`, `scheduler`, `controllers`,
/// `controller/NAME`, `store`, `pod/[NAMESPACE/]NAME[/CONTAINER]`, `pods[/NAMESPACE]:LABEL=VALUE,…`,
/// `claim/[NAMESPACE/]NAME`, `emptydir/[NAMESPACE/]POD/VOLUME`, `webhook/NAME`.
pub fn read_target(text: &str) -> Result<FaultTarget, String> {
    let (word, rest) = text.find(['/', ':']).map_or((text, ""), |at| (&text[..at], &text[at..]));
    let name = |name: &str| {
        if name.is_empty() { Err(format!("{text:?} has an empty name")) } else { Ok(Some(name.to_owned())) }
    };
    let component = |name: &str| Some(name.to_owned());
    let mut target = FaultTarget::default();
    match (word, rest.strip_prefix('/'), rest.strip_prefix(':')) {
        ("scheduler" | "controllers" | "store", None, None) => target.component = component(word),
        ("controller", Some(controller), None) => target.component = name(controller)?,
        ("kubelet", Some(node), None) => {
            (target.component, target.node) = (component("kubelet"), name(node)?);
        }
        ("kubelets", None, Some(labels)) => {
            (target.component, target.node_selector) = (component("kubelet"), Some(selector(labels)?));
        }
        ("node", Some(node), None) => target.node = name(node)?,
        ("nodes", None, Some(labels)) => target.node_selector = Some(selector(labels)?),
        ("pod", Some(pod), None) => match pod.split('/').collect::<Vec<_>>()[..] {
            [pod] => target.pod = name(pod)?,
            [namespace, pod] => (target.namespace, target.pod) = (name(namespace)?, name(pod)?),
            [namespace, pod, container] => {
                (target.namespace, target.pod) = (name(namespace)?, name(pod)?);
                target.container = name(container)?;
            }
            _ => return Err(format!("invalid target {text:?}: must be pod/[NAMESPACE/]NAME[/CONTAINER]")),
        },
        ("pods", None, Some(labels)) => target.pod_selector = Some(selector(labels)?),
        ("pods", Some(pods), None) => {
            let (namespace, labels) = pods.split_once(':').unwrap_or((pods, ""));
            (target.namespace, target.pod_selector) = (name(namespace)?, Some(selector(labels)?));
        }
        ("claim", Some(claim), None) => match claim.split('/').collect::<Vec<_>>()[..] {
            [claim] => target.claim = name(claim)?,
            [namespace, claim] => (target.namespace, target.claim) = (name(namespace)?, name(claim)?),
            _ => return Err(format!("invalid target {text:?}: must be claim/[NAMESPACE/]NAME")),
        },
        ("emptydir", Some(volume), None) => match volume.split('/').collect::<Vec<_>>()[..] {
            [pod, volume] => (target.pod, target.volume) = (name(pod)?, name(volume)?),
            [namespace, pod, volume] => {
                target.namespace = name(namespace)?;
                (target.pod, target.volume) = (name(pod)?, name(volume)?);
            }
            _ => return Err(format!("invalid target {text:?}: must be emptydir/[NAMESPACE/]POD/VOLUME")),
        },
        ("webhook", Some(webhook), None) => target.webhook = name(webhook)?,
        _ => {
            return Err(format!(
                "invalid target {text:?}: must be kubelet/NODE, kubelets:LABEL=VALUE, node/NODE, nodes:LABEL=VALUE, \
                 scheduler, controllers, controller/NAME, store, pod/[NAMESPACE/]NAME[/CONTAINER], \
                 pods[/NAMESPACE]:LABEL=VALUE, claim/[NAMESPACE/]NAME, emptydir/[NAMESPACE/]POD/VOLUME or \
                 webhook/NAME"
            ));
        }
    }
    Ok(target)
}

/// Parses a node, given by its name alone or as a target.
pub fn read_node(text: &str) -> Result<FaultTarget, String> {
    if text.contains(['/', ':']) { read_target(text) } else { read_target(&format!("node/{text}")) }
}

/// Parses a claim, given by its name alone, in a namespace or as a target; or an emptyDir as a target.
pub fn read_volume(text: &str) -> Result<FaultTarget, String> {
    if text.starts_with("claim/") || text.starts_with("emptydir/") {
        read_target(text)
    } else {
        read_target(&format!("claim/{text}"))
    }
}

/// Parses a disk: the store's, or a node's.
pub fn read_disk(text: &str) -> Result<FaultTarget, String> {
    if text == "store" { read_target(text) } else { read_node(text) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_are_read_as_they_are_shown_fault_1() {
        for (text, expected) in [
            ("scheduler", json!({"component": "scheduler"})),
            ("controllers", json!({"component": "controllers"})),
            ("controller/job", json!({"component": "job"})),
            ("store", json!({"component": "store"})),
            ("kubelet/node-1", json!({"component": "kubelet", "node": "node-1"})),
            (
                "kubelets:zone=a",
                json!({"component": "kubelet", "nodeSelector": {"matchLabels": {"zone": "a"}}}),
            ),
            ("node/node-1", json!({"node": "node-1"})),
            ("nodes:zone=a", json!({"nodeSelector": {"matchLabels": {"zone": "a"}}})),
            ("pod/web-0", json!({"pod": "web-0"})),
            ("pod/shop/web-0", json!({"pod": "web-0", "namespace": "shop"})),
            ("pod/shop/web-0/app", json!({"pod": "web-0", "namespace": "shop", "container": "app"})),
            ("pods:app=web", json!({"podSelector": {"matchLabels": {"app": "web"}}})),
            (
                "pods/shop:app=web",
                json!({"namespace": "shop", "podSelector": {"matchLabels": {"app": "web"}}}),
            ),
            ("claim/data", json!({"claim": "data"})),
            ("claim/shop/data", json!({"claim": "data", "namespace": "shop"})),
            ("emptydir/web/cache", json!({"pod": "web", "volume": "cache"})),
            ("emptydir/shop/web/cache", json!({"pod": "web", "volume": "cache", "namespace": "shop"})),
            ("webhook/checks", json!({"webhook": "checks"})),
        ] {
            let read = read_target(text).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), expected, "{text}");
            let again = read_target(&read.to_string()).unwrap();
            assert_eq!(again.to_string(), read.to_string());
        }
        for text in
            ["", "node", "node/", "scheduler/1", "pod/a/b/c/d", "pod//b", "pods:app", "web", "store:a=b"]
        {
            assert!(read_target(text).is_err(), "{text:?}");
        }
        for (text, target) in [
            ("data", "claim/data"),
            ("shop/data", "claim/shop/data"),
            ("claim/data", "claim/data"),
            ("emptydir/web/cache", "emptydir/web/cache"),
        ] {
            assert_eq!(read_volume(text), read_target(target), "{text}");
        }
        assert!(read_volume("a/b/c").is_err() && read_volume("").is_err() && read_volume("shop/").is_err());
        assert!(read_volume("emptydir/web").is_err() && read_volume("emptydir/web/").is_err());
        assert_eq!(read_node("node-1"), read_target("node/node-1"));
        assert_eq!(read_node("nodes:a=b"), read_target("nodes:a=b"));
        for (text, target) in
            [("store", "store"), ("node-1", "node/node-1"), ("node/a", "node/a"), ("nodes:a=b", "nodes:a=b")]
        {
            assert_eq!(read_disk(text), read_target(target), "{text}");
        }
    }
}
