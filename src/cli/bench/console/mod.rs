//! The console at size (CON-1): what it keeps, what it takes while nothing happens, how soon it shows something, how soon it
//! answers a key.
//!
//! It is a process of its own on a terminal of its own (a pty of 140×40), as a user has it; the cluster is one of hollow
//! nodes.

mod load;
mod terminal;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::Client;

use super::instance::Instance;
use super::report::{Report, percentile_micros};
use load::{Changes, NAME};
use terminal::{Terminal, counts_events, counts_pods, filter_is, is_asked, is_drawn, lists};

/// What the console may keep for a pod.
const GOAL_POD_KIB: f64 = 3.0;
/// What it may take of a processor while nodes do nothing but to say that they are there, in percent.
const GOAL_IDLE_PERCENT: f64 = 0.3;
/// From its start to the first pods.
const GOAL_FIRST_MS: f64 = 300.0;
/// From a key to what it does on the screen, of 99 in 100.
const GOAL_KEY_MS: f64 = 16.0;
/// Less of a processor than this is told as this.
const LEAST_PERCENT: f64 = 0.001;
/// Typed into a filter again and again, and taken back.
const TYPED: &str = "web-1";
/// From one key to the next: a fast typist.
const BETWEEN_KEYS: Duration = Duration::from_millis(50);

/// How large the cluster is that the console is measured on.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of the suite `console`")]
pub(crate) struct Sizes {
    /// Hollow nodes that heartbeat.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=2000))]
    nodes: u16,
    /// Pods at which its memory is measured; at the last number, how soon the first is shown.
    #[arg(long, value_delimiter = ',', default_values_t = [5000, 35_000], value_parser = pods)]
    pods: Vec<usize>,
    /// Events that are there when keys are typed.
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    events: u32,
    /// Changes of pods and events a second meanwhile.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    changes: u32,
    /// Keys that are typed into the filter of each table.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    keys: u32,
    /// How long it is watched while it has nothing to do.
    #[arg(long, default_value_t = 30.0, value_parser = seconds)]
    seconds: f64,
    /// Another build, whose console is measured in the place of this one's, to compare the two.
    #[arg(long, value_name = "PROGRAM")]
    console: Option<PathBuf>,
}

fn pods(text: &str) -> Result<usize, String> {
    const MOST: usize = 100_000;
    text.parse()
        .ok()
        .filter(|pods| (1..=MOST).contains(pods))
        .ok_or_else(|| format!("a number from 1 to {MOST}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    const MOST: f64 = 3600.0;
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= MOST);
    seconds.ok_or_else(|| format!("a number of seconds above 0, at most {MOST}"))
}

/// The config file of the cluster; gone when this is dropped.
struct ConfigFile(PathBuf);

impl ConfigFile {
    /// Nothing but that it keeps every event.
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

/// The cluster, and how consoles on it are started.
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
        None => std::env::current_exe()?,
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
    /// A console that shows its overview.
    async fn console(&self) -> Result<Terminal> {
        let directory = self.instance.directory();
        // Each one's own: none finds what another kept.
        let own_files = directory.join(format!("console-{:x}", rand::random::<u32>()));
        let kubeconfig = directory.join("kubeconfig");
        let mut terminal = Terminal::start(&self.program, &kubeconfig, &own_files)?;
        terminal.until("its overview", "", is_drawn).await?;
        Ok(terminal)
    }

    /// What it takes while nodes heartbeat, on the overview and on the table of nodes; its memory without pods.
    async fn idle(&self, sizes: &Sizes) -> Result<f64> {
        let mut terminal = self.console().await?;
        let start = terminal.started;
        let first = terminal.until("its overview", "", is_drawn).await?;
        Report::alone("console: start to the first frame", "ms", millis(first - start));
        let nodes = usize::from(sizes.nodes);
        let counts_nodes =
            move |screen: &vt100::Screen| screen.contents().contains(&format!("{nodes} nodes ● {nodes} "));
        terminal.until("all nodes", "", counts_nodes).await?;
        // What has just happened is drawn again every few seconds, and is not what is asked about.
        load::forget_events(&self.client).await?;
        let empty = terminal.settled_mib().await?;
        let span = Duration::from_secs_f64(sizes.seconds);
        let share = share_of(&terminal, span).await?;
        let what = format!("console: idle, {nodes} nodes that heartbeat");
        Report::against_limit(&what, "%", share, "goal", GOAL_IDLE_PERCENT);
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

    /// How soon it shows the first of so many pods, and what it keeps for each, with their table open.
    async fn pods(&self, pods: usize, empty_mib: f64, most: bool) -> Result<()> {
        let mut terminal = self.console().await?;
        let first = |screen: &vt100::Screen| lists(screen, "Pods", NAME);
        let first = terminal.until("the first pods", ":pods\r", first).await?;
        if most {
            let what = format!("console: start to the first of {pods} pods");
            Report::against_limit(&what, "ms", millis(first - terminal.started), "goal", GOAL_FIRST_MS);
        }
        let all = terminal.until("all pods", "", move |screen| counts_pods(screen, pods)).await?;
        if most {
            Report::alone("  to all of them", "ms", millis(all - terminal.started));
        }
        let kept = terminal.settled_mib().await? - empty_mib;
        let what = format!("console: memory, each of {pods} pods");
        Report::against_limit(&what, "KiB", kept * 1024.0 / pods as f64, "goal", GOAL_POD_KIB);
        terminal.stop().await
    }

    /// What it keeps for an event, and from a key to what that does, while much changes.
    async fn keys(&self, sizes: &Sizes, pods: usize) -> Result<()> {
        let events = sizes.events as usize;
        let mut terminal = self.console().await?;
        terminal.until("all pods", "", move |screen| counts_pods(screen, pods)).await?;
        let before = terminal.settled_mib().await?;
        terminal.stop().await?;
        load::tell(&self.client, events).await?;
        let mut terminal = self.console().await?;
        terminal.until("all pods", "", move |screen| counts_pods(screen, pods)).await?;
        let all = move |screen: &vt100::Screen| counts_events(screen, events);
        terminal.until("all events", ":events\r", all).await?;
        let each = (terminal.settled_mib().await? - before) * 1024.0 / events as f64;
        Report::alone(&format!("console: memory, each of {events} events"), "KiB", each);

        let changes = Changes::start(&self.client, sizes.changes).await?;
        let worked = (Instant::now(), terminal.processor_time()?);
        let mut samples = Vec::new();
        let mut opened: f64 = 0.0;
        for (kind, heading) in [("pods", "Pods"), ("events", "Events")] {
            let asked = Instant::now();
            let listed = move |screen: &vt100::Screen| lists(screen, heading, NAME);
            let shown = terminal.until(kind, &format!(":{kind}\r"), listed).await?;
            opened = opened.max(millis(shown - asked));
            terminal.until("the filter", "/", |screen| filter_is(screen, "")).await?;
            for key in 0..sizes.keys as usize {
                tokio::time::sleep(BETWEEN_KEYS).await;
                samples.push(type_one(&mut terminal, key).await?);
            }
            terminal.until("the table", "\u{1b}", |screen| !is_asked(screen)).await?;
        }
        let share = share_since(&terminal, worked)?;
        let rate = changes.end().context("changing pods and events")?;
        let what = format!("console: key to paint, p99, {events} events");
        Report::against_limit(
            &what,
            "ms",
            percentile_micros(&mut samples, 0.99) / 1000.0,
            "goal",
            GOAL_KEY_MS,
        );
        Report::alone("  the median", "ms", percentile_micros(&mut samples, 0.5) / 1000.0);
        Report::alone("  the slowest table to open", "ms", opened);
        Report::alone("  changes meanwhile", "/s", rate);
        Report::alone("  what they take of a processor", "%", share);
        terminal.stop().await
    }
}

/// The next letter of what is typed, or one less; from the key to its text in the prompt.
async fn type_one(terminal: &mut Terminal, key: usize) -> Result<Duration> {
    let turn = key % (2 * TYPED.len());
    let (typed, length) = if turn < TYPED.len() {
        (&TYPED[turn..=turn], turn + 1)
    } else {
        ("\u{7f}", 2 * TYPED.len() - turn - 1)
    };
    let text = &TYPED[..length];
    let asked = Instant::now();
    let shown = terminal.until("a key", typed, move |screen| filter_is(screen, text)).await?;
    Ok(shown - asked)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// What a console takes of a processor for so long, in percent.
async fn share_of(terminal: &Terminal, span: Duration) -> Result<f64> {
    let worked = (Instant::now(), terminal.processor_time()?);
    tokio::time::sleep(span).await;
    share_since(terminal, worked)
}

/// What it took since it was looked at.
fn share_since(terminal: &Terminal, (start, worked): (Instant, Duration)) -> Result<f64> {
    let worked = terminal.processor_time()?.saturating_sub(worked);
    let share = worked.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0;
    // A console that did not run at all is compared with, too.
    Ok(share.max(LEAST_PERCENT))
}
