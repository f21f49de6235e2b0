//! `:KIND …`: opens a table with namespace and filter, in the syntax of kubectl or k9s.

use std::borrow::Cow;
use std::iter::Peekable;

use k8s_openapi::api::core::v1::Namespace;

use super::contexts;
use super::kubectl_words::Syntax;
use crate::model::Model;
use base::did_you_mean::nearest;
use console_data::query::{self, Query};
use console_data::resource::Kind;
use console_data::scope::Scope;
use console_operations::effect::{Effect, TableRoute};

/// Opens a table of the kind with these arguments.
pub(super) fn open(
    kind: &Kind,
    arguments: &[&str],
    syntax: Syntax,
    model: &Model,
) -> Result<Vec<Effect>, String> {
    let mut over = contexts::named(arguments, model)?;
    if over.is_empty() {
        // As with namespaces, the present contexts are the default.
        over = contexts::on_top(model);
    }
    let namespace = |name: &str| if over.is_empty() { namespace(name, model) } else { anywhere(name) };
    let mut effects = Vec::new();
    let (mut name, mut in_namespace) = (None, None);
    let mut filter: Vec<Cow<'_, str>> = Vec::new();
    let mut arguments = arguments.iter().copied().peekable();
    while let Some(word) = arguments.next() {
        // After the start of a search text, every word belongs to it.
        if filter.first().is_some_and(|first| !first.starts_with("-l")) {
            filter.push(word.into());
            continue;
        }
        match word {
            "-A" | "--all-namespaces" | "all" => effects.push(Effect::Scope(Scope::All)),
            "-n" | "--namespace" => {
                let name = arguments.next().ok_or_else(|| format!("{word}: the namespace is required"))?;
                effects.push(Effect::Scope(namespace(name)?));
            }
            // Tables always follow changes.
            "-w" | "--watch" if syntax == Syntax::Kubectl => {}
            "-f" => filter.push(word.into()),
            "-l" | "--selector" => {
                let labels = arguments.next().ok_or_else(|| format!("{word}: the label is required"))?;
                filter.extend(["-l".into(), selector(labels, &mut arguments)?.into()]);
            }
            _ => match word.split_at_checked(1) {
                Some(("/", text)) => filter.push(text.into()),
                // The contexts were parsed before.
                Some(("@", _)) => {}
                Some(("-", _)) => match (word.split_once('='), word.strip_prefix("-l")) {
                    (Some(("-n" | "--namespace", name)), _) => {
                        effects.push(Effect::Scope(namespace(name)?));
                    }
                    (None, _) if word.len() > 2 && word.starts_with("-n") => {
                        effects.push(Effect::Scope(namespace(&word[2..])?));
                    }
                    (Some(("--selector", labels)), _) | (_, Some(labels)) => {
                        filter.extend(["-l".into(), selector(labels, &mut arguments)?.into()]);
                    }
                    _ => {
                        return Err(format!(
                            "unknown option {word}; use -n NAMESPACE, -A, -l LABEL=VALUE, /TEXT"
                        ));
                    }
                },
                _ if word.contains('=') => {
                    filter.extend(["-l".into(), selector(word, &mut arguments)?.into()]);
                }
                // Objects of the whole cluster are in no namespace: the word is a name, as it always is for kubectl.
                _ if syntax == Syntax::Kubectl || !kind.namespaced && !kind.is::<Namespace>() => {
                    if let Some(other) = name.replace(word) {
                        return Err(format!("{other}: unexpected {word:?} after the name"));
                    }
                }
                _ => {
                    if let Some(other) = in_namespace.replace(word) {
                        return Err(format!("{other}: unexpected {word:?} after the namespace"));
                    }
                    let scope = namespace(word).map_err(|error| format!("{error}; /{word} filters"))?;
                    effects.push(Effect::Scope(scope));
                }
            },
        }
    }
    if let Some(name) = name.filter(|_| !filter.is_empty()) {
        return Err(format!("{name}: a name and a filter cannot be combined"));
    }
    let route = match (name, syntax) {
        (Some(name), Syntax::Kubectl) => {
            TableRoute { name: Some(name.to_owned()), ..TableRoute::of(kind.clone()) }
        }
        (Some(name), Syntax::K9s) => {
            TableRoute { filter: query::exact(name), ..TableRoute::of(kind.clone()) }
        }
        (None, _) => TableRoute { filter: filter.join(" "), ..TableRoute::of(kind.clone()) },
    };
    Query::parse(&route.filter)?;
    effects.push(if over.is_empty() {
        Effect::open(route)
    } else {
        Effect::OpenMultiCluster(over, Box::new(route))
    });
    Ok(effects)
}

/// Returns a label selector that starts with this word. It may be in quotes, as for a shell, and it may have spaces.
pub(super) fn selector<'a>(
    first: &str,
    rest: &mut Peekable<impl Iterator<Item = &'a str>>,
) -> Result<String, String> {
    let mut text = first.to_owned();
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'));
    let Some(quote) = quote else {
        let is_open = |text: &str| text.ends_with(',') || text.contains('(') && !text.ends_with(')');
        while let Some(word) =
            rest.next_if(|word| is_open(&text) || matches!(*word, "in" | "notin") || word.starts_with('('))
        {
            text.push(' ');
            text.push_str(word);
        }
        return Ok(text);
    };
    while text.len() == 1 || !text.ends_with(quote) {
        let word = rest.next().ok_or_else(|| format!("{text}: the closing {quote} is missing"))?;
        text.push(' ');
        text.push_str(word);
    }
    Ok(text[1..text.len() - 1].to_owned())
}

/// Checks the syntax of a namespace's name, for several clusters: the name becomes a part of paths. Does not look it
/// up.
pub(super) fn anywhere(name: &str) -> Result<Scope, String> {
    let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 63 || !name.chars().all(is_label) {
        return Err(format!("invalid namespace name {name:?}"));
    }
    Ok(Scope::One(name.to_owned()))
}

pub(super) fn namespace(name: &str, model: &Model) -> Result<Scope, String> {
    let namespaces = &model.shared.cluster.stores.namespaces();
    // If namespaces cannot be listed, any name is accepted.
    if namespaces.is_empty() || namespaces.by_name("", name).is_some() {
        return Ok(Scope::One(name.to_owned()));
    }
    let names: Vec<String> = namespaces.iter().filter_map(|(_, ns)| ns.metadata.name.clone()).collect();
    Err(match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("no namespace {name:?}; did you mean {near:?}?"),
        None => format!("no namespace {name:?}"),
    })
}
