//! The console on a large cluster (CON-1): memory, idle load, the time until the first page, and the time from a key to
//! its effect.
//!
//! The console is a separate process on its own terminal (a pty of 140×40), as for a user; the cluster has hollow
//! nodes.

mod load;
mod terminal;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base::count::counted;
use kube::Client;

use super::instance::Instance;
use super::report::{Report, percentile_micros};
use load::{Changes, NAME};
use terminal::{Terminal, counts_events, counts_pods, filter_is, has_prompt, is_rendered, lists};

/// Limit of the console's memory for a pod.
const GOAL_POD_KIB: f64 = 3.0;
/// Limit of processor use while nodes only send heartbeats, in percent.
const GOAL_IDLE_PERCENT: f64 = 0.3;
/// Limit of the time from the start to the first pods.
const GOAL_FIRST_MS: f64 = 300.0;
/// Limit of the time from a key to its effect on the screen, for 99 in 100 keys.
const GOAL_KEY_MS: f64 = 16.0;
/// The minimum processor use that is reported, in percent, since the value is used as a divisor.
const LEAST_PERCENT: f64 = 0.001;
/// Text that is typed into a filter repeatedly, and deleted.
const TYPED: &str = "web-1";
/// Interval between two keys, as of a fast typist.
const BETWEEN_KEYS: Duration = Duration::from_millis(50);

/// The size of the cluster for the console's measurements.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of the suite `console`")]
pub(crate) struct Sizes {
    /// Number of hollow nodes
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=2000))]
    nodes: u16,
    /// Numbers of pods at which memory is measured; the time until the first page is measured at the last
    #[arg(long, value_delimiter = ',', default_values_t = [5000, 35_000], value_parser = pods)]
    pods: Vec<usize>,
    /// Number of events while keys are typed
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    events: u32,
    /// Number of changes of pods and events per second while keys are typed
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    changes: u32,
    /// Number of keys typed into the filter of each table
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    keys: u32,
    /// Number of seconds for which the idle console is measured
    #[arg(long, default_value_t = 30.0, value_parser = seconds)]
    seconds: f64,
    /// Path to another build of podium, to measure its console instead and compare the two
    #[arg(long, value_name = "PROGRAM")]
    console: Option<PathBuf>,
}

fn pods(text: &str) -> Result<usize, String> {
    const MAX_PODS: usize = 100_000;
    text.parse()
        .ok()
        .filter(|pods| (1..=MAX_PODS).contains(pods))
        .ok_or_else(|| format!("expected a number from 1 to {MAX_PODS}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    const MAX_SECONDS: f64 = 3600.0;
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= MAX_SECONDS);
    seconds.ok_or_else(|| format!("expected a number of seconds above 0, at most {MAX_SECONDS}"))
}

/// The config file of the cluster; deleted when dropped.
struct ConfigFile(PathBuf);

impl ConfigFile {
    /// Writes a config that only makes the cluster retain every event.
    fn write() -> Result<Self> {
        let name = format!("podium-bench-{}-{:x}.yaml", std::process::id(), rand::random::<u32>());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "limits: {events: 0}\n").with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The cluster, and the program that is started as the console on it.
struct Bench {
    instance: Instance,
    client: Client,
    program: PathBuf,
}

pub(super) async fn run(sizes: &Sizes) -> Result<()> {
    let nodes = sizes.nodes.to_string();
    let config = ConfigFile::write()?;
    let path = config.0.display().to_string();
    let arguments = ["--ephemeral", "--nodes", "0", "--hollow-nodes", &nodes, "--config", &path];
    let instance = Instance::start(&arguments).await?;
    let program = match &sizes.console {
        Some(program) => program.clone(),
        None => crate::podium_program()?,
    };
    let bench = Bench { client: instance.client().await?, instance, program };
    let empty = bench.idle(sizes).await?;
    let mut there = 0;
    let mut counts = sizes.pods.clone();
    counts.sort_unstable();
    for (index, pods) in counts.iter().enumerate() {
        load::grow(&bench.client, there, *pods).await?;
        there = *pods;
        load::forget_events(&bench.client).await?;
        bench.pods(there, empty, index + 1 == counts.len()).await?;
    }
    bench.keys(sizes, there).await?;
    bench.instance.stop().await
}

impl Bench {
    /// Starts a console on the cluster; it shows the overview first.
    async fn console(&self) -> Result<Terminal> {
        let directory = self.instance.directory();
        // Each console has its own files, so that none finds another's saved state.
        let own_files = directory.join(format!("console-{:x}", rand::random::<u32>()));
        let kubeconfig = directory.join("kubeconfig");
        let mut terminal = Terminal::start(&self.program, &kubeconfig, &own_files)?;
        terminal.until("its overview", "", is_rendered).await?;
        Ok(terminal)
    }

    /// Measures processor use while nodes send heartbeats, on the overview and on the table of nodes. Returns the
    /// memory without pods.
    async fn idle(&self, sizes: &Sizes) -> Result<f64> {
        let mut terminal = self.console().await?;
        let start = terminal.started;
        let first = terminal.until("its overview", "", is_rendered).await?;
        Report::alone("console: start to the first frame", "ms", millis(first - start));
        let nodes = usize::from(sizes.nodes);
        let counts_nodes =
            move |screen: &vt100::Screen| screen.contents().contains(&format!("{nodes} nodes ● {nodes} "));
        terminal.until("all nodes", "", counts_nodes).await?;
        // Without events the console does not redraw their ages every few seconds, which is not measured here.
        load::forget_events(&self.client).await?;
        let empty = terminal.stable_mib().await?;
        let span = Duration::from_secs_f64(sizes.seconds);
        let share = share_of(&terminal, span).await?;
        let label = format!("console: idle, {} that heartbeat", counted(nodes, "node"));
        Report::against_limit(&label, "%", share, "goal", GOAL_IDLE_PERCENT);
        terminal.until("the nodes", ":nodes\r", |screen| lists(screen, "Nodes", "Ready")).await?;
        tokio::time::sleep(Duration::from_secs(1).min(span)).await;
        Report::against_limit(
            "  with their table open",
            "%",
            share_of(&terminal, span).await?,
            "goal",
            GOAL_IDLE_PERCENT,
        );
        terminal.stop().await?;
        Ok(empty)
    }

    /// Measures the time until the console shows the first of this many pods, and the memory for each pod while their
    /// table is open.
    async fn pods(&self, pods: usize, empty_mib: f64, most: bool) -> Result<()> {
        let mut terminal = self.console().await?;
        let first = |screen: &vt100::Screen| lists(screen, "Pods", NAME);
        let first = terminal.until("the first pods", ":pods\r", first).await?;
        if most {
            let label = format!("console: start to the first of {}", counted(pods, "pod"));
            Report::against_limit(&label, "ms", millis(first - terminal.started), "goal", GOAL_FIRST_MS);
        }
        let all = terminal.until("all pods", "", move |screen| counts_pods(screen, pods)).await?;
        if most {
            Report::alone("  to all of them", "ms", millis(all - terminal.started));
        }
        let used_mib = terminal.stable_mib().await? - empty_mib;
        let label = format!("console: memory, each of {}", counted(pods, "pod"));
        Report::against_limit(&label, "KiB", used_mib * 1024.0 / pods as f64, "goal", GOAL_POD_KIB);
        terminal.stop().await
    }

    /// Measures the memory for each event, and then, while many objects change, the time from a key to its effect.
    async fn keys(&self, sizes: &Sizes, pods: usize) -> Result<()> {
        let events = sizes.events as usize;
        let mut terminal = self.console().await?;
        terminal.until("all pods", "", move |screen| counts_pods(screen, pods)).await?;
        let before = terminal.stable_mib().await?;
        terminal.stop().await?;
        load::create_events(&self.client, events).await?;
        let mut terminal = self.console().await?;
        terminal.until("all pods", "", move |screen| counts_pods(screen, pods)).await?;
        let all = move |screen: &vt100::Screen| counts_events(screen, events);
        terminal.until("all events", ":events\r", all).await?;
        let each = (terminal.stable_mib().await? - before) * 1024.0 / events as f64;
        Report::alone(&format!("console: memory, each of {}", counted(events, "event")), "KiB", each);

        let changes = Changes::start(&self.client, sizes.changes).await?;
        let worked = (Instant::now(), terminal.processor_time()?);
        let mut samples = Vec::new();
        let mut opened: f64 = 0.0;
        for (kind, heading) in [("pods", "Pods"), ("events", "Events")] {
            let started = Instant::now();
            let listed = move |screen: &vt100::Screen| lists(screen, heading, NAME);
            let shown = terminal.until(kind, &format!(":{kind}\r"), listed).await?;
            opened = opened.max(millis(shown - started));
            terminal.until("the filter", "/", |screen| filter_is(screen, "")).await?;
            for key in 0..sizes.keys as usize {
                tokio::time::sleep(BETWEEN_KEYS).await;
                samples.push(type_one(&mut terminal, key).await?);
            }
            terminal.until("the table", "\u{1b}", |screen| !has_prompt(screen)).await?;
        }
        let share = share_since(&terminal, worked)?;
        let rate = changes.end().context("changing pods and events")?;
        let label = format!("console: key to paint, p99, {}", counted(events, "event"));
        Report::against_limit(
            &label,
            "ms",
            percentile_micros(&mut samples, 0.99) / 1000.0,
            "goal",
            GOAL_KEY_MS,
        );
        Report::alone("  the median", "ms", percentile_micros(&mut samples, 0.5) / 1000.0);
        Report::alone("  the slowest table to open", "ms", opened);
        Report::alone("  changes meanwhile", "/s", rate);
        Report::alone("  processor time for them", "%", share);
        terminal.stop().await
    }
}

/// Types the next letter, or deletes one. Returns the time from the key to its effect in the prompt.
async fn type_one(terminal: &mut Terminal, key: usize) -> Result<Duration> {
    let position = key % (2 * TYPED.len());
    let (typed, length) = if position < TYPED.len() {
        (&TYPED[position..=position], position + 1)
    } else {
        ("\u{7f}", 2 * TYPED.len() - position - 1)
    };
    let text = &TYPED[..length];
    let started = Instant::now();
    let shown = terminal.until("a key", typed, move |screen| filter_is(screen, text)).await?;
    Ok(shown - started)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Measures the console's processor use over this time, in percent.
async fn share_of(terminal: &Terminal, span: Duration) -> Result<f64> {
    let worked = (Instant::now(), terminal.processor_time()?);
    tokio::time::sleep(span).await;
    share_since(terminal, worked)
}

/// The console's processor use since an earlier measurement.
fn share_since(terminal: &Terminal, (start, worked): (Instant, Duration)) -> Result<f64> {
    let worked = terminal.processor_time()?.saturating_sub(worked);
    let share = worked.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0;
    // The value is used as a divisor even if the console did not run at all.
    Ok(share.max(LEAST_PERCENT))
}
