//! CustomResourceDefinitions: accepts names, establishes kinds, and deletes the objects of terminating definitions
//! (API-14). Kubernetes' naming, establishing, API approval and finalizing controllers.
//!
//! Serving follows the status at once (`api::definitions`): names are accepted in one write and the kind is reported
//! as established in the next, so that a client that sees it established can use it.

mod cleanup;
mod names;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionCondition,
};

use super::context::Context;
use api::{Api, ApiError, Change, ChangeKind};
use base::clock::time;
use object::conditions::{self};
use object::owner::is_terminating;
use object::{Key, Kind, SharedObject};
use reconcile::preconditions::modify_status;
use reconcile::{ReconcileError, Reconciler, WorkQueue, ignore_not_found, optional};

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| Definitions { api: context.api.clone(), queue })
        .keys_of::<CustomResourceDefinition>()
        .watches_every_kind(Kind::is_custom, Definitions::object_changed)
        .watches::<CustomResourceDefinition, _>(Definitions::definition_changed)
        // One worker: the acceptance of names must not depend on a race.
        .workers(1)
        .run(&context.tasks);
}

/// Accepts the names of a stored definition and serves and establishes its kind, as the controller does when it gets to
/// it. For definitions that must be served before any controller runs.
pub fn establish_definition(api: &Api, key: &Key) -> Result<(), ApiError> {
    if let Some(definition) = optional(api.get_as::<CustomResourceDefinition>(key))? {
        accept_names(api, &definition)?;
    }
    establish(api, key)
}

struct Definitions {
    api: Api,
    queue: WorkQueue<Key>,
}

impl Reconciler for Definitions {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(definition) = optional(self.api.get_as::<CustomResourceDefinition>(key))? else {
            return Ok(());
        };
        if is_terminating(&definition.metadata) {
            return self.clean_up(&definition);
        }
        accept_names(&self.api, &definition)?;
        Ok(establish(&self.api, key)?)
    }
}

impl Definitions {
    /// Names that a definition releases or takes may resolve conflicts of others in its group.
    fn definition_changed(&self, change: &Change) {
        self.queue.add(change.object.key());
        let Some(changed) = change.object.get::<CustomResourceDefinition>() else { return };
        for other in self.api.list_as::<CustomResourceDefinition>(None) {
            if other.spec.group == changed.spec.group && !holds(&other, "NamesAccepted") {
                self.queue.add(other.key());
            }
        }
    }

    /// The deletion of a kind's last object completes the deletion of its definition.
    fn object_changed(&self, change: &Change) {
        if change.kind == ChangeKind::Deleted {
            self.queue
                .add_after(Key::new("", change.object.kind().info().qualified_plural()), cleanup::TOGETHER);
        }
    }
}

fn accept_names(api: &Api, definition: &SharedObject<CustomResourceDefinition>) -> Result<(), ApiError> {
    let others = api.list_as::<CustomResourceDefinition>(None);
    let of_group = others.iter().filter(|other| other.spec.group == definition.spec.group);
    let taken = names::AcceptedNames::of(of_group.map(|other| &**other));
    let now = api.clock().now();
    let written = modify_status(api, definition, |fresh| {
        let (names, verdict) = names::accept(fresh, &taken);
        let approval = names::approval(fresh);
        let status = fresh.status.get_or_insert_default();
        let accepted = verdict.is_ok();
        status.accepted_names = Some(names);
        let conditions = status.conditions.get_or_insert_default();
        let (reason, message) = verdict.err().unwrap_or(("NoConflicts", "no conflicts found".into()));
        set(conditions, "NamesAccepted", accepted, reason, message, now);
        if !conditions::is_true(Some(conditions), "Established") {
            let (reason, message) = if accepted {
                ("Installing", "the initial names have been accepted")
            } else {
                ("NotAccepted", "not all names are accepted")
            };
            // The next step reports once the kind is served.
            if conditions::get(Some(conditions), "Established")
                .is_none_or(|old| old.reason.as_deref() != Some("NotServed") || !accepted)
            {
                set(conditions, "Established", false, reason, message.into(), now);
            }
        }
        if let Some((approved, reason, message)) = approval {
            set(conditions, "KubernetesAPIApprovalPolicyConformant", approved, reason, message, now);
        }
    });
    ignore_not_found(written)
}

/// Reports that the kind is established if its names are accepted and it is served, or the reason why it is not.
fn establish(api: &Api, key: &Key) -> Result<(), ApiError> {
    let Some(definition) = optional(api.get_as::<CustomResourceDefinition>(key))? else {
        return Ok(());
    };
    if !holds(&definition, "NamesAccepted") || holds(&definition, "Established") {
        return Ok(());
    }
    let now = api.clock().now();
    let served = api.follow_definition(&key.name);
    let written = modify_status(api, &definition, |fresh| {
        let conditions = fresh.status.get_or_insert_default().conditions.get_or_insert_default();
        match &served {
            Ok(_) => {
                let message = "the initial names have been accepted".into();
                set(conditions, "Established", true, "InitialNamesAccepted", message, now);
            }
            Err(error) => set(conditions, "Established", false, "NotServed", error.to_string(), now),
        }
    });
    ignore_not_found(written)
}

fn holds(definition: &CustomResourceDefinition, type_: &str) -> bool {
    let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions::is_true(conditions, type_)
}

/// Sets a condition; an unchanged one keeps its time.
fn set(
    conditions: &mut Vec<CustomResourceDefinitionCondition>,
    type_: &str,
    is_so: bool,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    conditions::set(conditions, conditions::new(type_, is_so, reason, message, time(now)));
}
