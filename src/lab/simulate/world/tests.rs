//! Tests of the controllers in a simulated world, by their writes.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use super::World;
use api::{Api, Visibility};
use object::Kind;
use object::pod::is_ready;

/// More writes than two copies of the controllers need for the cluster below.
const MAX_WRITES: u64 = 1_000;

fn from_json<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn make_sets(api: &Api) {
    api.create_as(from_json::<Namespace>(json!({"metadata": {"name": "n"}}))).unwrap();
    let spec = |name: &str| {
        json!({"replicas": 3, "serviceName": "", "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "runs"}]}}})
    };
    let mut of_deployment = spec("web");
    of_deployment.as_object_mut().unwrap().remove("serviceName");
    let meta = |name: &str| json!({"name": name, "namespace": "n"});
    api.create_as(from_json::<Deployment>(json!({"metadata": meta("web"), "spec": of_deployment}))).unwrap();
    api.create_as(from_json::<StatefulSet>(json!({"metadata": meta("db"), "spec": spec("db")}))).unwrap();
    let of_web = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    api.create_as(from_json::<PodDisruptionBudget>(json!({"metadata": meta("web"), "spec": of_web})))
        .unwrap();
}

/// Returns once more writes than the maximum were made; wakes for each of the kinds that controllers write here.
async fn too_many(api: &Api) {
    let start_revision = api.revision();
    let watch = |kind| api.watch(kind, start_revision, Visibility::Applied);
    let (mut sets, mut budgets, mut stateful) =
        (watch(Kind::ReplicaSet), watch(Kind::PodDisruptionBudget), watch(Kind::StatefulSet));
    while api.revision().0 - start_revision.0 < MAX_WRITES {
        tokio::select! {
            changes = sets.next() => drop(changes.unwrap()),
            changes = budgets.next() => drop(changes.unwrap()),
            changes = stateful.next() => drop(changes.unwrap()),
        }
    }
}

/// Each controller runs twice, and the caches of one copy stay newer than those of the other, as in seed 17.
#[tokio::test(start_paused = true)]
async fn controllers_that_see_different_pods_do_not_argue_without_end_safe_6() {
    let world = World::new();
    world.start().await.unwrap();
    let plane = world.plane().unwrap();
    make_sets(&plane.api);
    let ready = || plane.api.list_as::<Pod>(Some("n")).iter().filter(|pod| is_ready(pod)).count();
    tokio::time::timeout(Duration::from_mins(5), async {
        while ready() < 6 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await
    .expect("the pods run");
    plane.store.hold_views(Some(Kind::Pod));
    // Makes all pods unready: the first copy, with its held caches, still sees them ready, and the second lists the new
    // state.
    for pod in plane.api.list_as::<Pod>(Some("n")) {
        let written = plane.api.modify_status::<Pod>(&pod.key(), |pod| {
            for condition in pod.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten()) {
                if condition.type_ == "Ready" {
                    condition.status = "False".into();
                }
            }
            Ok(())
        });
        written.unwrap();
    }
    world.set_twins(true);
    tokio::select! {
        () = too_many(&plane.api) => panic!("they argue: {MAX_WRITES} writes"),
        () = tokio::time::sleep(Duration::from_mins(2)) => {}
    }
    // With equal caches they agree.
    plane.store.hold_views(None);
    tokio::time::timeout(Duration::from_mins(5), async {
        let is_agreed = || {
            let sets = plane.api.list_as::<StatefulSet>(Some("n"));
            let web = plane.api.list_as::<Deployment>(Some("n"));
            let of_sets = sets.iter().filter_map(|set| set.status.as_ref()?.ready_replicas);
            let of_web = web.iter().filter_map(|web| web.status.as_ref()?.ready_replicas);
            of_sets.chain(of_web).sum::<i32>()
        };
        while usize::try_from(is_agreed()).unwrap() != ready() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await
    .expect("the statuses agree with the ready pods");
    world.end_twins();
    world.crash(false).await;
}
