//! Finds the addresses on which a pod's processes listen, by /proc: pods share the machine's network, so an address
//! alone does not identify a listener's owner.

use crate::process_tree;
use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Host;
use super::pod::Pod;
use crate::{PodUid, RuntimeError};
use base::dial::Transport;
use base::optional_file::read_optional;
use base::sort::SliceOrder;

/// A socket that accepts traffic from any sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listener {
    address: SocketAddr,
    inode: u64,
}

impl Host {
    /// Returns the addresses on which processes of the pod listen on a port: the pod's own address first, then
    /// localhost, then the others.
    pub(super) fn listeners(&self, uid: &PodUid, port: u16) -> Result<Vec<SocketAddr>, RuntimeError> {
        let pod = self.pod(uid).filter(|pod| pod.ready.get());
        let pod = pod.ok_or_else(|| RuntimeError::NotFound(format!("sandbox {uid}")))?;
        let found: Vec<Listener> = ["/proc/self/net/tcp", "/proc/self/net/tcp6"]
            .iter()
            .flat_map(|path| listening(&read_optional(path), Transport::Tcp))
            .filter(|listener| listener.address.port() == port)
            .filter(|listener| listener.address.ip().is_loopback() || listener.address.ip().is_unspecified())
            .collect();
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let sockets = sockets_of(&running(&pod));
        let own = pod.spec.ip;
        let held = |listener: &&Listener| sockets.contains(&listener.inode);
        let mut addresses: Vec<SocketAddr> = found.iter().filter(held).map(|held| held.address).collect();
        if addresses.is_empty() {
            // A process that hides its files from us may still listen at the address of this pod alone.
            addresses.extend(found.iter().map(|listener| listener.address).filter(|a| a.ip() == own));
        }
        let rank = |address: &SocketAddr| match address.ip() {
            ip if ip == own => 0,
            ip if ip.is_loopback() => 1,
            _ => 2,
        };
        addresses.order_by_key(|address| (rank(address), *address));
        addresses.dedup();
        // A listener on every address is reached at the pod's address.
        let reach = |address: SocketAddr| match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(own, port),
            IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port),
            _ => address,
        };
        Ok(addresses.into_iter().map(reach).collect())
    }
}

impl Host {
    /// Every address and port at which processes of the pod listen, as they bound it, 64 at most.
    pub(super) fn every_listener(
        &self,
        uid: &PodUid,
        transport: Transport,
    ) -> Result<Vec<SocketAddr>, RuntimeError> {
        const MAX_LISTENERS: usize = 64;
        let has_own_network = self.with_leaf(Some(uid), |leaf| leaf.is_some())?;
        let pod = self.pod(uid).ok_or_else(|| RuntimeError::NotFound(format!("sandbox {uid}")))?;
        let roots = running(&pod);
        let tables = |of: &str| {
            let kinds = match transport {
                Transport::Tcp => ["tcp", "tcp6"],
                Transport::Udp => ["udp", "udp6"],
            };
            let tables = kinds.map(|kind| read_optional(format!("/proc/{of}/net/{kind}")));
            let sockets = tables.into_iter().flat_map(|table| listening(&table, transport));
            sockets.collect::<Vec<_>>()
        };
        let found = if has_own_network {
            // Every socket in the pod's network is the pod's. A container's first process may be a subreaper of the
            // host, which is in the host's network.
            let network = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
            let own = network("self");
            roots
                .iter()
                .filter(|pid| network(&pid.to_string()) != own)
                .map(|pid| tables(&pid.to_string()))
                .find(|found| !found.is_empty())
                .unwrap_or_default()
        } else {
            let sockets = sockets_of(&roots);
            let mut found = tables("self");
            found.retain(|one| sockets.contains(&one.inode) || one.address.ip() == pod.spec.ip);
            found
        };
        let mut addresses: Vec<SocketAddr> = found.iter().map(|found| found.address).collect();
        addresses.order();
        addresses.dedup();
        addresses.truncate(MAX_LISTENERS);
        Ok(addresses)
    }
}

/// The first processes of a pod's running containers.
fn running(pod: &Pod) -> Vec<i32> {
    let containers = pod.containers.borrow();
    containers.iter().filter(|c| c.is_running()).flat_map(|c| c.roots()).collect()
}

/// The inodes of the sockets of these processes and their descendants.
fn sockets_of(roots: &[i32]) -> HashSet<u64> {
    let members = process_tree::below(roots).into_iter().chain(roots.iter().copied());
    members.flat_map(sockets).collect()
}

/// The inodes of a process' open sockets.
fn sockets(pid: i32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

/// The sockets in one of the kernel's tables that accept traffic from any sender.
fn listening(table: &str, transport: Transport) -> Vec<Listener> {
    let open = match transport {
        // The state LISTEN for TCP, and the state "not connected" for datagrams.
        Transport::Tcp => "0A",
        Transport::Udp => "07",
    };
    let listener = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (address, own_port) = fields.get(1)?.split_once(':')?;
        let port = u16::from_str_radix(own_port, 16).ok()?;
        if *fields.get(3)? != open {
            return None;
        }
        Some(Listener { address: SocketAddr::new(ip(address)?, port), inode: fields.get(9)?.parse().ok()? })
    };
    table.lines().skip(1).filter_map(listener).collect()
}

/// An address as the kernel writes it: words of 32 bits in the machine's order.
fn ip(text: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let word = u32::from_str_radix(text.get(index * 8..index * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (index, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(index)?);
            }
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_is_read() {
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let line = |address: &str, state: &str, inode: u64| {
            format!(
                "   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0000 100 0 0 10 0\n"
            )
        };
        let v6 = |last: [u8; 4]| format!("{}{}{}{}", word([0; 4]), word([0; 4]), word([0; 4]), word(last));
        let mapped =
            format!("{}{}{}{}", word([0; 4]), word([0; 4]), word([0, 0, 255, 255]), word([127, 1, 2, 3]));
        let table = [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n".to_string(),
            line(&format!("{}:0050", word([127, 1, 0, 5])), "0A", 11),
            line(&format!("{}:0050", word([0, 0, 0, 0])), "0A", 12),
            line(&format!("{}:0050", word([127, 1, 0, 6])), "01", 13),
            line(&format!("{}:0051", word([127, 1, 0, 5])), "0A", 14),
            line(&format!("{}:0050", v6([0, 0, 0, 1])), "0A", 15),
            line(&format!("{mapped}:0050"), "0A", 16),
            "nonsense\n".into(),
            line("zz:0050", "0A", 17),
            line(&format!("{}:0035", word([127, 1, 0, 5])), "07", 18),
        ]
        .concat();
        let expected = [
            ("127.1.0.5:80", 11),
            ("0.0.0.0:80", 12),
            ("127.1.0.5:81", 14),
            ("[::1]:80", 15),
            ("127.1.2.3:80", 16),
        ];
        let expected = expected.map(|(address, inode)| Listener { address: address.parse().unwrap(), inode });
        assert_eq!(listening(&table, Transport::Tcp), expected);
        let taken = Listener { address: "127.1.0.5:53".parse().unwrap(), inode: 18 };
        assert_eq!(listening(&table, Transport::Udp), [taken]);
    }
}
