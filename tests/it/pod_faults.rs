//! Programs that misbehave, as the API reports them: state, reason, event; and the node stays ready (POD-3, POD-12,
//! POD-16).

use serde_json::{Value, json};

use crate::instance::{DataDir, wait_for};
use crate::needs::needs;

/// A pod of one container that is not started again.
fn pod(name: &str, command: &Value, more: &Value) -> Value {
    let mut container = json!({"name": "c", "image": "busybox", "command": command});
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container]}})
}

#[test]
fn each_misbehaving_program_has_its_state_reason_and_event_pod_3_pod_12_pod_16() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "1"]);
    let shell = |script: &str| json!(["sh", "-c", script]);
    let eater = shell("x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done");
    let mut on_huge_pages = pod("huge", &shell("exit 0"), &json!({}));
    on_huge_pages["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {"medium": "HugePages"}}]);
    let pods = [
        pod("missing", &json!(["nope"]), &json!({})),
        pod("directory", &json!(["/etc"]), &json!({})),
        pod("not-executable", &json!(["/etc/passwd"]), &json!({})),
        pod("forks-and-exits", &shell("setsid sleep 1000 & exit 0"), &json!({})),
        pod("fails", &shell("exit 7"), &json!({})),
        pod("eats", &eater, &json!({"resources": {"limits": {"memory": "32Mi"}}})),
        pod("root", &shell("exit 0"), &json!({"securityContext": {"runAsNonRoot": true, "runAsUser": 0}})),
        pod(
            "odd",
            &shell("exit 0"),
            &json!({"securityContext": {"privileged": true,
            "seLinuxOptions": {"level": "s0"}, "seccompProfile": {"type": "RuntimeDefault"}}}),
        ),
        pod(
            "sized",
            &shell("exec sleep 1000"),
            &json!({"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}}}),
        ),
        on_huge_pages,
    ];
    instance.apply_all(&pods);

    let terminated = [
        ".status.phase",
        ".status.containerStatuses[0].state.terminated.reason",
        ".status.containerStatuses[0].state.terminated.exitCode",
    ];
    for (name, expect) in [
        ("missing", "Failed StartError 128"),
        ("directory", "Failed StartError 128"),
        ("not-executable", "Failed StartError 128"),
        ("forks-and-exits", "Succeeded Completed 0"),
        ("fails", "Failed Error 7"),
        ("eats", "Failed OOMKilled 137"),
        ("odd", "Succeeded Completed 0"),
    ] {
        wait_for(&format!("{name}: {expect}"), || {
            (instance.fields(name, &terminated) == expect).then_some(())
        });
    }
    wait_for("a root that must not be", || {
        let reason = instance.field("root", ".status.containerStatuses[0].state.waiting.reason");
        (reason == "CreateContainerConfigError").then_some(())
    });
    let text = instance.field("missing", ".status.containerStatuses[0].state.terminated.message");
    assert_eq!(text, r#"exec: "nope": executable file not found in $PATH"#);
    // The container counts as ended, though no process ran: its log is empty.
    assert_eq!(instance.kubectl(&["logs", "missing"]), "");
    assert_eq!(instance.kubectl(&["logs", "-f", "missing"]), "");

    let events = |name: &str| {
        let about = format!("involvedObject.name={name}");
        let lines = "jsonpath={range .items[*]}{.type} {.reason} {.message}{'\\n'}{end}";
        instance.kubectl(&["get", "events", "--field-selector", &about, "-o", lines])
    };
    wait_for("the event of a failed start", || {
        events("missing").contains(r#"Warning Failed Error: exec: "nope": executable"#).then_some(())
    });
    let ignored: Vec<String> = events("odd")
        .lines()
        .filter(|line| line.contains("SecurityContextIgnored"))
        .map(str::to_owned)
        .collect();
    // An ordinary user's nodes ignore `privileged`, too.
    let expected = if rustix::process::geteuid().is_root() { 1 } else { 2 };
    assert_eq!(ignored.len(), expected, "{ignored:?}");
    assert!(ignored.iter().all(|line| line.starts_with("Warning ")), "{ignored:?}");
    wait_for("the event of a volume that cannot be", || {
        events("huge").contains("Warning FailedMount MountVolume.SetUp failed for volume \"v\"").then_some(())
    });

    // API-3: an unmodified kubectl resizes a running pod.
    let sized = "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount} \
                 {.status.containerStatuses[0].resources.requests.cpu} \
                 {.status.containerStatuses[0].resources.limits.memory}";
    wait_for("the pod to be resized", || {
        (instance.kubectl(&["get", "pod", "sized", "-o", sized]) == "Running 0 10m 64Mi").then_some(())
    });
    let to =
        |resources: &str| format!(r#"{{"spec":{{"containers":[{{"name":"c","resources":{resources}}}]}}}}"#);
    let larger = to(r#"{"requests":{"cpu":"20m"},"limits":{"memory":"128Mi"}}"#);
    instance.kubectl(&["patch", "pod", "sized", "--subresource", "resize", "-p", &larger]);
    wait_for("its new resources", || {
        (instance.kubectl(&["get", "pod", "sized", "-o", sized]) == "Running 0 20m 128Mi").then_some(())
    });
    let another_class = to(r#"{"requests":{"cpu":"1","memory":"128Mi"},"limits":{"cpu":"1"}}"#);
    let refused =
        instance.kubectl_output(&["patch", "pod", "sized", "--subresource", "resize", "-p", &another_class]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    let text = "Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing";
    assert!(!refused.status.success() && stderr.contains(text), "{stderr}");
    wait_for("the event of the resize", || {
        events("sized").contains("Normal ResizeCompleted Pod resize completed: {").then_some(())
    });

    let ready = "jsonpath={.items[0].status.conditions[?(@.type=='Ready')].status}";
    assert_eq!(instance.kubectl(&["get", "nodes", "-o", ready]), "True");
    instance.stop();
}
