//! Shares of what all clients use together: none of them gets all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// So many clients must be greedy before there is nothing left for others.
const GREEDY: usize = 4;

/// The share of one client in so many.
pub(crate) fn share_of(all: usize) -> usize {
    (all / GREEDY).max(1)
}

/// What each client has of something.
#[derive(Debug)]
pub(crate) struct Shares {
    each: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

impl Shares {
    /// Nobody has any of so many.
    pub(crate) fn new(all: usize) -> Arc<Self> {
        Arc::new(Self { each: share_of(all), taken: Mutex::default() })
    }

    /// One more for a client, until it is dropped; none when its share is used up.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Option<Taken> {
        let mut all = self.taken.lock();
        let taken = all.entry(client).or_default();
        if *taken >= self.each {
            return None;
        }
        *taken += 1;
        drop(all);
        Some(Taken { of: self.clone(), client })
    }
}

/// One of a client's share.
#[derive(Debug)]
pub(crate) struct Taken {
    of: Arc<Shares>,
    client: IpAddr,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut all = self.of.taken.lock();
        if let Some(taken) = all.get_mut(&self.client) {
            *taken -= 1;
            if *taken == 0 {
                all.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_share_and_no_more_net_7() {
        let shares = Shares::new(8);
        let [one, other] = ["10.244.0.2", "10.244.0.3"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let first = shares.take(one).unwrap();
        let _second = shares.take(one).unwrap();
        assert!(shares.take(one).is_none());
        assert!(shares.take(other).is_some(), "another's is another's");
        drop(first);
        assert!(shares.take(one).is_some());
        assert_eq!(shares.taken.lock().len(), 1, "who has nothing is forgotten");
    }
}
