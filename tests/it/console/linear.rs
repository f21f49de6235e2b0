//! The console's linear mode: each line of output, in order (CON-20).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use podium::console::linear::{Reader, Speech};
use podium::console_data::message::{Data, Message};
use podium::console_data::store::{Change, Delta, PodUsages, ResourceUsage};
use podium::console_screens::logs::LogsData;
use podium::console_screens::yaml::YamlData;
use podium::console_toolkit::log_line::LogLine;
use podium::console_toolkit::toast::Toast;

use super::test_console::{TestConsole, cluster, objects, pod};

/// A console and its reader.
struct SpeechReader {
    stage: TestConsole,
    reader: Reader,
}

impl SpeechReader {
    fn new() -> Self {
        let mut stage = TestConsole::new(80, 24);
        stage.feed(cluster());
        Self { stage, reader: Reader::default() }
    }

    /// Returns the new output.
    fn new_output(&mut self) -> Vec<String> {
        let spoken = self.reader.read(&self.stage.model, self.stage.now).into_iter();
        spoken
            .map(|speech| match speech {
                Speech::Line(line) => line,
                Speech::Typed(text) => format!("typed {text:?}"),
            })
            .collect()
    }

    /// Presses keys and returns the output after them.
    fn output_after(&mut self, keys: &str) -> Vec<String> {
        self.stage.press(keys);
        self.reader.note_user_action();
        self.new_output()
    }

    fn put(&mut self, pods: Vec<serde_json::Value>) {
        let changes = objects(pods).into_iter().map(Change::Applied).collect();
        self.stage.feed(vec![Delta::of::<Pod>(changes)]);
    }

    fn wait(&mut self, milliseconds: i64) {
        self.stage.now =
            self.stage.now.saturating_add(jiff::SignedDuration::from_millis(milliseconds)).unwrap();
    }
}

fn running(name: &str) -> serde_json::Value {
    pod("default", name, None, Some("node-1"), "Running", 5)
}

#[test]
fn linear_mode_reads_a_table_with_the_row_under_the_cursor_con_20() {
    let mut ear = SpeechReader::new();
    ear.new_output();
    let spoken = ear.output_after("p");
    assert_eq!(spoken[0], "View: Pods, 10 rows");
    assert!(
        spoken[1].starts_with("Selected: api-1-a of default, ready 1/1, status Running, restarts 0"),
        "{spoken:?}"
    );
    assert!(spoken[1].ends_with("1 of 10"), "{spoken:?}");
    assert_eq!(spoken.len(), 2);
    // Nothing is repeated, and time alone produces no output.
    ear.wait(1_500);
    assert!(ear.new_output().is_empty());
    let spoken = ear.output_after("j");
    assert!(spoken[0].starts_with("Selected: api-1-b of default, "), "{spoken:?}");
    assert_eq!(spoken.len(), 1);
    let spoken = ear.output_after("space");
    assert_eq!(spoken.last().map(String::as_str), Some("Marked: 1"));
    // The user can request everything again.
    ear.reader.read_whole_view();
    let spoken = ear.new_output();
    assert!(spoken[0].contains("3 nodes") && spoken[0].contains("10 pods"), "{spoken:?}");
    assert!(spoken.iter().any(|line| line.starts_with("marked, api-1-b of default")), "{spoken:?}");
    assert_eq!(spoken.len(), 1 + 1 + 10 + 1, "{spoken:?}");
}

#[test]
fn linear_mode_counts_the_rows_that_it_does_not_read_con_20() {
    let mut ear = SpeechReader::new();
    ear.new_output();
    ear.put((0..52).map(|number| running(&format!("late-{number}"))).collect());
    ear.output_after("p");
    ear.reader.read_whole_view();
    let spoken = ear.new_output();
    assert_eq!(spoken.len(), 1 + 1 + 60 + 1 + 1, "{spoken:?}");
    assert_eq!(spoken[62], "and 2 more rows");
    assert!(spoken[63].starts_with("Selected: api-1-a of default"), "{spoken:?}");
}

#[test]
fn linear_mode_reads_changes_once_and_at_most_once_a_second_con_20() {
    let mut ear = SpeechReader::new();
    ear.new_output();
    ear.output_after("p");
    ear.put(vec![
        pod("default", "web-new-b", Some("web-new"), Some("node-1"), "Running", 4),
        running("late"),
    ]);
    assert!(ear.new_output().is_empty(), "the change is spoken later");
    let wake = ear.stage.model.shared.wake.get().expect("a later update is scheduled");
    assert!(wake <= ear.stage.now.saturating_add(jiff::SignedDuration::from_secs(1)).unwrap());
    // A response to the user comes at once, even during a flood.
    assert!(ear.output_after("j")[0].starts_with("Selected: api-1-b"));
    ear.wait(1_000);
    let spoken = ear.new_output();
    assert!(spoken[0].starts_with("New: late of default, ready 1/1, status Running"), "{spoken:?}");
    assert_eq!(
        spoken[1],
        "Changed: web-new-b of default: ready 1/1, was 0/1; status Running, was ContainerCreating"
    );
    assert_eq!(spoken.len(), 2);
    let gone = objects([running("late")]).remove(0);
    ear.stage.feed(vec![Delta::of::<Pod>(vec![Change::Deleted(gone)])]);
    ear.wait(1_000);
    assert_eq!(ear.new_output(), ["Gone: late of default"]);
    // A flood is limited to as much as a user can listen to.
    ear.put((0..100).map(|number| running(&format!("flood-{number}"))).collect());
    ear.wait(1_000);
    let spoken = ear.new_output();
    assert_eq!(spoken.len(), 13, "{spoken:?}");
    assert_eq!(spoken[12], "and 88 more");
}

#[test]
fn a_filter_is_heard_as_it_is_typed_con_20() {
    let mut ear = SpeechReader::new();
    ear.new_output();
    ear.output_after("p");
    assert_eq!(ear.output_after("/"), ["typed \"/\""]);
    let spoken = ear.output_after("c");
    assert_eq!(spoken.last().map(String::as_str), Some("typed \"/c\""));
    let spoken = ear.output_after("\"art\"");
    assert!(spoken[0].starts_with("View: Pods, 1 of 10 rows"), "{spoken:?}");
    assert!(spoken[1].starts_with("Selected: cart-1-a of default, "), "{spoken:?}");
    assert_eq!(ear.output_after("enter").last().map(String::as_str), Some("typed \"\""));
    assert!(ear.output_after("esc")[0].starts_with("View: Pods, 10 rows"));
    // A screen that the user returns to is not read again.
    assert_eq!(ear.output_after("?")[0], "View: Help");
    let spoken = ear.output_after("esc");
    assert!(spoken[0].starts_with("View: Pods, 10 rows") && spoken.len() == 2, "{spoken:?}");
    ear.output_after("esc");
    let spoken = ear.new_output();
    assert!(spoken.is_empty(), "{spoken:?}");
    // The result of a command is read below its line, which is not read again.
    ear.output_after(":");
    ear.output_after("\"topology\"");
    let spoken = ear.output_after("enter");
    assert_eq!(spoken[..2], ["typed \"\"", "View: Topology"]);
    ear.output_after("esc");
    // An unknown command.
    let spoken = ear.output_after(": \"nonsense\" enter");
    assert!(spoken.iter().any(|line| line.starts_with("Error: ")), "{spoken:?}");
}

#[test]
fn linear_mode_reads_a_dialog_with_its_fields_and_buttons_con_20() {
    let mut ear = SpeechReader::new();
    ear.new_output();
    ear.output_after("d");
    let spoken = ear.output_after("s");
    assert_eq!(spoken[0], "Question: Scale Deployment default/api", "{spoken:?}");
    assert!(spoken.iter().any(|line| line.starts_with("replicas: 2")), "{spoken:?}");
    assert!(spoken.iter().any(|line| line.starts_with("Keys: ")), "{spoken:?}");
    assert!(spoken.last().unwrap().starts_with("Field: replicas: 2"), "{spoken:?}");
    let spoken = ear.output_after("ctrl-u 7");
    assert!(spoken.last().unwrap().starts_with("Field: replicas: 7"), "{spoken:?}");
    assert_eq!(ear.output_after("tab").last().map(String::as_str), Some("Button: Cancel"));
    assert_eq!(ear.output_after("tab").last().map(String::as_str), Some("Button: Scale"));
    assert_eq!(ear.output_after("esc")[0], "The question is closed");
}

#[test]
fn every_screen_can_be_heard_con_20() {
    for (keys, view, part) in [
        ("", "View: Overview", "Part: Nodes"),
        ("?", "View: Help", "Everywhere"),
        ("p y", "View: api-1-a · yaml", "managedFields hidden"),
        (": \"topology\" enter", "View: Topology", "zone-a"),
        ("d enter", "View: ", "api"),
    ] {
        let mut ear = SpeechReader::new();
        if !keys.is_empty() {
            ear.stage.press(keys);
        }
        let spoken = ear.new_output();
        assert!(spoken.iter().any(|line| line.starts_with(view)), "{keys}: {spoken:#?}");
        assert!(spoken.iter().any(|line| line.contains(part)), "{keys}: {spoken:#?}");
        let drawn = |c: char| matches!(c, '\u{2500}'..='\u{259f}' | '▸' | '●' | '✖');
        assert!(!spoken.iter().any(|line| line.contains(drawn)), "{keys}: {spoken:#?}");
    }
}

#[test]
fn linear_mode_reads_tabs_by_their_numbers_con_17() {
    let mut ear = SpeechReader::new();
    ear.new_output();
    assert_eq!(
        ear.output_after(": \"tab_pods\" enter")
            .iter()
            .find(|line| line.starts_with("View"))
            .map(String::as_str),
        Some("View: Pods, tab 2 of 2, 10 rows")
    );
    assert_eq!(ear.output_after("alt-1")[0], "View: Overview, tab 1 of 2");
}

#[test]
fn linear_mode_reads_a_toast_once_with_its_severity_con_20() {
    let mut ear = SpeechReader::new();
    ear.new_output();
    ear.stage.send(Message::Toast(Toast::failed("no\u{1b}[31m such\nthing")));
    let spoken = ear.new_output();
    assert_eq!(spoken.len(), 2, "{spoken:?}");
    assert!(spoken[0].starts_with("Error: no") && !spoken[0].contains('\u{1b}'), "{spoken:?}");
    assert_eq!(spoken[1], "Error: thing");
    assert!(ear.new_output().is_empty());
}

/// A symbol is read as the state of the text after it, and one beside its word is silent.
#[test]
fn signs_are_read_as_what_they_stand_before_con_20() {
    let mut ear = SpeechReader::new();
    let overview = ear.new_output().join("\n");
    for expected in
        ["node-1  Ready", "node-2  cordoned", "node-10  NotReady", "Running  5", "web  1/4", "api  2/2"]
    {
        assert!(overview.contains(expected), "{expected:?} is not in\n{overview}");
    }
    for of_pods in ["Running node", "Terminating", "Unknown", "CrashLoop web", "Pending web", "Running api"] {
        assert!(!overview.contains(of_pods), "{of_pods:?} is in\n{overview}");
    }
    ear.reader.read_whole_view();
    let header = ear.new_output().remove(0);
    assert!(header.contains("3 nodes Ready 2 NotReady 1  10 pods Running 5 Pending 2"), "{header}");

    let topology = ear.output_after(": \"topology\" enter").join("\n");
    for expected in [
        "node-1  Ready  3 Running, 1 Pending, 1 Succeeded, 1 CrashLoop",
        "node-2  Ready,Schedu",
        "2 Running, 1 Error",
    ] {
        assert!(topology.contains(expected), "{expected:?} is not in\n{topology}");
    }
    let tree = ear.output_after("esc : \"xray\" enter").join("\n");
    assert!(tree.contains("Deployment default/api") && tree.contains("2/2 Available"), "{tree}");
    assert!(!tree.contains("Running Deployment") && !tree.contains("Pending Deployment"), "{tree}");
    let why = ear.output_after("esc d j W").join("\n");
    assert!(why.contains("Deployment default/cart: Unavailable, 0 of 1 available"), "{why}");
    assert!(!why.contains("Pending Deployment") && !why.contains("Error Pod"), "{why}");
    let rollout = ear.output_after("esc j R").join("\n");
    assert!(rollout.contains("under way: in progress") && rollout.contains("current"), "{rollout}");
    assert!(!rollout.contains("RunningRunning"), "{rollout}");
}

/// Columns side by side are not read as one line.
#[test]
fn two_columns_are_read_one_after_the_other_con_20() {
    let mut ear = SpeechReader::new();
    ear.new_output();
    let spoken = ear.output_after("p ?");
    let titles: Vec<&str> = spoken.iter().map(|line| line.trim()).collect();
    // A title and the first key below it have lines of their own.
    assert!(titles.contains(&"Pods"), "{spoken:#?}");
    let keys =
        spoken.iter().filter(|line| line.contains("  Show it as YAML") || line.contains("  Describe it"));
    for line in keys {
        assert_eq!(line.trim().split("  ").count(), 2, "{line:?}");
    }
    assert!(spoken.iter().any(|line| line.ends_with(", changes the cluster")), "{spoken:#?}");
    // The parts of a rollout are read one after the other.
    let spoken = ear.output_after("esc esc d j j R");
    let part = |name: &str| spoken.iter().position(|line| line.starts_with(&format!("Part: {name}")));
    let (history, template) = (part("Revisions").expect("revisions"), part("Template").expect("a template"));
    assert!(history < template, "{spoken:#?}");
    assert!(spoken[history..template].iter().all(|line| !line.contains("image: ")), "{spoken:#?}");
}

/// Usage changes all the time: neither its changes nor their absence are announced.
#[test]
fn use_is_no_news_con_20() {
    let mut ear = SpeechReader::new();
    ear.new_output();
    let measured = |ear: &mut SpeechReader, cpu_millis: i64| {
        let mut pods = PodUsages::default();
        ear.stage.send(Message::Usage(Some(
            [("node-1".to_owned(), ResourceUsage { cpu_millis: 1000, memory_bytes: 1 << 30 })].into(),
        )));
        let used = ResourceUsage { cpu_millis, memory_bytes: cpu_millis << 20 };
        pods.put("default", "web-new-a", [("main", used)]);
        ear.stage.send(Message::PodUsage(Some(pods)));
        ear.wait(1_500);
        ear.new_output()
    };
    measured(&mut ear, 12);
    // A table: measured, measured again, and no longer measured.
    let spoken = ear.output_after("p / \"web-new-a\" enter").join("\n");
    assert!(spoken.contains("cpu 12m"), "{spoken}");
    assert_eq!(measured(&mut ear, 13), Vec::<String>::new());
    ear.stage.send(Message::PodUsage(Some(PodUsages::default())));
    ear.wait(1_500);
    assert_eq!(ear.new_output(), Vec::<String>::new());
    assert_eq!(measured(&mut ear, 14), Vec::<String>::new());
    // On a page, only the state in the line of a container is announced.
    let spoken = ear.output_after("enter").join("\n");
    assert!(spoken.contains("14m") && spoken.contains("main"), "{spoken}");
    assert_eq!(measured(&mut ear, 15), Vec::<String>::new());
    let mut failed = pod("default", "web-new-a", Some("web-new"), Some("node-1"), "CrashLoopBackOff", 40);
    failed["status"]["containerStatuses"][0]["restartCount"] = 1.into();
    ear.put(vec![failed]);
    ear.wait(1_500);
    let spoken = ear.new_output();
    let line = spoken.iter().find(|line| line.contains("main")).expect("the container");
    assert!(line.contains("CrashLoopBackOff") && !line.contains("15m"), "{spoken:#?}");
    // Usage near a limit is reported in words.
    let spoken = ear.output_after("esc").join("\n");
    assert!(!spoken.contains(['▲', '▴']), "{spoken}");
}

/// On a page, the title of a part is announced when it changes, but not if only a count in it does.
#[test]
fn a_title_of_a_part_is_announced_unless_only_its_count_changes_con_20() {
    let mut ear = SpeechReader::new();
    ear.new_output();
    ear.output_after("p / \"web-new-a\" enter enter");
    ear.put(vec![pod("default", "web-new-a", Some("web-new"), Some("node-1"), "CrashLoopBackOff", 40)]);
    ear.wait(1_500);
    let spoken = ear.new_output();
    let is_title = |line: &&String| line.starts_with("Part: Containers of Pod default/web-new-a");
    let title = spoken.iter().find(is_title).expect("the title");
    assert!(title.contains("CrashLoopBackOff"), "{spoken:#?}");
    // The title of the tree has the number of its lines.
    let tree = ear.output_after("esc esc : \"xray\" enter");
    assert!(tree.iter().any(|line| line.starts_with("Part: ")), "{tree:#?}");
    ear.put(vec![pod("default", "web-new-c", Some("web-new"), Some("node-1"), "Running", 4)]);
    ear.wait(1_500);
    let spoken = ear.new_output();
    assert!(spoken.iter().any(|line| line.contains("web-new-c")), "{spoken:#?}");
    assert!(!spoken.iter().any(|line| line.starts_with("Part: ")), "{spoken:#?}");
}

/// The text of a view arrives after the view is opened; its first page is read whole.
#[test]
fn a_text_that_arrives_later_is_read_in_whole_pages_with_its_indentation_con_20() {
    let mut ear = SpeechReader::new();
    ear.new_output();
    let spoken = ear.output_after("p y");
    assert!(spoken.iter().any(|line| line.trim() == "loading…"), "{spoken:?}");
    let data: serde_json::Map<String, serde_json::Value> =
        (0..100).map(|number| (format!("key-{number:03}"), number.into())).collect();
    let object = serde_json::json!({"kind": "Pod", "metadata": {"name": "api-1-a"}, "spec": data});
    let screen = ear.stage.model.top().0;
    ear.stage.send(Message::Data(screen, Data::new(YamlData::Object(Box::new(object)))));
    // It is not delayed like a change that the user did not ask for.
    let spoken = ear.new_output();
    let mut numbers = Vec::new();
    let mut read = |lines: &[String]| {
        let number = |line: &String| line.split_whitespace().next()?.parse::<usize>().ok();
        numbers.extend(lines.iter().filter_map(number));
    };
    read(&spoken);
    assert!(spoken.len() > 50 && !spoken.iter().any(|line| line.starts_with("and ")), "{spoken:?}");
    assert!(spoken.iter().any(|line| line.trim() == "5    key-000: 0"), "{spoken:?}");
    read(&ear.output_after("pagedown"));
    assert_eq!(numbers, (1..=104).collect::<Vec<_>>());
    // After the page, changes are counted again.
    ear.output_after("g");
    let logs = ear.output_after("esc l");
    assert!(logs.iter().any(|line| line.trim().starts_with("waiting")), "{logs:?}");
    let send = |ear: &mut SpeechReader, lines: std::ops::Range<u32>| {
        let source: Arc<str> = Arc::from("api-1-a/main");
        let lines = lines.map(|line| LogLine::parse(&source, format!("line {line}").as_bytes())).collect();
        let screen = ear.stage.model.top().0;
        ear.stage.send(Message::Data(screen, Data::new(LogsData::Lines(1, lines))));
        ear.wait(1_500);
        let spoken = ear.new_output();
        spoken.iter().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let spoken = send(&mut ear, 0..50);
    assert_eq!(spoken.iter().filter(|line| line.starts_with("line ")).count(), 50, "{spoken:?}");
    // The number of lines in the foot alone is no news.
    assert_eq!(send(&mut ear, 50..51), ["line 50"]);
    send(&mut ear, 51..71);
    let spoken = send(&mut ear, 71..111);
    assert_eq!((spoken.len(), spoken[12].as_str()), (13, "and 28 more"), "{spoken:?}");
}
