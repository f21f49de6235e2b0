//! The permissions of nodes, as tables.

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::*;
use crate::authorization::tests::{api, as_user, check, create, may, user};
use crate::identity::User;
use crate::{Part, WriteOptions};
use object::{BuiltinKind, Kind};

fn node() -> User {
    User::named("system:node:n1", vec!["system:nodes".into(), "system:authenticated".into()])
}

#[tokio::test]
async fn a_node_reaches_what_its_pods_name_and_no_more_sec_4() {
    let api = api();
    for name in ["default", "robot"] {
        create(&api, Kind::ServiceAccount, json!({"metadata": {"name": name, "namespace": "a"}}));
    }
    let pod = |name: &str, node: &str, secret: &str| {
        json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"nodeName": node, "serviceAccountName": "robot",
            "containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "map"}}]}],
            "volumes": [{"name": "v", "secret": {"secretName": secret}},
                {"name": "w", "persistentVolumeClaim": {"claimName": "claim"}}]}})
    };
    create(&api, Kind::Pod, pod("mine", "n1", "s1"));
    create(&api, Kind::Pod, pod("other", "n2", "s2"));
    assert!(api.get_as::<Pod>(&Key::new("a", "mine")).is_ok());
    let node = node();
    check(
        &api,
        &node,
        &[
            ("get core/secrets in a named s1", true),
            ("watch core/secrets in a named s1", true),
            ("get core/secrets in a named s2", false),
            ("list core/secrets in a", false),
            ("update core/secrets in a named s1", false),
            ("get core/configmaps in a named map", true),
            ("get core/configmaps in a named else", false),
            ("get core/persistentvolumeclaims in a named claim", true),
            ("get core/persistentvolumeclaims in b named claim", false),
            ("create core/serviceaccounts/token in a named robot", true),
            ("create core/serviceaccounts/token in a named default", false),
            ("get core/nodes named n1", true),
            ("get core/nodes named n2", false),
            ("patch core/nodes/status named n1", true),
            ("patch core/nodes/status named n2", false),
            ("delete core/nodes named n1", false),
            ("list core/pods on n1", true),
            ("list core/pods on n2", false),
            ("list core/pods", false),
            ("get core/pods in a named mine", true),
            ("get core/pods in a named other", false),
            ("update core/pods/status in a named mine", true),
            ("update core/pods/status in a named other", false),
            ("delete core/pods in a named other", false),
            ("update coordination.k8s.io/leases in kube-node-lease named n1", true),
            ("update coordination.k8s.io/leases in kube-node-lease named n2", false),
            ("update coordination.k8s.io/leases in kube-system named n1", false),
            ("create core/events in a", true),
            ("list core/services", true),
            ("list apps/deployments", false),
        ],
    );
    // Without the group it is an ordinary user.
    check(&api, &user("system:node:n1"), &[("get core/nodes named n1", false)]);
    let reason = may(&api, &node, "get core/secrets in a named s2").reason;
    assert_eq!(reason, "no relationship found between node 'n1' and this object");

    let token = |pod: &str| {
        let uid = api
            .get_as::<Pod>(&Key::new("a", pod))
            .map_or_else(|_| String::new(), |pod| pod.uid().to_string());
        let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid});
        let request =
            serde_json::from_value(json!({"spec": {"audiences": [], "boundObjectRef": bound}})).unwrap();
        restrict_token(&api, Some(&node), &Key::new("a", "robot"), &request)
            .map_err(|error| error.to_string())
    };
    assert_eq!(token("mine"), Ok(()));
    assert!(token("other").unwrap_err().ends_with("bound to a pod scheduled on a different node"));
    assert!(token("missing").unwrap_err().ends_with("not bound to a pod"));
    let refused = |kind, value| as_user(&api, Some(node.clone()), kind, value).unwrap_err().to_string();
    assert!(refused(Kind::Pod, pod("new", "n1", "s1")).contains("can only create mirror pods"));
    let node_object = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    assert!(
        refused(Kind::Node, node_object("n2", json!({}))).contains("is not allowed to modify node \"n2\"")
    );
    let label = json!({"node-restriction.kubernetes.io/x": "y"});
    assert!(
        refused(Kind::Node, node_object("n1", label)).contains("is not allowed to set the following labels")
    );
    assert_eq!(as_user(&api, Some(node.clone()), Kind::Node, node_object("n1", json!({"a": "b"}))), Ok(()));
}

#[tokio::test]
async fn a_node_reaches_the_devices_and_attachments_that_are_its_own_sec_4() {
    let api = api();
    let pod = |name: &str, node: &str, claim: &str| {
        json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"nodeName": node, "containers": [
            {"name": "c", "image": "i"}], "resourceClaims": [{"name": "r", "resourceClaimName": claim}]}})
    };
    create(&api, Kind::ServiceAccount, json!({"metadata": {"name": "default", "namespace": "a"}}));
    create(&api, Kind::Pod, pod("mine", "n1", "gpu"));
    create(&api, Kind::Pod, pod("other", "n2", "nic"));
    let slice = |name: &str, node: &str| {
        json!({"metadata": {"name": name}, "spec": {"driver": "d.example.com", "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}, "devices": []}})
    };
    create(&api, Kind::ResourceSlice, slice("s1", "n1"));
    create(&api, Kind::ResourceSlice, slice("s2", "n2"));
    let attachment = |name: &str, node: &str| {
        json!({"metadata": {"name": name}, "spec": {"attacher": "d.example.com", "nodeName": node,
            "source": {"persistentVolumeName": "v"}}})
    };
    create(&api, Kind::VolumeAttachment, attachment("a1", "n1"));
    create(&api, Kind::VolumeAttachment, attachment("a2", "n2"));
    check(
        &api,
        &node(),
        &[
            ("get resource.k8s.io/resourceclaims in a named gpu", true),
            ("get resource.k8s.io/resourceclaims in a named nic", false),
            ("get resource.k8s.io/resourceclaims in b named gpu", false),
            ("list resource.k8s.io/resourceclaims in a", false),
            ("update resource.k8s.io/resourceclaims/status in a named gpu", false),
            ("get resource.k8s.io/resourceslices named s1", true),
            ("patch resource.k8s.io/resourceslices named s1", true),
            ("delete resource.k8s.io/resourceslices named s1", true),
            ("create resource.k8s.io/resourceslices", true),
            ("get resource.k8s.io/resourceslices named s2", false),
            ("delete resource.k8s.io/resourceslices named s2", false),
            ("list resource.k8s.io/resourceslices", false),
            ("list resource.k8s.io/resourceslices on n1", true),
            ("watch resource.k8s.io/resourceslices on n2", false),
            ("deletecollection resource.k8s.io/resourceslices on n1", true),
            ("deletecollection resource.k8s.io/resourceslices", false),
            ("get storage.k8s.io/volumeattachments named a1", true),
            ("get storage.k8s.io/volumeattachments named a2", false),
            ("list storage.k8s.io/volumeattachments", false),
        ],
    );
    let made = |kind, value| as_user(&api, Some(node()), kind, value).map_err(|error| error.to_string());
    assert_eq!(made(Kind::ResourceSlice, slice("s3", "n1")), Ok(()));
    let refused = made(Kind::ResourceSlice, slice("s4", "n2")).unwrap_err();
    assert!(refused.ends_with("can only create ResourceSlice with the same NodeName as the requesting node"));
    let csi_node = |name: &str| json!({"metadata": {"name": name}, "spec": {"drivers": []}});
    assert_eq!(made(Kind::CSINode, csi_node("n1")), Ok(()));
    let refused = made(Kind::CSINode, csi_node("n2")).unwrap_err();
    assert!(refused.ends_with("can only access CSINode with the same name as the requesting node"));
}

#[tokio::test]
async fn a_node_reads_the_secrets_that_its_volumes_are_mounted_with_sec_4() {
    let api = api();
    create(&api, Kind::ServiceAccount, json!({"metadata": {"name": "default", "namespace": "a"}}));
    let pod = |name: &str, node: &str, claim: &str, secret: &str| {
        json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"nodeName": node,
            "containers": [{"name": "c", "image": "i"}], "volumes": [
                {"name": "v", "persistentVolumeClaim": {"claimName": claim}},
                {"name": "w", "csi": {"driver": "d.example.com", "nodePublishSecretRef": {"name": secret}}}]}})
    };
    create(&api, Kind::Pod, pod("mine", "n1", "c1", "inline-1"));
    create(&api, Kind::Pod, pod("other", "n2", "c2", "inline-2"));
    let volume = |name: &str, claim: &str, source: Value| {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "a", "name": claim}});
        spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        create(&api, Kind::PersistentVolume, json!({"metadata": {"name": name}, "spec": spec}));
    };
    let csi = |secret: &str| {
        let of = |part: &str| json!({"namespace": "b", "name": format!("{part}-{secret}")});
        json!({"csi": {"driver": "d.example.com", "volumeHandle": "h", "nodeStageSecretRef": of("stage"),
            "controllerPublishSecretRef": of("controller")}})
    };
    volume("v1", "c1", csi("1"));
    volume("v2", "c2", csi("2"));
    volume("v3", "c1", json!({"azureFile": {"secretName": "azure", "shareName": "s"}}));
    check(
        &api,
        &node(),
        &[
            ("get core/secrets in a named inline-1", true),
            ("get core/secrets in a named inline-2", false),
            ("get core/secrets in b named stage-1", true),
            ("get core/secrets in a named stage-1", false),
            ("get core/secrets in b named stage-2", false),
            ("get core/secrets in b named controller-1", false),
            // For a volume that names no namespace, the claim's counts.
            ("get core/secrets in a named azure", true),
            ("get core/secrets in b named azure", false),
            ("get core/configmaps in b named stage-1", false),
        ],
    );
}

#[tokio::test]
async fn a_node_makes_mirrors_that_are_its_own_and_refer_to_nothing_sec_4() {
    let api = api();
    create(&api, Kind::ServiceAccount, json!({"metadata": {"name": "default", "namespace": "a"}}));
    create(&api, Kind::Node, json!({"metadata": {"name": "n1"}}));
    let uid = api.get_as::<Node>(&Key::new("", "n1")).unwrap().uid().to_string();
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": true});
    let mirror = |changes: Value| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "m", "namespace": "a", "annotations": {"kubernetes.io/config.mirror": "x"},
                "ownerReferences": [owner]},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}});
        json_patch::merge(&mut pod, &changes);
        as_user(&api, Some(node()), Kind::Pod, pod).map_err(|error| error.to_string())
    };
    let owned = |changes: Value| {
        let mut owner = owner.clone();
        json_patch::merge(&mut owner, &changes);
        json!({"metadata": {"ownerReferences": [owner]}})
    };
    let volume = |source: Value| {
        let mut volume = json!({"name": "v"});
        json_patch::merge(&mut volume, &source);
        json!({"spec": {"volumes": [volume]}})
    };
    let only = "can only create pods with";
    let references = "can not create pods that reference";
    for (changes, expected) in [
        (json!({"metadata": {"annotations": null}}), "can only create mirror pods".to_string()),
        (json!({"spec": {"nodeName": "n2"}}), format!("{only} spec.nodeName set to itself")),
        (json!({"metadata": {"ownerReferences": null}}), format!("{only} an owner reference set to itself")),
        (
            json!({"metadata": {"ownerReferences": [owner,
                {"apiVersion": "v1", "kind": "Namespace", "name": "a", "uid": "u"}]}}),
            format!("{only} a single owner reference set to itself"),
        ),
        (owned(json!({"name": "n2"})), format!("{only} an owner reference set to itself")),
        (owned(json!({"controller": null})), format!("{only} a controller owner reference set to itself")),
        (
            owned(json!({"blockOwnerDeletion": true})),
            "must not set blockOwnerDeletion on an owner reference".into(),
        ),
        (owned(json!({"uid": "other"})), format!("UID mismatch: expected other got {uid}")),
        (json!({"spec": {"serviceAccountName": "default"}}), format!("{references} a service account")),
        (volume(json!({"secret": {"secretName": "s"}})), format!("{references} secrets")),
        (json!({"spec": {"imagePullSecrets": [{"name": "s"}]}}), format!("{references} secrets")),
        (volume(json!({"configMap": {"name": "m"}})), format!("{references} configmaps")),
        (
            volume(json!({"persistentVolumeClaim": {"claimName": "c"}})),
            format!("{references} persistentvolumeclaims"),
        ),
        (
            json!({"spec": {"resourceClaims": [{"name": "r", "resourceClaimName": "gpu"}]}}),
            format!("{references} resourceclaims"),
        ),
    ] {
        let error = mirror(changes.clone()).expect_err(&changes.to_string());
        assert!(error.contains(&expected), "{changes}: {error}");
    }
    assert_eq!(mirror(json!({})), Ok(()));
}

/// Changes an object as the node; returns the error.
fn changed<T: BuiltinKind>(api: &Api, key: &Key, part: Part, change: impl Fn(&mut T)) -> Result<(), String> {
    let options = WriteOptions { user: Some(std::sync::Arc::new(node())), ..WriteOptions::default() };
    let edit = |current: &object::Object| {
        let mut object = current.clone();
        change(object.get_mut::<T>().expect("the kind of the key"));
        Ok(object)
    };
    api.change(T::kind(), key, part, &options, edit).map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_node_changes_of_itself_and_of_claims_what_it_observes_sec_4() {
    let api = api();
    let owned = json!([{"apiVersion": "v1", "kind": "Namespace", "name": "a", "uid": "u"}]);
    create(
        &api,
        Kind::Node,
        json!({"metadata": {"name": "n1", "ownerReferences": owned,
        "labels": {"kubernetes.io/hostname": "n1", "node-role.kubernetes.io/worker": ""}}}),
    );
    create(&api, Kind::ServiceAccount, json!({"metadata": {"name": "default", "namespace": "a"}}));
    create(
        &api,
        Kind::PersistentVolumeClaim,
        json!({"metadata": {"name": "c", "namespace": "a"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    );
    let n1 = Key::new("", "n1");
    let label = |key: &str, value: Option<&str>| {
        changed::<Node>(&api, &n1, Part::Main, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            match value {
                Some(value) => labels.insert(key.into(), value.into()),
                None => labels.remove(key),
            };
        })
    };
    for key in
        ["example.com/x", "kubelet.kubernetes.io/x", "a.node.kubernetes.io/x", "topology.kubernetes.io/zone"]
    {
        assert_eq!(label(key, Some("y")), Ok(()), "{key}");
    }
    for (key, value) in [
        ("node-restriction.kubernetes.io/x", Some("y")),
        ("a.node-restriction.kubernetes.io/x", Some("y")),
        ("node-role.kubernetes.io/control-plane", Some("")),
        ("node-role.kubernetes.io/worker", None),
        ("example.k8s.io/x", Some("y")),
        ("kubernetes.io/x", Some("y")),
    ] {
        let error = label(key, value).expect_err(key);
        assert!(error.ends_with(&format!("is not allowed to modify labels: {key}")), "{error}");
    }
    let disowned = changed::<Node>(&api, &n1, Part::Main, |node| node.metadata.owner_references = None);
    assert!(disowned.unwrap_err().ends_with("is not allowed to modify ownerReferences"));

    let claim = Key::new("a", "c");
    let observed = |change: fn(&mut PersistentVolumeClaim)| changed(&api, &claim, Part::Status, change);
    let grown = observed(|claim| {
        let size = k8s_openapi::apimachinery::pkg::api::resource::Quantity("2Gi".into());
        claim.status.get_or_insert_default().capacity = Some([("storage".to_string(), size)].into());
    });
    assert_eq!(grown, Ok(()));
    let bound = observed(|claim| claim.status.get_or_insert_default().phase = Some("Bound".into()));
    assert!(bound.unwrap_err().contains("fields other than status.capacity and status.conditions"));
    let written = changed::<PersistentVolumeClaim>(&api, &claim, Part::Main, |claim| {
        claim.metadata.labels = Some([("a".to_string(), "b".to_string())].into());
    });
    assert!(written.unwrap_err().ends_with("may only update PVC status"));
}

#[tokio::test]
async fn a_node_asks_for_tokens_of_audiences_that_its_pods_use_sec_4() {
    let api = api();
    create(&api, Kind::ServiceAccount, json!({"metadata": {"name": "robot", "namespace": "a"}}));
    let driver =
        json!({"metadata": {"name": "d.example.com"}, "spec": {"tokenRequests": [{"audience": "vault"}]}});
    create(&api, Kind::CSIDriver, driver);
    create(
        &api,
        Kind::Pod,
        json!({"metadata": {"name": "mine", "namespace": "a"}, "spec": {"nodeName": "n1",
        "serviceAccountName": "robot", "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i"}], "volumes": [
            {"name": "v", "csi": {"driver": "d.example.com"}},
            {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"audience": "bank", "path": "t"}}]}}]}}),
    );
    let uid = api.get_as::<Pod>(&Key::new("a", "mine")).unwrap().uid().to_string();
    let token = |audiences: &[&str]| {
        let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": uid});
        let request =
            serde_json::from_value(json!({"spec": {"audiences": audiences, "boundObjectRef": bound}}))
                .unwrap();
        restrict_token(&api, Some(&node()), &Key::new("a", "robot"), &request)
            .map_err(|error| error.to_string())
    };
    assert_eq!((token(&["bank"]), token(&["vault"])), (Ok(()), Ok(())));
    assert!(token(&["bank", "vault"]).unwrap_err().ends_with("node may only request 0 or 1 audiences"));
    for audience in ["", "registry"] {
        let error = token(if audience.is_empty() { &[] } else { &["registry"] }).unwrap_err();
        let expected = format!(
            "audience \"{audience}\" not found in pod spec volume, system:node:n1 is not authorized to request \
             tokens for this audience"
        );
        assert!(error.ends_with(&expected), "{error}");
    }
    let verb = "request-serviceaccounts-token-audience";
    let rules = json!([{"apiGroups": [""], "resources": ["registry"], "verbs": [verb]}]);
    create(&api, Kind::ClusterRole, json!({"metadata": {"name": "pulls"}, "rules": rules}));
    let nodes = json!([{"kind": "Group", "name": "system:nodes"}]);
    create(
        &api,
        Kind::ClusterRoleBinding,
        json!({"metadata": {"name": "pulls"}, "subjects": nodes,
        "roleRef": {"kind": "ClusterRole", "name": "pulls"}}),
    );
    assert_eq!(token(&["registry"]), Ok(()));
}
