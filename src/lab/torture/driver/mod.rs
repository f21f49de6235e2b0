//! Executes the plan's faults on the cluster, and undoes each at its time.

mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base::clock::if_some;
use base::count::counted;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use objects::SavedSnapshot;

use super::clients::Clients;
use super::directory::TortureDir;
use super::final_checks::Traces;
use super::findings::Findings;
use super::instance::{self, Instance, with_timeout};
use super::plan::{Fault, Set};
use super::processes::{Process, Processes};
use super::workload::{self, DEPLOYMENT};

/// An action that undoes a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Undo {
    Start,
    Thaw(Process),
    Heal(String),
    /// Takes a node back; contains the processes that ran on the node before it was fenced.
    Unfence(String, BTreeSet<Process>),
    Forget(SavedSnapshot),
    Uncordon(String),
}

/// The tortured cluster.
pub(super) struct Driver {
    pub(super) dir: TortureDir,
    pub(super) processes: Processes,
    pub(super) findings: Findings,
    pub(super) sets: Vec<Set>,
    pub(super) counts: BTreeMap<&'static str, usize>,
    pub(super) starts: usize,
    instance: Option<Instance>,
    client: watch::Sender<Option<Client>>,
    undos: Vec<(Instant, Undo)>,
    number: usize,
}

/// The name of the node with this index.
fn node_name(node: usize) -> String {
    format!("node-{}", node + 1)
}

/// Waits for a future, and meanwhile thaws frozen processes when they are due, because the future may depend on them.
async fn while_thawing<T>(undos: &mut Vec<(Instant, Undo)>, wait: impl Future<Output = T>) -> Result<T> {
    let mut wait = std::pin::pin!(wait);
    loop {
        let next = undos.iter().filter(|(_, undo)| matches!(undo, Undo::Thaw(_))).map(|(at, _)| *at).min();
        tokio::select! {
            done = &mut wait => return Ok(done),
            () = if_some(next.map(tokio::time::sleep_until)) => thaw(undos, Instant::now())?,
        }
    }
}

/// Thaws the processes that are due.
fn thaw(undos: &mut Vec<(Instant, Undo)>, now: Instant) -> Result<()> {
    for (at, undo) in std::mem::take(undos) {
        match undo {
            Undo::Thaw(process) if at <= now => {
                process.signal(Signal::CONT)?;
            }
            _ => undos.push((at, undo)),
        }
    }
    Ok(())
}

impl Driver {
    pub(super) fn new(place: TortureDir, findings: Findings, sets: Vec<Set>) -> Self {
        Self {
            processes: place.processes(),
            dir: place,
            findings,
            sets,
            counts: BTreeMap::new(),
            starts: 0,
            instance: None,
            client: watch::Sender::new(None),
            undos: Vec::new(),
            number: 0,
        }
    }

    /// The channel from which clients get their connection: `None` while there is no control plane.
    pub(super) fn clients(&self) -> watch::Receiver<Option<Client>> {
        self.client.subscribe()
    }

    pub(super) fn client(&self) -> Result<Client> {
        self.client.borrow().clone().context("the control plane is not running")
    }

    /// Starts a control plane, and checks that its state contains all writes that were acknowledged before.
    pub(super) async fn start(&mut self, clients: Option<&Clients>) -> Result<()> {
        self.undos.retain(|(_, undo)| *undo != Undo::Start);
        if self.instance.is_some() {
            return Ok(());
        }
        self.starts += 1;
        let started = Instant::now();
        let instance = self.instance.insert(Instance::spawn(&self.dir)?);
        if let Err(error) = while_thawing(&mut self.undos, instance.ready()).await? {
            bail!("start {}: {error:#}", self.starts);
        }
        let client = instance::client(&self.dir.data()).await?;
        self.findings.record(&format!("  ready after {:.1} s", started.elapsed().as_secs_f64()));
        self.client.send_replace(Some(client.clone()));
        if let Some(clients) = clients
            && let Err(error) = clients.check(client).await
        {
            self.findings.record(&format!("  cannot check the acknowledged writes: {error:#}"));
        }
        Ok(())
    }

    pub(super) async fn make_workload(&self) -> Result<()> {
        let client = self.client()?;
        for set in &self.sets {
            create::<StatefulSet>(&client, workload::stateful_set(set, &self.dir)?).await?;
        }
        create::<Deployment>(&client, workload::deployment()).await
    }

    /// Reports a violation if a process of the instance has ended by itself.
    pub(super) fn check_instance(&mut self) -> Result<()> {
        if let Some(instance) = &mut self.instance
            && let Some(status) = instance.ended()?
        {
            self.instance = None;
            self.client.send_replace(None);
            self.findings.violation("SAFE-2", &format!("the control plane exited by itself with {status}"));
            self.later(Duration::ZERO, Undo::Start);
        }
        Ok(())
    }

    fn later(&mut self, after: Duration, undo: Undo) {
        self.undos.push((Instant::now() + after, undo));
    }

    /// The time of the next undo.
    pub(super) fn next_undo(&self) -> Option<Instant> {
        self.undos.iter().map(|(at, _)| *at).min()
    }

    /// Undoes the faults that are due, or all of them.
    pub(super) async fn heal_due(&mut self, clients: &Clients, all: bool) -> Result<()> {
        let now = Instant::now();
        if all {
            for (at, _) in &mut self.undos {
                *at = (*at).min(now);
            }
        }
        thaw(&mut self.undos, now)?;
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.undos).into_iter().partition(|(at, _)| *at <= now);
        self.undos = rest;
        for (_, mut undo) in due {
            let done = match &mut undo {
                Undo::Start => return self.start(Some(clients)).await,
                Undo::Thaw(process) => process.signal(Signal::CONT).map(drop),
                Undo::Heal(name) => self.heal(name).await,
                Undo::Unfence(node, processes) => self.unfence(node, processes).await,
                Undo::Forget(saved) => self.forget(saved, clients).await,
                Undo::Uncordon(node) => self.cordon(node, false).await,
            };
            if let Err(error) = done {
                // The API does not respond now. The undo is retried a little later, without limit.
                tracing::debug!("{undo:?}: {error:#}");
                self.later(Duration::from_millis(500), undo);
            }
        }
        Ok(())
    }

    /// Returns true if a fault is still to be undone.
    pub(super) fn is_broken(&self) -> bool {
        !self.undos.is_empty() || self.instance.is_none()
    }

    /// Describes the faults that are still to be undone.
    pub(super) fn broken(&self) -> String {
        format!("{:?}", self.undos.iter().map(|(_, undo)| undo).collect::<Vec<_>>())
    }

    /// Returns true if there is a control plane that is not frozen.
    fn is_responsive(&self) -> bool {
        let frozen = |process| self.undos.iter().any(|(_, undo)| *undo == Undo::Thaw(process));
        self.instance.as_ref().is_some_and(|instance| !frozen(instance.process()))
    }

    /// Causes one fault, and prints and counts it; a fault that is currently impossible is skipped.
    pub(super) async fn inflict(&mut self, fault: Fault, clients: &Clients) -> Result<()> {
        match self.try_fault(fault, clients).await {
            Ok(Some(what)) => {
                *self.counts.entry(fault.kind()).or_default() += 1;
                self.findings.record(&format!("{}{what}", fault.kind()));
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                // Requests may fail while faults last.
                self.findings.record(&format!("{}: failed: {error:#}", fault.kind()));
                Ok(())
            }
        }
    }

    /// Causes a fault and describes it; the description continues the name of the fault's kind. `None` if there is no
    /// target for it.
    async fn try_fault(&mut self, fault: Fault, clients: &Clients) -> Result<Option<String>> {
        let detail = match fault {
            Fault::KillControlPlane { down } => {
                let Some(detail) = self.kill_control_plane(down).await? else { return Ok(None) };
                detail
            }
            Fault::KillStarting { after } => {
                if self.kill_control_plane(Duration::ZERO).await?.is_none() {
                    return Ok(None);
                }
                self.starts += 1;
                let instance = Instance::spawn(&self.dir)?;
                tokio::time::sleep(after).await;
                instance.kill().await?;
                format!(", {} ms after its start", after.as_millis())
            }
            Fault::Restart => {
                let Some(instance) = self.instance.take() else { return Ok(None) };
                self.client.send_replace(None);
                // A stopped process must be continued (SIGCONT) first, or it cannot end.
                instance.process().signal(Signal::CONT)?;
                let (started, traces) = (Instant::now(), Traces::of(&self.dir));
                if let Err(error) = while_thawing(&mut self.undos, instance.stop()).await? {
                    self.findings.violation("SAFE-7", &format!("a restart: {error:#}"));
                }
                traces.check_nothing_remains(&self.dir, &self.findings).await?;
                self.later(Duration::ZERO, Undo::Start);
                format!(", stopped after {:.1} s", started.elapsed().as_secs_f64())
            }
            Fault::FreezeControlPlane { lasts } => {
                let Some(process) = self.instance.as_ref().map(Instance::process) else { return Ok(None) };
                self.freeze(process, lasts)?
            }
            Fault::KillNetwork => {
                let found = self.processes.network();
                if found.is_empty() {
                    return Ok(None);
                }
                kill(&found)?
            }
            Fault::KillHost { node } => {
                let Some(process) = self.processes.host(&node_name(node)) else { return Ok(None) };
                format!(" of {}{}", node_name(node), kill(&[process])?)
            }
            Fault::FreezeHost { node, lasts } => {
                let Some(process) = self.processes.host(&node_name(node)) else { return Ok(None) };
                format!(" of {}{}", node_name(node), self.freeze(process, lasts)?)
            }
            Fault::KillBoth { node, down } => {
                let host = self.processes.host(&node_name(node));
                let Some(detail) = self.kill_control_plane(down).await? else { return Ok(None) };
                let host = host.map(|host| kill(&[host])).transpose()?.unwrap_or_default();
                format!("{detail}, {}{host}", node_name(node))
            }
            Fault::KillAll { down } => {
                let mut found = self.processes.hosts();
                found.extend(self.processes.network());
                let Some(detail) = self.kill_control_plane(down).await? else { return Ok(None) };
                format!("{detail}{}", kill(&found)?)
            }
            Fault::KillContainer { which } => {
                let found = self.processes.holders();
                let Some(process) = found.get(which % found.len().max(1)) else { return Ok(None) };
                kill(&[*process])?
            }
            _ if !self.is_responsive() => return Ok(None),
            Fault::Network { of, from, to, lasts } => self.network(of, from, to, lasts).await?,
            Fault::Node { of, node, lasts } => self.node(of, &node_name(node), lasts).await?,
            Fault::Fence { node, lasts } => {
                let Some(detail) = self.fence(&node_name(node), lasts).await? else { return Ok(None) };
                detail
            }
            Fault::Snapshot { claims, retention } => self.snapshot(claims, retention, clients).await?,
            Fault::Scale { which, replicas } => self.scale(which, replicas).await?,
            Fault::Rollout { which } => self.rollout(which).await?,
            Fault::DeletePod { which } => {
                let pods: Api<Pod> = Api::default_namespaced(self.client()?);
                let found = with_timeout(pods.list(&ListParams::default())).await?.items;
                let Some(pod) = found.get(which % found.len().max(1)) else { return Ok(None) };
                with_timeout(pods.delete(&pod.name_any(), &DeleteParams::default())).await?;
                format!(" {}", pod.name_any())
            }
            Fault::Drain { node, lasts } => self.drain(&node_name(node), lasts).await?,
            Fault::Job => {
                self.number += 1;
                create::<Job>(&self.client()?, workload::job(self.number)).await?;
                format!(" job-{}", self.number)
            }
        };
        Ok(Some(detail))
    }

    /// Kills, with SIGKILL, every container that holds an identity.
    pub(super) fn kill_every_holder(&self) -> Result<()> {
        kill(&self.processes.holders()).map(drop)
    }

    async fn kill_control_plane(&mut self, down: Duration) -> Result<Option<String>> {
        let Some(instance) = self.instance.take() else { return Ok(None) };
        self.client.send_replace(None);
        let pid = instance.process().pid;
        instance.kill().await?;
        self.later(down, Undo::Start);
        Ok(Some(format!(" (pid {pid}), another in {} ms", down.as_millis())))
    }

    fn freeze(&mut self, process: Process, lasts: Duration) -> Result<String> {
        process.signal(Signal::STOP)?;
        self.later(lasts, Undo::Thaw(process));
        Ok(format!(" (pid {}) for {} ms", process.pid, lasts.as_millis()))
    }

    /// The name of the StatefulSet to change, or `None` for the Deployment.
    fn chosen(&self, which: usize) -> Option<&str> {
        self.sets.get(which % (self.sets.len() + 1)).map(|set| set.name.as_str())
    }

    async fn change(&self, set: Option<&str>, change: Value) -> Result<()> {
        let (client, params) = (self.client()?, PatchParams::default());
        let change = Patch::Strategic(change);
        if let Some(name) = set {
            let api: Api<StatefulSet> = Api::default_namespaced(client);
            return with_timeout(api.patch(name, &params, &change)).await.map(drop);
        }
        let api: Api<Deployment> = Api::default_namespaced(client);
        with_timeout(api.patch(DEPLOYMENT, &params, &change)).await.map(drop)
    }

    async fn scale(&self, which: usize, replicas: u8) -> Result<String> {
        let set = self.chosen(which);
        self.change(set, json!({"spec": {"replicas": replicas}})).await?;
        Ok(format!(" {} to {replicas}", set.unwrap_or(DEPLOYMENT)))
    }

    async fn rollout(&mut self, which: usize) -> Result<String> {
        self.number += 1;
        let annotations = json!({"torture": self.number.to_string()});
        let set = self.chosen(which);
        self.change(set, json!({"spec": {"template": {"metadata": {"annotations": annotations}}}})).await?;
        Ok(format!(" of {}", set.unwrap_or(DEPLOYMENT)))
    }

    async fn cordon(&self, node: &str, closed: bool) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client()?);
        let change = Patch::Merge(json!({"spec": {"unschedulable": closed}}));
        with_timeout(nodes.patch(node, &PatchParams::default(), &change)).await.map(drop)
    }

    async fn drain(&mut self, node: &str, lasts: Duration) -> Result<String> {
        self.later(lasts, Undo::Uncordon(node.to_owned()));
        self.cordon(node, true).await?;
        let pods: Api<Pod> = Api::default_namespaced(self.client()?);
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let found = with_timeout(pods.list(&on_node)).await?.items;
        for pod in &found {
            with_timeout(pods.evict(&pod.name_any(), &kube::api::EvictParams::default())).await?;
        }
        Ok(format!(" {node} of {} for {} ms", counted(found.len(), "pod"), lasts.as_millis()))
    }

    /// Stops the control plane by SIGTERM; an error if it does not end in time, or ends with a failure.
    pub(super) async fn stop(&mut self) -> Result<()> {
        self.client.send_replace(None);
        match self.instance.take() {
            Some(instance) => instance.stop().await,
            None => Ok(()),
        }
    }

    /// Kills all processes of the instance regardless of their state, when the torture cannot continue.
    pub(super) async fn abandon(&mut self) {
        if let Err(error) = thaw(&mut self.undos, Instant::now() + Duration::from_hours(1)) {
            self.findings.record(&format!("{error:#}"));
        }
        if let Err(error) = self.stop().await {
            self.findings.record(&format!("{error:#}"));
        }
        for process in self.processes.all() {
            if let Err(error) = process.signal(Signal::KILL) {
                self.findings.record(&format!("pid {}: {error:#}", process.pid));
            }
        }
    }
}

/// Kills processes with SIGKILL.
fn kill(processes: &[Process]) -> Result<String> {
    let mut pids = Vec::new();
    for process in processes {
        process.signal(Signal::KILL)?;
        pids.push(process.pid.to_string());
    }
    Ok(format!(" (pid {})", pids.join(", ")))
}

fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404)
}

async fn create<K>(client: &Client, object: Value) -> Result<()>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::default_namespaced(client.clone());
    with_timeout(api.create(&PostParams::default(), &serde_json::from_value(object)?)).await.map(drop)
}
