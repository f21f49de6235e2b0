//! Determines which ports the pods' programs may not bind on this machine, by a test at the start.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};

use object::low_ports::LowPorts;

/// Linux' default for the first port that every user may bind.
const USUAL_START: u16 = 1024;
/// The Linux setting with the first port that every user may bind.
const SETTING: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// The ports that programs of this user may not bind; `forced` overrides the test.
pub(super) fn probe(forced: Option<u16>, ip: Ipv4Addr) -> LowPorts {
    LowPorts::below(forced.unwrap_or_else(|| {
        let setting = std::fs::read_to_string(SETTING).ok().and_then(|text| text.trim().parse().ok());
        first_port(setting, |port| match TcpListener::bind((ip, port)) {
            Ok(_) => true,
            // Any other error, such as a port in use, comes after the permission check.
            Err(error) => error.kind() != ErrorKind::PermissionDenied,
        })
    }))
}

/// The first port that may be bound: the machine's setting, unless this user's privileges override it.
fn first_port(setting: Option<u16>, may_bind: impl Fn(u16) -> bool) -> u16 {
    if may_bind(1) {
        return 0;
    }
    setting.filter(|start| may_bind(*start)).unwrap_or(USUAL_START)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_port_is_found_by_trying_net_1() {
        // (the setting, the first port that can really be bound, the detected port)
        for (setting, truth, found) in [
            (Some(1024), 1, 0),
            (Some(0), 1, 0),
            (None, 1, 0),
            (Some(1024), 1024, 1024),
            (Some(80), 80, 80),
            (Some(80), 1024, 1024),
            (None, 1024, 1024),
        ] {
            assert_eq!(first_port(setting, |port| port >= truth), found, "{setting:?} {truth}");
        }
        assert_eq!(probe(Some(81), Ipv4Addr::LOCALHOST), LowPorts::below(81));
    }
}
