//! Selects the resources to watch as the server's Table, while a table on the stack shows them; and polls pod usage
//! while it is visible.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::clusters::shows;
use super::{Job, Model};
use console_data::builtin_kinds;
use console_data::clusters::ClusterView;
use console_data::context::ScreenId;
use console_data::kind_view::{self, Template};
use console_data::resource::{Kind, ResourceKey};
use console_data::scope::Scope;
use console_data::server_table::Include;
use console_data::workloads;
use console_screens::{LiveScope, Screen};

/// The maximum number of resources that are watched for invisible tabs; the others are listed again when their tab
/// comes to the front.
const MAX_HIDDEN_WATCHES: usize = 8;

impl Model {
    /// Polls the usage of pods if the top screen shows it.
    pub(super) fn poll_metrics(&mut self) -> Option<Job> {
        let pods = |follows| matches!(follows, LiveScope::Kind(kind) if kind.is::<Pod>());
        let front = self.shared.front;
        let shows = |(id, screen): &(ScreenId, Screen)| {
            shows(*id, screen, front)
                && (matches!(screen, Screen::Containers(_)) || screen.follows().is_some_and(pods))
        };
        let is_enabled = shows(self.top()) || self.other_top().is_some_and(shows);
        (std::mem::replace(&mut self.measures_pods, is_enabled) != is_enabled)
            .then_some(Job::MeasurePods(is_enabled))
    }

    /// Watches the resources of the tables on the stack, and stops the other watches. Tabs that are not in front keep
    /// theirs, up to a limit; the visible tables determine the namespace.
    pub(super) fn sync_table_watches(&mut self) -> Vec<Job> {
        let other = self.split.iter().flat_map(|split| &split.other);
        let mut shown: BTreeMap<ResourceKey, TableWatch> = BTreeMap::new();
        let cx = self.shared.context(self.last_message_at);
        let Some(front) = cx.clusters.get(cx.cluster) else { return Vec::new() };
        for (resource, table_watch) in
            table_resources(self.screens.iter().chain(other), &self.shared.scope, front)
        {
            // If two tables show a resource, whole objects serve both.
            let whole = table_watch.whole || shown.get(&resource).is_some_and(|other| other.whole);
            shown.insert(resource, TableWatch { whole, ..table_watch });
        }
        let mut left = MAX_HIDDEN_WATCHES;
        for tab in self.tabs.away() {
            for (resource, table_watch) in table_resources(tab.screens(), &tab.scope, front) {
                if left > 0
                    && let std::collections::btree_map::Entry::Vacant(vacant) = shown.entry(resource)
                {
                    vacant.insert(table_watch);
                    left -= 1;
                }
            }
        }
        let mut jobs = Vec::new();
        let over: Vec<ResourceKey> =
            self.watched.keys().filter(|resource| !shown.contains_key(*resource)).cloned().collect();
        for resource in over {
            self.watched.remove(&resource);
            self.shared.cluster.stores.forget(&resource);
            self.shared.cluster.links.forget(&resource);
            jobs.push(Job::Unwatch(resource));
        }
        for (resource, TableWatch { kind, namespace, whole }) in shown {
            let include = if whole { Include::Object } else { self.include(&kind) };
            let watch = (namespace.clone(), include);
            if self.watched.get(&resource) != Some(&watch) {
                self.shared.cluster.stores.forget(&resource);
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
        let template = view.template != Template::None || view.needs_whole_objects;
        let shared = &self.shared;
        let columns = || shared.extensions.reads_whole_objects(&shared.cluster.catalogue, kind);
        if template || kind.subresources.contains_key("scale") || columns() {
            Include::Object
        } else {
            Include::Metadata
        }
    }
}

/// A resource that a table shows.
struct TableWatch {
    kind: Kind,
    /// The only namespace; `None` for all.
    namespace: Option<String>,
    /// Its rows need whole objects, regardless of the kind.
    whole: bool,
}

/// Returns the resources of a cluster's tables on a stack, with their namespaces.
fn table_resources<'a>(
    screens: impl Iterator<Item = &'a (ScreenId, Screen)> + 'a,
    scope: &'a Scope,
    front: ClusterView<'a>,
) -> impl Iterator<Item = (ResourceKey, TableWatch)> + 'a {
    let tables = screens.filter(move |(id, screen)| shows(*id, screen, front.id)).flat_map(|(_, screen)| {
        let kinds = match (screen, screen.follows()) {
            (Screen::Tree(tree), _) => tree.kinds(),
            (_, Some(LiveScope::Kind(kind))) => vec![kind],
            _ => Vec::new(),
        };
        let is_over = screen.over().is_some();
        kinds.into_iter().map(move |kind| (kind, is_over))
    });
    tables.flat_map(move |(kind, is_over)| {
        let whole = workloads::is(&kind.resource);
        // A table over several clusters shows each cluster's own served version.
        let kinds = if is_over || whole { front.kinds_of(&kind) } else { vec![kind] };
        kinds.into_iter().filter_map(move |kind| {
            let lacks = (is_over || whole) && front.lacks(&kind);
            if builtin_kinds::contains(&kind.resource) || lacks {
                return None;
            }
            let namespace = match scope {
                Scope::One(name) if kind.namespaced => Some(name.clone()),
                _ => None,
            };
            Some((kind.resource.clone(), TableWatch { kind, namespace, whole }))
        })
    })
}
