//! Admission: what is done to objects beyond defaulting, and whether they may be written at all; one plugin a
//! file, in the order of API-9.

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
use object::Object;

/// A write on its way in.
struct Request<'a> {
    api: &'a Api,
    /// The version that is changed; none when the object is new.
    old: Option<&'a Object>,
    /// What people should hear of once the write is made.
    events: Vec<Event>,
}

/// May change the object.
type Mutate = fn(&mut Request<'_>, &mut Object) -> Result<(), ApiError>;
/// Only lets it through or refuses it, as it will be stored.
type Validate = fn(&Request<'_>, &Object) -> Result<(), ApiError>;

/// Which writes a plugin is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Create,
    CreateAndUpdate,
}

impl On {
    fn includes(self, old: Option<&Object>) -> bool {
        self == Self::CreateAndUpdate || old.is_none()
    }
}

/// One plugin: what it does in either phase, and on which writes.
struct Plugin {
    /// As `--disable` takes it.
    name: &'static str,
    mutate: Option<(On, Mutate)>,
    validate: Option<(On, Validate)>,
}

const fn mutating(name: &'static str, on: On, mutate: Mutate) -> Plugin {
    Plugin { name, mutate: Some((on, mutate)), validate: None }
}

const fn validating(name: &'static str, on: On, validate: Validate) -> Plugin {
    Plugin { name, mutate: None, validate: Some((on, validate)) }
}

const RESOURCE_QUOTA: &str = "ResourceQuota";

/// In the order of SPEC API-9; `ActivePods` is ours and comes when all else has been said.
static PLUGINS: [Plugin; 13] = [
    mutating("NamespaceLifecycle", On::Create, namespace_lifecycle::admit),
    mutating("PodPreset", On::Create, pod_preset::admit),
    mutating("ServiceAccount", On::Create, service_account::admit),
    Plugin {
        name: "LimitRanger",
        mutate: Some((On::Create, limit_ranger::fill_in_defaults)),
        validate: Some((On::CreateAndUpdate, limit_ranger::validate)),
    },
    Plugin {
        name: "Priority",
        mutate: Some((On::Create, priority::resolve)),
        validate: Some((On::CreateAndUpdate, priority::validate)),
    },
    mutating("DefaultTolerationSeconds", On::Create, default_toleration_seconds::admit),
    mutating("PodNodeSelector", On::Create, pod_node_selector::admit),
    mutating("DefaultStorageClass", On::Create, default_storage_class::admit),
    mutating("StorageObjectInUseProtection", On::Create, storage_protection::admit),
    validating("PersistentVolumeClaimResize", On::CreateAndUpdate, claim_resize::validate),
    Plugin {
        name: "RuntimeClass",
        mutate: Some((On::Create, runtime_class::admit)),
        validate: Some((On::Create, runtime_class::validate)),
    },
    validating("ActivePods", On::Create, active_pods::validate),
    // It holds its books open from before the write until it is made: see `charge`.
    Plugin { name: RESOURCE_QUOTA, mutate: None, validate: None },
];

/// The names of all plugins.
pub fn plugin_names() -> impl Iterator<Item = &'static str> {
    PLUGINS.iter().map(|plugin| plugin.name)
}

/// Lets every enabled plugin change a new object, or the next version of one; returns what to tell once it is stored.
pub(super) fn mutate(
    api: &Api,
    part: Part,
    old: Option<&Object>,
    object: &mut Object,
) -> Result<Vec<Event>, ApiError> {
    let mut request = Request { api, old, events: Vec::new() };
    if asks_for_more(part) {
        for (on, mutate) in enabled(api).filter_map(|plugin| plugin.mutate) {
            if on.includes(old) {
                mutate(&mut request, object)?;
            }
        }
    }
    Ok(request.events)
}

/// Asks every enabled plugin whether the object may be stored as it is now.
pub(super) fn validate(api: &Api, part: Part, old: Option<&Object>, object: &Object) -> Result<(), ApiError> {
    if !asks_for_more(part) {
        return Ok(());
    }
    let request = Request { api, old, events: Vec::new() };
    let mut asked = enabled(api).filter_map(|plugin| plugin.validate).filter(|(on, _)| on.includes(old));
    asked.try_for_each(|(_, validate)| validate(&request, object))
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

fn enabled(api: &Api) -> impl Iterator<Item = &'static Plugin> {
    PLUGINS.iter().filter(|plugin| is_enabled(api, plugin.name))
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
