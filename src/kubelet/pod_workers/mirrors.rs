//! Static pods in the table: they come and go with their manifests, and deleted mirrors are created again.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{PodWorker, PodWorkers};
use crate::mirror_pod::is_static;
use crate::mirror_pod::{self, Mirror};
use crate::node::Node;
use crate::spec;
use base::clock::{saturating_after, time};
use object::SharedObject;

impl PodWorkers {
    /// Handles a mirror that was created or changed: its static pod adopts it, or it is deleted if no static pod does.
    pub(super) fn mirror_updated(self: &Arc<Self>, mirror: &SharedObject<Pod>) {
        let uid = mirror_pod::hash(mirror).unwrap_or_default().to_string();
        let mut pods = self.pods.lock();
        if let Some(slot) = pods.get_mut(&uid) {
            if slot.mirror.mirror_changed(mirror) {
                slot.pending.request_pass();
                self.start_pass(&uid, slot);
            }
            return;
        }
        drop(pods);
        if let Err(error) = mirror_pod::remove(&self.context.api, mirror) {
            tracing::warn!(pod = %mirror.key(), "cannot remove a mirror that has no pod: {error}");
        }
    }

    /// Adds a static pod, unless it is present or another of its name has not ended yet.
    pub(crate) fn add_static_pod(
        self: &Arc<Self>,
        node: &Arc<Node>,
        pod: &SharedObject<Pod>,
        mirror: Option<SharedObject<Pod>>,
    ) {
        let mut pods = self.pods.lock();
        let key = pod.key();
        let taken =
            pods.values().any(|s| s.node.config.name == node.config.name && s.pending.pod().key() == key);
        if taken {
            return;
        }
        let uid = pod.uid().to_string();
        let mirror = Mirror::of(mirror);
        let slot = PodWorker { mirror, ..PodWorker::new(node.clone(), pod.clone()) };
        let slot = pods.entry(uid.clone()).or_insert(slot);
        self.start_pass(&uid, slot);
    }

    /// Ends the static pods of a node that no longer have a manifest.
    pub(crate) fn end_static_pods(self: &Arc<Self>, node: &str, retained: &BTreeSet<&str>) {
        let now = self.context.clock.now();
        let mut pods = self.pods.lock();
        let here = pods.iter_mut().filter(|(_, s)| s.node.config.name == node && is_static(s.pending.pod()));
        for (uid, slot) in here.filter(|(uid, _)| !retained.contains(uid.as_str())) {
            let known = slot.pending.pod();
            if known.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let grace = spec::grace(known);
            let mut pod = Pod::clone(known);
            let end = saturating_after(now, grace);
            pod.metadata.deletion_timestamp = Some(time(end));
            pod.metadata.deletion_grace_period_seconds = i64::try_from(grace.as_secs()).ok();
            slot.pending.replace(SharedObject::from_value(pod));
            self.start_pass(uid, slot);
        }
    }

    /// Stores the status of a static pod, which the API does not store, and the mirror that a pass has created or
    /// changed based on `known`.
    pub(crate) fn keep_static(
        &self,
        pod: &SharedObject<Pod>,
        known: &Mirror,
        mirror: Option<SharedObject<Pod>>,
    ) {
        let mut pods = self.pods.lock();
        let Some(slot) = pods.get_mut(pod.uid()) else { return };
        if slot.pending.pod().status != pod.status {
            let mut retained = Pod::clone(slot.pending.pod());
            retained.status.clone_from(&pod.status);
            slot.pending.keep(SharedObject::from_value(retained));
        }
        // The status may have been written onto a mirror that was already deleted.
        let deleted = mirror.as_ref().is_some_and(|mirror| mirror.metadata.deletion_timestamp.is_some());
        slot.mirror.keep(known, mirror);
        if deleted && pod.metadata.deletion_timestamp.is_none() {
            slot.pending.request_pass();
        }
    }

    /// The mirror of a static pod as last observed.
    pub(crate) fn mirror_of(&self, uid: &str) -> Mirror {
        self.pods.lock().get(uid).map(|slot| slot.mirror.clone()).unwrap_or_default()
    }

    /// Handles the deletion of a static pod's mirror: the next pass creates another.
    pub(super) fn mirror_deleted(self: &Arc<Self>, mirror: &SharedObject<Pod>) {
        let uid = mirror_pod::hash(mirror).unwrap_or_default().to_string();
        let mut pods = self.pods.lock();
        if let Some(slot) = pods.get_mut(&uid)
            && slot.mirror.mirror_deleted(mirror)
        {
            slot.pending.request_pass();
            self.start_pass(&uid, slot);
        }
    }
}
