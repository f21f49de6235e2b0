//! Validation of security contexts, of fields for particular operating systems, and of annotations that are older than
//! fields.

use super::*;

#[test]
fn profiles_are_named_where_they_are_the_nodes_own_api_8() {
    let seccomp = |profile: &str| format!("securityContext: {{seccompProfile: {{{profile}}}}}");
    let app_armor = |profile: &str| format!("securityContext: {{appArmorProfile: {{{profile}}}}}");
    let types = "supported values: \"Localhost\", \"RuntimeDefault\", \"Unconfined\"";
    let cases: Vec<(String, Vec<String>)> = vec![
        (seccomp("type: RuntimeDefault"), vec![]),
        (seccomp("type: Localhost, localhostProfile: profiles/a.json"), vec![]),
        (
            seccomp("type: Localhost"),
            vec!["seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost".into()],
        ),
        (
            seccomp("type: Localhost, localhostProfile: ../a"),
            vec!["seccompProfile.localhostProfile: Invalid value: \"../a\": must not contain '..'".into()],
        ),
        (
            seccomp("type: RuntimeDefault, localhostProfile: a"),
            vec!["seccompProfile.localhostProfile: Invalid value: {\"Type\":\"RuntimeDefault\",\"LocalhostProfile\":\"a\"}: can only be set when seccomp type is Localhost".into()],
        ),
        (
            seccomp("type: ''"),
            vec!["seccompProfile.type: Required value: type is required when seccompProfile is set".into()],
        ),
        (seccomp("type: Own"), vec![format!("seccompProfile.type: Unsupported value: \"Own\": {types}")]),
        (app_armor("type: Localhost, localhostProfile: a"), vec![]),
        (
            app_armor("type: Localhost"),
            vec!["appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost".into()],
        ),
        (
            app_armor("type: Localhost, localhostProfile: ' a'"),
            vec!["appArmorProfile.localhostProfile: Invalid value: \" a\": must not be padded with whitespace".into()],
        ),
        (
            app_armor("type: Unconfined, localhostProfile: a"),
            vec!["appArmorProfile.localhostProfile: Invalid value: \"a\": can only be set when AppArmor type is Localhost".into()],
        ),
        (app_armor("type: Own"), vec![format!("appArmorProfile.type: Unsupported value: \"Own\": {types}")]),
    ];
    for (text, expected) in cases {
        let at = |prefix: &str| {
            expected.iter().map(|e| format!("{prefix}securityContext.{e}")).collect::<Vec<_>>()
        };
        let of_pod = at("spec.");
        check_pod(&[(&text, &of_pod.iter().map(String::as_str).collect::<Vec<_>>())]);
        let of_container = at("");
        check_container(&[(&text, &of_container.iter().map(String::as_str).collect::<Vec<_>>())]);
    }
}

#[test]
fn pods_with_users_of_their_own_share_nothing_else_api_8() {
    check_pod(&[
        ("hostPID: true", &[]),
        ("shareProcessNamespace: true", &[]),
        ("hostPID: true\nshareProcessNamespace: false", &[]),
        (
            "hostPID: true\nshareProcessNamespace: true",
            &[
                "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
            ],
        ),
        ("hostUsers: false", &[]),
        ("hostUsers: true\nhostNetwork: true\nhostPID: true\nhostIPC: true", &[]),
        (
            "hostUsers: false\nhostNetwork: true\nhostPID: true\nhostIPC: true",
            &[
                "spec.hostNetwork: Forbidden: when `hostUsers` is false",
                "spec.HostPID: Forbidden: when `hostUsers` is false",
                "spec.HostIPC: Forbidden: when `hostUsers` is false",
            ],
        ),
        ("securityContext: {seLinuxChangePolicy: Recursive, supplementalGroupsPolicy: Strict}", &[]),
        (
            "securityContext: {seLinuxChangePolicy: Some}",
            &[
                "spec.securityContext.seLinuxChangePolicy: Unsupported value: \"Some\": supported values: \"MountOption\", \"Recursive\"",
            ],
        ),
    ]);
    check_container(&[
        ("securityContext: {procMount: Default}", &[]),
        (
            "securityContext: {procMount: Unmasked}",
            &[
                "securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`",
            ],
        ),
        (
            "securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}}",
            &[
                "securityContext: Invalid value: false: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            ],
        ),
        ("securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [NET_ADMIN]}}", &[]),
    ]);
    let block = "spec:\n  hostUsers: false\n  volumes: [{name: v, persistentVolumeClaim: {claimName: v}}]\n  \
        containers: [{name: c, image: i, volumeDevices: [{name: v, devicePath: /dev/v}]}]";
    let no_block = "spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false";
    check(Kind::Pod, &[(block, &[no_block])]);
    let unmasked =
        "spec: {hostUsers: false, containers: [{name: c, image: i, securityContext: {procMount: Unmasked}}]}";
    check(Kind::Pod, &[(unmasked, &[])]);
}

#[test]
fn each_system_has_its_own_fields_api_8() {
    let windows = "cannot be set for a windows pod";
    let pod = |os: &str, more: &str, container: &str| {
        format!(
            "spec: {{os: {{name: {os}}}, {more} containers: [{{name: c, image: i, securityContext: {{{container}}}}}]}}"
        )
    };
    let options = "windowsOptions: {runAsUserName: 'ContainerUser'}";
    let in_pod = |options: &str| format!("securityContext: {{{options}}},");
    for (text, expected) in [
        (pod("linux", &in_pod("runAsUser: 1"), "privileged: true"), vec![]),
        (pod("windows", &in_pod(options), options), vec![]),
        (
            pod("linux", &in_pod(options), options),
            vec![
                "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod".into(),
                "spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod".into(),
            ],
        ),
        (
            pod("windows", "hostPID: true, securityContext: {fsGroup: 1, sysctls: []},", "runAsUser: 1, privileged: false"),
            vec![
                format!("spec.hostPID: Forbidden: {windows}"),
                format!("spec.securityContext.fsGroup: Forbidden: {windows}"),
                format!("spec.containers[0].securityContext.privileged: Forbidden: {windows}"),
                format!("spec.containers[0].securityContext.runAsUser: Forbidden: {windows}"),
            ],
        ),
        (pod("''", "", ""), vec!["spec.os.name: Required value: cannot be empty".into()]),
        (
            pod("plan9", "", ""),
            vec!["spec.os: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\"".into()],
        ),
        (pod("windows", "hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true}},", ""), vec![]),
        (
            pod("windows", &in_pod("windowsOptions: {hostProcess: true}"), "windowsOptions: {hostProcess: false}"),
            vec![
                "spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true".into(),
            ],
        ),
        (
            pod("windows", "", "windowsOptions: {hostProcess: true}"),
            vec!["spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers".into()],
        ),
        (
            pod("windows", "", "windowsOptions: {gmsaCredentialSpec: '', runAsUserName: '...'}"),
            vec![
                "spec.containers[0].securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: \"\": gmsaCredentialSpec cannot be an empty string".into(),
                "spec.containers[0].securityContext.windowsOptions.runAsUserName: Invalid value: \"...\": runAsUserName's User cannot contain only periods or spaces".into(),
            ],
        ),
    ] {
        assert_eq!(messages(&validate_create(&object(Kind::Pod, &text))), expected, "{text}");
    }
}

#[test]
fn old_annotations_are_well_formed_and_agree_with_fields_api_8() {
    let pod = |annotation: &str, more: &str| {
        format!(
            "metadata: {{annotations: {{{annotation}}}}}\nspec: {{containers: [{{name: c, image: i}}]{more}}}"
        )
    };
    let seccomp = "seccomp.security.alpha.kubernetes.io/pod";
    let armor = "container.apparmor.security.beta.kubernetes.io/c";
    let mirror = "kubernetes.io/config.mirror";
    let unconfined =
        ", securityContext: {appArmorProfile: {type: Unconfined}, seccompProfile: {type: Unconfined}}";
    for (text, expected) in [
        (pod(&format!("{seccomp}: runtime/default, {armor}: localhost/a"), ""), vec![]),
        (
            pod(&format!("{seccomp}: mine"), ""),
            vec![format!("metadata.annotations.{seccomp}: Invalid value: \"mine\": must be a valid seccomp profile")],
        ),
        (
            pod(&format!("{armor}x: mine"), ""),
            vec![
                format!("metadata.annotations[{armor}x]: Invalid value: \"cx\": container not found"),
                format!("metadata.annotations[{armor}x]: Invalid value: \"mine\": invalid AppArmor profile name: \"mine\""),
            ],
        ),
        (pod(&format!("{seccomp}: unconfined, {armor}: unconfined"), unconfined), vec![]),
        (
            pod(&format!("{seccomp}: runtime/default, {armor}: runtime/default"), unconfined),
            vec![
                "spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match".into(),
                "spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match".into(),
            ],
        ),
        (pod(&format!("{mirror}: x"), ", nodeName: node-1"), vec![]),
        (
            pod(&format!("{mirror}: x"), ""),
            vec![format!("metadata.annotations[{mirror}]: Invalid value: \"x\": must set spec.nodeName if mirror pod annotation is set")],
        ),
    ] {
        assert_eq!(messages(&validate_create(&object(Kind::Pod, &text))), expected, "{text}");
    }
    let with = |annotation: &str| pod(annotation, ", nodeName: node-1");
    check_change(
        Kind::Pod,
        &[
            (&with("a: b"), &with("a: c"), &[]),
            (
                &with("a: b"),
                &with(&format!("{mirror}: x")),
                &[&format!("metadata.annotations[{mirror}]: Forbidden: may not add mirror pod annotation")],
            ),
            (
                &with(&format!("{armor}: unconfined")),
                &with(&format!("{armor}: runtime/default")),
                &[&format!(
                    "metadata.annotations[{armor}]: Forbidden: may not remove or update AppArmor annotations"
                )],
            ),
        ],
    );
}
