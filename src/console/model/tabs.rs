//! Tabs: several stacks of screens. Each has its own namespace scope, history and dialog; the state of its screens
//! (filter, cursor, scroll position, point in time) stays with them.
//!
//! The model's own fields hold the front tab; the others wait in [`Tabs`]. While the model handles a message for a
//! screen of another tab, the two are swapped, so that its effects (open, leave, ask) apply to its own tab.
//!
//! Invariant: a tab's stack is never empty; `at` is at most the number of the other tabs.

use std::collections::VecDeque;

use jiff::Timestamp;

use super::split::SplitPane;
use super::{Job, Model, palette};
use base::sort::SliceOrder;
use console_data::context::{Context, ScreenId};
use console_data::message::ScreenMessage;
use console_data::resource::ClusterId;
use console_data::scope::Scope;
use console_operations::effect::{Dialog, Effect};
use console_screens::Screen;
use console_screens::overview::Overview;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::prompt::Prompt;
use console_toolkit::toast::Toast;

/// The maximum number of tabs: one per digit key.
const MAX_TABS: usize = 9;

/// A tab that is not in front.
#[derive(Debug)]
pub(crate) struct Tab {
    pub(super) screens: Vec<(ScreenId, Screen)>,
    pub(super) split: Option<SplitPane>,
    pub(super) scope: Scope,
    pub(super) dialog: Option<(ScreenId, Box<Dialog>)>,
    pub(super) asking: VecDeque<(ScreenId, Box<Dialog>)>,
    pub(super) prompt: Option<Prompt>,
    pub(super) history: Vec<String>,
    pub(super) history_at: usize,
    pub(super) current_view: Option<String>,
    pub(super) last_view: Option<String>,
    /// Work in the tab ended or opened a dialog, and the user has not seen it.
    pub(super) calls: bool,
    /// The number of the last visit to the tab: the greater, the more recently it was in front.
    pub(super) last_visit: u64,
}

/// The tabs that are not in front, in order, and the position of the front tab.
#[derive(Debug, Default)]
pub(crate) struct Tabs {
    away: Vec<Tab>,
    at: usize,
    /// A tab that is not visible is in the model's fields at present.
    is_hidden_tab_swapped_in: bool,
    visits: u64,
}

/// The title of a tab in the bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TabTitle {
    /// The title of its top screen, and the namespace.
    pub(crate) text: String,
    pub(crate) front: bool,
    /// Work in the tab ended or opened a dialog.
    pub(crate) calls: bool,
}

impl Tab {
    /// Returns the screens of its panes.
    pub(super) fn screens(&self) -> impl Iterator<Item = &(ScreenId, Screen)> {
        self.screens.iter().chain(self.split.iter().flat_map(|split| &split.other))
    }

    fn has(&self, id: ScreenId) -> bool {
        self.screens().any(|(known, _)| *known == id)
    }
}

impl Tabs {
    /// Returns the other tabs in order.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Tab> {
        self.away.iter()
    }

    /// Returns the index of the front tab, from zero.
    pub(super) fn number(&self) -> usize {
        self.at
    }

    /// Returns the number of tabs, including the front one.
    pub(crate) fn count(&self) -> usize {
        self.away.len() + 1
    }

    /// Returns the other tabs, the most recently used first.
    pub(super) fn away(&self) -> impl Iterator<Item = &Tab> {
        let mut away: Vec<&Tab> = self.away.iter().collect();
        away.order_by_key(|tab| std::cmp::Reverse(tab.last_visit));
        away.into_iter()
    }

    /// Converts a tab's index, from zero, into its position among the other tabs.
    fn tab_index(&self, number: usize) -> usize {
        if number < self.at { number } else { number - 1 }
    }
}

impl Model {
    /// Returns the titles of the tabs in order.
    pub(crate) fn tab_titles(&self, now: Timestamp) -> Vec<TabTitle> {
        let title = |screens: &[(ScreenId, Screen)], scope: &Scope| {
            let Some((id, screen)) = screens.last() else { return String::new() };
            let cx = Context { scope, ..self.shared.context_of(*id, now) };
            let title = match (scope, screen) {
                // The view of one object has the namespace in its title.
                (Scope::One(namespace), Screen::Table(_) | Screen::Overview(_)) => {
                    format!("{} {namespace}", screen.title(&cx))
                }
                _ => screen.title(&cx),
            };
            match id.cluster() {
                ClusterId::HOME => title,
                cluster => format!("{title} @{}", self.shared.cluster_name(cluster)),
            }
        };
        let away = self.tabs.away.iter();
        let mut titles: Vec<TabTitle> = away
            .map(|tab| TabTitle {
                text: title(&tab.screens, &tab.scope),
                front: false,
                calls: tab.calls || tab.dialog.is_some(),
            })
            .collect();
        let front = TabTitle { text: title(&self.screens, &self.shared.scope), front: true, calls: false };
        titles.insert(self.tabs.at, front);
        titles
    }

    /// Returns every screen, in all tabs and in the background.
    pub(super) fn all_screens(&self) -> impl Iterator<Item = &(ScreenId, Screen)> {
        let away = self.tabs.away.iter().flat_map(Tab::screens);
        let other = self.split.iter().flat_map(|split| &split.other);
        self.screens.iter().chain(other).chain(away).chain(&self.parked)
    }

    /// Finds a screen in any tab.
    pub(super) fn screen_mut(&mut self, id: ScreenId) -> Option<&mut Screen> {
        let away = self.tabs.away.iter_mut().flat_map(|tab| {
            tab.screens.iter_mut().chain(tab.split.iter_mut().flat_map(|split| &mut split.other))
        });
        let other = self.split.iter_mut().flat_map(|split| &mut split.other);
        let mut all = self.screens.iter_mut().chain(other).chain(away).chain(&mut self.parked);
        all.find(|(known, _)| *known == id).map(|(_, screen)| screen)
    }

    /// Returns every open or waiting dialog, with its screen and cluster.
    pub(super) fn open_dialogs(&self) -> impl Iterator<Item = &(ScreenId, Box<Dialog>)> {
        let away = self.tabs.away.iter().flat_map(|tab| tab.dialog.iter().chain(&tab.asking));
        self.dialog.iter().chain(&self.asking).chain(away)
    }

    pub(super) fn is_visible(&self, id: ScreenId) -> bool {
        let other = self.other_top().is_some_and(|(other, _)| *other == id);
        !self.tabs.is_hidden_tab_swapped_in && (self.top().0 == id || other)
    }

    /// If the model's fields hold a hidden tab, marks that tab in the bar.
    pub(super) fn call_for_attention(&mut self) {
        // `trade` moves the flag from the model to the tab.
        if self.tabs.is_hidden_tab_swapped_in {
            self.needs_attention = true;
        }
    }

    fn trade(&mut self, place: usize) {
        use std::mem::swap;
        let tab = &mut self.tabs.away[place];
        swap(&mut self.screens, &mut tab.screens);
        swap(&mut self.split, &mut tab.split);
        swap(&mut self.shared.scope, &mut tab.scope);
        swap(&mut self.dialog, &mut tab.dialog);
        swap(&mut self.asking, &mut tab.asking);
        swap(&mut self.prompt, &mut tab.prompt);
        swap(&mut self.history, &mut tab.history);
        swap(&mut self.history_at, &mut tab.history_at);
        swap(&mut self.current_view, &mut tab.current_view);
        swap(&mut self.last_view, &mut tab.last_view);
        swap(&mut self.needs_attention, &mut tab.calls);
    }

    /// Runs code with another tab in place of the front one.
    fn visit(&mut self, place: usize, f: impl FnOnce(&mut Self) -> Vec<Job>) -> Vec<Job> {
        self.trade(place);
        let seen = std::mem::replace(&mut self.tabs.is_hidden_tab_swapped_in, true);
        let jobs = f(self);
        self.tabs.is_hidden_tab_swapped_in = seen;
        self.trade(place);
        jobs
    }

    #[cfg(test)]
    pub(super) fn visit_for_test(&mut self, index: usize, f: impl FnOnce(&mut Self) -> Vec<Job>) -> Vec<Job> {
        self.visit(index, f)
    }

    /// Delivers a message to a screen of another tab; does nothing if no tab has it.
    pub(super) fn deliver_away(&mut self, id: ScreenId, now: Timestamp, message: ScreenMessage) -> Vec<Job> {
        match self.tabs.away.iter().position(|tab| tab.has(id)) {
            // While a tab is swapped in, screens of other tabs are reached through messages only.
            Some(place) if !self.tabs.is_hidden_tab_swapped_in => {
                self.visit(place, |model| model.deliver(id, now, message))
            }
            _ => Vec::new(),
        }
    }

    /// Delivers a message to the first screen of every pane of every tab, except for visible ones.
    pub(super) fn deliver_to_hidden_roots(
        &mut self,
        now: Timestamp,
        message: impl Fn() -> ScreenMessage,
    ) -> Vec<Job> {
        let first = |stack: &Vec<(ScreenId, Screen)>| stack.first().map(|(id, _)| *id);
        let stacks = std::iter::once(&self.screens).chain(self.split.iter().map(|split| &split.other));
        let mut ids: Vec<ScreenId> = stacks.filter(|stack| stack.len() > 1).filter_map(first).collect();
        for tab in &self.tabs.away {
            let stacks = std::iter::once(&tab.screens).chain(tab.split.iter().map(|split| &split.other));
            ids.extend(stacks.filter_map(first));
        }
        ids.retain(|id| id.cluster() == self.shared.front);
        ids.into_iter().flat_map(|id| self.deliver(id, now, message())).collect()
    }

    /// Opens a tab beside the front one and switches to it; with the view of a `:` command.
    pub(super) fn new_tab(&mut self, text: Option<&str>, now: Timestamp) -> Vec<Job> {
        if self.tabs.is_hidden_tab_swapped_in {
            return Vec::new();
        }
        if self.tabs.count() >= MAX_TABS {
            self.toast(Toast::failed(format!("{MAX_TABS} tabs are open, which is the maximum")), now);
            return Vec::new();
        }
        self.next_id += 1;
        self.tabs.visits += 1;
        let id = ScreenId::new(self.next_id, ClusterId::HOME);
        let tab = Tab {
            screens: vec![(id, Overview::default().into())],
            split: None,
            scope: self.shared.scope.clone(),
            dialog: None,
            asking: VecDeque::new(),
            prompt: None,
            // The command history is copied; its position starts at the end.
            history: self.history.clone(),
            history_at: self.history.len(),
            current_view: None,
            last_view: None,
            calls: false,
            last_visit: self.tabs.visits,
        };
        // The front tab takes the new one's position among the others.
        self.tabs.away.insert(self.tabs.at, tab);
        self.trade(self.tabs.at);
        self.tabs.at += 1;
        self.dirty = true;
        let mut jobs = self.deliver_to_top(now, ScreenMessage::Opened);
        if let Some(text) = text {
            match palette::run(text, self) {
                Ok(effects) => {
                    self.remember(text);
                    let id = self.top_screen_id();
                    jobs.extend(self.apply(id, effects, now));
                }
                Err(error) => self.toast(Toast::failed(error), now),
            }
        }
        jobs
    }

    /// Switches to a tab by its index, from zero.
    pub(super) fn select_tab(&mut self, number: usize, now: Timestamp) -> Vec<Job> {
        let count = self.tabs.count();
        if self.tabs.is_hidden_tab_swapped_in || number == self.tabs.at {
            return Vec::new();
        }
        if number >= count {
            let there =
                if count == 1 { "only one tab is open".to_owned() } else { format!("{count} tabs are open") };
            self.toast(Toast::info(there), now);
            return Vec::new();
        }
        let place = self.tabs.tab_index(number);
        self.trade(place);
        self.tabs.visits += 1;
        let mut left = self.tabs.away.remove(place);
        left.last_visit = self.tabs.visits;
        self.tabs.away.insert(if number < self.tabs.at { self.tabs.at - 1 } else { self.tabs.at }, left);
        self.tabs.at = number;
        self.needs_attention = false;
        self.dirty = true;
        self.deliver_to_visible(now, || ScreenMessage::Shown)
    }

    /// Switches to the next or previous tab, cyclically.
    pub(super) fn step_tab(&mut self, forward: bool, now: Timestamp) -> Vec<Job> {
        let count = self.tabs.count();
        if count == 1 {
            let key = self.shared.bindings.key(Command::TabNew);
            let key = key.map(|key| format!("{key} or ")).unwrap_or_default();
            self.toast(Toast::info(format!("only one tab is open; {key}:tab opens another")), now);
            return Vec::new();
        }
        let step = if forward { 1 } else { count - 1 };
        self.select_tab((self.tabs.at + step) % count, now)
    }

    /// Closes the front tab; work in it continues in the background.
    pub(super) fn close_tab(&mut self, now: Timestamp) -> Vec<Job> {
        if self.tabs.is_hidden_tab_swapped_in {
            return Vec::new();
        }
        if self.tabs.count() == 1 {
            self.toast(Toast::info("the last tab cannot be closed"), now);
            return Vec::new();
        }
        let mut jobs = self.close_second(now);
        jobs.extend(self.back_to_the_first(now));
        if let Some((id, screen)) = self.screens.pop() {
            jobs.extend(self.leave(id, screen, now));
        }
        // The tab to the right comes to the front, or the last one.
        let number = if self.tabs.at < self.tabs.away.len() { self.tabs.at } else { self.tabs.at - 1 };
        let place = self.tabs.at.min(self.tabs.away.len() - 1);
        self.trade(place);
        self.tabs.away.remove(place);
        self.tabs.at = number;
        self.needs_attention = false;
        self.dirty = true;
        jobs.extend(self.deliver_to_visible(now, || ScreenMessage::Shown));
        jobs
    }

    /// Switches to the tab with a screen and brings that to the top; `None` if no tab has it.
    pub(super) fn select_tab_of(&mut self, id: ScreenId, now: Timestamp) -> Option<Vec<Job>> {
        let place = self.tabs.away.iter().position(|tab| tab.has(id))?;
        let mut jobs = self.select_tab(if place < self.tabs.at { place } else { place + 1 }, now);
        jobs.extend(self.resume(id, now));
        Some(jobs)
    }

    /// Parses the arguments of `:tab`: a number, or the view of a new tab.
    pub(crate) fn tab_effects(&self, arguments: &[&str]) -> Result<Vec<Effect>, String> {
        match arguments {
            [] => Ok(vec![Effect::NewTab(None)]),
            [number] if number.chars().all(|c| c.is_ascii_digit()) => {
                let number =
                    number.parse::<usize>().ok().filter(|number| (1..=self.tabs.count()).contains(number));
                let number = number.ok_or_else(|| format!("tabs are numbered 1 to {}", self.tabs.count()))?;
                Ok(vec![Effect::GoToTab(number - 1)])
            }
            words => {
                let text = words.join(" ");
                // The command runs in the new tab; errors appear here.
                let effects = palette::run(&text, self)?;
                let opens = |effect: &Effect| match effect {
                    Effect::Open(_)
                    | Effect::OpenMultiCluster(..)
                    | Effect::AfterDiscovery(..)
                    | Effect::ShowContexts
                    | Effect::ShowForwards => true,
                    // Commands of a screen need a selection, which the new tab does not have.
                    Effect::Command(command) => command.entry().context == KeyContext::Everywhere,
                    _ => false,
                };
                if !effects.iter().any(opens) {
                    return Err(format!("{text:?} does not open a view"));
                }
                Ok(vec![Effect::NewTab(Some(text))])
            }
        }
    }
}
