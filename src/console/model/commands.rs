//! The commands that do not belong to a screen.

use jiff::Timestamp;

use super::{Job, Model, palette};
use console_data::context::ScreenId;
use console_data::message::ScreenMessage;
use console_data::point_in_time::{self, TimeTravel, WayBack};
use console_data::read_only;
use console_data::scope::Scope;
use console_operations::dialog::{Focus, InterruptAction};
use console_operations::effect::{Dialog, Effect};
use console_screens::{Screen, drills::Drills, help::Help, journal::JournalScreen, kinds::Kinds};
use console_toolkit::command::{Command, CommandImpact, Entry, TABLE};
use console_toolkit::prompt::PromptKind;
use console_toolkit::text::counted;
use console_toolkit::toast::Toast;

impl Model {
    pub(super) fn command(&mut self, command: Command, now: Timestamp) -> Vec<Job> {
        // A key acts on the cluster that the header names.
        let of = self.top().0.cluster();
        if of != self.shared.front {
            return self.in_cluster(of, |model| model.command(command, now));
        }
        let contexts = self.key_contexts(now);
        let entry = command.entry_in(&contexts).unwrap_or_else(|| command.entry());
        if self.shared.read_only && entry.impact == CommandImpact::Cluster {
            self.toast(Toast::failed(read_only::command_refusal(entry.word())), now);
            return Vec::new();
        }
        if let Some(why) = self.refusal_in_past(entry) {
            self.toast(Toast::info(why), now);
            return Vec::new();
        }
        let (id, screen) = self.top();
        if let Some(why) = screen.refuses(&self.shared.context_of(*id, now), command) {
            self.toast(Toast::info(why), now);
            return Vec::new();
        }
        match command {
            Command::Prompt => self.open_prompt(PromptKind::Command, String::new()),
            Command::Filter => {
                let text = self.top().1.query().unwrap_or_default().to_owned();
                self.open_prompt(PromptKind::Filter, text);
            }
            Command::Help if matches!(screen, Screen::Help(_)) => return self.back(now),
            Command::Help => {
                let is_offered = |entry: &&Entry| entry.applies_in(&contexts) && self.offers(entry, now);
                let offered = TABLE.iter().filter(is_offered).collect();
                let own = self.own_keys(now);
                return self.open(Help::new(contexts, offered, own).into(), now);
            }
            Command::Back => {
                // Messages are dismissed as well, so that going back needs one key only.
                self.toasts.dismiss();
                let top = &self.top().1;
                if top.moment().is_some() && top.back_target() == WayBack::Now {
                    return self.travel(TimeTravel::Live, now);
                }
                if self.top().1.query().is_some_and(|query| !query.is_empty()) {
                    let _ = self.query("", now);
                    return Vec::new();
                }
                // Esc moves the focus to the first pane; it does not close the second pane unexpectedly.
                if self.screens.len() == 1 && self.is_in_second() {
                    self.focus_first();
                    return Vec::new();
                }
                return self.back(now);
            }
            Command::BackOrQuit if self.screens.len() > 1 || self.is_in_second() => return self.back(now),
            // Closes the tab as an editor's `:q` does; the console ends with its last tab.
            Command::BackOrQuit if self.tabs.count() > 1 => return self.close_tab(now),
            Command::BackOrQuit | Command::Quit => return self.confirm_quit(now),
            Command::SplitBeside
            | Command::SplitBelow
            | Command::PaneFocus
            | Command::PaneGrow
            | Command::PaneShrink
            | Command::PaneFollow
            | Command::PaneClose => return self.pane_command(command, now),
            Command::TabNew => return self.new_tab(None, now),
            Command::TabClose => return self.close_tab(now),
            Command::TabNext => return self.step_tab(true, now),
            Command::TabPrevious => return self.step_tab(false, now),
            Command::HistoryBack => return self.walk_history(self.history_at.checked_sub(1), now),
            Command::HistoryForward => return self.walk_history(Some(self.history_at + 1), now),
            Command::LastView => {
                if let Some(text) = self.last_view.clone() {
                    let at = self.history.iter().position(|old| *old == text);
                    return self.walk_history(at, now);
                }
            }
            Command::Aliases => return self.open(Kinds::default().into(), now),
            Command::OpenDrills => return self.open(Drills::default().into(), now),
            Command::OpenJournal => {
                let place = self.target_cluster(now);
                return self.in_cluster(place, |model| model.open(JournalScreen::default().into(), now));
            }
            // The overview is the bottom of the stack; opening it closes everything above.
            Command::OpenOverview => {
                self.focus_first();
                return self.back_to_the_first(now);
            }
            Command::ThemeNext => {
                let dialog = palette::theme_dialog(self);
                self.dialog = Some((self.top().0, Box::new(dialog)));
            }
            Command::ToggleHeader => self.header = !self.header,
            Command::Refresh => {
                let mut jobs = vec![Job::Redraw];
                jobs.extend(self.deliver_to_top(now, ScreenMessage::Command(command)));
                return jobs;
            }
            Command::AllNamespaces => return self.rescope(Scope::All, now),
            Command::PastAt => self.open_prompt(PromptKind::Command, "at ".to_owned()),
            Command::PastBack | Command::PastForward | Command::PastBackMore | Command::PastForwardMore => {
                return TimeTravel::of(command).map(|go| self.travel(go, now)).unwrap_or_default();
            }
            _ => {
                if let Some(number) = palette::tab_key(command) {
                    return self.select_tab(number, now);
                }
                if let Some(index) = palette::namespace_key(command) {
                    let Some(name) = self.shared.cluster.favourites.get(index).cloned() else {
                        let note = format!("no namespace has the number {}; :ns NAME shows one", index + 1);
                        self.toast(Toast::unheard(note), now);
                        return Vec::new();
                    };
                    return self.rescope(Scope::One(name), now);
                }
                return self.deliver_to_top(now, ScreenMessage::Command(command));
            }
        }
        Vec::new()
    }

    /// Returns the reason why a command is refused in a view of the past; `None` for a read-only command, or a view of
    /// the present.
    pub(crate) fn refusal_in_past(&self, entry: &Entry) -> Option<String> {
        let moment = self.top().1.moment().filter(|_| !point_in_time::looks(entry))?;
        let key = self.shared.bindings.key(Command::Back).map(|key| key.to_string()).unwrap_or_default();
        let name = entry.in_short();
        Some(format!(
            "{name} is not possible in the past; this view shows {}: {key} {}",
            moment.short(),
            self.top().1.back_target().hint()
        ))
    }

    pub(super) fn confirm_quit(&mut self, now: Timestamp) -> Vec<Job> {
        let id = self.top().0;
        let works = |(id, screen): &&(ScreenId, Screen)| {
            screen.background(&self.shared.context_of(*id, now)).is_some()
        };
        let works = self.all_screens().filter(works).count();
        if self.stopping.is_some() || (self.setup.quit_warning.is_empty() && works == 0) {
            return vec![Job::Quit];
        }
        let mut dialog = Dialog::new("Quit", "Quit", |_, _| Ok(vec![Effect::Quit]));
        if !self.setup.quit_warning.is_empty() {
            dialog = dialog.line(self.setup.quit_warning.clone());
        }
        if works > 0 {
            dialog = dialog.warning(format!("{} will be stopped.", counted(works, "background task")));
        }
        // Cancel has the focus in every dialog about losing work.
        if works == 0 {
            dialog.focus = Focus::Submit;
        }
        dialog.interrupt = InterruptAction::Submits;
        self.dialog = Some((id, Box::new(dialog)));
        Vec::new()
    }
}
