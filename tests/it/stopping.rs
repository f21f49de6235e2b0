//! Stopping, restarting and crashing: no process is left over, and none runs twice (CLI-5, SAFE-3, SAFE-7).

use std::collections::BTreeMap;

use rustix::process::{Pid, Signal};

use crate::instance::{DataDir, Instance, seconds_of_its_own, wait_for};
use crate::needs::needs;
use podium::base::optional_file::{read_optional, read_optional_bytes};

/// Programs with a child in a session of its own.
const SLEEPERS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: sleepers}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: sleepers}}
  template:
    metadata: {labels: {app: sleepers}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: sleeper
        image: busybox
        command: [sh, -c, "setsid sleep MARK & exec sleep MARK"]
"#;

/// The processes with `mark` on their command lines, by PID, with their start times.
pub(crate) fn processes(mark: &str) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let command = read_optional_bytes(entry.path().join("cmdline"));
        let words: Vec<&[u8]> = command.split(|b| *b == 0).collect();
        if words.first() == Some(&b"sleep".as_slice()) && words.get(1) == Some(&mark.as_bytes()) {
            let stat = read_optional(entry.path().join("stat"));
            let started =
                stat.rsplit(')').next().and_then(|s| s.split_whitespace().nth(19)).unwrap_or("").to_string();
            found.insert(pid, started);
        }
    }
    found
}

fn apply(instance: &Instance, mark: &str) {
    apply_many(instance, mark, 3);
}

fn apply_many(instance: &Instance, mark: &str, replicas: usize) {
    instance.apply(&SLEEPERS.replace("MARK", mark).replace("REPLICAS", &replicas.to_string()));
    instance.kubectl(&["rollout", "status", "deploy/sleepers", "--timeout=60s"]);
    wait_for("both processes of each pod", || (processes(mark).len() == 2 * replicas).then_some(()));
}

fn restarts(instance: &Instance) -> String {
    let path = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
    instance.kubectl(&["get", "pods", "-l", "app=sleepers", "-o", path])
}

#[test]
fn a_stop_leaves_no_process_and_the_next_start_brings_the_workload_back_cli_5() {
    needs!(Kubectl);
    for signal in [Signal::TERM, Signal::HUP] {
        let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
        let mut instance = home.start(&[]);
        apply(&instance, &mark);
        instance.signal(signal);
        assert_eq!(instance.wait(), 0);
        assert_eq!(processes(&mark), BTreeMap::new(), "after {signal:?}");

        let instance = home.start(&[]);
        instance.kubectl(&["rollout", "status", "deploy/sleepers", "--timeout=60s"]);
        wait_for("the workload to come back", || (processes(&mark).len() == 6).then_some(()));
        instance.stop();
        assert_eq!(processes(&mark), BTreeMap::new());
    }
}

#[test]
fn after_kill_9_the_next_start_finds_the_same_processes_safe_3_safe_7() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let instance = home.start(&[]);
    apply_many(&instance, &mark, 50);
    let before = processes(&mark);
    instance.crash();
    assert_eq!(processes(&mark), before, "a crash of the control plane kills no work");

    let instance = home.start(&[]);
    instance.kubectl(&["rollout", "status", "deploy/sleepers", "--timeout=60s"]);
    assert_eq!(processes(&mark), before, "same pids, same start times, none twice");
    assert_eq!(restarts(&instance), vec!["0"; 50].join(" "));
    instance.stop();
    assert_eq!(processes(&mark), BTreeMap::new());
}

/// Returns the time when a process started, in the kernel's clock ticks; `None` if it does not exist.
fn started(pid: i32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit(')').next()?.split_whitespace().nth(19)?.to_owned())
}

/// The children of a process, with their start times.
fn children(of: Pid) -> BTreeMap<i32, String> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let stat = read_optional(format!("/proc/{pid}/stat"));
        let parent =
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        parent == Some(of.as_raw_nonzero().get())
    };
    pids.filter(is_child).filter_map(|pid| Some((pid, started(pid)?))).collect()
}

pub(crate) fn host_pid(home: &DataDir, node: &str) -> Pid {
    let state = home.data_dir().canonicalize().unwrap().join("nodes").join(node);
    let needle = format!("node-host\0--state\0{}\0", state.display());
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_host = |pid: &i32| {
        let command = read_optional_bytes(format!("/proc/{pid}/cmdline"));
        String::from_utf8_lossy(&command).contains(&needle)
    };
    Pid::from_raw(pids.filter(is_host).min().expect("the node has a host")).unwrap()
}

#[test]
fn after_kill_9_of_a_node_host_its_pods_run_again_by_their_policy_safe_3_pod_10() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let config = home.path("config.yaml");
    std::fs::write(&config, "timings: {containerBackOffInitial: 0.1}").unwrap();
    let instance = home.start(&["--nodes", "1", "--config", config.to_str().unwrap()]);
    apply(&instance, &mark);
    let never = "apiVersion: v1\nkind: Pod\nmetadata: {name: never}\nspec:\n  restartPolicy: Never\n  \
                 containers: [{name: c, image: busybox, command: [sleep, '100000']}]\n";
    instance.apply(never);
    instance.until_ready("never");
    let before = processes(&mark);
    let host = host_pid(&home, "node-1");
    let children = children(host);
    assert!(children.len() >= 4, "pid 1 of each pod at least: {children:?}");

    rustix::process::kill_process(host, Signal::KILL).unwrap();
    wait_for("every process of the node to be gone", || {
        processes(&mark).keys().all(|pid| !before.contains_key(pid)).then_some(())
    });
    wait_for("every child of the node's host to be gone", || {
        children.iter().all(|(pid, since)| started(*pid).as_ref() != Some(since)).then_some(())
    });
    wait_for("the deployment's pods to run again", || {
        (processes(&mark).len() == 6 && restarts(&instance) == "1 1 1").then_some(())
    });
    let path = "jsonpath={.items[*].status.containerStatuses[*].lastState.terminated.exitCode}";
    assert_eq!(instance.kubectl(&["get", "pods", "-l", "app=sleepers", "-o", path]), "137 137 137");
    // The files from the API were in the memory of the killed host (VOL-1).
    let file = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
    assert_eq!(instance.kubectl(&["exec", "deployment/sleepers", "--", "cat", file]), "default");
    wait_for("the pod that is never restarted to have failed", || {
        let path = "jsonpath={.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}";
        (instance.kubectl(&["get", "pod", "never", "-o", path]) == "Failed 137").then_some(())
    });
    wait_for("the event", || {
        let reasons = instance.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
        reasons.contains("SandboxChanged").then_some(())
    });
    instance.stop();
    assert_eq!(processes(&mark), BTreeMap::new());
}

/// A program that ignores SIGTERM, and reports the signal.
const STUBBORN: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: stubborn}
spec:
  terminationGracePeriodSeconds: 3600
  containers:
  - name: stubborn
    image: busybox
    command: [sh, -c, "trap 'echo > ASKED' TERM; while :; do sleep MARK & wait; done"]
    volumeMounts: [{name: signals, mountPath: FOLDER}]
  volumes: [{name: signals, hostPath: {path: FOLDER}}]
"#;

/// A program that ends at SIGTERM.
const POLITE: &str = r#"
---
apiVersion: v1
kind: Pod
metadata: {name: polite}
spec:
  containers: [{name: polite, image: busybox, command: [sh, -c, "trap exit TERM; sleep MARK & wait"]}]
"#;

/// The log of the instance here.
fn log_of(home: &DataDir) -> String {
    let files = std::fs::read_dir(home.data_dir().join("logs")).unwrap();
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn a_second_signal_cuts_the_grace_short_cli_5() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let (folder, marker) = (home.path("signals"), home.path("signals/term"));
    std::fs::create_dir(&folder).unwrap();
    let text = STUBBORN.replace("MARK", &mark).replace("FOLDER", folder.to_str().unwrap());
    let text = text.replace("ASKED", marker.to_str().unwrap()) + &POLITE.replace("MARK", "3600");
    let mut instance = home.start(&["--nodes", "1"]);
    instance.apply(&text);
    instance.until_ready("polite");
    wait_for("the program", || (!processes(&mark).is_empty()).then_some(()));
    instance.signal(Signal::TERM);
    wait_for("the program to have received the signal", || marker.exists().then_some(()));
    assert!(!processes(&mark).is_empty(), "it has an hour");
    wait_for("the stop to say that one of two pods still runs", || {
        log_of(&home).contains(" for 1 pod to stop gracefully").then_some(())
    });
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait(), 0);
    assert_eq!(processes(&mark), BTreeMap::new());
}

#[test]
fn nothing_ephemeral_outlives_kill_9_cli_2() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let instance = home.start(&["--ephemeral"]);
    apply(&instance, &mark);
    instance.crash();
    wait_for("every process to be gone", || processes(&mark).is_empty().then_some(()));
}

#[test]
fn a_start_with_fewer_nodes_leaves_no_pod_on_those_that_are_gone_node_5() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let instance = home.start(&["--nodes", "2"]);
    apply(&instance, &mark);
    instance.stop();

    // The pod garbage collector gives a node that is missing some time to come back.
    let config = home.path("config.yaml");
    std::fs::write(&config, "timings: {missingNodeQuarantineTime: 0.5}").unwrap();
    let instance = home.start(&["--nodes", "1", "--config", config.to_str().unwrap()]);
    assert_eq!(instance.kubectl(&["get", "nodes", "-o", "name"]).trim(), "node/node-1");
    wait_for("all pods on the node that is left", || {
        let path = "jsonpath={.items[*].spec.nodeName}";
        let nodes = instance.kubectl(&["get", "pods", "-l", "app=sleepers", "-o", path]);
        (nodes == "node-1 node-1 node-1" && processes(&mark).len() == 6).then_some(())
    });
    instance.stop();
}

/// The configuration of an instance with short timeouts.
fn impatient(home: &DataDir, more: &str) -> String {
    let config = home.path("config.yaml");
    std::fs::write(&config, format!("timings: {{runtimeStatusTimeout: 0.5{more}}}")).unwrap();
    config.to_str().unwrap().to_string()
}

fn stop_host(home: &DataDir, node: &str) {
    rustix::process::kill_process(host_pid(home, node), Signal::STOP).unwrap();
}

fn thaw_host(home: &DataDir, node: &str) {
    rustix::process::kill_process(host_pid(home, node), Signal::CONT).unwrap();
}

/// Found by `podium-lab torture`: no control plane could start while one node's host hung, and all nodes were without one.
#[test]
fn a_hanging_host_does_not_delay_a_start_and_its_pods_continue_safe_7() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let config = impatient(&home, "");
    let instance = home.start(&["--nodes", "2", "--config", &config]);
    apply_many(&instance, &mark, 4);
    let before = processes(&mark);
    instance.crash();
    stop_host(&home, "node-1");
    let instance = home.start(&["--nodes", "2", "--config", &config]);
    instance.kubectl(&["wait", "--for=condition=Ready", "node/node-2", "--timeout=60s"]);
    wait_for("the node's failure to be reported", || {
        instance.kubectl(&["get", "events"]).contains("NodeStartFailed").then_some(())
    });
    assert_eq!(processes(&mark), before);
    let path = "jsonpath={.spec.renewTime}";
    let lease = || instance.kubectl(&["get", "lease", "-n", "kube-node-lease", "node-1", "-o", path]);
    let renewed = lease();
    thaw_host(&home, "node-1");
    wait_for("the node's kubelet", || (lease() != renewed).then_some(()));
    instance.kubectl(&["rollout", "status", "deploy/sleepers", "--timeout=60s"]);
    assert_eq!(processes(&mark), before, "its pods ran on");

    // A host that is silent again is ended with the rest.
    instance.crash();
    stop_host(&home, "node-1");
    home.start(&["--nodes", "2", "--config", &config]).stop();
    assert_eq!(processes(&mark), BTreeMap::new());
}

/// SIGTERM had no effect while a node's host hung, and its containers stayed behind.
#[test]
fn a_stop_ends_and_leaves_nothing_though_a_nodes_host_hangs_cli_5() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let instance = home.start(&["--nodes", "1", "--config", &impatient(&home, "")]);
    apply(&instance, &mark);
    stop_host(&home, "node-1");
    let exec = instance.kubectl_output(&["exec", "deployment/sleepers", "--", "true"]);
    assert!(!exec.status.success(), "an error, and no wait for ever");
    instance.stop();
    assert_eq!(processes(&mark), BTreeMap::new());
}

/// A second SIGTERM had no effect either while a node's host hung.
#[test]
fn a_second_signal_ends_podium_though_a_nodes_host_hangs_cli_5() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let (folder, marker) = (home.path("signals"), home.path("signals/term"));
    std::fs::create_dir(&folder).unwrap();
    let text = STUBBORN.replace("MARK", &mark).replace("FOLDER", folder.to_str().unwrap());
    let mut instance = home.start(&["--nodes", "1"]);
    instance.apply(&text.replace("ASKED", marker.to_str().unwrap()));
    wait_for("the program", || (!processes(&mark).is_empty()).then_some(()));
    stop_host(&home, "node-1");
    instance.signal(Signal::TERM);
    instance.signal(Signal::INT);
    instance.wait();
    assert_eq!(processes(&mark), BTreeMap::new());
}

/// An endless grace period blocked the first signal for ever.
#[test]
fn the_first_signal_ends_podium_regardless_of_the_grace_period_of_pods_cli_5() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let (folder, marker) = (home.path("signals"), home.path("signals/term"));
    std::fs::create_dir(&folder).unwrap();
    // The grace period is replaced first, because a mark may have these digits.
    let text = STUBBORN.replace("3600", "9223372036854775807").replace("MARK", &mark);
    let text = text.replace("FOLDER", folder.to_str().unwrap()).replace("ASKED", marker.to_str().unwrap());
    let instance = home.start(&["--nodes", "1", "--config", &impatient(&home, ", shutdownGracePeriod: 0.5")]);
    instance.apply(&text);
    wait_for("the program", || (!processes(&mark).is_empty()).then_some(()));
    instance.stop();
    assert!(marker.exists(), "the program received SIGTERM first");
    assert_eq!(processes(&mark), BTreeMap::new());
}

/// One identity, on any node.
const SINGLE: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: busybox, command: [sleep, "MARK"]}]
"#;

/// The replacement ran on another node while the old process still ran (NODE-5).
#[test]
fn a_deleted_node_with_a_hanging_host_never_lets_a_pod_run_twice_safe_1() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let config = impatient(&home, ", missingNodeQuarantineTime: 0.2");
    let instance = home.start(&["--nodes", "2", "--config", &config]);
    instance.apply(&SINGLE.replace("MARK", &mark));
    wait_for("the process", || (processes(&mark).len() == 1).then_some(()));
    let old = processes(&mark);
    let path = "jsonpath={.items[*].spec.nodeName}";
    let node = instance.kubectl(&["get", "pods", "-l", "app=web", "-o", path]);
    stop_host(&home, &node);
    instance.kubectl(&["delete", "pod", "web-0", "--wait=false"]);
    instance.kubectl(&["delete", "node", &node, "--wait=false"]);
    wait_for("the replacement", || {
        let now = processes(&mark);
        assert!(now.len() <= 1, "two processes of one identity: {now:?}");
        (now.len() == 1 && now != old).then_some(())
    });
    instance.stop();
    assert_eq!(processes(&mark), BTreeMap::new());
}

#[test]
fn commands_for_a_stopped_instance_say_that_it_does_not_run_cli_4() {
    let home = DataDir::new();
    home.start(&["--nodes", "0"]).stop();
    let manifest = home.path("a.yaml");
    std::fs::write(&manifest, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n").unwrap();
    for arguments in [
        &["apply", "-f", manifest.to_str().unwrap()][..],
        &["fault", "list"],
        &["drill", "list"],
        &["kubeconfig"],
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_podium"));
        let output = command.args(arguments).arg("--data-dir").arg(home.data_dir()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(error.starts_with("podium: podium is not running on "), "{arguments:?}: {error}");
    }
}
