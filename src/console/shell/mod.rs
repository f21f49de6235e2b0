//! The program around the model: how it is started, and what it holds while it runs.
//!
//! ```text
//!  mod       options, the start and the end      event_loop  the terminal, messages, frames
//!  jobs      what the model wants done           clusters    going to another cluster
//! ```

mod clusters;
mod event_loop;
mod jobs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::command::Bindings;
use super::config;
use super::contexts::Connected;
use super::diagnosis::Diagnose;
use super::display::{Display, Drawn};
use super::effect::Runner;
use super::elsewhere::{Elsewhere, Joined};
use super::extensions::{Extensions, Sources};
use super::feed::{self, Feed};
use super::forks::Fork;
use super::linear::Voice;
use super::memory::Memory;
use super::message::Message;
use super::model::{Model, Setup};
use super::notice::Sequence;
use super::read_only;
use super::recording::{self, Beginning, Recorder, Session};
use super::scope::Scope;
use super::scribe::Scribe;
use super::terminal::{self, Capture, Guard, Hold};
use super::theme::depth::Depth;
use super::theme::{Theme, ThemeError, ground, library};
use super::toast::Toast;
use super::view::links;
use base::clock::Clock;

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
    /// The outcome of applying manifests at the start, and whether it is a warning.
    pub applied: Option<(String, bool)>,
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
    /// Makes forks of the cluster; none = the command that does so is copied.
    pub forks: Option<Arc<dyn Fork>>,
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
            applied: None,
            shutdown: CancellationToken::new(),
            quit_requested: None,
            progress: None,
            clock: Clock::machine(),
            diagnose: None,
            forks: None,
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
        forks: options.forks.clone(),
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
    if let Some((text, is_warning)) = options.applied.take() {
        let toast = if is_warning { Toast::warning(text) } else { Toast::note(text) };
        jobs.extend(model.update(Message::Toast(toast), clock.now()));
    }

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
        forks: options.forks.clone(),
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
    /// Makes forks of the cluster that the console was started on.
    forks: Option<Arc<dyn Fork>>,
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

/// Whether the console goes on.
enum Flow {
    Continue,
    Exit,
}
