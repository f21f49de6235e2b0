//! Adoption and release: an owner controls exactly the objects its selector matches.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;

use api::{Api, ApiError};
use api::{Change, ChangeKind};
use object::owner::{controller_of, controller_reference, is_controlled_by, is_terminating};
use object::selector::Selector;
use object::{Key, SharedObject, TypedKind};
use reconcile::{Cache, controllers_of, ignore_gone, optional};

/// The decision about an object from its relation to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimDecision {
    /// The owner controls the object.
    Owned,
    /// The owner controls the object, but its labels no longer match.
    Release,
    /// The object has no controller and matches.
    Adopt,
    /// Unrelated.
    None,
}

/// Decides from the metadata of owner and object. `matches`: the owner's selector matches the object. A terminating
/// owner neither adopts nor releases.
pub(super) fn relation(owner: &ObjectMeta, matches: bool, object: &ObjectMeta) -> ClaimDecision {
    match controller_of(object) {
        Some(controller) if Some(&controller.uid) != owner.uid.as_ref() => ClaimDecision::None,
        Some(_) if matches => ClaimDecision::Owned,
        Some(_) if is_terminating(owner) => ClaimDecision::None,
        Some(_) => ClaimDecision::Release,
        None if !matches || is_terminating(owner) || is_terminating(object) => ClaimDecision::None,
        None if owner.namespace != object.namespace => ClaimDecision::None,
        None => ClaimDecision::Adopt,
    }
}

/// Adopts and releases candidates by the owner's selector; returns the objects the owner controls then.
pub(super) fn claim<O: TypedKind, T: TypedKind>(
    api: &Api,
    owner: &SharedObject<O>,
    selector: &Selector,
    candidates: impl IntoIterator<Item = SharedObject<T>>,
) -> Result<Vec<SharedObject<T>>, ApiError> {
    claim_where(api, owner, |object| selector.matches(object.labels.as_ref()), candidates)
}

/// Does the same as [`claim`], with a predicate instead of the selector alone.
pub(super) fn claim_where<O: TypedKind, T: TypedKind>(
    api: &Api,
    owner: &SharedObject<O>,
    wants: impl Fn(&ObjectMeta) -> bool,
    candidates: impl IntoIterator<Item = SharedObject<T>>,
) -> Result<Vec<SharedObject<T>>, ApiError> {
    claim_holding(api, owner, wants, candidates, None)
}

/// Adopts and releases candidates; adopted ones get the finalizer, released ones lose it.
///
/// The owner is read from the API before it adopts anything: a cached owner may have been deleted and replaced by
/// another one with the same name.
pub(super) fn claim_holding<O: TypedKind, T: TypedKind>(
    api: &Api,
    owner: &SharedObject<O>,
    wants: impl Fn(&ObjectMeta) -> bool,
    candidates: impl IntoIterator<Item = SharedObject<T>>,
    finalizer: Option<&str>,
) -> Result<Vec<SharedObject<T>>, ApiError> {
    let mut owned = Vec::new();
    let mut may_adopt = None;
    for object in candidates {
        let meta = object.object().meta();
        match relation(owner.object().meta(), wants(meta), meta) {
            ClaimDecision::Owned => owned.push(object),
            ClaimDecision::None => {}
            ClaimDecision::Release => ignore_gone(release(api, owner.uid(), &object, finalizer))?,
            ClaimDecision::Adopt => {
                if *may_adopt.get_or_insert_with(|| exists(api, owner)) {
                    owned.extend(optional(adopt(api, owner, &wants, &object, finalizer))?.flatten());
                }
            }
        }
    }
    Ok(owned)
}

fn exists<O: TypedKind>(api: &Api, owner: &SharedObject<O>) -> bool {
    api.get(O::kind(), &owner.key())
        .is_ok_and(|fresh| fresh.uid() == owner.uid() && !is_terminating(fresh.meta()))
}

fn adopt<O: TypedKind, T: TypedKind>(
    api: &Api,
    owner: &SharedObject<O>,
    wants: impl Fn(&ObjectMeta) -> bool,
    object: &SharedObject<T>,
    finalizer: Option<&str>,
) -> Result<Option<SharedObject<T>>, ApiError> {
    let reference = controller_reference(owner.object());
    let adopted = api.modify::<T>(&object.key(), |fresh| {
        let meta = fresh.metadata_mut();
        if meta.uid.as_deref() == Some(object.uid())
            && relation(owner.object().meta(), wants(meta), meta) == ClaimDecision::Adopt
        {
            meta.owner_references.get_or_insert_default().push(reference.clone());
            let held = meta.finalizers.get_or_insert_default();
            held.extend(finalizer.filter(|f| !held.iter().any(|h| h == f)).map(ToString::to_string));
        }
        Ok(())
    })?;
    Ok(is_controlled_by(adopted.object().meta(), owner.uid()).then_some(adopted))
}

fn release<T: TypedKind>(
    api: &Api,
    owner_uid: &str,
    object: &SharedObject<T>,
    finalizer: Option<&str>,
) -> Result<(), ApiError> {
    api.modify::<T>(&object.key(), |fresh| {
        let meta = fresh.metadata_mut();
        if meta.uid.as_deref() == Some(object.uid())
            && let Some(references) = &mut meta.owner_references
        {
            references.retain(|r| r.uid != owner_uid);
            if let Some(held) = &mut meta.finalizers {
                held.retain(|h| Some(h.as_str()) != finalizer);
            }
        }
        Ok(())
    })
    .map(drop)
}

/// Returns the owners that a change of an object concerns: its controller and its previous controller, or for an
/// orphan, the owners that may adopt it.
pub(super) fn owners_concerned<O: TypedKind>(
    change: &Change,
    owners: &Cache<O>,
    selector: impl Fn(&O) -> Selector,
) -> Vec<Key> {
    let object = &change.object;
    let mut keys = controllers_of(change, O::kind());
    if controller_of(object.meta()).is_none() && change.kind != ChangeKind::Deleted {
        let labels = object.meta().labels.as_ref();
        let adopters = owners.in_namespace(object.namespace()).into_iter();
        keys.extend(adopters.filter(|owner| selector(owner).matches(labels)).map(|owner| owner.key()));
    }
    keys
}

/// The objects of a kind without a controller, so that a reconcile need not search a whole namespace.
#[derive(Default)]
pub(super) struct Orphans {
    by_namespace: Mutex<HashMap<String, BTreeSet<Key>>>,
}

impl Orphans {
    /// Observes a change of the kind.
    pub(super) fn observe(&self, change: &Change) {
        let key = change.object.key();
        let orphaned = change.kind != ChangeKind::Deleted && controller_of(change.object.meta()).is_none();
        let mut namespaces = self.by_namespace.lock();
        if orphaned {
            namespaces.entry(key.namespace.clone()).or_default().insert(key);
        } else if let Some(keys) = namespaces.get_mut(&key.namespace) {
            keys.remove(&key);
            if keys.is_empty() {
                namespaces.remove(&key.namespace);
            }
        }
    }

    /// Returns the orphans of a namespace.
    pub(super) fn of<T: TypedKind>(&self, namespace: &str, cache: &Cache<T>) -> Vec<SharedObject<T>> {
        let keys = self.by_namespace.lock().get(namespace).cloned().unwrap_or_default();
        keys.iter().filter_map(|key| cache.get(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(value: serde_json::Value) -> ObjectMeta {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_owner_controls_exactly_what_its_selector_matches_rs_1() {
        let selector = Selector::parse("app=web").unwrap();
        let owner = json!({"name": "o", "namespace": "n", "uid": "1"});
        let going =
            json!({"name": "o", "namespace": "n", "uid": "1", "deletionTimestamp": "2026-11-21T00:00:00Z"});
        let by = |uid: &str| json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": uid, "controller": true}]);
        for (rule, owner, labels, owners, extra, expected) in [
            ("owned", &owner, "web", by("1"), json!({}), ClaimDecision::Owned),
            ("labels changed", &owner, "other", by("1"), json!({}), ClaimDecision::Release),
            ("another controller's", &owner, "web", by("2"), json!({}), ClaimDecision::None),
            ("an orphan", &owner, "web", json!([]), json!({}), ClaimDecision::Adopt),
            ("an orphan of no interest", &owner, "other", json!([]), json!({}), ClaimDecision::None),
            (
                "an orphan that goes",
                &owner,
                "web",
                json!([]),
                json!({"deletionTimestamp": "2026-11-21T00:00:00Z"}),
                ClaimDecision::None,
            ),
            ("an orphan elsewhere", &owner, "web", json!([]), json!({"namespace": "m"}), ClaimDecision::None),
            ("the owner goes", &going, "web", json!([]), json!({}), ClaimDecision::None),
            ("the owner goes and keeps", &going, "other", by("1"), json!({}), ClaimDecision::None),
        ] {
            let mut object =
                json!({"name": "p", "namespace": "n", "labels": {"app": labels}, "ownerReferences": owners});
            object.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let object = meta(object);
            let matches = selector.matches(object.labels.as_ref());
            assert_eq!(relation(&meta(owner.clone()), matches, &object), expected, "{rule}");
        }
    }
}
