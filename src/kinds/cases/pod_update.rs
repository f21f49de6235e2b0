//! Validation of pod updates.

use super::*;

#[test]
fn pods_are_mostly_frozen_api_5() {
    let pod = |rest: &str| format!("spec:\n  containers: [{{name: c, image: i}}]\n  {rest}");
    let frozen = |old: &str, new: &str| {
        let errors = validate_update(&object(Kind::Pod, &pod(new)), &object(Kind::Pod, &pod(old)));
        messages(&errors)
    };
    // Allowed changes.
    Template::new(Kind::Pod, &pod("…"), "spec").check_change(
        r"
activeDeadlineSeconds: 5
-> activeDeadlineSeconds: 3
<empty>
-> activeDeadlineSeconds: 3
tolerations: [{key: a}]
-> tolerations: [{key: a}, {key: b}]
terminationGracePeriodSeconds: -1
-> terminationGracePeriodSeconds: 1
schedulingGates: [{name: a}, {name: b}]
-> schedulingGates: [{name: b}]
schedulingGates: [{name: a}]
-> schedulingGates: [{name: a}]\nnodeSelector: {a: b}
schedulingGates: [{name: a}]
-> schedulingGates: [{name: a}]\naffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
",
    );
    let image = |image: &str| {
        object(
            Kind::Pod,
            &format!("spec: {{containers: [{{name: c, image: '{image}', imagePullPolicy: Always}}]}}"),
        )
    };
    assert_eq!(validate_update(&image("b"), &image("a")), []);
    assert_eq!(
        messages(&validate_update(&image(""), &image("a"))),
        ["spec.containers[0].image: Required value"]
    );
    // Refused changes.
    Template::new(Kind::Pod, &pod("…"), "spec").check_change(
        r#"
activeDeadlineSeconds: 3
-> activeDeadlineSeconds: 5
  ! .activeDeadlineSeconds: Invalid value: 5: must be less than or equal to previous value
activeDeadlineSeconds: 3
->
  ! .activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value
tolerations: [{key: a}]
-> tolerations: [{key: a, tolerationSeconds: 5, effect: NoExecute}, {key: b}]
  ! .tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds
tolerations: [{key: a}]
-> tolerations: [{key: b}]
  ! .tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds
<empty>
-> schedulingGates: [{name: a}]
  ! .schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a'
schedulingGates: [{name: a}]\nnodeSelector: {a: b}
-> schedulingGates: [{name: a}]\nnodeSelector: {a: c}
  ! .nodeSelector: Invalid value: {"a":"c"}: only additions are allowed
"#,
    );
    for (old, new) in [
        ("", "nodeSelector: {a: b}"),
        ("", "hostname: h"),
        ("terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 1"),
        ("nodeName: a", "nodeName: b"),
    ] {
        let errors = frozen(old, new);
        assert!(
            errors.len() == 1
                && errors[0].starts_with("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, `spec.activeDeadlineSeconds` or `spec.tolerations` (only additions to existing tolerations)\n  core.PodSpec{\n"),
            "{errors:?}"
        );
    }
    let two = object(Kind::Pod, "spec: {containers: [{name: c, image: i}, {name: d, image: i}]}");
    let one = object(Kind::Pod, &pod(""));
    assert_eq!(
        messages(&validate_update(&two, &one)),
        ["spec.containers: Forbidden: pod updates may not add or remove containers"]
    );
}

#[test]
fn ephemeral_containers_are_only_added_eph_1() {
    let pod = |list: &str| {
        object(
            Kind::Pod,
            &format!("spec:\n  containers: [{{name: c, image: i}}]\n  ephemeralContainers: [{list}]"),
        )
    };
    for (old, new, expected) in [
        ("", "{name: e, image: i, targetContainerName: c}", &[][..]),
        ("{name: e, image: i}", "{name: e, image: i}, {name: f, image: i}", &[]),
        (
            "{name: e, image: i}",
            "",
            &[
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n",
            ],
        ),
        (
            "{name: e, image: i}",
            "{name: e, image: j}",
            &[
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be changed\n",
            ],
        ),
        (
            "",
            "{name: c, image: '', targetContainerName: x, ports: [{containerPort: 1}], livenessProbe: {}, lifecycle: {}, resources: {limits: {cpu: '1'}}}",
            &[
                "spec.ephemeralContainers[0].image: Required value",
                "spec.ephemeralContainers[0].name: Duplicate value: \"c\"",
                "spec.ephemeralContainers[0].targetContainerName: Not found: \"x\"",
                "spec.ephemeralContainers[0].lifecycle: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers[0].livenessProbe: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
            ],
        ),
    ] {
        let errors = ephemeral_containers_errors(&pod(new), &pod(old));
        assert_eq!(messages(&errors), expected, "{old} -> {new}");
    }
}

#[test]
fn a_container_that_ended_stays_ended_pod_4() {
    let pod = |policy: &str, state: &str| {
        object(
            Kind::Pod,
            &format!(
                "spec: {{restartPolicy: {policy}, containers: [{{name: c, image: i}}]}}\nstatus: {{containerStatuses: [{{name: c, image: i, imageID: '', ready: false, restartCount: 0, state: {{{state}}}}}]}}"
            ),
        )
    };
    let forbidden =
        ["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"];
    for (policy, exit_code, allowed) in
        [("Always", 0, true), ("OnFailure", 1, true), ("OnFailure", 0, false), ("Never", 1, false)]
    {
        let old = pod(policy, &format!("terminated: {{exitCode: {exit_code}}}"));
        let errors = messages(&validate_status_update(&pod(policy, "running: {}"), &old));
        assert_eq!(errors, if allowed { &[][..] } else { &forbidden[..] }, "{policy} {exit_code}");
    }
}

/// Regression: the kubelet's report of a container that a rule restarted was refused.
#[test]
fn a_container_that_a_rule_restarts_need_not_stay_ended_pod_4() {
    let pod = |action: &str, status: &str| {
        let rule = format!("{{action: {action}, exitCodes: {{operator: In, values: [42]}}}}");
        object(
            Kind::Pod,
            &format!(
                "spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}, {{name: d, image: i, restartPolicy: Never, restartPolicyRules: [{rule}]}}]}}\nstatus: {{containerStatuses: [{status}]}}"
            ),
        )
    };
    for (action, name, exit_code, allowed) in [
        ("Restart", "d", 42, true),
        ("Restart", "d", 1, false),
        ("Restart", "c", 42, false),
        ("RestartAllContainers", "c", 0, true),
    ] {
        let status = |state: &str| {
            format!(
                "{{name: {name}, image: i, imageID: '', ready: false, restartCount: 0, state: {{{state}}}}}"
            )
        };
        let old = pod(action, &status(&format!("terminated: {{exitCode: {exit_code}}}")));
        let errors = messages(&validate_status_update(&pod(action, &status("running: {}")), &old));
        assert_eq!(errors.is_empty(), allowed, "{action} {name} {exit_code}: {errors:?}");
    }
}
