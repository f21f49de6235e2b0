//! DaemonSets.

use super::*;

const TEMPLATE: &str = "{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}";

#[test]
fn daemon_sets_have_rules_ds_1_api_8() {
    let set = |rest: &str| {
        format!("spec:\n  selector: {{matchLabels: {{a: b}}}}\n  template: {TEMPLATE}\n  {rest}")
    };
    for (rest, expected) in [
        ("", &[][..]),
        ("updateStrategy: {type: OnDelete}", &[]),
        ("updateStrategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 0}}", &[]),
        (
            "updateStrategy: {rollingUpdate: {maxUnavailable: 0}}",
            &[
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
            ],
        ),
        (
            "updateStrategy: {rollingUpdate: {maxSurge: 1}}",
            &[
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
            ],
        ),
        (
            "updateStrategy: {rollingUpdate: {maxSurge: 101%, maxUnavailable: -1}}",
            &[
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0",
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: \"101%\": must not be greater than 100%",
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: \"101%\": may not be set when maxUnavailable is non-zero",
            ],
        ),
        (
            "updateStrategy: {rollingUpdate: {maxUnavailable: few}}",
            &[
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"few\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
            ],
        ),
        (
            "updateStrategy: {type: Slowly}",
            &[
                "spec.updateStrategy: Unsupported value: \"Slowly\": supported values: \"RollingUpdate\", \"OnDelete\"",
            ],
        ),
        (
            "minReadySeconds: -1\n  revisionHistoryLimit: -1",
            &[
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
    ] {
        check(Kind::DaemonSet, &[(&set(rest), expected)]);
    }
    check(
        Kind::DaemonSet,
        &[
            (
                &format!("spec: {{template: {TEMPLATE}}}"),
                &[
                    "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
                ],
            ),
            (
                "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, activeDeadlineSeconds: 5, containers: [{name: c, image: i}]}}}",
                &[
                    "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                    "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported",
                ],
            ),
        ],
    );
}

#[test]
fn a_daemon_sets_selector_stays_ds_1_api_5() {
    let set = |label: &str, image: &str| {
        format!(
            "spec: {{selector: {{matchLabels: {{a: {label}}}}}, template: {{metadata: {{labels: {{a: {label}}}}}, spec: {{containers: [{{name: c, image: {image}}}]}}}}}}"
        )
    };
    check_change(Kind::DaemonSet, &[(&set("b", "i"), &set("b", "j"), &[])]);
    check_change(
        Kind::DaemonSet,
        &[(
            &set("b", "i"),
            &set("c", "i"),
            &["spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable"],
        )],
    );
}

#[test]
fn a_daemon_sets_counts_are_counts_ds_1() {
    let status = |rest: &str| {
        format!(
            "spec: {{selector: {{matchLabels: {{a: b}}}}, template: {TEMPLATE}}}\nstatus: {{currentNumberScheduled: 1, desiredNumberScheduled: 1, numberReady: 1{rest}}}"
        )
    };
    let good = status(", numberMisscheduled: 0");
    check_status(
        Kind::DaemonSet,
        &[
            (&good, &good, &[]),
            (
                &good,
                &status(", numberMisscheduled: -1, numberUnavailable: -2"),
                &[
                    "status.numberMisscheduled: Invalid value: -1: must be greater than or equal to 0",
                    "status.numberUnavailable: Invalid value: -2: must be greater than or equal to 0",
                ],
            ),
            (
                &status(", numberMisscheduled: 0, collisionCount: 2"),
                &status(", numberMisscheduled: 0, collisionCount: 1"),
                &["status.collisionCount: Invalid value: 1: cannot be decremented"],
            ),
            (
                &status(", numberMisscheduled: 0, collisionCount: 2"),
                &good,
                &["status.collisionCount: Invalid value: 0: cannot be decremented"],
            ),
        ],
    );
}
