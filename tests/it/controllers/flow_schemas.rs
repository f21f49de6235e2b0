//! The status of flow schemas (API-17), on virtual time.

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use podium::api::DeleteOptions;
use podium::object::{Key, Kind};
use serde_json::json;

use super::cluster::{Cluster, NO_NODES};

/// Returns status and message of the condition `Dangling`.
fn dangling(cluster: &Cluster) -> (String, String) {
    let schema = cluster.api.get_as::<FlowSchema>(&Key::new("", "mine")).unwrap();
    let conditions = schema.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let [condition] = conditions.as_slice() else { panic!("{conditions:?}") };
    assert_eq!(condition.type_, "Dangling");
    (condition.status.clone().unwrap(), condition.message.clone().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_flow_schema_says_whether_its_level_is_there_api_17() {
    let cluster = Cluster::start(NO_NODES);
    let subjects = json!([{"kind": "User", "user": {"name": "jo"}}]);
    let rule =
        json!({"subjects": subjects, "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]});
    let schema = json!({"metadata": {"name": "mine"}, "spec": {"rules": [rule],
        "priorityLevelConfiguration": {"name": "narrow"}}});
    cluster.create::<FlowSchema>(schema);
    cluster.settle().await;
    let references = "This FlowSchema references the PriorityLevelConfiguration object named \"narrow\"";
    let absent = ("True".to_string(), format!("{references} but there is no such object"));
    assert_eq!(dangling(&cluster), absent);
    let level = json!({"metadata": {"name": "narrow"}, "spec": {"type": "Limited", "limited": {
        "limitResponse": {"type": "Reject"}}}});
    cluster.create::<PriorityLevelConfiguration>(level);
    cluster.settle().await;
    assert_eq!(dangling(&cluster), ("False".to_string(), format!("{references} and it exists")));
    let key = Key::new("", "narrow");
    cluster.api.delete(Kind::PriorityLevelConfiguration, &key, &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert_eq!(dangling(&cluster), absent);
    cluster.stop().await;
}
