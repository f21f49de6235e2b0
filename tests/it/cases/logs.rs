//! Followers of a log that rotates while they read it.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Stdio};
use std::sync::mpsc;

use kube::api::LogParams;

use crate::instance::{ChildGuard, DataDir, Instance, WAIT_TIMEOUT, wait_for};
use crate::needs::needs;

const MANIFEST: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cases/manifests/02-follow-over-rotations.yaml");
const LINES: u64 = 300_000;
/// Number of clients that start to read only after everything has been written.
const SLOW: usize = 4;
const FOLLOWERS: usize = 11;

fn follow(instance: &Instance) -> (ChildGuard, BufReader<ChildStdout>) {
    let mut command = instance.kubectl_command();
    let mut child = ChildGuard::spawn(command.args(["logs", "-f", "lg"]).stdout(Stdio::piped()));
    let stdout = child.0.stdout.take().unwrap();
    (child, BufReader::new(stdout))
}

/// Reads up to the last line, and returns the first error.
fn check(stdout: BufReader<ChildStdout>) -> Result<(), String> {
    let mut expected = 1;
    for line in stdout.lines() {
        let line = line.map_err(|error| error.to_string())?;
        if line == "THEEND" {
            let read = expected - 1;
            return if read == LINES { Ok(()) } else { Err(format!("it ends after {read} lines")) };
        }
        let number = line.split(' ').next().and_then(|number| number.parse().ok());
        if number != Some(expected) {
            return Err(format!("{line} instead of line {expected}"));
        }
        expected += 1;
    }
    Err(format!("it was cut off before line {expected}"))
}

#[test]
fn eleven_followers_of_thirty_megabytes_miss_no_line_api_3() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "1"]);
    instance.apply(&std::fs::read_to_string(MANIFEST).unwrap());
    wait_for("the pod to run", || (instance.phase("lg") == "Running").then_some(()));
    let (report, reports) = mpsc::channel();
    let mut children = Vec::new();
    let mut slow = Vec::new();
    for number in 0..FOLLOWERS {
        let (child, stdout) = follow(&instance);
        children.push(child);
        let report = report.clone();
        let read = move || report.send((number, check(stdout)));
        if number < SLOW {
            slow.push(read);
        } else {
            std::thread::spawn(read);
        }
    }
    let last = LogParams { tail_lines: Some(1), ..LogParams::default() };
    wait_for("the last line", || (instance.read_log("lg", &last).unwrap() == "THEEND\n").then_some(()));
    let tail = instance.kubectl(&["logs", "lg", "--tail=200001"]);
    assert!(tail.starts_with("000000000100001 ") && tail.lines().count() == 200_001);
    for read in slow {
        std::thread::spawn(read);
    }
    for _ in 0..FOLLOWERS {
        let (number, checked) = reports.recv_timeout(4 * WAIT_TIMEOUT).expect("a follower does not end");
        assert_eq!(checked, Ok(()), "follower {number}");
    }
    drop(children);
    instance.stop();
}
