//! Several clusters at once (CON-16): joins the clusters that are shown, and selects the cluster that an action
//! concerns.
//!
//! `SharedModel::cluster` and fields of the model hold the front cluster; the others are in `SharedModel::away` and
//! [`BackgroundCluster`]. While the model handles a message or a request of another cluster, the two are swapped, so
//! that stores, kinds, journal and jobs are those of that cluster only.
//!
//! Invariant: between two messages [`ClusterId::HOME`] is in front. A cluster remains while a screen shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::swap;

use jiff::Timestamp;

use super::{Job, Model, SharedModel};
use base::quote::shell_word;
use console_data::action::Action;
use console_data::builtin_kinds;
use console_data::clusters::{Cluster, Clusters, ConnectionState};
use console_data::context::{Context, ScreenId};
use console_data::contexts::Identity;
use console_data::message::ScreenMessage;
use console_data::resource::{ClusterId, ResourceKey, Uid};
use console_data::server_table::Include;
use console_data::store::TouchedObjects;
use console_data::workloads;
use console_operations::effect::TableRoute;
use console_screens::Screen;
use console_toolkit::text::clean;
use console_toolkit::toast::Toast;

/// The maximum number of clusters beside the console's own.
pub(crate) const MAX_JOINED: usize = 15;

/// The state of a cluster that is not in front, without the part that screens read.
#[derive(Debug, Default)]
pub(super) struct BackgroundCluster {
    watched: BTreeMap<ResourceKey, (Option<String>, Include)>,
    /// The built-in resources that are watched.
    needs: BTreeSet<ResourceKey>,
    pub(super) cluster_uid: Option<Uid>,
    early_lines: String,
    measures_pods: bool,
    identity: Identity,
}

impl SharedModel {
    /// Returns the clusters that are shown.
    pub(super) fn clusters(&self) -> Clusters<'_> {
        Clusters { front: self.cluster.view(self.front), others: &self.away }
    }

    /// Returns the context for screens on the front cluster.
    pub fn context(&self, now: Timestamp) -> Context<'_> {
        Context {
            cluster: self.front,
            clusters: self.clusters(),
            cluster_styles: &self.cluster_styles,
            thresholds: self.thresholds,
            node_shell: &self.node_shell,
            // Only the start cluster's files may be on this machine.
            forks: self.forks.as_ref().filter(|_| self.front == ClusterId::HOME),
            project: self.project.as_ref().filter(|_| self.front == ClusterId::HOME),
            stores: &self.cluster.stores,
            theme: &self.theme,
            catalogue: &self.cluster.catalogue,
            bindings: &self.bindings,
            extensions: &self.extensions,
            links: &self.cluster.links,
            journal: &self.cluster.journal,
            sorts: &self.sorts,
            scope: &self.scope,
            favourites: &self.cluster.favourites,
            read_only: self.read_only,
            focused: true,
            now,
            is_time_known: true,
            anchors: &self.anchors,
            redraw_at_time: &self.wake,
        }
    }

    /// Returns the context for a screen on its own cluster.
    pub(crate) fn context_of(&self, screen: ScreenId, now: Timestamp) -> Context<'_> {
        let front = self.context(now);
        // A cluster remains while a screen shows it.
        front.on(screen.cluster()).unwrap_or(front)
    }

    /// Returns the user's name for a cluster.
    pub(crate) fn cluster_name(&self, cluster: ClusterId) -> &str {
        self.clusters().get(cluster).map_or("", |cluster| cluster.name)
    }

    /// Reports whether more than one cluster is shown.
    pub(crate) fn has_several(&self) -> bool {
        self.away.values().any(|cluster| cluster.connection != ConnectionState::Idle)
    }
}

impl Job {
    /// Tags the job with that cluster, if it concerns a cluster and is not tagged already.
    fn on(self, cluster: ClusterId) -> Self {
        match self {
            Self::Start(_)
            | Self::Cancel(..)
            | Self::Act(_)
            | Self::Run(_)
            | Self::Watch(..)
            | Self::Unwatch(_)
            | Self::MeasurePods(_)
            | Self::Join(_)
            | Self::Attach(_)
            | Self::Need(_)
            | Self::Release => Self::On(cluster, Box::new(self)),
            other => other,
        }
    }
}

impl Model {
    /// Runs code with another cluster in front; returns `None` if that cluster is not shown.
    pub(crate) fn within<T>(&mut self, cluster: ClusterId, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let before = self.shared.front;
        if before == cluster {
            return Some(f(self));
        }
        if !self.trade_clusters(cluster) {
            return None;
        }
        let done = f(self);
        self.trade_clusters(before);
        Some(done)
    }

    /// As [`Self::within`], for code that returns jobs: they are tagged with the cluster.
    pub(super) fn in_cluster(
        &mut self,
        cluster: ClusterId,
        f: impl FnOnce(&mut Self) -> Vec<Job>,
    ) -> Vec<Job> {
        if self.shared.front == cluster {
            return f(self);
        }
        let jobs = self.within(cluster, f).unwrap_or_default();
        jobs.into_iter().map(|job| job.on(cluster)).collect()
    }

    fn trade_clusters(&mut self, cluster: ClusterId) -> bool {
        let Some(mut other) = self.shared.away.remove(&cluster) else { return false };
        let mut behind = self.background_clusters.remove(&cluster).unwrap_or_default();
        swap(&mut self.shared.cluster, &mut other);
        swap(&mut self.watched, &mut behind.watched);
        swap(&mut self.needs, &mut behind.needs);
        swap(&mut self.cluster_uid, &mut behind.cluster_uid);
        swap(&mut self.early_lines, &mut behind.early_lines);
        swap(&mut self.measures_pods, &mut behind.measures_pods);
        swap(&mut self.identity, &mut behind.identity);
        let before = std::mem::replace(&mut self.shared.front, cluster);
        self.shared.away.insert(before, other);
        self.background_clusters.insert(before, behind);
        true
    }

    /// Returns the uid of the console's own cluster, once known.
    pub(super) fn home_uid(&self) -> Option<Uid> {
        match self.shared.front {
            ClusterId::HOME => self.cluster_uid.clone(),
            _ => self.background_clusters.get(&ClusterId::HOME)?.cluster_uid.clone(),
        }
    }

    /// Returns the cluster that a typed command concerns: that of the top screen, or of its selected row if the rows
    /// are from several.
    pub(crate) fn target_cluster(&self, now: Timestamp) -> ClusterId {
        let (id, screen) = self.top();
        screen.cluster_of_selected().unwrap_or_else(|| self.shared.context_of(*id, now).cluster)
    }

    /// Returns the id of the top screen, acting on the front cluster.
    pub(super) fn top_screen_id(&self) -> ScreenId {
        self.top().0.on(self.shared.front)
    }

    /// Reports whether a context's name means the console's own cluster.
    pub(crate) fn is_home(&self, name: &str) -> bool {
        name == "-" || name == self.setup.cluster || self.setup.context.as_deref() == Some(name)
    }

    /// Returns the clusters of these contexts, in order and without duplicates; new ones are joined as soon as a screen
    /// shows them. Also returns how many were over the limit.
    pub(super) fn clusters_of(&mut self, names: &[String]) -> (Vec<ClusterId>, usize) {
        let (mut clusters, mut left_out) = (Vec::new(), 0);
        for name in names {
            match self.cluster_of(name, &clusters) {
                Some(cluster) if clusters.contains(&cluster) => {}
                Some(cluster) => clusters.push(cluster),
                None => left_out += 1,
            }
        }
        (clusters, left_out)
    }

    fn cluster_of(&mut self, name: &str, taken: &[ClusterId]) -> Option<ClusterId> {
        if self.is_home(name) {
            return Some(ClusterId::HOME);
        }
        let known = self.shared.away.iter().find(|(_, cluster)| cluster.name == name);
        if let Some((id, _)) = known {
            return Some(*id);
        }
        if self.shared.cluster.name == name {
            return Some(self.shared.front);
        }
        self.evict_clusters(taken);
        // The front cluster is not in `away`.
        let joined = self.shared.away.keys().filter(|id| **id != ClusterId::HOME).count()
            + usize::from(self.shared.front != ClusterId::HOME);
        if joined >= MAX_JOINED {
            return None;
        }
        self.next_cluster += 1;
        let id = ClusterId::joined(self.next_cluster);
        let cluster = Cluster { name: name.to_owned(), ..Cluster::default() };
        self.shared.away.insert(id, cluster);
        // Programs must not reach another cluster because the file could not be read.
        let identity = Identity { context: name.to_owned(), ..Identity::default() };
        self.background_clusters.insert(id, BackgroundCluster { identity, ..BackgroundCluster::default() });
        Some(id)
    }

    /// If the limit leaves no room for another cluster, drops the clusters that no screen shows or is about to show.
    fn evict_clusters(&mut self, taken: &[ClusterId]) {
        if self.shared.away.len() < MAX_JOINED {
            return;
        }
        let ids = self.shared.away.keys().copied().filter(|id| *id != ClusterId::HOME);
        let left: Vec<ClusterId> =
            ids.filter(|id| !taken.contains(id) && !self.is_cluster_visible(*id)).collect();
        for id in left {
            self.shared.away.remove(&id);
            self.background_clusters.remove(&id);
            self.dropped.push(id);
        }
    }

    /// Opens a table over the clusters of these contexts.
    pub(super) fn open_over(&mut self, contexts: &[String], route: TableRoute, now: Timestamp) -> Vec<Job> {
        let (over, left_out) = self.clusters_of(contexts);
        if over.is_empty() {
            self.toast(Toast::failed("no context left to show"), now);
            return Vec::new();
        }
        if left_out > 0 {
            let text =
                format!("{} contexts are shown, which is the maximum; {left_out} are left out", over.len());
            self.toast(Toast::warning(text), now);
        }
        let table: Screen =
            console_operations::effect::Route::from(TableRoute { clusters: over, ..route }).into();
        // The table itself belongs to the console's own cluster; its requests for rows name their cluster.
        self.in_cluster(ClusterId::HOME, |model| model.open(table, now))
    }

    /// Sends changes in the front cluster to the visible screens.
    pub(super) fn deliver_changes(
        &mut self,
        resource: &ResourceKey,
        touched: &TouchedObjects,
        now: Timestamp,
    ) -> Vec<Job> {
        let cluster = self.shared.front;
        let hears = |(id, screen): &(ScreenId, Screen)| {
            let (resource, touched) = (resource.clone(), touched.clone());
            match screen.over() {
                Some(over) if over.contains(&cluster) => {
                    Some((*id, ScreenMessage::ChangedIn(cluster, resource, touched)))
                }
                None if id.cluster() == cluster => Some((*id, ScreenMessage::Changed(resource, touched))),
                _ => None,
            }
        };
        let seen = [Some(self.top()), self.other_top()];
        let messages: Vec<_> = seen.into_iter().flatten().filter_map(hears).collect();
        messages.into_iter().flat_map(|(id, message)| self.deliver(id, now, message)).collect()
    }

    /// Informs visible tables with rows of the front cluster that its discovery has answered.
    pub(super) fn notify_multi_cluster_tables(&mut self, now: Timestamp) -> Vec<Job> {
        let cluster = self.shared.front;
        let is = |(id, screen): &&(ScreenId, Screen)| match (screen.over(), screen) {
            (Some(over), _) => over.contains(&cluster),
            // The catalogue decides which workload kinds the server serves.
            (None, Screen::Table(table)) => id.cluster() == cluster && workloads::is(&table.kind().resource),
            (None, _) => false,
        };
        let seen = [Some(self.top()), self.other_top()];
        let ids: Vec<ScreenId> = seen.into_iter().flatten().filter(is).map(|(id, _)| *id).collect();
        ids.into_iter().flat_map(|id| self.deliver(id, now, ScreenMessage::ColumnsChanged)).collect()
    }

    /// Appends the name of the front cluster to an action's title if there are other clusters.
    pub(super) fn title_with_cluster(&self, title: &str) -> String {
        if self.shared.has_several() {
            format!("{title} on {}", clean(&self.shared.cluster.name))
        } else {
            title.to_owned()
        }
    }

    /// Adds the context of the front cluster to an action's kubectl command.
    pub(super) fn name_context(&self, action: &mut Action) {
        if self.shared.front == ClusterId::HOME {
            return;
        }
        if let Some(rest) = action.kubectl.strip_prefix("kubectl ") {
            action.kubectl = format!("kubectl --context {} {rest}", shell_word(&self.shared.cluster.name));
        }
    }

    /// Reports whether the front cluster's resource is still watched; data that arrives after its watch was stopped is
    /// dropped.
    pub(super) fn is_subscribed(&self, resource: &ResourceKey) -> bool {
        let always = self.shared.front == ClusterId::HOME && builtin_kinds::contains(resource);
        always || self.needs.contains(resource) || self.watched.contains_key(resource)
    }
}

/// Reports whether a screen shows data of a cluster.
pub(super) fn shows(id: ScreenId, screen: &Screen, cluster: ClusterId) -> bool {
    match screen.over() {
        Some(over) => over.contains(&cluster),
        None => id.cluster() == cluster,
    }
}
