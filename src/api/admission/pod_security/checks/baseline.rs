//! The checks of the baseline level: known privilege escalations from a container to its node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{LifecycleHandler, SELinuxOptions};

use super::{
    CheckInput, SecurityContextTypes, Violation, containers, is_safe_seccomp, plural, quoted, setters,
};
use base::quote::quote;
use object::well_known::annotation::SECCOMP_POD;

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
];
/// Permitted sysctls, and the version that permitted them.
const SYSCTLS: [(&str, u64); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

pub(super) fn app_armor_profile(input: &CheckInput<'_>) -> Option<Violation> {
    let allowed = |profile: &str| matches!(profile, "RuntimeDefault" | "Localhost");
    let of_pod = input.security().and_then(|s| Some(s.app_armor_profile.as_ref()?.type_.as_str()));
    let of_containers = input.containers.iter();
    let of_containers = of_containers
        .map(|c| (c.name, c.security.and_then(|s| Some(s.app_armor_profile.as_ref()?.type_.as_str()))))
        .collect();
    let (pod, names, values) = SecurityContextTypes { of_pod, of_containers }.forbidden_values(allowed);
    let is_fine =
        |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let annotations = input.annotations();
    let annotations: BTreeSet<String> = annotations
        .filter(|(key, value)| key.starts_with(APP_ARMOR_ANNOTATION) && !is_fine(value))
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    let of_annotations =
        (!annotations.is_empty()).then(|| plural("annotation", "annotations", annotations.len()));
    let who: Vec<String> = setters(pod, &names).into_iter().chain(of_annotations.map(Into::into)).collect();
    if who.is_empty() {
        return None;
    }
    let values: Vec<&str> = values.into_iter().chain(annotations.iter().map(String::as_str)).collect();
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    let detail = format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(values));
    Violation::report(reason, detail)
}

pub(super) fn capabilities(input: &CheckInput<'_>) -> Option<Violation> {
    let (names, added) = added_capabilities(input, |capability| CAPABILITIES.contains(&capability));
    if names.is_empty() {
        return None;
    }
    let who = containers(&names);
    let detail = format!("{who} must not include {} in securityContext.capabilities.add", quoted(added));
    Violation::report("non-default capabilities", detail)
}

/// Returns the containers that add capabilities which are not permitted, and these capabilities.
pub(super) fn added_capabilities<'a>(
    input: &CheckInput<'a>,
    may: fn(&str) -> bool,
) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let mut all = BTreeSet::new();
    let mut names = Vec::new();
    for container in &input.containers {
        let capabilities = container.security.and_then(|security| security.capabilities.as_ref());
        let added = capabilities.and_then(|capabilities| capabilities.add.as_ref()).into_iter().flatten();
        let bad: Vec<&str> = added.map(String::as_str).filter(|capability| !may(capability)).collect();
        if !bad.is_empty() {
            names.push(container.name);
            all.extend(bad);
        }
    }
    (names, all)
}

pub(super) fn host_namespaces(input: &CheckInput<'_>) -> Option<Violation> {
    let spec = input.spec();
    let shared: Vec<&str> = [
        (spec.host_network, "hostNetwork=true"),
        (spec.host_pid, "hostPID=true"),
        (spec.host_ipc, "hostIPC=true"),
    ]
    .into_iter()
    .filter(|(shared, _)| *shared == Some(true))
    .map(|(_, text)| text)
    .collect();
    (!shared.is_empty()).then(|| Violation { reason: "host namespaces", detail: shared.join(", ") })
}

pub(super) fn host_path_volumes(input: &CheckInput<'_>) -> Option<Violation> {
    let volumes = input.spec().volumes.iter().flatten().filter(|volume| volume.host_path.is_some());
    let names: Vec<&str> = volumes.map(|volume| volume.name.as_str()).collect();
    let detail = format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names));
    (!names.is_empty()).then_some(Violation { reason: "hostPath volumes", detail })
}

pub(super) fn host_ports(input: &CheckInput<'_>) -> Option<Violation> {
    let host_ports = |ports: &[k8s_openapi::api::core::v1::ContainerPort]| -> Vec<String> {
        ports.iter().filter_map(|p| p.host_port).filter(|p| *p != 0).map(|p| p.to_string()).collect()
    };
    let names = input.containers_that(|container| !host_ports(container.ports).is_empty());
    if names.is_empty() {
        return None;
    }
    // In textual order, as in Kubernetes.
    let ports: BTreeSet<String> = input.containers.iter().flat_map(|c| host_ports(c.ports)).collect();
    let uses = plural("uses", "use", names.len());
    let called = plural("hostPort", "hostPorts", ports.len());
    let ports = ports.into_iter().collect::<Vec<_>>().join(", ");
    Violation::report("hostPort", format!("{} {uses} {called} {ports}", containers(&names)))
}

pub(super) fn host_of_probes_and_hooks(input: &CheckInput<'_>) -> Option<Violation> {
    let (mut names, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for container in &input.containers {
        let probes = container.probes.iter().copied().flatten();
        let of_probes = probes.flat_map(|probe| {
            let http = probe.http_get.as_ref().and_then(|get| get.host.as_deref());
            [http, probe.tcp_socket.as_ref().and_then(|socket| socket.host.as_deref())]
        });
        let hooks =
            container.lifecycle.into_iter().flat_map(|l| [l.post_start.as_ref(), l.pre_stop.as_ref()]);
        let of_hooks = hooks.flatten().flat_map(|hook: &LifecycleHandler| {
            let http = hook.http_get.as_ref().and_then(|get| get.host.as_deref());
            [http, hook.tcp_socket.as_ref().and_then(|socket| socket.host.as_deref())]
        });
        let given: Vec<&str> = of_probes.chain(of_hooks).flatten().filter(|host| !host.is_empty()).collect();
        if !given.is_empty() {
            names.insert(container.name);
            hosts.extend(given);
        }
    }
    if names.is_empty() {
        return None;
    }
    let who = containers(&names.iter().copied().collect::<Vec<_>>());
    let uses = plural("uses", "use", names.len());
    let called = plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len());
    Violation::report("probe or lifecycle host", format!("{who} {uses} {called} {}", quoted(hosts)))
}

pub(super) fn privileged(input: &CheckInput<'_>) -> Option<Violation> {
    let names = input.containers_that(|c| c.security.is_some_and(|s| s.privileged == Some(true)));
    (!names.is_empty()).then(|| Violation {
        reason: "privileged",
        detail: format!("{} must not set securityContext.privileged=true", containers(&names)),
    })
}

pub(super) fn proc_mount(input: &CheckInput<'_>) -> Option<Violation> {
    if input.minor >= 35 && input.has_users_of_its_own() {
        return None;
    }
    unusual_proc_mount(input)
}

pub(super) fn unusual_proc_mount(input: &CheckInput<'_>) -> Option<Violation> {
    let of_containers = input.containers.iter();
    let of_containers =
        of_containers.map(|c| (c.name, c.security.and_then(|s| s.proc_mount.as_deref()))).collect();
    let (_, names, values) = SecurityContextTypes { of_pod: None, of_containers }
        .forbidden_values(|proc_mount| proc_mount == "Default");
    (!names.is_empty()).then(|| Violation {
        reason: "procMount",
        detail: format!(
            "{} must not set securityContext.procMount to {}",
            containers(&names),
            quoted(values)
        ),
    })
}

pub(super) fn selinux_options(input: &CheckInput<'_>) -> Option<Violation> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let is_type = |name: &str| match name {
        "" | "container_t" | "container_init_t" | "container_kvm_t" => true,
        "container_engine_t" => input.minor >= 31,
        _ => false,
    };
    let is_bad = |options: &&SELinuxOptions| {
        !is_type(&text(&options.type_)) || !text(&options.user).is_empty() || !text(&options.role).is_empty()
    };
    let of_pod = input.security().and_then(|s| s.se_linux_options.as_ref()).filter(is_bad);
    let of = |security: Option<&'_ k8s_openapi::api::core::v1::SecurityContext>| {
        security.and_then(|s| s.se_linux_options.clone())
    };
    let names = input.containers_that(|c| of(c.security).is_some_and(|options| is_bad(&&options)));
    let who = setters(of_pod.is_some(), &names)?;
    let all = input.containers.iter().filter_map(|c| of(c.security)).chain(of_pod.cloned());
    let bad: Vec<SELinuxOptions> = all.filter(|options| is_bad(&options)).collect();
    let types: BTreeSet<String> = bad.iter().map(|o| text(&o.type_)).filter(|t| !is_type(t)).collect();
    let mut parts = Vec::new();
    if !types.is_empty() {
        parts.push(format!("{} {}", plural("type", "types", types.len()), quoted(types)));
    }
    if bad.iter().any(|options| !text(&options.user).is_empty()) {
        parts.push("user may not be set".into());
    }
    if bad.iter().any(|options| !text(&options.role).is_empty()) {
        parts.push("role may not be set".into());
    }
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", parts.join("; "));
    Violation::report("seLinuxOptions", detail)
}

pub(super) fn seccomp_profile(input: &CheckInput<'_>) -> Option<Violation> {
    if input.minor < 19 {
        return seccomp_annotations(input);
    }
    let (pod, names, values) = SecurityContextTypes::seccomp(input).forbidden_values(is_safe_seccomp);
    Some(unsafe_seccomp(&setters(pod, &names)?, &values))
}

pub(super) fn unsafe_seccomp(who: &str, values: &BTreeSet<&str>) -> Violation {
    let values = quoted(values);
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {values}");
    Violation { reason: "seccompProfile", detail }
}

/// Checks the annotations that named seccomp profiles before there was a field.
fn seccomp_annotations(input: &CheckInput<'_>) -> Option<Violation> {
    let is_fine = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let concerns = |key: &str| {
        let of_container = key.strip_prefix(SECCOMP_OF_CONTAINER);
        key == SECCOMP_POD || of_container.is_some_and(|name| input.containers.iter().any(|c| c.name == name))
    };
    let bad: BTreeSet<String> = input
        .annotations()
        .filter(|(key, value)| concerns(key) && !is_fine(value))
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let called = plural("annotation", "annotations", bad.len());
    let bad = bad.into_iter().collect::<Vec<_>>().join(", ");
    Violation::report("seccompProfile", format!("forbidden {called} {bad}"))
}

pub(super) fn sysctls(input: &CheckInput<'_>) -> Option<Violation> {
    let may = |name: &str| SYSCTLS.iter().any(|(safe, since)| *safe == name && *since <= input.minor);
    let set = input.security().and_then(|security| security.sysctls.as_ref()).into_iter().flatten();
    let bad: Vec<&str> = set.map(|sysctl| sysctl.name.as_str()).filter(|name| !may(name)).collect();
    (!bad.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: bad.join(", ") })
}

pub(super) fn windows_host_process(input: &CheckInput<'_>) -> Option<Violation> {
    let names = input.containers_that(|c| {
        let options = c.security.and_then(|security| security.windows_options.as_ref());
        options.is_some_and(|options| options.host_process == Some(true))
    });
    let of_pod = input.security().and_then(|security| security.windows_options.as_ref());
    let who = setters(of_pod.is_some_and(|options| options.host_process == Some(true)), &names)?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    Violation::report("hostProcess", detail)
}
