//! What network policies judge by: of pods, namespaces and policies only what counts.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::peers::{Definition, Namespaces};
use super::port_range::Protocol;
use super::rule::Policy;
use object::Key;
use object::host_ports::declared_ports;
use object::pod::{is_terminal, node_name};
use object::selector::Labels;

/// A port of a pod that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NamedPort {
    pub(super) name: String,
    pub(super) protocol: Protocol,
    number: u16,
}

/// The numbers of the ports among these that have a name: one, unless a pod's containers disagree.
pub(super) fn numbers_of(named: &[NamedPort], protocol: Protocol, name: &str) -> impl Iterator<Item = u16> {
    let same = named.iter().filter(move |port| port.protocol == protocol && port.name == name);
    same.map(|port| port.number)
}

/// A pod that has not ended and has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) labels: Labels,
    /// Its first address is the one that it is known by.
    pub(super) ips: Vec<IpAddr>,
    pub(super) node: Option<String>,
    /// Its addresses are its node's: selectors do not find it, policies do not isolate it.
    pub(super) of_host: bool,
    pub(super) ports: Vec<NamedPort>,
}

impl PodFacts {
    /// What counts of a pod; none when nothing does.
    fn of(pod: &Pod) -> Option<Self> {
        if is_terminal(pod) {
            return None;
        }
        let status = pod.status.as_ref()?;
        let first = status.pod_ip.iter();
        let all = first.chain(status.pod_ips.iter().flatten().map(|own| &own.ip));
        let mut ips: Vec<IpAddr> = Vec::new();
        for ip in all.filter_map(|ip| ip.parse().ok()) {
            if !ips.contains(&ip) {
                ips.push(ip);
            }
        }
        if ips.is_empty() {
            return None;
        }
        let spec = pod.spec.as_ref();
        let ports = declared_ports(pod)
            .filter_map(|port| {
                let name = port.name.clone().filter(|name| !name.is_empty())?;
                let number = u16::try_from(port.container_port).ok().filter(|number| *number > 0)?;
                Some(NamedPort { name, protocol: Protocol::read(port.protocol.as_deref())?, number })
            })
            .collect();
        Some(Self {
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            ips,
            node: node_name(pod).map(str::to_owned),
            of_host: spec.is_some_and(|spec| spec.host_network == Some(true)),
            ports,
        })
    }

    /// The ports that it has by this name: one, unless its containers disagree.
    pub(super) fn numbers(&self, protocol: Protocol, name: &str) -> Vec<u16> {
        numbers_of(&self.ports, protocol, name).collect()
    }
}

/// All that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    pub(super) pods: BTreeMap<Key, PodFacts>,
    pub(super) namespaces: BTreeMap<String, Labels>,
    pub(super) policies: BTreeMap<Key, Policy>,
    /// The pods with networks of their own, by address.
    by_ip: HashMap<IpAddr, Vec<Key>>,
}

impl World {
    /// A pod is like this from now on, or gone.
    pub fn set_pod(&mut self, key: &Key, pod: Option<&Pod>) {
        self.replace_pod(key, pod);
    }

    /// As [`Self::set_pod`], with what counted of it before.
    pub(super) fn replace_pod(&mut self, key: &Key, pod: Option<&Pod>) -> Option<PodFacts> {
        let before = self.pods.remove(key);
        for ip in before.iter().filter(|pod| !pod.of_host).flat_map(|pod| &pod.ips) {
            if let Some(keys) = self.by_ip.get_mut(ip) {
                keys.retain(|one| one != key);
                if keys.is_empty() {
                    self.by_ip.remove(ip);
                }
            }
        }
        if let Some(now) = pod.and_then(PodFacts::of) {
            for ip in now.ips.iter().filter(|_| !now.of_host) {
                let keys = self.by_ip.entry(*ip).or_default();
                keys.push(key.clone());
                keys.sort_unstable();
            }
            self.pods.insert(key.clone(), now);
        }
        before
    }

    /// A namespace is like this from now on, or gone.
    pub fn set_namespace(&mut self, name: &str, namespace: Option<&Namespace>) {
        match namespace {
            Some(namespace) => {
                let labels = namespace.metadata.labels.clone().unwrap_or_default();
                self.namespaces.insert(name.to_owned(), labels);
            }
            None => drop(self.namespaces.remove(name)),
        }
    }

    /// A policy is like this from now on, or gone.
    pub fn set_policy(&mut self, key: &Key, policy: Option<&NetworkPolicy>) {
        self.replace_policy(key, policy);
    }

    /// As [`Self::set_policy`], with what it said before.
    pub(super) fn replace_policy(&mut self, key: &Key, policy: Option<&NetworkPolicy>) -> Option<Policy> {
        match policy {
            Some(policy) => self.policies.insert(key.clone(), Policy::read(key, policy)),
            None => self.policies.remove(key),
        }
    }

    /// The policies, in order.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values()
    }

    /// The pod with a network of its own that has this address; the first by name, should several say so.
    pub(super) fn pod_at(&self, ip: IpAddr) -> Option<&Key> {
        self.by_ip.get(&ip)?.first()
    }

    /// The policies that isolate a pod of its own network, whatever the direction.
    pub(super) fn isolating<'a>(
        &'a self,
        key: &'a Key,
        pod: &'a PodFacts,
    ) -> impl Iterator<Item = &'a Policy> + 'a {
        let first = Key::new(key.namespace.clone(), "");
        let own = self.policies.range(first..).take_while(|(policy, _)| policy.namespace == key.namespace);
        own.map(|(_, policy)| policy)
            .filter(move |policy| !pod.of_host && policy.pods.matches(Some(&pod.labels)))
    }

    /// Whether a set looks into a namespace.
    pub(super) fn looks_into(&self, namespaces: &Namespaces, name: &str) -> bool {
        match namespaces {
            Namespaces::All => true,
            Namespaces::Named(own) => own == name,
            // Of one that is not there nothing is known, not even that it has no labels.
            Namespaces::Selected(selector) => {
                self.namespaces.get(name).is_some_and(|labels| selector.matches(Some(labels)))
            }
        }
    }

    /// Whether a pod is one of those that a set is of.
    pub(super) fn selects(&self, definition: &Definition, key: &Key, pod: &PodFacts) -> bool {
        !pod.of_host
            && definition.pods.matches(Some(&pod.labels))
            && self.looks_into(&definition.namespaces, &key.namespace)
    }
}
