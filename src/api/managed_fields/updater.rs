//! The effect of a write on the owners: an update takes the fields that it changes, an apply the fields that
//! it names, unless another manager owns them.

use std::collections::BTreeMap;
use std::mem::take;

use serde_json::Value;

use super::compare::{Changes, field_set, with_named_fields};
use super::merge::{merge, remove};
use super::owners::{MAX_UPDATE_MANAGERS, OwnedFields, Owner, Owners, stripped};
use super::types::Type;
use super::versions::{Versions, changes};
use crate::ApiError;
use base::sort::CollectMap;
use object::managed::compact::{contains, encode, touch};
use object::managed::{Entry, FieldSet, ManagedFields, Manager, PathElement};

/// A field that an apply would change and another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) owner: Owner,
    pub(crate) path: Vec<PathElement>,
}

/// The reason why an apply fails.
#[derive(Debug)]
pub(crate) enum ApplyError {
    /// Other managers own fields that the apply would change.
    Conflicts(Vec<Conflict>),
    /// The object could not be converted to the version of an owner's fields.
    Unconverted(ApiError),
}

impl From<ApiError> for ApplyError {
    fn from(error: ApiError) -> Self {
        Self::Unconverted(error)
    }
}

/// The fields that an update touches, in one version.
struct TouchedFields {
    written: FieldSet,
    removed: FieldSet,
    is_written: Vec<u8>,
    is_removed: Vec<u8>,
}

impl TouchedFields {
    fn of(changes: Changes) -> Self {
        let Changes { added, removed, modified } = changes;
        let written = added.union(modified);
        let (is_written, is_removed) = (encode(&written), encode(&removed));
        Self { written, removed, is_written, is_removed }
    }
}

/// Returns the owners after an update by `owner`, which takes the fields that it changes. Entries without
/// changed fields are not decoded. `in_others` has the changes in other versions, by version, if versions
/// have fields of their own.
pub(crate) fn updated(
    base: &ManagedFields,
    changes: Changes,
    owner: Manager,
    now: i64,
    in_others: &BTreeMap<String, Changes>,
) -> ManagedFields {
    if changes.is_empty() {
        return base.clone();
    }
    let own = TouchedFields::of(changes);
    let others: BTreeMap<&str, TouchedFields> = in_others
        .iter()
        .map(|(version, changes)| (version.as_str(), TouchedFields::of(changes.clone())))
        .collect_map();
    let mut entries = Vec::with_capacity(base.entries().len() + 1);
    let mut has_own = false;
    for entry in base.entries() {
        let is_own = *entry.manager() == owner;
        has_own |= is_own;
        let version = entry.manager().api_version.as_str();
        let TouchedFields { written, removed, is_written, is_removed } = others.get(version).unwrap_or(&own);
        let loses = touch(entry.encoded(), is_removed);
        if is_own && !written.is_empty() {
            let same = !loses && contains(entry.encoded(), is_written);
            let set = || entry.fields().difference(removed).union(written.clone());
            entries.push(if same { entry.at(Some(now)) } else { entry.with(Some(now), &set()) });
        } else if loses || touch(entry.encoded(), is_written) {
            let set = entry.fields().difference(written).difference(removed);
            if !set.is_empty() {
                entries.push(entry.with(entry.time(), &set));
            }
        } else {
            entries.push(entry.clone());
        }
    }
    if !has_own && !own.written.is_empty() {
        entries.push(Entry::of_encoded(owner, Some(now), &own.is_written));
    }
    let owners = ManagedFields::new(entries);
    if owners.entries().len() <= MAX_UPDATE_MANAGERS {
        return owners;
    }
    let mut owners = Owners::from(&owners);
    owners.cap();
    owners.into()
}

/// An apply in progress.
#[derive(Clone, Copy)]
pub(crate) struct Application<'a> {
    pub(crate) versions: Versions<'a>,
    /// The type of the object in the configuration's version.
    pub(crate) of: Type<'a>,
    pub(crate) config: &'a Value,
    /// The configuration's version.
    pub(crate) version: &'a str,
    /// Fields that an apply to this part of the object ignores.
    pub(crate) ignored: &'a FieldSet,
    pub(crate) owner: &'a Owner,
    /// True if the apply takes ownership of conflicting fields from others.
    pub(crate) force: bool,
    /// Seconds since 1970.
    pub(crate) now: i64,
}

impl Application<'_> {
    /// Returns the next version of the live object, and its owners; or the conflicts.
    pub(crate) fn apply(&self, live: &Value, owners: &Owners) -> Result<(Value, Owners), ApplyError> {
        let mut owners = owners.clone();
        let merged = merge(self.of, live, self.config);
        let set = field_set(self.of, self.config).recursive_difference(self.ignored);
        let last = owners.0.remove(self.owner);
        let time = last.as_ref().and_then(|last| last.time);
        let held = OwnedFields { version: self.version.into(), time, set };
        owners.0.insert(self.owner.clone(), held);
        let differ = self.versions.differ();
        let next = match &last {
            None => merged,
            // The new configuration contains all fields of the old one, so nothing is to be removed.
            Some(last)
                if (last.version == self.version || !differ)
                    && last.set.is_subset(&owners.0[self.owner].set) =>
            {
                merged
            }
            Some(last) if differ => self.prune_in_versions(&merged, &owners, last)?,
            Some(last) => self.prune(&merged, &owners, &last.set),
        };
        let Changes { added, removed, modified } = changes(self.of, live, &next);
        let written = added.union(modified).recursive_difference(self.ignored);
        let named_in = owners.0.values().map(|held| held.version.as_str());
        let in_others = self.versions.changes(live, &next, named_in)?;
        let in_others: BTreeMap<String, (FieldSet, FieldSet)> = in_others
            .into_iter()
            .map(|(version, Changes { added, removed, modified })| {
                (version, (added.union(modified).recursive_difference(self.ignored), removed))
            })
            .collect_map();
        let own = (written, removed);
        let touched = |held: &OwnedFields| in_others.get(&held.version).unwrap_or(&own);
        let conflicts: Vec<Conflict> = owners
            .0
            .iter()
            .filter(|(owner, _)| *owner != self.owner)
            .flat_map(|(owner, held)| {
                let paths = held.set.intersection(&touched(held).0).paths();
                paths.into_iter().map(|path| Conflict { owner: owner.clone(), path })
            })
            .collect();
        if !self.force && !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
        owners.remove_from_others(|held| touched(held), self.owner);
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

    /// As [`Application::prune`], if each version has fields of its own: the merged object is examined in
    /// every version in which an owner names fields.
    fn prune_in_versions(
        &self,
        merged: &Value,
        owners: &Owners,
        last: &OwnedFields,
    ) -> Result<Value, ApiError> {
        if last.set.is_empty() {
            return Ok(merged.clone());
        }
        let all_of = |of: Type<'_>, value: &Value| with_named_fields(of, &field_set(of, value));
        let then = last.version.as_str();
        let of_then = self.versions.of(then);
        let last_set = with_named_fields(of_then, &last.set);
        let [merged_then] = self.versions.convert([merged], then)?;
        let mut pruned = remove(of_then, &merged_then, &last_set);
        let mut managed: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for held in owners.0.values() {
            let set = managed.entry(held.version.as_str()).or_default();
            *set = take(set).union(held.set.clone());
        }
        // The version of the applier's previous configuration comes first: a conversion may need fields that
        // are owned in it.
        let first = managed.remove_entry(then);
        for (version, set) in first.into_iter().chain(managed) {
            let of = self.versions.of(version);
            let [merged, left] = if pruned.is_null() {
                let [merged] = self.versions.convert([&merged_then], version)?;
                [merged, Value::Null]
            } else {
                self.versions.convert([&merged_then, &pruned], version)?
            };
            let retained = all_of(of, &left).union(with_named_fields(of, &set));
            pruned = remove(of, &merged, &all_of(of, &merged).difference(&retained));
        }
        let [pruned] = self.versions.convert([&pruned], then)?;
        let retained = all_of(of_then, &pruned);
        let dangling = all_of(of_then, &merged_then).difference(&retained).intersection(&last_set);
        let [pruned] = self.versions.convert([&remove(of_then, &merged_then, &dangling)], self.version)?;
        Ok(pruned)
    }

    /// Removes fields that the applier owned before and no longer names, unless another manager owns them.
    fn prune(&self, merged: &Value, owners: &Owners, last: &FieldSet) -> Value {
        let named = |set: &FieldSet| with_named_fields(self.of, set);
        let last = named(last);
        let all = named(&field_set(self.of, merged));
        let managed = owners.0.values().fold(FieldSet::default(), |all, held| all.union(named(&held.set)));
        let pruned = remove(self.of, merged, &last);
        // Restores fields with other owners, and fields that were removed only because they are below an
        // owned field.
        let retained = named(&field_set(self.of, &pruned)).union(managed);
        let pruned = remove(self.of, merged, &all.clone().difference(&retained));
        let retained = named(&field_set(self.of, &pruned));
        remove(self.of, merged, &all.difference(&retained).intersection(&last))
    }
}
