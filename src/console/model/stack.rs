//! The stack of screens: messages to them, effects from them, and where a screen goes when it is left.

use jiff::Timestamp;

use super::{Job, Model};
use crate::command::KeyContext;
use crate::context::ScreenId;
use crate::effect::{Dialog, Effect};
use crate::memory::Memory;
use crate::message::{Data, ScreenMessage};
use crate::moment::Go;
use crate::past;
use crate::prompt::PromptKind;
use crate::resource::ClusterId;
use crate::scope::Scope;
use crate::screen::contexts::Contexts;
use crate::screen::forwards::{Forwards, ForwardsData};
use crate::screen::overview::Overview;
use crate::screen::{Screen, View};
use crate::terminal::contained;
use crate::text::clean;
use crate::toast::Toast;

/// Screens that are kept at most, those that work among them.
const PARKED: usize = 32;

/// Results of work that is over, kept for being looked at again.
const RESULTS: usize = 8;

/// Whether the user is asked about what would end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Before anything is done.
    First,
    /// That was done.
    Done,
}

impl Model {
    pub(super) fn deliver_to_top(&mut self, now: Timestamp, message: ScreenMessage) -> Vec<Job> {
        let id = self.top().0;
        self.deliver(id, now, message)
    }

    pub(super) fn deliver(&mut self, id: ScreenId, now: Timestamp, message: ScreenMessage) -> Vec<Job> {
        let mut all = self.screens.iter_mut().chain(self.parked.iter_mut());
        let Some((known, screen)) = all.find(|(known, _)| *known == id) else {
            return match self.deliver_to_other_pane(id, now, message) {
                Ok(jobs) => jobs,
                Err(message) => self.deliver_away(id, now, message),
            };
        };
        // Whoever sent it on which cluster: the screen looks at its own.
        let id = *known;
        let cx = self.shared.context_of(id, now);
        let was_past = screen.moment().is_some();
        let updated = contained(|| screen.update(&cx, message));
        let has_left_the_past = was_past && screen.moment().is_none();
        let mut jobs = match updated {
            Ok(effects) => self.apply(id, effects, now),
            Err(why) => return self.lose(id, &why, now),
        };
        if has_left_the_past {
            jobs.extend(self.leave_the_past(now));
        }
        jobs
    }

    /// Brings every view of the stack to now: once the past is left, the way back does not lead there again.
    pub(super) fn leave_the_past(&mut self, now: Timestamp) -> Vec<Job> {
        let of_the_past = self.screens.iter().filter(|(_, screen)| screen.moment().is_some());
        let ids: Vec<ScreenId> = of_the_past.map(|(id, _)| *id).collect();
        ids.into_iter().flat_map(|id| self.deliver(id, now, ScreenMessage::Travel(Go::Live))).collect()
    }

    /// Closes a screen that panicked: what it holds may be half changed. The first one begins anew.
    fn lose(&mut self, id: ScreenId, why: &str, now: Timestamp) -> Vec<Job> {
        let is = |(known, _): &(ScreenId, Screen)| *known == id;
        let mut jobs = vec![Job::Close(id)];
        self.dirty = true;
        let why = clean(why).into_owned();
        self.toast(Toast::failed(format!("a view failed and was closed, the log has more: {why}")), now);
        if let Some(at) = self.parked.iter().position(is) {
            self.parked.remove(at);
            return jobs;
        }
        let Some(at) = self.screens.iter().position(is) else { return jobs };
        self.screens.remove(at);
        self.dialog = self.dialog.take().filter(|(of, _)| *of != id);
        if self.screens.is_empty() {
            // Not opened, which may be what failed: what changes next it takes in.
            self.next_id += 1;
            let id = ScreenId::new(self.next_id, ClusterId::HOME);
            self.screens.push((id, Overview::default().into()));
        } else if at == self.screens.len() {
            jobs.extend(self.deliver_to_top(now, ScreenMessage::Shown));
        }
        jobs
    }

    /// Carries effects out, those of `id`, on its cluster.
    pub(super) fn apply(&mut self, id: ScreenId, effects: Vec<Effect>, now: Timestamp) -> Vec<Job> {
        if id.cluster() != self.shared.front {
            return self.in_cluster(id.cluster(), |model| model.apply(id, effects, now));
        }
        let mut jobs = Vec::new();
        for effect in effects {
            self.dirty = true;
            match effect {
                Effect::Open(route) => {
                    if !route.is_of_the_past() && self.tell_of_leaving_the_past(now) {
                        jobs.extend(self.leave_the_past(now));
                    }
                    jobs.extend(self.open(route.into(), now));
                }
                Effect::OpenOver(contexts, route) => jobs.extend(self.open_over(&contexts, *route, now)),
                Effect::WhenKnown(contexts, text) => self.wait_for_kinds(&contexts, text, now),
                Effect::On(cluster, effects) => jobs.extend(self.apply(id.on(cluster), effects, now)),
                Effect::AskEach(questions) => {
                    for (cluster, dialog) in questions {
                        self.ask(id.on(cluster), dialog);
                    }
                }
                Effect::Send(data) => jobs.extend(self.deliver(id, now, ScreenMessage::Data(data))),
                Effect::Back => jobs.extend(self.back(now)),
                Effect::ShowDialog(dialog) => {
                    self.ask_at_once(id, dialog);
                }
                Effect::Toast(toast) => self.toast(toast, now),
                Effect::BackgroundToast(toast) => {
                    self.call_for_attention();
                    if !self.is_seen(id) {
                        self.toast(toast, now);
                    }
                }
                Effect::KeepSort(resource, order) => self.shared.sorts.keep(resource, order),
                Effect::Scope(scope) => jobs.extend(self.rescope(scope, now)),
                Effect::ShowContexts => {
                    let contexts = Contexts::new(self.setup.home.clone(), self.setup.context.clone());
                    jobs.extend(self.open(contexts.into(), now));
                }
                Effect::ListContexts => jobs.push(Job::ListContexts(id)),
                Effect::UseContext(name) => jobs.extend(self.go_to_context(id, name, Asks::First, now)),
                Effect::LeaveForContext(name) => jobs.extend(self.go_to_context(id, name, Asks::Done, now)),
                Effect::Travel(go) => jobs.extend(self.travel(go, now)),
                Effect::Resume(parked) => match self.go_to_the_tab_of(parked, now) {
                    Some(gone) => jobs.extend(gone),
                    None => jobs.extend(self.resume(parked, now)),
                },
                Effect::NewTab(text) => jobs.extend(self.new_tab(text.as_deref(), now)),
                Effect::Split(way, shows) => jobs.extend(self.split_panes(way, shows, now)),
                Effect::GoToTab(number) => jobs.extend(self.go_to_tab(number, now)),
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
                Effect::Run(run) => jobs.extend(self.start_run(*run, now)),
                Effect::Tour(asked) => self.tour(asked, now),
                Effect::RunPlugin(name) => jobs.extend(self.run_plugin_called(&name, now)),
                Effect::Forward(_) | Effect::Undo(_) if self.shared.read_only => {
                    self.toast(Toast::failed("read-only: nothing was changed"), now);
                }
                Effect::Forward(forward) => {
                    let id = self.forwards(now, &mut jobs);
                    let start = ScreenMessage::Data(Data::new(ForwardsData::Start(forward)));
                    jobs.extend(self.deliver(id, now, start));
                }
                Effect::ShowForwards => {
                    let id = self.forwards(now, &mut jobs);
                    match self.go_to_the_tab_of(id, now) {
                        Some(gone) => jobs.extend(gone),
                        None => jobs.extend(self.resume(id, now)),
                    }
                }
                Effect::Copy(text) => {
                    self.toast(Toast::copied(&text), now);
                    jobs.push(Job::Copy(text));
                }
                Effect::Save { name, text } => jobs.push(Job::Save(name, text)),
                Effect::ReadDraft(target) => jobs.extend(self.read_draft(id, &target)),
                Effect::KeepDraft(draft) => jobs.extend(self.keep_draft(draft)),
                Effect::ForgetDraft(target) => jobs.extend(self.forget_draft(&target)),
                Effect::Editor(text) => jobs.push(Job::Editor(id, text)),
                Effect::EditFile(path) => jobs.push(Job::EditFile(id, path)),
                Effect::Theme(name) => self.use_theme(&name, now),
                Effect::KeepTheme(name) => {
                    self.use_theme(&name, now);
                    if self.shared.theme.name == name {
                        let theme_over = self.setup.configured_theme.clone();
                        jobs.push(Job::Remember(Memory { theme: Some(name), theme_over }));
                    }
                }
                Effect::Prompt(text) => self.open_prompt(PromptKind::Command, text),
                Effect::Undo(id) => {
                    let back = self.shared.journal.undo(id);
                    jobs.extend(back.map(|action| Job::Act(Box::new(action))));
                }
                Effect::Command(command) => jobs.extend(self.command(command, now)),
                Effect::Redraw => jobs.push(Job::Redraw),
                Effect::RestoreTabs => jobs.extend(self.restore_what_was_offered(now)),
                Effect::Quit => jobs.push(Job::Quit),
            }
        }
        jobs
    }

    /// Says that a view that opens over one of the past shows what is now; whether the top view is of the past.
    fn tell_of_leaving_the_past(&mut self, now: Timestamp) -> bool {
        let Some(moment) = self.top().1.moment() else { return false };
        let note = format!("this is now: the view before was of {}", moment.short());
        self.toast(Toast::note(note), now);
        true
    }

    /// Asks the user, in the place of what is asked now: a dialog may lead to another. What is being typed into the line
    /// at the bottom goes on: the question waits for its end.
    fn ask_at_once(&mut self, id: ScreenId, mut dialog: Box<Dialog>) {
        if self.prompt.is_some() {
            self.say_where(id, &mut dialog);
            self.asking.push_back((id, dialog));
            return;
        }
        self.call_for_attention();
        self.say_where(id, &mut dialog);
        self.dialog = Some((id, dialog));
    }

    /// Asks the user, after what is asked already.
    fn ask(&mut self, id: ScreenId, mut dialog: Box<Dialog>) {
        if self.dialog.is_none() {
            return self.ask_at_once(id, dialog);
        }
        self.say_where(id, &mut dialog);
        self.asking.push_back((id, dialog));
    }

    /// A question of one of several clusters says of which.
    fn say_where(&self, id: ScreenId, dialog: &mut Dialog) {
        if self.shared.has_several() {
            dialog.place = Some(self.shared.cluster_name(id.cluster()).to_owned());
        }
    }

    /// Asks what is to be asked next, where nothing is asked now and no command or filter is being typed.
    pub(super) fn ask_the_next(&mut self) {
        if self.dialog.is_none() && self.prompt.is_none() {
            self.dialog = self.asking.pop_front();
        }
    }

    /// Hands data of a screen's task to the screen's dialog: to the open one, else to the first that waits to be asked.
    pub(super) fn dialog_takes(&mut self, id: ScreenId, data: Data) {
        let mut dialogs = self.dialog.iter_mut().chain(&mut self.asking);
        if let Some((_, dialog)) = dialogs.find(|(of, _)| *of == id) {
            dialog.take_data(data);
            self.dirty = true;
        }
    }

    /// Goes to another cluster; what works in the background of this one would end, which is asked about.
    fn go_to_context(&mut self, id: ScreenId, name: Option<String>, asks: Asks, now: Timestamp) -> Vec<Job> {
        if name == self.setup.context {
            self.toast(Toast::note("it is the one that is looked at"), now);
            return Vec::new();
        }
        let works = |(id, screen): &&(ScreenId, Screen)| {
            screen.background(&self.shared.context_of(*id, now)).is_some()
        };
        let works = self.all_screens().filter(works).count();
        let whom = name.clone().unwrap_or_else(|| self.setup.home.0.clone());
        if works > 0 && asks == Asks::First {
            let go = name.clone();
            let dialog = Dialog::new(format!("Go to {}", clean(&whom)), "Go", move |_, _| {
                Ok(vec![Effect::LeaveForContext(go.clone())])
            });
            let dialog = dialog.warning(format!("{works} under way in the background here will be stopped."));
            self.dialog = Some((id, Box::new(dialog)));
            return Vec::new();
        }
        self.toast(Toast::note(format!("asking {} for an answer…", clean(&whom))), now);
        vec![Job::Connect(name)]
    }

    /// Goes elsewhere in time, where the top screen can.
    pub(super) fn travel(&mut self, go: Go, now: Timestamp) -> Vec<Job> {
        if !self.key_contexts(now).contains(&KeyContext::Moments) {
            let what = "the overview, tables, YAML and descriptions can be looked at as they were; this screen cannot";
            self.toast(Toast::note(what), now);
            return Vec::new();
        }
        // Whoever is at now goes on from there.
        if go == Go::Live && self.top().1.moment().is_none() {
            return Vec::new();
        }
        if go != Go::Live
            && let Some(why) = past::refused(&self.shared.catalogue)
        {
            self.toast(Toast::note(why), now);
            return Vec::new();
        }
        self.deliver_to_top(now, ScreenMessage::Travel(go))
    }

    /// The screen of port-forwards, of which each cluster has one: made out of sight where there is none.
    fn forwards(&mut self, now: Timestamp, jobs: &mut Vec<Job>) -> ScreenId {
        let front = self.shared.front;
        let is = |(id, screen): &&(ScreenId, Screen)| {
            matches!(screen, Screen::Forwards(_)) && id.cluster() == front
        };
        if let Some((id, _)) = self.all_screens().find(is) {
            return *id;
        }
        self.next_id += 1;
        let id = ScreenId::new(self.next_id, self.shared.front);
        self.parked.push((id, Forwards::default().into()));
        jobs.extend(self.deliver(id, now, ScreenMessage::Opened));
        id
    }

    pub(super) fn open(&mut self, screen: Screen, now: Timestamp) -> Vec<Job> {
        self.next_id += 1;
        let id = ScreenId::new(self.next_id, self.shared.front);
        self.screens.push((id, screen));
        // A stack nobody can look back over is no use; the oldest views above the first one go.
        let mut jobs = Vec::new();
        if self.screens.len() > 32 {
            let (gone, _) = self.screens.remove(1);
            jobs.push(Job::Close(gone));
        }
        jobs.extend(self.deliver(id, now, ScreenMessage::Opened));
        jobs
    }

    pub(super) fn back(&mut self, now: Timestamp) -> Vec<Job> {
        if self.screens.len() == 1 {
            // Nothing was below what a pane was made for.
            return if self.is_in_second() { self.close_second(now) } else { Vec::new() };
        }
        let mut jobs = Vec::new();
        if let Some((id, screen)) = self.screens.pop() {
            jobs.extend(self.leave(id, screen, now));
        }
        jobs.extend(self.deliver_to_top(now, ScreenMessage::Shown));
        jobs
    }

    /// What becomes of a screen that was taken from its stack: its work goes on, its result is kept, or it ends.
    pub(super) fn leave(&mut self, id: ScreenId, screen: Screen, now: Timestamp) -> Option<Job> {
        let cx = self.shared.context_of(id, now);
        let note = match (screen.background(&cx), screen.has_a_result(&cx)) {
            (Some(_), _) => "goes on in the background; :background brings it back",
            (None, true) => "its result is kept; :background brings it back",
            (None, false) => return Some(Job::Close(id)),
        };
        self.toast(Toast::note(note), now);
        self.park(id, screen, now)
    }

    /// Keeps a screen that was left. Of those that only have a result, the last few.
    fn park(&mut self, id: ScreenId, screen: Screen, now: Timestamp) -> Option<Job> {
        self.parked.push((id, screen));
        // Nobody has so many in mind; the oldest ends, but for the port-forwards, which are many in one.
        if self.parked.len() > PARKED
            && let Some(oldest) =
                self.parked.iter().position(|(_, screen)| !matches!(screen, Screen::Forwards(_)))
        {
            return Some(Job::Close(self.parked.remove(oldest).0));
        }
        let over = |(id, screen): &(ScreenId, Screen)| {
            screen.background(&self.shared.context_of(*id, now)).is_none()
        };
        if self.parked.iter().filter(|parked| over(parked)).count() <= RESULTS {
            return None;
        }
        let oldest = self.parked.iter().position(over)?;
        Some(Job::Close(self.parked.remove(oldest).0))
    }

    /// Leaves every screen above the first.
    pub(super) fn back_to_the_first(&mut self, now: Timestamp) -> Vec<Job> {
        let mut jobs = Vec::new();
        while self.screens.len() > 1 {
            jobs.extend(self.back(now));
        }
        jobs
    }

    pub(super) fn resume(&mut self, id: ScreenId, now: Timestamp) -> Vec<Job> {
        let at = |screens: &[(ScreenId, Screen)]| screens.iter().position(|(known, _)| *known == id);
        if self.split.as_ref().is_some_and(|split| at(&split.other).is_some()) {
            self.trade_panes();
        }
        let screen = match (at(&self.parked), at(&self.screens)) {
            (Some(at), _) => self.parked.remove(at),
            // It goes on below what is looked at now.
            (None, Some(at)) => self.screens.remove(at),
            (None, None) => return Vec::new(),
        };
        self.screens.push(screen);
        self.deliver_to_top(now, ScreenMessage::Shown)
    }

    pub(super) fn rescope(&mut self, scope: Scope, now: Timestamp) -> Vec<Job> {
        if let Scope::One(name) = &scope
            && !self.shared.favourites.contains(name)
        {
            self.shared.favourites.insert(1.min(self.shared.favourites.len()), name.clone());
            self.shared.favourites.truncate(9);
        }
        self.shared.scope = scope;
        self.deliver_to_seen(now, || ScreenMessage::Scoped)
    }
}
