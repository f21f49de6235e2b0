//! Tabs: several stacks of screens side by side in time. Each has its own namespaces, history and dialog; what its
//! screens hold (filter, cursor, scroll, the moment they look at) stays with them.
//!
//! The tab in front is in the model's own fields, the others wait in [`Tabs`]. What comes for a screen of one of those is
//! taken in with the two traded for that long, so that what it does (open, leave, ask) happens to its own tab.
//!
//! Invariant: a tab's stack is never empty; `at` is at most the number of the others.

use std::collections::VecDeque;

use jiff::Timestamp;

use super::split::Split;
use super::{Job, Model, palette};
use crate::command::{Command, KeyContext};
use crate::context::{Context, ScreenId};
use crate::effect::{Dialog, Effect};
use crate::message::ScreenMessage;
use crate::prompt::Prompt;
use crate::resource::ClusterId;
use crate::scope::Scope;
use crate::screen::overview::Overview;
use crate::screen::{Screen, View};
use crate::toast::Toast;

/// Tabs at most: as many as there are digits to go to them by.
const MOST: usize = 9;

/// A tab that is not in front.
#[derive(Debug)]
pub(crate) struct Tab {
    pub(super) screens: Vec<(ScreenId, Screen)>,
    pub(super) split: Option<Split>,
    pub(super) scope: Scope,
    pub(super) dialog: Option<(ScreenId, Box<Dialog>)>,
    pub(super) asking: VecDeque<(ScreenId, Box<Dialog>)>,
    pub(super) prompt: Option<Prompt>,
    pub(super) history: Vec<String>,
    pub(super) history_at: usize,
    pub(super) current_view: Option<String>,
    pub(super) last_view: Option<String>,
    /// Something ended or is asked there that nobody has seen yet.
    pub(super) calls: bool,
    /// The greater, the later it was in front.
    pub(super) left: u64,
}

/// The tabs that are not in front, in their order, and the place of the one that is.
#[derive(Debug, Default)]
pub(crate) struct Tabs {
    away: Vec<Tab>,
    at: usize,
    /// A tab that nobody looks at is in the model's fields for now.
    out_of_sight: bool,
    left: u64,
}

/// One tab as the bar shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TabTitle {
    /// What is on top there, and the namespace.
    pub(crate) text: String,
    /// Whether it is in front.
    pub(crate) front: bool,
    /// Whether something ended or is asked there.
    pub(crate) calls: bool,
}

impl Tab {
    /// The screens of its panes.
    pub(super) fn screens(&self) -> impl Iterator<Item = &(ScreenId, Screen)> {
        self.screens.iter().chain(self.split.iter().flat_map(|split| &split.other))
    }

    fn has(&self, id: ScreenId) -> bool {
        self.screens().any(|(known, _)| *known == id)
    }
}

impl Tabs {
    /// The others in their order.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Tab> {
        self.away.iter()
    }

    /// The number of the one in front, counted from nought.
    pub(super) fn number(&self) -> usize {
        self.at
    }

    /// How many there are with the one in front.
    pub(crate) fn count(&self) -> usize {
        self.away.len() + 1
    }

    /// Those that are not in front, the one that was last in front first.
    pub(super) fn away(&self) -> impl Iterator<Item = &Tab> {
        let mut away: Vec<&Tab> = self.away.iter().collect();
        away.sort_by_key(|tab| std::cmp::Reverse(tab.left));
        away.into_iter()
    }

    /// The place among those away of the tab that has the number, counted from nought.
    fn place(&self, number: usize) -> usize {
        if number < self.at { number } else { number - 1 }
    }
}

impl Model {
    /// The tabs in their order.
    pub(crate) fn tab_titles(&self, now: Timestamp) -> Vec<TabTitle> {
        let title = |screens: &[(ScreenId, Screen)], scope: &Scope| {
            let Some((id, screen)) = screens.last() else { return String::new() };
            let cx = Context { scope, ..self.shared.context_of(*id, now) };
            let title = match (scope, screen) {
                // What is of one object has it in its title.
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

    /// Every screen there is, in front or not, on a stack or left while it works.
    pub(super) fn all_screens(&self) -> impl Iterator<Item = &(ScreenId, Screen)> {
        let away = self.tabs.away.iter().flat_map(Tab::screens);
        let other = self.split.iter().flat_map(|split| &split.other);
        self.screens.iter().chain(other).chain(away).chain(&self.parked)
    }

    /// A screen, wherever it is.
    pub(super) fn screen_mut(&mut self, id: ScreenId) -> Option<&mut Screen> {
        let away = self.tabs.away.iter_mut().flat_map(|tab| {
            tab.screens.iter_mut().chain(tab.split.iter_mut().flat_map(|split| &mut split.other))
        });
        let other = self.split.iter_mut().flat_map(|split| &mut split.other);
        let mut all = self.screens.iter_mut().chain(other).chain(away).chain(&mut self.parked);
        all.find(|(known, _)| *known == id).map(|(_, screen)| screen)
    }

    /// Every question that is open or waits, with the screen that asks it and the cluster that it is of.
    pub(super) fn asked(&self) -> impl Iterator<Item = &(ScreenId, Box<Dialog>)> {
        let away = self.tabs.away.iter().flat_map(|tab| tab.dialog.iter().chain(&tab.asking));
        self.dialog.iter().chain(&self.asking).chain(away)
    }

    /// Whether a screen is looked at.
    pub(super) fn is_seen(&self, id: ScreenId) -> bool {
        let other = self.other_top().is_some_and(|(other, _)| *other == id);
        !self.tabs.out_of_sight && (self.top().0 == id || other)
    }

    /// Says that something in the tab wants to be seen, where it is not in front.
    pub(super) fn call_for_attention(&mut self) {
        // The tab traded its place with the one in front: `visit` finds the flag in the model.
        if self.tabs.out_of_sight {
            self.calls = true;
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
        swap(&mut self.calls, &mut tab.calls);
    }

    /// Does something with a tab away in the place of the one in front.
    fn visit(&mut self, place: usize, what: impl FnOnce(&mut Self) -> Vec<Job>) -> Vec<Job> {
        self.trade(place);
        let seen = std::mem::replace(&mut self.tabs.out_of_sight, true);
        let jobs = what(self);
        self.tabs.out_of_sight = seen;
        self.trade(place);
        jobs
    }

    #[cfg(test)]
    pub(super) fn visit_for_test(
        &mut self,
        place: usize,
        what: impl FnOnce(&mut Self) -> Vec<Job>,
    ) -> Vec<Job> {
        self.visit(place, what)
    }

    /// Hands a message to a screen of a tab away; nothing where no such tab has it.
    pub(super) fn deliver_away(&mut self, id: ScreenId, now: Timestamp, message: ScreenMessage) -> Vec<Job> {
        match self.tabs.away.iter().position(|tab| tab.has(id)) {
            // A screen that is visited hears of others only through what it sends.
            Some(place) if !self.tabs.out_of_sight => {
                self.visit(place, |model| model.deliver(id, now, message))
            }
            _ => Vec::new(),
        }
    }

    /// Hands a message to the first screen of every pane of every tab, but for those that are in sight.
    pub(super) fn deliver_to_covered_first_ones(
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

    /// Opens a tab beside the one in front and goes there; with the view that a text of the `:` prompt names.
    pub(super) fn new_tab(&mut self, text: Option<&str>, now: Timestamp) -> Vec<Job> {
        if self.tabs.out_of_sight {
            return Vec::new();
        }
        if self.tabs.count() >= MOST {
            self.toast(Toast::failed(format!("{MOST} tabs are open, which is as many as there can be")), now);
            return Vec::new();
        }
        self.next_id += 1;
        self.tabs.left += 1;
        let id = ScreenId::new(self.next_id, ClusterId::HOME);
        let tab = Tab {
            screens: vec![(id, Overview::default().into())],
            split: None,
            scope: self.shared.scope.clone(),
            dialog: None,
            asking: VecDeque::new(),
            prompt: None,
            // What was typed can be had again; the way back begins at its end.
            history: self.history.clone(),
            history_at: self.history.len(),
            current_view: None,
            last_view: None,
            calls: false,
            left: self.tabs.left,
        };
        // The one in front takes the new one's place among those away.
        self.tabs.away.insert(self.tabs.at, tab);
        self.trade(self.tabs.at);
        self.tabs.at += 1;
        self.dirty = true;
        let mut jobs = self.deliver_to_top(now, ScreenMessage::Opened);
        if let Some(text) = text {
            match palette::run(text, self) {
                Ok(effects) => {
                    self.remember(text);
                    let id = self.here();
                    jobs.extend(self.apply(id, effects, now));
                }
                Err(error) => self.toast(Toast::failed(error), now),
            }
        }
        jobs
    }

    /// Goes to the tab of a number, counted from nought.
    pub(super) fn go_to_tab(&mut self, number: usize, now: Timestamp) -> Vec<Job> {
        let count = self.tabs.count();
        if self.tabs.out_of_sight || number == self.tabs.at {
            return Vec::new();
        }
        if number >= count {
            let there =
                if count == 1 { "there is one tab".to_owned() } else { format!("there are {count} tabs") };
            self.toast(Toast::note(there), now);
            return Vec::new();
        }
        let place = self.tabs.place(number);
        self.trade(place);
        self.tabs.left += 1;
        let mut left = self.tabs.away.remove(place);
        left.left = self.tabs.left;
        self.tabs.away.insert(if number < self.tabs.at { self.tabs.at - 1 } else { self.tabs.at }, left);
        self.tabs.at = number;
        self.calls = false;
        self.dirty = true;
        self.deliver_to_seen(now, || ScreenMessage::Shown)
    }

    /// Goes to the tab after or before, around the ends.
    pub(super) fn step_tab(&mut self, forward: bool, now: Timestamp) -> Vec<Job> {
        let count = self.tabs.count();
        if count == 1 {
            let key = self.shared.bindings.key(Command::TabNew);
            let key = key.map(|key| format!("{key} or ")).unwrap_or_default();
            self.toast(Toast::note(format!("there is one tab; {key}:tab opens another")), now);
            return Vec::new();
        }
        let step = if forward { 1 } else { count - 1 };
        self.go_to_tab((self.tabs.at + step) % count, now)
    }

    /// Closes the tab in front; what works there goes on in the background.
    pub(super) fn close_tab(&mut self, now: Timestamp) -> Vec<Job> {
        if self.tabs.out_of_sight {
            return Vec::new();
        }
        if self.tabs.count() == 1 {
            self.toast(Toast::note("the last tab stays"), now);
            return Vec::new();
        }
        let mut jobs = self.close_second(now);
        jobs.extend(self.back_to_the_first(now));
        if let Some((id, screen)) = self.screens.pop() {
            jobs.extend(self.leave(id, screen, now));
        }
        // The one to the right comes to front, or the last one.
        let number = if self.tabs.at < self.tabs.away.len() { self.tabs.at } else { self.tabs.at - 1 };
        let place = self.tabs.at.min(self.tabs.away.len() - 1);
        self.trade(place);
        self.tabs.away.remove(place);
        self.tabs.at = number;
        self.calls = false;
        self.dirty = true;
        jobs.extend(self.deliver_to_seen(now, || ScreenMessage::Shown));
        jobs
    }

    /// Goes to the tab that has a screen and brings it on top there; whether there is one.
    pub(super) fn go_to_the_tab_of(&mut self, id: ScreenId, now: Timestamp) -> Option<Vec<Job>> {
        let place = self.tabs.away.iter().position(|tab| tab.has(id))?;
        let mut jobs = self.go_to_tab(if place < self.tabs.at { place } else { place + 1 }, now);
        jobs.extend(self.resume(id, now));
        Some(jobs)
    }

    /// What is typed after `:tab`: a number, or what a new one shows.
    pub(crate) fn tab_effects(&self, words: &[&str]) -> Result<Vec<Effect>, String> {
        match words {
            [] => Ok(vec![Effect::NewTab(None)]),
            [number] if number.chars().all(|c| c.is_ascii_digit()) => {
                let number =
                    number.parse::<usize>().ok().filter(|number| (1..=self.tabs.count()).contains(number));
                let number = number.ok_or_else(|| format!("there are tabs 1 to {}", self.tabs.count()))?;
                Ok(vec![Effect::GoToTab(number - 1)])
            }
            words => {
                let text = words.join(" ");
                // It is run there; whether it can be is said here.
                let effects = palette::run(&text, self)?;
                let opens = |effect: &Effect| match effect {
                    Effect::Open(_)
                    | Effect::OpenOver(..)
                    | Effect::WhenKnown(..)
                    | Effect::ShowContexts
                    | Effect::ShowForwards => true,
                    // Those of a screen mean what is selected there, which the new tab does not have.
                    Effect::Command(command) => command.entry().context == KeyContext::Everywhere,
                    _ => false,
                };
                if !effects.iter().any(opens) {
                    return Err(format!("{text:?} is no view to open a tab with"));
                }
                Ok(vec![Effect::NewTab(Some(text))])
            }
        }
    }
}
