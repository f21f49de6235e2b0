//! Reserve and Permit plugins with a decided pod.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::framework::waiting_pods::LONGEST_PERMIT_WAIT;
use crate::framework::{ChangeType, Permit, Plugin, PluginId, Point};
use crate::plugins;
use crate::state::node_info::NodeInfo;
use crate::test_cluster::Cluster;
use crate::test_objects::{asking, named_pod, sized_node};

/// A test plugin: pods named `gang-…` are permitted together, three of them, or not at all; a pod named `never` is
/// refused, one named `trouble` makes it panic, and one named `last` makes it reject the waiting ones.
struct GangPlugin {
    /// The reservations made and released, in order.
    reservations: Arc<Mutex<Vec<String>>>,
    timeout: Duration,
}

impl Plugin for GangPlugin {
    fn id(&self) -> PluginId {
        PluginId::ImageLocality
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Reserve, Point::Permit]
    }

    fn reserve(&self, pod: &PodInfo, node: &NodeInfo) -> Result<(), String> {
        self.reservations.lock().push(format!("+{} {}", pod.uid(), node.name));
        if pod.uid() == "greedy" { Err("there is not enough of it".into()) } else { Ok(()) }
    }

    fn unreserve(&self, pod: &PodInfo, node: &str) {
        self.reservations.lock().push(format!("-{} {node}", pod.uid()));
    }

    fn permit(&self, pod: &PodInfo, _: &NodeInfo, waiting: &mut WaitingPods) -> Permit {
        match pod.uid() {
            "never" => return Permit::Refuse("it may not".into()),
            "trouble" => panic!("on purpose"),
            "last" => {
                for uid in permit_waiters(waiting) {
                    waiting.reject(&uid, self.id(), "its gang is over");
                }
                return Permit::Allow;
            }
            name if !name.starts_with("gang-") => return Permit::Allow,
            _ => {}
        }
        let others = permit_waiters(waiting);
        if others.len() < 2 {
            return Permit::Wait(self.timeout);
        }
        for uid in others {
            waiting.allow(&uid, self.id());
        }
        Permit::Allow
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        &[ChangeType::PodRemoved]
    }
}

fn permit_waiters(waiting: &WaitingPods) -> Vec<String> {
    waiting.waiting().map(|(pod, _)| pod.uid().to_string()).collect()
}

fn cluster(cpu: &str, timeout: u64) -> (Cluster, Arc<Mutex<Vec<String>>>) {
    let account = Arc::default();
    let gang = GangPlugin { reservations: Arc::clone(&account), timeout: Duration::from_secs(timeout) };
    let mut all = plugins::all();
    all.push(Arc::new(gang));
    (Cluster::with_profile(&[sized_node("a", cpu)], Profile::of(all)), account)
}

#[test]
fn pods_that_permit_holds_back_keep_their_room_and_go_when_it_lets_them_sch_2() {
    let (mut cluster, account) = cluster("3", 10);
    for name in ["gang-1", "gang-2"] {
        cluster.pod(name, asking("1"));
    }
    assert_eq!(cluster.step(), "-", "two are not enough");
    cluster.pod("big", asking("2"));
    assert!(cluster.step().starts_with("big: 0/1 nodes are available: 1 Insufficient cpu."), "their room");
    cluster.pod("gang-3", asking("1"));
    let mut outcomes = [cluster.step(), cluster.step(), cluster.step()];
    outcomes.sort();
    assert_eq!(outcomes, ["gang-1 -> a", "gang-2 -> a", "gang-3 -> a"]);
    assert_eq!(cluster.step(), "-");
    assert!(account.lock().iter().all(|entry| entry.starts_with('+')), "nothing was given back");
}

#[test]
fn a_permit_timeout_rejects_the_pod_until_a_helpful_change_sch_2() {
    let (mut cluster, account) = cluster("2", 10);
    cluster.placed("there", "a", json!({"spec": asking("1")}));
    cluster.pod("gang-1", asking("1"));
    assert_eq!((cluster.step(), cluster.core.next_wake()), ("-".into(), Some(Duration::from_secs(10))));
    assert_eq!(cluster.after(9).step(), "-");
    assert_eq!(
        cluster.after(1).step(),
        "gang-1: 0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin ImageLocality."
    );
    assert_eq!(*account.lock(), ["+gang-1 a", "-gang-1 a"]);
    assert!(cluster.core.snapshot().placed("gang-1").is_none(), "its room is free");
    cluster.after(20);
    assert_eq!(cluster.step(), "-");
    cluster.core.pod_deleted("there", cluster.now);
    assert_eq!((cluster.step(), account.lock().len()), ("-".into(), 3), "it is held again");
    // Any longer wait is limited to fifteen minutes.
    let (mut cluster, _) = self::cluster("2", 86_400);
    cluster.pod("gang-1", asking("1"));
    cluster.step();
    assert_eq!(cluster.core.next_wake(), Some(LONGEST_PERMIT_WAIT));
    assert!(cluster.after(900).step().contains("after waiting 15m0s at plugin"));
}

#[test]
fn a_held_pod_that_its_plugin_rejects_gives_its_room_back_sch_2() {
    let (mut cluster, account) = cluster("2", 10);
    cluster.pod("gang-1", asking("1"));
    assert_eq!(cluster.step(), "-");
    cluster.pod("last", asking("1"));
    let mut steps = [cluster.step(), cluster.step()];
    steps.sort();
    assert_eq!(steps, ["gang-1: 0/1 nodes are available: 1 its gang is over.", "last -> a"]);
    assert_eq!(*account.lock(), ["+gang-1 a", "+last a", "-gang-1 a"]);
    assert!(cluster.core.snapshot().placed("gang-1").is_none());
    // The deadline of its wait is gone; because another pod was bound since, it is tried once more within five
    // minutes.
    assert_eq!(cluster.core.next_wake(), Some(Duration::from_mins(5)));
}

#[test]
fn reserved_resources_are_released_after_any_rejection_sch_2() {
    let (mut cluster, account) = cluster("4", 10);
    for (name, expected) in [
        ("never", "never: 0/1 nodes are available: 1 it may not."),
        ("greedy", "greedy: 0/1 nodes are available: 1 there is not enough of it."),
        ("trouble", "trouble panicked: on purpose"),
    ] {
        cluster.pod(name, asking("1"));
        assert_eq!(cluster.step(), expected);
        assert_eq!(
            account.lock().drain(..).collect::<Vec<_>>(),
            [format!("+{name} a"), format!("-{name} a")]
        );
        assert!(cluster.core.snapshot().placed(name).is_none());
        cluster.core.pod_deleted(name, cluster.now);
    }
    // A failed binding releases reservations too.
    cluster.pod("plain", asking("1"));
    let Some(CoreAction::Bind { attempt, .. }) = cluster.core.step(cluster.now) else { panic!("plain fits") };
    cluster.core.bind_failed(attempt, cluster.now);
    assert_eq!(*account.lock(), ["+plain a", "-plain a"]);
}

#[test]
fn a_waiting_pod_with_a_deleted_node_is_rejected_and_retried_sch_1() {
    let (mut cluster, account) = cluster("4", 10);
    cluster.pod("gang-1", asking("1"));
    assert_eq!(cluster.step(), "-");
    cluster.core.node_deleted("a", cluster.now);
    assert_eq!(cluster.step(), "gang-1: binding rejected: nodes \"a\" not found");
    assert_eq!((account.lock().len(), cluster.core.snapshot().placed_count()), (2, 0));
    assert_eq!(cluster.step(), "-", "it backs off");
    assert_eq!(cluster.after(1).step(), "gang-1: no nodes available to schedule pods");
    cluster.core.node_changed(sized_node("b", "4"), cluster.now);
    cluster.pod("gang-2", asking("1"));
    cluster.pod("gang-3", asking("1"));
    cluster.after(2);
    let mut outcomes = [cluster.step(), cluster.step(), cluster.step()];
    outcomes.sort();
    assert_eq!(outcomes, ["gang-1 -> b", "gang-2 -> b", "gang-3 -> b"]);
}

#[test]
fn a_held_pod_that_goes_or_is_bound_by_another_is_held_no_more_sch_2() {
    let (mut cluster, account) = cluster("2", 10);
    cluster.pod("gang-1", asking("1"));
    cluster.pod("gang-2", asking("1"));
    assert_eq!(cluster.step(), "-");
    cluster.pod("waits", asking("1"));
    assert!(cluster.step().contains("Insufficient cpu"));
    cluster.after(5);
    // One is being deleted: it is not bound any more, and its resources go to the waiting one.
    let mut going = (*named_pod("gang-1", asking("1"))).clone();
    going.metadata.deletion_timestamp = Some(base::clock::time(jiff::Timestamp::UNIX_EPOCH));
    cluster.core.pod_changed(object::SharedObject::from_value(going), cluster.now);
    assert_eq!(cluster.step(), "waits -> a");
    let mut bound = asking("1");
    bound["nodeName"] = json!("a");
    cluster.core.pod_changed(named_pod("gang-2", bound), cluster.now);
    assert_eq!(*account.lock(), ["+gang-1 a", "+gang-2 a", "-gang-1 a", "+waits a", "-gang-2 a"]);
    assert_eq!((cluster.step(), cluster.core.next_wake()), ("-".into(), None));
    assert!(cluster.core.snapshot().placed("gang-2").is_some_and(|placed| !placed.assumed));
}

#[test]
fn a_binding_that_has_to_wait_is_tried_at_each_news_and_given_up_in_time_sch_2() {
    let (mut cluster, account) = cluster("2", 10);
    cluster.pod("plain", asking("1"));
    let step = |cluster: &mut Cluster| match cluster.core.step(cluster.now) {
        Some(CoreAction::Bind { attempt, node }) => Ok((attempt, node)),
        other => Err(format!("{other:?}")),
    };
    let (attempt, node) = step(&mut cluster).expect("it fits");
    let ten = Duration::from_secs(10);
    cluster.core.bind_later(attempt, node, ten, cluster.now);
    assert_eq!((cluster.step(), cluster.core.next_wake()), ("-".into(), Some(ten)));
    cluster.after(6).core.cluster_changed();
    let (attempt, node) = step(&mut cluster).expect("there is news");
    cluster.core.bind_later(attempt, node, ten, cluster.now);
    assert_eq!(cluster.core.next_wake(), Some(ten), "the first time counts");
    assert_eq!(cluster.after(4).step(), "plain: binding rejected: timed out waiting for the PreBind plugins");
    assert_eq!(*account.lock(), ["+plain a", "-plain a"]);
    assert_eq!(cluster.after(1).step(), "plain -> a");
}
