//! Validation of security contexts, of fields for particular operating systems, and of annotations that are older than
//! fields.

use super::*;

#[test]
fn profiles_are_named_where_they_are_the_nodes_own_api_8() {
    let profiles = r#"
securityContext: {seccompProfile: {type: RuntimeDefault}}
securityContext: {seccompProfile: {type: Localhost, localhostProfile: profiles/a.json}}
securityContext: {seccompProfile: {type: Localhost}}
  ! .securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost
securityContext: {seccompProfile: {type: Localhost, localhostProfile: ../a}}
  ! .securityContext.seccompProfile.localhostProfile: Invalid value: "../a": must not contain '..'
securityContext: {seccompProfile: {type: RuntimeDefault, localhostProfile: a}}
  ! .securityContext.seccompProfile.localhostProfile: Invalid value: {"Type":"RuntimeDefault","LocalhostProfile":"a"}: can only be set when seccomp type is Localhost
securityContext: {seccompProfile: {type: ''}}
  ! .securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set
securityContext: {seccompProfile: {type: Own}}
  ! .securityContext.seccompProfile.type: Unsupported value: "Own": supported values: "Localhost", "RuntimeDefault", "Unconfined"
securityContext: {appArmorProfile: {type: Localhost, localhostProfile: a}}
securityContext: {appArmorProfile: {type: Localhost}}
  ! .securityContext.appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost
securityContext: {appArmorProfile: {type: Localhost, localhostProfile: ' a'}}
  ! .securityContext.appArmorProfile.localhostProfile: Invalid value: " a": must not be padded with whitespace
securityContext: {appArmorProfile: {type: Unconfined, localhostProfile: a}}
  ! .securityContext.appArmorProfile.localhostProfile: Invalid value: "a": can only be set when AppArmor type is Localhost
securityContext: {appArmorProfile: {type: Own}}
  ! .securityContext.appArmorProfile.type: Unsupported value: "Own": supported values: "Localhost", "RuntimeDefault", "Unconfined"
"#;
    check_pod(profiles);
    check_container(profiles);
}

#[test]
fn pods_with_users_of_their_own_share_nothing_else_api_8() {
    check_pod(
        r#"
hostPID: true
shareProcessNamespace: true
hostPID: true\nshareProcessNamespace: false
hostPID: true\nshareProcessNamespace: true
  ! .securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled
hostUsers: false
hostUsers: true\nhostNetwork: true\nhostPID: true\nhostIPC: true
hostUsers: false\nhostNetwork: true\nhostPID: true\nhostIPC: true
  ! .hostNetwork: Forbidden: when `hostUsers` is false
  ! .HostPID: Forbidden: when `hostUsers` is false
  ! .HostIPC: Forbidden: when `hostUsers` is false
securityContext: {seLinuxChangePolicy: Recursive, supplementalGroupsPolicy: Strict}
securityContext: {seLinuxChangePolicy: Some}
  ! .securityContext.seLinuxChangePolicy: Unsupported value: "Some": supported values: "MountOption", "Recursive"
"#,
    );
    check_container(
        r#"
securityContext: {procMount: Default}
securityContext: {procMount: Unmasked}
  ! .securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`
securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}}
  ! .securityContext: Invalid value: false: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN
securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [NET_ADMIN]}}
"#,
    );
    check(
        Kind::Pod,
        r"
spec:\n  hostUsers: false\n  volumes: [{name: v, persistentVolumeClaim: {claimName: v}}]\n  containers: [{name: c, image: i, volumeDevices: [{name: v, devicePath: /dev/v}]}]
  ! spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false
",
    );
    check(
        Kind::Pod,
        r"
spec: {hostUsers: false, containers: [{name: c, image: i, securityContext: {procMount: Unmasked}}]}
",
    );
}

#[test]
fn each_system_has_its_own_fields_api_8() {
    check(
        Kind::Pod,
        r#"
spec: {os: {name: linux}, securityContext: {runAsUser: 1}, containers: [{name: c, image: i, securityContext: {privileged: true}}]}
spec: {os: {name: windows}, securityContext: {windowsOptions: {runAsUserName: 'ContainerUser'}}, containers: [{name: c, image: i, securityContext: {windowsOptions: {runAsUserName: 'ContainerUser'}}}]}
spec: {os: {name: linux}, securityContext: {windowsOptions: {runAsUserName: 'ContainerUser'}}, containers: [{name: c, image: i, securityContext: {windowsOptions: {runAsUserName: 'ContainerUser'}}}]}
  ! spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod
  ! spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod
spec: {os: {name: windows}, hostPID: true, securityContext: {fsGroup: 1, sysctls: []}, containers: [{name: c, image: i, securityContext: {runAsUser: 1, privileged: false}}]}
  ! spec.hostPID: Forbidden: cannot be set for a windows pod
  ! spec.securityContext.fsGroup: Forbidden: cannot be set for a windows pod
  ! spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod
  ! spec.containers[0].securityContext.runAsUser: Forbidden: cannot be set for a windows pod
spec: {os: {name: ''},  containers: [{name: c, image: i, securityContext: {}}]}
  ! spec.os.name: Required value: cannot be empty
spec: {os: {name: plan9},  containers: [{name: c, image: i, securityContext: {}}]}
  ! spec.os: Unsupported value: "plan9": supported values: "linux", "windows"
spec: {os: {name: windows}, hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true}}, containers: [{name: c, image: i, securityContext: {}}]}
spec: {os: {name: windows}, securityContext: {windowsOptions: {hostProcess: true}}, containers: [{name: c, image: i, securityContext: {windowsOptions: {hostProcess: false}}}]}
  ! spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true
spec: {os: {name: windows},  containers: [{name: c, image: i, securityContext: {windowsOptions: {hostProcess: true}}}]}
  ! spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers
spec: {os: {name: windows},  containers: [{name: c, image: i, securityContext: {windowsOptions: {gmsaCredentialSpec: '', runAsUserName: '...'}}}]}
  ! spec.containers[0].securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty string
  ! spec.containers[0].securityContext.windowsOptions.runAsUserName: Invalid value: "...": runAsUserName's User cannot contain only periods or spaces
"#,
    );
}

#[test]
fn old_annotations_are_well_formed_and_agree_with_fields_api_8() {
    check(
        Kind::Pod,
        r#"
metadata: {annotations: {seccomp.security.alpha.kubernetes.io/pod: runtime/default, container.apparmor.security.beta.kubernetes.io/c: localhost/a}}\nspec: {containers: [{name: c, image: i}]}
metadata: {annotations: {seccomp.security.alpha.kubernetes.io/pod: mine}}\nspec: {containers: [{name: c, image: i}]}
  ! metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "mine": must be a valid seccomp profile
metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/cx: mine}}\nspec: {containers: [{name: c, image: i}]}
  ! metadata.annotations[container.apparmor.security.beta.kubernetes.io/cx]: Invalid value: "cx": container not found
  ! metadata.annotations[container.apparmor.security.beta.kubernetes.io/cx]: Invalid value: "mine": invalid AppArmor profile name: "mine"
metadata: {annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined, container.apparmor.security.beta.kubernetes.io/c: unconfined}}\nspec: {containers: [{name: c, image: i}], securityContext: {appArmorProfile: {type: Unconfined}, seccompProfile: {type: Unconfined}}}
metadata: {annotations: {seccomp.security.alpha.kubernetes.io/pod: runtime/default, container.apparmor.security.beta.kubernetes.io/c: runtime/default}}\nspec: {containers: [{name: c, image: i}], securityContext: {appArmorProfile: {type: Unconfined}, seccompProfile: {type: Unconfined}}}
  ! spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match
  ! spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match
metadata: {annotations: {kubernetes.io/config.mirror: x}}\nspec: {containers: [{name: c, image: i}], nodeName: node-1}
metadata: {annotations: {kubernetes.io/config.mirror: x}}\nspec: {containers: [{name: c, image: i}]}
  ! metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set
"#,
    );
    check_change(
        Kind::Pod,
        r"
metadata: {annotations: {a: b}}\nspec: {containers: [{name: c, image: i}], nodeName: node-1}
-> metadata: {annotations: {a: c}}\nspec: {containers: [{name: c, image: i}], nodeName: node-1}
metadata: {annotations: {a: b}}\nspec: {containers: [{name: c, image: i}], nodeName: node-1}
-> metadata: {annotations: {kubernetes.io/config.mirror: x}}\nspec: {containers: [{name: c, image: i}], nodeName: node-1}
  ! metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation
metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/c: unconfined}}\nspec: {containers: [{name: c, image: i}], nodeName: node-1}
-> metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/c: runtime/default}}\nspec: {containers: [{name: c, image: i}], nodeName: node-1}
  ! metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: Forbidden: may not remove or update AppArmor annotations
",
    );
}
