//! PodTopologySpreadArgs: the spread constraints of pods that have none of their own.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use serde::Deserialize;

use super::ConfigError;
use crate::state::default_spread::DefaultConstraints;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpreadArgs {
    #[serde(default)]
    default_constraints: Vec<TopologySpreadConstraint>,
    defaulting_type: Option<String>,
}

/// Returns the constraints in the arguments.
pub(super) fn read(args: &SpreadArgs, at: &str) -> Result<DefaultConstraints, ConfigError> {
    let listed = !args.default_constraints.is_empty();
    let constraints = match args.defaulting_type.as_deref() {
        // Before `defaultingType` existed, listing constraints was enough.
        None if listed => DefaultConstraints::list(args.default_constraints.clone()),
        None | Some("System") => DefaultConstraints::system(),
        Some("List") => DefaultConstraints::list(args.default_constraints.clone()),
        Some(other) => {
            let message = format!("Unsupported value: \"{other}\": supported values: \"List\", \"System\"");
            return Err(ConfigError::new(format!("{at}.defaultingType"), message));
        }
    };
    if listed && args.defaulting_type.as_deref() == Some("System") {
        let message =
            "Invalid value: when .defaultConstraints are not empty, .defaultingType must be \"List\"";
        return Err(ConfigError::new(format!("{at}.defaultingType"), message));
    }
    check(&args.default_constraints, at)?;
    Ok(constraints)
}

/// Checks that Kubernetes accepts the constraints as cluster-level defaults.
fn check(constraints: &[TopologySpreadConstraint], at: &str) -> Result<(), ConfigError> {
    let mut seen = HashSet::new();
    for (n, constraint) in constraints.iter().enumerate() {
        let at = format!("{at}.defaultConstraints[{n}]");
        if constraint.max_skew <= 0 {
            let message = format!("Invalid value: {}: must be greater than zero", constraint.max_skew);
            return Err(ConfigError::new(format!("{at}.maxSkew"), message));
        }
        if constraint.topology_key.is_empty() {
            return Err(ConfigError::new(format!("{at}.topologyKey"), "Required value: can not be empty"));
        }
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&constraint.when_unsatisfiable.as_str()) {
            let message = format!(
                "Unsupported value: \"{}\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
                constraint.when_unsatisfiable
            );
            return Err(ConfigError::new(format!("{at}.whenUnsatisfiable"), message));
        }
        if constraint.label_selector.is_some() {
            let message = "Forbidden: constraint must not define a selector, as they deduced for each pod";
            return Err(ConfigError::new(format!("{at}.labelSelector"), message));
        }
        let pair = (constraint.topology_key.clone(), constraint.when_unsatisfiable.clone());
        if !seen.insert(pair.clone()) {
            let message = format!("Duplicate value: \"{{{}, {}}}\"", pair.0, pair.1);
            return Err(ConfigError::new(at, message));
        }
    }
    Ok(())
}
