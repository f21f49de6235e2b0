//! With any number of concurrent writes and any stop of the controller, no quota is exceeded and its usage is right
//! (QUO-1, SAFE-6).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use podium::api::{Api, DeleteOptions, WriteOptions};
use podium::base::task::Tasks;
use podium::controllers::{Controllers, Settings};
use podium::object::{Key, Kind, Object};
use podium::reconcile::Caches;
use proptest::prelude::*;
use serde_json::json;

use super::{Cluster, NO_NODES, key, pod, quota, used};

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u8),
    Delete(u8),
    End(u8),
    /// The controller is stopped and started again.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12u8, 1..5u8).prop_map(|(name, cpu)| Step::Create(name, cpu)),
        2 => (0..12u8).prop_map(Step::Delete),
        1 => (0..12u8).prop_map(Step::End),
        1 => Just(Step::Restart),
    ]
}

/// The number of living pods and the sum of their requests, in cores.
fn requested(api: &Api) -> (usize, i64) {
    let pods = api.list_as::<Pod>(Some("default"));
    let living: Vec<_> = pods.iter().filter(|p| !podium::object::pod::is_terminal(p)).collect();
    let cpu = living.iter().map(|p| podium::object::resources::pod_requests(p)["cpu"].units()).sum();
    (living.len(), cpu)
}

/// Runs the steps concurrently, each in its own thread; returns once all have ended.
fn run_concurrently(api: &Arc<Api>, steps: &[Step]) {
    std::thread::scope(|scope| {
        for part in steps.chunks(steps.len().div_ceil(4).max(1)) {
            scope.spawn(move || {
                for step in part {
                    let name = |n: &u8| format!("p{n}");
                    match step {
                        Step::Create(n, cpu) => {
                            let manifest = pod(&name(n), json!({"cpu": cpu.to_string()}), json!({}));
                            let object = Object::from_value(Kind::Pod, manifest).unwrap();
                            let _ = api.create(object, &WriteOptions::default());
                        }
                        Step::Delete(n) => {
                            let _ = api.delete(Kind::Pod, &key(&name(n)), &DeleteOptions::default());
                        }
                        Step::End(n) => {
                            let _ = api.modify_status::<Pod>(&key(&name(n)), |pod| {
                                pod.status.get_or_insert_default().phase = Some("Succeeded".into());
                                Ok(())
                            });
                        }
                        Step::Restart => {}
                    }
                    let (pods, cpu) = requested(api);
                    assert!(pods <= 5 && cpu <= 9, "{pods} pods of {cpu} cores");
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_quota_is_never_exceeded_and_a_new_controller_counts_the_same_quo_1(
        rounds in prop::collection::vec(prop::collection::vec(step(), 1..24), 1..5)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let cluster = Cluster::start(NO_NODES);
            cluster.create::<ResourceQuota>(quota(json!({"pods": "5", "requests.cpu": "9"})));
            let api = Arc::new(cluster.api.clone());
            for steps in rounds {
                run_concurrently(&api, &steps);
                if steps.iter().any(|s| matches!(s, Step::Restart)) {
                    cluster.controllers.stop_one("resourcequota").await;
                    cluster.controllers.start_one("resourcequota");
                }
                cluster.settle().await;
                let (pods, cpu) = requested(&api);
                assert_eq!(used(&api, "q"), format!("pods={pods} requests.cpu={cpu}"));
                // A new controller, started only from the store, counts the same and writes nothing.
                let before = api.revision();
                let tasks = Tasks::new();
                let settings = Settings { disabled: Controllers::names().filter(|n| *n != "resourcequota")
                    .map(Into::into).collect(), ..Settings::default() };
                let other = Controllers::start(&api, &Caches::new(&api, &tasks), &tasks, settings);
                cluster.settle().await;
                other.stop().await;
                tasks.stop().await;
                assert_eq!(api.revision(), before);
            }
            cluster.stop().await;
        });
    }
}

/// The last write of a process may be the charge alone: the next controller finds that the object does not exist.
#[tokio::test(start_paused = true)]
async fn a_charge_without_its_write_is_found_after_a_restart_quo_1() {
    let cluster = Cluster::start(&["podgc", "nodelifecycle", "resourcequota"]);
    cluster.create::<ResourceQuota>(quota(json!({"pods": "2"})));
    cluster.create::<Pod>(pod("one", json!({}), json!({})));
    cluster
        .api
        .modify_status::<ResourceQuota>(&Key::new("default", "q"), |quota| {
            let used = json!({"pods": "2"});
            quota.status.as_mut().unwrap().used = serde_json::from_value(used).unwrap();
            Ok(())
        })
        .unwrap();
    cluster.controllers.start_one("resourcequota");
    cluster.settle().await;
    assert_eq!(used(&cluster.api, "q"), "pods=1");
    cluster.stop().await;
}
