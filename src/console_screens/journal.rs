//! The journal of changes from this console: time, change, result, kubectl command and undo.
//!
//! Before an undo, a dry run shows its effect on the current state, and the user confirms it.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::{View, object_commands};
use console_data::action::{EntryId, Mutation};
use console_data::changes::merge::{Change, plain};
use console_data::context::Context;
use console_data::journal::{Entry, UndoPreview, UndoState, preview_undo};
use console_data::message::ScreenMessage;
use console_data::resource::ObjectRef;
use console_operations::dialog::{Field, Fields};
use console_operations::effect::{Dialog, Effect};
use console_operations::operations::delete;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::{clean, fit, fit_middle};
use console_toolkit::widget::cursor::Window;
use console_toolkit::widget::title::title_line;

/// Results of the screen's tasks.
#[derive(Debug)]
pub enum JournalData {
    /// The effect of undoing an entry, or why it cannot be undone.
    Previewed(EntryId, Result<UndoPreview, String>),
}

/// Maximum number of changes, and of later changes, listed in a dialog.
const LISTED: usize = 6;

/// Maximum width of a value in a dialog, in columns.
const VALUE: usize = 40;

/// The screen that lists the journal, newest entry first. The cursor is bound to an entry's id.
#[derive(Debug, Default)]
pub struct JournalScreen {
    cursor: Option<EntryId>,
    window: Window,
    /// The entry with a preview in progress.
    asking: Option<EntryId>,
}

impl JournalScreen {
    fn at(&self, cx: &Context<'_>) -> Option<usize> {
        let entries = cx.journal.entries();
        let chosen = self.cursor.and_then(|id| entries.iter().position(|entry| entry.id == id));
        chosen.or(entries.len().checked_sub(1))
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let Some(at) = self.at(cx) else { return Vec::new() };
        let entries = cx.journal.entries();
        let entry = &entries[at];
        let newest = entries.len() - 1;
        if let Some(to) = self.window.step(command, newest - at, entries.len()) {
            // On the newest entry the cursor follows new entries.
            self.cursor = entries.get(newest - to).filter(|_| to > 0).map(|entry| entry.id);
            return Vec::new();
        }
        match command {
            Command::Copy => vec![Effect::Copy(entry.outcome.action.kubectl.clone())],
            Command::Undo => vec![self.request_preview(entry)],
            _ => Vec::new(),
        }
    }

    /// Requests a preview of undoing the entry.
    fn request_preview(&mut self, entry: &Entry) -> Effect {
        let inverse = match entry.inverse() {
            Ok(inverse) => inverse,
            Err(why_not) => return Effect::info(why_not),
        };
        self.asking = Some(entry.id);
        let (id, after) = (entry.id, entry.outcome.after.clone());
        Effect::task("look", move |out| async move {
            let seen = preview_undo(&out.client(), &inverse, after.as_ref()).await;
            out.data(JournalData::Previewed(id, seen)).await;
        })
    }

    fn previewed(&mut self, cx: &Context<'_>, id: EntryId, seen: Result<UndoPreview, String>) -> Vec<Effect> {
        if self.asking != Some(id) {
            return Vec::new();
        }
        self.asking = None;
        let Some(entry) = cx.journal.entry(id) else { return Vec::new() };
        match seen {
            Err(why_not) => {
                vec![Effect::failed(format!("not undone: {why_not}"))]
            }
            Ok(UndoPreview { changes: Some(changes), .. }) if changes.is_empty() => {
                let object = entry.outcome.action.target.describe();
                vec![Effect::info(format!("{object} is already in that state: nothing to undo"))]
            }
            Ok(seen) => vec![Effect::dialog(question(cx, entry, &seen))],
        }
    }
}

/// Returns the verb for undoing an entry: undoing an undo is a redo.
fn verb(entry: &Entry) -> &'static str {
    if entry.outcome.action.undoes.is_some() { "Redo" } else { "Undo" }
}

/// Returns the names of the objects, if every mutation is a deletion.
fn deleted(all: &[Mutation]) -> Option<String> {
    let name = |one: &Mutation| match one {
        Mutation::Delete { target, .. } => Some(target.describe()),
        _ => None,
    };
    let names: Vec<String> = all.iter().map(name).collect::<Option<_>>()?;
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("Deletes {}{more}.", names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ")))
}

/// Returns the objects that a mutation deletes.
fn deleted_by(change: &Mutation) -> Vec<ObjectRef> {
    match change {
        Mutation::Delete { target, .. } => vec![target.clone()],
        Mutation::All(all) => all.iter().flat_map(deleted_by).collect(),
        _ => Vec::new(),
    }
}

/// Creates the dialog that confirms an undo, with its effect on the current state.
fn question(cx: &Context<'_>, entry: &Entry, seen: &UndoPreview) -> Dialog {
    let done = &entry.outcome.action;
    let id = entry.id;
    let title = format!("{} the change of {}", verb(entry), done.target.describe());
    let inverse = done.inverse.as_ref().map(|inverse| &inverse.mutation);
    let mut fields = Fields::default();
    let name = inverse.and_then(|inverse| delete::confirmation(&deleted_by(inverse)));
    let name = name.map(|expected| (fields.add(Field::confirmation(&expected)), expected));
    let mut dialog = Dialog::new(title, verb(entry), move |dialog, _| match &name {
        Some((name, expected)) if dialog.text(*name).trim() != expected => {
            Err(format!("type {expected} to delete it"))
        }
        _ => Ok(vec![Effect::Undo(id)]),
    });
    let cancelled = format!("nothing was {}ne", verb(entry).to_lowercase());
    dialog = dialog.on_cancel(move |_, _| vec![Effect::info(cancelled.clone())]);
    dialog = dialog.fields(fields).line(format!("{} ago: {}", cx.age(entry.at), done.title)).line("");
    if let Some(changes) = &seen.changes {
        for change in changes.iter().take(LISTED) {
            dialog = dialog.line(format!("{}  now {}, becomes {}", change.path, from(change), to(change)));
        }
        if changes.len() > LISTED {
            dialog = dialog.line(format!("… and {} more", changes.len() - LISTED));
        }
    } else {
        let description = match inverse {
            Some(Mutation::Create { .. }) => "It is created again, as it was.".to_owned(),
            Some(Mutation::Delete { .. }) => "It is deleted.".to_owned(),
            Some(Mutation::All(all)) => {
                deleted(all).unwrap_or_else(|| "The changes cannot be predicted.".to_owned())
            }
            _ => "The changes cannot be predicted.".to_owned(),
        };
        dialog = dialog.line(description);
    }
    for change in seen.since.iter().take(LISTED) {
        let text = format!("changed since: {} was {} then, is {} now", change.path, from(change), to(change));
        dialog = dialog.warning(text);
    }
    dialog
}

fn from(change: &Change) -> String {
    short(change.from.as_ref())
}

fn to(change: &Change) -> String {
    short(change.to.as_ref())
}

fn short(value: Option<&serde_json::Value>) -> String {
    value.map_or_else(|| "unset".to_owned(), |value| fit_middle(&clean(&plain(value)), VALUE).into_owned())
}

impl View for JournalScreen {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Journal".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Journal, KeyContext::List]
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        if self.at(cx).is_none() { object_commands::refuses_without_row(command) } else { None }
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Command(command) => self.command(cx, command),
            ScreenMessage::Data(data) => match data.take() {
                Some(JournalData::Previewed(id, seen)) => self.previewed(cx, id, seen),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let entries = cx.journal.entries();
        // On a low screen the list matters most.
        let below = if area.height < 16 { (area.height / 2).min(4) } else { 8 };
        let [list, detail] = Layout::vertical([Constraint::Min(0), Constraint::Length(below)]).areas(area);
        let block = theme.block("").title_top(title_line(
            vec![
                Span::styled(" Journal ", theme.frame.title),
                Span::styled(
                    match entries.len() {
                        1 => "1 change from here ".to_owned(),
                        many => format!("{many} changes from here "),
                    },
                    theme.body.dim,
                ),
                Span::styled(
                    match entries.iter().filter(|entry| entry.earlier).count() {
                        0 => String::new(),
                        count => format!("· {count} of them in earlier runs "),
                    },
                    theme.body.dim,
                ),
            ],
            area.width,
        ));
        let inner = block.inner(list);
        frame.render_widget(block, list);
        let Some(cursor) = self.at(cx) else {
            let place = Rect { y: inner.y + inner.height / 3, height: 1, ..inner };
            frame.render_widget(
                Line::styled("no changes were made from this console yet", theme.body.dim).centered(),
                place,
            );
            frame.render_widget(theme.block("Command"), detail);
            return;
        };
        let height = usize::from(inner.height);
        let newest = entries.len() - 1;
        let visible = self.window.around(newest - cursor, height, entries.len());
        let lines = entries.iter().enumerate().rev().skip(visible.start).take(visible.len()).map(
            |(number, entry)| {
                let (glyph, style) = match &entry.outcome.error {
                    None => ("✔", theme.toast.done),
                    Some(_) => ("✖", theme.toast.failed),
                };
                let back = match entry.undo_state {
                    UndoState::Undone => "undone".to_owned(),
                    UndoState::Undoing => "undoing".to_owned(),
                    UndoState::InEffect if self.asking == Some(entry.id) => "asking…".to_owned(),
                    UndoState::InEffect if entry.inverse().is_ok() => {
                        let key = cx.bindings.key_in(Command::Undo, KeyContext::Journal);
                        let key = key.map(|key| key.to_string()).unwrap_or_default();
                        format!("<{key}> {}", verb(entry).to_lowercase())
                    }
                    UndoState::InEffect => String::new(),
                };
                // The state of the undo is shown only if the title keeps enough space.
                let narrow = inner.width < 50;
                let title_width = usize::from(inner.width).saturating_sub(if narrow { 12 } else { 24 });
                let title = fit(&clean(&entry.outcome.action.title), title_width).into_owned();
                let line = Line::from(vec![
                    Span::raw(if number == cursor { "▸ " } else { "  " }),
                    Span::styled(format!("{:>6}  ", cx.age(entry.at)), theme.body.dim),
                    Span::styled(format!("{glyph} "), style),
                    Span::raw(format!("{title:<title_width$}  ")),
                    Span::styled(if narrow { String::new() } else { format!("{back:>10}") }, theme.body.dim),
                ]);
                line.style(if number == cursor { theme.table.cursor } else { Style::default() })
            },
        );
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inner);

        let entry = &entries[cursor];
        let mut lines =
            vec![Line::styled(clean(&entry.outcome.action.kubectl).into_owned(), theme.body.accent)];
        if let Some(inverse) = &entry.outcome.action.inverse {
            lines.push(Line::from(vec![
                Span::styled("undo  ", theme.body.dim),
                Span::raw(clean(&inverse.kubectl).into_owned()),
            ]));
        }
        if let Some(error) = &entry.outcome.error {
            lines
                .extend(error.lines().map(|line| Line::styled(clean(line).into_owned(), theme.toast.failed)));
        }
        frame.render_widget(
            Paragraph::new(lines).wrap(Wrap { trim: false }).block(theme.block("Command")),
            detail,
        );
    }
}
