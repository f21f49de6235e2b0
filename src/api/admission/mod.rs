//! Admission: what is done to objects beyond defaulting, and whether they may be written at all; one plugin a
//! file, in Kubernetes' order.

pub(super) mod active_pods;
mod claim_resize;
mod default_storage_class;
mod default_toleration_seconds;
mod limit_ranger;
mod namespace_lifecycle;
mod pod_node_selector;
mod pod_preset;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_protection;

use k8s_openapi::api::core::v1::Event;

use super::quota::Charge;
use super::{Api, ApiError, Part};
use crate::object::Object;

/// A write on its way in.
struct Request<'a> {
    api: &'a Api,
    /// The version that is changed; none when the object is new.
    old: Option<&'a Object>,
    /// What people should hear of once the write is made.
    events: Vec<Event>,
}

type Admit = fn(&mut Request<'_>, &mut Object) -> Result<(), ApiError>;

/// When a plugin is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Create,
    CreateAndUpdate,
    /// It holds its books open from before the write until it is made: see [`charge`].
    TheWriteItself,
}

/// One plugin.
struct Plugin {
    /// As `--disable` takes it.
    name: &'static str,
    on: On,
    admit: Admit,
}

const fn plugin(name: &'static str, on: On, admit: Admit) -> Plugin {
    Plugin { name, on, admit }
}

const RESOURCE_QUOTA: &str = "ResourceQuota";

/// In the order of SPEC API-9; `ActivePods` is ours and comes when all else has been said.
const PLUGINS: [Plugin; 13] = [
    plugin("NamespaceLifecycle", On::Create, namespace_lifecycle::admit),
    plugin("PodPreset", On::Create, pod_preset::admit),
    plugin("ServiceAccount", On::Create, service_account::admit),
    plugin("LimitRanger", On::CreateAndUpdate, limit_ranger::admit),
    plugin("Priority", On::CreateAndUpdate, priority::admit),
    plugin("DefaultTolerationSeconds", On::Create, default_toleration_seconds::admit),
    plugin("PodNodeSelector", On::Create, pod_node_selector::admit),
    plugin("DefaultStorageClass", On::Create, default_storage_class::admit),
    plugin("StorageObjectInUseProtection", On::Create, storage_protection::admit),
    plugin("PersistentVolumeClaimResize", On::CreateAndUpdate, claim_resize::admit),
    plugin("RuntimeClass", On::Create, runtime_class::admit),
    plugin("ActivePods", On::Create, active_pods::admit),
    plugin(RESOURCE_QUOTA, On::TheWriteItself, |_, _| Ok(())),
];

/// The names of all plugins.
pub fn plugin_names() -> impl Iterator<Item = &'static str> {
    PLUGINS.iter().map(|plugin| plugin.name)
}

/// Runs every enabled plugin on a new object; returns what to tell once it is stored.
pub(super) fn admit_create(api: &Api, object: &mut Object) -> Result<Vec<Event>, ApiError> {
    let mut request = Request { api, old: None, events: Vec::new() };
    run(&mut request, object, &[On::Create, On::CreateAndUpdate])?;
    Ok(request.events)
}

/// Runs every enabled plugin that has a say in changes on the next version of an object.
pub(super) fn admit_update(api: &Api, part: Part, old: &Object, new: &mut Object) -> Result<(), ApiError> {
    if !asks_for_more(part) {
        return Ok(());
    }
    run(&mut Request { api, old: Some(old), events: Vec::new() }, new, &[On::CreateAndUpdate])
}

/// Charges the quotas of the object's namespace with the write; the charge is held until it is made.
pub(super) fn charge<'a>(
    api: &'a Api,
    part: Part,
    old: Option<&Object>,
    new: &Object,
    dry_run: bool,
) -> Result<Charge<'a>, ApiError> {
    let asks = asks_for_more(part) && !old.is_some_and(|old| old.same_spec(new));
    if !asks || !is_enabled(api, RESOURCE_QUOTA) {
        return Ok(Charge::default());
    }
    resource_quota::charge(api, old, new, dry_run)
}

/// Whether a change of this part is a wish of the object's author, not what somebody observed.
fn asks_for_more(part: Part) -> bool {
    matches!(part, Part::Main | Part::Resize)
}

fn is_enabled(api: &Api, name: &str) -> bool {
    !api.inner.config.disabled_admission.iter().any(|disabled| disabled == name)
}

fn run(request: &mut Request<'_>, object: &mut Object, when: &[On]) -> Result<(), ApiError> {
    for plugin in PLUGINS.iter().filter(|plugin| when.contains(&plugin.on)) {
        if is_enabled(request.api, plugin.name) {
            (plugin.admit)(request, object)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_kubernetes_api_9() {
        let order: Vec<_> = plugin_names().collect();
        let expected = [
            "NamespaceLifecycle",
            "PodPreset",
            "ServiceAccount",
            "LimitRanger",
            "Priority",
            "DefaultTolerationSeconds",
            "PodNodeSelector",
            "DefaultStorageClass",
            "StorageObjectInUseProtection",
            "PersistentVolumeClaimResize",
            "RuntimeClass",
            "ActivePods",
            "ResourceQuota",
        ];
        assert_eq!(order, expected);
    }
}
