//! Drafts of unsaved edits, on a test terminal (CON-17).

use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::tabs_tests::{TestConsole, objects};
use super::*;
use console_data::drafts::{Draft, DraftKey};
use console_data::message::Data;
use console_data::message::Message;
use console_data::resource::Kind;
use console_data::resource::{KindFacts, ObjectRef};
use console_data::store::{Change, Delta};
use console_operations::effect::Route;
use console_screens::edit::EditData;

/// A console with a known cluster and the editor on an object; also returns the jobs of opening it.
fn editing(plural: &str, width: u16) -> (TestConsole, Vec<Job>) {
    let mut stage = TestConsole::new(width, 30);
    stage.model.setup.config_dir = Some("/nowhere".into());
    let system = json!({"metadata": {"name": "kube-system", "uid": "c1"}});
    stage.feed(Delta::of::<Namespace>(vec![Change::Applied(objects([system]).remove(0))]));
    let kind = Kind::new(KindFacts {
        resource: ResourceKey { group: "".into(), version: "v1".into(), plural: plural.to_owned().into() },
        kind: "Thing".into(),
        singular: "thing".into(),
        namespaced: true,
        short_names: Vec::new(),
        subresources: BTreeMap::new(),
        verbs: ["get", "update"].map(String::from).into(),
    });
    let object =
        ObjectRef { kind, namespace: Some("default".into()), name: "web".into(), uid: Some("u1".into()) };
    let now = stage.now;
    let jobs = stage.model.open(Route::Edit(object).into(), now);
    (stage, jobs)
}

fn object(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "default", "uid": uid},
        "data": {"colour": "blue"}})
}

fn send(stage: &mut TestConsole, data: EditData) -> Vec<Job> {
    let id = stage.model.top().0;
    stage.model.update(Message::Data(id, Data::new(data)), stage.now)
}

fn loaded(stage: &mut TestConsole) {
    send(stage, EditData::Object(Box::new(object("u1"))));
}

fn draft(uid: &str) -> Draft {
    let key = DraftKey {
        group: String::new(),
        plural: "configmaps".into(),
        namespace: Some("default".into()),
        name: "web".into(),
    };
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  namespace: default\ndata:\n  colour: green\n";
    Draft { key, at: "2026-05-01T09:03:00Z".parse().unwrap(), text: text.into(), base: object(uid) }
}

fn offered(stage: &mut TestConsole, uid: &str) {
    let id = stage.model.top().0;
    stage.model.update(Message::Draft(id, Box::new(draft(uid))), stage.now);
}

fn is_forgotten(jobs: &[Job]) -> bool {
    jobs.iter()
        .any(|job| matches!(job, Job::Disk(uid, DiskJob::RemoveDraft(key)) if uid.as_str() == "c1" && key.name == "web"))
}

#[test]
fn a_draft_is_stored_and_removed_once_saved_or_discarded_con_17() {
    let (mut stage, jobs) = editing("configmaps", 100);
    assert!(
        jobs.iter().any(|job| matches!(job, Job::Disk(uid, DiskJob::ReadDraft(_, key))
        if uid.as_str() == "c1" && key.describe() == "configmaps default/web")),
        "{jobs:?}"
    );
    loaded(&mut stage);
    assert!(stage.model.unsaved_drafts().is_empty(), "nothing is typed yet");
    let jobs = stage.press("end \"s\"");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(task) if task.slot() == "draft")), "{jobs:?}");
    let jobs = send(&mut stage, EditData::Rested);
    let Some(Job::Disk(cluster, DiskJob::SaveDraft(saved))) = jobs.first() else { panic!("{jobs:?}") };
    assert_eq!((cluster.as_str(), saved.at, saved.uid()), ("c1", stage.now, Some("u1")));
    assert!(saved.text.contains("data:s") || saved.text.contains("s\n"), "{}", saved.text);
    // At its end the console does not wait for a pause in typing.
    assert_eq!(stage.model.unsaved_drafts(), [(cluster.clone(), (**saved).clone())]);
    let jobs = stage.press("backspace");
    assert!(is_forgotten(&jobs), "an unchanged text leaves no draft: {jobs:?}");
    stage.press("\"s\"");
    assert!(is_forgotten(&send(&mut stage, EditData::Saved)));
    let (mut stage, _) = editing("configmaps", 100);
    loaded(&mut stage);
    stage.press("\"s\" esc");
    assert!(is_forgotten(&stage.press("tab enter")), "{}", stage.screen());
}

#[test]
fn an_earlier_draft_is_offered_and_never_applied_automatically_con_17() {
    for width in [80, 140] {
        let (mut stage, _) = editing("configmaps", width);
        loaded(&mut stage);
        offered(&mut stage, "u1");
        let screen = stage.screen();
        for expected in [
            "Unsaved edit of 2026-05-01 09:03 UTC", "<r> restores it", "<x> discards it", "+   colour: green",
        ] {
            assert!(screen.contains(expected), "{expected}\n{screen}");
        }
        let jobs = stage.press("\"q\" space");
        assert!(jobs.is_empty(), "no key types before it is answered: {jobs:?}");
        assert!(stage.screen().contains("Unsaved edit"), "{}", stage.screen());
        // After stray letters, letters do not answer the dialog until another key is pressed.
        stage.press("r");
        assert!(stage.screen().contains("Unsaved edit"), "{}", stage.screen());
        stage.press("down r");
        let screen = stage.screen();
        assert!(screen.contains("colour: green") && !screen.contains("Unsaved edit"), "{screen}");
        assert!(screen.contains("changed"), "it is not saved:\n{screen}");
        assert_eq!(stage.model.unsaved_drafts()[0].1.text, draft("u1").text);
        assert_eq!(
            stage.model.unsaved_drafts()[0].1.base,
            object("u1"),
            "others' changes are merged with it"
        );

        let (mut stage, _) = editing("configmaps", width);
        loaded(&mut stage);
        offered(&mut stage, "u1");
        assert!(is_forgotten(&stage.press("x")));
        assert!(stage.screen().contains("colour: blue"), "{}", stage.screen());

        let (mut stage, _) = editing("configmaps", width);
        loaded(&mut stage);
        offered(&mut stage, "u1");
        assert!(!is_forgotten(&stage.press("esc")), "later is not never");
        stage.model.toasts.expire(Timestamp::MAX);
        assert!(stage.screen().contains("colour: blue"), "{}", stage.screen());
    }
}

#[test]
fn an_offered_draft_names_its_object_and_does_not_replace_typed_text_con_17() {
    let (mut stage, _) = editing("configmaps", 100);
    loaded(&mut stage);
    offered(&mut stage, "u0");
    assert!(stage.screen().contains("an earlier object of this name"), "{}", stage.screen());
    // The text of a deleted object's draft is available, too.
    let (mut stage, _) = editing("configmaps", 100);
    offered(&mut stage, "u1");
    send(&mut stage, EditData::Failed("configmaps \"web\" not found".into()));
    let screen = stage.screen();
    assert!(screen.contains("not found") && screen.contains("Unsaved edit"), "{screen}");
    stage.press("r");
    assert!(stage.screen().contains("colour: green"), "{}", stage.screen());
    // A user who is already typing is not interrupted.
    let (mut stage, _) = editing("configmaps", 100);
    loaded(&mut stage);
    stage.press("\"mine\"");
    offered(&mut stage, "u1");
    let screen = stage.screen();
    assert!(screen.contains("mine") && !screen.contains("Unsaved edit"), "{screen}");
}

#[test]
fn drafts_of_secrets_are_never_stored_con_17() {
    let (mut stage, jobs) = editing("secrets", 100);
    assert!(!jobs.iter().any(|job| matches!(job, Job::Disk(_, DiskJob::ReadDraft(..)))), "{jobs:?}");
    loaded(&mut stage);
    stage.press("\"password\"");
    let jobs = send(&mut stage, EditData::Rested);
    assert!(jobs.is_empty() && stage.model.unsaved_drafts().is_empty(), "{jobs:?}");
}

#[test]
fn unsaved_edits_of_earlier_runs_are_announced_at_start_con_17() {
    let (mut stage, _) = editing("configmaps", 140);
    let drafts = (0..5).map(|n| {
        let name = if n == 4 { "e\u{1b}[2Jvil".to_owned() } else { format!("m{n}") };
        (DraftKey { name, ..draft("u1").key }, stage.now)
    });
    stage.model.update(Message::Drafts(drafts.collect()), stage.now);
    let screen = stage.screen();
    assert!(screen.contains("unsaved edits: configmaps default/e"), "{screen}");
    assert!(screen.contains("2 more") && !screen.contains('\u{1b}'), "{screen}");
    // The objects may be gone, so that a command discards the edits without opening them.
    stage.press("esc : \"discard-edits\" enter");
    assert!(stage.screen().contains("configmaps default/m2"), "{}", stage.screen());
    let jobs = stage.press("right right tab tab enter");
    assert!(matches!(&jobs[..], [Job::Disk(_, DiskJob::RemoveDraft(key))] if key.name == "m1"), "{jobs:?}");
    stage.press(": \"discard-edits\" enter");
    let jobs = stage.press("tab tab enter");
    assert_eq!(
        jobs.iter().filter(|job| matches!(job, Job::Disk(_, DiskJob::RemoveDraft(_)))).count(),
        4,
        "{jobs:?}"
    );
    stage.press(": \"discard-edits\" enter");
    assert!(stage.screen().contains("there are no unsaved edits of earlier runs"), "{}", stage.screen());
}
