//! Jobs and CronJobs of real processes with an unmodified kubectl (JOB-1, CJ-1, INIT-3).

use crate::instance::{DataDir, wait_for};
use crate::needs::needs;

const SWEEP: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: sweep}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      initContainers:
      - {name: beside, image: busybox, restartPolicy: Always, command: [sh, -c, "while true; do sleep 1; done"]}
      containers:
      - {name: c, image: busybox, command: [sh, -c, "echo part $JOB_COMPLETION_INDEX"]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: bug}
spec:
  podFailurePolicy:
    rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox, command: [sh, -c, "exit 42"]}]
"#;

#[test]
fn kubectl_makes_watches_and_removes_jobs_job_1_cj_1() {
    needs!(Kubectl);
    let home = DataDir::new();
    let manifest = home.path("jobs.yaml");
    std::fs::write(&manifest, SWEEP).unwrap();
    let instance = home.start(&["--nodes", "1"]);
    instance.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    instance.kubectl(&["create", "job", "hello", "--image=busybox", "--", "sh", "-c", "echo hi"]);
    // A sidecar does not hold its Job open.
    for name in ["job/hello", "job/sweep"] {
        instance.kubectl(&["wait", "--for=condition=complete", name, "--timeout=60s"]);
    }
    instance.kubectl(&["wait", "--for=condition=failed", "job/bug", "--timeout=60s"]);
    assert_eq!(instance.kubectl(&["logs", "job/hello"]), "hi\n");
    let mut parts: Vec<String> = instance
        .kubectl(&["logs", "-l", "batch.kubernetes.io/job-name=sweep", "-c", "c"])
        .lines()
        .map(ToString::to_string)
        .collect();
    parts.sort();
    assert_eq!(parts, ["part 0", "part 1"]);
    let described = instance.kubectl(&["describe", "job", "bug"]);
    assert!(described.contains("PodFailurePolicy") && described.contains("exit code 42"), "{described}");
    let successful = ["get", "jobs", "--field-selector", "status.successful=2", "-o", "name"];
    assert_eq!(instance.kubectl(&successful), "job.batch/sweep\n");

    instance.kubectl(&["create", "cronjob", "tick", "--image=busybox", "--schedule=0 0 1 1 *", "--", "true"]);
    instance.kubectl(&["create", "job", "by-hand", "--from=cronjob/tick"]);
    instance.kubectl(&["wait", "--for=condition=complete", "job/by-hand", "--timeout=60s"]);
    let refused = instance.kubectl_output(&["create", "cronjob", "x", "--image=i", "--schedule=61 * * * *"]);
    let text = String::from_utf8_lossy(&refused.stderr).to_string();
    let expected = "spec.schedule: Invalid value: \"61 * * * *\": end of range (61) above maximum (59): 61";
    assert!(!refused.status.success() && text.contains(expected), "{text}");

    instance.kubectl(&["delete", "cronjob/tick", "job/hello", "job/sweep", "job/bug"]);
    wait_for("the pods to have gone with their Jobs", || {
        instance.kubectl(&["get", "pods,jobs", "-o", "name"]).is_empty().then_some(())
    });
    instance.stop();
}

/// Charts wait for the Jobs of their hooks, hollow nodes or not.
#[test]
fn a_job_completes_on_a_hollow_node_and_a_server_goes_on_node_7_job_1() {
    needs!(Kubectl);
    let home = DataDir::new();
    let manifest = home.path("jobs.yaml");
    std::fs::write(
        &manifest,
        "apiVersion: batch/v1
kind: Job
metadata: {name: hook}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: OnFailure
      initContainers: [{name: first, image: example.com/first:v1}]
      containers: [{name: c, image: example.com/create-secret:v1}]
---
apiVersion: v1
kind: Pod
metadata: {name: server}
spec:
  containers: [{name: c, image: example.com/server:v1}]
",
    )
    .unwrap();
    let instance = home.start(&["--ephemeral", "--nodes", "0", "--hollow-nodes", "1"]);
    instance.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    instance.kubectl(&["wait", "--for=condition=complete", "job/hook", "--timeout=60s"]);
    instance.kubectl(&["wait", "--for=condition=Ready", "pod/server", "--timeout=60s"]);
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    assert_eq!(instance.kubectl(&["get", "pod", "server", "-o", restarts]), "0");
    instance.stop();
}
