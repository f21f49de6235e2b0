//! Faults on purpose (FAULT-1): one is made with what it breaks and for how long, and ended by deleting its object.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::action::{Action, Mutation};
use crate::builtin;
use crate::changes::editable;
use crate::dialog::{Field, Fields};
use crate::effect::{Dialog, Effect};
use crate::resource::ObjectRef;
use crate::toast::Toast;
use object::fault::Fault;

/// The types that the dialog makes, whether each is of the network, and what its amount is. `podium fault` makes the others.
const TYPES: [(&str, bool, Option<&str>); 7] = [
    ("Partition", true, None),
    ("Latency", true, Some("such as 100ms")),
    ("Loss", true, Some("packets of a thousand")),
    ("Refuse", true, None),
    ("PowerOff", false, None),
    ("Crash", false, None),
    ("Pause", false, None),
];

/// Asks what is to be broken.
pub(crate) fn dialog() -> Dialog {
    let mut fields = Fields::default();
    let types = TYPES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let kind = fields.add(Field::choice("type", types).hint("← → to pick"));
    let at =
        fields.add(Field::text("where", "").hint("node/NAME, pod/NAMESPACE/NAME, kubelet/NODE, scheduler"));
    let to = fields.add(Field::text_or("to", "everybody else; of Partition, Latency, Loss and Refuse"));
    let amount = fields.add(Field::text_or("amount", "Latency: 100ms, Loss: packets of a thousand"));
    let duration = fields.add(Field::text_or("for", "such as 30s; until it is healed"));
    Dialog::new("Break something on purpose", "Break", move |dialog, _| {
        let text = |field| dialog.text(field).trim();
        let action = new(dialog.choice(kind), text(at), text(to), text(amount), text(duration))?;
        Ok(vec![Effect::Act(Box::new(action))])
    })
    .line("It ends when its time is over, or when it is healed here.")
    .fields(fields)
}

/// A fault of this type; why there is none. The server checks the rest.
fn new(kind: &str, at: &str, to: &str, amount: &str, duration: &str) -> Result<Action, String> {
    let (_, is_of_network, wants) =
        TYPES.iter().find(|(name, ..)| *name == kind).ok_or_else(|| format!("no fault {kind}"))?;
    let mut spec = json!({"type": kind});
    if *is_of_network {
        spec["from"] = side(at)?;
        if !to.is_empty() {
            spec["to"] = side(to)?;
        }
    } else if to.is_empty() {
        spec["target"] = target(at)?;
    } else {
        return Err(format!("{kind} is of one target: leave \"to\" empty"));
    }
    match (wants, amount.is_empty()) {
        (Some(what), true) => return Err(format!("amount: {what}")),
        (None, false) => return Err(format!("{kind} takes no amount")),
        (None, true) => {}
        (Some(_), false) if kind == "Latency" => spec["latency"] = json!({"delay": amount}),
        (Some(what), false) => {
            let count: i32 = amount.parse().map_err(|_| format!("amount: {what}"))?;
            spec["loss"] = json!({"perMille": count});
        }
    }
    if !duration.is_empty() {
        spec["duration"] = json!(duration);
    }
    let kind_of_fault = builtin::kind::<Fault>();
    let place: String =
        at.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let name = format!("{}-{place}", kind.to_lowercase());
    let name = name.chars().take(63).collect::<String>().trim_end_matches('-').to_owned();
    let body = json!({"apiVersion": kind_of_fault.api_version(), "kind": kind_of_fault.kind,
        "metadata": {"name": name}, "spec": spec});
    let fault = ObjectRef { kind: kind_of_fault, namespace: None, name, uid: None };
    Ok(Action {
        title: format!("break {}", fault.describe()),
        kubectl: format!("kubectl create -f - <<< '{}'", body.to_string().replace('\'', r"'\''")),
        mutation: Mutation::Create { target: fault.clone(), body },
        inverse: Some(Box::new(delete(&fault))),
        target: fault,
        undoes: None,
        quiet: false,
    })
}

/// A side of the network.
fn side(text: &str) -> Result<Value, String> {
    match text.split('/').collect::<Vec<_>>()[..] {
        ["node", node] if !node.is_empty() => Ok(json!({"node": node})),
        ["pod", pod] if !pod.is_empty() => Ok(json!({"pod": pod})),
        ["pod", namespace, pod] if !pod.is_empty() => Ok(json!({"pod": pod, "namespace": namespace})),
        [address, _] if address.parse::<IpAddr>().is_ok() => Ok(json!({"cidr": text})),
        _ => Err(format!("{text:?}: node/NAME, pod/NAMESPACE/NAME or a range of addresses")),
    }
}

/// A target other than the network.
fn target(text: &str) -> Result<Value, String> {
    match text.split('/').collect::<Vec<_>>()[..] {
        ["scheduler" | "controllers"] => Ok(json!({"component": text})),
        ["controller", name] if !name.is_empty() => Ok(json!({"component": name})),
        ["kubelet", node] if !node.is_empty() => Ok(json!({"component": "kubelet", "node": node})),
        ["node", node] if !node.is_empty() => Ok(json!({"node": node})),
        _ => Err(format!("{text:?}: node/NAME, kubelet/NODE, scheduler, controllers or controller/NAME")),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_made_of_a_type_a_place_and_a_time_fault_1() {
        let spec = |kind, at, to, amount, duration| {
            new(kind, at, to, amount, duration).map(|action| match action.mutation {
                Mutation::Create { body, .. } => body["spec"].clone(),
                other => panic!("{other:?}"),
            })
        };
        for (kind, at, to, amount, duration, expected) in [
            (
                "PowerOff",
                "node/node-1",
                "",
                "",
                "30s",
                json!({"type": "PowerOff", "target": {"node": "node-1"}, "duration": "30s"}),
            ),
            (
                "Crash",
                "kubelet/node-1",
                "",
                "",
                "",
                json!({"type": "Crash", "target": {"component": "kubelet", "node": "node-1"}}),
            ),
            ("Pause", "controller/job", "", "", "", json!({"type": "Pause", "target": {"component": "job"}})),
            (
                "Partition",
                "pod/shop/web-0",
                "10.0.0.0/8",
                "",
                "",
                json!({"type": "Partition", "from": {"pod": "web-0", "namespace": "shop"}, "to": {"cidr": "10.0.0.0/8"}}),
            ),
            (
                "Latency",
                "node/a",
                "node/b",
                "100ms",
                "1m",
                json!({"type": "Latency", "from": {"node": "a"}, "to": {"node": "b"},
                    "latency": {"delay": "100ms"}, "duration": "1m"}),
            ),
            (
                "Loss",
                "node/a",
                "",
                "20",
                "",
                json!({"type": "Loss", "from": {"node": "a"}, "loss": {"perMille": 20}}),
            ),
        ] {
            assert_eq!(spec(kind, at, to, amount, duration).unwrap(), expected, "{kind}");
        }
        for (kind, at, to, amount) in [
            ("PowerOff", "node-1", "", ""),
            ("PowerOff", "node/", "", ""),
            ("PowerOff", "node/a", "node/b", ""),
            ("PowerOff", "node/a", "", "5"),
            ("Latency", "node/a", "", ""),
            ("Loss", "node/a", "", "many"),
            ("Partition", "web", "", ""),
            ("Nothing", "node/a", "", ""),
        ] {
            assert!(spec(kind, at, to, amount, "").is_err(), "{kind} {at} {to} {amount}");
        }
        let action = new("PowerOff", "node/Node.1", "", "", "").unwrap();
        assert_eq!((action.target.name.as_str(), action.inverse.is_some()), ("poweroff-node-node-1", true));
    }
}
