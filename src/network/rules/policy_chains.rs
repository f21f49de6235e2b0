//! The chains of isolated pods: pods with the same isolation share one.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use network_policy::{Direction, IsolatedPod, Isolation};
use object::Key;

/// The isolation of a direction, identified by its address in memory: two equal isolations at different addresses have
/// two chains.
pub(super) type ChainKey = (Direction, usize);

/// A chain, and the number of pods that refer to it.
pub(super) struct Chain {
    pub(super) number: u32,
    /// Number of times it was rewritten.
    pub(super) generation: u64,
    pub(super) isolation: Arc<Isolation>,
    pods: usize,
}

/// A pod that refers to chains.
struct ChainedPod {
    ips: Vec<IpAddr>,
    /// The chains of ingress and of egress.
    sides: [Option<ChainKey>; 2],
}

/// All chains, and the isolated pods.
#[derive(Default)]
pub(super) struct Chains {
    by_key: HashMap<ChainKey, Chain>,
    pods: HashMap<Key, ChainedPod>,
    last: u32,
}

/// Changes of chains and of pods' references to them.
#[derive(Default)]
pub(super) struct ChainChanges {
    /// Chains that are new or rewritten, in no particular order.
    pub(super) written: Vec<ChainKey>,
    /// Previous isolations of chains that were rewritten or removed.
    pub(super) replaced: Vec<Arc<Isolation>>,
    /// Numbers of removed chains.
    pub(super) removed: Vec<u32>,
    /// Pods whose chains or addresses changed; `None` if the pod is no longer isolated.
    pub(super) pods: Vec<(Key, Option<PodChains>)>,
}

/// A pod's addresses, and the numbers of the chains of its ingress and egress.
type PodChains = (Vec<IpAddr>, [Option<u32>; 2]);
/// The chain to which the pods of another chain move, if it is the same for all, and the number of pods that move.
type ChainTarget<'a> = (Option<(ChainKey, &'a Arc<Isolation>)>, usize);

fn sides(pod: &IsolatedPod) -> [Option<(ChainKey, &Arc<Isolation>)>; 2] {
    let of = |direction, own: &Option<Arc<Isolation>>| {
        own.as_ref().map(|own| (direction, Arc::as_ptr(own).addr()))
    };
    [(Direction::Ingress, &pod.ingress), (Direction::Egress, &pod.egress)]
        .map(|(direction, own)| Some((of(direction, own)?, own.as_ref()?)))
}

impl Chains {
    pub(super) fn get(&self, side: &ChainKey) -> Option<&Chain> {
        self.by_key.get(side)
    }

    /// Updates the isolation of pods. If all pods of a chain move to an isolation that has no chain yet, the chain is
    /// rewritten and the pods keep their reference: a changed policy costs one chain and no pod.
    pub(super) fn lead(&mut self, pods: Vec<(Key, Option<IsolatedPod>)>) -> ChainChanges {
        let mut moved = ChainChanges::default();
        let becomes = self.rewrite_chains(&pods, &mut moved);
        let mut left = HashSet::new();
        for (key, now) in pods {
            let now = now.as_ref();
            let same = |side: ChainKey| becomes.get(&side).copied().unwrap_or(side);
            let is = now.map_or([None; 2], sides);
            // Most pods keep their reference, because a changed policy rewrites their chain.
            if let (Some(led), Some(now)) = (self.pods.get_mut(&key), now) {
                let (was, is) = (led.sides.map(|side| side.map(same)), is.map(|side| Some(side?.0)));
                if was == is && led.ips == now.ips {
                    led.sides = is;
                    continue;
                }
            }
            let before = self.pods.remove(&key);
            let was = before.as_ref().map_or([None; 2], |led| led.sides.map(|side| side.map(same)));
            for (was, is) in was.into_iter().zip(is) {
                if was == is.map(|(side, _)| side) {
                    continue;
                }
                if let Some((side, isolation)) = is {
                    let last = &mut self.last;
                    let chain = self.by_key.entry(side).or_insert_with(|| {
                        *last = last.wrapping_add(1);
                        moved.written.push(side);
                        Chain { number: *last, generation: 0, isolation: isolation.clone(), pods: 0 }
                    });
                    chain.pods += 1;
                }
                if let Some(side) = was
                    && let Some(chain) = self.by_key.get_mut(&side)
                {
                    chain.pods -= 1;
                    left.insert(side);
                }
            }
            let is = is.map(|side| side.map(|(side, _)| side));
            let ips = now.map(|pod| pod.ips.clone()).unwrap_or_default();
            let numbers = is.map(|side| Some(self.by_key.get(&side?)?.number));
            moved.pods.push((key.clone(), now.map(|_| (ips.clone(), numbers))));
            if now.is_some() {
                self.pods.insert(key, ChainedPod { ips, sides: is });
            }
        }
        for side in left {
            if self.by_key.get(&side).is_some_and(|chain| chain.pods == 0)
                && let Some(chain) = self.by_key.remove(&side)
            {
                moved.removed.push(chain.number);
                moved.replaced.push(chain.isolation);
            }
        }
        moved
    }

    /// Rewrites the chains that all of their pods leave for a new isolation; returns the old and new key of each.
    fn rewrite_chains(
        &mut self,
        pods: &[(Key, Option<IsolatedPod>)],
        moved: &mut ChainChanges,
    ) -> HashMap<ChainKey, ChainKey> {
        let mut going: HashMap<ChainKey, ChainTarget<'_>> = HashMap::new();
        for (key, now) in pods {
            let Some(led) = self.pods.get(key) else { continue };
            let now = now.as_ref().map_or([None; 2], sides);
            for (was, is) in led.sides.into_iter().zip(now) {
                let Some(was) = was.filter(|was| is.is_none_or(|(is, _)| is != *was)) else { continue };
                let (goes, count) = going.entry(was).or_insert((is, 0));
                *count += 1;
                if goes.map(|(side, _)| side) != is.map(|(side, _)| side) {
                    *goes = None;
                }
            }
        }
        let mut becomes = HashMap::new();
        for (was, (is, count)) in going {
            let Some((is, isolation)) = is.filter(|(is, _)| !self.by_key.contains_key(is)) else { continue };
            if self.by_key.get(&was).is_none_or(|chain| chain.pods != count) {
                continue;
            }
            if let Some(chain) = self.by_key.remove(&was) {
                let now = Chain { isolation: isolation.clone(), generation: chain.generation + 1, ..chain };
                moved.replaced.push(chain.isolation);
                self.by_key.insert(is, now);
                moved.written.push(is);
                becomes.insert(was, is);
            }
        }
        becomes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use network_policy::{Peers, PortRange, Ports, Protocol};

    fn isolation(port: u16) -> Arc<Isolation> {
        let range = PortRange::one(Protocol::Tcp, port);
        let peers = [(Peers::Any, Ports::of([range]))].into();
        Arc::new(Isolation { peers, ..Isolation::default() })
    }

    fn pod(name: &str, ingress: Option<&Arc<Isolation>>) -> (Key, Option<IsolatedPod>) {
        let ips = vec!["10.244.0.1".parse().unwrap()];
        let pod = ingress.map(|ingress| IsolatedPod {
            ips,
            node: None,
            ingress: Some(ingress.clone()),
            egress: None,
        });
        (Key::new("default", name), pod)
    }

    /// Number of chains written, chains removed, and pods with changed references and their numbers.
    type ChangeSummary<'a> = (usize, Vec<u32>, Vec<(&'a str, Option<u32>)>);

    fn summarize(moved: &ChainChanges) -> ChangeSummary<'_> {
        let pods = moved
            .pods
            .iter()
            .map(|(key, pod)| (key.name.as_str(), pod.as_ref().and_then(|(_, [own, _])| *own)));
        (moved.written.len(), moved.removed.clone(), pods.collect())
    }

    #[test]
    fn pods_share_chains_and_stay_where_all_of_them_go_net_8() {
        let [one, two, three] = [1, 2, 3].map(isolation);
        let mut chains = Chains::default();
        let moved = chains.lead(vec![pod("a", Some(&one)), pod("b", Some(&one))]);
        assert_eq!(summarize(&moved), (1, vec![], vec![("a", Some(1)), ("b", Some(1))]));
        // A changed policy rewrites its chain.
        let moved = chains.lead(vec![pod("a", Some(&two)), pod("b", Some(&two))]);
        assert_eq!(summarize(&moved), (1, vec![], vec![]));
        assert!(Arc::ptr_eq(&moved.replaced[0], &one));
        let chain = chains.get(&moved.written[0]).unwrap();
        assert_eq!((chain.number, chain.generation), (1, 1));
        // A pod that leaves alone gets its own chain, and then returns to the shared one.
        let moved = chains.lead(vec![pod("b", Some(&three))]);
        assert_eq!(summarize(&moved), (1, vec![], vec![("b", Some(2))]));
        let moved = chains.lead(vec![pod("b", Some(&two))]);
        assert_eq!(summarize(&moved), (0, vec![2], vec![("b", Some(1))]));
        // If the pods move to different isolations, the chain is removed.
        let moved = chains.lead(vec![pod("a", Some(&one)), pod("b", Some(&three))]);
        assert_eq!(summarize(&moved), (2, vec![1], vec![("a", Some(3)), ("b", Some(4))]));
        let moved = chains.lead(vec![pod("a", None), pod("b", Some(&three))]);
        assert_eq!(summarize(&moved), (0, vec![3], vec![("a", None)]));
        let moved = chains.lead(vec![pod("b", None), pod("c", None)]);
        assert_eq!(summarize(&moved), (0, vec![4], vec![("b", None), ("c", None)]));
        assert!(chains.by_key.is_empty() && chains.pods.is_empty());
    }
}
