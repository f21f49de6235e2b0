//! The options of a request besides the object: dry run, preconditions, propagation, selection.

use std::sync::Arc;

use serde_json::Value;

use crate::identity::User;
use crate::warning_recorder::WarningRecorder;
use apimachinery::{ApiError, Propagation};
use object::selector::{FieldRequirement, Selector};
use object::{Key, Object, Revision, ServedKind, Uid};

/// Options of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// True for a dry run: all steps of the write run, but the result is not stored.
    pub dry_run: bool,
    /// The field manager for managedFields; `None`: the actor of the handle.
    pub field_manager: Option<String>,
    /// The user who makes the request; `None`: an actor of this process, which RBAC does not restrict.
    pub user: Option<Arc<User>>,
    /// Receives the warnings and audit annotations of the write.
    pub warnings: WarningRecorder,
    /// The version in which the request names its kind; `None`: the object's.
    pub requested: Option<ServedKind>,
}

/// A configuration to apply, and its target.
#[derive(Clone, Debug)]
pub struct Apply {
    /// The kind, in the version of the configuration.
    pub served: ServedKind,
    /// The object.
    pub key: Key,
    /// The part of the object that the apply writes.
    pub part: Part,
    /// The subresource's name where [`Part`] does not imply it: `scale`.
    pub subresource: Option<&'static str>,
    /// The fields that the applier wants to own.
    pub config: Value,
    /// True if the apply takes ownership of conflicting fields from other managers.
    pub force: bool,
}

/// Options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds that a pod gets to end; `None`: the pod's own `terminationGracePeriodSeconds`, at least 1.
    /// Zero forces the deletion: the object is removed at once, even if its processes still run.
    pub grace_period_seconds: Option<i64>,
    /// Only an object with this uid is deleted.
    pub uid: Option<Uid>,
    /// Only this version.
    pub resource_version: Option<Revision>,
    /// The treatment of the object's dependents; `None`: that of an earlier deletion, or the default.
    pub propagation: Option<Propagation>,
    /// The treatment of the dependents if neither the request nor an earlier deletion names one; `None`:
    /// [`Propagation::Background`].
    pub default_propagation: Option<Propagation>,
    /// True for a dry run: all steps of the deletion run, but the object stays.
    pub dry_run: bool,
    /// The user who makes the request; `None`: an actor of this process.
    pub user: Option<Arc<User>>,
    /// The version in which the request names its kind; `None`: the version that the object is stored in.
    pub requested: Option<ServedKind>,
    /// Receives the warnings and audit annotations of the deletion.
    pub warnings: WarningRecorder,
}

impl DeleteOptions {
    /// Creates options that delete only the object with this uid, with its own grace period.
    pub fn uid(uid: impl Into<Uid>) -> Self {
        Self { uid: Some(uid.into()), ..Self::default() }
    }

    /// Refuses the deletion of an object with another uid or version than the request demands.
    pub(crate) fn check_preconditions(&self, current: &Object) -> Result<(), ApiError> {
        let failed = |field: &str, requested: &str, found: &str| {
            Err(ApiError::conflict(
                current.kind(),
                current.name(),
                format!(
                    "Precondition failed: {field} in precondition: {requested}, {field} in object meta: {found}"
                ),
            ))
        };
        if let Some(uid) = self.uid.as_ref().filter(|uid| *uid != current.uid()) {
            return failed("UID", uid, current.uid());
        }
        if let Some(revision) = self.resource_version.filter(|r| *r != current.revision()) {
            return failed("ResourceVersion", &revision.to_string(), &current.revision().to_string());
        }
        Ok(())
    }
}

/// Selects objects of a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// By labels.
    pub labels: Selector,
    /// By fields.
    pub fields: Vec<FieldRequirement>,
}

impl Selection {
    /// Returns true if it selects by name and namespace only, which are the same in every version of an
    /// object.
    pub fn is_of_names(&self) -> bool {
        let names = ["metadata.name", "metadata.namespace"];
        self.labels.is_everything() && self.fields.iter().all(|field| names.contains(&field.path.as_str()))
    }

    /// Returns true if it selects every object.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty()
    }
}

/// The part of an object that a change may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Main,
    /// The status (and metadata).
    Status,
    /// A pod's ephemeral containers, to which a change may only add.
    EphemeralContainers,
    /// The resource requests and limits of a pod's containers.
    Resize,
    /// The approval or denial of a certificate signing request.
    Approval,
    /// Fields that only the API itself changes: binding, finalizers, deletion marks.
    System,
}

impl Part {
    /// Returns the subresource in entries of managedFields; `None` if changes of the part make no manager an
    /// owner.
    pub fn subresource(self) -> Option<&'static str> {
        match self {
            Self::Main => Some(""),
            Self::Status => Some("status"),
            Self::EphemeralContainers => Some("ephemeralcontainers"),
            Self::Resize => Some("resize"),
            Self::Approval => Some("approval"),
            Self::System => None,
        }
    }
}
