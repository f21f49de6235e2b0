//! Validation of writes through the resize subresource.

use super::*;

fn resized(old: &str, new: &str) -> Vec<String> {
    let pod = |text: &str| object(Kind::Pod, &format!("spec: {{containers: [{text}]}}"));
    messages(&resize_errors(&pod(new), &pod(old)))
}

const SIZED: &str = "{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2}}}";

#[test]
fn cpu_and_memory_may_change_within_the_class_api_3() {
    let sized = |resources: &str| format!("{{name: c, image: i, resources: {{{resources}}}}}");
    for case in read_cases(
        r#"
{name: c, image: i, resources: {requests: {cpu: 1500m, memory: 2Gi}, limits: {cpu: 3}}}
{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 3Gi}}}
{name: c, image: i, resources: {requests: {cpu: 3, memory: 1Gi}, limits: {cpu: 2}}}
  ! spec.containers[0].resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2
{name: c, image: i, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}
  ! spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed
{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Gi}}}
  ! spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed
{name: c, image: i, resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 2, memory: 1Gi}}}
  ! spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing
{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Gi, ephemeral-storage: 1Gi}, limits: {cpu: 2}}}
  ! spec: Forbidden: only cpu and memory resources are mutable
{name: c, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}], resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2}}}
  ! spec: Forbidden: only cpu and memory resources are mutable
{name: d, image: i, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2}}}
  ! spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize
{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2}}}, {name: d, image: i}
  ! spec.containers: Forbidden: containers may not be added or removed on resize
"#,
    ) {
        assert_eq!(resized(SIZED, &case.text), case.errors, "{case:?}");
    }
    let best_effort = "{name: c, image: i}";
    assert_eq!(
        resized(best_effort, &sized("requests: {cpu: 1}")),
        ["spec: Invalid value: \"BestEffort\": Pod QOS Class may not change as a result of resizing"]
    );
}

#[test]
fn of_init_containers_only_sidecars_change_api_3() {
    let pod =
        |init: &str| object(Kind::Pod, &format!("spec: {{containers: [{SIZED}], initContainers: [{init}]}}"));
    let init = |policy: &str, cpu: &str| {
        format!("{{name: i, image: i, {policy} resources: {{requests: {{cpu: {cpu}}}}}}}")
    };
    let sidecar = "restartPolicy: Always,";
    for (policy, expected) in [
        (sidecar, &[][..]),
        ("", &["spec: Forbidden: resources for non-sidecar init containers are immutable"]),
    ] {
        let (old, new) = (pod(&init(policy, "1")), pod(&init(policy, "2")));
        assert_eq!(messages(&resize_errors(&new, &old)), expected, "{policy}");
    }
}

#[test]
fn some_pods_are_never_resized_api_3() {
    for (rest, expected) in [
        ("os: {name: windows}", ": Forbidden: windows pods cannot be resized"),
        ("resources: {requests: {cpu: 4}}", ": Forbidden: pods with pod-level resources cannot be resized"),
    ] {
        let pod = object(Kind::Pod, &format!("spec: {{containers: [{SIZED}], {rest}}}"));
        assert_eq!(messages(&resize_errors(&pod, &pod)), [expected]);
    }
    let mirror = object(
        Kind::Pod,
        &format!(
            "metadata: {{annotations: {{kubernetes.io/config.mirror: x}}}}\nspec: {{nodeName: node-1, containers: [{SIZED}]}}"
        ),
    );
    assert_eq!(messages(&resize_errors(&mirror, &mirror)), [": Forbidden: static pods cannot be resized"]);
}

#[test]
fn resize_policies_have_rules_api_8() {
    check_container(
        r#"
resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: RestartContainer}]
resizePolicy: [{resourceName: disk, restartPolicy: Maybe}, {resourceName: cpu, restartPolicy: NotRequired}, {resourceName: cpu, restartPolicy: NotRequired}]
  ! .resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"
  ! .resizePolicy: Unsupported value: "Maybe": supported values: "NotRequired", "RestartContainer"
  ! .resizePolicy[2]: Duplicate value: "cpu"
"#,
    );
    let never = object(
        Kind::Pod,
        "spec: {restartPolicy: Never, containers: [{name: c, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]}",
    );
    assert_eq!(
        messages(&validate_create(&never)),
        [
            "spec.containers[0].resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when `restartPolicy` is 'Never'"
        ]
    );
}

/// `lifecycle.stopSignal` depends on the pod's operating system; `recursiveReadOnly` on the rest of the mount.
#[test]
fn stop_signals_and_recursive_read_only_have_rules_api_8() {
    let pod = |os: &str, signal: &str| {
        object(
            Kind::Pod,
            &format!(
                "spec: {{{os} containers: [{{name: c, image: i, lifecycle: {{stopSignal: {signal}}}}}]}}"
            ),
        )
    };
    let at = "spec.containers[0].lifecycle.stopSignal";
    for (os, signal, expected) in [
        ("os: {name: linux},", "SIGUSR1", None),
        ("os: {name: linux},", "SIGRTMIN+15", None),
        ("os: {name: linux},", "SIGRTMAX-14", None),
        ("os: {name: windows},", "SIGTERM", None),
        ("", "SIGTERM", Some("Forbidden: may not be set for containers with empty `spec.os.name`")),
        (
            "os: {name: linux},",
            "USR1",
            Some("Unsupported value: \"USR1\": supported values: \"SIGABRT\", \"SIGALRM\""),
        ),
        ("os: {name: linux},", "SIGRTMIN+16", Some("Unsupported value: \"SIGRTMIN+16\"")),
        (
            "os: {name: windows},",
            "SIGHUP",
            Some("Unsupported value: \"SIGHUP\": supported values: \"SIGKILL\", \"SIGTERM\""),
        ),
    ] {
        let errors = messages(&validate_create(&pod(os, signal)));
        match expected {
            None => assert_eq!(errors, [""; 0], "{os} {signal}"),
            Some(text) => assert!(
                errors.len() == 1 && errors[0].starts_with(&format!("{at}: {text}")),
                "{os} {signal}: {errors:?}"
            ),
        }
    }
    let mount = |rest: &str| {
        let volumes = "volumes: [{name: v, emptyDir: {}}]";
        let text = format!(
            "spec: {{{volumes}, containers: [{{name: c, image: i, volumeMounts: [{{name: v, mountPath: /v{rest}}}]}}]}}"
        );
        messages(&validate_create(&object(Kind::Pod, &text)))
    };
    let at = "spec.containers[0].volumeMounts[0].recursiveReadOnly";
    assert_eq!(mount(", readOnly: true, recursiveReadOnly: Enabled"), [""; 0]);
    assert_eq!(
        mount(", recursiveReadOnly: IfPossible"),
        [format!("{at}: Forbidden: may only be specified when readOnly is true")]
    );
    assert_eq!(
        mount(", readOnly: true, recursiveReadOnly: Enabled, mountPropagation: HostToContainer"),
        [format!("{at}: Forbidden: may only be specified when mountPropagation is None or not specified")]
    );
    assert_eq!(
        mount(", recursiveReadOnly: Perhaps"),
        [format!(
            "{at}: Unsupported value: \"Perhaps\": supported values: \"Disabled\", \"Enabled\", \"IfPossible\""
        )]
    );
}
