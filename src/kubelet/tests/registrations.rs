//! Tests of a kubelet's report of its node, and of the fields it leaves to others (NODE-1, NODE-6).

use super::*;

fn node(scene: &KubeletFixture) -> SharedObject<NodeObject> {
    scene.api.get_as(&Key::new("", "n1")).unwrap()
}

fn label(node: &NodeObject, key: &str) -> String {
    node.metadata.labels.as_ref().unwrap().get(key).cloned().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn labels_and_capacity_set_by_others_survive_kubelet_reports_node_1() {
    let scene = KubeletFixture::with_capacity(json!({"cpu": "4"})).await;
    let key = Key::new("", "n1");
    scene
        .api
        .modify::<NodeObject>(&key, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert("topology.kubernetes.io/zone".into(), "theirs".into());
            labels.insert("kubernetes.io/hostname".into(), "theirs".into());
            Ok(())
        })
        .unwrap();
    // The capacity is patched as on the page "Advertise Extended Resources for a Node".
    scene
        .api
        .modify_status::<NodeObject>(&key, |node| {
            let capacity = node.status.get_or_insert_default().capacity.get_or_insert_default();
            capacity.insert("example.com/dongle".into(), serde_json::from_value(json!("4")).unwrap());
            capacity.insert("cpu".into(), serde_json::from_value(json!("400")).unwrap());
            Ok(())
        })
        .unwrap();
    tokio::time::sleep(Duration::from_mins(11)).await;
    let node = node(&scene);
    assert_eq!(label(&node, "topology.kubernetes.io/zone"), "theirs");
    assert_eq!(label(&node, "kubernetes.io/hostname"), "n1");
    let capacity = node.status.as_ref().unwrap().capacity.clone().unwrap();
    assert_eq!(json!(capacity), json!({"cpu": "4", "example.com/dongle": "4"}));
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_node_carries_annotations_about_its_limitations_net_11_img_12() {
    let with_note = |note: Option<&str>| NodeConfig {
        network_note: note.map(ToOwned::to_owned),
        users_note: note.map(ToOwned::to_owned),
        ..config()
    };
    let scene =
        KubeletFixture::start(HollowConfig::default(), with_note(Some("no namespaces: do this"))).await;
    let notes = || {
        let annotations = node(&scene).metadata.annotations.clone().unwrap_or_default();
        ["network-note", "users-note"].map(|name| annotations.get(&format!("podium.dev/{name}")).cloned())
    };
    assert_eq!(notes(), [const { Some("no namespaces: do this") }; 2].map(|note| note.map(str::to_owned)));
    scene.kubelet.detach().await;
    scene.kubelets.start_node(with_note(None), scene.runtime.clone()).await.unwrap();
    assert_eq!(notes(), [None, None], "it is no longer so");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_new_addresses_keeps_labels_and_taints_of_users_node_1_net_1() {
    let scene = KubeletFixture::new().await;
    scene
        .api
        .modify::<NodeObject>(&Key::new("", "n1"), |node| {
            node.metadata.labels.get_or_insert_default().insert("disk".into(), "ssd".into());
            node.metadata
                .annotations
                .get_or_insert_default()
                .insert("podium.dev/node".into(), "hollow".into());
            let spec = node.spec.get_or_insert_default();
            spec.unschedulable = Some(true);
            spec.taints = serde_json::from_value(json!([{"key": "a", "effect": "NoSchedule"}])).unwrap();
            Ok(())
        })
        .unwrap();
    scene.kubelet.detach().await;
    assert!(scene.api.node_access("n1").is_none(), "a detached kubelet gives no access to its node");
    let range = Ipv4Net::new_assert([127, 9, 3, 0].into(), 24);
    let again = NodeConfig { pod_range: range, ..config() };
    scene.kubelets.start_node(again, scene.runtime.clone()).await.unwrap();
    let node = node(&scene);
    let spec = node.spec.clone().unwrap();
    assert_eq!(spec.pod_cidr.as_deref(), Some("127.9.3.0/24"));
    assert_eq!((spec.unschedulable, spec.taints.unwrap().len()), (Some(true), 1));
    assert_eq!(label(&node, "disk"), "ssd");
    assert_eq!(node.metadata.annotations.as_ref().unwrap()["podium.dev/node"], "hollow");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn it_is_known_when_pods_have_left_a_node_node_6() {
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"terminationGracePeriodSeconds": 5, "containers": [{"name": "a"}]}));
    scene.until(&key, "ready", is_ready).await;
    let uid = scene.pod(&key).uid().to_string();
    let (kubelet, pods) = (scene.kubelet.clone(), [uid, "unknown".to_string()].into());
    let left = tokio::spawn(async move { kubelet.wait_pods_removed(&pods).await });
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!left.is_finished());
    scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    tokio::time::timeout(Duration::from_mins(1), left).await.expect("it ends").unwrap();
    assert!(scene.api.get(Kind::Pod, &key).is_err());
    scene.tasks.stop().await;
}

/// An extended resource is advertised by a patch of the node's capacity, and withdrawn the same way; the kubelet adds
/// it to the allocatable resources, as the conformance test "validates basic preemption works" expects (NODE-1).
#[tokio::test(start_paused = true)]
async fn an_extended_resource_in_the_capacity_may_be_had_by_pods() {
    let scene = KubeletFixture::with_capacity(json!({"cpu": "4"})).await;
    let key = Key::new("", "n1");
    let advertise = |quantity: Option<&str>| {
        scene
            .api
            .modify_status::<NodeObject>(&key, |node| {
                let status = node.status.get_or_insert_default();
                let capacity = status.capacity.get_or_insert_default();
                capacity.remove("example.com/gpu");
                capacity.extend(
                    quantity
                        .map(|q| ("example.com/gpu".to_owned(), serde_json::from_value(json!(q)).unwrap())),
                );
                Ok(())
            })
            .unwrap();
    };
    let may_be_had = || {
        let node = scene.api.get_as::<NodeObject>(&key).unwrap();
        let allocatable = node.status.as_ref().and_then(|s| s.allocatable.clone()).unwrap_or_default();
        assert_eq!(allocatable["cpu"].0, "4");
        allocatable.get("example.com/gpu").map(|q| q.0.clone())
    };
    for quantity in [Some("5"), Some("7"), None] {
        advertise(quantity);
        let advertised = async {
            while may_be_had().as_deref() != quantity {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(15), advertised).await.is_ok(), "{quantity:?}");
    }
    scene.tasks.stop().await;
}
