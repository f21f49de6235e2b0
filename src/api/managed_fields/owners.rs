//! The owners of an object's fields during a write.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::LazyLock;

use super::fingerprint::{NOT_OWNED, NOT_OWNED_METADATA};
use base::sort::CollectMap;
use object::managed::{Entry, FieldSet, ManagedFields, Manager, Operation, PathElement};

/// The limit on update entries of an object; the oldest beyond it are merged into one. Kubernetes' number.
pub(crate) const MAX_UPDATE_MANAGERS: usize = 10;
/// The manager of merged update entries.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// An owner of fields. An applier is one owner in all versions, an updater one for each version. Ordered like
/// Kubernetes' JSON identifiers of managers: for one manager, entries of subresources come before the
/// object's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) operation: Operation,
    /// The version of the fields' names; empty for an applier.
    version: String,
}

impl Owner {
    pub(crate) fn applier(name: &str, subresource: &str) -> Self {
        Self {
            name: name.into(),
            subresource: subresource.into(),
            operation: Operation::Apply,
            version: String::new(),
        }
    }

    pub(crate) fn updater(name: &str, subresource: &str, api_version: &str) -> Self {
        Self {
            name: name.into(),
            subresource: subresource.into(),
            operation: Operation::Update,
            version: api_version.into(),
        }
    }

    /// Returns the owner's description in messages about conflicts.
    pub(crate) fn text(&self) -> String {
        let mut text = base::quote::quote(&self.name);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {}", base::quote::quote(&self.subresource));
        }
        if self.operation == Operation::Update {
            text = format!("{text} using {}", self.version);
        }
        text
    }
}

impl Ord for Owner {
    fn cmp(&self, other: &Self) -> Ordering {
        // The name ends with a quotation mark as in JSON, which affects the order of names with a common
        // prefix.
        self.name
            .bytes()
            .chain([b'"'])
            .cmp(other.name.bytes().chain([b'"']))
            .then_with(|| self.operation.cmp(&other.operation))
            .then_with(|| self.version.cmp(&other.version))
            .then_with(|| self.subresource.is_empty().cmp(&other.subresource.is_empty()))
            .then_with(|| self.subresource.cmp(&other.subresource))
    }
}

impl PartialOrd for Owner {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The fields of one owner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnedFields {
    /// The version of the fields' names.
    pub(crate) version: String,
    /// Seconds since 1970.
    pub(crate) time: Option<i64>,
    pub(crate) set: FieldSet,
}

/// All owners.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Owners(pub(crate) BTreeMap<Owner, OwnedFields>);

/// Fields that no entry contains: the object's identity, and fields that the API sets.
static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| {
    let metadata = PathElement::field("metadata");
    let below = NOT_OWNED_METADATA.map(|name| vec![metadata.clone(), PathElement::field(name)]);
    let top = NOT_OWNED.into_iter().chain(["metadata"]).map(|name| vec![PathElement::field(name)]);
    FieldSet::of(top.chain(below))
});

/// Returns the set without fields that no entry contains.
pub(crate) fn stripped(set: FieldSet) -> FieldSet {
    set.difference(&STRIPPED)
}

impl Owners {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes written and removed fields from every owner but one, in the owner's version.
    pub(crate) fn remove_from_others<'t>(
        &mut self,
        touched: impl Fn(&OwnedFields) -> &'t (FieldSet, FieldSet),
        but: &Owner,
    ) {
        for (owner, held) in &mut self.0 {
            if owner != but {
                let (written, removed) = touched(held);
                held.set = take(&mut held.set).difference(written).difference(removed);
            }
        }
        self.0.retain(|_, held| !held.set.is_empty());
    }

    /// Adds these fields to an updater.
    pub(crate) fn add_to_updater(&mut self, owner: Owner, set: FieldSet, now: i64) {
        if set.is_empty() {
            return;
        }
        let version = owner.version.clone();
        let held = self.0.entry(owner).or_insert_with(|| OwnedFields {
            version,
            time: None,
            set: FieldSet::default(),
        });
        held.set = take(&mut held.set).union(set);
        held.time = Some(now);
    }

    /// Merges the oldest of too many update entries, one for each version.
    pub(crate) fn cap(&mut self) {
        let mut updaters: Vec<(i64, Owner)> = self
            .0
            .iter()
            .filter(|(owner, _)| owner.operation == Operation::Update)
            .map(|(owner, held)| (held.time.unwrap_or(0), owner.clone()))
            .collect();
        let mut left = updaters.len();
        if left <= MAX_UPDATE_MANAGERS {
            return;
        }
        updaters.sort();
        let mut firsts: BTreeMap<String, Owner> = BTreeMap::new();
        for (_, owner) in updaters {
            if left <= MAX_UPDATE_MANAGERS {
                return;
            }
            let bucket = Owner::updater(ANCIENT_CHANGES, "", &owner.version);
            let Some(first) = firsts.get(&owner.version) else {
                firsts.insert(owner.version.clone(), owner);
                continue;
            };
            if !self.0.contains_key(&bucket)
                && let Some(held) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), held);
            }
            if owner == bucket {
                continue;
            }
            if let Some(merged) = self.0.remove(&owner)
                && let Some(held) = self.0.get_mut(&bucket)
            {
                held.set = take(&mut held.set).union(merged.set);
                held.time = merged.time;
                left -= 1;
            }
        }
    }
}

impl From<&ManagedFields> for Owners {
    fn from(fields: &ManagedFields) -> Self {
        let owners = fields.entries().iter().map(|entry| {
            let Manager { name, operation, api_version, subresource } = entry.manager();
            let owner = match operation {
                Operation::Apply => Owner::applier(name, subresource),
                Operation::Update => Owner::updater(name, subresource, api_version),
            };
            (owner, OwnedFields { version: api_version.clone(), time: entry.time(), set: entry.fields() })
        });
        Self(owners.collect_map())
    }
}

impl From<Owners> for ManagedFields {
    fn from(owners: Owners) -> Self {
        let entries = owners.0.into_iter().map(|(owner, held)| {
            let Owner { name, subresource, operation, .. } = owner;
            let manager = Manager { name, operation, api_version: held.version, subresource };
            Entry::new(manager, held.time, &held.set)
        });
        Self::new(entries.collect())
    }
}
