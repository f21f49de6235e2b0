//! PodPreset: a new pod gets the environment, volumes and mounts of the presets that select it (PP-1).
//!
//! Either all matching presets are merged or none: if two entries with the same name differ, the pod is created
//! unchanged and an event has the reason.

mod merge;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Request;
use crate::generated_name::generated_name;
use crate::{Api, ApiError};
use base::quote::printable;
use object::pod_preset::PodPreset;
use object::selector::Selector;
use object::well_known::annotation;
use object::{Object, SharedObject};

const PREFIX: &str = "podpreset.admission.kubernetes.io";
const COMPONENT: &str = "podpreset-admission";

#[expect(clippy::unnecessary_wraps, reason = "the shape of every admission plugin")]
pub(super) fn admit(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    let namespace = object.namespace().to_string();
    let Some(pod) = object.get_mut::<Pod>() else { return Ok(()) };
    if is_excluded(&pod.metadata) {
        return Ok(());
    }
    let mut presets = request.api.list_as::<PodPreset>(Some(&namespace));
    presets
        .retain(|preset| Selector::from_field(&preset.spec.selector).matches(pod.metadata.labels.as_ref()));
    if presets.is_empty() {
        return Ok(());
    }
    match merge::merged(pod, &presets) {
        Ok(mut merged) => {
            let annotations = merged.metadata.annotations.get_or_insert_default();
            for preset in &presets {
                let version = preset.object().revision().to_string();
                annotations.insert(format!("{PREFIX}/podpreset-{}", preset.name()), version);
            }
            *pod = merged;
        }
        Err(conflict) => {
            let names: Vec<_> = presets.iter().map(SharedObject::name).collect();
            let message = format!(
                "conflict occurred while applying podpresets: {} on pod: {conflict}",
                names.join(",")
            );
            request.events.push(warning(request.api, &pod.metadata, &message));
        }
    }
    Ok(())
}

/// Returns true for mirror pods, which must equal their node's manifest, and for pods that opt out.
fn is_excluded(meta: &ObjectMeta) -> bool {
    let Some(annotations) = &meta.annotations else { return false };
    let excluded = annotations.get(&format!("{PREFIX}/exclude")).is_some_and(|text| text == "true");
    excluded || annotations.contains_key(annotation::MIRROR_POD)
}

fn warning(api: &Api, pod: &ObjectMeta, message: &str) -> Event {
    let time = api.server_clock().time();
    let name = generated_name(&format!("{}.", pod.name.clone().unwrap_or_default()));
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: pod.namespace.clone(), ..ObjectMeta::default() },
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            uid: pod.uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some("Warning".into()),
        reason: Some("PodPresetConflict".into()),
        message: Some(printable(message).into_owned()),
        count: Some(1),
        first_timestamp: Some(time.clone()),
        last_timestamp: Some(time),
        source: Some(EventSource { component: Some(COMPONENT.into()), host: None }),
        reporting_component: Some(COMPONENT.into()),
        ..Event::default()
    }
}
