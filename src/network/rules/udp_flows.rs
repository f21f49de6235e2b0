//! Removes conntrack entries of UDP flows whose endpoint no longer serves, by kube-proxy's rule (`CleanStaleEntries`).
//!
//! The kernel keeps sending a flow to its first endpoint for as long as datagrams come. If the endpoint is removed, the
//! entry must be deleted so that the next datagram goes to another endpoint; the same holds for flows that began while
//! the service had no endpoints.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use fabric::FabricError;
use fabric::conntrack::{Conntrack, Flow};
use fabric::nft::Family;

use object::Key;

/// A service's UDP addresses with the endpoints that may get datagrams: ready ones, and those that still serve while
/// they terminate.
pub(crate) type UdpEndpoints = BTreeMap<SocketAddr, BTreeSet<SocketAddr>>;

/// UDP endpoints of all services, and the changes since stale flows were last removed.
#[derive(Debug, Default)]
pub(crate) struct UdpFlows {
    services: HashMap<Key, UdpEndpoints>,
    changed: UdpEndpoints,
}

impl UdpFlows {
    /// Replaces a service's UDP endpoints.
    pub(crate) fn change(&mut self, key: Key, now: UdpEndpoints) {
        let before = if now.is_empty() {
            self.services.remove(&key).unwrap_or_default()
        } else {
            self.services.insert(key, now.clone()).unwrap_or_default()
        };
        for place in before.keys().filter(|place| !now.contains_key(place)) {
            self.changed.insert(*place, BTreeSet::new());
        }
        let changed = now.into_iter().filter(|(place, endpoints)| before.get(place) != Some(endpoints));
        self.changed.extend(changed);
    }

    /// Returns whether a flow goes to an endpoint that no longer serves.
    fn is_stale(&self, flow: &Flow) -> bool {
        self.changed.get(&flow.destination).is_some_and(|endpoints| !endpoints.contains(&flow.endpoint))
    }

    /// Deletes stale flows in the kernel. If that fails, the next change tries again.
    pub(crate) fn forget_stale(
        &mut self,
        conntrack: &Conntrack,
        families: &[Family],
    ) -> Result<(), FabricError> {
        for family in families {
            if self.changed.keys().any(|place| Family::of(place.ip()) == *family) {
                conntrack.forget_udp(*family, |flow| self.is_stale(flow))?;
            }
        }
        self.changed.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(endpoints: &[&str]) -> UdpEndpoints {
        let endpoints = endpoints.iter().map(|address| address.parse().unwrap()).collect();
        [("10.96.0.10:53".parse().unwrap(), endpoints)].into()
    }

    #[test]
    fn flows_to_those_who_are_gone_are_stale_net_6() {
        let (one, two) = ("10.244.1.1:53", "10.244.1.2:53");
        let service = "10.96.0.10:53";
        let empty = UdpEndpoints::new();
        // Before, now, and which of these destinations makes a flow stale: the first endpoint, the second, the service
        // itself.
        for (before, now, expected) in [
            (served(&[one, two]), served(&[two]), [true, false, true]),
            (served(&[one]), served(&[one, two]), [false, false, true]),
            (served(&[one]), served(&[one]), [false, false, false]),
            (served(&[]), served(&[one]), [false, true, true]),
            (served(&[one]), served(&[]), [true, true, true]),
            (served(&[one]), empty.clone(), [true, true, true]),
            (empty.clone(), empty, [false, false, false]),
        ] {
            let mut flows = UdpFlows::default();
            let key = || Key::new("kube-system", "dns");
            flows.change(key(), before.clone());
            flows.changed.clear();
            flows.change(key(), now.clone());
            let stale = [one, two, service].map(|endpoint| {
                let client = "10.244.1.9:999".parse().unwrap();
                let other = "10.96.0.11:53".parse().unwrap();
                let endpoint = endpoint.parse().unwrap();
                assert!(!flows.is_stale(&Flow { client, destination: other, endpoint }), "another's");
                flows.is_stale(&Flow { client, destination: service.parse().unwrap(), endpoint })
            });
            assert_eq!(stale, expected, "{before:?} → {now:?}");
        }
    }
}
