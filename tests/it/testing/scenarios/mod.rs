//! Scenarios (FAULT-2) on the manual clock: playing, checks, scores and cleanup.

mod drills;

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use podium::api::{DeleteOptions, WriteOptions};
use podium::extension::fault::Fault;
use podium::extension::scenario::{
    AllScenarioRuns, RUNS_NAME, RUNS_NAMESPACE, Scenario, ScenarioPhase, ScenarioRun, ScenarioStatus,
};
use podium::object::well_known::annotation::PODIUM_MADE_BY_SCENARIO;
use podium::object::{Key, Kind, Object, SharedObject, TypedKind};
use podium::testing::{Cluster, Failure, Requests};
use serde_json::{Value, json};

fn begin(cluster: &Cluster, name: &str, spec: &Value) {
    let object = Object::from_value(
        Scenario::kind(),
        json!({"apiVersion": "podium.dev/v1alpha1", "metadata": {"name": name}, "spec": spec}),
    )
    .unwrap();
    cluster.api().create(object, &WriteOptions::default()).unwrap();
}

fn scenario(cluster: &Cluster, name: &str) -> SharedObject<Scenario> {
    cluster.api().get_as(&Key::new("", name)).unwrap()
}

fn status(cluster: &Cluster, name: &str) -> ScenarioStatus {
    scenario(cluster, name).status.clone().unwrap_or_default()
}

fn end(cluster: &Cluster, name: &str) {
    cluster.api().delete(Scenario::kind(), &Key::new("", name), &DeleteOptions::default()).unwrap();
}

async fn pass_seconds(cluster: &Cluster, seconds: u64) {
    cluster.advance(Duration::from_secs(seconds)).await.unwrap();
}

fn map(name: &str, word: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"word": word}})
}

fn word_is(name: &str, word: &str, kind: &str, patience: &str) -> Value {
    json!({"name": format!("{word}-{}", kind.to_lowercase()), "kind": kind, "for": patience,
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": name}, "holds": format!("object.data.word == '{word}'")})
}

/// A map with a word that turns bad after 10 s, and must be good again.
fn bad_word() -> Value {
    json!({"title": "A bad word", "briefing": "Mend $(which).", "hints": ["one", "two"], "timeLimit": "5m",
        "setup": [map("m", "good")],
        "ready": [{"name": "there", "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "m"}, "holds": "object != null"}],
        "variables": [{"name": "which", "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "m"},
            "value": "object.metadata.name"}],
        "steps": [{"at": "10s", "apply": [map("m", "bad")]}],
        "check": [word_is("m", "bad", "Trouble", "0s"), word_is("m", "good", "Repair", "5s")],
        "verdict": {"passed": "Good.", "failed": "Bad."}})
}

fn fix_word(cluster: &Cluster, name: &str) {
    cluster
        .api()
        .acting_as("kubectl-edit")
        .modify::<ConfigMap>(&Key::new("default", name), |map| {
            map.data.get_or_insert_default().insert("word".into(), "good".into());
            Ok(())
        })
        .unwrap();
}

fn exists(cluster: &Cluster, name: &str) -> bool {
    cluster.api().get(Kind::ConfigMap, &Key::new("default", name)).is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_scenario_is_played_from_its_setup_to_its_score_fault_2() {
    let cluster = Cluster::start().await.unwrap();
    begin(&cluster, "s", &bad_word());
    pass_seconds(&cluster, 3).await;
    let now = status(&cluster, "s");
    assert_eq!((now.phase, now.steps_done), (ScenarioPhase::Running, 0));
    assert_eq!(now.briefing.as_deref(), Some("Mend m."));
    pass_seconds(&cluster, 12).await;
    let now = status(&cluster, "s");
    assert_eq!((now.phase, now.steps_done, now.detected_at.is_some()), (ScenarioPhase::Running, 1, false));
    fix_word(&cluster, "m");
    pass_seconds(&cluster, 3).await;
    assert_eq!(status(&cluster, "s").detected_by.as_deref(), Some("kubectl-edit changed configmap m"));
    assert_eq!(status(&cluster, "s").phase, ScenarioPhase::Running, "it has to stay good for a while");
    pass_seconds(&cluster, 10).await;
    let now = status(&cluster, "s");
    assert_eq!((now.phase, now.score, now.cleaned), (ScenarioPhase::Passed, Some(100), true));
    assert!(now.message.unwrap().ends_with(". Good."));
    assert!(!exists(&cluster, "m"), "the scenario's objects are gone");
    let events = cluster.api().list_as::<Event>(None);
    for reason in ["ScenarioBegan", "StepDone", "ScenarioPassed"] {
        assert!(events.iter().any(|event| event.reason.as_deref() == Some(reason)), "{reason}");
    }
    let resumed = events.iter().find(|event| event.reason.as_deref() == Some("ScenarioResumed"));
    assert!(resumed.is_none(), "the control plane did not restart");
    end(&cluster, "s");
    pass_seconds(&cluster, 2).await;
    assert_eq!(cluster.api().count(Scenario::kind()), 0);
}

fn runs(cluster: &Cluster) -> AllScenarioRuns {
    let map = cluster.api().get_as::<ConfigMap>(&Key::new(RUNS_NAMESPACE, RUNS_NAME));
    map.ok().and_then(|map| map.data.as_ref().map(AllScenarioRuns::of_data)).unwrap_or_default()
}

/// The object of a run is deleted before the next run; the best result stays.
#[tokio::test(start_paused = true)]
async fn the_best_of_several_runs_is_saved_after_their_objects_are_deleted_fault_2() {
    let cluster = Cluster::start().await.unwrap();
    assert_eq!(runs(&cluster), AllScenarioRuns::default());
    let mut uids = Vec::new();
    for (mends, hints) in [(true, 1), (true, 0), (false, 0)] {
        begin(&cluster, "s", &bad_word());
        pass_seconds(&cluster, 15).await;
        cluster
            .api()
            .modify::<Scenario>(&Key::new("", "s"), |scenario| {
                scenario.spec.hints_requested = Some(hints);
                scenario.spec.stop = (!mends).then_some(true);
                Ok(())
            })
            .unwrap();
        pass_seconds(&cluster, 2).await;
        if mends {
            fix_word(&cluster, "m");
        }
        pass_seconds(&cluster, 10).await;
        uids.push(scenario(&cluster, "s").uid().to_owned());
        end(&cluster, "s");
        pass_seconds(&cluster, 2).await;
        assert_eq!(cluster.api().count(Scenario::kind()), 0);
    }
    let all = runs(&cluster);
    let runs = all.of("s").unwrap();
    let summaries: Vec<String> = runs.all().iter().map(ScenarioRun::summary).collect();
    assert_eq!(summaries, ["90 of 100, with 1 hint", "100 of 100", "failed"]);
    assert_eq!((&runs.best().unwrap().uid, &runs.last().unwrap().uid), (&uids[1], &uids[2]));
    let best = runs.best().unwrap();
    assert!(best.repair_seconds.unwrap() <= 15 && best.detect_seconds <= best.repair_seconds, "{best:?}");
    assert_eq!(runs.last().unwrap().reason.as_deref(), Some("GivenUp"));
    assert_eq!(runs.best_before(&runs.all()[1].clone()).unwrap().uid, uids[0], "it was better than before");
}

/// A scenario that never started does not count as a run.
#[tokio::test(start_paused = true)]
async fn a_scenario_that_cannot_be_played_is_no_run_fault_2() {
    let cluster = Cluster::start().await.unwrap();
    cluster.apply(&map("m", "mine").to_string()).await.unwrap();
    begin(&cluster, "s", &bad_word());
    pass_seconds(&cluster, 5).await;
    assert_eq!(status(&cluster, "s").phase, ScenarioPhase::Failed);
    assert_eq!(runs(&cluster), AllScenarioRuns::default());
}

#[tokio::test(start_paused = true)]
async fn an_unsolved_scenario_fails_at_its_time_limit_and_hints_cost_points_fault_2() {
    let cluster = Cluster::start().await.unwrap();
    begin(&cluster, "idle", &bad_word());
    pass_seconds(&cluster, 295).await;
    assert_eq!(status(&cluster, "idle").phase, ScenarioPhase::Running);
    pass_seconds(&cluster, 15).await;
    let now = status(&cluster, "idle");
    assert_eq!(
        (now.phase, now.reason.as_deref(), now.score),
        (ScenarioPhase::Failed, Some("TimeOver"), Some(0))
    );
    assert!(now.message.unwrap().contains("without good-repair. Bad."));

    begin(&cluster, "hinted", &bad_word());
    pass_seconds(&cluster, 15).await;
    cluster
        .api()
        .modify::<Scenario>(&Key::new("", "hinted"), |scenario| {
            scenario.spec.hints_requested = Some(2);
            Ok(())
        })
        .unwrap();
    pass_seconds(&cluster, 2).await;
    assert_eq!(scenario(&cluster, "hinted").revealed_hints(), ["one", "two"]);
    fix_word(&cluster, "m");
    pass_seconds(&cluster, 10).await;
    let now = status(&cluster, "hinted");
    assert_eq!((now.phase, now.score), (ScenarioPhase::Passed, Some(80)));
}

/// Objects that others created are neither taken over nor removed.
#[tokio::test(start_paused = true)]
async fn scenarios_do_not_touch_objects_that_others_created_fault_2_safe_10() {
    let cluster = Cluster::start().await.unwrap();
    cluster.apply(&map("m", "mine").to_string()).await.unwrap();
    begin(&cluster, "s", &bad_word());
    pass_seconds(&cluster, 5).await;
    let now = status(&cluster, "s");
    assert_eq!((now.phase, now.reason.as_deref()), (ScenarioPhase::Failed, Some("CannotBePlayed")));
    assert_eq!(
        now.message.as_deref(),
        Some("configmap default/m already exists; this scenario did not create it")
    );
    let mut spec = bad_word();
    spec["setup"] = json!([map("other", "good")]);
    spec["steps"] = json!([{"at": "1s", "delete": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "m"}]}]);
    begin(&cluster, "thief", &spec);
    pass_seconds(&cluster, 5).await;
    let now = status(&cluster, "thief");
    assert_eq!(
        now.message.as_deref(),
        Some("configmap default/m is not deleted: this scenario did not create it. Bad.")
    );
    assert!(exists(&cluster, "m") && !exists(&cluster, "other"));
    let mine: SharedObject<ConfigMap> = cluster.api().get_as(&Key::new("default", "m")).unwrap();
    assert_eq!(mine.data.as_ref().unwrap()["word"], "mine");
}

/// A failed write is tried again; an invalid one is reported with the server's message.
#[tokio::test(start_paused = true)]
async fn writes_that_fail_are_tried_again_and_wrong_ones_end_it_fault_2() {
    let cluster = Cluster::start().await.unwrap();
    let fault = cluster.fail(Requests::to("configmaps").from("podium-scenarios"), Failure::Unavailable);
    begin(&cluster, "s", &bad_word());
    pass_seconds(&cluster, 20).await;
    let now = status(&cluster, "s");
    assert_eq!((now.phase, now.setup_done), (ScenarioPhase::Preparing, 0));
    assert!(now.message.unwrap().starts_with("configmap default/m: "));
    fault.heal();
    pass_seconds(&cluster, 5).await;
    assert_eq!(status(&cluster, "s").phase, ScenarioPhase::Running);
    end(&cluster, "s");
    pass_seconds(&cluster, 3).await;
    assert!(
        (cluster.api().count(Scenario::kind()), exists(&cluster, "m")) == (0, false),
        "it ends cleanly in the middle"
    );

    let mut spec = bad_word();
    spec["setup"][0]["date"] = json!({});
    begin(&cluster, "wrong", &spec);
    pass_seconds(&cluster, 3).await;
    let now = status(&cluster, "wrong");
    assert_eq!(now.phase, ScenarioPhase::Failed);
    assert!(now.message.as_deref().unwrap().contains("date"), "{:?}", now.message);
}

#[tokio::test(start_paused = true)]
async fn a_fault_ends_with_its_scenario_and_what_is_to_stay_stays_fault_2() {
    let cluster = Cluster::start().await.unwrap();
    let mut spec = bad_word();
    spec["cleanUp"] = json!(false);
    spec["steps"] = json!([
        {"at": "0s", "fault": {"name": "cut", "spec": {"type": "Partition", "from": {"node": "hollow-00001"}}}},
        {"at": "1s", "fault": {"name": "slow", "spec": {"type": "Latency", "from": {"node": "hollow-00001"}, "latency": {"delay": "50ms"}}}},
        {"at": "20s", "heal": "slow"},
    ]);
    begin(&cluster, "s", &spec);
    pass_seconds(&cluster, 10).await;
    let faults = |cluster: &Cluster| {
        let faults = cluster.api().list(Fault::kind(), None).objects;
        faults.iter().map(|fault| fault.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(faults(&cluster), ["s-cut", "s-slow"]);
    let made = cluster.api().get(Fault::kind(), &Key::new("", "s-cut")).unwrap();
    assert_eq!(
        made.meta().annotations.as_ref().unwrap()[PODIUM_MADE_BY_SCENARIO],
        scenario(&cluster, "s").uid()
    );
    assert_eq!(status(&cluster, "s").detected_at, None);
    pass_seconds(&cluster, 15).await;
    assert_eq!(faults(&cluster), ["s-cut"]);
    assert_eq!(status(&cluster, "s").detected_at, None, "it has ended that fault itself");
    cluster
        .api()
        .modify::<Scenario>(&Key::new("", "s"), |scenario| {
            scenario.spec.stop = Some(true);
            Ok(())
        })
        .unwrap();
    pass_seconds(&cluster, 3).await;
    let now = status(&cluster, "s");
    assert_eq!((now.reason.as_deref(), now.cleaned), (Some("GivenUp"), true));
    assert_eq!(faults(&cluster), Vec::<String>::new());
    assert!(exists(&cluster, "m"));
}
