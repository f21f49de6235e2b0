//! The clusters that are shown at the same time (CON-16): the front cluster, and those joined for tables over several
//! contexts. Each has its own stores, kinds, links and journal. No map mixes objects of two clusters: names and even
//! uids are equal in both if one is a copy of the other.
//!
//! This module does no I/O; [`ConnectionState`] reports the state of the connection.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::action::refused_credentials;
use super::builtin_kinds;
use super::catalogue::Catalogue;
use super::journal::Journal;
use super::links::{Links, UnavailableReason};
use super::resource::{ClusterId, Kind};
use super::store::Stores;
use super::workloads::{self, Workload};
use console_toolkit::text::{age, seconds_until};

/// The state of the connection to a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConnectionState {
    /// No view shows this cluster; the console sends it no requests.
    #[default]
    Idle,
    /// The console requests the cluster's version for the first time.
    Connecting,
    /// The cluster does not answer, or the context does not exist.
    Silent {
        /// The start of the outage.
        since: Timestamp,
        /// The error.
        reason: String,
        /// The time of the next attempt.
        retry_at: Timestamp,
    },
    /// The cluster has answered; its [`Links`] have the details.
    Reached,
}

/// The state of one cluster.
#[derive(Debug, Default)]
pub struct Cluster {
    /// The name for the user: the context's name.
    pub name: String,
    /// The server's address, once known.
    pub origin: String,
    /// The state of the connection to it.
    pub connection: ConnectionState,
    /// The watched objects.
    pub stores: Stores,
    /// The kinds that it serves.
    pub catalogue: Catalogue,
    /// The freshness of the stores.
    pub links: Links,
    /// The changes made to it from this console.
    pub journal: Journal,
    /// The namespaces on the keys 1 to 9.
    pub favourites: Vec<String>,
}

impl Cluster {
    /// Returns the view that screens read.
    pub fn view(&self, id: ClusterId) -> ClusterView<'_> {
        ClusterView {
            id,
            name: &self.name,
            origin: &self.origin,
            reach: &self.connection,
            stores: &self.stores,
            catalogue: &self.catalogue,
            links: &self.links,
            journal: &self.journal,
            favourites: &self.favourites,
        }
    }
}

/// One cluster, as screens read it.
#[derive(Clone, Copy, Debug)]
pub struct ClusterView<'a> {
    /// The id.
    pub id: ClusterId,
    /// The name for the user.
    pub name: &'a str,
    /// The server's address.
    pub origin: &'a str,
    /// The state of the connection to it.
    pub reach: &'a ConnectionState,
    /// The watched objects.
    pub stores: &'a Stores,
    /// The kinds that it serves.
    pub catalogue: &'a Catalogue,
    /// The freshness of the stores.
    pub links: &'a Links,
    /// The changes made to it from this console.
    pub journal: &'a Journal,
    /// The namespaces on the keys 1 to 9.
    pub favourites: &'a [String],
}

/// The freshness of the rows of one kind in one cluster (CON-18).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The watch is up to date.
    Live,
    /// The list has not arrived yet.
    CatchingUp,
    /// The server has not answered since this time; the rows are as old as that.
    Silent(Timestamp),
    /// The server forbids the user to list or watch the kind.
    NotAllowed,
    /// The cluster does not serve the kind.
    Absent,
}

impl Freshness {
    /// Returns a glyph that carries the meaning without colour.
    pub fn glyph(&self) -> &'static str {
        match self {
            Self::Live => "●",
            Self::CatchingUp => "◐",
            Self::Silent(_) => "✖",
            Self::NotAllowed | Self::Absent => "○",
        }
    }
}

impl ClusterView<'_> {
    /// Returns the kind as this cluster serves it, possibly in another version; the given kind if discovery has not
    /// answered or does not list it.
    pub fn kind(&self, kind: &Kind) -> Kind {
        self.find_served(kind).unwrap_or(kind).clone()
    }

    fn find_served(&self, kind: &Kind) -> Option<&Kind> {
        let kinds = self.catalogue.kinds();
        let same = |known: &&Kind| {
            known.resource.group == kind.resource.group && known.resource.plural == kind.resource.plural
        };
        kinds.iter().find(|known| known.resource == kind.resource).or_else(|| kinds.iter().find(same))
    }

    /// Returns the kinds that provide the rows of a table of this kind: the kind itself, or all workload kinds.
    pub fn kinds_of(&self, kind: &Kind) -> Vec<Kind> {
        if workloads::is(&kind.resource) {
            return Workload::ALL.iter().map(|one| self.kind(&one.kind())).collect();
        }
        vec![self.kind(kind)]
    }

    /// Reports whether every kind of the table that can be listed has been listed.
    pub fn is_loaded(&self, kind: &Kind) -> bool {
        self.kinds_of(kind).iter().all(|kind| self.freshness(kind) != Freshness::CatchingUp)
    }

    /// Returns the worst freshness of several kinds.
    fn freshness_of_all(&self, kinds: &[Kind]) -> Freshness {
        let all: Vec<Freshness> = kinds.iter().map(|kind| self.freshness(kind)).collect();
        let silent = all.iter().filter_map(|one| match one {
            Freshness::Silent(since) => Some(*since),
            _ => None,
        });
        if let Some(since) = silent.min() {
            return Freshness::Silent(since);
        }
        let any = |fresh: Freshness| all.contains(&fresh).then_some(fresh);
        any(Freshness::CatchingUp)
            .or_else(|| any(Freshness::Live))
            .or_else(|| any(Freshness::NotAllowed))
            .unwrap_or(Freshness::Absent)
    }

    /// Reports whether discovery has answered without this kind.
    pub fn lacks(&self, kind: &Kind) -> bool {
        if workloads::is(&kind.resource) {
            return self.kinds_of(kind).iter().all(|kind| self.lacks(kind));
        }
        self.catalogue.discovered
            && !builtin_kinds::contains(&kind.resource)
            && self.find_served(kind).is_none()
    }

    /// Returns the freshness of the objects of a kind, with the state of the connection.
    pub fn freshness(&self, kind: &Kind) -> Freshness {
        match self.reach {
            ConnectionState::Idle | ConnectionState::Connecting => return Freshness::CatchingUp,
            ConnectionState::Silent { since, .. } => return Freshness::Silent(*since),
            ConnectionState::Reached => {}
        }
        if workloads::is(&kind.resource) {
            return self.freshness_of_all(&self.kinds_of(kind));
        }
        if self.lacks(kind) {
            return Freshness::Absent;
        }
        let kind = self.kind(kind);
        match self.links.refused(&kind.resource) {
            Some(UnavailableReason::NotAllowed(_)) => return Freshness::NotAllowed,
            Some(UnavailableReason::Absent) => return Freshness::Absent,
            None => {}
        }
        match self.links.down(&kind.resource) {
            Some(since) => Freshness::Silent(since),
            None if self.stores.synced(&kind.resource) => Freshness::Live,
            None => Freshness::CatchingUp,
        }
    }

    /// Returns a few words on an outage of the kind since this time.
    pub fn outage_label(&self, kind: &Kind, since: Timestamp, now: Timestamp) -> String {
        match self.unavailable_reason(kind).as_deref().and_then(refused_credentials) {
            Some(_) => "credentials refused".to_owned(),
            None => format!("no answer for {}", age(seconds_until(since, now))),
        }
    }

    /// Returns the error that keeps the kind from being live, if there is one.
    pub fn unavailable_reason(&self, kind: &Kind) -> Option<String> {
        if let ConnectionState::Silent { reason: why, .. } = self.reach {
            return Some(why.clone());
        }
        if workloads::is(&kind.resource) {
            return self.kinds_of(kind).iter().find_map(|kind| self.unavailable_reason(kind));
        }
        let kind = self.kind(kind);
        match self.links.refused(&kind.resource) {
            Some(UnavailableReason::NotAllowed(why)) => Some(why.clone()),
            Some(UnavailableReason::Absent) => None,
            None => self.links.outage_reason(&kind.resource).map(str::to_owned),
        }
    }
}

/// All clusters that are shown.
#[derive(Clone, Copy, Debug)]
pub struct Clusters<'a> {
    /// The front cluster; its state is in the model's own fields.
    pub front: ClusterView<'a>,
    /// The other clusters.
    pub others: &'a BTreeMap<ClusterId, Cluster>,
}

impl<'a> Clusters<'a> {
    /// Returns a cluster; `None` if it is not shown.
    pub fn get(&self, id: ClusterId) -> Option<ClusterView<'a>> {
        if id == self.front.id {
            return Some(self.front);
        }
        self.others.get(&id).map(|cluster| cluster.view(id))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::links::Link;
    use crate::resource::{KindFacts, ResourceKey};
    use crate::store::{Change, Delta};

    fn widgets(version: &'static str) -> Kind {
        let resource =
            ResourceKey { group: "x.io".into(), version: version.into(), plural: "widgets".into() };
        Kind::new(KindFacts {
            resource,
            kind: "Widget".to_owned(),
            singular: "widget".to_owned(),
            namespaced: true,
            short_names: Vec::new(),
            verbs: ["list".to_owned()].into(),
            subresources: BTreeMap::new(),
        })
    }

    #[test]
    fn the_freshness_of_a_cluster_follows_its_connection_con_18() {
        let id = ClusterId::joined(1);
        let pods = builtin_kinds::kind::<Pod>();
        let at: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
        let mut cluster = Cluster { links: Links::new(vec![pods.resource.clone()]), ..Cluster::default() };
        let fresh = |cluster: &Cluster, kind: &Kind| cluster.view(id).freshness(kind);
        assert_eq!(fresh(&cluster, &pods), Freshness::CatchingUp);
        cluster.connection =
            ConnectionState::Silent { since: at, reason: "no route".to_owned(), retry_at: at };
        assert_eq!(fresh(&cluster, &pods), Freshness::Silent(at));
        assert_eq!(cluster.view(id).unavailable_reason(&pods).as_deref(), Some("no route"));
        cluster.connection = ConnectionState::Reached;
        assert_eq!(fresh(&cluster, &pods), Freshness::CatchingUp, "its list is not there");
        cluster.stores.apply(Delta::of::<Pod>(vec![Change::Reset(Vec::new())]));
        assert_eq!(fresh(&cluster, &pods), Freshness::Live);
        let resource = pods.resource.clone();
        cluster.links.take(Link::Down { resource, reason: "reset".to_owned(), retry_at: at }, at);
        assert_eq!(fresh(&cluster, &pods), Freshness::Silent(at));
        assert_eq!(cluster.view(id).unavailable_reason(&pods).as_deref(), Some("reset"));
        let refused =
            Link::Refused(pods.resource.clone(), UnavailableReason::NotAllowed("access denied".to_owned()));
        cluster.links.take(refused, at);
        assert_eq!(fresh(&cluster, &pods), Freshness::NotAllowed);
        assert_eq!(cluster.view(id).unavailable_reason(&pods).as_deref(), Some("access denied"));
        // Before discovery it is unknown; afterwards it is absent, or served in another version.
        assert_eq!(fresh(&cluster, &widgets("v1")), Freshness::CatchingUp);
        cluster.catalogue = Catalogue::of(builtin_kinds::kinds());
        assert_eq!(fresh(&cluster, &widgets("v1")), Freshness::Absent);
        cluster.catalogue = Catalogue::of(vec![widgets("v1beta1")]);
        assert_eq!(fresh(&cluster, &widgets("v1")), Freshness::CatchingUp);
        assert_eq!(cluster.view(id).kind(&widgets("v1")), widgets("v1beta1"));
    }
}
