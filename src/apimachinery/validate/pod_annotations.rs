//! Rules of annotations with a meaning on pods and their templates: mirror pods, and seccomp and AppArmor profiles,
//! which are older than the fields for them.

use k8s_openapi::api::core::v1::{AppArmorProfile, PodSpec, SeccompProfile};
use object::selector::Labels;
use object::well_known::annotation::{MIRROR_POD, SECCOMP_POD};

use base::quote::quote;

use super::field::{FieldErrors, Path};
use super::paths;

const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The prefix of annotation values that name a profile of the node.
const LOCALHOST: &str = "localhost/";

/// Validates the annotations at `path` of a pod or template with this spec.
pub fn annotations(errors: &mut FieldErrors, path: &Path<'_>, annotations: Option<&Labels>, spec: &PodSpec) {
    for (key, value) in annotations.into_iter().flatten() {
        if key == MIRROR_POD && spec.node_name.as_deref().unwrap_or_default().is_empty() {
            let detail = "must set spec.nodeName if mirror pod annotation is set";
            errors.invalid(&path.key(key), value, detail);
        }
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            seccomp(errors, &path.child(key), value);
        }
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            if !containers(spec).any(|(_, _, name, ..)| name == container) {
                errors.invalid(&path.key(key), container, "container not found");
            }
            if !matches!(value.as_str(), "" | "runtime/default" | "unconfined")
                && !value.starts_with(LOCALHOST)
            {
                let detail = format!("invalid AppArmor profile name: {}", quote(value));
                errors.invalid(&path.key(key), value, detail);
            }
        }
    }
}

fn seccomp(errors: &mut FieldErrors, path: &Path<'_>, value: &str) {
    match value.strip_prefix(LOCALHOST) {
        Some(profile) => paths::local(errors, path, profile),
        None if matches!(value, "runtime/default" | "docker/default" | "unconfined") => {}
        None => errors.invalid(path, value, "must be a valid seccomp profile"),
    }
}

/// Refuses updates that make a pod the mirror of another static pod or change the profiles of its containers.
pub fn changes(errors: &mut FieldErrors, new: Option<&Labels>, old: Option<&Labels>) {
    let path = Path::root("metadata.annotations");
    let value = |annotations: Option<&Labels>, key: &str| annotations.and_then(|all| all.get(key)).cloned();
    let of = |key: &str| match key {
        MIRROR_POD => Some("mirror pod annotation"),
        key if key.starts_with(APP_ARMOR) => Some("AppArmor annotations"),
        _ => None,
    };
    for key in old.into_iter().flatten().map(|(key, _)| key) {
        if let Some(what) = of(key)
            && value(new, key) != value(old, key)
        {
            errors.forbidden(&path.key(key), format!("may not remove or update {what}"));
        }
    }
    for key in new.into_iter().flatten().map(|(key, _)| key) {
        if let Some(what) = of(key)
            && value(old, key).is_none()
        {
            errors.forbidden(&path.key(key), format!("may not add {what}"));
        }
    }
}

type ConfinementFields<'a> =
    (&'static str, usize, &'a str, Option<&'a SeccompProfile>, Option<&'a AppArmorProfile>);

/// Returns all containers: field of the list, index, name, and own profiles.
fn containers(spec: &PodSpec) -> impl Iterator<Item = ConfinementFields<'_>> {
    macro_rules! confined {
        ($field:literal, $list:expr) => {
            $list.enumerate().map(|(i, container)| {
                let context = container.security_context.as_ref();
                let seccomp = context.and_then(|c| c.seccomp_profile.as_ref());
                let app_armor = context.and_then(|c| c.app_armor_profile.as_ref());
                ($field, i, container.name.as_str(), seccomp, app_armor)
            })
        };
    }
    confined!("initContainers", spec.init_containers.iter().flatten())
        .chain(confined!("containers", spec.containers.iter()))
        .chain(confined!("ephemeralContainers", spec.ephemeral_containers.iter().flatten()))
}

/// Requires that new pods and templates with a profile both in an annotation and in a field have the same in both.
/// `path` is that of the spec.
pub fn match_fields(errors: &mut FieldErrors, path: &Path<'_>, annotations: Option<&Labels>, spec: &PodSpec) {
    let Some(annotations) = annotations else { return };
    let of_pod = spec.security_context.as_ref();
    if let (Some(profile), Some(value)) =
        (of_pod.and_then(|c| c.seccomp_profile.as_ref()), annotations.get(SECCOMP_POD))
    {
        let at = path.child("securityContext.seccompProfile");
        same(errors, &at, "seccomp", value, &profile.type_, profile.localhost_profile.as_deref());
    }
    let is_windows = spec.os.as_ref().is_some_and(|os| os.name == "windows");
    let app_armor_of_pod = of_pod.and_then(|c| c.app_armor_profile.as_ref());
    for (field, i, name, seccomp, app_armor) in containers(spec) {
        let list = path.child(field);
        let at = list.index(i);
        let at = at.child("securityContext");
        if let (Some(profile), Some(value)) =
            (seccomp, annotations.get(&format!("{SECCOMP_CONTAINER}{name}")))
        {
            let at = at.child("seccompProfile");
            same(errors, &at, "seccomp", value, &profile.type_, profile.localhost_profile.as_deref());
        }
        if let (Some(profile), Some(value), false) =
            (app_armor.or(app_armor_of_pod), annotations.get(&format!("{APP_ARMOR}{name}")), is_windows)
        {
            let at = at.child("appArmorProfile");
            same(errors, &at, "apparmor", value, &profile.type_, profile.localhost_profile.as_deref());
        }
    }
}

/// Compares the annotation and the field of one profile.
fn same(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    profile_kind: &str,
    annotation: &str,
    type_: &str,
    profile: Option<&str>,
) {
    let is_same_type = match type_ {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => {
            annotation == "runtime/default" || profile_kind == "seccomp" && annotation == "docker/default"
        }
        "Localhost" => annotation.starts_with(LOCALHOST),
        _ => true,
    };
    if !is_same_type {
        errors.forbidden(
            &path.child("type"),
            format!("{profile_kind} type in annotation and field must match"),
        );
    } else if type_ == "Localhost" && annotation.strip_prefix(LOCALHOST) != profile {
        let detail = format!("{profile_kind} profile in annotation and field must match");
        errors.forbidden(&path.child("localhostProfile"), detail);
    }
}
