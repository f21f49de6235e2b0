//! Translates a pod's securityContext: the settings passed to the runtime, and those that cannot be applied (POD-16).
//! Pure: nothing here runs anything.

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SecurityContext};

use super::runtime::{Seccomp, Security};
use super::spec;

/// The user and group of a container's processes, as far as the pod sets them.
pub(super) fn user(pod: &Pod, container: &Container) -> (Option<u32>, Option<u32>) {
    let (of_pod, own) = contexts(pod, container);
    let number = |id: Option<i64>| id.and_then(|id| u32::try_from(id).ok());
    let user = own.and_then(|s| s.run_as_user).or(of_pod.and_then(|s| s.run_as_user));
    let group = own.and_then(|s| s.run_as_group).or(of_pod.and_then(|s| s.run_as_group));
    (number(user), number(group))
}

/// The other security settings passed to the runtime.
pub(super) fn security(pod: &Pod, container: &Container) -> Security {
    let (of_pod, own) = contexts(pod, container);
    let groups = of_pod.into_iter().flat_map(|s| s.supplemental_groups.iter().flatten().chain(&s.fs_group));
    let capabilities = own.and_then(|s| s.capabilities.as_ref());
    Security {
        groups: groups.filter_map(|id| u32::try_from(*id).ok()).collect(),
        no_image_groups: of_pod.and_then(|s| s.supplemental_groups_policy.as_deref()) == Some("Strict"),
        read_only_root: own.and_then(|s| s.read_only_root_filesystem) == Some(true),
        no_new_privileges: own.and_then(|s| s.allow_privilege_escalation) == Some(false),
        non_root: own.and_then(|s| s.run_as_non_root).or(of_pod.and_then(|s| s.run_as_non_root))
            == Some(true),
        privileged: own.and_then(|s| s.privileged) == Some(true),
        unmasked: own.and_then(|s| s.proc_mount.as_deref()) == Some("Unmasked"),
        add_capabilities: capabilities.and_then(|c| c.add.clone()).unwrap_or_default(),
        drop_capabilities: capabilities.and_then(|c| c.drop.clone()).unwrap_or_default(),
        // A profile may have to be read (`seccomp::filter`).
        seccomp: Seccomp::Unconfined,
    }
}

fn contexts<'a>(
    pod: &'a Pod,
    container: &'a Container,
) -> (Option<&'a PodSecurityContext>, Option<&'a SecurityContext>) {
    (spec::spec(pod).security_context.as_ref(), container.security_context.as_ref())
}

/// The properties of the node that decide which security settings take effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeAbilities {
    /// The node's user: only root may become another user.
    pub(super) uid: u32,
    /// Containers have namespaces of their own.
    pub(super) namespaces: bool,
}

/// The fields that are set but have no effect here, each with its path and the reason.
pub(super) fn ignored(pod: &Pod, abilities: NodeAbilities) -> Vec<String> {
    let mut found = Vec::new();
    let mut warn_if = |path: String, set: bool, reason: &str| {
        if set {
            found.push(format!("{path} is ignored: {reason}"));
        }
    };
    let root = abilities.uid == 0;
    let other = |id: Option<i64>| !root && id.is_some_and(|id| id != i64::from(abilities.uid));
    let (user_why, group_why) =
        ("only root can run processes as another user", "only root can change groups");
    let modules = "containers use the machine's security modules";
    if let Some(s) = &spec::spec(pod).security_context {
        let at = |field: &str| format!("spec.securityContext.{field}");
        warn_if(at("runAsUser"), other(s.run_as_user), user_why);
        warn_if(at("runAsGroup"), !root && s.run_as_group.is_some(), group_why);
        warn_if(at("fsGroup"), !root && s.fs_group.is_some(), group_why);
        let groups = s.supplemental_groups.as_ref().is_some_and(|groups| !groups.is_empty());
        warn_if(at("supplementalGroups"), !root && groups, group_why);
        warn_if(at("seLinuxOptions"), s.se_linux_options.is_some(), modules);
        let confined = s.app_armor_profile.as_ref().is_some_and(|p| p.type_ != "Unconfined");
        warn_if(at("appArmorProfile"), confined, modules);
        warn_if(at("windowsOptions"), s.windows_options.is_some(), "this node does not run Windows");
    }
    for (role, container) in spec::all_containers(pod) {
        let Some(s) = &container.security_context else { continue };
        let list = match role {
            spec::Role::Init | spec::Role::Sidecar => "initContainers",
            spec::Role::Ephemeral => "ephemeralContainers",
            spec::Role::App => "containers",
        };
        let at = |field: &str| format!("spec.{list}{{{}}}.securityContext.{field}", container.name);
        warn_if(at("runAsUser"), other(s.run_as_user), user_why);
        warn_if(at("runAsGroup"), !root && s.run_as_group.is_some(), group_why);
        let read_only = s.read_only_root_filesystem == Some(true);
        warn_if(
            at("readOnlyRootFilesystem"),
            read_only && !abilities.namespaces,
            "containers on this node have no namespaces",
        );
        let added = s.capabilities.as_ref().and_then(|c| c.add.as_ref()).is_some_and(|add| !add.is_empty());
        let privileged = s.privileged == Some(true);
        warn_if(at("privileged"), privileged && !root, "only root can add capabilities and show devices");
        warn_if(at("capabilities.add"), added && !root, "only root can add capabilities");
        warn_if(at("seLinuxOptions"), s.se_linux_options.is_some(), modules);
        let confined = s.app_armor_profile.as_ref().is_some_and(|p| p.type_ != "Unconfined");
        warn_if(at("appArmorProfile"), confined, modules);
        warn_if(at("windowsOptions"), s.windows_options.is_some(), "this node does not run Windows");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(of_pod: &serde_json::Value, own: &serde_json::Value) -> Pod {
        let container = json!({"name": "c", "securityContext": own});
        serde_json::from_value(json!({"spec": {"securityContext": of_pod, "containers": [container]}}))
            .unwrap()
    }

    /// POD-16: the container's fields take precedence over the pod's, and groups are added.
    #[test]
    fn a_containers_context_goes_before_its_pods() {
        let pod = pod(
            &json!({"runAsUser": 1000, "runAsGroup": 7, "fsGroup": 2000, "supplementalGroups": [5],
                "supplementalGroupsPolicy": "Strict", "runAsNonRoot": true}),
            &json!({"runAsUser": 33, "privileged": true, "procMount": "Unmasked", "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                "capabilities": {"add": ["KILL"], "drop": ["ALL"]}}),
        );
        let container = &spec::spec(&pod).containers[0];
        assert_eq!(user(&pod, container), (Some(33), Some(7)));
        let expect = Security {
            groups: vec![5, 2000],
            no_image_groups: true,
            read_only_root: true,
            no_new_privileges: true,
            non_root: true,
            privileged: true,
            unmasked: true,
            add_capabilities: vec!["KILL".to_owned()],
            drop_capabilities: vec!["ALL".to_owned()],
            seccomp: Seccomp::Unconfined,
        };
        assert_eq!(security(&pod, container), expect);
    }

    /// The ignored fields depend on the node's abilities; `privileged` is accepted from all users, and ignored for
    /// ordinary ones.
    #[test]
    fn each_field_without_effect_is_reported_once_pod_16() {
        let all = pod(
            &json!({"runAsUser": 1000, "fsGroup": 1, "appArmorProfile": {"type": "RuntimeDefault"}}),
            &json!({"privileged": true, "readOnlyRootFilesystem": true, "capabilities": {"add": ["NET_ADMIN"]},
                "seLinuxOptions": {"level": "s0"}, "appArmorProfile": {"type": "Unconfined"},
                "seccompProfile": {"type": "RuntimeDefault"}}),
        );
        let fields = |uid, namespaces| -> Vec<String> {
            let messages = ignored(&all, NodeAbilities { uid, namespaces });
            messages.iter().filter_map(|text| Some(text.split_once(" is ignored")?.0.to_owned())).collect()
        };
        let always =
            ["spec.securityContext.appArmorProfile", "spec.containers{c}.securityContext.seLinuxOptions"];
        assert_eq!(fields(0, true), always);
        assert_eq!(
            fields(1000, true).len(),
            2 + 3,
            "its own uid is no other, its groups and capabilities are"
        );
        assert!(fields(1000, true).contains(&"spec.containers{c}.securityContext.privileged".to_owned()));
        assert_eq!(fields(1001, false).len(), 2 + 5);
        assert!(
            ignored(&pod(&json!({}), &json!({})), NodeAbilities { uid: 1, namespaces: false }).is_empty()
        );
    }
}
