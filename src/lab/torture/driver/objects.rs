//! Faults that the torture causes by Podium's own objects (Fault, NodeFence, ClusterSnapshot), and their undo.
//!
//! The undo is recorded before the request is sent: a request without a response may still be executed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base::count::counted;
use extension::cluster_snapshot::{ClusterSnapshot, ClusterSnapshotSpec, READY};
use extension::fault::Fault as FaultObject;
use extension::node_fence::{FencePhase, NodeFence, NodeFenceSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, Resource};
use object::conditions;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Driver, Undo, is_not_found, node_name, with_timeout};
use crate::torture::clients::{Clients, Promise, ReportedState};
use crate::torture::plan::{NODES, NetworkFault, NodeFault};
use crate::torture::processes::Process;
use cluster::snapshots::Files;

/// A requested snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedSnapshot {
    name: String,
    /// The writes that the snapshot must contain.
    promise: Arc<Promise>,
    /// True if the snapshot's creation was acknowledged, and its deletion not yet requested.
    must_exist: bool,
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

impl Driver {
    pub(super) async fn network(
        &mut self,
        of: NetworkFault,
        from: usize,
        to: usize,
        lasts: Duration,
    ) -> Result<String> {
        let (from, to) = (node_name(from), node_name(to));
        let mut spec = json!({"from": {"node": from}, "to": {"node": to}});
        match of {
            NetworkFault::Partition => spec["type"] = json!("Partition"),
            NetworkFault::Latency => {
                spec["type"] = json!("Latency");
                spec["latency"] = json!({"delay": "200ms", "jitter": "100ms"});
            }
            NetworkFault::Loss => {
                spec["type"] = json!("Loss");
                spec["loss"] = json!({"perMille": 300});
            }
        }
        self.fault(spec, lasts).await?;
        Ok(format!(" between {from} and {to} for {} ms", lasts.as_millis()))
    }

    pub(super) async fn node(&mut self, of: NodeFault, node: &str, lasts: Duration) -> Result<String> {
        let (type_, target) = match of {
            NodeFault::Pause => ("Pause", json!({"component": "kubelet", "node": node})),
            NodeFault::Crash => ("Crash", json!({"component": "kubelet", "node": node})),
            NodeFault::PowerOff => ("PowerOff", json!({"node": node})),
        };
        self.fault(json!({"type": type_, "target": target}), lasts).await?;
        Ok(format!(" of {node} for {} ms", lasts.as_millis()))
    }

    /// Crashes the kubelets of all nodes at once.
    pub(in crate::torture) async fn crash_every_kubelet(&mut self, lasts: Duration) -> Result<()> {
        for node in 0..NODES {
            self.node(NodeFault::Crash, &node_name(node), lasts).await?;
        }
        Ok(())
    }

    async fn fault(&mut self, spec: Value, lasts: Duration) -> Result<()> {
        self.number += 1;
        let name = format!("fault-{}", self.number);
        let fault = FaultObject { metadata: named(&name), spec: serde_json::from_value(spec)?, status: None };
        self.later(lasts, Undo::Heal(name));
        let faults = Api::<FaultObject>::all(self.client()?);
        with_timeout(faults.create(&PostParams::default(), &fault)).await.map(drop)
    }

    pub(super) async fn heal(&self, name: &str) -> Result<()> {
        self.remove::<FaultObject>(name).await
    }

    async fn remove<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let all = Api::<K>::all(self.client()?);
        match with_timeout(all.delete(name, &DeleteParams::default())).await {
            Err(error) if is_not_found(&error) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Fences a node. Returns `None` if it is fenced already.
    pub(super) async fn fence(&mut self, node: &str, lasts: Duration) -> Result<Option<String>> {
        if self.undos.iter().any(|(_, undo)| matches!(undo, Undo::Unfence(other, _) if other == node)) {
            return Ok(None);
        }
        let processes = self.processes.of_node(node);
        let counted = counted(processes.len(), "process");
        let detail = format!(" of {node} with {counted} for {} ms", lasts.as_millis());
        self.later(lasts, Undo::Unfence(node.to_owned(), processes));
        let spec = NodeFenceSpec { reason: Some("torture test".to_owned()) };
        let fence = NodeFence { metadata: named(node), spec, status: None };
        let fences = Api::<NodeFence>::all(self.client()?);
        with_timeout(fences.create(&PostParams::default(), &fence)).await?;
        Ok(Some(detail))
    }

    /// Checks that the processes of a fenced node are dead (SAFE-5), and takes the node back.
    pub(super) async fn unfence(&self, node: &str, processes: &BTreeSet<Process>) -> Result<()> {
        let fence = with_timeout(Api::<NodeFence>::all(self.client()?).get_opt(node)).await?;
        if fence.is_some_and(|fence| fence.phase() == FencePhase::Fenced) {
            for process in processes.iter().filter(|process| process.is_alive()) {
                let message =
                    format!("{node} is reported as fenced, but its process {} is alive", process.pid);
                self.findings.violation("SAFE-5", &message);
            }
            self.findings.checked(processes.len());
        }
        self.remove::<NodeFence>(node).await
    }

    pub(super) async fn snapshot(
        &mut self,
        claims: bool,
        retention: Duration,
        clients: &Clients,
    ) -> Result<String> {
        self.number += 1;
        let name = format!("snapshot-{}", self.number);
        let promise = Arc::new(clients.promise());
        self.later(retention, Undo::Forget(SavedSnapshot { name: name.clone(), promise, must_exist: false }));
        let spec = ClusterSnapshotSpec { claims: claims.then_some(true), ..ClusterSnapshotSpec::default() };
        let snapshot = ClusterSnapshot { metadata: named(&name), spec, status: None };
        let snapshots = Api::<ClusterSnapshot>::all(self.client()?);
        with_timeout(snapshots.create(&PostParams::default(), &snapshot)).await?;
        for (_, undo) in &mut self.undos {
            if let Undo::Forget(saved) = undo
                && saved.name == name
            {
                saved.must_exist = true;
            }
        }
        Ok(format!(" {name}{} for {} ms", if claims { " with claims" } else { "" }, retention.as_millis()))
    }

    /// Checks that a snapshot contains the writes that it must contain (SAFE-8), and deletes it.
    pub(super) async fn forget(&self, saved: &mut SavedSnapshot, clients: &Clients) -> Result<()> {
        let snapshots = Api::<ClusterSnapshot>::all(self.client()?);
        let Some(snapshot) = with_timeout(snapshots.get_opt(&saved.name)).await? else {
            if saved.must_exist {
                let message = format!("{} was acknowledged and is missing", saved.name);
                self.findings.violation("SAFE-2", &message);
            }
            return Ok(());
        };
        if snapshot.metadata.deletion_timestamp.is_none() {
            let status = snapshot.status.unwrap_or_default();
            let ready = conditions::get(status.conditions.as_ref(), READY);
            if ready.is_none_or(|ready| ready.status != "True") {
                bail!("{} is not ready: {:?}", saved.name, ready.map(|ready| &ready.message));
            }
            let (files, name) = (Files::of(&self.dir.data()), saved.name.clone());
            match tokio::task::spawn_blocking(move || files.read(&name)).await? {
                Ok(archive) => {
                    let maps = archive.objects.iter().filter_map(|object| object.get::<ConfigMap>());
                    let there: BTreeMap<_, _> = maps.filter_map(ReportedState::is_of_clients).collect();
                    let reported = ReportedState {
                        rule: "SAFE-8",
                        of: &saved.name,
                        at: archive.revision.0,
                        objects: there,
                    };
                    clients.compare(&saved.promise, &reported);
                    let (objects, revision) = (archive.objects.len(), archive.revision.0);
                    if status.objects != i64::try_from(objects).ok()
                        || status.revision != i64::try_from(revision).ok()
                    {
                        let message = format!(
                            "{} reports {:?} objects at revision {:?}; its file has {objects} at {revision}",
                            saved.name, status.objects, status.revision
                        );
                        self.findings.violation("SAFE-8", &message);
                    }
                }
                Err(error) => {
                    self.findings
                        .violation("SAFE-8", &format!("{} is reported as ready: {error}", saved.name));
                }
            }
        }
        saved.must_exist = false;
        self.remove::<ClusterSnapshot>(&saved.name).await.context("cannot delete it")
    }

    /// Deletes all Faults, NodeFences and ClusterSnapshots, since a request that timed out may have created one later.
    pub(in crate::torture) async fn take_all_back(&self) -> Result<()> {
        self.remove_all::<FaultObject>().await?;
        self.remove_all::<NodeFence>().await?;
        self.remove_all::<ClusterSnapshot>().await
    }

    async fn remove_all<K>(&self) -> Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let all = Api::<K>::all(self.client()?);
        with_timeout(all.delete_collection(&DeleteParams::default(), &kube::api::ListParams::default()))
            .await
            .map(drop)
    }
}
