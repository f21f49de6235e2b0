//! The effects of a node's skewed clock and of its full, failing or slow disk on the logs of real processes, on
//! measurements, and on the files of containers (FAULT-1).

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs};

struct Lab {
    home: DataDir,
    instance: Instance,
}

impl Lab {
    /// One node, and a pod on it that counts into its log five times a second, with an emptyDir at /cache.
    fn start() -> Self {
        let home = DataDir::visible_to_containers();
        let instance = home.start(&["--nodes", "1"]);
        let lab = Self { home, instance };
        let count = "n=0; while true; do n=$((n+1)); echo line $n; sleep 0.2; done";
        lab.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", count],
                "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}]}}));
        wait_for("the pod to say something", || (!lab.logs(&[]).is_empty()).then_some(()));
        lab
    }

    fn apply(&self, object: &Value) {
        self.instance.apply(&object.to_string());
    }

    fn fault(&self, arguments: &[&str]) -> String {
        let output = self.home.fault(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The lines of the pod's log; empty while its node does not answer.
    fn logs(&self, arguments: &[&str]) -> Vec<String> {
        let output = self.instance.kubectl_output(&[&["logs", "a"], arguments].concat());
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// Returns the time of the log's last line, and by how much it is ahead of this machine's clock.
    fn last_line(&self) -> (Timestamp, SignedDuration) {
        let lines = self.logs(&["--timestamps", "--tail=1"]);
        let at: Timestamp = lines[0].split(' ').next().unwrap().parse().unwrap();
        (at, at.duration_since(now()))
    }

    fn messages(&self, pod: &str) -> String {
        let of = format!("involvedObject.name={pod}");
        self.instance
            .kubectl(&["get", "events", "--field-selector", &of, "-o", "jsonpath={.items[*].message}"])
    }

    fn pod_does(&self, script: &str) -> (bool, String) {
        let output = self.instance.kubectl_output(&["exec", "a", "--", "sh", "-c", script]);
        let combined = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&combined).into_owned())
    }
}

#[expect(clippy::disallowed_methods, reason = "the machine's own time is what is compared with")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// The numbers of lines `line N`, without their times.
fn numbers(lines: &[String]) -> Vec<u64> {
    let number = |line: &String| line.rsplit(' ').next().unwrap().parse().unwrap();
    lines.iter().map(number).collect()
}

#[test]
fn a_nodes_clock_that_is_off_is_in_its_logs_and_in_what_is_measured_fault_1() {
    needs!(Kubectl);
    let lab = Lab::start();
    let off_by_hours = |hours: i64| {
        let (near, far) =
            (SignedDuration::from_mins(hours * 60 - 5), SignedDuration::from_mins(hours * 60 + 5));
        move |ahead: SignedDuration| near < ahead && ahead < far
    };
    assert!(off_by_hours(0)(lab.last_line().1));
    lab.fault(&["skew", "kubelet/node-1", "--by", "2h", "--name", "off"]);
    wait_for("lines with the node's time", || off_by_hours(2)(lab.last_line().1).then_some(()));
    // Both options use the lines' own timestamps. The pod goes on printing: the shorter list is read first.
    let later = lab.logs(&[&format!("--since-time={}", later_than_now(60))]);
    let all = lab.logs(&["--timestamps"]);
    assert!(!later.is_empty() && later.len() < all.len(), "{} of {}", later.len(), all.len());
    assert!(numbers(&all).contains(&1) && !numbers(&later).contains(&1));
    let lately = lab.logs(&["--since=30m"]);
    assert!(!lately.is_empty() && lately.len() <= lab.logs(&[]).len());
    assert!(!numbers(&lately).contains(&1), "earlier lines are two hours old by the node's clock");
    let measured = || -> Option<SignedDuration> {
        let raw = ["get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes/node-1"];
        let output = lab.instance.kubectl_output(&raw);
        let value: Value = serde_json::from_slice(&output.stdout).ok()?;
        Some(value["timestamp"].as_str()?.parse::<Timestamp>().ok()?.duration_since(now()))
    };
    wait_for("measurements with that time", || measured().filter(|ahead| off_by_hours(2)(*ahead)).map(drop));

    // With the clock behind, measurements are as recent as ever.
    lab.fault(&["heal", "off"]);
    lab.fault(&["skew", "kubelet/node-1", "--by", "-3h", "--name", "behind"]);
    wait_for("measurements with the new time", || {
        measured().filter(|ahead| off_by_hours(-3)(*ahead)).map(drop)
    });
    wait_for("lines with that time", || off_by_hours(-3)(lab.last_line().1).then_some(()));
    // The kill of a control plane leaves the clock skewed, and the next control plane can heal it.
    let Lab { home, instance } = lab;
    instance.crash();
    let instance = home.start(&["--nodes", "1"]);
    let lab = Lab { home, instance };
    wait_for("the same after a restart", || {
        let lines = lab.logs(&["--timestamps", "--tail=1"]);
        (!lines.is_empty() && off_by_hours(-3)(lab.last_line().1)).then_some(())
    });
    lab.fault(&["heal", "behind"]);
    wait_for("the right time", || off_by_hours(0)(lab.last_line().1).then_some(()));
    let numbers = numbers(&lab.logs(&[]));
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "no line is lost");
    lab.instance.stop();
}

fn later_than_now(minutes: i64) -> Timestamp {
    now().checked_add(SignedDuration::from_mins(minutes)).unwrap()
}

#[test]
fn a_full_or_failing_disk_stops_logs_and_new_containers_and_loses_no_line_fault_1() {
    needs!(Kubectl);
    let lab = Lab::start();
    let make = |name: &str| {
        lab.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0, "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "1000"]}]}}));
    };
    lab.fault(&["disk", "node/node-1", "--failure", "failing", "--name", "failing"]);
    let output = lab.instance.kubectl_output(&["logs", "a"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && stderr.contains("input/output error"), "{stderr}");
    make("fails");
    wait_for("the pod to say why it waits", || {
        let messages = lab.messages("fails").to_lowercase();
        (messages.contains("failed to create pod sandbox") && messages.contains("input/output error"))
            .then_some(())
    });
    // An image that the node does not have yet has to be written.
    lab.instance.kubectl(&["debug", "a", "--image=nginx", "--profile=general", "--", "sleep", "1000"]);
    wait_for("the pull to fail", || {
        let messages = lab.messages("a");
        messages.contains("failed to pull and unpack image \"nginx\": input/output error").then_some(())
    });
    lab.fault(&["heal", "failing"]);
    wait_for("the pod to run", || {
        let phase = lab.instance.phase("fails");
        (phase == "Running").then_some(())
    });

    lab.fault(&["disk", "node/node-1", "--failure", "slow", "--delay", "1m", "--name", "slow"]);
    let stopped_at = numbers(&lab.logs(&["--tail=1"]))[0];
    std::thread::sleep(Duration::from_secs(2));
    let now_at = numbers(&lab.logs(&["--tail=1"]))[0];
    assert!(now_at <= stopped_at + 2, "{stopped_at} {now_at}: the lines wait to be written");
    lab.fault(&["heal", "slow"]);
    let healed = Instant::now();
    wait_for("the delayed lines", || (numbers(&lab.logs(&["--tail=1"]))[0] > now_at + 3).then_some(()));
    assert!(healed.elapsed() < Duration::from_secs(40), "a minute's wait ends with its fault");
    let numbers = numbers(&lab.logs(&[]));
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "no line is lost: {numbers:?}");
    lab.instance.stop();
}

#[test]
fn a_disk_fault_of_a_node_affects_writes_to_empty_dirs_fault_1() {
    needs!(Kubectl);
    let lab = Lab::start();
    assert!(lab.pod_does("echo kept > /cache/kept").0);
    let output = lab.fault(&["disk", "node/node-1", "--failure", "failing", "--name", "failing"]);
    // A machine without the necessary feature reports that.
    if lacks(Need::Gates, !output.contains("are not affected: ")) {
        assert!(lab.pod_does("echo more > /cache/more").0);
        return;
    }
    let (went_well, output) = lab.pod_does("echo more | dd of=/cache/more");
    assert!(!went_well && output.contains("nput/output error"), "{output}");
    assert_eq!(lab.pod_does("cat /cache/kept"), (true, "kept\n".to_owned()));
    lab.fault(&["heal", "failing"]);
    wait_for("the disk", || lab.pod_does("echo more > /cache/more").0.then_some(()));
    lab.fault(&["disk", "node/node-1", "--failure", "slow", "--delay", "2s", "--name", "slow"]);
    wait_for("a slow write", || {
        let started = Instant::now();
        assert!(lab.pod_does("echo slow > /cache/slow").0);
        (started.elapsed() >= Duration::from_secs(2)).then_some(())
    });
    lab.fault(&["heal", "slow"]);
    assert_eq!(lab.pod_does("cat /cache/*"), (true, "kept\nmore\nslow\n".to_owned()));
    lab.instance.stop();
}
