//! What every cluster has from the start: its namespaces, priority classes and the `kubernetes` service.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Namespace, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointPort as SlicePort, EndpointSlice,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::{AddressRange, Api, ApiError};
use crate::object::{Key, Typed};

/// Makes what is missing; what is there stays, but for the API's own address.
pub(super) fn bootstrap(api: &Api, listening: SocketAddr, services: AddressRange) -> Result<(), ApiError> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        ensure(api, Namespace { metadata: meta("", name), ..Namespace::default() })?;
    }
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if \
             necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        ensure(
            api,
            PriorityClass {
                metadata: meta("", name),
                value: Some(value),
                description: Some(description.into()),
                ..PriorityClass::default()
            },
        )?;
    }
    kubernetes_service(api, listening, services)
}

fn meta(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some(namespace.into()).filter(|n: &String| !n.is_empty()),
        ..ObjectMeta::default()
    }
}

fn ensure<T: Typed>(api: &Api, object: T) -> Result<(), ApiError> {
    let key = Key::of(object.metadata());
    if api.get(T::ROW, &key).is_ok() {
        return Ok(());
    }
    api.create_as(object).map(drop)
}

/// `kubernetes.default`: the API itself, wherever it listens this time.
fn kubernetes_service(api: &Api, listening: SocketAddr, services: AddressRange) -> Result<(), ApiError> {
    let labels = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect())
    };
    let own = |extra: &[(&str, &str)]| ObjectMeta { labels: labels(extra), ..meta("default", "kubernetes") };
    let key = Key::new("default", "kubernetes");
    let address = services.at(1).to_string();
    // A cluster that found its address range taken has moved to another.
    if let Ok(old) = api.get_as::<Service>(&key)
        && old.spec.as_ref().and_then(|s| s.cluster_ip.as_ref()) != Some(&address)
    {
        api.delete(crate::object::Kind::Service, &key, &crate::api::DeleteOptions::default())?;
    }
    ensure(
        api,
        Service {
            metadata: own(&[("component", "apiserver"), ("provider", "kubernetes")]),
            spec: Some(ServiceSpec {
                cluster_ip: Some(address),
                ports: Some(vec![ServicePort {
                    name: Some("https".into()),
                    port: 443,
                    protocol: Some("TCP".into()),
                    target_port: Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(
                        listening.port().into(),
                    )),
                    ..ServicePort::default()
                }]),
                type_: Some("ClusterIP".into()),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        },
    )?;
    let endpoints = Endpoints {
        metadata: own(&[("endpointslice.kubernetes.io/skip-mirror", "true")]),
        subsets: Some(vec![EndpointSubset {
            addresses: Some(vec![EndpointAddress {
                ip: listening.ip().to_string(),
                ..EndpointAddress::default()
            }]),
            ports: Some(vec![EndpointPort {
                name: Some("https".into()),
                port: listening.port().into(),
                protocol: Some("TCP".into()),
                ..EndpointPort::default()
            }]),
            ..EndpointSubset::default()
        }]),
    };
    ensure(api, endpoints.clone())?;
    api.modify::<Endpoints>(&key, |current| {
        current.subsets.clone_from(&endpoints.subsets);
        Ok(())
    })?;
    let slice = EndpointSlice {
        metadata: own(&[("kubernetes.io/service-name", "kubernetes")]),
        address_type: "IPv4".into(),
        endpoints: Some(vec![Endpoint {
            addresses: vec![listening.ip().to_string()],
            conditions: Some(EndpointConditions { ready: Some(true), ..EndpointConditions::default() }),
            ..Endpoint::default()
        }]),
        ports: Some(vec![SlicePort {
            name: Some("https".into()),
            port: Some(listening.port().into()),
            protocol: Some("TCP".into()),
            ..SlicePort::default()
        }]),
    };
    ensure(api, slice.clone())?;
    api.modify::<EndpointSlice>(&key, |current| {
        current.endpoints.clone_from(&slice.endpoints);
        current.ports.clone_from(&slice.ports);
        Ok(())
    })
    .map(drop)
}
