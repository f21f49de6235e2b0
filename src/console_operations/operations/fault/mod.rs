//! Faults (FAULT-1): an object is created with the target and the duration, and deleted to end the fault.

mod form;

use serde_json::{Value, json};

use crate::effect::Effect;
use console_data::action::{Action, Mutation};
use console_data::changes::editable;
use console_data::resource::{Kind, ObjectRef};
use console_toolkit::toast::Toast;
use extension::fault::FaultSpec;

pub use form::dialog;

/// The maximum length of a name.
const LONGEST_NAME: usize = 63;

/// Creates the action for a fault, named after its type and target.
fn create(kind: &Kind, spec: &FaultSpec, is_taken: impl Fn(&str) -> bool) -> Action {
    let name = free_name(spec, is_taken);
    let body = json!({"apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"name": name}, "spec": spec});
    let fault = ObjectRef { kind: kind.clone(), namespace: None, name, uid: None };
    let kubectl = format!("kubectl create -f - <<< '{}'", body.to_string().replace('\'', r"'\''"));
    let mutation = Mutation::create(&fault, body);
    Action::new(&fault, format!("break {}", fault.describe()), kubectl, mutation).undone_by(delete(&fault))
}

/// Returns a free name: `poweroff-node-node-1`; with a number if the name is taken, possibly by an ended fault.
fn free_name(spec: &FaultSpec, is_taken: impl Fn(&str) -> bool) -> String {
    let target = spec.target.as_ref().map(ToString::to_string);
    let place = target.or_else(|| spec.from.as_ref().map(ToString::to_string)).unwrap_or_default();
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = format!("{}-{place}", spec.type_).chars().map(letter).collect();
    let named = |end: &str| {
        let stem: String = text.chars().take(LONGEST_NAME - end.len()).collect();
        format!("{}{end}", stem.trim_end_matches('-'))
    };
    let numbered = (2..).map(|number: u32| named(&format!("-{number}")));
    std::iter::once(named("")).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

/// Ends faults. Each fault is read from the server first, so that its undo can create it again.
pub fn heal(targets: &[ObjectRef]) -> Effect {
    let targets = targets.to_vec();
    Effect::task("heal", move |out| async move {
        for target in targets {
            match out.fetch(&target).await {
                // The action itself reports its result.
                Ok(fault) => drop(out.act(action(&target, &fault)).await),
                Err(error) => out.toast(Toast::failed(format!("{}: {error}", target.describe()))).await,
            }
        }
    })
}

/// Creates the action that deletes a fault; its undo creates the same fault again, from the start.
pub(crate) fn action(target: &ObjectRef, fault: &Value) -> Action {
    let mut again = editable::strip(fault);
    if let Some(metadata) = again["metadata"].as_object_mut() {
        // At the time of the undo, the fault's owners and the controllers of its finalizers may no longer exist.
        metadata.remove("finalizers");
        metadata.remove("ownerReferences");
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
    }
    again["apiVersion"] = Value::String(target.kind.api_version());
    again["kind"] = Value::String(target.kind.kind.clone());
    let recreated = ObjectRef { uid: None, ..target.clone() };
    let inverse = Action::new(
        &recreated,
        format!("break {} again", recreated.describe()),
        format!("kubectl create -f - <<< '{}'", again.to_string().replace('\'', r"'\''")),
        Mutation::create(&recreated, again),
    );
    delete(target).undone_by(inverse.undone_by(delete(&recreated)))
}

fn delete(target: &ObjectRef) -> Action {
    Action::new(
        target,
        format!("heal {}", target.describe()),
        format!("podium fault heal {}", target.name),
        Mutation::delete(target),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use extension::fault::{read_node, read_side};

    #[test]
    fn a_fault_has_a_name_of_its_own_fault_1() {
        let off = FaultSpec {
            type_: "PowerOff".into(),
            target: Some(read_node("Node.1").unwrap()),
            ..FaultSpec::default()
        };
        let cut = FaultSpec {
            type_: "Partition".into(),
            from: read_side(&format!("pod/{}", "x".repeat(90))).unwrap(),
            ..FaultSpec::default()
        };
        let all = FaultSpec { type_: "ImagePull".into(), ..FaultSpec::default() };
        assert_eq!(free_name(&off, |_| false), "poweroff-node-node-1");
        assert_eq!(free_name(&off, |name| name == "poweroff-node-node-1"), "poweroff-node-node-1-2");
        assert_eq!(free_name(&all, |_| false), "imagepull");
        let long = free_name(&cut, |_| false);
        assert_eq!(long.len(), LONGEST_NAME);
        assert!(free_name(&cut, |name| name == long).ends_with("x-2"));
        let kind = console_data::builtin_kinds::kind::<extension::fault::Fault>();
        let action = create(&kind, &off, |_| false);
        assert_eq!(action.title, "break Fault poweroff-node-node-1");
        assert!(action.inverse.is_some(), "it can be taken back");
    }
}
