//! Addresses and node ports through the API's door.

use super::*;

use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use crate::{ApiConfig, DeleteOptions, WriteOptions};
use base::clock::Clock;
use object::Key;
use store::Store;

#[tokio::test]
async fn node_ports_are_one_services_alone_and_come_back_svc_1() {
    let api = Api::new(Store::ephemeral(), Clock::machine(), ApiConfig::default());
    let namespace = json!({"metadata": {"name": "default"}});
    api.create_as::<Namespace>(serde_json::from_value(namespace).unwrap()).unwrap();
    let service = |name: &str, type_: &str, ports: Value| -> Service {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"type": type_, "ports": ports}}))
        .unwrap()
    };
    let ports_of = |service: &Service| -> Vec<i32> {
        let ports = service.spec.as_ref().unwrap().ports.clone().unwrap();
        ports.iter().filter_map(|p| p.node_port).collect()
    };
    let two = json!([{"name": "t", "port": 53, "nodePort": 30053, "protocol": "TCP"},
        {"name": "u", "port": 53, "nodePort": 30053, "protocol": "UDP"}, {"name": "x", "port": 54}]);
    let a = api.create_as(service("a", "NodePort", two)).unwrap();
    assert_eq!(ports_of(&a)[..2], [30053, 30053], "one number for two protocols");
    assert!((30000..=32767).contains(&ports_of(&a)[2]) && ports_of(&a)[2] != 30053);

    let asked = |number: i32| json!([{"port": 80, "nodePort": number}]);
    let refused =
        |number: i32| api.create_as(service("b", "NodePort", asked(number))).unwrap_err().to_string();
    assert_eq!(
        refused(30053),
        "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 30053: provided port is already \
         allocated"
    );
    assert!(refused(80).ends_with(
        "Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"
    ));
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    api.create(Object::new(service("b", "NodePort", asked(30080))), &dry).unwrap();
    let b = api.create_as(service("b", "NodePort", asked(30080))).unwrap();
    assert_eq!(ports_of(&b), [30080], "a dry run takes nothing");

    let key = Key::new("default", "b");
    let set = |number: Option<i32>, type_: &str| {
        api.modify::<Service>(&key, |service| {
            let spec = service.spec.as_mut().unwrap();
            spec.type_ = Some(type_.into());
            spec.ports.as_mut().unwrap()[0].node_port = number;
            Ok(())
        })
    };
    assert!(set(Some(30053), "NodePort").is_err());
    assert_eq!(ports_of(&set(Some(30081), "NodePort").unwrap()), [30081]);
    api.create_as(service("c", "NodePort", asked(30080))).unwrap();
    let none: [i32; 0] = [];
    assert_eq!(ports_of(&set(None, "ClusterIP").unwrap()), none);
    api.create_as(service("d", "NodePort", asked(30081))).unwrap();
    assert_eq!(ports_of(&set(None, "NodePort").unwrap()).len(), 1, "given when the type asks for it");
    api.delete(Kind::Service, &Key::new("default", "a"), &DeleteOptions::default()).unwrap();
    api.create_as(service("e", "NodePort", asked(30053))).unwrap();
}
