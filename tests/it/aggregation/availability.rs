//! The availability of extension servers as their status shows it, and the APIServices that the server creates itself.
//! On virtual time.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use podium::api::{Api, DeleteOptions, Visibility};
use podium::base::task::Tasks;
use podium::controllers::{Controllers, Settings};
use podium::object::{Key, Kind};
use podium::reconcile::Caches;
use serde_json::{Value, json};

use super::server::Reply;
use super::{GROUP, NAME, extension, register, serve_at};
use crate::controllers::cluster::{Cluster, NO_NODES};
use crate::http::InMemoryServer;

/// Returns status, reason and message of the condition; empty strings if it is missing.
fn availability_of(api: &Api, name: &str) -> [String; 3] {
    let service = api.get_as::<APIService>(&Key::new("", name)).unwrap();
    let conditions = service.status.as_ref().and_then(|status| status.conditions.as_ref());
    let condition = conditions.into_iter().flatten().find(|condition| condition.type_ == "Available");
    condition.map_or_else(Default::default, |condition| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        [condition.status.clone(), text(&condition.reason), text(&condition.message)]
    })
}

/// Waits until the condition has this reason.
async fn reason(api: &Api, reason: &str) -> [String; 3] {
    let mut changes = api.watch(Kind::APIService, api.revision(), Visibility::Applied);
    let waited = tokio::time::timeout(Duration::from_mins(1), async {
        while availability_of(api, NAME)[1] != reason {
            changes.next().await.unwrap();
        }
    });
    assert!(waited.await.is_ok(), "not {reason}, but {:?}", availability_of(api, NAME));
    availability_of(api, NAME)
}

/// This test runs on the machine's clock, as the server does.
#[tokio::test(flavor = "multi_thread")]
async fn the_condition_follows_the_service_and_its_server_api_17() {
    let face = InMemoryServer::new();
    let (api, tasks) = (&face.api, Tasks::new());
    let caches = Caches::new(api, &tasks);
    let others = Controllers::names().filter(|name| *name != "apiservice-available-controller");
    let settings = Settings { disabled: others.map(Into::into).collect(), ..Settings::default() };
    let controllers = Controllers::start(api, &caches, &tasks, settings);
    let server = extension(api, |_| Reply::Text(404, String::new()));
    register(api, &server.authority);
    let missing = reason(api, "ServiceNotFound").await;
    assert_eq!((&*missing[0], &*missing[2]), ("False", "service/wardle in \"default\" is not present"));
    serve_at(api, server.address);
    let passed = reason(api, "Passed").await;
    assert_eq!((&*passed[0], &*passed[2]), ("True", "all checks passed"));
    let address = server.address;
    drop(server);
    // A change of its service triggers another check.
    let service = Key::new("default", "wardle");
    let changed = api.modify::<Service>(&service, |service| {
        service.metadata.labels = Some([("a".to_string(), "b".to_string())].into());
        Ok(())
    });
    changed.unwrap();
    let failed = reason(api, "FailedDiscoveryCheck").await;
    assert_eq!(failed[0], "False");
    assert_eq!(
        failed[2],
        format!(
            "failing or missing response from https://{address}{GROUP}: Get \"https://{address}{GROUP}\": dial tcp \
             {address}: connect: connection refused"
        )
    );
    api.delete(Kind::Endpoints, &service, &DeleteOptions::default()).unwrap();
    reason(api, "EndpointsNotFound").await;
    controllers.stop().await;
    tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_served_has_its_api_service_api_17() {
    let cluster = Cluster::start(NO_NODES);
    cluster.settle().await;
    let get = |name: &str| cluster.api.get_as::<APIService>(&Key::new("", name)).ok();
    let shown = |name: &str| {
        let service = get(name).unwrap_or_else(|| panic!("{name}"));
        let label = service.metadata.labels.as_ref().and_then(|labels| labels.values().next().cloned());
        let spec = service.spec.clone().unwrap();
        assert_eq!(
            availability_of(&cluster.api, name),
            ["True", "Local", "Local APIServices are always available"]
        );
        assert!(
            service.status.as_ref().unwrap().conditions.as_ref().unwrap()[0].last_transition_time.is_some()
        );
        (label, spec.group_priority_minimum, spec.version_priority)
    };
    let label = |text: &str| Some(text.to_string());
    assert_eq!(shown("v1."), (label("onstart"), 18_000, 1));
    assert_eq!(shown("v1.apps"), (label("onstart"), 17_800, 15));
    assert_eq!(shown("v2.autoscaling"), (label("onstart"), 17_500, 30));
    assert_eq!(shown("v1.authorization.k8s.io"), (label("onstart"), 17_600, 15));
    assert_eq!(shown("v1beta1.metrics.k8s.io"), (None, 100, 9));
    assert!(get("v1.apiregistration.k8s.io").is_none());

    // A deleted APIService comes back; an administrator's priority stays.
    cluster.api.delete(Kind::APIService, &Key::new("", "v1.batch"), &DeleteOptions::default()).unwrap();
    let changed = cluster.api.modify::<APIService>(&Key::new("", "v1.apps"), |service| {
        service.spec.as_mut().unwrap().group_priority_minimum = 19_000;
        Ok(())
    });
    changed.unwrap();
    cluster.settle().await;
    assert_eq!(shown("v1.batch").1, 17_400);
    assert_eq!(shown("v1.apps").1, 19_000);
    cluster.stop().await;
}

fn definition(versions: &[&str]) -> Value {
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": *name == versions[0],
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": versions.iter().map(version).collect::<Vec<_>>()}})
}

#[tokio::test(start_paused = true)]
async fn api_services_of_definitions_come_and_go_with_them_api_17() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<CustomResourceDefinition>(definition(&["v1", "v2"]));
    cluster.settle().await;
    let get = |name: &str| cluster.api.get_as::<APIService>(&Key::new("", name)).ok();
    for name in ["v1.example.com", "v2.example.com"] {
        let service = get(name).unwrap();
        let labels = service.metadata.labels.clone().unwrap();
        assert_eq!(labels["kube-aggregator.kubernetes.io/automanaged"], "true");
        let spec = service.spec.clone().unwrap();
        assert_eq!((spec.group_priority_minimum, spec.version_priority), (1_000, 100));
    }
    // A user's change of a managed APIService is reverted; one of a user's own APIService stays.
    for (name, label) in [("v1.example.com", Some("true")), ("v2.example.com", None)] {
        let changed = cluster.api.modify::<APIService>(&Key::new("", name), |service| {
            service.spec.as_mut().unwrap().version_priority = 7;
            let label = label.map(|label| ("kube-aggregator.kubernetes.io/automanaged".into(), label.into()));
            service.metadata.labels = Some(label.into_iter().collect());
            Ok(())
        });
        changed.unwrap();
    }
    cluster.settle().await;
    let priority = |name: &str| get(name).unwrap().spec.as_ref().unwrap().version_priority;
    assert_eq!((priority("v1.example.com"), priority("v2.example.com")), (100, 7));
    let key = Key::new("", "widgets.example.com");
    cluster.api.delete(Kind::CustomResourceDefinition, &key, &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert!(get("v1.example.com").is_none());
    assert!(get("v2.example.com").is_some(), "a user's own APIService stays");
    cluster.stop().await;
}

/// The data by which an extension server recognizes the front proxy is correct, even after others changed it.
#[tokio::test(start_paused = true)]
async fn extension_servers_get_correct_data_about_the_front_proxy_api_17() {
    let cluster = Cluster::start(NO_NODES);
    super::create(&cluster.api, Kind::Namespace, json!({"metadata": {"name": "kube-system"}}));
    cluster.settle().await;
    let key = Key::new("kube-system", "extension-apiserver-authentication");
    let map = cluster.api.get_as::<ConfigMap>(&key).unwrap().data.clone().unwrap();
    for (entry, expected) in [
        ("client-ca-file", "the CA"),
        ("requestheader-client-ca-file", cluster.api.front_proxy().unwrap().certificate_pem()),
        ("requestheader-allowed-names", "[\"front-proxy-client\"]"),
        ("requestheader-username-headers", "[\"X-Remote-User\"]"),
        ("requestheader-uid-headers", "[\"X-Remote-Uid\"]"),
        ("requestheader-group-headers", "[\"X-Remote-Group\"]"),
        ("requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]"),
    ] {
        assert_eq!(map[entry], expected, "{entry}");
    }
    assert_eq!(map.len(), 7);
    cluster.stop().await;
}
