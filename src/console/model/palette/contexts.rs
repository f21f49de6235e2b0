//! `:KIND @CONTEXT,CONTEXT` and `:KIND @*`: the clusters of a table (CON-16).

use base::did_you_mean::nearest;

use crate::model::Model;
use console_data::clusters::ConnectionState;
use console_data::contexts::ContextEntry;
use console_data::resource::{ClusterId, Kind};
use console_operations::effect::Effect;

/// Parses the contexts after a kind: the names after each `@`, up to the filter.
pub(super) fn named(arguments: &[&str], model: &Model) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for spec in
        arguments.iter().take_while(|word| !word.starts_with('/')).filter_map(|word| word.strip_prefix('@'))
    {
        for name in names_of(spec, model)? {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

/// Returns the contexts of the top table; empty if the table shows one cluster.
pub(super) fn on_top(model: &Model) -> Vec<String> {
    let over = model.top().1.over().unwrap_or_default();
    over.iter().map(|id| model.shared.cluster_name(*id).to_owned()).collect()
}

/// Returns the context of the console's own cluster.
fn home(model: &Model) -> &str {
    model.setup.context.as_deref().unwrap_or(&model.setup.cluster)
}

fn names_of(spec: &str, model: &Model) -> Result<Vec<String>, String> {
    if spec == "*" {
        return all(model);
    }
    let mut names = Vec::new();
    for name in spec.split(',') {
        names.push(match name {
            "" => return Err("@: the context is required; @* means one of each server".to_owned()),
            "*" => {
                return Err(
                    "@* means one context of each server: no other name can be combined with it".to_owned()
                );
            }
            name if model.is_home(name) => home(model).to_owned(),
            name => check_context(name, model)?,
        });
    }
    Ok(names)
}

/// Checks a context's name; until the kubeconfig has been read, any name is accepted.
fn check_context(name: &str, model: &Model) -> Result<String, String> {
    let Some(Ok(entries)) = &model.contexts else { return Ok(name.to_owned()) };
    let is_started_on = name == model.setup.home.0;
    if is_started_on || entries.iter().any(|entry| entry.name == name) {
        return Ok(name.to_owned());
    }
    let known = entries.iter().map(|entry| entry.name.as_str()).chain([home(model)]);
    Err(match nearest(name, known) {
        Some(near) => format!("the kubeconfig has no context {name:?}; did you mean {near:?}?"),
        None => format!("the kubeconfig has no context {name:?}"),
    })
}

/// Returns the console's own cluster, and one context for each other server of the kubeconfig, because two contexts of
/// one server would show each row twice.
fn all(model: &Model) -> Result<Vec<String>, String> {
    let entries: &[ContextEntry] = match &model.contexts {
        Some(Ok(entries)) => entries,
        Some(Err(why)) => return Err(why.clone()),
        None => return Err("the kubeconfig is still being read; try again in a moment".to_owned()),
    };
    let own = home(model);
    let mut servers: Vec<&str> =
        entries.iter().filter(|entry| entry.name == own).map(|entry| entry.server.as_str()).collect();
    let mut names = vec![own.to_owned()];
    let origin = model.setup.origin.as_str();
    for entry in entries {
        let authority = entry.server.split_once("://").map_or(&*entry.server, |(_, rest)| rest);
        let is_own = entry.name == own || (!origin.is_empty() && authority.trim_end_matches('/') == origin);
        let is_known = !entry.server.is_empty() && servers.contains(&entry.server.as_str());
        if is_own || is_known {
            continue;
        }
        servers.push(&entry.server);
        names.push(entry.name.clone());
    }
    Ok(names)
}

/// Finds a kind in the clusters of these contexts. The error is the effect that waits for their discovery, or the
/// message that no cluster has the kind.
pub(super) fn kind(
    kind_name: &str,
    text: &str,
    names: &[String],
    model: &Model,
) -> Result<Kind, Result<Vec<Effect>, String>> {
    let cx = model.shared.context(model.last_message_at);
    let is = |id: &ClusterId, name: &str| match *id {
        ClusterId::HOME => model.is_home(name),
        id => model.shared.cluster_name(id) == name,
    };
    let ids: Vec<ClusterId> = cx.clusters.others.keys().copied().chain([cx.cluster]).collect();
    let mut silent = Vec::new();
    for name in names {
        let cluster = ids.iter().find(|id| is(id, name)).and_then(|id| cx.clusters.get(*id));
        match cluster {
            Some(cluster) if cluster.catalogue.discovered => {
                if let Some(kind) = cluster.catalogue.find_resource(kind_name) {
                    return Ok(kind.clone());
                }
            }
            Some(cluster) if matches!(cluster.reach, ConnectionState::Silent { .. }) => {
                silent.push(name.as_str());
            }
            _ => return Err(Ok(vec![Effect::AfterDiscovery(names.to_vec(), text.to_owned())])),
        }
    }
    let silent = match silent.as_slice() {
        [] => String::new(),
        names => format!("; no answer from {}", names.join(", ")),
    };
    Err(Err(format!("no kind {kind_name:?} in {}{silent}", names.join(", "))))
}

/// Completes `@dev,pr`.
pub(super) fn suggest(last: &str, model: &Model) -> Vec<String> {
    let (before, _) = last.rsplit_once(',').map_or(("@", ""), |(before, rest)| (before, rest));
    let taken: Vec<&str> = before.trim_start_matches('@').split(',').collect();
    let lead = if before == "@" { "@".to_owned() } else { format!("{before},") };
    let entries = model.contexts.iter().flatten().flatten().map(|entry| entry.name.as_str());
    let names = [home(model)].into_iter().chain(entries);
    let mut suggestions: Vec<String> = Vec::new();
    for name in names.filter(|name| !taken.contains(name)) {
        let suggestion = format!("{lead}{name}");
        // A name that contains a separator cannot be typed, so it is not suggested.
        if !suggestions.contains(&suggestion) && !name.contains(|c: char| c.is_whitespace() || c == ',') {
            suggestions.push(suggestion);
        }
    }
    if before == "@" {
        suggestions.push("@*".to_owned());
    }
    suggestions
}
