//! An API with the namespace `n`, and its objects, for the tests of this crate.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;

use api::{Api, ApiConfig};
use base::clock::Clock;
use object::SharedObject;
use store::Store;

pub(super) fn api() -> Api {
    let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
    let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    api.create_as(namespace).unwrap();
    api
}

pub(super) fn create_config_map(api: &Api, name: &str) -> SharedObject<ConfigMap> {
    let map = json!({"metadata": {"name": name, "namespace": "n"}});
    api.create_as(serde_json::from_value::<ConfigMap>(map).unwrap()).unwrap()
}
