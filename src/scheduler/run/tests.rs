//! The scheduler against the API, in virtual time.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, PodCondition};
use serde_json::{Value, json};

use super::*;
use crate::framework::{Plugin, PluginId, Point, PreBind};
use api::{ApiConfig, DeleteOptions};
use base::clock::Clock;
use object::Key;
use store::Store;

struct Cluster {
    api: Api,
    scheduler: Scheduler,
}

impl Cluster {
    fn start(nodes: &[(&str, &str)]) -> Self {
        Self::with_profile(nodes, Profile::default())
    }

    fn with_profile(nodes: &[(&str, &str)], profile: Profile) -> Self {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        // No limit on the number of pods.
        let limits = object::config::Limits { active_pods: Some(0), ..Default::default() };
        let api = Api::new(Store::ephemeral(), clock, ApiConfig { limits, ..ApiConfig::default() });
        let tasks = Tasks::new();
        let scheduler = Scheduler::new(
            &api,
            &Caches::new(&api, &tasks),
            SchedulerConfig { profiles: vec![profile], seed: 0 },
        );
        scheduler.run(&tasks);
        let cluster = Self { api, scheduler };
        cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}));
        cluster.create(json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "default"}}));
        for (name, cpu) in nodes {
            cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
            cluster.resize(name, cpu);
        }
        cluster
    }

    fn create(&self, value: Value) {
        let object = Object::from_any_value(value).unwrap();
        self.api.create(object, &api::WriteOptions::default()).unwrap();
    }

    fn resize(&self, node: &str, cpu: &str) {
        let status: k8s_openapi::api::core::v1::NodeStatus =
            serde_json::from_value(json!({"capacity": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
                "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}))
            .unwrap();
        let edit = |node: &mut Node| {
            node.status = Some(status.clone());
            Ok(())
        };
        self.api.modify_status::<Node>(&Key::new("", node), edit).unwrap();
    }

    fn pod(&self, name: &str, cpu: &str, more: Value) {
        let mut spec = json!({"containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        self.create(json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {"name": name, "namespace": "default"}}));
    }

    fn get(&self, pod: &str) -> SharedObject<Pod> {
        self.api.get_as::<Pod>(&Key::new("default", pod)).unwrap()
    }

    fn node_of(&self, pod: &str) -> Option<String> {
        self.get(pod).spec.as_ref()?.node_name.clone()
    }

    fn condition(&self, pod: &str) -> Option<PodCondition> {
        let conditions = self.get(pod).status.as_ref()?.conditions.clone()?;
        conditions.into_iter().find(|c| c.type_ == "PodScheduled")
    }

    fn events(&self, pod: &str) -> Vec<(String, String, i32)> {
        let events = self.api.list_as::<Event>(Some("default"));
        let about = events.iter().filter(|e| e.involved_object.name.as_deref() == Some(pod));
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        about.map(|e| (text(&e.reason), text(&e.message), e.count.unwrap_or(0))).collect()
    }

    /// Waits, in virtual time, until the condition holds.
    async fn until(&self, condition: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never: {condition}");
    }
}

/// Such pods used to run without the requested resources.
#[tokio::test(start_paused = true)]
async fn pods_that_need_what_is_not_served_wait_with_the_reason_api_17() {
    let cluster = Cluster::start(&[("a", "1")]);
    cluster.pod("claims", "1m", json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "missing"}]}));
    cluster.pod("gang", "1m", json!({"schedulingGroup": {"podGroupName": "missing"}}));
    for (name, message) in [
        (
            "claims",
            "waiting for resource claims, whose devices this cluster does not allocate (resource.k8s.io)",
        ),
        ("gang", "waiting for a pod group, which this cluster does not serve (scheduling.k8s.io)"),
    ] {
        cluster.until("its condition", |c| c.condition(name).is_some()).await;
        let condition = cluster.condition(name).unwrap();
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_deref()),
            ("False", Some("Unschedulable"))
        );
        assert_eq!(condition.message.as_deref(), Some(message));
        assert_eq!(cluster.events(name), [("FailedScheduling".into(), message.into(), 1)]);
        assert_eq!(cluster.node_of(name), None);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_bound_or_get_the_reason_for_not_being_bound_sch_1_sch_9() {
    let cluster = Cluster::start(&[("a", "1"), ("b", "1"), ("c", "2")]);
    for n in 0..4 {
        cluster.pod(&format!("p{n}"), "1", json!({}));
    }
    cluster.pod("big", "3", json!({}));
    cluster.pod("gated", "1m", json!({"schedulingGates": [{"name": "example.com/wait"}]}));
    cluster.pod("foreign", "1m", json!({"schedulerName": "mine"}));
    cluster.until("four bound", |c| (0..4).all(|n| c.node_of(&format!("p{n}")).is_some())).await;
    let mut nodes: Vec<String> = (0..4).filter_map(|n| cluster.node_of(&format!("p{n}"))).collect();
    nodes.sort();
    assert_eq!(nodes, ["a", "b", "c", "c"]);
    let on = cluster.node_of("p0").unwrap();
    let assigned = format!("Successfully assigned default/p0 to {on}");
    assert_eq!(cluster.events("p0"), [("Scheduled".into(), assigned, 1)]);
    assert_eq!(cluster.condition("p0").unwrap().status, "True");

    cluster.until("big was tried", |c| c.condition("big").is_some()).await;
    let message = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: \
                   3 Preemption is not helpful for scheduling.";
    let condition = cluster.condition("big").unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("False", Some("Unschedulable")));
    assert_eq!(condition.message.as_deref(), Some(message));
    assert_eq!(cluster.events("big"), [("FailedScheduling".into(), message.into(), 1)]);
    let verdict = cluster.scheduler.verdict(cluster.get("big").uid()).expect("the last attempt's verdict");
    assert_eq!(verdict.table.rows().filter(|row| row.refused().is_some()).count(), 3);

    // Others were bound since it was tried: it has one more attempt within five minutes, and then rests.
    tokio::time::sleep(Duration::from_mins(6)).await;
    let revision = cluster.api.revision();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(cluster.api.revision(), revision, "a pod that fits nowhere costs nothing");
    let waiting = PendingCounts { unschedulable: 1, gated: 1, ..PendingCounts::default() };
    assert_eq!(cluster.scheduler.waiting(), waiting);
    cluster.resize("c", "6");
    cluster.until("big bound", |c| c.node_of("big").as_deref() == Some("c")).await;
    assert_eq!(cluster.condition("big").unwrap().status, "True");
    assert!(cluster.scheduler.verdict(cluster.get("big").uid()).is_none());

    let gated = cluster.condition("gated").unwrap();
    assert_eq!(gated.reason.as_deref(), Some("SchedulingGated"));
    let open = |pod: &mut Pod| {
        pod.spec.as_mut().unwrap().scheduling_gates = None;
        Ok(())
    };
    cluster.api.modify::<Pod>(&Key::new("default", "gated"), open).unwrap();
    cluster.until("the gate is open", |c| c.node_of("gated").is_some()).await;
    assert_eq!((cluster.node_of("foreign"), cluster.condition("foreign")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pods_room_goes_to_the_next_sch_1() {
    let cluster = Cluster::start(&[("a", "1")]);
    cluster.pod("first", "1", json!({}));
    cluster.until("first bound", |c| c.node_of("first").is_some()).await;
    cluster.pod("second", "1", json!({}));
    cluster.until("second waits", |c| c.condition("second").is_some()).await;
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    cluster.api.delete(Kind::Pod, &Key::new("default", "first"), &now).unwrap();
    cluster.until("second bound", |c| c.node_of("second").as_deref() == Some("a")).await;
}

#[tokio::test(start_paused = true)]
async fn victims_get_a_condition_and_leave_and_their_room_is_reserved_sch_8() {
    let cluster = Cluster::start(&[("a", "1")]);
    cluster.create(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000}));
    cluster.pod("victim", "1", json!({"terminationGracePeriodSeconds": 7}));
    cluster.until("victim bound", |c| c.node_of("victim").is_some()).await;
    cluster.pod("vip", "1", json!({"priorityClassName": "high"}));
    let nominated = |c: &Cluster| c.get("vip").status.as_ref().and_then(|s| s.nominated_node_name.clone());
    cluster.until("a node is nominated", |c| nominated(c).as_deref() == Some("a")).await;

    let victim = cluster.get("victim");
    assert_eq!(victim.metadata.deletion_grace_period_seconds, Some(7), "its own grace period");
    let conditions = victim.status.as_ref().unwrap().conditions.clone().unwrap();
    let target = conditions.iter().find(|c| c.type_ == "DisruptionTarget").unwrap();
    assert_eq!((target.status.as_str(), target.reason.as_deref()), ("True", Some("PreemptionByScheduler")));
    assert_eq!(
        target.message.as_deref(),
        Some("default-scheduler: preempting to accommodate a higher priority pod")
    );
    let message = format!("Preempted by pod {} on node a", cluster.get("vip").uid());
    assert!(cluster.events("victim").contains(&("Preempted".into(), message, 1)));
    let failed = cluster.condition("vip").unwrap();
    assert_eq!(failed.message.as_deref(), Some("0/1 nodes are available: 1 Insufficient cpu."));

    // A scheduler restarted meanwhile still knows the nomination.
    cluster.pod("rival", "1", json!({}));
    cluster.until("rival was tried", |c| c.condition("rival").is_some()).await;
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    cluster.api.delete(Kind::Pod, &Key::new("default", "victim"), &now).unwrap();
    cluster.until("vip bound", |c| c.node_of("vip").as_deref() == Some("a")).await;
    assert_eq!(cluster.node_of("rival"), None);
}

#[tokio::test(start_paused = true)]
async fn thousands_of_gated_pods_are_in_nobodys_way_sch_1() {
    let cluster = Cluster::start(&[("a", "1")]);
    for n in 0..10_000 {
        cluster.pod(&format!("gated-{n}"), "1m", json!({"schedulingGates": [{"name": "example.com/wait"}]}));
    }
    cluster.pod("free", "1", json!({}));
    cluster.until("free bound", |c| c.node_of("free").is_some()).await;
    cluster.until("all are known", |c| c.scheduler.waiting().gated == 10_000).await;
    let revision = cluster.api.revision();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(cluster.api.revision(), revision, "and cost nothing");
}

/// A plugin that panics on pods named `trouble`, at one of the points.
struct PanickingPlugin(Point);

impl PanickingPlugin {
    fn look(&self, at: Point, pod: &PodInfo) {
        assert!(self.0 != at || pod.key().name != "trouble", "on purpose");
    }
}

impl Plugin for PanickingPlugin {
    fn id(&self) -> PluginId {
        PluginId::ImageLocality
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Reserve, Point::PreBind]
    }

    fn reserve(&self, pod: &PodInfo, _: &crate::state::node_info::NodeInfo) -> Result<(), String> {
        self.look(Point::Reserve, pod);
        Ok(())
    }

    fn pre_bind(&self, binding: &Binding<'_>) -> Result<PreBind, BindError> {
        self.look(Point::PreBind, binding.pod);
        Ok(PreBind::Ready)
    }
}

/// SAFE-6: after a panic at any point its pod gets an event and is tried again, and no other pod is affected.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_panics_costs_its_pod_an_attempt_safe_6() {
    for point in [Point::Reserve, Point::PreBind] {
        let mut all = crate::plugins::all();
        all.push(Arc::new(PanickingPlugin(point)));
        let cluster = Cluster::with_profile(&[("a", "4")], Profile::of(all));
        cluster.pod("trouble", "1", json!({}));
        cluster.pod("plain", "1", json!({}));
        cluster.until("plain is bound", |c| c.node_of("plain").is_some()).await;
        let panics = |c: &Cluster| c.api.contained().all().get(&PLUGIN).map_or(0, |panics| panics.count);
        cluster.until("it was tried again", |c| panics(c) > 1).await;
        let condition = cluster.condition("trouble").unwrap();
        assert_eq!(condition.message.as_deref(), Some("a plugin panicked: on purpose"));
        assert_eq!(cluster.api.contained().all().len(), 1, "the scheduler itself goes on");
    }
}

/// Runs a test's function between the decision on a pod and its binding.
struct BindHook(fn(&Binding<'_>) -> Result<PreBind, BindError>);

impl Plugin for BindHook {
    fn id(&self) -> PluginId {
        PluginId::ImageLocality
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PreBind]
    }

    fn pre_bind(&self, binding: &Binding<'_>) -> Result<PreBind, BindError> {
        self.0(binding)
    }
}

fn with_pre_bind(before: fn(&Binding<'_>) -> Result<PreBind, BindError>) -> Profile {
    let mut all = crate::plugins::all();
    all.push(Arc::new(BindHook(before)));
    Profile::of(all)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_between_filter_and_bind_gets_no_pod_sch_1() {
    let profile = with_pre_bind(|binding| {
        if binding.node == "a" {
            binding
                .api
                .delete(Kind::Node, &Key::new("", "a"), &DeleteOptions::default())
                .expect("it is there");
        }
        Ok(PreBind::Ready)
    });
    let cluster = Cluster::with_profile(&[("a", "1")], profile);
    cluster.pod("p", "1", json!({}));
    let expected = "binding rejected: nodes \"a\" not found";
    cluster.until("its event", |c| c.events("p").iter().any(|(_, message, _)| message == expected)).await;
    assert_eq!(cluster.node_of("p"), None, "no pod is bound to what is not there");
    assert_eq!(cluster.events("p")[0].0, "FailedScheduling");
    assert_eq!(cluster.condition("p").unwrap().reason.as_deref(), Some("SchedulerError"));
    cluster
        .until("it was tried again", |c| {
            c.condition("p").unwrap().message.as_deref() == Some("no nodes available to schedule pods")
        })
        .await;
    cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}));
    cluster.resize("b", "1");
    cluster.until("p bound", |c| c.node_of("p").as_deref() == Some("b")).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_when_what_it_needs_is_there_sch_2() {
    let profile = with_pre_bind(|binding| {
        let ready = binding.api.get(Kind::Service, &Key::new("default", "ready")).is_ok();
        Ok(if ready { PreBind::Ready } else { PreBind::Wait(Duration::from_mins(1)) })
    });
    let cluster = Cluster::with_profile(&[("a", "1")], profile);
    cluster.pod("p", "1", json!({}));
    let expected = "binding rejected: timed out waiting for the PreBind plugins";
    cluster.until("it gives up", |c| c.events("p").iter().any(|(_, message, _)| message == expected)).await;
    assert_eq!(cluster.node_of("p"), None);
    cluster.create(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ready",
        "namespace": "default"}, "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}}));
    cluster.until("p bound", |c| c.node_of("p").as_deref() == Some("a")).await;
    assert!(cluster.events("p").iter().any(|(reason, ..)| reason == "Scheduled"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_given_node_name_is_ignored_even_if_the_node_is_missing_sch_3() {
    let cluster = Cluster::start(&[("a", "1")]);
    cluster.pod("lost", "1", json!({"nodeName": "nowhere"}));
    cluster.pod("p", "1", json!({}));
    cluster.until("p bound", |c| c.node_of("p").as_deref() == Some("a")).await;
    assert_eq!(cluster.node_of("lost").as_deref(), Some("nowhere"));
    assert!(cluster.events("lost").is_empty());
    assert_eq!(cluster.scheduler.waiting(), PendingCounts::default());
}

#[tokio::test(start_paused = true)]
async fn verdicts_are_available_through_the_api_sch_9() {
    let cluster = Cluster::start(&[("a", "1"), ("b", "2")]);
    cluster.pod("big", "3", json!({}));
    cluster.until("big was tried", |c| c.condition("big").is_some()).await;
    let verdict = cluster.api.scheduling_verdict(cluster.get("big").uid()).expect("it was tried");
    assert!(verdict.message.starts_with("0/2 nodes are available: 2 Insufficient cpu."));
    assert_eq!(verdict.hints[0].node, "b", "the least is missing there");
    assert_eq!(verdict.filters, ["NodeUnschedulable", "TaintToleration", "NodeResourcesFit"]);
    let refused: Vec<_> =
        verdict.nodes.iter().map(|node| (node.name.as_str(), node.refusals[0].plugin)).collect();
    assert_eq!(refused, [("a", "NodeResourcesFit"), ("b", "NodeResourcesFit")]);
    // With the pod's 3 cpu neither node has any left; memory is (8192 − 200)/8192 = 97 % free: (0 + 97)/2 = 48.
    let scored = |name: &str| verdict.scored_by.iter().position(|(plugin, _)| *plugin == name).unwrap();
    assert_eq!(verdict.nodes[1].scores[scored("NodeResourcesFit")], 48);
    assert_eq!(verdict.scored_by[scored("NodeResourcesFit")].1, 1, "its weight");
    cluster.resize("b", "4");
    cluster.until("big bound", |c| c.node_of("big").is_some()).await;
    assert_eq!(cluster.api.scheduling_verdict(cluster.get("big").uid()), None);
}
