//! Snapshots of the whole cluster, and restores.

use super::*;

#[test]
fn restores_name_a_snapshot_safe_8() {
    let immutable: &[&str] = &["spec: Forbidden: field is immutable"];
    check(
        Kind::ClusterRestore,
        &[
            ("spec: {snapshot: before-lunch, claims: true, gracePeriodSeconds: 0}", &[]),
            ("spec: {}", &["spec.snapshot: Required value"]),
            (
                "spec: {snapshot: a, gracePeriodSeconds: 86401}",
                &["spec.gracePeriodSeconds: Invalid value: 86401: must be between 0 and 86400, inclusive"],
            ),
            (
                "spec: {snapshot: a, gracePeriodSeconds: -1}",
                &["spec.gracePeriodSeconds: Invalid value: -1: must be between 0 and 86400, inclusive"],
            ),
        ],
    );
    check_change(Kind::ClusterRestore, &[("spec: {snapshot: a}", "spec: {snapshot: b}", immutable)]);
    check(Kind::ClusterSnapshot, &[("spec: {}", &[]), ("spec: {claims: true}", &[])]);
    check_change(Kind::ClusterSnapshot, &[("spec: {claims: true}", "spec: {}", immutable)]);
}
