//! Relations of an object: its owner, its events, the pods that a selector matches; and pods waiting for a node.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::catalogue::Catalogue;
use super::context::Context;
use super::kind_view::{self, Pods};
use super::resource::{Kind, KindFacts, ObjectRef, ResourceKey, Uid};
use super::store::{Labels, StoredObject};
use base::sort::SliceOrder;
use object::owner::is_terminating;
use object::selector::Selector;

/// Returns the kind for an API version and kind, even if discovery does not list it.
pub fn kind_of(catalogue: &Catalogue, api_version: &str, kind: &str) -> Kind {
    catalogue.by_gvk(api_version, kind).cloned().unwrap_or_else(|| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let singular = kind.to_lowercase();
        Kind::new(KindFacts {
            resource: ResourceKey {
                group: group.to_owned().into(),
                version: version.to_owned().into(),
                plural: format!("{singular}s").into(),
            },
            kind: kind.to_owned(),
            singular,
            namespaced: true,
            short_names: Vec::new(),
            verbs: BTreeSet::new(),
            subresources: BTreeMap::new(),
        })
    })
}

/// Returns an owner from the fields of its owner reference.
pub fn by_reference(catalogue: &Catalogue, owner: &OwnerReference, namespace: Option<String>) -> ObjectRef {
    let kind = kind_of(catalogue, &owner.api_version, &owner.kind);
    let namespace = namespace.filter(|_| kind.namespaced);
    ObjectRef { kind, namespace, name: owner.name.clone(), uid: Some(Uid::from(owner.uid.as_str())) }
}

/// Reports whether the object is a pod that waits for a node.
pub fn is_unscheduled(cx: &Context<'_>, object: &ObjectRef) -> bool {
    let uid = object.uid.as_ref().filter(|_| object.kind.is::<Pod>());
    uid.and_then(|uid| cx.stores.pods().get(uid)).is_some_and(waits_for_a_node)
}

/// Reports whether the pod is pending without a node; the scheduling views apply to such pods only.
pub fn waits_for_a_node(pod: &Pod) -> bool {
    let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|n| !n.is_empty());
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !bound && matches!(phase, None | Some("Pending")) && !is_terminating(&pod.metadata)
}

/// Reports whether a service or a disruption budget selects a pod.
pub fn selects(cx: &Context<'_>, by: &ObjectRef, namespace: Option<&str>, labels: &Labels) -> bool {
    if namespace != by.namespace.as_deref() {
        return false;
    }
    let Some(uid) = &by.uid else { return false };
    if let Some(service) = cx.stores.services().get(uid) {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        return selector.is_some_and(|selector| {
            !selector.is_empty() && Selector::from_labels(selector).matches(Some(labels))
        });
    }
    let Some(budget) = cx.stores.budgets().get(uid) else { return false };
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| Selector::from_field(selector).matches(Some(labels)))
}

/// Returns the pods of an object: those that it controls, that it selects, or that are bound to it.
pub fn pods_of<'a>(cx: &Context<'a>, object: &ObjectRef) -> Vec<&'a Pod> {
    let stores = cx.stores;
    let Some(uid) = &object.uid else { return Vec::new() };
    match kind_view::of(&object.kind.resource).pods {
        Pods::Itself => stores.pods().get(uid).into_iter().collect(),
        // A Deployment's pods belong to its ReplicaSets.
        Pods::Owned => {
            let sets = stores.replica_sets().owned_by(uid);
            let sets = sets.filter_map(|set| set.metadata.uid.as_deref().map(Uid::from));
            let below = sets.flat_map(|set| stores.pods().owned_by(&set));
            stores.pods().owned_by(uid).chain(below).collect()
        }
        Pods::OnNode => stores.pods_on(&object.name).collect(),
        Pods::Selected => {
            let all = stores.pods().entries();
            all.filter(|one| selects(cx, object, one.namespace(), &one.labels))
                .map(StoredObject::whole)
                .collect()
        }
        Pods::InNamespace | Pods::None => Vec::new(),
    }
}

/// Reports whether an event is about an object. An earlier object of the same name is a different object.
pub fn is_about(event: &StoredObject<'_, Event>, object: &ObjectRef) -> bool {
    let about = &event.summary;
    let namespace = about.about_namespace.as_deref().filter(|name| !name.is_empty());
    let same_namespace = match object.namespace.as_deref() {
        // An object's events are in its namespace.
        Some(own) => namespace.or(event.namespace()) == Some(own),
        None => namespace.is_none(),
    };
    let uid = about.about_uid.as_deref().filter(|uid| !uid.is_empty());
    let same_uid = match (&object.uid, uid) {
        // In events about its node, the kubelet writes the node's name instead of its uid.
        (Some(own), Some(uid)) => uid == own.as_str() || (object.kind.is::<Node>() && uid == object.name),
        _ => true,
    };
    same_namespace
        && same_uid
        && about.about_kind.as_deref() == Some(object.kind.kind.as_str())
        && about.about_name.as_deref() == Some(object.name.as_str())
}

/// Returns the events about an object, newest first; within one second, the last written first.
pub fn events_about<'a>(cx: &Context<'a>, object: &ObjectRef) -> Vec<&'a Event> {
    let events = cx.stores.events().entries().filter(|event| is_about(event, object));
    let mut events: Vec<StoredObject<'_, Event>> = events.collect();
    events.order_by(|a, b| {
        let key = |event: &StoredObject<'a, Event>| (event.summary.last_seen, event.revision);
        key(b).cmp(&key(a)).then_with(|| a.uid.cmp(&b.uid))
    });
    events.into_iter().map(StoredObject::whole).collect()
}
