//! An object that admission may still change, and the rounds of mutating admission.

use std::collections::HashSet;
use std::hash::Hash;

use serde_json::Value;

use super::attributes::Attributes;
use crate::{Api, ApiError};
use object::ServedKind;

/// An object that webhooks and policies may change.
pub(super) trait Draft {
    /// Returns the attributes of the request with the present object.
    fn attributes(&self) -> Attributes<'_>;

    /// Replaces the object by a changed one in a version; returns true if it differs.
    fn replace(&mut self, api: &Api, served: ServedKind, value: Value) -> Result<bool, ApiError>;
}

/// Webhooks or policies that request reinvocation when the object changes after them.
#[derive(Debug)]
pub(super) struct ReinvocationSet<K> {
    /// Webhooks or policies to reinvoke if the object changes again.
    requested: HashSet<K>,
    /// Webhooks or policies to reinvoke.
    reinvoke: HashSet<K>,
}

impl<K> Default for ReinvocationSet<K> {
    fn default() -> Self {
        Self { requested: HashSet::new(), reinvoke: HashSet::new() }
    }
}

impl<K: Eq + Hash> ReinvocationSet<K> {
    /// Returns true if this webhook or policy runs in the second round.
    pub(super) fn is_due(&self, one: &K) -> bool {
        self.reinvoke.contains(one)
    }

    /// Requests reinvocation of this webhook or policy if the object changes from here on.
    pub(super) fn request_reinvocation(&mut self, one: K) {
        self.requested.insert(one);
    }

    fn changed(&mut self) {
        self.reinvoke.extend(self.requested.drain());
    }
}

/// The rounds of mutating admission for a write. If the object was changed in the first round, a second one runs the
/// webhooks and policies that request reinvocation.
#[derive(Default)]
pub(super) struct ReinvocationContext {
    /// Webhooks, by the indexes of their configuration and of themselves in it.
    pub(super) webhooks: ReinvocationSet<(usize, usize)>,
    /// Policies, by the names of the policy and its binding and the index of the parameter.
    pub(super) policies: ReinvocationSet<(String, String, usize)>,
    has_changed: bool,
    is_second: bool,
    /// The object at the end of the first round.
    previous: Option<Value>,
}

impl ReinvocationContext {
    /// Returns true if a second round is needed.
    pub(super) fn is_second_due(&self) -> bool {
        self.has_changed && !self.is_second
    }

    pub(super) fn begin_second(&mut self) {
        self.is_second = true;
    }

    pub(super) fn is_second(&self) -> bool {
        self.is_second
    }

    /// Records a change of the object.
    pub(super) fn changed(&mut self) {
        self.has_changed = true;
        self.webhooks.changed();
        self.policies.changed();
    }

    /// Ends the first round with this object.
    pub(super) fn end_first(&mut self, value: Value) {
        self.previous = Some(value);
    }

    /// Records a change if the object differs from that at the end of the first round: the plugins may have changed it
    /// in between.
    pub(super) fn compare(&mut self, value: &Value) {
        if self.previous.take().is_some_and(|left| left != *value) {
            self.changed();
        }
    }
}
