//! Tables of the status that is composed from observations.
#![expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::ips::Ips;
use crate::observed::{AttemptMemory, HookState, PodStop, SetupState};
use crate::probe::{ProbeKind, ProbeOutcome, ProbeSet};
use crate::runtime::{ContainerExit, ContainerId, ContainerRecord, SandboxRecord, example_sandbox};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(spec: Value) -> Pod {
    let meta = json!({"name": "p", "namespace": "n", "uid": "u", "generation": 3});
    serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap()
}

/// A sandbox in which each named container runs (no code) or has ended with one.
fn observed(pod: &Pod, containers: &[(&str, Option<i32>)]) -> ObservedPod {
    let spec = example_sandbox();
    let mut seen = ObservedPod {
        setup: SetupState::Ready,
        ips: Ips { first: Some(spec.ip), second: None },
        ..ObservedPod::default()
    };
    let record = |(name, code): &(&str, Option<i32>)| ContainerRecord {
        id: ContainerId(format!("id-{name}")),
        name: (*name).into(),
        started_at: at(1),
        exit: code.map(|exit_code| ContainerExit {
            exit_code,
            oom_killed: exit_code == 137,
            finished_at: at(5),
            message: Some("x".repeat(5000)),
            ..ContainerExit::default()
        }),
        ..ContainerRecord::default()
    };
    for (name, _) in containers {
        let (_, container) = spec::container(pod, name).unwrap();
        seen.memory_mut(name).current = Some(AttemptMemory {
            id: ContainerId(format!("id-{name}")),
            post_start: HookState::Done,
            probes: ProbeSet::new(&container, at(1)),
            stop: None,
            resources: container.resources.clone(),
        });
    }
    seen.sandbox = Some(SandboxRecord {
        spec,
        created_at: at(0),
        ready: true,
        containers: containers.iter().map(record).collect(),
    });
    seen
}

fn compose(pod: &Pod, observed: &ObservedPod) -> PodStatus {
    compose_status(pod, observed, at(10), &Timings::default(), StatusStage::Current)
}

/// `Type=Status[/Reason]` of the kubelet's conditions, shortened to their capitals.
fn conditions(status: &PodStatus) -> String {
    let shown = status.conditions.iter().flatten().map(|c| {
        let capitals: String = c.type_.chars().filter(char::is_ascii_uppercase).collect();
        let reason = c.reason.as_ref().map(|r| format!("/{r}")).unwrap_or_default();
        format!("{capitals}={}{reason}", c.status)
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// POD-2: PodReadyToStartContainers, Initialized, Ready and ContainersReady through a pod's life.
#[test]
fn conditions_through_a_life_pod_2() {
    let plain = json!({"containers": [{"name": "a"}]});
    let init = json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]});
    let never = json!({"restartPolicy": "Never", "containers": [{"name": "a"}]});
    let gated = json!({"readinessGates": [{"conditionType": "lb"}], "containers": [{"name": "a"}]});
    let waits = "R=False/ContainersNotReady CR=False/ContainersNotReady";
    for (rule, spec, seen, phase, expected) in [
        ("nothing yet", &plain, None, "Pending", format!("PRTSC=False I=True {waits}")),
        (
            "an init container runs",
            &init,
            Some(vec![("i", None)]),
            "Pending",
            format!("PRTSC=True I=False/ContainersNotInitialized {waits}"),
        ),
        ("initialized", &init, Some(vec![("i", Some(0))]), "Pending", format!("PRTSC=True I=True {waits}")),
        ("runs", &plain, Some(vec![("a", None)]), "Running", "PRTSC=True I=True R=True CR=True".into()),
        (
            "gated",
            &gated,
            Some(vec![("a", None)]),
            "Running",
            "PRTSC=True I=True R=False/ReadinessGatesNotReady CR=True".into(),
        ),
        (
            "done",
            &never,
            Some(vec![("a", Some(0))]),
            "Succeeded",
            "PRTSC=False I=True R=False/PodCompleted CR=False/PodCompleted".into(),
        ),
        (
            "failed",
            &never,
            Some(vec![("a", Some(137))]),
            "Failed",
            "PRTSC=False I=True R=False/PodFailed CR=False/PodFailed".into(),
        ),
    ] {
        let pod = pod(spec.clone());
        let seen = seen.map_or_else(ObservedPod::default, |list| observed(&pod, &list));
        let status = compose(&pod, &seen);
        assert_eq!((status.phase.as_deref(), conditions(&status)), (Some(phase), expected), "{rule}");
        let conditions_observed =
            status.conditions.iter().flatten().all(|c| c.observed_generation == Some(3));
        assert!(conditions_observed && status.observed_generation == Some(3), "{rule}");
    }
}

#[test]
fn the_kubelet_reports_the_generation_of_the_scheduling_condition_too_pod_2() {
    let mut pod = pod(json!({"containers": [{"name": "a"}]}));
    let status = json!({"conditions": [{"type": "PodScheduled", "status": "True", "observedGeneration": 1}]});
    pod.status = Some(serde_json::from_value(status).unwrap());
    let status = compose(&pod, &observed(&pod, &[("a", None)]));
    let scheduled = object::conditions::get(status.conditions.as_ref(), "PodScheduled").unwrap();
    assert_eq!((scheduled.status.as_str(), scheduled.observed_generation), ("True", Some(3)));
}

/// POD-3, POD-9: reasons by exit, and messages that share 12 KiB among the containers.
#[test]
fn ends_have_reasons_and_bounded_messages_pod_3() {
    let names = ["a", "b", "c", "d"];
    let containers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    let pod = pod(json!({"restartPolicy": "Never", "containers": containers}));
    let seen = observed(&pod, &[("a", Some(0)), ("b", Some(3)), ("c", Some(137)), ("d", None)]);
    let status = compose(&pod, &seen);
    let ended: Vec<String> = status
        .container_statuses
        .iter()
        .flatten()
        .filter_map(|s| s.state.as_ref()?.terminated.as_ref())
        .map(|t| {
            let length = t.message.as_ref().map_or(0, String::len);
            format!("{} {} {length}", t.reason.clone().unwrap(), t.exit_code)
        })
        .collect();
    assert_eq!(ended, ["Completed 0 3072", "Error 3 3072", "OOMKilled 137 3072"]);
    assert_eq!(status.phase.as_deref(), Some("Running"), "one still runs");
}

/// POD-5: a container counts as started and ready by its probes.
#[test]
fn started_and_ready_follow_the_probes_pod_5() {
    let pod = pod(json!({"containers": [{"name": "a", "startupProbe": {"exec": {}},
        "readinessProbe": {"exec": {}}}]}));
    let mut seen = observed(&pod, &[("a", None)]);
    let shown = |seen: &ObservedPod| {
        let status = compose(&pod, seen).container_statuses.unwrap().remove(0);
        (status.started, status.ready)
    };
    assert_eq!(shown(&seen), (Some(false), false));
    let answer = |seen: &mut ObservedPod, kind| {
        let probes = &mut seen.memory_mut("a").current.as_mut().unwrap().probes;
        probes.answered(kind, &ProbeOutcome::Success, at(2));
    };
    answer(&mut seen, ProbeKind::Startup);
    assert_eq!(shown(&seen), (Some(true), false));
    answer(&mut seen, ProbeKind::Readiness);
    assert_eq!(shown(&seen), (Some(true), true));
}

/// POD-1: a pod never returns to an earlier phase, and gets a terminal phase only when no container runs.
#[test]
fn phases_only_go_forward_pod_1() {
    let mut pod = pod(json!({"restartPolicy": "Never", "containers": [{"name": "a"}]}));
    let running = observed(&pod, &[("a", None)]);
    for (before, expected) in [("Pending", "Running"), ("Succeeded", "Succeeded"), ("Failed", "Failed")] {
        pod.status = Some(PodStatus { phase: Some(before.into()), ..PodStatus::default() });
        assert_eq!(compose(&pod, &running).phase.as_deref(), Some(expected), "{before}");
    }
    pod.status = Some(PodStatus { phase: Some("Running".into()), ..PodStatus::default() });
    assert_eq!(compose(&pod, &ObservedPod::default()).phase.as_deref(), Some("Running"));
    let evicted = |mut seen: ObservedPod| {
        let cause = StopCause::Failed { reason: "Evicted".into(), message: "why".into(), disrupted: true };
        seen.stop = Some(PodStop { cause, began: at(5), grace: Duration::from_secs(1) });
        seen
    };
    let ending = compose(&pod, &evicted(running));
    assert_eq!((ending.phase.as_deref(), ending.reason), (Some("Running"), None), "it still runs");
    let ended = compose(&pod, &evicted(observed(&pod, &[("a", Some(0))])));
    assert_eq!((ended.phase.as_deref(), ended.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    let target = ended.conditions.iter().flatten().find(|c| c.type_ == "DisruptionTarget").unwrap();
    assert_eq!(target.reason.as_deref(), Some("TerminationByKubelet"));
}

/// The conformance test "should not start app containers and fail the pod if init containers fail on a RestartNever
/// pod" expects containers that never started to be reported as waiting for the init container, not as lost (INIT-1).
#[test]
fn containers_stay_waiting_after_an_init_container_failed() {
    let pod = pod(json!({"restartPolicy": "Never", "initContainers": [{"name": "i"}, {"name": "j"}],
        "containers": [{"name": "a"}]}));
    let shown = |containers: &[(&str, Option<i32>)]| {
        let mut seen = observed(&pod, containers);
        seen.stop = Some(PodStop { cause: StopCause::Completed, began: at(6), grace: Duration::ZERO });
        let status = compose(&pod, &seen);
        let app = status.container_statuses.unwrap().remove(0).state.unwrap();
        let waiting = app.waiting.and_then(|w| w.reason);
        let reason = waiting.or_else(|| app.terminated.and_then(|t| t.reason));
        format!("{} {}", status.phase.unwrap(), reason.unwrap())
    };
    assert_eq!(shown(&[("i", Some(1))]), "Failed PodInitializing");
    assert_eq!(shown(&[("i", Some(0)), ("j", Some(1))]), "Failed PodInitializing");
    assert_eq!(shown(&[("i", Some(0)), ("j", Some(0))]), "Failed ContainerStatusUnknown");
}

#[test]
fn quality_of_service_follows_requests_and_limits_pod_11() {
    let of = |resources: &[Value]| {
        let containers: Vec<Value> = resources
            .iter()
            .enumerate()
            .map(|(n, resources)| json!({"name": format!("c{n}"), "resources": resources}))
            .collect();
        object::resources::qos_class(&pod(json!({"containers": containers})))
    };
    let both = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    for (resources, expected) in [
        (vec![json!({})], "BestEffort"),
        (vec![json!({"requests": {"cpu": "0"}})], "BestEffort"),
        (vec![json!({"requests": {"cpu": "1"}})], "Burstable"),
        (vec![both.clone()], "Guaranteed"),
        (vec![both.clone(), json!({})], "Burstable"),
        (vec![both.clone(), both.clone()], "Guaranteed"),
        (vec![json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}})], "Burstable"),
        (vec![json!({"limits": {"cpu": "1000m", "memory": "1Gi"}, "requests": {"cpu": "1"}})], "Guaranteed"),
        (vec![json!({"requests": {"ephemeral-storage": "1Gi"}})], "BestEffort"),
    ] {
        assert_eq!(of(&resources), expected, "{resources:?}");
    }
}

/// POD-11: `spec.resources` decides alone where it is set.
#[test]
fn quality_of_service_follows_the_resources_of_the_whole_pod_pod_11() {
    let both = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    for (whole, container, expected) in [
        (both.clone(), json!({}), "Guaranteed"),
        (both.clone(), json!({"requests": {"cpu": "100m"}}), "Guaranteed"),
        (
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}),
            json!({}),
            "Guaranteed",
        ),
        (json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}), json!({}), "Burstable"),
        (json!({"requests": {"memory": "1Gi"}}), both.clone(), "Burstable"),
        (json!({"limits": {"hugepages-2Mi": "2Mi"}}), both.clone(), "BestEffort"),
        (json!({}), both.clone(), "Guaranteed"),
    ] {
        let pod = pod(json!({"resources": whole, "containers": [{"name": "c", "resources": container}]}));
        assert_eq!(object::resources::qos_class(&pod), expected, "{whole} {container}");
    }
}

/// The times in the statuses of a node with a wrong clock are that clock's, and recorded times stay when the clock is
/// corrected.
#[test]
fn times_are_those_of_the_nodes_clock_when_they_were_written_fault_1() {
    let pod = pod(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    let mut seen = observed(&pod, &[("a", None), ("b", Some(1))]);
    seen.skew = jiff::SignedDuration::from_secs(-3600);
    let compose = |pod: &Pod, seen: &ObservedPod, wall: i64| {
        let now = ClockReading { wall: at(wall), steady: at(10) };
        compose_status(pod, seen, now, &Timings::default(), StatusStage::Current)
    };
    let times = |status: &PodStatus| {
        let statuses = status.container_statuses.clone().unwrap();
        let began = statuses[0].state.clone().unwrap().running.unwrap().started_at.unwrap();
        let ends = [statuses[1].state.clone(), statuses[1].last_state.clone()];
        let ended = ends.into_iter().flatten().find_map(|state| state.terminated).unwrap();
        [began, ended.started_at.unwrap(), ended.finished_at.unwrap()].map(|time| time.0.as_second())
    };
    let status = compose(&pod, &seen, 10 - 3600);
    assert_eq!(times(&status), [1 - 3600, 1 - 3600, 5 - 3600]);
    assert_eq!(status.start_time.as_ref().unwrap().0, at(10 - 3600));
    let changed = status.conditions.iter().flatten().map(|one| one.last_transition_time.clone().unwrap().0);
    assert!(changed.clone().count() > 0 && changed.into_iter().all(|time| time == at(10 - 3600)));
    // The clock is right again, and `a` ends.
    let mut later = pod.clone();
    later.status = Some(status.clone());
    seen.skew = jiff::SignedDuration::ZERO;
    assert_eq!(times(&compose(&later, &seen, 12)), times(&status), "nothing is written anew");
    let ended = observed(&pod, &[("a", Some(0)), ("b", Some(1))]);
    let ended = compose(&later, &ended, 13).container_statuses.unwrap()[0].clone();
    let [state, last] = [ended.state, ended.last_state].map(|state| state.and_then(|state| state.terminated));
    let ended = state.or(last).unwrap();
    assert_eq!(ended.started_at.unwrap().0, at(1 - 3600));
    assert_eq!(ended.finished_at.unwrap().0, at(5), "it ended when the clock was right");
}
