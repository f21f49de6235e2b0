//! Heal: a fault on purpose is ended by deleting its object.

use serde_json::Value;

use crate::action::{Action, Mutation};
use crate::changes::editable;
use crate::effect::Effect;
use crate::resource::ObjectRef;
use crate::toast::Toast;

/// Ends faults. What each was is asked of the server before, so that it can be broken again in the same way.
pub(crate) fn heal(targets: &[ObjectRef]) -> Effect {
    let targets = targets.to_vec();
    Effect::task("heal", move |out| async move {
        for target in targets {
            match out.fetch(&target).await {
                // What becomes of it is told by the action itself.
                Ok(fault) => drop(out.act(action(&target, &fault)).await),
                Err(error) => out.toast(Toast::failed(format!("{}: {error}", target.describe()))).await,
            }
        }
    })
}

/// The change, with the way back: the same fault anew, from the beginning.
pub(crate) fn action(target: &ObjectRef, fault: &Value) -> Action {
    let mut again = editable::strip(fault);
    if let Some(metadata) = again["metadata"].as_object_mut() {
        // Whoever holds it up and whoever owned it may be gone by then.
        metadata.remove("finalizers");
        metadata.remove("ownerReferences");
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
    }
    again["apiVersion"] = Value::String(target.kind.api_version());
    again["kind"] = Value::String(target.kind.kind.clone());
    let anew = ObjectRef { uid: None, ..target.clone() };
    let inverse = Action {
        title: format!("break {} again", anew.describe()),
        kubectl: format!("kubectl create -f - <<< '{}'", again.to_string().replace('\'', r"'\''")),
        mutation: Mutation::Create { target: anew.clone(), body: again },
        target: anew.clone(),
        inverse: Some(Box::new(delete(&anew))),
        undoes: None,
        quiet: false,
    };
    Action { inverse: Some(Box::new(inverse)), ..delete(target) }
}

fn delete(target: &ObjectRef) -> Action {
    Action {
        title: format!("heal {}", target.describe()),
        target: target.clone(),
        kubectl: format!("podium fault heal {}", target.name),
        mutation: Mutation::delete(target),
        inverse: None,
        undoes: None,
        quiet: false,
    }
}
