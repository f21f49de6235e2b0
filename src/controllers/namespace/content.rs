//! The remaining content of a terminating namespace, and the conditions that report it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NamespaceCondition;

use base::clock::time;
use object::Kind;
use object::conditions::{self};

/// The objects left after everything was deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RemainingContent {
    /// Kinds with their number of objects, in the table's order.
    pub(super) objects: Vec<(Kind, usize)>,
    /// Finalizers with the number of objects they hold.
    pub(super) finalizers: Vec<(String, usize)>,
    /// The errors of failed deletions.
    pub(super) failures: Vec<String>,
    /// Some objects have not been deleted yet.
    pub(super) has_undeleted: bool,
}

/// Returns the namespace's conditions, in Kubernetes' order and words; unchanged ones keep their times.
pub(super) fn conditions(
    before: Option<&Vec<NamespaceCondition>>,
    remains: &RemainingContent,
    now: Timestamp,
) -> Vec<NamespaceCondition> {
    let resources = remains.objects.iter().map(|(kind, count)| {
        let info = kind.info();
        format!("{}.{} has {count} resource instances", info.plural, info.group)
    });
    let finalizers =
        remains.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
    let checks = [
        (
            "NamespaceDeletionDiscoveryFailure", None, "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            (!remains.failures.is_empty()).then(|| {
                let message = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    remains.failures.len(),
                    remains.failures.join(", ")
                );
                ("ContentDeletionFailed", message)
            }),
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            (!remains.objects.is_empty()).then(|| {
                let list = resources.collect::<Vec<_>>().join(", ");
                ("SomeResourcesRemain", format!("Some resources are remaining: {list}"))
            }),
            "ContentRemoved",
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            (!remains.finalizers.is_empty()).then(|| {
                let list = finalizers.collect::<Vec<_>>().join(", ");
                (
                    "SomeFinalizersRemain",
                    format!("Some content in the namespace has finalizers remaining: {list}"),
                )
            }),
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ];
    let mut all = before.cloned().unwrap_or_default();
    for (type_, trouble, fine_reason, fine_message) in checks {
        let is_in_trouble = trouble.is_some();
        let (reason, message) = trouble.unwrap_or_else(|| (fine_reason, fine_message.to_string()));
        conditions::set(&mut all, conditions::new(type_, is_in_trouble, reason, message, time(now)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_content_is_reported_in_the_words_of_kubernetes_api_10() {
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let remains = RemainingContent {
            objects: vec![(Kind::Pod, 2), (Kind::Deployment, 1)],
            finalizers: vec![("x/y".into(), 1)],
            failures: Vec::new(),
            has_undeleted: false,
        };
        let actual = conditions(None, &remains, now);
        let of = |n: usize| (actual[n].status.as_str(), actual[n].message.as_deref().unwrap());
        assert_eq!(actual.len(), 5);
        assert_eq!(
            of(3),
            (
                "True",
                "Some resources are remaining: pods. has 2 resource instances, deployments.apps has 1 resource instances"
            )
        );
        assert_eq!(
            of(4),
            ("True", "Some content in the namespace has finalizers remaining: x/y in 1 resource instances")
        );
        let later =
            conditions(Some(&actual), &RemainingContent::default(), "2026-11-21T00:01:00Z".parse().unwrap());
        assert_eq!(later[0], actual[0], "an unchanged condition keeps its time");
        assert_eq!((later[3].status.as_str(), later[3].reason.as_deref()), ("False", Some("ContentRemoved")));
    }
}
