//! Faults of a node with real processes (FAULT-1): its kubelet crashes, it is switched off, a container runs out of
//! memory, and the control plane is killed in the middle of each; disks of nodes and of the store that are slow, fail,
//! or stall.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::instance::{DataDir, Instance, seconds_of_its_own, wait_for};
use crate::needs::needs;

struct Lab {
    home: DataDir,
    instance: Instance,
    seconds: u32,
}

impl Lab {
    /// One node, and a pod on it that sleeps.
    fn start() -> Self {
        let (home, seconds) = (DataDir::new(), seconds_of_its_own());
        let instance = home.start(&["--nodes", "1"]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [
            {"name": "c", "image": "busybox", "command": ["sh", "-c", format!("exec sleep {seconds}")]}]}});
        let lab = Self { home, instance, seconds };
        lab.make(&pod);
        wait_for("the pod to run", || (lab.shows("Running true 0") && !lab.pids().is_empty()).then_some(()));
        lab
    }

    fn make(&self, object: &Value) {
        self.instance.apply(&object.to_string());
    }

    /// Kills the control plane, and starts another.
    fn restart(self) -> Self {
        let Self { home, instance, seconds } = self;
        instance.crash();
        let instance = home.start(&["--nodes", "1"]);
        Self { home, instance, seconds }
    }

    fn fault(&self, arguments: &[&str]) -> String {
        let output = self.home.fault(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Returns true if the pod has this phase, readiness and restart count.
    fn shows(&self, expected: &str) -> bool {
        let paths = [
            ".status.phase",
            ".status.containerStatuses[0].ready",
            ".status.containerStatuses[0].restartCount",
        ];
        self.instance.fields("a", &paths) == expected
    }

    fn is_active(&self, name: &str) -> bool {
        let path = "jsonpath={.status.conditions[?(@.type=='Active')].status}";
        self.instance.kubectl(&["get", "fault", name, "--ignore-not-found", "-o", path]) == "True"
    }

    /// The processes of the pod's container.
    fn pids(&self) -> Vec<u32> {
        let seconds = self.seconds.to_string();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let mut numbers: Vec<u32> = entries
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let command = std::fs::read(entry.path().join("cmdline")).ok()?;
                let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
                (words.first()?.ends_with(b"sleep") && words.get(1) == Some(&seconds.as_bytes()))
                    .then_some(pid)
            })
            .collect();
        numbers.sort_unstable();
        numbers
    }
}

#[test]
fn running_containers_survive_a_crashed_kubelet_and_are_found_again_fault_1_safe_7() {
    needs!(Kubectl);
    let lab = Lab::start();
    let before = lab.pids();
    let output = lab.fault(&["crash", "kubelet/node-1", "--name", "down"]);
    assert_eq!(output.trim(), "fault/down is in force: Crash of the kubelet of node node-1");
    assert_eq!(lab.pids(), before);
    // Another control plane finds the fault, and leaves the kubelet down.
    let lab = lab.restart();
    wait_for("the fault", || lab.is_active("down").then_some(()));
    assert_eq!(lab.pids(), before);
    lab.instance.kubectl(&["delete", "pod", "a", "--grace-period=1", "--wait=false"]);
    assert_eq!(lab.pids(), before, "no kubelet runs that could end it");
    lab.fault(&["heal", "down"]);
    wait_for("the pod's end", || lab.pids().is_empty().then_some(()));
    lab.instance.stop();
}

/// Nothing is restarted between a heal and the next fault: each healed kubelet must do all its work.
#[test]
fn a_healed_kubelet_sees_containers_exit_again_fault_1_safe_7() {
    needs!(Kubectl);
    let lab = Lab::start();
    for round in 1..=2 {
        let fault = format!("down-{round}");
        lab.fault(&["crash", "kubelet/node-1", "--name", &fault]);
        wait_for("the fault", || lab.is_active(&fault).then_some(()));
        lab.fault(&["heal", &fault]);
        wait_for("the heal", || (!lab.is_active(&fault)).then_some(()));
        let name = format!("ends-{round}");
        // An init container ends and the main container starts, and a pod that is never restarted ends.
        lab.make(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "first", "image": "busybox", "command": ["sh", "-c", "exit 0"]}],
            "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", "exit 4"]}]}}));
        let paths = [".status.phase", ".status.containerStatuses[0].state.terminated.exitCode"];
        wait_for("the pod's end to be seen", || {
            (lab.instance.fields(&name, &paths) == "Failed 4").then_some(())
        });
    }
    // A container that ran all the while restarts when it dies.
    for pid in lab.pids() {
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    }
    wait_for("the container to be restarted", || lab.shows("Running true 1").then_some(()));
    // A deletion ends when the container does, long before its grace period.
    let quick = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
    lab.make(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "quick"}, "spec": {
        "terminationGracePeriodSeconds": 3600,
        "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", quick]}]}}));
    let phase = ["get", "pod", "quick", "--ignore-not-found", "-o", "jsonpath={.status.phase}"];
    wait_for("the pod to run", || (lab.instance.kubectl(&phase) == "Running").then_some(()));
    lab.instance.kubectl(&["delete", "pod", "quick", "--wait=false"]);
    wait_for("the deletion", || lab.instance.kubectl(&phase).is_empty().then_some(()));
    lab.instance.stop();
}

#[test]
fn a_node_that_is_switched_off_is_dead_until_it_boots_and_memory_runs_out_once_fault_1() {
    needs!(Kubectl);
    let lab = Lab::start();
    let before = lab.pids();
    lab.fault(&["poweroff", "node-1", "--name", "off"]);
    assert!(lab.pids().is_empty());
    let lab = lab.restart();
    wait_for("the fault", || lab.is_active("off").then_some(()));
    assert!(lab.pids().is_empty());
    lab.fault(&["poweron", "node-1"]);
    wait_for("the pod to run again", || lab.shows("Running true 1").then_some(()));
    let after = lab.pids();
    assert!(!after.is_empty() && after != before, "{after:?}");

    let output = lab.fault(&["oom", "pod/default/a/c"]);
    assert!(output.contains("in force"), "{output}");
    wait_for("the pod to run once more", || lab.shows("Running true 2").then_some(()));
    let last = ".status.containerStatuses[0].lastState.terminated";
    assert_eq!(
        lab.instance.fields("a", &[&format!("{last}.reason"), &format!("{last}.exitCode")]),
        "OOMKilled 137"
    );
    lab.instance.stop();
}

/// Creates a ConfigMap; returns the time that this took.
fn make_map(lab: &Lab, name: &str) -> Duration {
    let started = Instant::now();
    lab.instance.kubectl(&["create", "configmap", name]);
    started.elapsed()
}

#[test]
fn a_store_that_stands_still_or_is_slow_answers_late_and_loses_nothing_fault_1_safe_2() {
    needs!(Kubectl);
    let lab = Lab::start();
    // The command's own output waits for the store, like that of other clients.
    let mut pause = Command::new(env!("CARGO_BIN_EXE_podium"));
    pause.args(["fault", "pause", "store", "--duration", "4s", "--name", "still", "--data-dir"]);
    let mut pause = pause.arg(lab.home.data_dir()).stdout(Stdio::null()).spawn().unwrap();
    let (mut names, mut longest) = (Vec::new(), Duration::ZERO);
    while pause.try_wait().unwrap().is_none() {
        let name = format!("map-{}", names.len());
        longest = longest.max(make_map(&lab, &name));
        names.push(name);
    }
    // One of them came during the stall.
    assert!(longest > Duration::from_secs(1), "{longest:?}");
    wait_for("the fault's end", || (!lab.is_active("still")).then_some(()));
    lab.fault(&[
        "disk", "store", "--failure", "slow", "--delay", "700ms", "--duration", "5m", "--name", "slow",
    ]);
    let took = make_map(&lab, "slowly");
    assert!(took >= Duration::from_millis(700), "{took:?}");
    names.push("slowly".to_owned());
    let lab = lab.restart();
    let names = names.iter().map(String::as_str);
    lab.instance.kubectl(&["get", "configmap"].into_iter().chain(names).collect::<Vec<_>>());
    lab.fault(&["heal", "slow"]);
    lab.instance.stop();
}

#[test]
fn a_nodes_disk_that_fails_or_is_slow_is_what_its_pods_wait_for_fault_1() {
    needs!(Kubectl);
    let lab = Lab::start();
    lab.instance.kubectl(&["create", "configmap", "settings", "--from-literal=a=b"]);
    let make = |name: &str| {
        lab.make(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
            "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "1000"],
                "volumeMounts": [{"name": "v", "mountPath": "/settings"}]}]}}));
    };
    let runs = |name: &str| {
        let phase = lab.instance.phase(name);
        (phase == "Running").then_some(())
    };
    lab.fault(&["disk", "node/node-1", "--failure", "failing", "--name", "failing"]);
    make("fails");
    wait_for("the pod to say why it waits", || {
        let path = "jsonpath={.items[*].message}";
        let of = "involvedObject.name=fails,reason=FailedMount";
        let events = lab.instance.kubectl(&["get", "events", "--field-selector", of, "-o", path]);
        events.contains("input/output error").then_some(())
    });
    assert_eq!(runs("fails"), None);
    lab.fault(&["heal", "failing"]);
    wait_for("the pod to run", || runs("fails"));

    lab.fault(&["disk", "node/node-1", "--failure", "slow", "--delay", "3s", "--name", "slow"]);
    make("slow");
    wait_for("the slow pod to run", || runs("slow"));
    let at = |path: &str| -> jiff::Timestamp {
        lab.instance.kubectl(&["get", "pod", "slow", "-o", &format!("jsonpath={{{path}}}")]).parse().unwrap()
    };
    let waited = at(".status.containerStatuses[0].state.running.startedAt")
        .duration_since(at(".metadata.creationTimestamp"));
    // Times of objects are whole seconds.
    assert!(waited.as_secs() >= 2, "{waited:?}");
    lab.fault(&["heal", "slow"]);
    lab.instance.stop();
}
