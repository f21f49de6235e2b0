//! Admission: what is done to new objects beyond defaulting, one plugin a file, in Kubernetes' order.

mod namespace_lifecycle;
mod pod_defaults;
mod priority;
mod service_account;

use super::{Api, ApiError};
use crate::object::Object;

/// A plugin's name, as `--disable` takes it, and what it does to a new object.
type Plugin = (&'static str, fn(&Api, &mut Object) -> Result<(), ApiError>);

/// In the order of SPEC API-9.
const PLUGINS: [Plugin; 4] = [
    ("NamespaceLifecycle", namespace_lifecycle::admit),
    ("ServiceAccount", service_account::admit),
    ("Priority", priority::admit),
    ("DefaultTolerationSeconds", pod_defaults::admit),
];

/// The names of all plugins.
pub fn plugin_names() -> impl Iterator<Item = &'static str> {
    PLUGINS.iter().map(|(name, _)| *name)
}

/// Runs every enabled plugin on a new object.
pub(super) fn admit_create(api: &Api, object: &mut Object) -> Result<(), ApiError> {
    for (name, admit) in PLUGINS {
        if !api.inner.config.disabled_admission.iter().any(|d| d == name) {
            admit(api, object)?;
        }
    }
    Ok(())
}
