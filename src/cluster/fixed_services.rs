//! The initial services without pods: the API and the cluster's DNS.
//!
//! Their endpoints are written here, since these services have no selector, and follow the current listen addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointPort as SlicePort, EndpointSlice,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use api::{Api, ApiError, DeleteOptions};
use base::sort::CollectMap;
use object::well_known::label;
use object::{ClusterDomain, Key, Kind, TypedKind};
use reconcile::ignore_not_found;

/// The offset of the API's address within the range of services: the first address, as in every Kubernetes cluster.
pub(super) const API_OFFSET: u32 = 1;
/// The offset of the DNS's address within the range of services, as kubeadm chooses it.
pub(super) const DNS_OFFSET: u32 = 10;

/// A service of the cluster's own.
struct FixedService {
    key: Key,
    labels: &'static [(&'static str, &'static str)],
    /// The cluster IPs, the primary family's first.
    addresses: Vec<IpAddr>,
    /// The name, protocol and number of each port.
    ports: &'static [(&'static str, &'static str, u16)],
    /// The server's actual addresses, one of each family; all have the same port.
    served: Vec<SocketAddr>,
    annotations: BTreeMap<String, String>,
}

/// The suffix of the IPv6 EndpointSlice's name, after the service's name.
const OF_IPV6: &str = "-ipv6";

/// The key of the API's service.
pub(super) fn kubernetes_key() -> Key {
    Key::new("default", "kubernetes")
}

/// Writes `kubernetes.default`, the service of the API, with its current listen address as endpoint.
pub(super) fn kubernetes(api: &Api, listening: SocketAddr, service: Ipv4Addr) -> Result<(), ApiError> {
    let fixed = FixedService {
        key: kubernetes_key(),
        labels: &[("component", "apiserver"), ("provider", "kubernetes")],
        addresses: vec![service.into()],
        ports: &[("https", "TCP", 443)],
        served: vec![listening],
        annotations: BTreeMap::new(),
    };
    fixed.write(api)
}

/// Sets annotations of `kubernetes.default`, or removes those without a value.
pub(super) fn annotate_kubernetes(
    api: &Api,
    annotations: &[(&'static str, Option<String>)],
) -> Result<(), ApiError> {
    let annotated = api.modify::<Service>(&kubernetes_key(), |service| {
        let all = service.metadata.annotations.get_or_insert_default();
        for (name, value) in annotations {
            match value {
                Some(value) => drop(all.insert((*name).to_owned(), value.clone())),
                None => drop(all.remove(*name)),
            }
        }
        if all.is_empty() {
            service.metadata.annotations = None;
        }
        Ok(())
    });
    annotated.map(drop)
}

/// The key of the DNS service.
pub(super) fn dns_key() -> Key {
    Key::new("kube-system", "kube-dns")
}

/// Writes `kube-dns.kube-system`, with the cluster's domain as an annotation. A service of that name with a selector is
/// the user's, and stays as it is.
pub(super) fn dns(
    api: &Api,
    addresses: Vec<IpAddr>,
    served: Vec<SocketAddr>,
    domain: &ClusterDomain,
) -> Result<(), ApiError> {
    if is_users(api) {
        tracing::warn!("service kube-system/kube-dns has a selector and stays unchanged; see --disable dns");
        return Ok(());
    }
    let fixed = FixedService {
        key: dns_key(),
        labels: &[
            ("k8s-app", "kube-dns"),
            ("kubernetes.io/cluster-service", "true"),
            ("kubernetes.io/name", "CoreDNS"),
        ],
        addresses,
        ports: &[("dns", "UDP", 53), ("dns-tcp", "TCP", 53)],
        served,
        annotations: [(ClusterDomain::ANNOTATION.to_owned(), domain.to_string())].collect_map(),
    };
    fixed.write(api)
}

/// Removes the DNS service's objects, which an earlier start with DNS has written.
pub(super) fn no_dns(api: &Api) -> Result<(), ApiError> {
    if is_users(api) {
        return Ok(());
    }
    for kind in [Kind::Service, Kind::Endpoints, Kind::EndpointSlice] {
        delete_if_exists(api, kind, &dns_key())?;
    }
    delete_if_exists(api, Kind::EndpointSlice, &of_ipv6(&dns_key()))
}

/// Deletes an object that may exist.
fn delete_if_exists(api: &Api, kind: Kind, key: &Key) -> Result<(), ApiError> {
    ignore_not_found(api.delete(kind, key, &DeleteOptions::default()))
}

fn of_ipv6(service: &Key) -> Key {
    Key::new(service.namespace.as_str(), format!("{}{OF_IPV6}", service.name).as_str())
}

fn is_users(api: &Api) -> bool {
    api.get_as::<Service>(&dns_key()).is_ok_and(|service| {
        service.spec.as_ref().is_some_and(|s| s.selector.as_ref().is_some_and(|s| !s.is_empty()))
    })
}

impl FixedService {
    fn write(&self, api: &Api) -> Result<(), ApiError> {
        self.write_service(api)?;
        let port = self.port();
        let first = self
            .served
            .first()
            .map(|served| EndpointAddress { ip: served.ip().to_string(), ..EndpointAddress::default() });
        let endpoints = Endpoints {
            metadata: self.metadata(&self.key.name, &[(label::SKIP_MIRROR, "true")]),
            subsets: Some(vec![EndpointSubset {
                addresses: Some(first.into_iter().collect()),
                ports: Some(
                    self.ports
                        .iter()
                        .map(|(name, protocol, _)| EndpointPort {
                            name: Some((*name).into()),
                            port: port.into(),
                            protocol: Some((*protocol).into()),
                            ..EndpointPort::default()
                        })
                        .collect(),
                ),
                ..EndpointSubset::default()
            }]),
        };
        write(api, endpoints, |current, desired| current.subsets.clone_from(&desired.subsets))?;
        let second = of_ipv6(&self.key);
        for (served, key) in self.served.iter().zip([&self.key, &second]) {
            self.write_slice(api, &key.name, *served)?;
        }
        if self.served.len() > 1 { Ok(()) } else { delete_if_exists(api, Kind::EndpointSlice, &second) }
    }

    fn port(&self) -> u16 {
        self.served.first().map_or(0, SocketAddr::port)
    }

    fn write_slice(&self, api: &Api, name: &str, served: SocketAddr) -> Result<(), ApiError> {
        let family = if served.is_ipv4() { "IPv4" } else { "IPv6" };
        let slice = EndpointSlice {
            metadata: self.metadata(name, &[(label::SERVICE_NAME, self.key.name.as_str())]),
            address_type: family.into(),
            endpoints: Some(vec![Endpoint {
                addresses: vec![served.ip().to_string()],
                conditions: Some(EndpointConditions { ready: Some(true), ..EndpointConditions::default() }),
                ..Endpoint::default()
            }]),
            ports: Some(
                self.ports
                    .iter()
                    .map(|(name, protocol, _)| SlicePort {
                        name: Some((*name).into()),
                        port: Some(served.port().into()),
                        protocol: Some((*protocol).into()),
                        ..SlicePort::default()
                    })
                    .collect(),
            ),
        };
        write(api, slice, |current, desired| {
            current.endpoints.clone_from(&desired.endpoints);
            current.ports.clone_from(&desired.ports);
        })
    }

    fn write_service(&self, api: &Api) -> Result<(), ApiError> {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        // Cluster IPs are immutable, so the service is recreated if they have changed: the cluster may have moved to
        // another slot, or have other address families now.
        if let Ok(old) = api.get_as::<Service>(&self.key)
            && old.spec.as_ref().and_then(|s| s.cluster_ips.as_ref()) != Some(&addresses)
        {
            api.delete(Kind::Service, &self.key, &DeleteOptions::default())?;
        }
        let ports = self.ports.iter().map(|(name, protocol, number)| ServicePort {
            name: Some((*name).into()),
            port: (*number).into(),
            protocol: Some((*protocol).into()),
            target_port: Some(IntOrString::Int(self.port().into())),
            ..ServicePort::default()
        });
        let service = Service {
            metadata: ObjectMeta {
                annotations: (!self.annotations.is_empty()).then(|| self.annotations.clone()),
                ..self.metadata(&self.key.name, self.labels)
            },
            spec: Some(ServiceSpec {
                cluster_ip: addresses.first().cloned(),
                ip_family_policy: (addresses.len() > 1).then(|| "PreferDualStack".into()),
                cluster_ips: Some(addresses),
                ports: Some(ports.collect()),
                type_: Some("ClusterIP".into()),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        };
        write(api, service, |current, desired| {
            for (name, value) in desired.metadata.annotations.iter().flatten() {
                current.metadata.annotations.get_or_insert_default().insert(name.clone(), value.clone());
            }
            if let (Some(current), Some(desired)) = (&mut current.spec, &desired.spec) {
                current.ports.clone_from(&desired.ports);
            }
        })
    }

    fn metadata(&self, name: &str, labels: &[(&str, &str)]) -> ObjectMeta {
        let labels = labels.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string()));
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.key.namespace.clone()),
            labels: Some(labels.collect_map()),
            ..ObjectMeta::default()
        }
    }
}

/// Creates the object, or updates the existing one.
fn write<T: TypedKind>(api: &Api, desired: T, mut bring: impl FnMut(&mut T, &T)) -> Result<(), ApiError> {
    let key = Key::of(desired.metadata());
    if api.get(T::kind(), &key).is_err() {
        return api.create_as(desired).map(drop);
    }
    api.modify::<T>(&key, |current| {
        bring(current, &desired);
        Ok(())
    })
    .map(drop)
}
