//! Preemption as described on the page "Pod Priority and Preemption", with the scheduler's core.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use crate::test_cluster::Cluster;
use crate::test_objects::{asking, named_pod, node, sized_node, with};
use object::{Key, SharedObject};

/// Returns the spec of a pod with this priority that requests this much cpu.
fn important(priority: i32, cpu: &str) -> Value {
    with(asking(cpu), json!({"priority": priority}))
}

/// Returns a running pod, `priority cpu started-at-minute`, labelled with its name.
fn running(name: &str, priority: i32, cpu: &str, minute: u32) -> Value {
    json!({"metadata": {"labels": {"name": name}}, "spec": important(priority, cpu),
        "status": {"startTime": format!("2026-11-21T00:{minute:02}:00Z")}})
}

fn budget(name: &str, selects: &str, allowed: i32) -> SharedObject<PodDisruptionBudget> {
    let value = json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"name": selects}}}, "status": {"disruptionsAllowed": allowed,
            "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
    SharedObject::from_value(serde_json::from_value(value).unwrap())
}

#[test]
fn the_node_with_the_least_harm_is_chosen_sch_8() {
    // Each node has 2 cpu; the pod requests 1 with priority 100. `node: name priority cpu minute`.
    type Pods<'a> = &'a [(&'a str, &'a str, i32, &'a str, u32)];
    type Budgets<'a> = &'a [(&'a str, i32)];
    let table: &[(&str, Pods<'_>, Budgets<'_>, &str)] = &[
        (
            "no budget is broken, though the victim is more important",
            &[("a", "guarded", 1, "2", 0), ("b", "free", 50, "2", 0)],
            &[("guarded", 0)],
            "free from b",
        ),
        (
            "an allowed disruption breaks nothing",
            &[("a", "guarded", 1, "2", 0), ("b", "free", 50, "2", 0)],
            &[("guarded", 1)],
            "guarded from a",
        ),
        (
            "the lowest of the highest priorities, though there are more victims",
            &[("a", "high", 20, "2", 0), ("b", "low1", 10, "1500m", 0), ("b", "low2", 10, "500m", 0)],
            &[],
            "low1 from b",
        ),
        (
            "the one that started last has least to lose",
            &[("a", "old", 10, "2", 0), ("b", "young", 10, "2", 30)],
            &[],
            "young from b",
        ),
        (
            "the most important stay, as many as fit",
            &[
                ("a", "p1", 1, "500m", 0),
                ("a", "p2", 2, "500m", 0),
                ("a", "p3", 3, "500m", 0),
                ("a", "p4", 4, "500m", 0),
            ],
            &[],
            "p2, p1 from a",
        ),
        (
            "of equals those that have run longest stay",
            &[("a", "old", 1, "1", 0), ("a", "young", 1, "1", 10)],
            &[],
            "young from a",
        ),
        (
            "those whose going breaks a budget are the first to stay",
            &[("a", "guarded", 1, "1", 0), ("a", "free", 5, "1", 0)],
            &[("guarded", 0)],
            "free from a",
        ),
        (
            "a broken budget does not save the last resort",
            &[("a", "guarded", 1, "2", 0)],
            &[("guarded", 0)],
            "guarded from a",
        ),
    ];
    for (why, pods, budgets, expect) in table {
        let nodes: std::collections::BTreeSet<&str> = pods.iter().map(|(node, ..)| *node).collect();
        let nodes: Vec<_> = nodes.into_iter().map(|name| sized_node(name, "2")).collect();
        let mut cluster = Cluster::new(&nodes);
        for (node, name, priority, cpu, minute) in *pods {
            cluster.placed(name, node, running(name, *priority, cpu, *minute));
        }
        for (selects, allowed) in *budgets {
            cluster.core.budget_changed(&budget(selects, selects, *allowed), cluster.now);
        }
        cluster.pod("p", important(100, "1"));
        assert_eq!(cluster.step(), format!("p evicts {expect}"), "{why}");
    }
}

#[test]
fn sums_and_counts_of_victims_decide_sch_8() {
    // The pod needs the whole node: all others are evicted. 10 + 9 is more than 10 + 8; three are more than two with
    // the same sum, because every victim counts, even with a priority of 0 or less.
    for (a, b, expect) in [
        (&[10, 9][..], &[10, 8][..], "b"),
        (&[10, 8], &[10, 9], "a"),
        (&[10, -5, -5], &[10, -10], "b"),
        (&[10], &[10, 0], "a"),
    ] {
        let mut cluster = Cluster::new(&[sized_node("a", "2"), sized_node("b", "2")]);
        for (node, priorities) in [("a", a), ("b", b)] {
            for (n, priority) in priorities.iter().enumerate() {
                let name = format!("{node}{n}");
                cluster.placed(&name, node, running(&name, *priority, "100m", 0));
            }
        }
        cluster.pod("p", important(100, "2"));
        let step = cluster.step();
        assert!(step.ends_with(&format!("from {expect}")), "{a:?} or {b:?}: {step}");
    }
}

#[test]
fn equals_are_never_evicted_and_never_means_never_sch_7_sch_8() {
    let mut cluster = Cluster::new(&[sized_node("a", "1")]);
    cluster.placed("there", "a", running("there", 10, "1", 0));
    cluster.pod("equal", important(10, "1"));
    assert_eq!(
        cluster.step(),
        "equal: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
         1 No preemption victims found for incoming pod."
    );
    cluster.pod("polite", with(important(50, "1"), json!({"preemptionPolicy": "Never"})));
    assert_eq!(
        cluster.step(),
        "polite: 0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to \
         preemptionPolicy=Never."
    );
    // A node that is too small as a whole is not worth a victim.
    cluster.pod("big", important(50, "2"));
    assert_eq!(
        cluster.step(),
        "big: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
         1 Preemption is not helpful for scheduling."
    );
    // The non-preempting pod is still first in the queue when there is room.
    cluster.pod("later", important(20, "1"));
    cluster.core.pod_deleted("there", cluster.now);
    cluster.after(2);
    assert_eq!(cluster.step(), "polite -> a");
}

#[test]
fn room_made_by_preemption_is_reserved_and_goes_to_higher_priority_sch_8() {
    let mut cluster = Cluster::new(&[sized_node("a", "1")]);
    cluster.placed("victim", "a", running("victim", 1, "1", 0));
    cluster.pod("first", important(10, "1"));
    assert_eq!(cluster.step(), "first evicts victim from a");
    // The victim is terminating with its grace period: until it ends no other pod is evicted for the same pod.
    let mut going = running("victim", 1, "1", 0);
    going["metadata"]["deletionTimestamp"] = json!("2026-11-21T01:00:00Z");
    going["status"]["conditions"] =
        json!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]);
    cluster.placed("victim", "a", going);
    cluster.after(5).pod("again", important(10, "1"));
    let mut outcomes = vec![cluster.step(), cluster.step()];
    outcomes.sort();
    assert_eq!(
        outcomes,
        [
            "-",
            "again: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
             1 Insufficient cpu."
        ],
        "preemption, too, counts the room as reserved for the first pod"
    );
    cluster.core.pod_deleted("victim", cluster.now);
    // An equal pod came later, and a lower one would fit: the resources belong to the first.
    cluster.pod("lower", important(5, "1"));
    cluster.after(1);
    assert_eq!(cluster.step(), "first -> a");
    assert!(cluster.step().contains("Insufficient cpu"));

    // The nominated pod is deleted: the pod it excluded is placed at once.
    let mut cluster = Cluster::new(&[sized_node("a", "1")]);
    cluster.placed("victim", "a", running("victim", 1, "1", 0));
    cluster.pod("first", important(10, "1"));
    assert_eq!(cluster.step(), "first evicts victim from a");
    cluster.core.pod_deleted("victim", cluster.now);
    cluster.pod("lower", important(5, "1"));
    // The higher one still backs off, and keeps its nomination.
    assert!(cluster.step().starts_with("lower: 0/1"));
    cluster.core.pod_deleted("first", cluster.now);
    assert_eq!(cluster.step(), "lower -> a");

    // Before the victim ends a higher pod arrives: it gets the resources, and the lower nomination is cleared.
    let mut cluster = Cluster::new(&[sized_node("a", "1")]);
    cluster.placed("victim", "a", running("victim", 1, "1", 0));
    cluster.pod("middle", important(10, "1"));
    assert_eq!(cluster.step(), "middle evicts victim from a");
    cluster.pod("high", important(100, "1"));
    assert_eq!(cluster.step(), "high evicts victim from a, takes from middle");
    cluster.core.pod_deleted("victim", cluster.now);
    cluster.after(3);
    assert_eq!(cluster.step(), "high -> a");
    assert!(cluster.core.snapshot().nominated().is_empty());
}

#[test]
fn a_pod_in_the_way_of_affinity_goes_and_one_that_is_sought_does_not_sch_8() {
    let named = |name: &str| {
        node(json!({"metadata": {"name": name,
        "labels": {"kubernetes.io/hostname": name, "zone": "z"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}))
    };
    let term = |key: &str, name: &str| json!([{"topologyKey": key, "labelSelector": {"matchLabels": {"name": name}}}]);
    let required = |kind: &str, terms: Value| {
        let mut affinity = json!({});
        affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"] = terms;
        json!({"affinity": affinity})
    };
    // Anti-affinity within a node: the conflicting pod is evicted if it is less important.
    let mut cluster = Cluster::new(&[named("a")]);
    cluster.placed("shunned", "a", running("shunned", 1, "1", 0));
    cluster.placed("other", "a", running("other", 1, "1", 0));
    let shuns = required("podAntiAffinity", term("kubernetes.io/hostname", "shunned"));
    cluster.pod("p", with(important(10, "1"), shuns));
    assert_eq!(cluster.step(), "p evicts shunned from a");

    // The existing pod's own anti-affinity counts too.
    let mut cluster = Cluster::new(&[named("a")]);
    let mut hermit = running("hermit", 1, "1", 0);
    let shuns = required("podAntiAffinity", term("kubernetes.io/hostname", "p"));
    hermit["spec"]["affinity"] = shuns["affinity"].clone();
    cluster.placed("hermit", "a", hermit);
    let labelled = |name: &str, spec: Value| {
        let mut pod = (*named_pod(name, spec)).clone();
        pod.metadata.labels = Some([("name".to_string(), name.to_string())].into());
        SharedObject::from_value(pod)
    };
    cluster.core.pod_changed(labelled("p", important(10, "1")), cluster.now);
    assert_eq!(cluster.step(), "p evicts hermit from a");

    // No evictions across nodes: the conflicting pod in the zone is on b, the pod would go to a.
    let mut cluster = Cluster::new(&[named("a"), named("b")]);
    cluster.placed("shunned", "b", running("shunned", 1, "1", 0));
    cluster.placed("full", "b", running("full", 100, "3", 0));
    cluster.placed("low", "a", running("low", 1, "1", 0));
    let shuns = required("podAntiAffinity", term("zone", "shunned"));
    cluster.pod("p", with(important(10, "4"), shuns));
    assert_eq!(
        cluster.step(),
        "p: 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 1 \
         Insufficient cpu, 1 node(s) didn't match pod anti-affinity rules."
    );

    // Affinity to a pod of lower priority: without that pod the rule could not be met.
    let mut cluster = Cluster::new(&[named("a")]);
    cluster.placed("friend", "a", running("friend", 1, "2", 0));
    cluster.placed("low", "a", running("low", 1, "2", 0));
    let seeks = required("podAffinity", term("kubernetes.io/hostname", "friend"));
    cluster.pod("p", with(important(10, "2"), seeks));
    assert_eq!(
        cluster.step(),
        "p: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 node(s) \
         didn't match pod affinity rules."
    );
}

#[test]
fn a_nomination_survives_a_restart_and_can_be_cleared_by_hand_sch_8() {
    let waiting = |nominated: Option<&str>| {
        let mut pod = (*named_pod("p", important(10, "1"))).clone();
        pod.status = serde_json::from_value(json!({"nominatedNodeName": nominated})).unwrap();
        SharedObject::from_value(pod)
    };
    let mut cluster = Cluster::new(&[sized_node("a", "1")]);
    cluster.core.pod_changed(waiting(Some("a")), cluster.now);
    assert_eq!(cluster.core.snapshot().nominated().node_of("p").map(|n| &**n), Some("a"));
    cluster.core.pod_changed(waiting(None), cluster.now);
    assert!(cluster.core.snapshot().nominated().is_empty());
    cluster.core.pod_changed(waiting(Some("a")), cluster.now);
    cluster.core.pod_deleted("p", cluster.now);
    assert!(cluster.core.snapshot().nominated().is_empty());
    // Budgets leave no trace after their deletion.
    cluster.core.budget_changed(&budget("b", "x", 0), cluster.now);
    cluster.core.budget_deleted(&Key::new("default", "b"), cluster.now);
}

/// Kubelets report the start time of a pod in a write of their own, long after the binding.
#[test]
fn start_times_reported_after_binding_decide_the_victim_sch_8() {
    let mut cluster = Cluster::new(&[sized_node("a", "2"), sized_node("b", "2")]);
    // Created in this order; the one created first started last.
    let pods = [("first", "a", 40), ("second", "a", 10), ("third", "b", 20), ("fourth", "b", 30)];
    for (name, node, _) in pods {
        cluster.placed(name, node, json!({"spec": important(1, "1")}));
    }
    for (name, node, minute) in pods {
        cluster.placed(name, node, running(name, 1, "1", minute));
    }
    cluster.pod("p", important(100, "1"));
    assert_eq!(cluster.step(), "p evicts first from a");
}

/// Only the pod's status reports the resources that a resize frees.
#[test]
fn room_that_a_resized_pod_gives_back_is_there_for_others_sch_4() {
    let allocated = |given: &str| {
        json!({"spec": asking("500m"), "status": {"startTime": "2026-11-21T00:00:00Z", "containerStatuses": [
            {"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "allocatedResources": {"cpu": given}}]}})
    };
    let mut cluster = Cluster::new(&[sized_node("a", "2")]);
    cluster.placed("large", "a", allocated("2"));
    cluster.pod("p", asking("1"));
    assert_eq!(
        cluster.step(),
        "p: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
    cluster.placed("large", "a", allocated("500m"));
    assert_eq!(cluster.after(60).step(), "p -> a");
}
