//! Config maps and secrets.

use super::*;

#[test]
fn config_maps_and_secrets_have_rules_api_8() {
    let large = format!("data: {{a: {}}}", "x".repeat(1024 * 1024 + 1));
    check(
        Kind::ConfigMap,
        &[
            ("data: {a.b-c_D: x}", &[]),
            (
                "data: {../etc/passwd: x}",
                &[
                    "data[../etc/passwd]: Invalid value: \"../etc/passwd\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                    "data[../etc/passwd]: Invalid value: \"../etc/passwd\": must not start with '..'",
                ],
            ),
            (
                "data: {a: x}\nbinaryData: {a: eA==}",
                &["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
            ),
            (&large, &["[]: Too long: may not be more than 1048576 bytes"]),
        ],
    );
    let frozen = "Forbidden: field is immutable when `immutable` is set";
    check_change(
        Kind::ConfigMap,
        &[
            (
                "immutable: true\ndata: {a: v}",
                "data: {a: w}",
                &[&format!("immutable: {frozen}"), &format!("data: {frozen}")],
            ),
            ("data: {a: x}", "immutable: true\ndata: {a: w}", &[]),
        ],
    );
    check(
        Kind::Secret,
        &[
            ("stringData: {a: x}", &[]),
            ("stringData: {'..': x}", &["data[..]: Invalid value: \"..\": must not be '..'"]),
            ("type: kubernetes.io/tls", &["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
            ("type: kubernetes.io/ssh-auth\nstringData: {ssh-privatekey: k}", &[]),
            (
                "type: kubernetes.io/ssh-auth\nstringData: {ssh-privatekey: ''}",
                &["data[ssh-privatekey]: Required value"],
            ),
            ("type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{}'}", &[]),
            (
                "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '[]'}",
                &[
                    "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid type: sequence, expected a map at line 1 column 0",
                ],
            ),
        ],
    );
    check_change(
        Kind::Secret,
        &[("type: a", "type: b", &["type: Invalid value: \"b\": field is immutable"])],
    );
}
