//! The order of discovery: groups and versions by the priorities of their APIServices, local and aggregated
//! ones together. Clients resolve a short name to the first group that has it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::group_versions::{ServedGroupVersion, age};
use api::aggregation::{ApiServices, DiscoveryResult, GroupVersion};
use base::sort::SliceOrder;

/// A group and version in the order of discovery.
pub(crate) struct GroupVersionEntry<'a> {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) source: Source<'a>,
}

/// The server of a group and version.
pub(crate) enum Source<'a> {
    /// This server.
    Local(&'a ServedGroupVersion),
    /// An extension API server.
    Aggregated {
        /// Its discovery.
        discovered: Arc<DiscoveryResult>,
        /// The discovery is from the last probe, and the server is available.
        is_current: bool,
    },
}

impl GroupVersionEntry<'_> {
    pub(crate) fn is_core(&self) -> bool {
        self.group.is_empty()
    }

    /// Returns `apps/v1`; `v1` for the core group.
    pub(crate) fn group_version(&self) -> String {
        if self.is_core() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the path prefix, without the leading slash: `apis/apps/v1`.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", if self.is_core() { "api" } else { "apis" }, self.group_version())
    }
}

/// Returns all local and aggregated groups and versions in Kubernetes' order: groups by priority (the highest
/// of a group's versions counts), then by name; the versions of a group by priority, then by stability and
/// age.
pub(crate) fn listed<'a>(
    services: &ApiServices,
    served: &'a [ServedGroupVersion],
) -> Vec<GroupVersionEntry<'a>> {
    let here =
        served.iter().map(|served| (GroupVersion::new(served.group, served.version), Source::Local(served)));
    let aggregated = services.remote().into_iter().filter_map(|(of, service)| {
        let discovered = service.remote?.discovery();
        let is_current = service.is_available && discovered.is_current;
        Some((of, Source::Aggregated { discovered, is_current }))
    });
    let here = here.filter(|(of, _)| !services.is_remote(of));
    let mut all: Vec<_> =
        here.chain(aggregated).map(|(of, source)| (services.priorities(&of), of, source)).collect();
    let mut groups: HashMap<String, i32> = HashMap::new();
    for (priorities, of, _) in &all {
        let most = groups.entry(of.group.clone()).or_insert(priorities.group);
        *most = priorities.group.max(*most);
    }
    all.order_by_cached_key(|(priorities, of, _)| {
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
        GroupVersionEntry { group, version, source }
    };
    all.into_iter().map(listed).collect()
}
