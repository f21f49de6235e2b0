//! Numbers as large as their type: the cost of an object depends on what exists, not on the numbers in its spec; the
//! excess is reported, and other objects are not starved.

#![expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node, Pod, ReplicationController, ResourceQuota,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use podium::api::DeleteOptions;
use podium::object::pod::is_active;
use podium::object::{Key, Kind, SharedObject};
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES, deployment};
use super::nodes::node;

/// Pods that the namespace may have.
const QUOTA: usize = 20;

/// Number of refusals until the back-off is so long that the cluster counts as settled. Each is recorded as an event.
const TRIES_UNTIL_SETTLED: i32 = 12;

fn template(restart_policy: &str) -> Value {
    json!({"metadata": {"labels": {"app": "huge"}},
        "spec": {"restartPolicy": restart_policy, "containers": [{"name": "c", "image": "nginx"}]}})
}

fn whole(spec: Value) -> Value {
    json!({"metadata": {"name": "huge", "namespace": "default"}, "spec": spec})
}

fn replicated(selector: &Value, more: Value) -> Value {
    let mut spec = json!({"replicas": i32::MAX, "selector": selector, "template": template("Always")});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    whole(spec)
}

fn stateful(policy: &str, start: i32) -> Value {
    replicated(
        &json!({"matchLabels": {"app": "huge"}}),
        json!({"serviceName": "huge", "podManagementPolicy": policy, "ordinals": {"start": start},
            "updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"partition": i32::MAX, "maxUnavailable": i32::MAX}}}),
    )
}

fn job(fields: Value) -> Value {
    let mut spec = json!({"template": template("Never"), "backoffLimit": i32::MAX});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    whole(spec)
}

/// Checks a workload that requests two thousand million pods under a quota, and then one pod.
async fn assert_is_bounded(
    what: &str,
    create: impl Fn(&Cluster),
    shrink: impl Fn(&Cluster),
    failed: impl Fn(&Cluster) -> bool,
) {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ResourceQuota>(
        json!({"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": QUOTA.to_string()}}}),
    );
    cluster.create::<Namespace>(json!({"metadata": {"name": "other"}}));
    create(&cluster);
    cluster.settle().await;
    let refusals = || -> i32 {
        let events = cluster.api.list_as::<Event>(Some("default"));
        let refused = events.iter().filter(|event| event.reason.as_deref() == Some("FailedCreate"));
        refused.map(|event| event.count.unwrap_or(1)).sum()
    };
    assert!(refusals() <= TRIES_UNTIL_SETTLED, "{what}: {} refusals", refusals());
    cluster.run().await;
    assert_eq!(cluster.pods().len(), QUOTA, "{what}");
    assert!(failed(&cluster), "{what}: nothing tells of the refusal");
    let events = cluster.api.count(Kind::Event);
    cluster.pass(3600).await;
    // The controller makes a dozen tries with growing waits between them.
    assert!(cluster.api.count(Kind::Event) <= events + 20, "{what}: events pile up");

    // Other workloads get their pods.
    let mut beside = deployment("beside", 2, 1, 0);
    beside["metadata"]["namespace"] = json!("other");
    cluster.create::<Deployment>(beside);
    cluster.settle().await;
    assert_eq!(cluster.api.list_as::<Pod>(Some("other")).len(), 2, "{what} starves others");

    shrink(&cluster);
    cluster.run().await;
    let left: Vec<SharedObject<Pod>> = cluster.pods().into_iter().filter(|pod| is_active(pod)).collect();
    assert_eq!(left.len(), 1, "{what}");
    cluster.stop().await;
}

fn quota_event_recorded(cluster: &Cluster) -> bool {
    cluster.events("FailedCreate").iter().any(|message| message.contains("exceeded quota: q"))
}

/// A controller that a quota stops retries without harm (SAFE-6).
#[tokio::test(start_paused = true)]
async fn a_number_of_replicas_without_bounds_is_held_by_a_quota_rs_1_dep_1() {
    let failure = |conditions: Option<Vec<(String, String)>>| {
        conditions
            .into_iter()
            .flatten()
            .any(|(type_, reason)| type_ == "ReplicaFailure" && reason == "FailedCreate")
    };
    assert_is_bounded(
        "Deployment",
        |cluster| {
            cluster.create::<Deployment>(replicated(
                &json!({"matchLabels": {"app": "huge"}}),
                json!({"strategy": {"rollingUpdate": {"maxSurge": i32::MAX, "maxUnavailable": i32::MAX}}}),
            ));
        },
        |cluster| cluster.change::<Deployment>("huge", |d| d.spec.replicas = Some(1)),
        |cluster| cluster.conditions("huge").contains(&"ReplicaFailure=True FailedCreate".to_string()),
    )
    .await;
    assert_is_bounded(
        "ReplicaSet",
        |cluster| {
            cluster.create::<ReplicaSet>(replicated(&json!({"matchLabels": {"app": "huge"}}), json!({})));
        },
        |cluster| cluster.change::<ReplicaSet>("huge", |s| s.spec.replicas = Some(1)),
        |cluster| {
            let conditions = cluster.get::<ReplicaSet>("huge").status.as_ref().unwrap().conditions.clone();
            failure(conditions.map(|all| {
                all.into_iter().map(|c| (c.type_.unwrap_or_default(), c.reason.unwrap_or_default())).collect()
            }))
        },
    )
    .await;
    assert_is_bounded(
        "ReplicationController",
        |cluster| {
            cluster.create::<ReplicationController>(replicated(&json!({"app": "huge"}), json!({})));
        },
        |cluster| {
            cluster.change::<ReplicationController>("huge", |c| {
                c.spec.as_mut().unwrap().replicas = Some(1);
            });
        },
        |cluster| {
            let status = cluster.get::<ReplicationController>("huge").status.clone();
            failure(
                status
                    .unwrap()
                    .conditions
                    .map(|all| all.into_iter().map(|c| (c.type_, c.reason.unwrap_or_default())).collect()),
            )
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn ordinals_without_bounds_are_held_by_a_quota_sts_1() {
    for policy in ["Parallel", "OrderedReady"] {
        assert_is_bounded(
            policy,
            |cluster| drop(cluster.create::<StatefulSet>(stateful(policy, 7))),
            |cluster| cluster.change::<StatefulSet>("huge", |s| s.spec.replicas = Some(1)),
            quota_event_recorded,
        )
        .await;
    }
}

/// The largest indexed Job that validation accepts, and Jobs without indexes.
#[tokio::test(start_paused = true)]
async fn completions_without_bounds_are_held_by_a_quota_job_1() {
    for (what, fields) in [
        ("work queue", json!({"parallelism": i32::MAX})),
        ("completions", json!({"parallelism": i32::MAX, "completions": i32::MAX})),
        (
            "indexed",
            json!({"parallelism": 10_000, "completions": i32::MAX, "completionMode": "Indexed",
                "backoffLimitPerIndex": i32::MAX, "maxFailedIndexes": 10_000}),
        ),
    ] {
        assert_is_bounded(
            what,
            |cluster| drop(cluster.create::<Job>(job(fields.clone()))),
            |cluster| {
                cluster.change::<Job>("huge", |job| job.spec.as_mut().unwrap().parallelism = Some(1));
            },
            quota_event_recorded,
        )
        .await;
    }
}

/// The ordinals end where 32 bits do.
#[tokio::test(start_paused = true)]
async fn the_last_ordinals_are_used_and_none_beyond_them_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(stateful("OrderedReady", i32::MAX - 2));
    cluster.run().await;
    let names: Vec<String> = cluster.pods().iter().map(|pod| pod.name().to_string()).collect();
    assert_eq!(names, ["huge-2147483645", "huge-2147483646"]);
    cluster.stop().await;
}

/// A deletion makes room for a refused creation: both are tried.
#[tokio::test(start_paused = true)]
async fn a_set_with_a_changed_ordinal_start_moves_under_a_full_quota_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ResourceQuota>(
        json!({"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "3"}}}),
    );
    let mut set = stateful("Parallel", 0);
    set["spec"]["replicas"] = json!(3);
    cluster.create::<StatefulSet>(set);
    cluster.run().await;
    cluster.change::<StatefulSet>("huge", |set| {
        set.spec.ordinals.get_or_insert_default().start = Some(3);
    });
    cluster.run().await;
    cluster.pass(60).await;
    cluster.run().await;
    let names: Vec<String> = cluster.pods().iter().map(|pod| pod.name().to_string()).collect();
    assert_eq!(names, ["huge-3", "huge-4", "huge-5"]);
    cluster.stop().await;
}

/// Bounds, limits and statuses as large as their type do not overflow.
#[tokio::test(start_paused = true)]
async fn no_bound_overflows_what_is_computed_of_it_pdb_1_hpa_1_ds_1_cj_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ResourceQuota>(
        json!({"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "5"}}}),
    );
    cluster.create::<Node>(node("n1", ""));
    let selector = json!({"matchLabels": {"app": "huge"}});
    cluster.create::<Deployment>(replicated(
        &selector,
        json!({"strategy": {"rollingUpdate": {"maxSurge": i32::MAX, "maxUnavailable": i32::MAX}}}),
    ));
    cluster.run().await;
    // An old ReplicaSet claims to have as many replicas.
    let first = cluster.api.list_as::<ReplicaSet>(Some("default")).remove(0);
    cluster.change::<Deployment>("huge", |d| {
        d.spec.template.spec.as_mut().unwrap().containers[0].image = Some("nginx:2".into());
    });
    cluster.settle().await;
    cluster
        .api
        .modify::<ReplicaSet>(&first.key(), |set| {
            let annotations = set.metadata.annotations.get_or_insert_default();
            annotations.insert("deployment.kubernetes.io/revision".into(), i64::MAX.to_string());
            annotations.insert("deployment.kubernetes.io/max-replicas".into(), i32::MIN.to_string());
            Ok(())
        })
        .unwrap();
    cluster
        .api
        .modify_status::<ReplicaSet>(&first.key(), |set| {
            let status = set.status.get_or_insert_default();
            status.replicas = i32::MAX;
            status.terminating_replicas = Some(i32::MAX);
            status.ready_replicas = Some(i32::MAX);
            status.available_replicas = Some(i32::MAX);
            Ok(())
        })
        .unwrap();
    for (name, bound) in [
        ("most", json!({"maxUnavailable": i32::MAX})),
        ("least", json!({"minAvailable": i32::MAX})),
        ("part", json!({"maxUnavailable": "1%"})),
    ] {
        let mut budget = json!({"metadata": {"name": name, "namespace": "default"}, "spec": bound});
        budget["spec"]["selector"] = selector.clone();
        cluster.create::<PodDisruptionBudget>(budget);
    }
    cluster.create::<DaemonSet>(json!({"metadata": {"name": "daemons", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "minReadySeconds": i32::MAX,
            "revisionHistoryLimit": i32::MAX,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": i32::MAX, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}}));
    cluster.create::<CronJob>(json!({"metadata": {"name": "cron", "namespace": "default"},
        "spec": {"schedule": "* * * * *", "successfulJobsHistoryLimit": i32::MAX,
            "failedJobsHistoryLimit": i32::MAX, "startingDeadlineSeconds": i64::MAX,
            "jobTemplate": {"spec": {"template": template("Never")}}}}));
    cluster.create::<HorizontalPodAutoscaler>(json!({"metadata": {"name": "scaler", "namespace": "default"},
        "spec": {"minReplicas": i32::MAX, "maxReplicas": i32::MAX,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "huge"},
            "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": i32::MAX, "periodSeconds": 1800}]}},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}]}}));
    cluster.pass(130).await;
    let most = cluster.get::<PodDisruptionBudget>("most").status.clone().unwrap();
    assert_eq!((most.expected_pods, most.desired_healthy), (Some(i32::MAX), Some(0)));
    let least = cluster.get::<PodDisruptionBudget>("least").status.clone().unwrap();
    assert_eq!((least.desired_healthy, least.disruptions_allowed), (Some(i32::MAX), Some(0)));
    let part = cluster.get::<PodDisruptionBudget>("part").status.clone().unwrap();
    assert_eq!(part.disruptions_allowed, Some(0));
    let deployment = cluster.get::<Deployment>("huge");
    assert_eq!(deployment.status.as_ref().unwrap().observed_generation, deployment.metadata.generation);
    assert!(cluster.get::<DaemonSet>("daemons").status.is_some());
    assert!(cluster.get::<CronJob>("cron").status.as_ref().unwrap().last_schedule_time.is_some());
    let scaler = cluster.get::<HorizontalPodAutoscaler>("scaler").status.clone().unwrap();
    assert_eq!(scaler.current_replicas, Some(i32::MAX));
    cluster.stop().await;
}

/// A namespace is emptied in batches, and other namespaces are processed in between.
#[tokio::test(start_paused = true)]
async fn a_namespace_of_many_objects_goes_api_10() {
    let cluster = Cluster::start(NO_NODES);
    for name in ["large", "small"] {
        cluster.create::<Namespace>(json!({"metadata": {"name": name}}));
    }
    for n in 0..1_300 {
        let name = format!("m{n}");
        cluster.create::<ConfigMap>(json!({"metadata": {"name": name, "namespace": "large"}}));
    }
    cluster.settle().await;
    for name in ["large", "small"] {
        cluster.api.delete(Kind::Namespace, &Key::new("", name), &DeleteOptions::default()).unwrap();
    }
    cluster.settle().await;
    for name in ["large", "small"] {
        assert!(cluster.api.get(Kind::Namespace, &Key::new("", name)).is_err(), "{name}");
    }
    assert!(cluster.api.list_as::<ConfigMap>(Some("large")).is_empty());
    cluster.stop().await;
}
