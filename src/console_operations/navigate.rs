//! Navigation from an object to related ones: its owner, its node, its pods, the object of an event.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Pod};

use super::effect::{Effect, Route, RowScope, TableRoute};
use console_data::context::Context;
use console_data::kind_view::{self, Pods};
use console_data::resource::{Kind, ObjectRef, Uid};
use console_data::rows::controller;
use console_data::scope::Scope;

/// Goes one level down, or to the description if there is none.
pub fn enter(cx: &Context<'_>, object: ObjectRef) -> Vec<Effect> {
    if object.kind.is::<Event>() {
        return event_object(cx, &object);
    }
    if object.kind.resource == controller::resource() {
        return vec![Effect::open(Route::Controller(object))];
    }
    let only = match kind_view::of(&object.kind.resource).pods {
        Pods::Owned => RowScope::OwnedBy(object),
        Pods::OnNode => RowScope::OnNode(object.name),
        Pods::InNamespace => RowScope::In(object.name),
        Pods::Selected => RowScope::Selected(object),
        Pods::Itself => return vec![Effect::open(Route::Containers(object))],
        Pods::None => return vec![Effect::open(Route::Describe(object))],
    };
    vec![Effect::open(TableRoute::of(cx.catalogue.kind::<Pod>()).only(only))]
}

/// Goes to the owner.
pub fn open_owner(cx: &Context<'_>, object: &ObjectRef) -> Vec<Effect> {
    let known = object.uid.as_ref().and_then(|uid| cx.stores.object(&object.kind.resource, uid));
    let owners = known.and_then(|known| known.metadata().owner_references.clone()).unwrap_or_default();
    let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true)).or(owners.first()) else {
        return vec![Effect::info(format!("{} has no owner", object.describe()))];
    };
    open_table_at(
        cx,
        &owner.api_version,
        &owner.kind,
        object.namespace.as_deref(),
        &owner.name,
        Some(&owner.uid),
    )
}

/// Goes to the rollout of the Deployment that owns a ReplicaSet, and selects that set's revision.
pub fn rollout_of_owner(cx: &Context<'_>, object: &ObjectRef) -> Vec<Effect> {
    let known = object.uid.as_ref().and_then(|uid| cx.stores.object(&object.kind.resource, uid));
    let owners = known.and_then(|known| known.metadata().owner_references.clone()).unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true) && owner.kind == "Deployment");
    let Some(owner) = owner else {
        let note = format!("{} is not owned by a Deployment: it has no rollout", object.describe());
        return vec![Effect::info(note)];
    };
    let deployment = ObjectRef {
        kind: cx.catalogue.kind::<Deployment>(),
        namespace: object.namespace.clone(),
        name: owner.name.clone(),
        uid: Some(Uid::from(owner.uid.as_str())),
    };
    vec![Effect::open(Route::RolloutAt(deployment, object.name.clone()))]
}

/// Goes to the node of a pod.
pub fn open_node(cx: &Context<'_>, pod: &ObjectRef) -> Vec<Effect> {
    let node = pod
        .uid
        .as_ref()
        .and_then(|uid| cx.stores.pods().entry(uid))
        .and_then(|pod| pod.open().summary.node.as_deref());
    match node {
        Some(node) => open_table_at(cx, "v1", "Node", None, node, None),
        None => vec![Effect::info(format!("{} has no node yet", pod.name))],
    }
}

/// Returns the object that an event is about; an error says why there is none to open.
pub fn involved_object(cx: &Context<'_>, event: &ObjectRef) -> Result<ObjectRef, String> {
    let found = event.uid.as_ref().and_then(|uid| cx.stores.events().get(uid));
    let about = found.map(|event| &event.involved_object);
    let Some((about, kind, name)) =
        about.and_then(|about| Some((about, about.kind.as_deref()?, about.name.as_deref()?)))
    else {
        return Err(format!("event {} does not name its object", event.name));
    };
    let version = about.api_version.as_deref().unwrap_or("v1");
    let Some(kind) = cx.catalogue.by_gvk(version, kind).cloned() else {
        return Err(format!("the server has no kind {kind} of {version}"));
    };
    let namespace = about.namespace.clone().filter(|_| kind.namespaced);
    let uid = about.uid.as_deref().map(Uid::from);
    Ok(ObjectRef { kind, namespace, name: name.to_owned(), uid })
}

/// Goes to an object in the table of its kind; from an event, to the object that it is about.
pub fn object(cx: &Context<'_>, object: &ObjectRef) -> Vec<Effect> {
    if object.kind.is::<Event>() {
        return event_object(cx, object);
    }
    let (version, uid) = (object.kind.api_version(), object.uid.as_ref().map(Uid::as_str));
    open_table_at(cx, &version, &object.kind.kind, object.namespace.as_deref(), &object.name, uid)
}

/// Goes to the object of an event.
fn event_object(cx: &Context<'_>, event: &ObjectRef) -> Vec<Effect> {
    let Some(event) = event.uid.as_ref().and_then(|uid| cx.stores.events().get(uid)) else {
        return Vec::new();
    };
    let about = &event.involved_object;
    let (Some(kind), Some(name)) = (&about.kind, &about.name) else { return Vec::new() };
    let version = about.api_version.as_deref().unwrap_or("v1");
    open_table_at(cx, version, kind, about.namespace.as_deref(), name, about.uid.as_deref())
}

/// Opens a table of the kind with the cursor on the object.
pub fn open_table_at(
    cx: &Context<'_>,
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
    uid: Option<&str>,
) -> Vec<Effect> {
    let Some(kind) = cx.catalogue.by_gvk(api_version, kind) else {
        return vec![Effect::failed(format!("the server has no kind {kind} of {api_version}"))];
    };
    // Looks up the name first: the object of an old event may have a successor, and events of nodes carry no uid.
    let uid = find(cx, kind, namespace, name).or_else(|| uid.map(Uid::from));
    let mut effects = Vec::new();
    if let Some(namespace) = namespace
        && kind.namespaced
        && !cx.scope.holds(Some(namespace))
    {
        effects.push(Effect::Scope(Scope::One(namespace.to_owned())));
    }
    effects.push(Effect::open(TableRoute::of(kind.clone()).at(uid)));
    effects
}

fn find(cx: &Context<'_>, kind: &Kind, namespace: Option<&str>, name: &str) -> Option<Uid> {
    let namespace = namespace.unwrap_or_default();
    let object = cx.stores.get(&kind.resource)?.by_name(namespace, name)?;
    object.identity().uid
}
