//! Updates of the kernel's rules with many services and policies (NET-6, NET-8): the time from a change of an object to
//! the kernel's acknowledgment, in a fabric of this process, with an API that has no other clients.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fabric::conntrack::Conntrack;
use fabric::nft::{Family, Nft};
use fabric::preflight::PreflightFabric;
use fabric::{SocketKind, SocketSpec, has_ipv6, open_sockets};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use api::{Api, ApiConfig, DeleteOptions, WriteOptions};
use base::clock::Clock;
use base::task::Tasks;
use network::rules::{self, EgressMode, FaultHook, RulesConfig};
use object::config::Limits;
use object::{Key, Kind, Object, TypedKind};
use reconcile::Caches;
use store::Store;

use super::instance::resident_mib;

/// Number of services, and of endpoints for each.
pub(super) const SERVICES: u32 = 1000;
pub(super) const ENDPOINTS: u32 = 50;
/// Number of services that are created and deleted at once.
pub(super) const AT_ONCE: u32 = 500;
/// Number of policies, each of which selects every pod, and of pods.
pub(super) const POLICIES: u32 = 1000;
pub(super) const PODS: u32 = 5000;
/// Number of changes of each kind; the median is reported.
const CHANGES: u32 = 25;
const STEP_TIMEOUT: Duration = Duration::from_mins(5);

/// Measurements, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Rules {
    /// All services, as at the start of a control plane.
    pub(super) services: f64,
    /// One changed slice.
    pub(super) service: f64,
    /// Creation of many services: from the first write until the last service is in force.
    pub(super) made: f64,
    /// Deletion of many services: from the first deletion until the rules have none of them.
    pub(super) deleted: f64,
    /// All policies of all pods, as at the start of a control plane.
    pub(super) policies: f64,
    /// One additional pod, with its status.
    pub(super) pod: f64,
    /// One changed policy.
    pub(super) policy: f64,
    /// Resident memory of this process for the policies and pods, including the API's objects, in MiB.
    pub(super) mebibytes: f64,
}

/// Measures the rules; the process must have one thread.
pub(super) fn measure() -> Result<Rules> {
    let trial = PreflightFabric::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let mut found = Rules::default();
        of_services(&mut found).await?;
        of_policies(&mut found).await?;
        anyhow::Ok(found)
    });
    drop(trial);
    found
}

/// An API, and the rules that follow it.
struct RulesFixture {
    api: Api,
    tasks: Tasks,
    in_force: watch::Receiver<u64>,
}

impl RulesFixture {
    fn new() -> Result<Self> {
        let limits = Limits { active_pods: Some(0), ..Limits::default() };
        let config = ApiConfig { service_range: "10.96.0.0/16".parse()?, limits, ..ApiConfig::default() };
        let api = Api::new(Store::ephemeral(), Clock::machine(), config);
        let followed = Self { api, tasks: Tasks::new(), in_force: watch::Sender::default().subscribe() };
        followed.create::<Namespace>(json!({"metadata": {"name": "default"}}))?;
        Ok(followed)
    }

    /// Starts the writer of the rules. Returns the milliseconds until the rules for all existing objects are in force.
    async fn follow(&mut self) -> Result<f64> {
        let (nft, conntrack) = (nft()?, Conntrack::new(socket()?));
        let sender = watch::Sender::default();
        self.in_force = sender.subscribe();
        let config = RulesConfig {
            nft,
            conntrack,
            families: families(),
            services: vec!["10.96.0.0/16".parse()?],
            inside: Vec::new(),
            egress_mode: Some(EgressMode::ConnectFirst),
            dns: Vec::new(),
            faults: FaultHook::unused(),
            in_force: sender,
        };
        let started = Instant::now();
        drop(rules::start(&self.api, &Caches::new(&self.api, &self.tasks), &self.tasks, config));
        let first = self.in_force.wait_for(|times| *times > 0);
        tokio::time::timeout(STEP_TIMEOUT, first).await.context("timed out waiting for the rules")??;
        Ok(milliseconds(started))
    }

    fn create<T: TypedKind>(&self, manifest: Value) -> Result<()> {
        let object = Object::from_value(T::kind(), manifest)?;
        self.api.create(object, &WriteOptions::default())?;
        Ok(())
    }

    /// The median of the milliseconds from a change until it is in force.
    async fn median(&mut self, change: impl Fn(&Self, u32) -> Result<()>) -> Result<f64> {
        let mut taken = Vec::new();
        for number in 0..CHANGES {
            self.in_force.mark_unchanged();
            let started = Instant::now();
            change(self, number)?;
            tokio::time::timeout(STEP_TIMEOUT, self.in_force.changed())
                .await
                .context("timed out waiting for a change of the rules")??;
            taken.push(started.elapsed());
        }
        Ok(super::report::percentile_micros(&mut taken, 0.5) / 1000.0)
    }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

fn socket() -> Result<std::os::fd::OwnedFd> {
    let mut sockets = open_sockets(&SocketSpec::new(SocketKind::Netfilter), 1)?;
    sockets.pop().context("a socket")
}

fn nft() -> Result<Nft> {
    Ok(Nft::new(socket()?)?)
}

fn families() -> Vec<Family> {
    if has_ipv6() { vec![Family::V4, Family::V6] } else { vec![Family::V4] }
}

async fn of_services(found: &mut Rules) -> Result<()> {
    let mut followed = RulesFixture::new()?;
    for number in 0..SERVICES {
        service(&followed, number)?;
    }
    found.services = followed.follow().await?;
    found.service = followed
        .median(|followed, number| {
            let key = Key::new("default", format!("s{}", number * (SERVICES / CHANGES)));
            followed.api.modify::<EndpointSlice>(&key, |slice| {
                slice.endpoints.as_mut().and_then(Vec::pop);
                Ok(())
            })?;
            Ok(())
        })
        .await?;
    let started = Instant::now();
    for number in SERVICES..SERVICES + AT_ONCE {
        service(&followed, number)?;
    }
    until_elements("services", SERVICES + AT_ONCE).await?;
    found.made = milliseconds(started);
    let started = Instant::now();
    for number in SERVICES..SERVICES + AT_ONCE {
        let key = Key::new("default", format!("s{number}"));
        followed.api.delete(Kind::Service, &key, &DeleteOptions::default())?;
        followed.api.delete(Kind::EndpointSlice, &key, &DeleteOptions::default())?;
    }
    until_elements("services", SERVICES).await?;
    found.deleted = milliseconds(started);
    followed.tasks.stop().await;
    Ok(())
}

/// Creates a service with its endpoints.
fn service(followed: &RulesFixture, number: u32) -> Result<()> {
    let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 96, 4, 0)) + number);
    let name = format!("s{number}");
    let metadata = json!({"name": name, "namespace": "default"});
    followed.create::<Service>(
        json!({"metadata": metadata, "spec": {"clusterIP": ip, "ports": [{"port": 80}]}}),
    )?;
    let address = |other: u32| Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 244, 0, 10)) + number + other);
    let endpoints: Vec<Value> = (0..ENDPOINTS).map(|other| json!({"addresses": [address(other)]})).collect();
    followed.create::<EndpointSlice>(json!({
        "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 80, "protocol": "TCP"}], "endpoints": endpoints}))
}

/// Waits until a map of the rules in force has this many elements.
async fn until_elements(map: &str, count: u32) -> Result<()> {
    let (nft, started) = (nft()?, Instant::now());
    loop {
        let mut has = None;
        for table in nft.tables(Family::V4)? {
            has = nft.sets(&table)?.into_iter().find(|set| set.name == map).and_then(|set| set.elements);
        }
        if has.context("the kernel does not report the number of elements of a set")? == count {
            return Ok(());
        }
        anyhow::ensure!(started.elapsed() < STEP_TIMEOUT, "timed out waiting for the rules");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn of_policies(found: &mut Rules) -> Result<()> {
    let before = resident_mib(std::process::id())?;
    let mut followed = RulesFixture::new()?;
    for number in 0..PODS {
        pod(&followed, number)?;
    }
    for number in 0..POLICIES {
        followed.create::<NetworkPolicy>(policy(number, 1000 + number))?;
    }
    found.policies = followed.follow().await?;
    found.mebibytes = resident_mib(std::process::id())? - before;
    found.pod = followed.median(|followed, number| pod(followed, PODS + number)).await?;
    found.policy = followed
        .median(|followed, number| {
            let Value::Object(mut changed) = policy(number, 9000) else { return Ok(()) };
            let spec = changed.remove("spec").unwrap_or_default();
            let key = Key::new("default", format!("p{number}"));
            followed.api.modify::<NetworkPolicy>(&key, |policy| {
                policy.spec = serde_json::from_value(spec.clone()).ok();
                Ok(())
            })?;
            Ok(())
        })
        .await?;
    followed.tasks.stop().await;
    Ok(())
}

/// Creates a pod with unique labels, as a StatefulSet does, and writes its first status immediately, so that the rules
/// see one change.
fn pod(followed: &RulesFixture, number: u32) -> Result<()> {
    let name = format!("p{number}");
    let labels = json!({"app": format!("a{}", number % 500), "statefulset.kubernetes.io/pod-name": name});
    let v4 = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 244, 1, 0)) + number);
    let v6 =
        Ipv6Addr::from(u128::from(Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, 0, 0)) + u128::from(number));
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "web"}]}}))?;
    followed
        .api
        .create(Object::from_value(Kind::Pod, serde_json::to_value(&pod)?)?, &WriteOptions::default())?;
    let status = json!({"phase": "Running", "podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}]});
    pod.status = serde_json::from_value(status)?;
    followed.api.modify_status::<Pod>(&Key::new("default", name), |current| {
        current.status.clone_from(&pod.status);
        Ok(())
    })?;
    Ok(())
}

/// Returns a policy that selects every pod of the namespace: pods of one app may connect to a port of the selected
/// pods, and these may connect to that app's pods. Some policies have an IP block or several ports.
fn policy(number: u32, port: u32) -> Value {
    let app = json!({"podSelector": {"matchLabels": {"app": format!("a{}", number % 500)}}});
    let peer = match number % 10 {
        0 => json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": [format!("10.{}.0.0/16", number % 250)]}}),
        _ => app,
    };
    let ports = match number % 7 {
        0 => json!([{"port": port, "endPort": port + 5}, {"port": 53, "protocol": "UDP"}]),
        _ => json!([{"port": port}]),
    };
    json!({"metadata": {"name": format!("p{number}"), "namespace": "default"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [peer], "ports": ports}], "egress": [{"to": [peer], "ports": ports}]}})
}
