//! The rules of network policies for all pods, as changes for the kernel.

use std::net::IpAddr;

use base::sort::CollectMap;
use fabric::nft::Family;
use k8s_openapi::api::core::v1::{Namespace, Pod, PodIP, PodStatus};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Owner;
use super::owner_rules::{OwnerRules, RulesUpdate};
use super::policies;
use super::policy_chains::Chains;
use super::policy_changes::ChangedObjects;
use super::policy_names::{Names, SetReferences};
use super::policy_parts::MAX_RULES;
use network_policy::{Index, SetChange};
use object::{Key, Kind, Object};

/// The key of a pod that stands for the cluster's DNS; no real pod can have such a name.
fn dns_pod() -> Key {
    Key::new("kube-system", "(dns)")
}

/// The rules of network policies for all pods.
pub(super) struct PolicyRules {
    pub(super) index: Index,
    names: Names,
    chains: Chains,
    /// Maximum number of rules in a part of a chain.
    max_rules: usize,
}

impl PolicyRules {
    /// Starts with the cluster's DNS as the only pod.
    pub(super) fn new(dns: &[IpAddr]) -> Self {
        let mut index = Index::default();
        if let Some(first) = dns.first() {
            let labels = [("k8s-app".to_owned(), "kube-dns".to_owned())].collect_map();
            let metadata = ObjectMeta { labels: Some(labels), ..ObjectMeta::default() };
            let all = dns.iter().map(|ip| PodIP { ip: ip.to_string() }).collect();
            let status =
                PodStatus { pod_ip: Some(first.to_string()), pod_ips: Some(all), ..PodStatus::default() };
            let pod = Pod { metadata, status: Some(status), ..Pod::default() };
            index.set_pod(&dns_pod(), Some(&pod));
        }
        Self { index, names: Names::default(), chains: Chains::default(), max_rules: MAX_RULES }
    }

    /// Creates the rules with a smaller maximum per chain, so that short chains are split.
    #[cfg(test)]
    pub(super) fn in_parts_of(most: usize) -> Self {
        Self { max_rules: most, ..Self::new(&[]) }
    }

    /// Takes changed objects over and returns the changes of rules.
    pub(super) fn take(&mut self, changed: ChangedObjects, families: &[Family]) -> Vec<(Owner, RulesUpdate)> {
        for ((kind, key), now) in changed {
            let now = now.as_deref();
            match kind {
                Kind::Pod => self.index.stage_pod(&key, now.and_then(Object::get::<Pod>)),
                Kind::Namespace => {
                    self.index.stage_namespace(&key.name, now.and_then(Object::get::<Namespace>));
                }
                _ => self.index.stage_policy(&key, now.and_then(Object::get::<NetworkPolicy>)),
            }
        }
        self.commit(families)
    }

    /// Returns the rule changes for all staged objects. Sets come before the rules that refer to them, and are removed
    /// after.
    pub(super) fn commit(&mut self, families: &[Family]) -> Vec<(Owner, RulesUpdate)> {
        let changes = self.index.commit();
        let Self { names, chains, max_rules: most, .. } = self;
        let (mut updates, mut gone): (Vec<(Owner, RulesUpdate)>, Vec<Owner>) = (Vec::new(), Vec::new());
        for (id, change) in changes.sets {
            let wish = match change {
                SetChange::Removed => {
                    if names.sets.release(&id).is_some() {
                        gone.push(Owner::Peers(id));
                    }
                    continue;
                }
                SetChange::Created(members) | SetChange::Replaced(members) => {
                    let number = names.sets.number(&id).or_else(|| names.sets.acquire(&id));
                    policies::peers(&id, number.unwrap_or_default(), &members, families).into()
                }
                SetChange::Changed { added, removed } => {
                    let Some(number) = names.sets.number(&id) else { continue };
                    RulesUpdate::Change(policies::peers_change(&id, number, (&added, &removed), families))
                }
            };
            updates.push((Owner::Peers(id), wish));
        }
        // Policies must not isolate the control plane itself.
        let pods = changes.pods.into_iter().filter(|(key, _)| *key != dns_pod()).collect();
        let moved = chains.lead(pods);
        let written: Vec<_> =
            moved.written.iter().filter_map(|side| Some((side.0, chains.get(side)?))).collect();
        let (mut needed, mut needless) = (SetReferences::default(), SetReferences::default());
        for (_, chain) in &written {
            names.acquire(&chain.isolation, &mut needed);
        }
        for isolation in &moved.replaced {
            names.release(isolation, &mut needless);
        }
        for (number, block) in needed.blocks {
            updates.push((Owner::Block(number), policies::block(number, &block, families).into()));
        }
        for (number, ports) in needed.ports {
            updates.push((Owner::Ports(number), policies::ports(number, &ports, families).into()));
        }
        for (direction, chain) in written {
            let (name, left) = ((chain.number, chain.generation), (direction, chain.isolation.as_ref()));
            let piece = policies::chain(name, left, names, *most, families);
            updates.push((Owner::Isolation(chain.number), piece.into()));
        }
        for (key, pod) in moved.pods {
            let piece = pod.map(|(ips, numbers)| policies::isolated(&ips, numbers, families));
            updates.push((Owner::Isolated(key), piece.unwrap_or_default().into()));
        }
        let chains = moved.removed.into_iter().map(Owner::Isolation);
        let blocks = needless.blocks.into_iter().map(|(number, _)| Owner::Block(number));
        let ports = needless.ports.into_iter().map(|(number, _)| Owner::Ports(number));
        let removed = chains.chain(blocks).chain(ports).chain(gone);
        updates.extend(removed.map(|owner| (owner, OwnerRules::default().into())));
        updates
    }
}
