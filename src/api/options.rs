//! What a request asks besides the object: dry run, preconditions, propagation, selection.

use std::sync::Arc;

use serde_json::Value;

use crate::identity::User;
use crate::remarks::Remarks;
use object::selector::{FieldRequirement, Selector};
use object::{Key, Revision, ServedKind, Uid};

/// How a write is done.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Do everything but store the result.
    pub dry_run: bool,
    /// Who writes, for managedFields; none = whom the handle acts as.
    pub field_manager: Option<String>,
    /// On whose behalf; none = an actor of this process, who is not held by roles.
    pub user: Option<Arc<User>>,
    /// Who hears what should be said besides the answer.
    pub remarks: Remarks,
    /// The version that the request names its kind in; none = the one of the object.
    pub requested: Option<ServedKind>,
}

/// A configuration to apply, and where.
#[derive(Clone, Debug)]
pub(crate) struct Apply {
    /// The kind, in the version of the configuration.
    pub(crate) served: ServedKind,
    /// The object.
    pub(crate) key: Key,
    /// What of it is written.
    pub(crate) part: Part,
    /// The part's name where [`Part`] does not tell it: `scale`.
    pub(crate) subresource: Option<&'static str>,
    /// The fields that the applier wants to own.
    pub(crate) config: Value,
    /// Takes them from whoever has them.
    pub(crate) force: bool,
}

/// What becomes of an object's dependants when it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector deletes them afterwards.
    Background,
    /// They go first.
    Foreground,
    /// They stay and lose their owner.
    Orphan,
}

/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds a pod gets to end; none = its own `terminationGracePeriodSeconds`, at least 1. 0 forces: it removes the
    /// object at once, whatever still runs.
    pub grace_period_seconds: Option<i64>,
    /// Only the object with this uid.
    pub uid: Option<Uid>,
    /// Only this version.
    pub resource_version: Option<Revision>,
    /// What becomes of its dependants; none = in the background.
    pub propagation: Option<Propagation>,
    /// Do everything but delete.
    pub dry_run: bool,
    /// On whose behalf; none = an actor of this process.
    pub user: Option<Arc<User>>,
    /// The version that the request names its kind in; none = the one that the object is stored in.
    pub requested: Option<ServedKind>,
    /// Who hears what should be said besides the answer.
    pub remarks: Remarks,
}

impl DeleteOptions {
    /// Only the object with this uid, with its own grace period.
    pub fn uid(uid: impl Into<Uid>) -> Self {
        Self { uid: Some(uid.into()), ..Self::default() }
    }
}

/// Which objects of a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// By labels.
    pub(crate) labels: Selector,
    /// By fields.
    pub(crate) fields: Vec<FieldRequirement>,
}

impl Selection {
    /// Whether it looks at nothing but names, which are the same in every version of an object.
    pub(crate) fn is_of_names(&self) -> bool {
        let names = ["metadata.name", "metadata.namespace"];
        self.labels.is_everything() && self.fields.iter().all(|field| names.contains(&field.path.as_str()))
    }

    /// Whether it selects every object.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty()
    }
}

/// Which part of an object a change may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Main,
    /// The status (and metadata).
    Status,
    /// A pod's ephemeral containers, by adding some.
    EphemeralContainers,
    /// What a pod's containers ask for and may use.
    Resize,
    /// Whether a wish for a certificate is granted.
    Approval,
    /// What the API itself changes: binding, finalizers, deletion marks.
    System,
}

impl Part {
    /// How owners of fields name it; none when nobody comes to own anything by it.
    pub(crate) fn subresource(self) -> Option<&'static str> {
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
