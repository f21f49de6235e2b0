//! Admission: changes objects beyond defaulting and permits or refuses writes. Each plugin has a file, and they run in
//! the order of API-9. "Configured admission" means the policies and webhooks of users (`dynamic`).

mod activation;
pub(super) mod active_pods;
mod attributes;
mod claim_resize;
pub(crate) mod configurations;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod dynamic;
mod limit_ranger;
pub(crate) mod matching;
mod namespace_lifecycle;
mod pod_node_selector;
mod pod_preset;
mod pod_security;
mod pod_topology_labels;
pub(super) mod policy;
mod priority;
mod reinvocation;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_protection;
mod subresource_admission;
pub(crate) mod webhook;

use k8s_openapi::api::core::v1::Event;

use super::quota::Charge;
use super::{Api, ApiError, Part, WriteOptions};
pub use dynamic::{callees, has_matching_configuration};
pub(crate) use webhook::Webhooks;

pub use attributes::Operation;
pub(crate) use attributes::{Attributes, Options, Requester, Subject, WriteAttributes};
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
        self.options.warnings.warn(warnings);
    }
}

/// May change the object.
type MutateFn = fn(&mut Request<'_>, &mut Object) -> Result<(), ApiError>;
/// Permits or refuses the final object.
type ValidateFn = fn(&Request<'_>, &Object) -> Result<(), ApiError>;

/// The writes that a plugin handles, among the writes of an object's author (see `is_author_write`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PluginOperations {
    Create,
    CreateAndUpdate,
    /// Creations, updates, and additions of ephemeral containers.
    CreateUpdateAndDebug,
}

impl PluginOperations {
    fn includes(self, part: Part, old: Option<&Object>) -> bool {
        let applies =
            is_author_write(part) || part == Part::EphemeralContainers && self == Self::CreateUpdateAndDebug;
        applies && (self != Self::Create || old.is_none())
    }
}

/// One plugin: its functions for each phase, and the writes it handles.
struct Plugin {
    /// Its name for `--disable`.
    name: &'static str,
    mutate: Option<(PluginOperations, MutateFn)>,
    validate: Option<(PluginOperations, ValidateFn)>,
    /// Checks the final object once more after the configured admission, which may take a minute.
    recheck: Option<(PluginOperations, ValidateFn)>,
}

const NO_PHASES: Plugin = Plugin { name: "", mutate: None, validate: None, recheck: None };

const fn mutating(name: &'static str, on: PluginOperations, mutate: MutateFn) -> Plugin {
    Plugin { name, mutate: Some((on, mutate)), ..NO_PHASES }
}

const fn validating(name: &'static str, on: PluginOperations, validate: ValidateFn) -> Plugin {
    Plugin { name, validate: Some((on, validate)), ..NO_PHASES }
}

const POD_TOPOLOGY_LABELS: &str = "PodTopologyLabels";
const RESOURCE_QUOTA: &str = "ResourceQuota";

/// In the order of SPEC API-9; `ActivePods` is Podium's own and runs last.
static PLUGINS: [Plugin; 16] = [
    Plugin {
        name: "NamespaceLifecycle",
        mutate: Some((PluginOperations::Create, namespace_lifecycle::admit)),
        recheck: Some((PluginOperations::Create, namespace_lifecycle::validate)),
        ..NO_PHASES
    },
    mutating("PodPreset", PluginOperations::Create, pod_preset::admit),
    Plugin {
        name: "ServiceAccount",
        mutate: Some((PluginOperations::Create, service_account::admit)),
        validate: Some((PluginOperations::Create, service_account::validate)),
        ..NO_PHASES
    },
    Plugin {
        name: "LimitRanger",
        mutate: Some((PluginOperations::Create, limit_ranger::fill_in_defaults)),
        validate: Some((PluginOperations::CreateAndUpdate, limit_ranger::validate)),
        ..NO_PHASES
    },
    validating("PodSecurity", PluginOperations::CreateUpdateAndDebug, pod_security::validate),
    Plugin {
        name: "Priority",
        mutate: Some((PluginOperations::CreateAndUpdate, priority::resolve)),
        validate: Some((PluginOperations::CreateAndUpdate, priority::validate)),
        ..NO_PHASES
    },
    mutating(
        "DefaultTolerationSeconds",
        PluginOperations::CreateAndUpdate,
        default_toleration_seconds::admit,
    ),
    mutating("PodNodeSelector", PluginOperations::Create, pod_node_selector::admit),
    mutating("DefaultStorageClass", PluginOperations::Create, default_storage_class::admit),
    mutating("StorageObjectInUseProtection", PluginOperations::Create, storage_protection::admit),
    validating("PersistentVolumeClaimResize", PluginOperations::CreateAndUpdate, claim_resize::validate),
    Plugin {
        name: "RuntimeClass",
        mutate: Some((PluginOperations::Create, runtime_class::admit)),
        validate: Some((PluginOperations::Create, runtime_class::validate)),
        ..NO_PHASES
    },
    mutating("DefaultIngressClass", PluginOperations::Create, default_ingress_class::admit),
    // Bindings are labelled by `label_binding`.
    mutating(POD_TOPOLOGY_LABELS, PluginOperations::Create, pod_topology_labels::admit),
    Plugin {
        name: "ActivePods",
        recheck: Some((PluginOperations::Create, active_pods::validate)),
        ..NO_PHASES
    },
    // ResourceQuota holds its lock from before the write until the write is stored: see `charge`.
    Plugin { name: RESOURCE_QUOTA, ..NO_PHASES },
];

/// Returns the names of all plugins.
pub fn plugin_names() -> impl Iterator<Item = &'static str> {
    PLUGINS.iter().map(|plugin| plugin.name)
}

/// The result of mutating admission.
pub(super) struct MutationResult {
    /// Events to record once the object is stored.
    pub(super) events: Vec<Event>,
    /// The configured admission has changed the object.
    pub(super) is_changed_by_users: bool,
}

/// Runs every enabled mutating plugin on an object, then the configured admission. If that changes the object, both run
/// once more, so that the plugins also handle its additions.
pub(super) fn mutate(
    api: &Api,
    part: Part,
    attributes: Option<&WriteAttributes<'_>>,
    old: Option<&Object>,
    object: &mut Object,
    options: &WriteOptions,
) -> Result<MutationResult, ApiError> {
    let events = mutate_by_plugins(api, part, old, object, options)?;
    let Some(attributes) = attributes else {
        return Ok(MutationResult { events, is_changed_by_users: false });
    };
    let mut rounds = dynamic::ReinvocationContext::default();
    dynamic::mutate(api, attributes, object, &mut rounds)?;
    if !rounds.is_second_due() {
        return Ok(MutationResult { events, is_changed_by_users: false });
    }
    rounds.begin_second();
    let events = mutate_by_plugins(api, part, old, object, options)?;
    dynamic::mutate(api, attributes, object, &mut rounds)?;
    Ok(MutationResult { events, is_changed_by_users: true })
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
    attributes: Option<&WriteAttributes<'_>>,
    old: Option<&Object>,
    object: &Object,
    options: &WriteOptions,
) -> Result<(), ApiError> {
    let request = Request { api, part, options, old, events: Vec::new() };
    let run_phase = |phase: fn(&Plugin) -> Option<(PluginOperations, ValidateFn)>| {
        let mut plugins = enabled(api).filter_map(phase).filter(|(on, _)| on.includes(part, old));
        plugins.try_for_each(|(_, validate)| validate(&request, object))
    };
    run_phase(|plugin| plugin.validate)?;
    if let Some(attributes) = attributes {
        dynamic::validate(api, &attributes.of_object(object))?;
    }
    run_phase(|plugin| plugin.recheck)
}

/// Runs the configured admission for a deletion, which no plugin handles.
pub(super) fn admit(api: &Api, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    dynamic::admit(api, attributes)
}

/// Charges the write to the quotas of the object's namespace; the charge is held until the write is stored.
pub(super) fn charge<'a>(
    api: &'a Api,
    part: Part,
    old: Option<&Object>,
    new: &Object,
    dry_run: bool,
) -> Result<Charge<'a>, ApiError> {
    let applies = is_author_write(part) && !old.is_some_and(|old| old.same_spec(new));
    if !applies || !is_enabled(api, RESOURCE_QUOTA) {
        return Ok(Charge::default());
    }
    resource_quota::charge(api, old, new, dry_run)
}

/// Returns true if a change of this part expresses the author's intent, as opposed to an observation.
fn is_author_write(part: Part) -> bool {
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
            "NamespaceLifecycle", "PodPreset", "ServiceAccount", "LimitRanger", "PodSecurity", "Priority",
            "DefaultTolerationSeconds", "PodNodeSelector", "DefaultStorageClass",
            "StorageObjectInUseProtection", "PersistentVolumeClaimResize", "RuntimeClass",
            "DefaultIngressClass", "PodTopologyLabels", "ActivePods", "ResourceQuota",
        ];
        assert_eq!(order, expected);
    }
}
