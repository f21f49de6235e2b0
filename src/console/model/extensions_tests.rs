//! What users bring, on a test terminal: files of k9s' formats in a directory, keys, and what is on the screen (CON-16).

use super::tabs_tests::{Stage, objects, pod, widgets};
use super::*;
use crate::extensions::{Extensions, Sources};
use crate::server_table::ServerTable;
use crate::store::{Change, Delta};
use serde_json::json;

/// A directory of a user's files, and the console that has read them.
struct Desk {
    dir: tempfile::TempDir,
    stage: Stage,
}

impl Desk {
    fn new(width: u16, height: u16, files: &[(&str, &str)]) -> Self {
        Self::in_depth(width, height, Depth::True, files)
    }

    fn in_depth(width: u16, height: u16, depth: Depth, files: &[(&str, &str)]) -> Self {
        let mut desk =
            Self { dir: tempfile::tempdir().unwrap(), stage: Stage::in_depth(width, height, depth) };
        desk.write(files);
        desk
    }

    /// Writes files and has them read again.
    fn write(&mut self, files: &[(&str, &str)]) -> Vec<Job> {
        for (name, text) in files {
            let path = self.dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let sources = Sources(vec![self.dir.path().to_owned()]);
        self.stage.model.update(Message::Extensions(Extensions::read(&sources)), self.stage.now)
    }

    /// The screen, without rows that hold nothing.
    fn drawn(&mut self) -> String {
        let screen = self.stage.screen();
        let empty = |line: &&str| line.trim_matches(['│', ' ']).is_empty();
        screen.lines().filter(|line| !empty(line)).collect::<Vec<_>>().join("\n")
    }

    /// What toasts say.
    fn told(&self) -> Vec<String> {
        self.stage.model.toasts.iter().map(|(toast, _)| toast.text.clone()).collect()
    }
}

/// Two pods with labels and start times, in two namespaces.
fn labelled(stage: &mut Stage) {
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

const ALL_COLUMNS: &str = "│   MEMORY ↓  NAME    APP   TIER   SINCE  STATUS       NAMESPACE  READY  RESTARTS          CPU      MEM  NODE    QOS     IMAGES  AGE       │
│ ▸      1Gi  api-1   api   front    60m  ● Running    default    1/1    0                   –        –  <none>  <none>  i       <unknown> │";

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
    for (width, height, keys, wanted) in [
        (80, 24, "p", WIDE),
        (40, 12, "p", NARROW),
        (140, 40, "p ctrl-w", ALL_COLUMNS),
        // Another namespace has other columns, and none to sort by.
        (80, 24, "p 2", OF_SHOP),
        // Back in all of them the view says again what it is sorted by.
        (80, 24, "p 2 0", BACK),
        (80, 24, "p N", BY_NAME),
    ] {
        for depth in [Depth::True, Depth::None] {
            let mut desk = Desk::in_depth(width, height, depth, &[("views.yaml", VIEWS)]);
            labelled(&mut desk.stage);
            desk.stage.press(keys);
            let drawn = desk.drawn();
            assert!(drawn.contains(wanted), "{keys} at {width}\n{drawn}");
            assert_eq!(desk.told(), [""; 0]);
        }
    }
}

#[test]
fn columns_of_the_user_are_filtered_and_saved_con_16() {
    let mut desk = Desk::new(80, 24, &[("views.yaml", VIEWS)]);
    labelled(&mut desk.stage);
    desk.stage.press("p / \"512Mi\" enter");
    assert!(desk.drawn().contains("│ ▸      512Mi  till-1"), "{}", desk.drawn());
    let jobs = desk.stage.press("ctrl-s");
    let saved =
        jobs.iter().find_map(|job| if let Job::Save(_, text) = job { Some(text.as_str()) } else { None });
    let wanted = "MEMORY,NAME,APP,TIER,SINCE,STATUS,NAMESPACE,READY,RESTARTS,NODE,QOS,IMAGES,AGE
512Mi,till-1,till,front,2026-05-01T10:00:00Z,Running,shop,1/1,0,<none>,<none>,i,
";
    assert!(
        saved.is_some_and(
            |saved| saved.starts_with("MEMORY,NAME,APP,TIER,SINCE,STATUS,NAMESPACE,READY,RESTARTS,")
        ),
        "{saved:?}\n{wanted}"
    );
}

#[test]
fn columns_change_while_one_looks_and_what_is_wrong_is_told_con_16() {
    let mut desk = Desk::new(80, 24, &[]);
    labelled(&mut desk.stage);
    desk.stage.press("p j j");
    assert!(desk.drawn().contains("NAMESPACE  NAME ↑"), "{}", desk.drawn());
    desk.write(&[("views.yaml", "views:\n  po:\n    columns: [NAME, 'WHO:.spec.serviceAccountName']\n")]);
    let drawn = desk.drawn();
    assert!(drawn.contains("│   NAME ↑      WHO ") && drawn.contains("│ ▸ till-1      robot "), "{drawn}");
    // What cannot be read leaves the kind's own columns, and says where.
    desk.write(&[("views.yaml", "views:\n  po:\n    columns: [NAME, 'WHO:.spec[']\n")]);
    assert!(desk.drawn().contains("NAMESPACE  NAME ↑"), "{}", desk.drawn());
    let told = desk.told();
    assert!(told[0].contains("views.yaml:3:21: views.po.columns[1]: \".spec[\" is no path"), "{told:?}");
    desk.write(&[(
        "views.yaml",
        "views:\n  po:\n    sortColumn: X:asc\n    columns:\n    - NAME\n    - VS\n",
    )]);
    let told = desk.told().join("\n");
    assert!(told.contains("views.yaml:6: no column \"VS\"; there are NAME, READY, STATUS"), "{told}");
    assert!(told.contains("sortColumn \"X\": there is no such column"), "{told}");
    std::fs::remove_file(desk.dir.path().join("views.yaml")).unwrap();
    desk.write(&[]);
    assert!(desk.drawn().contains("NAMESPACE  NAME ↑"), "{}", desk.drawn());
}

/// A list of a kind that only the server's Table shows, with whole objects.
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
fn a_custom_resource_is_asked_for_whole_where_a_column_needs_it_con_16() {
    let of = |jobs: &[Job]| {
        let watches = jobs.iter().filter_map(|job| match job {
            Job::Watch(_, _, include) => Some(*include),
            _ => None,
        });
        watches.collect::<Vec<_>>()
    };
    let mut desk = Desk::new(
        80,
        24,
        &[("views.yaml", "views: {x.io/v1/gadgets: {columns: [NAME, 'TEAM:.metadata.labels.team']}}")],
    );
    desk.stage.model.update(Message::Catalogue(Catalogue::of(vec![widgets("gadgets")])), desk.stage.now);
    assert_eq!(of(&desk.stage.press(": \"gadgets\" enter")), [Include::Metadata]);
    desk.stage.feed(gadgets("gadgets"));
    assert!(desk.drawn().contains("│ ▸ a           a"), "{}", desk.drawn());
    let views = "views: {gadgets: {sortColumn: 'SIZE:asc', columns: [NAME, 'SIZE:.spec.size|N', 'H:.spec.hostile', 'S:.spec']}}";
    assert_eq!(of(&desk.write(&[("views.yaml", views)])), [Include::Object], "asked for anew");
    desk.stage.feed(gadgets("gadgets"));
    let drawn = desk.drawn();
    let rows: Vec<&str> = drawn.lines().filter(|line| line.contains("\"hostile\"")).collect();
    assert!(
        rows.len() == 2 && rows[0].contains(" b ") && rows[1].contains("10"),
        "sorted as numbers:\n{drawn}"
    );
    assert!(!drawn.contains(['\u{1b}', '\u{202e}']), "{drawn:?}");
}
