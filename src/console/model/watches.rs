//! Selects the resources to watch as the server's Table, while a table on the stack shows them; and polls pod usage
//! while it is visible.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::clusters::shows;
use super::{Job, Model};
use crate::builtin;
use crate::clusters::ClusterView;
use crate::context::ScreenId;
use crate::kind_view::{self, Template};
use crate::resource::{Kind, ResourceKey};
use crate::scope::Scope;
use crate::screen::{Follows, Screen};
use crate::server_table::Include;
use crate::workloads;

/// The maximum number of resources that are watched for invisible tabs; the others are listed again when their tab
/// comes to the front.
const AWAY: usize = 8;

impl Model {
    /// Polls the usage of pods if the top screen shows it.
    pub(super) fn measure_what_is_shown(&mut self) -> Option<Job> {
        let pods = |follows| matches!(follows, Follows::Kind(kind) if kind.is::<Pod>());
        let front = self.shared.front;
        let shows = |(id, screen): &(ScreenId, Screen)| {
            shows(*id, screen, front)
                && (matches!(screen, Screen::Containers(_)) || screen.follows().is_some_and(pods))
        };
        let wanted = shows(self.top()) || self.other_top().is_some_and(shows);
        (std::mem::replace(&mut self.measures_pods, wanted) != wanted).then_some(Job::MeasurePods(wanted))
    }

    /// Watches the resources of the tables on the stack, and stops the other watches. Tabs that are not in front keep
    /// theirs, up to a limit; the visible tables determine the namespace.
    pub(super) fn watch_what_is_shown(&mut self) -> Vec<Job> {
        let other = self.split.iter().flat_map(|split| &split.other);
        let mut shown: BTreeMap<ResourceKey, Wanted> = BTreeMap::new();
        let cx = self.shared.context(self.heard_at);
        let Some(front) = cx.clusters.get(cx.cluster) else { return Vec::new() };
        for (resource, wanted) in wants(self.screens.iter().chain(other), &self.shared.scope, front) {
            // If two tables show a resource, whole objects serve both.
            let whole = wanted.whole || shown.get(&resource).is_some_and(|other| other.whole);
            shown.insert(resource, Wanted { whole, ..wanted });
        }
        let mut left = AWAY;
        for tab in self.tabs.away() {
            for (resource, wanted) in wants(tab.screens(), &tab.scope, front) {
                if left > 0
                    && let std::collections::btree_map::Entry::Vacant(vacant) = shown.entry(resource)
                {
                    vacant.insert(wanted);
                    left -= 1;
                }
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
        for (resource, Wanted { kind, namespace, whole }) in shown {
            let include = if whole { Include::Object } else { self.include(&kind) };
            let watch = (namespace.clone(), include);
            if self.watched.get(&resource) != Some(&watch) {
                self.shared.stores.forget(&resource);
                self.watched.insert(resource, watch);
                jobs.push(Job::Watch(kind, namespace, include));
            }
        }
        jobs
    }

    /// Requests whole objects only if metadata is not enough: dialogs need replicas or images, and the user's columns
    /// may need any field.
    fn include(&self, kind: &Kind) -> Include {
        let view = kind_view::of(&kind.resource);
        let template = view.template != Template::None || view.is_read_whole;
        let shared = &self.shared;
        let columns = || shared.extensions.reads_whole_objects(&shared.catalogue, kind);
        if template || kind.subresources.contains_key("scale") || columns() {
            Include::Object
        } else {
            Include::Metadata
        }
    }
}

/// A resource that a table shows.
struct Wanted {
    kind: Kind,
    /// The only namespace; `None` for all.
    namespace: Option<String>,
    /// Its rows need whole objects, regardless of the kind.
    whole: bool,
}

/// Returns the resources of a cluster's tables on a stack, with their namespaces.
fn wants<'a>(
    screens: impl Iterator<Item = &'a (ScreenId, Screen)> + 'a,
    scope: &'a Scope,
    front: ClusterView<'a>,
) -> impl Iterator<Item = (ResourceKey, Wanted)> + 'a {
    let tables = screens.filter_map(move |(id, screen)| {
        let Some(Follows::Kind(kind)) = screen.follows() else { return None };
        shows(*id, screen, front.id).then_some((kind, screen.over().is_some()))
    });
    tables.flat_map(move |(kind, is_over)| {
        let whole = workloads::is(&kind.resource);
        // A table over several clusters shows each cluster's own served version.
        let kinds = if is_over || whole { front.kinds_of(&kind) } else { vec![kind] };
        kinds.into_iter().filter_map(move |kind| {
            let lacks = (is_over || whole) && front.lacks(&kind);
            if builtin::contains(&kind.resource) || lacks {
                return None;
            }
            let namespace = match scope {
                Scope::One(name) if kind.namespaced => Some(name.clone()),
                _ => None,
            };
            Some((kind.resource.clone(), Wanted { kind, namespace, whole }))
        })
    })
}
