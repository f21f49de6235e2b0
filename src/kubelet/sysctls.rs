//! Kernel settings that pods request (`securityContext.sysctls`): the ones a node sets, the ones it rejects a pod for,
//! and the ones it cannot set (POD-16). Pure.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Pod, Sysctl};

use super::admit::AdmitRejection;
use super::spec;
use object::sysctl::{Namespace, dotted};

/// The sysctls that Kubernetes allows every pod, with their namespaces: no pod can harm another by them.
const SAFE: [(&str, Namespace); 12] = [
    ("kernel.shm_rmid_forced", Namespace::Ipc),
    ("net.ipv4.ip_local_port_range", Namespace::Net),
    ("net.ipv4.tcp_syncookies", Namespace::Net),
    (PING_GROUPS, Namespace::Net),
    ("net.ipv4.ip_unprivileged_port_start", Namespace::Net),
    ("net.ipv4.ip_local_reserved_ports", Namespace::Net),
    ("net.ipv4.tcp_keepalive_time", Namespace::Net),
    ("net.ipv4.tcp_fin_timeout", Namespace::Net),
    ("net.ipv4.tcp_keepalive_intvl", Namespace::Net),
    ("net.ipv4.tcp_keepalive_probes", Namespace::Net),
    ("net.ipv4.tcp_rmem", Namespace::Net),
    ("net.ipv4.tcp_wmem", Namespace::Net),
];
/// A range of group ids. A user other than root has only one group here.
const PING_GROUPS: &str = "net.ipv4.ping_group_range";

/// The properties of the node that decide which sysctls can be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct SysctlSupport {
    /// The node runs as root.
    pub(super) root: bool,
    /// Pods have IPC namespaces of their own.
    pub(super) own_ipc: bool,
    /// Pods have networks of their own.
    pub(super) own_network: bool,
}

fn requested(pod: &Pod) -> impl Iterator<Item = (Cow<'_, str>, &Sysctl)> {
    let context = spec::spec(pod).security_context.as_ref();
    let all = context.into_iter().flat_map(|context| context.sysctls.iter().flatten());
    all.map(|sysctl| (dotted(&sysctl.name), sysctl))
}

fn safe(name: &str) -> Option<Namespace> {
    SAFE.iter().find(|(safe, _)| *safe == name).map(|(_, namespace)| *namespace)
}

/// The reason why a node rejects the pod, in the kubelet's words: it requests a sysctl that is not safe, or one of a
/// namespace that it shares with the machine.
pub(super) fn refusal(pod: &Pod) -> Option<AdmitRejection> {
    let spec = spec::spec(pod);
    let reason = requested(pod).find_map(|(name, _)| match safe(&name) {
        None => Some(format!("{name:?} not allowlisted")),
        Some(Namespace::Ipc) if spec.host_ipc == Some(true) => {
            Some(format!("{name:?} not allowed with host IPC enabled"))
        }
        Some(Namespace::Net) if spec.host_network == Some(true) => {
            Some(format!("{name:?} not allowed with host Net enabled"))
        }
        Some(_) => None,
    })?;
    Some(AdmitRejection { reason: "SysctlForbidden".into(), message: format!("forbidden sysctl: {reason}") })
}

/// The reason why a safe sysctl cannot be set here.
fn unable(name: &str, abilities: SysctlSupport) -> Option<&'static str> {
    match safe(name)? {
        Namespace::Net if !abilities.own_network => {
            Some("pods share the machine's network, whose settings a pod cannot change")
        }
        Namespace::Ipc if !abilities.own_ipc => Some("pods share the machine's shared memory"),
        Namespace::Ipc if !abilities.root => Some("only root can set it"),
        Namespace::Net if !abilities.root && name == PING_GROUPS => {
            Some("processes here have one group, which can already ping")
        }
        _ => None,
    }
}

/// The sysctls to set in the pod's namespaces, names with dots and values, in order.
pub(super) fn applied(pod: &Pod, abilities: SysctlSupport) -> Vec<(String, String)> {
    let given = requested(pod).filter(|(name, _)| safe(name).is_some() && unable(name, abilities).is_none());
    given.map(|(name, sysctl)| (name.into_owned(), sysctl.value.clone())).collect()
}

/// The requested sysctls that are not set, each with the reason.
pub(super) fn ignored(pod: &Pod, abilities: SysctlSupport) -> Vec<String> {
    let reasons = requested(pod).filter_map(|(name, _)| Some((unable(&name, abilities)?, name)));
    reasons.map(|(why, name)| format!("spec.securityContext.sysctls{{{name}}} is ignored: {why}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(names: &[&str], more: &Value) -> Pod {
        let sysctls: Vec<_> = names.iter().map(|name| json!({"name": name, "value": "7"})).collect();
        let mut spec = json!({"containers": [], "securityContext": {"sysctls": sysctls}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    /// POD-16: the refusal has the kubelet's text, for the first sysctl that is not allowed.
    #[test]
    fn unsafe_sysctls_are_refused_pod_16() {
        let (here, network, ipc) = (json!({}), json!({"hostNetwork": true}), json!({"hostIPC": true}));
        for (names, more, expect) in [
            (&[][..], &here, None),
            (&["net.ipv4.tcp_syncookies", "kernel/shm_rmid_forced"], &here, None),
            (
                &["net/ipv4/tcp_rmem", "kernel.msgmax", "vm.x"],
                &here,
                Some("forbidden sysctl: \"kernel.msgmax\" not allowlisted"),
            ),
            (
                &["net/core/somaxconn"],
                &here,
                Some("forbidden sysctl: \"net.core.somaxconn\" not allowlisted"),
            ),
            (
                &["net.ipv4.tcp_wmem"],
                &network,
                Some("forbidden sysctl: \"net.ipv4.tcp_wmem\" not allowed with host Net enabled"),
            ),
            (
                &["kernel.shm_rmid_forced"],
                &ipc,
                Some("forbidden sysctl: \"kernel.shm_rmid_forced\" not allowed with host IPC enabled"),
            ),
            (&["kernel.shm_rmid_forced"], &network, None),
        ] {
            let refusal = refusal(&pod(names, more));
            assert_eq!(refusal.as_ref().map(|refusal| refusal.message.as_str()), expect);
            assert!(refusal.is_none_or(|refusal| refusal.reason == "SysctlForbidden"));
        }
    }

    /// POD-16: ignored sysctls are reported, and the rest is set.
    #[test]
    fn each_safe_sysctl_is_set_or_reported_as_ignored_pod_16() {
        let all = SAFE.map(|(name, _)| name);
        let pod = pod(&all, &json!({}));
        let abilities = |root, own_ipc, own_network| SysctlSupport { root, own_ipc, own_network };
        for (abilities, count) in [
            (abilities(true, true, true), 12),
            (abilities(false, true, true), 10),
            (abilities(true, true, false), 1),
            (abilities(true, false, true), 11),
            (abilities(false, false, false), 0),
        ] {
            let (given, ignored) = (applied(&pod, abilities), ignored(&pod, abilities));
            assert_eq!(
                (given.len(), ignored.len()),
                (count, all.len() - count),
                "{abilities:?}: {ignored:?}"
            );
            let is_reported =
                |name: &str| ignored.iter().any(|text| text.contains(&format!("{{{name}}} is ignored: ")));
            assert!(all.iter().all(|name| is_reported(name) != given.iter().any(|(given, _)| given == name)));
        }
    }
}
