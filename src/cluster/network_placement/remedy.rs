//! Advice for users of a machine that forbids pods a network of their own.

use std::fs;
use std::io;

use fabric::FabricError;

/// The machine's settings that may prevent a network of the pods' own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MachineFacts {
    root: bool,
    /// `kernel.apparmor_restrict_unprivileged_userns` is 1: Ubuntu's switch since 23.10.
    apparmor_restricts: bool,
    /// `kernel.unprivileged_userns_clone` is 0: Debian's and Arch's switch.
    clone_forbidden: bool,
    /// `user.max_user_namespaces` is 0.
    no_user_namespaces: bool,
    /// `user.max_net_namespaces` is 0.
    no_network_namespaces: bool,
}

impl MachineFacts {
    fn look() -> Self {
        let is = |path: &str, value: &str| {
            fs::read_to_string(format!("/proc/sys/{path}")).is_ok_and(|text| text.trim() == value)
        };
        Self {
            root: rustix::process::geteuid().is_root(),
            apparmor_restricts: is("kernel/apparmor_restrict_unprivileged_userns", "1"),
            clone_forbidden: is("kernel/unprivileged_userns_clone", "0"),
            no_user_namespaces: is("user/max_user_namespaces", "0"),
            no_network_namespaces: is("user/max_net_namespaces", "0"),
        }
    }
}

/// The advice for a failed step; none if no remedy is known.
pub(super) fn remedy(error: &FabricError) -> Option<String> {
    of(&error.step, &error.source, &MachineFacts::look())
}

fn of(step: &str, error: &io::Error, machine: &MachineFacts) -> Option<String> {
    let sysctl = |setting: &str| Some(format!("allow it with \"sudo sysctl {setting}\""));
    let begins = |prefix: &str| step.starts_with(prefix);
    let forbidden = error.kind() == io::ErrorKind::PermissionDenied;
    let unknown = matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT)
    );
    if begins("user namespace") && machine.no_user_namespaces {
        return sysctl("user.max_user_namespaces=15000");
    }
    if begins("new network namespace") && machine.no_network_namespaces {
        return sysctl("user.max_net_namespaces=15000");
    }
    if forbidden && machine.clone_forbidden && !machine.root {
        return sysctl("kernel.unprivileged_userns_clone=1");
    }
    if forbidden && machine.apparmor_restricts && !machine.root {
        return sysctl("kernel.apparmor_restrict_unprivileged_userns=0");
    }
    if forbidden && machine.root {
        return Some(
            "give Podium's container the capabilities SYS_ADMIN and NET_ADMIN (docker run --privileged)"
                .to_owned(),
        );
    }
    if forbidden {
        return Some(
            "in a container start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
                .to_owned(),
        );
    }
    if unknown && step.contains("leaf") {
        return Some("the kernel needs veth: try \"sudo modprobe veth\"".to_owned());
    }
    if unknown || begins("way out") || begins("service") {
        return Some(
            "the kernel needs nftables with nat, tproxy, socket, numgen and conntrack: try \"sudo modprobe -a nf_tables \
             nft_chain_nat nft_nat nft_masq nft_ct nft_numgen nft_reject nft_tproxy nft_socket\""
                .to_owned(),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_permissions_are_explained_with_a_remedy_net_11() {
        let plain = MachineFacts::default();
        let root = MachineFacts { root: true, ..plain.clone() };
        let ubuntu = MachineFacts { apparmor_restricts: true, ..plain.clone() };
        let debian = MachineFacts { clone_forbidden: true, ..plain.clone() };
        let switched_off = MachineFacts { no_user_namespaces: true, ..plain.clone() };
        let full = MachineFacts { no_network_namespaces: true, ..root.clone() };
        for (step, error, machine, says) in [
            ("user namespace", libc::EPERM, &debian, "kernel.unprivileged_userns_clone=1"),
            ("new network namespace", libc::EPERM, &ubuntu, "kernel.apparmor_restrict_unprivileged_userns=0"),
            ("user namespace", libc::ENOSPC, &switched_off, "user.max_user_namespaces=15000"),
            ("new network namespace", libc::ENOSPC, &full, "user.max_net_namespaces=15000"),
            ("new network namespace", libc::EPERM, &root, "SYS_ADMIN"),
            ("user namespace", libc::EPERM, &plain, "seccomp=unconfined"),
            ("leaf: veth", libc::EOPNOTSUPP, &plain, "modprobe veth"),
            ("rules: chain", libc::ENOENT, &plain, "nft_tproxy"),
            ("way out: connect to 192.0.2.1:80", libc::ECONNREFUSED, &plain, "nft_tproxy"),
            ("service: connect to 10.96.0.80:80", libc::ETIMEDOUT, &plain, "nft_chain_nat"),
        ] {
            let text = of(step, &io::Error::from_raw_os_error(error), machine).unwrap_or_default();
            assert!(text.contains(says), "{step}: {text}");
        }
        assert_eq!(of("address", &io::Error::from_raw_os_error(libc::EIO), &plain), None);
    }
}
