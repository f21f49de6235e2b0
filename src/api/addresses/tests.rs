//! Addresses and node ports through the API.

use serde_json::{Value, json};

use super::*;
use crate::test_api::api;
use crate::{DeleteOptions, WriteOptions};
use object::Key;

#[tokio::test]
async fn node_ports_are_one_services_alone_and_come_back_svc_1() {
    let api = api(&["default"]);
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

    let node_ports = |number: i32| json!([{"port": 80, "nodePort": number}]);
    let refused =
        |number: i32| api.create_as(service("b", "NodePort", node_ports(number))).unwrap_err().to_string();
    assert_eq!(
        refused(30053),
        "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 30053: provided port is already \
         allocated"
    );
    assert!(refused(80).ends_with(
        "Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"
    ));
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    api.create(Object::new(service("b", "NodePort", node_ports(30080))), &dry).unwrap();
    let b = api.create_as(service("b", "NodePort", node_ports(30080))).unwrap();
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
    api.create_as(service("c", "NodePort", node_ports(30080))).unwrap();
    let none: [i32; 0] = [];
    assert_eq!(ports_of(&set(None, "ClusterIP").unwrap()), none);
    api.create_as(service("d", "NodePort", node_ports(30081))).unwrap();
    assert_eq!(ports_of(&set(None, "NodePort").unwrap()).len(), 1, "given when the type asks for it");
    api.delete(Kind::Service, &Key::new("default", "a"), &DeleteOptions::default()).unwrap();
    api.create_as(service("e", "NodePort", node_ports(30053))).unwrap();
}

#[tokio::test]
async fn a_load_balancer_without_node_ports_gets_none_svc_1() {
    let api = api(&["default"]);
    for (name, allocate, expected) in
        [("default", json!(null), 1), ("with", json!(true), 1), ("without", json!(false), 0)]
    {
        let value = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"type": "LoadBalancer",
            "allocateLoadBalancerNodePorts": allocate, "ports": [{"port": 80}]}});
        let service = api.create_as::<Service>(serde_json::from_value(value).unwrap()).unwrap();
        let ports = service.spec.as_ref().unwrap().ports.clone().unwrap();
        assert_eq!(ports.iter().filter(|port| port.node_port.is_some()).count(), expected, "{name}");
    }
}

#[tokio::test]
async fn health_checks_of_load_balancers_have_a_port_of_their_own_svc_1() {
    let api = api(&["default"]);
    let create = |name: &str, spec: Value| {
        let value = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
        api.create_as::<Service>(serde_json::from_value(value).unwrap())
    };
    let balancer = |policy: &str, health: Value| {
        json!({"type": "LoadBalancer", "externalTrafficPolicy": policy, "healthCheckNodePort": health,
            "loadBalancerClass": "example.com/pool", "ports": [{"port": 80}]})
    };
    let port_of = |service: &Service| service.spec.as_ref().unwrap().health_check_node_port;
    let given = port_of(&create("any", balancer("Local", json!(null))).unwrap()).unwrap();
    assert!((30000..=32767).contains(&given), "{given}");
    assert_eq!(port_of(&create("cluster", balancer("Cluster", json!(null))).unwrap()), None);
    let requested = create("asked", balancer("Local", json!(30500))).unwrap();
    assert_eq!(port_of(&requested), Some(30500));

    let refused = |health: i32| create("other", balancer("Local", json!(health))).unwrap_err().to_string();
    let taken = "failed to allocate requested HealthCheck NodePort 30500: provided port is already allocated";
    assert!(refused(30500).contains(taken), "{}", refused(30500));
    assert!(refused(80).contains("provided port is not in the valid range"), "{}", refused(80));
    let node_port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30500}]});
    assert!(create("other", node_port.clone()).unwrap_err().to_string().contains("already allocated"));

    let change = |edit: &dyn Fn(&mut ServiceSpec)| {
        api.modify::<Service>(&Key::new("default", "asked"), |service| {
            edit(service.spec.as_mut().unwrap());
            Ok(())
        })
    };
    let unchanged = change(&|spec| spec.health_check_node_port = None).unwrap();
    assert_eq!(port_of(&unchanged), Some(30500), "an update without the field keeps the port");
    let moved = change(&|spec| spec.health_check_node_port = Some(30501)).unwrap_err().to_string();
    assert!(moved.contains("spec.healthCheckNodePort: Forbidden: field is immutable"), "{moved}");
    let both = change(&|spec| spec.ports.as_mut().unwrap()[0].node_port = Some(30500)).unwrap_err();
    assert!(both.to_string().contains("provided port is already allocated"), "{both}");
    let cluster = change(&|spec| spec.external_traffic_policy = Some("Cluster".into())).unwrap();
    assert_eq!(port_of(&cluster), None, "it goes with its need");
    create("other", node_port).unwrap();
    let again = change(&|spec| spec.external_traffic_policy = Some("Local".into())).unwrap();
    assert!(port_of(&again).is_some_and(|number| number != 30500));
    // Changing the type removes it too, with all other fields of load balancers.
    let plain = change(&|spec| spec.type_ = Some("ClusterIP".into())).unwrap();
    let spec = plain.spec.as_ref().unwrap();
    assert_eq!((spec.health_check_node_port, spec.allocate_load_balancer_node_ports), (None, None));
    assert_eq!(spec.load_balancer_class, None);
}
