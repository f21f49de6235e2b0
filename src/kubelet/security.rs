//! What of a security context a process of this machine cannot be held to, so that it can be said (POD-16).
//!
//! Pure reading. Users and groups are honoured where permitted, `privileged` is accepted as it is.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::spec;

/// The fields that are set and not honoured, by path; sorted as they stand in the spec.
pub(super) fn ignored(pod: &Pod) -> Vec<String> {
    let mut fields = Vec::new();
    if let Some(context) = &spec::spec(pod).security_context {
        let restricts = context.seccomp_profile.as_ref().is_some_and(|p| p.type_ != "Unconfined");
        let groups = context.supplemental_groups.as_ref().is_some_and(|g| !g.is_empty());
        let sysctls = context.sysctls.as_ref().is_some_and(|s| !s.is_empty());
        for (field, set) in [
            ("appArmorProfile", context.app_armor_profile.is_some()),
            ("fsGroup", context.fs_group.is_some()),
            ("seLinuxOptions", context.se_linux_options.is_some()),
            ("seccompProfile", restricts),
            ("supplementalGroups", groups),
            ("sysctls", sysctls),
        ] {
            if set {
                fields.push(format!("spec.securityContext.{field}"));
            }
        }
    }
    let init = spec::spec(pod).init_containers.iter().flatten();
    for (list, container) in
        init.map(|c| ("initContainers", c)).chain(spec::app_containers(pod).iter().map(|c| ("containers", c)))
    {
        of_container(list, container, &mut fields);
    }
    fields
}

fn of_container(list: &str, container: &Container, fields: &mut Vec<String>) {
    let Some(context) = &container.security_context else { return };
    let restricts = context.seccomp_profile.as_ref().is_some_and(|p| p.type_ != "Unconfined");
    for (field, set) in [
        ("allowPrivilegeEscalation", context.allow_privilege_escalation == Some(false)),
        ("appArmorProfile", context.app_armor_profile.is_some()),
        ("capabilities", context.capabilities.is_some()),
        ("procMount", context.proc_mount.as_deref().is_some_and(|m| m != "Default")),
        ("readOnlyRootFilesystem", context.read_only_root_filesystem == Some(true)),
        ("seLinuxOptions", context.se_linux_options.is_some()),
        ("seccompProfile", restricts),
    ] {
        if set {
            fields.push(format!("spec.{list}{{{}}}.securityContext.{field}", container.name));
        }
    }
}

/// The text of the one event that tells of them; none when everything is honoured.
pub(super) fn warning(pod: &Pod) -> Option<String> {
    let fields = ignored(pod);
    (!fields.is_empty()).then(|| {
        format!("containers are processes of this machine here; not enforced: {}", fields.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_not_enforced_is_said_pod_16() {
        for (spec, expected) in [
            (json!({"containers": [{"name": "c"}]}), ""),
            (
                json!({"securityContext": {"runAsUser": 1, "runAsGroup": 2, "runAsNonRoot": true},
                    "containers": [{"name": "c", "securityContext": {"privileged": true,
                        "seccompProfile": {"type": "Unconfined"}, "allowPrivilegeEscalation": true}}]}),
                "",
            ),
            (
                json!({"securityContext": {"fsGroup": 5, "seccompProfile": {"type": "RuntimeDefault"}},
                    "initContainers": [{"name": "i", "securityContext": {"readOnlyRootFilesystem": true}}],
                    "containers": [{"name": "c", "securityContext": {"capabilities": {"drop": ["ALL"]},
                        "allowPrivilegeEscalation": false}}]}),
                "spec.securityContext.fsGroup spec.securityContext.seccompProfile \
                 spec.initContainers{i}.securityContext.readOnlyRootFilesystem \
                 spec.containers{c}.securityContext.allowPrivilegeEscalation \
                 spec.containers{c}.securityContext.capabilities",
            ),
        ] {
            let pod: Pod = serde_json::from_value::<Pod>(Value::from_iter([("spec", spec)])).unwrap();
            assert_eq!(ignored(&pod).join(" "), expected);
            assert_eq!(warning(&pod).is_some(), !expected.is_empty());
        }
    }
}
