//! The journal: every kind of change is remembered with its kubectl command and taken back with one key (CON-15).

use podium::console::action::{Mutation, Outcome};
use podium::console::edit;
use podium::console::message::Message;
use podium::console::model::Job;
use podium::console::store::{Change, Delta};
use serde_json::json;

use super::parts::revision;
use super::stage::{Stage, cluster, objects};
use super::{acted, succeed};

/// The shop, with a revision of `web` to go back to.
fn shop() -> Stage {
    let mut stage = Stage::new(120, 36);
    stage.feed(cluster());
    stage.feed(vec![Delta::ReplicaSets(vec![Change::Reset(objects([
        revision("web-new", "2", 2, "nginx:1.27", None),
        revision("web-old", "1", 3, "nginx:1.25", Some("first try")),
    ]))])]);
    stage
}

#[test]
fn con_15_one_key_takes_each_kind_of_change_back() {
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
        assert_eq!(acted(&stage.press("u")), [back], "{keys}");
    }
}

#[test]
fn con_15_an_edit_is_taken_back_without_touching_what_others_did_since() {
    let mut stage = shop();
    let base = json!({ "metadata": { "name": "web", "resourceVersion": "7" },
        "spec": { "replicas": 3, "paused": true } });
    let typed = json!({ "metadata": { "name": "web" }, "spec": { "replicas": 5 } });
    let target = podium::console::resource::ObjectRef {
        kind: podium::console::resource::Watched::Deployments.kind(),
        namespace: Some("default".to_owned()),
        name: "web".to_owned(),
        uid: None,
    };
    let action = edit::action::save(&target, &typed, &base);
    assert_eq!(
        action.kubectl,
        r#"kubectl patch deployment/web -n default --type=merge -p '{"spec":{"paused":null,"replicas":5}}'"#
    );
    stage.send(Message::Acted(Box::new(Outcome { action, error: None })));
    stage.press("U");
    assert_eq!(
        acted(&stage.press("u")),
        [
            r#"kubectl patch deployment/web -n default --type=merge -p '{"spec":{"replicas":3,"paused":true}}'"#
        ]
    );
}

#[test]
fn con_15_what_could_not_be_taken_back_can_be_tried_again() {
    let mut stage = shop();
    let jobs = stage.press("n c");
    succeed(&mut stage, jobs);
    let jobs = stage.press("U u");
    assert!(stage.screen().contains("taken back"));
    let Some(Job::Act(action)) = jobs.into_iter().find(|job| matches!(job, Job::Act(_))) else {
        panic!("the inverse is on its way");
    };
    let error = Some("nodes \"node-1\" is forbidden".to_owned());
    stage.send(Message::Acted(Box::new(Outcome { action: *action, error })));
    // The failure is the newest line; the change itself stands below it.
    assert_eq!(acted(&stage.press("j u")), ["kubectl uncordon node-1"]);
}

#[test]
fn con_5_an_image_that_is_set_records_its_change_cause() {
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
