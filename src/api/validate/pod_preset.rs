//! Rules of pod presets.

use crate::object::pod_preset::PodPreset;

use super::field::{FieldErrors, Path};
use super::{environment, selector, volumes};

pub(super) fn preset(errors: &mut FieldErrors, preset: &PodPreset) {
    let path = Path::root("spec");
    let spec = &preset.spec;
    selector::label_selector(errors, &path.child("selector"), &spec.selector);
    let list = spec.volumes.as_deref().unwrap_or_default();
    let env = spec.env.as_deref().unwrap_or_default();
    let env_from = spec.env_from.as_deref().unwrap_or_default();
    let mounts = spec.volume_mounts.as_deref().unwrap_or_default();
    if list.is_empty() && env.is_empty() && env_from.is_empty() && mounts.is_empty() {
        errors.required(&path.child("volumes, env, envFrom, volumeMounts"), "must specify at least one");
    }
    volumes::volumes(errors, &path.child("volumes"), list);
    environment::variables(errors, &path.child("env"), env);
    environment::sources(errors, &path.child("envFrom"), env_from);
    // The volumes that are mounted may be the pod's own.
    let named = mounts.iter().map(|mount| mount.name.as_str()).collect();
    volumes::mounts(errors, &path.child("volumeMounts"), mounts, &named);
}
