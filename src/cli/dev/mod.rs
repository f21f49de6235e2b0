//! `podium dev`: builds images, applies manifests, shows the logs, and does it again whenever a file changes (DEV-1 to
//! DEV-8).
//!
//! | module | content |
//! |---|---|
//! | [`patterns`], [`tree`], [`watch`] | source files: which of them count, their state, the kernel's reports of changes |
//! | [`schedule`] | the order of builds; no I/O |
//! | [`state_files`], [`program_files`] | files of runs; copies of built programs |
//! | [`target`], [`build`], [`versions`] | an image to build, one build, the built versions |
//! | [`manifests`], [`deployment`], [`object_name`] | manifests with the built images, and their objects in the cluster |
//! | [`rollouts`] | the readiness of the workloads |
//! | [`report`], [`logs`] | messages, and the logs of pods |
//! | [`mod@session`] | one run of all of these |

mod build;
mod deployment;
mod logs;
mod manifests;
mod object_name;
mod patterns;
mod program_files;
mod report;
mod rollouts;
mod schedule;
mod session;
mod state_files;
mod target;
mod tree;
mod versions;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::apply::{DEFAULT_NAMESPACE, Depth};
use super::flags::{ClusterArgs, ConsoleArgs};
use super::logging::{self, Logging, Stderr};
use super::output::print_line;
use super::runtime::{run_to_end, runtime};
use super::serve::{cluster_config, prepare, stop};
use super::signals::StopSignals;
use super::snapshot;
use super::up::{PROGRESS_LINES, config_dir, stop_below_console};
use super::why;
use base::clock::Clock;
use base::quote::shell_word;
use cluster::{Cluster, ClusterConfig, declared_images, default_data_dir, running_instance};
use console::ConsoleOptions;
use console_data::kubeconfig::current_context;
use console_data::project::Project;
use deployment::Deployment;
use images::ImageEntry;
use object::well_known::label::PODIUM_PROJECT;
use report::Report;
use session::Session;
use target::{BuildTarget, targets};

/// The arguments of `podium dev`.
#[derive(Debug, clap::Args)]
pub(super) struct DevRequest {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Manifests to apply and to watch: a file or a directory (repeatable)
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true)]
    filename: Vec<PathBuf>,
    /// Process directories of manifests recursively
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Build the image NAME from DIR: by its Containerfile or Dockerfile with buildah, or by its executable file named
    /// build (repeatable). Images with `build:` in --config and DATA/images/*.yaml are built, too
    #[arg(long, value_name = "NAME=DIR")]
    build: Vec<String>,
    /// Namespace for objects whose manifests have none
    #[arg(short, long, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// Leave the objects in the cluster at the end
    #[arg(long)]
    keep: bool,
    /// Print builds and merged logs instead of opening the console; the default if stdout is not a terminal
    #[arg(long)]
    no_console: bool,
    #[command(flatten)]
    console: ConsoleArgs,
}

pub(super) fn run(request: DevRequest) -> Result<()> {
    if request.filename.iter().any(|path| path == Path::new("-")) {
        bail!("podium dev watches the manifests: name files or directories instead of standard input");
    }
    // Errors of the user's files end the run before anything starts.
    super::apply::read_files(&request.filename, depth(&request))?;
    // Before there are threads.
    let config = cluster_config(&request.cluster)?;
    run_to_end(runtime()?, dev(request, config))
}

/// Removes what runs have left for a data directory that is deleted.
pub(super) fn delete_files(data_dir: &Path) {
    versions::remove_all(data_dir);
}

/// The cluster of a run.
struct DevCluster {
    client: Client,
    /// Its address, for the console.
    origin: String,
    data_dir: PathBuf,
    /// The cluster that the run started; none if it uses one that runs already.
    own: Option<Cluster>,
    _logging: Logging,
}

async fn dev(request: DevRequest, config: ClusterConfig) -> Result<()> {
    let mut signals = StopSignals::new()?;
    let has_console = !request.no_console && console::require_terminal().is_ok();
    if config.file.audit.is_on_screen() && has_console {
        bail!("cannot write the audit log to stdout, which the console uses; name a file");
    }
    let targets = targets(entries(&request.cluster, &config)?, &request.build)?;
    let cluster = start(&request.cluster, config, has_console).await?;
    if let Some(own) = &cluster.own {
        let kill = own.killer();
        signals.before_an_end_by_force(move || {
            kill();
            if has_console {
                console::terminal::restore();
            }
        });
    }
    let data_dir = cluster.data_dir.clone();
    let is_ephemeral = request.cluster.ephemeral && cluster.own.is_some();
    let outcome = match session(&request, &cluster, targets, has_console) {
        Ok(session) if has_console => in_console(request, cluster, session, &mut signals).await,
        Ok(session) => {
            in_lines(&request, &cluster, session, &mut signals).await;
            stop_own(cluster, &mut signals).await;
            Ok(())
        }
        Err(error) => {
            stop_own(cluster, &mut signals).await;
            Err(error)
        }
    };
    if is_ephemeral {
        versions::remove_all(&data_dir);
    }
    outcome
}

async fn stop_own(cluster: DevCluster, signals: &mut StopSignals) {
    if let Some(own) = cluster.own {
        stop(own, signals).await;
    }
}

/// Takes the locks of a run.
fn session(
    request: &DevRequest,
    cluster: &DevCluster,
    targets: Vec<BuildTarget>,
    has_console: bool,
) -> Result<Session> {
    let client = cluster.client.clone();
    let deployment =
        Deployment::open(&cluster.data_dir, client.clone(), &request.namespace, &request.filename)?;
    let (name, clock) = (deployment.project.clone(), Clock::machine());
    let selector = format!("{PODIUM_PROJECT}={name}");
    let project = Arc::new(Project::new(name, selector, request.namespace.clone()));
    let report = if has_console { Report::console(project.clone(), clock.clone()) } else { Report::lines() };
    let output = (report, project, clock);
    Session::new(
        &cluster.data_dir,
        client,
        deployment,
        targets,
        request.filename.clone(),
        depth(request),
        output,
    )
}

/// Runs until a signal, and prints builds and logs.
async fn in_lines(
    request: &DevRequest,
    cluster: &DevCluster,
    mut session: Session,
    signals: &mut StopSignals,
) {
    let (report, project) = (session.report.clone(), session.project.clone());
    let logs = logs::follow_logs(
        cluster.client.clone(),
        project.selector.clone(),
        project.namespaces(),
        report.clone(),
    );
    let work = async {
        if let Some(own) = &cluster.own {
            own.ready().await;
        }
        tokio::join!(session.run(), logs);
    };
    let signal = tokio::select! {
        () = work => "end",
        signal = signals.next() => signal,
    };
    report.note(&format!("{signal}: stopping"));
    if !request.keep {
        tokio::select! {
            () = session.clean_up() => {}
            _ = signals.next() => report.note("the objects of the run stay; the next run deletes them at its end"),
        }
    }
}

/// Runs until the user leaves the console.
async fn in_console(
    request: DevRequest,
    cluster: DevCluster,
    mut session: Session,
    signals: &mut StopSignals,
) -> Result<()> {
    let (quit, mut quit_requested) = mpsc::channel(4);
    let (progress, progress_lines) = mpsc::channel(PROGRESS_LINES);
    let shutdown = CancellationToken::new();
    let objects = if request.keep { "stay" } else { "are deleted" };
    let quit_warning = match &cluster.own {
        Some(_) => format!("The objects that this run created {objects}, and the cluster stops"),
        None => format!("The objects that this run created {objects}; the cluster goes on"),
    };
    let options = ConsoleOptions {
        cluster: "podium".into(),
        origin: cluster.origin.clone(),
        namespace: Some(request.namespace.clone()),
        own_kubeconfig: Some(cluster.data_dir.join("kubeconfig")),
        theme: request.console.theme,
        config_dir: config_dir(),
        fresh: request.console.no_restore,
        read_only: request.console.read_only,
        linear: request.console.linear,
        record: request.console.record,
        quit_warning,
        shutdown: shutdown.clone(),
        quit_requested: Some(quit),
        progress: Some(progress_lines),
        diagnose: Some(why::diagnosis()),
        forks: Some(snapshot::forks(cluster.data_dir.clone())),
        project: Some(session.project.clone()),
        ..ConsoleOptions::default()
    };
    let shown = base::task::start(console::run(cluster.client.clone(), options));
    tokio::pin!(shown);
    let work = async {
        if let Some(own) = &cluster.own {
            own.ready().await;
        }
        session.run().await;
    };
    let ended = tokio::select! {
        ended = &mut shown => Some(ended),
        () = work => None,
        _ = quit_requested.recv() => None,
        signal = signals.next() => {
            tracing::info!("{signal}: stopping");
            None
        }
    };
    if !request.keep {
        // The console may be gone.
        let _ = progress.try_send("deleting the objects of this run; q again leaves them".into());
        tokio::select! {
            () = session.clean_up() => {}
            Some(()) = quit_requested.recv() => {}
            _ = signals.next() => {}
        }
    }
    if let Some(own) = cluster.own {
        stop_below_console(own, progress, &mut quit_requested, signals).await;
    }
    shutdown.cancel();
    let ended = match ended {
        Some(ended) => ended,
        None => shown.await,
    };
    ended.context("the console panicked")??;
    print_line("podium dev ended");
    Ok(())
}

/// Uses the cluster that runs on the data directory, or starts one.
async fn start(args: &ClusterArgs, config: ClusterConfig, is_quiet: bool) -> Result<DevCluster> {
    let chosen = chosen_data_dir(args)?;
    let running = chosen.and_then(|path| {
        let path = path.canonicalize().ok()?;
        Some((running_instance(&path)?, path))
    });
    if let Some((pid, data_dir)) = running {
        let log = logging::start(&data_dir, args.log_level, Stderr::Silent);
        let config = current_context(&data_dir.join("kubeconfig")).await.map_err(|error| anyhow!(error))?;
        let (origin, client) = console_data::contexts::client(config)?;
        if !is_quiet {
            print_line(&format!("using the cluster that runs in {} (pid {pid})", data_dir.display()));
        }
        return Ok(DevCluster { client, origin, data_dir, own: None, _logging: log });
    }
    let (data_dir, log) = prepare(args, &config, Stderr::Silent)?;
    let path = data_dir.path().to_owned();
    let cluster = Cluster::start(config, data_dir).await?;
    if !is_quiet {
        let kubeconfig = cluster.kubeconfig().display().to_string();
        print_line(&format!("started a cluster: KUBECONFIG={}", shell_word(&kubeconfig)));
    }
    let origin = "in process".to_owned();
    let client = cluster.client();
    Ok(DevCluster { client, origin, data_dir: path, own: Some(cluster), _logging: log })
}

/// The data directory of the arguments; `None` for a new temporary one.
fn chosen_data_dir(args: &ClusterArgs) -> Result<Option<PathBuf>> {
    match (&args.data_dir, args.ephemeral) {
        (Some(path), _) => Ok(Some(path.clone())),
        (None, true) => Ok(None),
        (None, false) => Ok(Some(default_data_dir()?)),
    }
}

/// The declared images, each with the directory from which its relative paths start.
fn entries(args: &ClusterArgs, config: &ClusterConfig) -> Result<Vec<(ImageEntry, PathBuf)>> {
    let base = args.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("")).to_path_buf();
    let base = if base.as_os_str().is_empty() { PathBuf::from(".") } else { base };
    let mut entries: Vec<(ImageEntry, PathBuf)> =
        config.file.images.iter().map(|entry| (entry.clone(), base.clone())).collect();
    if let Some(data_dir) = chosen_data_dir(args)? {
        let declared = declared_images(&data_dir);
        if let Some(problem) = declared.problems.first() {
            bail!("{problem}");
        }
        let directory = data_dir.join("images");
        let own = declared.entries.iter().filter(|entry| !versions::is_version(entry));
        entries.extend(own.map(|entry| (entry.clone(), directory.clone())));
    }
    Ok(entries)
}

fn depth(request: &DevRequest) -> Depth {
    if request.recursive { Depth::Recursive } else { Depth::Flat }
}
