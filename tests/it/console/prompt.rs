//! The `:` and `/` lines, and the keys that the screen offers: unknown input is reported, and only actions that can
//! work are offered.

use std::sync::Arc;

use podium::console::model::Job;
use podium::console_data::builtin_kinds;
use podium::console_data::catalogue::Catalogue;
use podium::console_data::message::{Data, Message};
use podium::console_data::scope::Scope;
use podium::console_data::server_table::ServerTable;
use podium::console_data::store::{Change, Delta, ResourceUsage};
use podium::console_operations::operations::drain::Progress;
use podium::console_screens::LiveScope;
use serde_json::json;

use super::test_console::{TestConsole, cluster, kind};
use super::{acted, shows};

fn shop() -> TestConsole {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage
}

/// A server with kinds of `apps` and `batch` that are not in the console's store.
fn apps() -> TestConsole {
    let mut stage = shop();
    let mut kinds = builtin_kinds::kinds();
    kinds.push(kind("apps", "v1", "StatefulSet", &["scale"]));
    kinds.push(kind("apps", "v1", "DaemonSet", &[]));
    kinds.push(kind("batch", "v1", "Job", &[]));
    kinds.push(kind("example.com", "v1", "Widget", &["scale"]));
    stage.send(Message::Catalogue(Catalogue::of(kinds)));
    stage
}

/// One object in the table that is on the screen.
fn list_one(stage: &mut TestConsole) {
    let table: ServerTable = serde_json::from_value(json!({
        "kind": "Table", "columnDefinitions": [{"name": "Name", "type": "string", "format": "name", "priority": 0}],
        "rows": [{"cells": ["one"], "object": {
            "metadata": {"name": "one", "namespace": "default", "uid": "one"},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]}}}}}],
    }))
    .expect("a table");
    let table = table.as_table();
    let Some(LiveScope::Kind(kind)) = stage.model.top().1.follows() else { panic!("a table of a kind") };
    let rows = table.rows.into_iter().map(Arc::new).collect();
    let changes = vec![Change::Reset(rows)];
    stage.feed(vec![Delta::of_table(kind.resource.clone(), Some(table.column_definitions), changes)]);
}

/// Input in the syntax of kubectl or k9s has the same meaning here, or an error rejects it.
#[test]
fn arguments_after_a_kind_are_understood_or_rejected_con_3() {
    for (typed, expected) in [
        ("pods_-n_shop", "Pods shop 3"),
        ("pods_--namespace=shop", "Pods shop 3"),
        ("pods_-n_shop_-l_app=crash", "Pods shop 1 of 3"),
        ("pods_-l_app=crash_-n_shop", "Pods shop 1 of 3"),
        ("pods_app=web", "Pods all 4 of 10"),
        ("pods_-lapp=web", "Pods all 4 of 10"),
        ("pods_-l_app_in_(crash)_-n_shop", "Pods shop 1 of 3"),
        ("pods_-l_'app_in_(crash,_web)'_-A", "Pods all 5 of 10"),
        ("pods_-l'app=web'", "Pods all 4 of 10"),
        ("pods_-l_'app=web", "✖ 'app=web: the closing ' is missing"),
        ("pods_-A", "Pods all 10"),
        ("pods_shop_/cra", "Pods shop 1 of 3 /cra"),
        ("pods_-n", "✖ -n: the namespace is required"),
        ("pods_-x", "✖ unknown option -x; use -n NAMESPACE, -A,"),
        ("pods_@,", "✖ @: the context is required; @* means one of each server"),
        ("pods_wobble", "✖ no namespace \"wobble\"; /wobble filters"),
        ("bottom", "✖ no kind or command \"bottom\""),
        (
            "logs",
            "✖ logs works in \"Pods\", \"Deployments, replica sets\" and 6 more views; :logs NAME works everywhere",
        ),
        ("restart", "✖ restart works in \"Deployments, replica sets\", \"Rollout\"; :restart NAME"),
        ("drain-start", "✖ drain-start works in \"Drain\""),
        ("drain_node-2", "Drain node-2"),
        ("drain_node-7", "✖ no node \"node-7\""),
        ("cordon_a_b", "✖ cordon: unexpected \"b\" after the name"),
        ("scale_web_3", "▸ replicas 3▏ now 4"),
        ("scale_web_x", "✖ invalid number of replicas \"x\""),
        ("scale_api-1", "Scale ReplicaSet default/api-1"),
        ("restart_api-1", "✖ ReplicaSets cannot be restarted"),
        ("rollout_default/web", "Deployment web"),
        ("rollout_shop/web", "✖ no deployment \"web\" in shop"),
        ("describe_web", "✖ describe web: the kind is required: describe KIND NAME"),
    ] {
        let mut stage = shop();
        let jobs = stage.press(&format!(": \"{typed}\" enter"));
        assert!(acted(&jobs).is_empty(), "{typed}");
        shows(&stage.screen(), &[expected]);
    }
    // An incomplete word never changes anything: `:d` on pods is not debug.
    let mut stage = shop();
    stage.press("p : \"d\" enter");
    shows(&stage.screen(), &["describe · Pod default/api-1-a"]);
    stage.press("~ p : \"ki\" enter");
    shows(&stage.screen(), &["✖ no kind or command \"ki\""]);
    // Unknown input does not become the beginning of the next command.
    stage.press(": \"po\" enter");
    shows(&stage.screen(), &["Pods all 10"]);
    stage.press("/ \"web\" enter / \"crash\" enter");
    shows(&stage.screen(), &["Pods all 1 of 10 /crash"]);
    let mut stage = TestConsole::with(120, 36, Scope::All, true);
    stage.feed(cluster());
    assert!(acted(&stage.press(": \"cordon_node-1\" enter")).is_empty());
    shows(&stage.screen(), &["✖ read-only: \"cordon\" changes the cluster"]);
}

/// A command that a kind does not support is neither offered nor confirmed.
#[test]
fn an_action_is_offered_only_where_it_can_work_con_18() {
    for (kind, offered, refused) in [
        ("statefulsets", vec!["<s>scale", "<r>restart", "<i>image"], vec![]),
        ("daemonsets", vec!["<r>restart", "<i>image"], vec![("s", "DaemonSets cannot be scaled")]),
        (
            "jobs",
            vec!["<l>logs"],
            vec![("s", "Jobs cannot be scaled"), ("r", "Jobs cannot be restarted"), ("i", "by editing")],
        ),
        ("widgets", vec!["<s>scale"], vec![("r", "Widgets cannot be restarted")]),
    ] {
        let mut stage = apps();
        stage.press(&format!(": \"{kind}\" enter"));
        list_one(&mut stage);
        let screen = stage.screen();
        shows(&screen, &["▸ default one"]);
        let footer = screen.lines().last().unwrap_or_default().to_owned();
        for key in offered {
            assert!(footer.contains(key), "{kind}: {key} is not in {footer}");
        }
        for (key, why) in refused {
            assert!(!footer.contains(&format!("<{key}>")), "{kind}: {footer}");
            assert!(stage.press(key).is_empty());
            assert!(stage.model.dialog.is_none());
            shows(&stage.screen(), &[why]);
        }
    }
    let mut stage = apps();
    stage.press(": \"statefulsets\" enter");
    list_one(&mut stage);
    stage.press("s");
    shows(&stage.screen(), &["Scale StatefulSet default/one", "replicas 3▏ now 3"]);
    stage.press("esc i");
    shows(&stage.screen(), &["Set image of StatefulSet default/one", "main nginx:1.27"]);
    assert_eq!(
        acted(&stage.press("ctrl-u \"nginx:1.28\" enter")),
        ["kubectl set image statefulset/one -n default main=nginx:1.28"]
    );
    let mut stage = shop();
    stage.press("d space j space i");
    assert!(stage.model.dialog.is_none());
    shows(&stage.screen(), &["image: one at a time, and 2 are marked"]);
    stage.press("~ d z r");
    shows(&stage.screen(), &["ReplicaSets cannot be restarted"]);
}

/// Read-only mode offers no command that it would refuse.
#[test]
fn read_only_offers_only_looking_con_3() {
    let mut stage = TestConsole::with(120, 40, Scope::All, true);
    stage.feed(cluster());
    stage.press("p");
    let screen = stage.screen();
    let footer = screen.lines().last().unwrap_or_default();
    assert!(footer.contains("<l>logs") && footer.contains("<d>describe"), "{footer}");
    for word in ["shell", "delete", "edit", "debug"] {
        assert!(!footer.contains(word), "{footer}");
    }
    stage.press("?");
    let screen = stage.screen();
    shows(&screen, &["read-only: changing commands are hidden"]);
    for about in ["Delete, after confirmation", "Edit as YAML", "Open a shell in a container"] {
        assert!(!screen.contains(about), "{about} is in\n{screen}");
    }
}

/// Every line of the help shows its description, however long its key is.
#[test]
fn the_help_is_read_at_every_width_con_3() {
    for (width, height) in [(80, 200), (120, 120), (200, 120)] {
        let mut stage = TestConsole::new(width, height);
        stage.feed(cluster());
        stage.press("?");
        let screen = stage.screen();
        let words =
            screen.replace(['│', '╭', '╮', '─'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
        for about in [
            ":KIND A table of any kind: :po, :deploy, :cm",
            "Use a theme, now and in later runs",
            "Add a node; without NAME asks for its properties",
            "Return to drains and terminals in the background, and to results",
        ] {
            // In two columns, the words of a wrapped line are beside those of another.
            let there = words.contains(about) || about.split(' ').all(|word| words.contains(word));
            assert!(there, "{width}: {about:?} is not in\n{screen}");
        }
        shows(&screen, &["One namespace"].map(|_| ":KIND A table of any kind"));
        // `zone=…` is how a value is left open; any other end is a cut.
        let cut = |line: &str| {
            let line = line.trim_end_matches(['│', ' ']);
            line.ends_with('…') && !line.ends_with("=…")
        };
        assert!(!screen.lines().any(cut), "{width}: nothing is cut\n{screen}");
    }
}

/// A drain on a lower screen of the stack counts as running in the background, too.
#[test]
fn a_drain_below_what_is_looked_at_is_found_again_con_6() {
    let mut stage = shop();
    stage.press("n j r D");
    let drain = stage.model.top().0;
    stage.send(Message::Data(drain, Data::new(Progress::Began { node: 0, rows: Vec::new() })));
    assert!(!stage.screen().contains("⧗"), "it is looked at");
    stage.press(": \"deploy\" enter");
    shows(&stage.screen(), &["⧗ drain node-2 0/0"]);
    stage.press("ctrl-c");
    shows(&stage.screen(), &["1 background task will be stopped."]);
    stage.press("esc : \"background\" enter");
    assert_eq!(stage.model.top().0, drain);
    shows(&stage.screen(), &["Drain node-2"]);
    // Quitting from the drain itself stops it no less.
    stage.press("ctrl-c");
    shows(&stage.screen(), &["1 background task will be stopped.", "▸ Cancel Quit"]);
    let quits = |jobs: &[Job]| jobs.iter().any(|job| matches!(job, Job::Quit));
    assert!(!quits(&stage.press("enter")) && stage.model.dialog.is_none(), "Cancel comes first");
    assert!(quits(&stage.press("ctrl-c right enter")));
}

/// The requests of pods are labelled as requests, and the measured use stands beside them where it is known.
#[test]
fn the_table_of_nodes_tells_requests_from_use_con_4() {
    for (width, height) in [(120, 36), (80, 24)] {
        let mut stage = TestConsole::new(width, height);
        stage.feed(cluster());
        stage.press("n");
        let screen = stage.screen();
        let heads = screen.lines().find(|line| line.contains("NAME")).expect("a header").to_owned();
        assert!(heads.contains("CPU-REQ%") && heads.contains("MEM-REQ%"), "{heads}");
        assert!(!heads.contains(" CPU% "), "no usage was measured: {heads}");
        let used = ResourceUsage { cpu_millis: 1000, memory_bytes: 4 << 30 };
        stage.send(Message::Usage(Some([("node-1".to_owned(), used)].into())));
        stage.resize(120, 36);
        // node-1 has 4 CPUs and 8 Gi; six pods, one of them finished, request a quarter each.
        shows(
            &stage.screen(),
            &[
                "PODS CPU-REQ% MEM-REQ% CPU% MEM%",
                "node-1 ● Ready <none> 5 31 8 25 50",
                "node-2 ◌ Ready,SchedulingDisabled <none> 3 19 5 ? ?",
            ],
        );
        // Usage above the thresholds is marked; a missing measurement is not.
        let used = ResourceUsage { cpu_millis: 3800, memory_bytes: 6 << 30 };
        stage.send(Message::Usage(Some([("node-1".to_owned(), used)].into())));
        shows(&stage.screen(), &["node-1 ● Ready <none> 5 31 8 ▲95 ▴75", "3 19 5 ? ?"]);
        stage.send(Message::Usage(None));
        assert!(!stage.screen().contains(" CPU% "));
    }
}

/// A view opened by its name starts a new stack; the earlier screens do not pile up.
#[test]
fn views_opened_by_name_start_a_new_stack_con_3() {
    let mut stage = shop();
    stage.press(": \"pods\" enter : \"deploy\" enter : \"pods\" enter : \"pods\" enter");
    shows(&stage.screen(), &["podium ▸ Overview ▸ Pods "]);
    stage.press("esc");
    shows(&stage.screen(), &["podium ▸ Overview "]);
    assert_eq!(stage.model.screens.len(), 1);
    // A command on an object does not leave the current view.
    stage.press("d : \"drain_node-2\" enter esc");
    shows(&stage.screen(), &["Deployments all 3"]);
}

/// After a failure, a single key returns to the previous view.
#[test]
fn news_of_a_failure_takes_no_key_for_itself_con_15() {
    let mut stage = shop();
    stage.press("d R");
    stage.send(Message::Toast(podium::console_toolkit::toast::Toast::failed("no")));
    stage.press("esc");
    let screen = stage.screen();
    assert!(!screen.contains("✖ no"), "{screen}");
    shows(&screen, &["Deployments all 3"]);
}

/// A refusal names the alternative; a copy shows its size.
#[test]
fn a_refusal_names_the_alternative_and_a_copy_its_size_con_15() {
    let mut stage = shop();
    let mut web = super::test_console::deployment("web", 4, 2, 3, 5);
    web["spec"]["paused"] = true.into();
    stage.feed(vec![Delta::of::<k8s_openapi::api::apps::v1::Deployment>(vec![Change::Applied(
        super::test_console::objects([web]).remove(0),
    )])]);
    stage.press("d \"/web\" enter R u");
    assert!(stage.model.dialog.is_none());
    shows(&stage.screen(), &["✖ web is paused and cannot be undone: <p> resumes it, then undo"]);
    stage.press("~ p c");
    shows(&stage.screen(), &["· copied"]);
    stage.press("space j space c");
    shows(&stage.screen(), &["· copied 2 lines"]);
}
