//! The loop around the model: reads the terminal, runs jobs, draws when something changed.
//!
//! At most sixty frames a second, none while nothing changes; everything that is waiting is taken in
//! before a frame is drawn.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures::StreamExt;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::command::Bindings;
use super::config;
use super::context::ScreenId;
use super::contexts::{self, Connected};
use super::diagnosis::Diagnose;
use super::display::{Display, Drawn};
use super::effect::{Runner, Task};
use super::elsewhere::{Elsewhere, Joined};
use super::extensions::{Extensions, Sources};
use super::feed::{self, Feed};
use super::kept_tabs::KeptTabs;
use super::linear::Voice;
use super::memory::Memory;
use super::message::{Data, FileEdited, Message};
use super::model::{Job, Model, Setup};
use super::notice::Sequence;
use super::read_only;
use super::recording::{self, Beginning, Recorder, Session};
use super::reload;
use super::resource::ClusterId;
use super::saved;
use super::scope::Scope;
use super::screen::contexts::ContextsData;
use super::screen::edit;
use super::screen::forwards::LISTENING;
use super::screen::terminal::SESSION;
use super::scribe::Scribe;
use super::terminal::{self, Capture, Guard, Hold};
use super::theme::depth::Depth;
use super::theme::{Theme, ThemeError, ground, library};
use super::toast::Toast;
use super::view::links;
use base::clock::Clock;

const FRAME: Duration = Duration::from_millis(16);
/// Messages taken in before a frame is due again, at most.
const BURST: usize = 4096;
/// How long they are taken in before somebody looks whether a key was typed.
const SLICE: Duration = Duration::from_millis(2);

/// How long changes that were sent are waited for when one goes to another cluster.
const LAST_ACTIONS: Duration = Duration::from_secs(5);

/// The theme of `console.toml` that follows the terminal.
const AUTO: &str = "auto";

/// How to run the console.
#[derive(Debug)]
pub struct ConsoleOptions {
    /// The cluster or context, first in the header: `podium`, `kind-dev`.
    pub cluster: String,
    /// How it is reached, beside it: `in process`, `127.0.0.1:6443`.
    pub origin: String,
    /// The namespace to start in; none means all.
    pub namespace: Option<String>,
    /// The theme by name; none means the user's or the default.
    pub theme: Option<String>,
    /// The kubeconfig whose contexts can be gone to; none is the one that kubectl reads.
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig that opens this cluster to programs of plugins; none where it is the one above.
    pub own_kubeconfig: Option<PathBuf>,
    /// The context of it that this is; none where it is not of a kubeconfig.
    pub context: Option<String>,
    /// Where `console.toml` and `themes/` of the user are.
    pub config_dir: Option<PathBuf>,
    /// Starts with the overview, not with the tabs of the last run.
    pub fresh: bool,
    /// Refuses every change of the cluster.
    pub read_only: bool,
    /// Says line by line what is there, for screen readers, in the place of drawing it.
    pub linear: bool,
    /// A file to record the session in, which must not be there yet (see [`super::recording`]).
    pub record: Option<PathBuf>,
    /// What leaving does, asked before it; empty when nothing is lost.
    pub quit_warning: String,
    /// Ends the console at once, whatever it shows: SIGTERM, SIGHUP, or the caller is done stopping.
    pub shutdown: CancellationToken,
    /// Notified each time the user asks to leave. With it, the console stays and shows `progress` until
    /// `shutdown`; without it, it returns at once.
    pub quit_requested: Option<mpsc::Sender<()>>,
    /// Lines about stopping, shown in a banner.
    pub progress: Option<mpsc::Receiver<String>>,
    /// The source of time.
    pub clock: Clock,
    /// Who walks the ways of connections; none = the screens that ask for it say so.
    pub diagnose: Option<Arc<dyn Diagnose>>,
}

impl Default for ConsoleOptions {
    fn default() -> Self {
        Self {
            cluster: "podium".into(),
            origin: String::new(),
            namespace: None,
            theme: None,
            kubeconfig: None,
            own_kubeconfig: None,
            context: None,
            config_dir: None,
            fresh: false,
            read_only: false,
            linear: false,
            record: None,
            quit_warning: String::new(),
            shutdown: CancellationToken::new(),
            quit_requested: None,
            progress: None,
            clock: Clock::machine(),
            diagnose: None,
        }
    }
}

/// Why the console ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The user asked to leave.
    Quit,
    /// The caller cancelled `shutdown`, and the user had not asked.
    Cancelled,
    /// The terminal is gone.
    TerminalLost,
}

/// There is no terminal to draw on.
#[derive(Debug, thiserror::Error)]
#[error("the console needs a terminal on stdin and stdout; without one, use `podium serve` and kubectl")]
pub struct NoTerminal;

/// Refuses to go on where there is no terminal.
pub fn require_terminal() -> Result<(), NoTerminal> {
    if terminal::present() { Ok(()) } else { Err(NoTerminal) }
}

/// Runs the console until the user leaves. The terminal is restored on every way out.
pub async fn run(client: Client, mut options: ConsoleOptions) -> anyhow::Result<ExitReason> {
    require_terminal()?;
    let config = config::read(options.config_dir.as_deref()).map_err(anyhow::Error::msg)?;
    let linear = options.linear || config.linear;
    let configured = config.theme.as_deref().filter(|name| *name != AUTO);
    let memory = Memory::read(options.config_dir.as_deref());
    let k9s = config.k9s.directory(|name| std::env::var(name).ok());
    let sources = Sources(options.config_dir.iter().cloned().chain(k9s).collect());
    let themes = library::all(&sources.0);
    // A theme that was picked once and is gone is no reason not to start.
    let is_there = |name: &&str| themes.iter().any(|(known, theme)| known == name && theme.is_ok());
    let picked = memory.theme(config.theme.as_deref()).filter(is_there);
    let named = options.theme.as_deref().or(picked).or(configured);
    let follows_ground = named.is_none() && !linear;
    let fitting = if follows_ground { tokio::task::spawn_blocking(ground::fitting).await? } else { None };
    let theme = pick_theme(&themes, named.or(fitting))?;
    let read_only = options.read_only || config.read_only;
    let recording = match &options.record {
        Some(path) => Some(record(path, &options, &theme.name, read_only)?),
        None => None,
    };
    let client = match &recording {
        Some(session) => recording::recorded(client, session.recorder()),
        None => client,
    };
    let client = if read_only { read_only::client(client) } else { client };
    let mouse = if config.mouse == Some(false) { Capture::Released } else { Capture::Taken };
    let depth = Depth::detect(|name| std::env::var(name).ok());
    let cluster_styles = config.clusters.iter().map(|(name, style)| (name.clone(), depth.adapt(*style)));
    let setup = Setup {
        cluster: options.cluster.clone(),
        origin: options.origin.clone(),
        context: options.context.clone(),
        home: (options.cluster.clone(), options.origin.clone()),
        cluster_styles: cluster_styles.collect(),
        thresholds: config.thresholds,
        node_shell: config.node_shell,
        theme,
        configured_theme: config.theme.clone(),
        depth,
        config_dir: options.config_dir.clone(),
        bindings: Bindings::with(&config.keys)?,
        scope: options.namespace.clone().map_or(Scope::All, Scope::One),
        read_only,
        quit_warning: options.quit_warning.clone(),
        still: config.motion == Some(false),
    };
    let clock = options.clock.clone();
    let (mut model, mut jobs) = Model::new(setup, clock.now());
    let read = {
        let sources = sources.clone();
        tokio::task::spawn_blocking(move || Extensions::read(&sources)).await?
    };
    jobs.extend(model.update(Message::Extensions(read), clock.now()));

    let guard = Guard::take(if linear { Hold::Keys } else { Hold::Whole(mouse) })?;
    let variable = |name: &str| std::env::var(name).ok();
    let ascii = config.ascii.unwrap_or_else(|| !terminal::is_unicode(variable));
    let links = config.links.unwrap_or_else(|| links::are_known(variable));
    let display = if linear {
        Display::Read(Box::default(), Voice::new(std::io::stdout()))
    } else {
        Display::Drawn(Box::new(Drawn::new(ascii, links)?))
    };
    let notices = (config.notices != Some(false)).then(|| Sequence::detect(variable));
    let (messages, inbox) = mpsc::channel(1024);
    let fallback = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let home = Connected {
        name: None,
        origin: options.origin.clone(),
        namespace: options.namespace.clone(),
        client: client.clone(),
    };
    let from = Elsewhere {
        kubeconfig: options.kubeconfig.clone(),
        home: Some((home.clone(), options.own_kubeconfig.clone())),
        read_only,
    };
    let mut shell = Shell {
        joined: Joined::new(from, messages.clone(), clock.clone()),
        home,
        fresh: options.fresh || !config.restore,
        kubeconfig: options.kubeconfig.clone(),
        own_kubeconfig: options.own_kubeconfig.clone(),
        diagnose: options.diagnose.clone(),
        messages: messages.clone(),
        inbox,
        connecting: JoinSet::new(),
        sources: Sources::default(),
        following: JoinSet::new(),
        model,
        display,
        notices,
        looked_away: false,
        follows_ground,
        told: Vec::new(),
        stale: false,
        runner: Runner::new(client.clone(), messages.clone()).diagnosing(options.diagnose.clone()),
        clock,
        guard,
        quit_requested: options.quit_requested.take(),
        leaving: false,
        scribe: options.config_dir.clone().map(|dir| Scribe::start(dir, messages.clone())),
        feed: None,
        recorder: recording.as_ref().map(Session::recorder),
    };
    shell.draw()?;
    shell.work(jobs).await?;
    shell.follow_extensions(sources);
    let retry_policy = feed::retry_policy(&options.origin);
    shell.feed = Some(Feed::start(&client, &fallback, &messages, &shell.clock, retry_policy));
    let reason = shell.run(options.progress.take(), &options.shutdown).await;
    shell.keep_tabs();
    if let Err(error) = shell.settle().await {
        tracing::warn!(%error, "what was under way at the end is not known");
    }
    if let Some(scribe) = shell.scribe.take() {
        scribe.end().await;
    }
    drop(shell);
    match recording {
        Some(session) => {
            let ended = session.end().await;
            ended.map_err(|why| anyhow::anyhow!("the recording is not whole: {why}")).and(reason)
        }
        None => reason,
    }
}

/// Begins a recording of a session that begins now.
fn record(path: &Path, options: &ConsoleOptions, theme: &str, read_only: bool) -> anyhow::Result<Session> {
    let (columns, rows) = crossterm::terminal::size()?;
    let beginning = Beginning {
        version: recording::VERSION,
        now: options.clock.now(),
        columns,
        rows,
        cluster: options.cluster.clone(),
        origin: options.origin.clone(),
        namespace: options.namespace.clone(),
        context: options.context.clone(),
        theme: theme.to_owned(),
        read_only,
    };
    Session::begin(path, beginning).with_context(|| path.display().to_string())
}

/// The one of this name, which must be there if the user has named it; the default one where none is named.
fn pick_theme(themes: &[(String, Result<Theme, ThemeError>)], name: Option<&str>) -> anyhow::Result<Theme> {
    let wanted = name.unwrap_or(library::DEFAULT);
    match themes.iter().find(|(known, _)| known == wanted) {
        Some((_, Ok(theme))) => Ok(theme.clone()),
        Some((_, Err(error))) => anyhow::bail!("{error}"),
        None => {
            let names: Vec<&str> = themes.iter().map(|(name, _)| name.as_str()).collect();
            anyhow::bail!("no theme {wanted:?}; there are {}", names.join(", "))
        }
    }
}

struct Shell {
    /// The cluster that the console was started on.
    home: Connected,
    /// No tabs of earlier runs are opened.
    fresh: bool,
    kubeconfig: Option<PathBuf>,
    /// Of the cluster that the console was started on, where that is another file.
    own_kubeconfig: Option<PathBuf>,
    diagnose: Option<Arc<dyn Diagnose>>,
    messages: mpsc::Sender<Message>,
    inbox: mpsc::Receiver<Message>,
    /// The clusters that are looked at beside this one.
    joined: Joined,
    /// Who asks another cluster for an answer.
    connecting: JoinSet<()>,
    /// Where the files are that the user brings, and who sees them change.
    sources: Sources,
    following: JoinSet<()>,
    model: Model,
    display: Display,
    /// How the desktop is told; none = it is not.
    notices: Option<Sequence>,
    /// Another window has the focus.
    looked_away: bool,
    /// Nobody has picked a theme: it fits the terminal, also when that changes from light to dark.
    follows_ground: bool,
    /// The news that was there last.
    told: Vec<Toast>,
    /// What was drawn may not be there any more.
    stale: bool,
    runner: Runner,
    clock: Clock,
    guard: Guard,
    quit_requested: Option<mpsc::Sender<()>>,
    leaving: bool,
    /// Keeps the journal, where there is a place for it.
    scribe: Option<Scribe>,
    /// Ended with the console.
    feed: Option<Feed>,
    /// Writes the session down.
    recorder: Option<Recorder>,
}

enum Flow {
    Continue,
    Exit,
}

impl Shell {
    async fn run(
        &mut self,
        mut progress: Option<mpsc::Receiver<String>>,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<ExitReason> {
        let mut input = EventStream::new();
        let mut next_frame = Instant::now();
        loop {
            let wake = self.until_wake();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    return Ok(if self.leaving { ExitReason::Quit } else { ExitReason::Cancelled });
                }
                event = input.next() => match event {
                    Some(Ok(event)) => {
                        if let Flow::Exit = self.input(event, &mut input).await? {
                            return Ok(ExitReason::Quit);
                        }
                        // What a key does is seen at once, however much else is drawn: nobody types sixty keys a second.
                        next_frame = Instant::now();
                    }
                    Some(Err(_)) | None => return Ok(ExitReason::TerminalLost),
                },
                // A timer is late where the runtime is busy: a frame that is due does not wait for it.
                () = frame(next_frame), if self.model.dirty => {
                    if self.draw().is_err() {
                        return Ok(ExitReason::TerminalLost);
                    }
                    next_frame = Instant::now() + FRAME;
                }
                () = std::future::ready(()), if self.model.works() && !self.model.dirty => {
                    if let Flow::Exit = self.message(Message::Work).await? { return Ok(ExitReason::Quit) }
                }
                Some(message) = self.inbox.recv() => {
                    let mut next = Some(message);
                    let mut left = BURST;
                    let end = next_frame.min(Instant::now() + SLICE);
                    while let Some(message) = next.take() {
                        if let Flow::Exit = self.message(message).await? { return Ok(ExitReason::Quit) }
                        left -= 1;
                        // A frame that is due goes first: a flood of changes must not hide itself.
                        if left > 0 && Instant::now() < end {
                            next = self.inbox.try_recv().ok();
                        }
                    }
                }
                Some(line) = next_line(&mut progress) => {
                    self.message(Message::Stopping(line)).await?;
                }
                () = tokio::time::sleep(wake.unwrap_or(Duration::MAX)), if wake.is_some() && !self.model.dirty => {
                    self.model.toasts.expire(self.clock.now());
                    self.message(Message::Tick).await?;
                }
            }
        }
    }

    fn until_wake(&self) -> Option<Duration> {
        let at = self.model.shared.wake.get()?;
        Some(base::clock::until(self.clock.now(), at) + Duration::from_millis(5))
    }

    async fn input(&mut self, event: Event, input: &mut EventStream) -> anyhow::Result<Flow> {
        if let Some(recorder) = &self.recorder {
            recorder.input(&event);
        }
        if let Display::Read(reader, _) = &mut self.display {
            reader.heed();
        }
        let message = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                if let Display::Drawn(drawn) = &mut self.display {
                    drawn.selection = None;
                }
                Message::Key(key)
            }
            Event::FocusLost => {
                self.looked_away = true;
                return Ok(Flow::Continue);
            }
            Event::FocusGained => {
                self.looked_away = false;
                self.follow_ground(input).await?;
                return Ok(Flow::Continue);
            }
            Event::Mouse(mouse) => {
                if let Display::Drawn(drawn) = &mut self.display {
                    self.model.dirty = true;
                    if drawn.selects(mouse) {
                        return Ok(Flow::Continue);
                    }
                    if let Some(text) = drawn.selected(mouse) {
                        self.copy(&text)?;
                    }
                }
                Message::Mouse(mouse)
            }
            Event::Paste(text) => Message::Paste(text),
            Event::Resize(columns, rows) => {
                // Many changes come as one, and the last size may be the one that was drawn.
                self.stale = true;
                Message::Resize(columns, rows)
            }
            Event::Key(_) => return Ok(Flow::Continue),
        };
        let jobs = self.update(message);
        for job in jobs {
            match job {
                job @ (Job::Editor(..) | Job::EditFile(..)) => {
                    // The stream would take the editor's keys.
                    *input = EventStream::new();
                    self.job(job).await?;
                    *input = EventStream::new();
                }
                job => {
                    if let Flow::Exit = self.job(job).await? {
                        return Ok(Flow::Exit);
                    }
                }
            }
        }
        Ok(Flow::Continue)
    }

    /// Takes the theme that fits the terminal now, unless the user has picked one.
    async fn follow_ground(&mut self, input: &mut EventStream) -> anyhow::Result<()> {
        self.follows_ground &= ground::is_fitting(&self.model.shared.theme.name);
        if !self.follows_ground {
            return Ok(());
        }
        // The stream would take the answer.
        *input = EventStream::new();
        let fitting = tokio::task::spawn_blocking(ground::fitting).await?;
        *input = EventStream::new();
        if let Some(name) = fitting.filter(|name| *name != self.model.shared.theme.name) {
            self.model.fit_theme(name, self.clock.now());
        }
        Ok(())
    }

    /// Copies what was selected.
    fn copy(&mut self, text: &str) -> std::io::Result<()> {
        terminal::copy(text)?;
        self.model.update(Message::Toast(Toast::copied(text)), self.clock.now());
        Ok(())
    }

    async fn message(&mut self, message: Message) -> anyhow::Result<Flow> {
        let jobs = self.update(message);
        self.work(jobs).await
    }

    fn update(&mut self, mut message: Message) -> Vec<Job> {
        let now = self.clock.now();
        if let Some(recorder) = &self.recorder {
            recorder.message(&mut message, now);
        }
        terminal::in_loop(|| self.model.update(message, now))
    }

    async fn work(&mut self, jobs: Vec<Job>) -> anyhow::Result<Flow> {
        for job in jobs {
            if let Flow::Exit = self.job(job).await? {
                return Ok(Flow::Exit);
            }
        }
        Ok(Flow::Continue)
    }

    async fn job(&mut self, job: Job) -> anyhow::Result<Flow> {
        match job {
            Job::On(cluster, job) => match *job {
                Job::ReadJournal(uid) => self.with_scribe(|scribe| scribe.read(uid, cluster)),
                job => {
                    match (&self.recorder, &job) {
                        (Some(recorder), Job::Join(name)) => recorder.joins(cluster, name.as_deref()),
                        (_, Job::Start(task)) => self.note_the_start(task),
                        _ => {}
                    }
                    self.joined.job(cluster, job);
                }
            },
            // Only of another cluster than this one.
            Job::Join(_) | Job::Attach(_) | Job::Need(_) | Job::Rest => {}
            Job::Start(task) => {
                self.note_the_start(&task);
                self.runner.start(task);
            }
            Job::Cancel(screen, slot) => self.runner.cancel(screen, slot),
            Job::Close(screen) => {
                self.runner.close(screen);
                self.joined.close(screen);
            }
            Job::Act(action) => self.runner.act(*action),
            Job::Run(run) => self.runner.run(*run),
            Job::Copy(text) => terminal::copy(&text)?,
            Job::Save(name, text) => self.save(&name, &text).await,
            Job::Editor(screen, text) => self.editor(screen, text).await?,
            Job::EditFile(screen, path) => self.edit_file(screen, path).await?,
            Job::Remember(memory) => self.remember(memory).await,
            Job::Watch(kind, namespace, include) => {
                if let Some(feed) = &mut self.feed {
                    feed.watch(kind, namespace, include);
                }
            }
            Job::ReadTabs(_) if self.fresh => {
                let kept = Message::KeptTabs(KeptTabs::default());
                self.model.update(kept, self.clock.now());
            }
            Job::ReadTabs(cluster) => self.with_scribe(|scribe| scribe.read_tabs(cluster)),
            Job::KeepTabs(cluster, tabs) => self.with_scribe(|scribe| scribe.keep_tabs(cluster, tabs)),
            Job::TellDrafts(cluster) => self.with_scribe(|scribe| scribe.tell_drafts(cluster)),
            Job::ReadDraft(cluster, screen, key) => {
                self.with_scribe(|scribe| scribe.read_draft(cluster, screen, key));
            }
            Job::KeepDraft(cluster, draft) => self.with_scribe(|scribe| scribe.keep_draft(cluster, *draft)),
            Job::ForgetDraft(cluster, key) => self.with_scribe(|scribe| scribe.forget_draft(cluster, key)),
            Job::ReadJournal(uid) => self.with_scribe(|scribe| scribe.read(uid, ClusterId::HOME)),
            Job::ReadContexts => self.read_contexts(),
            Job::KeepJournal(cluster, lines) => self.with_scribe(|scribe| scribe.append(cluster, lines)),
            Job::MeasurePods(wanted) => {
                if let Some(feed) = &mut self.feed {
                    feed.measure_pods(wanted);
                }
            }
            Job::Unwatch(resource) => {
                if let Some(feed) = &mut self.feed {
                    feed.unwatch(&resource);
                }
            }
            Job::ListContexts(screen) => {
                while self.connecting.try_join_next().is_some() {}
                let (path, messages) = (self.kubeconfig.clone(), self.messages.clone());
                self.connecting.spawn(async move {
                    let listed = tokio::task::spawn_blocking(move || contexts::list(path.as_deref())).await;
                    let listed = listed.unwrap_or_else(|_| Err("the kubeconfig cannot be read".to_owned()));
                    let data = Data::new(ContextsData(listed));
                    // The loop may be over.
                    let _ = messages.send(Message::Data(screen, data)).await;
                });
            }
            Job::Connect(None) => Box::pin(self.adopt(self.home.clone())).await?,
            Job::Connect(Some(name)) => {
                // Whoever was asked before is not waited for any more.
                self.connecting = JoinSet::new();
                let (path, messages) = (self.kubeconfig.clone(), self.messages.clone());
                let recorder = self.recorder.clone();
                if let Some(recorder) = &recorder {
                    recorder.goes(&name);
                }
                self.connecting.spawn(async move {
                    let message = match contexts::connect(path.as_deref(), &name).await {
                        Ok(connected) => Message::Connected(Box::new(connected)),
                        Err(why) => {
                            if let Some(recorder) = &recorder {
                                recorder.not_gone(&why);
                            }
                            Message::Toast(Toast::failed(why))
                        }
                    };
                    let _ = messages.send(message).await;
                });
            }
            Job::Adopt(connected) => Box::pin(self.adopt(*connected)).await?,
            Job::Redraw => {
                self.stale = true;
                if let Display::Read(reader, _) = &mut self.display {
                    reader.read_again();
                }
                self.model.dirty = true;
                if let Some(feed) = &mut self.feed {
                    feed.retry();
                }
                self.joined.retry();
            }
            Job::Quit => {
                self.leaving = true;
                // While there is somebody to take it away from.
                self.runner.end_lasting();
                self.joined.end_lasting();
                let Some(asked) = &self.quit_requested else { return Ok(Flow::Exit) };
                // A full channel means that the caller has not yet taken the last request.
                if let Err(mpsc::error::TrySendError::Closed(())) = asked.try_send(()) {
                    return Ok(Flow::Exit);
                }
                self.model.stopping.get_or_insert_with(|| "asking every pod to terminate…".into());
                self.model.dirty = true;
            }
        }
        Ok(Flow::Continue)
    }

    /// Waits for changes that were sent, and until what was made for screens is taken away again; for a while at most. What
    /// came of them is in the journal then.
    async fn settle(&mut self) -> anyhow::Result<()> {
        self.runner.end_tasks();
        let none = self.none_joined();
        let joined = std::mem::replace(&mut self.joined, none).settle();
        tokio::pin!(joined);
        let (mut settled, mut elsewhere) = (false, false);
        let deadline = tokio::time::sleep(LAST_ACTIONS);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                () = &mut deadline => break,
                Some(message) = self.inbox.recv() => {
                    Box::pin(self.message(message)).await?;
                }
                ended = self.runner.next_action(), if !settled => settled = ended.is_none(),
                () = &mut joined, if !elsewhere => elsewhere = true,
                () = std::future::ready(()), if settled && elsewhere => break,
            }
        }
        while let Ok(message) = self.inbox.try_recv() {
            Box::pin(self.message(message)).await?;
        }
        Ok(())
    }

    /// Looks at another cluster from now on: what is under way here ends, but for changes that were sent, whose results
    /// are waited for and kept in the journal they belong to.
    async fn adopt(&mut self, connected: Connected) -> anyhow::Result<()> {
        self.feed = None;
        self.keep_tabs();
        self.settle().await?;
        if let Some(scribe) = self.scribe.take() {
            scribe.end().await;
        }
        // What the old clusters' tasks still send goes nowhere.
        let (messages, inbox) = mpsc::channel(1024);
        (self.messages, self.inbox) = (messages, inbox);
        self.joined = self.none_joined();
        let Connected { name, origin, namespace, client } = connected;
        let client = match &name {
            Some(_) if self.model.setup.read_only => read_only::client(client),
            _ => client,
        };
        self.runner = Runner::new(client.clone(), self.messages.clone()).diagnosing(self.diagnose.clone());
        let home = self.model.setup.home.clone();
        let setup = Setup {
            cluster: name.clone().unwrap_or(home.0),
            origin: origin.clone(),
            context: name,
            scope: namespace.clone().map_or(Scope::All, Scope::One),
            // Only the first cluster ends with the console, wherever one is when one leaves.
            ..self.model.setup.clone()
        };
        let now = self.clock.now();
        let text = format!("this is {} now", setup.cluster);
        let (mut model, jobs) = Model::new(setup, now);
        model.shared.theme = self.model.shared.theme.clone();
        model.shared.extensions = self.model.shared.extensions.clone();
        model.stopping = self.model.stopping.take();
        self.model = model;
        self.scribe =
            self.model.setup.config_dir.clone().map(|dir| Scribe::start(dir, self.messages.clone()));
        self.stale = true;
        self.follow_extensions(self.sources.clone());
        Box::pin(self.work(jobs)).await?;
        let fallback = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let policy = feed::retry_policy(&origin);
        self.feed = Some(Feed::start(&client, &fallback, &self.messages, &self.clock, policy));
        self.model.update(Message::Toast(Toast::done(text)), now);
        Ok(())
    }

    /// What a task tells that asks no server is in a recording by itself.
    fn note_the_start(&self, task: &Task) {
        match (&self.recorder, task.slot()) {
            (Some(recorder), SESSION) => recorder.terminal_begins(task.screen),
            (Some(recorder), LISTENING) => recorder.forwards_begin(task.screen),
            _ => {}
        }
    }

    /// No cluster beside the one that is looked at.
    fn none_joined(&self) -> Joined {
        let from = Elsewhere {
            kubeconfig: self.kubeconfig.clone(),
            home: Some((self.home.clone(), self.own_kubeconfig.clone())),
            read_only: self.model.setup.read_only,
        };
        Joined::new(from, self.messages.clone(), self.clock.clone())
    }

    /// Reads which contexts there are, for what is typed.
    fn read_contexts(&mut self) {
        while self.following.try_join_next().is_some() {}
        let (path, messages) = (self.kubeconfig.clone(), self.messages.clone());
        self.following.spawn(async move {
            let listed = tokio::task::spawn_blocking(move || contexts::list(path.as_deref())).await;
            let listed = listed.unwrap_or_else(|_| Err("the kubeconfig cannot be read".to_owned()));
            // The loop may be over.
            let _ = messages.send(Message::Contexts(listed)).await;
        });
    }

    /// Has these files read again whenever they change.
    fn follow_extensions(&mut self, sources: Sources) {
        self.following = JoinSet::new();
        self.following.spawn(reload::follow(sources.clone(), self.clock.clone(), self.messages.clone()));
        self.sources = sources;
        self.read_contexts();
        // Whom programs of plugins are, too: the file may be slow to read.
        let context = self.model.setup.context.clone();
        let path =
            self.own_kubeconfig.clone().filter(|_| context.is_none()).or_else(|| self.kubeconfig.clone());
        let messages = self.messages.clone();
        self.following.spawn(async move {
            let found =
                tokio::task::spawn_blocking(move || contexts::identity(path.as_deref(), context.as_deref()));
            if let Ok(identity) = found.await {
                // The loop may be over.
                let _ = messages.send(Message::Identity(Box::new(identity))).await;
            }
        });
    }

    /// Keeps the tabs as they are now, of the cluster that is looked at, and what is typed in editors.
    fn keep_tabs(&mut self) {
        for (cluster, draft) in self.model.unsaved_drafts() {
            self.with_scribe(|scribe| scribe.keep_draft(cluster, draft));
        }
        if let Some((cluster, tabs)) = self.model.kept_tabs() {
            self.with_scribe(|scribe| scribe.keep_tabs(cluster, tabs));
        }
    }

    fn with_scribe(&mut self, ask: impl FnOnce(&Scribe) -> Result<(), Toast>) {
        if let Some(Err(toast)) = self.scribe.as_ref().map(ask) {
            self.model.update(Message::Toast(toast), self.clock.now());
        }
    }

    fn draw(&mut self) -> std::io::Result<()> {
        let now = self.clock.now();
        self.model.toasts.expire(now);
        self.model.dirty = false;
        let stale = std::mem::take(&mut self.stale);
        let model = &self.model;
        match &mut self.display {
            Display::Drawn(drawn) => {
                if stale {
                    drawn.screen.forget()?;
                }
                drawn.draw(model, now)?;
            }
            Display::Read(reader, voice) => {
                let said = terminal::in_loop(|| reader.read(model, now));
                voice.say(&said)?;
            }
        }
        self.notify()
    }

    /// Tells the desktop what came of something while the user looked elsewhere.
    fn notify(&mut self) -> std::io::Result<()> {
        let now: Vec<Toast> = self.model.toasts.iter().map(|(toast, _)| toast.clone()).collect();
        let new: Vec<&Toast> = now.iter().filter(|toast| !self.told.contains(toast)).collect();
        // Only what is worth to come back for, and one for all of it.
        let text: Vec<&str> =
            new.iter().filter(|toast| toast.is_an_end()).map(|toast| toast.text.as_str()).collect();
        if let Some(sequence) = self.notices.filter(|_| self.looked_away && !text.is_empty()) {
            terminal::tell(&sequence.of(&text.join(", ")))?;
        }
        self.told = now;
        Ok(())
    }

    async fn save(&mut self, name: &str, text: &str) {
        let name: String = name.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
        let kept = self.model.setup.config_dir.as_deref().map(saved::directory);
        let dir = kept.clone().unwrap_or_else(|| std::env::current_dir().unwrap_or_default());
        let made = match kept {
            Some(kept) => saved::make_directory(&kept).await,
            None => Ok(()),
        };
        let saved = match made {
            Ok(()) => saved::write_new(&dir, &name, text).await,
            Err(error) => Err(error),
        };
        let toast = match saved {
            Ok(path) => Toast::done(format!("saved {}", path.display())),
            Err(error) => Toast::failed(format!("{}: {error}", dir.join(name).display())),
        };
        let now = self.clock.now();
        self.model.update(Message::Toast(toast), now);
    }

    async fn remember(&mut self, memory: Memory) {
        let Some(dir) = self.model.setup.config_dir.clone() else { return };
        let place = dir.display().to_string();
        let written = tokio::task::spawn_blocking(move || memory.write(&dir)).await;
        if let Ok(Err(error)) = written {
            let toast = Toast::note(format!("not kept for the next run: {place}: {error}"));
            self.model.update(Message::Toast(toast), self.clock.now());
        }
    }

    /// Lends the terminal to an editor on a file; the screen hears that it was left, however that was.
    async fn edit_file(&mut self, screen: ScreenId, path: PathBuf) -> anyhow::Result<()> {
        let edited = self.guard.lend(edit::external::open(&path)).await?;
        self.stale = true;
        self.model.dirty = true;
        let now = self.clock.now();
        if let Err(error) = edited {
            self.model.update(Message::Toast(Toast::failed(error)), now);
        }
        let jobs = self.model.update(Message::Data(screen, Data::new(FileEdited(path))), now);
        for job in jobs {
            if !matches!(job, Job::Editor(..) | Job::EditFile(..)) {
                Box::pin(self.job(job)).await?;
            }
        }
        Ok(())
    }

    async fn editor(&mut self, screen: ScreenId, text: String) -> anyhow::Result<()> {
        let edited = self.guard.lend(edit::external::run(text)).await?;
        self.stale = true;
        self.model.dirty = true;
        let message = match edited {
            Ok(text) => Message::Data(screen, Data::new(edit::EditData::External(text))),
            Err(error) => Message::Toast(Toast::failed(error)),
        };
        let now = self.clock.now();
        let jobs = self.model.update(message, now);
        for job in jobs {
            if !matches!(job, Job::Editor(..)) {
                Box::pin(self.job(job)).await?;
            }
        }
        Ok(())
    }
}

/// Waits until a frame is due.
async fn frame(due: Instant) {
    if Instant::now() < due {
        tokio::time::sleep_until(due).await;
    }
}

async fn next_line(progress: &mut Option<mpsc::Receiver<String>>) -> Option<String> {
    match progress {
        Some(lines) => {
            let line = lines.recv().await;
            if line.is_none() {
                *progress = None;
            }
            line
        }
        None => std::future::pending().await,
    }
}
