//! Which resources are watched as the server's Table: those a table on the stack shows, for as long as it does; and
//! whether it is asked what pods use: while that is looked at.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::{Job, Model};
use crate::builtin;
use crate::resource::{Kind, ResourceKey};
use crate::scope::Scope;
use crate::screen::{Follows, Screen};

impl Model {
    /// Asks what pods use where the top screen shows it.
    pub(super) fn measure_what_is_shown(&mut self) -> Option<Job> {
        let (_, screen) = self.top();
        let pods = |follows| matches!(follows, Follows::Kind(kind) if kind.is::<Pod>());
        let wanted = matches!(screen, Screen::Containers(_)) || screen.follows().is_some_and(pods);
        (std::mem::replace(&mut self.measures_pods, wanted) != wanted).then_some(Job::MeasurePods(wanted))
    }

    /// Asks for the resources of the tables on the stack, and lets go of those no table shows any more.
    pub(super) fn watch_what_is_shown(&mut self) -> Vec<Job> {
        let mut shown: BTreeMap<ResourceKey, (Kind, Option<String>)> = BTreeMap::new();
        for (_, screen) in &self.screens {
            let Some(Follows::Kind(kind)) = screen.follows() else { continue };
            if !builtin::contains(&kind.resource) {
                let namespace = match &self.shared.scope {
                    Scope::One(name) if kind.namespaced => Some(name.clone()),
                    _ => None,
                };
                shown.insert(kind.resource.clone(), (kind, namespace));
            }
        }
        let mut jobs = Vec::new();
        let over: Vec<ResourceKey> =
            self.watched.keys().filter(|resource| !shown.contains_key(*resource)).cloned().collect();
        for resource in over {
            self.watched.remove(&resource);
            self.shared.stores.forget(&resource);
            self.shared.links.forget(&resource);
            jobs.push(Job::Unwatch(resource));
        }
        for (resource, (kind, namespace)) in shown {
            if self.watched.get(&resource) != Some(&namespace) {
                self.shared.stores.forget(&resource);
                self.watched.insert(resource, namespace.clone());
                jobs.push(Job::Watch(kind, namespace));
            }
        }
        jobs
    }
}
