//! Decides the next action for a claim: pure.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use object::SharedObject;
use object::storage::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, annotation, best_match, claim_class, claim_ref,
    claim_uid, is_bound_to, names_class, satisfies, volume_name, waits_for_consumer,
};
use reconcile::EventType;

/// The input of a decision. Inputs that are needed only sometimes are functions.
pub(super) struct View<'a> {
    pub(super) claim: &'a SharedObject<PersistentVolumeClaim>,
    pub(super) volumes: &'a dyn Fn() -> Vec<SharedObject<PersistentVolume>>,
    /// Returns the volume with a name.
    pub(super) volume: &'a dyn Fn(&str) -> Option<SharedObject<PersistentVolume>>,
    /// Returns the class with a name.
    pub(super) class: &'a dyn Fn(&str) -> Option<SharedObject<StorageClass>>,
    /// Returns the class of claims that name none.
    pub(super) default_class: &'a dyn Fn() -> Option<SharedObject<StorageClass>>,
    /// Returns the names of the claim's pods without a node.
    pub(super) waiting_pods: &'a dyn Fn() -> Vec<String>,
}

/// An event about the claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClaimEvent {
    pub(super) type_: EventType,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The next action.
#[derive(Debug)]
pub(super) enum Action {
    /// Bind it to this volume, or complete the binding.
    Bind(SharedObject<PersistentVolume>),
    /// Give it the default class, because it names none.
    TakeClass(SharedObject<StorageClass>),
    /// Request a volume of this class for it.
    Provision(SharedObject<StorageClass>),
    /// Wait for another change.
    Wait(Option<ClaimEvent>),
    /// Report the loss of its volume.
    Lost { reason: &'static str, message: &'static str },
}

/// Decides about a claim.
pub(super) fn decide(view: &View<'_>) -> Action {
    let claim = view.claim;
    if annotation(&claim.metadata, BIND_COMPLETED).is_some() {
        return decide_bound(view);
    }
    let Some(name) = volume_name(claim) else { return decide_free(view) };
    let Some(volume) = (view.volume)(name) else { return Action::Wait(None) };
    match claim_ref(&volume) {
        None => match satisfies(&volume, claim) {
            Ok(()) => Action::Bind(volume),
            Err(mismatch) => Action::Wait(Some(ClaimEvent {
                type_: EventType::Warning,
                reason: "VolumeMismatch",
                message: format!("Cannot bind to requested volume \"{name}\": {mismatch}"),
            })),
        },
        Some(_) if is_bound_to(&volume, claim) => Action::Bind(volume),
        // The volume is bound to another claim. A claim for which a user named the volume waits. If the controller
        // named it, a crash interrupted the binding: an event reports that another claim has the volume.
        Some(_) => {
            let by_controller = annotation(&claim.metadata, BOUND_BY_CONTROLLER).is_some();
            Action::Wait(by_controller.then(|| ClaimEvent {
                type_: EventType::Warning,
                reason: "FailedBinding",
                message: format!("volume \"{name}\" already bound to a different claim."),
            }))
        }
    }
}

/// Decides about a claim with a completed binding.
fn decide_bound(view: &View<'_>) -> Action {
    let claim = view.claim;
    let lost = |reason, message| Action::Lost { reason, message };
    let Some(name) = volume_name(claim) else {
        return lost(
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        );
    };
    let Some(volume) = (view.volume)(name) else {
        return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    };
    match claim_ref(&volume) {
        None => Action::Bind(volume),
        Some(reference) if claim_uid(reference) == Some(claim.uid()) => Action::Bind(volume),
        Some(_) => {
            lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        }
    }
}

/// Decides about a claim that names no volume.
fn decide_free(view: &View<'_>) -> Action {
    let claim = view.claim;
    let class = Some(claim_class(claim)).filter(|name| !name.is_empty());
    let class_object = class.and_then(|name| (view.class)(name));
    let delayed = class_object.as_ref().is_some_and(|class| waits_for_consumer(class));
    if let Some(volume) = best_match(claim, &(view.volumes)(), delayed) {
        return Action::Bind(volume.clone());
    }
    if !names_class(claim)
        && let Some(default) = (view.default_class)()
    {
        return Action::TakeClass(default);
    }
    let normal =
        |reason, message| Action::Wait(Some(ClaimEvent { type_: EventType::Normal, reason, message }));
    if delayed && annotation(&claim.metadata, SELECTED_NODE).is_none() {
        let pods = (view.waiting_pods)();
        return match pods.as_slice() {
            [] => normal(
                "WaitForFirstConsumer",
                "waiting for first consumer to be created before binding".to_string(),
            ),
            [pod] => normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
            pods => {
                normal("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(",")))
            }
        };
    }
    match (class, class_object) {
        (None, _) => normal(
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set".to_string(),
        ),
        (Some(name), None) => Action::Wait(Some(ClaimEvent {
            type_: EventType::Warning,
            reason: "ProvisioningFailed",
            message: format!("storageclass.storage.k8s.io \"{name}\" not found"),
        })),
        // Kubernetes' own in-tree provisioners do not exist here, and the name for "no provisioner" creates nothing.
        (Some(_), Some(class)) if class.provisioner.starts_with("kubernetes.io/") => {
            Action::Wait(Some(ClaimEvent {
                type_: EventType::Warning,
                reason: "ProvisioningFailed",
                message: format!("no volume plugin matched name: {}", class.provisioner),
            }))
        }
        (Some(_), Some(class)) => Action::Provision(class),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(name: &str, mode: &str, provisioner: &str) -> SharedObject<StorageClass> {
        let class =
            json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
        SharedObject::from_value(serde_json::from_value(class).unwrap())
    }

    fn volume(name: &str, reference: &Value) -> SharedObject<PersistentVolume> {
        let volume = json!({"metadata": {"name": name}, "status": {"phase": "Available"},
            "spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": reference}});
        SharedObject::from_value(serde_json::from_value(volume).unwrap())
    }

    fn text(action: &Action) -> String {
        match action {
            Action::Bind(volume) => format!("bind {}", volume.name()),
            Action::TakeClass(class) => format!("take {}", class.name()),
            Action::Provision(class) => format!("provision {}", class.name()),
            Action::Wait(None) => "wait".into(),
            Action::Wait(Some(actual)) => format!("{:?} {}: {}", actual.type_, actual.reason, actual.message),
            Action::Lost { reason, .. } => (*reason).to_string(),
        }
    }

    #[test]
    fn a_claims_next_step_vol_2() {
        let own = json!({"namespace": "n", "name": "c", "uid": "1"});
        let other = json!({"namespace": "n", "name": "other", "uid": "2"});
        let done = json!({"pv.kubernetes.io/bind-completed": "yes"});
        let chosen = json!({"volume.kubernetes.io/selected-node": "n1"});
        let none = json!(null);
        let lost = "ClaimLost";
        let first = "Normal WaitForFirstConsumer: waiting for first consumer to be created before binding";
        let no_class = "Normal FailedBinding: no persistent volumes available for this claim and no storage class is set";
        for (rule, annotations, class_name, name, volumes, pods, default, expected) in [
            ("nothing there", &none, json!(""), "", vec![], vec![], "", no_class),
            ("no class named", &none, none.clone(), "", vec![], vec![], "", no_class),
            ("the default", &none, none.clone(), "", vec![], vec![], "now", "take now"),
            ("none is not the default", &none, json!(""), "", vec![], vec![], "now", no_class),
            ("one that fits", &none, none.clone(), "", vec![volume("v", &none)], vec![], "now", "bind v"),
            ("taken", &none, json!(""), "", vec![volume("v", &other)], vec![], "", no_class),
            ("made on demand", &none, json!("now"), "", vec![], vec![], "", "provision now"),
            ("first consumer", &none, json!("late"), "", vec![], vec![], "", first),
            (
                "one consumer",
                &none,
                json!("late"),
                "",
                vec![],
                vec!["p"],
                "",
                "Normal WaitForPodScheduled: waiting for pod p to be scheduled",
            ),
            (
                "more consumers",
                &none,
                json!("late"),
                "",
                vec![],
                vec!["p", "q"],
                "",
                "Normal WaitForPodScheduled: waiting for pods p,q to be scheduled",
            ),
            ("node chosen", &chosen, json!("late"), "", vec![], vec!["p"], "", "provision late"),
            (
                "unknown class",
                &none,
                json!("gone"),
                "",
                vec![],
                vec![],
                "",
                "Warning ProvisioningFailed: storageclass.storage.k8s.io \"gone\" not found",
            ),
            (
                "by hand only",
                &none,
                json!("hand"),
                "",
                vec![],
                vec![],
                "",
                "Warning ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner",
            ),
            ("named, absent", &none, json!(""), "v", vec![], vec![], "", "wait"),
            ("named, free", &none, json!(""), "v", vec![volume("v", &none)], vec![], "", "bind v"),
            ("named, reserved for it", &none, json!("x"), "v", vec![volume("v", &own)], vec![], "", "bind v"),
            ("named, another's", &none, json!(""), "v", vec![volume("v", &other)], vec![], "", "wait"),
            (
                "named, unfit",
                &none,
                json!("now"),
                "v",
                vec![volume("v", &none)],
                vec![],
                "",
                "Warning VolumeMismatch: Cannot bind to requested volume \"v\": storageClassName does not match",
            ),
            ("bound", &done, json!(""), "v", vec![volume("v", &own)], vec![], "", "bind v"),
            ("bound, forgotten by it", &done, json!(""), "v", vec![volume("v", &none)], vec![], "", "bind v"),
            (
                "bound, to another's",
                &done,
                json!(""),
                "v",
                vec![volume("v", &other)],
                vec![],
                "",
                "ClaimMisbound",
            ),
            ("bound, volume gone", &done, json!(""), "v", vec![], vec![], "", lost),
            ("bound, name gone", &done, json!(""), "", vec![volume("v", &own)], vec![], "", lost),
        ] {
            let claim = json!({"metadata": {"name": "c", "namespace": "n", "uid": "1", "annotations": annotations},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class_name, "volumeName": name,
                    "resources": {"requests": {"storage": "1Gi"}}}});
            let classes = [
                class("now", "Immediate", "podium.dev/directory"),
                class("late", "WaitForFirstConsumer", "podium.dev/directory"),
                class("hand", "Immediate", "kubernetes.io/no-provisioner"),
            ];
            let of_name = |name: &str| classes.iter().find(|c| c.name() == name).cloned();
            let view = View {
                claim: &SharedObject::from_value(serde_json::from_value(claim).unwrap()),
                volumes: &|| volumes.clone(),
                volume: &|name| volumes.iter().find(|v| v.name() == name).cloned(),
                class: &of_name,
                default_class: &|| of_name(default),
                waiting_pods: &|| pods.iter().map(ToString::to_string).collect(),
            };
            assert_eq!(text(&decide(&view)), expected, "{rule}");
        }
    }
}
