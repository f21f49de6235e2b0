//! Faults from their objects to the kernel's rules and back, under a paused clock.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use api::{Api, ApiConfig, DeleteOptions};
use base::clock::Clock;
use base::task::Tasks;
use extension::fault::{ACTIVE, Fault};
use fabric::FabricError;
use fabric::nft::Family;
use k8s_openapi::api::core::v1::{Event, Namespace};
use object::conditions;
use object::{Key, TypedKind};
use parking_lot::Mutex;
use reconcile::Caches;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde_json::{Value, json};
use store::Store;

use super::{Detours, Network, start};
use crate::rules::FaultHook;

/// Detours without any traffic.
#[derive(Default)]
struct NoopDetours {
    /// The other ends of open detours, by slot.
    open: Mutex<BTreeMap<u8, OwnedFd>>,
    /// Opening a detour fails.
    open_fails: Mutex<bool>,
}

impl Detours for NoopDetours {
    fn open(&self, slot: u8) -> Result<OwnedFd, FabricError> {
        if *self.open_fails.lock() {
            let source = std::io::ErrorKind::PermissionDenied.into();
            return Err(FabricError { step: "packet socket".to_owned(), source });
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
        let (own, other) = pair.expect("two ends");
        self.open.lock().insert(slot, other);
        Ok(own)
    }

    fn close(&self, slot: u8) -> Result<(), FabricError> {
        self.open.lock().remove(&slot);
        Ok(())
    }
}

struct FaultFixture {
    api: Api,
    tasks: Tasks,
    seam: FaultHook,
    detours: Arc<NoopDetours>,
    /// The faults that the kernel has, and those that it refuses.
    kernel: Arc<Mutex<Vec<String>>>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl FaultFixture {
    fn new() -> Self {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
        api.create_as(namespace).unwrap();
        for definition in extension::definitions() {
            let key = Key::of(&definition.metadata);
            api.create_as(definition.clone()).unwrap();
            controllers::establish_definition(&api, &key).unwrap();
        }
        Self {
            api,
            tasks: Tasks::new(),
            seam: FaultHook::default(),
            detours: Arc::default(),
            kernel: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Starts a control plane with rules that are applied at once.
    fn serve(&mut self) {
        (self.tasks, self.seam) = (Tasks::new(), FaultHook::default());
        let caches = Caches::new(&self.api, &self.tasks);
        let network = Network { rules: self.seam.clone(), detours: self.detours.clone() };
        start(&self.api, &caches, &self.tasks, Ok(network));
        let (seam, kernel, refused) = (self.seam.clone(), self.kernel.clone(), self.refused.clone());
        self.tasks.spawn("rules", async move {
            loop {
                let (turn, changes) = seam.0.take(&[Family::V4]).await;
                for (name, piece) in changes {
                    kernel.lock().retain(|known| *known != name);
                    if !piece.halves.is_empty() {
                        kernel.lock().push(name);
                    }
                }
                seam.0.record_applied(turn, |name| refused.lock().iter().any(|refused| refused == name));
            }
        });
    }

    fn create(&self, name: &str, more: &Value) {
        let mut spec = json!({"type": "Partition", "from": {"cidr": "10.1.0.0/16"}});
        json_patch::merge(&mut spec, more);
        let fault =
            serde_json::from_value::<Fault>(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        self.api.create_as(fault).unwrap();
    }

    /// Returns the state of the condition, such as `True InForce`.
    fn active(&self, name: &str) -> String {
        let fault = self.api.get_as::<Fault>(&Key::new("", name)).unwrap();
        let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
        let active = conditions::get(conditions, ACTIVE);
        active.map(|active| format!("{} {}", active.status, active.reason)).unwrap_or_default()
    }

    fn events(&self, name: &str) -> Vec<String> {
        let events = self.api.list_as::<Event>(None);
        let of = events.iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
        let mut reasons: Vec<String> = of.filter_map(|event| event.reason.clone()).collect();
        reasons.sort_unstable();
        reasons
    }
}

/// Advances the paused clock; everything that is due by then is done.
async fn advance(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_reports_that_pods_have_no_network_of_their_own_fault_1() {
    let world = FaultFixture::new();
    let caches = Caches::new(&world.api, &world.tasks);
    start(&world.api, &caches, &world.tasks, Err("pods share the machine's network".to_owned()));
    world.create("f", &json!({}));
    advance(1).await;
    assert_eq!(world.active("f"), "False NoNetworkOfTheirOwn");
    assert_eq!(world.events("f"), ["NoNetworkOfTheirOwn"]);
    world.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_ends_after_its_duration_even_across_restarts_fault_1() {
    let mut world = FaultFixture::new();
    world.serve();
    world.create("short", &json!({"duration": "30s"}));
    world.create("long", &json!({}));
    advance(20).await;
    assert_eq!(
        (world.active("short").as_str(), world.active("long").as_str()),
        ("True InForce", "True InForce")
    );
    assert_eq!(world.kernel.lock().len(), 2);
    // After a restart of the control plane, the time continues and the kernel keeps the rules until they are changed.
    world.tasks.stop().await;
    world.serve();
    advance(5).await;
    assert_eq!(world.active("short"), "True InForce");
    advance(7).await;
    assert_eq!(
        (world.active("short").as_str(), world.active("long").as_str()),
        ("False Expired", "True InForce")
    );
    assert_eq!(*world.kernel.lock(), ["long"]);
    assert_eq!(world.events("short"), ["FaultEnded", "FaultStarted"]);
    // It stays ended.
    world.tasks.stop().await;
    world.serve();
    advance(60).await;
    assert_eq!(*world.kernel.lock(), ["long"]);
    assert_eq!(world.events("long"), ["FaultStarted"]);
    world.api.delete(Fault::kind(), &Key::new("", "long"), &DeleteOptions::default()).unwrap();
    advance(1).await;
    assert!(world.kernel.lock().is_empty());
    assert_eq!(world.events("long"), ["FaultEnded", "FaultStarted"]);
    world.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rules_refused_by_the_kernel_are_reported_and_affect_no_other_fault_1() {
    let mut world = FaultFixture::new();
    world.refused.lock().push("bad".to_owned());
    world.serve();
    world.create("bad", &json!({}));
    world.create("good", &json!({}));
    advance(1).await;
    assert_eq!(
        (world.active("bad").as_str(), world.active("good").as_str()),
        ("False RulesRefused", "True InForce")
    );
    // Rules are retried without a change of the fault.
    world.refused.lock().clear();
    let generation = world.seam.0.wait_applied(0).await.unwrap().generation;
    world.seam.0.record_applied(generation, |_| false);
    advance(5).await;
    assert_eq!(world.active("bad"), "True InForce");
    world.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_has_its_detour_while_it_is_in_force_and_no_longer_net_10() {
    let mut world = FaultFixture::new();
    world.serve();
    *world.detours.open_fails.lock() = true;
    world.create("slow", &json!({"type": "Latency", "latency": {"delay": "5ms"}}));
    advance(1).await;
    assert_eq!(world.active("slow"), "False Failed");
    assert!(world.kernel.lock().is_empty(), "no packet is redirected to a detour that is not open");
    *world.detours.open_fails.lock() = false;
    advance(5).await;
    assert_eq!(world.active("slow"), "True InForce");
    assert_eq!(world.detours.open.lock().keys().collect::<Vec<_>>(), [&0]);
    world.api.delete(Fault::kind(), &Key::new("", "slow"), &DeleteOptions::default()).unwrap();
    advance(1).await;
    assert!(world.kernel.lock().is_empty() && world.detours.open.lock().is_empty());
    world.tasks.stop().await;
}
