//! `:KIND …`: a table, of a namespace, filtered; as one types it for kubectl or k9s.

use crate::effect::{Effect, TableRoute};
use crate::model::Model;
use crate::query::Query;
use crate::resource::Kind;
use crate::scope::Scope;
use base::nearest::nearest;

/// A table of the kind as the words behind it say.
pub(super) fn open(kind: &Kind, words: &[&str], model: &Model) -> Result<Vec<Effect>, String> {
    let mut effects = Vec::new();
    let mut filter: Vec<&str> = Vec::new();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        // A text to search for may hold anything.
        if filter.first().is_some_and(|first| !first.starts_with("-l")) {
            filter.push(word);
            continue;
        }
        match word {
            "-A" | "--all-namespaces" | "all" => effects.push(Effect::Scope(Scope::All)),
            "-n" | "--namespace" => {
                let name = words.next().ok_or_else(|| format!("{word}: which namespace?"))?;
                effects.push(Effect::Scope(namespace(name, model)?));
            }
            "-f" => filter.push(word),
            "-l" | "--selector" => {
                filter.extend(["-l", words.next().ok_or_else(|| format!("{word}: which label?"))?]);
            }
            _ => match word.split_at_checked(1) {
                Some(("/", text)) => filter.push(text),
                Some(("@", context)) => {
                    return Err(format!(
                        "one console, one cluster: podium console --context {context} opens another"
                    ));
                }
                Some(("-", _)) => match (word.split_once('='), word.strip_prefix("-l")) {
                    (Some(("-n" | "--namespace", name)), _) => {
                        effects.push(Effect::Scope(namespace(name, model)?));
                    }
                    (Some(("--selector", labels)), _) | (_, Some(labels)) => filter.extend(["-l", labels]),
                    _ => {
                        return Err(format!(
                            "{word} is not understood; there are -n NAMESPACE, -A, -l LABEL=VALUE, /TEXT"
                        ));
                    }
                },
                _ if word.contains('=') => filter.extend(["-l", word]),
                _ => effects.push(Effect::Scope(
                    namespace(word, model).map_err(|error| format!("{error}; /{word} filters"))?,
                )),
            },
        }
    }
    let filter = filter.join(" ");
    Query::parse(&filter)?;
    effects.push(Effect::open(TableRoute { filter, ..TableRoute::of(kind.clone()) }));
    Ok(effects)
}

/// The namespace of this name.
pub(super) fn namespace(name: &str, model: &Model) -> Result<Scope, String> {
    let namespaces = &model.shared.stores.namespaces();
    // Where namespaces cannot be listed, any name may exist.
    if namespaces.is_empty() || namespaces.by_name("", name).is_some() {
        return Ok(Scope::One(name.to_owned()));
    }
    let names: Vec<String> = namespaces.iter().filter_map(|(_, ns)| ns.metadata.name.clone()).collect();
    Err(match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("no namespace {name:?}; did you mean {near:?}?"),
        None => format!("no namespace {name:?}"),
    })
}
