//! Config maps and secrets.

use super::*;

#[test]
fn config_maps_and_secrets_have_rules_api_8() {
    check(
        Kind::ConfigMap,
        &r#"
data: {a.b-c_D: x}
data: {../etc/passwd: x}
  ! data[../etc/passwd]: Invalid value: "../etc/passwd": <config-key>
  ! data[../etc/passwd]: Invalid value: "../etc/passwd": must not start with '..'
data: {a: x}\nbinaryData: {a: eA==}
  ! data[a]: Invalid value: "a": duplicate of key present in binaryData
data: {a: <long>}
  ! []: Too long: may not be more than 1048576 bytes
"#
        .replace("<long>", &"x".repeat(1024 * 1024 + 1)),
    );
    check_change(
        Kind::ConfigMap,
        r"
immutable: true\ndata: {a: v}
-> data: {a: w}
  ! immutable: Forbidden: field is immutable when `immutable` is set
  ! data: Forbidden: field is immutable when `immutable` is set
data: {a: x}
-> immutable: true\ndata: {a: w}
",
    );
    check(
        Kind::Secret,
        r#"
stringData: {a: x}
stringData: {'..': x}
  ! data[..]: Invalid value: "..": must not be '..'
type: kubernetes.io/tls
  ! data[tls.crt]: Required value
  ! data[tls.key]: Required value
type: kubernetes.io/ssh-auth\nstringData: {ssh-privatekey: k}
type: kubernetes.io/ssh-auth\nstringData: {ssh-privatekey: ''}
  ! data[ssh-privatekey]: Required value
type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{}'}
type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '[]'}
  ! data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid type: sequence, expected a map at line 1 column 0
"#,
    );
    check_change(
        Kind::Secret,
        r#"
type: a
-> type: b
  ! type: Invalid value: "b": field is immutable
"#,
    );
}
