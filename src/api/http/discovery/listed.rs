//! The order of discovery: groups and versions by the priorities of their APIServices, what is served here among what
//! extending servers serve. Clients take a short name for what comes first.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::served::{Served, age};
use crate::aggregation::{ApiServices, Discovered, GroupVersion};

/// A group and version in its place.
pub(in crate::http) struct Listed<'a> {
    pub(in crate::http) group: String,
    pub(in crate::http) version: String,
    pub(in crate::http) source: Source<'a>,
}

/// Who serves it.
pub(in crate::http) enum Source<'a> {
    /// This server.
    Here(&'a Served),
    /// Another one.
    Elsewhere {
        /// What it said that it serves.
        discovered: Arc<Discovered>,
        /// It was said when the server was last asked, and the server answers.
        is_current: bool,
    },
}

impl Listed<'_> {
    pub(in crate::http) fn is_core(&self) -> bool {
        self.group.is_empty()
    }

    /// `apps/v1`; `v1` for the core group.
    pub(in crate::http) fn group_version(&self) -> String {
        if self.is_core() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path below which everything stands, without the first slash: `apis/apps/v1`.
    pub(in crate::http) fn path(&self) -> String {
        format!("{}/{}", if self.is_core() { "api" } else { "apis" }, self.group_version())
    }
}

/// Everything that is served here or elsewhere, as Kubernetes sorts it: the groups of the highest priority first (the
/// highest of a group's versions counts), then by name; of a group the versions of the highest priority, then the most
/// stable and newest ones.
pub(in crate::http) fn listed<'a>(services: &ApiServices, served: &'a [Served]) -> Vec<Listed<'a>> {
    let here =
        served.iter().map(|served| (GroupVersion::new(served.group, served.version), Source::Here(served)));
    let elsewhere = services.remote().into_iter().filter_map(|(of, service)| {
        let discovered = service.remote?.discovered();
        let is_current = service.is_available && discovered.is_current;
        Some((of, Source::Elsewhere { discovered, is_current }))
    });
    let here = here.filter(|(of, _)| !services.is_remote(of));
    let mut all: Vec<_> =
        here.chain(elsewhere).map(|(of, source)| (services.priorities(&of), of, source)).collect();
    let mut groups: HashMap<String, i32> = HashMap::new();
    for (priorities, of, _) in &all {
        let most = groups.entry(of.group.clone()).or_insert(priorities.group);
        *most = priorities.group.max(*most);
    }
    all.sort_by_cached_key(|(priorities, of, _)| {
        (
            !of.group.is_empty(),
            Reverse(groups[&of.group]),
            of.group.clone(),
            Reverse(priorities.version),
            Reverse(age(&of.version)),
            of.version.clone(),
        )
    });
    let listed = |(_, of, source)| {
        let GroupVersion { group, version } = of;
        Listed { group, version, source }
    };
    all.into_iter().map(listed).collect()
}
