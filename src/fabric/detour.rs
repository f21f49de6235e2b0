//! Detours: a link by which packets leave the fabric and later come back.
//!
//! A packet with a detour's mark goes to a namespace of its own that has no addresses; a socket there receives it with
//! all offloads still pending (segments, checksums), and the socket's owner sends it back when it is due
//! ([`crate::DelayBox`]). The namespace exists for as long as the socket: if its owner dies, the kernel deletes the
//! link and the route through it, and packets take their ordinary path.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::leaf::LEAF_LINK;
use crate::namespaces::{in_network, own_network};
use crate::netlink::route::{Requests, index_of};
use crate::sockets::enable;
use crate::{FabricError, LeafSpec, RouterHandle, sysctl};

/// The maximum number of detours.
pub const DETOURS: u8 = 8;
/// The slot of one further detour, for the first packets of egress connections: each is held until Podium knows
/// whether the destination accepts the connection, and then sent back.
pub const SYN_DETOUR_SLOT: u8 = DETOURS;
/// The prefix of the name of a detour's link in the fabric; the slot follows.
pub const DETOUR_LINK: &str = "detoured";
/// The mark of packets that take a detour, combined with the slot.
pub const DETOUR_MARK: u32 = 0x100;

/// The size of the header before each packet on a detour's socket, in bytes (`virtio_net_hdr`).
pub const ABOUT: usize = 10;
/// The number of the first detour's routing table.
const TABLE: u8 = 110;
/// The MTU of a detour's link, larger than any pod's: no packet must be fragmented on the way.
const MTU: u32 = 65_535;
/// The sysctl that makes the kernel look up a packet's socket before it routes the packet, for both families.
const EARLY_DEMUX: &str = "ipv4/ip_early_demux";
/// The size of a detour socket's buffers, in bytes.
const WAITING: usize = 4 << 20;

fn families() -> impl Iterator<Item = IpAddr> {
    let all: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    all.into_iter().filter(|of| of.is_ipv4() || sysctl::has_ipv6())
}

fn mark(slot: u8) -> u32 {
    DETOUR_MARK | u32::from(slot)
}

fn table(slot: u8) -> u8 {
    TABLE + slot
}

fn checked(slot: u8) -> Result<(), FabricError> {
    if slot <= SYN_DETOUR_SLOT {
        Ok(())
    } else {
        Err(FabricError::new("detour", io::ErrorKind::InvalidInput.into()))
    }
}

impl RouterHandle {
    /// Creates a detour, replacing the remains of one in this slot, and returns its socket. This thread must be in the
    /// fabric's network; it enters the detour's namespace and comes back.
    pub(crate) fn detour(&self, slot: u8) -> Result<OwnedFd, FabricError> {
        checked(slot)?;
        let link = format!("{DETOUR_LINK}{slot}");
        let spec = LeafSpec::new(&link, Vec::new(), MTU);
        let namespace = self.leaf(&spec)?;
        // Returning packets have the addresses of others, including the fabric's own.
        sysctl::set(&format!("ipv4/conf/{link}/rp_filter"), "0")?;
        sysctl::set(&format!("ipv4/conf/{link}/accept_local"), "1")?;
        if slot != SYN_DETOUR_SLOT {
            // With early demux, a packet for an egress socket would be dropped here: a packet with a socket cannot be
            // forwarded.
            sysctl::set(EARLY_DEMUX, "0")?;
        }
        let home = own_network()?;
        let socket = in_network(namespace.as_fd(), home.as_fd(), packet_socket)?;
        let socket = socket.map_err(FabricError::at("packet socket"))?;
        let index = index_of(&self.route, &link)?;
        Requests::default().disable_arp(index).send(&self.route)?;
        for of in families() {
            let mut routes = Requests::default().everything_leaves(table(slot), index, of);
            if slot == SYN_DETOUR_SLOT {
                // While the socket has no owner, packets are dropped silently: a connecting client retransmits its SYN,
                // which reaches the next owner.
                routes = routes.add_blackhole_route(table(slot), of);
            }
            routes.send(&self.route)?;
            match Requests::default().add_mark_rule(mark(slot), table(slot), of).send(&self.route) {
                Err(error) if error.source.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(socket)
    }

    /// Stops routing packets by a detour, and removes its link, if there is one.
    pub(crate) fn remove_detour(&self, slot: u8) -> Result<(), FabricError> {
        checked(slot)?;
        for of in families() {
            while Requests::default().remove_mark_rule(mark(slot), table(slot), of).send(&self.route).is_ok()
            {
            }
        }
        // The link may not exist: it is deleted when the socket is closed.
        let _ = Requests::default().remove_link(&format!("{DETOUR_LINK}{slot}")).send(&self.route);
        let is_left = |slot| index_of(&self.route, &format!("{DETOUR_LINK}{slot}")).is_ok();
        if (0..DETOURS).any(is_left) { Ok(()) } else { sysctl::set(EARLY_DEMUX, "1") }
    }
}

/// Opens a socket that receives the incoming packets of the link in this thread's namespace, but not those that it
/// sends itself.
#[expect(unsafe_code, reason = "the addresses of packet sockets have no safe wrapper")]
fn packet_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // No protocol yet: it receives nothing before it is bound.
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let index = rustix::net::netdevice::name_to_index(&socket, LEAF_LINK)?;
    enable(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR)?;
    enable(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING)?;
    sockopt::set_socket_recv_buffer_size(&socket, WAITING)?;
    sockopt::set_socket_send_buffer_size(&socket, WAITING)?;
    // SAFETY: all of it may be zero.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index.cast_signed();
    // SAFETY: an address of the given size that lives for the call.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if bound == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}
