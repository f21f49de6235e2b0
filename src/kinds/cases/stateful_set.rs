//! Validation of StatefulSets, ReplicationControllers and ControllerRevisions.

use super::*;

fn set(rest: &str) -> String {
    format!(
        "spec:\n  selector: {{matchLabels: {{a: b}}}}\n  serviceName: s\n  template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}\n  {rest}"
    )
}

#[test]
fn stateful_sets_have_rules_api_8() {
    for (rest, expected) in [
        ("", &[][..]),
        (
            "podManagementPolicy: Sometimes",
            &["spec.podManagementPolicy: Invalid value: \"Sometimes\": must be 'OrderedReady' or 'Parallel'"],
        ),
        (
            "updateStrategy: {type: Slowly}",
            &[
                "spec.updateStrategy: Invalid value: apps.StatefulSetUpdateStrategy{Type:\"Slowly\", RollingUpdate:(*apps.RollingUpdateStatefulSetStrategy)(nil)}: must be 'RollingUpdate' or 'OnDelete'",
            ],
        ),
        (
            "updateStrategy: {type: OnDelete, rollingUpdate: {partition: 2}}",
            &[
                "spec.updateStrategy.rollingUpdate: Invalid value: apps.RollingUpdateStatefulSetStrategy{Partition:2, MaxUnavailable:(*intstr.IntOrString)(nil)}: only allowed for updateStrategy 'RollingUpdate'",
            ],
        ),
        (
            "updateStrategy: {rollingUpdate: {partition: -1, maxUnavailable: 0}}",
            &[
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0",
                "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            "updateStrategy: {rollingUpdate: {maxUnavailable: 101%}}",
            &[
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        ),
        (
            "persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}",
            &[
                "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"Keep\": supported values: \"Retain\", \"Delete\"",
            ],
        ),
        (
            "replicas: -1\n  minReadySeconds: -2\n  ordinals: {start: -3}\n  revisionHistoryLimit: -4",
            &[
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
                "spec.ordinals.start: Invalid value: -3: must be greater than or equal to 0",
                "spec.revisionHistoryLimit: Invalid value: -4: must be greater than or equal to 0",
            ],
        ),
    ] {
        check(Kind::StatefulSet, &[(&set(rest), expected)]);
    }
    let named = |name: &str| format!("metadata: {{name: {name}}}\n{}", set(""));
    check(
        Kind::StatefulSet,
        &[
            (&named("web-1"), &[]),
            (
                &named("web.example"),
                &[&format!("metadata.name: Invalid value: \"web.example\": {DNS_LABEL}")],
            ),
        ],
    );
    // A set that is older than the rule can still be changed, for example before its deletion.
    check_change(Kind::StatefulSet, &[(&named("web.example"), &named("web.example"), &[])]);
    check(
        Kind::StatefulSet,
        &[
            (
                "spec: {serviceName: Web, selector: {}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, activeDeadlineSeconds: 5, containers: [{name: c, image: i}]}}}",
                &[
                    "spec.selector: Required value",
                    "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
                    "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                    "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported",
                    "spec.serviceName: Invalid value: \"Web\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                ],
            ),
            // A claim template is a volume of the pods and replaces a volume with the same name.
            (
                "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {volumes: [{name: www, emptyDir: {}}], containers: [{name: c, image: i, volumeMounts: [{name: www, mountPath: /w}, {name: log, mountPath: /l}]}]}}, volumeClaimTemplates: [{metadata: {name: www}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}",
                &["spec.template.spec.containers[0].volumeMounts[1].name: Not found: \"log\""],
            ),
            (
                &set(
                    "volumeClaimTemplates: [{spec: {accessModes: [Often], resources: {requests: {storage: 0}}}}]",
                ),
                &[
                    "spec.volumeClaimTemplates[0].metadata.name: Required value",
                    "spec.volumeClaimTemplates[0].spec.accessModes: Unsupported value: \"Often\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                    "spec.volumeClaimTemplates[0].spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
                ],
            ),
        ],
    );
}

#[test]
fn a_stateful_set_keeps_what_its_pods_are_api_8() {
    const FORBIDDEN: &str = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    let plain = set("");
    for (rest, expected) in [
        ("replicas: 5\n  minReadySeconds: 3\n  ordinals: {start: 1}\n  revisionHistoryLimit: 1", &[][..]),
        ("updateStrategy: {type: OnDelete}", &[]),
        ("persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}", &[]),
        ("podManagementPolicy: Parallel", &[FORBIDDEN]),
        ("volumeClaimTemplates: [{metadata: {name: www}, spec: {}}]", &[FORBIDDEN]),
    ] {
        check_change(Kind::StatefulSet, &[(&plain, &set(rest), expected)]);
    }
    check_change(
        Kind::StatefulSet,
        &[
            (&plain, &plain.replace("serviceName: s", "serviceName: t"), &[FORBIDDEN]),
            (&plain, &plain.replace("a: b", "a: c"), &[FORBIDDEN]),
            (&plain, &plain.replace("image: i", "image: j"), &[]),
        ],
    );
}

#[test]
fn a_stateful_sets_status_adds_up_api_8() {
    let status = |text: &str| object(Kind::StatefulSet, &format!("{}\nstatus: {{{text}}}", set("")));
    for (old, new, expected) in [
        ("replicas: 3", "replicas: 3, readyReplicas: 3, availableReplicas: 2, collisionCount: 1", &[][..]),
        (
            "replicas: 1, collisionCount: 2",
            "replicas: 1, readyReplicas: 2, currentReplicas: -1, availableReplicas: 3, collisionCount: 1",
            &[
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than status.readyReplicas",
                "status.collisionCount: Invalid value: 1: cannot be decremented",
            ],
        ),
    ] {
        assert_eq!(messages(&validate_status_update(&status(new), &status(old))), *expected, "{new}");
    }
}

#[test]
fn replication_controllers_have_rules_api_8() {
    let template = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}";
    check(
        Kind::ReplicationController,
        &[
            // A missing selector defaults to the template's labels.
            (&format!("spec: {{{template}}}"), &[]),
            (
                &format!("spec: {{replicas: -1, minReadySeconds: -1, selector: {{a: c}}, {template}}}"),
                &[
                    "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                    "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
                ],
            ),
            (
                "spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: OnFailure, activeDeadlineSeconds: 5, containers: [{name: c, image: i}]}}}",
                &[
                    "spec.template.spec.restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
                    "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported",
                ],
            ),
        ],
    );
    let status = object(
        Kind::ReplicationController,
        &format!("spec: {{{template}}}\nstatus: {{replicas: 1, readyReplicas: 1, availableReplicas: 2}}"),
    );
    assert_eq!(
        messages(&validate_status_update(&status, &status)),
        [
            "status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas",
        ]
    );
}

#[test]
fn a_revision_holds_something_that_never_changes_api_8() {
    check(
        Kind::ControllerRevision,
        &[
            ("{revision: 1, data: {spec: {}}}", &[]),
            (
                "{revision: -1, data: null}",
                &[
                    "data: Required value: data is mandatory",
                    "revision: Invalid value: -1: must be greater than or equal to 0",
                ],
            ),
        ],
    );
    check_change(
        Kind::ControllerRevision,
        &[
            ("{revision: 1, data: {a: b}}", "{revision: 2, data: {a: b}}", &[]),
            (
                "{revision: 1, data: {a: b}}",
                "{revision: 1, data: {a: c}}",
                &["data: Invalid value: {\"a\":\"c\"}: field is immutable"],
            ),
        ],
    );
}
