//! Several clusters at once (CON-16): which are joined for what is shown, and which of them something happens in.
//!
//! The cluster in front is in the model's own fields, the others wait in `Shared::away` and [`Behind`]. What comes from a
//! cluster, and what a screen of it asks for, is done with the two traded for that long, so that stores, kinds, journal and
//! jobs are that cluster's and no other's.
//!
//! Invariant: between two messages [`ClusterId::HOME`] is in front. A cluster stays for as long as a screen looks at it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::swap;

use jiff::Timestamp;

use super::{Job, Model, Shared};
use crate::action::Action;
use crate::builtin;
use crate::clusters::{Cluster, ClusterView, Clusters, Reach};
use crate::context::{Context, ScreenId};
use crate::contexts::Identity;
use crate::effect::TableRoute;
use crate::links::Links;
use crate::message::ScreenMessage;
use crate::resource::{ClusterId, ResourceKey, Uid};
use crate::screen::{Screen, View};
use crate::server_table::Include;
use crate::store::Touched;
use crate::text::clean;
use crate::toast::Toast;
use crate::workloads;

/// Clusters at most that are looked at beside the one that the console is on.
pub(crate) const MOST: usize = 15;

/// What the model keeps of a cluster that no screen reads.
#[derive(Debug, Default)]
pub(super) struct Behind {
    watched: BTreeMap<ResourceKey, (Option<String>, Include)>,
    /// Those of every Kubernetes that it is asked for.
    needs: BTreeSet<ResourceKey>,
    pub(super) cluster: Option<Uid>,
    early_lines: String,
    measures_pods: bool,
    identity: Identity,
}

impl Shared {
    /// The clusters that are looked at.
    pub(super) fn clusters(&self) -> Clusters<'_> {
        let front = ClusterView {
            id: self.front,
            name: &self.name,
            origin: &self.origin,
            reach: &self.reach,
            stores: &self.stores,
            catalogue: &self.catalogue,
            links: &self.links,
            journal: &self.journal,
            favourites: &self.favourites,
        };
        Clusters { front, away: &self.away }
    }

    /// The context of one screen at one moment, on the cluster that is in front.
    pub fn context(&self, now: Timestamp) -> Context<'_> {
        Context {
            cluster: self.front,
            clusters: self.clusters(),
            cluster_styles: &self.cluster_styles,
            thresholds: self.thresholds,
            node_shell: &self.node_shell,
            // Only the first cluster's files may be on this machine.
            forks: self.forks.as_ref().filter(|_| self.front == ClusterId::HOME),
            stores: &self.stores,
            theme: &self.theme,
            catalogue: &self.catalogue,
            bindings: &self.bindings,
            extensions: &self.extensions,
            links: &self.links,
            journal: &self.journal,
            sorts: &self.sorts,
            scope: &self.scope,
            favourites: &self.favourites,
            read_only: self.read_only,
            focused: true,
            now,
            anchors: &self.anchors,
            wake: &self.wake,
        }
    }

    /// The same on the cluster of a screen.
    pub(crate) fn context_of(&self, screen: ScreenId, now: Timestamp) -> Context<'_> {
        let front = self.context(now);
        // A cluster stays while a screen looks at it.
        front.on(screen.cluster()).unwrap_or(front)
    }

    /// What the user calls a cluster.
    pub(crate) fn cluster_name(&self, cluster: ClusterId) -> &str {
        self.clusters().get(cluster).map_or("", |cluster| cluster.name)
    }

    /// Whether more than one cluster is looked at.
    pub(crate) fn has_several(&self) -> bool {
        self.away.values().any(|cluster| cluster.reach != Reach::Resting)
    }
}

impl Job {
    /// The job of that cluster, where it is one of a cluster's and not said to be of another already.
    fn on(self, cluster: ClusterId) -> Self {
        match self {
            Self::Start(_)
            | Self::Cancel(..)
            | Self::Act(_)
            | Self::Run(_)
            | Self::ReadJournal(_)
            | Self::Watch(..)
            | Self::Unwatch(_)
            | Self::MeasurePods(_)
            | Self::Join(_)
            | Self::Attach(_)
            | Self::Need(_)
            | Self::Rest => Self::On(cluster, Box::new(self)),
            other => other,
        }
    }
}

impl Model {
    /// Does something with a cluster in the place of the one in front; nothing where it is not looked at.
    pub(crate) fn within<T>(&mut self, cluster: ClusterId, what: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let before = self.shared.front;
        if before == cluster {
            return Some(what(self));
        }
        if !self.trade_clusters(cluster) {
            return None;
        }
        let done = what(self);
        self.trade_clusters(before);
        Some(done)
    }

    /// The same of what makes jobs: they are that cluster's.
    pub(super) fn in_cluster(
        &mut self,
        cluster: ClusterId,
        what: impl FnOnce(&mut Self) -> Vec<Job>,
    ) -> Vec<Job> {
        if self.shared.front == cluster {
            return what(self);
        }
        let jobs = self.within(cluster, what).unwrap_or_default();
        jobs.into_iter().map(|job| job.on(cluster)).collect()
    }

    fn trade_clusters(&mut self, cluster: ClusterId) -> bool {
        let Some(mut other) = self.shared.away.remove(&cluster) else { return false };
        let mut behind = self.behind.remove(&cluster).unwrap_or_default();
        let shared = &mut self.shared;
        swap(&mut shared.name, &mut other.name);
        swap(&mut shared.origin, &mut other.origin);
        swap(&mut shared.reach, &mut other.reach);
        swap(&mut shared.stores, &mut other.stores);
        swap(&mut shared.catalogue, &mut other.catalogue);
        swap(&mut shared.links, &mut other.links);
        swap(&mut shared.journal, &mut other.journal);
        swap(&mut shared.favourites, &mut other.favourites);
        swap(&mut self.watched, &mut behind.watched);
        swap(&mut self.needs, &mut behind.needs);
        swap(&mut self.cluster, &mut behind.cluster);
        swap(&mut self.early_lines, &mut behind.early_lines);
        swap(&mut self.measures_pods, &mut behind.measures_pods);
        swap(&mut self.identity, &mut behind.identity);
        let before = std::mem::replace(&mut shared.front, cluster);
        shared.away.insert(before, other);
        self.behind.insert(before, behind);
        true
    }

    /// Which cluster the one is that the console is on, once that is known.
    pub(super) fn home_uid(&self) -> Option<Uid> {
        match self.shared.front {
            ClusterId::HOME => self.cluster.clone(),
            _ => self.behind.get(&ClusterId::HOME)?.cluster.clone(),
        }
    }

    /// The cluster that what is typed is meant for: that of the top screen, and of its selected row where the rows are of
    /// several.
    pub(crate) fn place(&self, now: Timestamp) -> ClusterId {
        let (id, screen) = self.top();
        screen.cluster_of_selected().unwrap_or_else(|| self.shared.context_of(*id, now).cluster)
    }

    /// The top screen, acting on the cluster in front.
    pub(super) fn here(&self) -> ScreenId {
        self.top().0.on(self.shared.front)
    }

    /// Whether a name of a context means the cluster that the console is on.
    pub(crate) fn is_home(&self, name: &str) -> bool {
        name == "-" || name == self.setup.cluster || self.setup.context.as_deref() == Some(name)
    }

    /// The clusters of these contexts, in their order, each once; those that are not looked at yet are joined as soon as a
    /// screen shows them. How many there was no room for comes with it.
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
        if self.shared.name == name {
            return Some(self.shared.front);
        }
        self.make_room(taken);
        // The one in front is not among those away.
        let joined = self.shared.away.keys().filter(|id| **id != ClusterId::HOME).count()
            + usize::from(self.shared.front != ClusterId::HOME);
        if joined >= MOST {
            return None;
        }
        self.next_cluster += 1;
        let id = ClusterId::joined(self.next_cluster);
        let cluster = Cluster { name: name.to_owned(), links: Links::default(), ..Cluster::default() };
        self.shared.away.insert(id, cluster);
        // Programs must not meet another cluster because the file could not be read.
        let identity = Identity { context: name.to_owned(), ..Identity::default() };
        self.behind.insert(id, Behind { identity, ..Behind::default() });
        Some(id)
    }

    /// Forgets clusters that no screen looks at or is about to, where a new one may need the room of one of them.
    fn make_room(&mut self, taken: &[ClusterId]) {
        if self.shared.away.len() < MOST {
            return;
        }
        let ids = self.shared.away.keys().copied().filter(|id| *id != ClusterId::HOME);
        let left: Vec<ClusterId> = ids.filter(|id| !taken.contains(id) && !self.is_looked_at(*id)).collect();
        for id in left {
            self.shared.away.remove(&id);
            self.behind.remove(&id);
            self.left.push(id);
        }
    }

    /// Opens a table over the clusters of these contexts.
    pub(super) fn open_over(&mut self, contexts: &[String], route: TableRoute, now: Timestamp) -> Vec<Job> {
        let (over, left_out) = self.clusters_of(contexts);
        if over.is_empty() {
            self.toast(Toast::failed("no context is left to look at"), now);
            return Vec::new();
        }
        if left_out > 0 {
            let text = format!(
                "{} contexts are shown, as many as there can be at once; {left_out} are left out",
                over.len()
            );
            self.toast(Toast::warning(text), now);
        }
        let table: Screen = crate::effect::Route::from(TableRoute { over, ..route }).into();
        // The table itself is of the cluster that the console is on: what it asks for its rows it asks by cluster.
        self.in_cluster(ClusterId::HOME, |model| model.open(table, now))
    }

    /// Tells the screens in sight of changes in the cluster in front.
    pub(super) fn tell_of_changes(
        &mut self,
        resource: &ResourceKey,
        touched: &Touched,
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

    /// Tells the tables in sight that the cluster in front, of which they show rows, has told of its kinds.
    pub(super) fn tell_tables_over_it(&mut self, now: Timestamp) -> Vec<Job> {
        let cluster = self.shared.front;
        let is = |(id, screen): &&(ScreenId, Screen)| match (screen.over(), screen) {
            (Some(over), _) => over.contains(&cluster),
            // Which of its kinds the server has is told by the catalogue.
            (None, Screen::Table(table)) => id.cluster() == cluster && workloads::is(&table.kind().resource),
            (None, _) => false,
        };
        let seen = [Some(self.top()), self.other_top()];
        let ids: Vec<ScreenId> = seen.into_iter().flatten().filter(is).map(|(id, _)| *id).collect();
        ids.into_iter().flat_map(|id| self.deliver(id, now, ScreenMessage::Extended)).collect()
    }

    /// What was done, with the name of the cluster in front where there are others.
    pub(super) fn placed(&self, title: &str) -> String {
        if self.shared.has_several() {
            format!("{title} on {}", clean(&self.shared.name))
        } else {
            title.to_owned()
        }
    }

    /// The kubectl command of an action in the cluster in front, said to be for that.
    pub(super) fn name_context(&self, action: &mut Action) {
        if self.shared.front == ClusterId::HOME {
            return;
        }
        if let Some(rest) = action.kubectl.strip_prefix("kubectl ") {
            action.kubectl = format!("kubectl --context {} {rest}", in_shell(&self.shared.name));
        }
    }

    /// Whether something that comes late of the cluster in front is still asked for.
    pub(super) fn is_asked_for(&self, resource: &ResourceKey) -> bool {
        let always = self.shared.front == ClusterId::HOME && builtin::contains(resource);
        always || self.needs.contains(resource) || self.watched.contains_key(resource)
    }
}

/// A name as a shell takes it for one word.
fn in_shell(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/' | '@' | '+');
    if !name.is_empty() && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// Whether a screen shows something of a cluster.
pub(super) fn shows(id: ScreenId, screen: &Screen, cluster: ClusterId) -> bool {
    match screen.over() {
        Some(over) => over.contains(&cluster),
        None => id.cluster() == cluster,
    }
}
