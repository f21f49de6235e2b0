//! Priority classes.

use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::default::set_text;
use apimachinery::validate::{FieldErrors, Path};

/// The highest priority that users may set.
const HIGHEST_USER_PRIORITY: i32 = 1_000_000_000;

/// The system's classes with their values.
const SYSTEM_CLASSES: &[(&str, i32)] =
    &[("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// Returns true if the system's own class has this name.
pub fn is_system_priority_class(name: &str) -> bool {
    SYSTEM_CLASSES.iter().any(|(system, _)| *system == name)
}

impl Resource for PriorityClass {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::number("Value", "The integer value of this priority class.", |class, _| json!(class.value)),
        Column::boolean(
            "Global-Default",
            "Whether this is the default priority of pods without a class.",
            |class, _| json!(class.global_default.unwrap_or(false)),
        ),
        Column::age(),
        Column::text("PreemptionPolicy", "Whether pods of this class preempt others.", |class, _| {
            json!(class.preemption_policy.as_deref().unwrap_or_default())
        }),
    ];

    fn apply_defaults(&mut self) {
        set_text(&mut self.preemption_policy, "PreemptLowerPriority");
    }

    /// As in Kubernetes, the generation never changes: most of a class is immutable.
    fn prepare_for_create(&mut self) {
        self.metadata.generation = Some(1);
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let value = self.value.unwrap_or(0);
        if name.starts_with("system-") {
            if let Some(wrong) = system_class(name, value, self.global_default == Some(true)) {
                errors.forbidden(
                    &Path::root("metadata.name"),
                    format!(
                        "priority class names with 'system-' prefix are reserved for system use only. error: {wrong}"
                    ),
                );
            }
        } else if value > HIGHEST_USER_PRIORITY {
            errors.forbidden(
                &Path::root("value"),
                format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"),
            );
        }
        if let Some(policy) = &self.preemption_policy {
            errors.one_of(&Path::root("preemptionPolicy"), policy, &["Never", "PreemptLowerPriority"]);
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        if self.value.unwrap_or(0) != old.value.unwrap_or(0) {
            errors.forbidden(&Path::root("value"), "may not be changed in an update.");
        }
        errors.immutable(&Path::root("preemptionPolicy"), &self.preemption_policy, &old.preemption_policy);
        self.validate(errors);
    }
}

/// Returns the reason why a class with a system prefix is not one of the system's.
fn system_class(name: &str, value: i32, global_default: bool) -> Option<String> {
    let Some((_, expected)) = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value != *expected {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    global_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}
