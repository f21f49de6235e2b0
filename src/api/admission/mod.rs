//! Admission: changes of objects beyond defaulting, and the decision to permit a write; one plugin per file,
//! in the order of API-9.

pub(super) mod active_pods;
mod attributes;
mod below;
mod claim_resize;
pub(crate) mod configurations;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod draft;
mod dynamic;
mod judged;
mod limit_ranger;
pub(crate) mod matching;
mod namespace_lifecycle;
mod pod_node_selector;
mod pod_preset;
mod pod_security;
pub(super) mod policy;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_protection;
pub(crate) mod webhook;

use k8s_openapi::api::core::v1::Event;

use super::quota::Charge;
use super::{Api, ApiError, Part, WriteOptions};
pub(crate) use dynamic::{may_be_asked, parties};
pub(crate) use webhook::Webhooks;

pub(crate) use attributes::{Attributes, Operation, Options, Requester, Subject, WriteAttributes};
use object::Object;

/// A write in admission.
struct Request<'a> {
    api: &'a Api,
    part: Part,
    options: &'a WriteOptions,
    /// The current version; `None` for a new object.
    old: Option<&'a Object>,
    /// Events to record once the write is stored.
    events: Vec<Event>,
}

impl Request<'_> {
    /// Sends warnings to the client.
    fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        self.options.remarks.warn(warnings);
    }
}

/// May change the object.
type Mutate = fn(&mut Request<'_>, &mut Object) -> Result<(), ApiError>;
/// Permits or refuses the final object.
type Validate = fn(&Request<'_>, &Object) -> Result<(), ApiError>;

/// The writes that a plugin handles, among those of the parts that an author changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Create,
    CreateAndUpdate,
    /// And the addition of ephemeral containers.
    CreateUpdateAndDebug,
}

impl On {
    fn includes(self, part: Part, old: Option<&Object>) -> bool {
        let asks =
            asks_for_more(part) || part == Part::EphemeralContainers && self == Self::CreateUpdateAndDebug;
        asks && (self != Self::Create || old.is_none())
    }
}

/// One plugin: its functions for each phase, and the writes it handles.
struct Plugin {
    /// Its name for `--disable`.
    name: &'static str,
    mutate: Option<(On, Mutate)>,
    validate: Option<(On, Validate)>,
    /// Runs after the configured admission, which may take a minute and may refuse.
    settle: Option<(On, Validate)>,
}

const NOTHING: Plugin = Plugin { name: "", mutate: None, validate: None, settle: None };

const fn mutating(name: &'static str, on: On, mutate: Mutate) -> Plugin {
    Plugin { name, mutate: Some((on, mutate)), ..NOTHING }
}

const fn validating(name: &'static str, on: On, validate: Validate) -> Plugin {
    Plugin { name, validate: Some((on, validate)), ..NOTHING }
}

const RESOURCE_QUOTA: &str = "ResourceQuota";

/// In the order of SPEC API-9; `ActivePods` is Podium's own and runs last.
static PLUGINS: [Plugin; 15] = [
    Plugin {
        name: "NamespaceLifecycle",
        mutate: Some((On::Create, namespace_lifecycle::admit)),
        settle: Some((On::Create, namespace_lifecycle::validate)),
        ..NOTHING
    },
    mutating("PodPreset", On::Create, pod_preset::admit),
    Plugin {
        name: "ServiceAccount",
        mutate: Some((On::Create, service_account::admit)),
        validate: Some((On::Create, service_account::validate)),
        ..NOTHING
    },
    Plugin {
        name: "LimitRanger",
        mutate: Some((On::Create, limit_ranger::fill_in_defaults)),
        validate: Some((On::CreateAndUpdate, limit_ranger::validate)),
        ..NOTHING
    },
    validating("PodSecurity", On::CreateUpdateAndDebug, pod_security::validate),
    Plugin {
        name: "Priority",
        mutate: Some((On::CreateAndUpdate, priority::resolve)),
        validate: Some((On::CreateAndUpdate, priority::validate)),
        ..NOTHING
    },
    mutating("DefaultTolerationSeconds", On::CreateAndUpdate, default_toleration_seconds::admit),
    mutating("PodNodeSelector", On::Create, pod_node_selector::admit),
    mutating("DefaultStorageClass", On::Create, default_storage_class::admit),
    mutating("StorageObjectInUseProtection", On::Create, storage_protection::admit),
    validating("PersistentVolumeClaimResize", On::CreateAndUpdate, claim_resize::validate),
    Plugin {
        name: "RuntimeClass",
        mutate: Some((On::Create, runtime_class::admit)),
        validate: Some((On::Create, runtime_class::validate)),
        ..NOTHING
    },
    mutating("DefaultIngressClass", On::Create, default_ingress_class::admit),
    Plugin { name: "ActivePods", settle: Some((On::Create, active_pods::validate)), ..NOTHING },
    // It holds its lock from before the write until that is stored: see `charge`.
    Plugin { name: RESOURCE_QUOTA, ..NOTHING },
];

/// The names of all plugins.
pub fn plugin_names() -> impl Iterator<Item = &'static str> {
    PLUGINS.iter().map(|plugin| plugin.name)
}

/// The result of mutating admission.
pub(super) struct Mutated {
    /// Events to record once the object is stored.
    pub(super) events: Vec<Event>,
    /// The configured admission has changed the object.
    pub(super) by_users: bool,
}

/// Runs every enabled mutating plugin on an object, then the configured admission. If that changes the
/// object, all run once more, so that the plugins also handle its additions.
pub(super) fn mutate(
    api: &Api,
    part: Part,
    asked: Option<&WriteAttributes<'_>>,
    old: Option<&Object>,
    object: &mut Object,
    options: &WriteOptions,
) -> Result<Mutated, ApiError> {
    let events = mutate_by_plugins(api, part, old, object, options)?;
    let Some(asked) = asked else { return Ok(Mutated { events, by_users: false }) };
    let mut rounds = dynamic::Rounds::default();
    dynamic::mutate(api, asked, object, &mut rounds)?;
    if !rounds.is_second_due() {
        return Ok(Mutated { events, by_users: false });
    }
    rounds.begin_second();
    let events = mutate_by_plugins(api, part, old, object, options)?;
    dynamic::mutate(api, asked, object, &mut rounds)?;
    Ok(Mutated { events, by_users: true })
}

fn mutate_by_plugins(
    api: &Api,
    part: Part,
    old: Option<&Object>,
    object: &mut Object,
    options: &WriteOptions,
) -> Result<Vec<Event>, ApiError> {
    let mut request = Request { api, part, options, old, events: Vec::new() };
    for (on, mutate) in enabled(api).filter_map(|plugin| plugin.mutate) {
        if on.includes(part, old) {
            mutate(&mut request, object)?;
        }
    }
    Ok(request.events)
}

/// Runs every enabled validating plugin and the configured admission on the final object.
pub(super) fn validate(
    api: &Api,
    part: Part,
    asked: Option<&WriteAttributes<'_>>,
    old: Option<&Object>,
    object: &Object,
    options: &WriteOptions,
) -> Result<(), ApiError> {
    let request = Request { api, part, options, old, events: Vec::new() };
    let ask = |phase: fn(&Plugin) -> Option<(On, Validate)>| {
        let mut plugins = enabled(api).filter_map(phase).filter(|(on, _)| on.includes(part, old));
        plugins.try_for_each(|(_, validate)| validate(&request, object))
    };
    ask(|plugin| plugin.validate)?;
    if let Some(asked) = asked {
        dynamic::validate(api, &asked.of_object(object))?;
    }
    ask(|plugin| plugin.settle)
}

/// Runs the configured admission for a deletion, which no plugin handles.
pub(super) fn admit(api: &Api, asked: &Attributes<'_>) -> Result<(), ApiError> {
    dynamic::admit(api, asked)
}

/// Charges the write to the quotas of the object's namespace; the charge is held until the write is stored.
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

/// Returns true if a change of this part expresses the author's intent, as opposed to an observation.
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
            "PodSecurity",
            "Priority",
            "DefaultTolerationSeconds",
            "PodNodeSelector",
            "DefaultStorageClass",
            "StorageObjectInUseProtection",
            "PersistentVolumeClaimResize",
            "RuntimeClass",
            "DefaultIngressClass",
            "ActivePods",
            "ResourceQuota",
        ];
        assert_eq!(order, expected);
    }
}
