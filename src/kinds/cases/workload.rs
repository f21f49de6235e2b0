//! Deployments.

use super::*;

#[test]
fn deployments_have_rules_api_8() {
    Template::new(
        Kind::Deployment,
        "spec:\n  selector: {matchLabels: {a: b}}\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n  …",
        "spec",
    )
    .check(
        r#"
<empty>
strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}
  ! .strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0
strategy: {rollingUpdate: {maxSurge: 0%, maxUnavailable: 0}}
  ! .strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0
strategy: {rollingUpdate: {maxSurge: 25, maxUnavailable: 101%}}
  ! .strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%
strategy: {rollingUpdate: {maxSurge: ten, maxUnavailable: -1}}
  ! .strategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0
  ! .strategy.rollingUpdate.maxSurge: Invalid value: "ten": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')
strategy: {type: Recreate, rollingUpdate: {}}
  ! .strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'
strategy: {type: Slowly}
  ! .strategy: Unsupported value: "Slowly": supported values: "Recreate", "RollingUpdate"
minReadySeconds: -1
  ! .minReadySeconds: Invalid value: -1: must be greater than or equal to 0
minReadySeconds: 5\nprogressDeadlineSeconds: 5
  ! .progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds
"#,
    );
    check(
        Kind::Deployment,
        r#"
spec: {template: {metadata: {labels: {a: b}}, spec: {activeDeadlineSeconds: 5, containers: [{name: c, image: i}]}}}
  ! spec.selector: Required value
  ! spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`
  ! spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported
"#,
    );
    check(
        Kind::ReplicaSet,
        r"
spec: {replicas: -2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}
  ! spec.replicas: Invalid value: -2: must be greater than or equal to 0
  ! spec.template.spec.containers: Required value
",
    );
}

#[test]
fn counts_in_the_status_of_a_deployment_fit_api_8() {
    Template::new(Kind::Deployment, "status: {…}", "status").check_status(
        r"
replicas: 1, collisionCount: 2
-> replicas: 3, updatedReplicas: 3, readyReplicas: 2, availableReplicas: 2, collisionCount: 2, observedGeneration: 1
replicas: 1, collisionCount: 2
-> collisionCount: 3
replicas: 1, collisionCount: 2
-> observedGeneration: -1, unavailableReplicas: -1, collisionCount: -1
  ! .observedGeneration: Invalid value: -1: must be greater than or equal to 0
  ! .unavailableReplicas: Invalid value: -1: must be greater than or equal to 0
  ! .collisionCount: Invalid value: -1: must be greater than or equal to 0
  ! .collisionCount: Invalid value: -1: cannot be decremented
replicas: 1, collisionCount: 2
-> replicas: 1
  ! .collisionCount: Invalid value: 0: cannot be decremented
replicas: 1, collisionCount: 2
-> replicas: 1, updatedReplicas: 2, availableReplicas: 1, collisionCount: 2
  ! .updatedReplicas: Invalid value: 2: cannot be greater than status.replicas
  ! .availableReplicas: Invalid value: 1: cannot be greater than readyReplicas
",
    );
    Template::new(Kind::ReplicaSet, "status: {…}", "status").check_status(
        r"
replicas: 1, collisionCount: 2
-> replicas: 1, observedGeneration: -1
  ! .observedGeneration: Invalid value: -1: must be greater than or equal to 0
replicas: 1, collisionCount: 2
-> replicas: 1, fullyLabeledReplicas: 2
  ! .fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas
",
    );
    Template::new(Kind::ReplicationController, "status: {…}", "status").check_status(
        r"
replicas: 1, collisionCount: 2
-> replicas: 1, observedGeneration: -1
  ! .observedGeneration: Invalid value: -1: must be greater than or equal to 0
",
    );
}
