//! `podium scenario run` while the control plane dies and comes back (FAULT-2): the scenario and the command continue.

use std::process::{Command, Stdio};

use crate::instance::{ChildGuard, DataDir, wait_for};
use crate::needs::needs;

/// A fault at once; the scenario ends after a ConfigMap has existed for two seconds.
const SCENARIO: &str = r#"
apiVersion: podium.dev/v1alpha1
kind: Scenario
metadata: {name: interrupted}
spec:
  title: Something is missing
  timeLimit: 10m
  steps:
  - at: 0s
    apply: [{apiVersion: v1, kind: ConfigMap, metadata: {name: trouble}, data: {word: bad}}]
  check:
  - {name: trouble, kind: Trouble, for: 0s, object: {apiVersion: v1, kind: ConfigMap, name: trouble}, holds: "object.data.word == 'bad'"}
  - {name: mended, kind: Repair, for: 2s, object: {apiVersion: v1, kind: ConfigMap, name: mended}, holds: "object.data.word == 'good'"}
"#;

#[test]
fn a_command_that_follows_a_scenario_waits_for_the_control_plane_fault_2() {
    needs!(Kubectl);
    let home = DataDir::new();
    let arguments = ["--nodes", "0", "--hollow-nodes", "1"];
    let instance = home.start(&arguments);
    let (file, out) = (home.path("scenario.yaml"), home.path("out"));
    std::fs::write(&file, SCENARIO).unwrap();
    let log = std::fs::File::create(&out).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.args(["scenario", "run"]).arg(&file).arg("--data-dir").arg(home.data_dir());
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let mut run = ChildGuard::spawn(&mut command);
    let output = || std::fs::read_to_string(&out).unwrap();
    wait_for("the trouble", || output().contains("trouble (trouble) holds").then_some(()));

    instance.crash();
    wait_for("that it is noticed", || output().contains("no response: scenario interrupted").then_some(()));
    let instance = home.start(&arguments);
    wait_for("its return", || output().contains("the control plane is back").then_some(()));
    instance.kubectl(&["create", "configmap", "mended", "--from-literal=word=good"]);
    let status = run.0.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{}", output());
    assert!(output().contains("Passed: Something is missing"), "{}", output());
    let events = instance.kubectl(&["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"]);
    assert!(events.contains("ScenarioResumed"), "{events}");
    assert_eq!(output().matches("the trouble started").count(), 1, "{}", output());
}
