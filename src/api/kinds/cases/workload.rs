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
