//! The versions of an object with their times, and the difference between any two (CON-12).
//!
//! ```text
//! ╭ Versions · Deployment default/web ── 12 versions ───────────╮
//! │ ▸ 12:03:05   3s  1204  changed  spec.replicas 3 → 5          │
//! │   12:02:10  58s  1177  changed  spec.template… +2            │
//! ├ 12:02:10 → 12:03:05 ────────────────────────────────────────┤
//! │   spec:                                                      │
//! │ -   replicas: 3                                              │
//! │ +   replicas: 5                                              │
//! ╰──────────────────────────────────────────────────────────────╯
//! ```
//!
//! Each version is compared with the previous one, or all with a selected one. New versions are added while the screen
//! is shown. [`version_list`] holds the versions and computes differences; this file handles keys, [`view`] draws.

mod version_list;
mod view;

use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use crate::object_commands;
use console_data::context::Context;
use console_data::kind_view::{self, Template};
use console_data::message::ScreenMessage;
use console_data::past::{self, Versions};
use console_data::resource::ObjectRef;
use console_operations::effect::Effect;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::widget::cursor::Window;
use console_toolkit::widget::scroll::Scroll;
use version_list::VersionList;

/// Maximum number of versions in one request.
const PAGE_LIMIT: usize = 200;

/// Results of the screen's tasks.
#[derive(Debug)]
pub enum VersionsData {
    /// All versions, or the new ones.
    Loaded(Versions),
    /// The request failed.
    Failed(String),
}

/// The screen that lists versions.
#[derive(Debug)]
pub struct VersionsScreen {
    target: ObjectRef,
    list: Option<VersionList>,
    failed: Option<String>,
    /// True while a request is in flight; `changed` is true if the object changed after the request was sent.
    asking: bool,
    changed: bool,
    /// The revision under the cursor; `None` follows the newest.
    cursor: Option<u64>,
    /// The version to compare with; `None` is the previous one.
    base: Option<u64>,
    /// True if versions that changed only the status are listed, too.
    lists_all: bool,
    window: Window,
    scroll: Scroll,
}

impl VersionsScreen {
    pub(crate) fn new(target: ObjectRef) -> Self {
        // For a workload, versions that changed only the status are left out: changes of replica counts would hide
        // those that users make.
        let lists_all = kind_view::of(&target.kind.resource).template == Template::None;
        Self {
            target,
            list: None,
            failed: None,
            asking: false,
            changed: false,
            cursor: None,
            base: None,
            lists_all,
            window: Window::default(),
            scroll: Scroll::default(),
        }
    }

    pub(crate) fn target(&self) -> &ObjectRef {
        &self.target
    }

    /// Requests the versions after the known ones.
    fn request_versions(&mut self) -> Vec<Effect> {
        if self.asking {
            self.changed = true;
            return Vec::new();
        }
        (self.asking, self.changed) = (true, false);
        let (target, after) = (self.target.clone(), self.list.as_ref().and_then(VersionList::newest));
        vec![Effect::task("versions", move |out| async move {
            let data = match past::versions(&out.client(), &target, after, PAGE_LIMIT).await {
                Ok(versions) => VersionsData::Loaded(versions),
                Err(why) => VersionsData::Failed(why),
            };
            out.data(data).await;
        })]
    }

    /// Returns the indexes of the listed versions, counted from the newest.
    fn listed(&self) -> Vec<usize> {
        let all = self.list.iter().flat_map(|list| list.iter().enumerate());
        all.filter(|(_, version)| self.lists_all || !version.is_status).map(|(place, _)| place).collect()
    }

    /// Returns the index of the cursor, counted from the newest.
    fn at(&self) -> usize {
        let list = self.list.as_ref();
        let listed = self.listed();
        let at = self.cursor.and_then(|cursor| list?.position_of(cursor)).filter(|at| listed.contains(at));
        at.or_else(|| listed.first().copied()).unwrap_or(0)
    }

    /// Returns the indexes of the compared versions, older first, counted from the newest; the older is `None` if no
    /// earlier version is known.
    fn compared(&self) -> Option<(Option<usize>, usize)> {
        let list = self.list.as_ref().filter(|list| !list.is_empty())?;
        let at = self.at();
        let base = self.base.and_then(|base| list.position_of(base)).filter(|base| *base != at);
        Some(match base {
            // The older version comes first, independent of the selection.
            Some(base) => (Some(base.max(at)), base.min(at)),
            None => (Some(at + 1).filter(|before| *before < list.len()), at),
        })
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let (listed, at) = (self.listed(), self.at());
        let place = listed.iter().position(|one| *one == at).unwrap_or(0);
        match command {
            // The list is short, so that paging applies to the difference.
            Command::PageUp | Command::PageDown | Command::Left | Command::Right => {
                self.scroll.command(command);
            }
            _ if let Some(to) = self.window.step(command, place, listed.len()) => {
                let version = listed.get(to).and_then(|place| self.list.as_ref()?.at(*place));
                // On the newest version the cursor follows new versions.
                self.cursor = version.filter(|_| to > 0).map(|version| version.moment.revision);
                self.scroll = Scroll::default();
            }
            Command::Refresh => return self.request_versions(),
            Command::ShowAll => self.lists_all = !self.lists_all,
            Command::Copy => {
                let text = self.compared().zip(self.list.as_ref()).map(|(pair, list)| list.text(pair));
                return text.map(Effect::Copy).into_iter().collect();
            }
            _ => {
                let Some(version) = self.list.as_ref().and_then(|list| list.at(at)) else {
                    return vec![Effect::info("no version is known")];
                };
                let revision = version.moment.revision;
                let command = if command == Command::Enter { Command::Yaml } else { command };
                return match command {
                    Command::VersionsCompare => {
                        self.base = if self.base == Some(revision) { None } else { Some(revision) };
                        Vec::new()
                    }
                    // A deleted object has no content at that time.
                    Command::Yaml | Command::Describe if version.deleted => {
                        vec![Effect::info("it was deleted then; select the previous version")]
                    }
                    _ => object_commands::at(cx, command, self.target.clone(), version.moment.when()),
                };
            }
        }
        Vec::new()
    }
}

impl View for VersionsScreen {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · versions", self.target.name)
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Versions, KeyContext::List]
    }

    fn refuses(&self, _cx: &Context<'_>, command: Command) -> Option<String> {
        if self.listed().is_empty() { object_commands::refuses_without_row(command) } else { None }
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened | ScreenMessage::Shown => return self.request_versions(),
            ScreenMessage::Changed(resource, touched)
                if self.target.kind.resource == resource && touched.contains(&self.target) =>
            {
                return self.request_versions();
            }
            ScreenMessage::Data(data) => {
                let Some(data) = data.take() else { return Vec::new() };
                self.asking = false;
                match data {
                    VersionsData::Loaded(versions) => {
                        let hides = &*self.target.kind.resource.plural == "secrets";
                        self.list.get_or_insert_with(|| VersionList::new(hides)).take(versions);
                        self.failed = None;
                    }
                    VersionsData::Failed(why) => self.failed = Some(why),
                }
                if self.changed {
                    return self.request_versions();
                }
            }
            ScreenMessage::Command(command) => return self.command(cx, command),
            ScreenMessage::Mouse(event) => self.scroll.mouse(event),
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        view::draw(self, cx, frame, area);
    }
}
