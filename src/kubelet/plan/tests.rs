//! Tests of the pure plan, with a fixture that carries out every action at once and without errors.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus, Probe};
use serde_json::{Value, json};

use super::*;
use crate::observed::{AttemptMemory, ContainerStop, PodStop};
use crate::probe::ProbeSet;
use crate::runtime::{ContainerExit, SandboxRecord, example_sandbox};
use crate::status::{StatusStage, compose_status};

/// The behavior of a container's attempts: each runs for some seconds, then exits with a code; the last entry repeats.
/// With a negative time it runs until it is stopped, and then exits with the code.
type Script = BTreeMap<&'static str, Vec<(i64, i32)>>;

struct PlanFixture {
    pod: Pod,
    observed: ObservedPod,
    now: Timestamp,
    script: Script,
    log: Vec<String>,
    removed: bool,
}

impl PlanFixture {
    fn new(spec: &Value, script: &[(&'static str, &[(i64, i32)])]) -> Self {
        let pod =
            json!({"metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 1}, "spec": spec});
        Self {
            pod: serde_json::from_value(pod).unwrap(),
            observed: ObservedPod::default(),
            now: Timestamp::UNIX_EPOCH,
            script: script.iter().map(|(name, runs)| (*name, runs.to_vec())).collect(),
            log: Vec::new(),
            removed: false,
        }
    }

    /// Runs until `second`, and returns the status then.
    fn run(&mut self, second: i64) -> PodStatus {
        let end = Timestamp::from_second(second).unwrap();
        let timings = Timings::default();
        loop {
            self.exit_due_containers();
            for round in 0.. {
                assert!(round < 50, "the plan does not come to rest: {:?}", self.log);
                let plan = plan(&self.pod, &self.observed, self.now, &timings);
                let done = plan.actions.is_empty();
                for action in plan.actions {
                    self.execute(action);
                }
                self.exit_due_containers();
                if done || self.removed {
                    break;
                }
            }
            let status = compose_status(&self.pod, &self.observed, self.now, &timings, StatusStage::Current);
            self.pod.status = Some(status.clone());
            let wake = plan(&self.pod, &self.observed, self.now, &timings).next_wake;
            let exit = self.next_exit();
            let next = [wake, exit].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end && !self.removed) else {
                self.now = end;
                return compose_status(&self.pod, &self.observed, self.now, &timings, StatusStage::Current);
            };
            self.now = next.max(self.now);
        }
    }

    fn planned_exit(&self, record: &ContainerRecord) -> Option<(Timestamp, i32)> {
        let runs = self.script.get(record.name.as_str())?;
        let (seconds, code) = runs.get(record.attempt as usize).or(runs.last())?;
        let at = record.started_at.checked_add(SignedDuration::from_secs(*seconds)).unwrap();
        (*seconds >= 0).then_some((at, *code))
    }

    fn records(&self) -> impl Iterator<Item = &ContainerRecord> {
        self.observed.sandbox.iter().flat_map(|s| &s.containers)
    }

    fn next_exit(&self) -> Option<Timestamp> {
        self.records()
            .filter(|r| r.exit.is_none())
            .filter_map(|r| self.planned_exit(r))
            .map(|(at, _)| at)
            .min()
    }

    fn exit_due_containers(&mut self) {
        let due: Vec<(ContainerId, i32)> = self
            .records()
            .filter(|r| r.exit.is_none())
            .filter_map(|r| {
                self.planned_exit(r).filter(|(at, _)| *at <= self.now).map(|(_, c)| (r.id.clone(), c))
            })
            .collect();
        for (id, code) in due {
            self.end(&id, code);
        }
    }

    fn end(&mut self, id: &ContainerId, code: i32) {
        let now = self.now;
        let records = self.observed.sandbox.iter_mut().flat_map(|s| &mut s.containers);
        for record in records.filter(|r| r.id == *id && r.exit.is_none()) {
            let exit = ContainerExit { exit_code: code, finished_at: now, ..ContainerExit::default() };
            record.exit = Some(exit);
        }
    }

    fn log_action(&mut self, action: &str) {
        self.log.push(format!("{}:{action}", self.now.as_second()));
    }

    fn stop_mut(&mut self, name: &str) -> &mut ContainerStop {
        self.observed.memory_mut(name).current.as_mut().unwrap().stop.as_mut().unwrap()
    }

    fn execute(&mut self, action: Action) {
        let now = self.now;
        match action {
            Action::Prepare => self.observed.setup = SetupState::Ready,
            Action::RunSandbox => {
                self.log_action("sandbox");
                let containers = self.observed.sandbox.take().map(|s| s.containers).unwrap_or_default();
                let spec = example_sandbox();
                self.observed.sandbox =
                    Some(SandboxRecord { spec, created_at: now, ready: true, containers });
            }
            Action::StopSandbox => {
                let ids: Vec<ContainerId> = self.records().map(|r| r.id.clone()).collect();
                for id in &ids {
                    self.end(id, 137);
                }
                self.observed.sandbox.as_mut().unwrap().ready = false;
            }
            Action::Start { name, attempt, back_off } => {
                self.log_action(&format!("start {name}"));
                let (_, container) = spec::container(&self.pod, &name).unwrap();
                let probes = ProbeSet::new(&container, now);
                let id = ContainerId(format!("{name}-{attempt}"));
                let image = container.image.clone().unwrap_or_default();
                let record = ContainerRecord {
                    id: id.clone(),
                    name: name.clone(),
                    attempt,
                    image,
                    started_at: now,
                    ..ContainerRecord::default()
                };
                self.observed.sandbox.as_mut().unwrap().containers.push(record);
                let memory = self.observed.memory_mut(&name);
                memory.back_off = back_off.or(memory.back_off);
                memory.current = Some(AttemptMemory {
                    id,
                    post_start: HookState::Done,
                    probes,
                    stop: None,
                    resources: container.resources.clone(),
                });
            }
            Action::StopContainer { name, grace, message, for_change, .. } => {
                self.log_action(&message);
                let attempt = self.observed.memory_mut(&name).current.as_mut().unwrap();
                attempt.stop = Some(ContainerStop { for_change, ..ContainerStop::new(now, grace) });
            }
            Action::Resize { name, .. } => {
                self.log_action(&format!("resize {name}"));
                let given = self.observed.resize.allocated.get(&name).cloned();
                self.observed.memory_mut(&name).current.as_mut().unwrap().resources = given;
            }
            Action::PreStop { name, .. } => {
                self.log_action(&format!("preStop {name}"));
                self.stop_mut(&name).pre_stop = HookState::Running;
            }
            Action::Terminate { name, id } => {
                self.log_action(&format!("TERM {name}"));
                self.stop_mut(&name).terminated_at = Some(now);
                let obeys = self.script.get(name.as_str()).and_then(|runs| runs.last());
                if let Some((_, code)) = obeys.copied().filter(|(_, code)| *code != -1) {
                    self.end(&id, code);
                }
            }
            Action::Kill { name, id } => {
                self.log_action(&format!("KILL {name}"));
                self.stop_mut(&name).killed_at = Some(now);
                self.end(&id, 137);
            }
            Action::Probe { name, kind, .. } => {
                let attempt = self.observed.memory_mut(&name).current.as_mut().unwrap();
                attempt.probes.probe_started(kind);
                let outcome = crate::probe::ProbeOutcome::Failure("no".into());
                attempt.probes.answered(kind, &outcome, now);
            }
            Action::RecordBackOff { name, until, .. } => {
                self.observed.memory_mut(&name).reported_back_off = Some(until);
            }
            Action::Forget { id } => {
                self.observed.sandbox.as_mut().unwrap().containers.retain(|c| c.id != id);
            }
            Action::StopPod { cause, grace } => {
                let began = self.observed.stop.as_ref().filter(|s| s.cause != StopCause::Completed);
                let began = began.map_or(now, |s| s.began);
                self.observed.stop = Some(PodStop { cause, began, grace });
            }
            Action::Remove => {
                self.log_action("remove");
                self.removed = true;
            }
        }
    }
}

/// `Phase name=Reason×restarts …`
fn show(status: &PodStatus) -> String {
    let mut out = status.phase.clone().unwrap();
    let lists = [&status.init_container_statuses, &status.container_statuses];
    for c in lists.into_iter().flatten().flatten() {
        let state = c.state.as_ref().unwrap();
        let reason = match (&state.waiting, &state.terminated) {
            (Some(waiting), _) => waiting.reason.clone().unwrap(),
            (_, Some(ended)) => ended.reason.clone().unwrap(),
            _ => "Running".into(),
        };
        write!(out, " {}={reason}×{}", c.name, c.restart_count).unwrap();
    }
    out
}

const RUNS_FOREVER: &[(i64, i32)] = &[(-1, 0)];

/// The table of the pod lifecycle page: policy × exits of one and of two containers, 5 s after the exit at
/// second 60 (POD-4).
#[test]
fn restart_policies_do_what_the_lifecycle_page_says_pod_4() {
    // The container runs 60 s; restarted, it stays.
    let good: &[(i64, i32)] = &[(60, 0), (-1, 0)];
    let bad: &[(i64, i32)] = &[(60, 1), (-1, 0)];
    for (policy, a, b, expected) in [
        ("Always", good, None, "Running a=Running×1"),
        ("OnFailure", good, None, "Succeeded a=Completed×0"),
        ("Never", good, None, "Succeeded a=Completed×0"),
        ("Always", bad, None, "Running a=Running×1"),
        ("OnFailure", bad, None, "Running a=Running×1"),
        ("Never", bad, None, "Failed a=Error×0"),
        ("Always", bad, Some(RUNS_FOREVER), "Running a=Running×1 b=Running×0"),
        ("OnFailure", bad, Some(RUNS_FOREVER), "Running a=Running×1 b=Running×0"),
        ("Never", bad, Some(RUNS_FOREVER), "Running a=Error×0 b=Running×0"),
        ("Always", good, Some(RUNS_FOREVER), "Running a=Running×1 b=Running×0"),
        ("OnFailure", good, Some(RUNS_FOREVER), "Running a=Completed×0 b=Running×0"),
        ("Never", good, Some(RUNS_FOREVER), "Running a=Completed×0 b=Running×0"),
        ("Always", bad, Some(good), "Running a=Running×1 b=Running×1"),
        ("OnFailure", bad, Some(good), "Running a=Running×1 b=Completed×0"),
        ("Never", bad, Some(good), "Failed a=Error×0 b=Completed×0"),
        ("OnFailure", good, Some(good), "Succeeded a=Completed×0 b=Completed×0"),
        ("Never", good, Some(good), "Succeeded a=Completed×0 b=Completed×0"),
        ("Never", bad, Some(bad), "Failed a=Error×0 b=Error×0"),
    ] {
        let mut containers = vec![json!({"name": "a"})];
        let mut script = vec![("a", a)];
        if let Some(b) = b {
            containers.push(json!({"name": "b"}));
            script.push(("b", b));
        }
        let mut machine =
            PlanFixture::new(&json!({"restartPolicy": policy, "containers": containers}), &script);
        let status = machine.run(65);
        assert_eq!(show(&status), expected, "{policy} {a:?} {b:?}: {:?}", machine.log);
    }
}

/// The second failure backs off, and the status shows that; containers that exit with 0 under Always back off as well
/// (POD-4).
#[test]
fn failing_again_is_a_crash_loop_pod_4() {
    for (policy, code, expected) in [
        ("Always", 1, "Running a=CrashLoopBackOff×3"),
        ("Always", 0, "Running a=CrashLoopBackOff×3"),
        ("OnFailure", 1, "Running a=CrashLoopBackOff×3"),
    ] {
        let spec = json!({"restartPolicy": policy, "containers": [{"name": "a"}]});
        let mut machine = PlanFixture::new(&spec, &[("a", &[(1, code)])]);
        let status = machine.run(40);
        assert_eq!(show(&status), expected);
        assert_eq!(
            machine.log,
            ["0:sandbox", "0:start a", "1:start a", "12:start a", "33:start a"],
            "{policy}"
        );
        let waiting = status.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
        assert_eq!(waiting.message.unwrap(), "back-off 40s restarting failed container=a pod=p_n(u)");
    }
}

/// INIT-1: init containers run in order, and the restart policy decides about their failures.
#[test]
fn init_containers_decide_by_policy_init_1() {
    for (policy, first, expected) in [
        ("Always", &[(1, 0)], "Running i=Completed×0 j=Completed×0 a=Running×0"),
        ("Never", &[(1, 7)], "Failed i=Error×0 j=PodInitializing×0 a=PodInitializing×0"),
        ("Always", &[(1, 7)], "Pending i=CrashLoopBackOff×2 j=PodInitializing×0 a=PodInitializing×0"),
        ("OnFailure", &[(1, 7)], "Pending i=CrashLoopBackOff×2 j=PodInitializing×0 a=PodInitializing×0"),
    ] {
        let spec = json!({"restartPolicy": policy, "initContainers": [{"name": "i"}, {"name": "j"}],
            "containers": [{"name": "a"}]});
        let mut machine = PlanFixture::new(&spec, &[("i", first), ("j", &[(1, 0)]), ("a", RUNS_FOREVER)]);
        assert_eq!(show(&machine.run(20)), expected, "{policy} {first:?}: {:?}", machine.log);
    }
}

/// INIT-2: a lost sandbox runs the init containers again; completed app containers do not run again.
#[test]
fn a_lost_sandbox_starts_over_init_2() {
    let spec = json!({"restartPolicy": "OnFailure", "initContainers": [{"name": "i"}],
        "containers": [{"name": "a"}, {"name": "done"}]});
    let mut machine = PlanFixture::new(&spec, &[("i", &[(1, 0)]), ("a", RUNS_FOREVER), ("done", &[(2, 0)])]);
    machine.run(10);
    machine.execute(Action::StopSandbox);
    let status = machine.run(20);
    assert_eq!(show(&status), "Running i=Completed×1 a=Running×1 done=Completed×0");
    assert_eq!(
        machine.log,
        ["0:sandbox", "0:start i", "1:start a", "1:start done", "10:sandbox", "10:start i", "11:start a"]
    );
}

/// POD-7 and INIT-3: app containers end first, each after its preStop hook, then sidecars in reverse order; containers
/// that ignore SIGTERM are killed.
#[test]
fn termination_is_ordered_and_bounded_pod_7() {
    let hook = json!({"preStop": {"sleep": {"seconds": 3}}});
    let spec = json!({"terminationGracePeriodSeconds": 10,
        "initContainers": [{"name": "s1", "restartPolicy": "Always"}, {"name": "s2", "restartPolicy": "Always"}],
        "containers": [{"name": "a", "lifecycle": hook}, {"name": "b"}]});
    // With exit code -1, the container ignores SIGTERM.
    let mut machine = PlanFixture::new(
        &spec,
        &[("s1", RUNS_FOREVER), ("s2", RUNS_FOREVER), ("a", RUNS_FOREVER), ("b", &[(-1, -1)])],
    );
    machine.run(5);
    machine.log.clear();
    machine.pod.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::from_second(15).unwrap()));
    machine.pod.metadata.deletion_grace_period_seconds = Some(10);
    machine.run(60);
    assert_eq!(
        machine.log,
        [
            "5:Stopping container a", "5:Stopping container b", "5:Stopping container s2",
            "5:Stopping container s1", "5:preStop a", "5:TERM b", "15:TERM a", "15:KILL b", "15:TERM s2",
            "15:TERM s1", "15:remove"
        ]
    );
}

/// A failed liveness probe restarts its container; the back-off grows as with any failure (POD-5).
#[test]
fn a_failed_liveness_probe_restarts_pod_5() {
    let spec = json!({"containers": [{"name": "a",
        "livenessProbe": {"exec": {}, "periodSeconds": 5, "failureThreshold": 2}}]});
    let mut machine = PlanFixture::new(&spec, &[("a", &[(-1, 137)])]);
    let status = machine.run(6);
    assert_eq!(show(&status), "Running a=Running×1");
    assert_eq!(
        machine.log,
        [
            "0:sandbox",
            "0:start a",
            "5:Container a failed liveness probe, will be restarted",
            "5:TERM a",
            "5:start a"
        ]
    );
}

/// A deadline counts from the start of the pod on its node (POD-9).
#[test]
fn a_deadline_ends_the_pod_pod_9() {
    let spec = json!({"activeDeadlineSeconds": 30, "containers": [{"name": "a"}]});
    let mut machine = PlanFixture::new(&spec, &[("a", &[(-1, 143)])]);
    assert_eq!(show(&machine.run(29)), "Running a=Running×0");
    let status = machine.run(31);
    assert_eq!(show(&status), "Failed a=Error×0");
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
}

/// An ephemeral container is started once, also beside an app in back-off, and never again (EPH-1, EPH-3).
#[test]
fn ephemeral_containers_run_once_beside_anything_eph_1() {
    let spec = json!({"containers": [{"name": "a"}]});
    let mut machine = PlanFixture::new(&spec, &[("a", &[(1, 1)]), ("d", &[(5, 1)])]);
    machine.run(15);
    let ephemeral = json!([{"name": "d", "image": "busybox"}]);
    machine.pod.spec.as_mut().unwrap().ephemeral_containers =
        Some(serde_json::from_value(ephemeral).unwrap());
    let status = machine.run(100);
    let debug = &status.ephemeral_container_statuses.unwrap()[0];
    assert_eq!(debug.state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 1);
    assert_eq!(machine.log.iter().filter(|l| l.ends_with("start d")).count(), 1);
    assert_eq!(machine.log.iter().find(|l| l.ends_with("start d")).unwrap(), "15:start d");
}

/// The back-off is reset after the container has run for ten minutes (POD-4).
#[test]
fn good_running_forgives_pod_4() {
    let spec = json!({"containers": [{"name": "a"}]});
    let mut machine = PlanFixture::new(&spec, &[("a", &[(1, 1), (1, 1), (1, 1), (1800, 1), (1, 1)])]);
    machine.run(1840);
    assert_eq!(machine.log.last().unwrap(), "1833:start a", "{:?}", machine.log);
    let delay = machine.observed.memory("a").back_off.unwrap().delay;
    assert_eq!(delay, Duration::from_secs(10));
}

fn deleted(machine: &mut PlanFixture, at: i64, grace: i64) {
    let end = Timestamp::from_second(at + grace).unwrap();
    machine.pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(end));
    machine.pod.metadata.deletion_grace_period_seconds = Some(grace);
}

/// POD-6: a preStop hook that uses up the grace period leaves the process two more seconds after SIGTERM, once.
#[test]
fn a_hook_that_never_ends_gets_two_seconds_more_pod_6() {
    let hook = json!({"preStop": {"exec": {"command": ["sleep", "inf"]}}});
    let spec = json!({"terminationGracePeriodSeconds": 10, "containers": [{"name": "a", "lifecycle": hook}]});
    let mut machine = PlanFixture::new(&spec, &[("a", &[(-1, -1)])]);
    machine.run(5);
    machine.log.clear();
    deleted(&mut machine, 5, 10);
    machine.run(60);
    assert_eq!(machine.log, ["5:Stopping container a", "5:preStop a", "15:TERM a", "17:KILL a", "17:remove"]);
}

/// POD-5: a probe with its own grace period ends its container sooner than the pod's grace period would.
#[test]
fn a_probes_own_grace_counts_pod_5() {
    for (own, killed) in [(json!(null), 35), (json!(3), 8), (json!(1), 7)] {
        let spec = json!({"terminationGracePeriodSeconds": 30, "containers": [{"name": "a",
            "livenessProbe": {"exec": {}, "periodSeconds": 5, "failureThreshold": 2,
                "terminationGracePeriodSeconds": own}}]});
        // The container ignores SIGTERM.
        let mut machine = PlanFixture::new(&spec, &[("a", &[(-1, -1)])]);
        machine.run(40);
        let log = &machine.log;
        assert!(log.contains(&"5:TERM a".to_string()), "{log:?}");
        assert!(log.contains(&format!("{killed}:KILL a")), "{own}: {log:?}");
    }
}

/// A terminating pod's readiness is probed until its containers end; its liveness is not.
#[test]
fn a_terminating_pod_shows_whether_it_still_serves_pod_5() {
    let probe = json!({"exec": {}, "periodSeconds": 5, "failureThreshold": 1});
    let spec = json!({"containers": [{"name": "a", "readinessProbe": probe}]});
    // The container ignores SIGTERM.
    let mut machine = PlanFixture::new(&spec, &[("a", &[(-1, -1)])]);
    machine.run(1);
    let (now, attempt) = (machine.now, machine.observed.memory_mut("a").current.as_mut().unwrap());
    attempt.probes.answered(ProbeKind::Readiness, &crate::probe::ProbeOutcome::Success, now);
    deleted(&mut machine, 2, 30);
    let is_ready = |status: PodStatus| status.container_statuses.unwrap()[0].ready;
    assert!(is_ready(machine.run(3)));
    assert!(!is_ready(machine.run(20)), "{:?}", machine.log);
    machine.pod.spec.as_mut().unwrap().containers[0].liveness_probe = Some(Probe::default());
    let attempt = machine.observed.memory_mut("a").current.as_mut().unwrap();
    attempt.probes = ProbeSet::new(&machine.pod.spec.as_ref().unwrap().containers[0], machine.now);
    let plan = plan(&machine.pod, &machine.observed, machine.now, &Timings::default());
    let probes = plan.actions.iter().filter_map(|action| match action {
        Action::Probe { kind, .. } => Some(*kind),
        _ => None,
    });
    assert_eq!(probes.collect::<Vec<_>>(), [ProbeKind::Readiness]);
}

/// INIT-3: sidecars go after the apps, the last started first, each once the one after it has gone.
#[test]
fn sidecars_end_in_reverse_order_init_3() {
    let spec = json!({"terminationGracePeriodSeconds": 30,
        "initContainers": [{"name": "s1", "restartPolicy": "Always"}, {"name": "s2", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}], "restartPolicy": "Never"});
    let mut machine =
        PlanFixture::new(&spec, &[("s1", RUNS_FOREVER), ("s2", RUNS_FOREVER), ("a", &[(20, 0)])]);
    let status = machine.run(60);
    let order: Vec<&str> = machine.log.iter().filter(|l| l.contains("TERM")).map(String::as_str).collect();
    assert_eq!(order, ["20:TERM s2", "20:TERM s1"], "{:?}", machine.log);
    assert_eq!(show(&status), "Succeeded s1=Completed×0 s2=Completed×0 a=Completed×0");
}

/// INIT-3: a sidecar restarts under any restart policy of the pod, and beside a running app.
#[test]
fn a_sidecar_restarts_always_init_3() {
    let spec = json!({"restartPolicy": "Never",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}]});
    let mut machine = PlanFixture::new(&spec, &[("s", &[(5, 1), (-1, 0)]), ("a", RUNS_FOREVER)]);
    assert_eq!(show(&machine.run(60)), "Running s=Running×1 a=Running×0");
}

/// POD-7: a pod that is deleted during a back-off starts no further container.
#[test]
fn a_pod_in_back_off_ends_at_once_when_deleted_pod_7() {
    let spec = json!({"containers": [{"name": "a"}]});
    let mut machine = PlanFixture::new(&spec, &[("a", &[(1, 1)])]);
    assert_eq!(show(&machine.run(5)), "Running a=CrashLoopBackOff×1");
    machine.log.clear();
    deleted(&mut machine, 5, 30);
    machine.run(60);
    assert_eq!(machine.log, ["5:remove"]);
}

/// POD-4: a container's own restart policy and rules take precedence over its pod's, also for the pod's phase.
#[test]
fn a_containers_own_restart_policy_decides_pod_4() {
    let rule = |action: &str| {
        json!([{"action": action, "exitCodes": {"operator": "In", "values": [42]}},
            {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0, 1, 42]}}])
    };
    let bad = |code| [(5, code), (-1, 0)];
    for (own, code, expected) in [
        (json!({"restartPolicy": "OnFailure"}), 1, "Running a=Running×1"),
        (json!({"restartPolicy": "OnFailure"}), 0, "Succeeded a=Completed×0"),
        (json!({"restartPolicy": "Always"}), 0, "Running a=Running×1"),
        (json!({"restartPolicy": "Never", "restartPolicyRules": rule("Restart")}), 42, "Running a=Running×1"),
        (json!({"restartPolicy": "Never", "restartPolicyRules": rule("Restart")}), 7, "Running a=Running×1"),
        (json!({"restartPolicy": "Never", "restartPolicyRules": rule("Restart")}), 1, "Failed a=Error×0"),
    ] {
        let mut container = json!({"name": "a"});
        container.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let spec = json!({"restartPolicy": "Never", "containers": [container]});
        let exits = bad(code);
        let mut machine = PlanFixture::new(&spec, &[("a", &exits)]);
        assert_eq!(show(&machine.run(10)), expected, "{own} {code}: {:?}", machine.log);
    }
}

/// POD-4: `RestartAllContainers` restarts all containers in the same sandbox, init containers first.
#[test]
fn one_exit_restarts_all_containers_in_place_pod_4() {
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]);
    let spec = json!({"restartPolicy": "Never",
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        "containers": [
            {"name": "a", "restartPolicy": "Never", "restartPolicyRules": rules},
            {"name": "b"}, {"name": "c"}]});
    let script: &[(&str, &[(i64, i32)])] = &[
        ("i", &[(1, 0)]),
        ("s", RUNS_FOREVER),
        ("a", &[(5, 42), (-1, 0)]),
        ("b", RUNS_FOREVER),
        ("c", &[(2, 0)]),
    ];
    let mut machine = PlanFixture::new(&spec, script);
    let status = machine.run(60);
    assert_eq!(
        show(&status),
        "Running i=Completed×1 s=Running×1 a=Running×1 b=Running×1 c=Completed×1",
        "{:?}",
        machine.log
    );
    let starts: Vec<&str> =
        machine.log.iter().map(String::as_str).filter(|line| line.contains("start ")).collect();
    assert_eq!(
        starts,
        [
            "0:start i", "1:start s", "1:start a", "1:start b", "1:start c", "6:start i", "7:start s",
            "7:start a", "7:start b", "7:start c"
        ]
    );
    assert_eq!(machine.log.iter().filter(|line| line.ends_with("sandbox")).count(), 1, "{:?}", machine.log);
    let condition = |status: &PodStatus| {
        let mut all = status.conditions.clone().unwrap().into_iter();
        all.find(|c| c.type_ == "AllContainersRestarting").map(|c| c.status)
    };
    assert_eq!(condition(&status).as_deref(), Some("False"));
}

/// POD-4: a pod that repeatedly restarts all its containers backs off longer each time, and does not fail.
#[test]
fn restarts_of_all_containers_back_off_pod_4() {
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]);
    let spec = json!({"restartPolicy": "Never",
        "initContainers": [{"name": "i", "restartPolicy": "Never", "restartPolicyRules": rules}],
        "containers": [{"name": "a"}]});
    let mut machine = PlanFixture::new(&spec, &[("i", &[(1, 42)]), ("a", RUNS_FOREVER)]);
    assert_eq!(
        show(&machine.run(40)),
        "Pending i=CrashLoopBackOff×3 a=PodInitializing×0",
        "{:?}",
        machine.log
    );
    let spec = json!({"restartPolicy": "Never", "initContainers": [{"name": "i"}],
        "containers": [{"name": "a", "restartPolicy": "Never", "restartPolicyRules": rules}]});
    let mut machine = PlanFixture::new(&spec, &[("i", &[(1, 0)]), ("a", &[(1, 42)])]);
    assert_eq!(show(&machine.run(45)), "Running i=Completed×4 a=CrashLoopBackOff×3", "{:?}", machine.log);
}

/// A changed image restarts its container under every policy, as in Kubernetes. The pod does not end while the new image
/// is not available.
#[test]
fn a_changed_image_restarts_its_container_under_every_policy_pod_4() {
    for policy in ["Always", "OnFailure", "Never"] {
        let spec = json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "a:1"}]});
        let mut machine = PlanFixture::new(&spec, &[("a", RUNS_FOREVER)]);
        machine.run(10);
        machine.pod.spec.as_mut().unwrap().containers[0].image = Some("a:2".into());
        machine.observed.memory_mut("a").image = ImageState::Failed {
            image: "a:2".into(),
            reason: "ErrImagePull",
            message: "refused".into(),
            at: machine.now,
            delay: Duration::from_secs(10),
        };
        assert_eq!(show(&machine.run(15)), "Running a=ImagePullBackOff×0", "{policy}: {:?}", machine.log);
        assert_eq!(show(&machine.run(25)), "Running a=Running×1", "{policy}: {:?}", machine.log);
    }
}

#[test]
fn a_changed_image_does_not_wait_for_the_back_off_of_the_former_one_pod_4() {
    let spec = json!({"containers": [{"name": "a", "image": "a:1"}]});
    let mut machine = PlanFixture::new(&spec, &[("a", &[(1, 1), (1, 1), (1, 1), (1, 1), (-1, 0)])]);
    assert_eq!(show(&machine.run(14)), "Running a=CrashLoopBackOff×2");
    machine.pod.spec.as_mut().unwrap().containers[0].image = Some("a:2".into());
    machine.run(30);
    assert_eq!(
        machine.log,
        ["0:sandbox", "0:start a", "1:start a", "12:start a", "14:start a", "25:start a"]
    );
}
