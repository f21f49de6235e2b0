//! The identity of a StatefulSet's pod: its name, ordinal, host name, labels and revision.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::history::POD_REVISION_LABEL;
use object::well_known::label::{POD_INDEX, STATEFUL_SET_POD_NAME};

/// Returns the set's name and the ordinal in a pod's name, if a StatefulSet would give that name.
pub(super) fn parse(pod_name: &str) -> Option<(&str, i32)> {
    let (set, number) = pod_name.rsplit_once('-')?;
    let ordinal: i32 = number.parse().ok()?;
    // Refuses signs and leading zeros, so that each ordinal has exactly one name.
    (!set.is_empty() && ordinal.to_string() == number && ordinal >= 0).then_some((set, ordinal))
}

pub(super) fn ordinal_of(set_name: &str, pod_name: &str) -> Option<i32> {
    parse(pod_name).filter(|(set, _)| *set == set_name).map(|(_, ordinal)| ordinal)
}

/// Returns the name of a pod's revision.
pub(super) fn revision_of(pod: &Pod) -> &str {
    let labels = pod.metadata.labels.as_ref();
    labels.and_then(|l| l.get(POD_REVISION_LABEL)).map_or("", String::as_str)
}

/// Returns true if a pod has the labels of this ordinal.
pub(super) fn is_labelled(meta: &ObjectMeta, ordinal: i32) -> bool {
    let label = |key: &str| meta.labels.as_ref().and_then(|l| l.get(key));
    label(STATEFUL_SET_POD_NAME) == meta.name.as_ref() && label(POD_INDEX) == Some(&ordinal.to_string())
}

pub(super) fn label(meta: &mut ObjectMeta, ordinal: i32) {
    let name = meta.name.clone().unwrap_or_default();
    let labels = meta.labels.get_or_insert_default();
    labels.insert(STATEFUL_SET_POD_NAME.into(), name);
    labels.insert(POD_INDEX.into(), ordinal.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_one_set_and_one_ordinal_sts_1() {
        for (name, expected) in [
            ("web-0", Some(0)),
            ("web-12", Some(12)),
            ("web-01", None),
            ("web-+1", None),
            ("web--1", None),
            ("web-", None),
            ("web", None),
            ("web-a", None),
            ("web-1-2", None),
            ("other-1", None),
            ("web-99999999999", None),
        ] {
            assert_eq!(ordinal_of("web", name), expected, "{name}");
        }
        assert_eq!(parse("web-1-2"), Some(("web-1", 2)));
    }
}
