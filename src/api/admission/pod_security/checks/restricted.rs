//! The checks of the restricted level beyond the baseline: everything that a hardened pod can do without.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Volume;

use super::baseline::{added_capabilities, unsafe_seccomp, unusual_proc_mount};
use super::{
    CheckInput, SecurityContextTypes, Violation, containers, is_safe_seccomp, plural, quoted, setters,
};

pub(super) fn privilege_escalation(input: &CheckInput<'_>) -> Option<Violation> {
    if input.minor >= 25 && input.is_windows() {
        return None;
    }
    let may = |security: &k8s_openapi::api::core::v1::SecurityContext| {
        security.allow_privilege_escalation != Some(false)
    };
    let names = input.containers_that(|container| container.security.is_none_or(may));
    (!names.is_empty()).then(|| Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names)),
    })
}

pub(super) fn capabilities(input: &CheckInput<'_>) -> Option<Violation> {
    if input.minor >= 25 && input.is_windows() {
        return None;
    }
    let keeping = input.containers_that(|container| {
        let capabilities = container.security.and_then(|security| security.capabilities.as_ref());
        let dropped = capabilities.and_then(|capabilities| capabilities.drop.as_ref());
        !dropped.is_some_and(|dropped| dropped.iter().any(|capability| capability == "ALL"))
    });
    let (adding, added) = added_capabilities(input, |capability| capability == "NET_BIND_SERVICE");
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let who = containers(&keeping);
        details.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adding.is_empty() {
        let who = containers(&adding);
        let added = quoted(added);
        details.push(format!("{who} must not include {added} in securityContext.capabilities.add"));
    }
    (!details.is_empty())
        .then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") })
}

pub(super) fn proc_mount(input: &CheckInput<'_>) -> Option<Violation> {
    unusual_proc_mount(input)
}

pub(super) fn volumes(input: &CheckInput<'_>) -> Option<Violation> {
    let bad =
        input.spec().volumes.iter().flatten().filter_map(|v| Some((v.name.as_str(), forbidden_type(v)?)));
    let (names, types): (Vec<&str>, BTreeSet<&str>) = bad.unzip();
    if names.is_empty() {
        return None;
    }
    let volumes = plural("volume", "volumes", names.len());
    let uses = plural("uses", "use", names.len());
    let called = plural("restricted volume type", "restricted volume types", types.len());
    let detail = format!("{volumes} {} {uses} {called} {}", quoted(names), quoted(types));
    Violation::report("restricted volume types", detail)
}

/// Returns the type of a volume that not every pod may use.
fn forbidden_type(v: &Volume) -> Option<&'static str> {
    let allowed = v.config_map.is_some()
        || v.csi.is_some()
        || v.downward_api.is_some()
        || v.empty_dir.is_some()
        || v.ephemeral.is_some()
        || v.image.is_some()
        || v.persistent_volume_claim.is_some()
        || v.projected.is_some()
        || v.secret.is_some();
    if allowed {
        return None;
    }
    let types = [
        (v.host_path.is_some(), "hostPath"),
        (v.gce_persistent_disk.is_some(), "gcePersistentDisk"),
        (v.aws_elastic_block_store.is_some(), "awsElasticBlockStore"),
        (v.git_repo.is_some(), "gitRepo"),
        (v.nfs.is_some(), "nfs"),
        (v.iscsi.is_some(), "iscsi"),
        (v.glusterfs.is_some(), "glusterfs"),
        (v.rbd.is_some(), "rbd"),
        (v.flex_volume.is_some(), "flexVolume"),
        (v.cinder.is_some(), "cinder"),
        (v.cephfs.is_some(), "cephfs"),
        (v.flocker.is_some(), "flocker"),
        (v.fc.is_some(), "fc"),
        (v.azure_file.is_some(), "azureFile"),
        (v.vsphere_volume.is_some(), "vsphereVolume"),
        (v.quobyte.is_some(), "quobyte"),
        (v.azure_disk.is_some(), "azureDisk"),
        (v.photon_persistent_disk.is_some(), "photonPersistentDisk"),
        (v.portworx_volume.is_some(), "portworxVolume"),
        (v.scale_io.is_some(), "scaleIO"),
        (v.storageos.is_some(), "storageos"),
    ];
    Some(types.into_iter().find(|(is_set, _)| *is_set).map_or("unknown", |(_, name)| name))
}

pub(super) fn non_root(input: &CheckInput<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if input.minor >= 35 && input.has_users_of_its_own() {
        return None;
    }
    let of_pod = input.security().and_then(|security| security.run_as_non_root);
    let setting = |name: &super::Container<'_>| name.security.and_then(|security| security.run_as_non_root);
    let refusing = input.containers_that(|container| setting(container) == Some(false));
    if let Some(who) = setters(of_pod == Some(false), &refusing) {
        return Violation::report(REASON, format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    let silent = input.containers_that(|container| setting(container).is_none());
    if of_pod == Some(true) || silent.is_empty() {
        return None;
    }
    let who = containers(&silent);
    Violation::report(REASON, format!("pod or {who} must set securityContext.runAsNonRoot=true"))
}

pub(super) fn user(input: &CheckInput<'_>) -> Option<Violation> {
    if input.minor >= 35 && input.has_users_of_its_own() {
        return None;
    }
    let names = input.containers_that(|c| c.security.is_some_and(|security| security.run_as_user == Some(0)));
    let of_pod = input.security().is_some_and(|security| security.run_as_user == Some(0));
    let who = setters(of_pod, &names)?;
    Violation::report("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

pub(super) fn seccomp_profile(input: &CheckInput<'_>) -> Option<Violation> {
    if input.minor >= 25 && input.is_windows() {
        return None;
    }
    let set = SecurityContextTypes::seccomp(input);
    let (pod, names, values) = set.forbidden_values(is_safe_seccomp);
    if let Some(who) = setters(pod, &names) {
        return Some(unsafe_seccomp(&who, &values));
    }
    let silent: Vec<&str> =
        set.of_containers.iter().filter(|(_, profile)| profile.is_none()).map(|(name, _)| *name).collect();
    if set.of_pod.is_some() || silent.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        containers(&silent)
    );
    Violation::report("seccompProfile", detail)
}
