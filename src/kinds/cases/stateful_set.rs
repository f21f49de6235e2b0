//! Validation of StatefulSets, ReplicationControllers and ControllerRevisions.

use super::*;

const SET: Template = Template::new(
    Kind::StatefulSet,
    "spec:\n  selector: {matchLabels: {a: b}}\n  serviceName: s\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n  …",
    "spec",
);

#[test]
fn stateful_sets_have_rules_api_8() {
    SET.check(
        r#"
<empty>
podManagementPolicy: Sometimes
  ! .podManagementPolicy: Invalid value: "Sometimes": must be 'OrderedReady' or 'Parallel'
updateStrategy: {type: Slowly}
  ! .updateStrategy: Invalid value: apps.StatefulSetUpdateStrategy{Type:"Slowly", RollingUpdate:(*apps.RollingUpdateStatefulSetStrategy)(nil)}: must be 'RollingUpdate' or 'OnDelete'
updateStrategy: {type: OnDelete, rollingUpdate: {partition: 2}}
  ! .updateStrategy.rollingUpdate: Invalid value: apps.RollingUpdateStatefulSetStrategy{Partition:2, MaxUnavailable:(*intstr.IntOrString)(nil)}: only allowed for updateStrategy 'RollingUpdate'
updateStrategy: {rollingUpdate: {partition: -1, maxUnavailable: 0}}
  ! .updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0
  ! .updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0
updateStrategy: {rollingUpdate: {maxUnavailable: 101%}}
  ! .updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%
persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}
  ! .persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Keep": supported values: "Retain", "Delete"
replicas: -1\nminReadySeconds: -2\nordinals: {start: -3}\nrevisionHistoryLimit: -4
  ! .replicas: Invalid value: -1: must be greater than or equal to 0
  ! .minReadySeconds: Invalid value: -2: must be greater than or equal to 0
  ! .ordinals.start: Invalid value: -3: must be greater than or equal to 0
  ! .revisionHistoryLimit: Invalid value: -4: must be greater than or equal to 0
"#,
    );
    let named = format!("metadata: {{name: …}}\n{}", SET.fill(""));
    let named = Template::new(Kind::StatefulSet, &named, "metadata.name");
    named.check("web-1\nweb.example\n  ! : Invalid value: \"web.example\": <dns-label>");
    // A set that is older than the rule can still be changed, for example before its deletion.
    named.check_change("web.example\n-> web.example");
    check(
        Kind::StatefulSet,
        r#"
spec: {serviceName: Web, selector: {}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, activeDeadlineSeconds: 5, containers: [{name: c, image: i}]}}}
  ! spec.selector: Required value
  ! spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`
  ! spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"
  ! spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported
  ! spec.serviceName: Invalid value: "Web": <dns-label>
# A claim template is a volume of the pods and replaces a volume with the same name.
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {volumes: [{name: www, emptyDir: {}}], containers: [{name: c, image: i, volumeMounts: [{name: www, mountPath: /w}, {name: log, mountPath: /l}]}]}}, volumeClaimTemplates: [{metadata: {name: www}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}
  ! spec.template.spec.containers[0].volumeMounts[1].name: Not found: "log"
"#,
    );
    SET.check(
        r#"
volumeClaimTemplates: [{spec: {accessModes: [Often], resources: {requests: {storage: 0}}}}]
  ! .volumeClaimTemplates[0].metadata.name: Required value
  ! .volumeClaimTemplates[0].spec.accessModes: Unsupported value: "Often": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
  ! .volumeClaimTemplates[0].spec.resources[storage]: Invalid value: "0": must be greater than zero
"#,
    );
}

#[test]
fn a_stateful_set_keeps_what_its_pods_are_api_8() {
    const OTHERS: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    SET.check_change(
        &r"
<empty>
-> replicas: 5\nminReadySeconds: 3\nordinals: {start: 1}\nrevisionHistoryLimit: 1
<empty>
-> updateStrategy: {type: OnDelete}
<empty>
-> persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}
<empty>
-> podManagementPolicy: Parallel
  ! : Forbidden: <others>
<empty>
-> volumeClaimTemplates: [{metadata: {name: www}, spec: {}}]
  ! : Forbidden: <others>
"
        .replace("<others>", OTHERS),
    );
    check_change(
        Kind::StatefulSet,
        &r"
spec:\n  selector: {matchLabels: {a: b}}\n  serviceName: s\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
-> spec:\n  selector: {matchLabels: {a: b}}\n  serviceName: t\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
  ! spec: Forbidden: <others>
spec:\n  selector: {matchLabels: {a: b}}\n  serviceName: s\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
-> spec:\n  selector: {matchLabels: {a: c}}\n  serviceName: s\n  template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: i}]}}
  ! spec: Forbidden: <others>
spec:\n  selector: {matchLabels: {a: b}}\n  serviceName: s\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
-> spec:\n  selector: {matchLabels: {a: b}}\n  serviceName: s\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: j}]}}
"
        .replace("<others>", OTHERS),
    );
}

#[test]
fn a_stateful_sets_status_adds_up_api_8() {
    Template::new(Kind::StatefulSet, &format!("{}\nstatus: {{…}}", SET.fill("")), "status").check_status(
        r"
replicas: 3
-> replicas: 3, readyReplicas: 3, availableReplicas: 2, collisionCount: 1
replicas: 1, collisionCount: 2
-> replicas: 1, readyReplicas: 2, currentReplicas: -1, availableReplicas: 3, collisionCount: 1
  ! .readyReplicas: Invalid value: 2: cannot be greater than status.replicas
  ! .currentReplicas: Invalid value: -1: must be greater than or equal to 0
  ! .availableReplicas: Invalid value: 3: cannot be greater than status.replicas
  ! .availableReplicas: Invalid value: 3: cannot be greater than status.readyReplicas
  ! .collisionCount: Invalid value: 1: cannot be decremented
",
    );
}

#[test]
fn replication_controllers_have_rules_api_8() {
    let template = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}";
    check(
        Kind::ReplicationController,
        r#"
# A missing selector defaults to the template's labels.
spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
spec: {replicas: -1, minReadySeconds: -1, selector: {a: c}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
  ! spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0
  ! spec.replicas: Invalid value: -1: must be greater than or equal to 0
  ! spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`
spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: OnFailure, activeDeadlineSeconds: 5, containers: [{name: c, image: i}]}}}
  ! spec.template.spec.restartPolicy: Unsupported value: "OnFailure": supported values: "Always"
  ! spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported
"#,
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
        r"
{revision: 1, data: {spec: {}}}
{revision: -1, data: null}
  ! data: Required value: data is mandatory
  ! revision: Invalid value: -1: must be greater than or equal to 0
",
    );
    check_change(
        Kind::ControllerRevision,
        r#"
{revision: 1, data: {a: b}}
-> {revision: 2, data: {a: b}}
{revision: 1, data: {a: b}}
-> {revision: 1, data: {a: c}}
  ! data: Invalid value: {"a":"c"}: field is immutable
"#,
    );
}
