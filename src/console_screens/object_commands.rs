//! The commands on objects, which are the same on every screen that shows objects.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, Pod};

use console_data::context::Context;
use console_data::node_shell;
use console_data::past;
use console_data::point_in_time::TimeSelector;
use console_data::related;
use console_data::resource::ObjectRef;
use console_data::scope::Scope;
use console_operations::effect::{
    Effect, ImageScope, LogRun, LogsRoute, Route, RowScope, TableRoute, TerminalPurpose,
};
use console_operations::navigate;
use console_operations::operations::{self, drain};
use console_toolkit::command::{Command, KeyContext};

/// The message about a command on a row where there is none.
pub(crate) const NOTHING_SELECTED: &str = "nothing is selected";

/// The rows that a command of a table applies to while rows are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkScope {
    /// All marked rows.
    All,
    /// The only marked row; if several are marked, the command is refused.
    One,
    /// No rows: the command concerns the table.
    None,
}

/// Returns the rows that a command of a table applies to while rows are marked. Commands not listed apply to one
/// object.
pub fn marks(command: Command) -> MarkScope {
    match command {
        Command::Copy
        | Command::CopyNamespace
        | Command::Delete
        | Command::Kill
        | Command::Scale
        | Command::Restart
        | Command::Cordon
        | Command::Uncordon
        | Command::Label
        | Command::Taint
        | Command::OpenDrain
        | Command::Suspend
        | Command::Heal
        | Command::Pause => MarkScope::All,
        Command::Mark
        | Command::MarkRange
        | Command::ClearMarks
        | Command::Save
        | Command::Faults
        | Command::Wide
        | Command::SortName
        | Command::SortAge
        | Command::SortStatus
        | Command::SortColumn
        | Command::ColumnLeft
        | Command::ColumnRight
        | Command::EventsGroup
        | Command::EventsWarnings
        | Command::ShowForwards
        | Command::AddNode
        | Command::Break
        | Command::SnapshotSave
        | Command::OneContext
        | Command::ImagePull
        | Command::SortSize
        | Command::ShowAll
        | Command::PastBack
        | Command::PastForward
        | Command::PastBackMore
        | Command::PastForwardMore
        | Command::PastAt => MarkScope::None,
        command if is_of_the_table(command) => MarkScope::None,
        _ => MarkScope::One,
    }
}

/// Returns whether a command only moves, or shows other namespaces or another screen.
fn is_of_the_table(command: Command) -> bool {
    let entry = command.entry();
    match entry.context {
        KeyContext::List => command != Command::Enter,
        KeyContext::Objects => entry.name == "all-namespaces" || entry.name.starts_with("namespace-"),
        context => matches!(context, KeyContext::Everywhere | KeyContext::Tabs | KeyContext::Panes),
    }
}

/// Returns the reason why a command does not apply to several marked objects.
pub(crate) fn refuses_marks(cx: &Context<'_>, command: Command, marked: usize) -> Option<String> {
    if marked < 2 || marks(command) != MarkScope::One {
        return None;
    }
    let clear = cx.bindings.key(Command::ClearMarks).map(|key| key.to_string()).unwrap_or_default();
    Some(format!(
        "{}: one at a time, and {marked} are marked; {clear} clears the marks",
        command.entry().in_short()
    ))
}

/// Returns the reason why a command does not apply to a list without a row.
pub(crate) fn refuses_without_row(command: Command) -> Option<String> {
    let marks_rows = matches!(command, Command::Mark | Command::MarkRange);
    (marks_rows || marks(command) != MarkScope::None).then(|| NOTHING_SELECTED.to_owned())
}

/// Executes a command on a single object, such as the selection of a screen; nothing for commands that concern no
/// object.
pub(crate) fn on(cx: &Context<'_>, command: Command, object: Option<ObjectRef>) -> Vec<Effect> {
    if is_of_the_table(command) {
        return Vec::new();
    }
    let targets: Vec<ObjectRef> = object.iter().cloned().collect();
    run(cx, command, object, &targets, 0)
}

/// Executes a command on an object as it was at a point in time.
pub(crate) fn at(cx: &Context<'_>, command: Command, object: ObjectRef, when: TimeSelector) -> Vec<Effect> {
    match command {
        Command::Yaml => vec![Effect::open(Route::YamlAt(object, when))],
        Command::Enter | Command::Describe => vec![Effect::open(Route::DescribeAt(object, when))],
        _ => on(cx, command, Some(object)),
    }
}

/// Executes a command on the object under the cursor, or on all marked ones if the command supports that.
pub fn run(
    cx: &Context<'_>,
    command: Command,
    current: Option<ObjectRef>,
    targets: &[ObjectRef],
    hidden: usize,
) -> Vec<Effect> {
    if command == Command::AddNode {
        return match operations::add_node::allowed(cx.catalogue) {
            Ok(()) => vec![Effect::dialog(operations::add_node::dialog())],
            Err(error) => vec![Effect::failed(error)],
        };
    }
    if command == Command::Break {
        return vec![Effect::dialog(operations::fault::dialog())];
    }
    if command == Command::SnapshotSave {
        return operations::snapshot::open_save_dialog(cx.catalogue);
    }
    if command == Command::ShowForwards {
        return vec![Effect::ShowForwards];
    }
    let Some(current) = current.or_else(|| targets.first().cloned()) else {
        return vec![Effect::info(NOTHING_SELECTED)];
    };
    let all = || targets.to_vec();
    match command {
        Command::Enter => navigate::enter(cx, current),
        Command::Describe => vec![Effect::open(Route::Describe(current))],
        Command::Yaml => vec![Effect::open(Route::Yaml(current))],
        Command::OpenVersions => match past::refused(cx.catalogue) {
            Some(why) => vec![Effect::info(why)],
            None => vec![Effect::open(Route::Versions(current))],
        },
        Command::OpenTimeline => vec![Effect::open(Route::Timeline(current))],
        Command::Edit => vec![Effect::open(Route::Edit(current))],
        Command::Copy => {
            vec![Effect::Copy(
                targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join("\n"),
            )]
        }
        Command::CopyNamespace => {
            let names: BTreeSet<&str> =
                targets.iter().filter_map(|target| target.namespace.as_deref()).collect();
            if names.is_empty() {
                let note = format!("{} have no namespace", current.kind.heading());
                return vec![Effect::info(note)];
            }
            vec![Effect::Copy(names.into_iter().collect::<Vec<_>>().join("\n"))]
        }
        Command::Delete if targets.iter().all(|target| target.kind.is::<Node>()) => {
            vec![Effect::dialog(drain::remove::dialog(all(), hidden))]
        }
        Command::Delete => vec![Effect::dialog(operations::delete::dialog(all(), hidden))],
        Command::Kill => vec![Effect::dialog(operations::delete::kill_dialog(all()))],
        Command::Owner => navigate::open_owner(cx, &current),
        Command::Logs => vec![Effect::open(LogsRoute::of(current, LogRun::Current))],
        Command::PreviousLogs => vec![Effect::open(LogsRoute::of(current, LogRun::Previous))],
        Command::Shell if current.kind.is::<Node>() => open_node_shell(cx, current),
        Command::Shell => vec![Effect::open(Route::Terminal(current, TerminalPurpose::Shell))],
        Command::Transfer => vec![Effect::open(Route::Transfer(current, None))],
        Command::Attach => vec![Effect::open(Route::Terminal(current, TerminalPurpose::Attach))],
        Command::Debug => vec![Effect::open(Route::Terminal(current, TerminalPurpose::Debug))],
        Command::ShowImages if current.kind.is::<Node>() => {
            vec![Effect::open(Route::Images(ImageScope::Node(current.name)))]
        }
        Command::ShowImages => vec![Effect::open(Route::Images(ImageScope::Pod(current)))],
        Command::PodNode => navigate::open_node(cx, &current),
        Command::Explain if related::is_unscheduled(cx, &current) => {
            vec![Effect::open(Route::Pending(current))]
        }
        Command::Explain => vec![Effect::open(Route::Explain(current))],
        Command::WhyNotConnected => {
            vec![Effect::dialog(operations::connection::dialog(&current))]
        }
        Command::Scale => operations::scale::open_dialog(cx, all()),
        Command::Restart => operations::restart::show_dialog(cx, targets),
        Command::Rollback if current.kind.is::<ReplicaSet>() => navigate::rollout_of_owner(cx, &current),
        Command::SetImage => operations::set_image::show_dialog(cx, &current),
        Command::Rollout | Command::Rollback => vec![Effect::open(Route::Rollout(current))],
        Command::ReplicaSets => {
            vec![Effect::open(
                TableRoute::of(cx.catalogue.kind::<ReplicaSet>()).only(RowScope::OwnedBy(current)),
            )]
        }
        Command::UsedBy => {
            vec![Effect::open(TableRoute::of(cx.catalogue.kind::<Pod>()).only(RowScope::Using(current)))]
        }
        Command::Cordon => targets.iter().map(|node| operations::node::cordon(cx, node, true)).collect(),
        Command::Uncordon => targets.iter().map(|node| operations::node::cordon(cx, node, false)).collect(),
        Command::Label => vec![Effect::dialog(operations::label::labels_dialog(all()))],
        Command::Taint => vec![Effect::dialog(operations::label::taints_dialog(all()))],
        Command::OpenDrain => vec![Effect::open(Route::Drain(all()))],
        Command::UseNamespace => vec![
            Effect::Scope(Scope::One(current.name.clone())),
            Effect::done(format!("namespace {}", current.name)),
        ],
        Command::PortForward => vec![operations::forward::open_dialog(cx, current)],
        Command::Trigger => {
            vec![Effect::dialog(operations::cron_job::trigger_dialog(current))]
        }
        Command::Suspend => vec![operations::cron_job::suspend(targets)],
        Command::Decode => vec![Effect::open(Route::Decoded(current))],
        Command::Heal => vec![operations::fault::heal(targets)],
        Command::SnapshotRestore => operations::snapshot::open_restore_dialog(cx.catalogue, current),
        Command::SnapshotFork => operations::snapshot::open_fork_dialog(cx, current),
        Command::Fence => operations::fence::show_dialog(cx, &current),
        Command::Unfence => vec![Effect::dialog(operations::fence::unfence_dialog(current))],
        Command::Pause => operations::controller::toggle(cx, targets),
        Command::ControllerStep => {
            targets.iter().map(|target| operations::controller::step(target, None)).collect()
        }
        Command::GoToObject => navigate::object(cx, &current),
        _ => Vec::new(),
    }
}

fn open_node_shell(cx: &Context<'_>, node: ObjectRef) -> Vec<Effect> {
    let known = cx.stores.nodes().by_name("", &node.name);
    match known.and_then(node_shell::refused) {
        Some(why) => vec![Effect::failed(why)],
        None => vec![Effect::open(Route::Terminal(node, TerminalPurpose::NodeShell))],
    }
}
