//! A service as rules for the kernel.
//!
//! Pure: a service with its slices and the nodes in, rules out. They follow kube-proxy: an address and port of the
//! service leads to a chain that chooses an endpoint; if there is none, the client gets an error at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fabric::nft::{Element, Family, Field, Key, Rule, Set, Statement, Verdict};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

use super::base::{HAIRPIN, REFUSED, SERVED_OUTSIDE, SERVICES, TCP, UDP, reject};
use super::endpoints::{self, Endpoint, hinted, usable};
use super::names::{short, short_node};
use super::nodes::{NodesByName, clients_of};
use super::owner_rules::{FamilyRules, OwnerRules};
use super::udp_flows::UdpEndpoints;
use ::services::ServiceEndpoints;
use ::services::proxy::table::{Protocol, affinity, is_unmanaged};
use base::sort::SliceOrder;
use object::service::{cluster_ips, load_balancer_ips};
use object::{Key as ObjectKey, port_number};

/// Returns a service's rules; `services` are the ranges of cluster IPs.
pub(crate) fn rules_of(
    key: &ObjectKey,
    joined: &ServiceEndpoints,
    node_map: &NodesByName,
    services: &[IpNet],
) -> OwnerRules {
    let mut piece = OwnerRules::default();
    let Some(service) = joined.service.as_ref().filter(|service| !is_unmanaged(service)) else {
        return piece;
    };
    let Some(spec) = &service.spec else { return piece };
    for family in [Family::V4, Family::V6] {
        let addresses = Addresses::of(service, spec, (family, services));
        if addresses.cluster.is_empty() {
            continue;
        }
        let address_type = if family == Family::V4 { "IPv4" } else { "IPv6" };
        let half = piece.half(family);
        for port in spec.ports.iter().flatten() {
            let Some(protocol) = Protocol::of(port.protocol.as_deref()) else { continue };
            let Some(number) = port_number(port.port) else { continue };
            let named = (port.name.as_deref().unwrap_or_default(), protocol);
            let is_service = |ip: IpAddr| services.iter().any(|range| range.contains(&ip));
            let all = endpoints::of_port(joined, address_type, named, node_map, is_service);
            let of_port = PortRules {
                family,
                name: name_of(key, protocol, number),
                protocol: if protocol == Protocol::Tcp { TCP } else { UDP },
                number,
                node_port: port.node_port.and_then(port_number),
                affinity: affinity(spec),
                internal_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
                external_local: spec.external_traffic_policy.as_deref() == Some("Local"),
                endpoints: &all,
            };
            of_port.write(half, &addresses, node_map);
        }
    }
    piece
}

/// Returns a service's UDP addresses with the endpoints that may get their datagrams.
pub(crate) fn datagrams(joined: &ServiceEndpoints, places: &NodesByName, services: &[IpNet]) -> UdpEndpoints {
    let mut served = UdpEndpoints::new();
    let service = joined.service.as_ref().filter(|service| !is_unmanaged(service));
    let Some((service, spec)) = service.and_then(|service| Some((service, service.spec.as_ref()?))) else {
        return served;
    };
    let is_udp = |port: &&ServicePort| Protocol::of(port.protocol.as_deref()) == Some(Protocol::Udp);
    for port in spec.ports.iter().flatten().filter(is_udp) {
        for (family, address_type) in [(Family::V4, "IPv4"), (Family::V6, "IPv6")] {
            let addresses = Addresses::of(service, spec, (family, services));
            let named = (port.name.as_deref().unwrap_or_default(), Protocol::Udp);
            let is_service = |ip: IpAddr| services.iter().any(|range| range.contains(&ip));
            let all = endpoints::of_port(joined, address_type, named, places, is_service);
            let endpoints: BTreeSet<SocketAddr> = all.into_iter().map(|endpoint| endpoint.address).collect();
            let own = [&addresses.cluster, &addresses.external, &addresses.balancers].into_iter().flatten();
            let own = own.filter_map(|ip| Some(SocketAddr::new(*ip, port_number(port.port)?)));
            let nodes = places.values().flat_map(|place| &place.ips);
            let nodes = nodes.filter(|ip| !addresses.cluster.is_empty() && Family::of(**ip) == family);
            let nodes =
                nodes.filter_map(|ip| Some(SocketAddr::new(*ip, port.node_port.and_then(port_number)?)));
            served.extend(own.chain(nodes).map(|place| (place, endpoints.clone())));
        }
    }
    served
}

/// Returns a chain name that is unique for this port.
fn name_of(key: &ObjectKey, protocol: Protocol, port: u16) -> String {
    let protocol = if protocol == Protocol::Tcp { "tcp" } else { "udp" };
    short(format!("service/{}/{}/{protocol}/{port}", key.namespace, key.name))
}

/// The addresses of a service in one family.
struct Addresses {
    cluster: Vec<IpAddr>,
    external: Vec<IpAddr>,
    /// The addresses of load balancers.
    balancers: Vec<IpAddr>,
    /// Source ranges that may use `balancers`; empty means all.
    sources: Vec<IpNet>,
}

impl Addresses {
    /// Collects a service's addresses. `services` are the ranges of cluster IPs: other addresses of a service may not
    /// be in them, so that a service cannot take another's cluster IP.
    fn of(service: &Service, spec: &ServiceSpec, (family, services): (Family, &[IpNet])) -> Self {
        let is_own = |ip: &IpAddr| Family::of(*ip) == family;
        let is_free = |ip: &IpAddr| is_own(ip) && services.iter().all(|range| !range.contains(ip));
        let external = spec.external_ips.iter().flatten().filter_map(|text| text.parse::<IpAddr>().ok());
        let ranges = spec.load_balancer_source_ranges.iter().flatten();
        Self {
            cluster: cluster_ips(spec).filter(is_own).collect(),
            external: external.filter(is_free).collect(),
            balancers: load_balancer_ips(service).filter(is_free).collect(),
            sources: ranges
                .filter_map(|text| text.trim().parse::<IpNet>().ok())
                .filter(|range| Family::of(range.addr()) == family)
                .collect(),
        }
    }
}

/// The data of one service port.
struct PortRules<'a> {
    family: Family,
    name: String,
    protocol: u8,
    number: u16,
    node_port: Option<u16>,
    affinity: Option<Duration>,
    internal_local: bool,
    external_local: bool,
    endpoints: &'a [Endpoint],
}

impl PortRules<'_> {
    fn write(&self, half: &mut FamilyRules, addresses: &Addresses, places: &NodesByName) {
        let everybodys = usable(self.endpoints);
        for endpoint in &everybodys {
            let ip = endpoint.address.ip();
            half.element(HAIRPIN, Element::new(Key::new().ip(ip).ip(ip)));
        }
        let outside = self.balance_chain(half, self.name.clone(), &everybodys);
        let inside = self.by_node(half, &everybodys, outside.as_ref(), places);
        for ip in &addresses.cluster {
            self.serve(half, *ip, self.number, inside.as_ref());
        }
        for ip in &addresses.external {
            self.serve_outside(half, *ip, outside.as_ref());
        }
        let guarded = outside.as_ref().map(|verdict| self.guard(half, &addresses.sources, verdict.clone()));
        for ip in &addresses.balancers {
            self.serve_outside(half, *ip, guarded.as_ref());
        }
        let Some(node_port) = self.node_port else { return };
        for (node, place) in places {
            let own =
                || usable(self.endpoints.iter().filter(|endpoint| endpoint.node.as_deref() == Some(node)));
            let verdict = match &outside {
                Some(_) if self.external_local => {
                    let dealt =
                        self.balance_chain(half, format!("{}/{}", self.name, short_node(node)), &own());
                    // The service has endpoints, but not on this node: drop, as if the node did not exist.
                    Some(dealt.unwrap_or(Verdict::Drop))
                }
                other => other.clone(),
            };
            for ip in place.ips.iter().filter(|ip| Family::of(**ip) == self.family) {
                self.serve(half, *ip, node_port, verdict.as_ref());
            }
        }
    }

    /// Maps an address and port to a verdict, or rejects it.
    fn serve(&self, half: &mut FamilyRules, ip: IpAddr, port: u16, verdict: Option<&Verdict>) {
        let element = Element::new(Key::new().ip(ip).protocol(self.protocol).port(port));
        match verdict {
            // A nat chain cannot drop for good: the packet would still be routed.
            Some(Verdict::Drop) => half.element(REFUSED, element.to(Verdict::Drop)),
            Some(verdict) => half.element(SERVICES, element.to(verdict.clone())),
            None => half.element(REFUSED, element.to(reject())),
        }
    }

    /// Does the same as [`Self::serve`] for an address that may be outside the cluster's ranges, and adds it to the set
    /// of those whose packets must not leave the cluster.
    fn serve_outside(&self, half: &mut FamilyRules, ip: IpAddr, verdict: Option<&Verdict>) {
        self.serve(half, ip, self.number, verdict);
        let key = Key::new().ip(ip).protocol(self.protocol).port(self.number);
        half.element(SERVED_OUTSIDE, Element::new(key));
    }

    /// Adds a chain that chooses among these endpoints; `None` if there are none.
    fn balance_chain(
        &self,
        half: &mut FamilyRules,
        name: String,
        endpoints: &[&Endpoint],
    ) -> Option<Verdict> {
        if endpoints.is_empty() {
            return None;
        }
        let mut targets: Vec<SocketAddr> = endpoints.iter().map(|endpoint| endpoint.address).collect();
        targets.order();
        let rules = match (self.affinity, &targets[..]) {
            (Some(after), _) => self.sticky(half, &targets, after),
            (None, [only]) => vec![vec![Statement::Dnat(*only)]],
            (None, _) => vec![vec![Statement::DnatAmong(targets)]],
        };
        half.chain(name.clone(), rules);
        Some(Verdict::Goto(name))
    }

    /// Returns rules by which a client keeps its endpoint until it has been silent for `after`.
    fn sticky(&self, half: &mut FamilyRules, targets: &[SocketAddr], after: Duration) -> Vec<Rule> {
        let client = || vec![Field::SourceAddress];
        let mut rules = Vec::new();
        let mut verdicts = Vec::new();
        for target in targets {
            // A set's timeout cannot be changed: another timeout needs another set.
            let seconds = after.as_secs();
            let (chain, clients) =
                (format!("{}>{target}", self.name), format!("{}<{target}/{seconds}", self.name));
            half.set(Set::new(&clients, &client()).forgetting(after));
            let remembered = vec![Statement::Remember(client(), clients.clone())];
            half.chain(chain.clone(), vec![remembered, vec![Statement::Dnat(*target)]]);
            let goes = Verdict::Goto(chain);
            rules.push(vec![Statement::In(client(), clients), Statement::Verdict(goes.clone())]);
            verdicts.push(goes);
        }
        rules.push(vec![Statement::VerdictAmong(verdicts)]);
        rules
    }

    /// Returns the verdict for clients inside the cluster, with endpoints chosen by the client's node where that makes
    /// a difference; else the verdict for all.
    fn by_node(
        &self,
        half: &mut FamilyRules,
        everybodys: &[&Endpoint],
        all: Option<&Verdict>,
        node_map: &NodesByName,
    ) -> Option<Verdict> {
        let all = all?;
        let mut groups: BTreeMap<Vec<SocketAddr>, (Vec<&Endpoint>, Vec<&str>)> = BTreeMap::new();
        for (node, place) in node_map.iter().filter(|(_, place)| place.is_in(self.family)) {
            let own: Vec<&Endpoint> = if self.internal_local {
                usable(self.endpoints.iter().filter(|endpoint| endpoint.node.as_deref() == Some(node)))
            } else {
                hinted(everybodys, node, place.zone.as_deref())
            };
            if own != everybodys {
                let addresses = own.iter().map(|endpoint| endpoint.address).collect();
                groups.entry(addresses).or_insert_with(|| (own, Vec::new())).1.push(node);
            }
        }
        if groups.is_empty() {
            return Some(all.clone());
        }
        let mut rules: Vec<Rule> = Vec::new();
        for (own, nodes) in groups.into_values() {
            let first = nodes.first().copied().unwrap_or_default();
            let dealt = self.balance_chain(half, format!("{}/from/{}", self.name, short_node(first)), &own);
            let verdict = dealt.unwrap_or(Verdict::Drop);
            for node in nodes {
                let from_node = Statement::In(vec![Field::SourceAddress], clients_of(node));
                rules.push(vec![from_node, Statement::Verdict(verdict.clone())]);
            }
        }
        rules.push(vec![Statement::Verdict(all.clone())]);
        let name = format!("{}/by-node", self.name);
        half.chain(name.clone(), rules);
        Some(Verdict::Goto(name))
    }

    /// Restricts a verdict to these source ranges.
    fn guard(&self, half: &mut FamilyRules, sources: &[IpNet], verdict: Verdict) -> Verdict {
        if sources.is_empty() {
            return verdict;
        }
        let name = format!("{}/sources", self.name);
        half.set(Set::new(&name, &[Field::SourceAddress]).of_intervals());
        for range in IpNet::aggregate(&sources.to_vec()) {
            let (first, last) = (Key::new().ip(range.network()), Key::new().ip(range.broadcast()));
            half.element(&name, Element::range(first, last));
        }
        let outsider = Statement::NotIn(vec![Field::SourceAddress], name.clone());
        half.chain(
            name.clone(),
            vec![vec![outsider, Statement::Verdict(Verdict::Drop)], vec![Statement::Verdict(verdict)]],
        );
        Verdict::Goto(name)
    }
}
