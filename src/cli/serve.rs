//! `podium serve`: the control plane alone.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio_util::sync::CancellationToken;

use super::apply;
use super::flags::{ClusterArgs, StartManifests};
use super::logging::{self, Logging, Stderr};
use super::runtime::{run_to_end, runtime};
use super::signals::StopSignals;
use super::user_ids;
use base::count::counted;
use cluster::{
    Cluster, ClusterConfig, ConfigFile, DataDir, STOP_PROGRESS_INTERVAL, StopProgress, UnknownComponent,
    default_data_dir, parse_config, remove_abandoned_data_dirs,
};
use controllers::Controllers;

/// The time after which a stop that is still waiting says so.
const FIRST_STOP_LINE: Duration = Duration::from_secs(1);
/// The interval between its further lines.
const STOP_LINE_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn run(args: ClusterArgs, start: StartManifests) -> Result<()> {
    let config = cluster_config(&args)?;
    run_to_end(runtime()?, serve(args, config, start))
}

async fn serve(args: ClusterArgs, config: ClusterConfig, start: StartManifests) -> Result<()> {
    let mut signals = StopSignals::new()?;
    let manifests = apply::read_files(&start.filename, apply::Depth::Flat)?;
    let (data_dir, _logging) = prepare(&args, &config, Stderr::Shown)?;
    // Signals wait until the start is complete: an aborted start would leave the nodes' hosts behind.
    let cluster = Cluster::start(config, data_dir).await?;
    signals.before_an_end_by_force(cluster.killer());
    let run = async {
        until_ready(&cluster, manifests, start.reapply).await?;
        base::file_pages::return_after_start().await;
        std::future::pending().await
    };
    let outcome = tokio::select! {
        outcome = run => outcome,
        signal = signals.next() => {
            tracing::info!("{signal}: stopping");
            Ok(())
        }
    };
    stop(cluster, &mut signals).await;
    outcome
}

async fn until_ready(cluster: &Cluster, manifests: Vec<manifest::Document>, reapply: bool) -> Result<()> {
    cluster.ready().await;
    if let Some(applied) = apply::apply_at_start(&cluster.client(), manifests, reapply).await? {
        super::output::eprint_line(&apply::at_start(&applied));
    }
    // This is the only line on stdout. If the reader has closed the pipe, the instance runs on.
    let line = format!("ready {} kubeconfig={}", cluster.url(), cluster.kubeconfig().display());
    super::output::print_line(&line);
    Ok(())
}

/// Stops everything; a second signal cuts the grace periods short.
pub(super) async fn stop(cluster: Cluster, signals: &mut StopSignals) {
    let force = CancellationToken::new();
    let (calls, limit) = (AtomicU32::new(0), cluster.api().timings().shutdown_grace_period.0);
    let log_progress = move |progress: StopProgress| {
        if is_stop_line_due(calls.fetch_add(1, Ordering::Relaxed)) {
            tracing::info!("{}", stop_line(progress, limit));
        }
    };
    let stopping = cluster.stop(log_progress, force.clone());
    tokio::pin!(stopping);
    tokio::select! {
        () = &mut stopping => return,
        signal = signals.next() => tracing::warn!("{signal} again: killing the remaining processes"),
    }
    force.cancel();
    stopping.await;
}

/// Returns true for the reports of a stop's progress that are logged; `report` is the number of earlier ones.
fn is_stop_line_due(report: u32) -> bool {
    let passed = STOP_PROGRESS_INTERVAL.saturating_mul(report);
    passed.checked_sub(FIRST_STOP_LINE).is_some_and(|since| {
        since.as_millis() % STOP_LINE_INTERVAL.as_millis() < STOP_PROGRESS_INTERVAL.as_millis()
    })
}

/// Describes what a stop waits for; `limit` is the limit of all grace periods.
fn stop_line(progress: StopProgress, limit: Duration) -> String {
    match progress.remaining_pods {
        0 => "all pods have stopped; waiting for the nodes".to_owned(),
        pods => {
            let (left, them) = (counted(pods, "pod"), if pods == 1 { "it" } else { "them" });
            format!("waiting at most {limit:?} for {left} to stop gracefully; a second signal kills {them}")
        }
    }
}

/// Opens the data directory and starts logging.
pub(super) fn prepare(
    args: &ClusterArgs,
    config: &ClusterConfig,
    stderr: Stderr,
) -> Result<(DataDir, Logging)> {
    let data_dir = match (&args.data_dir, args.ephemeral) {
        (Some(path), ephemeral) => DataDir::open(path, ephemeral)?,
        (None, true) => DataDir::temporary()?,
        (None, false) => DataDir::open(&default_data_dir()?, false)?,
    };
    let logging = logging::start(data_dir.path(), args.log_level, stderr);
    if args.ephemeral {
        remove_abandoned_data_dirs();
    }
    if let Some(why) = &config.single_id {
        tracing::info!("containers have a single user id: {why}");
    }
    Ok((data_dir, logging))
}

/// The file with the user's results of scenarios.
fn runs_file() -> Option<PathBuf> {
    Some(base::user_dirs::state_dir()?.join("podium").join("scenario-runs.json"))
}

/// Merges the command line with the config file; continues as root of a user namespace, if this process may. The process
/// must have one thread.
pub(super) fn cluster_config(args: &ClusterArgs) -> Result<ClusterConfig> {
    check_components(&args.disable)?;
    let mut config = ClusterConfig {
        ephemeral: args.ephemeral,
        accept_data_loss: args.accept_data_loss,
        listen: args.listen,
        expose: args.expose,
        nodes: args.nodes.map(usize::from),
        hollow_nodes: args.hollow_nodes.map(usize::from),
        kubeconfig: args.kubeconfig.clone(),
        disabled: args.disable.clone(),
        legacy_versions: args.removed_api_versions,
        file: ConfigFile::default(),
        file_path: args.config.clone(),
        single_id: None,
        runs_file: runs_file(),
    };
    if let Some(path) = &args.config {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        config.file = parse_config(&text, &path.display().to_string(), &config)?;
    }
    if let Some(mode) = args.network {
        config.file.network.mode = mode;
    }
    args.audit.apply_to(&mut config.file.audit);
    // Without namespaces containers are the user's own processes.
    if config.file.namespaces {
        config.single_id = continue_with_all_users(args);
    }
    Ok(config)
}

fn continue_with_all_users(args: &ClusterArgs) -> Option<String> {
    if args.data_dir.is_none() && args.ephemeral {
        return user_ids::start_over(None);
    }
    user_ids::start_over(Some(&user_ids::of_user(args.data_dir.as_deref())?))
}

/// The components that are neither controllers nor admission plugins.
const PARTS: [&str; 5] = ["scheduler", "kubelet", "proxy", "dns", "ingress"];

/// Refuses unknown names of components.
fn check_components(names: &[String]) -> Result<(), UnknownComponent> {
    let known = || {
        let admission = api::admission::plugin_names();
        PARTS.into_iter().chain(Controllers::names()).chain(admission)
    };
    match names.iter().find(|name| !known().any(|k| k == name.as_str())) {
        Some(name) => Err(UnknownComponent {
            name: name.clone(),
            components: known().map(ToString::to_string).collect(),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_says_what_it_waits_for_cli_5() {
        let due: Vec<u32> = (0..120).filter(|report| is_stop_line_due(*report)).collect();
        assert_eq!(due, [5, 55, 105]);
        let line = |remaining_pods| stop_line(StopProgress { remaining_pods }, Duration::from_secs(30));
        assert_eq!(line(0), "all pods have stopped; waiting for the nodes");
        assert_eq!(line(1), "waiting at most 30s for 1 pod to stop gracefully; a second signal kills it");
        assert_eq!(line(2), "waiting at most 30s for 2 pods to stop gracefully; a second signal kills them");
    }
}
