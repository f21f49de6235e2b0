//! Root's capabilities that a container's processes may have: containerd's defaults, with those that the container adds
//! and drops (POD-16).
//!
//! Only the bounding set is narrowed: a program that root executes gets what is in it, and a program that another user
//! executes gets only what was given to it explicitly (`os::become_user_of_low_ports`). So the host's own capabilities
//! apply to everything that is done before the program starts.

use std::io;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::Security;

/// The capabilities that containerd gives to a container without settings.
const DEFAULT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::AUDIT_WRITE);

/// The upper bound of a container's capabilities. As in containerd: `ALL` applies first, then the names added, then the
/// names dropped. An error names an unknown capability.
pub(super) fn of(security: &Security) -> io::Result<CapabilitySet> {
    if security.privileged {
        return Ok(CapabilitySet::all());
    }
    let (every_added, added) = read(&security.add_capabilities)?;
    let (every_dropped, dropped) = read(&security.drop_capabilities)?;
    let basis = match (every_added, every_dropped) {
        (_, true) => CapabilitySet::empty(),
        (true, false) => CapabilitySet::all(),
        (false, false) => DEFAULT,
    };
    Ok(basis.union(added).difference(dropped))
}

/// Returns true if `ALL` is among the names, and the set of the other names.
fn read(names: &[String]) -> io::Result<(bool, CapabilitySet)> {
    let (mut every, mut set) = (false, CapabilitySet::empty());
    for name in names {
        let name = name.to_ascii_uppercase();
        let name = name.strip_prefix("CAP_").unwrap_or(&name);
        match CapabilitySet::from_name(name) {
            Some(capability) => set |= capability,
            None if name == "ALL" => every = true,
            None => return Err(io::Error::other(format!("unknown capability {name}"))),
        }
    }
    Ok((every, set))
}

/// Bounds the programs that this process executes to a container's default capabilities: none of them is a right over
/// the network or over mounts.
pub fn bound_as_containers() -> io::Result<()> {
    bound(DEFAULT)
}

/// Bounds the programs that this process executes to these capabilities.
pub(super) fn bound(keep: CapabilitySet) -> io::Result<()> {
    // By number: this machine's kernel may have more capabilities than have names here.
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if keep.contains(capability) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // A process without permission to drop capabilities has none that a program could get.
            Ok(()) | Err(Errno::PERM) => {}
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    // Inheritable and ambient capabilities would outlive the bounding set. Both sets are empty unless our parent gave
    // us rights.
    let _ = rustix::thread::clear_ambient_capability_set();
    if let Ok(own) = rustix::thread::capabilities(None) {
        let _ = rustix::thread::set_capabilities(
            None,
            CapabilitySets { inheritable: CapabilitySet::empty(), ..own },
        );
    }
    Ok(())
}

/// Drops all capabilities of this process but these; the bounding set stays.
pub(super) fn limit(keep: CapabilitySet) -> io::Result<()> {
    let own = rustix::thread::capabilities(None)?;
    let (permitted, inheritable) = (own.permitted & keep, own.inheritable & keep);
    Ok(rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: own.effective & keep, permitted, inheritable },
    )?)
}

/// Drops all capabilities of this process for good, so that no program gets one back.
pub(super) fn drop_all() -> io::Result<()> {
    bound(CapabilitySet::empty())?;
    limit(CapabilitySet::empty())?;
    // Otherwise a program that root executes would get what the bounding set still has, if it could not be emptied.
    Ok(rustix::thread::set_no_new_privs(true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The conformance test "should run the container as unprivileged when false" expects this (POD-16).
    #[test]
    fn a_container_has_containerds_capabilities_and_what_it_adds_without_what_it_drops() {
        let text = |add: &[&str], drop: &[&str], privileged: bool| {
            let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            let (add_capabilities, drop_capabilities) = (names(add), names(drop));
            let security =
                Security { privileged, add_capabilities, drop_capabilities, ..Security::default() };
            of(&security).map(|set| format!("{:x}", set.bits())).map_err(|error| error.to_string())
        };
        let of = |add: &[&str], drop: &[&str]| text(add, drop, false).unwrap();
        // As /proc/self/status shows it in a container of containerd.
        assert_eq!(of(&[], &[]), "a80425fb");
        assert_eq!(of(&["NET_ADMIN"], &[]), "a80435fb");
        assert_eq!(of(&["cap_net_admin"], &["CHOWN"]), "a80435fa");
        assert_eq!(of(&[], &["ALL"]), "0");
        assert_eq!(of(&["NET_BIND_SERVICE"], &["ALL"]), "400");
        assert_eq!(of(&["ALL"], &["ALL"]), "0");
        assert_eq!(of(&["NET_ADMIN"], &["NET_ADMIN"]), "a80425fb");
        assert_eq!(of(&["ALL"], &["KILL"]), format!("{:x}", !0x20_u64));
        assert_eq!(text(&[], &["ALL"], true).unwrap(), format!("{:x}", u64::MAX));
        assert_eq!(text(&["FLY"], &[], false).unwrap_err(), "unknown capability FLY");
    }
}
