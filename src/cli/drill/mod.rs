//! `podium scenario` and `podium drill` play, follow and stop scenarios and request hints (FAULT-2), over the API as
//! `podium apply` does.
//!
//! The control plane plays the scenarios: a scenario continues when this command ends, unless the user stops it.

mod progress_lines;

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::Instant;

use super::apply::{self, DEFAULT_NAMESPACE, Depth, Mode, client_of, read_files};
use super::flags::InstanceArgs;
use super::output::{api_error, eprint_line, print_line, print_table};
use super::runtime::runtime;
use base::clock::if_some;
use console_data::decoded::TypedApi;
use extension::scenario::{AllScenarioRuns, RUNS_NAME, RUNS_NAMESPACE, Scenario, ScenarioPhase, ScenarioRun};
use manifest::Document;
use manifest::drills::{DRILLS, Drill};
use object::time::read_go_duration;

/// Interval between two polls of a scenario.
const LOOK: Duration = Duration::from_millis(250);
/// Time within which a scenario that has ended must be cleaned up.
const TO_GO: Duration = Duration::from_mins(2);
/// Time within which the control plane must answer, for example with a hint.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Time to wait for an unreachable control plane.
const TO_RETURN: Duration = Duration::from_mins(2);
/// Exit code of wrong usage.
const USAGE: u8 = 2;

/// Plays the scenario of a file.
#[derive(Debug, Args)]
pub(super) struct RunRequest {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Path to a file with one Scenario of podium.dev/v1alpha1
    scenario: PathBuf,
    /// Stop the scenario after this time, such as 5m
    #[arg(long, value_parser = duration)]
    timeout: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub(super) enum ScenarioCommand {
    /// Run a scenario (timed faults, checks and a score); exits 0 if it passes
    Run(RunRequest),
}

#[derive(Debug, Subcommand)]
pub(super) enum DrillCommand {
    /// List the drills and the results of earlier runs
    List {
        #[command(flatten)]
        instance: InstanceArgs,
    },
    /// Start a drill
    Run {
        #[command(flatten)]
        instance: InstanceArgs,
        /// Name of the drill
        name: String,
        /// Report the progress until the drill is over
        #[arg(long)]
        follow: bool,
    },
    /// Show the next hint, which costs points
    Hint(DrillTarget),
    /// Give up: end the faults and remove the drill's objects
    Stop(DrillTarget),
}

/// A running scenario.
#[derive(Debug, Args)]
pub(super) struct DrillTarget {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Name of the drill [default: the one that runs]
    name: Option<String>,
}

fn duration(text: &str) -> Result<Duration, String> {
    read_go_duration(text).ok_or_else(|| "expected a duration such as 30s or 5m".to_owned())
}

/// `podium scenario run`: exit code 0 if the scenario passed, 1 if it failed, 2 if the file is not a scenario.
pub(super) fn run_file(request: &RunRequest) -> Result<ExitCode> {
    let (document, name) = match scenario_of(&request.scenario) {
        Ok(found) => found,
        Err(error) => {
            eprint_line(&format!("podium: {error}"));
            return Ok(ExitCode::from(USAGE));
        }
    };
    runtime()?.block_on(async {
        let client = client_of(&request.instance).await?;
        begin(&client, document, &name).await?;
        follow(&request.instance, &client, &name, request.timeout).await
    })
}

/// Reads a file that must contain exactly one Scenario; returns it and its name.
fn scenario_of(path: &PathBuf) -> Result<(Document, String)> {
    let mut documents = read_files(std::slice::from_ref(path), Depth::Flat)?;
    let Some(document) = documents.pop().filter(|_| documents.is_empty()) else {
        bail!("{}: the file must contain one Scenario and nothing else", path.display());
    };
    let text = |pointer: &str| document.value.pointer(pointer).and_then(serde_json::Value::as_str);
    if text("/kind") != Some("Scenario") || text("/apiVersion") != Some("podium.dev/v1alpha1") {
        bail!("{}: not a Scenario of podium.dev/v1alpha1", path.display());
    }
    let Some(name) = text("/metadata/name").map(str::to_owned) else {
        bail!("{}: the Scenario has no metadata.name", path.display());
    };
    Ok((document, name))
}

pub(super) fn run(command: DrillCommand) -> Result<ExitCode> {
    match command {
        DrillCommand::List { instance } => with(&instance, async |client| list(&client).await),
        DrillCommand::Run { instance, name, follow: follows } => {
            let Some(drill) = Drill::named(&name) else {
                let known: Vec<&str> = DRILLS.iter().map(|drill| drill.name).collect();
                eprint_line(&format!("podium: no drill \"{name}\"; the drills are {}", known.join(", ")));
                return Ok(ExitCode::from(USAGE));
            };
            with(&instance, async |client| {
                let document = document_of(drill)?;
                begin(&client, document, drill.name).await?;
                if follows {
                    return follow(&instance, &client, drill.name, None).await;
                }
                let reporter = instance.podium(&format!("drill run {name} --follow"));
                print_line(&format!("scenario.podium.dev/{name} started; {reporter} reports its progress"));
                Ok(ExitCode::SUCCESS)
            })
        }
        DrillCommand::Hint(named) => {
            with(&named.instance, async |client| hint(&client, named.name.as_deref()).await)
        }
        DrillCommand::Stop(named) => {
            with(&named.instance, async |client| stop(&client, named.name.as_deref()).await)
        }
    }
}

fn with(instance: &InstanceArgs, work: impl AsyncFnOnce(Client) -> Result<ExitCode>) -> Result<ExitCode> {
    runtime()?.block_on(async { work(client_of(instance).await?).await })
}

/// Parses the manifest of a drill that ships with Podium.
fn document_of(drill: Drill) -> Result<Document> {
    let mut documents = manifest::parse(drill.text, drill.name);
    documents.pop().context("the drill is empty")?.map_err(anyhow::Error::new)
}

/// Returns the results of earlier runs; empty if there are none. An error means that they may not be read, and is
/// reported to the user.
async fn runs_of(client: &Client) -> kube::Result<AllScenarioRuns> {
    let maps = TypedApi::<ConfigMap>::namespaced(client.clone(), RUNS_NAMESPACE);
    let data = maps.get_opt(RUNS_NAME).await?.and_then(|map| map.data);
    Ok(data.as_ref().map(AllScenarioRuns::of_data).unwrap_or_default())
}

async fn list(client: &Client) -> Result<ExitCode> {
    let all =
        TypedApi::<Scenario>::all(client.clone()).list(&ListParams::default()).await.map_err(api_error)?;
    let runs = match runs_of(client).await {
        Ok(runs) => Some(runs),
        Err(error) => {
            eprint_line(&format!("cannot read the results of earlier runs: {}", api_error(error)));
            None
        }
    };
    let mut rows = vec![["NAME", "TITLE", "PHASE", "SCORE", "BEST", "LAST"].map(str::to_owned)];
    let row = |name: &str, title: &str, played: Option<&Scenario>| {
        let score = played.and_then(|one| one.status.as_ref()?.score);
        let (none, unknown) = (|| "-".to_owned(), || "?".to_owned());
        let known = |describe: &dyn Fn(&AllScenarioRuns) -> Option<String>| {
            runs.as_ref().map_or_else(unknown, |runs| describe(runs).unwrap_or_else(none))
        };
        let dated = |run: &ScenarioRun| format!("{} ({})", run.summary(), run.date());
        [
            name.to_owned(),
            title.to_owned(),
            played.map_or_else(none, |one| format!("{:?}", one.phase())),
            score.map_or_else(none, |score| score.to_string()),
            known(&|runs| Some(runs.of(name)?.best()?.summary())),
            known(&|runs| runs.of(name)?.last().map(dated)),
        ]
    };
    let named = |name: &str| all.iter().find(|one| one.metadata.name.as_deref() == Some(name));
    for drill in DRILLS {
        let document = document_of(*drill)?;
        let title = document.value.pointer("/spec/title").and_then(serde_json::Value::as_str);
        rows.push(row(drill.name, title.unwrap_or_default(), named(drill.name)));
    }
    for other in &all {
        let name = other.metadata.name.as_deref().unwrap_or_default();
        if Drill::named(name).is_none() {
            rows.push(row(name, &other.spec.title, Some(other)));
        }
    }
    print_table(&rows);
    Ok(ExitCode::SUCCESS)
}

/// Compares a run that has ended with earlier runs, and prints the result.
async fn compare(client: &Client, scenario: &Scenario) {
    match tokio::time::timeout(RESPONSE_TIMEOUT, runs_of(client)).await {
        Ok(Ok(runs)) => {
            let name = scenario.metadata.name.as_deref().unwrap_or_default();
            if let Some(line) = progress_lines::compared(scenario, runs.of(name)) {
                print_line(&line);
            }
        }
        Ok(Err(error)) => {
            eprint_line(&format!("cannot read the results of earlier runs: {}", api_error(error)));
        }
        Err(_) => eprint_line("cannot read the results of earlier runs: the server does not respond"),
    }
}

/// Starts a scenario. An ended scenario of this name is deleted first; a running one continues.
async fn begin(client: &Client, document: Document, name: &str) -> Result<()> {
    let scenarios = TypedApi::<Scenario>::all(client.clone());
    if let Some(known) = scenarios.get_opt(name).await.map_err(api_error)? {
        if !known.phase().has_ended() && known.metadata.deletion_timestamp.is_none() {
            eprint_line(&format!("scenario {name} is already running"));
            return Ok(());
        }
        if known.metadata.deletion_timestamp.is_none() {
            scenarios.delete(name).await.map_err(api_error)?;
        }
        let deletion = async {
            while scenarios.get_opt(name).await.map_err(api_error)?.is_some() {
                tokio::time::sleep(LOOK).await;
            }
            anyhow::Ok(())
        };
        let waited = tokio::time::timeout(TO_GO, deletion).await;
        waited.with_context(|| {
            format!("the earlier run of scenario {name} was not removed within {} s", TO_GO.as_secs())
        })??;
    }
    apply::apply_documents(client, vec![document], DEFAULT_NAMESPACE, Mode::Write).await.map(drop)
}

/// Reports a scenario's progress until it has ended and is cleaned up. On Ctrl-C asks the user whether to stop the
/// scenario. Waits for an unreachable control plane, which continues the scenario when it is back.
async fn follow(
    instance: &InstanceArgs,
    client: &Client,
    name: &str,
    timeout: Option<Duration>,
) -> Result<ExitCode> {
    let mut scenarios = TypedApi::<Scenario>::all(client.clone());
    let mut known = None;
    let mut away_since = None;
    let limit = if_some(timeout.map(tokio::time::sleep));
    tokio::pin!(limit);
    let mut is_limited = true;
    loop {
        let scenario = match scenarios.get_opt(name).await {
            Ok(Some(scenario)) => scenario,
            Ok(None) => bail!("scenario {name} was deleted"),
            Err(error) if is_away(&error) => {
                let since = *away_since.get_or_insert_with(|| {
                    eprint_line(&format!(
                        "no response: scenario {name} continues when the control plane is back"
                    ));
                    Instant::now()
                });
                if since.elapsed() >= TO_RETURN {
                    return Err(api_error(error)).with_context(|| {
                        format!("no response for {} s; scenario {name} may continue", TO_RETURN.as_secs())
                    });
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    _ = tokio::signal::ctrl_c() => {
                        eprint_line(&format!("scenario {name} continues when the control plane is back"));
                        return Ok(ExitCode::FAILURE);
                    }
                }
                // The control plane may be back at another address.
                if let Ok(client) = client_of(instance).await {
                    scenarios = TypedApi::all(client);
                }
                continue;
            }
            Err(error) => return Err(api_error(error)),
        };
        if away_since.take().is_some() {
            eprint_line("the control plane is back");
        }
        for line in progress_lines::news(known.as_ref(), &scenario) {
            print_line(&line);
        }
        let is_over = scenario.phase().has_ended();
        if is_over && scenario.status.as_ref().is_some_and(|status| status.cleaned) {
            let passed = scenario.phase() == ScenarioPhase::Passed;
            compare(&scenarios.into_client(), &scenario).await;
            return Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        known = scenario.status;
        if !is_limited && !is_over && scenario.spec.stop != Some(true) {
            match request_stop(&scenarios, name).await {
                // If the control plane is unreachable, the next round repeats the request.
                Err(error) if !is_away(&error) => return Err(api_error(error)),
                _ => {}
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = &mut limit, if is_limited => {
                is_limited = false;
                eprint_line("the time of --timeout has passed: stopping the scenario");
            }
            _ = tokio::signal::ctrl_c() => {
                if is_over || !confirm_stop(name).await {
                    let stopper = instance.podium(&format!("drill stop {name}"));
                    eprint_line(&format!("scenario {name} continues; {stopper} stops it"));
                    return Ok(ExitCode::FAILURE);
                }
                request_stop(&scenarios, name).await.map_err(api_error)?;
            }
        }
    }
}

/// Returns true if the control plane is stopping, unreachable or starting.
fn is_away(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 503,
        kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => true,
        _ => false,
    }
}

/// Asks the user whether to stop the scenario. Without a terminal no user can answer, and the scenario is stopped.
async fn confirm_stop(name: &str) -> bool {
    if !std::io::stdin().is_terminal() {
        return true;
    }
    eprint_line(&format!(
        "\nStop scenario {name}? It counts as given up, and its objects are removed. [y/N]"
    ));
    let read = base::task::blocking(|| {
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer).map(|_| answer)
    });
    tokio::select! {
        answer = read => matches!(answer, Ok(Ok(answer)) if answer.trim().eq_ignore_ascii_case("y")),
        // A second Ctrl-C leaves without stopping the scenario.
        _ = tokio::signal::ctrl_c() => false,
    }
}

async fn request_stop(scenarios: &TypedApi<Scenario>, name: &str) -> kube::Result<()> {
    change(scenarios, name, json!({"stop": true})).await.map(drop)
}

async fn change(
    scenarios: &TypedApi<Scenario>,
    name: &str,
    spec: serde_json::Value,
) -> kube::Result<Scenario> {
    scenarios.merge(name, json!({"spec": spec})).await
}

/// Returns the scenario of this name, or the only one that is running.
async fn meant(scenarios: &TypedApi<Scenario>, name: Option<&str>) -> Result<Scenario> {
    if let Some(name) = name {
        return scenarios.get(name).await.map_err(api_error);
    }
    let all = scenarios.list(&ListParams::default()).await.map_err(api_error)?;
    let mut played = all.into_iter().filter(|one| !one.phase().has_ended());
    match (played.next(), played.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => bail!("no scenario is running; podium drill list lists the drills"),
        (Some(_), Some(_)) => bail!("more than one scenario is running; give a name"),
    }
}

async fn hint(client: &Client, name: Option<&str>) -> Result<ExitCode> {
    let scenarios = TypedApi::<Scenario>::all(client.clone());
    let scenario = meant(&scenarios, name).await?;
    let name = scenario.metadata.name.clone().unwrap_or_default();
    if scenario.phase() != ScenarioPhase::Running {
        bail!("scenario {name} is not running: its phase is {:?}", scenario.phase());
    }
    let shown = scenario.revealed_hints().len();
    let Some(text) = scenario.spec.hints.get(shown).cloned() else {
        bail!("scenario {name} has no more hints");
    };
    change(&scenarios, &name, json!({"hintsAsked": shown + 1})).await.map_err(api_error)?;
    let shows = async {
        while scenarios.get(&name).await.map_err(api_error)?.revealed_hints().len() <= shown {
            tokio::time::sleep(LOOK).await;
        }
        anyhow::Ok(())
    };
    // The hint must be counted before the user reads it, because it costs points.
    tokio::time::timeout(RESPONSE_TIMEOUT, shows).await.context("the control plane does not respond")??;
    print_line(&format!(
        "hint {} of {} (−{}): {text}",
        shown + 1,
        scenario.spec.hints.len(),
        scenario.spec.hint_cost()
    ));
    Ok(ExitCode::SUCCESS)
}

async fn stop(client: &Client, name: Option<&str>) -> Result<ExitCode> {
    let scenarios = TypedApi::<Scenario>::all(client.clone());
    let scenario = meant(&scenarios, name).await?;
    let name = scenario.metadata.name.clone().unwrap_or_default();
    if !scenario.phase().has_ended() {
        request_stop(&scenarios, &name).await.map_err(api_error)?;
    }
    let over = async {
        while !scenarios.get(&name).await.map_err(api_error)?.status.is_some_and(|status| status.cleaned) {
            tokio::time::sleep(LOOK).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(TO_GO, over).await.context("the scenario is not cleaned up yet")??;
    print_line(&format!("scenario.podium.dev/{name} has ended and is cleaned up"));
    Ok(ExitCode::SUCCESS)
}
