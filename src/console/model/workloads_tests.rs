//! The table of all workloads on a test terminal (CON-2): its rows, the effect of keys, the messages about kinds that
//! cannot be listed, and the cost of a change.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::tabs_tests::{TestConsole, objects, pod};
use super::*;
use console_data::catalogue::Catalogue;
use console_data::links::{Link, UnavailableReason};
use console_data::message::Message;
use console_data::resource::Kind;
use console_data::server_table::{ColumnDefinition, TableRow};
use console_data::store::{Change, Delta};
use console_data::workloads::Workload;

fn owned(mut object: Value, api_version: &str, kind: &str, name: &str) -> Value {
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": true}]);
    object
}

fn meta(name: &str) -> Value {
    json!({"name": name, "namespace": "default", "uid": name, "generation": 1,
        "creationTimestamp": "2026-05-01T11:00:00Z"})
}

fn deployment(name: &str, ready: i32) -> Value {
    json!({
        "metadata": meta(name),
        "spec": {"replicas": 2, "selector": {}, "template": {}},
        "status": {"replicas": 2, "updatedReplicas": 2, "readyReplicas": ready, "availableReplicas": ready,
            "observedGeneration": 1, "conditions": [{"type": "Available", "reason": "MinimumReplicasUnavailable",
                "status": if ready < 2 { "False" } else { "True" }, "message": "does not have\u{1b}[2J enough"}]},
    })
}

fn replica_set(name: &str) -> Value {
    json!({"metadata": meta(name), "spec": {"replicas": 1, "selector": {}}, "status": {"replicas": 1, "readyReplicas": 1}})
}

fn pods(all: Vec<Value>) -> Delta {
    Delta::of::<Pod>(vec![Change::Reset(objects(all))])
}

fn reset_delta<K>(all: impl IntoIterator<Item = Value>) -> Delta
where
    K: kube::Resource<DynamicType = ()> + console_data::store::Object + serde::de::DeserializeOwned,
{
    Delta::of::<K>(vec![Change::Reset(objects(all))])
}

/// A list in the server's Table format, with whole objects.
fn table(kind: Workload, all: impl IntoIterator<Item = Value>) -> Delta {
    let columns: Vec<ColumnDefinition> = vec![serde_json::from_value(json!({"name": "Name"})).unwrap()];
    let rows = all.into_iter().map(|object| json!({"cells": [object["metadata"]["name"]], "object": object}));
    let rows: Vec<std::sync::Arc<TableRow>> = objects(rows);
    Delta::of_table(kind.kind().resource.clone(), Some(columns), vec![Change::Reset(rows)])
}

/// A console with at least one object of every kind, and objects without a row.
fn stage() -> TestConsole {
    let mut stage = TestConsole::new(130, 30);
    let kinds = console_data::builtin_kinds::kinds().into_iter().chain(Workload::ALL.map(Workload::kind));
    stage.model.update(Message::Catalogue(Catalogue::of(kinds.collect())), stage.now);
    stage.feed(pods(vec![
        pod("default", "alone"),
        owned(pod("default", "web-1"), "apps/v1", "ReplicaSet", "web-set"),
        owned(pod("default", "static"), "v1", "Node", "node-1"),
    ]));
    stage.feed(reset_delta::<Deployment>([deployment("web", 1)]));
    stage.feed(reset_delta::<ReplicaSet>([
        owned(replica_set("web-set"), "apps/v1", "Deployment", "web"),
        replica_set("free-set"),
    ]));
    let jobs = stage.press(": \"workloads\" enter");
    let watched: Vec<String> = jobs
        .iter()
        .filter_map(|job| match job {
            Job::Watch(kind, _, Include::Object) => Some(kind.resource.plural.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(watched, ["replicationcontrollers", "daemonsets", "statefulsets", "cronjobs", "jobs"]);
    stage
}

fn others(stage: &mut TestConsole) {
    stage.feed(table(
        Workload::StatefulSet,
        [json!({"metadata": meta("db"), "spec": {"replicas": 3},
            "status": {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "observedGeneration": 1}})],
    ));
    stage.feed(table(
        Workload::DaemonSet,
        [json!({"metadata": meta("agent"), "spec": {}, "status": {"desiredNumberScheduled": 4, "numberReady": 3,
            "updatedNumberScheduled": 4, "observedGeneration": 1}})],
    ));
    stage.feed(table(Workload::ReplicationController, []));
    stage.feed(table(
        Workload::Job,
        [owned(
            json!({"metadata": meta("backup-1"), "spec": {"completions": 1}, "status": {"failed": 3, "conditions": [
                {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}]}}),
            "batch/v1",
            "CronJob",
            "backup",
        )],
    ));
    stage.feed(table(
        Workload::CronJob,
        [json!({"metadata": meta("backup"), "spec": {"schedule": "0 3 * * *", "suspend": true}, "status": {}})],
    ));
}

/// Returns the line with a text.
fn line(stage: &mut TestConsole, text: &str) -> String {
    let screen = stage.screen();
    let line = screen.lines().find(|line| line.contains(text));
    line.unwrap_or_else(|| panic!("no {text} in\n{screen}")).to_owned()
}

/// Moves the cursor to the row of this name.
fn select(stage: &mut TestConsole, name: &str) {
    stage.press("g");
    for _ in 0..20 {
        let Screen::Table(table) = &stage.model.top().1 else { panic!("no table") };
        if table.selected().is_some_and(|object| object.name == name) {
            return;
        }
        stage.press("j");
    }
    panic!("no row {name} in\n{}", stage.screen());
}

#[test]
fn every_workload_is_one_row_with_its_state_and_why_con_2() {
    let mut stage = stage();
    // The list is incomplete until every kind has been listed.
    assert!(stage.screen().contains("Workloads all 4+"), "{}", stage.screen());
    others(&mut stage);
    let screen = stage.screen();
    assert!(screen.contains("Workloads all 8 "), "{screen}");
    for (row, words) in [
        (
            "  web ",
            &["Deployment", "1/2", "Unavailable", "MinimumReplicasUnavailable: does not have␛[2J enough"][..],
        ),
        ("free-set", &["ReplicaSet", "1/1", "Available"]),
        ("  db ", &["StatefulSet", "3/3", "Available", "60m"]),
        ("agent", &["DaemonSet", "3/4", "Unavailable", "1 not ready"]),
        ("backup-1", &["Job", "0/1", "Failed", "BackoffLimitExceeded: too often"]),
        ("backup ", &["CronJob", "Suspended", "0 3 * * *"]),
        ("alone", &["Pod", "1/1", "Running"]),
        ("static", &["Pod", "Running"]),
    ] {
        let line = line(&mut stage, row);
        assert!(words.iter().all(|word| line.contains(word)), "{row}: {line}");
    }
    assert!(
        !screen.contains("web-set") && !screen.contains("web-1"),
        "owned objects have no rows of their own\n{screen}"
    );
    stage.press("ctrl-z");
    let screen = stage.screen();
    assert!(screen.contains("3 of 8") && screen.contains("agent") && !screen.contains("alone"), "{screen}");
    stage.press("ctrl-z / \"CronJob\" enter");
    assert!(stage.screen().contains("1 of 8"), "{}", stage.screen());
}

#[test]
fn a_key_does_what_it_does_in_the_table_of_the_rows_kind_con_3() {
    let mut stage = stage();
    others(&mut stage);
    // `s` scales an object with a count, and opens a shell in a pod.
    select(&mut stage, "db");
    stage.press("s");
    assert!(stage.screen().contains("Scale StatefulSet default/db"), "{}", stage.screen());
    stage.press("esc");
    select(&mut stage, "agent");
    stage.press("s");
    let screen = stage.screen();
    assert!(screen.contains("DaemonSets cannot be scaled"), "{screen}");
    select(&mut stage, "web");
    stage.press("enter");
    let screen = stage.screen();
    assert!(screen.contains("Pods of web 1 ") && screen.contains("web-1"), "{screen}");
    stage.press("esc");
    select(&mut stage, "alone");
    stage.press("enter");
    assert!(stage.screen().contains("main"), "its containers: {}", stage.screen());
    stage.press("esc");
    assert!(
        stage.screen().contains("▸ default    alone"),
        "the way back ends where it began: {}",
        stage.screen()
    );
    // Marked rows of two kinds give two dialogs, one per kind.
    select(&mut stage, "agent");
    stage.press("space");
    select(&mut stage, "db");
    stage.press("space");
    assert!(stage.screen().contains("◆ 2 marked"));
    stage.press("ctrl-d");
    let first = stage.screen();
    assert!(first.contains("question 1 of 2") && first.contains("StatefulSet default/db"), "{first}");
    stage.press("esc");
    let second = stage.screen();
    assert!(second.contains("question 2 of 2") && second.contains("DaemonSet default/agent"), "{second}");
}

#[test]
fn a_restart_of_several_workloads_speaks_of_their_pods_con_5() {
    let mut stage = stage();
    stage.feed(reset_delta::<Deployment>([deployment("api", 2), deployment("web", 2)]));
    stage.press(": \"deployments\" enter");
    for name in ["api", "web"] {
        select(&mut stage, name);
        stage.press("space");
    }
    stage.press("r");
    let screen = stage.screen();
    assert!(screen.contains("Restart 2 workloads") && screen.contains("Their pods are replaced"), "{screen}");
}

#[test]
fn an_unavailable_kind_is_reported_and_the_others_are_listed_con_18() {
    let mut stage = stage();
    let refused = |kind: Workload, why| Message::Link(Link::Refused(kind.kind().resource.clone(), why));
    let forbidden = UnavailableReason::NotAllowed("jobs.batch is forbidden: User \"me\"".to_owned());
    stage.model.update(refused(Workload::Job, forbidden), stage.now);
    stage.model.update(refused(Workload::CronJob, UnavailableReason::Absent), stage.now);
    for kind in [Workload::StatefulSet, Workload::DaemonSet, Workload::ReplicationController] {
        stage.feed(table(kind, []));
    }
    let screen = stage.screen();
    assert!(screen.contains("Workloads all 4 "), "refused kinds do not leave the list incomplete\n{screen}");
    assert!(screen.contains("○ Jobs not allowed  ○ CronJobs not on this server"), "{screen}");
    assert!(screen.contains("jobs.batch is forbidden"), "the server's message is shown\n{screen}");
    // A kind that discovery does not list is not requested.
    let kinds = console_data::builtin_kinds::kinds().into_iter().chain([Workload::StatefulSet.kind()]);
    stage.model.update(Message::Catalogue(Catalogue::of(kinds.collect())), stage.now);
    assert!(stage.screen().contains("DaemonSets not on this server"), "{}", stage.screen());
}

#[tokio::test]
async fn gaps_in_the_history_of_a_kind_are_listed_below_the_rows_con_19() {
    let mut stage = stage();
    others(&mut stage);
    let kinds = console_data::builtin_kinds::kinds().into_iter().chain(Workload::ALL.map(Workload::kind));
    let fault_resource =
        ResourceKey { group: "podium.dev".into(), version: "v1".into(), plural: "faults".into() };
    let fault_kind = Kind::new(console_data::resource::KindFacts {
        resource: fault_resource,
        kind: "Fault".to_owned(),
        singular: "fault".to_owned(),
        namespaced: false,
        short_names: Vec::new(),
        verbs: std::collections::BTreeSet::new(),
        subresources: BTreeMap::new(),
    });
    stage.model.update(Message::Catalogue(Catalogue::of(kinds.chain([fault_kind]).collect())), stage.now);
    let no = [(Workload::Job, 403, 403), (Workload::DaemonSet, 200, 410), (Workload::StatefulSet, 200, 500)];
    let (sender, mut inbox) = tokio::sync::mpsc::channel(8);
    let mut runner =
        console_operations::effect::Runner::new(console_data::past::workload_server::server(&no), sender);
    for job in stage.press(": \"at_@20\" enter") {
        if let Job::Start(task) = job {
            runner.start(task);
        }
    }
    let message = inbox.recv().await.unwrap();
    stage.model.update(message, stage.now);
    let screen = stage.screen();
    for row in ["one-of-pods", "one-of-deployments", "one-of-replicasets", "one-of-cronjobs"] {
        assert!(screen.contains(row), "{row} is not in\n{screen}");
    }
    assert!(screen.contains("Workloads all 5 "), "the count covers all kinds that were answered\n{screen}");
    for of_now in ["  web ", "  db ", "agent", "backup"] {
        assert!(!screen.contains(of_now), "{of_now} is of now\n{screen}");
    }
    let text = line(&mut stage, "✖ no record of DaemonSets");
    for expected in ["✖ no record of DaemonSets then", "✖ StatefulSets then unknown", "○ Jobs not allowed"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // Nothing of it is from the present.
    stage.press("esc");
    let screen = stage.screen();
    assert!(screen.contains("  web ") && !screen.contains("so far back"), "{screen}");
}

#[test]
fn of_very_many_pods_of_owners_nothing_is_made_con_1() {
    let mut stage = stage();
    others(&mut stage);
    let many = |from: usize, to: usize| {
        let of = |n: usize| owned(pod("default", &format!("web-{n}")), "apps/v1", "ReplicaSet", "web-set");
        Change::Listed(objects((from..to).map(of)))
    };
    stage.feed(Delta::of::<Pod>(vec![many(0, 3000)]));
    let rows = |stage: &TestConsole| match &stage.model.top().1 {
        Screen::Table(table) => table.row_count(),
        other => panic!("{other:?}"),
    };
    assert_eq!(rows(&stage), 8);
    // Neither these nor a change of one row, nor new metrics of pods, rebuild all rows.
    let built = |stage: &TestConsole| match &stage.model.top().1 {
        Screen::Table(table) => table.rebuilt_at(),
        other => panic!("{other:?}"),
    };
    let before = built(&stage);
    stage.now = stage.now.saturating_add(jiff::SignedDuration::from_secs(5)).unwrap();
    stage.feed(Delta::of::<Pod>(vec![many(0, 3000)]));
    stage.feed(Delta::of::<Pod>(vec![Change::Applied(objects([pod("default", "late")]).remove(0))]));
    stage.model.update(Message::PodUsage(Some(console_data::store::PodUsages::default())), stage.now);
    assert_eq!((rows(&stage), built(&stage)), (9, before));
    // An object gets a row when its owner is deleted.
    stage.feed(Delta::of::<Pod>(vec![Change::Applied(objects([pod("default", "web-7")]).remove(0))]));
    assert_eq!(rows(&stage), 10);
    stage.feed(Delta::of::<Pod>(vec![Change::Applied(
        objects([owned(pod("default", "web-7"), "apps/v1", "ReplicaSet", "web-set")]).remove(0),
    )]));
    assert_eq!(rows(&stage), 9);
}

#[test]
fn the_words_of_k9s_open_it_and_a_kind_of_the_server_goes_before_con_3() {
    for word in ["wk", "workload", "workloads"] {
        let mut stage = TestConsole::new(100, 30);
        stage.press(&format!(": \"{word}_shop\" enter"));
        assert!(stage.screen().contains("Workloads shop"), "{word}: {}", stage.screen());
    }
    let mut stage = TestConsole::new(100, 30);
    let kinds =
        console_data::builtin_kinds::kinds().into_iter().chain([super::tabs_tests::widgets("workloads")]);
    stage.model.update(Message::Catalogue(Catalogue::of(kinds.collect())), stage.now);
    let jobs = stage.press(": \"workloads\" enter");
    assert!(
        jobs.iter().any(|job| matches!(job, Job::Watch(kind, ..) if kind.resource.group == "x.io")),
        "{jobs:?}"
    );
    stage.press(": \"wk\" enter");
    assert!(stage.screen().contains("Workloads all"), "{}", stage.screen());
}

/// An exceeded deadline states no reason; the pods do, so their state comes first.
#[test]
fn a_deployment_says_what_holds_its_pods_up_con_2() {
    let mut stage = stage();
    let mut stuck = deployment("web", 1);
    stuck["status"]["conditions"] = json!([{"type": "Progressing", "status": "False",
        "reason": "ProgressDeadlineExceeded", "message": "has timed out"}]);
    stage.feed(reset_delta::<Deployment>([stuck]));
    assert!(stage.screen().contains("ProgressDeadlineExceeded"), "{}", stage.screen());
    // Its row follows its pods.
    let mut bad = owned(pod("default", "web-1"), "apps/v1", "ReplicaSet", "web-set");
    bad["status"]["phase"] = json!("Pending");
    bad["status"]["containerStatuses"][0]["ready"] = json!(false);
    bad["status"]["containerStatuses"][0]["state"] =
        json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}});
    stage.feed(Delta::of::<Pod>(vec![Change::Applied(objects([bad]).remove(0))]));
    let screen = stage.screen();
    assert!(screen.contains("ImagePullBackOff: main: Back-off pulling image"), "{screen}");
    assert!(!screen.contains("ProgressDeadlineExceeded"), "{screen}");
}

/// The owner tree has the state of every workload from the workload itself, not from its pods.
#[test]
fn the_owner_tree_shows_jobs_as_they_ended_con_19() {
    let mut stage = TestConsole::new(100, 30);
    let kinds = console_data::builtin_kinds::kinds().into_iter().chain(Workload::ALL.map(Workload::kind));
    stage.model.update(Message::Catalogue(Catalogue::of(kinds.collect())), stage.now);
    let completed = |name: &str, phase: &str, code: i32| {
        let mut pod = owned(pod("default", name), "batch/v1", "Job", "once");
        pod["status"] = json!({"phase": phase, "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0,
            "image": "i", "imageID": "", "state": {"terminated": {"exitCode": code,
                "reason": if code == 0 { "Completed" } else { "Error" }}}}]});
        pod
    };
    stage.feed(pods(vec![completed("once-a", "Failed", 1), completed("once-b", "Succeeded", 0)]));
    let jobs = stage.press(": \"xray_jobs\" enter");
    let watches = |job: &Job| matches!(job, Job::Watch(kind, ..) if kind.resource.plural == "jobs");
    assert!(jobs.iter().any(watches), "{jobs:?}");
    // Before the list arrives, the owner is known from its pods.
    assert!(stage.screen().contains("Job default/once"), "{}", stage.screen());
    let job = |name: &str, status: Value| json!({"metadata": meta(name), "spec": {"completions": 1}, "status": status});
    let ended =
        |condition: &str| json!({"succeeded": 1, "conditions": [{"type": condition, "status": "True"}]});
    stage.feed(table(
        Workload::Job,
        [
            owned(job("once", ended("Complete")), "batch/v1", "CronJob", "nightly"),
            // Its pods were removed.
            job("swept", ended("Complete")),
            job("broken", json!({"conditions": [{"type": "Failed", "status": "True"}]})),
        ],
    ));
    let squeezed = |screen: &str| screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let screen = stage.screen();
    for row in [
        "✔ Job default/once 1/1 Complete",
        "├ ✖ Pod once-a Error 0/1 on no node",
        "└ ✔ Pod once-b Completed 0/1 on no node",
        "✔ Job default/swept 1/1 Complete",
        "✖ Job default/broken 0/1 Failed",
    ] {
        assert!(squeezed(&screen).contains(row), "{row:?} is not in\n{screen}");
    }
    let suspended = json!({"metadata": meta("nightly"), "spec": {"schedule": "0 0 * * *", "suspend": true}});
    stage.feed(table(Workload::CronJob, [suspended]));
    stage.press(": \"xray\" enter");
    let screen = stage.screen();
    assert!(squeezed(&screen).contains("CronJob default/nightly Suspended"), "{screen}");
    assert!(squeezed(&screen).contains("└ ✔ Job once 1/1 Complete"), "{screen}");
    // The watches end with the tree.
    let jobs = stage.press("~");
    let unwatches = |job: &Job| matches!(job, Job::Unwatch(resource) if resource.plural == "jobs");
    assert!(jobs.iter().any(unwatches), "{jobs:?}");
}
