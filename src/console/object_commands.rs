//! What the commands on objects do, the same wherever objects are shown.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Event, Node, Pod};

use super::catalogue::Catalogue;
use super::command::Command;
use super::context::Context;
use super::dialog;
use super::effect::{Effect, Scope};
use super::kind_view::{self, Pods, Template};
use super::pending::waits_for_a_node;
use super::resource::{Kind, ObjectRef, Uid};
use super::rows::Row;
use super::screen::describe::Describe;
use super::screen::drain::Drain;
use super::screen::edit::Edit;
use super::screen::logs::{Logs, Run};
use super::screen::pending::Pending;
use super::screen::rollout::Rollout;
use super::screen::table::{Only, Table};
use super::screen::terminal::{Purpose, Terminal};
use super::screen::yaml::Yaml;
use crate::object::selector::Selector;

/// Carries a command out on the object under the cursor, or on all marked ones where that makes sense.
pub fn run(
    cx: &Context<'_>,
    command: Command,
    current: Option<ObjectRef>,
    targets: &[ObjectRef],
    hidden: usize,
) -> Vec<Effect> {
    if command == Command::AddNode {
        return match dialog::add_node::allowed(cx.catalogue) {
            Ok(()) => vec![Effect::Ask(Box::new(dialog::add_node::ask()))],
            Err(error) => vec![Effect::failed(error)],
        };
    }
    let Some(current) = current.or_else(|| targets.first().cloned()) else {
        return vec![Effect::Toast(super::toast::Toast::note("nothing is selected"))];
    };
    let all = || targets.to_vec();
    match command {
        Command::Enter => enter(cx, current),
        Command::Describe => vec![Effect::open(Describe::new(current))],
        Command::Yaml => vec![Effect::open(Yaml::new(current))],
        Command::Edit => vec![Effect::open(Edit::new(current))],
        Command::CopyName => {
            vec![Effect::Copy(
                targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join("\n"),
            )]
        }
        Command::Delete if targets.iter().all(|target| target.kind.is::<Node>()) => {
            vec![Effect::Ask(Box::new(dialog::node::remove(all(), hidden)))]
        }
        Command::Delete => vec![Effect::Ask(Box::new(dialog::delete::ask(all(), hidden)))],
        Command::Kill => vec![Effect::Ask(Box::new(dialog::delete::kill(all())))],
        Command::Owner => go_to_owner(cx, &current),
        Command::Logs | Command::WorkloadLogs => vec![Effect::open(Logs::new(current, Run::Current))],
        Command::PreviousLogs => vec![Effect::open(Logs::new(current, Run::Previous))],
        Command::Shell => vec![Effect::open(Terminal::new(current, Purpose::Shell))],
        Command::Attach => vec![Effect::open(Terminal::new(current, Purpose::Attach))],
        Command::Debug => vec![Effect::open(Terminal::new(current, Purpose::Debug))],
        Command::PodNode => go_to_node(cx, &current),
        Command::WhyPending => vec![Effect::open(Pending::new(current))],
        Command::Scale => vec![Effect::Ask(Box::new(dialog::scale::ask(cx, all())))],
        Command::Restart => dialog::workload::restart(cx, targets),
        Command::SetImage => dialog::workload::set_image(cx, &current),
        Command::Rollout | Command::Rollback => vec![Effect::open(Rollout::new(current))],
        Command::ReplicaSets => {
            vec![Effect::open(Table::of(cx.catalogue.kind::<ReplicaSet>()).only(Only::OwnedBy(current)))]
        }
        Command::Cordon => targets.iter().map(|node| dialog::node::cordon(node, true)).collect(),
        Command::Uncordon => targets.iter().map(|node| dialog::node::cordon(node, false)).collect(),
        Command::Label => vec![Effect::Ask(Box::new(dialog::label::ask_labels(all())))],
        Command::Taint => vec![Effect::Ask(Box::new(dialog::label::ask_taints(all())))],
        Command::OpenDrain => vec![Effect::open(Drain::new(all()))],
        Command::UseNamespace => vec![
            Effect::Scope(Scope::One(current.name.clone())),
            Effect::done(format!("namespace {}", current.name)),
        ],
        Command::EventObject => event_object(cx, &current),
        _ => Vec::new(),
    }
}

/// What a command asks the server for.
enum Needs {
    /// A verb of the object's own resource.
    Verb(&'static str),
    /// A subresource of the object's resource, with a verb.
    Subresource(&'static str, &'static str),
    /// A subresource of pods, with one of these verbs.
    OfPods(&'static str, &'static [&'static str]),
}

fn needs(command: Command) -> Option<Needs> {
    Some(match command {
        Command::Describe | Command::Yaml => Needs::Verb("get"),
        Command::Edit => Needs::Verb("update"),
        Command::Delete | Command::Kill => Needs::Verb("delete"),
        Command::Label
        | Command::Taint
        | Command::Cordon
        | Command::Uncordon
        | Command::Restart
        | Command::SetImage => Needs::Verb("patch"),
        Command::Scale => Needs::Subresource("scale", "patch"),
        Command::Logs | Command::PreviousLogs | Command::WorkloadLogs => Needs::OfPods("log", &["get"]),
        // kubectl opens these with either: GET for WebSockets, POST for SPDY.
        Command::Shell => Needs::OfPods("exec", &["get", "create"]),
        Command::Attach => Needs::OfPods("attach", &["get", "create"]),
        Command::Debug => Needs::OfPods("ephemeralcontainers", &["patch"]),
        Command::OpenDrain => Needs::OfPods("eviction", &["create"]),
        _ => return None,
    })
}

/// Why the server cannot do what a command on objects of a kind asks for, as discovery tells.
fn server_refuses(catalogue: &Catalogue, kind: &Kind, command: Command) -> Option<String> {
    let heading = kind.heading();
    match needs(command)? {
        Needs::Verb(verb) if kind.has_verb(verb) => None,
        Needs::Verb(verb) => Some(format!("this server cannot {verb} {heading}")),
        Needs::Subresource(name, verb) if kind.has_subresource(name, verb) => None,
        Needs::Subresource("scale", _) => Some(format!("{heading} have no count to scale")),
        Needs::Subresource(name, verb) => Some(format!("this server cannot {verb} {name} of {heading}")),
        Needs::OfPods(name, verbs) => {
            let pods = catalogue.kind::<Pod>();
            let has = verbs.iter().any(|verb| pods.has_subresource(name, verb));
            (!has).then(|| format!("this server has no {name} of pods"))
        }
    }
}

/// Why a command cannot work on objects of a kind, so many of them marked.
pub fn refuses(catalogue: &Catalogue, kind: &Kind, command: Command, marked: usize) -> Option<String> {
    let kind = catalogue.current(kind);
    let heading = kind.heading();
    let view = kind_view::of(&kind.resource);
    match command {
        // As `kubectl rollout restart`; what owns a ReplicaSet's template is its Deployment.
        Command::Restart if view.template != Template::Rolls => {
            Some(format!("{heading} cannot be restarted: nothing would replace their pods step by step"))
        }
        Command::SetImage if view.template == Template::None => {
            Some(format!("the images of {heading} are set by editing them"))
        }
        Command::SetImage if marked > 1 => Some(format!("images are set one by one; {marked} are marked")),
        Command::WorkloadLogs if view.pods == Pods::None => {
            Some(format!("which pods belong to {heading} is not known here"))
        }
        _ => server_refuses(catalogue, kind, command),
    }
}

/// Whether the object is a pod that waits for a node.
pub fn is_unscheduled(cx: &Context<'_>, object: &ObjectRef) -> bool {
    let uid = object.uid.as_ref().filter(|_| object.kind.is::<Pod>());
    uid.and_then(|uid| cx.stores.pods().get(uid)).is_some_and(waits_for_a_node)
}

/// Enter: one level down, or the description where there is none.
fn enter(cx: &Context<'_>, object: ObjectRef) -> Vec<Effect> {
    if object.kind.is::<Event>() {
        return event_object(cx, &object);
    }
    let only = match kind_view::of(&object.kind.resource).pods {
        Pods::Owned => Only::OwnedBy(object),
        Pods::OnNode => Only::OnNode(object.name),
        Pods::InNamespace => Only::In(object.name),
        Pods::Selected => Only::Selected(object),
        Pods::Itself | Pods::None => return vec![Effect::open(Describe::new(object))],
    };
    vec![Effect::open(Table::of(cx.catalogue.kind::<Pod>()).only(only))]
}

/// Whether a service or a budget selects a pod.
pub fn selects(cx: &Context<'_>, by: &ObjectRef, pod: &Row) -> bool {
    if pod.namespace != by.namespace {
        return false;
    }
    let Some(uid) = &by.uid else { return false };
    if let Some(service) = cx.stores.services().get(uid) {
        let labels = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        return labels.is_some_and(|labels| {
            !labels.is_empty() && Selector::from_labels(labels).matches(Some(&pod.labels))
        });
    }
    let Some(budget) = cx.stores.budgets().get(uid) else { return false };
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| Selector::from_field(selector).matches(Some(&pod.labels)))
}

fn go_to_owner(cx: &Context<'_>, object: &ObjectRef) -> Vec<Effect> {
    let known = object.uid.as_ref().and_then(|uid| cx.stores.object(&object.kind.resource, uid));
    let owners = known.and_then(|known| known.metadata().owner_references.clone()).unwrap_or_default();
    let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true)).or(owners.first()) else {
        return vec![Effect::Toast(super::toast::Toast::note(format!("{} has no owner", object.describe())))];
    };
    go_to(cx, &owner.api_version, &owner.kind, object.namespace.as_deref(), &owner.name, Some(&owner.uid))
}

fn go_to_node(cx: &Context<'_>, pod: &ObjectRef) -> Vec<Effect> {
    let node = pod
        .uid
        .as_ref()
        .and_then(|uid| cx.stores.pods().get(uid))
        .and_then(|pod| pod.spec.as_ref()?.node_name.clone());
    match node {
        Some(node) => go_to(cx, "v1", "Node", None, &node, None),
        None => vec![Effect::Toast(super::toast::Toast::note(format!("{} is on no node yet", pod.name)))],
    }
}

fn event_object(cx: &Context<'_>, event: &ObjectRef) -> Vec<Effect> {
    let Some(event) = event.uid.as_ref().and_then(|uid| cx.stores.events().get(uid)) else {
        return Vec::new();
    };
    let about = &event.involved_object;
    let (Some(kind), Some(name)) = (&about.kind, &about.name) else { return Vec::new() };
    let version = about.api_version.as_deref().unwrap_or("v1");
    go_to(cx, version, kind, about.namespace.as_deref(), name, about.uid.as_deref())
}

/// A table of the kind with the cursor on the object.
pub fn go_to(
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
    // The name first: the object of an old event may have a successor, and events of nodes carry no uid.
    let uid = find(cx, kind, namespace, name).or_else(|| uid.map(Uid::from));
    let mut effects = Vec::new();
    if let Some(namespace) = namespace
        && kind.namespaced
        && !cx.scope.holds(Some(namespace))
    {
        effects.push(Effect::Scope(Scope::One(namespace.to_owned())));
    }
    effects.push(Effect::open(Table::of(kind.clone()).at(uid)));
    effects
}

fn find(cx: &Context<'_>, kind: &Kind, namespace: Option<&str>, name: &str) -> Option<Uid> {
    let namespace = namespace.unwrap_or_default();
    let object = cx.stores.get(&kind.resource)?.by_name(namespace, name)?;
    object.metadata().uid.as_deref().map(Uid::from)
}

/// The events about an object, the newest first.
pub fn events_about<'a>(cx: &Context<'a>, object: &ObjectRef) -> Vec<&'a Event> {
    let uid = object.uid.as_ref().map(Uid::as_str);
    let about = |event: &&Event| {
        let involved = &event.involved_object;
        let same_uid = involved.uid.as_deref().is_some_and(|seen| Some(seen) == uid);
        same_uid
            || (involved.name.as_deref() == Some(object.name.as_str())
                && involved.kind.as_deref() == Some(object.kind.kind.as_str())
                && (uid.is_none() || involved.uid.as_deref().unwrap_or_default() == object.name)
                && involved.namespace.as_deref().filter(|ns| !ns.is_empty()) == object.namespace.as_deref())
    };
    let mut events: Vec<&Event> = cx.stores.events().iter().map(|(_, event)| event).filter(about).collect();
    events.sort_by_key(|event| std::cmp::Reverse(super::rows::event::last_seen(event)));
    events
}
