//! The state of the console, and what each message does to it. No I/O: what must reach the world is
//! returned as jobs.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use crossterm::event::KeyEvent;
use jiff::Timestamp;

use super::action::{Action, Journal};
use super::catalogue::Catalogue;
use super::command::{Bindings, Command, Touches, Where};
use super::context::Context;
use super::dialog::{Answer, Dialog, Focus, Interrupt};
use super::effect::{Capture, Effect, Scope, Task};
use super::feed;
use super::keys::Key;
use super::memory::Memory;
use super::message::{Link, Message, ScreenId, ScreenMessage};
use super::palette;
use super::prompt::{Ask, Prompt, Reply};
use super::resource::Watched;
use super::screen::{Screen, View, help::Help, journal::JournalScreen, kinds::Kinds, overview::Overview};
use super::store::Stores;
use super::theme::Theme;
use super::theme::depth::Depth;
use super::theme::library;
use super::toast::{Toast, Toasts};

/// What the shell around the model has to do.
#[derive(Debug)]
pub enum Job {
    /// Start a task.
    Start(Task),
    /// End a task of a screen.
    Cancel(ScreenId, &'static str),
    /// End all tasks of a screen that is gone.
    Close(ScreenId),
    /// Change the cluster.
    Act(Box<Action>),
    /// Copy to the clipboard.
    Copy(String),
    /// Write a file.
    Save(String, String),
    /// Run `$EDITOR` for a screen.
    Editor(ScreenId, String),
    /// Take or release the mouse.
    Mouse(Capture),
    /// Keep something for the next run.
    Remember(Memory),
    /// Draw everything anew, discover anew.
    Redraw,
    /// The user wants to leave.
    Quit,
}

/// What screens see of the model.
#[derive(Debug)]
pub struct Shared {
    /// The live copy of the cluster.
    pub stores: Stores,
    /// The theme in force.
    pub theme: Theme,
    /// The kinds of the server.
    pub catalogue: Catalogue,
    /// The keys.
    pub bindings: Bindings,
    /// What was changed.
    pub journal: Journal,
    /// Which namespaces are shown.
    pub scope: Scope,
    /// Namespaces of the keys 1 to 9.
    pub favourites: Vec<String>,
    /// Whether changes are refused.
    pub read_only: bool,
    /// When what is drawn stops being true.
    pub wake: Cell<Option<Timestamp>>,
    /// Whether the window is too small to show anything.
    pub cramped: Cell<bool>,
}

impl Shared {
    /// The context of one screen at one moment.
    pub fn context(&self, screen: ScreenId, now: Timestamp) -> Context<'_> {
        Context {
            stores: &self.stores,
            theme: &self.theme,
            catalogue: &self.catalogue,
            bindings: &self.bindings,
            journal: &self.journal,
            scope: &self.scope,
            favourites: &self.favourites,
            read_only: self.read_only,
            screen,
            now,
            wake: &self.wake,
        }
    }
}

/// How the console was set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The cluster's name in the header.
    pub cluster: String,
    /// How we reach it: `in process`, a host.
    pub origin: String,
    /// The theme to start with.
    pub theme: Theme,
    /// The theme the user's `console.toml` names.
    pub configured_theme: Option<String>,
    /// The colours the terminal has.
    pub depth: Depth,
    /// The user's configuration directory.
    pub config_dir: Option<PathBuf>,
    /// The keys.
    pub bindings: Bindings,
    /// Which namespaces to show first.
    pub scope: Scope,
    /// Whether changes are refused.
    pub read_only: bool,
    /// What leaving does, asked before it: empty when nothing is lost.
    pub quit_warning: String,
}

/// The state of the console.
#[derive(Debug)]
pub struct Model {
    /// What screens see.
    pub shared: Shared,
    /// How it was set up.
    pub setup: Setup,
    /// The stack; the last is on top. Never empty.
    pub screens: Vec<(ScreenId, Screen)>,
    /// Screens that were left while their work goes on.
    pub parked: Vec<(ScreenId, Screen)>,
    /// The open dialog and the screen that asked.
    pub dialog: Option<(ScreenId, Box<Dialog>)>,
    /// The open prompt.
    pub prompt: Option<Prompt>,
    /// The news.
    pub toasts: Toasts,
    /// Kinds that cannot be watched now, and why.
    pub broken: BTreeMap<Watched, String>,
    /// Whether the header is shown.
    pub header: bool,
    /// The caller's words about stopping.
    pub stopping: Option<String>,
    /// Whether the screen differs from what was drawn.
    pub dirty: bool,
    history: Vec<String>,
    history_at: usize,
    last_view: Option<String>,
    next_id: u64,
}

impl Model {
    /// The model before the first message, and the jobs of its first screen.
    pub fn new(setup: Setup, now: Timestamp) -> (Self, Vec<Job>) {
        let favourites = match &setup.scope {
            Scope::One(name) if name != "default" => vec!["default".to_owned(), name.clone()],
            _ => vec!["default".to_owned()],
        };
        let mut model = Self {
            shared: Shared {
                stores: Stores::default(),
                theme: setup.theme.clone().in_depth(setup.depth),
                catalogue: Catalogue::default(),
                bindings: setup.bindings.clone(),
                journal: Journal::default(),
                scope: setup.scope.clone(),
                favourites,
                read_only: setup.read_only,
                wake: Cell::new(None),
                cramped: Cell::new(false),
            },
            setup,
            screens: vec![(ScreenId(1), Overview::default().into())],
            parked: Vec::new(),
            dialog: None,
            prompt: None,
            toasts: Toasts::default(),
            broken: BTreeMap::new(),
            header: true,
            stopping: None,
            dirty: true,
            history: Vec::new(),
            history_at: 0,
            last_view: None,
            next_id: 1,
        };
        let jobs = model.tell_top(now, ScreenMessage::Opened);
        (model, jobs)
    }

    /// The screen on top.
    pub fn top(&self) -> &(ScreenId, Screen) {
        self.screens.last().expect("the stack is never empty")
    }

    /// The contexts keys are looked up in now.
    pub fn places(&self, now: Timestamp) -> Vec<Where> {
        let (id, screen) = self.top();
        let cx = self.shared.context(*id, now);
        let mut places = screen.places(&cx);
        if !screen.takes_all_keys() {
            places.push(Where::Everywhere);
        }
        places
    }

    /// Takes a message.
    pub fn update(&mut self, message: Message, now: Timestamp) -> Vec<Job> {
        match message {
            Message::Feed(delta) => {
                let (kind, touched) = self.shared.stores.apply(delta);
                if kind == Watched::Namespaces {
                    self.learn_namespaces();
                }
                self.dirty = true;
                return self.tell_top(now, ScreenMessage::Changed(kind, touched));
            }
            Message::Key(key) => return self.key(key, now),
            Message::Paste(text) => return self.paste(&text, now),
            Message::Mouse(event) => {
                if self.dialog.is_none() && self.prompt.is_none() && !self.shared.cramped.get() {
                    self.dirty = true;
                    return self.tell_top(now, ScreenMessage::Mouse(event));
                }
            }
            Message::Resize(..) | Message::Tick => self.dirty = true,
            Message::Link(Link::Up(kind)) => {
                self.dirty |= self.broken.remove(&kind).is_some();
            }
            Message::Link(Link::Down(kind, why)) => {
                self.dirty |= self.broken.insert(kind, why.clone()) != Some(why);
            }
            Message::Link(Link::Refused(kind, why)) => {
                self.toast(feed::refusal(kind, &why), now);
                self.broken.insert(kind, why);
            }
            Message::Catalogue(catalogue) => {
                self.shared.catalogue = catalogue;
                self.dirty = true;
            }
            Message::Data(id, data) => {
                self.dirty = true;
                return self.tell(id, now, ScreenMessage::Data(data));
            }
            Message::Acted(outcome) => {
                let toast = match &outcome.error {
                    None if outcome.action.quiet => None,
                    None => Some(Toast::done(outcome.action.title.clone())),
                    Some(error) => Some(Toast::failed(format!("{}: {error}", outcome.action.title))),
                };
                self.shared.journal.record(now, *outcome);
                if let Some(toast) = toast {
                    self.toast(toast, now);
                }
                self.dirty = true;
            }
            Message::Toast(toast) => self.toast(toast, now),
            Message::Stopping(text) => {
                self.stopping = Some(text);
                self.dirty = true;
            }
        }
        Vec::new()
    }

    fn toast(&mut self, toast: Toast, now: Timestamp) {
        self.toasts.push(toast, now);
        self.dirty = true;
    }

    fn learn_namespaces(&mut self) {
        let names = self.shared.stores.namespaces.iter();
        let mut names: Vec<String> = names.filter_map(|(_, object)| object.metadata.name.clone()).collect();
        // The system's own come last: few people look there often.
        names.sort_by(|a, b| (a.starts_with("kube-"), a).cmp(&(b.starts_with("kube-"), b)));
        self.shared.favourites.retain(|name| names.contains(name));
        for name in names {
            if self.shared.favourites.len() >= 9 {
                break;
            }
            if !self.shared.favourites.contains(&name) {
                self.shared.favourites.push(name);
            }
        }
    }

    fn tell_top(&mut self, now: Timestamp, message: ScreenMessage) -> Vec<Job> {
        let id = self.top().0;
        self.tell(id, now, message)
    }

    fn tell(&mut self, id: ScreenId, now: Timestamp, message: ScreenMessage) -> Vec<Job> {
        let cx = self.shared.context(id, now);
        let mut all = self.screens.iter_mut().chain(self.parked.iter_mut());
        let Some((_, screen)) = all.find(|(known, _)| *known == id) else { return Vec::new() };
        let effects = screen.update(&cx, message);
        self.apply(id, effects, now)
    }

    /// Carries effects out, those of `id`.
    fn apply(&mut self, id: ScreenId, effects: Vec<Effect>, now: Timestamp) -> Vec<Job> {
        let mut jobs = Vec::new();
        for effect in effects {
            self.dirty = true;
            match effect {
                Effect::Open(screen) => jobs.extend(self.open(*screen, now)),
                Effect::Back => jobs.extend(self.back(now)),
                Effect::Ask(dialog) => self.dialog = Some((id, dialog)),
                Effect::Toast(toast) => self.toast(toast, now),
                Effect::Scope(scope) => jobs.extend(self.rescope(scope, now)),
                Effect::Resume(parked) => jobs.extend(self.resume(parked, now)),
                Effect::Task(mut task) => {
                    task.screen = id;
                    jobs.push(Job::Start(task));
                }
                Effect::Cancel(slot) => jobs.push(Job::Cancel(id, slot)),
                Effect::Act(action) => {
                    if self.shared.read_only {
                        self.toast(Toast::failed("read-only: nothing was changed"), now);
                    } else {
                        jobs.push(Job::Act(action));
                    }
                }
                Effect::Copy(text) => {
                    self.toast(Toast::note("copied"), now);
                    jobs.push(Job::Copy(text));
                }
                Effect::Save { name, text } => jobs.push(Job::Save(name, text)),
                Effect::Editor(text) => jobs.push(Job::Editor(id, text)),
                Effect::Mouse(capture) => jobs.push(Job::Mouse(capture)),
                Effect::Theme(name) => self.use_theme(&name, now),
                Effect::KeepTheme(name) => {
                    self.use_theme(&name, now);
                    if self.shared.theme.name == name {
                        let theme_over = self.setup.configured_theme.clone();
                        jobs.push(Job::Remember(Memory { theme: Some(name), theme_over }));
                    }
                }
                Effect::Prompt(text) => self.open_prompt(Ask::Command, text),
                Effect::TakeBack(index) => {
                    if let Some(action) = self.shared.journal.take_back(index) {
                        jobs.push(Job::Act(Box::new(action)));
                    }
                }
                Effect::Command(command) => jobs.extend(self.command(command, now)),
                Effect::Redraw => jobs.push(Job::Redraw),
                Effect::Quit => jobs.push(Job::Quit),
            }
        }
        jobs
    }

    fn open(&mut self, screen: Screen, now: Timestamp) -> Vec<Job> {
        self.next_id += 1;
        let id = ScreenId(self.next_id);
        self.screens.push((id, screen));
        // A stack nobody can look back over is no use; the oldest views above the first one go.
        let mut jobs = Vec::new();
        if self.screens.len() > 32 {
            let (gone, _) = self.screens.remove(1);
            jobs.push(Job::Close(gone));
        }
        jobs.extend(self.tell(id, now, ScreenMessage::Opened));
        jobs
    }

    fn back(&mut self, now: Timestamp) -> Vec<Job> {
        if self.screens.len() == 1 {
            return Vec::new();
        }
        let mut jobs = Vec::new();
        if let Some((id, screen)) = self.screens.pop() {
            let works = screen.background(&self.shared.context(id, now)).is_some();
            if works {
                self.parked.push((id, screen));
                self.toast(Toast::note("goes on in the background; :jobs brings it back"), now);
            } else {
                jobs.push(Job::Close(id));
            }
        }
        jobs.extend(self.tell_top(now, ScreenMessage::Shown));
        jobs
    }

    fn resume(&mut self, id: ScreenId, now: Timestamp) -> Vec<Job> {
        let Some(at) = self.parked.iter().position(|(known, _)| *known == id) else { return Vec::new() };
        let parked = self.parked.remove(at);
        self.screens.push(parked);
        self.tell_top(now, ScreenMessage::Shown)
    }

    fn rescope(&mut self, scope: Scope, now: Timestamp) -> Vec<Job> {
        if let Scope::One(name) = &scope
            && !self.shared.favourites.contains(name)
        {
            self.shared.favourites.insert(1.min(self.shared.favourites.len()), name.clone());
            self.shared.favourites.truncate(9);
        }
        self.shared.scope = scope;
        self.tell_top(now, ScreenMessage::Scoped)
    }

    fn use_theme(&mut self, name: &str, now: Timestamp) {
        let themes = library::all(self.setup.config_dir.as_deref());
        match themes.into_iter().find(|(known, _)| known == name) {
            Some((_, Ok(theme))) => self.shared.theme = theme.in_depth(self.setup.depth),
            Some((_, Err(error))) => self.toast(Toast::failed(error.to_string()), now),
            None => self.toast(Toast::failed(format!("no theme {name:?}")), now),
        }
    }

    fn key(&mut self, key: KeyEvent, now: Timestamp) -> Vec<Job> {
        self.dirty = true;
        if self.shared.cramped.get() {
            // Nobody sees what a key would do; only the way out stays open.
            let quit = self.shared.bindings.keys(Command::Quit).contains(&Key::of(key));
            let asked = self.dialog.as_ref().is_some_and(|(_, dialog)| dialog.interrupt == Interrupt::Submits);
            return match (quit, asked) {
                (false, _) => Vec::new(),
                (true, false) => self.ask_to_quit(),
                (true, true) => vec![Job::Quit],
            };
        }
        if let Some((id, mut dialog)) = self.dialog.take() {
            let cx = self.shared.context(id, now);
            return match dialog.key(&cx, key) {
                Answer::Open(effects) => {
                    self.dialog = Some((id, dialog));
                    self.apply(id, effects, now)
                }
                Answer::Closed(effects) => self.apply(id, effects, now),
            };
        }
        if let Some(mut prompt) = self.prompt.take() {
            let reply = prompt.key(key, &self.history);
            return self.prompted(prompt, reply, now);
        }
        let places = self.places(now);
        match self.shared.bindings.command(&places, Key::of(key)) {
            Some(command) => self.command(command, now),
            None => self.tell_top(now, ScreenMessage::Key(key)),
        }
    }

    fn paste(&mut self, text: &str, now: Timestamp) -> Vec<Job> {
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
        self.tell_top(now, ScreenMessage::Paste(text.to_owned()))
    }

    fn open_prompt(&mut self, ask: Ask, text: String) {
        let mut prompt = Prompt::new(ask, text);
        if ask == Ask::Command {
            prompt.suggestions = palette::suggest(&prompt.text, self);
        }
        self.prompt = Some(prompt);
    }

    fn prompted(&mut self, mut prompt: Prompt, reply: Reply, now: Timestamp) -> Vec<Job> {
        match (prompt.ask, reply) {
            (_, Reply::Same) => self.prompt = Some(prompt),
            (Ask::Command, Reply::Changed) => {
                prompt.suggestions = palette::suggest(&prompt.text, self);
                self.prompt = Some(prompt);
            }
            (Ask::Filter, Reply::Changed) => {
                prompt.error = self.query(&prompt.text, now).err();
                self.prompt = Some(prompt);
            }
            (Ask::Filter, Reply::Done(text)) => {
                if let Err(error) = self.query(&text, now) {
                    prompt.error = Some(error);
                    self.prompt = Some(prompt);
                }
            }
            (Ask::Filter, Reply::Left) => {
                let _ = self.query("", now);
            }
            (Ask::Command, Reply::Left) => {}
            (Ask::Command, Reply::Done(text)) => {
                let text = text.trim().to_owned();
                if text.is_empty() {
                    return Vec::new();
                }
                // What is shown dim behind the cursor is what Enter means, unless the text is whole by itself.
                let meant = prompt.suggestions.first().filter(|best| best.starts_with(&text)).cloned();
                let (text, ran) = match (palette::run(&text, self), meant) {
                    (Err(_), Some(meant)) => (meant.clone(), palette::run(&meant, self)),
                    (ran, _) => (text, ran),
                };
                match ran {
                    Ok(effects) => {
                        self.remember(&text);
                        let id = self.top().0;
                        return self.apply(id, effects, now);
                    }
                    Err(error) => {
                        prompt.error = Some(error);
                        self.prompt = Some(prompt);
                    }
                }
            }
        }
        Vec::new()
    }

    fn remember(&mut self, text: &str) {
        self.last_view = self.history.last().cloned();
        self.history.retain(|old| old != text);
        self.history.push(text.to_owned());
        if self.history.len() > 100 {
            self.history.remove(0);
        }
        self.history_at = self.history.len();
    }

    fn query(&mut self, text: &str, now: Timestamp) -> Result<(), String> {
        let (id, screen) = self.screens.last_mut().expect("the stack is never empty");
        screen.set_query(&self.shared.context(*id, now), text)
    }

    fn walk_history(&mut self, at: Option<usize>, now: Timestamp) -> Vec<Job> {
        let Some(text) = at.and_then(|at| self.history.get(at)).cloned() else { return Vec::new() };
        self.history_at = at.unwrap_or_default();
        match palette::run(&text, self) {
            Ok(effects) => {
                let id = self.top().0;
                self.apply(id, effects, now)
            }
            Err(_) => Vec::new(),
        }
    }

    fn command(&mut self, command: Command, now: Timestamp) -> Vec<Job> {
        if self.shared.read_only && command.entry().touches == Touches::Cluster {
            self.toast(
                Toast::failed(format!("read-only: {} changes the cluster", command.entry().name)),
                now,
            );
            return Vec::new();
        }
        match command {
            Command::Prompt => self.open_prompt(Ask::Command, String::new()),
            Command::Filter => {
                let text = self.top().1.query().to_owned();
                self.open_prompt(Ask::Filter, text);
            }
            Command::Help => {
                let places = self.places(now);
                return self.open(Help::new(places).into(), now);
            }
            Command::Back => {
                if self.toasts.dismiss() {
                    return Vec::new();
                }
                if !self.top().1.query().is_empty() {
                    let _ = self.query("", now);
                    return Vec::new();
                }
                return self.back(now);
            }
            Command::Leave if self.screens.len() > 1 => return self.back(now),
            Command::Leave | Command::Quit => return self.ask_to_quit(),
            Command::HistoryBack => return self.walk_history(self.history_at.checked_sub(1), now),
            Command::HistoryForward => return self.walk_history(Some(self.history_at + 1), now),
            Command::LastView => {
                if let Some(text) = self.last_view.clone() {
                    self.last_view = self.history.last().cloned();
                    let at = self.history.iter().position(|old| *old == text);
                    return self.walk_history(at, now);
                }
            }
            Command::Aliases => return self.open(Kinds::default().into(), now),
            Command::OpenJournal => return self.open(JournalScreen::default().into(), now),
            // The overview is the bottom of the stack; going there leaves everything above.
            Command::OpenOverview => {
                let mut jobs = Vec::new();
                while self.screens.len() > 1 {
                    jobs.extend(self.back(now));
                }
                return jobs;
            }
            Command::ThemeNext => {
                let dialog = palette::theme_dialog(self);
                self.dialog = Some((self.top().0, Box::new(dialog)));
            }
            Command::ToggleHeader => self.header = !self.header,
            Command::Refresh => {
                let mut jobs = vec![Job::Redraw];
                jobs.extend(self.tell_top(now, ScreenMessage::Command(command)));
                return jobs;
            }
            Command::AllNamespaces => return self.rescope(Scope::All, now),
            _ => {
                if let Some(index) = palette::namespace_key(command) {
                    let Some(name) = self.shared.favourites.get(index).cloned() else { return Vec::new() };
                    return self.rescope(Scope::One(name), now);
                }
                return self.tell_top(now, ScreenMessage::Command(command));
            }
        }
        Vec::new()
    }

    fn ask_to_quit(&mut self) -> Vec<Job> {
        let id = self.top().0;
        let works = self.parked.len();
        if self.stopping.is_some() || (self.setup.quit_warning.is_empty() && works == 0) {
            return vec![Job::Quit];
        }
        let mut dialog = Dialog::new("Leave", "Leave", |_, _| Ok(vec![Effect::Quit]));
        if !self.setup.quit_warning.is_empty() {
            dialog = dialog.line(self.setup.quit_warning.clone());
        }
        if works > 0 {
            dialog = dialog.warning(format!("{works} under way in the background will be stopped."));
        }
        dialog.focus = Focus::Submit;
        dialog.interrupt = Interrupt::Submits;
        self.dialog = Some((id, Box::new(dialog)));
        Vec::new()
    }
}
