//! The program around the model: its start, its state, and its end.
//!
//! ```text
//!  mod       options, the start and the end      event_loop  the terminal, messages, frames
//!  jobs      dispatches the model's jobs         clusters    switches between clusters
//! ```

mod clusters;
mod event_loop;
mod jobs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use base::task::JoinSet;
use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::config;
use super::console_state::ConsoleState;
use super::desktop_notification::Sequence;
use super::disk_writer::DiskWriter;
use super::display::{Display, DrawnScreen};
use super::job_control::JobControl;
use super::joined_clusters::{ClusterSources, JoinedClusters};
use super::linear::SpeechWriter;
use super::model::{Model, Setup};
use super::recording::{self, Recorder, Session, SessionHeader, recorded_bindings};
use super::terminal::{self, Guard, MouseCapture, TerminalMode};
use super::view::links;
use base::clock::Clock;
use console_data::contexts::ConnectedCluster;
use console_data::extensions::{Extensions, Sources};
use console_data::feed::{self, Feed};
use console_data::forks::Fork;
use console_data::message::Message;
use console_data::project::Project;
use console_data::read_only;
use console_data::scope::Scope;
use console_operations::diagnostics::Diagnostics;
use console_operations::effect::Runner;
use console_toolkit::command::Bindings;
use console_toolkit::theme::depth::Depth;
use console_toolkit::theme::{Theme, ThemeError, background, library};
use console_toolkit::toast::Toast;

/// The name of the theme that follows the terminal.
const AUTO: &str = "auto";

/// The options of the console.
#[derive(Debug)]
pub struct ConsoleOptions {
    /// The name of the cluster or context, first in the header: `podium`, `kind-dev`.
    pub cluster: String,
    /// The server's address, beside it: `in process`, `127.0.0.1:6443`.
    pub origin: String,
    /// The initial namespace; `None` for all.
    pub namespace: Option<String>,
    /// The theme's name; `None` for the user's or the default one.
    pub theme: Option<String>,
    /// The kubeconfig with the contexts to switch to; `None` for kubectl's default.
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig with which plugins reach this cluster; `None` for the one above.
    pub own_kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; `None` if the cluster is not from a kubeconfig.
    pub context: Option<String>,
    /// The directory of the user's `console.toml` and `themes/`.
    pub config_dir: Option<PathBuf>,
    /// Starts with the overview instead of the tabs of the last run.
    pub fresh: bool,
    /// Refuses every change of the cluster.
    pub read_only: bool,
    /// Prints line by line, for screen readers, instead of drawing.
    pub linear: bool,
    /// A file to record the session in, which must not exist (see [`super::recording`]).
    pub record: Option<PathBuf>,
    /// The consequence of leaving, shown in a confirmation; empty if nothing is lost.
    pub quit_warning: String,
    /// The result of applying manifests at the start, and whether it is a warning.
    pub applied: Option<(String, bool)>,
    /// Ends the console at once: SIGTERM, SIGHUP, or the caller is done stopping.
    pub shutdown: CancellationToken,
    /// Notified each time the user asks to leave. With this channel, the console stays and shows `progress` until
    /// `shutdown`; without it, the console returns at once.
    pub quit_requested: Option<mpsc::Sender<()>>,
    /// Messages about stopping, shown in a banner.
    pub progress: Option<mpsc::Receiver<String>>,
    /// The source of time.
    pub clock: Clock,
    /// Diagnoses connections; without it, the screens for diagnoses say that they are unavailable.
    pub diagnose: Option<Arc<dyn Diagnostics>>,
    /// Creates forks of the cluster; without it, the console copies the command that creates a fork.
    pub forks: Option<Arc<dyn Fork>>,
    /// The project that the caller builds: its logs are the first view.
    pub project: Option<Arc<Project>>,
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
            project: None,
        }
    }
}

/// The reason why the console ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The user requested to leave.
    Quit,
    /// The caller cancelled `shutdown` without a request by the user.
    Cancelled,
    /// The terminal was closed.
    TerminalLost,
}

/// The error for a missing terminal.
#[derive(Debug, thiserror::Error)]
#[error("the console needs a terminal on stdin and stdout; without one, use `podium serve` and kubectl")]
pub struct NoTerminalError;

/// Returns an error if there is no terminal.
pub fn require_terminal() -> Result<(), NoTerminalError> {
    if terminal::present() { Ok(()) } else { Err(NoTerminalError) }
}

/// Runs the console until the user leaves. The terminal is restored on every way out.
pub async fn run(client: Client, mut options: ConsoleOptions) -> anyhow::Result<ExitReason> {
    require_terminal()?;
    let config = config::read(options.config_dir.as_deref()).map_err(anyhow::Error::msg)?;
    let linear = options.linear || config.linear;
    let configured = config.theme.as_deref().filter(|name| *name != AUTO);
    let memory = ConsoleState::read(options.config_dir.as_deref());
    let k9s = config.k9s.directory(|name| std::env::var(name).ok());
    let sources = Sources(options.config_dir.iter().cloned().chain(k9s).collect());
    let themes = library::all(&sources.0);
    // A saved theme that no longer exists does not prevent the start.
    let is_there = |name: &&str| themes.iter().any(|(known, theme)| known == name && theme.is_ok());
    let picked = memory.theme(config.theme.as_deref()).filter(is_there);
    let named = options.theme.as_deref().or(picked).or(configured);
    let follows_ground = named.is_none() && !linear;
    let fitting = if follows_ground { base::task::blocking(background::fitting).await? } else { None };
    let theme = pick_theme(&themes, named.or(fitting))?;
    let read_only = options.read_only || config.read_only;
    let recording = match &options.record {
        Some(path) => Some(record(path, &options, &config, &theme.name, read_only)?),
        None => None,
    };
    let client = match &recording {
        Some(session) => recording::recorded(client, session.recorder()),
        None => client,
    };
    let client = if read_only { read_only::client(client) } else { client };
    let mouse = if config.mouse == Some(false) { MouseCapture::Released } else { MouseCapture::Captured };
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
        project: options.project.clone(),
        theme,
        configured_theme: config.theme.clone(),
        depth,
        config_dir: options.config_dir.clone(),
        bindings: Bindings::with(&config.keys)?,
        scope: options.namespace.clone().map_or(Scope::All, Scope::One),
        read_only,
        quit_warning: options.quit_warning.clone(),
        still: config.animations == Some(false),
    };
    let clock = options.clock.clone();
    let (mut model, mut jobs) = Model::new(setup, clock.now());
    let read = {
        let sources = sources.clone();
        base::task::blocking(move || Extensions::read(&sources)).await?
    };
    jobs.extend(model.update(Message::Extensions(read), clock.now()));
    if let Some((text, is_warning)) = options.applied.take() {
        let toast = if is_warning { Toast::warning(text) } else { Toast::info(text) };
        jobs.extend(model.update(Message::Toast(toast), clock.now()));
    }

    if options.project.is_some() {
        jobs.extend(model.open_project(clock.now()));
    }
    if !config.renamed.is_empty() {
        let text = format!("console.toml has names of an earlier version: {}", config.renamed.join(", "));
        jobs.extend(model.update(Message::Toast(Toast::info(text)), clock.now()));
    }

    let job_control = JobControl::new()?;
    let guard = Guard::take(if linear { TerminalMode::Keys } else { TerminalMode::Whole(mouse) })?;
    let variable = |name: &str| std::env::var(name).ok();
    let ascii = config.ascii.unwrap_or_else(|| !terminal::is_unicode(variable));
    let links = config.hyperlinks.unwrap_or_else(|| links::are_supported(variable));
    let display = if linear {
        Display::Read(Box::default(), SpeechWriter::new(std::io::stdout()))
    } else {
        Display::Drawn(Box::new(DrawnScreen::new(ascii, links)?))
    };
    let notices = (config.notifications != Some(false)).then(|| Sequence::detect(variable));
    let (messages, inbox) = mpsc::channel(1024);
    let fallback = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let home = ConnectedCluster {
        name: None,
        origin: options.origin.clone(),
        namespace: options.namespace.clone(),
        client: client.clone(),
    };
    let from = ClusterSources {
        kubeconfig: options.kubeconfig.clone(),
        home: Some((home.clone(), options.own_kubeconfig.clone())),
        read_only,
    };
    let mut shell = Shell {
        joined: JoinedClusters::new(from, messages.clone(), clock.clone()),
        home,
        fresh: options.fresh || !config.restore_tabs,
        kubeconfig: options.kubeconfig.clone(),
        own_kubeconfig: options.own_kubeconfig.clone(),
        diagnose: options.diagnose.clone(),
        forks: options.forks.clone(),
        project: options.project.clone(),
        messages: messages.clone(),
        inbox,
        connecting: JoinSet::new(),
        sources: Sources::default(),
        following: JoinSet::new(),
        model,
        display,
        notices,
        looked_away: false,
        follows_background: follows_ground,
        notified: Vec::new(),
        stale: false,
        runner: Runner::new(client.clone(), messages.clone()).diagnosing(options.diagnose.clone()),
        clock,
        guard,
        job_control,
        quit_requested: options.quit_requested.take(),
        leaving: false,
        disk_writer: options.config_dir.clone().map(|dir| DiskWriter::start(dir, messages.clone())),
        feed: None,
        recorder: recording.as_ref().map(Session::recorder),
    };
    shell.draw()?;
    // A new model does not quit.
    let _ = shell.work(jobs).await?;
    shell.follow_extensions(sources);
    let retry_policy = feed::retry_policy(&options.origin);
    shell.feed = Some(Feed::start(&client, &fallback, &messages, &shell.clock, retry_policy));
    let reason = shell.run(options.progress.take(), &options.shutdown).await;
    shell.keep_tabs();
    if let Err(error) = shell.shut_down().await {
        tracing::warn!(%error, "cannot tell whether the console's unfinished requests succeeded");
    }
    if let Some(writer) = shell.disk_writer.take() {
        writer.end().await;
    }
    drop(shell);
    match recording {
        Some(session) => {
            let ended = session.end().await;
            ended.map_err(|why| anyhow::anyhow!("the recording is incomplete: {why}")).and(reason)
        }
        None => reason,
    }
}

/// Starts the recording of a session.
fn record(
    path: &Path,
    options: &ConsoleOptions,
    config: &config::Config,
    theme: &str,
    read_only: bool,
) -> anyhow::Result<Session> {
    let (columns, rows) = crossterm::terminal::size()?;
    let beginning = SessionHeader {
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
        keys: recorded_bindings(&config.keys),
    };
    Session::begin(path, beginning).with_context(|| path.display().to_string())
}

/// Returns the theme of this name, which must exist if the user named it; without a name, the default.
fn pick_theme(themes: &[(String, Result<Theme, ThemeError>)], name: Option<&str>) -> anyhow::Result<Theme> {
    let chosen = name.unwrap_or(library::DEFAULT);
    match themes.iter().find(|(known, _)| known == chosen) {
        Some((_, Ok(theme))) => Ok(theme.clone()),
        Some((_, Err(error))) => anyhow::bail!("{error}"),
        None => {
            let names: Vec<&str> = themes.iter().map(|(name, _)| name.as_str()).collect();
            anyhow::bail!("no theme {chosen:?}; the themes are {}", names.join(", "))
        }
    }
}

struct Shell {
    /// The cluster that the console was started on.
    home: ConnectedCluster,
    /// The tabs of earlier runs are not opened.
    fresh: bool,
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig of the start cluster, if that is another file.
    own_kubeconfig: Option<PathBuf>,
    diagnose: Option<Arc<dyn Diagnostics>>,
    /// Creates forks of the start cluster.
    forks: Option<Arc<dyn Fork>>,
    /// The project that is built for the start cluster.
    project: Option<Arc<Project>>,
    messages: mpsc::Sender<Message>,
    inbox: mpsc::Receiver<Message>,
    /// The joined clusters, beside the present one.
    joined: JoinedClusters,
    /// The task that connects to another cluster.
    connecting: JoinSet<()>,
    /// The directories of the user's extensions, and the task that watches them.
    sources: Sources,
    following: JoinSet<()>,
    model: Model,
    display: Display,
    /// The sequence for desktop notifications; `None` if they are off.
    notices: Option<Sequence>,
    /// Another window has the focus.
    looked_away: bool,
    /// The user has selected no theme: the theme follows the terminal's background, also when that changes between
    /// light and dark.
    follows_background: bool,
    /// The toasts at the last notification.
    notified: Vec<Toast>,
    /// The terminal may no longer show the last frame.
    stale: bool,
    runner: Runner,
    clock: Clock,
    guard: Guard,
    job_control: JobControl,
    quit_requested: Option<mpsc::Sender<()>>,
    leaving: bool,
    /// Writes the journal, if there is a directory for it.
    disk_writer: Option<DiskWriter>,
    /// The watches of the present cluster; they end with the console.
    feed: Option<Feed>,
    /// Records the session.
    recorder: Option<Recorder>,
}

/// The result of a job: the loop continues or ends.
#[must_use]
enum LoopControl {
    Continue,
    Exit,
}
