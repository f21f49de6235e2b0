//! The user's extensions on a test terminal: files of k9s' formats in a directory, keys, and the screen (CON-16).

use super::tabs_tests::{TestConsole, objects, pod, widgets};
use super::*;
use console_data::catalogue::Catalogue;
use console_data::extensions::{Extensions, Sources};
use console_data::message::Message;
use console_data::server_table::ServerTable;
use console_data::store::{Change, Delta};
use console_toolkit::theme::depth::Depth;
use k8s_openapi::api::core::v1::{Event, Pod};
use serde_json::json;

/// A directory of a user's files, and a console that has read them.
struct ExtensionsConsole {
    dir: tempfile::TempDir,
    stage: TestConsole,
}

impl ExtensionsConsole {
    fn new(width: u16, height: u16, files: &[(&str, &str)]) -> Self {
        Self::in_depth(width, height, Depth::True, files)
    }

    fn in_depth(width: u16, height: u16, depth: Depth, files: &[(&str, &str)]) -> Self {
        let mut desk =
            Self { dir: tempfile::tempdir().unwrap(), stage: TestConsole::in_depth(width, height, depth) };
        desk.write(files);
        desk
    }

    /// Writes files and reloads them.
    fn write(&mut self, files: &[(&str, &str)]) -> Vec<Job> {
        for (name, text) in files {
            let path = self.dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let sources = Sources(vec![self.dir.path().to_owned()]);
        self.stage.model.update(Message::Extensions(Extensions::read(&sources)), self.stage.now)
    }

    /// Returns the screen without empty rows.
    fn visible_text(&mut self) -> String {
        let screen = self.stage.screen();
        let empty = |line: &&str| line.trim_matches(['│', ' ']).is_empty();
        screen.lines().filter(|line| !empty(line)).collect::<Vec<_>>().join("\n")
    }

    fn toast_texts(&self) -> Vec<String> {
        self.stage.model.toasts.iter().map(|(toast, _)| toast.text.clone()).collect()
    }
}

/// Two pods with labels and start times, in two namespaces.
fn labelled(stage: &mut TestConsole) {
    let labelled = |namespace: &str, name: &str, app: &str, started: &str, memory: &str| {
        let mut pod = pod(namespace, name);
        pod["metadata"]["labels"] = json!({"app": app, "x.io/tier": "front"});
        pod["status"]["startTime"] = json!(started);
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"memory": memory}});
        pod["spec"]["serviceAccountName"] = json!("robot");
        pod
    };
    let pods = [
        labelled("default", "api-1", "api", "2026-05-01T11:00:00Z", "1Gi"),
        labelled("default", "web-1", "web", "2026-05-01T11:30:00Z", "64Mi"),
        labelled("shop", "till-1", "till", "2026-05-01T10:00:00Z", "512Mi"),
    ];
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
}

const VIEWS: &str = r#"views:
  v1/pods:
    sortColumn: MEMORY:desc
    columns:
    - "MEMORY:.spec.containers[0].resources.requests.memory|N"
    - NAME
    - "APP:.metadata.labels.app"
    - "TIER:.metadata.labels.x\\.io/tier|W"
    - "SINCE:.status.startTime|TR"
    - STATUS
    - NAMESPACE
    - IP|H
  v1/pods@shop:
    columns: [NAME, LABELS]
"#;

const WIDE: &str = " podium ▸ Overview ▸ Pods                              0 nodes ● 0   3 pods ● 3
╭ Pods all 3 ────────────────────────────────────────── 0 all 1 default 2 shop ╮
│     MEMORY ↓  NAME      APP       SINCE  STATUS                 NAMESPACE    │
│ ▸        1Gi  api-1     api         60m  ● Running              default      │
│        512Mi  till-1    till       120m  ● Running              shop         │
│         64Mi  web-1     web         30m  ● Running              default      │
╰──────────────────────────────────────────────────────────────────────────────╯";

const NARROW: &str = " podium ▸ Pods 0 nodes ● 0   3 pods ● 3
╭ Pods all 3 ───────── 0 all 1 default ╮
│   NAME       STATUS        NAMESPACE │
│ ▸ api-1      ● Running     default   │
│   till-1     ● Running     shop      │
│   web-1      ● Running     default   │
╰──────────────────────────────────────╯";

const ALL_COLUMNS: &str = "│   MEMORY ↓  NAME    APP   TIER   SINCE  STATUS     NAMESPACE  READY  RESTARTS  CPU  %CPU/R  %CPU/L  MEM  %MEM/R  %MEM/L  NODE    QOS 2 → │
│ ▸      1Gi  api-1   api   front    60m  ● Running  default    1/1    0           –       –       –    –       –       –  <none>  <none>  │";

const OF_SHOP: &str = "│   NAME ↑      LABELS                                                         │
│ ▸ till-1      app=till,x.io/tier=front                                       │";

const BACK: &str = "│     MEMORY ↓  NAME      APP       SINCE  STATUS                 NAMESPACE    │
│          1Gi  api-1     api         60m  ● Running              default      │
│ ▸      512Mi  till-1    till       120m  ● Running              shop         │";

const BY_NAME: &str = "│      MEMORY  NAME ↑     APP         SINCE  STATUS                  NAMESPACE │
│ ▸       1Gi  api-1      api           60m  ● Running               default   │
│        64Mi  web-1      web           30m  ● Running               default   │
│       512Mi  till-1     till         120m  ● Running               shop      │";

#[test]
fn pods_are_shown_in_the_columns_that_the_user_wants_con_16() {
    for (width, height, keys, expected) in [
        (80, 24, "p", WIDE),
        (40, 12, "p", NARROW),
        (140, 40, "p ctrl-w", ALL_COLUMNS),
        // Another namespace has other columns, and no sort column.
        (80, 24, "p 2", OF_SHOP),
        // For all namespaces the view's own sort order applies again.
        (80, 24, "p 2 0", BACK),
        (80, 24, "p N", BY_NAME),
    ] {
        for depth in [Depth::True, Depth::None] {
            let mut desk = ExtensionsConsole::in_depth(width, height, depth, &[("views.yaml", VIEWS)]);
            labelled(&mut desk.stage);
            desk.stage.press(keys);
            let screen = desk.visible_text();
            assert!(screen.contains(expected), "{keys} at {width}\n{screen}");
            assert_eq!(desk.toast_texts(), [""; 0]);
        }
    }
}

#[test]
fn columns_of_the_user_are_filtered_and_saved_con_16() {
    let mut desk = ExtensionsConsole::new(80, 24, &[("views.yaml", VIEWS)]);
    labelled(&mut desk.stage);
    desk.stage.press("p / \"512Mi\" enter");
    assert!(desk.visible_text().contains("│ ▸      512Mi  till-1"), "{}", desk.visible_text());
    let jobs = desk.stage.press("ctrl-s");
    let saved =
        jobs.iter().find_map(|job| if let Job::Save(_, text) = job { Some(text.as_str()) } else { None });
    let expected = "MEMORY,NAME,APP,TIER,SINCE,STATUS,NAMESPACE,READY,RESTARTS,NODE,QOS,IMAGES,AGE
512Mi,till-1,till,front,2026-05-01T10:00:00Z,Running,shop,1/1,0,<none>,<none>,i,
";
    assert!(
        saved.is_some_and(
            |saved| saved.starts_with("MEMORY,NAME,APP,TIER,SINCE,STATUS,NAMESPACE,READY,RESTARTS,")
        ),
        "{saved:?}\n{expected}"
    );
}

#[test]
fn a_column_may_be_an_expression_of_jq_con_16() {
    let views = r#"views:
  v1/pods:
    columns:
    - NAME
    - "WHO:.spec.containers[0].resources.requests.memory|sub(\"[A-Z].*\"; \"\")|tonumber * 2|R"
    - "APPS:.metadata.labels | to_entries | map(select(.key == \"app\") | .value) | join(\"+\")"
    - "NONE:.metadata.annotations.x | split(\":\") | .[0]"
    - "BAD:.metadata.name + 1 | . | ."
    - "LOOP:[..] | [.[] as $a | .[] as $b | .[] as $c | .[] as $d | .[] as $e | 1] | length"
"#;
    let mut desk = ExtensionsConsole::new(130, 24, &[("views.yaml", views)]);
    labelled(&mut desk.stage);
    desk.stage.press("p");
    let screen = desk.visible_text();
    assert_eq!(desk.toast_texts(), [""; 0]);
    let line = screen.lines().find(|line| line.contains("till-1")).unwrap();
    let cells: Vec<&str> =
        line.split("  ").map(str::trim).filter(|word| !word.is_empty() && *word != "│").collect();
    assert_eq!(cells[..3], ["till-1", "1024", "till"], "{line}");
    assert!(line.contains("<none>") && line.contains("string and number cannot be added"), "{line}");
    assert!(line.contains("too many steps"), "{line}");
    // Numbers are sorted numerically.
    desk.stage.press("shift-right shift-right O");
    let screen = desk.visible_text();
    let places: Vec<_> = ["api-1", "web-1", "till-1"].map(|name| screen.find(name)).into();
    assert!(places.is_sorted(), "{screen}");
    desk.write(&[("views.yaml", "views:\n  po:\n    columns: [NAME, 'X:.a | input | .']\n")]);
    assert!(
        desk.toast_texts()[0]
            .contains("invalid jq expression \".a | input | .\": no function input with 0 arguments"),
        "{:?}",
        desk.toast_texts()
    );
}

#[test]
fn columns_follow_changes_of_the_file_and_errors_are_reported_con_16() {
    let mut desk = ExtensionsConsole::new(80, 24, &[]);
    labelled(&mut desk.stage);
    desk.stage.press("p j j");
    assert!(desk.visible_text().contains("NAMESPACE  NAME ↑"), "{}", desk.visible_text());
    desk.write(&[("views.yaml", "views:\n  po:\n    columns: [NAME, 'WHO:.spec.serviceAccountName']\n")]);
    let screen = desk.visible_text();
    assert!(screen.contains("│   NAME ↑      WHO ") && screen.contains("│ ▸ till-1      robot "), "{screen}");
    // An invalid file leaves the kind's own columns, and the error names its position.
    desk.write(&[("views.yaml", "views:\n  po:\n    columns: [NAME, 'WHO:.spec[']\n")]);
    assert!(desk.visible_text().contains("NAMESPACE  NAME ↑"), "{}", desk.visible_text());
    let toasts = desk.toast_texts();
    assert!(
        toasts[0].contains("views.yaml:3:21: views.po.columns[1]: invalid path \".spec[\""),
        "{toasts:?}"
    );
    desk.write(&[(
        "views.yaml",
        "views:\n  po:\n    sortColumn: X:asc\n    columns:\n    - NAME\n    - VS\n",
    )]);
    let toasts = desk.toast_texts().join("\n");
    assert!(
        toasts.contains("views.yaml:6: unknown column \"VS\"; the columns are NAME, READY, STATUS"),
        "{toasts}"
    );
    assert!(toasts.contains("sortColumn: unknown column \"X\""), "{toasts}");
    std::fs::remove_file(desk.dir.path().join("views.yaml")).unwrap();
    desk.write(&[]);
    assert!(desk.visible_text().contains("NAMESPACE  NAME ↑"), "{}", desk.visible_text());
}

#[test]
fn events_stay_sorted_by_newest_at_any_position_of_that_column_con_16() {
    let mut desk =
        ExtensionsConsole::new(80, 24, &[("views.yaml", "views: {events: {columns: [REASON, LAST SEEN]}}")]);
    let event = |reason: &str, at: &str| {
        json!({"metadata": {"name": reason, "namespace": "default", "uid": reason}, "reason": reason, "lastTimestamp": at,
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"}})
    };
    let events = [event("Old", "2026-05-01T11:00:00Z"), event("New", "2026-05-01T11:59:00Z")];
    desk.stage.feed(Delta::of::<Event>(vec![Change::Reset(objects(events))]));
    desk.stage.press(": \"events\" enter");
    let screen = desk.visible_text();
    assert!(screen.contains("LAST SEEN ↑"), "{screen}");
    assert!(screen.find(" New ").unwrap() < screen.find(" Old ").unwrap(), "{screen}");
}

/// A list of a kind without a view, as the server's Table with whole objects.
fn gadgets(plural: &str) -> Delta {
    let row = |name: &str, size: i64| {
        json!({"cells": [name, "-"], "object": {
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"team": "a"}},
            "spec": {"size": size, "hostile": "\u{1b}]0;x\u{7}\u{202e}"}}})
    };
    let table = json!({"kind": "Table", "metadata": {"resourceVersion": "1"},
        "columnDefinitions": [{"name": "Name", "type": "string"}, {"name": "Age", "type": "date"}],
        "rows": [row("a", 10), row("b", 9)]});
    let table: ServerTable = serde_json::from_value(table).unwrap();
    let rows = table.rows.into_iter().map(std::sync::Arc::new).collect();
    let resource = widgets(plural).resource.clone();
    Delta::of_table(resource, Some(table.column_definitions), vec![Change::Reset(rows)])
}

#[test]
fn whole_custom_resources_are_requested_only_if_a_column_needs_them_con_16() {
    let of = |jobs: &[Job]| {
        let watches = jobs.iter().filter_map(|job| match job {
            Job::Watch(_, _, include) => Some(*include),
            _ => None,
        });
        watches.collect::<Vec<_>>()
    };
    let mut desk = ExtensionsConsole::new(
        80,
        24,
        &[("views.yaml", "views: {x.io/v1/gadgets: {columns: [NAME, 'TEAM:.metadata.labels.team']}}")],
    );
    desk.stage.model.update(Message::Catalogue(Catalogue::of(vec![widgets("gadgets")])), desk.stage.now);
    assert_eq!(of(&desk.stage.press(": \"gadgets\" enter")), [Include::Metadata]);
    desk.stage.feed(gadgets("gadgets"));
    assert!(desk.visible_text().contains("│ ▸ a           a"), "{}", desk.visible_text());
    let views = "views: {gadgets: {sortColumn: 'SIZE:asc', columns: [NAME, 'SIZE:.spec.size|N', 'H:.spec.hostile', 'S:.spec']}}";
    assert_eq!(of(&desk.write(&[("views.yaml", views)])), [Include::Object], "asked for anew");
    desk.stage.feed(gadgets("gadgets"));
    let screen = desk.visible_text();
    let rows: Vec<&str> = screen.lines().filter(|line| line.contains("\"hostile\"")).collect();
    assert!(
        rows.len() == 2 && rows[0].contains(" b ") && rows[1].contains("10"),
        "sorted as numbers:\n{screen}"
    );
    assert!(!screen.contains(['\u{1b}', '\u{202e}']), "{screen:?}");
}

const PLUGINS: &str = r#"plugins:
  logs:
    shortCut: Ctrl-L
    description: Pod logs
    scopes: [pods]
    command: kubectl
    args: [logs, $NAME, -n, $NAMESPACE, --context, $CONTEXT]
    background: true
  wipe:
    shortCut: Shift-W
    override: true
    dangerous: true
    confirm: true
    description: Wipe it
    scopes: [po]
    command: wipe
    args: ["$RESOURCE_NAME/$NAME", "${COL-NODE}", "$FILTER"]
    background: true
  taken:
    shortCut: d
    description: Never by its key
    scopes: [all]
    command: taken
    background: true
  greedy:
    shortCut: Ctrl-C
    override: true
    description: Not that one
    scopes: [all]
    command: greedy
    background: true
  size:
    shortCut: Shift-Z
    description: Set a size
    scopes: [pods]
    command: resize
    args: [$INPUT_SIZE, $INPUT_MODE, $INPUT_DRY]
    background: true
    inputs:
    - {name: size, label: How large, type: number, required: true, default: 3}
    - {name: mode, type: dropdown, options: [soft, hard]}
    - {name: dry, type: bool, default: true}
  label:
    shortCut: Shift-E
    description: Says a label
    scopes: [pods]
    command: sh
    args: [-c, "echo $COL-EVIL"]
    background: true
"#;

/// Returns the commands started in the background.
fn started(jobs: &[Job]) -> Vec<String> {
    let runs = jobs.iter().filter_map(|job| if let Job::Run(run) = job { Some(run) } else { None });
    runs.map(|run| run.program.to_string()).collect()
}

impl ExtensionsConsole {
    fn with_plugins() -> Self {
        let views = "views:\n  po: {columns: [NAME, NODE, 'EVIL:.metadata.annotations.evil']}\n";
        let mut desk = Self::new(80, 24, &[("plugins.yaml", PLUGINS), ("views.yaml", views)]);
        let mut evil = pod("default", "web");
        evil["metadata"]["annotations"] = json!({"evil": "$(reboot)"});
        evil["spec"]["nodeName"] = json!("node-1");
        desk.stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects([evil]))]));
        desk.stage.model.identity =
            Identity { context: "here".into(), kubeconfig: "/k".into(), ..Identity::default() };
        assert_eq!(desk.toast_texts(), [""; 0]);
        desk
    }
}

#[test]
fn a_plugin_does_not_ignore_marks_con_16() {
    let mut desk = ExtensionsConsole::with_plugins();
    let others = ["a", "b"].map(|name| pod("default", name));
    desk.stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(others))]));
    desk.stage.press("p space j");
    assert!(desk.stage.press("ctrl-l").is_empty());
    let toasts = desk.toast_texts().join("\n");
    assert!(toasts.contains("works on the row under the cursor, but others are marked"), "{toasts}");
    // The marked row is the row under the cursor.
    desk.stage.press("ctrl-\\ g space");
    assert!(!desk.stage.press("ctrl-l").is_empty());
}

#[test]
fn a_plugin_runs_on_what_is_selected_and_is_in_the_journal_con_16() {
    for (keys, expected) in [
        ("p ctrl-l", &["kubectl logs web -n default --context here"][..]),
        // The plugin is for pods only, and needs one.
        ("n ctrl-l", &[]),
        ("ctrl-l", &[]),
        ("p W enter", &[]),
        ("p W y", &["wipe pods/web node-1 web"]),
        ("p / \"we\" enter W y", &["wipe pods/web node-1 we"]),
        // A key with a meaning is not overridden, and the exit keys never are.
        ("p d", &[]),
        ("p ctrl-c", &[]),
        ("p : \"plugin_taken\" enter", &["taken"]),
        // Enter submits the values shown, tab moves between fields.
        ("p Z enter", &["resize 3 soft true"]),
        ("p Z tab right enter", &["resize 3 hard true"]),
        ("p Z ctrl-u \"x\" enter", &[]),
        ("p Z ctrl-u 4 2 tab tab space enter", &["resize 42 soft false"]),
        // The value of an annotation is never executed.
        ("p E", &[]),
    ] {
        let mut desk = ExtensionsConsole::with_plugins();
        let jobs = desk.stage.press(keys);
        assert_eq!(started(&jobs), expected, "{keys}\n{}", desk.visible_text());
        let journal = desk.stage.model.shared.cluster.journal.entries();
        assert_eq!(
            journal.iter().map(|entry| entry.outcome.action.kubectl.as_str()).collect::<Vec<_>>(),
            expected,
            "{keys}"
        );
    }
    let mut desk = ExtensionsConsole::with_plugins();
    desk.stage.press("p E");
    assert!(
        desk.toast_texts()[0]
            .starts_with("plugin label: $COL-EVIL is \"$(reboot)\", which a shell would split"),
        "{:?}",
        desk.toast_texts()
    );
    desk.stage.press(": \"plugin\" enter");
    assert!(
        desk.visible_text().contains("the plugin is required: greedy, label, logs, size, taken, wipe"),
        "{}",
        desk.visible_text()
    );
}

#[test]
fn a_dangerous_plugin_is_refused_in_read_only_mode_con_16() {
    let mut desk = ExtensionsConsole::with_plugins();
    desk.stage.model.shared.read_only = true;
    assert_eq!(started(&desk.stage.press("p W")), [""; 0]);
    assert_eq!(desk.toast_texts(), ["read-only: the plugin wipe is dangerous"]);
    desk.stage.press("?");
    assert!(!desk.visible_text().contains("Wipe it"), "{}", desk.visible_text());
    assert_eq!(started(&desk.stage.press("esc ctrl-l")).len(), 1, "one that is not goes on working");
}

const CONFIRM: &str = "│   ╭ Wipe it ─────────────────────────────────────────────────────────────╮   │
│   │ Pod default/web                                                      │   │
│   │                                                                      │   │
│   │ wipe pods/web node-1 web                                             │   │
│   │                                                                      │   │
│   │                                                   ▸ Cancel      Run  │   │
│   ╰──────────────────────────────────────────────────────────────────────╯   │";

const CONFIRM_NARROW: &str = "│ ╭ Wipe it ─────────────────────────╮ │
│ │ Pod default/web                  │ │
│ │                                  │ │
│ │ wipe pods/web node-1 web         │ │
│ │                                  │ │
│ │               ▸ Cancel      Run  │ │
│ ╰──────────────────────────────────╯ │";

const SIZE_DIALOG: &str = "│   ╭ Set a size ──────────────────────────────────────────────────────────╮   │
│   │ Pod default/web                                                      │   │
│   │                                                                      │   │
│   │ ▸ How large   3▏                                                     │   │
│   │   mode       ‹ soft ›                                                │   │
│   │   dry        [x]                                                     │   │
│   │                                                                      │   │
│   │ resize 3 soft true                                                   │   │";

#[test]
fn a_plugin_is_confirmed_with_its_command_shown_con_16() {
    for (width, height, keys, expected) in [
        (80, 24, "p W", CONFIRM),
        (40, 12, "p W", CONFIRM_NARROW),
        (80, 24, "p Z", SIZE_DIALOG),
        (80, 24, "p Z ctrl-u", "│   │ ⚠ How large: required "),
    ] {
        let mut desk = ExtensionsConsole::with_plugins();
        desk.stage.resize(width, height);
        desk.stage.press(keys);
        let screen = desk.stage.screen();
        assert!(screen.contains(expected), "{keys}\n{screen}");
    }
}

const HELP_OF_PLUGINS: &str =
    "│  Yours                                                                       │
│            ctrl-c  Not that one; its key means quit here, :plugin greedy     │
│                    runs it                                                   │
│                 E  Says a label                                              │
│            ctrl-l  Pod logs                                                  │
│                 Z  Set a size                                                │
│                 d  Never by its key; its key means describe here, :plugin    │
│                    taken runs it                                             │
│                 W  Wipe it ✎                                                 │
│                 )  All deployments                                           │";

#[test]
fn help_names_what_the_user_brings_con_16() {
    let mut desk = ExtensionsConsole::with_plugins();
    desk.write(&[
        ("hotkeys.yaml", "hotKeys: {deps: {shortCut: Shift-0, description: All deployments, command: dp}}"),
        ("aliases.yaml", "aliases: {mine: pods -l team=me}"),
    ]);
    desk.stage.resize(80, 40);
    desk.stage.press("p ?");
    assert!(desk.stage.screen().contains(HELP_OF_PLUGINS), "{}", desk.stage.screen());
    desk.stage.press("/ \"team\" enter");
    assert!(desk.visible_text().contains("│             :mine  pods -l team=me"), "{}", desk.visible_text());
}

#[test]
fn hotkeys_and_aliases_go_where_they_say_con_16() {
    let files = [
        (
            "hotkeys.yaml",
            "hotKeys:
  deps: {shortCut: Shift-0, description: Deployments, command: dp}
  same: {shortCut: Ctrl-Space, override: true, command: '$RESOURCE_NAME $NAMESPACE', keepHistory: true}
  taken: {shortCut: y, command: nodes}
  wrong: {shortCut: F2, command: nodez}
",
        ),
        ("aliases.yaml", "aliases: {dp: apps/v1/deployments, mine: pods -n shop, q: nodes}"),
    ];
    for (keys, crumbs) in [
        (")", "Overview ▸ Deployments"),
        ("p )", "Overview ▸ Deployments"),
        ("p ctrl-space", "Overview ▸ Pods ▸ Pods"),
        ("p y", "web-1 · yaml"),
        (": \"mine\" enter", "Overview ▸ Pods"),
        (": \"dp\" enter", "Overview ▸ Deployments"),
        (": \"v1/services\" enter", "Overview ▸ Services"),
    ] {
        let mut desk = ExtensionsConsole::new(140, 40, &files);
        desk.stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects([pod("default", "web-1")]))]));
        desk.stage.press(keys);
        let screen = desk.visible_text();
        let first = screen.lines().next().unwrap();
        assert!(first.contains(crumbs), "{keys}: {first}");
    }
    let mut desk = ExtensionsConsole::new(80, 24, &files);
    desk.stage.press("p f2");
    assert!(
        desk.toast_texts()[0].starts_with("hotkey wrong: no kind or command \"nodez\""),
        "{:?}",
        desk.toast_texts()
    );
    desk.stage.press(": \"mi\"");
    assert!(desk.stage.screen().contains("mine"), "{}", desk.stage.screen());
    desk.stage.press("esc : \"mine\" enter");
    assert_eq!(desk.stage.model.shared.scope, Scope::One("shop".into()));
}

/// Runs the console's jobs.
struct EffectRunner {
    runner: console_operations::effect::Runner,
    messages: tokio::sync::mpsc::Receiver<Message>,
}

impl EffectRunner {
    fn new() -> Self {
        let (sender, messages) = tokio::sync::mpsc::channel(64);
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, kube::Error>(http::Response::new(kube::client::Body::empty()))
        });
        let client = kube::Client::new(service, "default");
        Self { runner: console_operations::effect::Runner::new(client, sender), messages }
    }

    /// Runs until this text is on the screen.
    async fn until(&mut self, desk: &mut ExtensionsConsole, mut jobs: Vec<Job>, expected: &str) -> String {
        loop {
            for job in jobs {
                match job {
                    Job::Start(task) => self.runner.start(task),
                    Job::Run(run) => self.runner.run(*run),
                    _ => {}
                }
            }
            let screen = desk.stage.screen();
            if screen.contains(expected) {
                return screen;
            }
            let message =
                tokio::time::timeout(std::time::Duration::from_secs(30), self.messages.recv()).await;
            let message = message.unwrap_or_else(|_| panic!("{expected} does not come:\n{screen}")).unwrap();
            jobs = desk.stage.model.update(message, desk.stage.now);
        }
    }
}

#[tokio::test]
async fn a_plugin_runs_in_a_pane_of_the_console_con_16() {
    let plugins = "ask: {shortCut: F2, scopes: [pods], command: sh, args: [-c, 'until stty size | grep -v 80; do sleep 0.01; done; read x; echo hello $x; exit 3']}
quiet: {shortCut: F3, scopes: [pods], command: sh, args: [-c, 'echo said; echo more'], background: true}
";
    let mut desk = ExtensionsConsole::new(60, 14, &[("plugins/mine.yaml", plugins)]);
    let mut world = EffectRunner::new();
    let jobs = desk.stage.press("p f2");
    let screen = world.until(&mut desk, jobs, "10 58").await;
    assert!(screen.contains("╭ plugin · api · ask ─"), "{screen}");
    let jobs = desk.stage.press("m e enter");
    let screen = world.until(&mut desk, jobs, "exit code 3").await;
    assert!(screen.contains("hello me"), "{screen}");
    desk.stage.press("enter");
    assert!(desk.visible_text().contains("╭ Pods"), "{}", desk.visible_text());
    let jobs = desk.stage.press("f3");
    world.until(&mut desk, jobs, "plugin quiet on Pod default/api: exit code 0: said").await;
    let titles: Vec<_> = desk
        .stage
        .model
        .shared
        .cluster
        .journal
        .entries()
        .iter()
        .map(|entry| entry.outcome.action.title.clone())
        .collect();
    assert_eq!(titles, ["started plugin ask on Pod default/api", "started plugin quiet on Pod default/api"]);
}
