//! The clusters follow the display (CON-16): a cluster that a screen shows is joined, only the data shown is requested,
//! and it is released when no screen shows it any more.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};

use super::clusters::shows;
use super::{Job, Model};
use console_data::builtin_kinds;
use console_data::clusters::{Cluster, ConnectionState};
use console_data::context::ScreenId;
use console_data::contexts::{ConnectedCluster, Identity};
use console_data::resource::{ClusterId, ResourceKey};
use console_screens::Screen;
use console_toolkit::text::clean;
use console_toolkit::toast::Toast;
use extension::node_fence::NodeFence;

impl Model {
    /// Reports whether a screen, visible or not, or a dialog concerns a cluster.
    pub(super) fn is_cluster_visible(&self, cluster: ClusterId) -> bool {
        let shows = |(id, screen): &(ScreenId, Screen)| shows(*id, screen, cluster);
        let waits = self.delayed_command.iter().any(|(waited, _)| waited.contains(&cluster));
        waits || self.all_screens().any(shows) || self.open_dialogs().any(|(id, _)| id.cluster() == cluster)
    }

    /// Delays a command until the discovery of these clusters has answered.
    pub(super) fn wait_for_kinds(&mut self, contexts: &[String], text: String, now: Timestamp) {
        let (clusters, _) = self.clusters_of(contexts);
        let names = clean(&contexts.join(", ")).into_owned();
        self.toast(Toast::info(format!("reading the kinds of {names}…")), now);
        self.delayed_command = Some((clusters, text));
    }

    /// Executes the delayed command once each cluster's discovery has answered or failed.
    pub(super) fn run_pending(&mut self, now: Timestamp) -> Vec<Job> {
        let Some((waited, _)) = &self.delayed_command else { return Vec::new() };
        let clusters = self.shared.clusters();
        let is_known = |id: &ClusterId| {
            clusters.get(*id).is_none_or(|cluster| {
                cluster.catalogue.discovered || matches!(cluster.reach, ConnectionState::Silent { .. })
            })
        };
        if !waited.iter().all(is_known) {
            return Vec::new();
        }
        let Some((_, text)) = self.delayed_command.take() else { return Vec::new() };
        if self.dialog.is_some() || self.prompt.is_some() {
            let text = format!("the kinds are known now: type :{} again", clean(&text));
            self.toast(Toast::info(text), now);
            return Vec::new();
        }
        match self.parse_command(&text) {
            Ok(effects) => self.run_prompt_text(&text, effects, now),
            Err(why) => {
                self.toast(Toast::failed(why), now);
                Vec::new()
            }
        }
    }

    /// Handles the answer of a joined cluster.
    pub(super) fn handle_joined(
        &mut self,
        connected: ConnectedCluster,
        identity: Identity,
        now: Timestamp,
    ) -> Vec<Job> {
        if !matches!(
            self.shared.cluster.connection,
            ConnectionState::Connecting | ConnectionState::Silent { .. }
        ) {
            return Vec::new();
        }
        if matches!(self.shared.cluster.connection, ConnectionState::Silent { .. }) {
            let text = format!("{} answers", clean(&self.shared.cluster.name));
            self.toast(Toast::done(text), now);
        }
        self.shared.cluster.connection = ConnectionState::Reached;
        self.shared.cluster.origin.clone_from(&connected.origin);
        self.identity = identity;
        self.dirty = true;
        vec![Job::Attach(Box::new(connected))]
    }

    /// Handles the failure to join a cluster.
    pub(super) fn handle_join_failure(&mut self, reason: String, retry_at: Timestamp, now: Timestamp) {
        let since = match &self.shared.cluster.connection {
            ConnectionState::Silent { since, .. } => *since,
            ConnectionState::Connecting => {
                self.toast(Toast::warning(clean(&reason).into_owned()), now);
                now
            }
            ConnectionState::Idle | ConnectionState::Reached => return,
        };
        self.shared.cluster.connection = ConnectionState::Silent { since, reason, retry_at };
        self.dirty = true;
    }

    /// Joins the clusters that are shown, requests the data shown, and releases the others.
    pub(super) fn join_visible_clusters(&mut self) -> Vec<Job> {
        let ids: Vec<ClusterId> =
            self.shared.away.keys().copied().filter(|id| *id != ClusterId::HOME).collect();
        let left = std::mem::take(&mut self.dropped);
        let mut jobs: Vec<Job> = left.into_iter().map(|id| Job::On(id, Box::new(Job::Release))).collect();
        for id in ids {
            jobs.extend(self.in_cluster(id, Self::join_front_cluster));
        }
        jobs
    }

    fn join_front_cluster(&mut self) -> Vec<Job> {
        let cluster = self.shared.front;
        if !self.is_cluster_visible(cluster) {
            return self.release_front_cluster();
        }
        if self.shared.cluster.connection == ConnectionState::Idle {
            self.shared.cluster.connection = ConnectionState::Connecting;
            return vec![Job::Join(
                Some(self.shared.cluster.name.clone()).filter(|name| *name != self.setup.home.0),
            )];
        }
        if self.shared.cluster.connection != ConnectionState::Reached {
            return Vec::new();
        }
        let mut jobs = Vec::new();
        for resource in self.needed_resources() {
            if self.needs.insert(resource.clone()) {
                self.shared.cluster.links.subscribe(resource.clone());
                jobs.push(Job::Need(resource));
            }
        }
        jobs.extend(self.sync_table_watches());
        jobs.extend(self.poll_metrics());
        jobs
    }

    /// Returns the built-in resources needed from the front cluster: all of them if a screen belongs to it alone, else
    /// those that rows require.
    fn needed_resources(&self) -> BTreeSet<ResourceKey> {
        let cluster = self.shared.front;
        let alone = |(id, screen): &(ScreenId, Screen)| screen.over().is_none() && id.cluster() == cluster;
        let mut needed = BTreeSet::from([ResourceKey::of::<Namespace>()]);
        if self.all_screens().any(alone) || self.open_dialogs().any(|(id, _)| id.cluster() == cluster) {
            needed.extend(builtin_kinds::all_resources());
            return needed;
        }
        for (_, screen) in self.all_screens() {
            let Screen::Table(table) = screen else { continue };
            if screen.over().is_none_or(|over| !over.contains(&cluster)) {
                continue;
            }
            let resource = &table.kind().resource;
            let view = self.shared.clusters().front;
            let rows = view.kinds_of(table.kind()).into_iter().map(|kind| kind.resource.clone());
            needed.extend(rows.filter(builtin_kinds::contains));
            // A node's row has the number of its pods and its fence.
            if *resource == ResourceKey::of::<Node>() {
                needed.extend([ResourceKey::of::<Pod>(), ResourceKey::of::<NodeFence>()]);
            }
        }
        needed
    }

    /// Releases the front cluster because no screen shows it, except for its journal and pending results.
    fn release_front_cluster(&mut self) -> Vec<Job> {
        if self.shared.cluster.connection == ConnectionState::Idle {
            return Vec::new();
        }
        let Cluster { name, origin, journal, .. } = std::mem::take(&mut self.shared.cluster);
        self.shared.cluster = Cluster { name, origin, journal, ..Cluster::default() };
        self.watched.clear();
        self.needs.clear();
        self.measures_pods = false;
        vec![Job::Release]
    }
}
