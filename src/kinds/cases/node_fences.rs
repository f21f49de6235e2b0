//! Validation of node fences.

use super::*;

#[test]
fn fences_say_why_and_no_more_safe_5() {
    let long = format!("spec: {{reason: {}}}", "x".repeat(1025));
    check(
        Kind::NodeFence,
        &[
            ("spec: {}", &[]),
            ("spec: {reason: it hangs}", &[]),
            (&long, &["spec.reason: Too long: may not be more than 1024 bytes"]),
        ],
    );
    let immutable: &[&str] = &["spec: Forbidden: field is immutable"];
    check_change(Kind::NodeFence, &[("spec: {reason: a}", "spec: {reason: b}", immutable)]);
}
