//! Chooses the endpoint for the next connection: round robin, the client's previous one, or another after a failure.
//!
//! Pure except for its state; the time is an argument.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::table::{Backend, Balance};

/// Maximum number of clients remembered for one bind address; beyond it, the least recently seen are forgotten.
const CLIENTS: usize = 8192;

/// Chooses among the endpoints of one bind address.
#[derive(Debug)]
pub struct Balancer {
    balance: Balance,
    cursor: usize,
    clients: HashMap<IpAddr, Client>,
}

/// A client with session affinity.
#[derive(Clone, Copy, Debug)]
struct Client {
    backend: SocketAddr,
    last_seen: Duration,
}

impl Balancer {
    /// Starts with these endpoints and no clients.
    pub fn new(balance: Balance) -> Self {
        Self { balance, cursor: 0, clients: HashMap::new() }
    }

    /// Replaces the endpoints; clients with affinity keep those that still exist.
    pub fn replace(&mut self, balance: Balance) {
        self.balance = balance;
        if self.balance.affinity.is_none() {
            self.clients.clear();
        }
    }

    /// Returns whether the choice depends on the client's node.
    pub fn is_topology_aware(&self) -> bool {
        self.balance.of_clients_node
    }

    /// Picks an endpoint for a client on this node, except for those in `tried`; `None` if there is no other.
    pub fn pick(
        &mut self,
        client: IpAddr,
        node: Option<&str>,
        tried: &[SocketAddr],
        now: Duration,
    ) -> Option<SocketAddr> {
        let usable: Vec<SocketAddr> = self.usable(node).filter(|b| !tried.contains(b)).collect();
        if let Some(timeout) = self.balance.affinity
            && let Some(known) = self.clients.get_mut(&client)
            && now.saturating_sub(known.last_seen) < timeout
            && usable.contains(&known.backend)
        {
            known.last_seen = now;
            return Some(known.backend);
        }
        let picked = *usable.get(self.cursor.checked_rem(usable.len())?)?;
        self.cursor = self.cursor.wrapping_add(1);
        if let Some(timeout) = self.balance.affinity {
            self.evict(now, timeout);
            self.clients.insert(client, Client { backend: picked, last_seen: now });
        }
        Some(picked)
    }

    /// Returns whether a client's flow may stay at an endpoint.
    pub fn is_usable(&self, backend: SocketAddr, node: Option<&str>) -> bool {
        self.usable(node).any(|usable| usable == backend)
    }

    /// Returns the ready endpoints that the client's node may use, or if there are none, those that still serve.
    fn usable<'a>(&'a self, node: Option<&'a str>) -> impl Iterator<Item = SocketAddr> + 'a {
        let node = node.filter(|_| self.balance.of_clients_node);
        let here = move |b: &&Backend| node.is_none() || b.node.as_deref() == node;
        let from = if self.balance.ready.iter().any(|b| here(&b)) {
            &self.balance.ready
        } else {
            &self.balance.draining
        };
        from.iter().filter(here).map(|b| b.address)
    }

    fn evict(&mut self, now: Duration, timeout: Duration) {
        if self.clients.len() < CLIENTS {
            return;
        }
        self.clients.retain(|_, client| now.saturating_sub(client.last_seen) < timeout);
        if self.clients.len() >= CLIENTS {
            let mut seen: Vec<Duration> = self.clients.values().map(|client| client.last_seen).collect();
            let (_, median, _) = seen.select_nth_unstable(CLIENTS / 2);
            let median = *median;
            self.clients.retain(|_, client| client.last_seen > median);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(n: u8) -> Backend {
        Backend { address: address(n), node: Some(format!("n{}", n % 2)) }
    }

    fn address(n: u8) -> SocketAddr {
        SocketAddr::from(([127, 64, 0, n], 80))
    }

    fn balance(ready: &[u8], draining: &[u8]) -> Balance {
        let all = |numbers: &[u8]| numbers.iter().map(|n| backend(*n)).collect();
        Balance { ready: all(ready), draining: all(draining), ..Balance::default() }
    }

    fn client(n: u8) -> IpAddr {
        IpAddr::from([127, 64, 9, n])
    }

    fn picks(balancer: &mut Balancer, count: usize) -> Vec<u8> {
        let pick = |_| match balancer.pick(client(1), None, &[], Duration::ZERO)?.ip() {
            IpAddr::V4(ip) => Some(ip.octets()[3]),
            IpAddr::V6(_) => None,
        };
        (0..count).filter_map(pick).collect()
    }

    #[test]
    fn new_connections_go_round_the_ready_ones_net_2() {
        let mut balancer = Balancer::new(balance(&[1, 2, 3], &[4]));
        assert_eq!(picks(&mut balancer, 6), [1, 2, 3, 1, 2, 3]);
        balancer.replace(balance(&[2], &[1, 3]));
        assert_eq!(picks(&mut balancer, 2), [2, 2], "terminating ones get none");
        balancer.replace(balance(&[], &[1, 3]));
        assert_eq!(picks(&mut balancer, 4).len(), 4, "terminating endpoints serve when none is ready");
        assert!(balancer.is_usable(address(3), None) && !balancer.is_usable(address(2), None));
        balancer.replace(Balance::default());
        assert_eq!(picks(&mut balancer, 1), [0; 0]);
    }

    #[test]
    fn an_endpoint_that_failed_is_not_tried_again_net_2() {
        let mut balancer = Balancer::new(balance(&[1, 2], &[]));
        let mut pick = |tried: &[SocketAddr]| balancer.pick(client(1), None, tried, Duration::ZERO);
        let first = pick(&[]).unwrap();
        let second = pick(&[first]).unwrap();
        assert_ne!(first, second);
        assert_eq!(pick(&[first, second]), None);
    }

    #[test]
    fn a_client_keeps_its_endpoint_until_the_timeout_svc_1() {
        let sticky =
            |ready: &[u8]| Balance { affinity: Some(Duration::from_secs(10)), ..balance(ready, &[]) };
        let mut balancer = Balancer::new(sticky(&[1, 2]));
        let pick = |balancer: &mut Balancer, who: u8, at: u64| {
            balancer.pick(client(who), None, &[], Duration::from_secs(at)).unwrap()
        };
        let (first, other) = (pick(&mut balancer, 1, 0), pick(&mut balancer, 2, 0));
        assert_ne!(first, other);
        assert_eq!(pick(&mut balancer, 1, 9), first);
        assert_eq!(pick(&mut balancer, 1, 18), first, "each connection counts");
        assert_eq!(pick(&mut balancer, 3, 18), first, "the turn goes on");
        assert_eq!(pick(&mut balancer, 1, 28), other, "after the timeout the turn decides");
        let removed = if other == address(1) { 2 } else { 1 };
        balancer.replace(sticky(&[removed]));
        assert_eq!(pick(&mut balancer, 1, 29), address(removed), "its endpoint is gone");
        let retried = balancer.pick(client(1), None, &[address(removed)], Duration::from_secs(29));
        assert_eq!(retried, None);
    }

    #[test]
    fn a_client_gets_its_own_nodes_endpoints_svc_1() {
        let local = Balance { of_clients_node: true, ..balance(&[1, 2, 3], &[4, 6]) };
        let mut balancer = Balancer::new(local);
        let mut pick = |node| balancer.pick(client(1), node, &[], Duration::ZERO);
        assert_eq!(pick(Some("n0")), Some(address(2)));
        assert_eq!(pick(Some("n0")), Some(address(2)));
        assert_eq!(pick(Some("n7")), None);
        assert!(pick(None).is_some(), "a client of no node is everybody's");
    }

    #[test]
    fn the_memory_of_clients_is_bounded_sec_2() {
        let sticky = Balance { affinity: Some(Duration::from_mins(1)), ..balance(&[1, 2], &[]) };
        let mut balancer = Balancer::new(sticky);
        for n in 0..(2 * CLIENTS as u32) {
            let client = IpAddr::from(std::net::Ipv4Addr::from(0x7f00_0000 + n));
            assert!(balancer.pick(client, None, &[], Duration::from_millis(n.into())).is_some());
            assert!(balancer.clients.len() <= CLIENTS);
        }
    }
}
