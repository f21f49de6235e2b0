//! Names, labels, annotations, owners.

use super::*;

#[test]
fn metadata_has_rules_of_its_own_api_5() {
    check(
        Kind::ConfigMap,
        &r#"
<empty>
metadata: {name: '', generateName: A-}
  ! metadata.generateName: Invalid value: "A-": <subdomain>
  ! metadata.name: Required value: name or generateName is required
metadata: {name: a-, generateName: a-}
  ! metadata.name: Invalid value: "a-": <subdomain>
metadata: {annotations: {a: <long>}}
  ! metadata.annotations: Too long: may not be more than 262144 bytes
metadata: {labels: {a b: c, d: e f}}
  ! metadata.labels: Invalid value: "a b": <qualified-name>
  ! metadata.labels[d]: Invalid value: "e f": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
metadata: {finalizers: [mine, a/b, orphan]}
  ! metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified
metadata: {finalizers: [foregroundDeletion, a/b, orphan]}
  ! metadata.finalizers: Invalid value: ["foregroundDeletion","a/b","orphan"]: finalizer orphan and foregroundDeletion cannot be both set
metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: ''}]}
  ! metadata.ownerReferences[0].uid: Invalid value: "": must not be empty
"#
        .replace("<long>", &"x".repeat(256 * 1024)),
    );
    check(
        Kind::Node,
        r"
metadata: {namespace: a}
  ! metadata.namespace: Forbidden: not allowed on this type
",
    );
    check(
        Kind::Service,
        r#"
metadata: {name: 0a}\nspec: {ports: [{port: 80}]}
metadata: {name: a.b}\nspec: {ports: [{port: 80}]}
  ! metadata.name: Invalid value: "a.b": <dns-label>
"#,
    );
    check_change(
        Kind::ConfigMap,
        r#"
metadata: {name: a}
-> metadata: {name: b}
  ! metadata.name: Invalid value: "b": field is immutable
metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a/b]}
-> metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a/b, c/d]}
  ! metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"c/d"}
"#,
    );
}
