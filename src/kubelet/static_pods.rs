//! Static pods: manifests that the node itself was given; they run regardless of the API (POD-15).
//!
//! The reader of the manifests passes the whole set ([`super::Kubelet::set_static_pods`]). The uid of each manifest's
//! pod is derived from its content, so that a changed manifest is another pod. The API shows the pod by a mirror pod,
//! which is recreated if a client deletes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, Pod, PodCondition, PodSpec, PodStatus, Toleration, VolumeProjection,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::mirror_pod::{self, HASH, SEEN};
use super::node::{Node, NodeConfig, StaticManifest};
use super::pod_workers::PodWorkers;
use base::clock::time;
use base::hex::hex;
use kinds::{apply_defaults, validate_create};
use object::conditions::ConditionStatus;
use object::pod::Phase;
use object::taint::effect::NO_EXECUTE;
use object::well_known::annotation::{CONFIG_SOURCE, MIRROR_POD};
use object::well_known::condition::POD_SCHEDULED;
use object::{Key, Kind, Object, SharedObject};
use reconcile::{EventType, reference_to};

/// The pod of a manifest on this node; an error names the defect.
fn static_pod(manifest: &StaticManifest, node: &NodeConfig, now: Timestamp) -> Result<Pod, String> {
    let value = manifest.content.clone()?;
    let uid = uid(&value, manifest, node);
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
    if (text("apiVersion").as_str(), text("kind").as_str()) != ("v1", "Pod") {
        return Err(format!("a static pod is a v1 Pod, not a {} {}", text("apiVersion"), text("kind")));
    }
    let mut object = Object::from_value(Kind::Pod, value).map_err(|error| error.to_string())?;
    let meta = object.meta_mut();
    let name = meta.name.clone().filter(|n| !n.is_empty()).ok_or("metadata.name: Required value")?;
    meta.name = Some(format!("{name}-{}", node.name));
    meta.namespace.get_or_insert_with(|| "default".into());
    meta.uid = Some(uid.clone());
    meta.creation_timestamp = Some(time(now));
    meta.generation = Some(1);
    meta.deletion_timestamp = None;
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(HASH.into(), uid);
    annotations.insert(SEEN.into(), now.to_string());
    annotations.insert(CONFIG_SOURCE.into(), "file".into());
    annotations.remove(MIRROR_POD);
    if let Some(pod) = object.get_mut::<Pod>() {
        let spec = pod.spec.get_or_insert_default();
        refuse_references(spec)?;
        spec.node_name = Some(node.name.clone());
        spec.tolerations.get_or_insert_default().push(Toleration {
            operator: Some("Exists".into()),
            effect: Some(NO_EXECUTE.into()),
            ..Toleration::default()
        });
        pod.status = Some(PodStatus {
            phase: Some(Phase::Pending.into()),
            conditions: Some(vec![PodCondition {
                type_: POD_SCHEDULED.into(),
                status: ConditionStatus::True.into(),
                last_transition_time: Some(time(now)),
                ..PodCondition::default()
            }]),
            ..PodStatus::default()
        });
    }
    apply_defaults(&mut object);
    let errors: Vec<String> =
        validate_create(&object).iter().map(|e| format!("{}: {}", e.path, e.message())).collect();
    match object.get::<Pod>().cloned() {
        Some(pod) if errors.is_empty() => Ok(pod),
        _ => Err(errors.join(", ")),
    }
}

/// Derives the uid of a static pod: the same manifest in the same file on the same node is the same pod, also after a
/// restart.
fn uid(value: &Value, manifest: &StaticManifest, node: &NodeConfig) -> String {
    let text = format!("{}\0{}\0{value}", node.name, manifest.source);
    hex(Sha256::digest(text))[..32].to_string()
}

/// Rejects references to objects of the API, because a static pod must be able to run without the API.
fn refuse_references(spec: &PodSpec) -> Result<(), String> {
    let may_not = |resource: &str| Err(format!("static pods may not reference {resource}"));
    let named = |name: &Option<String>| name.as_ref().is_some_and(|n| !n.is_empty());
    if named(&spec.service_account_name) || named(&spec.service_account) {
        return may_not("serviceaccounts");
    }
    if spec.image_pull_secrets.as_ref().is_some_and(|s| !s.is_empty()) {
        return may_not("secrets");
    }
    for volume in spec.volumes.iter().flatten() {
        let projected: Vec<&VolumeProjection> =
            volume.projected.iter().flat_map(|p| p.sources.iter().flatten()).collect();
        if volume.secret.is_some() || projected.iter().any(|p| p.secret.is_some()) {
            return may_not("secrets");
        }
        if volume.config_map.is_some() || projected.iter().any(|p| p.config_map.is_some()) {
            return may_not("configmaps");
        }
        if projected.iter().any(|p| p.service_account_token.is_some()) {
            return may_not("serviceaccounts");
        }
        if volume.persistent_volume_claim.is_some() {
            return may_not("persistentvolumeclaims");
        }
    }
    spec.init_containers.iter().flatten().chain(&spec.containers).try_for_each(refuse_environment)
}

fn refuse_environment(container: &Container) -> Result<(), String> {
    let values = || container.env.iter().flatten().filter_map(|var| var.value_from.as_ref());
    let whole = || container.env_from.iter().flatten();
    if values().any(|v| v.secret_key_ref.is_some()) || whole().any(|f| f.secret_ref.is_some()) {
        return Err("static pods may not reference secrets".into());
    }
    if values().any(|v| v.config_map_key_ref.is_some()) || whole().any(|f| f.config_map_ref.is_some()) {
        return Err("static pods may not reference configmaps".into());
    }
    Ok(())
}

/// Brings a node's static pods in line with its manifests.
pub(super) fn set(workers: &Arc<PodWorkers>, node: &Arc<Node>, manifests: &[StaticManifest]) {
    let mut desired = Vec::new();
    let mut broken = BTreeSet::new();
    for manifest in manifests {
        match static_pod(manifest, &node.config, node.clock.now()) {
            Ok(pod) => desired.push(pod),
            Err(error) => {
                broken.insert((manifest.source.clone(), error));
            }
        }
    }
    record_broken(workers, node, &broken);
    let uids: BTreeSet<&str> = desired.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
    workers.end_static_pods(&node.config.name, &uids);
    for pod in desired {
        // Its status continues from that of an earlier kubelet.
        let mirror = workers.context.api.get_as::<Pod>(&Key::of(&pod.metadata)).ok().filter(|mirror| {
            mirror_pod::hash(mirror).is_some_and(|hash| Some(hash) == pod.metadata.uid.as_deref())
        });
        let status = mirror.as_ref().map_or_else(|| pod.status.clone(), |mirror| mirror.status.clone());
        workers.add_static_pod(node, &SharedObject::from_value(Pod { status, ..pod }), mirror);
    }
}

/// Reports each broken manifest once, until its error changes.
fn record_broken(workers: &PodWorkers, node: &Node, broken: &BTreeSet<(String, String)>) {
    let reported = std::mem::replace(&mut *node.broken_manifests.lock(), broken.clone());
    for (source, error) in broken.difference(&reported) {
        let message = format!("static pod {source}: {error}");
        tracing::warn!(node = node.config.name, "{message}");
        if let Ok(object) = workers.context.api.get(Kind::Node, &Key::new("", node.config.name.as_str())) {
            node.recorder.record(reference_to(&object), EventType::Warning, "InvalidStaticPod", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn create_pod(value: Value) -> Result<Pod, String> {
        let config = crate::tests::config();
        let manifest = StaticManifest { source: "web.yaml".into(), content: Ok(value) };
        static_pod(&manifest, &config, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_manifest_becomes_a_pod_of_the_node_pod_15() {
        let manifest = |image: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
                "spec": {"containers": [{"name": "c", "image": image}]}})
        };
        let pod = create_pod(manifest("nginx")).unwrap();
        assert_eq!(pod.metadata.name.as_deref(), Some("web-n1"));
        assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
        assert_eq!(pod.metadata.uid, create_pod(manifest("nginx")).unwrap().metadata.uid);
        assert_ne!(pod.metadata.uid, create_pod(manifest("nginx:1.25")).unwrap().metadata.uid);
        assert!(mirror_pod::is_static(&pod));
    }

    #[test]
    fn a_static_pod_that_needs_the_api_is_refused_pod_15() {
        let spec = |extra: Value| {
            let mut spec = json!({"containers": [{"name": "c", "image": "x"}]});
            spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
        };
        for (value, expected) in [
            (
                json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
                "a static pod is a v1 Pod, not a apps/v1 Deployment",
            ),
            (json!({"apiVersion": "v1", "kind": "Pod", "spec": {}}), "metadata.name: Required value"),
            (spec(json!({"serviceAccountName": "robot"})), "static pods may not reference serviceaccounts"),
            (
                spec(json!({"volumes": [{"name": "v", "configMap": {"name": "m"}}]})),
                "static pods may not reference configmaps",
            ),
            (
                spec(
                    json!({"containers": [{"name": "c", "image": "x", "envFrom": [{"secretRef": {"name": "s"}}]}]}),
                ),
                "static pods may not reference secrets",
            ),
            (spec(json!({"containers": []})), "spec.containers: Required value"),
        ] {
            let shown = value.to_string();
            assert_eq!(create_pod(value).unwrap_err(), expected, "{shown}");
        }
    }
}
