//! The input of policy evaluation: the relevant facts about pods, namespaces and policies.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::peers::{Definition, Namespaces};
use super::port_range::Protocol;
use super::rule::Policy;
use object::host_ports::declared_ports;
use object::pod::{addresses, is_on_host_network, is_terminal, node_name};
use object::selector::Labels;
use object::{Key, port_number};

/// A named port of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NamedPort {
    pub(super) name: String,
    pub(super) protocol: Protocol,
    number: u16,
}

/// Returns the numbers of the ports with a name: one, unless a pod's containers disagree.
pub(super) fn numbers_of(named: &[NamedPort], protocol: Protocol, name: &str) -> impl Iterator<Item = u16> {
    let same = named.iter().filter(move |port| port.protocol == protocol && port.name == name);
    same.map(|port| port.number)
}

/// A pod that has not ended and has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) labels: Labels,
    /// Its addresses, the primary one first.
    pub(super) ips: Vec<IpAddr>,
    pub(super) node: Option<String>,
    /// It uses its node's network: selectors do not match it, and policies do not isolate it.
    pub(super) of_host: bool,
    pub(super) ports: Vec<NamedPort>,
}

impl PodFacts {
    /// Reads the relevant facts of a pod; `None` if it has ended or has no address.
    fn of(pod: &Pod) -> Option<Self> {
        if is_terminal(pod) {
            return None;
        }
        let ips = Some(addresses(pod)).filter(|ips| !ips.is_empty())?;
        let ports = declared_ports(pod)
            .filter_map(|port| {
                let name = port.name.clone().filter(|name| !name.is_empty())?;
                let number = port_number(port.container_port)?;
                Some(NamedPort { name, protocol: Protocol::read(port.protocol.as_deref())?, number })
            })
            .collect();
        Some(Self {
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            ips,
            node: node_name(pod).map(str::to_owned),
            of_host: is_on_host_network(pod),
            ports,
        })
    }

    /// Returns the numbers of its ports with a name: one, unless its containers disagree.
    pub(super) fn numbers(&self, protocol: Protocol, name: &str) -> Vec<u16> {
        numbers_of(&self.ports, protocol, name).collect()
    }
}

/// All pods, namespaces and policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyInputs {
    pub(super) pods: BTreeMap<Key, PodFacts>,
    pub(super) namespaces: BTreeMap<String, Labels>,
    pub(super) policies: BTreeMap<Key, Policy>,
    /// The pods with networks of their own, by address.
    by_ip: HashMap<IpAddr, Vec<Key>>,
}

impl PolicyInputs {
    /// Sets or removes a pod.
    pub fn set_pod(&mut self, key: &Key, pod: Option<&Pod>) {
        self.replace_pod(key, pod);
    }

    /// Like [`Self::set_pod`], and returns the previous facts.
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

    /// Sets or removes a namespace.
    pub fn set_namespace(&mut self, name: &str, namespace: Option<&Namespace>) {
        match namespace {
            Some(namespace) => {
                let labels = namespace.metadata.labels.clone().unwrap_or_default();
                self.namespaces.insert(name.to_owned(), labels);
            }
            None => drop(self.namespaces.remove(name)),
        }
    }

    /// Sets or removes a policy.
    pub fn set_policy(&mut self, key: &Key, policy: Option<&NetworkPolicy>) {
        self.replace_policy(key, policy);
    }

    /// Like [`Self::set_policy`], and returns the previous policy.
    pub(super) fn replace_policy(&mut self, key: &Key, policy: Option<&NetworkPolicy>) -> Option<Policy> {
        match policy {
            Some(policy) => self.policies.insert(key.clone(), Policy::read(key, policy)),
            None => self.policies.remove(key),
        }
    }

    /// Returns the policies, in order.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values()
    }

    /// Returns the pod with a network of its own that has this address; the first by name if several have it.
    pub(super) fn pod_at(&self, ip: IpAddr) -> Option<&Key> {
        self.by_ip.get(&ip)?.first()
    }

    /// Returns the policies that select a pod with a network of its own, in either direction.
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

    /// Returns whether a set includes a namespace.
    pub(super) fn includes_namespace(&self, namespaces: &Namespaces, name: &str) -> bool {
        match namespaces {
            Namespaces::All => true,
            Namespaces::Named(own) => own == name,
            // The labels of a namespace that does not exist are unknown; not even an empty selector matches it.
            Namespaces::Selected(selector) => {
                self.namespaces.get(name).is_some_and(|labels| selector.matches(Some(labels)))
            }
        }
    }

    /// Returns whether a set's definition selects a pod.
    pub(super) fn selects(&self, definition: &Definition, key: &Key, pod: &PodFacts) -> bool {
        !pod.of_host
            && definition.pods.matches(Some(&pod.labels))
            && self.includes_namespace(&definition.namespaces, &key.namespace)
    }
}
