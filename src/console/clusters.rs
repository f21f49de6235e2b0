//! The clusters that are looked at at once (CON-16): the one that the console is on, and those that were joined for tables
//! over several contexts. Each has its own copy of its objects, its own kinds, links and journal: nothing of two clusters
//! is ever kept under one name, which may be the same in both, uid and all, where one is a copy of the other.
//!
//! Nothing here does I/O; who connects is told by [`Reach`].

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::builtin;
use super::catalogue::Catalogue;
use super::journal::Journal;
use super::links::{Links, Refusal};
use super::resource::{ClusterId, Kind};
use super::store::Stores;
use super::workloads::{self, Workload};

/// How far it has come that a cluster is asked at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Nothing of it is shown: it is not asked.
    #[default]
    Resting,
    /// It is asked for its version for the first time.
    Asked,
    /// It does not answer, or there is no such context.
    Silent {
        /// Since when.
        since: Timestamp,
        /// Why.
        why: String,
        /// When it is asked again.
        retry_at: Timestamp,
    },
    /// It has answered; its [`Links`] tell the rest.
    Reached,
}

/// What is known of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    /// What the user calls it: the context's name.
    pub(crate) name: String,
    /// How it is reached, once that is known.
    pub(crate) origin: String,
    /// Whether it answers at all.
    pub(crate) reach: Reach,
    /// The live copy of it.
    pub(crate) stores: Stores,
    /// Its kinds.
    pub(crate) catalogue: Catalogue,
    /// How fresh that copy is.
    pub(crate) links: Links,
    /// What was changed in it from here.
    pub(crate) journal: Journal,
    /// Its namespaces of the keys 1 to 9.
    pub(crate) favourites: Vec<String>,
}

impl Cluster {
    /// It as a screen reads it.
    pub(crate) fn view(&self, id: ClusterId) -> ClusterView<'_> {
        ClusterView {
            id,
            name: &self.name,
            origin: &self.origin,
            reach: &self.reach,
            stores: &self.stores,
            catalogue: &self.catalogue,
            links: &self.links,
            journal: &self.journal,
            favourites: &self.favourites,
        }
    }
}

/// One cluster as a screen reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterView<'a> {
    /// Which.
    pub(crate) id: ClusterId,
    /// What the user calls it.
    pub(crate) name: &'a str,
    /// How it is reached.
    pub(crate) origin: &'a str,
    /// Whether it answers at all.
    pub(crate) reach: &'a Reach,
    /// The live copy of it.
    pub(crate) stores: &'a Stores,
    /// Its kinds.
    pub(crate) catalogue: &'a Catalogue,
    /// How fresh that copy is.
    pub(crate) links: &'a Links,
    /// What was changed in it.
    pub(crate) journal: &'a Journal,
    /// Its namespaces of the keys 1 to 9.
    pub(crate) favourites: &'a [String],
}

/// How fresh what is shown of a kind of a cluster is (CON-18).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// It follows.
    Live,
    /// Its list is on its way.
    CatchingUp,
    /// It has not answered since then; what was known until then is shown.
    Silent(Timestamp),
    /// Not allowed.
    NotAllowed,
    /// It has no such kind.
    Absent,
}

impl Freshness {
    /// A sign, which says as much without colour as with it.
    pub(crate) fn glyph(&self) -> &'static str {
        match self {
            Self::Live => "●",
            Self::CatchingUp => "◐",
            Self::Silent(_) => "✖",
            Self::NotAllowed | Self::Absent => "○",
        }
    }
}

impl ClusterView<'_> {
    /// A kind as it is here; as it is elsewhere where nothing is known yet, or where it is not served. Another cluster may
    /// serve it in another version.
    pub(crate) fn kind(&self, kind: &Kind) -> Kind {
        self.known(kind).unwrap_or(kind).clone()
    }

    fn known(&self, kind: &Kind) -> Option<&Kind> {
        let kinds = self.catalogue.kinds();
        let same = |known: &&Kind| {
            known.resource.group == kind.resource.group && known.resource.plural == kind.resource.plural
        };
        kinds.iter().find(|known| known.resource == kind.resource).or_else(|| kinds.iter().find(same))
    }

    /// The kinds of the rows of a table of a kind, as they are here: the kind itself, or those of all workloads.
    pub(crate) fn kinds_of(&self, kind: &Kind) -> Vec<Kind> {
        if workloads::is(&kind.resource) {
            return Workload::ALL.iter().map(|one| self.kind(&one.kind())).collect();
        }
        vec![self.kind(kind)]
    }

    /// Whether every kind of such a table that gives a list has given it.
    pub(crate) fn is_loaded(&self, kind: &Kind) -> bool {
        self.kinds_of(kind).iter().all(|kind| self.freshness(kind) != Freshness::CatchingUp)
    }

    /// Of several kinds: as old as the oldest of them.
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

    /// Whether it has told of its kinds, and that is none of them.
    pub(crate) fn lacks(&self, kind: &Kind) -> bool {
        if workloads::is(&kind.resource) {
            return self.kinds_of(kind).iter().all(|kind| self.lacks(kind));
        }
        self.catalogue.discovered && !builtin::contains(&kind.resource) && self.known(kind).is_none()
    }

    /// How fresh what is shown of a kind is.
    pub(crate) fn freshness(&self, kind: &Kind) -> Freshness {
        match self.reach {
            Reach::Resting | Reach::Asked => return Freshness::CatchingUp,
            Reach::Silent { since, .. } => return Freshness::Silent(*since),
            Reach::Reached => {}
        }
        if workloads::is(&kind.resource) {
            return self.freshness_of_all(&self.kinds_of(kind));
        }
        if self.lacks(kind) {
            return Freshness::Absent;
        }
        let kind = self.kind(kind);
        match self.links.refused(&kind.resource) {
            Some(Refusal::NotAllowed(_)) => return Freshness::NotAllowed,
            Some(Refusal::Absent) => return Freshness::Absent,
            None => {}
        }
        match self.links.down(&kind.resource) {
            Some(since) => Freshness::Silent(since),
            None if self.stores.synced(&kind.resource) => Freshness::Live,
            None => Freshness::CatchingUp,
        }
    }

    /// Why it is not live, as the server or the way to it says; nothing where nobody has said anything.
    pub(crate) fn why(&self, kind: &Kind) -> Option<String> {
        if let Reach::Silent { why, .. } = self.reach {
            return Some(why.clone());
        }
        if workloads::is(&kind.resource) {
            return self.kinds_of(kind).iter().find_map(|kind| self.why(kind));
        }
        let kind = self.kind(kind);
        match self.links.refused(&kind.resource) {
            Some(Refusal::NotAllowed(why)) => Some(why.clone()),
            Some(Refusal::Absent) => None,
            None => self.links.why_down(&kind.resource).map(str::to_owned),
        }
    }
}

/// All clusters that are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clusters<'a> {
    /// The one in front: whose state the model's own fields hold.
    pub(crate) front: ClusterView<'a>,
    /// The others.
    pub(crate) away: &'a BTreeMap<ClusterId, Cluster>,
}

impl<'a> Clusters<'a> {
    /// One of them.
    pub(crate) fn get(&self, id: ClusterId) -> Option<ClusterView<'a>> {
        if id == self.front.id {
            return Some(self.front);
        }
        self.away.get(&id).map(|cluster| cluster.view(id))
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
    fn how_fresh_a_cluster_is_is_told_step_by_step_con_18() {
        let id = ClusterId::joined(1);
        let pods = builtin::kind::<Pod>();
        let at: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
        let mut cluster = Cluster { links: Links::new(vec![pods.resource.clone()]), ..Cluster::default() };
        let fresh = |cluster: &Cluster, kind: &Kind| cluster.view(id).freshness(kind);
        assert_eq!(fresh(&cluster, &pods), Freshness::CatchingUp);
        cluster.reach = Reach::Silent { since: at, why: "no route".to_owned(), retry_at: at };
        assert_eq!(fresh(&cluster, &pods), Freshness::Silent(at));
        assert_eq!(cluster.view(id).why(&pods).as_deref(), Some("no route"));
        cluster.reach = Reach::Reached;
        assert_eq!(fresh(&cluster, &pods), Freshness::CatchingUp, "its list is not there");
        cluster.stores.apply(Delta::of::<Pod>(vec![Change::Reset(Vec::new())]));
        assert_eq!(fresh(&cluster, &pods), Freshness::Live);
        let resource = pods.resource.clone();
        cluster.links.take(Link::Down { resource, why: "reset".to_owned(), retry_at: at }, at);
        assert_eq!(fresh(&cluster, &pods), Freshness::Silent(at));
        assert_eq!(cluster.view(id).why(&pods).as_deref(), Some("reset"));
        let refused = Link::Refused(pods.resource.clone(), Refusal::NotAllowed("who are you".to_owned()));
        cluster.links.take(refused, at);
        assert_eq!(fresh(&cluster, &pods), Freshness::NotAllowed);
        assert_eq!(cluster.view(id).why(&pods).as_deref(), Some("who are you"));
        // Nobody knows before discovery; then it is absent, or there in another version.
        assert_eq!(fresh(&cluster, &widgets("v1")), Freshness::CatchingUp);
        cluster.catalogue = Catalogue::of(builtin::kinds());
        assert_eq!(fresh(&cluster, &widgets("v1")), Freshness::Absent);
        cluster.catalogue = Catalogue::of(vec![widgets("v1beta1")]);
        assert_eq!(fresh(&cluster, &widgets("v1")), Freshness::CatchingUp);
        assert_eq!(cluster.view(id).kind(&widgets("v1")), widgets("v1beta1"));
    }
}
