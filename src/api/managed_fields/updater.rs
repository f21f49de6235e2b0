//! What a write does to the owners: an update takes what it changes, an apply what it says, unless another owns it.

use std::mem::take;

use serde_json::Value;

use super::compare::{Changes, compare, field_set, with_named_fields};
use super::fingerprint::fingerprint;
use super::merge::{merge, remove};
use super::owners::{Held, MAX_UPDATE_MANAGERS, Owner, Owners, stripped};
use super::types::Type;
use object::managed::compact::{contains, encode, touch};
use object::managed::{Entry, FieldSet, ManagedFields, Manager, Step};

/// A field that an apply would change and another owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) owner: Owner,
    pub(crate) path: Vec<Step>,
}

/// What differs between two versions.
pub(crate) fn changes(of: Type<'_>, old: &Value, new: &Value) -> Changes {
    compare(&fingerprint(of, &[], old), &fingerprint(of, &[], new))
}

/// The owners after an update by `owner`: it takes what it changes. Entries of which nothing changes are not even read.
pub(crate) fn updated(base: &ManagedFields, changes: Changes, owner: Manager, now: i64) -> ManagedFields {
    if changes.is_empty() {
        return base.clone();
    }
    let Changes { added, removed, modified } = changes;
    let written = added.union(modified);
    let (is_written, is_removed) = (encode(&written), encode(&removed));
    let mut entries = Vec::with_capacity(base.entries().len() + 1);
    let mut has_own = false;
    for entry in base.entries() {
        let is_own = *entry.manager() == owner;
        has_own |= is_own;
        let loses = touch(entry.encoded(), &is_removed);
        if is_own && !written.is_empty() {
            let same = !loses && contains(entry.encoded(), &is_written);
            let set = || entry.fields().difference(&removed).union(written.clone());
            entries.push(if same { entry.at(Some(now)) } else { entry.with(Some(now), &set()) });
        } else if loses || touch(entry.encoded(), &is_written) {
            let set = entry.fields().difference(&written).difference(&removed);
            if !set.is_empty() {
                entries.push(entry.with(entry.time(), &set));
            }
        } else {
            entries.push(entry.clone());
        }
    }
    if !has_own && !written.is_empty() {
        entries.push(Entry::of_encoded(owner, Some(now), &is_written));
    }
    let owners = ManagedFields::new(entries);
    if owners.entries().len() <= MAX_UPDATE_MANAGERS {
        return owners;
    }
    let mut owners = Owners::from(&owners);
    owners.cap();
    owners.into()
}

/// An applied configuration.
#[derive(Clone, Copy)]
pub(crate) struct Application<'a> {
    pub(crate) of: Type<'a>,
    pub(crate) config: &'a Value,
    /// The version that it is written in.
    pub(crate) version: &'a str,
    /// What this part of the object does not take.
    pub(crate) ignored: &'a FieldSet,
    pub(crate) owner: &'a Owner,
    /// Takes from others what they own.
    pub(crate) force: bool,
    /// Seconds since 1970.
    pub(crate) now: i64,
}

impl Application<'_> {
    /// The next version of the live object, and its owners then; or what others own.
    pub(crate) fn apply(&self, live: &Value, owners: &Owners) -> Result<(Value, Owners), Vec<Conflict>> {
        let mut owners = owners.clone();
        let merged = merge(self.of, live, self.config);
        let set = field_set(self.of, self.config).recursive_difference(self.ignored);
        let last = owners.0.remove(self.owner);
        let time = last.as_ref().and_then(|last| last.time);
        let held = Held { version: self.version.into(), time, set };
        owners.0.insert(self.owner.clone(), held);
        let next = match &last {
            // Nothing of it is missing in the new configuration, nor could anything go with it.
            Some(last) if !last.set.is_subset(&owners.0[self.owner].set) => {
                self.prune(&merged, &owners, &last.set)
            }
            _ => merged,
        };
        let Changes { added, removed, modified } = changes(self.of, live, &next);
        let written = added.union(modified).recursive_difference(self.ignored);
        let conflicts: Vec<Conflict> = owners
            .0
            .iter()
            .filter(|(owner, _)| *owner != self.owner)
            .flat_map(|(owner, held)| {
                let paths = held.set.intersection(&written).paths();
                paths.into_iter().map(|path| Conflict { owner: owner.clone(), path })
            })
            .collect();
        if !self.force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        owners.take(&written, Some(self.owner));
        owners.take(&removed, Some(self.owner));
        if let Some(held) = owners.0.get_mut(self.owner) {
            held.set = stripped(take(&mut held.set));
            let is_same = last.is_some_and(|last| last.set == held.set && last.version == held.version);
            if !is_same || next != *live {
                held.time = Some(self.now);
            }
        }
        owners.0.retain(|_, held| !held.set.is_empty());
        Ok((next, owners))
    }

    /// Takes out what the applier had before and has no more, unless another owns it.
    fn prune(&self, merged: &Value, owners: &Owners, last: &FieldSet) -> Value {
        let named = |set: &FieldSet| with_named_fields(self.of, set);
        let last = named(last);
        let all = named(&field_set(self.of, merged));
        let managed = owners.0.values().fold(FieldSet::default(), |all, held| all.union(named(&held.set)));
        let pruned = remove(self.of, merged, &last);
        // What somebody owns comes back, and so does what was removed only because it stood in something owned.
        let kept = named(&field_set(self.of, &pruned)).union(managed);
        let pruned = remove(self.of, merged, &all.clone().difference(&kept));
        let kept = named(&field_set(self.of, &pruned));
        remove(self.of, merged, &all.difference(&kept).intersection(&last))
    }
}
