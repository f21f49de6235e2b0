//! Parses and completes the text after `:`: kinds with namespace and filter, and every command by name.

mod can_i;
mod contexts;
mod files;
mod kubectl_words;
mod logs;
mod object_commands;
mod table;

use k8s_openapi::api::core::v1::Namespace;
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher};

use std::collections::BTreeSet;

use crate::model::Model;
use base::did_you_mean::nearest;
use base::sort::SliceOrder;
use console_data::context::ScreenId;
use console_data::point_in_time::TimeTravel;
use console_data::read_only;
use console_data::resource::Kind;
use console_data::scope::Scope;
use console_data::screen_dumps;
use console_data::store::{Identity, Store};
use console_data::workloads;
use console_operations::dialog::{Field, Fields};
use console_operations::effect::{
    Dialog, Effect, ImageScope, PaneContent, Route, SplitDirection, TableRoute,
};
use console_operations::operations::add_node::{self, NewNode};
use console_operations::operations::{controller, node_shell, snapshot};
use console_toolkit::command::{Command, CommandImpact, Entry, KeyContext, PROMPT_WORDS, TABLE};
use kubectl_words::Syntax;

pub(crate) fn run(text: &str, model: &Model) -> Result<Vec<Effect>, String> {
    let text = model.shared.extensions.expand(text);
    let (text, syntax) =
        kubectl_words::translate(&text, |word| model.shared.cluster.catalogue.find_resource(word).is_some());
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    // The past cannot be changed, and its objects are not those that a name refers to now.
    if let Some(command) =
        Command::named(first).filter(|command| command.entry().impact == CommandImpact::Cluster)
        && let Some(why) = model.refusal_in_past(command.entry())
    {
        return Err(why);
    }
    if syntax == Syntax::Kubectl
        && let Some(kind) = model.shared.cluster.catalogue.find_resource(first)
    {
        return table::open(kind, &rest, syntax, model);
    }
    let prompt_word = PROMPT_WORDS
        .iter()
        .find(|known| known.name == first || known.aliases.split(' ').any(|alias| alias == first));
    if let Some(argument) = rest.first().filter(|_| prompt_word.is_some_and(|word| word.rest.is_empty())) {
        return Err(format!("unexpected {argument:?}: {first} takes no argument"));
    }
    match prompt_word.map(|known| known.name) {
        Some("quit") => return Ok(vec![Effect::Command(Command::Quit)]),
        Some("theme") => {
            return Ok(match rest.first() {
                Some(name) => vec![Effect::SaveTheme(existing_theme(name, model)?)],
                None => vec![Effect::Command(Command::ThemeNext)],
            });
        }
        Some("namespace") => {
            return Ok(match rest.first() {
                Some(&"all") => vec![Effect::Scope(Scope::All)],
                Some(name) => vec![Effect::Scope(table::namespace(name, model)?)],
                None => {
                    vec![Effect::open(TableRoute::of(model.shared.cluster.catalogue.kind::<Namespace>()))]
                }
            });
        }
        Some("add-node") => {
            if rest.is_empty() {
                add_node::allowed(&model.shared.cluster.catalogue)?;
                return Ok(vec![Effect::dialog(add_node::dialog())]);
            }
            return add_node(&rest.join(" "), model);
        }
        Some("node-shells") => {
            if model.shared.read_only {
                return Err(read_only::command_refusal("node-shells"));
            }
            let dialog = node_shell::removal_dialog(&model.shared.cluster.stores)?;
            return Ok(vec![Effect::dialog(dialog)]);
        }
        Some("discard-edits") => {
            return Ok(vec![Effect::dialog(model.discard_drafts_dialog()?)]);
        }
        Some("restore") => return Ok(vec![Effect::RestoreTabs]),
        Some("vsplit") => {
            return Ok(vec![Effect::Split(SplitDirection::Beside, Model::parse_split_arguments(&rest)?)]);
        }
        Some("split") => {
            return Ok(vec![Effect::Split(SplitDirection::Below, Model::parse_split_arguments(&rest)?)]);
        }
        Some("tab") => return model.tab_effects(&rest),
        Some("overview") => return Ok(vec![Effect::Command(Command::OpenOverview)]),
        Some("journal") => return Ok(vec![Effect::Command(Command::OpenJournal)]),
        Some("aliases") => return Ok(vec![Effect::Command(Command::Aliases)]),
        Some("help") => return Ok(vec![Effect::Command(Command::Help)]),
        Some("xray") => {
            let kind = rest.first().map(|word| {
                model.shared.cluster.catalogue.find(word).cloned().ok_or_else(|| format!("no kind {word:?}"))
            });
            return Ok(vec![Effect::open(Route::Tree(kind.transpose()?))]);
        }
        Some("context") => {
            return Ok(vec![match rest.as_slice() {
                [] => Effect::ShowContexts,
                ["-"] => Effect::UseContext(None),
                [name] => Effect::UseContext(Some((*name).to_owned())),
                _ => return Err("context takes a single name".into()),
            }]);
        }
        Some("can") => return can_i::open(&rest, model),
        Some("at") => {
            let now = model.last_message_at;
            return Ok(vec![Effect::Travel(TimeTravel::parse(&rest.join(" "), now)?)]);
        }
        Some("screendumps") => {
            return match &model.setup.config_dir {
                Some(dir) => Ok(vec![Effect::open(Route::Dumps(screen_dumps::directory(dir)))]),
                None => Err("no configuration directory: files are saved where podium was started".into()),
            };
        }
        Some(word @ ("dir" | "apply")) => return files::open(word, &text, model),
        Some("tour") => return model.tour_effects(&rest),
        Some("plugin") => {
            return match rest.as_slice() {
                [name] => Ok(vec![Effect::RunPlugin((*name).to_owned())]),
                _ => Err(match model.plugin_names(model.last_message_at).as_slice() {
                    [] => "no plugin for the selection".into(),
                    names => format!("the plugin is required: {}", names.join(", ")),
                }),
            };
        }
        Some("controllers") => {
            // A server other than Podium may have its own kind `controllers`.
            let catalogue = &model.shared.cluster.catalogue;
            let kind = controller::kind(catalogue).or_else(|| catalogue.find_resource("controllers"));
            return match kind {
                Some(kind) => table::open(kind, &rest, syntax, model),
                None if !catalogue.discovered => Err("the kinds of the server are not known yet".into()),
                None => Err(controller::ABSENT.into()),
            };
        }
        // A kind of that name on the server takes precedence; `wk` always means the table.
        Some("workloads") if first == "wk" || model.shared.cluster.catalogue.find(first).is_none() => {
            return table::open(&workloads::kind(), &rest, syntax, model);
        }
        // A kind of that name on the server takes precedence.
        Some("snapshots") if model.shared.cluster.catalogue.find_resource(first).is_none() => {
            return match snapshot::kind(&model.shared.cluster.catalogue) {
                Some(kind) => table::open(kind, &rest, syntax, model),
                None => Err("this server does not support cluster snapshots".into()),
            };
        }
        // A kind of that name on the server takes precedence; `img` always means the images of nodes.
        Some("images") if first == "img" || model.shared.cluster.catalogue.find(first).is_none() => {
            return match rest.as_slice() {
                [] => Ok(vec![Effect::open(Route::Images(ImageScope::All))]),
                [node] => Ok(vec![Effect::open(Route::Images(ImageScope::Node((*node).to_owned())))]),
                _ => Err("images takes a single node".into()),
            };
        }
        Some("topology") => return Ok(vec![Effect::open(Route::Topology)]),
        Some("project") => return Ok(vec![Effect::open(Route::Project)]),
        Some("port-forwards") => return Ok(vec![Effect::ShowForwards]),
        Some("background") => {
            return match model.background(jiff::Timestamp::UNIX_EPOCH).as_slice() {
                [] => Err("nothing runs in the background".into()),
                [(id, _)] => Ok(vec![Effect::Resume(*id)]),
                _ => Ok(vec![Effect::dialog(background_dialog(model))]),
            };
        }
        _ => {}
    }
    if let Some(kind) = model.shared.cluster.catalogue.find_resource(first) {
        return table::open(kind, &rest, syntax, model);
    }
    let mut named = contexts::named(&rest, model)?;
    if named.is_empty() {
        named = contexts::on_top(model);
    }
    if !named.is_empty() && Command::named(first).is_none() {
        return match contexts::kind(first, &text, &named, model) {
            Ok(kind) => table::open(&kind, &rest, syntax, model),
            Err(otherwise) => otherwise,
        };
    }
    // Cursor movement has keys only: `:top` does not mean `g`.
    let command = Command::named_with_context(first);
    if let Some((command, place)) = command.filter(|(command, _)| command.entry().context != KeyContext::List)
    {
        return object_commands::run(command, place, &rest, model);
    }
    if let Some(hint) = kubectl_words::hint(first) {
        return Err(hint.to_owned());
    }
    let known = candidates(model);
    Err(match nearest(first, known.iter().map(String::as_str)) {
        Some(near) => format!("no kind or command {first:?}; did you mean {near:?}?"),
        None => format!("no kind or command {first:?}"),
    })
}

fn add_node(text: &str, model: &Model) -> Result<Vec<Effect>, String> {
    if model.shared.read_only {
        return Err(read_only::command_refusal("add-node"));
    }
    add_node::allowed(&model.shared.cluster.catalogue)?;
    Ok(vec![Effect::Act(Box::new(NewNode::parse(text)?.action()))])
}

fn existing_theme(name: &str, model: &Model) -> Result<String, String> {
    let themes = model.themes();
    let names = || themes.iter().map(|(name, _)| name.as_str());
    match themes.iter().find(|(known, _)| known == name) {
        Some((name, Ok(_))) => Ok(name.clone()),
        Some((_, Err(error))) => Err(error.to_string()),
        None => Err(match nearest(name, names()) {
            Some(near) => format!("no theme {name:?}; did you mean {near:?}?"),
            None => format!("no theme {name:?}; the themes are {}", names().collect::<Vec<_>>().join(", ")),
        }),
    }
}

fn candidates(model: &Model) -> Vec<String> {
    let mut all: Vec<String> =
        model.shared.cluster.catalogue.kinds().iter().map(|kind| kind.resource.plural.to_string()).collect();
    all.extend(PROMPT_WORDS.iter().map(|known| known.name.to_owned()));
    all.extend(model.shared.extensions.aliases().keys().cloned());
    // Commands for lists, tabs, panes and all views are not suggested: users know them by their keys.
    let (_, screen) = model.top();
    let cx = model.shared.context(jiff::Timestamp::UNIX_EPOCH);
    let contexts = screen.key_contexts(&cx);
    let is_of_all_views = |command: Command| {
        matches!(
            command.entry().context,
            KeyContext::List | KeyContext::Everywhere | KeyContext::Tabs | KeyContext::Panes
        )
    };
    let offered = |entry: &&Entry| {
        entry.applies_in(&contexts) && !is_of_all_views(entry.command) && model.offers(entry, cx.now)
    };
    all.extend(TABLE.iter().filter(offered).map(|entry| entry.name.to_owned()));
    all.dedup();
    all
}

/// Returns the completion that Enter accepts if the text is not complete by itself: the best one, unless it changes the
/// cluster or names an object of a command; such words must be typed in full.
pub(crate) fn completion<'a>(text: &str, suggestions: &'a [String]) -> Option<&'a String> {
    let harmless = |whole: &&String| {
        let whole = kubectl_words::split_kubectl(whole).map_or(whole.as_str(), |(_, rest)| rest);
        match whole.split_once(' ') {
            // The objects of a command are typed in full, or completed with Tab.
            Some((first, _)) => Command::named(first).is_none(),
            None => {
                Command::named(whole).is_none_or(|command| command.entry().impact == CommandImpact::Nothing)
            }
        }
    };
    suggestions.iter().filter(|whole| whole.starts_with(text)).find(harmless)
}

/// Reports whether a namespace can follow this word.
fn takes_namespace(first: &str, model: &Model) -> bool {
    matches!(first, "ns" | "namespace")
        || model.shared.cluster.catalogue.find(first).is_some_and(|kind| kind.namespaced)
}

/// The suggestions for an empty line: the most frequent kinds, and the console's own screens.
const START: [&str; 16] = [
    "pods", "deployments", "services", "nodes", "events", "workloads", "overview", "xray", "topology",
    "drills", "controllers", "faults", "snapshots", "port-forwards", "journal", "context",
];

/// Returns the suggestions of [`START`] that this server supports.
fn start(model: &Model) -> Vec<String> {
    let is_known = |word: &&&str| {
        PROMPT_WORDS.iter().any(|known| known.name == **word)
            || Command::named(word).is_some_and(|command| command.entry().context == KeyContext::Everywhere)
            || model.shared.cluster.catalogue.find(word).is_some()
    };
    START.iter().filter(is_known).map(|word| (*word).to_owned()).collect()
}

/// Returns completions of a text, the best first.
pub(crate) fn suggest(text: &str, model: &Model) -> Vec<String> {
    if text.is_empty() {
        return start(model);
    }
    let is_kind = |word: &str| model.shared.cluster.catalogue.find_resource(word).is_some();
    if let Some((kubectl, rest)) = kubectl_words::split_kubectl(text)
        && !is_kind(kubectl.trim_end())
    {
        let found = if rest.contains(' ') {
            suggest(rest, model)
        } else {
            rank(rest, kubectl_words::VERBS.map(str::to_owned).into())
        };
        return found.into_iter().take(SUGGESTED).map(|rest| format!("{kubectl}{rest}")).collect();
    }
    if let Some(rest) = text.strip_prefix("get ").filter(|_| !is_kind("get")) {
        return suggest_of_get(rest, model);
    }
    let (head, last) = match text.rsplit_once(' ') {
        Some((head, last)) => (Some(head), last),
        None => (None, text),
    };
    let completions = match head.map(|head| head.split(' ').next().unwrap_or_default()) {
        None => candidates(model),
        Some(_) if last.starts_with('@') => contexts::suggest(last, model),
        Some("context" | "ctx" | "contexts") => {
            model.contexts.iter().flatten().flatten().map(|entry| entry.name.clone()).collect()
        }
        // The rest is completed like a command of its own.
        Some("tab" | "tabnew" | "tabe" | "tabedit") if head.is_some_and(|head| !head.contains(' ')) => {
            candidates(model)
        }
        Some("split" | "sp" | "vsplit" | "vsp" | "vs") => {
            PaneContent::ARGUMENTS.iter().map(|(word, _)| (*word).to_owned()).collect()
        }
        Some("can" | "can-i" | "who-can") => can_i::suggest(head.unwrap_or_default(), last, model),
        Some("plugin" | "plugins") => model.plugin_names(model.last_message_at),
        Some("theme" | "skin") => model.themes().into_iter().map(|(name, _)| name).collect(),
        Some(first) if !takes_namespace(first, model) => {
            object_commands::suggest(first, head.unwrap_or_default(), last, model)
        }
        Some(_) => {
            let namespaces = model.shared.cluster.stores.namespaces().iter();
            let mut names: Vec<String> = namespaces.filter_map(|(_, ns)| ns.metadata.name.clone()).collect();
            names.order();
            names.push("all".into());
            names
        }
    };
    let whole = |completion: &String| match head {
        Some(head) => format!("{head} {completion}"),
        None => completion.clone(),
    };
    // A short name is exact: `po` means pods before anything fuzzy.
    let exact = model
        .shared
        .cluster
        .catalogue
        .find(last)
        .filter(|_| head.is_none() && !last.is_empty())
        .map(|kind| kind.resource.plural.to_string());
    let mut found: Vec<String> = exact.iter().map(&whole).collect();
    for word in rank(last, completions) {
        let completion = whole(&word);
        if !found.contains(&completion) {
            found.push(completion);
        }
    }
    found.truncate(SUGGESTED);
    found
}

/// Maximum number of completions.
const SUGGESTED: usize = 8;

/// Returns completions of a kind and of an object's name after `get`.
fn suggest_of_get(rest: &str, model: &Model) -> Vec<String> {
    let Some((kind, name)) = rest.split_once(' ') else {
        let kinds =
            model.shared.cluster.catalogue.kinds().iter().map(|kind| kind.resource.plural.to_string());
        let exact = model.shared.cluster.catalogue.find(rest).map(|kind| kind.resource.plural.to_string());
        let mut found: Vec<String> = exact.into_iter().collect();
        found.extend(rank(rest, kinds.collect()).into_iter().take(SUGGESTED));
        found.dedup();
        return found.into_iter().take(SUGGESTED).map(|kind| format!("get {kind}")).collect();
    };
    let Some(kind) = model.shared.cluster.catalogue.find_resource(kind) else { return Vec::new() };
    let head = &rest[..rest.len() - name.len()];
    let names = names_of(kind, name, model);
    names.into_iter().take(SUGGESTED).map(|name| format!("get {head}{name}")).collect()
}

/// Returns the names of the shown objects of a kind that start with a text, sorted.
fn names_of(kind: &Kind, start: &str, model: &Model) -> BTreeSet<String> {
    let store = model.shared.cluster.stores.get(&kind.resource).into_iter();
    let objects = store.flat_map(Store::iter).map(|(_, object)| object.identity());
    let is_shown = |object: &Identity| !kind.namespaced || model.shared.scope.holds(object.namespace());
    objects
        .filter(|object| object.name().starts_with(start) && is_shown(object))
        .map(|object| object.name().to_owned())
        .collect()
}

fn rank(typed: &str, completions: Vec<String>) -> Vec<String> {
    if typed.is_empty() {
        return completions;
    }
    let mut matcher = Matcher::new(Config::DEFAULT);
    let pattern = Pattern::parse(typed, CaseMatching::Ignore, Normalization::Smart);
    let mut matched = pattern.match_list(completions, &mut matcher);
    // Among equal matches, commands for the present view come first.
    let opens_view = |word: &str| Command::named(word).is_none();
    matched.order_by_key(|(word, score)| {
        (!word.starts_with(typed), std::cmp::Reverse(*score), opens_view(word), word.len())
    });
    matched.into_iter().map(|(word, _)| word).collect()
}

#[rustfmt::skip]
const NAMESPACE_KEYS: [Command; 9] = [
    Command::Namespace1, Command::Namespace2, Command::Namespace3, Command::Namespace4, Command::Namespace5,
    Command::Namespace6, Command::Namespace7, Command::Namespace8, Command::Namespace9,
];

#[rustfmt::skip]
const TAB_KEYS: [Command; 9] = [
    Command::Tab1, Command::Tab2, Command::Tab3, Command::Tab4, Command::Tab5, Command::Tab6, Command::Tab7,
    Command::Tab8, Command::Tab9,
];

/// Returns the index of a namespace key, from zero.
pub(crate) fn namespace_key(command: Command) -> Option<usize> {
    NAMESPACE_KEYS.iter().position(|key| *key == command)
}

/// Returns the index of a tab key, from zero.
pub(crate) fn tab_key(command: Command) -> Option<usize> {
    TAB_KEYS.iter().position(|key| *key == command)
}

/// Creates the dialog that selects a background screen to reopen; the last one first.
fn background_dialog(model: &Model) -> Dialog {
    let jobs: Vec<(ScreenId, String)> = model
        .background(jiff::Timestamp::UNIX_EPOCH)
        .into_iter()
        .enumerate()
        .map(|(at, (id, screen))| {
            let cx = model.shared.context(jiff::Timestamp::UNIX_EPOCH);
            let title = screen.background(&cx).unwrap_or_else(|| format!("{}: ended", screen.title(&cx)));
            (id, format!("{} {title}", at + 1))
        })
        .collect();
    let titles = jobs.iter().map(|(_, title)| title.clone()).collect();
    let mut fields = Fields::default();
    let job = fields.add(Field::choice("job", titles).hint("← → to pick"));
    Dialog::new("In the background", "Show", move |dialog, _| {
        let picked = jobs.iter().find(|(_, title)| title == dialog.choice(job));
        Ok(picked.map(|(id, _)| Effect::Resume(*id)).into_iter().collect())
    })
    .fields(fields)
}

/// Creates the dialog that selects a theme; each is previewed, and Cancel restores the old one.
pub(crate) fn theme_dialog(model: &Model) -> Dialog {
    let names = model.themes().into_iter().map(|(name, _)| name).collect();
    let before = model.shared.theme.name.clone();
    let mut fields = Fields::default();
    let theme = fields.add(Field::choice("theme", names).picking(&before).hint("← → to preview"));
    Dialog::new("Theme", "Use it", move |dialog, _| {
        Ok(vec![Effect::SaveTheme(dialog.choice(theme).to_owned())])
    })
    .fields(fields)
    .on_change(move |dialog, _| vec![Effect::Theme(dialog.choice(theme).to_owned())])
    .on_cancel(move |_, _| vec![Effect::Theme(before.clone())])
}
