//! Faults: deliberate failures (`podium.dev`). `network::faults` applies those of the network, `cluster::faults` the
//! others.

mod network;
mod target;

use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path};
use object::conditions;
use object::fault::{ACTIVE, DIRECTIONS, Fault, FaultPeer, NETWORK_TYPES, OTHER_TYPES};
use object::time::read_go_duration;

impl Resource for Fault {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Type", "The type of the fault.", |fault, _| json!(fault.spec.type_)),
        Column::text("From", "One side of a network fault, or the target.", |fault, _| json!(from(fault))),
        Column::text("To", "The other side of a network fault.", |fault, _| json!(to(fault))),
        Column::text("Active", "Whether the fault is in force.", |fault, _| json!(active(fault))),
        Column::text("Duration", "The duration of the fault.", |fault, _| {
            json!(fault.spec.duration.as_deref().unwrap_or("<none>"))
        }),
        Column::age(),
        Column::wide("Meets", "The objects that the fault affects.", |fault, _| {
            json!(fault.status.as_ref().and_then(|status| status.meets.as_deref()).unwrap_or_default())
        }),
    ];

    fn apply_defaults(&mut self) {
        if NETWORK_TYPES.contains(&self.spec.type_.as_str()) {
            self.spec.direction.get_or_insert_with(|| "Both".into());
        }
        if self.spec.type_ == "Refuse" {
            self.spec.refuse.get_or_insert_default().with.get_or_insert_with(|| "Reset".into());
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let (spec, path) = (&self.spec, Path::root("spec"));
        if spec.type_.is_empty() {
            return errors.required(&path.child("type"), "");
        }
        if !NETWORK_TYPES.contains(&spec.type_.as_str()) {
            let mut all = [NETWORK_TYPES, OTHER_TYPES].concat();
            all.sort_unstable();
            errors.one_of(&path.child("type"), &spec.type_, &all);
        }
        if OTHER_TYPES.contains(&spec.type_.as_str()) {
            target::only(errors, &path, spec);
            target::target(errors, &path, spec);
        } else {
            if let Some(direction) = &spec.direction {
                errors.one_of(&path.child("direction"), direction, DIRECTIONS);
            }
            if spec.target.is_some() {
                errors.forbidden(&path.child("target"), "may not be set for network faults");
            }
            network::sides(errors, &path, spec);
        }
        network::parameters(errors, &path, spec);
        target::parameters(errors, &path, spec);
        if let Some(text) = &spec.duration {
            let at = path.child("duration");
            match read_go_duration(text) {
                None => errors.invalid(&at, text, "must be a duration such as 30s or 1h30m"),
                Some(duration) if duration.is_zero() => {
                    errors.invalid(&at, text, "must be greater than 0");
                }
                Some(_) => {}
            }
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        // An unchanged spec may break rules that are newer than the fault.
        if self.spec != old.spec {
            errors.forbidden(&Path::root("spec"), "field is immutable");
        }
    }
}

fn from(fault: &Fault) -> String {
    if fault.is_of_network() {
        return side(fault.spec.from.as_ref());
    }
    fault.spec.target.as_ref().map_or_else(|| "<all>".into(), ToString::to_string)
}

fn to(fault: &Fault) -> String {
    if fault.is_of_network() { side(fault.spec.to.as_ref()) } else { "<none>".into() }
}

/// Returns the table cell of one side of a network fault.
fn side(peer: Option<&FaultPeer>) -> String {
    peer.map_or_else(|| "<all>".into(), ToString::to_string)
}

/// Returns the table cell of the fault's condition: whether it is active, or the reason why not.
fn active(fault: &Fault) -> String {
    let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
    match conditions::get(conditions, ACTIVE) {
        Some(active) if active.status == "True" => "True".into(),
        Some(active) => format!("{} ({})", active.status, active.reason),
        None => "Unknown".into(),
    }
}
