//! The addresses of services as objects (API-17), on virtual time.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use podium::api::DeleteOptions;
use podium::object::{Key, Kind};
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES};

fn service(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["ports"] = json!([{"port": 80}]);
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// Formats the addresses as `address=resource/namespace/name`, in order.
fn addresses(cluster: &Cluster) -> Vec<String> {
    let mut all: Vec<String> = cluster
        .api
        .list_as::<IPAddress>(None)
        .iter()
        .map(|address| {
            let parent = &address.spec.parent_ref;
            let namespace = parent.namespace.as_deref().unwrap_or_default();
            format!("{}={}/{namespace}/{}", address.name(), parent.resource, parent.name)
        })
        .collect();
    all.sort();
    all
}

fn delete(cluster: &Cluster, kind: Kind, key: &Key) {
    cluster.api.delete(kind, key, &DeleteOptions::default()).unwrap();
}

fn gateways_address(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"parentRef": {"group": "a.b", "resource": "gateways",
        "namespace": "default", "name": "web"}}})
}

#[tokio::test(start_paused = true)]
async fn each_address_of_a_service_is_an_object_as_long_as_the_service_has_it_api_17() {
    let cluster = Cluster::start(NO_NODES);
    let web = cluster.create::<Service>(service("web", &json!({})));
    cluster.create::<Service>(service("headless", &json!({"clusterIP": "None"})));
    cluster.settle().await;
    let address = web.spec.as_ref().unwrap().cluster_ip.clone().unwrap();
    let of_web = vec![format!("{address}=services/default/web")];
    assert_eq!(addresses(&cluster), of_web);
    // A deleted address comes back; an address without a service is deleted.
    delete(&cluster, Kind::IPAddress, &Key::new("", &address));
    let leaked = json!({"metadata": {"name": "127.32.9.9"}, "spec": {"parentRef": {"resource": "services",
        "namespace": "default", "name": "gone"}}});
    cluster.create::<IPAddress>(leaked);
    cluster.settle().await;
    assert_eq!(addresses(&cluster), of_web);
    // Another service takes the address over.
    delete(&cluster, Kind::Service, &web.key());
    cluster.create::<Service>(service("next", &json!({"clusterIP": address})));
    cluster.settle().await;
    assert_eq!(addresses(&cluster), [format!("{address}=services/default/next")]);
    delete(&cluster, Kind::Service, &Key::new("default", "next"));
    cluster.settle().await;
    assert_eq!(addresses(&cluster), Vec::<String>::new());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_address_of_another_owner_is_assigned_to_no_service_api_17() {
    let cluster = Cluster::start(NO_NODES);
    let asks = |name: &str, ip: &str| {
        let service = service(name, &json!({"clusterIP": ip}));
        let made = cluster.api.create_as::<Service>(serde_json::from_value(service).unwrap());
        made.map(drop).map_err(|error| error.to_string())
    };
    let key = |name: &str| Key::new("", name);
    cluster.create::<IPAddress>(gateways_address("127.32.1.1"));
    cluster.settle().await;
    assert!(asks("web", "127.32.1.1").unwrap_err().contains("provided IP is already allocated"));
    // The address of a service is not assigned again, even if its object does not exist yet.
    asks("other", "127.32.1.2").unwrap();
    let requested = serde_json::from_value::<IPAddress>(gateways_address("127.32.1.2")).unwrap();
    assert!(cluster.api.create_as(requested).unwrap_err().is_already_exists());
    delete(&cluster, Kind::IPAddress, &key("127.32.1.1"));
    asks("web", "127.32.1.1").unwrap();
    cluster.settle().await;
    assert_eq!(addresses(&cluster), ["127.32.1.1=services/default/web", "127.32.1.2=services/default/other"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_service_cidr_of_the_cluster_exists_and_others_are_reported_as_unused_api_17() {
    let cluster = Cluster::start(NO_NODES);
    let ready = |name: &str| {
        let range = cluster.api.get_as::<ServiceCIDR>(&Key::new("", name)).unwrap();
        let cidrs = range.spec.as_ref().and_then(|spec| spec.cidrs.clone()).unwrap_or_default();
        let conditions =
            range.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        (cidrs.join(","), conditions[0].type_.clone(), conditions[0].status.clone())
    };
    cluster.settle().await;
    let own = ("127.32.0.0/16".to_string(), "Ready".to_string(), "True".to_string());
    assert_eq!(ready("kubernetes"), own);
    cluster.create::<ServiceCIDR>(json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.0.0.0/24"]}}));
    delete(&cluster, Kind::ServiceCIDR, &Key::new("", "kubernetes"));
    cluster.settle().await;
    assert_eq!(ready("kubernetes"), own);
    assert_eq!(ready("more"), ("10.0.0.0/24".into(), "Ready".into(), "False".into()));
    cluster.stop().await;
}
