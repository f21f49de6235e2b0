//! The terminal screen: a shell in a container or on a node, an attached container or a new debug container, in a pane
//! (CON-8).
//!
//! Asks for the container first if there are several. Unlike all other screens, this one changes its state while it is
//! drawn: the pane's size is known only then, and is sent to the container at once.

mod dialogs;
mod node_shell;
mod view;

use std::cell::RefCell;

use crossterm::event::{KeyCode, KeyEvent, MouseEventKind};
use ratatui::Frame;
use ratatui::layout::Rect;
use tokio::sync::mpsc;

use super::View;
use console_data::action::{Action, Mutation, PatchKind, error_text};
use console_data::container_state;
use console_data::context::Context;
use console_data::extensions::PluginRun;
use console_data::message::ScreenMessage;
use console_data::node_shell::NodeShell;
use console_data::read_only;
use console_data::resource::ObjectRef;
use console_data::saved_tabs::{SavedScreen, SavedTerminal};
use console_operations::effect::{Effect, Outbox, TerminalPurpose};
use console_operations::pane::{
    DebugPlan, Emulator, Outcome, PaneEvent, PaneInput, PaneSize, Session, SessionTarget, StartProgress,
    keys, program,
};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::toast::Toast;
use dialogs::{container_dialog, debug_dialog, opening};

/// Maximum size of output merged into one message; merging saves draws while a program writes a lot.
const MERGED_BYTES: usize = 256 * 1024;
/// Size until the pane is drawn for the first time.
const FIRST_SIZE: PaneSize = PaneSize { rows: 24, columns: 80 };

/// The slot of the task of a session in a pod.
pub const SESSION: &str = "session";

/// Results of the screen's tasks.
#[derive(Debug)]
pub enum TerminalData {
    /// The sending end of the session.
    Session(Session),
    /// An event of the session.
    Event(PaneEvent),
    /// The user chose what to open.
    Decided(Plan),
    /// The server responded with a fact that the open dialog shows.
    Heard,
}

fn purpose_label(purpose: TerminalPurpose) -> &'static str {
    match purpose {
        TerminalPurpose::Shell | TerminalPurpose::NodeShell => "shell",
        TerminalPurpose::Attach => "attach",
        TerminalPurpose::Debug => "debug",
        TerminalPurpose::Program => "plugin",
    }
}

#[derive(Debug)]
pub(super) enum TerminalStage {
    /// The dialog is open.
    Asking,
    /// The session is starting, with its progress.
    Starting(StartProgress),
    /// Keys go to the process.
    Open { tty: bool, stdin: bool },
    /// The session ended; the screen stays readable.
    Over(Outcome),
}

/// The screen that shows a terminal.
pub struct Terminal {
    pub(super) pod: ObjectRef,
    pub(super) purpose: TerminalPurpose,
    /// The local program that runs in the pane.
    run: Option<Box<PluginRun>>,
    /// The user's choice; `None` while the dialog is open.
    plan: Option<Plan>,
    pub(super) container: String,
    pub(super) stage: TerminalStage,
    session: Option<Session>,
    /// Keys typed before the session was open; they are sent first.
    early: Vec<u8>,
    pub(super) emulator: RefCell<Emulator>,
}

/// The session to open, and the debug container to add or the pod to create on the node before.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) opening: SessionTarget,
    pub(super) debug: Option<DebugPlan>,
    pub(super) on_node: Option<NodeShell>,
}

impl Plan {
    /// Creates a plan for an existing container.
    fn of(opening: SessionTarget) -> Self {
        Self { opening, debug: None, on_node: None }
    }
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal")
            .field("pod", &self.pod)
            .field("purpose", &self.purpose)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl Terminal {
    /// Creates a terminal in this pod; asks for the container if there are several.
    pub fn new(pod: ObjectRef, purpose: TerminalPurpose) -> Self {
        let emulator = Emulator::new(FIRST_SIZE.rows, FIRST_SIZE.columns);
        Self {
            pod,
            purpose,
            run: None,
            plan: None,
            container: String::new(),
            stage: TerminalStage::Asking,
            session: None,
            early: Vec::new(),
            emulator: RefCell::new(emulator),
        }
    }

    /// Creates a terminal in this container of a pod.
    pub(crate) fn in_container(pod: ObjectRef, purpose: TerminalPurpose, container: String) -> Self {
        Self { container, ..Self::new(pod, purpose) }
    }

    /// Restores a terminal of the last session. Its process ended with that session, and a new one is started only when
    /// the user requests it. A restored debug container is attached to, because it cannot be started again (EPH-1).
    pub fn restored(pod: ObjectRef, kind: SavedTerminal, container: String) -> Self {
        let purpose = match kind {
            SavedTerminal::Shell => TerminalPurpose::Shell,
            SavedTerminal::Attach | SavedTerminal::Debug => TerminalPurpose::Attach,
            SavedTerminal::Program => TerminalPurpose::Program,
        };
        let opens = purpose != TerminalPurpose::Program && !container.is_empty();
        let plan = opens.then(|| Plan::of(opening(purpose, &container)));
        Self { container, plan, stage: TerminalStage::Over(Outcome::Lost), ..Self::new(pod, purpose) }
    }

    /// Returns the state that is saved for the next session; `None` if the process had already ended.
    pub(crate) fn keep(&self) -> Option<SavedScreen> {
        let is_open = matches!(
            self.stage,
            TerminalStage::Open { .. } | TerminalStage::Starting(_) | TerminalStage::Over(Outcome::Lost)
        );
        let kind = match self.purpose {
            TerminalPurpose::Shell => SavedTerminal::Shell,
            TerminalPurpose::Attach => SavedTerminal::Attach,
            TerminalPurpose::Debug => SavedTerminal::Debug,
            TerminalPurpose::Program => SavedTerminal::Program,
            // The pod of a node shell is removed when the shell ends, so that nothing remains to restore.
            TerminalPurpose::NodeShell => return None,
        };
        is_open.then(|| SavedScreen::Terminal { what: kind, container: self.container.clone() })
    }

    /// Returns the target: a pod, a node, or the object that a program was started for.
    pub(crate) fn target(&self) -> &ObjectRef {
        &self.pod
    }

    /// Returns the reason why the terminal cannot be reopened after its end.
    fn refuses_again(&self, cx: &Context<'_>) -> Option<String> {
        if self.debug_container_ended() {
            return Some("a debug container cannot be started again".into());
        }
        match (&self.run, &self.plan) {
            (Some(_), _) => None,
            (None, Some(_)) => cx.read_only.then(|| read_only::command_refusal(purpose_label(self.purpose))),
            (None, None) => Some("there is nothing to start again: open it anew".into()),
        }
    }

    /// Starts the program or the session again, after its end.
    fn start_again(&mut self) -> Vec<Effect> {
        match (self.run.clone(), self.plan.clone()) {
            // `Effect::Run` starts the program in a new screen, and the journal records the new run.
            (Some(run), _) => vec![Effect::Back, Effect::Run(run)],
            (None, Some(plan)) => self.start(plan),
            (None, None) => Vec::new(),
        }
    }

    /// Creates the screen of a local program.
    pub fn of_program(run: PluginRun) -> Self {
        let container = run.name.clone();
        let run = Box::new(run);
        Self { container, run: Some(run.clone()), ..Self::new(run.target, TerminalPurpose::Program) }
    }

    fn opened(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        if matches!(self.stage, TerminalStage::Over(_)) {
            return Vec::new();
        }
        if let Some(run) = &self.run {
            let (words, size) = (run.program.clone(), self.size());
            let message = format!("starting {}", self.container);
            self.stage = TerminalStage::Starting(StartProgress::Waiting {
                reason: String::new(),
                message,
                trouble: false,
            });
            return vec![Effect::task("program", move |out| async move {
                let (session, events) = program::open(words, size);
                forward_events(out, session, events).await;
            })];
        }
        if self.purpose == TerminalPurpose::NodeShell {
            return node_shell::open_dialog(cx, &self.pod);
        }
        let namespace = self.pod.namespace.as_deref().unwrap_or_default();
        let Some(pod) = cx.stores.pods().by_name(namespace, &self.pod.name) else {
            return vec![Effect::Back, Effect::failed(format!("{} is gone", self.pod.describe()))];
        };
        match self.purpose {
            TerminalPurpose::Debug => vec![Effect::dialog(debug_dialog(&self.pod, pod))],
            purpose => {
                let mut running = container_state::running(pod);
                if !self.container.is_empty() {
                    running.retain(|name| *name == self.container);
                }
                match running.as_slice() {
                    [] => vec![
                        Effect::Back,
                        Effect::failed(format!(
                            "no container of {} is running; D starts a debugger",
                            self.pod.name
                        )),
                    ],
                    [only] => {
                        let plan = Plan::of(opening(purpose, only));
                        self.start(plan)
                    }
                    _ => {
                        vec![Effect::dialog(container_dialog(&self.pod, pod, purpose, running))]
                    }
                }
            }
        }
    }

    fn start(&mut self, plan: Plan) -> Vec<Effect> {
        self.container = match &plan.opening {
            SessionTarget::Shell { container }
            | SessionTarget::Exec { container, .. }
            | SessionTarget::Attach { container } => container.clone().unwrap_or_default(),
            SessionTarget::Debug { container } | SessionTarget::Created { container, .. } => {
                container.clone()
            }
        };
        let message = match (&plan.debug, &plan.on_node) {
            (Some(debug), _) => format!("adding container {} with image {}", debug.name, debug.image),
            (_, Some(made)) => format!("creating a pod with image {} in {}", made.image, made.namespace),
            (None, None) => format!("connecting to container {}", self.container),
        };
        self.stage = TerminalStage::Starting(StartProgress::Waiting {
            reason: String::new(),
            message,
            trouble: false,
        });
        self.early.clear();
        self.emulator.get_mut().reset();
        self.plan = Some(plan.clone());
        let pod = self.pod.clone();
        let size = self.size();
        vec![Effect::task(SESSION, move |out| run(out, pod, plan, size))]
    }

    fn size(&self) -> PaneSize {
        let (rows, columns) = self.emulator.borrow().size();
        PaneSize { rows, columns }
    }

    fn handle(&mut self, loaded: TerminalData) -> Vec<Effect> {
        match loaded {
            TerminalData::Session(session) => {
                session.send(PaneInput::Resize(self.size()));
                if !self.early.is_empty() {
                    session.send(PaneInput::Bytes(std::mem::take(&mut self.early)));
                }
                self.session = Some(session);
            }
            TerminalData::Decided(plan) => return self.start(plan),
            TerminalData::Heard => {}
            TerminalData::Event(PaneEvent::Progress(progress)) => {
                self.stage = TerminalStage::Starting(progress);
            }
            TerminalData::Event(PaneEvent::Opened { container, tty, stdin }) => {
                if self.run.is_none() {
                    self.container = container;
                }
                self.stage = TerminalStage::Open { tty, stdin };
            }
            TerminalData::Event(PaneEvent::Output(bytes)) => {
                let emulator = self.emulator.get_mut();
                emulator.process(&bytes);
                let replies = emulator.take_replies();
                if !replies.is_empty() {
                    self.send(PaneInput::Bytes(replies));
                }
            }
            TerminalData::Event(PaneEvent::Ended(outcome)) => {
                self.session = None;
                if matches!(self.stage, TerminalStage::Open { .. }) {
                    self.emulator.get_mut().note(&outcome.text());
                }
                let news =
                    format!("{} in {}: {}", purpose_label(self.purpose), self.pod.name, outcome.text());
                self.stage = TerminalStage::Over(outcome);
                return vec![Effect::BackgroundToast(Toast::info(news))];
            }
        }
        Vec::new()
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, TerminalStage::Over(_))
    }

    pub(super) fn is_blank(&self) -> bool {
        self.emulator.borrow().text().trim().is_empty()
    }

    pub(super) fn send(&self, input: PaneInput) -> bool {
        self.session.as_ref().is_none_or(|session| session.send(input))
    }

    /// Handles a key for the process.
    fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        match self.stage {
            TerminalStage::Asking
                if matches!(key.code, KeyCode::Enter | KeyCode::Esc | KeyCode::Char('q')) =>
            {
                return vec![Effect::Back];
            }
            TerminalStage::Asking | TerminalStage::Over(_) => return Vec::new(),
            TerminalStage::Starting(_) | TerminalStage::Open { .. } => {}
        }
        let emulator = self.emulator.get_mut();
        emulator.scroll_to_bottom();
        let bytes = keys::encode(key, emulator.key_modes());
        self.type_in(bytes)
    }

    fn type_in(&mut self, bytes: Vec<u8>) -> Vec<Effect> {
        if self.session.is_none() && matches!(self.stage, TerminalStage::Starting(_)) {
            self.early.extend(bytes);
            return Vec::new();
        }
        if bytes.is_empty() || self.send(PaneInput::Bytes(bytes)) {
            return Vec::new();
        }
        vec![Effect::failed("the container does not accept input; the keys were dropped")]
    }

    /// Returns whether the debug container has ended. Ephemeral containers are never restarted, so that there is
    /// nothing to reopen (EPH-1).
    pub(super) fn debug_container_ended(&self) -> bool {
        matches!(&self.stage, TerminalStage::Over(outcome) if *outcome != Outcome::Detached)
            && self.purpose == TerminalPurpose::Debug
    }

    /// Scrolls by half pages, up if positive.
    fn scroll(&mut self, halves: isize) -> Vec<Effect> {
        let emulator = self.emulator.get_mut();
        let half = (isize::try_from(emulator.size().0).unwrap_or(24) / 2).max(1);
        emulator.scroll(half * halves);
        Vec::new()
    }

    /// Leaves the pane: an open session continues in the background; one that has not started is cancelled.
    fn detach(&mut self) -> Vec<Effect> {
        if matches!(self.stage, TerminalStage::Open { .. }) { vec![Effect::Back] } else { self.end() }
    }

    /// Leaves the pane and ends the session.
    fn end(&mut self) -> Vec<Effect> {
        let Some(session) = self.session.take() else {
            self.stage = TerminalStage::Over(Outcome::Detached);
            return vec![Effect::Back];
        };
        session.send(PaneInput::Detach);
        let text = match (&self.stage, self.purpose) {
            (TerminalStage::Starting(_), TerminalPurpose::Debug) => {
                format!("{} is not running yet; attach with a when it is", self.container)
            }
            (_, TerminalPurpose::NodeShell) => {
                format!("ended the shell on {}; its pod is removed", self.pod.name)
            }
            (TerminalStage::Starting(_), _) => format!("cancelled the start of {}", self.container),
            (_, TerminalPurpose::Program) => format!("ended {}", self.container),
            (_, TerminalPurpose::Shell) => format!("ended the shell in {}", self.pod.name),
            (_, TerminalPurpose::Attach) => format!("detached from {}; it keeps running", self.container),
            (_, TerminalPurpose::Debug) => format!("detached from {}; attach again with a", self.container),
        };
        // In any other stage the terminal would be saved as a session that continues.
        self.stage = TerminalStage::Over(Outcome::Detached);
        vec![Effect::Back, Effect::info(text)]
    }
}

impl Terminal {
    /// Returns the line of the program's cursor on the screen, while there is one.
    pub(crate) fn cursor_line(&self) -> Option<u16> {
        matches!(self.stage, TerminalStage::Open { .. }).then(|| self.emulator.borrow().cursor_row())?
    }
}

impl View for Terminal {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · {}", self.pod.name, purpose_label(self.purpose))
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![match self.stage {
            TerminalStage::Starting(_) => KeyContext::TerminalStarting,
            TerminalStage::Over(_) => KeyContext::TerminalEnded,
            TerminalStage::Asking | TerminalStage::Open { .. } => KeyContext::Terminal,
        }]
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        match command {
            Command::Retry => self.refuses_again(cx),
            Command::Copy if self.is_blank() => Some("there is no text".into()),
            Command::TerminalScrollUp | Command::TerminalScrollDown
                if self.is_over() && self.emulator.borrow_mut().lines_above() == 0 =>
            {
                Some("there are no lines above".into())
            }
            _ => None,
        }
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => self.opened(cx),
            ScreenMessage::Command(
                Command::TerminalClose | Command::TerminalDetach | Command::TerminalEnd,
            ) if self.is_over() => vec![Effect::Back],
            ScreenMessage::Command(Command::Retry) => self.start_again(),
            ScreenMessage::Command(Command::Copy) => {
                vec![Effect::Copy(self.emulator.get_mut().whole_text())]
            }
            ScreenMessage::Command(Command::TerminalDetach) => self.detach(),
            ScreenMessage::Command(Command::TerminalEnd) => self.end(),
            ScreenMessage::Command(Command::TerminalScrollUp) => self.scroll(1),
            ScreenMessage::Command(Command::TerminalScrollDown) => self.scroll(-1),
            ScreenMessage::Key(key) => self.key(key),
            ScreenMessage::Paste(text) => {
                let bytes = keys::paste(&text, self.emulator.get_mut().key_modes());
                self.type_in(bytes)
            }
            ScreenMessage::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollUp => {
                    self.emulator.get_mut().scroll(3);
                    Vec::new()
                }
                MouseEventKind::ScrollDown => {
                    self.emulator.get_mut().scroll(-3);
                    Vec::new()
                }
                _ => Vec::new(),
            },
            ScreenMessage::Data(data) => data.take().map(|loaded| self.handle(loaded)).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        view::draw(self, cx, frame, area);
    }

    fn takes_all_keys(&self) -> bool {
        true
    }

    fn typed(&self) -> Option<String> {
        matches!(self.stage, TerminalStage::Open { .. }).then(|| self.emulator.borrow().cursor_line())
    }

    fn background(&self, _cx: &Context<'_>) -> Option<String> {
        matches!(self.stage, TerminalStage::Open { .. })
            .then(|| format!("{} {}", purpose_label(self.purpose), self.pod.name))
    }
}

/// Adds the debug container or creates the pod if the plan has one, opens the session and forwards its events.
async fn run(out: Outbox, pod: ObjectRef, plan: Plan, size: PaneSize) {
    let event = TerminalData::Event;
    if let Some(debug) = plan.debug
        && let Err(error) = out.act(add_debugger(&pod, &debug)).await
    {
        return out.data(event(PaneEvent::Ended(Outcome::Failed(error_text(&error))))).await;
    }
    // The pod on a node is removed when this task ends.
    let (pod, _held) = match &plan.on_node {
        None => (pod, None),
        Some(settings) => match node_shell::hold(&out, &pod, settings).await {
            Ok((made, held)) => (made, Some(held)),
            Err(why) => return out.data(event(PaneEvent::Ended(Outcome::Failed(why)))).await,
        },
    };
    let namespace = pod.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let (session, events) = Session::open(out.client(), &namespace, &pod.name, plan.opening, size);
    forward_events(out, session, events).await;
}

/// Forwards a session's events to the screen.
async fn forward_events(out: Outbox, session: Session, mut events: mpsc::Receiver<PaneEvent>) {
    let event = TerminalData::Event;
    out.data(TerminalData::Session(session)).await;
    while let Some(mut next) = events.recv().await {
        if let PaneEvent::Output(bytes) = &next {
            let mut merged = bytes.to_vec();
            let mut after = None;
            while merged.len() < MERGED_BYTES {
                match events.try_recv() {
                    Ok(PaneEvent::Output(more)) => merged.extend_from_slice(&more),
                    Ok(other) => {
                        after = Some(other);
                        break;
                    }
                    Err(_) => break,
                }
            }
            out.data(event(PaneEvent::Output(merged.into()))).await;
            let Some(after) = after else { continue };
            next = after;
        }
        out.data(event(next)).await;
    }
}

fn add_debugger(pod: &ObjectRef, debug: &DebugPlan) -> Action {
    // It has no undo: an ephemeral container cannot be removed.
    Action::new(
        pod,
        format!("debug {} with {} in {}", pod.describe(), debug.image, debug.name),
        debug.kubectl(pod.namespace.as_deref().unwrap_or("default"), &pod.name),
        Mutation::patch_subresource(pod, "ephemeralcontainers", PatchKind::Strategic, debug.patch()),
    )
    .quietly()
}
