//! Resolves names as the source pod would: its search path, the cluster's names, and other names.

use std::net::IpAddr;

use hickory_proto::rr::{Name, RecordType};
use k8s_openapi::api::core::v1::{Pod, Service};

use super::Facts;
use super::report::{Finding, WalkStep};
use ::services::ServiceEndpoints;
use base::resolv_conf::ResolvConf;
use base::sort::CollectMap;
use dns::answer::{Answer, find_records};
use dns::index::Index;
use object::service::of_slice;
use object::{ClusterDomain, Key, SharedObject};

/// The result of resolving a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// Its addresses.
    Addresses(Vec<IpAddr>),
    /// A name outside the cluster, which the machine's resolvers may know.
    Outside(String),
    /// The name does not exist.
    NotFound,
}

/// The result of resolving a name, with the names that were tried.
pub(super) struct NameLookup {
    pub(super) meaning: Resolution,
    /// The full name that was found.
    pub(super) full: String,
    pub(super) tried: Vec<String>,
}

/// Returns a pod's resolv.conf, and whether it uses the cluster's DNS.
pub(super) fn search_path(pod: &Pod, facts: &Facts) -> (ResolvConf, bool) {
    let Some(spec) = &pod.spec else { return (ResolvConf::default(), false) };
    let of_host = spec.host_network == Some(true);
    let policy = spec.dns_policy.as_deref().unwrap_or("ClusterFirst");
    let of_cluster = policy == "ClusterFirstWithHostNet" || (policy == "ClusterFirst" && !of_host);
    let mut conf = ResolvConf::default();
    if of_cluster {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let domain = domain(facts);
        conf.searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain];
        conf.options = vec!["ndots:5".to_owned()];
    }
    if policy != "None" {
        conf.searches.extend(facts.searches.iter().cloned());
    }
    if let Some(own) = &spec.dns_config {
        conf.searches.extend(own.searches.iter().flatten().cloned());
        let options = own.options.iter().flatten().filter_map(|option| {
            let name = option.name.as_deref()?;
            Some(option.value.as_ref().map_or_else(|| name.to_owned(), |value| format!("{name}:{value}")))
        });
        conf.options.extend(options);
    }
    let servers = spec.dns_config.iter().flat_map(|own| own.nameservers.iter().flatten());
    let dns = dns_address(facts);
    let by_hand = servers.filter_map(|server| server.parse::<IpAddr>().ok()).any(|ip| Some(ip) == dns);
    (conf, of_cluster || by_hand)
}

/// Returns the address of the cluster's DNS.
pub(super) fn dns_address(facts: &Facts) -> Option<IpAddr> {
    dns_service(facts)?.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}

/// Returns the cluster's domain from the annotation of the DNS service; the default domain if the user may not read
/// that service.
fn domain(facts: &Facts) -> String {
    let annotations = dns_service(facts).and_then(|service| service.metadata.annotations.as_ref());
    let domain =
        annotations.and_then(|all| all.get(ClusterDomain::ANNOTATION)?.parse::<ClusterDomain>().ok());
    domain.unwrap_or_default().to_string()
}

fn dns_service(facts: &Facts) -> Option<&Service> {
    let key = Key::new("kube-system", "kube-dns");
    facts.services.iter().find(|service| Key::of(&service.metadata) == key)
}

/// Builds the index of the cluster's names.
pub(super) fn index(facts: &Facts) -> Index {
    let own = match dns_address(facts) {
        Some(IpAddr::V4(ip)) => ip,
        _ => std::net::Ipv4Addr::LOCALHOST,
    };
    let host = facts.own_network.then_some(egress::HOST_ADDRESS);
    let mut index = Index::new(&domain(facts), own).with_host(host);
    for namespace in &facts.namespaces {
        index.set_namespace(namespace.metadata.name.as_deref().unwrap_or_default(), true);
    }
    for service in &facts.services {
        let key = Key::of(&service.metadata);
        // A user who may not list namespaces still sees those of readable services.
        index.set_namespace(&key.namespace, true);
        let own = facts.slices.iter().filter(|slice| of_slice(&slice.metadata).as_ref() == Some(&key));
        let slices = own
            .map(|slice| (Key::of(&slice.metadata), SharedObject::from_value(slice.clone())))
            .collect_map();
        index.update(
            &key,
            &ServiceEndpoints { service: Some(SharedObject::from_value(service.clone())), slices },
        );
    }
    index
}

/// Resolves a name as a program in the pod does.
pub(super) fn resolve(index: &Index, conf: &ResolvConf, name: &str) -> NameLookup {
    let mut tried = Vec::new();
    let mut outside = None;
    for candidate in conf.candidates(name) {
        tried.push(candidate.clone());
        let Ok(parsed) = Name::from_ascii(&candidate) else { continue };
        let found = |meaning, tried| NameLookup { meaning, full: candidate.clone(), tried };
        match find_addresses(index, &parsed) {
            Answer::Records { answers, .. } => {
                let ips = answers.iter().filter_map(|record| record.data.ip_addr());
                return found(Resolution::Addresses(ips.collect()), tried);
            }
            Answer::Alias { target, .. } => {
                return found(Resolution::Outside(target.to_ascii().trim_end_matches('.').to_owned()), tried);
            }
            // The name exists without an address: libc stops searching here.
            Answer::NoData => return found(Resolution::Addresses(Vec::new()), tried),
            Answer::NxDomain => {}
            Answer::OutsideDomain => {
                // The machine's search domains lead outside too; report the name itself.
                if candidate.trim_end_matches('.') == name.trim_end_matches('.') {
                    outside = Some(candidate.trim_end_matches('.').to_owned());
                }
            }
        }
    }
    let full = outside.clone().unwrap_or_else(|| name.to_owned());
    NameLookup { meaning: outside.map_or(Resolution::NotFound, Resolution::Outside), full, tried }
}

/// Returns the records of a name's IPv4 addresses, or of its IPv6 addresses if it has no others.
fn find_addresses(index: &Index, name: &Name) -> Answer {
    let records = find_records(index, name, RecordType::A);
    let has_none = match &records {
        Answer::NoData => true,
        // The name may be an alias of a name without IPv4 addresses.
        Answer::Records { answers, .. } => answers.iter().all(|record| record.data.ip_addr().is_none()),
        _ => false,
    };
    if has_none { find_records(index, name, RecordType::AAAA) } else { records }
}

/// Explains that a name does not exist.
pub(super) fn unknown(facts: &Facts, name: &str, namespace: &str, tried: &[String]) -> Finding {
    let first = name.split('.').next().unwrap_or_default();
    let others: Vec<String> = facts
        .services
        .iter()
        .filter(|service| service.metadata.name.as_deref() == Some(first))
        .map(|service| format!("{first}.{}", service.metadata.namespace.as_deref().unwrap_or_default()))
        .collect();
    let advice = if !others.is_empty() {
        format!("service {first} is in another namespace; use {}", others.join(" or "))
    } else if let Some(near) = nearest(facts, first, namespace) {
        format!("did you mean service {near}?")
    } else {
        "create the service, or correct the name".to_owned()
    };
    let text = format!("{name} does not resolve: not found with any suffix of the search path");
    Finding::problem(WalkStep::Name, text, advice)
        .with(tried.iter().map(|name| format!("{name} NXDOMAIN")).collect())
}

/// Returns a service of the namespace with a similar name.
fn nearest(facts: &Facts, name: &str, namespace: &str) -> Option<String> {
    let own =
        facts.services.iter().filter(|service| service.metadata.namespace.as_deref() == Some(namespace));
    let near = own.filter_map(|service| {
        let other = service.metadata.name.as_deref()?;
        let distance = super::services::distance(name, other);
        (distance <= 2).then(|| (distance, other.to_owned()))
    });
    near.min().map(|(_, name)| name)
}
