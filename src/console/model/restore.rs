//! The tabs of the last run: what is kept of those there are, and how they come back at the next start.
//!
//! They come back once the server has said which cluster this is, and which kinds it has where one of them is not of
//! every Kubernetes. Whoever was faster than that keeps what they opened, and is told how to get the others.

use jiff::Timestamp;

use super::tabs::Tab;
use super::{Job, Model};
use crate::builtin;
use crate::context::ScreenId;
use crate::kept_tabs::{KeptTab, KeptTabs, KeptView};
use crate::resource::{Kind, Uid};
use crate::scope::Scope;
use crate::screen::Screen;
use crate::screen::table::Table;
use crate::text::clean;
use crate::toast::Toast;

/// Tabs of the last run on their way.
#[derive(Debug, Default)]
pub(crate) enum Restore {
    /// Nobody knows yet whether there are any; nothing is kept over them.
    #[default]
    Unread,
    /// They wait for the kinds of the server.
    Waiting(KeptTabs),
    /// They can be asked for.
    Offered(KeptTabs),
    /// It is over.
    Done,
}

impl Model {
    /// What is to be kept of the tabs, and of which cluster; nothing before what was kept is read.
    pub fn kept_tabs(&self) -> Option<(Uid, KeptTabs)> {
        if matches!(self.restore, Restore::Unread | Restore::Waiting(_)) {
            return None;
        }
        let cluster = self.cluster.clone()?;
        let keep = |screens: &[(ScreenId, Screen)], scope: &Scope| KeptTab {
            namespace: match scope {
                Scope::One(name) => Some(name.clone()),
                Scope::All => None,
            },
            views: screens.iter().filter_map(|(_, screen)| view_of(screen)).collect(),
        };
        let mut tabs: Vec<KeptTab> = self
            .tabs
            .in_order()
            .map(|tab: &Tab| keep(first_pane(&tab.screens, tab.split.as_ref()), &tab.scope))
            .collect();
        let front = self.tabs.number();
        tabs.insert(front, keep(first_pane(&self.screens, self.split.as_ref()), &self.shared.scope));
        Some((cluster, KeptTabs { front, tabs }))
    }

    /// Keeps the tabs as they are now.
    pub(super) fn keep_tabs(&self) -> Option<Job> {
        self.kept_tabs().map(|(cluster, tabs)| Job::KeepTabs(cluster, tabs))
    }

    /// Takes what was kept.
    pub(super) fn tabs_were_read(&mut self, kept: KeptTabs, now: Timestamp) -> Vec<Job> {
        if !matches!(self.restore, Restore::Unread) {
            return Vec::new();
        }
        self.restore = if kept.tabs.is_empty() { Restore::Done } else { Restore::Waiting(kept) };
        self.restore_what_waits(now)
    }

    /// Brings the tabs back, where all is known that they need.
    pub(super) fn restore_what_waits(&mut self, now: Timestamp) -> Vec<Job> {
        let Restore::Waiting(kept) = &self.restore else { return Vec::new() };
        let known = |view: &KeptView| builtin::kinds().iter().any(|kind| is_of(kind, view));
        let needs_discovery = !kept.tabs.iter().flat_map(|tab| &tab.views).all(known);
        if needs_discovery && !self.shared.catalogue.discovered {
            return Vec::new();
        }
        let Restore::Waiting(kept) = std::mem::replace(&mut self.restore, Restore::Done) else {
            return Vec::new();
        };
        let untouched = self.screens.len() == 1
            && self.tabs.count() == 1
            && self.split.is_none()
            && self.dialog.is_none()
            && self.prompt.is_none();
        if !untouched {
            self.restore = Restore::Offered(kept);
            self.toast(Toast::note("the tabs of the last run: :restore opens them"), now);
            return Vec::new();
        }
        self.bring_back(kept, now)
    }

    /// Opens the tabs that were offered beside those there are.
    pub(super) fn restore_what_was_offered(&mut self, now: Timestamp) -> Vec<Job> {
        match std::mem::replace(&mut self.restore, Restore::Done) {
            Restore::Offered(kept) => {
                let jobs = self.new_tab(None, now);
                jobs.into_iter().chain(self.bring_back(kept, now)).collect()
            }
            other => {
                self.restore = other;
                self.toast(Toast::note("there are no tabs of the last run to open"), now);
                Vec::new()
            }
        }
    }

    fn bring_back(&mut self, kept: KeptTabs, now: Timestamp) -> Vec<Job> {
        // What is half there is not kept over what is whole.
        self.restore = Restore::Unread;
        let mut jobs = Vec::new();
        let mut gone: Vec<String> = Vec::new();
        let mut front = self.tabs.number() + kept.front;
        for (number, tab) in kept.tabs.into_iter().enumerate() {
            if number > 0 {
                let before = self.tabs.count();
                jobs.extend(self.new_tab(None, now));
                if self.tabs.count() == before {
                    break;
                }
            }
            let namespaces = self.shared.stores.namespaces();
            let scope = match tab.namespace {
                // Where namespaces cannot be listed, any name may exist.
                Some(name) if namespaces.is_empty() || namespaces.by_name("", &name).is_some() => {
                    Scope::One(name)
                }
                Some(name) => {
                    gone.push(format!("namespace {name}"));
                    Scope::All
                }
                None => Scope::All,
            };
            jobs.extend(self.rescope(scope, now));
            for view in tab.views {
                let kind = self.shared.catalogue.kinds().iter().find(|kind| is_of(kind, &view)).cloned();
                match kind {
                    Some(kind) => jobs.extend(self.open(Table::restored(kind, view).into(), now)),
                    None if view.group.is_empty() => gone.push(view.plural),
                    None => gone.push(format!("{}.{}", view.plural, view.group)),
                }
            }
        }
        front = front.min(self.tabs.count() - 1);
        jobs.extend(self.go_to_tab(front, now));
        self.restore = Restore::Done;
        jobs.extend(self.keep_tabs());
        self.toast(Toast::note("as it was left the last time; --fresh starts anew"), now);
        if !gone.is_empty() {
            gone.sort();
            gone.dedup();
            let gone = clean(&gone.join(", ")).into_owned();
            self.toast(Toast::warning(format!("left out, as this cluster has it no more: {gone}")), now);
        }
        jobs
    }
}

fn is_of(kind: &Kind, view: &KeptView) -> bool {
    *kind.resource.group == *view.group && *kind.resource.plural == *view.plural
}

fn view_of(screen: &Screen) -> Option<KeptView> {
    match screen {
        Screen::Table(table) => table.keep(),
        _ => None,
    }
}

/// The stack of the first pane: the second shows what is selected, whatever that will be.
fn first_pane<'a>(
    focused: &'a [(ScreenId, Screen)],
    split: Option<&'a super::split::Split>,
) -> &'a [(ScreenId, Screen)] {
    match split {
        Some(split) if split.in_second => &split.other,
        _ => focused,
    }
}
