//! The containers of a pod with their state, image, usage and last exit, and the commands for each of them.
//!
//! ```text
//! ╭ Containers of web-1 ─────────────────────────────────────────╮
//! │ ▸ ● main   Running           0   5m  12Mi  nginx:1.27          │
//! ├ main ────────────────────────────────────────────────────────┤
//! │ last exit  1 (Error) 30s ago; runs again in 12s               │
//! ╰──────────────────────────────────────────────────────────────╯
//! ```
//!
//! Everything is read from the live stores at each draw.

mod view;

use k8s_openapi::api::core::v1::Pod;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use crate::command::{Command, KeyContext};
use crate::command_availability;
use crate::container_state::{ContainerFacts, of_pod};
use crate::context::Context;
use crate::effect::{Effect, LogRun, Route, TerminalPurpose};
use crate::message::ScreenMessage;
use crate::operations;
use crate::resource::ObjectRef;
use crate::toast::Toast;

/// The screen of one pod's containers.
#[derive(Debug)]
pub struct Containers {
    pod: ObjectRef,
    /// The container under the cursor, by name: names are unique in a pod.
    cursor: Option<String>,
}

impl Containers {
    pub(crate) fn new(pod: ObjectRef) -> Self {
        Self { pod, cursor: None }
    }

    pub(crate) fn target(&self) -> &ObjectRef {
        &self.pod
    }

    fn object<'a>(&self, cx: &Context<'a>) -> Option<&'a Pod> {
        let namespace = self.pod.namespace.as_deref().unwrap_or_default();
        cx.stores.pods().by_name(namespace, &self.pod.name)
    }

    fn facts(&self, cx: &Context<'_>) -> Vec<ContainerFacts> {
        let Some(pod) = self.object(cx) else { return Vec::new() };
        of_pod(pod, cx.stores.used_by_pod(self.pod.namespace.as_deref().unwrap_or_default(), &self.pod.name))
    }

    /// Returns the row of the cursor.
    fn at(&self, all: &[ContainerFacts]) -> usize {
        let named = |name: &String| all.iter().position(|one| one.name == *name);
        self.cursor.as_ref().and_then(named).unwrap_or(0)
    }

    fn go(&mut self, cx: &Context<'_>, to: impl Fn(usize, usize) -> usize) {
        let all = self.facts(cx);
        let last = all.len().saturating_sub(1);
        self.cursor = all.get(to(self.at(&all), last).min(last)).map(|one| one.name.clone());
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        match command {
            Command::Up => self.go(cx, |at, _| at.saturating_sub(1)),
            Command::Down => self.go(cx, |at, _| at + 1),
            Command::Top | Command::PageUp => self.go(cx, |_, _| 0),
            Command::Bottom | Command::PageDown => self.go(cx, |_, last| last),
            Command::Back | Command::Leave => return vec![Effect::Back],
            _ => return self.of_the_selected(cx, command),
        }
        Vec::new()
    }

    fn of_the_selected(&self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let pod = self.pod.clone();
        match command {
            Command::ContainerDescribe => return vec![Effect::open(Route::Describe(pod))],
            Command::ContainerYaml => return vec![Effect::open(Route::Yaml(pod))],
            Command::ContainerDebug => {
                return vec![Effect::open(Route::Terminal(pod, TerminalPurpose::Debug))];
            }
            _ => {}
        }
        let all = self.facts(cx);
        let Some(one) = all.get(self.at(&all)) else {
            return vec![Effect::Toast(Toast::info("nothing is selected"))];
        };
        let name = one.name.clone();
        let terminal = |purpose| {
            if one.is_running {
                return vec![Effect::open(Route::ContainerTerminal(pod.clone(), purpose, name.clone()))];
            }
            vec![Effect::failed(format!("container {name} is not running: {}", one.state))]
        };
        match command {
            Command::Enter | Command::ContainerLogs => {
                vec![Effect::open(Route::ContainerLogs(pod, LogRun::Current, name))]
            }
            Command::ContainerPrevious => {
                vec![Effect::open(Route::ContainerLogs(pod, LogRun::Previous, name))]
            }
            Command::ContainerForward => {
                vec![Effect::ShowDialog(Box::new(operations::forward::dialog(cx, pod, Some(&name))))]
            }
            Command::ContainerTransfer if one.is_running => {
                vec![Effect::open(Route::Transfer(pod, Some(name)))]
            }
            Command::ContainerTransfer => {
                vec![Effect::failed(format!("container {name} is not running: {}", one.state))]
            }
            Command::ContainerShell => terminal(TerminalPurpose::Shell),
            Command::ContainerAttach => terminal(TerminalPurpose::Attach),
            Command::ContainerCopy => vec![Effect::Copy(one.image.clone())],
            _ => Vec::new(),
        }
    }
}

impl View for Containers {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · containers", self.pod.name)
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Containers, KeyContext::List]
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        command_availability::refuses(cx.catalogue, &self.pod.kind, command)
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Command(command) => self.command(cx, command),
            _ => Vec::new(),
        }
    }

    fn selected(&self, _cx: &Context<'_>) -> Option<ObjectRef> {
        Some(self.pod.clone())
    }

    fn variables(&self, cx: &Context<'_>) -> Vec<(String, String)> {
        let all = self.facts(cx);
        let Some(one) = all.get(self.at(&all)) else { return Vec::new() };
        let named = [
            ("POD", &self.pod.name),
            ("NAME", &one.name),
            ("CONTAINER", &one.name),
            ("COL-IMAGE", &one.image),
        ];
        named.map(|(name, value)| (name.to_owned(), value.clone())).into()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let all = self.facts(cx);
        view::draw(&self.pod, self.object(cx), &all, self.at(&all), cx, frame, area);
    }
}
