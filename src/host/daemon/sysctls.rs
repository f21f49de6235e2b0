//! Settings of the kernel in a pod's namespaces: files that apply to the namespaces of the thread that writes them.

use std::fs;
use std::io;
use std::path::PathBuf;

/// A name, with dots, and its value.
type Setting = (String, String);

/// The settings of a network namespace.
pub(super) fn of_network(all: &[Setting]) -> impl Iterator<Item = &Setting> {
    all.iter().filter(|(name, _)| name.starts_with("net."))
}

/// Every group of a pod may ping, as every user may: in a user namespace its groups are these.
const PING_GROUPS: (&str, &str) = ("net.ipv4.ping_group_range", "0 65535");

/// The settings of the network namespace of a pod with a user namespace of its own.
pub(super) fn of_pod_network(all: &[Setting]) -> Vec<Setting> {
    let own = (PING_GROUPS.0.to_owned(), PING_GROUPS.1.to_owned());
    std::iter::once(own).chain(of_network(all).cloned()).collect()
}

/// The settings of shared memory, semaphores and message queues.
pub(super) fn of_ipc(all: &[Setting]) -> impl Iterator<Item = &Setting> {
    all.iter().filter(|(name, _)| !name.starts_with("net."))
}

/// Sets the settings in the namespaces of this thread.
pub(super) fn set<'a>(mut settings: impl Iterator<Item = &'a Setting>) -> io::Result<()> {
    settings.try_for_each(|(name, value)| {
        fs::write(file(name), value).map_err(|error| {
            let reason = super::program::os_text(&error);
            io::Error::other(format!("sysctl {name}={value:?}: {reason}"))
        })
    })
}

/// The kernel's file of a setting; the text between two dots is one path component, with any content.
fn file(name: &str) -> PathBuf {
    let parts = name.split('.').map(|part| part.replace('/', ".")).filter(|part| !part.starts_with('.'));
    ["/proc/sys".to_owned()].into_iter().chain(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sysctl_name_resolves_only_to_its_own_file_pod_16() {
        for (name, expect) in [
            ("net.ipv4.tcp_rmem", "/proc/sys/net/ipv4/tcp_rmem"),
            ("net.ipv4.conf.eno2/100.rp_filter", "/proc/sys/net/ipv4/conf/eno2.100/rp_filter"),
            ("kernel.shm_rmid_forced", "/proc/sys/kernel/shm_rmid_forced"),
            ("kernel./.shm", "/proc/sys/kernel/shm"),
            ("kernel.//..shm", "/proc/sys/kernel/shm"),
        ] {
            assert_eq!(file(name), PathBuf::from(expect), "{name}");
        }
    }
}
