//! The APIServices of locally served groups: one for each group and version, as Kubernetes registers them, so
//! that `kubectl get apiservices` lists all.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec};

use super::{GroupVersion, Priorities};
use crate::Api;
use crate::served_kinds::Kinds;
use base::sort::CollectMap;
use kinds::{ANSWERED_ONLY, is_built_in};

/// The label of APIServices that are created and deleted automatically.
pub const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The value of the label [`AUTOMANAGED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutomanagedLabel {
    /// The APIService belongs to a CustomResourceDefinition; it is restored whenever it differs.
    Always,
    /// The APIService belongs to a built-in group; it is restored only at the start.
    OnStart,
}

impl AutomanagedLabel {
    /// Returns the label's value.
    pub fn label(self) -> &'static str {
        match self {
            Self::Always => "true",
            Self::OnStart => "onstart",
        }
    }

    /// Reads the labels of an object; `None` if it is not managed automatically.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let value = metadata.labels.as_ref()?.get(AUTOMANAGED)?;
        [Self::Always, Self::OnStart].into_iter().find(|one| one.label() == value)
    }
}

/// The group and version of the built-in metrics API. It is served here only as long as no APIService names
/// another server, because a metrics server may replace it.
const METRICS: (&str, &str) = ("metrics.k8s.io", "v1beta1");
/// The aggregator's own group, which has no APIService.
const OWN_GROUP: &str = "apiregistration.k8s.io";

/// Priorities of groups; Kubernetes' table (`kube-aggregator`, `APIVersionPriorities`).
const GROUPS: [(&str, i32); 25] = [
    ("", 18_000),
    (OWN_GROUP, 17_900),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("apiextensions.k8s.io", 16_700),
    ("admissionregistration.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    ("resource.k8s.io", 15_900),
    ("podium.dev", 100),
    (METRICS.0, 100),
    // The kinds of this group are in other groups too, and clients resolve a short name to the first group
    // that has it.
    ("extensions", 1),
    ("settings.k8s.io", 2),
];

/// Priorities of groups from definitions; Kubernetes' numbers.
const DEFINED: Priorities = Priorities { group: 1_000, version: 100 };

/// Returns the priorities of a group and version without a stored APIService.
pub(crate) fn priorities(of: &GroupVersion) -> Priorities {
    let Some((_, group)) = GROUPS.iter().find(|(group, _)| *group == of.group) else { return DEFINED };
    let version = match of.version.as_str() {
        "v1" if of.group.is_empty() => 1,
        "v2" => 30,
        "v1" => 15,
        version if version.contains("beta") => 9,
        _ => 1,
    };
    Priorities { group: *group, version }
}

/// Returns true if the group and version is built in and no other server may serve it.
pub(crate) fn has_built_in(of: &GroupVersion) -> bool {
    is_built_in(&of.group, &of.version)
}

/// Returns all groups and versions that have an APIService of their own.
fn registered(kinds: &Kinds) -> BTreeSet<(&'static str, &'static str)> {
    let stored = kinds.served().map(|resource| (resource.served.group(), resource.served.version()));
    let all = stored.chain(ANSWERED_ONLY).chain([METRICS]);
    all.filter(|(group, _)| *group != OWN_GROUP).collect()
}

impl Api {
    /// Returns the names of the APIServices of all locally served groups.
    pub fn local_api_services(&self) -> Vec<String> {
        let kinds = self.kinds();
        registered(&kinds).iter().map(|(group, version)| format!("{version}.{group}")).collect()
    }

    /// Returns the desired APIService of this name, if it is of a locally served group.
    pub fn local_api_service(&self, name: &str) -> Option<APIService> {
        let of = GroupVersion::of_name(name);
        let key = (of.group.as_str(), of.version.as_str());
        let managed = if has_built_in(&of) && of.group != OWN_GROUP {
            Some(AutomanagedLabel::OnStart)
        } else if key == METRICS {
            // The installation of a metrics server overwrites this APIService, and that version must not be
            // reverted.
            None
        } else if self.kinds().served().any(|resource| {
            let served = resource.served;
            served.kind().is_custom() && (served.group(), served.version()) == key
        }) {
            Some(AutomanagedLabel::Always)
        } else {
            return None;
        };
        let priorities = priorities(&of);
        let labels =
            managed.map(|managed| [(AUTOMANAGED.to_string(), managed.label().to_string())].collect_map());
        Some(APIService {
            metadata: ObjectMeta { name: Some(name.into()), labels, ..ObjectMeta::default() },
            spec: Some(APIServiceSpec {
                group: Some(of.group).filter(|group| !group.is_empty()),
                version: Some(of.version),
                group_priority_minimum: priorities.group,
                version_priority: priorities.version,
                ..APIServiceSpec::default()
            }),
            status: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use object::Kind;

    use super::*;

    /// A built-in group without an entry would come after all others.
    #[test]
    fn every_group_that_is_built_in_has_its_place_api_17() {
        for group in Kind::BUILT_IN.iter().map(|kind| kind.info().group) {
            assert!(GROUPS.iter().any(|(known, _)| *known == group), "{group:?}");
        }
    }
}
