//! Flows of datagrams that go to somebody whom a service has no more: kube-proxy's rule (`CleanStaleEntries`).
//!
//! The kernel sends a flow where its first datagram went, for as long as datagrams come. One whose endpoint is gone is
//! forgotten, so that the next datagram is dealt out anew; one that began while nobody served, too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use fabric::FabricError;
use fabric::conntrack::{Conntrack, Flow};
use fabric::nft::Family;

use object::Key;

/// Where a service takes datagrams, each with those who may get them: ready ones, and those that serve while they end.
pub(crate) type Served = BTreeMap<SocketAddr, BTreeSet<SocketAddr>>;

/// Who takes datagrams, and what of it has changed since flows were last looked at.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    services: HashMap<Key, Served>,
    changed: Served,
}

impl Flows {
    /// A service takes datagrams like this from now on.
    pub(crate) fn change(&mut self, key: Key, now: Served) {
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

    /// Whether a flow goes to somebody who is not there any more.
    fn is_stale(&self, flow: &Flow) -> bool {
        self.changed.get(&flow.destination).is_some_and(|endpoints| !endpoints.contains(&flow.endpoint))
    }

    /// Has the kernel forget what is stale. What it refuses is tried again with the next change.
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

    fn served(endpoints: &[&str]) -> Served {
        let endpoints = endpoints.iter().map(|address| address.parse().unwrap()).collect();
        [("10.96.0.10:53".parse().unwrap(), endpoints)].into()
    }

    #[test]
    fn flows_to_those_who_are_gone_are_stale_net_6() {
        let (one, two) = ("10.244.1.1:53", "10.244.1.2:53");
        let service = "10.96.0.10:53";
        let gone = Served::new();
        // Before, now, and who of a flow's endpoints is stale: the first, the second, and the service itself.
        for (before, now, expected) in [
            (served(&[one, two]), served(&[two]), [true, false, true]),
            (served(&[one]), served(&[one, two]), [false, false, true]),
            (served(&[one]), served(&[one]), [false, false, false]),
            (served(&[]), served(&[one]), [false, true, true]),
            (served(&[one]), served(&[]), [true, true, true]),
            (served(&[one]), gone.clone(), [true, true, true]),
            (gone.clone(), gone, [false, false, false]),
        ] {
            let mut flows = Flows::default();
            let key = || Key::new("kube-system", "dns");
            flows.change(key(), before.clone());
            flows.changed.clear();
            flows.change(key(), now.clone());
            let stale = [one, two, service].map(|endpoint| {
                let client = "10.244.1.9:999".parse().unwrap();
                let elsewhere = "10.96.0.11:53".parse().unwrap();
                let endpoint = endpoint.parse().unwrap();
                assert!(!flows.is_stale(&Flow { client, destination: elsewhere, endpoint }), "another's");
                flows.is_stale(&Flow { client, destination: service.parse().unwrap(), endpoint })
            });
            assert_eq!(stale, expected, "{before:?} → {now:?}");
        }
    }
}
