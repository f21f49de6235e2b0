//! The editor: the YAML of an object, checked by the server while the user types and shown as a diff before it is
//! saved.
//!
//! Each pause in typing sends a dry run; its errors appear at their lines. Saving shows the diff first. If another
//! client changed the object meanwhile, both changes are merged and the diff is shown again; if both changed the same
//! field, the user chooses. Typed text is never lost: except for Secrets it is saved to disk until it is saved or
//! discarded, and offered when the object is edited again (CON-17).

pub mod action;
pub(crate) mod exchange;
pub mod external;
pub(crate) mod problem;
mod view;

pub use exchange::{CheckResult, EditData};
pub use problem::Problem;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEventKind};
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use serde_json::Value;
use tui_textarea::{CursorMove, TextArea};

use super::View;
use console_data::changes::editable;
use console_data::changes::merge::{self, Change, MergeResult};
use console_data::context::Context;
use console_data::drafts::{self, Draft, DraftKey};
use console_data::message::ScreenMessage;
use console_data::resource::ObjectRef;
use console_data::saved_tabs::SavedScreen;
use console_operations::effect::{Dialog, Effect};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::{clean, counted};
use console_toolkit::toast::Toast;
use console_toolkit::widget::scroll::Scroll;
use console_toolkit::yaml_text;
use exchange::PAUSE;

#[derive(Debug)]
pub(super) enum EditStage {
    /// The object is not loaded yet.
    Loading,
    /// The object could not be loaded.
    Failed(String),
    /// Keys edit the text.
    Typing,
    /// The user saves; a dry run comes first.
    Checking,
    /// The diff is shown.
    Reviewing,
    /// The user and another client changed the same field.
    Conflict(Box<Conflict>),
    /// The save is in flight.
    Saving,
}

/// Two conflicting changes.
#[derive(Debug)]
pub(super) struct Conflict {
    pub(super) merged: MergeResult,
    pub(super) theirs: Value,
    /// Fields that only the other client changed.
    pub(super) changes: Vec<Change>,
}

/// The result of the dry run of the current text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DryRunResult {
    /// No result yet.
    Unknown,
    /// The server accepts the text.
    Good,
    /// The server rejects the text; the problems say why.
    Wrong,
    /// The server has a newer version.
    Newer,
}

/// The screen that edits an object.
#[derive(Debug)]
pub struct Edit {
    pub(super) target: ObjectRef,
    pub(super) stage: EditStage,
    /// The version that the text is based on, complete.
    base: Value,
    /// The text of that version.
    pub(super) before: String,
    pub(super) area: TextArea<'static>,
    /// Incremented with each change, so that a late response is not applied to a newer text.
    number: u64,
    pub(super) dry_run_result: DryRunResult,
    pub(super) problems: Vec<Problem>,
    /// Merged changes of other clients.
    pub(super) merged: Vec<Change>,
    /// True if the last session of the console ended with an unsaved text here.
    pub(super) was_unsaved: bool,
    /// The unsaved draft of an earlier edit, while it is offered.
    pub(super) offered: Option<Box<Draft>>,
    /// Time of the last key.
    typed_at: Timestamp,
    /// Scroll position of the diff.
    pub(super) review: Scroll,
    /// First visible line of the text.
    pub(super) top: std::cell::Cell<usize>,
    /// The line of the cursor on the screen, as of the last draw.
    pub(super) cursor_line: std::cell::Cell<u16>,
}

impl Edit {
    pub(crate) fn new(target: ObjectRef) -> Self {
        Self {
            target,
            stage: EditStage::Loading,
            base: Value::Null,
            before: String::new(),
            area: TextArea::default(),
            number: 0,
            dry_run_result: DryRunResult::Unknown,
            problems: Vec::new(),
            merged: Vec::new(),
            was_unsaved: false,
            offered: None,
            typed_at: Timestamp::UNIX_EPOCH,
            review: Scroll::default(),
            top: std::cell::Cell::new(0),
            cursor_line: std::cell::Cell::new(0),
        }
    }

    /// Restores a screen of the last session, with the object's current version.
    pub fn restored(target: ObjectRef, lost: bool) -> Self {
        Self { was_unsaved: lost, ..Self::new(target) }
    }

    /// Returns the state that is saved for the next session.
    pub(crate) fn keep(&self) -> SavedScreen {
        SavedScreen::Edit { unsaved: self.is_changed() }
    }

    pub(crate) fn target(&self) -> &ObjectRef {
        &self.target
    }

    /// Returns the unsaved text as a draft, unless its kind must not be written to disk.
    pub fn draft(&self) -> Option<Draft> {
        let is_storable = self.is_changed() && drafts::is_storable(&self.target.kind.resource);
        is_storable.then(|| Draft {
            key: DraftKey::of(&self.target),
            at: self.typed_at,
            text: self.text(),
            base: self.base.clone(),
        })
    }

    /// Returns whether a draft is offered; the user must accept or decline it first.
    pub(super) fn offers(&self) -> bool {
        self.offered.is_some()
            && matches!(self.stage, EditStage::Typing | EditStage::Failed(_))
            && !self.is_changed()
    }

    /// Continues with the draft, based on the version it was typed on: later changes of other clients are merged when
    /// it is saved.
    fn restore(&mut self) -> Vec<Effect> {
        let Some(draft) = self.offered.take() else { return Vec::new() };
        let Draft { text, base, at, .. } = *draft;
        self.before = yaml_text::write(&editable::strip(&base));
        self.base = base;
        self.stage = EditStage::Typing;
        self.typed_at = at;
        self.set_text(&text);
        self.touched()
    }

    /// Deletes the draft from disk.
    fn forget_draft(&self) -> Effect {
        Effect::RemoveDraft(DraftKey::of(&self.target))
    }

    pub(super) fn text(&self) -> String {
        self.area.lines().join("\n") + "\n"
    }

    pub(super) fn is_changed(&self) -> bool {
        !matches!(self.stage, EditStage::Loading | EditStage::Failed(_)) && self.text() != self.before
    }

    /// Returns the line of the cursor on the screen, while there is one.
    pub(crate) fn cursor_line(&self) -> Option<u16> {
        let is_typing = matches!(self.stage, EditStage::Typing | EditStage::Checking) && !self.offers();
        is_typing.then(|| self.cursor_line.get())
    }

    /// Replaces the text; the cursor stays on its line.
    fn set_text(&mut self, text: &str) {
        let cursor = self.area.cursor();
        self.area = TextArea::new(text.lines().map(str::to_owned).collect());
        self.area.set_tab_length(2);
        let at = |place: usize| u16::try_from(place).unwrap_or(u16::MAX);
        self.area.move_cursor(CursorMove::Jump(at(cursor.0), at(cursor.1)));
        self.number += 1;
        self.dry_run_result = DryRunResult::Unknown;
        self.problems.clear();
    }

    /// Replaces an unchanged text by the server's current version.
    fn take(&mut self, object: Value) {
        let text = yaml_text::write(&editable::strip(&object));
        let first = matches!(self.stage, EditStage::Loading | EditStage::Failed(_));
        if first || text != self.before {
            self.set_text(&text);
        }
        if first {
            // Most edits change the spec or the data.
            let spec = text.lines().position(|line| line == "spec:" || line == "data:").unwrap_or(0);
            self.jump(spec);
        }
        self.before = text;
        self.base = object;
        self.stage = EditStage::Typing;
    }

    fn jump(&mut self, line: usize) {
        self.area.move_cursor(CursorMove::Jump(u16::try_from(line).unwrap_or(u16::MAX), 0));
    }

    /// Handles a change of the text: results for the previous text are void.
    fn touched(&mut self) -> Vec<Effect> {
        self.number += 1;
        self.dry_run_result = DryRunResult::Unknown;
        self.problems.clear();
        if !self.is_changed() {
            return vec![Effect::Cancel("check"), Effect::Cancel("draft"), self.forget_draft()];
        }
        vec![
            exchange::typing_pause(),
            exchange::check(&self.target, self.text(), self.base.clone(), self.number, PAUSE),
        ]
    }

    /// Starts a save: a dry run first, then the diff.
    fn request_save(&mut self) -> Vec<Effect> {
        if !self.is_changed() {
            return vec![Effect::info("nothing was changed")];
        }
        self.review = Scroll::default();
        if self.dry_run_result == DryRunResult::Good {
            self.stage = EditStage::Reviewing;
            return Vec::new();
        }
        self.check_now()
    }

    fn check_now(&mut self) -> Vec<Effect> {
        self.stage = EditStage::Checking;
        let now = std::time::Duration::ZERO;
        vec![exchange::check(&self.target, self.text(), self.base.clone(), self.number, now)]
    }

    fn save(&mut self) -> Vec<Effect> {
        self.stage = EditStage::Saving;
        vec![exchange::save(&self.target, self.text(), self.base.clone())]
    }

    /// Applies the server's response to the current text.
    fn answered(&mut self, answer: CheckResult) -> Vec<Effect> {
        let requested_by_user = matches!(self.stage, EditStage::Checking | EditStage::Saving);
        match answer {
            CheckResult::Good => {
                self.dry_run_result = DryRunResult::Good;
                if requested_by_user {
                    self.stage = EditStage::Reviewing;
                }
            }
            CheckResult::Wrong(problems) => {
                self.dry_run_result = DryRunResult::Wrong;
                self.stage = EditStage::Typing;
                if let Some(line) = problems.first().and_then(|problem| problem.line)
                    && requested_by_user
                    && self.area.cursor().0 + 1 != line
                {
                    self.jump(line.saturating_sub(1));
                    self.area.move_cursor(CursorMove::End);
                }
                self.problems = problems;
                if requested_by_user {
                    let count = counted(self.problems.len(), "problem");
                    return vec![Effect::Toast(Toast::failed(format!("not saved: the text has {count}")))];
                }
            }
            CheckResult::Newer(theirs) if requested_by_user => return self.rebase(*theirs),
            // While the user types, a newer version does not change the text. If it differs only in fields that the
            // server writes, it becomes the new base without a conflict.
            CheckResult::Newer(theirs) if editable::strip(&theirs) == editable::strip(&self.base) => {
                self.base = *theirs;
                return self.touched();
            }
            CheckResult::Newer(_) => self.dry_run_result = DryRunResult::Newer,
        }
        Vec::new()
    }

    /// Applies the user's changes to a newer version.
    fn rebase(&mut self, theirs: Value) -> Vec<Effect> {
        let mine = match exchange::typed(&self.target, &self.text()) {
            Ok(mine) => mine,
            Err(problem) => return self.answered(CheckResult::Wrong(vec![problem])),
        };
        let (base, newer) = (editable::strip(&self.base), editable::strip(&theirs));
        let merged = merge::merge(&base, &mine, &newer);
        let changes = merge::changes(&base, &newer);
        if !merged.conflicts.is_empty() {
            self.review = Scroll::default();
            self.stage = EditStage::Conflict(Box::new(Conflict { merged, theirs, changes }));
            return Vec::new();
        }
        self.adopt_merge(&merged.with_mine, theirs, changes)
    }

    /// Replaces the text by the merged one, checks it, and shows its diff.
    fn adopt_merge(&mut self, merged: &Value, theirs: Value, changes: Vec<Change>) -> Vec<Effect> {
        // A text that already equals the merge stays as typed, with its comments.
        if exchange::typed(&self.target, &self.text()).as_ref() != Ok(merged) {
            self.set_text(&yaml_text::write(merged));
        }
        self.merged = changes;
        self.before = yaml_text::write(&editable::strip(&theirs));
        self.base = theirs;
        if !self.is_changed() {
            self.stage = EditStage::Typing;
            return vec![Effect::info("the newer version already has your changes")];
        }
        self.check_now()
    }

    fn pick(&mut self, winner: ConflictSide) -> Vec<Effect> {
        match std::mem::replace(&mut self.stage, EditStage::Typing) {
            EditStage::Conflict(conflict) => {
                let Conflict { merged, theirs, mut changes } = *conflict;
                let value = match winner {
                    ConflictSide::Mine => {
                        // Fields that were resolved in the user's favour must not be listed as the other client's
                        // changes.
                        let conflicts =
                            |change: &Change| merged.conflicts.iter().any(|conflict| conflict.covers(change));
                        changes.retain(|change| !conflicts(change));
                        merged.with_mine
                    }
                    ConflictSide::Theirs => merged.with_theirs,
                };
                self.adopt_merge(&value, theirs, changes)
            }
            stage => {
                self.stage = stage;
                Vec::new()
            }
        }
    }

    fn back_to_text(&mut self) -> Vec<Effect> {
        self.stage = EditStage::Typing;
        vec![Effect::Cancel("check")]
    }

    fn leave(&mut self) -> Vec<Effect> {
        match self.stage {
            EditStage::Checking => self.back_to_text(),
            // A request in flight cannot be cancelled; its response arrives in a moment.
            EditStage::Saving => Vec::new(),
            _ if !self.is_changed() => vec![Effect::Back],
            _ => {
                let target = self.target.clone();
                let dialog = Dialog::new("Discard the changes", "Discard", move |_, _| {
                    Ok(vec![
                        Effect::Cancel("draft"),
                        Effect::RemoveDraft(DraftKey::of(&target)),
                        Effect::Back,
                    ])
                });
                let dialog =
                    dialog.line(format!("Your changes to {} are not saved.", self.target.describe()));
                vec![Effect::dialog(dialog)]
            }
        }
    }

    fn loaded(&mut self, loaded: EditData) -> Vec<Effect> {
        match loaded {
            EditData::Object(object) if !self.is_changed() => self.take(*object),
            EditData::Failed(why) => match self.stage {
                EditStage::Loading => self.stage = EditStage::Failed(why),
                _ => self.problems = vec![Problem::general(why)],
            },
            EditData::External(text) if text.trim().is_empty() => {
                return vec![Effect::info("the file was empty: nothing was changed")];
            }
            EditData::External(text) => {
                // The user has returned from the external editor.
                self.offered = None;
                self.set_text(&text);
                let mut effects = self.request_save();
                effects.push(exchange::typing_pause());
                return effects;
            }
            EditData::Checked(number, answer) if number == self.number => return self.answered(answer),
            EditData::Saved => return vec![Effect::Cancel("draft"), self.forget_draft(), Effect::Back],
            EditData::Draft(draft) if !self.is_changed() => {
                self.was_unsaved = false;
                self.offered = Some(draft);
            }
            EditData::Rested => {
                return self.draft().map(|draft| Effect::SaveDraft(Box::new(draft))).into_iter().collect();
            }
            // A typed text takes precedence over a version that arrives late, over results for an earlier text, and
            // over an old draft.
            EditData::Object(_) | EditData::Checked(..) | EditData::Draft(_) => {}
            EditData::NotSaved(answer) => return self.answered(answer),
        }
        Vec::new()
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        match self.stage {
            _ if self.offers() => {
                self.review.key(key);
                Vec::new()
            }
            EditStage::Reviewing | EditStage::Conflict(_) => {
                self.review.key(key);
                Vec::new()
            }
            EditStage::Typing if key.code == KeyCode::Enter && key.modifiers == KeyModifiers::NONE => {
                self.new_line();
                self.touched()
            }
            EditStage::Typing if key.modifiers == KeyModifiers::CONTROL && key.code == KeyCode::Home => {
                self.area.move_cursor(CursorMove::Jump(0, 0));
                Vec::new()
            }
            EditStage::Typing if key.modifiers == KeyModifiers::CONTROL && key.code == KeyCode::End => {
                self.area.move_cursor(CursorMove::Bottom);
                self.area.move_cursor(CursorMove::End);
                Vec::new()
            }
            EditStage::Typing if self.area.input(key) => self.touched(),
            EditStage::Failed(_) if matches!(key.code, KeyCode::Enter | KeyCode::Char('q')) => {
                vec![Effect::Back]
            }
            _ => Vec::new(),
        }
    }

    /// Inserts a line with the indentation of the previous one, as YAML needs it.
    fn new_line(&mut self) {
        let (row, column) = (self.area.cursor().0, self.area.cursor().1);
        let line = self.area.lines().get(row).cloned().unwrap_or_default();
        let indent = line.chars().take_while(|letter| *letter == ' ').count().min(column);
        self.area.insert_newline();
        self.area.insert_str(" ".repeat(indent));
    }

    fn command(&mut self, command: Command) -> Vec<Effect> {
        match command {
            Command::EditorBack => self.leave(),
            Command::EditorSave if matches!(self.stage, EditStage::Typing) => self.request_save(),
            Command::EditorExternal if matches!(self.stage, EditStage::Typing) => {
                vec![Effect::Editor(self.text())]
            }
            Command::ReviewSave => self.save(),
            Command::EditOn => self.back_to_text(),
            Command::DraftRestore => self.restore(),
            Command::DraftDiscard => {
                self.offered = None;
                vec![self.forget_draft()]
            }
            Command::DraftLater => {
                self.offered = None;
                let text = "your earlier text is kept until you change this one";
                vec![Effect::info(text)]
            }
            Command::ConflictMine => self.pick(ConflictSide::Mine),
            Command::ConflictTheirs => self.pick(ConflictSide::Theirs),
            _ => Vec::new(),
        }
    }

    /// Handles a new version of the object: loads it at once if the text is unchanged; otherwise the check detects it.
    fn object_changed(&mut self) -> Vec<Effect> {
        match self.stage {
            EditStage::Typing if self.is_changed() => {
                vec![exchange::check(&self.target, self.text(), self.base.clone(), self.number, PAUSE)]
            }
            EditStage::Typing => vec![exchange::load(&self.target)],
            _ => Vec::new(),
        }
    }
}

/// The side that wins if both changed a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConflictSide {
    Mine,
    Theirs,
}

impl View for Edit {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · edit", self.target.name)
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![match self.stage {
            _ if self.offers() => KeyContext::Draft,
            EditStage::Reviewing => KeyContext::Review,
            EditStage::Conflict(_) => KeyContext::Conflict,
            _ => KeyContext::Editor,
        }]
    }

    fn takes_all_keys(&self) -> bool {
        true
    }

    fn typed(&self) -> Option<String> {
        let line = self.area.lines().get(self.area.cursor().0)?;
        Some(clean(line).into_owned())
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        if matches!(message, ScreenMessage::Key(_) | ScreenMessage::Paste(_)) {
            self.typed_at = cx.now;
        }
        match message {
            ScreenMessage::Opened if drafts::is_storable(&self.target.kind.resource) => {
                vec![exchange::load(&self.target), Effect::ReadDraft(self.target.clone())]
            }
            ScreenMessage::Opened => vec![exchange::load(&self.target)],
            ScreenMessage::Key(key) => self.key(key),
            ScreenMessage::Paste(text) if matches!(self.stage, EditStage::Typing) && !self.offers() => {
                self.area.insert_str(text.replace('\r', "\n"));
                self.touched()
            }
            ScreenMessage::Mouse(event) => {
                match (&self.stage, event.kind) {
                    (EditStage::Typing, MouseEventKind::ScrollUp) => self.area.scroll((-3, 0)),
                    (EditStage::Typing, MouseEventKind::ScrollDown) => self.area.scroll((3, 0)),
                    _ => self.review.mouse(event),
                }
                Vec::new()
            }
            ScreenMessage::Changed(resource, touched) if self.target.kind.resource == resource => {
                if touched.contains(&self.target) { self.object_changed() } else { Vec::new() }
            }
            ScreenMessage::Command(command) => self.command(command),
            ScreenMessage::Data(data) => {
                if matches!(data.peek(), Some(EditData::External(_))) {
                    self.typed_at = cx.now;
                }
                data.take().map(|loaded| self.loaded(loaded)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        view::draw(self, cx, frame, area);
    }
}
