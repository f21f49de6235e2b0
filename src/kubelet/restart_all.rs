//! `restartPolicyRules` with the action `RestartAllContainers`: one container's exit restarts every container of its
//! pod in place, init containers first. Sandbox, addresses and volumes stay. Pure, and derived from the runtime's
//! records alone, so that it continues after a restart of the kubelet.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::observed::ObservedPod;
use super::runtime::ContainerRecord;
use super::spec;
use object::pod::{RESTART_ALL, can_restart_all, restart_rule};

/// The newest restart of all containers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestartAll<'a> {
    /// The attempt that caused it by its exit.
    pub(crate) trigger: &'a ContainerRecord,
    at: Timestamp,
}

/// The containers that take part: all but ephemeral ones.
fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    spec::init_containers(pod).map(|(_, container)| container).chain(spec::app_containers(pod))
}

impl<'a> RestartAll<'a> {
    /// Returns the newest restart of all containers in the runtime's records.
    pub(crate) fn of(pod: &Pod, observed: &'a ObservedPod) -> Option<Self> {
        if !can_restart_all(spec::spec(pod)) {
            return None;
        }
        let restarts = containers(pod).flat_map(|container| {
            // The names of attempts are those of the pod's containers.
            let records = observed.sandbox.iter().flat_map(|sandbox| &sandbox.containers);
            let own = records.filter(move |record| record.name == container.name);
            own.filter_map(move |trigger| {
                let exit = trigger.exit.as_ref()?;
                let restarts_all = restart_rule(container, exit.exit_code)?.action == RESTART_ALL;
                restarts_all.then_some(Self { trigger, at: exit.finished_at })
            })
        });
        restarts.max_by_key(|restart| restart.at)
    }

    /// Returns true if the restart replaces this attempt of a container that takes part.
    pub(crate) fn replaces(&self, record: &ContainerRecord) -> bool {
        record.id == self.trigger.id || record.started_at < self.at
    }

    /// The newest attempts that the restart still has to replace.
    pub(crate) fn remaining(&self, pod: &Pod, observed: &'a ObservedPod) -> Vec<&'a ContainerRecord> {
        let names = containers(pod).map(|container| container.name.clone()).collect::<Vec<_>>();
        let records = observed.sandbox.iter().flat_map(|sandbox| &sandbox.containers);
        let newest = records.filter(|record| {
            let newest = observed.latest(&record.name).is_some_and(|latest| latest.id == record.id);
            newest && names.contains(&record.name)
        });
        newest.filter(|record| self.replaces(record)).collect()
    }
}

/// Returns true if a restart of all containers is under way.
pub(crate) fn is_in_progress(pod: &Pod, observed: &ObservedPod) -> bool {
    RestartAll::of(pod, observed).is_some_and(|restart| !restart.remaining(pod, observed).is_empty())
}
