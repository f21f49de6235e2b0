//! What is on its way and may be changed by what users have configured, and the rounds in which they are asked.

use std::collections::HashSet;
use std::hash::Hash;

use serde_json::Value;

use super::attributes::Attributes;
use crate::{Api, ApiError};
use object::ServedKind;

/// What webhooks and policies may change.
pub(super) trait Draft {
    /// The request, with what has become of its object.
    fn attributes(&self) -> Attributes<'_>;

    /// Takes over what was made of the object, in a version; whether that is something else.
    fn replace(&mut self, api: &Api, served: ServedKind, value: Value) -> Result<bool, ApiError>;
}

/// Those of one sort that want to see what becomes of an object after them.
#[derive(Debug)]
pub(super) struct Reinvoked<K> {
    /// Who is asked again when the object changes once more.
    asked: HashSet<K>,
    /// Who is to be asked again.
    again: HashSet<K>,
}

impl<K> Default for Reinvoked<K> {
    fn default() -> Self {
        Self { asked: HashSet::new(), again: HashSet::new() }
    }
}

impl<K: Eq + Hash> Reinvoked<K> {
    /// Whether this one is to be asked in the second round.
    pub(super) fn is_due(&self, one: &K) -> bool {
        self.again.contains(one)
    }

    /// This one wants to be asked again if the object changes from here on.
    pub(super) fn ask_again(&mut self, one: K) {
        self.asked.insert(one);
    }

    fn changed(&mut self) {
        self.again.extend(self.asked.drain());
    }
}

/// The rounds of asking that a write goes through: a second one follows when somebody has changed the object, for those
/// that want to see what became of it.
#[derive(Default)]
pub(super) struct Rounds {
    /// Webhooks, by the place of their configuration and their own there.
    pub(super) webhooks: Reinvoked<(usize, usize)>,
    /// Policies, by the names of the policy and its binding and the place of the parameter.
    pub(super) policies: Reinvoked<(String, String, usize)>,
    has_changed: bool,
    is_second: bool,
    /// The object as the first round left it.
    left: Option<Value>,
}

impl Rounds {
    /// Whether there is to be a second one.
    pub(super) fn is_second_due(&self) -> bool {
        self.has_changed && !self.is_second
    }

    /// Begins the second one.
    pub(super) fn begin_second(&mut self) {
        self.is_second = true;
    }

    /// Whether it is the second one.
    pub(super) fn is_second(&self) -> bool {
        self.is_second
    }

    /// Somebody has changed the object.
    pub(super) fn changed(&mut self) {
        self.has_changed = true;
        self.webhooks.changed();
        self.policies.changed();
    }

    /// The first round ends with the object as this.
    pub(super) fn leave(&mut self, value: Value) {
        self.left = Some(value);
    }

    /// The second round begins with the object as this: the plugins may have changed it in between.
    pub(super) fn compare(&mut self, value: &Value) {
        if self.left.take().is_some_and(|left| left != *value) {
            self.changed();
        }
    }
}
