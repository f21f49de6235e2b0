//! `podium-lab torture` breaks a real instance repeatedly and checks the guarantees (FAULT-3). Exit code 0: no
//! violation found; 1: a rule was broken; 2: usage.
//!
//! Architecture Invariant: signals go only to processes of the torture's own directory, and only after checking that a
//! PID still belongs to the process that was found.

mod clients;
mod directory;
mod driver;
mod final_checks;
mod findings;
mod identity_holder;
mod instance;
mod mistake;
mod plan;
mod processes;
mod record;
mod verify;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use kube::Client;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

pub(crate) use identity_holder::{PROGRAM as HOLD_PROGRAM, main as hold_main};
pub(crate) use mistake::serve_main;
pub(crate) use processes::SERVE_PROGRAM;

use crate::simulate::duration;
use base::count::counted;
use clients::Clients;
use directory::TortureDir;
use driver::Driver;
use final_checks::Traces;
use findings::Findings;
use mistake::MistakeKind;
use plan::Plan;
use podium::cli::output::print_line;

/// The arguments of a torture.
#[derive(Debug, Args)]
pub(crate) struct TortureRequest {
    /// Duration of the faults, once everything runs: 90s, 20m, 1h
    #[arg(long, alias = "for", default_value = "60s", value_parser = duration)]
    duration: Duration,
    /// Seed of the workload and the faults [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Empty directory for all files [default: a temporary one, removed if no violation is found]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Activate a deliberate mistake, which the checks must find
    #[arg(long, alias = "break", value_name = "NAME", hide = true, value_parser = mistake::named)]
    mistake: Option<MistakeKind>,
}

/// Runs the torture. Returns false if a rule was broken.
pub(crate) fn run(request: &TortureRequest) -> Result<bool> {
    let runtime = podium::cli::runtime::runtime()?;
    let outcome = runtime.block_on(torture(request));
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn torture(request: &TortureRequest) -> Result<bool> {
    let mut place = TortureDir::new(request.data_dir.as_deref())?;
    if let Some(MistakeKind::Product(mistake)) = request.mistake {
        place.mistake = Some(mistake);
    }
    let seed = request.seed.unwrap_or_else(|| base::random::random::<u32>().into());
    let (mut plan, findings) = (Plan::new(seed), Findings::new());
    let mut driver = Driver::new(place.clone(), findings.clone(), plan.sets());
    let sets: Vec<String> = driver.sets.iter().map(ToString::to_string).collect();
    print_line(&format!("seed {seed}, {} in {}", sets.join(", "), place.directory().display()));
    let done = torture_cluster(request, &mut plan, &mut driver).await;
    driver.abandon().await;
    let done = done.and_then(|summary| Ok((summary, final_checks::logs(&place, &findings)?)));
    if let Err(error) = &done {
        findings.violation("FAULT-3", &format!("the torture cannot continue: {error:#}"));
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the error is one of the findings; the report counts nothing"
    )]
    let (summary, (identities, holders, torn)) = done.unwrap_or_default();
    let faults: usize = driver.counts.values().sum();
    let kinds: Vec<String> = driver.counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    print_line(&format!("{}: {}", counted(faults, "fault"), kinds.join(", ")));
    print_line(&format!(
        "{}; {}, held {}, {}",
        counted(driver.starts, "start"),
        counted(identities, "identity"),
        counted(holders, "time"),
        counted(torn, "torn line")
    ));
    if !summary.is_empty() {
        print_line(&summary);
    }
    let violations = findings.violations();
    let (checks, found) = (counted(findings.checks(), "check"), counted(violations, "violation"));
    print_line(&format!("seed {seed}: {checks}, {found}"));
    if violations == 0 {
        place.remove()?;
    } else {
        print_line(&format!("logs and data: {}", place.directory().display()));
    }
    Ok(violations == 0)
}

/// The signals that stop the torture.
struct InterruptSignals(Signal, Signal);

impl InterruptSignals {
    async fn wait_interrupt(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

/// Runs the torture from the first start of the cluster to its last stop. Returns the clients' summary.
async fn torture_cluster(request: &TortureRequest, plan: &mut Plan, driver: &mut Driver) -> Result<String> {
    let mut ends = InterruptSignals(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let findings = driver.findings.clone();
    driver.start(None).await?;
    driver.make_workload().await?;
    let startup = async {
        let client = driver.client()?;
        final_checks::wait_until_converged(&client)
            .await
            .map_err(|missing| anyhow!("the workload does not start: {missing}"))
    };
    let startup = tokio::select! {
        startup = startup => startup?,
        () = ends.wait_interrupt() => return Ok("stopped by a signal before the workload ran".into()),
    };
    findings.record(&format!("everything runs after {:.1} s", startup.as_secs_f64()));
    let clients = Clients::start(&driver.clients(), &findings);
    let end = Instant::now() + request.duration;
    let interrupted = rounds(plan, driver, &clients, end, &mut ends).await?;
    findings.record(if interrupted { "stopped by a signal: no more faults" } else { "no more faults" });
    if let Some(MistakeKind::Beside(mistake)) = request.mistake {
        mistake.make(&driver.dir, &clients)?;
    }
    let client = tokio::select! {
        checked = check_at_rest(driver, &clients) => checked?,
        () = ends.wait_interrupt() => return Ok("stopped by a second signal before the final checks ran".into()),
    };
    let summary = clients.end(client).await.context("clients")?;
    let traces = Traces::of(&driver.dir);
    if let Err(error) = driver.stop().await {
        findings.violation("SAFE-7", &format!("{error:#}"));
    }
    traces.check_nothing_remains(&driver.dir, &findings).await?;
    findings.record("stopped");
    Ok(summary)
}

/// Undoes all faults and checks the cluster at rest. Returns a client of it.
async fn check_at_rest(driver: &mut Driver, clients: &Clients) -> Result<Client> {
    let findings = driver.findings.clone();
    heal_everything(driver, clients).await?;
    let client = driver.client()?;
    match final_checks::wait_until_converged(&client).await {
        Ok(after) => {
            findings.record(&format!("all objects match their specs after {:.1} s", after.as_secs_f64()));
        }
        Err(missing) => {
            findings.violation("SAFE-3", &format!("an object does not match its spec: {missing}"));
        }
    }
    final_checks::identities(&client, &driver.dir, &findings).await?;
    final_checks::snapshots(&driver.dir, &findings);
    let seen = see_ends_after_a_heal(driver, clients).await;
    seen.context("cannot check the ends of containers after a heal")?;
    Ok(client)
}

/// Time for which the kubelets are down at the end.
const DOWN: Duration = Duration::from_secs(2);

/// Crashes and heals the kubelet of every node, and then kills the containers. No process is restarted in between, so
/// only the healed kubelets can observe the containers' ends.
async fn see_ends_after_a_heal(driver: &mut Driver, clients: &Clients) -> Result<()> {
    driver.crash_every_kubelet(DOWN).await?;
    let started = Instant::now();
    while driver.is_broken() && started.elapsed() < final_checks::CONVERGE_TIMEOUT {
        driver.heal_due(clients, false).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let client = driver.client()?;
    if let Err(missing) = final_checks::wait_until_converged(&client).await {
        driver.findings.violation(
            "FAULT-1",
            &format!("the cluster does not recover after the kubelets' crash: {missing}"),
        );
        return Ok(());
    }
    let running = final_checks::running_holders(&client).await?;
    driver.kill_every_holder()?;
    final_checks::wait_for_exits_in_status(&client, &running, &driver.findings).await
}

/// Interval between two checks for violations.
const GLANCE: Duration = Duration::from_secs(2);

/// Causes faults until the time is over, a signal arrives, or a rule is broken, since further faults would make the
/// violation harder to analyze. Returns true if a signal arrived.
async fn rounds(
    plan: &mut Plan,
    driver: &mut Driver,
    clients: &Clients,
    end: Instant,
    ends: &mut InterruptSignals,
) -> Result<bool> {
    let mut next = Instant::now() + plan.pause();
    let mut glance = Instant::now() + GLANCE;
    while Instant::now() < end {
        let now = Instant::now();
        driver.check_instance()?;
        if glance <= now {
            glance = now + GLANCE;
            if driver.findings.violations() > 0 || final_checks::has_clash(&driver.dir) {
                driver.findings.record("a rule was broken; no more faults");
                return Ok(false);
            }
        }
        if driver.next_undo().is_some_and(|at| at <= now) {
            driver.heal_due(clients, false).await?;
        } else if next <= now {
            driver.inflict(plan.fault(), clients).await?;
            next = Instant::now() + plan.pause();
        } else {
            let wake = driver.next_undo().map_or(next, |at| at.min(next)).min(glance).min(end);
            tokio::select! {
                () = tokio::time::sleep_until(wake) => {}
                () = ends.wait_interrupt() => return Ok(true),
            }
        }
    }
    Ok(false)
}

/// Waits until all faults are undone.
async fn heal_everything(driver: &mut Driver, clients: &Clients) -> Result<()> {
    driver.check_instance()?;
    if driver.client().is_err() {
        driver.start(Some(clients)).await?;
    }
    let started = Instant::now();
    while driver.is_broken() {
        driver.heal_due(clients, true).await?;
        if driver.is_broken() && started.elapsed() > final_checks::CONVERGE_TIMEOUT {
            driver.findings.violation("FAULT-1", &format!("cannot undo faults: {}", driver.broken()));
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    if let Err(error) = driver.take_all_back().await {
        driver
            .findings
            .record(&format!("  cannot delete the remaining faults, fences and snapshots: {error:#}"));
    }
    Ok(())
}
