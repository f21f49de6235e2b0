//! The services that are there from the start and have no pods: the API and the cluster's DNS.
//!
//! Their endpoints are written here, since no selector finds them, and follow where they listen this time.

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
use object::well_known::label;
use object::{Key, Kind, Typed};

/// The address of the API within the range of services: the first, as everywhere.
pub(super) const API_OFFSET: u32 = 1;
/// The address of DNS within the range of services, as kubeadm chooses it.
pub(super) const DNS_OFFSET: u32 = 10;

/// A service of the cluster's own.
struct Fixed {
    key: Key,
    labels: &'static [(&'static str, &'static str)],
    address: IpAddr,
    /// Name, protocol and number.
    ports: &'static [(&'static str, &'static str, u16)],
    /// Where it is really served, at the same port for all.
    served: SocketAddr,
}

/// `kubernetes.default`: the API itself, wherever it listens this time.
pub(super) fn kubernetes(api: &Api, listening: SocketAddr, service: Ipv4Addr) -> Result<(), ApiError> {
    let fixed = Fixed {
        key: Key::new("default", "kubernetes"),
        labels: &[("component", "apiserver"), ("provider", "kubernetes")],
        address: service.into(),
        ports: &[("https", "TCP", 443)],
        served: listening,
    };
    fixed.write(api)
}

/// The key of the DNS service.
pub(super) fn dns_key() -> Key {
    Key::new("kube-system", "kube-dns")
}

/// `kube-dns.kube-system`. A service of that name that selects pods is the user's, and stays as it is.
pub(super) fn dns(api: &Api, address: IpAddr, served: SocketAddr) -> Result<(), ApiError> {
    if is_users(api) {
        tracing::warn!("kube-system/kube-dns selects pods of its own and is left alone: see --disable dns");
        return Ok(());
    }
    let fixed = Fixed {
        key: dns_key(),
        labels: &[
            ("k8s-app", "kube-dns"),
            ("kubernetes.io/cluster-service", "true"),
            ("kubernetes.io/name", "CoreDNS"),
        ],
        address,
        ports: &[("dns", "UDP", 53), ("dns-tcp", "TCP", 53)],
        served,
    };
    fixed.write(api)
}

/// Removes what an earlier start with DNS left.
pub(super) fn no_dns(api: &Api) -> Result<(), ApiError> {
    if is_users(api) {
        return Ok(());
    }
    for kind in [Kind::Service, Kind::Endpoints, Kind::EndpointSlice] {
        match api.delete(kind, &dns_key(), &DeleteOptions::default()) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn is_users(api: &Api) -> bool {
    api.get_as::<Service>(&dns_key()).is_ok_and(|service| {
        service.spec.as_ref().is_some_and(|s| s.selector.as_ref().is_some_and(|s| !s.is_empty()))
    })
}

impl Fixed {
    fn write(&self, api: &Api) -> Result<(), ApiError> {
        self.write_service(api)?;
        let endpoints = Endpoints {
            metadata: self.metadata(&[(label::SKIP_MIRROR, "true")]),
            subsets: Some(vec![EndpointSubset {
                addresses: Some(vec![EndpointAddress {
                    ip: self.served.ip().to_string(),
                    ..EndpointAddress::default()
                }]),
                ports: Some(
                    self.ports
                        .iter()
                        .map(|(name, protocol, _)| EndpointPort {
                            name: Some((*name).into()),
                            port: self.served.port().into(),
                            protocol: Some((*protocol).into()),
                            ..EndpointPort::default()
                        })
                        .collect(),
                ),
                ..EndpointSubset::default()
            }]),
        };
        write(api, endpoints, |current, wanted| current.subsets.clone_from(&wanted.subsets))?;
        let slice = EndpointSlice {
            metadata: self.metadata(&[(label::SERVICE_NAME, self.key.name.as_str())]),
            address_type: "IPv4".into(),
            endpoints: Some(vec![Endpoint {
                addresses: vec![self.served.ip().to_string()],
                conditions: Some(EndpointConditions { ready: Some(true), ..EndpointConditions::default() }),
                ..Endpoint::default()
            }]),
            ports: Some(
                self.ports
                    .iter()
                    .map(|(name, protocol, _)| SlicePort {
                        name: Some((*name).into()),
                        port: Some(self.served.port().into()),
                        protocol: Some((*protocol).into()),
                        ..SlicePort::default()
                    })
                    .collect(),
            ),
        };
        write(api, slice, |current, wanted| {
            current.endpoints.clone_from(&wanted.endpoints);
            current.ports.clone_from(&wanted.ports);
        })
    }

    fn write_service(&self, api: &Api) -> Result<(), ApiError> {
        let address = self.address.to_string();
        // A cluster that found its address range taken has moved to another.
        if let Ok(old) = api.get_as::<Service>(&self.key)
            && old.spec.as_ref().and_then(|s| s.cluster_ip.as_ref()) != Some(&address)
        {
            api.delete(Kind::Service, &self.key, &DeleteOptions::default())?;
        }
        let ports = self.ports.iter().map(|(name, protocol, number)| ServicePort {
            name: Some((*name).into()),
            port: (*number).into(),
            protocol: Some((*protocol).into()),
            target_port: Some(IntOrString::Int(self.served.port().into())),
            ..ServicePort::default()
        });
        let service = Service {
            metadata: self.metadata(self.labels),
            spec: Some(ServiceSpec {
                cluster_ip: Some(address),
                ports: Some(ports.collect()),
                type_: Some("ClusterIP".into()),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        };
        write(api, service, |current, wanted| {
            if let (Some(current), Some(wanted)) = (&mut current.spec, &wanted.spec) {
                current.ports.clone_from(&wanted.ports);
            }
        })
    }

    fn metadata(&self, labels: &[(&str, &str)]) -> ObjectMeta {
        let labels = labels.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string()));
        ObjectMeta {
            name: Some(self.key.name.clone()),
            namespace: Some(self.key.namespace.clone()),
            labels: Some(labels.collect()),
            ..ObjectMeta::default()
        }
    }
}

/// Makes the object, or brings what is there to it.
fn write<T: Typed>(api: &Api, wanted: T, mut bring: impl FnMut(&mut T, &T)) -> Result<(), ApiError> {
    let key = Key::of(wanted.metadata());
    if api.get(T::kind(), &key).is_err() {
        return api.create_as(wanted).map(drop);
    }
    api.modify::<T>(&key, |current| {
        bring(current, &wanted);
        Ok(())
    })
    .map(drop)
}
