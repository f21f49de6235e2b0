//! The stack of screens: delivers messages, applies effects, and handles closed screens.

use jiff::Timestamp;

use super::{Job, Model};
use crate::console_state::ConsoleState;
use crate::terminal::contained;
use console_data::context::ScreenId;
use console_data::message::{Data, ScreenMessage};
use console_data::past;
use console_data::point_in_time::TimeTravel;
use console_data::resource::ClusterId;
use console_data::scope::Scope;
use console_operations::effect::{Dialog, Effect, Route};
use console_screens::Screen;
use console_screens::contexts::Contexts;
use console_screens::forwards::{Forwards, ForwardsData};
use console_screens::overview::Overview;
use console_toolkit::command::KeyContext;
use console_toolkit::prompt::PromptKind;
use console_toolkit::text::{clean, counted};
use console_toolkit::toast::Toast;

/// The maximum number of closed screens that are retained, including those with active work.
const MAX_PARKED: usize = 32;

/// The maximum number of results of finished work that are retained for viewing.
const MAX_RESULTS: usize = 8;

/// The state of the confirmation before work ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CloseConfirmation {
    /// The user must confirm first.
    First,
    /// The user has confirmed.
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
        // Regardless of the sender's cluster, the screen uses its own.
        let id = *known;
        let cx = self.shared.context_of(id, now);
        let was_past = screen.moment().is_some();
        let updated = contained(|| screen.update(&cx, message));
        let has_left_the_past = was_past && screen.moment().is_none();
        let mut jobs = match updated {
            Ok(effects) => self.apply(id, effects, now),
            Err(why) => return self.close_panicked_screen(id, &why, now),
        };
        if has_left_the_past {
            jobs.extend(self.return_to_present(now));
        }
        jobs
    }

    /// Returns every view of the stack to the present, so that going back does not lead to the past again.
    pub(super) fn return_to_present(&mut self, now: Timestamp) -> Vec<Job> {
        let of_the_past = self.screens.iter().filter(|(_, screen)| screen.moment().is_some());
        let ids: Vec<ScreenId> = of_the_past.map(|(id, _)| *id).collect();
        ids.into_iter()
            .flat_map(|id| self.deliver(id, now, ScreenMessage::Travel(TimeTravel::Live)))
            .collect()
    }

    /// Closes a screen that panicked, because its state may be inconsistent. The first one is created again.
    fn close_panicked_screen(&mut self, id: ScreenId, reason: &str, now: Timestamp) -> Vec<Job> {
        let is = |(known, _): &(ScreenId, Screen)| *known == id;
        let mut jobs = vec![Job::Close(id)];
        self.dirty = true;
        let reason = clean(reason).into_owned();
        self.toast(
            Toast::failed(format!("a view failed and was closed; the log has details: {reason}")),
            now,
        );
        if let Some(at) = self.parked.iter().position(is) {
            self.parked.remove(at);
            return jobs;
        }
        let Some(at) = self.screens.iter().position(is) else { return jobs };
        self.screens.remove(at);
        self.dialog = self.dialog.take().filter(|(of, _)| *of != id);
        if self.screens.is_empty() {
            // `Opened` is not sent, because handling it may have caused the panic; the screen receives the next
            // changes.
            self.next_id += 1;
            let id = ScreenId::new(self.next_id, ClusterId::HOME);
            self.screens.push((id, Overview::default().into()));
        } else if at == self.screens.len() {
            jobs.extend(self.deliver_to_top(now, ScreenMessage::Shown));
        }
        jobs
    }

    /// Applies the effects of a screen, on its cluster.
    pub(super) fn apply(&mut self, id: ScreenId, effects: Vec<Effect>, now: Timestamp) -> Vec<Job> {
        if id.cluster() != self.shared.front {
            return self.in_cluster(id.cluster(), |model| model.apply(id, effects, now));
        }
        let mut jobs = Vec::new();
        for effect in effects {
            self.dirty = true;
            match effect {
                Effect::Open(route) => {
                    if !route.is_historical() && self.announce_present_view(now) {
                        jobs.extend(self.return_to_present(now));
                    }
                    jobs.extend(self.open(route.into(), now));
                }
                Effect::OpenMultiCluster(contexts, route) => {
                    jobs.extend(self.open_over(&contexts, *route, now));
                }
                Effect::AfterDiscovery(contexts, text) => self.wait_for_kinds(&contexts, text, now),
                Effect::InCluster(cluster, effects) => jobs.extend(self.apply(id.on(cluster), effects, now)),
                Effect::ShowDialogs(questions) => {
                    for (cluster, dialog) in questions {
                        self.queue_dialog(id.on(cluster), dialog);
                    }
                }
                Effect::Send(data) => jobs.extend(self.deliver(id, now, ScreenMessage::Data(data))),
                Effect::Back => jobs.extend(self.back(now)),
                Effect::ShowDialog(dialog) => {
                    self.replace_dialog(id, dialog);
                }
                Effect::Toast(toast) => self.toast(toast, now),
                Effect::BackgroundToast(toast) => {
                    self.call_for_attention();
                    if !self.is_visible(id) {
                        self.toast(toast, now);
                    }
                }
                Effect::SaveSort(resource, order) => self.shared.sorts.keep(resource, order),
                Effect::Scope(scope) => jobs.extend(self.rescope(scope, now)),
                Effect::ShowContexts => {
                    let contexts = Contexts::new(self.setup.home.clone(), self.setup.context.clone());
                    jobs.extend(self.open(contexts.into(), now));
                }
                Effect::ListContexts => jobs.push(Job::ListContexts(id)),
                Effect::UseContext(name) => {
                    jobs.extend(self.switch_context(id, name, CloseConfirmation::First, now));
                }
                Effect::LeaveForContext(name) => {
                    jobs.extend(self.switch_context(id, name, CloseConfirmation::Done, now));
                }
                Effect::Travel(go) => jobs.extend(self.travel(go, now)),
                Effect::Resume(parked) => match self.select_tab_of(parked, now) {
                    Some(gone) => jobs.extend(gone),
                    None => jobs.extend(self.resume(parked, now)),
                },
                Effect::NewTab(text) => jobs.extend(self.new_tab(text.as_deref(), now)),
                Effect::Split(way, shows) => jobs.extend(self.split_panes(way, shows, now)),
                Effect::GoToTab(number) => jobs.extend(self.select_tab(number, now)),
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
                Effect::Tour(command) => self.tour(command, now),
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
                    match self.select_tab_of(id, now) {
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
                Effect::SaveDraft(draft) => jobs.extend(self.keep_draft(draft)),
                Effect::RemoveDraft(key) => jobs.extend(self.forget_draft(key)),
                Effect::Editor(text) => jobs.push(Job::Editor(id, text)),
                Effect::EditFile(path) => jobs.push(Job::EditFile(id, path)),
                Effect::Theme(name) => self.use_theme(&name, now),
                Effect::SaveTheme(name) => {
                    self.use_theme(&name, now);
                    if self.shared.theme.name == name {
                        let theme_over = self.setup.configured_theme.clone();
                        jobs.push(Job::SaveState(ConsoleState { theme: Some(name), theme_over }));
                    }
                }
                Effect::Prompt(text) => self.open_prompt(PromptKind::Command, text),
                Effect::Undo(id) => {
                    let back = self.shared.cluster.journal.undo(id);
                    jobs.extend(back.map(|action| Job::Act(Box::new(action))));
                }
                Effect::Command(command) => jobs.extend(self.command(command, now)),
                Effect::Redraw => jobs.push(Job::Redraw),
                Effect::RestoreTabs => jobs.extend(self.restore_offered(now)),
                Effect::Quit => jobs.push(Job::Quit),
            }
        }
        jobs
    }

    /// If the top view shows the past, shows a toast that the view opened over it shows the present; returns whether
    /// that is so.
    fn announce_present_view(&mut self, now: Timestamp) -> bool {
        let Some(moment) = self.top().1.moment() else { return false };
        let note = format!("this view shows the present; the previous view showed {}", moment.short());
        self.toast(Toast::info(note), now);
        true
    }

    /// Shows a dialog in place of the present one, because a dialog may lead to another. A dialog does not interrupt
    /// typing in the prompt: it waits until the prompt is closed.
    fn replace_dialog(&mut self, id: ScreenId, mut dialog: Box<Dialog>) {
        if self.prompt.is_some() {
            self.add_cluster_to_title(id, &mut dialog);
            self.asking.push_back((id, dialog));
            return;
        }
        self.call_for_attention();
        self.add_cluster_to_title(id, &mut dialog);
        self.dialog = Some((id, dialog));
    }

    /// Shows a dialog after those that are open or waiting.
    fn queue_dialog(&mut self, id: ScreenId, mut dialog: Box<Dialog>) {
        if self.dialog.is_none() {
            return self.replace_dialog(id, dialog);
        }
        self.add_cluster_to_title(id, &mut dialog);
        self.asking.push_back((id, dialog));
    }

    /// Adds the cluster to a dialog if several are shown.
    fn add_cluster_to_title(&self, id: ScreenId, dialog: &mut Dialog) {
        if self.shared.has_several() {
            dialog.context = Some(self.shared.cluster_name(id.cluster()).to_owned());
        }
    }

    /// Shows the next waiting dialog, if none is open and the prompt is closed.
    pub(super) fn show_next_dialog(&mut self) {
        if self.dialog.is_none() && self.prompt.is_none() {
            self.dialog = self.asking.pop_front();
        }
    }

    /// Delivers data of a screen's task to the screen's dialog: to the open one, else to the first waiting one.
    pub(super) fn deliver_to_dialog(&mut self, id: ScreenId, data: Data) {
        let mut dialogs = self.dialog.iter_mut().chain(&mut self.asking);
        if let Some((_, dialog)) = dialogs.find(|(of, _)| *of == id) {
            dialog.take_data(data);
            self.dirty = true;
        }
    }

    /// Switches to another cluster; background work would end, so the user must confirm.
    fn switch_context(
        &mut self,
        id: ScreenId,
        name: Option<String>,
        confirmation: CloseConfirmation,
        now: Timestamp,
    ) -> Vec<Job> {
        if name == self.setup.context {
            self.toast(Toast::info("this cluster is already open"), now);
            return Vec::new();
        }
        let works = |(id, screen): &&(ScreenId, Screen)| {
            screen.background(&self.shared.context_of(*id, now)).is_some()
        };
        let works = self.all_screens().filter(works).count();
        let target = name.clone().unwrap_or_else(|| self.setup.home.0.clone());
        if works > 0 && confirmation == CloseConfirmation::First {
            let go = name.clone();
            let dialog = Dialog::new(format!("Switch to {}", clean(&target)), "Switch", move |_, _| {
                Ok(vec![Effect::LeaveForContext(go.clone())])
            });
            let dialog = dialog.warning(format!("{} will be stopped.", counted(works, "background task")));
            self.dialog = Some((id, Box::new(dialog)));
            return Vec::new();
        }
        self.toast(Toast::info(format!("connecting to {}…", clean(&target))), now);
        vec![Job::Connect(name)]
    }

    /// Travels in time, if the top screen can.
    pub(super) fn travel(&mut self, go: TimeTravel, now: Timestamp) -> Vec<Job> {
        if !self.key_contexts(now).contains(&KeyContext::TimeTravel) {
            let message = "this screen has no past; the overview, tables, YAML and descriptions have one";
            self.toast(Toast::info(message), now);
            return Vec::new();
        }
        // Already at the present.
        if go == TimeTravel::Live && self.top().1.moment().is_none() {
            return Vec::new();
        }
        if go != TimeTravel::Live
            && let Some(why) = past::refused(&self.shared.cluster.catalogue)
        {
            self.toast(Toast::info(why), now);
            return Vec::new();
        }
        self.deliver_to_top(now, ScreenMessage::Travel(go))
    }

    /// Returns the screen of port-forwards, one per cluster; creates it out of sight if necessary.
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
        let (top, present) = self.top();
        if top.cluster() == self.shared.front && present.is_same_view(&screen) {
            return Vec::new();
        }
        self.next_id += 1;
        let id = ScreenId::new(self.next_id, self.shared.front);
        self.screens.push((id, screen));
        // A very deep stack is useless; the oldest views above the first one are dropped.
        let mut jobs = Vec::new();
        if self.screens.len() > 32 {
            let (gone, _) = self.screens.remove(1);
            jobs.push(Job::Close(gone));
        }
        jobs.extend(self.deliver(id, now, ScreenMessage::Opened));
        jobs
    }

    /// Opens the builds and logs of the project that this console was started for.
    pub(crate) fn open_project(&mut self, now: Timestamp) -> Vec<Job> {
        self.open(Route::Project.into(), now)
    }

    pub(super) fn back(&mut self, now: Timestamp) -> Vec<Job> {
        if self.screens.len() == 1 {
            // The second pane's stack has only the view for which the pane was opened.
            return if self.is_in_second() { self.close_second(now) } else { Vec::new() };
        }
        let mut jobs = Vec::new();
        if let Some((id, screen)) = self.screens.pop() {
            jobs.extend(self.leave(id, screen, now));
        }
        jobs.extend(self.deliver_to_top(now, ScreenMessage::Shown));
        jobs
    }

    /// Handles a screen that was removed from its stack: its work continues, its result is retained, or it ends.
    pub(super) fn leave(&mut self, id: ScreenId, screen: Screen, now: Timestamp) -> Option<Job> {
        let cx = self.shared.context_of(id, now);
        let note = match (screen.background(&cx), screen.has_a_result(&cx)) {
            (Some(_), _) => "continues in the background; :background shows it",
            (None, true) => "is over; :background shows its result",
            (None, false) => return Some(Job::Close(id)),
        };
        let title = screen.title(&cx);
        self.toast(Toast::info(format!("{title} {note}")), now);
        self.park(id, screen, now)
    }

    /// Retains a closed screen. Of the screens that have only a result, the last [`MAX_RESULTS`] are retained.
    fn park(&mut self, id: ScreenId, screen: Screen, now: Timestamp) -> Option<Job> {
        self.parked.push((id, screen));
        // Over the limit, the oldest screen ends. The screen of port-forwards never does, because it contains many of
        // them.
        if self.parked.len() > MAX_PARKED
            && let Some(oldest) =
                self.parked.iter().position(|(_, screen)| !matches!(screen, Screen::Forwards(_)))
        {
            return Some(Job::Close(self.parked.remove(oldest).0));
        }
        let over = |(id, screen): &(ScreenId, Screen)| {
            screen.background(&self.shared.context_of(*id, now)).is_none()
        };
        if self.parked.iter().filter(|parked| over(parked)).count() <= MAX_RESULTS {
            return None;
        }
        let oldest = self.parked.iter().position(over)?;
        Some(Job::Close(self.parked.remove(oldest).0))
    }

    /// Closes every screen above the first.
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
            // The screen continues below the present one.
            (None, Some(at)) => self.screens.remove(at),
            (None, None) => return Vec::new(),
        };
        self.screens.push(screen);
        self.deliver_to_top(now, ScreenMessage::Shown)
    }

    pub(super) fn rescope(&mut self, scope: Scope, now: Timestamp) -> Vec<Job> {
        if let Scope::One(name) = &scope
            && !self.shared.cluster.favourites.contains(name)
        {
            self.shared.cluster.favourites.insert(1.min(self.shared.cluster.favourites.len()), name.clone());
            self.shared.cluster.favourites.truncate(9);
        }
        self.shared.scope = scope;
        self.deliver_to_visible(now, || ScreenMessage::ScopeChanged)
    }
}
