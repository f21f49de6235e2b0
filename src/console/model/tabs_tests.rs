//! Tabs on a test terminal: keys, the screen, and the jobs (CON-17).

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::view;
use console_data::message::Data;
use console_data::message::Message;
use console_data::resource::Kind;
use console_data::resource::{KindFacts, ObjectRef};
use console_data::store::{Change, Delta};
use console_operations::effect::{Effect, TerminalPurpose};
use console_operations::pane::{Outcome, PaneEvent};
use console_screens::terminal::{self, TerminalData};
use console_toolkit::command::Bindings;
use console_toolkit::keys::Key;
use console_toolkit::theme::depth::Depth;

fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

pub(super) fn objects<K: DeserializeOwned>(list: impl IntoIterator<Item = Value>) -> Vec<Arc<K>> {
    list.into_iter().map(|object| Arc::new(serde_json::from_value(object).unwrap())).collect()
}

pub(super) fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}")},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "i", "imageID": "",
                "state": {"running": {"startedAt": "2026-05-01T11:00:00Z"}}}],
        },
    })
}

/// A kind that is shown by the server's Table only.
pub(super) fn widgets(plural: &str) -> Kind {
    Kind::new(KindFacts {
        resource: ResourceKey {
            group: "x.io".into(),
            version: "v1".into(),
            plural: plural.to_owned().into(),
        },
        kind: plural.to_owned(),
        singular: plural.to_owned(),
        namespaced: true,
        short_names: Vec::new(),
        subresources: BTreeMap::new(),
        verbs: ["list", "watch", "get"].map(String::from).into(),
    })
}

/// The setup for an in-process cluster, without a user's files.
pub(super) fn setup(depth: Depth) -> Setup {
    Setup {
        cluster: "podium".into(),
        origin: "in process".into(),
        context: None,
        home: ("podium".into(), "in process".into()),
        cluster_styles: Vec::new(),
        thresholds: console_data::thresholds::Thresholds::default(),
        node_shell: console_data::node_shell::NodeShell::default(),
        forks: None,
        project: None,
        theme: Theme::parse("night", "night.toml", include_str!("../../../themes/night.toml")).unwrap(),
        configured_theme: None,
        depth,
        config_dir: None,
        bindings: Bindings::default(),
        scope: Scope::All,
        read_only: false,
        quit_warning: String::new(),
        still: false,
    }
}

pub(super) struct TestConsole {
    pub(super) model: Model,
    terminal: Terminal<TestBackend>,
    pub(super) now: Timestamp,
}

impl TestConsole {
    pub(super) fn new(width: u16, height: u16) -> Self {
        Self::in_depth(width, height, Depth::True)
    }

    pub(super) fn in_depth(width: u16, height: u16, depth: Depth) -> Self {
        let mut stage = Self::without_lists(width, height, depth);
        let namespaces = ["default", "shop"].map(|name| json!({"metadata": {"name": name, "uid": name}}));
        stage.feed(Delta::of::<Namespace>(vec![Change::Reset(objects(namespaces))]));
        let pods = ["api", "cart", "web"].map(|name| pod("default", name));
        let pods = pods.into_iter().chain([pod("shop", "seed")]);
        stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
        stage.feed(Delta::of::<Node>(vec![Change::Reset(Vec::new())]));
        stage
    }

    /// A console without an answer from its server yet.
    pub(super) fn without_lists(width: u16, height: u16, depth: Depth) -> Self {
        Self::of(Model::new(setup(depth), now()).0, width, height)
    }

    pub(super) fn of(model: Model, width: u16, height: u16) -> Self {
        Self { model, terminal: Terminal::new(TestBackend::new(width, height)).unwrap(), now: now() }
    }

    pub(super) fn feed(&mut self, delta: Delta) -> Vec<Job> {
        self.model.update(Message::Feed(delta), self.now)
    }

    pub(super) fn press(&mut self, script: &str) -> Vec<Job> {
        let mut jobs = Vec::new();
        for word in script.split(' ') {
            let keys: Vec<String> = match word.strip_prefix('"') {
                Some(text) => {
                    let chars = text.trim_end_matches('"').chars();
                    chars.map(|c| if c == '_' { "space".to_owned() } else { c.to_string() }).collect()
                }
                None => vec![word.to_owned()],
            };
            for key in keys {
                jobs.extend(self.settle());
                jobs.extend(self.model.update(Message::Key(Key::parse(&key).unwrap().event()), self.now));
            }
        }
        jobs.extend(self.settle());
        jobs
    }

    /// Pauses like a user who looks up after each key: a closed dialog then swallows nothing, and an answer takes
    /// effect.
    fn settle(&mut self) -> Vec<Job> {
        let Some(at) = self.model.settles_at().filter(|at| *at > self.now) else { return Vec::new() };
        self.now = at;
        self.model.update(Message::Tick, self.now)
    }

    /// Runs incremental work to its end.
    pub(super) fn work(&mut self) {
        while self.model.works() {
            self.model.update(Message::Work, self.now);
        }
    }

    pub(super) fn screen(&mut self) -> String {
        let (model, now) = (&self.model, self.now);
        self.terminal.draw(|frame| view::draw(model, now, frame)).unwrap();
        let buffer = self.terminal.backend().buffer();
        let mut text = String::new();
        for row in 0..buffer.area.height {
            let line: String = (0..buffer.area.width).map(|column| buffer[(column, row)].symbol()).collect();
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    pub(super) fn resize(&mut self, width: u16, height: u16) {
        self.terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        self.model.update(Message::Resize(width, height), self.now);
    }

    /// Reports whether the middle of a row is drawn dim.
    pub(super) fn is_dim(&mut self, row: u16) -> bool {
        self.screen();
        self.terminal.backend().buffer()[(8, row)].modifier.contains(ratatui::style::Modifier::DIM)
    }

    /// Reports whether a frame in these columns has this colour.
    pub(super) fn has_frame(&self, columns: std::ops::Range<u16>, colour: ratatui::style::Color) -> bool {
        let buffer = self.terminal.backend().buffer();
        let cells = columns.flat_map(|x| (0..buffer.area.height).map(move |y| (x, y)));
        cells.map(|at| &buffer[at]).any(|cell| cell.fg == colour && matches!(cell.symbol(), "╭" | "│" | "╰"))
    }

    pub(super) fn bar(&mut self) -> String {
        self.screen().lines().nth(1).unwrap_or_default().to_owned()
    }

    pub(super) fn shell(&mut self) -> ScreenId {
        let object = ObjectRef {
            kind: console_data::builtin_kinds::kind::<Pod>(),
            namespace: Some("default".into()),
            name: "web".into(),
            uid: Some(Uid::from("default-web")),
        };
        self.model.open(terminal::Terminal::new(object, TerminalPurpose::Attach).into(), self.now);
        let id = self.model.top().0;
        let opened = PaneEvent::Opened { container: "main".into(), tty: true, stdin: true };
        self.send(id, TerminalData::Event(opened));
        id
    }

    pub(super) fn send(&mut self, id: ScreenId, event: TerminalData) -> Vec<Job> {
        self.model.update(Message::Data(id, Data::new(event)), self.now)
    }
}

#[test]
fn a_bar_is_there_with_more_than_one_tab_con_17() {
    // Keys from the overview, and the second line.
    for (keys, bar) in [
        ("p", "╭ Pods"),
        ("p ctrl-t", "  1 Pods ▸2 Overview"),
        ("p ctrl-t ctrl-t", "  1 Pods  2 Overview ▸3 Overview"),
        // A new tab opens beside the front one, as in an editor.
        ("p ctrl-t alt-1 ctrl-t", "  1 Pods ▸2 Overview  3 Overview"),
        ("p ctrl-t ctrl-n", " ▸1 Pods  2 Overview"),
        ("p ctrl-t ctrl-p", " ▸1 Pods  2 Overview"),
        ("p ctrl-t ctrl-t ctrl-p", "  1 Pods ▸2 Overview  3 Overview"),
        ("p ctrl-t ctrl-t ctrl-p p alt-3", "  1 Pods  2 Pods ▸3 Overview"),
        ("p ctrl-t alt-left", " ▸1 Pods  2 Overview"),
        ("p ctrl-t alt-w", "╭ Pods"),
        ("p ctrl-t p alt-1 alt-w", "╭ Pods"),
        ("ctrl-t p ctrl-t alt-2 alt-w", "  1 Overview ▸2 Overview"),
        ("ctrl-t : \"tabclose\" enter", "╭"),
        ("p : \"tab_po_shop\" enter", "  1 Pods ▸2 Pods shop"),
        ("p : \"tabnew\" enter : \"tab_1\" enter", " ▸1 Pods  2 Overview"),
        ("p ctrl-t : \"tabprevious\" enter", " ▸1 Pods  2 Overview"),
        ("p ctrl-t 2", "  1 Pods ▸2 Overview"),
        ("p 2 ctrl-t p 0", "  1 Pods shop ▸2 Pods"),
        // `q` closes the views of a tab, then the tab.
        ("p ctrl-t p q", "  1 Pods ▸2 Overview"),
        ("p ctrl-t q", "╭ Pods"),
    ] {
        let mut stage = TestConsole::new(80, 24);
        stage.press(keys);
        let line = stage.bar();
        let line = if line.starts_with('╭') { line } else { format!(" {}", line.trim_start()) };
        let expected = if bar.starts_with('╭') { bar.to_owned() } else { format!(" {}", bar.trim_start()) };
        assert!(line.starts_with(&expected), "{keys}: {line:?} is not {bar:?}\n{}", stage.screen());
    }
}

#[test]
fn a_tab_keeps_filter_cursor_and_namespace_con_17() {
    let mut stage = TestConsole::new(80, 24);
    stage.press("p 1 / \"a[pra]\" enter j");
    let before = stage.screen();
    assert!(before.contains("Pods default 2 of 3 /a[pra]") && before.contains("▸ cart"), "{before}");
    stage.press("ctrl-t p 0 G");
    let other = stage.screen();
    assert!(other.contains("Pods all 4") && other.contains("▸ shop"), "{other}");
    // Changes meanwhile are visible after returning, and the cursor has not moved.
    stage.feed(Delta::of::<Pod>(vec![Change::Applied(objects([pod("default", "aaa")]).remove(0))]));
    stage.press("alt-1");
    let after = stage.screen();
    assert!(after.contains("Pods default 3 of 4 /a[pra]") && after.contains("▸ cart"), "{after}");
    assert_eq!(stage.model.shared.scope, Scope::One("default".into()));
    stage.press("alt-2");
    assert!(stage.screen().contains("▸ shop"), "{}", stage.screen());
    assert_eq!(stage.model.shared.scope, Scope::All);
}

#[test]
fn esc_never_closes_a_tab_and_the_last_one_stays_con_17() {
    let mut stage = TestConsole::new(80, 24);
    stage.press("ctrl-t p esc esc esc esc");
    assert!(stage.bar().contains("▸2 Overview"), "{}", stage.screen());
    let jobs = stage.press("q");
    assert!(!jobs.iter().any(|job| matches!(job, Job::Quit)), "{jobs:?}");
    assert_eq!(stage.model.tabs.count(), 1);
    stage.press("alt-w");
    assert!(stage.screen().contains("the last tab cannot be closed"));
    stage.press("ctrl-n");
    assert!(
        stage.screen().contains("only one tab is open; ctrl-t or :tab opens another"),
        "{}",
        stage.screen()
    );
    stage.press(&["ctrl-t"; 12].join(" "));
    assert_eq!(stage.model.tabs.count(), 9);
    assert!(stage.screen().contains("9 tabs are open"), "{}", stage.screen());
    for (typed, error) in [
        ("tab_12", "tabs are numbered 1 to 9"),
        ("tab_0", "tabs are numbered 1 to 9"),
        ("tab_wobble", "no kind or command \"wobble\""),
        ("tab_tab_po", "does not open a view"),
        ("tab_ns_shop", "does not open a view"),
        ("tab_99999999999999999999999", "tabs are numbered 1 to 9"),
    ] {
        stage.press(&format!(": \"{typed}\" enter"));
        assert!(stage.screen().contains(error), "{typed}\n{}", stage.screen());
        stage.press("esc");
    }
}

#[test]
fn work_that_ends_in_a_hidden_tab_marks_the_tab_con_17() {
    let mut stage = TestConsole::new(80, 24);
    let id = stage.shell();
    // The terminal receives the tab keys while there is one tab; with more, the digits switch tabs.
    stage.press("alt-2 ctrl-t");
    assert_eq!(stage.model.tabs.count(), 1);
    stage.press("ctrl-]");
    stage.press(": \"background\" enter");
    stage.model.new_tab(None, stage.now);
    assert!(stage.bar().contains(" 1 web · attach ▸2 Overview"), "{}", stage.screen());
    // It continues, and retains its output.
    stage.send(id, TerminalData::Event(PaneEvent::Output(b"still here".to_vec().into())));
    assert!(!stage.bar().contains('!'));
    assert!(stage.screen().contains("⧗ attach web"), "{}", stage.screen());
    stage.send(id, TerminalData::Event(PaneEvent::Ended(Outcome::Exited(0))));
    assert!(stage.bar().contains(" 1! web · attach"), "{}", stage.screen());
    assert!(stage.screen().contains("attach in web: "), "a message reports the end, too\n{}", stage.screen());
    stage.press("alt-1");
    let screen = stage.screen();
    assert!(screen.contains("▸1 web · attach  2 Overview") && screen.contains("still here"), "{screen}");
    // This also works in a terminal, which receives the other keys.
    stage.press("alt-2");
    assert!(stage.bar().contains("▸2 Overview") && !stage.bar().contains('!'), "{}", stage.screen());
}

#[test]
fn a_dialog_of_a_hidden_screen_waits_in_its_tab_con_17() {
    let mut stage = TestConsole::new(80, 24);
    stage.press("p");
    let id = stage.model.top().0;
    stage.press("ctrl-t");
    let dialog = || Dialog::new("Really", "Yes", |_, _| Ok(Vec::new()));
    let now = stage.now;
    let place = |model: &mut Model| model.apply(id, vec![Effect::dialog(dialog())], now);
    stage.model.visit_for_test(0, place);
    assert!(!stage.screen().contains("Really") && stage.bar().contains("1! Pods"), "{}", stage.screen());
    stage.press("alt-1");
    assert!(stage.screen().contains("Really"), "{}", stage.screen());
}

#[test]
fn closing_a_tab_lets_work_go_on_con_17() {
    let mut stage = TestConsole::new(80, 24);
    stage.press("ctrl-t p");
    let id = stage.model.top().0;
    let shell = stage.shell();
    stage.press("alt-1");
    let jobs = stage.press("alt-2 alt-w ctrl-]");
    assert!(!jobs.iter().any(|job| matches!(job, Job::Close(closed) if *closed == shell)), "{jobs:?}");
    let jobs = stage.press("alt-w");
    assert!(jobs.iter().any(|job| matches!(job, Job::Close(closed) if *closed == id)), "{jobs:?}");
    assert_eq!(stage.model.tabs.count(), 1);
    assert!(stage.screen().contains("⧗ attach web"), "{}", stage.screen());
    // A confirmation of leaving counts it, in any tab.
    stage.press(": \"background\" enter");
    stage.model.new_tab(None, stage.now);
    stage.press("ctrl-c");
    assert!(stage.screen().contains("1 background task will be stopped"), "{}", stage.screen());
    stage.press("esc : \"background\" enter");
    assert!(stage.bar().contains("▸1 web · attach  2 Overview"), "{}", stage.screen());
}

#[test]
fn tabs_share_watches_and_those_away_have_few_con_17() {
    let watched = |jobs: &[Job]| {
        let job = |job: &Job| match job {
            Job::Watch(kind, namespace, _) => {
                Some(format!("+{}/{}", kind.singular, namespace.as_deref().unwrap_or("*")))
            }
            Job::Unwatch(resource) => Some(format!("-{}", resource.plural)),
            _ => None,
        };
        jobs.iter().filter_map(job).collect::<Vec<_>>()
    };
    let mut stage = TestConsole::new(80, 24);
    let kinds: Vec<Kind> = (0..9).map(|n| widgets(&format!("w{n}"))).collect();
    let open = |stage: &mut TestConsole, n: usize| {
        let route = console_operations::effect::TableRoute::of(kinds[n].clone());
        let id = stage.model.top().0;
        let mut jobs = stage.model.apply(id, vec![Effect::open(route)], stage.now);
        jobs.extend(stage.model.sync_table_watches());
        jobs
    };
    assert_eq!(watched(&open(&mut stage, 0)), ["+w0/*"]);
    assert!(watched(&stage.press("ctrl-t")).is_empty(), "the tab away keeps its own");
    assert!(watched(&open(&mut stage, 0)).is_empty(), "two tabs, one watch");
    // The visible tab determines the namespace.
    assert_eq!(watched(&stage.press("1")), ["+w0/default"]);
    assert_eq!(watched(&stage.press("alt-1")), ["+w0/*"]);
    assert_eq!(watched(&stage.press("alt-2")), ["+w0/default"]);
    assert!(watched(&stage.press("alt-w")).contains(&"+w0/*".to_owned()));
    assert_eq!(watched(&stage.press("esc")), ["-w0"]);
    // Nine kinds in two tabs: the invisible one keeps eight.
    for n in 0..9 {
        open(&mut stage, n);
    }
    assert_eq!(watched(&stage.press("ctrl-t")).len(), 1);
    assert_eq!(watched(&stage.press("alt-1")).len(), 1, "and gets the ninth again");
}

#[test]
fn the_bar_fits_every_window_and_is_seen_without_colour_con_17() {
    for depth in [Depth::True, Depth::None] {
        for (width, height) in [(80, 24), (140, 40), (40, 12)] {
            let mut stage = TestConsole::in_depth(width, height, depth);
            stage.press("p ctrl-t ctrl-t p 1");
            let screen = stage.screen();
            assert!(screen.lines().all(|line| line.chars().count() <= usize::from(width)), "{screen}");
            let bar = screen.lines().nth(1).unwrap();
            assert_eq!(bar, " 1 Pods  2 Overview ▸3 Pods default", "{screen}");
            assert!(screen.contains("▸ api"), "there is room for the rows\n{screen}");
            // A click selects the tab under the pointer.
            let at = bar.chars().position(|c| c == '2').unwrap() as u16;
            let press = crossterm::event::MouseEvent {
                kind: crossterm::event::MouseEventKind::Down(crossterm::event::MouseButton::Left),
                column: at,
                row: 1,
                modifiers: crossterm::event::KeyModifiers::NONE,
            };
            stage.model.update(Message::Mouse(press), stage.now);
            assert_eq!(stage.bar(), " 1 Pods ▸2 Overview  3 Pods default");
        }
    }
}

#[test]
fn a_new_tab_has_what_was_typed_and_help_names_the_keys_con_17() {
    let mut stage = TestConsole::new(140, 40);
    stage.press(": \"po\" enter ctrl-t [");
    assert!(stage.bar().contains("▸2 Pods"), "{}", stage.screen());
    stage.press("?");
    let mut seen = stage.screen();
    stage.press("ctrl-f");
    seen.push_str(&stage.screen());
    stage.press("G");
    seen.push_str(&stage.screen());
    for expected in ["Open a tab", "alt-1", "Go to a tab, or open one", "ctrl-n"] {
        assert!(seen.contains(expected), "{expected}\n{seen}");
    }
}
