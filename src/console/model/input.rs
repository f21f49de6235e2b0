//! Keys, pasted text and the prompt.

use std::collections::BTreeSet;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use jiff::{SignedDuration, Timestamp};
use ratatui::layout::Position;

use super::{Job, Model, palette};
use console_data::context::ScreenId;
use console_data::message::ScreenMessage;
use console_data::resource::ClusterId;
use console_operations::dialog::{self, InterruptAction, TypingPace};
use console_operations::effect::{Dialog, Effect};
use console_toolkit::command::{Command, Entry, KeyContext, TABLE};
use console_toolkit::keys::Key;
use console_toolkit::prompt::{Prompt, PromptKind, Reply};
use console_toolkit::toast::Toast;

/// Characters, Enter, Tab, Backspace and Delete typed within this time after a dialog closed were meant for the dialog:
/// users notice that it has closed only after about this time.
const DIALOG_COOLDOWN: SignedDuration = SignedDuration::from_millis(300);

/// A letter answers a dialog only if no other typing is within this time before and after it.
const PAUSE: SignedDuration = DIALOG_COOLDOWN;

/// Stray letters at a question no longer make its answers suspicious after this time without typing.
const STRAY_PAUSE: SignedDuration = SignedDuration::from_secs(2);

/// Keys closer together than this come from a paste, or from a key that is held down.
const PASTE_INTERVAL: SignedDuration = SignedDuration::from_millis(50);

/// The number of repetitions from which a key counts as held down, and not meant for a dialog.
const HELD_REPEATS: u32 = 6;

/// The time after a dialog in which typed keys are ignored, until there is a pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct DialogCooldown {
    /// The end of that time, unless more is typed before.
    ends: Timestamp,
    /// The last key, and the number of its repetitions.
    last: Option<(KeyEvent, u32)>,
}

impl DialogCooldown {
    fn from(now: Timestamp) -> Self {
        Self { ends: now.saturating_add(DIALOG_COOLDOWN).unwrap_or(now), last: None }
    }

    /// Reports whether a key still belongs to the closed dialog; each such key restarts the cooldown.
    fn swallows(&mut self, key: Option<KeyEvent>, now: Timestamp) -> bool {
        // A clock that was set back must not lock the keyboard.
        if now >= self.ends || self.ends.duration_since(now) > DIALOG_COOLDOWN {
            return false;
        }
        self.ends = now.saturating_add(DIALOG_COOLDOWN).unwrap_or(now);
        self.last = match (self.last, key) {
            (Some((last, times)), Some(key)) if last == key => Some((key, times + 1)),
            (_, key) => key.map(|key| (key, 1)),
        };
        self.last.is_none_or(|(_, times)| times < HELD_REPEATS)
    }
}

/// An answer by a letter, which takes effect unless more is typed before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingAnswer {
    /// Confirms the open dialog.
    Dialog,
    /// Sends this command to a screen that is itself a question.
    Command(Command),
}

/// Distinguishes answers from text that is typed or pasted for another purpose.
#[derive(Debug, Default)]
pub(super) struct TypingDetector {
    /// The time of the last typed text; `None` after a key that types nothing.
    last: Option<Timestamp>,
    /// The pending answer, and the time at which it takes effect.
    pending_answer: Option<(PendingAnswer, Timestamp)>,
    /// Stray letters were typed at a screen that is a question.
    has_strayed: bool,
}

impl TypingDetector {
    /// Returns the pace of a key relative to the text before it, and records the key.
    fn pace(&mut self, key: KeyEvent, now: Timestamp) -> TypingPace {
        let before = self.last.take();
        // A line feed arrives as ctrl-j.
        let is_line_feed = key.code == KeyCode::Char('j') && key.modifiers.contains(KeyModifiers::CONTROL);
        let is_bare = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        if is_typing_key(key) && (is_bare || is_line_feed) {
            self.last = Some(now);
        } else {
            self.has_strayed = false;
        }
        let since = before.map(|before| now.duration_since(before));
        if since.is_none_or(|since| since.is_negative() || since >= STRAY_PAUSE) {
            self.has_strayed = false;
        }
        // A clock that was set back must not lock the keyboard.
        match since {
            Some(since) if since.is_negative() => TypingPace::Single,
            Some(since) if since < PASTE_INTERVAL => TypingPace::Paste,
            Some(since) if since < PAUSE => TypingPace::Typing,
            _ => TypingPace::Single,
        }
    }

    fn await_more(&mut self, answer: PendingAnswer, now: Timestamp) {
        self.pending_answer = Some((answer, now.saturating_add(PAUSE).unwrap_or(now)));
    }

    /// Returns the pending answer if it is due.
    fn take_due(&mut self, now: Timestamp) -> Option<PendingAnswer> {
        let (answer, due) = self.pending_answer?;
        if now < due && due.duration_since(now) <= PAUSE {
            return None;
        }
        self.pending_answer = None;
        (now >= due).then_some(answer)
    }
}

/// Reports whether a command answers the question of its screen.
fn is_answer(command: Command) -> bool {
    matches!(
        command,
        Command::ReviewSave
            | Command::ConflictMine
            | Command::ConflictTheirs
            | Command::DraftRestore
            | Command::DraftDiscard
            | Command::DrainStart
    )
}

/// Reports whether a key types or decides something. Keys that move, leave or interrupt do no harm if they were meant
/// for another screen.
fn is_typing_key(key: KeyEvent) -> bool {
    let interrupts = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let types = matches!(
        key.code,
        KeyCode::Char(_) | KeyCode::Enter | KeyCode::Tab | KeyCode::Backspace | KeyCode::Delete
    );
    types && !interrupts
}

impl Model {
    /// Returns the time from which the next key counts as typed alone: a closed dialog swallows no more keys, and a
    /// pending answer has taken effect. `None` if that is so already.
    pub fn settles_at(&self) -> Option<Timestamp> {
        let closed = self.settling.map(|settling| settling.ends);
        let answered = self.typing.pending_answer.map(|(_, due)| due);
        let typed = self.typing.last.filter(|_| self.dialog.is_some() || self.is_question());
        let typed = typed.map(|last| last.saturating_add(PAUSE).unwrap_or(last));
        closed.max(answered).max(typed)
    }

    /// Returns the time at which a pending answer takes effect.
    pub(crate) fn answer_due_at(&self) -> Option<Timestamp> {
        self.typing.pending_answer.map(|(_, due)| due)
    }

    /// Reports whether the screen with the focus is a question that a key answers.
    fn is_question(&self) -> bool {
        let contexts = self.key_contexts(self.last_message_at);
        TABLE.iter().any(|entry| is_answer(entry.command) && contexts.contains(&entry.context))
    }

    /// Executes a due answer.
    pub(super) fn execute_answer(&mut self, now: Timestamp) -> Vec<Job> {
        match self.typing.take_due(now) {
            None => Vec::new(),
            Some(PendingAnswer::Command(command)) => self.command(command, now),
            Some(PendingAnswer::Dialog) => {
                let Some((id, mut dialog)) = self.dialog.take() else { return Vec::new() };
                let reply = dialog.confirm(&self.shared.context_of(id, now));
                self.replied(id, dialog, reply, now)
            }
        }
    }

    /// Cancels a pending answer because more was typed; reports whether that consumes the key.
    fn cancel_answer(&mut self, key: KeyEvent, now: Timestamp) -> bool {
        let Some((answer, _)) = self.typing.pending_answer.take() else { return false };
        // Moving, leaving and interrupting cancel the answer, and have their usual effect.
        if !is_typing_key(key) {
            return false;
        }
        self.dirty = true;
        match answer {
            PendingAnswer::Dialog => {
                if let Some((_, dialog)) = &mut self.dialog {
                    dialog.note_ignored_letter();
                }
                // The keys of the command line and of the filter leave the dialog all the same.
                let means = self.shared.bindings.command(&[KeyContext::Everywhere], Key::of(key));
                !matches!(means, Some(Command::Prompt | Command::Filter))
            }
            PendingAnswer::Command(command) => {
                self.typing.has_strayed = true;
                self.reject_key_in_dialog(command, now);
                true
            }
        }
    }

    fn reject_key_in_dialog(&mut self, command: Command, now: Timestamp) {
        let key = self.shared.bindings.key(command).map(|key| key.to_string()).unwrap_or_default();
        let name = command.entry().in_short();
        self.toast(Toast::info(format!("{key} came with other keys: press it alone to {name}")), now);
    }

    /// Handles a key that answers the question of its screen.
    fn handle_answer(
        &mut self,
        command: Command,
        key: KeyEvent,
        pace: TypingPace,
        now: Timestamp,
    ) -> Vec<Job> {
        let is_letter =
            matches!(key.code, KeyCode::Char(_)) && is_typing_key(key) && self.typing.last.is_some();
        let is_single = pace == TypingPace::Single && !self.typing.has_strayed;
        // A key that types nothing, such as ctrl-s, cannot be a part of a text.
        if self.typing.last.is_some() && !is_single {
            // An arrow, not another letter, re-enables letters.
            self.reject_key_in_dialog(command, now);
            return Vec::new();
        }
        if is_letter {
            self.typing.await_more(PendingAnswer::Command(command), now);
            return Vec::new();
        }
        self.command(command, now)
    }

    fn replied(
        &mut self,
        id: ScreenId,
        dialog: Box<Dialog>,
        reply: dialog::Reply<Effect>,
        now: Timestamp,
    ) -> Vec<Job> {
        match reply {
            dialog::Reply::Open(effects) => {
                self.dialog = Some((id, dialog));
                self.apply(id, effects, now)
            }
            dialog::Reply::Confirming => {
                self.dialog = Some((id, dialog));
                self.typing.await_more(PendingAnswer::Dialog, now);
                Vec::new()
            }
            dialog::Reply::Closed(effects) => {
                self.settling = Some(DialogCooldown::from(now));
                let jobs = self.apply(id, effects, now);
                self.show_next_dialog();
                jobs
            }
            dialog::Reply::OpenPrompt(prompt, effects) => {
                let mut jobs = self.apply(id, effects, now);
                let command = match prompt {
                    PromptKind::Command => Command::Prompt,
                    PromptKind::Filter => Command::Filter,
                };
                jobs.extend(self.command(command, now));
                self.show_next_dialog();
                jobs
            }
        }
    }

    /// Reports whether a key is the rest of the typing into a closed dialog.
    fn is_settling(&mut self, key: Option<KeyEvent>, now: Timestamp) -> bool {
        let swallows = self.settling.as_mut().is_some_and(|settling| settling.swallows(key, now));
        if !swallows {
            self.settling = None;
        }
        swallows
    }

    /// Reports whether a typed key has its usual effect although a dialog has closed a moment ago: it moves, or it opens
    /// the command line or the filter, which then take the keys after it. Both do no harm if the dialog was meant.
    fn passes_cooldown(&mut self, key: KeyEvent, pace: TypingPace, now: Timestamp) -> bool {
        if pace == TypingPace::Paste || self.dialog.is_some() || self.prompt.is_some() {
            return false;
        }
        match self.shared.bindings.command(&self.key_contexts(now), Key::of(key)) {
            Some(Command::Prompt | Command::Filter) => {
                self.settling = None;
                true
            }
            Some(
                Command::Up
                | Command::Down
                | Command::Top
                | Command::Bottom
                | Command::PageUp
                | Command::PageDown
                | Command::Left
                | Command::Right,
            ) => true,
            _ => false,
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent, now: Timestamp) -> Vec<Job> {
        let pace = self.typing.pace(key, now);
        // A key that types nothing, such as ctrl-d, cannot be a part of a text.
        let is_typed = self.typing.last.is_some();
        if is_typed && self.is_settling(Some(key), now) && !self.passes_cooldown(key, pace, now) {
            return Vec::new();
        }
        if self.cancel_answer(key, now) {
            return Vec::new();
        }
        self.dirty = true;
        self.toasts.dismiss_key_hint();
        self.shared.undrawn.take();
        if self.shared.cramped.get() {
            // The effect of a key would be invisible; only the exit works.
            let quit = self.shared.bindings.keys(Command::Quit.entry()).contains(&Key::of(key));
            let submits =
                self.dialog.as_ref().is_some_and(|(_, dialog)| dialog.interrupt == InterruptAction::Submits);
            return match (quit, submits) {
                (false, _) => Vec::new(),
                (true, false) => self.confirm_quit(now),
                (true, true) => vec![Job::Quit],
            };
        }
        if let Some((id, mut dialog)) = self.dialog.take() {
            let reply = dialog.key(&self.shared.context_of(id, now), key, pace);
            return self.replied(id, dialog, reply, now);
        }
        if let Some(mut prompt) = self.prompt.take() {
            let reply = prompt.key(key, &self.history);
            let jobs = self.prompted(prompt, reply, now);
            self.show_next_dialog();
            return jobs;
        }
        let contexts = self.key_contexts(now);
        let means = self.shared.bindings.command(&contexts, Key::of(key));
        if let Some(jobs) = self.own_key(Key::of(key), means, now) {
            return jobs;
        }
        match means {
            Some(command) if is_answer(command) => self.handle_answer(command, key, pace, now),
            Some(command) => self.command(command, now),
            None if self.top().1.takes_all_keys() => {
                // The keys that scroll the question are not text.
                let scrolls = matches!(key.code, KeyCode::Char('j' | 'k' | 'g' | 'G' | ' '));
                self.typing.has_strayed |= is_typing_key(key) && !scrolls && self.is_question();
                self.deliver_to_top(now, ScreenMessage::Key(key))
            }
            None => {
                let note = self.means_nothing(&contexts, Key::of(key));
                self.toast(Toast::unheard(note), now);
                Vec::new()
            }
        }
    }

    /// Returns the message about a key without a meaning: silence would leave open whether it was received.
    fn means_nothing(&self, here: &[KeyContext], key: Key) -> String {
        let bindings = &self.shared.bindings;
        let mut named = BTreeSet::new();
        let there = |entry: &&Entry| {
            !here.contains(&entry.context)
                && bindings.keys(entry).contains(&key)
                && named.insert(entry.command)
        };
        let places = TABLE.iter().filter(there).take(2);
        let places: Vec<String> =
            places.map(|entry| format!("{} in {:?}", entry.in_short(), entry.context.title())).collect();
        let places = match places.as_slice() {
            [] => String::new(),
            places => format!(" ({})", places.join(", ")),
        };
        let help = bindings.key(Command::Help).map(|key| key.to_string()).unwrap_or_default();
        format!("{key} does nothing here{places}; <{help}> lists the keys")
    }

    /// Handles the mouse: a click on the tab bar selects a tab, other events go to the screen.
    pub(super) fn mouse(&mut self, event: MouseEvent, now: Timestamp) -> Vec<Job> {
        let at = Position { x: event.column, y: event.row };
        let tab = self.shared.tab_areas.borrow().iter().position(|place| place.contains(at));
        match tab {
            Some(number) if event.kind == MouseEventKind::Down(MouseButton::Left) => {
                self.select_tab(number, now)
            }
            Some(_) => Vec::new(),
            None => {
                // A click moves the focus; the wheel scrolls the pane under the pointer.
                let other = self.shared.other_pane_area.get().is_some_and(|place| place.contains(at));
                match event.kind {
                    MouseEventKind::Down(_) if other => self.trade_panes(),
                    _ if other => {
                        let Some((id, _)) = self.other_top() else { return Vec::new() };
                        return self.deliver(*id, now, ScreenMessage::Mouse(event));
                    }
                    _ => {}
                }
                self.deliver_to_top(now, ScreenMessage::Mouse(event))
            }
        }
    }

    pub(super) fn paste(&mut self, text: &str, now: Timestamp) -> Vec<Job> {
        if self.is_settling(None, now) {
            return Vec::new();
        }
        self.dirty = true;
        if self.shared.cramped.get() {
            return Vec::new();
        }
        if let Some((_, dialog)) = &mut self.dialog {
            dialog.paste(text);
            return Vec::new();
        }
        if let Some(mut prompt) = self.prompt.take() {
            let reply = prompt.paste(text);
            return self.prompted(prompt, reply, now);
        }
        self.deliver_to_top(now, ScreenMessage::Paste(text.to_owned()))
    }

    pub(super) fn open_prompt(&mut self, kind: PromptKind, text: String) {
        let mut prompt = Prompt::new(kind, text);
        if kind == PromptKind::Filter {
            prompt = prompt.replaceable();
        }
        if kind == PromptKind::Command {
            prompt.suggestions = self.suggestions(&prompt.text);
        }
        self.prompt = Some(prompt);
    }

    pub(super) fn prompted(&mut self, mut prompt: Prompt, reply: Reply, now: Timestamp) -> Vec<Job> {
        match (prompt.kind, reply) {
            (_, Reply::Same) => self.prompt = Some(prompt),
            (PromptKind::Command, Reply::Changed) => {
                prompt.suggestions = self.suggestions(&prompt.text);
                // Other programs write the kubeconfig: it is read when its names are needed.
                let names = prompt.text.ends_with('@').then_some(Job::ReadContexts);
                self.prompt = Some(prompt);
                return names.into_iter().collect();
            }
            (PromptKind::Filter, Reply::Changed) => {
                prompt.error = self.query(&prompt.text, now).err();
                self.prompt = Some(prompt);
            }
            (PromptKind::Filter, Reply::Done(text)) => {
                if let Err(error) = self.query(&text, now) {
                    prompt.error = Some(error);
                    self.prompt = Some(prompt);
                }
            }
            (PromptKind::Filter, Reply::Left) => {
                let _ = self.query("", now);
            }
            (PromptKind::Command, Reply::Left) => {}
            (PromptKind::Command, Reply::Done(text)) => {
                let text = text.trim().to_owned();
                if text.is_empty() {
                    return Vec::new();
                }
                return self.end_prompt(prompt, &text, now);
            }
        }
        Vec::new()
    }

    /// Returns the completions of a text, for the cluster that it concerns.
    fn suggestions(&mut self, text: &str) -> Vec<String> {
        let place = self.target_cluster(self.last_message_at);
        self.within(place, |model| palette::suggest(text, model)).unwrap_or_default()
    }

    /// Computes the completions again after new data arrived.
    pub(super) fn refresh_suggestions(&mut self) {
        let Some(mut prompt) = self.prompt.take() else { return };
        if prompt.kind == PromptKind::Command && prompt.picked.is_none() {
            prompt.suggestions = self.suggestions(&prompt.text);
            self.dirty = true;
        }
        self.prompt = Some(prompt);
    }

    /// Parses a command, for the cluster that it concerns.
    pub(super) fn parse_command(&mut self, text: &str) -> Result<Vec<Effect>, String> {
        let place = self.target_cluster(self.last_message_at);
        let closed = || Err("that cluster is no longer open".to_owned());
        let effects = self.within(place, |model| palette::run(text, model)).unwrap_or_else(closed)?;
        Ok(if place == ClusterId::HOME { effects } else { vec![Effect::InCluster(place, effects)] })
    }

    /// Executes a command typed after `:`.
    pub(super) fn run_prompt_text(&mut self, text: &str, effects: Vec<Effect>, now: Timestamp) -> Vec<Job> {
        // Drops a command that waits for discovery: the user has gone on.
        self.delayed_command = None;
        // A command that leads to another tab is remembered there.
        if !any(&effects, &|effect| matches!(effect, Effect::NewTab(_) | Effect::GoToTab(_))) {
            self.remember(text);
        }
        // A command that opens a list (such as :pods) starts a new stack, as in k9s, so that earlier views do not pile
        // up.
        let starts_stack = any(&effects, &|effect| match effect {
            Effect::Open(route) => route.starts_stack(),
            Effect::OpenMultiCluster(..) => true,
            _ => false,
        });
        let is_historical =
            any(&effects, &|effect| matches!(effect, Effect::Open(route) if route.is_historical()));
        let moment = self.top().1.moment();
        let mut jobs = if starts_stack {
            self.back_to_the_first(now)
        } else if self.is_view_of(text, now) {
            self.back(now)
        } else {
            Vec::new()
        };
        let id = self.top_screen_id();
        jobs.extend(self.apply(id, effects, now));
        let opened = self.top().0;
        self.opened_by = (opened != id).then(|| (text.to_owned(), opened));
        let shows_present = starts_stack && !is_historical && self.top().1.moment().is_none();
        if shows_present {
            jobs.extend(self.return_to_present(now));
        }
        if let Some(moment) = moment.filter(|_| shows_present) {
            self.toast(
                Toast::info(format!(
                    "this view shows the present; the previous view showed {}",
                    moment.short()
                )),
                now,
            );
        }
        jobs
    }

    /// Reports whether this command opened the top view: run again, it replaces the view, unless that has work.
    fn is_view_of(&self, text: &str, now: Timestamp) -> bool {
        let (id, screen) = self.top();
        self.opened_by.as_ref().is_some_and(|(by, opened)| by == text && opened == id)
            && screen.background(&self.shared.context_of(*id, now)).is_none()
    }

    pub(super) fn remember(&mut self, text: &str) {
        self.record_view_command(text);
        self.history.retain(|old| old != text);
        self.history.push(text.to_owned());
        if self.history.len() > 100 {
            self.history.remove(0);
        }
        self.history_at = self.history.len() - 1;
    }

    /// Records the command of the present view, for going back to the previous one.
    fn record_view_command(&mut self, text: &str) {
        if self.current_view.as_deref() != Some(text) {
            self.last_view = self.current_view.replace(text.to_owned());
        }
    }

    pub(super) fn query(&mut self, text: &str, now: Timestamp) -> Result<(), String> {
        let (id, screen) = self.screens.last_mut().expect("the stack is never empty");
        screen.set_query(&self.shared.context_of(*id, now), text)
    }

    pub(super) fn walk_history(&mut self, at: Option<usize>, now: Timestamp) -> Vec<Job> {
        let Some(text) = at.and_then(|at| self.history.get(at)).cloned() else { return Vec::new() };
        self.history_at = at.unwrap_or_default();
        match self.parse_command(&text) {
            Ok(effects) => {
                self.record_view_command(&text);
                // Switching back and forth between views must not pile them up.
                let mut jobs = self.back_to_the_first(now);
                let id = self.top_screen_id();
                jobs.extend(self.apply(id, effects, now));
                if self.top().1.moment().is_none() {
                    jobs.extend(self.return_to_present(now));
                }
                jobs
            }
            Err(error) => {
                self.toast(Toast::failed(error), now);
                Vec::new()
            }
        }
    }
}

/// Reports whether one of these effects, on any cluster, satisfies the condition.
pub(super) fn any(effects: &[Effect], is: &dyn Fn(&Effect) -> bool) -> bool {
    effects.iter().any(|effect| match effect {
        Effect::InCluster(_, effects) => any(effects, is),
        effect => is(effect),
    })
}
