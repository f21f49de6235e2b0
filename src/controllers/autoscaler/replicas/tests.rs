//! Tables: pods in one word each with their measurements, and the resulting number of replicas.

use serde_json::json;

use super::*;

const NOW: &str = "2026-11-21T01:00:00Z";

/// Creates a pod that requests a core: `ready`, `starting` (ready since now), `never` (was never ready), `was` (was
/// ready and is not), `pending`, `failed` or `going`.
fn pod(name: &str, state: &str) -> Pod {
    let (started, status, since) = match state {
        "starting" => ("2026-11-21T00:59:00Z", "True", "2026-11-21T00:59:59Z"),
        "never" => ("2026-11-21T00:10:00Z", "False", "2026-11-21T00:10:10Z"),
        "was" => ("2026-11-21T00:10:00Z", "False", "2026-11-21T00:30:00Z"),
        _ => ("2026-11-21T00:00:00Z", "True", "2026-11-21T00:00:05Z"),
    };
    let phase = match state {
        "pending" => "Pending",
        "failed" => "Failed",
        _ => "Running",
    };
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": phase, "startTime": started,
            "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]}});
    if state == "going" {
        pod["metadata"]["deletionTimestamp"] = json!(NOW);
    }
    serde_json::from_value(pod).unwrap()
}

/// Evaluates `state=millicores` words; without a number a pod has no measurement.
fn proposal(pods: &str, goal: Goal, current: i32) -> Result<Proposal, String> {
    let (mut all, mut metrics) = (Vec::new(), Metrics::new());
    for (n, text) in pods.split_whitespace().enumerate() {
        let (state, millis) = text.split_once('=').unwrap_or((text, ""));
        let name = format!("p{n}");
        all.push(pod(&name, state));
        if let Ok(millis) = millis.parse() {
            let measured = PodMetric { millis, at: NOW.parse().unwrap(), window: Duration::from_secs(15) };
            metrics.insert(name, measured);
        }
    }
    let query = MetricQuery {
        resource: "cpu",
        container: None,
        goal,
        tolerance: Tolerance { up: 0.1, down: 0.1 },
        current,
        now: NOW.parse().unwrap(),
    };
    propose(&query, all.iter(), metrics)
}

#[test]
fn replicas_follow_the_ratio_hpa_1() {
    for (what, pods, target, replicas, percent) in [
        ("twice the target", "ready=1000 ready=1000", 50, 4, 100),
        ("half the target", "ready=250 ready=250", 50, 1, 25),
        ("just over, within a tenth", "ready=540 ready=540", 50, 2, 54),
        ("over a tenth", "ready=600 ready=520", 50, 3, 56),
        ("those that go or failed do not count", "ready=1000 going=5000 failed=5000", 50, 2, 100),
        ("a missing one counts as idle on the way up", "ready=1000 ready", 40, 3, 100),
        ("and may stop it", "ready=600 ready", 50, 2, 60),
        ("and as fully used on the way down", "ready=100 ready=100 ready", 50, 3, 10),
        ("and slows it", "ready=100 ready=100 ready=100 ready", 50, 3, 10),
        ("an unready one counts as idle on the way up", "ready=1000 never=2000", 40, 3, 100),
        ("a pending one, too", "ready=1000 pending", 40, 3, 100),
        ("one that has just started, too", "ready=1000 starting=5000", 40, 3, 100),
        ("and not at all on the way down", "ready=100 never=2000", 50, 1, 10),
        ("one that was ready once counts", "ready=1000 was=1000", 50, 4, 100),
    ] {
        let current = pods.split(' ').filter(|p| !p.starts_with("going") && !p.starts_with("failed"));
        let proposal = proposal(pods, Goal::Utilization(target), current.count() as i32).unwrap();
        assert_eq!((proposal.replicas, proposal.utilization), (replicas, Some(percent)), "{what}");
    }
    let by_value = proposal("ready=1000 ready=500", Goal::AverageValue(500), 2).unwrap();
    assert_eq!((by_value.replicas, by_value.utilization, by_value.average_millis), (3, None, 750));
}

#[test]
fn a_replica_count_that_cannot_be_computed_gives_the_reason_hpa_1() {
    let half = Goal::Utilization(50);
    for (pods, why) in [
        ("", "no pods returned by selector while calculating replica count"),
        ("never=100", "did not receive metrics for targeted pods (pods might be unready)"),
        ("ready", "did not receive metrics for targeted pods (pods might be unready)"),
    ] {
        assert_eq!(proposal(pods, half, 1).unwrap_err(), why, "{pods}");
    }
    let silent: Pod = serde_json::from_value(json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}]}}))
    .unwrap();
    let query = |container| MetricQuery {
        resource: "cpu",
        container,
        goal: half,
        tolerance: Tolerance { up: 0.1, down: 0.1 },
        current: 1,
        now: NOW.parse().unwrap(),
    };
    assert_eq!(
        request_of(&query(None), &silent, "p").unwrap_err(),
        "missing request for cpu in container c of Pod p"
    );
    assert_eq!(request_of(&query(Some("d")), &silent, "p").unwrap_err(), "container d not found in Pod p");
}
