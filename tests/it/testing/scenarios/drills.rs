//! The drills that ship with Podium: each can be passed by the right repair, and none by doing nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use podium::api::{Api, DeleteOptions, WriteOptions};
use podium::extension::fault::Fault;
use podium::extension::node_fence::{NodeFence, NodeFenceSpec};
use podium::extension::scenario::ScenarioPhase;
use podium::manifest::drills::{DRILLS, Drill};
use podium::object::{Key, Kind, Object, TypedKind};
use podium::testing::{Cluster, PodBehaviour};
use serde_json::json;

use super::{pass_seconds, status};

/// A cluster of three zones in which a drill has caused its fault.
struct DrillRun {
    cluster: Cluster,
    drill: Drill,
    /// True if the settings are as the backend needs them.
    is_repaired: Arc<AtomicBool>,
}

impl DrillRun {
    async fn started(name: &str) -> Self {
        let drill = Drill::named(name).unwrap();
        let cluster = Cluster::builder().hollow_nodes(3).start().await.unwrap();
        let mended = Arc::new(AtomicBool::new(false));
        let is_mended = mended.clone();
        // The effects that real nodes would have.
        cluster.set_pod_behaviour(move |pod: &Pod| {
            let image =
                pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).unwrap_or_default();
            let app = pod.metadata.labels.as_ref().and_then(|labels| labels.get("app").cloned());
            let annotations = pod.metadata.annotations.as_ref();
            let is_second = annotations.is_some_and(|all| all.get("settings").is_some_and(|one| one == "2"));
            match app.as_deref() {
                _ if image.ends_with(":1.91") => PodBehaviour::NeverStarts,
                Some("backend") if is_second && !is_mended.load(Ordering::SeqCst) => {
                    PodBehaviour::Fails { after: Duration::from_millis(100), exit_code: 3 }
                }
                _ => PodBehaviour::Runs,
            }
        });
        let played = Self { cluster, drill, is_repaired: mended };
        played.cluster.apply(drill.text).await.unwrap();
        played
    }

    /// Plays a drill until its fault is visible.
    async fn until_trouble(name: &str) -> Self {
        let played = Self::started(name).await;
        let mut is_afflicted = false;
        for _ in 0..180 {
            pass_seconds(&played.cluster, 1).await;
            let now = status(&played.cluster, name);
            assert!(!now.phase.has_ended(), "{name}: {:?}", now.message);
            if now.troubled_at.is_some() && !is_afflicted {
                is_afflicted = true;
                played.apply_effects().await;
            }
            let shows = now.checks.iter().filter(|check| check.kind == "Trouble").all(|check| check.settled);
            let steps = i32::try_from(super::scenario(&played.cluster, name).spec.steps.len()).unwrap();
            if now.troubled_at.is_some() && now.steps_done == steps && shows {
                return played;
            }
        }
        panic!("{name} never shows: {:#?}", status(&played.cluster, name));
    }

    /// The effects of the faults on processes, which hollow nodes do not have.
    async fn apply_effects(&self) {
        if self.drill.name == "dns-gone" {
            self.shop_is_ready(false).await;
        }
    }

    async fn shop_is_ready(&self, is_ready: bool) {
        for pod in self.pods("shop") {
            self.cluster.pod(pod.namespace(), pod.name()).set_ready(is_ready).await.unwrap();
        }
    }

    fn namespace(&self) -> String {
        format!("drill-{}", self.drill.name)
    }

    fn pods(&self, app: &str) -> Vec<podium::object::SharedObject<Pod>> {
        let mut pods = self.cluster.api().list_as::<Pod>(Some(&self.namespace()));
        pods.retain(|pod| pod.metadata.labels.as_ref().is_some_and(|labels| labels["app"] == app));
        pods
    }

    /// Returns an API handle of the player, whose writes are not the scenario's.
    fn player(&self) -> Api {
        self.cluster.api().acting_as("kubectl")
    }

    fn change<T: TypedKind>(&self, name: &str, edit: impl Fn(&mut T)) {
        let key = if T::kind().namespaced() { Key::new(self.namespace(), name) } else { Key::new("", name) };
        let edited = self.player().modify::<T>(&key, |value| {
            edit(value);
            Ok(())
        });
        edited.unwrap();
    }

    fn delete(&self, kind: Kind, name: &str) {
        let namespace = if kind.namespaced() { self.namespace() } else { String::new() };
        self.player().delete(kind, &Key::new(&namespace, name), &DeleteOptions::default()).unwrap();
    }

    async fn passes(self) {
        let name = self.drill.name;
        for _ in 0..180 {
            pass_seconds(&self.cluster, 1).await;
            let now = status(&self.cluster, name);
            if now.phase.has_ended() && now.cleaned {
                assert_eq!(now.phase, ScenarioPhase::Passed, "{name}: {:?}", now.message);
                let score = now.score.unwrap();
                assert!((60..=100).contains(&score), "{name}: {score} {:?}", now.points);
                assert!(now.detected_by.is_some(), "{name}: the trouble was detected");
                let left = self.cluster.api().get(Kind::Namespace, &Key::new("", self.namespace()));
                assert!(left.is_err(), "{name}: the drill's objects are gone");
                assert_eq!(self.cluster.api().count(Fault::kind()), 0);
                return;
            }
        }
        panic!("{name} is not passed: {:#?}", status(&self.cluster, name));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_rollout_is_undone_fault_2() {
    let played = DrillRun::until_trouble("stuck-rollout").await;
    played.change::<Deployment>("shop", |shop| {
        shop.spec.template.spec.as_mut().unwrap().containers[0].image = Some("nginx:1.25".into());
    });
    played.passes().await;
}

#[tokio::test(start_paused = true)]
async fn crashing_pods_get_their_setting_back_fault_2() {
    let played = DrillRun::until_trouble("crash-loop").await;
    played.change::<ConfigMap>("settings", |settings| {
        settings.data.get_or_insert_default().insert("DATABASE_URL".into(), "postgres://db".into());
    });
    played.is_repaired.store(true, Ordering::SeqCst);
    played.passes().await;
}

#[tokio::test(start_paused = true)]
async fn room_is_made_within_a_quota_fault_2() {
    let played = DrillRun::until_trouble("quota-exhausted").await;
    played.delete(Kind::Deployment, "load-test");
    played.passes().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_gives_its_name_back_fault_2() {
    let played = DrillRun::until_trouble("dns-gone").await;
    let service = json!({"metadata": {"name": "db", "namespace": played.namespace()},
        "spec": {"selector": {"app": "db"}, "ports": [{"port": 5432}]}});
    let service = Object::from_value(Kind::Service, service).unwrap();
    played.player().create(service, &WriteOptions::default()).unwrap();
    played.shop_is_ready(true).await;
    played.passes().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_is_drained_within_a_budget_fault_2() {
    let played = DrillRun::until_trouble("budget-deadlock").await;
    let node = status(&played.cluster, "budget-deadlock").variables["node"].clone();
    played.change::<Node>(&node, |node| node.spec.get_or_insert_default().unschedulable = Some(true));
    let on_node = || {
        let mut pods = played.pods("web");
        pods.retain(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some(node.as_str()));
        pods
    };
    let refused = played.player().evict(&on_node()[0].key(), &DeleteOptions::default()).unwrap_err();
    assert_eq!(refused.code(), 429, "the budget allows nothing: {refused}");
    played.change::<Deployment>("web", |web| web.spec.replicas = Some(3));
    for _ in 0..60 {
        pass_seconds(&played.cluster, 1).await;
        for pod in on_node() {
            // One at a time, as the budget allows.
            let _ = played.player().evict(&pod.key(), &DeleteOptions::default());
        }
    }
    played.passes().await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_certificate_is_replaced_fault_2() {
    let played = DrillRun::until_trouble("certificate-expired").await;
    let now = played.cluster.now();
    let made = |names: &str| {
        let mut params = rcgen::CertificateParams::new([names.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2025, 1, 1);
        params.not_after = rcgen::date_time_ymd(2125, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    assert!(now < "2125-01-01T00:00:00Z".parse().unwrap());
    let put = |(certificate, key): (String, String)| {
        played.change::<Secret>("shop-tls", |secret| {
            let data = secret.data.get_or_insert_default();
            data.insert("tls.crt".into(), ByteString(certificate.clone().into_bytes()));
            data.insert("tls.key".into(), ByteString(key.clone().into_bytes()));
        });
    };
    put(made("another.example"));
    pass_seconds(&played.cluster, 5).await;
    let checks = status(&played.cluster, "certificate-expired").checks;
    assert!(checks.iter().any(|check| check.name == "certificate-holds" && !check.holds), "it is another's");
    put(made("shop.drill.example"));
    played.passes().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_node_is_fenced_and_its_set_goes_on_fault_2_safe_5() {
    let played = DrillRun::until_trouble("node-lost").await;
    let node = status(&played.cluster, "node-lost").variables["node"].clone();
    let before = played.pods("db")[0].uid().to_owned();
    // Waiting has no effect.
    pass_seconds(&played.cluster, 60).await;
    assert_eq!(played.pods("db")[0].uid(), before);
    let fence = Object::new(NodeFence::new(&node, NodeFenceSpec::default()));
    played.player().create(fence, &WriteOptions::default()).unwrap();
    played.passes().await;
}

/// Removes the node selector of a zone from a template.
fn remove_node_selector(deployment: &mut Deployment) {
    deployment.spec.template.spec.as_mut().unwrap().node_selector = None;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_lost_zone_move_to_other_zones_fault_2() {
    let played = DrillRun::until_trouble("zone-lost").await;
    played.change::<Deployment>("shop", remove_node_selector);
    played.passes().await;
}

#[tokio::test(start_paused = true)]
async fn pods_on_nodes_with_full_disks_move_to_other_nodes_fault_2() {
    let played = DrillRun::until_trouble("disk-full").await;
    played.change::<Deployment>("notes", remove_node_selector);
    played.passes().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stands_still_is_let_go_on_fault_2() {
    let played = DrillRun::until_trouble("leader-paused").await;
    played.delete(Fault::kind(), "leader-paused-leader");
    played.passes().await;
}

/// A player who does nothing fails, and gets the explanation; the drill's objects are removed all the same.
#[tokio::test(start_paused = true)]
async fn no_drill_is_passed_by_doing_nothing_fault_2() {
    for drill in DRILLS {
        let name = drill.name;
        let played = DrillRun::until_trouble(name).await;
        let limit = super::scenario(&played.cluster, name).spec.time_limit();
        played.cluster.advance(limit).await.unwrap();
        pass_seconds(&played.cluster, 60).await;
        let now = status(&played.cluster, name);
        assert_eq!(
            (now.phase, now.reason.as_deref()),
            (ScenarioPhase::Failed, Some("TimeOver")),
            "{name}: {:?}",
            now.message
        );
        assert_eq!((now.score, now.cleaned), (Some(0), true), "{name}");
        assert!(now.message.unwrap().starts_with("the time limit of "), "{name}");
    }
}
