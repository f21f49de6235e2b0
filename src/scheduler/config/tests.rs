//! The meaning of configurations, and the messages about mistakes in them.

use serde_json::{Value, json};

use super::*;
use crate::framework::{Plugin, PluginId, Point};
use crate::test_cluster::Cluster;
use crate::test_objects::{asking, node, sized_node};
use object::Object;

fn one(configuration: &Value) -> Profile {
    let mut all = profiles(configuration).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn scores(profile: &Profile) -> Vec<(&'static str, i64)> {
    profile.scores().map(|(plugin, weight)| (plugin.id().name(), weight)).collect()
}

fn filters(profile: &Profile) -> Vec<PluginId> {
    profile.at(Point::Filter).map(Plugin::id).collect()
}

#[test]
fn profiles_enable_disable_and_weigh_plugins_sch_6() {
    let defaults = [
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    ];
    assert_eq!(scores(&one(&json!({}))), defaults);
    let profile = one(&json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false}, "percentageOfNodesToScore": 30,
        "profiles": [{"schedulerName": "mine", "plugins": {"score": {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": "NodeResourcesFit", "weight": 5}, {"name": "ImageLocality"}]},
            "filter": {"disabled": [{"name": "NodePorts"}]}}}]}));
    assert_eq!(scores(&profile), [("NodeResourcesFit", 5), ("ImageLocality", 1)]);
    assert!(!filters(&profile).contains(&PluginId::NodePorts));
    assert!(filters(&profile).contains(&PluginId::NodeName));
    assert_eq!((profile.scheduler_name.as_str(), profile.percentage_of_nodes_to_score), ("mine", Some(30)));
    // multiPoint changes all points; more specific settings take precedence.
    let profile = one(&json!({"profiles": [{"plugins": {
        "multiPoint": {"disabled": [{"name": "TaintToleration"}], "enabled": [{"name": "NodeAffinity", "weight": 9}]},
        "score": {"enabled": [{"name": "TaintToleration", "weight": 4}]}}}]}));
    assert_eq!(scores(&profile)[..2], [("TaintToleration", 4), ("NodeAffinity", 9)]);
    assert!(!filters(&profile).contains(&PluginId::TaintToleration));
}

#[test]
fn every_plugin_is_known_by_its_name_sch_6() {
    for id in PluginId::ALL {
        assert_eq!(names::named(id.name()), Some(names::PluginName::Plugin(*id)));
    }
    let profile = one(&json!({"profiles": [{
        "plugins": {
            "multiPoint": {"disabled": [{"name": "DynamicResources"}]},
            // The points that they extend only in Kubernetes are accepted.
            "filter": {"enabled": [{"name": "DynamicResources"}]},
            "permit": {"enabled": [{"name": "GangScheduling"}]}},
        "pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "10s"}}]}]}));
    let gates: Vec<PluginId> = profile.at(Point::PreEnqueue).map(Plugin::id).collect();
    assert_eq!(gates, [PluginId::SchedulingGates, PluginId::GangScheduling]);
    assert!(!filters(&profile).contains(&PluginId::DynamicResources));
}

#[test]
fn older_spellings_mean_the_same_sch_6() {
    let old = one(&json!({"apiVersion": "kubescheduler.config.k8s.io/v1alpha1", "schedulerName": "old",
        "disablePreemption": true, "hardPodAffinitySymmetricWeight": 10,
        "plugins": {"score": {"disabled": [{"name": "NodeResourcesLeastAllocated"}],
            "enabled": [{"name": "NodeResourcesMostAllocated", "weight": 3}]}}}));
    assert_eq!(old.scheduler_name, "old");
    assert_eq!(old.at(Point::PostFilter).count(), 0);
    assert!(scores(&old).contains(&("NodeResourcesFit", 3)));
    // The fuller node is the better one now, and the message for a pod without a feasible node does not mention
    // preemption.
    let mut profile = old;
    profile.scheduler_name = DEFAULT_SCHEDULER.into();
    let mut cluster = Cluster::with_profile(&[sized_node("full", "2"), sized_node("empty", "2")], profile);
    cluster.placed("there", "full", json!({"spec": asking("1")}));
    cluster.pod("p", asking("1"));
    assert_eq!(cluster.step(), "p -> full");
    cluster.pod("big", asking("9"));
    assert_eq!(cluster.step(), "big: 0/2 nodes are available: 2 Insufficient cpu.");
}

#[test]
fn mistakes_name_their_field_sch_6() {
    let profile = |plugins: Value| json!({"profiles": [{"plugins": plugins}]});
    let args =
        |name: &str, args: Value| json!({"profiles": [{"pluginConfig": [{"name": name, "args": args}]}]});
    let constraint = |more: Value| {
        let mut constraint =
            json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"});
        constraint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"defaultingType": "List", "defaultConstraints": [constraint]})
    };
    for (configuration, expect) in [
        (json!({"apiVersion": "v1"}), "apiVersion: Unsupported value"),
        (json!({"kind": "Policy"}), "kind: Unsupported value"),
        (json!({"percentageOfNodesToScore": 101}), "percentageOfNodesToScore: Invalid value: 101"),
        (json!({"extenders": [{}]}), "extenders: Forbidden"),
        (
            json!({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]}),
            "profiles[1].schedulerName: Duplicate",
        ),
        (json!({"profiles": [{"schedulerName": ""}]}), "profiles[0].schedulerName: Required value"),
        (json!({"profile": []}), ": unknown field `profile`"),
        (
            profile(json!({"score": {"enabled": [{"name": "NodeFit"}]}})),
            "profiles[0].plugins.score.enabled[0].name: Unsupported value: \"NodeFit\"",
        ),
        (
            profile(json!({"score": {"enabled": [{"name": "NodeAffinity", "weight": -1}]}})),
            "profiles[0].plugins.score.enabled[0].weight: Invalid value",
        ),
        (
            args("NodeResourcesFit", json!({"scoringStrategy": {"type": "Best"}})),
            "profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: \"Best\"",
        ),
        (
            args(
                "NodeResourcesFit",
                json!({"scoringStrategy": {"type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {"shape": [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}]}}}),
            ),
            "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid",
        ),
        (
            args("InterPodAffinity", json!({"hardPodAffinityWeight": 101})),
            "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101",
        ),
        (
            args("PodTopologySpread", constraint(json!({"maxSkew": 0}))),
            "profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew: Invalid value: 0",
        ),
        (
            args("PodTopologySpread", constraint(json!({"labelSelector": {}}))),
            "profiles[0].pluginConfig[0].args.defaultConstraints[0].labelSelector: Forbidden",
        ),
        (
            profile(json!({"score": {"enabled": [{"name": "NodeName"}]}})),
            "profiles[0].plugins.score.enabled[0].name: Invalid value: \"NodeName\": does not extend score",
        ),
        (
            profile(json!({"bind": {"disabled": [{"name": "DefaultBinder"}]}})),
            "profiles[0].plugins.bind: Required value: at least one bind plugin is needed for profile with \
             scheduler name \"default-scheduler\"",
        ),
        (
            profile(json!({"queueSort": {"disabled": [{"name": "*"}]}})),
            "profiles[0].plugins.queueSort: Required value: one queue sort plugin required for profile with \
             scheduler name \"default-scheduler\", but got 0",
        ),
        (args("NodeName", json!({"x": 1})), "profiles[0].pluginConfig[0].args: Forbidden"),
    ] {
        let error = profiles(&configuration).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with(expect), "{configuration}: {error}");
    }
}

#[test]
fn default_constraints_spread_pods_that_a_service_selects_sch_6() {
    let labelled = |name: &str, zone: &str| {
        node(json!({"metadata": {"name": name, "labels": {"zone": zone, "kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "9", "memory": "9Gi", "pods": "9"}}}))
    };
    let nodes = [labelled("a1", "a"), labelled("a2", "a"), labelled("b1", "b")];
    let listed = json!({"profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": {
        "defaultingType": "List", "defaultConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}}]}]});
    let web = json!({"metadata": {"labels": {"app": "web"}}, "spec": asking("100m")});
    let service = Object::from_any_value(json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}))
    .unwrap();
    // Selected by a Service; by each kind of workload that owns the pod; and by none.
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
    let workload = |api_version: &str, kind: &str, selector: Value| {
        let spec = json!({"selector": selector, "template": template, "serviceName": "web"});
        Object::from_any_value(json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": "web", "namespace": "default", "uid": "web"}, "spec": spec}))
        .unwrap()
    };
    let selector = json!({"matchLabels": {"app": "web"}});
    for (by, selected) in [
        (Some(service), true),
        (Some(workload("apps/v1", "ReplicaSet", selector.clone())), true),
        (Some(workload("apps/v1", "StatefulSet", selector)), true),
        (Some(workload("v1", "ReplicationController", json!({"app": "web"}))), true),
        (None, false),
    ] {
        let mut cluster = Cluster::with_profile(&nodes, one(&listed));
        if let Some(by) = &by {
            cluster.core.workload_changed(by, false, cluster.now);
        }
        for (n, node) in ["a1", "a2"].iter().enumerate() {
            cluster.placed(&format!("w{n}"), node, web.clone());
        }
        // b1 is much fuller: without the constraint no pod would go there.
        cluster.placed("heavy", "b1", json!({"spec": asking("8")}));
        let mut pod = (*crate::test_objects::named_pod("p", asking("100m"))).clone();
        pod.metadata.labels = Some([("app".to_string(), "web".to_string())].into());
        if let Some(by) = by.as_ref().filter(|by| by.kind() != object::Kind::Service) {
            let owner = json!([{"apiVersion": by.kind().info().api_version(), "kind": by.kind().info().name,
                "name": "web", "uid": "web", "controller": true}]);
            pod.metadata.owner_references = serde_json::from_value(owner).unwrap();
        }
        cluster.core.pod_changed(object::SharedObject::from_value(pod), cluster.now);
        assert_eq!(cluster.step() == "p -> b1", selected, "{:?}", by.map(|by| by.kind()));
    }
}
