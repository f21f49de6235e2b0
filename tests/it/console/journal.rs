//! The journal: every kind of change is recorded with its kubectl command and can be undone with one key (CON-15).

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Node;
use podium::console::model::Job;
use podium::console_data::action::{Mutation, Outcome};
use podium::console_data::builtin_kinds;
use podium::console_data::changes::merge;
use podium::console_data::context::ScreenId;
use podium::console_data::journal::{Journal, UndoPreview, preview_undo};
use podium::console_data::message::{Data, Message};
use podium::console_data::resource::{ClusterId, ObjectRef};
use podium::console_data::store::{Change, Delta};
use podium::console_operations::effect::Outbox;
use podium::console_operations::operations::scale;
use podium::console_screens::edit;
use podium::console_screens::journal::JournalData;
use serde_json::{Value, json};

use super::heavy_screens::revision;
use super::test_console::{TestConsole, cluster, node, objects};
use super::{acted, shows, succeed};
use crate::instance::DataDir;
use crate::needs::needs;

/// Presses `u` in the journal, for the newest change, and sends the object's present state `now` and its state `then`
/// after the undo. The screen shows the confirmation, or a refusal.
fn request_undo(stage: &mut TestConsole, now: &Value, then: &Value) {
    let jobs = stage.press("u");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "the server is asked first: {jobs:?}");
    assert!(acted(&jobs).is_empty() && stage.model.dialog.is_none());
    let entry = stage.model.shared.cluster.journal.entries().last().expect("a change").clone();
    let preview = UndoPreview::of(now, Some(then), entry.outcome.after.as_ref());
    let screen = stage.model.top().0;
    stage.send(Message::Data(screen, Data::new(JournalData::Previewed(entry.id, Ok(preview)))));
}

/// Undoes the newest change in the same way, and confirms. Returns the jobs.
pub(super) fn confirm_undo(stage: &mut TestConsole, now: &Value, then: &Value) -> Vec<Job> {
    request_undo(stage, now, then);
    assert!(acted(&stage.press("enter")).is_empty(), "Cancel comes first");
    request_undo(stage, now, then);
    stage.press("right enter")
}

/// Returns two states of an object, for tests that do not depend on them.
fn two_states() -> (Value, Value) {
    (json!({"spec": {"field": "new"}}), json!({"spec": {"field": "old"}}))
}

/// The shop, with a revision of `web` to go back to.
fn shop() -> TestConsole {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage.feed(vec![Delta::of::<ReplicaSet>(vec![Change::Reset(objects([
        revision("web-new", "2", 2, "nginx:1.27", None),
        revision("web-old", "1", 3, "nginx:1.25", Some("first try")),
    ]))])]);
    stage
}

#[test]
fn one_key_takes_each_kind_of_change_back_con_15() {
    for (keys, done, back) in [
        (
            "d \"/web\" enter s 9 enter",
            "kubectl scale deployment/web -n default --replicas=9",
            "kubectl scale deployment/web -n default --replicas=4",
        ),
        ("n c", "kubectl cordon node-1", "kubectl uncordon node-1"),
        ("n j u", "kubectl uncordon node-2", "kubectl cordon node-2"),
        (
            "d i ctrl-u \"nginx:1.28\" enter",
            "kubectl set image deployment/api -n default main=nginx:1.28",
            "kubectl set image deployment/api -n default main=nginx:1.27",
        ),
        (
            "d \"/web\" enter R p",
            "kubectl rollout pause -n default deployment/web",
            "kubectl rollout resume -n default deployment/web",
        ),
        (
            "d \"/web\" enter R u right enter",
            "kubectl rollout undo -n default deployment/web --to-revision=1",
            "kubectl rollout undo -n default deployment/web",
        ),
    ] {
        let mut stage = shop();
        let jobs = stage.press(keys);
        assert_eq!(acted(&jobs), [done], "{keys}");
        succeed(&mut stage, jobs);
        stage.press("U");
        let screen = stage.screen();
        assert!(screen.contains(done) && screen.contains("<u> undo"), "{keys}\n{screen}");
        let (now, then) = two_states();
        let jobs = confirm_undo(&mut stage, &now, &then);
        assert_eq!(acted(&jobs), [back], "{keys}");
        succeed(&mut stage, jobs);
        shows(&stage.screen(), &["<u> redo", "undone"]);
        let jobs = confirm_undo(&mut stage, &then, &now);
        assert_eq!(acted(&jobs), [done], "{keys}: the undone action is done again");
        succeed(&mut stage, jobs);
        assert_eq!(acted(&confirm_undo(&mut stage, &now, &then)), [back], "{keys}: and so on");
    }
}

/// An undo asks for confirmation as every change does, with the object's name, its current value and the value after
/// the undo.
#[test]
fn an_undo_says_what_it_changes_of_what_is_there_now_con_17() {
    let mut stage = shop();
    let jobs = stage.press("d \"/web\" enter s 9 enter");
    let [Job::Act(action)] = &jobs[..] else { panic!("{jobs:?}") };
    let after = Some(json!({"spec": {"replicas": 9, "other": 1}}));
    stage.send(Message::ActionEnded(Box::new(Outcome { action: (**action).clone(), error: None, after })));
    stage.press("U");
    let then = json!({"spec": {"replicas": 4}});
    request_undo(&mut stage, &json!({"spec": {"replicas": 9}}), &then);
    let screen = stage.screen();
    shows(
        &screen,
        &[
            "Undo the change of Deployment default/web",
            "ago: scale Deployment default/web 4 → 9",
            "spec.replicas now 9, becomes 4",
            "▸ Cancel Undo",
        ],
    );
    assert!(!screen.contains("changed since"), "{screen}");
    stage.press("esc");

    request_undo(&mut stage, &json!({"spec": {"replicas": 7}}), &then);
    shows(&stage.screen(), &["now 7, becomes 4", "⚠ changed since: spec.replicas was 9 then, is 7 now"]);
    stage.press("esc");

    request_undo(&mut stage, &then, &then);
    assert!(stage.model.dialog.is_none());
    shows(&stage.screen(), &["Deployment default/web is already in that state"]);

    stage.press("u");
    let id = stage.model.shared.cluster.journal.entries().last().expect("a change").id;
    let gone = JournalData::Previewed(id, Err("Deployment default/web is gone".to_owned()));
    let screen = stage.model.top().0;
    stage.send(Message::Data(screen, Data::new(gone)));
    assert!(stage.model.dialog.is_none());
    shows(&stage.screen(), &["✖ not undone: Deployment default/web is gone"]);
}

/// The watch reports that node-1 is cordoned.
fn cordoned(stage: &mut TestConsole) {
    let node = objects([node("node-1", "zone-a", "True", true)]).remove(0);
    stage.feed(vec![Delta::of::<Node>(vec![Change::Applied(node)])]);
}

/// A command that changed nothing has no undo, because an undo would change something.
#[test]
fn an_uncordon_of_what_is_not_cordoned_says_so_and_has_no_undo_con_15() {
    let mut stage = shop();
    let jobs = stage.press("~ n u");
    assert_eq!(
        acted(&jobs),
        ["kubectl uncordon node-1"],
        "the command is sent, because the local state may be stale"
    );
    succeed(&mut stage, jobs);
    stage.press("U");
    let screen = stage.screen();
    shows(&screen, &["✔ uncordon Node node-1 (was not cordoned)"]);
    assert!(!screen.contains("<u> undo"), "{screen}");
    cordoned(&mut stage);
    let jobs = stage.press("~ n u");
    succeed(&mut stage, jobs);
    stage.press("U");
    shows(&stage.screen(), &["✔ uncordon Node node-1 <u> undo", "✔ uncordon Node node-1 (was not cordoned)"]);
}

#[test]
fn an_undo_belongs_to_its_own_line_even_where_titles_are_alike_con_15() {
    let mut stage = shop();
    for _ in 0..2 {
        let jobs = stage.press("~ n c");
        succeed(&mut stage, jobs);
    }
    stage.press("U");
    let (now, then) = two_states();
    // The older change is undone; the newer one with the same title stays.
    stage.press("j u");
    let older = stage.model.shared.cluster.journal.entries()[0].id;
    let screen = stage.model.top().0;
    let preview = UndoPreview::of(&now, Some(&then), None);
    stage.send(Message::Data(screen, Data::new(JournalData::Previewed(older, Ok(preview)))));
    let back = stage.press("right enter");
    // Meanwhile the user uncordons by hand: another change with the same title.
    cordoned(&mut stage);
    let jobs = stage.press("~ n u");
    succeed(&mut stage, jobs);
    stage.press("U");
    shows(&stage.screen(), &["uncordon Node node-1", "cordon Node node-1", "cordon Node node-1 undoing"]);
    succeed(&mut stage, back);
    let screen = stage.screen();
    assert_eq!(screen.matches("undone").count(), 1, "{screen}");
    shows(&screen, &["<u> redo", "<u> undo", "<u> undo", "undone"]);
}

#[test]
fn an_edit_is_taken_back_without_touching_what_others_did_since_con_15() {
    let mut stage = shop();
    let base = json!({ "metadata": { "name": "web", "resourceVersion": "7" },
        "spec": { "replicas": 3, "paused": true } });
    let typed = json!({ "metadata": { "name": "web" }, "spec": { "replicas": 5 } });
    let target = podium::console_data::resource::ObjectRef {
        kind: builtin_kinds::kind::<Deployment>(),
        namespace: Some("default".to_owned()),
        name: "web".to_owned(),
        uid: None,
    };
    let action = edit::action::save(&target, &typed, &base);
    assert_eq!(
        action.kubectl,
        r#"kubectl patch deployment/web -n default --type=merge -p '{"spec":{"paused":null,"replicas":5}}'"#
    );
    stage.send(Message::ActionEnded(Box::new(Outcome { action, error: None, after: None })));
    stage.press("U");
    let (now, then) = two_states();
    let jobs = confirm_undo(&mut stage, &now, &then);
    assert_eq!(
        acted(&jobs),
        [
            r#"kubectl patch deployment/web -n default --type=merge -p '{"spec":{"paused":true,"replicas":3}}'"#
        ]
    );
    succeed(&mut stage, jobs);
    // The version that the edit replaced is gone: the redo is a patch of the same fields.
    let jobs = confirm_undo(&mut stage, &then, &now);
    let [Job::Act(action)] = &jobs[..] else { panic!("{jobs:?}") };
    assert!(matches!(&action.mutation, Mutation::Patch { body, .. } if body["spec"]["replicas"] == 5));
}

#[test]
fn a_failed_undo_can_be_retried_con_15() {
    let mut stage = shop();
    let jobs = stage.press("n c");
    succeed(&mut stage, jobs);
    stage.press("U");
    let (now, then) = two_states();
    let jobs = confirm_undo(&mut stage, &now, &then);
    assert!(stage.screen().contains("undoing"));
    let Some(Job::Act(action)) = jobs.into_iter().find(|job| matches!(job, Job::Act(_))) else {
        panic!("the inverse is on its way");
    };
    let error = Some("nodes \"node-1\" is forbidden".to_owned());
    stage.send(Message::ActionEnded(Box::new(Outcome { action: *action, error, after: None })));
    // The failure is the newest line; the change itself stands below it.
    stage.press("j");
    shows(&stage.screen(), &["✖ uncordon", "✔ cordon Node node-1 <u> undo"]);
    assert!(stage.press("u").iter().any(|job| matches!(job, Job::Start(_))));
}

#[test]
fn an_image_that_is_set_records_its_change_cause_con_5() {
    let mut stage = shop();
    let jobs = stage.press("d i ctrl-u \"nginx:1.28\" enter");
    let body = jobs.iter().find_map(|job| match job {
        Job::Act(action) => match &action.mutation {
            Mutation::Patch { body, .. } => Some(body.clone()),
            _ => None,
        },
        _ => None,
    });
    let body = body.expect("a patch");
    assert_eq!(
        body.pointer("/metadata/annotations/kubernetes.io~1change-cause"),
        Some(&json!("kubectl set image deployment/api -n default main=nginx:1.28"))
    );
    assert_eq!(body.pointer("/spec/template/spec/containers/0/image"), Some(&json!("nginx:1.28")));
}

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n  \
    selector: {matchLabels: {app: web}}\n  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: pause}]}}\n";

/// The server previews an undo, also when others have changed the object since.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_says_what_an_undo_would_change_now_con_17() {
    needs!(Kubectl);
    let home = DataDir::new();
    let server = home.start(&["--nodes", "0", "--hollow-nodes", "1"]);
    let file = home.path("web.yaml");
    std::fs::write(&file, WEB).unwrap();
    let apply = || server.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    apply();
    let client = server.impatient_client().await;
    let api: kube::Api<Deployment> = kube::Api::default_namespaced(client.clone());
    let target = ObjectRef::of(builtin_kinds::kind::<Deployment>(), &api.get("web").await.unwrap());
    let (sender, mut inbox) = tokio::sync::mpsc::channel(16);
    let out = Outbox::new(client, sender, ScreenId::new(1, ClusterId::HOME));
    out.act(scale::action(&target, Some(1), 3)).await.unwrap();
    let Some(Message::ActionEnded(outcome)) = inbox.recv().await else { panic!("an outcome") };
    let mut journal = Journal::default();
    journal.record(jiff::Timestamp::UNIX_EPOCH, *outcome);
    let entry = journal.entries()[0].clone();
    let inverse = entry.inverse().unwrap();
    let client = out.client();
    let preview = || preview_undo(&client, &inverse, entry.outcome.after.as_ref());
    let describe = |changes: &[merge::Change]| -> Vec<String> {
        let plain = |value: &Option<Value>| value.as_ref().map(merge::plain).unwrap_or_default();
        changes.iter().map(|c| format!("{} {} → {}", c.path, plain(&c.from), plain(&c.to))).collect()
    };

    let seen = preview().await.unwrap();
    assert_eq!(describe(seen.changes.as_deref().unwrap()), ["spec.replicas 3 → 1"]);
    assert!(seen.since.is_empty(), "{seen:?}");
    server.kubectl(&["scale", "deploy/web", "--replicas=5"]);
    let seen = preview().await.unwrap();
    assert_eq!(describe(seen.changes.as_deref().unwrap()), ["spec.replicas 5 → 1"]);
    assert_eq!(describe(&seen.since), ["spec.replicas 3 → 5"]);
    server.kubectl(&["scale", "deploy/web", "--replicas=1"]);
    assert_eq!(preview().await.unwrap().changes, Some(Vec::new()), "it is so already");
    assert_eq!(api.get("web").await.unwrap().spec.replicas, Some(1), "looking changes nothing");
    server.kubectl(&["delete", "deploy/web"]);
    assert_eq!(preview().await.unwrap_err(), "Deployment default/web is gone");
    apply();
    assert_eq!(preview().await.unwrap_err(), "Deployment default/web is now a different object");
    server.stop();
}
