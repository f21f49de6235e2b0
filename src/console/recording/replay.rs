//! Replays a recorded session through the present console under virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Context as _;
use crossterm::event::{Event, KeyEventKind};
use ratatui::buffer::Buffer;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::cast::{Cast, CastRenderer};
use super::format::{Recording, SessionHeader};
use super::key_bindings::bindings_of;
use super::recorded_clusters::{RecordedClusters, ReplayClock};
use super::replay_sources::ReplaySources;
use super::svg;
use crate::joined_clusters::{ClusterSources, JoinedClusters};
use crate::model::{DiskJob, Job, Model, Setup};
use crate::view;
use base::clock::Clock;
use base::sort::SliceOrder;
use console_data::contexts::{ConnectedCluster, ContextEntry};
use console_data::feed::{self, Feed};
use console_data::message::Message;
use console_data::node_shell::NodeShell;
use console_data::read_only;
use console_data::saved_tabs::SavedTabs;
use console_data::scope::Scope;
use console_data::thresholds::Thresholds;
use console_operations::effect::Runner;
use console_toolkit::text::clean;
use console_toolkit::theme::depth::Depth;
use console_toolkit::theme::library;
use console_toolkit::toast::Toast;

/// The time for which the replay continues after the last event.
const REST: Duration = Duration::from_secs(1);
/// A screenshot is taken this long before the next key.
const JUST_BEFORE: Duration = Duration::from_millis(1);
const FRAME: Duration = Duration::from_millis(16);

/// The display options of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Columns and rows; `None` for the recorded size.
    pub size: Option<(u16, u16)>,
    /// The theme's name; `None` for the recorded theme.
    pub theme: Option<String>,
}

/// The screen at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    /// The time since the start.
    pub at: Duration,
    /// The key that was pressed before this screen; `None` before the first key.
    pub after: Option<String>,
    buffer: Buffer,
}

impl Screen {
    /// Returns the screen as lines of text without trailing blanks.
    pub fn text(&self) -> String {
        svg::lines(&self.buffer).into_iter().map(|line| line + "\n").collect()
    }

    /// Returns the screen as an SVG image.
    pub fn svg(&self) -> String {
        svg::picture(&self.buffer)
    }
}

/// Replays a recording without waiting: returns the screens before each key and at the end, and the whole session as a
/// cast.
pub fn replay(recording: Recording, options: &ReplayOptions) -> anyhow::Result<(Vec<Screen>, Cast)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("a runtime")?;
    runtime.block_on(async {
        let mut stage = ReplaySession::new(&recording, options)?;
        stage.play(recording).await;
        Ok((stage.screens, stage.drawing.cast()))
    })
}

struct ReplaySession {
    started: Instant,
    clock: Clock,
    model: Model,
    first: Vec<Job>,
    drawing: CastRenderer,
    screens: Vec<Screen>,
    /// The last key.
    after: Option<String>,
    keeps_size: bool,
}

impl ReplaySession {
    fn new(recording: &Recording, options: &ReplayOptions) -> anyhow::Result<Self> {
        let SessionHeader {
            now,
            columns,
            rows,
            cluster,
            origin,
            namespace,
            context,
            theme,
            read_only,
            keys,
            ..
        } = recording.beginning.clone();
        let clock = Clock::starting_at(now);
        let theme = options.theme.clone().unwrap_or(theme);
        let themes = library::all(&[]);
        let known = themes.iter().find(|(name, _)| *name == theme).or(themes.first());
        let theme = match known {
            Some((_, Ok(known))) if known.name == theme || options.theme.is_none() => known.clone(),
            Some((_, Err(error))) => anyhow::bail!("{error}"),
            _ => anyhow::bail!("no theme {theme:?}"),
        };
        let setup = Setup {
            cluster: cluster.clone(),
            origin: origin.clone(),
            context,
            home: (cluster, origin),
            cluster_styles: Vec::new(),
            thresholds: Thresholds::default(),
            node_shell: NodeShell::default(),
            forks: None,
            project: None,
            theme,
            configured_theme: None,
            depth: Depth::True,
            config_dir: None,
            bindings: bindings_of(&keys),
            scope: namespace.map_or(Scope::All, Scope::One),
            read_only,
            quit_warning: String::new(),
            // Animations have no place in a still image.
            still: true,
        };
        let (model, first) = Model::new(setup, clock.now());
        let size = options.size.unwrap_or((columns, rows));
        Ok(Self {
            started: Instant::now(),
            clock,
            model,
            first,
            drawing: CastRenderer::new(size.0, size.1)?,
            screens: Vec::new(),
            after: None,
            keeps_size: options.size.is_some(),
        })
    }

    async fn play(&mut self, recording: Recording) {
        let Recording {
            beginning,
            inputs,
            exchanges,
            terminals,
            attempts,
            contexts,
            displayed_contexts: shown_contexts,
            forwards,
            ended,
            duration: lasts,
        } = recording;
        let mut inputs = in_order(inputs, contexts);
        let mut sources = ReplaySources::new(beginning.version, terminals, forwards, shown_contexts);
        let mut others = RecordedClusters::new(exchanges, attempts, &beginning);
        let mut cluster = self.look_at(others.home());
        let mut next_frame = Instant::now();
        let mut jobs = std::mem::take(&mut self.first);
        loop {
            for job in std::mem::take(&mut jobs) {
                match job {
                    Job::Start(task) if ReplaySources::is_recorded(&task) => sources.replay_task(&task, &cluster.messages, self.started),
                    Job::Start(task) => cluster.runner.start(task),
                    Job::Cancel(screen, slot) => cluster.runner.cancel(screen, slot),
                    Job::Close(screen) => {
                        cluster.runner.close(screen);
                        cluster.joined.close(screen);
                    }
                    Job::Act(action) => cluster.runner.act(*action),
                    Job::Watch(kind, namespace, include) => cluster.feed.watch(kind, namespace, include),
                    Job::Unwatch(resource) => cluster.feed.unwatch(&resource),
                    Job::MeasurePods(is_enabled) => cluster.feed.measure_pods(is_enabled),
                    Job::Redraw => {
                        self.model.dirty = true;
                        cluster.feed.retry();
                    }
                    Job::On(_, job) if matches!(&*job, Job::Start(task) if ReplaySources::is_recorded(task)) => {
                        if let Job::Start(task) = *job {
                            sources.replay_task(&task, &cluster.messages, self.started);
                        }
                    }
                    Job::On(of, job) if matches!(*job, Job::Join(_)) => {
                        if let Job::Join(name) = *job {
                            let now = ReplayClock { started: self.started, clock: self.clock.clone() };
                            others.join(of, name, &cluster.messages, now);
                        }
                    }
                    Job::On(of, job) => cluster.joined.job(of, *job),
                    Job::ListContexts(screen) => sources.list_contexts(screen, &cluster.messages, self.started),
                    Job::Connect(Some(name)) => others.go(&name, &cluster.messages, self.started),
                    Job::Connect(None) => {
                        cluster = self.go(others.home());
                        jobs.append(&mut self.first);
                    }
                    Job::SwitchCluster(connected) => {
                        cluster = self.go(*connected);
                        jobs.append(&mut self.first);
                    }
                    Job::Disk(_, DiskJob::ReadTabs) => {
                        jobs.extend(self.update(Message::SavedTabs(SavedTabs::default())));
                    }
                    Job::Quit => return self.end(ended, lasts),
                    // A recording has nothing of the user's machine: no clipboard, files, programs or journal.
                    // Kubeconfig contexts arrive at their recorded times.
                    Job::Copy(_)
                    | Job::Save(..)
                    | Job::Editor(..)
                    | Job::EditFile(..)
                    | Job::SaveState(_)
                    | Job::Disk(..)
                    | Job::ReadContexts
                    // These concern other clusters only.
                    | Job::Join(_)
                    | Job::Attach(_)
                    | Job::Need(_)
                    | Job::Release
                    | Job::Run(_) => {}
                }
            }
            if !jobs.is_empty() {
                continue;
            }
            let due = inputs.front().map_or(lasts + REST, |(at, _)| *at);
            let wake = self.model.shared.wake.get().map(|at| base::clock::until(self.clock.now(), at));
            tokio::select! {
                biased;
                Some(message) = cluster.inbox.recv() => jobs = self.update(message),
                () = std::future::ready(()), if self.model.works() => jobs = self.update(Message::Work),
                () = tokio::time::sleep_until(next_frame), if self.model.dirty => {
                    self.draw();
                    next_frame = Instant::now() + FRAME;
                }
                () = tokio::time::sleep_until((self.started + due).checked_sub(JUST_BEFORE).unwrap_or(self.started)) => {
                    let Some((at, input)) = inputs.pop_front() else { return self.end(ended, lasts) };
                    match input {
                        Input::Terminal(event) => {
                            if self.is_key(&event) {
                                self.capture_screen(at);
                            }
                            tokio::time::sleep_until(self.started + at).await;
                            jobs = self.input(event);
                        }
                        Input::Contexts(listed) => jobs = self.update(Message::Contexts(listed)),
                    }
                }
                () = tokio::time::sleep(wake.unwrap_or(Duration::MAX).saturating_add(Duration::from_millis(5))),
                    if wake.is_some() && !self.model.dirty =>
                {
                    jobs = self.update(Message::Tick);
                }
            }
        }
    }

    /// Starts watching a cluster.
    fn look_at(&self, connected: ConnectedCluster) -> ReplayedCluster {
        let read_only = self.model.setup.read_only;
        let ConnectedCluster { origin, namespace, client, .. } = connected;
        let client = if read_only { read_only::client(client) } else { client };
        let (messages, inbox) = mpsc::channel(1024);
        let fallback = namespace.unwrap_or_else(|| "default".to_owned());
        let policy = feed::retry_policy(&origin);
        let from = ClusterSources { kubeconfig: None, home: None, read_only };
        ReplayedCluster {
            runner: Runner::new(client.clone(), messages.clone()),
            feed: Feed::start(&client, &fallback, &messages, &self.clock, policy),
            joined: JoinedClusters::new(from, messages.clone(), self.clock.clone()),
            messages,
            inbox,
        }
    }

    /// Switches to another cluster, as the console does.
    fn go(&mut self, connected: ConnectedCluster) -> ReplayedCluster {
        let before = self.model.setup.clone();
        let setup = Setup {
            cluster: connected.name.clone().unwrap_or_else(|| before.home.0.clone()),
            origin: connected.origin.clone(),
            context: connected.name.clone(),
            scope: connected.namespace.clone().map_or(Scope::All, Scope::One),
            ..before
        };
        let now = self.clock.now();
        let text = format!("this is {} now", clean(&setup.cluster));
        let (mut model, first) = Model::new(setup, now);
        model.shared.theme = self.model.shared.theme.clone();
        // The console reads the contexts again after a switch; those read before are still valid here.
        let contexts = self.model.contexts.take();
        self.model = model;
        self.first = first;
        if let Some(contexts) = contexts {
            let jobs = self.update(Message::Contexts(contexts));
            self.first.extend(jobs);
        }
        self.update(Message::Toast(Toast::done(text)));
        self.look_at(connected)
    }

    fn is_key(&self, event: &Event) -> bool {
        matches!(event, Event::Key(key) if key.kind != KeyEventKind::Release)
            || matches!(event, Event::Paste(_))
            || matches!(event, Event::Resize(..)) && !self.keeps_size
    }

    fn input(&mut self, event: Event) -> Vec<Job> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.after = Some(console_toolkit::keys::Key::of(key).to_string());
                self.update(Message::Key(key))
            }
            Event::Paste(text) => {
                self.after = Some("paste".into());
                self.update(Message::Paste(text))
            }
            Event::Mouse(mouse) => self.update(Message::Mouse(mouse)),
            Event::Resize(columns, rows) if !self.keeps_size => {
                self.after = Some(format!("{columns}x{rows}"));
                self.drawing.resize(columns, rows);
                self.update(Message::Resize(columns, rows))
            }
            _ => Vec::new(),
        }
    }

    fn update(&mut self, message: Message) -> Vec<Job> {
        let now = self.clock.now();
        self.model.toasts.expire(now);
        self.model.update(message, now)
    }

    fn draw(&mut self) {
        let now = self.clock.now();
        self.model.toasts.expire(now);
        self.model.dirty = false;
        let model = &self.model;
        self.drawing.draw(self.started.elapsed(), |frame| view::draw(model, now, frame));
    }

    /// Stores the final screen, and the reason if the recording ends before the session.
    fn end(&mut self, reason: Option<String>, at: Duration) {
        if let Some(why) = reason {
            self.update(Message::Toast(Toast::warning(clean(&why).into_owned())));
        }
        self.capture_screen(at);
    }

    /// Stores the present screen.
    fn capture_screen(&mut self, at: Duration) {
        self.draw();
        let buffer = self.drawing.last_frame().clone();
        self.screens.push(Screen { at, after: self.after.clone(), buffer });
    }
}

/// The cluster that is shown.
struct ReplayedCluster {
    messages: mpsc::Sender<Message>,
    inbox: mpsc::Receiver<Message>,
    runner: Runner,
    feed: Feed,
    joined: JoinedClusters,
}

/// An input that arrives at its recorded time, regardless of the console's state.
enum Input {
    Terminal(Event),
    Contexts(Result<Vec<ContextEntry>, String>),
}

fn in_order(
    inputs: Vec<(Duration, Event)>,
    contexts: Vec<(Duration, Result<Vec<ContextEntry>, String>)>,
) -> VecDeque<(Duration, Input)> {
    let contexts = contexts.into_iter().map(|(at, listed)| (at, Input::Contexts(listed)));
    let inputs = inputs.into_iter().map(|(at, event)| (at, Input::Terminal(event)));
    let mut all: Vec<_> = contexts.chain(inputs).collect();
    all.order_by_key(|(at, _)| *at);
    all.into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn recording(theme: &str, answers: &[(&str, Value)], keys: &[(u64, &str)]) -> Recording {
        let header = json!({"at": 0, "begun": {"version": 1, "now": "2026-11-26T06:00:00Z", "columns": 80, "rows": 24,
            "cluster": "kind", "origin": "10.0.0.1:6443", "namespace": "default", "theme": theme, "readOnly": false}});
        let mut lines = vec![header];
        for (id, (path, answer)) in answers.iter().enumerate() {
            lines.extend([
                json!({"at": 1, "asked": {"id": id, "method": "GET", "path": path}}),
                json!({"at": 20, "answered": {"id": id, "status": 200, "contentType": "application/json"}}),
                json!({"at": 30, "told": {"id": id, "text": answer.to_string()}}),
                json!({"at": 30, "over": {"id": id, "broken": false}}),
            ]);
        }
        for (at, key) in keys {
            let event = Event::Key(console_toolkit::keys::Key::parse(key).unwrap().event());
            lines.push(json!({"at": at, "input": event}));
        }
        let text: String = lines.iter().map(|line| line.to_string() + "\n").collect();
        Recording::parse(text.as_bytes()).unwrap()
    }

    fn pods(names: &[&str]) -> Value {
        let pod = |name: &&str| {
            json!({"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "7",
                    "creationTimestamp": "2026-11-26T05:58:00Z"},
                "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Running"}})
        };
        json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "9"},
            "items": names.iter().map(pod).collect::<Vec<_>>()})
    }

    const TO_PODS: [(u64, &str); 6] =
        [(1000, ":"), (1100, "p"), (1200, "o"), (1300, "d"), (1400, "s"), (1500, "enter")];

    #[test]
    fn a_recording_shows_what_the_console_makes_of_it_con_21() {
        let answers = [("/api/v1/pods?limit=500", pods(&["web-0", "web-1"]))];
        let play = || {
            let options = ReplayOptions::default();
            replay(recording("night", &answers, &TO_PODS), &options).unwrap()
        };
        let (screens, cast) = play();
        assert_eq!(screens.len(), TO_PODS.len() + 1, "before each key, and in the end");
        let keys: Vec<_> = screens.iter().map(|screen| screen.after.as_deref().unwrap_or("start")).collect();
        assert_eq!(keys, ["start", ":", "p", "o", "d", "s", "enter"]);
        let last = screens.last().unwrap().text();
        assert!(last.contains("web-0") && last.contains("web-1"), "{last}");
        // The pod was two minutes old at the start, and the session lasted a second and a half.
        assert!(last.contains("2m"), "{last}");
        assert!(screens[0].text().lines().count() == 24 && screens[0].svg().contains("</svg>"));
        assert!(
            cast.text().starts_with("{\"version\":2,\"width\":80,\"height\":24}"),
            "{}",
            &cast.text()[..60]
        );
        assert_eq!(play(), (screens, cast), "it is always the same");
    }

    #[test]
    fn a_replay_has_the_recorded_key_bindings_con_21() {
        let answers = [("/api/v1/pods?limit=500", pods(&["web-0", "web-1"]))];
        let mut keys = TO_PODS;
        keys[0].1 = "f12";
        let mut recording = recording("night", &answers, &keys);
        recording.beginning.keys = [("command".to_owned(), vec!["f12".to_owned()])].into();
        let (screens, _) = replay(recording, &ReplayOptions::default()).unwrap();
        let last = screens.last().unwrap().text();
        assert!(last.contains("web-0") && last.contains("web-1"), "{last}");
    }

    #[test]
    fn size_and_theme_can_be_others_con_21() {
        let answers = [("/api/v1/pods?limit=500", pods(&["web-0"]))];
        let options = ReplayOptions { size: Some((120, 30)), theme: Some("paper".into()) };
        let (screens, _) = replay(recording("night", &answers, &TO_PODS), &options).unwrap();
        assert_eq!(screens[0].text().lines().count(), 30);
        let options = ReplayOptions { theme: Some("missing".into()), ..ReplayOptions::default() };
        let refused = replay(recording("night", &answers, &[]), &options).unwrap_err();
        assert_eq!(refused.to_string(), "no theme \"missing\"");
        // An unknown recorded theme does not prevent the replay.
        assert!(replay(recording("gone", &answers, &[]), &ReplayOptions::default()).is_ok());
    }

    /// Replays a session with a shell in the only pod; returns the last screen.
    fn shell(version: u32, events: &[Value]) -> String {
        let answers = [("/api/v1/pods?limit=500", running("web-0"))];
        let keys: Vec<(u64, &str)> = TO_PODS.into_iter().chain([(1600, "s"), (2600, "x")]).collect();
        let mut recording = recording("night", &answers, &keys);
        recording.beginning.version = version;
        for (at, event) in (1700..).step_by(100).zip(events) {
            let event = serde_json::from_value(event.clone()).unwrap();
            let at = Duration::from_millis(at);
            crate::recording::terminals::take(&mut recording.terminals, at, 0, event).unwrap();
        }
        let play = |recording: Recording| replay(recording, &ReplayOptions::default()).unwrap().0;
        play(recording).last().unwrap().text()
    }

    fn running(name: &str) -> Value {
        let mut list = pods(&[name]);
        list["items"][0]["status"]["containerStatuses"] = json!([{"name": "c", "ready": true, "restartCount": 0,
            "image": "i", "imageID": "", "state": {"running": {"startedAt": "2026-11-26T05:58:00Z"}}}]);
        list
    }

    #[test]
    fn terminals_replay_their_recorded_output_con_21() {
        let opened = json!({"opened": {"container": "c", "tty": true, "stdin": true}});
        let screen =
            shell(2, &[json!("began"), opened.clone(), json!({"text": "sh-5.2$ whoami\r\npodium\r\n"})]);
        assert!(screen.contains("web-0 · shell") || screen.contains("shell · web-0"), "{screen}");
        assert!(screen.contains("sh-5.2$ whoami") && screen.contains("podium"), "{screen}");
        let ended = json!({"ended": {"Exited": 3}});
        let screen = shell(2, &[json!("began"), opened, ended]);
        assert!(screen.contains("command terminated with exit code 3"), "{screen}");
        // Missing output is reported in its place.
        let screen = shell(2, &[]);
        assert!(screen.contains("this terminal's output is not in the recording"), "{screen}");
        let screen = shell(1, &[]);
        assert!(screen.contains("older"), "{screen}");
    }

    #[test]
    fn a_replay_shows_the_reason_for_which_its_recording_ended_early_con_21() {
        let mut recording = recording("night", &[], &TO_PODS);
        recording.ended = Some("it is of one cluster\u{1b}[2J".into());
        let (screens, _) = replay(recording, &ReplayOptions::default()).unwrap();
        let has_notice = |screen: &Screen| screen.text().contains("it is of one cluster");
        assert!(has_notice(screens.last().unwrap()), "{}", screens.last().unwrap().text());
        assert!(!has_notice(&screens[0]));
    }
}
