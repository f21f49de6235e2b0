//! `podium` and `podium up`: control plane and console in one terminal; `podium console`: the console alone.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use kube::config::KubeConfigOptions;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::allocator;
use super::apply;
use super::flags::{ClusterArgs, ConsoleArgs, ConsoleTarget, StartManifests};
use super::logging::{self, Stderr};
use super::output::print_line;
use super::runtime::{console_runtime, run_to_end, runtime};
use super::serve::{cluster_config, prepare};
use super::signals::StopSignals;
use super::snapshot;
use super::why;
use cluster::{Cluster, ClusterConfig, default_data_dir, running_instance};
use console::ConsoleOptions;

/// Maximum number of lines about a stop that the console has not shown yet.
pub(super) const PROGRESS_LINES: usize = 8;

pub(super) fn run(cluster: ClusterArgs, manifests: StartManifests, console: ConsoleArgs) -> Result<()> {
    console::require_terminal()?;
    let config = cluster_config(&cluster)?;
    run_to_end(runtime()?, up(cluster, config, manifests, console))
}

async fn up(
    args: ClusterArgs,
    config: ClusterConfig,
    start: StartManifests,
    console_args: ConsoleArgs,
) -> Result<()> {
    let mut signals = StopSignals::new()?;
    let manifests = apply::read_files(&start.filename, apply::Depth::Flat)?;
    if config.file.audit.is_on_screen() {
        anyhow::bail!("cannot write the audit log to stdout, which the console uses; name a file");
    }
    let (data_dir, _logging) = prepare(&args, &config, Stderr::Silent)?;
    let files = data_dir.path().to_owned();
    let cluster = Cluster::start(config, data_dir).await?;
    let kill = cluster.killer();
    signals.before_an_end_by_force(|| {
        kill();
        console::terminal::restore();
    });
    let applied = match apply::apply_at_start(&cluster.client(), manifests, start.reapply).await {
        Ok(applied) => applied,
        Err(error) => {
            cluster.stop(|_| {}, CancellationToken::new()).await;
            return Err(error);
        }
    };
    let (quit_warning, last_line) = if args.ephemeral {
        (
            "This stops all pods and deletes the cluster's state",
            "podium stopped; the cluster's state is deleted".to_owned(),
        )
    } else {
        (
            "This stops all pods; the cluster's state is saved",
            format!("podium stopped; the cluster's state is saved in {}", files.display()),
        )
    };
    let (quit, mut quit_requested) = mpsc::channel(4);
    let (progress, progress_lines) = mpsc::channel(PROGRESS_LINES);
    let shutdown = CancellationToken::new();
    let options = ConsoleOptions {
        cluster: "podium".into(),
        origin: "in process".into(),
        namespace: Some("default".into()),
        kubeconfig: None,
        // The file that names this cluster alone: a plugin must not act on another one.
        own_kubeconfig: Some(files.join("kubeconfig")),
        context: None,
        theme: console_args.theme,
        config_dir: config_dir(),
        fresh: console_args.no_restore,
        read_only: console_args.read_only,
        linear: console_args.linear,
        record: console_args.record,
        quit_warning: quit_warning.into(),
        applied: applied.map(|applied| (apply::at_start(&applied), applied.leaves_some())),
        shutdown: shutdown.clone(),
        quit_requested: Some(quit),
        progress: Some(progress_lines),
        clock: cluster.api().clock().clone(),
        diagnose: Some(why::diagnosis()),
        forks: Some(snapshot::forks(files)),
        project: None,
    };
    base::task::start(base::file_pages::return_after_start());
    let shown = base::task::start(console::run(cluster.client(), options));
    tokio::pin!(shown);
    // Wait for the first of these: the user quits, a signal arrives, or the terminal is closed.
    let ended = tokio::select! {
        ended = &mut shown => Some(ended),
        _ = quit_requested.recv() => None,
        signal = signals.next() => {
            tracing::info!("{signal}: stopping");
            None
        }
    };
    stop_below_console(cluster, progress, &mut quit_requested, &mut signals).await;
    shutdown.cancel();
    let ended = match ended {
        Some(ended) => ended,
        None => shown.await,
    };
    ended.context("the console panicked")??;
    // The console has left the terminal as it was before.
    print_line(&last_line);
    Ok(())
}

/// Stops a cluster while its console shows the progress; a further request to quit or signal kills the pods.
pub(super) async fn stop_below_console(
    cluster: Cluster,
    progress: mpsc::Sender<String>,
    quit_requested: &mut mpsc::Receiver<()>,
    signals: &mut StopSignals,
) {
    let force = CancellationToken::new();
    let stopping = cluster.stop(
        move |left| {
            // If the console lags behind, a line is dropped; that does no harm, since the current number is sent
            // repeatedly.
            let _ = progress.try_send(match left.remaining_pods {
                0 => "stopping".into(),
                1 => "stopping: 1 pod left; q again kills it".into(),
                n => format!("stopping: {n} pods left; q again kills them"),
            });
        },
        force.clone(),
    );
    let again = async {
        tokio::select! {
            Some(()) = quit_requested.recv() => {}
            _ = signals.next() => {}
        }
        force.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = stopping => {}
        () = again => {}
    }
}

pub(super) fn console_only(console_args: ConsoleArgs, target: &ConsoleTarget) -> Result<()> {
    console::require_terminal()?;
    allocator::return_freed_memory_at_once();
    run_to_end(console_runtime()?, async {
        let mut signals = StopSignals::new()?;
        let _logging = logging::start(&default_data_dir()?, tracing::Level::INFO, Stderr::Silent);
        let options = KubeConfigOptions { context: target.context.clone(), ..KubeConfigOptions::default() };
        let (config, cluster) = client_config(target, &options).await?;
        let last_line = match cluster.as_str() {
            "" => "podium console ended; that does not stop the cluster".to_owned(),
            name => format!("podium console ended; that does not stop the cluster {name}"),
        };
        let namespace = target.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let (origin, client) = console_data::contexts::client(config)?;
        let shutdown = CancellationToken::new();
        let options = ConsoleOptions {
            cluster: cluster.clone(),
            origin,
            namespace: Some(namespace),
            theme: console_args.theme,
            kubeconfig: target.kubeconfig.clone(),
            context: Some(cluster.clone()).filter(|name| !name.is_empty()),
            config_dir: config_dir(),
            // The tabs of the last run would hide a namespace that the user requested.
            fresh: console_args.no_restore || target.namespace.is_some(),
            read_only: console_args.read_only,
            linear: console_args.linear,
            record: console_args.record,
            shutdown: shutdown.clone(),
            diagnose: Some(why::diagnosis()),
            forks: instance_of(target).map(snapshot::forks),
            ..ConsoleOptions::default()
        };
        let shown = console::run(client, options);
        tokio::pin!(shown);
        let ended = tokio::select! {
            ended = &mut shown => Some(ended),
            _ = signals.next() => None,
        };
        if let Some(ended) = ended {
            ended?;
        } else {
            shutdown.cancel();
            shown.await?;
        }
        print_line(&last_line);
        Ok(())
    })
}

/// The data directory of the instance to which the console connects; `None` unless the console uses the kubeconfig in
/// an instance's data directory.
fn instance_of(target: &ConsoleTarget) -> Option<PathBuf> {
    let given = || std::env::var_os("KUBECONFIG").map(PathBuf::from);
    let kubeconfig = target.kubeconfig.clone().or_else(given)?;
    let data_dir = kubeconfig.parent()?.canonicalize().ok()?;
    let is_own = kubeconfig.file_name()? == "kubeconfig" && target.context.is_none();
    (is_own && running_instance(&data_dir).is_some()).then_some(data_dir)
}

/// The client configuration of a context, and its display name.
async fn client_config(
    target: &ConsoleTarget,
    options: &KubeConfigOptions,
) -> Result<(kube::Config, String)> {
    let path = target.kubeconfig.as_deref();
    let kubeconfig = console_data::kubeconfig::read(path).map_err(|why| match path {
        Some(_) => anyhow!(why),
        None => anyhow!("{why}, or use --kubeconfig; podium without arguments starts a cluster"),
    })?;
    let file = path.map_or_else(|| "the kubeconfig".to_owned(), |path| path.display().to_string());
    let name = options.context.clone().or_else(|| kubeconfig.current_context.clone());
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        anyhow::bail!("{file} has no current context: name one with --context");
    };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, options).await.with_context(|| file)?;
    Ok((config, name))
}

/// The directory of the user's themes and keys.
pub(super) fn config_dir() -> Option<PathBuf> {
    Some(base::user_dirs::config_dir()?.join("podium"))
}
