//! `:can`: the user's permissions. `:can VERB RESOURCE [NAME]`: whether the user has this permission, and the subjects
//! that have it. `:can VERB`: the same for the selected object.

use std::collections::BTreeSet;

use base::did_you_mean::nearest;

use super::table;
use crate::model::Model;
use console_data::access::{AccessQuery, Attributes, VERBS, namespace_of};
use console_data::resource::Kind;
use console_operations::effect::{Effect, Route};

/// Opens the screen with the result; an error says why the words are not a valid query.
pub(super) fn open(arguments: &[&str], model: &Model) -> Result<Vec<Effect>, String> {
    let question = match arguments {
        [] => AccessQuery::OwnRules,
        [verb] => of_the_selected(verb, model)?,
        [verb, resource] => of(verb, resource, None, model)?,
        [verb, resource, name] => of(verb, resource, Some(name), model)?,
        [_, _, _, more @ ..] => return Err(format!("can: unexpected {:?} after the name", more.join(" "))),
    };
    Ok(vec![Effect::open(Route::Access(question))])
}

/// Returns completions after these words.
pub(super) fn suggest(head: &str, last: &str, model: &Model) -> Vec<String> {
    match head.split_whitespace().count() {
        1 => verbs(model).into_iter().collect(),
        2 => {
            let kinds = model.shared.cluster.catalogue.kinds();
            match last
                .split_once('/')
                .and_then(|(word, _)| Some((word, model.shared.cluster.catalogue.find(word)?)))
            {
                Some((word, kind)) => kind.subresources.keys().map(|name| format!("{word}/{name}")).collect(),
                None => kinds.iter().map(|kind| kind.resource.plural.to_string()).collect(),
            }
        }
        _ => Vec::new(),
    }
}

/// Returns the verbs that the server or RBAC knows.
fn verbs(model: &Model) -> BTreeSet<String> {
    let kinds = model.shared.cluster.catalogue.kinds().iter();
    let served = kinds.flat_map(|kind| kind.verbs.iter().chain(kind.subresources.values().flatten()));
    served.cloned().chain(VERBS.map(str::to_owned)).collect()
}

fn parse_verb(verb: &str, model: &Model) -> Result<String, String> {
    let verb = verb.to_ascii_lowercase();
    let known = verbs(model);
    if known.contains(&verb) {
        return Ok(verb);
    }
    Err(match nearest(&verb, known.iter().map(String::as_str)) {
        Some(near) => format!("no verb {verb:?}; did you mean {near:?}?"),
        None => format!("no verb {verb:?}; the verbs are {}", VERBS[..8].join(", ")),
    })
}

fn of_the_selected(verb: &str, model: &Model) -> Result<AccessQuery, String> {
    let verb = parse_verb(verb, model)?;
    let (_, screen) = model.top();
    let cx = model.shared.context(jiff::Timestamp::UNIX_EPOCH);
    let Some(object) = screen.selected(&cx) else {
        return Err(format!("nothing is selected; :can {verb} RESOURCE NAME works everywhere"));
    };
    let attributes = about(&verb, &object.kind, None, Some(object.name), object.namespace);
    let notes = notes(&attributes, &object.kind);
    Ok(AccessQuery::SubjectsWith(attributes, notes))
}

fn of(verb: &str, resource: &str, name: Option<&&str>, model: &Model) -> Result<AccessQuery, String> {
    let verb = parse_verb(verb, model)?;
    let (word, subresource) = match resource.split_once('/') {
        Some((word, subresource)) => (word, Some(subresource)),
        None => (resource, None),
    };
    let (in_scope, note) = namespace_of(&model.shared.scope);
    let (given, name) = match name.map(|name| name.split_once('/').ok_or(*name)) {
        Some(Ok((namespace, name))) => (Some(existing(namespace, model)?), Some(name.to_owned())),
        Some(Err(name)) => (None, Some(name.to_owned())),
        None => (None, None),
    };
    if name.as_deref() == Some("") {
        return Err("can: the name is required".to_owned());
    }
    let note = note.filter(|_| given.is_none());
    if let Some(group) = any_resource(word) {
        let attributes = Attributes {
            verb,
            group: group.to_owned(),
            resource: "*".to_owned(),
            subresource: subresource.map(str::to_owned),
            name,
            namespace: Some(given.unwrap_or(in_scope)),
        };
        return Ok(AccessQuery::SubjectsWith(attributes, note.into_iter().collect()));
    }
    let kind = kind(word, model)?;
    if let Some(subresource) = subresource
        && model.shared.cluster.catalogue.discovered
        && !kind.subresources.contains_key(subresource)
    {
        let known = || kind.subresources.keys().map(String::as_str);
        let plural = &kind.resource.plural;
        return Err(match nearest(subresource, known()) {
            Some(near) => format!("{plural} have no subresource {subresource:?}; did you mean {near:?}?"),
            None if kind.subresources.is_empty() => format!("{plural} have no subresources"),
            None => {
                let known: Vec<&str> = known().collect();
                format!("{plural} have no subresource {subresource:?}; they have {}", known.join(", "))
            }
        });
    }
    if !kind.namespaced && given.is_some() {
        return Err(format!("{} are cluster-scoped: only a name can follow", kind.resource.plural));
    }
    let namespace = kind.namespaced.then(|| given.unwrap_or(in_scope));
    let attributes = about(&verb, kind, subresource, name, namespace);
    let mut notes = notes(&attributes, kind);
    notes.extend(note.filter(|_| kind.namespaced));
    Ok(AccessQuery::SubjectsWith(attributes, notes))
}

/// Checks a namespace's name, which becomes a part of paths. If namespaces cannot be listed, any valid name is
/// accepted.
fn existing(name: &str, model: &Model) -> Result<String, String> {
    let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(is_label) {
        return Err(format!("invalid namespace name {name:?}"));
    }
    table::namespace(name, model).map(|_| name.to_owned())
}

/// Returns the group of `*` and `*.GROUP`, which stand for all resources.
fn any_resource(pattern: &str) -> Option<&str> {
    match pattern {
        "*" => Some("*"),
        word => word.strip_prefix("*."),
    }
}

fn kind<'a>(name: &str, model: &'a Model) -> Result<&'a Kind, String> {
    let catalogue = &model.shared.cluster.catalogue;
    catalogue.find(name).ok_or_else(|| {
        let kinds = catalogue.kinds().iter();
        let known = kinds.flat_map(|kind| {
            let short = kind.short_names.iter().map(String::as_str);
            [&*kind.resource.plural, kind.singular.as_str()].into_iter().chain(short)
        });
        match nearest(name, known) {
            Some(near) => format!("no resource {name:?}; did you mean {near:?}?"),
            None => format!("no resource {name:?}; :aliases lists them"),
        }
    })
}

fn about(
    verb: &str,
    kind: &Kind,
    subresource: Option<&str>,
    name: Option<String>,
    namespace: Option<String>,
) -> Attributes {
    let mut attributes = Attributes {
        verb: verb.to_owned(),
        group: kind.resource.group.to_string(),
        resource: kind.resource.plural.to_string(),
        subresource: subresource.map(str::to_owned),
        namespace,
        name,
    };
    if attributes.is_a_namespace() {
        attributes.namespace.clone_from(&attributes.name);
    }
    attributes
}

/// Returns notes on the query for the user.
fn notes(attributes: &Attributes, kind: &Kind) -> Vec<String> {
    let mut notes = Vec::new();
    let served = match &attributes.subresource {
        Some(subresource) => kind.subresources.get(subresource),
        None => Some(&kind.verbs),
    };
    // Verbs of kinds that discovery does not list are unknown.
    if let Some(served) = served.filter(|served| !served.is_empty())
        && attributes.verb != "*"
        && !served.contains(&attributes.verb)
    {
        let served: Vec<&str> = served.iter().map(String::as_str).collect();
        notes.push(format!("the server supports only {} for it", served.join(", ")));
    }
    if matches!(attributes.verb.as_str(), "create" | "deletecollection")
        && attributes.name.is_some()
        && attributes.subresource.is_none()
    {
        notes.push(format!(
            "a {} request names no object: a rule limited to this name does not allow it",
            attributes.verb
        ));
    }
    notes
}
