//! Names of kernel settings, as in `securityContext.sysctls`, and the namespaces they belong to.

use std::borrow::Cow;

/// The longest name.
pub const MAX_LENGTH: usize = 253;

/// A namespace with settings of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Shared memory, semaphores and message queues.
    Ipc,
    /// The network.
    Net,
}

/// Returns a name with dots between its parts. A name whose parts are separated by slashes may have dots inside the
/// parts; it is one if its first separator is a slash.
pub fn dotted(name: &str) -> Cow<'_, str> {
    if name.find(['.', '/']).is_none_or(|at| name[at..].starts_with('.')) {
        return name.into();
    }
    let swap = |sign| match sign {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(swap).collect::<String>().into()
}

/// Returns the namespace of the setting with this dotted name; `None` if it belongs to the machine.
pub fn namespace(dotted: &str) -> Option<Namespace> {
    let ipc = dotted == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| dotted.starts_with(prefix));
    if ipc { Some(Namespace::Ipc) } else { dotted.starts_with("net.").then_some(Namespace::Net) }
}

/// Returns true if this is a valid name: parts of lower-case letters, digits and, inside, `-` and `_`.
pub fn is_name(name: &str) -> bool {
    let of_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(of_end)
            && bytes.last().is_some_and(of_end)
            && bytes.iter().all(|byte| of_end(byte) || matches!(byte, b'-' | b'_'))
    };
    name.len() <= MAX_LENGTH && name.split(['.', '/']).all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_notations_are_one_pod_16() {
        for (name, expect) in [
            ("kernel.shm_rmid_forced", "kernel.shm_rmid_forced"),
            ("net/ipv4/tcp_syncookies", "net.ipv4.tcp_syncookies"),
            ("net.ipv4.conf.eno2/100.rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
            ("net/ipv4/conf/eno2.100/rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
            ("one", "one"),
            ("", ""),
        ] {
            assert_eq!(dotted(name), expect);
        }
    }

    #[test]
    fn each_setting_is_in_a_namespace_or_the_machines_pod_16() {
        for (name, expect) in [
            ("kernel.shmmax", Some(Namespace::Ipc)),
            ("kernel.sem", Some(Namespace::Ipc)),
            ("fs.mqueue.msg_max", Some(Namespace::Ipc)),
            ("net.core.somaxconn", Some(Namespace::Net)),
            ("kernel.semaphore", None),
            ("vm.swappiness", None),
            ("network", None),
        ] {
            assert_eq!(namespace(name), expect, "{name}");
        }
    }

    #[test]
    fn a_name_is_parts_of_small_letters_pod_16() {
        for name in ["a", "a.b", "a/b.c", "net.ipv4.tcp_rmem", "a-b.c_d", "1"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".a", "a.", "a..b", "A.b", "a.-b", "a_.b", "a b", "ä", "../../etc", &"a".repeat(254)]
        {
            assert!(!is_name(name), "{name}");
        }
    }
}
