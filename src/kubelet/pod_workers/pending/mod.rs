//! The input of one pod's next pass: the newest version of its object, its deletion, and events.
//!
//! Three sources update it, in any order and at any time: the watch of the API ([`PendingUpdates::pod_updated`],
//! [`PendingUpdates::object_deleted`]), a pass that has written the status onto the API's current version
//! ([`PendingUpdates::wrote`]), and every sender of an event. Invariant: while there is a version that no pass has
//! planned for, [`PendingUpdates::is_dirty`] returns true, regardless of the version's source.
//!
//! Architecture Invariant: no lock, no clock, no API; `model` tries every interleaving.

#[cfg(test)]
mod model;

use k8s_openapi::api::core::v1::Pod;

use super::PodEvent;
use crate::volumes;
use object::{Revision, SharedObject};

/// The pending updates of one pod.
#[derive(Clone, Debug)]
pub(super) struct PendingUpdates {
    /// The newest version known.
    pod: SharedObject<Pod>,
    /// Its object was removed from the API.
    deleted: bool,
    /// The object has a change that no pass has planned for.
    changed: bool,
    events: Vec<PodEvent>,
}

/// The input of a pass.
#[derive(Clone, Debug)]
pub(crate) struct PodUpdate {
    pub(crate) pod: SharedObject<Pod>,
    pub(crate) deleted: bool,
    pub(crate) events: Vec<PodEvent>,
}

impl PendingUpdates {
    /// A pod that was never synced.
    pub(super) fn new(pod: SharedObject<Pod>) -> Self {
        Self { pod, deleted: false, changed: true, events: vec![PodEvent::Resync] }
    }

    /// The newest version known.
    pub(super) fn pod(&self) -> &SharedObject<Pod> {
        &self.pod
    }

    /// Returns true if a pass has work to do; otherwise nothing has happened since the last one.
    pub(super) fn is_dirty(&self) -> bool {
        self.changed || !self.events.is_empty()
    }

    /// The watch shows a version.
    pub(super) fn pod_updated(&mut self, pod: &SharedObject<Pod>) {
        if pod.revision() > self.pod.revision() {
            self.take_version(pod);
        }
    }

    /// The watch reports that the object was removed.
    pub(super) fn object_deleted(&mut self) {
        (self.deleted, self.changed) = (true, true);
    }

    /// Takes the result of a pass that has written the status onto the version `onto`. If `onto` is newer than the
    /// known version, another client has changed the object in between. The watch event of that change will then be
    /// older than the known version, so the change must be noticed here.
    pub(super) fn wrote(&mut self, onto: Revision, pod: &SharedObject<Pod>) {
        if pod.revision() <= self.pod.revision() {
            return;
        }
        if onto > self.pod.revision() {
            self.take_version(pod);
        } else {
            self.pod = pod.clone();
        }
    }

    fn take_version(&mut self, pod: &SharedObject<Pod>) {
        let (old, new) = (&self.pod.metadata, &pod.metadata);
        let metadata_changed = (&old.labels, &old.annotations) != (&new.labels, &new.annotations);
        if metadata_changed && volumes::shows_itself(pod) {
            self.events.push(PodEvent::Refresh);
        }
        self.pod = pod.clone();
        self.changed = true;
    }

    /// Adds an event besides a change of the object.
    pub(super) fn push(&mut self, event: PodEvent) {
        self.events.push(event);
    }

    /// Requests a pass for a reason besides the object and the events.
    pub(super) fn request_pass(&mut self) {
        self.changed = true;
    }

    /// Replaces the object of a static pod, which only its kubelet changes.
    pub(super) fn replace(&mut self, pod: SharedObject<Pod>) {
        self.pod = pod;
        self.changed = true;
    }

    /// Replaces the object without marking the pod as changed for the next pass.
    pub(super) fn keep(&mut self, pod: SharedObject<Pod>) {
        self.pod = pod;
    }

    /// A pass begins: it plans with all known updates.
    pub(super) fn take(&mut self) -> PodUpdate {
        self.changed = false;
        PodUpdate { pod: self.pod.clone(), deleted: self.deleted, events: std::mem::take(&mut self.events) }
    }
}
