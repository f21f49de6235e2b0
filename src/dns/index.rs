//! The cluster's DNS names: services, their endpoints, namespaces, and addresses for reverse lookup.
//!
//! The index is updated service by service, so that a query is a lookup and never a search.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use base::sort::SliceOrder;
use object::service::cluster_ips;
use object::{Key, endpoint};
use services::ServiceEndpoints;

/// A port as in SRV records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedPort {
    /// The port's name; empty if it has none.
    pub(crate) name: String,
    /// `tcp` or `udp`.
    pub(crate) protocol: String,
    pub(crate) number: u16,
}

/// An endpoint of a service with its DNS names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedEndpoint {
    /// The address; an endpoint with addresses of both families appears once for each.
    pub(crate) ip: IpAddr,
    /// The name in records: the endpoint's hostname, or its address with dashes.
    pub(crate) name: String,
    /// The name of its pod, which also resolves to it.
    pub(crate) pod: Option<String>,
    pub(crate) ports: Vec<NamedPort>,
}

impl NamedEndpoint {
    /// Returns whether `label.service.namespace.svc…` refers to this endpoint.
    pub(crate) fn has_label(&self, label: &str) -> bool {
        self.name == label || self.pod.as_deref() == Some(label) || dashed(self.ip) == label
    }
}

/// The target of a service's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameTarget {
    /// The cluster IPs, at most one for each family.
    Addresses(Vec<IpAddr>),
    /// All endpoints (headless service).
    Endpoints,
    /// Another name (ExternalName).
    Alias(String),
}

/// A service with its DNS data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedService {
    /// The target of the service's own name.
    pub(crate) meaning: NameTarget,
    pub(crate) ports: Vec<NamedPort>,
    /// Its ready endpoints, or all if `publishNotReadyAddresses` is set.
    pub(crate) endpoints: Vec<NamedEndpoint>,
}

/// All DNS names of a cluster.
#[derive(Debug)]
pub struct Index {
    /// The cluster's domain (`cluster.local`), in lower case, without the trailing dot.
    pub(crate) domain: String,
    /// The server's own addresses: `ns.dns.cluster.local`.
    pub(crate) servers: Vec<IpAddr>,
    /// The address for the machine itself, if pods reach it under a name ([`egress::HOST`]).
    pub(crate) host: Option<Ipv4Addr>,
    services: HashMap<Key, NamedService>,
    namespaces: HashSet<String>,
    by_address: HashMap<IpAddr, BTreeSet<(Key, Option<String>)>>,
}

impl Index {
    /// Creates an index without any name.
    pub fn new(domain: &str, server: Ipv4Addr) -> Self {
        Self {
            domain: domain.trim_end_matches('.').to_ascii_lowercase(),
            servers: vec![server.into()],
            host: None,
            services: HashMap::new(),
            namespaces: HashSet::new(),
            by_address: HashMap::new(),
        }
    }

    /// Adds an address of the server.
    #[must_use]
    pub fn with_server(mut self, ip: IpAddr) -> Self {
        if !self.servers.contains(&ip) {
            self.servers.push(ip);
        }
        self
    }

    /// Sets the address under which pods reach the machine itself.
    #[must_use]
    pub fn with_host(self, host: Option<Ipv4Addr>) -> Self {
        Self { host, ..self }
    }

    /// Replaces a service, or removes it if it was deleted.
    pub fn update(&mut self, key: &Key, joined: &ServiceEndpoints) {
        if let Some(old) = self.services.remove(key) {
            for (ip, name) in reverse(&old) {
                if let Some(known) = self.by_address.get_mut(&ip) {
                    known.remove(&(key.clone(), name));
                    if known.is_empty() {
                        self.by_address.remove(&ip);
                    }
                }
            }
        }
        let Some(new) = joined.service.as_ref().and_then(|service| named(service, &joined.slices)) else {
            return;
        };
        for (ip, name) in reverse(&new) {
            self.by_address.entry(ip).or_default().insert((key.clone(), name));
        }
        self.services.insert(key.clone(), new);
    }

    /// Adds or removes a namespace.
    pub fn set_namespace(&mut self, name: &str, exists: bool) {
        if exists {
            self.namespaces.insert(name.to_string());
        } else {
            self.namespaces.remove(name);
        }
    }

    pub(crate) fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.contains(name)
    }

    pub(crate) fn service(&self, namespace: &str, name: &str) -> Option<&NamedService> {
        self.services.get(&Key::new(namespace, name))
    }

    /// Returns the services that an address resolves to in reverse lookup, each with the endpoint's name if the address
    /// is an endpoint's. For a cluster IP, only the service itself is returned.
    pub(crate) fn names_of(&self, ip: IpAddr) -> Vec<(&Key, Option<&str>)> {
        let all = || self.by_address.get(&ip).into_iter().flatten();
        let own: Vec<_> = all().filter(|(_, name)| name.is_none()).map(|(key, _)| (key, None)).collect();
        if own.is_empty() { all().map(|(key, name)| (key, name.as_deref())).collect() } else { own }
    }
}

/// Returns the addresses that resolve to the service in reverse lookup, each with the endpoint's name if it is an
/// endpoint's.
fn reverse(service: &NamedService) -> Vec<(IpAddr, Option<String>)> {
    let own: &[IpAddr] = match &service.meaning {
        NameTarget::Addresses(ips) => ips,
        NameTarget::Endpoints | NameTarget::Alias(_) => &[],
    };
    own.iter()
        .map(|ip| (*ip, None))
        .chain(service.endpoints.iter().map(|e| (e.ip, Some(e.name.clone()))))
        .collect()
}

/// Formats an address as a DNS label: `127-64-0-5`, `fd00--5`.
pub(crate) fn dashed(ip: IpAddr) -> String {
    let dashed = ip.to_string().replace(['.', ':'], "-");
    // A DNS label must not end with a dash.
    if dashed.ends_with('-') { dashed + "0" } else { dashed }
}

fn named(
    service: &Service,
    slices: &BTreeMap<Key, object::SharedObject<EndpointSlice>>,
) -> Option<NamedService> {
    let spec = service.spec.as_ref()?;
    let meaning = match (spec.type_.as_deref(), spec.cluster_ip.as_deref()) {
        (Some("ExternalName"), _) => NameTarget::Alias(spec.external_name.clone()?),
        (_, Some("None")) => NameTarget::Endpoints,
        (_, Some(_)) => {
            let all: Vec<IpAddr> = cluster_ips(spec).collect();
            if all.is_empty() {
                return None;
            }
            NameTarget::Addresses(all)
        }
        (_, None) => return None,
    };
    // An endpoint may be in two slices while it moves from one to the other.
    let mut endpoints: BTreeMap<(IpAddr, String), NamedEndpoint> = BTreeMap::new();
    if !matches!(meaning, NameTarget::Alias(_)) {
        for slice in slices.values().filter(|slice| slice.address_type != "FQDN") {
            let ports = slice_ports(slice);
            let usable = slice.endpoints.iter().flatten().filter(|endpoint| is_published(spec, endpoint));
            for endpoint in usable {
                for ip in endpoint.addresses.iter().filter_map(|address| address.parse().ok()) {
                    let endpoint = named_endpoint(endpoint, ip, &ports);
                    match endpoints.entry((ip, endpoint.name.clone())) {
                        Entry::Occupied(mut known) => known.get_mut().ports.extend(endpoint.ports),
                        Entry::Vacant(room) => drop(room.insert(endpoint)),
                    }
                }
            }
        }
    }
    let endpoints = endpoints.into_values().map(|mut endpoint| {
        endpoint.ports.order();
        endpoint.ports.dedup();
        endpoint
    });
    let endpoints = endpoints.collect();
    let port = |p: &k8s_openapi::api::core::v1::ServicePort| {
        named_port(p.name.as_deref(), p.protocol.as_deref(), p.port)
    };
    Some(NamedService { meaning, ports: spec.ports.iter().flatten().filter_map(port).collect(), endpoints })
}

fn is_published(spec: &ServiceSpec, endpoint: &Endpoint) -> bool {
    endpoint::is_ready(endpoint) || spec.publish_not_ready_addresses == Some(true)
}

fn named_endpoint(endpoint: &Endpoint, ip: IpAddr, ports: &[NamedPort]) -> NamedEndpoint {
    NamedEndpoint {
        ip,
        name: endpoint.hostname.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| dashed(ip)),
        pod: endpoint::pod(endpoint).and_then(|pod| pod.name.clone()),
        ports: ports.to_vec(),
    }
}

fn slice_ports(slice: &EndpointSlice) -> Vec<NamedPort> {
    let ports = slice.ports.iter().flatten();
    ports.filter_map(|p| named_port(p.name.as_deref(), p.protocol.as_deref(), p.port?)).collect()
}

fn named_port(name: Option<&str>, protocol: Option<&str>, number: i32) -> Option<NamedPort> {
    Some(NamedPort {
        name: name.unwrap_or_default().to_ascii_lowercase(),
        protocol: protocol.unwrap_or("TCP").to_ascii_lowercase(),
        number: u16::try_from(number).ok()?,
    })
}

#[cfg(test)]
pub(super) mod testing {
    use serde_json::{Value, json};

    use super::*;
    use object::SharedObject;

    /// Builds a service with this spec and one slice of these endpoints.
    pub(crate) fn joined(name: &str, spec: &Value, ports: &Value, endpoints: &Value) -> ServiceEndpoints {
        let service = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
        let slice = json!({"metadata": {"name": format!("{name}-x"), "namespace": "default"},
            "addressType": "IPv4", "ports": ports, "endpoints": endpoints});
        let slice = SharedObject::from_value(serde_json::from_value(slice).unwrap());
        ServiceEndpoints {
            service: Some(SharedObject::from_value(serde_json::from_value(service).unwrap())),
            slices: [(Key::new("default", format!("{name}-x")), slice)].into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::testing::joined;
    use super::*;

    #[test]
    fn a_replaced_service_leaves_no_records_behind_net_3() {
        let mut index = Index::new("cluster.local", [127, 32, 0, 10].into());
        let key = Key::new("default", "web");
        let endpoint = |host: u8, ready: bool| {
            json!({"addresses": [format!("127.64.0.{host}")], "conditions": {"ready": ready},
            "targetRef": {"kind": "Pod", "name": format!("web-{host}")}})
        };
        let ports = json!([{"name": "http", "port": 80, "protocol": "TCP"}]);
        let before = joined(
            "web",
            &json!({"clusterIP": "127.32.1.0", "ports": [{"port": 80}]}),
            &ports,
            &json!([endpoint(2, true), endpoint(3, false)]),
        );
        index.update(&key, &before);
        let names = |index: &Index, ip: [u8; 4]| {
            index.names_of(ip.into()).iter().map(|(k, n)| format!("{} {n:?}", k.name)).collect::<Vec<_>>()
        };
        assert_eq!(names(&index, [127, 32, 1, 0]), ["web None"]);
        assert_eq!(names(&index, [127, 64, 0, 2]), [r#"web Some("127-64-0-2")"#]);
        assert_eq!(names(&index, [127, 64, 0, 3]), [""; 0], "unready");
        let headless = joined(
            "web",
            &json!({"clusterIP": "None", "publishNotReadyAddresses": true}),
            &ports,
            &json!([endpoint(3, false)]),
        );
        index.update(&key, &headless);
        assert_eq!(names(&index, [127, 32, 1, 0]), [""; 0]);
        assert_eq!(names(&index, [127, 64, 0, 2]), [""; 0]);
        assert_eq!(names(&index, [127, 64, 0, 3]), [r#"web Some("127-64-0-3")"#]);
        assert!(index.service("default", "web").unwrap().endpoints[0].has_label("web-3"));
        index.update(&key, &ServiceEndpoints::default());
        assert!(index.by_address.is_empty() && index.services.is_empty());
    }
}
