//! Rules of security contexts, and of fields for particular operating systems.

use k8s_openapi::api::core::v1::{
    AppArmorProfile, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext,
    WindowsSecurityContextOptions,
};
use serde_json::json;

use super::field::{ErrorValue, FieldErrors, Path};
use super::{names, paths, sysctls};

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_ON_LINUX: &str = "windows options cannot be set for a linux pod";

/// The maximum size of an AppArmor profile's name, which may be a path.
const MAX_PROFILE_BYTES: usize = 4095;

/// Validates the security context of a pod, and its use of the node's namespaces.
pub(super) fn of_pod(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    if spec.host_pid == Some(true) && spec.share_process_namespace == Some(true) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("securityContext.shareProcessNamespace"), &true, detail);
    }
    let Some(context) = &spec.security_context else { return };
    let path = path.child("securityContext");
    for (field, id) in [
        ("fsGroup", context.fs_group),
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
    ] {
        user_or_group(errors, &path.child(field), id);
    }
    let groups = path.child("supplementalGroups");
    for (i, group) in context.supplemental_groups.iter().flatten().enumerate() {
        user_or_group(errors, &groups.index(i), Some(*group));
    }
    sysctls::sysctls(errors, &path.child("sysctls"), spec);
    if let Some(policy) = &context.fs_group_change_policy {
        errors.one_of(&path.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    }
    seccomp(errors, &path.child("seccompProfile"), context.seccomp_profile.as_ref());
    windows_options(errors, &path.child("windowsOptions"), context.windows_options.as_ref());
    app_armor(errors, &path.child("appArmorProfile"), context.app_armor_profile.as_ref());
    for (field, policy, supported) in [
        ("supplementalGroupsPolicy", &context.supplemental_groups_policy, &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &context.se_linux_change_policy, &["MountOption", "Recursive"]),
    ] {
        if let Some(policy) = policy {
            errors.one_of(&path.child(field), policy, supported);
        }
    }
}

/// Validates the security context of a container; the rules depend on the pod's use of the node's user namespace.
pub(super) fn of_container(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    context: &SecurityContext,
    host_users: bool,
) {
    for (field, id) in [("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)] {
        user_or_group(errors, &path.child(field), id);
    }
    if let Some(mount) = &context.proc_mount {
        let path = path.child("procMount");
        errors.one_of(&path, mount, &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            errors.invalid(&path, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    seccomp(errors, &path.child("seccompProfile"), context.seccomp_profile.as_ref());
    if context.allow_privilege_escalation == Some(false) {
        if context.privileged == Some(true) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(path, &false, detail);
        }
        let added = context.capabilities.iter().flat_map(|c| c.add.iter().flatten());
        for _ in added.filter(|capability| *capability == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(path, &false, detail);
        }
    }
    windows_options(errors, &path.child("windowsOptions"), context.windows_options.as_ref());
    app_armor(errors, &path.child("appArmorProfile"), context.app_armor_profile.as_ref());
}

/// Validates a user or group id.
fn user_or_group(errors: &mut FieldErrors, path: &Path<'_>, id: Option<i64>) {
    if let Some(id) = id
        && !(0..=i64::from(i32::MAX)).contains(&id)
    {
        errors.invalid(path, &id, "must be between 0 and 2147483647, inclusive");
    }
}

fn seccomp(errors: &mut FieldErrors, path: &Path<'_>, profile: Option<&SeccompProfile>) {
    let Some(profile) = profile else { return };
    let at_type = path.child("type");
    match profile.type_.as_str() {
        "" => errors.required(&at_type, "type is required when seccompProfile is set"),
        type_ => errors.one_of(&at_type, type_, PROFILE_TYPES),
    }
    let at = path.child("localhostProfile");
    match (&profile.localhost_profile, profile.type_ == "Localhost") {
        (None, true) => errors.required(&at, "must be set when seccomp type is Localhost"),
        (Some(file), true) => paths::local(errors, &at, file),
        (Some(_), false) => {
            errors.invalid(&at, profile, "can only be set when seccomp type is Localhost");
        }
        (None, false) => {}
    }
}

impl ErrorValue for SeccompProfile {
    /// Returns the profile as Kubernetes prints it: the names and the order are those of Go's struct.
    fn display_value(&self) -> String {
        format!(r#"{{"Type":{},"LocalhostProfile":{}}}"#, json!(self.type_), json!(self.localhost_profile))
    }
}

fn app_armor(errors: &mut FieldErrors, path: &Path<'_>, profile: Option<&AppArmorProfile>) {
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    let Some(profile) = profile else { return };
    let (at_type, at) = (path.child("type"), path.child("localhostProfile"));
    match (profile.type_.as_str(), &profile.localhost_profile) {
        ("Localhost", None) => errors.required(&at, MISSING),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                errors.invalid(&at, name, "must not be padded with whitespace");
            } else if name.is_empty() {
                errors.required(&at, MISSING);
            }
            if name.len() > MAX_PROFILE_BYTES {
                errors.too_long(&at, MAX_PROFILE_BYTES);
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            errors.invalid(&at, name, "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => errors.required(&at_type, "type is required when appArmorProfile is set"),
        (other, _) => errors.unsupported(&at_type, other, PROFILE_TYPES),
    }
}

fn windows_options(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    options: Option<&WindowsSecurityContextOptions>,
) {
    const MAX_CREDENTIAL_BYTES: usize = 64 * 1024;
    let Some(options) = options else { return };
    if let Some(name) = &options.gmsa_credential_spec_name {
        errors.invalid_each(&path.child("gmsaCredentialSpecName"), name, names::dns_1123_subdomain(name));
    }
    if let Some(credential) = &options.gmsa_credential_spec {
        let path = path.child("gmsaCredentialSpec");
        if credential.is_empty() {
            errors.invalid(&path, credential, "gmsaCredentialSpec cannot be an empty string");
        } else if credential.len() > MAX_CREDENTIAL_BYTES {
            errors.invalid_itself(&path, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(name) = &options.run_as_user_name {
        let path = path.child("runAsUserName");
        for wrong in user_name(name) {
            errors.invalid(&path, name, wrong);
        }
    }
}

/// Returns the errors of the name of a Windows user, `DOMAIN\USER` or `USER`.
fn user_name(name: &str) -> Vec<&'static str> {
    const MAX_DOMAIN: usize = 256;
    const MAX_USER: usize = 104;
    const NOT_IN_USERS: &str = "\"/\\:;|=,+*?<>@[]";
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    let (domain, user) = name.split_once('\\').map_or((None, name), |(domain, user)| (Some(domain), user));
    if user.contains('\\') {
        return vec!["runAsUserName cannot contain more than one backslash"];
    }
    let mut wrong = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= MAX_DOMAIN {
            wrong.push("runAsUserName's Domain length must be under 256 characters");
        }
        if !is_net_bios(domain) && !is_dns(domain) {
            wrong.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        wrong.push("runAsUserName's User cannot be empty");
    } else if user.len() > MAX_USER {
        wrong.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        wrong.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.chars().any(|c| NOT_IN_USERS.contains(c)) {
        wrong.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    wrong
}

fn is_net_bios(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.chars().any(|c| "\\/:*?\"<>|".contains(c))
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| names::dns_1123_label(&label.to_ascii_lowercase()).is_empty())
}

/// The reason why a field is forbidden in a pod with its own user namespace.
const NO_HOST_USERS: &str = "when `hostUsers` is false";

/// Forbids the node's other namespaces and block devices in a pod with its own user namespace.
pub(super) fn host_users(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    if spec.host_users != Some(false) {
        return;
    }
    // The error has Kubernetes' spelling of the fields.
    for (field, shared) in
        [("hostNetwork", spec.host_network), ("HostPID", spec.host_pid), ("HostIPC", spec.host_ipc)]
    {
        if shared == Some(true) {
            errors.forbidden(&path.child(field), NO_HOST_USERS);
        }
    }
    let init = spec.init_containers.iter().flatten().map(|c| c.volume_devices.as_ref()).enumerate();
    let app = spec.containers.iter().map(|c| c.volume_devices.as_ref()).enumerate();
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|c| c.volume_devices.as_ref()).enumerate();
    let with = |field: &'static str| move |(i, devices)| (field, i, devices);
    let all = init.map(with("initContainers")).chain(app.map(with("containers")));
    for (field, i, devices) in all.chain(ephemeral.map(with("ephemeralContainers"))) {
        if devices.is_some_and(|devices| !devices.is_empty()) {
            errors.forbidden(&path.child(field).index(i).child("volumeDevices"), NO_HOST_USERS);
        }
    }
}

/// Returns the security contexts of all containers with the list's field and the index, in Kubernetes' order.
fn contexts(spec: &PodSpec) -> impl Iterator<Item = (&'static str, usize, Option<&SecurityContext>)> {
    let init = spec.init_containers.iter().flatten().map(|c| c.security_context.as_ref()).enumerate();
    let app = spec.containers.iter().map(|c| c.security_context.as_ref()).enumerate();
    let ephemeral =
        spec.ephemeral_containers.iter().flatten().map(|c| c.security_context.as_ref()).enumerate();
    let with = |field: &'static str| move |(i, context)| (field, i, context);
    init.map(with("initContainers"))
        .chain(app.map(with("containers")))
        .chain(ephemeral.map(with("ephemeralContainers")))
}

/// Validates Windows host processes: either all containers of a pod are host processes or none, and the pod must use
/// the host network.
pub(super) fn host_processes(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    let of_pod = spec.security_context.as_ref().and_then(|c| c.windows_options.as_ref()?.host_process);
    let (mut all, mut processes) = (0, 0);
    for (field, i, context) in contexts(spec) {
        all += 1;
        let own = context.and_then(|c| c.windows_options.as_ref()?.host_process);
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let list = path.child(field);
            let at = list.index(i);
            let detail =
                format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.invalid(&at.child("securityContext.windowsOptions.hostProcess"), &own, detail);
        }
        processes += usize::from(own.or(of_pod) == Some(true));
    }
    if processes == 0 {
        return;
    }
    if processes != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", detail);
    }
    if spec.host_network != Some(true) {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.child("hostNetwork"), &false, detail);
    }
}

/// Validates the pod's operating system, and forbids fields that do not exist on it.
pub(super) fn os(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    let Some(os) = &spec.os else { return };
    match os.name.as_str() {
        "" => errors.required(&path.child("os.name"), "cannot be empty"),
        "linux" => linux(errors, path, spec),
        "windows" => windows(errors, path, spec),
        other => errors.unsupported(&path.child("os"), other, &["linux", "windows"]),
    }
}

fn linux(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    if spec.security_context.as_ref().is_some_and(|c| c.windows_options.is_some()) {
        errors.forbidden(&path.child("securityContext.windowsOptions"), NOT_ON_LINUX);
    }
    for (field, i, context) in contexts(spec) {
        if context.is_some_and(|c| c.windows_options.is_some()) {
            let list = path.child(field);
            errors.forbidden(&list.index(i).child("securityContext.windowsOptions"), NOT_ON_LINUX);
        }
    }
}

fn windows(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    let none = PodSecurityContext::default();
    let pod = spec.security_context.as_ref().unwrap_or(&none);
    for (field, is_given) in [
        ("securityContext.appArmorProfile", pod.app_armor_profile.is_some()),
        ("securityContext.seLinuxOptions", pod.se_linux_options.is_some()),
        ("hostUsers", spec.host_users.is_some()),
        ("hostPID", spec.host_pid == Some(true)),
        ("hostIPC", spec.host_ipc == Some(true)),
        ("securityContext.seccompProfile", pod.seccomp_profile.is_some()),
        ("securityContext.fsGroup", pod.fs_group.is_some()),
        ("securityContext.fsGroupChangePolicy", pod.fs_group_change_policy.is_some()),
        ("securityContext.sysctls", pod.sysctls.as_ref().is_some_and(|list| !list.is_empty())),
        ("shareProcessNamespace", spec.share_process_namespace.is_some()),
        ("securityContext.runAsUser", pod.run_as_user.is_some()),
        ("securityContext.runAsGroup", pod.run_as_group.is_some()),
        ("securityContext.supplementalGroups", pod.supplemental_groups.is_some()),
        ("securityContext.supplementalGroupsPolicy", pod.supplemental_groups_policy.is_some()),
        ("securityContext.seLinuxChangePolicy", pod.se_linux_change_policy.is_some()),
    ] {
        if is_given {
            errors.forbidden(&path.child(field), NOT_ON_WINDOWS);
        }
    }
    for (field, i, context) in contexts(spec) {
        let Some(context) = context else { continue };
        let list = path.child(field);
        let at = list.index(i);
        let at = at.child("securityContext");
        for (field, is_given) in [
            ("appArmorProfile", context.app_armor_profile.is_some()),
            ("seLinuxOptions", context.se_linux_options.is_some()),
            ("seccompProfile", context.seccomp_profile.is_some()),
            ("capabilities", context.capabilities.is_some()),
            ("readOnlyRootFilesystem", context.read_only_root_filesystem.is_some()),
            ("privileged", context.privileged.is_some()),
            ("allowPrivilegeEscalation", context.allow_privilege_escalation.is_some()),
            ("procMount", context.proc_mount.is_some()),
            ("runAsUser", context.run_as_user.is_some()),
            ("runAsGroup", context.run_as_group.is_some()),
        ] {
            if is_given {
                errors.forbidden(&at.child(field), NOT_ON_WINDOWS);
            }
        }
    }
}
