//! The queue alone: its order, and what makes pods active.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::*;
use crate::framework::PluginId;
use crate::plugins::PrioritySort;
use object::SharedObject;

fn pod(name: &str, priority: i32, second: u8) -> Arc<PodInfo> {
    let created = format!("2026-11-21T00:00:{second:02}Z");
    let pod: Pod = serde_json::from_value(json!({"spec": {"priority": priority, "containers": []},
        "metadata": {"name": name, "uid": name, "creationTimestamp": created}}))
    .unwrap();
    Arc::new(PodInfo::new(SharedObject::from_value(pod)))
}

fn queue() -> Queue {
    Queue::new(QueueTimes::of(&Timings::default()), Arc::new(PrioritySort))
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn pop(queue: &mut Queue, now: u64) -> String {
    queue.pop(seconds(now)).map_or("-".into(), |attempt| attempt.pod.uid().to_string())
}

fn fit() -> PluginSet {
    PluginSet::default().with(PluginId::NodeResourcesFit)
}

#[test]
fn higher_priority_first_then_older_then_first_come_sch_1() {
    let mut queue = queue();
    for (name, priority, created) in
        [("young", 0, 5), ("old", 0, 1), ("same", 0, 1), ("high", 10, 9), ("low", -1, 0)]
    {
        queue.add(pod(name, priority, created), false, seconds(0));
    }
    let order: Vec<String> = (0..6).map(|_| pop(&mut queue, 0)).collect();
    assert_eq!(order, ["high", "old", "same", "young", "low", "-"]);
}

#[test]
fn failures_back_off_from_one_to_ten_seconds_and_block_no_other_pod_sch_1() {
    let mut queue = queue();
    queue.add(pod("bad", 100, 0), false, seconds(0));
    let mut now = 0;
    for delay in [1, 2, 4, 8, 10, 10] {
        let attempt = queue.pop(seconds(now)).unwrap();
        queue.fail(attempt, seconds(now));
        queue.add(pod("good", 0, 0), false, seconds(now));
        assert_eq!(pop(&mut queue, now), "good", "a failed pod of higher priority is not in the way");
        assert_eq!(queue.next_wake(), Some(seconds(now + delay)));
        assert_eq!(pop(&mut queue, now + delay - 1), "-");
        now += delay;
    }
    assert_eq!(pop(&mut queue, now), "bad");
}

#[test]
fn unschedulable_pods_wake_on_what_can_help_them_or_after_five_minutes_sch_1() {
    let taints = PluginSet::default().with(PluginId::TaintToleration);
    let mut queue = queue();
    for (name, rejected_by) in [("cpu", fit()), ("taint", taints), ("no-nodes", PluginSet::default())] {
        queue.add(pod(name, 0, 0), false, seconds(0));
        let attempt = queue.pop(seconds(0)).unwrap();
        queue.reject(attempt, rejected_by, seconds(0));
    }
    assert_eq!(queue.waiting(), PendingCounts { unschedulable: 3, ..PendingCounts::default() });
    assert_eq!((pop(&mut queue, 100), queue.next_wake()), ("-".into(), None), "nothing changed");
    queue.changed(seconds(100));
    assert_eq!((pop(&mut queue, 100), queue.next_wake()), ("-".into(), Some(seconds(300))));
    // A change that the taint plugin reacts to, but that does not help the pod with taints.
    queue.wake(taints, seconds(100), |_, by| by.is_empty());
    assert_eq!((pop(&mut queue, 100), pop(&mut queue, 100)), ("no-nodes".into(), "-".into()));
    // Within its back-off a woken pod waits for the end; the other plugin's pod is not visited.
    let calls = std::cell::RefCell::new(Vec::new());
    queue.wake(fit(), Duration::from_millis(200), |pod, by| {
        calls.borrow_mut().push((pod.uid().to_string(), by));
        true
    });
    assert_eq!(calls.into_inner(), [("cpu".to_string(), fit())]);
    assert_eq!(
        queue.waiting(),
        PendingCounts { backing_off: 1, unschedulable: 1, ..PendingCounts::default() }
    );
    // It is tried earlier only if no other pod is due.
    queue.add(pod("new", -5, 0), false, Duration::from_millis(200));
    assert_eq!(
        (pop(&mut queue, 0), pop(&mut queue, 0), pop(&mut queue, 0)),
        ("new".into(), "cpu".into(), "-".into())
    );
    assert_eq!((pop(&mut queue, 299), pop(&mut queue, 300)), ("-".into(), "taint".into()));
    assert_eq!(queue.next_wake(), None);
}

#[test]
fn unaffected_pods_are_not_retried_until_their_own_flush_time_sch_1() {
    let mut queue = queue();
    for (name, at) in [("early", 0), ("late", 200)] {
        queue.add(pod(name, 0, 0), false, seconds(at));
        let attempt = queue.pop(seconds(at)).unwrap();
        queue.reject(attempt, fit(), seconds(at));
    }
    assert_eq!((pop(&mut queue, 3600), queue.next_wake()), ("-".into(), None), "an hour of nothing");
    assert_eq!(queue.waiting(), PendingCounts { unschedulable: 2, ..PendingCounts::default() });
    // After 3 700 s they are due at the next multiples of 300 s: 0 + 3 900 and 200 + 3 600.
    queue.changed(seconds(3700));
    assert_eq!(queue.next_wake(), Some(seconds(3800)));
    assert_eq!((pop(&mut queue, 3799), pop(&mut queue, 3800)), ("-".into(), "late".into()));
    assert_eq!((pop(&mut queue, 3899), pop(&mut queue, 3900)), ("-".into(), "early".into()));
    queue.add(pod("gone", 0, 0), false, seconds(4000));
    let attempt = queue.pop(seconds(4000)).unwrap();
    queue.reject(attempt, fit(), seconds(4000));
    assert!(queue.remove("gone"));
    queue.changed(seconds(4000));
    assert_eq!((queue.next_wake(), queue.waiting()), (None, PendingCounts::default()));
}

#[test]
fn gated_pods_wait_for_themselves_and_updates_keep_age_and_back_off_sch_1() {
    let mut queue = queue();
    queue.add(pod("gated", 0, 0), true, seconds(0));
    queue.wake(fit(), seconds(0), |_, _| true);
    assert_eq!((pop(&mut queue, 1000), queue.next_wake()), ("-".into(), None));
    assert_eq!(queue.waiting(), PendingCounts { gated: 1, ..PendingCounts::default() });
    queue.add(pod("later", 0, 0), false, seconds(1000));
    queue.add(pod("gated", 0, 0), false, seconds(1000));
    assert_eq!(pop(&mut queue, 1000), "gated", "it came first");
    let attempt = queue.pop(seconds(1000)).unwrap();
    queue.reject(attempt, fit(), seconds(1000));
    queue.add(pod("later", 5, 0), false, seconds(1000));
    assert_eq!(queue.waiting(), PendingCounts { backing_off: 1, ..PendingCounts::default() });
    assert_eq!((pop(&mut queue, 1000), pop(&mut queue, 1001)), ("later".into(), "-".into()));
    assert_eq!((queue.remove("later"), queue.waiting()), (false, PendingCounts::default()));
}
