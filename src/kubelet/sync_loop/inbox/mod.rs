//! What one pod's next pass is to know: the newest version of its object, whether it is gone, and notes.
//!
//! Three tell it, in any order and at any time: the watch of the API ([`Inbox::see`], [`Inbox::lose`]), a pass that has
//! written the status onto whatever version the API had by then ([`Inbox::wrote`]), and everybody who leaves a note.
//! Invariant: a version that no pass has planned for leaves `news`, whoever brought it, until a pass takes it.
//!
//! Architecture Invariant: no lock, no clock, no API; `model` tries every interleaving.

#[cfg(test)]
mod model;

use k8s_openapi::api::core::v1::Pod;

use super::{Note, revision};
use crate::kubelet::volumes;
use crate::object::{Revision, Shared};

/// What has happened to one pod.
#[derive(Clone, Debug)]
pub(super) struct Inbox {
    /// The newest version known.
    pod: Shared<Pod>,
    /// Its object is gone from the API.
    gone: bool,
    /// The object says something that no pass has planned for.
    news: bool,
    notes: Vec<Note>,
}

/// What a pass starts with.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) pod: Shared<Pod>,
    pub(super) gone: bool,
    pub(super) notes: Vec<Note>,
}

impl Inbox {
    /// A pod that was never looked at.
    pub(super) fn new(pod: Shared<Pod>) -> Self {
        Self { pod, gone: false, news: true, notes: vec![Note::Look] }
    }

    /// The newest version known.
    pub(super) fn pod(&self) -> &Shared<Pod> {
        &self.pod
    }

    /// Whether a pass has something to do with it; nothing has happened since the last one otherwise.
    pub(super) fn has_news(&self) -> bool {
        self.news || !self.notes.is_empty()
    }

    /// The watch shows a version.
    pub(super) fn see(&mut self, pod: &Shared<Pod>) {
        if revision(pod) > revision(&self.pod) {
            self.take_version(pod);
        }
    }

    /// The watch tells that the object is gone.
    pub(super) fn lose(&mut self) {
        (self.gone, self.news) = (true, true);
    }

    /// A pass has written the status onto the version `onto`, and this came out. Where `onto` is a version that was
    /// not seen, somebody else's change came in between: its own event will be older than what is known by then,
    /// so that it is seen here or never.
    pub(super) fn wrote(&mut self, onto: Revision, pod: &Shared<Pod>) {
        if revision(pod) <= revision(&self.pod) {
            return;
        }
        if onto > revision(&self.pod) {
            self.take_version(pod);
        } else {
            self.pod = pod.clone();
        }
    }

    fn take_version(&mut self, pod: &Shared<Pod>) {
        let (old, new) = (&self.pod.metadata, &pod.metadata);
        let told = (&old.labels, &old.annotations) != (&new.labels, &new.annotations);
        if told && volumes::shows_itself(pod) {
            self.notes.push(Note::Refresh);
        }
        self.pod = pod.clone();
        self.news = true;
    }

    /// Something happened beside a change of the object.
    pub(super) fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// There is something beside the object and the notes that a pass must look at.
    pub(super) fn look_again(&mut self) {
        self.news = true;
    }

    /// Another object stands for the pod from now on: a static pod's, which only its kubelet changes.
    pub(super) fn replace(&mut self, pod: Shared<Pod>) {
        self.pod = pod;
        self.news = true;
    }

    /// The same with nothing new in it for a pass.
    pub(super) fn keep(&mut self, pod: Shared<Pod>) {
        self.pod = pod;
    }

    /// A pass begins: it plans for all that is known.
    pub(super) fn take(&mut self) -> Taken {
        self.news = false;
        Taken { pod: self.pod.clone(), gone: self.gone, notes: std::mem::take(&mut self.notes) }
    }
}
