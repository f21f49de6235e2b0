//! Interns equal parts of entries: the replicas of a workload have equal managed fields.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use super::Manager;

/// A pool of values, each stored once while it is in use.
struct InternPool<T: ?Sized> {
    values: HashSet<Arc<T>>,
    /// The number of values at which unused ones are removed.
    sweep_at: usize,
}

/// Smaller pools are never swept.
const LEAST: usize = 1024;
/// Longer values, in bytes, are not pooled, so that unused values hold little memory until the next sweep. The fields
/// of a pod take one or two hundred bytes.
const LONGEST: usize = 4096;

impl<T: ?Sized + Eq + Hash> InternPool<T> {
    fn new() -> Self {
        Self { values: HashSet::new(), sweep_at: LEAST }
    }

    fn get<Q: ?Sized + Eq + Hash>(&mut self, value: &Q, make: impl FnOnce() -> Arc<T>) -> Arc<T>
    where
        Arc<T>: Borrow<Q>,
    {
        if let Some(there) = self.values.get(value) {
            return there.clone();
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = (2 * self.values.len()).max(LEAST);
        }
        let made = make();
        self.values.insert(made.clone());
        made
    }
}

static BYTES: LazyLock<Mutex<InternPool<[u8]>>> = LazyLock::new(|| Mutex::new(InternPool::new()));
static MANAGERS: LazyLock<Mutex<InternPool<Manager>>> = LazyLock::new(|| Mutex::new(InternPool::new()));

pub(super) fn bytes(value: &[u8]) -> Arc<[u8]> {
    if value.len() > LONGEST {
        return value.into();
    }
    BYTES.lock().get(value, || value.into())
}

pub(super) fn manager(value: Manager) -> Arc<Manager> {
    let Manager { name, operation: _, api_version, subresource } = &value;
    if name.len() + api_version.len() + subresource.len() > LONGEST {
        return Arc::new(value);
    }
    let mut managers = MANAGERS.lock();
    managers.get(&value.clone(), || Arc::new(value))
}
