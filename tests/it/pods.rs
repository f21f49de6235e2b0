//! Pods on real processes with an unmodified kubectl: their usage, their identity, their volumes, their end.

use serde_json::Value;

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::needs;

/// Short intervals, so that tests do not wait for the next check.
const CONFIG: &str =
    "timings: {metricResolution: 0.3, evictionMonitoringPeriod: 0.3, fileCheckFrequency: 0.3}\n";

fn start(home: &DataDir) -> Instance {
    let config = home.path("config.yaml");
    std::fs::write(&config, CONFIG).unwrap();
    home.start(&["--ephemeral", "--nodes", "1", "--config", config.to_str().unwrap()])
}

fn json(instance: &Instance, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.extend(["-o", "json"]);
    serde_json::from_str(&instance.kubectl(&all)).unwrap()
}

fn exec(instance: &Instance, pod: &str, script: &str) -> String {
    instance.kubectl(&["exec", pod, "--", "sh", "-c", script])
}

fn refused(instance: &Instance, arguments: &[&str]) -> String {
    let output = instance.kubectl_output(arguments);
    assert!(!output.status.success(), "{arguments:?} should fail");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// POD-12, SA-1: an unmodified `kubectl top`, and a token that authenticates until its pod is gone.
#[test]
fn pods_are_measured_and_have_an_identity() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = start(&home);
    instance.kubectl(&["create", "serviceaccount", "robot"]);
    instance
        .kubectl(&["create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot"]);
    instance.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: busy, labels: {app: busy}}\nspec:\n  serviceAccountName: robot\n  \
         containers:\n  - {name: burner, image: busybox, command: [sh, -c, 'x=$(head -c 4000000 /dev/zero | tr \"\\0\" x); \
         while :; do :; done']}\n  - {name: idle, image: busybox, command: [sleep, '1000']}\n",
    );
    instance.until_ready("busy");
    let lines = wait_for("the rate of a busy pod", || {
        let output = instance.kubectl_output(&["top", "pods", "--containers", "--no-headers"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<Vec<String>> =
            text.lines().map(|l| l.split_ascii_whitespace().map(Into::into).collect()).collect();
        let burns = |line: &&Vec<String>| line[1] == "burner" && line[2] != "0m" && line[3] != "0Mi";
        words.iter().find(burns).map(|_| words.clone())
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines.iter().find(|l| l[1] == "idle").unwrap()[2], "0m");
    let nodes = instance.kubectl(&["top", "nodes", "--no-headers"]);
    assert!(nodes.starts_with("node-1 ") && nodes.contains('%'), "{nodes}");
    assert!(instance.kubectl(&["top", "pods", "-l", "app=busy", "-A", "--no-headers"]).contains("busy"));
    assert!(
        refused(&instance, &["top", "pod", "nope"])
            .contains("podmetrics.metrics.k8s.io \"default/nope\" not found")
    );
    assert!(instance.kubectl(&["get", "pods.metrics.k8s.io"]).starts_with("NAME "));
    assert!(refused(&instance, &["delete", "pods.metrics.k8s.io", "busy"]).contains("not allow"));

    let place = "/var/run/secrets/kubernetes.io/serviceaccount";
    let token = exec(&instance, "busy", &format!("cat {place}/token"));
    assert_eq!(exec(&instance, "busy", &format!("cat {place}/namespace")), "default");
    assert!(exec(&instance, "busy", &format!("cat {place}/ca.crt")).contains("BEGIN CERTIFICATE"));
    // The request has only the token: the kubeconfig's own credential is not sent with it.
    let server = instance.ready_line.split_whitespace().nth(1).unwrap().to_string();
    let certificate = home.path("ca.crt");
    std::fs::write(&certificate, exec(&instance, "busy", &format!("cat {place}/ca.crt"))).unwrap();
    let as_robot = |token: &str, arguments: &[&str]| {
        std::process::Command::new("kubectl")
            .args(["--kubeconfig", "/dev/null", "--server", &server, "--token", token])
            .arg("--certificate-authority")
            .arg(&certificate)
            .args(arguments)
            .output()
            .unwrap()
    };
    let who = as_robot(&token, &["auth", "whoami"]);
    let who = String::from_utf8_lossy(&who.stdout).into_owned();
    assert!(who.contains("system:serviceaccount:default:robot") && who.contains("[busy]"), "{who}");
    assert!(!as_robot(&format!("{token}x"), &["get", "pods"]).status.success());
    let created = instance.kubectl(&["create", "token", "robot", "--duration=10m"]);
    assert!(as_robot(created.trim(), &["get", "pods"]).status.success());
    assert!(
        refused(&instance, &["create", "token", "robot", "--duration=1m"]).contains("less than 10 minutes")
    );
    instance.kubectl(&["delete", "pod", "busy", "--grace-period=0", "--force"]);
    assert!(!as_robot(&token, &["get", "pods"]).status.success(), "its pod is gone");
    instance.stop();
}

/// VOL-1: a running process sees changes of the API in its volumes, atomically; optional sources may appear later.
#[test]
fn volumes_follow_the_api_under_a_running_process() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = start(&home);
    instance.kubectl(&["create", "configmap", "settings", "--from-literal=a=1", "--from-literal=b=1"]);
    instance.kubectl(&["create", "secret", "generic", "key", "--from-literal=k=geheim"]);
    instance.apply(
        r#"
apiVersion: v1
kind: Pod
metadata: {name: reader, labels: {color: red}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: busybox
    command: [sleep, "1000"]
    env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    volumeMounts:
    - {name: all, mountPath: /all}
    - {name: later, mountPath: /later}
    - {name: self, mountPath: /self}
    - {name: settings, mountPath: /one, subPath: a}
    - {name: scratch, mountPath: /scratch, subPathExpr: logs/$(POD)}
  volumes:
  - name: all
    projected:
      defaultMode: 0640
      sources:
      - configMap: {name: settings, items: [{key: a, path: dir/a, mode: 0600}, {key: b, path: b}]}
      - secret: {name: key}
  - {name: later, configMap: {name: later, optional: true}}
  - {name: self, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: settings, configMap: {name: settings}}
  - {name: scratch, emptyDir: {}}
"#,
    );
    instance.until_ready("reader");
    let look = |script: &str| exec(&instance, "reader", script).trim().to_string();
    assert_eq!(look("cat /all/dir/a /all/b /all/k /one; grep color /self/labels"), "11geheim1color=\"red\"");
    assert_eq!(look("stat -L -c %a /all/dir/a /all/b").replace('\n', " "), "600 640");
    assert_eq!(look("ls /later; touch /scratch/x; echo done"), "done");
    assert!(
        !instance.kubectl_output(&["exec", "reader", "--", "sh", "-c", "echo x > /all/b"]).status.success()
    );

    instance.kubectl(&["patch", "configmap", "settings", "-p", r#"{"data": {"a": "2", "b": "2"}}"#]);
    instance.kubectl(&["create", "configmap", "later", "--from-literal=x=here"]);
    instance.kubectl(&["label", "pod", "reader", "color=blue", "--overwrite"]);
    wait_for("everything new to be seen", || {
        let seen = look("cat /all/dir/a /all/b /one; cat /later/x; grep color /self/labels");
        // A file mounted by subPath stays as it was, as in Kubernetes.
        (seen == "221herecolor=\"blue\"").then_some(())
    });
    instance.stop();
}

/// POD-4, POD-1: a slice of the restart table, with real exits.
#[test]
fn restart_policies_on_processes() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = start(&home);
    let pod = |name: &str, policy: &str, scripts: &[&str]| {
        let containers: Vec<String> = scripts
            .iter()
            .enumerate()
            .map(|(n, script)| format!("  - {{name: c{n}, image: busybox, command: [sh, -c, '{script}']}}\n"))
            .collect();
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: {policy}\n  \
             terminationGracePeriodSeconds: 1\n  containers:\n{}---\n",
            containers.concat()
        )
    };
    let manifest = [
        pod("always", "Always", &["exit 1"]),
        pod("always-good", "Always", &["exit 0"]),
        pod("failure", "OnFailure", &["exit 1"]),
        pod("failure-good", "OnFailure", &["exit 0"]),
        pod("never", "Never", &["exit 3"]),
        pod("never-half", "Never", &["exit 3", "sleep 1000"]),
        pod("never-good", "Never", &["exit 0", "exit 0"]),
        pod("message", "Never", &["echo last words; echo more; exit 1"])
            .replace("']}\n", "'], terminationMessagePolicy: FallbackToLogsOnError}\n"),
        pod("reported", "Never", &["echo -n reported > /dev/termination-log; exit 1"]),
    ];
    instance.apply(&manifest.concat());
    let shown = |name: &str| {
        let status = json(&instance, &["get", "pod", name])["status"].clone();
        let containers = status["containerStatuses"].as_array().cloned().unwrap_or_default();
        let each = containers.iter().map(|c| {
            let state = &c["state"];
            let reason = state["waiting"]["reason"].as_str().or(state["terminated"]["reason"].as_str());
            format!(" {}×{}", reason.unwrap_or("Running"), c["restartCount"])
        });
        format!("{}{}", status["phase"].as_str().unwrap_or_default(), each.collect::<String>())
    };
    for (name, expected) in [
        ("always", "Running CrashLoopBackOff×1"),
        ("always-good", "Running CrashLoopBackOff×1"),
        ("failure", "Running CrashLoopBackOff×1"),
        ("failure-good", "Succeeded Completed×0"),
        ("never", "Failed Error×0"),
        ("never-half", "Running Error×0 Running×0"),
        ("never-good", "Succeeded Completed×0 Completed×0"),
        ("message", "Failed Error×0"),
        ("reported", "Failed Error×0"),
    ] {
        wait_for(&format!("{name}: {expected}"), || (shown(name) == expected).then_some(()));
    }
    let message = |name: &str| {
        let status = json(&instance, &["get", "pod", name])["status"]["containerStatuses"][0].clone();
        status["state"]["terminated"]["message"].as_str().unwrap_or_default().to_string()
    };
    assert_eq!(message("message"), "last words\nmore\n");
    assert_eq!(message("reported"), "reported");
    instance.stop();
}

/// POD-5, POD-6, POD-7, VOL-1: a process that hangs does not block the pod's end, and a pod that exceeds its space is
/// evicted.
#[test]
fn pods_that_hang_or_exceed_their_space_end() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = start(&home);
    instance.apply(r#"
apiVersion: v1
kind: Pod
metadata: {name: hook}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: c
    image: busybox
    command: [sleep, "1000"]
    lifecycle: {preStop: {exec: {command: [sh, -c, "sleep 1000 & wait"]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: slow-start}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: first
    image: busybox
    command: [sleep, "1000"]
    lifecycle: {postStart: {exec: {command: [sleep, "1000"]}}}
  - {name: second, image: busybox, command: [sleep, "1000"]}
---
apiVersion: v1
kind: Pod
metadata: {name: probed}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: busybox
    command: [sleep, "1000"]
    livenessProbe: {exec: {command: [sleep, "1000"]}, timeoutSeconds: 1, periodSeconds: 1, failureThreshold: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: full}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: c, image: busybox, command: [sh, -c, "head -c 3000000 /dev/zero > /d/f; sleep 1000"], volumeMounts: [{name: d, mountPath: /d}]}
  volumes: [{name: d, emptyDir: {sizeLimit: 1Mi}}]
"#,
    );
    instance.until_ready("hook");
    instance.kubectl(&["delete", "pod", "hook", "--timeout=60s"]);
    let slow = json(&instance, &["get", "pod", "slow-start"])["status"]["containerStatuses"].clone();
    for container in slow.as_array().unwrap() {
        assert_eq!(container["state"]["waiting"]["reason"], "ContainerCreating", "{container}");
    }
    instance.kubectl(&["delete", "pod", "slow-start", "--timeout=60s"]);
    wait_for("the hanging probe to restart its container", || {
        let status = json(&instance, &["get", "pod", "probed"])["status"]["containerStatuses"][0].clone();
        (status["restartCount"].as_i64() > Some(0)).then_some(())
    });
    let events = instance.kubectl(&["get", "events"]);
    assert!(
        events.contains("Liveness probe failed: command timed out: \"sleep 1000\" timed out after 1s"),
        "{events}"
    );
    assert!(events.contains("Container c failed liveness probe, will be restarted"), "{events}");
    let full = wait_for("the eviction", || {
        let status = json(&instance, &["get", "pod", "full"])["status"].clone();
        (status["phase"] == "Failed").then_some(status)
    });
    assert_eq!(full["reason"], "Evicted");
    assert_eq!(full["message"], "Usage of EmptyDir volume \"d\" exceeds the limit \"1Mi\". ");
    instance.stop();
}

/// POD-15: a directory of manifests is all a static pod needs.
#[test]
fn static_pods_come_from_a_directory() {
    needs!(Kubectl);
    let home = DataDir::new();
    let config = home.path("config.yaml");
    let manifests = home.path("manifests");
    std::fs::create_dir(&manifests).unwrap();
    let place = format!("staticPodPath: {}\n{CONFIG}", manifests.display());
    std::fs::write(&config, place).unwrap();
    let web = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers: \
               [{name: c, image: busybox, command: [sh, -c, 'echo here; sleep 1000']}]\n";
    std::fs::write(manifests.join("web.yaml"), web).unwrap();
    let instance = home.start(&["--nodes", "1", "--config", config.to_str().unwrap()]);
    wait_for("the mirror", || {
        instance.kubectl_output(&["get", "pod", "web-node-1"]).status.success().then_some(())
    });
    instance.until_ready("web-node-1");
    let started = || {
        let status = json(&instance, &["get", "pod", "web-node-1"])["status"].clone();
        status["containerStatuses"][0]["containerID"].as_str().unwrap_or_default().to_string()
    };
    let before = started();
    wait_for("its log", || (instance.kubectl(&["logs", "web-node-1"]) == "here\n").then_some(()));
    let uid = || {
        let found = instance.kubectl_output(&["get", "pod", "web-node-1", "-o", "jsonpath={.metadata.uid}"]);
        found.status.success().then(|| String::from_utf8(found.stdout).unwrap())
    };
    let first = uid();
    // Without waiting: kubectl may take the new mirror pod, which is created at once, for the old one.
    instance.kubectl(&["delete", "pod", "web-node-1", "--wait=false"]);
    wait_for("another mirror", || uid().filter(|uid| Some(uid) != first.as_ref()));
    wait_for("the same container", || (started() == before).then_some(()));
    assert_eq!(exec(&instance, "web-node-1", "echo hi"), "hi\n");
    std::fs::remove_file(manifests.join("web.yaml")).unwrap();
    instance.kubectl(&["wait", "--for=delete", "pod/web-node-1", "--timeout=60s"]);
    instance.stop();
}
