//! `:COMMAND` on the selection, `:COMMAND NAME` on an object of the command's kinds, and `:COMMAND KIND/NAME`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::logs::LogsOptions;
use super::table;
use crate::model::Model;
use base::sort::SliceOrder;
use console_data::builtin_kinds;
use console_data::kind_view;
use console_data::query::Query;
use console_data::read_only;
use console_data::resource::{Kind, ObjectRef};
use console_data::scope::Scope;
use console_data::store::{Identity, Store};
use console_operations::command_availability;
use console_operations::effect::{Effect, LogRun};
use console_operations::operations;
use console_screens::object_commands;
use console_toolkit::command::{Command, CommandImpact, Entry, KeyContext};
use console_toolkit::text::counted;

/// Runs a command by its name; an error says why that is impossible. A former name of one view's command has that view
/// as its `place`.
pub(super) fn run(
    command: Command,
    place: Option<KeyContext>,
    arguments: &[&str],
    model: &Model,
) -> Result<Vec<Effect>, String> {
    let entries: Vec<&Entry> =
        command.entries().filter(|entry| place.is_none_or(|place| entry.context == place)).collect();
    let name = command.name();
    if arguments.is_empty() {
        return on_the_selected(command, &entries, model);
    }
    if model.shared.read_only && entries.iter().any(|entry| entry.impact == CommandImpact::Cluster) {
        return Err(read_only::command_refusal(name));
    }
    let (mut words, namespace) = split_namespace(arguments)?;
    if takes_kind_and_name(command) && place.is_none() {
        return on_kind_and_name(command, &words, namespace, model);
    }
    if !takes_a_name(&entries) {
        return Err(format!("{name} takes no name; it works as a key in {}", titles(&entries)));
    }
    // A name is ambiguous between several clusters.
    if model.top().1.over().is_some_and(|over| over.len() > 1) {
        return Err(format!(
            "several contexts are shown: {} works on a row; a name needs a single context",
            model.shared.bindings.key(command).map_or_else(|| name.to_owned(), |key| key.to_string())
        ));
    }
    let kinds = kinds_of(command, &entries, model);
    let is_replicas = |word: &&str| *word == "--replicas" || word.starts_with("--replicas=");
    if command == Command::Scale
        && let Some(at) = words.iter().position(is_replicas)
    {
        // kubectl's option is our second word.
        let count = match words.remove(at).split_once('=') {
            Some((_, count)) => Some(count),
            None => (at < words.len()).then(|| words.remove(at)),
        };
        words.extend(count);
    }
    let run = match command {
        Command::Logs => Some(LogRun::Current),
        Command::PreviousLogs => Some(LogRun::Previous),
        _ => None,
    };
    let mut logs = if run.is_some() { LogsOptions::take(&mut words)? } else { LogsOptions::default() };
    if let (Some(labels), Some(run)) = (logs.labels.clone(), run) {
        let pods = pods_with(labels, &words, namespace, model)?;
        return Ok(vec![Effect::open(logs.route(pods, run))]);
    }
    let named_kind = split_kind(command, &mut words, &kinds, model)?;
    if run.is_some() {
        logs.take_container(&mut words)?;
    }
    let (object, count) = match (command, words.as_slice()) {
        (Command::Scale, [name, count]) => {
            let count: i32 = count
                .parse()
                .ok()
                .filter(|count| *count >= 0)
                .ok_or_else(|| format!("invalid number of replicas {count:?}"))?;
            (*name, Some(count))
        }
        (_, [name]) => (*name, None),
        (_, []) => return Err(format!("{name}: the name is required")),
        (_, [_, more @ ..]) => {
            return Err(format!("{name}: unexpected {:?} after the name", more.join(" ")));
        }
    };
    let object = match &named_kind {
        Some((kind, both)) => {
            let object = qualified(namespace, object);
            // The word before the slash may be a namespace, too.
            let of_namespace = || both.and_then(|both| find(&kinds, both, model).ok());
            match find(std::slice::from_ref(kind), &object, model) {
                Ok(object) => object,
                Err(why) => match of_namespace() {
                    Some(object) => object,
                    // The console does not watch the kind; the server knows the object by its name.
                    None if !kinds.contains(kind) => unseen(kind.clone(), &object, &model.shared.scope)?,
                    None => return Err(why),
                },
            }
        }
        None => find(&kinds, &qualified(namespace, object), model)?,
    };
    if let Some(why) = command_availability::refuses(&model.shared.cluster.catalogue, &object.kind, command) {
        return Err(why);
    }
    let cx = model.shared.context(jiff::Timestamp::UNIX_EPOCH);
    if let Some(count) = count {
        return Ok(operations::scale::open_dialog_for(&cx, object, count));
    }
    if let Some(run) = run {
        return Ok(vec![Effect::open(logs.route(object, run))]);
    }
    Ok(object_commands::run(&cx, command, Some(object.clone()), &[object], 0))
}

/// Returns completions of the last word after a command on objects: the name of an object, or its kind before.
pub(super) fn suggest(first: &str, head: &str, last: &str, model: &Model) -> Vec<String> {
    let Some(command) = Command::named(first) else { return Vec::new() };
    let entries: Vec<&Entry> = command.entries().collect();
    let catalogue = &model.shared.cluster.catalogue;
    let of_kind = |kind: &str, start: &str| {
        let kind = catalogue.find(kind).into_iter();
        kind.flat_map(|kind| super::names_of(kind, start, model)).collect::<Vec<_>>()
    };
    let typed: Vec<&str> = head.split_whitespace().skip(1).collect();
    match typed[..] {
        [] => match last.split_once('/') {
            Some((kind, name)) => {
                of_kind(kind, name).into_iter().map(|name| format!("{kind}/{name}")).collect()
            }
            None if takes_kind_and_name(command) => {
                catalogue.kinds().iter().map(|kind| kind.resource.plural.to_string()).collect()
            }
            None if takes_a_name(&entries) => {
                let kinds = kinds_of(command, &entries, model);
                let names: BTreeSet<String> =
                    kinds.iter().flat_map(|kind| super::names_of(kind, last, model)).collect();
                names.into_iter().collect()
            }
            None => Vec::new(),
        },
        [kind] if takes_kind_and_name(command) || takes_a_name(&entries) => of_kind(kind, last),
        _ => Vec::new(),
    }
}

/// Returns the kinds that a command applies to and the console watches completely; objects of other kinds are found in
/// their tables.
fn kinds_of(command: Command, entries: &[&Entry], model: &Model) -> Vec<Kind> {
    let podium_kinds = model
        .shared
        .cluster
        .catalogue
        .kinds()
        .iter()
        .filter(|kind| builtin_kinds::is_podium_kind(&kind.resource))
        .cloned();
    builtin_kinds::kinds()
        .into_iter()
        .map(|kind| model.shared.cluster.catalogue.current(&kind).clone())
        .chain(podium_kinds)
        .filter(|kind| is_of_kind(command, entries, kind))
        .collect()
}

fn is_of_kind(command: Command, entries: &[&Entry], kind: &Kind) -> bool {
    let contexts = kind_view::key_contexts(kind);
    entries.iter().any(|entry| match entry.context {
        KeyContext::TimeTravel => is_history(command),
        KeyContext::Unscheduled => contexts.contains(&KeyContext::Pods),
        context => contexts.contains(&context),
    })
}

/// Takes the kind out of `KIND/NAME` or `KIND NAME`, as kubectl accepts them. With the former, it also returns the whole
/// word, because it could be `NAMESPACE/NAME`.
fn split_kind<'a>(
    command: Command,
    words: &mut Vec<&'a str>,
    kinds: &[Kind],
    model: &Model,
) -> Result<Option<(Kind, Option<&'a str>)>, String> {
    let catalogue = &model.shared.cluster.catalogue;
    let Some(&first) = words.first() else { return Ok(None) };
    let is_count = |word: &&str| command == Command::Scale && word.parse::<i32>().is_ok();
    let (kind, both) = match first.split_once('/') {
        Some((kind, name)) if catalogue.find(kind).is_some() => {
            words[0] = name;
            (kind, Some(first))
        }
        None if words.get(1).is_some_and(|second| !is_count(second)) && catalogue.find(first).is_some() => {
            words.remove(0);
            (first, None)
        }
        _ => return Ok(None),
    };
    let Some(kind) = catalogue.find(kind) else { return Ok(None) };
    if !kinds.contains(kind) && both.is_none_or(|both| find(kinds, both, model).is_err()) {
        let (verb, plural) = (command.name(), &kind.resource.plural);
        let entries: Vec<&Entry> = command.entries().collect();
        if !is_of_kind(command, &entries, kind) {
            return Err(format!("{verb} does not work on {plural}"));
        }
        if !takes_unseen(command) {
            return Err(format!("{verb} works in their table: :{plural} shows it"));
        }
    }
    Ok(Some((kind.clone(), both)))
}

/// Separates `-n NAMESPACE`, as kubectl accepts it, from the other arguments.
fn split_namespace<'a>(arguments: &[&'a str]) -> Result<(Vec<&'a str>, Option<&'a str>), String> {
    let (mut others, mut namespace) = (Vec::new(), None);
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("-n" | "--namespace", name)) => namespace = Some(name),
            None if matches!(word, "-n" | "--namespace") => {
                namespace = Some(words.next().ok_or_else(|| format!("{word}: the namespace is required"))?);
            }
            _ => others.push(word),
        }
    }
    Ok((others, namespace))
}

/// Returns `NAMESPACE/NAME`, unless the name says it already.
fn qualified<'a>(namespace: Option<&str>, name: &'a str) -> Cow<'a, str> {
    match namespace {
        Some(namespace) if !name.contains('/') => Cow::Owned(format!("{namespace}/{name}")),
        _ => Cow::Borrowed(name),
    }
}

/// Runs the command if its key works in the current view; otherwise the error names the views where it works.
fn on_the_selected(command: Command, entries: &[&Entry], model: &Model) -> Result<Vec<Effect>, String> {
    let (_, screen) = model.top();
    let contexts = screen.key_contexts(&model.shared.context(jiff::Timestamp::UNIX_EPOCH));
    let is_here = |entry: &&Entry| {
        let everywhere = [KeyContext::Everywhere, KeyContext::Tabs, KeyContext::Panes];
        everywhere.contains(&entry.context) || contexts.contains(&entry.context)
    };
    if entries.iter().any(is_here) || command == Command::AddNode {
        return Ok(vec![Effect::Command(command)]);
    }
    let name = command.name();
    let hint = if takes_a_name(entries) { format!("; :{name} NAME works everywhere") } else { String::new() };
    Err(format!("{name} works in {}{hint}", titles(entries)))
}

/// Returns the titles of the entries' contexts, or of the first ones.
fn titles(entries: &[&Entry]) -> String {
    const NAMED: usize = 2;
    let titles = entries.iter().take(NAMED).map(|entry| format!("{:?}", entry.context.title()));
    let titles = titles.collect::<Vec<_>>().join(", ");
    match entries.len().saturating_sub(NAMED) {
        0 => titles,
        more => format!("{titles} and {}", counted(more, "more view")),
    }
}

fn takes_a_name(entries: &[&Entry]) -> bool {
    let is_of_kinds = |context| {
        matches!(
            context,
            KeyContext::Nodes
                | KeyContext::Pods
                | KeyContext::Unscheduled
                | KeyContext::Deployments
                | KeyContext::Workloads
                | KeyContext::Services
                | KeyContext::Faults
                | KeyContext::Fences
                | KeyContext::Forwardable
        )
    };
    entries.iter().any(|entry| is_of_kinds(entry.context) || is_history(entry.command))
}

/// Reports whether a command shows the history of an object, which every object has.
fn is_history(command: Command) -> bool {
    matches!(command, Command::OpenVersions | Command::OpenTimeline)
}

/// Reports whether a command applies to any kind, so that a name alone would be ambiguous.
fn takes_kind_and_name(command: Command) -> bool {
    matches!(
        command,
        Command::Describe
            | Command::Yaml
            | Command::Edit
            | Command::Delete
            | Command::Label
            | Command::Explain
    )
}

/// Reports whether a command works on an object that the console has not seen: it asks the server for what it needs.
fn takes_unseen(command: Command) -> bool {
    matches!(command, Command::Logs | Command::PreviousLogs | Command::Scale | Command::Restart)
}

/// Returns the target of logs of all pods with these labels, in one namespace.
fn pods_with(
    labels: String,
    words: &[&str],
    namespace: Option<&str>,
    model: &Model,
) -> Result<ObjectRef, String> {
    if let Some(name) = words.first() {
        return Err(format!("{name}: a name and labels cannot be combined"));
    }
    Query::parse(&format!("-l {labels}"))?;
    let namespace = match (namespace, &model.shared.scope) {
        (Some(name), _) => table::anywhere(name)?,
        (None, scope) => scope.clone(),
    };
    let Scope::One(namespace) = namespace else {
        return Err("logs -l: the namespace is required: -n NAMESPACE".to_owned());
    };
    let kind = model.shared.cluster.catalogue.kind::<Pod>();
    match command_availability::refuses(&model.shared.cluster.catalogue, &kind, Command::Logs) {
        Some(why) => Err(why),
        None => Ok(ObjectRef { kind, namespace: Some(namespace), name: labels, uid: None }),
    }
}

/// Handles `:describe KIND NAME` and `:describe KIND/NAME`, as kubectl accepts them.
fn on_kind_and_name(
    command: Command,
    arguments: &[&str],
    namespace: Option<&str>,
    model: &Model,
) -> Result<Vec<Effect>, String> {
    let verb = command.name();
    let (kind, name) = match arguments {
        [kind, name] => (*kind, *name),
        [kind] if model.shared.cluster.catalogue.find(kind).is_some() => {
            return Err(format!("{verb} {kind}: the name is required: {verb} KIND NAME"));
        }
        [both] => both
            .split_once('/')
            .ok_or_else(|| format!("{verb} {both}: the kind is required: {verb} KIND NAME"))?,
        [] => return Err(format!("{verb}: the kind and the name are required: {verb} KIND NAME")),
        [_, _, more @ ..] => return Err(format!("{verb} KIND NAME; unexpected {:?}", more.join(" "))),
    };
    let catalogue = &model.shared.cluster.catalogue;
    let kind = catalogue.find(kind).cloned().ok_or_else(|| format!("no kind {kind:?}"))?;
    if let Some(why) = command_availability::refuses(catalogue, &kind, command) {
        return Err(why);
    }
    let name = &*qualified(namespace.filter(|_| kind.namespaced), name);
    let object = match model.shared.cluster.stores.get(&kind.resource) {
        Some(_) => find(std::slice::from_ref(&kind), name, model)?,
        // The console does not watch objects of this kind. Commands that read take the object from the server by its
        // name; commands that need an object seen before are refused.
        None if matches!(command, Command::Delete | Command::Label | Command::Explain) => {
            let plural = &kind.resource.plural;
            return Err(format!("{verb} works in their table: :{plural} shows it"));
        }
        None => unseen(kind, name, &model.shared.scope)?,
    };
    let cx = model.shared.context(jiff::Timestamp::UNIX_EPOCH);
    Ok(object_commands::run(&cx, command, Some(object.clone()), &[object], 0))
}

/// Returns a reference to an object that the console has not seen: by its name, in the namespace in scope.
fn unseen(kind: Kind, name: &str, scope: &Scope) -> Result<ObjectRef, String> {
    let (namespace, name) = match (name.split_once('/'), scope) {
        _ if !kind.namespaced => (None, name),
        (Some((namespace, name)), _) => (Some(namespace.to_owned()), name),
        (None, Scope::One(namespace)) => (Some(namespace.clone()), name),
        (None, Scope::All) => return Err(format!("{name}: the namespace is required: NAMESPACE/NAME")),
    };
    // Namespace and name become parts of a path.
    let is_one = |part: &str| !part.is_empty() && part.len() <= 253 && !part.contains(['/', '%', '?', '#']);
    if !is_one(name) || namespace.as_deref().is_some_and(|namespace| !is_one(namespace)) {
        return Err(format!("invalid object name {name:?}"));
    }
    Ok(ObjectRef { kind, namespace, name: name.to_owned(), uid: None })
}

/// Finds the object of this name, or of `NAMESPACE/NAME`, in the namespaces that are shown.
fn find(kinds: &[Kind], name: &str, model: &Model) -> Result<ObjectRef, String> {
    let (namespace, name) = match (name.split_once('/'), &model.shared.scope) {
        (Some((namespace, name)), _) => (Some(namespace), name),
        (None, Scope::One(namespace)) => (Some(namespace.as_str()), name),
        (None, Scope::All) => (None, name),
    };
    for kind in kinds {
        let is = |object: &Identity| {
            let inside =
                !kind.namespaced || namespace.is_none_or(|expected| object.namespace() == Some(expected));
            object.name() == name && inside
        };
        let store = model.shared.cluster.stores.get(&kind.resource).into_iter();
        let objects = store.flat_map(Store::iter).map(|(_, object)| object.identity()).filter(is);
        let found: Vec<ObjectRef> = objects.map(|object| object.object(kind.clone())).collect();
        match found.as_slice() {
            [] => {}
            [one] => return Ok(one.clone()),
            several => {
                let mut names: Vec<String> = several.iter().map(ObjectRef::describe).collect();
                names.order();
                return Err(format!("several objects match: {}", names.join(", ")));
            }
        }
    }
    let kinds_are_namespaced = kinds.iter().any(|kind| kind.namespaced);
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.singular.as_str()).collect();
    let place = namespace.filter(|_| kinds_are_namespaced).map(|namespace| format!(" in {namespace}"));
    let place = place.unwrap_or_default();
    let kinds = match kinds.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => kinds.concat(),
    };
    Err(format!("no {kinds} {name:?}{place}"))
}
