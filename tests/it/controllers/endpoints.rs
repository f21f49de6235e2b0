//! The pages "Service" and "EndpointSlices" (SVC-1), on virtual time: the endpoints of a service, as Endpoints and as
//! EndpointSlices, and the limits of the simple case.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use podium::api::DeleteOptions;
use podium::object::{Kind, SharedObject};
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES, key};
use super::nodes::node;

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

fn service(cluster: &Cluster, spec: &Value) -> SharedObject<Service> {
    cluster.create(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}))
}

/// A running pod `app=web` with these container ports by name.
fn pod(cluster: &Cluster, name: &str, ports: &[(&str, i32)], ready: bool) {
    let ports: Vec<Value> = ports.iter().map(|(n, port)| json!({"name": n, "containerPort": port})).collect();
    cluster
        .create::<Pod>(json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i", "ports": ports}]}}));
    cluster.set_ready(&cluster.get::<Pod>(name), ready);
}

fn slices(cluster: &Cluster) -> Vec<SharedObject<EndpointSlice>> {
    cluster.api.list_as(Some("default"))
}

/// Formats each slice as `name:port,…=pods`, with `!` after a pod that is not ready.
fn describe_slices(cluster: &Cluster) -> Vec<String> {
    let mut all: Vec<String> = slices(cluster)
        .iter()
        .map(|slice| {
            let ports = slice.ports.iter().flatten();
            let ports: Vec<_> =
                ports.map(|p| format!("{}:{}", p.name.clone().unwrap(), p.port.unwrap())).collect();
            let mut members: Vec<String> = slice
                .endpoints
                .iter()
                .flatten()
                .map(|e| {
                    let ready = e.conditions.as_ref().unwrap().ready == Some(true);
                    let target = e.target_ref.as_ref().map_or(&e.addresses[0], |t| t.name.as_ref().unwrap());
                    format!("{target}{}", if ready { "" } else { "!" })
                })
                .collect();
            members.sort();
            format!("{}={}", ports.join(","), members.join(","))
        })
        .collect();
    all.sort();
    all
}

/// Counts the ready and the other addresses of Endpoints objects.
fn addresses(cluster: &Cluster) -> (usize, usize) {
    let endpoints = cluster.get::<Endpoints>("web");
    let subsets = || endpoints.subsets.iter().flatten();
    (
        subsets().flat_map(|s| s.addresses.iter().flatten()).count(),
        subsets().flat_map(|s| s.not_ready_addresses.iter().flatten()).count(),
    )
}

#[tokio::test(start_paused = true)]
async fn one_name_may_mean_another_port_on_each_pod_svc_1() {
    let cluster = Cluster::start(NO_NODES);
    service(
        &cluster,
        &json!({"selector": {"app": "web"}, "ports": [
            {"name": "http", "port": 80, "targetPort": "web"},
            {"name": "admin", "port": 81, "targetPort": 9000}]}),
    );
    pod(&cluster, "a", &[("web", 8080)], true);
    pod(&cluster, "b", &[("web", 8080)], true);
    pod(&cluster, "new", &[("web", 9090)], true);
    pod(&cluster, "none", &[], true);
    cluster.settle().await;
    assert_eq!(
        describe_slices(&cluster),
        ["admin:9000,http:8080=a,b", "admin:9000,http:9090=new", "admin:9000=none"]
    );
    let legacy = cluster.get::<Endpoints>("web");
    let mut subsets: Vec<(usize, usize)> = legacy
        .subsets
        .iter()
        .flatten()
        .map(|s| (s.ports.as_ref().unwrap().len(), s.addresses.as_ref().unwrap().len()))
        .collect();
    subsets.sort_unstable();
    assert_eq!(subsets, [(1, 1), (2, 1), (2, 2)]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_published_before_they_are_ready_on_request_svc_1() {
    let cluster = Cluster::start(NO_NODES);
    service(
        &cluster,
        &json!({"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}],
        "publishNotReadyAddresses": true}),
    );
    pod(&cluster, "a", &[], false);
    pod(&cluster, "b", &[], true);
    cluster.api.delete(Kind::Pod, &key("b"), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert_eq!((describe_slices(&cluster), addresses(&cluster)), (vec![":80=a,b".to_string()], (2, 0)));
    let conditions: BTreeMap<String, (bool, bool)> = slices(&cluster)[0]
        .endpoints
        .iter()
        .flatten()
        .map(|e| {
            let conditions = e.conditions.as_ref().unwrap();
            let name = e.target_ref.as_ref().unwrap().name.clone().unwrap();
            (name, (conditions.serving.unwrap(), conditions.terminating.unwrap()))
        })
        .collect();
    assert_eq!(
        (conditions["a"], conditions["b"]),
        ((false, false), (true, true)),
        "conditions say what is so"
    );
    let headless =
        slices(&cluster)[0].metadata.labels.as_ref().unwrap().contains_key("service.kubernetes.io/headless");
    assert!(headless);
    cluster.change::<Service>("web", |s| s.spec.as_mut().unwrap().publish_not_ready_addresses = None);
    cluster.settle().await;
    assert_eq!((describe_slices(&cluster), addresses(&cluster)), (vec![":80=a!,b!".to_string()], (0, 1)));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_by_hand_are_mirrored_until_the_service_selects_pods_svc_1() {
    let cluster = Cluster::start(NO_NODES);
    service(&cluster, &json!({"ports": [{"port": 80, "targetPort": 9376}]}));
    cluster.settle().await;
    assert!(
        cluster.api.get(Kind::Endpoints, &key("web")).is_err(),
        "a service without a selector gets no Endpoints"
    );
    let mut by_hand = json!({"metadata": {"name": "web", "namespace": "default", "labels": {"team": "db"},
            "annotations": {"note": "outside", "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "subsets": [{"addresses": [{"ip": "192.0.2.42"}], "ports": [{"port": 9376}]}]});
    cluster.create::<Endpoints>(by_hand.clone());
    cluster.settle().await;
    assert_eq!(describe_slices(&cluster), [":9376=192.0.2.42"]);
    let slice = slices(&cluster).remove(0);
    assert!(slice.name().starts_with("web-"), "{}", slice.name());
    let owner = &slice.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Endpoints", "web"));
    let labels = json!({"team": "db", "kubernetes.io/service-name": "web",
        MANAGED_BY: "endpointslicemirroring-controller.k8s.io"});
    assert_eq!(serde_json::to_value(&slice.metadata.labels).unwrap(), labels);
    assert_eq!(serde_json::to_value(&slice.metadata.annotations).unwrap(), json!({"note": "outside"}));
    // A change of the Endpoints by hand is copied to the slice; a change of the slice by hand is reverted.
    let more = json!([{"addresses": [{"ip": "192.0.2.42"}], "notReadyAddresses": [{"ip": "192.0.2.43"}],
        "ports": [{"port": 9376, "protocol": "TCP"}]}]);
    cluster.change::<Endpoints>("web", |e| e.subsets = serde_json::from_value(more.clone()).unwrap());
    cluster.settle().await;
    assert_eq!(describe_slices(&cluster), [":9376=192.0.2.42,192.0.2.43!"]);
    cluster.change::<EndpointSlice>(slices(&cluster)[0].name(), |s| s.endpoints = None);
    cluster.settle().await;
    assert_eq!(describe_slices(&cluster), [":9376=192.0.2.42,192.0.2.43!"]);
    // A service with a selector gets endpoints of its own.
    pod(&cluster, "a", &[], true);
    cluster.change::<Service>("web", |s| {
        s.spec.as_mut().unwrap().selector = Some([("app".to_string(), "web".to_string())].into());
    });
    cluster.settle().await;
    assert_eq!(describe_slices(&cluster), [":9376=a"]);
    let by = slices(&cluster)[0].metadata.labels.as_ref().unwrap()[MANAGED_BY].clone();
    assert_eq!(by, "endpointslice-controller.k8s.io");
    // Addresses beyond a thousand are left out, with an event.
    cluster.api.delete(Kind::Service, &key("web"), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert_eq!(describe_slices(&cluster), [""; 0]);
    let many: Vec<Value> =
        (0..1002).map(|n| json!({"ip": format!("192.0.{}.{}", n / 250, n % 250)})).collect();
    by_hand["subsets"][0]["addresses"] = json!(many);
    service(&cluster, &json!({"ports": [{"port": 80}]}));
    cluster.create::<Endpoints>(by_hand);
    cluster.settle().await;
    assert_eq!(slices(&cluster)[0].endpoints.as_ref().unwrap().len(), 1000);
    let skipped = "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. \
                   2 addresses were skipped";
    assert_eq!(cluster.events("TooManyAddressesToMirror"), [skipped]);
    cluster.api.delete(Kind::Endpoints, &key("web"), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert_eq!(describe_slices(&cluster), [""; 0], "they go with what they mirror");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn over_a_thousand_pods_fill_slices_and_overflow_endpoints_svc_1() {
    let cluster = Cluster::start(NO_NODES);
    for n in 0..1010 {
        pod(&cluster, &format!("p{n:04}"), &[], n % 101 != 0);
    }
    service(&cluster, &json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
    cluster.settle().await;
    let sizes = || -> Vec<usize> {
        let mut sizes: Vec<_> =
            slices(&cluster).iter().map(|s| s.endpoints.as_ref().map_or(0, Vec::len)).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(), [&[10][..], &[100; 10]].concat());
    let note = || cluster.get::<Endpoints>("web").metadata.annotations.clone().unwrap_or_default();
    assert_eq!(addresses(&cluster), (1000, 0), "those that are ready come first");
    assert_eq!(note()[OVER_CAPACITY], "truncated");
    for n in 1..6 {
        cluster.fail(&cluster.get::<Pod>(&format!("p{n:04}")));
    }
    cluster.settle().await;
    assert_eq!(addresses(&cluster), (995, 5));
    assert_eq!(note()[OVER_CAPACITY], "truncated");
    for n in 6..11 {
        cluster.fail(&cluster.get::<Pod>(&format!("p{n:04}")));
    }
    cluster.settle().await;
    assert_eq!((addresses(&cluster), note().get(OVER_CAPACITY)), ((990, 10), None));
    assert_eq!(sizes().iter().sum::<usize>(), 1000);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_external_name_has_no_endpoints_and_client_ip_affinity_has_a_default_timeout_svc_1() {
    let cluster = Cluster::start(NO_NODES);
    pod(&cluster, "a", &[], true);
    service(
        &cluster,
        &json!({"type": "ExternalName", "externalName": "my.database.example.com",
            "selector": {"app": "web"}}),
    );
    cluster.settle().await;
    assert!(cluster.api.get(Kind::Endpoints, &key("web")).is_err() && slices(&cluster).is_empty());
    let ip = |s: &Service| s.spec.as_ref().unwrap().cluster_ip.clone().unwrap_or_default();
    assert_eq!(ip(&cluster.get("web")), "");
    // It becomes a service like any other.
    cluster.change::<Service>("web", |s| {
        let spec = s.spec.as_mut().unwrap();
        (spec.type_, spec.external_name) = (Some("ClusterIP".into()), None);
        spec.ports = serde_json::from_value(json!([{"port": 80}])).unwrap();
        spec.session_affinity = Some("ClientIP".into());
    });
    cluster.settle().await;
    assert_eq!((describe_slices(&cluster), addresses(&cluster)), (vec![":80=a".to_string()], (1, 0)));
    let sticky = cluster.get::<Service>("web");
    assert!(!ip(&sticky).is_empty());
    let config = sticky.spec.as_ref().unwrap().session_affinity_config.clone().unwrap();
    assert_eq!(config.client_ip.unwrap().timeout_seconds, Some(10_800), "three hours, unless it is said");
    cluster.stop().await;
}

/// The parts "Services without selectors" (with slices by hand) and "Traffic distribution".
#[tokio::test(start_paused = true)]
async fn slices_of_others_stay_and_near_ones_are_hinted_at_svc_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Node>(node("n1", "zone-a"));
    let by_hand = json!({"metadata": {"name": "web-1", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "web", MANAGED_BY: "staff"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 9376, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["192.0.2.7"], "conditions": {"ready": true}}]});
    cluster.create::<EndpointSlice>(by_hand);
    service(&cluster, &json!({"ports": [{"port": 80}]}));
    cluster.settle().await;
    assert_eq!(describe_slices(&cluster), [":9376=192.0.2.7"]);
    // A service with a selector has slices of its own beside it.
    pod(&cluster, "a", &[], true);
    pod(&cluster, "b", &[], false);
    cluster.change::<Service>("web", |s| {
        let spec = s.spec.as_mut().unwrap();
        spec.selector = Some([("app".to_string(), "web".to_string())].into());
    });
    cluster.settle().await;
    assert_eq!(describe_slices(&cluster), [":80=a,b!", ":9376=192.0.2.7"]);
    let hints = || -> Vec<Value> {
        let own = slices(&cluster).into_iter().find(|s| s.name() != "web-1").unwrap();
        let mut members: Vec<_> = own.endpoints.clone().unwrap();
        members.sort_by_key(|e| e.target_ref.as_ref().unwrap().name.clone());
        members.iter().map(|e| serde_json::to_value(&e.hints).unwrap()).collect()
    };
    let prefer = |what: Option<&str>| {
        let what = what.map(ToString::to_string);
        cluster.change::<Service>("web", |s| s.spec.as_mut().unwrap().traffic_distribution.clone_from(&what));
    };
    let (zone, node) = (json!([{"name": "zone-a"}]), json!([{"name": "n1"}]));
    for (what, expected) in [
        (None, Value::Null),
        (Some("PreferClose"), json!({"forZones": zone})),
        (Some("PreferSameNode"), json!({"forZones": zone, "forNodes": node})),
        (Some("PreferSameZone"), json!({"forZones": zone})),
        (None, Value::Null),
    ] {
        prefer(what);
        cluster.settle().await;
        assert_eq!(hints(), [expected, Value::Null], "{what:?}: b is not ready");
    }
    cluster.stop().await;
}

/// Two copies of a controller with different caches would otherwise revert each other's writes as fast as the machine
/// can.
#[tokio::test(start_paused = true)]
async fn reverted_endpoint_writes_are_repeated_with_back_off_svc_1_safe_6() {
    for deletes in [false, true] {
        let cluster = Cluster::start(NO_NODES);
        pod(&cluster, "a", &[], true);
        service(&cluster, &json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
        cluster.settle().await;
        let right = || {
            let there = cluster.api.get(Kind::Endpoints, &key("web")).is_ok();
            there && addresses(&cluster) == (1, 0) && describe_slices(&cluster) == [":80=a"]
        };
        let contradict = || {
            let slice = slices(&cluster).remove(0);
            if deletes {
                for (kind, key) in [(Kind::Endpoints, key("web")), (Kind::EndpointSlice, slice.key())] {
                    cluster.api.delete(kind, &key, &DeleteOptions::default()).unwrap();
                }
            } else {
                cluster.change::<Endpoints>("web", |endpoints| endpoints.subsets = None);
                cluster.change::<EndpointSlice>(slice.name(), |slice| slice.endpoints = None);
            }
        };
        assert!(right());
        let mut times = 0;
        while right() {
            assert!(times < 10, "it argues without end");
            contradict();
            cluster.settle().await;
            times += 1;
        }
        assert!(times > 3, "the first times are put right at once: {times}");
        cluster.pass(6).await;
        assert!(right(), "in the end it says it again");
        contradict();
        pod(&cluster, "b", &[], true);
        cluster.settle().await;
        assert_eq!(
            (describe_slices(&cluster), addresses(&cluster)),
            (vec![":80=a,b".into()], (2, 0)),
            "new: at once"
        );
        cluster.stop().await;
    }
}
