//! Screens in narrow terminals: the main column retains its width (CON-20).

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::{Value, json};

use super::tabs_tests::{TestConsole, objects, pod};
use console_data::catalogue::Catalogue;
use console_data::links::{Link, UnavailableReason};
use console_data::message::{Data, Message};
use console_data::resource::{ObjectRef, ResourceKey, Uid};
use console_data::store::{Change, Delta};
use console_operations::effect::ForwardRequest;
use console_screens::describe::DescribeData;
use console_screens::forwards::ForwardsData;
use console_screens::forwards::forwarder::{Report, State};
use console_toolkit::command::Command;

const LONG_MESSAGE: &str = "Back-off restarting failed container main in pod web-5d9c7b6f4-x2x9k";

fn events() -> Delta {
    let event = |id: usize, reason: &str, message: &str| {
        json!({"metadata": {"name": format!("e{id}"), "namespace": "default", "uid": format!("e{id}")},
            "type": "Warning", "reason": reason, "message": message, "count": 3,
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-5d9c7b6f4-x2x9k"}})
    };
    let all = [event(1, "BackOff", LONG_MESSAGE), event(2, "FailedScheduling", "0/3 nodes are available")];
    Delta::of::<Event>(vec![Change::Reset(objects(all))])
}

/// Returns the width that a text's column has on the screen.
fn columns_of(screen: &str, text: &str) -> usize {
    let line = screen.lines().find(|line| line.contains(&text[..8])).unwrap_or_else(|| panic!("{screen}"));
    let from = line.find(&text[..8]).expect("the line has it");
    line[from..].chars().take_while(|c| !matches!(c, '│' | '…')).count()
}

#[test]
fn events_show_a_readable_message_at_80_and_at_40_columns_con_20() {
    for (width, height, least) in [(80, 24, 22), (40, 12, 15)] {
        let mut stage = TestConsole::new(width, height);
        stage.feed(events());
        stage.press(": \"events\" enter");
        let screen = stage.screen();
        let columns = columns_of(&screen, LONG_MESSAGE);
        assert!(columns >= least, "{columns} of {least} columns\n{screen}");
        assert!(screen.contains("⚠ BackOff"), "{screen}");
    }
}

fn deployment(name: &str, desired: i32, available: i32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2026-05-01T11:00:00Z"},
        "spec": {"replicas": desired, "selector": {}, "template": {
            "spec": {"containers": [{"name": "main", "image": "registry.example.com/shop/frontend:1.27.3"}]}}},
        "status": {"replicas": available, "updatedReplicas": available, "readyReplicas": available,
            "availableReplicas": available},
    })
}

/// A column that gave way to a longer state returns with a shorter one.
#[test]
fn a_dropped_column_returns_when_there_is_space_again_con_20() {
    let images = |stage: &mut TestConsole| stage.screen().contains("IMAGES");
    let mut dropped = 0;
    for width in 60..100 {
        let mut stage = TestConsole::new(width, 24);
        let feed = |stage: &mut TestConsole, desired, available| {
            let changed = objects([deployment("web", desired, available)]);
            stage.feed(Delta::of::<Deployment>(changed.into_iter().map(Change::Applied).collect()));
        };
        stage.feed(Delta::of::<Deployment>(vec![Change::Reset(objects([deployment("web", 3, 3)]))]));
        stage.press("d");
        let before = images(&mut stage);
        feed(&mut stage, 5, 3);
        assert!(stage.screen().contains("Progressing"), "{}", stage.screen());
        dropped += usize::from(before && !images(&mut stage));
        feed(&mut stage, 5, 5);
        assert_eq!(images(&mut stage), before, "{width}\n{}", stage.screen());
    }
    assert!(dropped > 0, "at some width the longer state takes the space");
}

#[test]
fn the_table_of_workloads_keeps_the_status_con_20() {
    for width in 40..90 {
        let mut stage = TestConsole::new(width, 24);
        let all = [deployment("web", 3, 3), deployment("background-worker-a", 3, 2)];
        stage.feed(Delta::of::<Deployment>(vec![Change::Reset(objects(all))]));
        stage.press(": \"workloads\" enter");
        let screen = stage.screen();
        for text in ["NAME", "STATUS", "Available", "Progressing", "background-"] {
            assert!(screen.contains(text), "{text:?} is not in {width} columns\n{screen}");
        }
    }
}

fn owned_pod(name: &str) -> Value {
    let mut pod = pod("default", name);
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9c7b6f4", "uid": "set", "controller": true}]);
    pod
}

#[test]
fn the_owner_tree_keeps_the_end_of_names_at_40_columns_con_19() {
    let mut stage = TestConsole::new(40, 12);
    let pods = ["web-5d9c7b6f4-x2x9k", "web-5d9c7b6f4-abcde"].map(owned_pod);
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
    stage.press(": \"xray\" enter");
    let screen = stage.screen();
    assert!(screen.contains("x2x9k") && screen.contains("abcde"), "{screen}");
}

#[test]
fn the_owner_tree_of_a_kind_has_each_object_of_the_kind_con_19() {
    let mut stage = TestConsole::new(120, 30);
    let pods = [owned_pod("web-5d9c7b6f4-x2x9k"), owned_pod("web-5d9c7b6f4-abcde"), pod("default", "alone")];
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
    stage.press(": \"xray_po\" enter");
    let screen = stage.screen();
    for name in ["web-5d9c7b6f4-x2x9k", "web-5d9c7b6f4-abcde", "alone"] {
        assert!(screen.contains(&format!("Pod default/{name}")), "{screen}");
    }
}

#[test]
fn an_unusable_local_port_is_prompted_for_again_con_16() {
    let mut stage = TestConsole::new(80, 24);
    stage.press(": \"pf\" enter");
    let id = stage.model.top().0;
    let pod = ObjectRef {
        kind: console_data::builtin_kinds::kind::<Pod>(),
        namespace: Some("default".into()),
        name: "web".into(),
        uid: Some(Uid::from("default-web")),
    };
    let forward = ForwardRequest { pod, remote: 80, local: 8080 };
    stage.model.update(Message::Data(id, Data::new(ForwardsData::Start(forward))), stage.now);
    let refused = State::Failed("127.0.0.1:8080: Address already in use".to_owned());
    let report = Report { id: 1, state: refused };
    stage.model.update(Message::Data(id, Data::new(ForwardsData::Report(report))), stage.now);
    let screen = stage.screen();
    for text in ["Forward a port of", "Address already in use", "local port", "80"] {
        assert!(screen.contains(text), "{text:?} is not in\n{screen}");
    }
}

#[test]
fn a_forbidden_table_tells_its_reason_from_the_start_con_18() {
    let reason = "pods is forbidden: User \"system:serviceaccount:shop:reader\" cannot list resource \"pods\" in \
                  API group \"\" at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io \"pod-readers\" not found, \
                  clusterrole.rbac.authorization.k8s.io \"viewers\" not found";
    for (width, height, whole) in [(80, 24, true), (40, 24, true), (40, 10, false), (140, 40, true)] {
        let mut stage = TestConsole::new(width, height);
        let refused = UnavailableReason::NotAllowed(reason.to_owned());
        stage.feed(Delta::of::<Pod>(vec![Change::Reset(Vec::new())]));
        stage.model.update(Message::Link(Link::Refused(ResourceKey::of::<Pod>(), refused)), stage.now);
        stage.press("p");
        let screen = stage.screen();
        let words: Vec<&str> =
            screen.split(|c: char| c.is_whitespace() || c == '│').filter(|word| !word.is_empty()).collect();
        let joined = words.join(" ");
        assert!(joined.contains("not allowed: pods is forbidden: User"), "{width}×{height}\n{screen}");
        assert_eq!(joined.contains("\"viewers\" not found"), whole, "{width}×{height}\n{screen}");
    }
}

fn one_node() -> Delta {
    Delta::of::<Node>(vec![Change::Reset(objects([
        json!({"metadata": {"name": "node-1", "uid": "node-1"}}),
    ]))])
}

#[test]
fn the_help_begins_with_the_ten_keys_that_a_newcomer_needs_con_3() {
    // The view, and those of its keys that are among the ten.
    for (keys, expected) in [
        ("p", vec!["enter", "esc", ":", "/", "l", "d", "W", "ctrl-d", "U", "ctrl-c"]),
        (": \"nodes\" enter", vec!["enter", "esc", ":", "/", "d", "W", "ctrl-d", "y", "U", "ctrl-c"]),
        ("", vec!["enter", "esc", ":", "/", "p", "d", "n", "{", "U", "ctrl-c"]),
    ] {
        let mut stage = TestConsole::new(80, 24);
        stage.feed(one_node());
        if !keys.is_empty() {
            stage.press(keys);
        }
        stage.press("?");
        let screen = stage.screen();
        let lines: Vec<&str> = screen.lines().map(|line| line.trim_matches(['│', ' ', '┃'])).collect();
        let at = lines.iter().position(|line| line.starts_with("To begin with")).expect(&screen);
        let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
        let seen: Vec<String> = lines[at + 1..at + 11].iter().map(|line| first(line)).collect();
        assert_eq!(seen, expected, "{screen}");
        // The view's own keys follow.
        assert!(screen.contains("Pods") || !keys.starts_with('p'), "{screen}");
    }
    let mut stage = TestConsole::new(80, 24);
    stage.press("p ? / \"logs\"");
    let screen = stage.screen();
    assert!(
        !screen.contains("To begin with") && screen.contains("Show the logs of the previous run"),
        "{screen}"
    );
}

#[test]
fn footers_name_the_views_that_explain_and_keep_them_where_it_is_narrow_con_3() {
    let named = |stage: &mut TestConsole, expected: &[&str]| {
        let screen = stage.screen();
        let footer = screen.lines().last().unwrap_or_default();
        for text in expected {
            assert!(footer.contains(text), "no {text} in {footer}");
        }
        footer.trim_end().to_owned()
    };
    let all = ["<W>why", "<T>timeline", "<V>versions", "<{>past", "<C>connection"];
    let mut stage = TestConsole::new(200, 40);
    stage.press("p");
    named(&mut stage, &all);
    named(&mut stage, &["<s>shell", "<y>yaml", "<e>edit", "<ctrl-d>delete", "<:>command", "<?>help"]);
    stage.press("y");
    named(&mut stage, &["<{>past"]);
    stage.press("esc");
    for (width, expected) in [
        (140, all.to_vec()),
        (80, vec!["<l>logs", "<d>describe", "<W>why", "<T>timeline", "<?>more"]),
        (40, vec!["<l>logs", "<d>describe", "<W>why", "<?>more"]),
    ] {
        stage.resize(width, 24);
        let footer = named(&mut stage, &expected);
        assert!(footer.chars().count() <= usize::from(width), "{footer}");
    }
    // Other servers have no history.
    stage.resize(140, 24);
    stage.model.update(Message::Catalogue(Catalogue::of(console_data::builtin_kinds::kinds())), stage.now);
    let footer = named(&mut stage, &["<T>timeline"]);
    assert!(!footer.contains("<{>") && !footer.contains("<V>"), "{footer}");
    // The view's own keys come before those of every table.
    let mut stage = TestConsole::new(80, 24);
    stage.feed(one_node());
    stage.press(": \"nodes\" enter");
    named(&mut stage, &["<c>cordon", "<r>drain", "<W>why"]);
    // Keys without an effect here are not listed: no pod prevents a namespace from being ready.
    let mut stage = TestConsole::new(200, 40);
    stage.press(": \"namespaces\" enter");
    let footer = named(&mut stage, &["<T>timeline", "<V>versions"]);
    assert!(!footer.contains("<W>") && !footer.contains("<C>"), "{footer}");
}

/// The narrowest footer still has the key of the help.
#[test]
fn the_key_of_the_help_is_never_crowded_out_con_3() {
    for width in 40..200 {
        let mut stage = TestConsole::new(width, 12);
        stage.press("p");
        let key = stage.model.shared.bindings.key(Command::Help).expect("a key").to_string();
        let screen = stage.screen();
        let footer = screen.lines().last().unwrap_or_default();
        assert!(footer.contains(&format!("<{key}>")), "{width}: {footer}");
    }
}

/// Of the columns of a server's Table, the last ones are dropped, and never the status before others.
#[test]
fn a_narrow_table_of_the_server_keeps_its_first_columns_con_20() {
    let claims = super::tabs_tests::widgets("claims");
    let resource = claims.resource.clone();
    let mut stage = TestConsole::new(80, 24);
    let kinds = console_data::builtin_kinds::kinds().into_iter().chain([claims]);
    stage.model.update(Message::Catalogue(Catalogue::of(kinds.collect())), stage.now);
    let names = [
        "Name", "Volume", "Capacity", "Status", "Access Modes", "StorageClass", "VolumeAttributesClass",
        "Age",
    ];
    let columns = names.map(|name| serde_json::from_value(json!({"name": name, "type": "string"})).unwrap());
    let row = json!({"cells": ["diary", "pvc-0123456789", "1Gi", "Bound", "RWO", "standard", "<unset>", "1m"],
        "object": {"metadata": {"name": "diary", "namespace": "default", "uid": "diary"}}});
    stage.press(": \"claims\" enter");
    stage.feed(Delta::of_table(resource, Some(columns.into()), vec![Change::Reset(objects([row]))]));
    let heading = |stage: &mut TestConsole| {
        let screen = stage.screen();
        screen.lines().find(|line| line.contains("NAME ↑")).unwrap_or_else(|| panic!("{screen}")).to_owned()
    };
    let wide = heading(&mut stage);
    assert!(wide.contains("VOLUME ") && wide.contains("STATUS") && !wide.contains("ATTRIBUTES"), "{wide}");
    stage.resize(40, 12);
    let narrow = heading(&mut stage);
    assert!(narrow.contains("STATUS") && !narrow.contains("ACCESS"), "{narrow}");
}

/// The longest name that Kubernetes allows is cut, and takes at most half of the table; its description has all of it.
#[test]
fn a_very_long_name_leaves_space_to_the_other_columns_con_20() {
    let long = format!("a{}-end", "n".repeat(248));
    for width in [80, 100, 160, 240] {
        let mut stage = TestConsole::new(width, 24);
        let pods = [&long, "web"].map(|name| pod("default", name));
        stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods.clone()))]));
        stage.press("p");
        let screen = stage.screen();
        let name = screen.lines().find_map(|line| line.split(' ').find(|word| word.starts_with("ann")));
        let name = name.unwrap_or_else(|| panic!("{screen}"));
        let columns = name.chars().count();
        // The end distinguishes pods of one workload.
        assert!(name.contains('…') && name.ends_with("n-end"), "{width}: {name}\n{screen}");
        assert!(
            columns >= 24 && columns <= (usize::from(width) / 2 + 4).max(48),
            "{width}: {columns}\n{screen}"
        );
        for heading in ["NAMESPACE", "READY", "STATUS", "RESTARTS", "AGE"] {
            assert!(screen.contains(heading), "{width}: {heading}\n{screen}");
        }
        stage.press("d");
        let id = stage.model.top().0;
        let mut object = pods[0].clone();
        object["kind"] = json!("Pod");
        stage.model.update(Message::Data(id, Data::new(DescribeData::Object(Box::new(object)))), stage.now);
        stage.press("w");
        let screen = stage.screen();
        let from = screen.find("Name:").unwrap_or_else(|| panic!("{screen}"));
        let shown: String = screen[from + "Name:".len()..].split(['│', ' ', '\n']).collect();
        assert!(shown.starts_with(&long), "{width}\n{screen}");
    }
}

/// The row of the cursor shows below it what does not fit, and cut texts of the other rows have a mark.
#[test]
fn a_narrow_drain_shows_the_whole_reason_of_the_picked_pod_con_6_con_20() {
    for width in [40, 60, 80] {
        let mut stage = TestConsole::new(width, 24);
        stage.feed(one_node());
        let pods = ["a-rather-long-name-of-a-pod-1", "a-rather-long-name-of-a-pod-2"].map(|name| {
            let mut pod = pod("default", name);
            pod["spec"]["nodeName"] = json!("node-1");
            pod
        });
        stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
        stage.press(": \"drain_node-1\" enter");
        let screen = stage.screen();
        let words: Vec<&str> = screen.split(['│', '\n', ' ']).filter(|word| !word.is_empty()).collect();
        let text = words.join(" ");
        assert!(text.contains("no controller: would be lost"), "{width}\n{screen}");
        assert!(text.contains("[ ] evict it anyway"), "{width}\n{screen}");
        for row in screen.lines().filter(|row| row.contains("refuse ")) {
            assert!(row.contains("anyway") || row.contains('…'), "{width}: {row}");
        }
    }
}
