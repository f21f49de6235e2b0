//! Managed fields, and server-side apply.
//!
//! Pure: computes the new owners from the live object, the next version or a configuration, and the present
//! owners. The algorithm is structured-merge-diff's, with the rules of Kubernetes' field manager around it.

mod always_encoded;
mod check;
mod compare;
mod digest;
mod fingerprint;
mod last_applied;
mod merge;
mod owners;
mod types;
mod updater;
mod versions;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Value, json};

use crate::served_kinds::Kinds;
use crate::{ApiError, Cause};
use compare::Changes;
use fingerprint::{fields, fingerprint};
use kinds::KindSchemas;
use object::managed::{Entry, FieldSet, ManagedFields, Manager, Operation, path_text};
use object::{Kind, Object, ServedKind};
use owners::{Owner, Owners};
pub(crate) use types::Type;
use updater::{Application, ApplyError, Conflict};
pub(crate) use versions::{Converter, Versions};

/// The owner of all fields that existed before the first apply to an object without managed fields.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The author of a write, the written part, and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
    /// Seconds since 1970.
    pub(crate) now: i64,
}

/// Returns the owners of a new version, written by anything but an apply.
pub(crate) fn track(
    kinds: &Kinds,
    convert: Option<&dyn Converter>,
    writer: &Writer<'_>,
    old: Option<&Object>,
    new: &mut Object,
) -> Result<ManagedFields, ApiError> {
    let schemas = kinds.schemas(new.kind());
    let of = Type::of(&schemas, new);
    let given = if new.meta().managed_fields.is_some() { new.meta_mut().managed_fields.take() } else { None };
    let live = old.map(|old| old.managed_fields().clone()).unwrap_or_default();
    let base = match given.as_deref() {
        // A single empty entry removes all managed fields, but not through a subresource.
        Some([only]) if writer.subresource.is_empty() && *only == ManagedFieldsEntry::default() => {
            ManagedFields::default()
        }
        Some(entries) if writer.subresource.is_empty() && !entries.is_empty() => {
            ManagedFields::read(entries).unwrap_or(live)
        }
        _ => live,
    };
    // An object without managed fields stays without them until the first apply.
    if old.is_some_and(|old| base.is_empty() || old.same_content(new)) {
        return Ok(base);
    }
    let owner = Manager {
        name: writer.manager.into(),
        operation: Operation::Update,
        api_version: new.api_version().into(),
        subresource: writer.subresource.into(),
    };
    if old.is_none() && base.is_empty() {
        let all = Entry::of_encoded(owner, Some(writer.now), &fields(of, new));
        return Ok(ManagedFields::new(vec![all]));
    }
    // Equal parts are skipped: most writes change only the status.
    let same_spec = old.is_some_and(|old| new.same_spec(old)).then_some("spec");
    let same_meta = old.is_some_and(|old| new.meta() == old.meta()).then_some("metadata");
    let same: Vec<&str> = same_spec.into_iter().chain(same_meta).collect();
    let before = old.map(|old| fingerprint(of, &same, old)).unwrap_or_default();
    let changes = compare::compare(&before, &fingerprint(of, &same, new));
    let base = reconciled(kinds, &schemas, new.kind(), &base);
    let versions = Versions::new(kinds, &schemas, convert, new.kind(), of);
    let of_others = if versions.differ() && !changes.is_empty() {
        let before = old.map_or_else(|| json!({}), Object::content);
        let named_in = base.entries().iter().map(|entry| entry.manager().api_version.as_str());
        versions.changes(&before, &new.content(), named_in)?
    } else {
        BTreeMap::new()
    };
    Ok(updater::updated(&base, changes, owner, writer.now, &of_others))
}

/// Returns the owners adjusted to the present schema of a custom resource; schemas of built-in kinds never
/// change. Entries in a version that no longer exists are dropped, because their fields have lost their
/// meaning.
fn reconciled(kinds: &Kinds, schemas: &KindSchemas, kind: Kind, owners: &ManagedFields) -> ManagedFields {
    if !kind.is_custom() {
        return owners.clone();
    }
    let entries = owners.entries().iter().filter_map(|entry| {
        let served = kinds.version_named(kind, &entry.manager().api_version)?;
        let of = Type::served(schemas, served);
        // Usually the schema has not changed since the entry was written.
        if !compare::has_parts_of_wholes(of, entry.encoded()) {
            return Some(entry.clone());
        }
        let fields = compare::with_wholes(of, &entry.fields());
        Some(Entry::new(entry.manager().clone(), entry.time(), &fields))
    });
    ManagedFields::new(entries.collect())
}

/// Returns the errors that prevent applying a configuration to an object of this type, in Kubernetes' words.
pub(crate) fn faults(of: Type<'_>, config: &Value) -> Option<String> {
    check::faults(of, config)
}

/// Returns the paths of atomic lists and maps in a configuration: naming a part of one replaces all of it.
pub(crate) fn wholes(of: Type<'_>, config: &Value) -> Vec<String> {
    check::wholes(of, config)
}

/// Returns a value with a configuration merged into it, without changes of ownership.
pub(crate) fn merge(of: Type<'_>, live: &Value, config: &Value) -> Value {
    merge::merge(of, live, config)
}

/// A configuration to apply.
pub(crate) struct Configuration<'a> {
    /// The configuration, in the storage version of the object.
    pub(crate) value: &'a Value,
    pub(crate) version: &'a str,
    /// Fields that an apply to this part of the object ignores.
    pub(crate) ignored: &'a FieldSet,
    /// True if the apply takes ownership of conflicting fields from others.
    pub(crate) force: bool,
}

/// Returns the next version of an object with the configuration applied, and its owners.
pub(crate) fn apply(
    kinds: &Kinds,
    convert: Option<&dyn Converter>,
    served: ServedKind,
    writer: &Writer<'_>,
    live: Option<&Object>,
    config: &Configuration<'_>,
) -> Result<(Value, ManagedFields), ApiError> {
    let empty = json!({});
    let content = live.map(Object::content);
    let schemas = kinds.schemas(served.kind());
    let of = Type::served(&schemas, served);
    let owners =
        |live: &Object| Owners::from(&reconciled(kinds, &schemas, live.kind(), live.managed_fields()));
    let owners = live.map(owners).unwrap_or_default();
    let content = content.as_ref().unwrap_or(&empty);
    let versions = Versions::new(kinds, &schemas, convert, served.kind(), of);
    let (value, owners) = apply_to(versions, writer, content, owners, config)?;
    Ok((value, owners.into()))
}

fn apply_to(
    versions: Versions<'_>,
    writer: &Writer<'_>,
    live: &Value,
    mut owners: Owners,
    config: &Configuration<'_>,
) -> Result<(Value, Owners), ApiError> {
    let of = versions.of(config.version);
    if owners.is_empty() {
        let Changes { added, modified, .. } = versions::changes(of, &json!({}), live);
        let before = Owner::updater(BEFORE_FIRST_APPLY, writer.subresource, config.version);
        owners.add_to_updater(before, added.union(modified).recursive_difference(config.ignored), writer.now);
    }
    let owner = Owner::applier(writer.manager, writer.subresource);
    let application = Application {
        versions,
        of,
        config: config.value,
        version: config.version,
        ignored: config.ignored,
        owner: &owner,
        force: config.force,
        now: writer.now,
    };
    let is_kubectl = writer.manager == last_applied::KUBECTL;
    let applied = match application.apply(live, &owners) {
        Err(ApplyError::Conflicts(mut conflicts)) if is_kubectl => {
            let allowed = last_applied::still_as_applied(of, live, config.version);
            conflicts.retain(|conflict| !allowed.has(&conflict.path));
            if conflicts.is_empty() {
                Application { force: true, ..application }.apply(live, &owners)
            } else {
                Err(ApplyError::Conflicts(conflicts))
            }
        }
        other => other,
    };
    let (mut next, owners) = applied.map_err(|why| match why {
        ApplyError::Conflicts(conflicts) => refusal(&conflicts),
        ApplyError::Unconverted(error) => error,
    })?;
    if is_kubectl {
        last_applied::renew(&mut next, config.value);
    }
    Ok((next, owners))
}

/// The limits on reported conflicts of an apply, in number and bytes: an object may have 20 000 fields, owned
/// by managers with long names.
const MAX_CONFLICTS: usize = 1_000;
const MAX_CONFLICT_BYTES: usize = 1024 * 1024;

/// Returns the number of conflicts within the limits.
fn reported_count(conflicts: &[Conflict]) -> usize {
    let mut left = MAX_CONFLICT_BYTES;
    let fits = |conflict: &&Conflict| {
        let bytes = conflict.owner.text().len() + path_text(&conflict.path).len();
        let rest = left.checked_sub(bytes);
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    conflicts.iter().take(MAX_CONFLICTS).take_while(fits).count().max(1)
}

fn refusal(conflicts: &[Conflict]) -> ApiError {
    let (all, conflicts) = (conflicts.len(), &conflicts[..reported_count(conflicts).min(conflicts.len())]);
    let message = match conflicts {
        [only] if all == 1 => {
            format!("1 conflict: conflict with {}: {}", only.owner.text(), path_text(&only.path))
        }
        many => {
            let mut lines = Vec::new();
            let mut last = None;
            for conflict in many {
                let owner = conflict.owner.text();
                if last.as_ref() != Some(&owner) {
                    lines.push(format!("conflicts with {owner}:"));
                }
                last = Some(owner);
                lines.push(format!("- {}", path_text(&conflict.path)));
            }
            if all > many.len() {
                lines.push(format!("and {} more", all - many.len()));
            }
            format!("{all} conflicts: {}", lines.join("\n"))
        }
    };
    let causes = conflicts.iter().map(|conflict| Cause {
        reason: "FieldManagerConflict".into(),
        message: format!("conflict with {}", conflict.owner.text()),
        field: path_text(&conflict.path),
    });
    ApiError::ApplyConflict { message: format!("Apply failed with {message}"), causes: causes.collect() }
}
