//! The target of an autoscaler: any object with a scale.

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;

use api::Api;
use object::selector::{Selector, SelectorError};
use object::{Key, Kind, SharedObject, parse_api_version};

/// Returns the target and its scale, or the reason why there is none.
pub(super) fn scale_of(
    api: &Api,
    autoscaler: &SharedObject<HorizontalPodAutoscaler>,
) -> Result<(Kind, Scale), String> {
    let reference = &autoscaler.spec.scale_target_ref;
    let version = reference.api_version.as_deref().unwrap_or_default();
    let (group, _) = parse_api_version(version)?;
    // The reference's version does not matter.
    let Some(kind) = api.kinds().in_group(group, &reference.kind) else {
        return Err(format!("no matches for kind \"{}\" in group \"{group}\"", reference.kind));
    };
    let key = Key::new(autoscaler.namespace(), reference.name.as_str());
    api.scale(kind, &key).map(|scale| (kind, scale)).map_err(|error| error.to_string())
}

/// Returns the selector of a scale's pods.
pub(super) fn selector_of(scale: &Scale) -> Result<Selector, SelectorError> {
    Selector::parse(scale.status.as_ref().and_then(|s| s.selector.as_deref()).unwrap_or_default())
}

/// Returns the autoscalers with one of these pods in their targets.
pub(super) fn rivals(
    api: &Api,
    all: &[SharedObject<HorizontalPodAutoscaler>],
    pods: &[SharedObject<Pod>],
) -> Vec<Key> {
    let has_one = |autoscaler: &&SharedObject<HorizontalPodAutoscaler>| {
        let selector = scale_of(api, autoscaler).ok().and_then(|(_, scale)| selector_of(&scale).ok());
        let selector = selector.filter(|selector| !selector.is_everything());
        selector.is_some_and(|s| pods.iter().any(|pod| s.matches(pod.metadata.labels.as_ref())))
    };
    all.iter().filter(has_one).map(SharedObject::key).collect()
}
