//! The listening sockets of this machine's programs, read from /proc, which does not disturb them as connecting would.

use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::table::Protocol;
use base::optional_file::read_optional;

/// The states of a listening TCP socket, and of an unconnected UDP socket.
const LISTENING: [&str; 2] = ["0A", "07"];

/// A snapshot of all listening sockets, read on first use.
#[derive(Default)]
pub(super) struct Sockets {
    tcp: OnceCell<Vec<SocketAddr>>,
    udp: OnceCell<Vec<SocketAddr>>,
}

impl Sockets {
    /// Returns whether a program listens at this address, or at all addresses with this port.
    pub(super) fn serve(&self, protocol: Protocol, address: SocketAddr) -> bool {
        self.all(protocol).contains(&address) || self.serve_everywhere(protocol, address.port())
    }

    /// Returns whether a program listens at all addresses with this port.
    pub(super) fn serve_everywhere(&self, protocol: Protocol, port: u16) -> bool {
        self.all(protocol).iter().any(|socket| socket.port() == port && socket.ip().is_unspecified())
    }

    fn all(&self, protocol: Protocol) -> &[SocketAddr] {
        match protocol {
            Protocol::Tcp => self.tcp.get_or_init(|| read(["/proc/self/net/tcp", "/proc/self/net/tcp6"])),
            Protocol::Udp => self.udp.get_or_init(|| read(["/proc/self/net/udp", "/proc/self/net/udp6"])),
        }
    }
}

fn read(paths: [&str; 2]) -> Vec<SocketAddr> {
    paths.iter().flat_map(|path| parse(&read_optional(path))).collect()
}

/// Parses the listening sockets of a table in /proc/net.
fn parse(table: &str) -> Vec<SocketAddr> {
    let socket = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, state) = (fields.next()?, fields.nth(1)?);
        let (ip, port) = local.split_once(':')?;
        LISTENING.contains(&state).then_some(())?;
        Some(SocketAddr::new(address(ip)?, u16::from_str_radix(port, 16).ok()?))
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// Parses an address as the kernel prints it: words of four bytes in the machine's byte order.
fn address(hex: &str) -> Option<IpAddr> {
    let word = |n: usize| u32::from_str_radix(hex.get(8 * n..8 * n + 8)?, 16).ok().map(u32::to_ne_bytes);
    if hex.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?).into());
    }
    let words = [word(0)?, word(1)?, word(2)?, word(3)?];
    let bytes: [u8; 16] = words.as_flattened().try_into().ok()?;
    Some(Ipv6Addr::from(bytes).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_count_net_2() {
        let table = "  sl  local_address rem_address   st\n   \
                     0: 0100007F:1F90 00000000:0000 0A 0\n   \
                     1: 0700407F:0050 0100007F:9C40 01 0\n   \
                     2: 00000000:0035 00000000:0000 07 0\n   \
                     3: 0000000000000000FFFF00000100007F:0051 00000000000000000000000000000000:0000 0A 0\n";
        let addresses: Vec<String> = parse(table).iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["127.0.0.1:8080", "0.0.0.0:53", "127.0.0.1:81"]);
    }

    #[test]
    fn a_program_is_found_where_it_listens_net_2() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        let (tcp, udp) = (listener.local_addr().unwrap(), socket.local_addr().unwrap());
        let other = SocketAddr::new([127, 0, 0, 2].into(), tcp.port());
        let sockets = Sockets::default();
        assert!(sockets.serve(Protocol::Tcp, tcp) && !sockets.serve(Protocol::Tcp, other));
        assert!(sockets.serve(Protocol::Udp, SocketAddr::new([127, 9, 9, 9].into(), udp.port())));
    }
}
