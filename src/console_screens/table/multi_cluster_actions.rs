//! Commands on the rows of a table over several clusters or kinds: each is executed in the row's own cluster, with that
//! cluster's kinds and objects, and its effects are wrapped in [`Effect::InCluster`] with that cluster.

use std::collections::BTreeMap;

use super::Table;
use crate::View;
use crate::object_commands::{self, MarkScope};
use console_data::clusters::Freshness;
use console_data::context::Context;
use console_data::resource::{ClusterId, Kind, ObjectRef};
use console_data::rows::Row;
use console_data::workloads::Workload;
use console_operations::command_availability;
use console_operations::effect::{Dialog, Effect};
use console_toolkit::command::{Command, CommandImpact};
use console_toolkit::text::clean;
use console_toolkit::toast::Toast;

/// The targets of a command in one cluster, of one kind.
#[derive(Debug)]
struct Group {
    cluster: ClusterId,
    current: ObjectRef,
    targets: Vec<ObjectRef>,
    /// Number of marked targets that are hidden.
    hidden: usize,
}

impl Table {
    /// Returns the reason why a command does not apply to its targets, if it does not apply in any of their clusters.
    pub(super) fn refuses_over(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        match command {
            Command::PastBack | Command::PastForward | Command::PastBackMore | Command::PastForwardMore
                if self.over.is_some() =>
            {
                return Some(
                    "a table over several contexts shows only the present: each has its own history".into(),
                );
            }
            Command::EventsGroup if self.shows_context() => {
                return Some("events of several contexts are shown one by one; @ narrows to one".into());
            }
            _ => {}
        }
        if let Some(why) = object_commands::refuses_marks(cx, command, self.marked().len()) {
            return Some(why);
        }
        let groups = self.groups_of(cx, command);
        let refusals = groups.iter().map(|group| self.refusal_in_group(cx, command, group));
        let mut refusals = refusals.collect::<Option<Vec<String>>>()?;
        refusals.dedup();
        (!refusals.is_empty()).then(|| refusals.join("; "))
    }

    fn refusal_in_group(&self, cx: &Context<'_>, command: Command, group: &Group) -> Option<String> {
        let Some(of) = cx.on(group.cluster) else {
            return Some("its cluster is no longer shown".to_owned());
        };
        let kind = &group.current.kind;
        let reason = command_availability::refuses(of.catalogue, kind, command)?;
        Some(if self.shows_context() { format!("{}: {reason}", clean(name_of(&of))) } else { reason })
    }

    /// Returns the targets of a command by cluster and kind: all marked rows, or the selected row if none is marked.
    fn groups_of(&self, cx: &Context<'_>, command: Command) -> Vec<Group> {
        let place = self.cursor_row();
        let selected = self.index.at(place);
        let one = |row: &Row| {
            Some(Group {
                cluster: row.cluster.or(self.over.is_none().then_some(cx.cluster))?,
                current: self.object(row),
                targets: vec![self.object(row)],
                hidden: 0,
            })
        };
        let marked = self.marked();
        if marked.is_empty() || object_commands::marks(command) == MarkScope::None {
            return selected.and_then(one).into_iter().collect();
        }
        let mut groups: BTreeMap<(ClusterId, Option<Workload>), Group> = BTreeMap::new();
        for row in marked {
            let own = self.over.is_none().then_some(cx.cluster);
            let Some(cluster) = row.cluster.or(own) else { continue };
            let object = self.object(row);
            let hidden = usize::from(self.index.position_of(&row.key()).is_none());
            let group = groups.entry((cluster, row.workload)).or_insert_with(|| Group {
                cluster,
                current: object.clone(),
                targets: Vec::new(),
                hidden: 0,
            });
            group.targets.push(object);
            group.hidden += hidden;
        }
        groups.into_values().collect()
    }

    /// Executes a command on the rows, each in its own cluster. A command with a dialog shows one for each cluster and
    /// kind; a failure in one cluster is reported and does not affect the others.
    pub(super) fn command_over(&self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let groups = self.groups_of(cx, command);
        if groups.is_empty() {
            return vec![Effect::info(object_commands::NOTHING_SELECTED)];
        }
        // Names are copied as one text, even from different clusters.
        if command == Command::Copy {
            let names: Vec<&str> =
                groups.iter().flat_map(|group| &group.targets).map(|object| object.name.as_str()).collect();
            return vec![Effect::Copy(names.join("\n"))];
        }
        let entry = command.entry_in(&self.key_contexts(cx));
        let changes = entry.is_some_and(|entry| entry.impact == CommandImpact::Cluster);
        let (mut effects, mut questions) = (Vec::new(), Vec::new());
        for group in &groups {
            let Some(of) = cx.on(group.cluster) else { continue };
            if let Some(why) = self.refusal_in_group(cx, command, group) {
                let count = group.targets.len();
                let rows = if count == 1 { "its row is".to_owned() } else { format!("its {count} rows are") };
                effects.push(Effect::Toast(Toast::warning(format!("{why}; {rows} skipped"))));
                continue;
            }
            if changes && let Some(why) = silent(&of, &group.current.kind) {
                effects.push(Effect::Toast(Toast::warning(why)));
            }
            let current = Some(group.current.clone());
            let mut rest = Vec::new();
            for effect in object_commands::run(&of, command, current, &group.targets, group.hidden) {
                match effect {
                    Effect::ShowDialog(dialog) => questions.push((group.cluster, dialog)),
                    effect => rest.push(effect),
                }
            }
            effects.push(Effect::InCluster(group.cluster, rest));
        }
        if !questions.is_empty() {
            effects.push(Effect::ShowDialogs(numbered(questions)));
        }
        effects
    }
}

/// Returns the warning before a change to a cluster that does not respond.
fn silent(of: &Context<'_>, kind: &Kind) -> Option<String> {
    let cluster = of.clusters.get(of.cluster)?;
    match cluster.freshness(kind) {
        Freshness::Silent(since) => {
            Some(format!("{} has not answered for {}", clean(cluster.name), of.age(since)))
        }
        _ => None,
    }
}

/// Numbers several dialogs, so that the user knows that another one follows.
fn numbered(questions: Vec<(ClusterId, Box<Dialog>)>) -> Vec<(ClusterId, Box<Dialog>)> {
    let count = questions.len();
    let numbered = questions.into_iter().enumerate().map(|(at, (cluster, mut dialog))| {
        if count > 1 {
            dialog.number = Some((at + 1, count));
        }
        (cluster, dialog)
    });
    numbered.collect()
}

fn name_of<'a>(of: &Context<'a>) -> &'a str {
    of.clusters.get(of.cluster).map_or("", |cluster| cluster.name)
}
