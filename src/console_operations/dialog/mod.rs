//! Dialogs: one form with fields, live notes and two buttons, made by `operations` and the screens.
//!
//! `E` is the type of effects that an answer produces; dialogs do not depend on it.
//!
//! Cancel comes first and has the focus first if something would be lost. Enter in a field submits the form with the
//! values shown, unless a field below must still be filled in; then it moves there. If something would be lost, Enter
//! moves from field to field. The line of keys says what Enter does. A form holds no cluster state: statements about
//! the cluster are computed from the context at each draw.
//!
//! Text that a user types or pastes for another purpose confirms nothing. The keys of the command line and of the
//! filter leave the dialog. A letter answers only if it is typed alone ([`TypingPace`], [`Reply::Confirming`]), Enter
//! only if it is not part of a paste. Other letters move the focus back to Cancel, and nothing is confirmed until a key
//! has moved the focus.

mod draw;
mod field;
mod text;

use std::any::Any;
use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub use draw::draw;
pub(crate) use field::{Choice, FieldId, Number, Switch, Text, Value};
pub use field::{Field, Fields};

use console_data::context::Context;
use console_data::message::Data;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::keys::Key;
use console_toolkit::prompt::PromptKind;
use console_toolkit::widget::scroll::Scroll;

/// Shown after letters without a meaning in the dialog.
const IGNORED_LETTERS_HINT: &str = "letters do nothing here: tab or an arrow picks a button, esc cancels";
/// Shown after an answer amid other typing.
const PRESS_AGAIN_HINT: &str = "key ignored after other keys: press it again";

/// A note in a dialog, with its severity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A fact.
    Plain(String),
    /// A risk.
    Warning(String),
}

type NotesFn<E> = Box<dyn Fn(&Dialog<E>, &Context<'_>) -> Vec<Note> + Send>;
type SubmitFn<E> = Box<dyn Fn(&Dialog<E>, &Context<'_>) -> Result<Vec<E>, String> + Send>;
type Preview<E> = Box<dyn Fn(&Dialog<E>, &Context<'_>) -> Vec<E> + Send>;
type Receive<E> = Box<dyn Fn(&mut Dialog<E>) + Send>;

/// The part of a dialog with the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// A field, by its index.
    Field(usize),
    /// The button that cancels.
    Cancel,
    /// The button that submits.
    Submit,
}

/// The pace at which a key follows the text that was typed before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypingPace {
    /// After a pause, or after a key that types nothing.
    Single,
    /// At human typing speed.
    Typing,
    /// Faster than humans type: a paste that the terminal does not mark as one.
    Paste,
}

/// The effect of ctrl-c in a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptAction {
    /// Ctrl-c cancels.
    Cancels,
    /// Ctrl-c submits: the dialog confirms leaving the console, which ctrl-c requests.
    Submits,
}

/// A dialog.
pub struct Dialog<E> {
    /// The title in the frame.
    pub title: String,
    /// The cluster that it concerns, if several are shown.
    pub context: Option<String>,
    /// Its number and the total, if one key opens several dialogs.
    pub number: Option<(usize, usize)>,
    /// The text above the fields.
    pub text: Vec<Note>,
    /// The fields, from the top.
    pub fields: Vec<Field>,
    /// The label of the second button.
    pub(crate) verb: String,
    /// The part with the focus.
    pub focus: Focus,
    /// Submitting would lose something: Cancel has the focus first, and Enter moves from field to field.
    is_careful: bool,
    /// The error of the last attempt.
    pub(crate) error: Option<String>,
    /// The effect of ctrl-c.
    pub interrupt: InterruptAction,
    /// Stray letters were typed since the focus was last moved: nothing is confirmed.
    has_ignored_letters: bool,
    /// The last answer came amid other typing and did not count.
    was_hasty: bool,
    /// The user has scrolled: [`Self::scroll`] determines the visible rows; otherwise the focus does.
    has_scrolled: bool,
    scroll: Scroll,
    notes: NotesFn<E>,
    submit: SubmitFn<E>,
    changed: Preview<E>,
    cancelled: Preview<E>,
    /// The latest data that a task sent to this dialog.
    data: Option<Data>,
    receive: Receive<E>,
}

impl<E> fmt::Debug for Dialog<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialog")
            .field("title", &self.title)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

/// The effect of a key on a dialog.
#[derive(Debug)]
pub enum Reply<E> {
    /// It stays open.
    Open(Vec<E>),
    /// It closes.
    Closed(Vec<E>),
    /// The dialog stays open, and is confirmed unless more is typed within a moment.
    Confirming,
    /// The dialog is closed without an action, and this prompt opens.
    OpenPrompt(PromptKind, Vec<E>),
}

impl<E> Dialog<E> {
    /// Creates a dialog; its second button has the label `verb` and runs `submit`.
    pub fn new(
        title: impl Into<String>,
        verb: impl Into<String>,
        submit: impl Fn(&Self, &Context<'_>) -> Result<Vec<E>, String> + Send + 'static,
    ) -> Self {
        Self {
            title: title.into(),
            context: None,
            number: None,
            text: Vec::new(),
            fields: Vec::new(),
            verb: verb.into(),
            focus: Focus::Cancel,
            is_careful: false,
            error: None,
            interrupt: InterruptAction::Cancels,
            has_ignored_letters: false,
            was_hasty: false,
            has_scrolled: false,
            scroll: Scroll::default(),
            notes: Box::new(|_, _| Vec::new()),
            submit: Box::new(submit),
            changed: Box::new(|_, _| Vec::new()),
            cancelled: Box::new(|_, _| Vec::new()),
            data: None,
            receive: Box::new(|_| ()),
        }
    }

    /// Adds a line above the fields.
    #[must_use]
    pub fn line(mut self, text: impl Into<String>) -> Self {
        self.text.push(Note::Plain(text.into()));
        self
    }

    /// Adds lines above the fields.
    #[must_use]
    pub fn lines(mut self, texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.text.extend(texts.into_iter().map(|text| Note::Plain(text.into())));
        self
    }

    /// Adds a warning above the fields.
    #[must_use]
    pub fn warning(mut self, text: impl Into<String>) -> Self {
        self.text.push(Note::Warning(text.into()));
        self
    }

    /// Sets the fields; the first one gets the focus.
    #[must_use]
    pub fn fields(mut self, fields: Fields) -> Self {
        self.fields = fields.0;
        if !self.fields.is_empty() {
            self.focus = Focus::Field(0);
        }
        self
    }

    /// Puts the focus on Cancel although there are fields, because something would be lost.
    #[must_use]
    pub fn careful(mut self) -> Self {
        self.focus = Focus::Cancel;
        self.is_careful = true;
        self
    }

    /// Sets notes that depend on the values.
    #[must_use]
    pub fn notes(mut self, notes: impl Fn(&Self, &Context<'_>) -> Vec<Note> + Send + 'static) -> Self {
        self.notes = Box::new(notes);
        self
    }

    /// Sets effects for each change of a field, such as a preview.
    #[must_use]
    pub fn on_change(mut self, changed: impl Fn(&Self, &Context<'_>) -> Vec<E> + Send + 'static) -> Self {
        self.changed = Box::new(changed);
        self
    }

    /// Sets effects for cancelling.
    #[must_use]
    pub fn on_cancel(mut self, cancelled: impl Fn(&Self, &Context<'_>) -> Vec<E> + Send + 'static) -> Self {
        self.cancelled = Box::new(cancelled);
        self
    }

    /// Sets a function that updates the fields whenever a task sends data (see [`Self::data`]).
    #[must_use]
    pub(crate) fn on_data(mut self, receive: impl Fn(&mut Self) + Send + 'static) -> Self {
        self.receive = Box::new(receive);
        self
    }

    /// Receives data that a task sent.
    pub fn take_data(&mut self, data: Data) {
        self.data = Some(data);
        let receive = std::mem::replace(&mut self.receive, Box::new(|_| ()));
        receive(self);
        self.receive = receive;
    }

    /// Returns the latest data that a task sent, if it is of this type.
    pub(crate) fn data<T: Any>(&self) -> Option<&T> {
        self.data.as_ref()?.peek()
    }

    /// Sets the number of a field unless the user has typed in it.
    pub(crate) fn prefill(&mut self, field: FieldId<Number>, number: i32) {
        if let Some(field) = self.fields.get_mut(field.index).filter(|field| field.untouched) {
            field.value = Value::Number(number.to_string());
        }
    }

    pub(crate) fn set_hint<K>(&mut self, field: FieldId<K>, hint: String) {
        if let Some(field) = self.fields.get_mut(field.index) {
            field.hint = hint;
        }
    }

    /// Returns whether this switch is on.
    pub fn is_on(&self, field: FieldId<Switch>) -> bool {
        matches!(self.value(field), Value::Switch(true))
    }

    /// Returns the text of this field.
    pub fn text(&self, field: FieldId<Text>) -> &str {
        self.value(field).text()
    }

    /// Returns the selected option of this field.
    pub fn choice(&self, field: FieldId<Choice>) -> &str {
        self.value(field).text()
    }

    /// Returns the number in this field, `None` if it is empty; or an error.
    pub(crate) fn number(&self, field: FieldId<Number>) -> Result<Option<i32>, String> {
        self.fields[field.index].as_number()
    }

    fn value<K>(&self, field: FieldId<K>) -> &Value {
        &self.fields[field.index].value
    }

    pub(super) fn current_notes(&self, cx: &Context<'_>) -> Vec<Note> {
        let problems = self.fields.iter().filter_map(Field::problem);
        // The error of the last attempt is shown below already.
        let problems = problems.filter(|problem| self.error.as_ref() != Some(problem)).map(Note::Warning);
        let warning = |is: bool, text: &str| is.then(|| Note::Warning(text.to_owned()));
        let typing = warning(self.was_hasty, PRESS_AGAIN_HINT)
            .or_else(|| warning(self.has_ignored_letters, IGNORED_LETTERS_HINT));
        problems.chain((self.notes)(self, cx)).chain(typing).collect()
    }

    /// Returns the first text field: while there is one, letters are text and never an answer.
    fn text_field(&self) -> Option<usize> {
        self.fields.iter().position(|field| matches!(field.value, Value::Text(_)))
    }

    /// Returns the keys that have an effect now, with descriptions.
    pub fn hints(&self) -> Vec<(&'static str, String)> {
        let mut hints = Vec::new();
        match self.focus {
            Focus::Field(index) => {
                match self.fields.get(index).map(|field| &field.value) {
                    Some(Value::Choice { options, .. }) => {
                        hints.push(("←→", format!("one of {}", options.len())));
                    }
                    Some(Value::Switch(_)) => hints.push(("space", "on or off".to_owned())),
                    Some(Value::Text(_) | Value::Number(_)) => hints.push(("ctrl-u", "clear".to_owned())),
                    None => {}
                }
                if self.next_to_fill(index).is_some() {
                    hints.push(("enter", "next".to_owned()));
                } else if !self.has_ignored_letters || self.was_hasty {
                    hints.push(("enter", self.verb.to_lowercase()));
                }
            }
            Focus::Cancel => hints.push(("enter", "cancel".to_owned())),
            Focus::Submit => hints.push(("enter", self.verb.to_lowercase())),
        }
        if self.on_button() && self.text_field().is_none() && !self.has_ignored_letters {
            hints.push(("y", self.verb.to_lowercase()));
            hints.push(("n", "cancel".to_owned()));
        }
        hints.push(("tab", "move".to_owned()));
        hints.push(("esc", "cancel".to_owned()));
        hints
    }

    /// Handles a key.
    pub fn key(&mut self, cx: &Context<'_>, key: KeyEvent, pace: TypingPace) -> Reply<E> {
        let was_hasty = std::mem::take(&mut self.was_hasty);
        if let Some(prompt) = self.leaves_for(cx, key) {
            return Reply::OpenPrompt(prompt, (self.cancelled)(self, cx));
        }
        let is_plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            KeyCode::Char(letter) if is_plain => return self.letter(cx, letter, key, pace),
            KeyCode::Esc => return Reply::Closed((self.cancelled)(self, cx)),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                if self.interrupt == InterruptAction::Cancels {
                    return Reply::Closed((self.cancelled)(self, cx));
                }
                self.focus = Focus::Submit;
                return self.submit(cx);
            }
            KeyCode::PageDown | KeyCode::PageUp => {
                self.has_scrolled = true;
                self.scroll.key(key);
            }
            KeyCode::Tab | KeyCode::Down => self.move_focus(1),
            KeyCode::BackTab | KeyCode::Up => self.move_focus(-1),
            // A second Enter alone is meant: the first one showed that it was ignored.
            KeyCode::Enter if was_hasty && pace == TypingPace::Single => {
                self.has_ignored_letters = false;
                return self.enter(cx, pace);
            }
            KeyCode::Enter => return self.enter(cx, pace),
            KeyCode::Left | KeyCode::Right if self.on_button() => {
                self.has_ignored_letters = false;
                self.focus = if self.focus == Focus::Cancel { Focus::Submit } else { Focus::Cancel };
            }
            _ => {
                if self.edit(key) {
                    return Reply::Open((self.changed)(self, cx));
                }
            }
        }
        Reply::Open(Vec::new())
    }

    /// Handles a letter: as input of a field, or as an answer if it is typed alone.
    fn letter(&mut self, cx: &Context<'_>, letter: char, key: KeyEvent, pace: TypingPace) -> Reply<E> {
        if let (true, Some(index)) = (self.on_button(), self.text_field()) {
            self.focus = Focus::Field(index);
        }
        let counts = !self.has_ignored_letters && pace == TypingPace::Single;
        match letter {
            _ if !self.on_button() => {
                if self.edit(key) {
                    return Reply::Open((self.changed)(self, cx));
                }
                self.note_ignored_letter();
            }
            'y' if counts => {
                self.focus = Focus::Submit;
                return Reply::Confirming;
            }
            'n' | 'q' if counts => return Reply::Closed((self.cancelled)(self, cx)),
            'y' | 'n' | 'q' if !self.has_ignored_letters => {
                self.focus = Focus::Cancel;
                self.was_hasty = true;
            }
            ' ' => {}
            _ => self.note_ignored_letter(),
        }
        Reply::Open(Vec::new())
    }

    /// Confirms an answer given by a letter.
    pub fn confirm(&mut self, cx: &Context<'_>) -> Reply<E> {
        self.submit(cx)
    }

    /// Records that stray text was typed, and moves the focus from a button to Cancel.
    pub fn note_ignored_letter(&mut self) {
        self.has_ignored_letters = true;
        if self.on_button() {
            self.focus = Focus::Cancel;
        }
    }

    /// Returns the prompt that a key opens in place of the dialog. A text field takes the key as text, except for the
    /// key of the command line in an untyped field, and the key of the filter in an untyped confirmation.
    fn leaves_for(&self, cx: &Context<'_>, key: KeyEvent) -> Option<PromptKind> {
        let field = match self.focus {
            Focus::Field(index) => self.fields.get(index).filter(|field| field.takes_text()),
            Focus::Cancel | Focus::Submit => None,
        };
        match cx.bindings.command(&[KeyContext::Everywhere], Key::of(key))? {
            Command::Prompt if field.is_none_or(Field::is_untyped) => Some(PromptKind::Command),
            Command::Filter if field.is_none_or(|field| field.is_untyped() && field.confirms) => {
                Some(PromptKind::Filter)
            }
            _ => None,
        }
    }

    /// Passes a key to the focused field; returns whether its value changed.
    fn edit(&mut self, key: KeyEvent) -> bool {
        let Focus::Field(index) = self.focus else { return false };
        let is_changed = self.fields.get_mut(index).is_some_and(|field| field.key(key));
        if is_changed {
            self.error = None;
        }
        is_changed
    }

    /// Inserts pasted text into the focused field.
    pub fn paste(&mut self, text: &str) {
        if let Focus::Field(index) = self.focus
            && let Some(field) = self.fields.get_mut(index)
        {
            field.paste(text);
        }
    }

    fn on_button(&self) -> bool {
        !matches!(self.focus, Focus::Field(_))
    }

    fn enter(&mut self, cx: &Context<'_>, pace: TypingPace) -> Reply<E> {
        match self.focus {
            Focus::Cancel => Reply::Closed((self.cancelled)(self, cx)),
            Focus::Field(index) => match self.next_to_fill(index) {
                Some(next) => {
                    self.focus = Focus::Field(next);
                    Reply::Open(Vec::new())
                }
                None => self.press(cx, pace),
            },
            Focus::Submit => self.press(cx, pace),
        }
    }

    /// Submits on Enter, unless Enter is part of a paste or follows ignored letters.
    fn press(&mut self, cx: &Context<'_>, pace: TypingPace) -> Reply<E> {
        if self.has_ignored_letters || pace == TypingPace::Paste {
            self.was_hasty = true;
            return Reply::Open(Vec::new());
        }
        self.submit(cx)
    }

    fn submit(&mut self, cx: &Context<'_>) -> Reply<E> {
        match (self.submit)(self, cx) {
            Ok(effects) => Reply::Closed(effects),
            Err(error) => {
                self.error = Some(error);
                Reply::Open(Vec::new())
            }
        }
    }

    /// Returns the field that Enter moves to: the next one that must be filled in or, if something would be lost, the
    /// next one of any type.
    fn next_to_fill(&self, index: usize) -> Option<usize> {
        let mut below = index + 1..self.fields.len();
        below.find(|at| self.is_careful || self.fields[*at].is_missing())
    }

    /// Moves the focus by this many parts, cyclically.
    fn move_focus(&mut self, by: isize) {
        self.has_scrolled = false;
        self.scroll.key(KeyCode::Home.into());
        self.has_ignored_letters = false;
        let mut order: Vec<Focus> = (0..self.fields.len()).map(Focus::Field).collect();
        order.extend([Focus::Cancel, Focus::Submit]);
        let at = order.iter().position(|focus| *focus == self.focus).unwrap_or(0);
        self.focus = order[(at as isize + by).rem_euclid(order.len() as isize) as usize];
    }
}
