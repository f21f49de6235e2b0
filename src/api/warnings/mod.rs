//! What is stored as it is written and deserves a word: the `Warning` headers that clients print. Kubernetes' own
//! texts, and one for each field that is accepted and does nothing here (API-17).

mod pod;

use std::sync::Arc;

use parking_lot::Mutex;

use super::kinds;
use object::{Kind, Object};

/// No answer has room for more; see `http`'s limit of bytes.
const MAX_COLLECTED: usize = 4096;

/// Takes what the author of a write should hear besides the answer. By default nobody listens.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Option<Arc<Mutex<Vec<String>>>>);

impl PartialEq for Warnings {
    /// When the same listens, or nobody.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl Eq for Warnings {}

impl Warnings {
    /// For an author who listens.
    pub(crate) fn heard() -> Self {
        Self(Some(Arc::default()))
    }

    /// Adds those that are not there yet: a write that is tried again says the same again.
    pub(crate) fn extend(&self, warnings: impl IntoIterator<Item = String>) {
        let Some(collected) = &self.0 else { return };
        let mut collected = collected.lock();
        for warning in warnings {
            if collected.len() < MAX_COLLECTED && !collected.contains(&warning) {
                collected.push(warning);
            }
        }
    }

    /// Adds what is to be said of a version, if anybody listens.
    pub(crate) fn extend_with_those_of(&self, new: &Object, old: Option<&Object>) {
        if self.0.is_some() {
            self.extend(warnings_of(new, old));
        }
    }

    /// What was collected.
    pub(crate) fn take(&self) -> Vec<String> {
        self.0.as_ref().map(|collected| std::mem::take(&mut *collected.lock())).unwrap_or_default()
    }
}

/// What the author of this version should hear; nothing when it asks for the same as before.
fn warnings_of(new: &Object, old: Option<&Object>) -> Vec<String> {
    let strategy = kinds::built_in(new.kind());
    let mut warnings: Vec<String> = strategy.warning().map(Into::into).into_iter().collect();
    if old.is_some_and(|old| old.same_spec(new)) {
        return warnings;
    }
    if new.kind() == Kind::Pod && old.is_none() {
        pod::name(&mut warnings, new.name());
    }
    if let Some(made) = strategy.pod(new) {
        pod::spec(&mut warnings, made.path, made.spec);
    }
    warnings
}
