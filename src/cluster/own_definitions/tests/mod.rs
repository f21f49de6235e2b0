//! Podium's own kinds as users see them: messages, columns, and objects of earlier versions.

mod faults;
mod scenarios;

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderMap, Request};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::bootstrap::bootstrap;
use crate::client::in_process;
use api::{ApiConfig, DeleteOptions, Part, WriteOptions};
use apiserver::{Credentials, Server, ServerConfig};
use base::clock::Clock;
use extension::cluster_snapshot::{ClusterRestore, ClusterSnapshot, RestorePhase};
use extension::fault::Fault;
use extension::node_fence::{FencePhase, NodeFence, NodeFenceSpec};
use extension::scenario::{Scenario, ScenarioPhase};
use manifest::from_yaml;
use object::{Kind, Object, TypedKind};
use store::Store;

fn api() -> Api {
    let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
    let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
    apply(&api).unwrap();
    api
}

fn object(kind: Kind, mut fields: Value) -> Object {
    fields["apiVersion"] = json!("podium.dev/v1alpha1");
    fields["metadata"] = json!({"name": "n"});
    Object::from_value(kind, fields).unwrap()
}

fn fence(spec: &Value) -> Object {
    object(NodeFence::kind(), json!({"spec": spec}))
}

/// Returns the errors of a new object with these fields, in order of the texts.
fn errors_of<T: TypedKind>(api: &Api, text: &str) -> Vec<String> {
    let fields = from_yaml(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
    messages(api.create(object(T::kind(), fields), &options))
}

fn messages<T>(outcome: Result<T, ApiError>) -> Vec<String> {
    let Err(error) = outcome else { return Vec::new() };
    let ApiError::Invalid { causes, .. } = error else { panic!("{error}") };
    let mut all: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    all.sort();
    all
}

/// The error after one that makes rules meaningless.
const UNCHECKED: &str = "<nil>: Invalid value: \"null\": some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// Checks the errors of new objects.
fn check<T: TypedKind>(cases: &[(&str, &[&str])]) {
    let api = api();
    for (text, expected) in cases {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(errors_of::<T>(&api, text), expected, "{text}");
    }
}

/// Checks the errors of updates: (old, new, expected).
fn check_change<T: TypedKind>(cases: &[(&str, &str, &[&str])]) {
    for (old, new, expected) in cases {
        let api = api();
        let made = api.create(object(T::kind(), from_yaml(old).unwrap()), &WriteOptions::default()).unwrap();
        let mut new = from_yaml(new).unwrap();
        new["metadata"] = json!({"name": "n", "resourceVersion": made.meta().resource_version});
        new["apiVersion"] = json!("podium.dev/v1alpha1");
        let changed = Object::from_value(T::kind(), new).unwrap();
        assert_eq!(messages(api.update(&changed, Part::Main, &WriteOptions::default())), *expected, "{old}");
    }
}

#[test]
fn fences_say_why_and_no_more_safe_5() {
    let api = api();
    let create = |spec: &Value| {
        let created = api.create(fence(spec), &WriteOptions::default());
        created.map_err(|error| error.to_string())
    };
    let error = create(&json!({"reason": "x".repeat(1025)})).unwrap_err();
    assert!(error.contains("spec.reason: Too long: may not be more than 1024 bytes"), "{error}");
    create(&json!({})).unwrap();
    let key = Key::new("", "n");
    api.delete(NodeFence::kind(), &key, &DeleteOptions::default()).unwrap();
    create(&json!({"reason": "it hangs"})).unwrap();
    let changed = api.modify::<NodeFence>(&key, |fence| {
        fence.spec.reason = Some("another".into());
        Ok(())
    });
    assert_eq!(
        changed.unwrap_err().to_string(),
        "NodeFence.podium.dev \"n\" is invalid: spec: Forbidden: field is immutable"
    );
}

#[test]
fn restores_name_a_snapshot_safe_8() {
    let api = api();
    let create = |kind: Kind, spec: &Value| {
        let value = json!({"apiVersion": "podium.dev/v1alpha1", "metadata": {"name": "r"}, "spec": spec});
        let created = api.create(Object::from_value(kind, value).unwrap(), &WriteOptions::default());
        created.map_err(|error| error.to_string())
    };
    let (snapshot, restore) = (ClusterSnapshot::kind(), ClusterRestore::kind());
    for (spec, error) in [
        (json!({}), "spec.snapshot: Required value"),
        (
            json!({"snapshot": "a", "gracePeriodSeconds": 86401}),
            "spec.gracePeriodSeconds: Invalid value: 86401: must be between 0 and 86400, inclusive",
        ),
        (
            json!({"snapshot": "a", "gracePeriodSeconds": -1}),
            "spec.gracePeriodSeconds: Invalid value: -1: must be between 0 and 86400, inclusive",
        ),
    ] {
        let refused = create(restore, &spec).unwrap_err();
        assert!(refused.contains(error), "{spec}: {refused}");
    }
    let error = create(restore, &json!({"snapshot": "A"})).unwrap_err();
    assert!(error.contains("spec.snapshot: Invalid value: \"A\": a lowercase RFC 1123 subdomain"), "{error}");
    create(restore, &json!({"snapshot": "before-lunch", "claims": true, "gracePeriodSeconds": 0})).unwrap();
    create(snapshot, &json!({"claims": true})).unwrap();
    let key = Key::new("", "r");
    let changed = api.modify::<ClusterSnapshot>(&key, |snapshot| {
        snapshot.spec.claims = None;
        Ok(())
    });
    assert!(changed.unwrap_err().to_string().ends_with("spec: Forbidden: field is immutable"));
    let changed = api.modify::<ClusterRestore>(&key, |restore| {
        restore.spec.snapshot = "b".into();
        Ok(())
    });
    assert!(changed.unwrap_err().to_string().ends_with("spec: Forbidden: field is immutable"));
}

#[test]
fn a_snapshot_has_a_description_of_limited_length_safe_8() {
    let long = |length: usize| format!("spec: {{description: {}}}", "x".repeat(length));
    check::<ClusterSnapshot>(&[
        ("spec: {claims: true, description: 'before the upgrade: 2 nodes'}", &[]),
        ("spec: {description: ''}", &[]),
        (long(1024).as_str(), &[]),
        (long(1025).as_str(), &["spec.description: Too long: may not be more than 1024 bytes", UNCHECKED]),
    ]);
    check_change::<ClusterSnapshot>(&[(
        "spec: {description: a}",
        "spec: {description: b}",
        &["spec: Forbidden: field is immutable"],
    )]);
}

#[test]
fn a_status_is_written_apart_from_the_spec_safe_5() {
    let api = api();
    let created = api.create_as(NodeFence::new("n", NodeFenceSpec::default())).unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    let written = api.modify_status::<NodeFence>(&created.key(), |fence| {
        fence.status.get_or_insert_default().phase = FencePhase::Killing;
        Ok(())
    });
    let written = written.unwrap();
    assert_eq!(written.phase(), FencePhase::Killing);
    assert_eq!(written.metadata.generation, Some(1));
    assert_eq!(api.list_as::<NodeFence>(None).len(), 1);
}

#[test]
fn a_second_start_changes_no_definition_of_ours_api_14() {
    let api = api();
    let before = api.revision();
    apply(&api).unwrap();
    assert_eq!(api.revision(), before);
    let key = Key::new("", "nodefences.podium.dev");
    api.modify::<CustomResourceDefinition>(&key, |definition| {
        definition.spec.versions[0].additional_printer_columns = None;
        Ok(())
    })
    .unwrap();
    apply(&api).unwrap();
    let definition = api.get_as::<CustomResourceDefinition>(&key).unwrap();
    assert_eq!(definition.spec.versions[0].additional_printer_columns.as_ref().map(Vec::len), Some(4));
}

/// A user has objects stored in a version of their own. It stays, so that these objects stay readable.
#[test]
fn a_definition_with_a_moved_storage_version_is_reverted_api_14() {
    let api = api();
    let key = Key::new("", "nodefences.podium.dev");
    let versions = || {
        let definition = api.get_as::<CustomResourceDefinition>(&key).unwrap();
        let versions = definition.spec.versions.iter();
        versions
            .map(|version| format!("{} {} {}", version.name, version.served, version.storage))
            .collect::<Vec<_>>()
    };
    api.modify::<CustomResourceDefinition>(&key, |definition| {
        let mut moved = definition.spec.versions[0].clone();
        moved.name = "v2".into();
        definition.spec.versions[0].storage = false;
        definition.spec.versions.push(moved);
        Ok(())
    })
    .unwrap();
    controllers::establish_definition(&api, &key).unwrap();
    assert_eq!(versions(), ["v1alpha1 true false", "v2 true true"]);
    api.create(fence(&json!({"reason": "it hangs"})), &WriteOptions::default()).unwrap();
    apply(&api).unwrap();
    assert_eq!(versions(), ["v1alpha1 true true", "v2 false false"]);
    let before = api.revision();
    apply(&api).unwrap();
    assert_eq!(api.revision(), before);
    assert_eq!(api.get_as::<NodeFence>(&Key::new("", "n")).unwrap().spec.reason.as_deref(), Some("it hangs"));
    api.modify_status::<CustomResourceDefinition>(&key, |definition| {
        definition.status.get_or_insert_default().stored_versions = Some(vec!["v1alpha1".into()]);
        Ok(())
    })
    .unwrap();
    apply(&api).unwrap();
    assert_eq!(versions(), ["v1alpha1 true true"]);
}

/// Returns the cells of the only object of a kind as kubectl prints them: nothing for null, which the server sends where
/// a column's path finds nothing.
async fn cells(client: &kube::Client, plural: &str) -> String {
    let request = Request::get(format!("/apis/podium.dev/v1alpha1/{plural}"))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = client.request(request).await.unwrap();
    let cells = table["rows"][0]["cells"].as_array().unwrap().iter();
    let text = |cell: &Value| match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    cells.map(text).collect::<Vec<_>>().join("|")
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_ours_has_a_cell_a_column_api_6() {
    let api = api();
    let stopping = CancellationToken::new();
    let server = Server::new(api.clone(), Credentials::new(""), stopping.clone(), ServerConfig::default());
    let client = in_process(server, HeaderMap::new());
    let condition = |type_: &str| {
        json!([{"type": type_, "status": "True", "reason": "Done", "message": "m",
            "lastTransitionTime": "2026-11-21T00:00:00Z"}])
    };
    let (snapshot, restore) = (ClusterSnapshot::kind(), ClusterRestore::kind());
    let (fault, node, scenario) = (Fault::kind(), NodeFence::kind(), Scenario::kind());
    let check = json!({"name": "c", "kind": "Repair", "object": {"apiVersion": "v1", "kind": "Pod"}, "holds": "true"});
    let played = json!({"title": "t", "check": [check]});
    for (kind, spec, status, expected) in [
        (snapshot, json!({}), None, "n|Unknown||||30m||"),
        (
            snapshot,
            json!({"claims": true, "description": "before lunch"}),
            Some(json!({"objects": 3, "bytes": 900, "conditions": condition("Ready")})),
            "n|True|3|900||30m|before lunch|m",
        ),
        (restore, json!({"snapshot": "s"}), None, "n|s|Pending||30m|"),
        (
            restore,
            json!({"snapshot": "s"}),
            Some(json!({"phase": "Completed", "before": "b", "conditions": condition("Complete")})),
            "n|s|Completed|b|30m|m",
        ),
        (
            fault,
            json!({"type": "Loss", "from": {"node": "a"}, "loss": {"perMille": 5}, "duration": "30s"}),
            Some(json!({"from": "node/a", "to": "<all>", "active": "False (Expired)", "duration": "30s",
                "meets": "node a and all other addresses"})),
            "n|Loss|node/a|<all>|False (Expired)|30s|30m|node a and all other addresses",
        ),
        (
            fault,
            json!({"type": "Partition", "from": {"pod": "a", "namespace": "b"}, "to": {"cidr": "10.0.0.0/8"}}),
            None,
            "n|Partition|||Unknown||30m|",
        ),
        (node, json!({}), None, "n|Pending||30m|"),
        (
            node,
            json!({"reason": "it hangs"}),
            Some(json!({"phase": "Fenced", "conditions": condition("Fenced")})),
            "n|Fenced|it hangs|30m|m",
        ),
        (scenario, played.clone(), None, "n|t|Pending||30m|"),
        (
            scenario,
            played,
            Some(json!({"phase": "Passed", "score": 90, "message": "m"})),
            "n|t|Passed|90|30m|m",
        ),
    ] {
        let plural = kind.info().plural;
        api.create(object(kind, json!({"spec": spec})), &WriteOptions::default()).unwrap();
        if let Some(status) = status {
            let patch = json!({"status": status}).to_string().into_bytes();
            let request = Request::patch(format!("/apis/podium.dev/v1alpha1/{plural}/n/status"))
                .header("content-type", "application/merge-patch+json")
                .body(patch)
                .unwrap();
            client.request::<Value>(request).await.unwrap();
        }
        tokio::time::sleep(Duration::from_mins(30)).await;
        assert_eq!(cells(&client, plural).await, expected, "{kind}");
        api.delete(kind, &Key::new("", "n"), &DeleteOptions::default()).unwrap();
    }
    stopping.cancel();
}

/// The status that a definition fills in is the API's: the user who created the object does not manage it.
#[test]
fn a_default_status_has_no_manager_api_13() {
    let api = api();
    let options = WriteOptions { field_manager: Some("kubectl".into()), ..WriteOptions::default() };
    let stored = api.create(fence(&json!({"reason": "it hangs"})), &options).unwrap();
    let managers = stored.managed_fields().to_value().to_string();
    assert!(managers.contains("f:reason") && !managers.contains("f:status"), "{managers}");
}

/// Versions of Podium in which the kinds were built in wrote the same records (`store::archive` compares the keys).
#[test]
fn objects_from_before_the_definitions_are_served_safe_8() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let condition = |type_: &str| {
        json!([{"type": type_, "status": "True", "reason": "Done", "message": "m",
            "lastTransitionTime": "2026-11-21T00:00:00Z"}])
    };
    {
        let store = Store::open(&state).unwrap();
        for (kind, fields) in [
            (
                NodeFence::kind(),
                json!({"spec": {"reason": "it hangs"}, "status": {"phase": "Fenced",
                    "startedAt": "2026-11-21T00:00:00Z", "fencedAt": "2026-11-21T00:00:01Z",
                    "conditions": condition("Fenced")}}),
            ),
            (
                ClusterSnapshot::kind(),
                json!({"spec": {"claims": true}, "status": {"takenAt": "2026-11-21T00:00:00Z", "revision": 7,
                    "objects": 3, "bytes": 900, "claims": 1, "conditions": condition("Ready")}}),
            ),
            (
                ClusterRestore::kind(),
                json!({"spec": {"snapshot": "n"}, "status": {"phase": "Completed", "before": "before-n"}}),
            ),
            (
                Fault::kind(),
                json!({"spec": {"type": "Partition", "from": {"node": "a"}, "direction": "Both"}, "status": {
                    "observedGeneration": 1, "startedAt": "2026-11-21T00:00:00Z", "meets": "node a",
                    "conditions": condition("Active")}}),
            ),
            (
                Scenario::kind(),
                json!({"spec": {"title": "t", "setup": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}],
                    "steps": [{"at": "1s", "fault": {"name": "f", "spec": {"type": "Crash"}}}],
                    "check": [{"name": "c", "kind": "Repair", "object": {"apiVersion": "v1", "kind": "Pod"},
                        "with": {"other": {"apiVersion": "v1", "kind": "Node"}}, "holds": "true"}]},
                    "status": {"phase": "Running", "setupDone": 1, "stepsDone": 1, "hintsShown": 0, "cleaned": false}}),
            ),
        ] {
            store.create(object(kind, fields)).unwrap();
        }
        store.close();
    }
    let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
    let api = Api::new(Store::open(&state).unwrap(), clock, ApiConfig::default());
    let listening = SocketAddr::from(([127, 0, 0, 1], 6443));
    bootstrap(&api, listening, [127, 32, 0, 1].into()).unwrap();
    let key = Key::new("", "n");
    let fence = api.get_as::<NodeFence>(&key).unwrap();
    assert_eq!((fence.phase(), fence.spec.reason.as_deref()), (FencePhase::Fenced, Some("it hangs")));
    let snapshot = api.get_as::<ClusterSnapshot>(&key).unwrap();
    assert_eq!((snapshot.has_claims(), snapshot.status.as_ref().unwrap().bytes), (true, Some(900)));
    assert_eq!(api.get_as::<ClusterRestore>(&key).unwrap().phase(), RestorePhase::Completed);
    let fault = api.get_as::<Fault>(&key).unwrap();
    assert_eq!((fault.first_side_text().as_str(), fault.spec.direction.as_deref()), ("node/a", Some("Both")));
    let scenario = api.get_as::<Scenario>(&key).unwrap();
    assert_eq!((scenario.phase(), scenario.spec.setup.len()), (ScenarioPhase::Running, 1));
    let changed = api.modify::<Scenario>(&key, |scenario| {
        scenario.spec.hints_requested = Some(0);
        Ok(())
    });
    assert_eq!(changed.unwrap().spec.steps, scenario.spec.steps);
    let changed = api.modify::<NodeFence>(&key, |fence| {
        fence.metadata.labels = Some([("a".into(), "b".into())].into());
        Ok(())
    });
    assert_eq!(changed.unwrap().phase(), FencePhase::Fenced);
}
