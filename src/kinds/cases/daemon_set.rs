//! DaemonSets.

use super::*;

#[test]
fn daemon_sets_have_rules_ds_1_api_8() {
    Template::new(
        Kind::DaemonSet,
        "spec:\n  selector: {matchLabels: {a: b}}\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n  …",
        "spec",
    )
    .check(
        r#"
<empty>
updateStrategy: {type: OnDelete}
updateStrategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 0}}
updateStrategy: {rollingUpdate: {maxUnavailable: 0}}
  ! .updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0
updateStrategy: {rollingUpdate: {maxSurge: 1}}
  ! .updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero
updateStrategy: {rollingUpdate: {maxSurge: 101%, maxUnavailable: -1}}
  ! .updateStrategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0
  ! .updateStrategy.rollingUpdate.maxSurge: Invalid value: "101%": must not be greater than 100%
  ! .updateStrategy.rollingUpdate.maxSurge: Invalid value: "101%": may not be set when maxUnavailable is non-zero
updateStrategy: {rollingUpdate: {maxUnavailable: few}}
  ! .updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "few": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')
  ! .updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0
updateStrategy: {type: Slowly}
  ! .updateStrategy: Unsupported value: "Slowly": supported values: "RollingUpdate", "OnDelete"
minReadySeconds: -1\nrevisionHistoryLimit: -1
  ! .minReadySeconds: Invalid value: -1: must be greater than or equal to 0
  ! .revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0
"#,
    );
    check(
        Kind::DaemonSet,
        r#"
spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
  ! spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, activeDeadlineSeconds: 5, containers: [{name: c, image: i}]}}}
  ! spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"
  ! spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported
"#,
    );
}

#[test]
fn a_daemon_sets_selector_stays_ds_1_api_5() {
    check_change(
        Kind::DaemonSet,
        r#"
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
-> spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: j}]}}}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
-> spec: {selector: {matchLabels: {a: c}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: i}]}}}
  ! spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable
"#,
    );
}

#[test]
fn a_daemon_sets_counts_are_counts_ds_1() {
    Template::new(
        Kind::DaemonSet,
        "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\nstatus: {currentNumberScheduled: 1, desiredNumberScheduled: 1, numberReady: 1, …}",
        "status",
    )
    .check_status(
        r"
numberMisscheduled: 0
-> numberMisscheduled: 0
numberMisscheduled: 0
-> numberMisscheduled: -1, numberUnavailable: -2
  ! .numberMisscheduled: Invalid value: -1: must be greater than or equal to 0
  ! .numberUnavailable: Invalid value: -2: must be greater than or equal to 0
numberMisscheduled: 0, collisionCount: 2
-> numberMisscheduled: 0, collisionCount: 1
  ! .collisionCount: Invalid value: 1: cannot be decremented
numberMisscheduled: 0, collisionCount: 2
-> numberMisscheduled: 0
  ! .collisionCount: Invalid value: 0: cannot be decremented
",
    );
}
