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
use crate::object_commands;
use console_data::container_state::{ContainerFacts, of_pod};
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::resource::ObjectRef;
use console_operations::effect::{Effect, LogRun, LogsRoute, Route, TerminalPurpose};
use console_operations::operations;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::widget::cursor::Window;

/// The screen of one pod's containers.
#[derive(Debug)]
pub struct Containers {
    pod: ObjectRef,
    /// The container under the cursor, by name: names are unique in a pod.
    cursor: Option<String>,
    window: Window,
}

impl Containers {
    pub(crate) fn new(pod: ObjectRef) -> Self {
        Self { pod, cursor: None, window: Window::default() }
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

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let all = self.facts(cx);
        if let Some(to) = self.window.step(command, self.at(&all), all.len()) {
            self.cursor = all.get(to).map(|one| one.name.clone());
            return Vec::new();
        }
        self.on_container(cx, command, all.get(self.at(&all)))
    }

    /// Executes a command on the selected container, or on the pod if the command is not about a container.
    fn on_container(
        &self,
        cx: &Context<'_>,
        command: Command,
        selected: Option<&ContainerFacts>,
    ) -> Vec<Effect> {
        let pod = self.pod.clone();
        let is_of_container = matches!(
            command,
            Command::Enter
                | Command::Logs
                | Command::PreviousLogs
                | Command::PortForward
                | Command::Transfer
                | Command::Shell
                | Command::Attach
                | Command::Copy
        );
        if !is_of_container {
            return object_commands::on(cx, command, Some(pod));
        }
        let Some(one) = selected else { return vec![Effect::info(object_commands::NOTHING_SELECTED)] };
        let name = one.name.clone();
        let needs_process = matches!(command, Command::Transfer | Command::Shell | Command::Attach);
        if needs_process && !one.is_running {
            return vec![Effect::failed(format!("container {name} is not running: {}", one.state))];
        }
        vec![match command {
            Command::PreviousLogs => Effect::open(LogsRoute::of(pod, LogRun::Previous).in_container(name)),
            Command::PortForward => Effect::dialog(operations::forward::dialog(cx, pod, Some(&name))),
            Command::Transfer => Effect::open(Route::Transfer(pod, Some(name))),
            Command::Shell => Effect::open(Route::ContainerTerminal(pod, TerminalPurpose::Shell, name)),
            Command::Attach => Effect::open(Route::ContainerTerminal(pod, TerminalPurpose::Attach, name)),
            Command::Copy => Effect::Copy(one.image.clone()),
            _ => Effect::open(LogsRoute::of(pod, LogRun::Current).in_container(name)),
        }]
    }
}

impl View for Containers {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · containers", self.pod.name)
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Containers, KeyContext::List]
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
        view::draw(self, self.object(cx), &all, cx, frame, area);
    }
}
