//! Deployments.

use super::*;

#[test]
fn deployments_have_rules_api_8() {
    let deployment = |rest: &str| {
        format!(
            "spec:\n  selector: {{matchLabels: {{a: b}}}}\n  template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}\n  {rest}"
        )
    };
    for (rest, expected) in [
        ("", &[][..]),
        (
            "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}",
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
            ],
        ),
        (
            "strategy: {rollingUpdate: {maxSurge: 0%, maxUnavailable: 0}}",
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
            ],
        ),
        (
            "strategy: {rollingUpdate: {maxSurge: 25, maxUnavailable: 101%}}",
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        ),
        (
            "strategy: {rollingUpdate: {maxSurge: ten, maxUnavailable: -1}}",
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0",
                "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"ten\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            ],
        ),
        (
            "strategy: {type: Recreate, rollingUpdate: {}}",
            &[
                "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
            ],
        ),
        (
            "strategy: {type: Slowly}",
            &[
                "spec.strategy: Unsupported value: \"Slowly\": supported values: \"Recreate\", \"RollingUpdate\"",
            ],
        ),
        (
            "minReadySeconds: -1",
            &["spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            "minReadySeconds: 5\n  progressDeadlineSeconds: 5",
            &["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
        ),
    ] {
        check(Kind::Deployment, &[(&deployment(rest), expected)]);
    }
    check(
        Kind::Deployment,
        &[(
            "spec: {template: {metadata: {labels: {a: b}}, spec: {activeDeadlineSeconds: 5, containers: [{name: c, image: i}]}}}",
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            ],
        )],
    );
    check(
        Kind::ReplicaSet,
        &[(
            "spec: {replicas: -2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}",
            &[
                "spec.replicas: Invalid value: -2: must be greater than or equal to 0",
                "spec.template.spec.containers: Required value",
            ],
        )],
    );
}

#[test]
fn counts_in_the_status_of_a_deployment_fit_api_8() {
    let at_most = |field: &str, value: i32| {
        format!("status.{field}: Invalid value: {value}: cannot be greater than status.replicas")
    };
    let negative =
        |field: &str| format!("status.{field}: Invalid value: -1: must be greater than or equal to 0");
    let old = "status: {replicas: 1, collisionCount: 2}";
    for (kind, new, expected) in [
        (
            Kind::Deployment,
            "{replicas: 3, updatedReplicas: 3, readyReplicas: 2, availableReplicas: 2, collisionCount: 2, observedGeneration: 1}",
            vec![],
        ),
        (Kind::Deployment, "{collisionCount: 3}", vec![]),
        (
            Kind::Deployment,
            "{observedGeneration: -1, unavailableReplicas: -1, collisionCount: -1}",
            vec![
                negative("observedGeneration"),
                negative("unavailableReplicas"),
                negative("collisionCount"),
                "status.collisionCount: Invalid value: -1: cannot be decremented".into(),
            ],
        ),
        (
            Kind::Deployment,
            "{replicas: 1}",
            vec!["status.collisionCount: Invalid value: 0: cannot be decremented".into()],
        ),
        (
            Kind::Deployment,
            "{replicas: 1, updatedReplicas: 2, availableReplicas: 1, collisionCount: 2}",
            vec![
                at_most("updatedReplicas", 2),
                "status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas".into(),
            ],
        ),
        (Kind::ReplicaSet, "{replicas: 1, observedGeneration: -1}", vec![negative("observedGeneration")]),
        (
            Kind::ReplicaSet,
            "{replicas: 1, fullyLabeledReplicas: 2}",
            vec![at_most("fullyLabeledReplicas", 2)],
        ),
        (
            Kind::ReplicationController,
            "{replicas: 1, observedGeneration: -1}",
            vec![negative("observedGeneration")],
        ),
    ] {
        let new = object(kind, &format!("status: {new}"));
        assert_eq!(messages(&validate_status_update(&new, &object(kind, old))), expected, "{kind:?}");
    }
}
