//! Per-client limits on a shared resource, so that one client cannot take all of it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// A client gets at most one part in this many of a resource, so that at least this many clients are needed to exhaust
/// it.
const GREEDY: usize = 4;

/// Returns one client's share of `all`, at least 1.
pub fn share_of(all: usize) -> usize {
    (all / GREEDY).max(1)
}

/// Counts each client's use of a resource against its share.
#[derive(Debug)]
pub struct ClientLimiter {
    each: usize,
    in_use: Mutex<HashMap<IpAddr, usize>>,
}

impl ClientLimiter {
    /// Creates a limiter for a resource with `all` units, none of them taken.
    pub fn new(all: usize) -> Arc<Self> {
        Arc::new(Self { each: share_of(all), in_use: Mutex::default() })
    }

    /// Takes one unit for a client until the guard is dropped; `None` if the client's share is used up.
    pub fn take(self: &Arc<Self>, client: IpAddr) -> Option<ClientPermit> {
        let mut all = self.in_use.lock();
        let taken = all.entry(client).or_default();
        if *taken >= self.each {
            return None;
        }
        *taken += 1;
        drop(all);
        Some(ClientPermit { of: self.clone(), client })
    }
}

/// One unit of a client's share, returned on drop.
#[derive(Debug)]
pub struct ClientPermit {
    of: Arc<ClientLimiter>,
    client: IpAddr,
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut all = self.of.in_use.lock();
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
        let shares = ClientLimiter::new(8);
        let [one, other] = ["10.244.0.2", "10.244.0.3"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let first = shares.take(one).unwrap();
        let _second = shares.take(one).unwrap();
        assert!(shares.take(one).is_none());
        assert!(shares.take(other).is_some(), "another's is another's");
        drop(first);
        assert!(shares.take(one).is_some());
        assert_eq!(shares.in_use.lock().len(), 1, "a client without a share is forgotten");
    }
}
