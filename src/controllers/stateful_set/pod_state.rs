//! One pod of a StatefulSet with the state computed for this version.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;

use super::member::State;
use super::{identity, storage};
use object::SharedObject;
use object::pod::{Availability, Phase, availability, phase};

/// The pod of an ordinal.
pub(super) struct PodState {
    pub(super) pod: SharedObject<Pod>,
    /// The name of its revision.
    pub(super) revision: String,
    /// It has the labels and volumes of its ordinal.
    pub(super) is_whole: bool,
    /// Its claims were checked, were sound, and have not changed since.
    pub(super) claims_are_sound: bool,
    is_running: bool,
    /// `None` before the first refresh.
    availability: Option<Availability>,
    pub(super) state: State,
}

impl PodState {
    /// Creates the state of a pod with unknown availability.
    pub(super) fn new(set: &SharedObject<StatefulSet>, ordinal: i32, pod: SharedObject<Pod>) -> Self {
        Self {
            revision: identity::revision_of(&pod).to_string(),
            is_whole: identity::is_labelled(&pod.metadata, ordinal)
                && storage::has_volumes(set, ordinal, &pod),
            claims_are_sound: false,
            is_running: phase(&pod) == Phase::Running,
            availability: None,
            state: State::of(&pod, Availability::NotReady),
            pod,
        }
    }

    /// Returns true if the passing of time alone may change the pod's availability.
    pub(super) fn is_in_flux(&self) -> bool {
        matches!(self.availability, None | Some(Availability::In(_)))
    }

    /// Updates the pod's availability.
    pub(super) fn refresh(&mut self, min_ready_seconds: i32, now: Timestamp) {
        let availability = availability(&self.pod, min_ready_seconds, now);
        self.state = State::of(&self.pod, availability);
        self.availability = Some(availability);
    }

    /// Returns the availability of a running pod; that of others does not count.
    pub(super) fn serving(&self) -> Option<Availability> {
        self.availability.filter(|_| self.is_running)
    }
}
