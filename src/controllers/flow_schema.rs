//! Sets a condition on FlowSchemas with a missing priority level, as the API server's own config consumer does in
//! Kubernetes.

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, FlowSchemaCondition, PriorityLevelConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::Context;
use api::{Api, Change};
use object::{Key, SharedObject};
use reconcile::{Cache, ReconcileError, Reconciler, ignore_not_found};

const DANGLING: &str = "Dangling";

pub(super) fn start(context: &Context) {
    let api = context.api.acting_as("api-priority-and-fairness-config-consumer-v1");
    context
        .controller(|_| FlowSchemas { api, schemas: context.caches.of(), levels: context.caches.of() })
        .keys_of::<FlowSchema>()
        .watches::<FlowSchema, _>(|_, change| vec![change.object.key()])
        .watches::<PriorityLevelConfiguration, _>(FlowSchemas::level_changed)
        .run(&context.tasks);
}

struct FlowSchemas {
    api: Api,
    schemas: Cache<FlowSchema>,
    levels: Cache<PriorityLevelConfiguration>,
}

impl FlowSchemas {
    fn level_changed(&self, change: &Change) -> Vec<Key> {
        let name = change.object.name();
        let schemas = self.schemas.list();
        let of_level = schemas.iter().filter(|schema| schema.spec.priority_level_configuration.name == name);
        of_level.map(SharedObject::key).collect()
    }
}

impl Reconciler for FlowSchemas {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(schema) = self.schemas.get(key) else { return Ok(()) };
        let level = &schema.spec.priority_level_configuration.name;
        let is_there = self.levels.get(&Key::new("", level.as_str())).is_some();
        let (status, reason, message) = condition(level, is_there);
        let conditions = schema.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let known = conditions.into_iter().find(|condition| condition.type_ == DANGLING);
        let is_known = known.is_some_and(|known| {
            known.status.as_deref() == Some(status) && known.message.as_deref() == Some(message.as_str())
        });
        if is_known {
            return Ok(());
        }
        let now = Time(self.api.clock().now());
        let written = self.api.modify_status::<FlowSchema>(key, |schema| {
            let conditions = schema.status.get_or_insert_default().conditions.get_or_insert_default();
            let before = conditions.iter().position(|condition| condition.type_ == DANGLING);
            let before = before.map(|at| conditions.remove(at));
            let same = before.filter(|before| before.status.as_deref() == Some(status));
            conditions.push(FlowSchemaCondition {
                type_: DANGLING.into(),
                status: Some(status.into()),
                reason: Some(reason.into()),
                message: Some(message.clone()),
                last_transition_time: same
                    .and_then(|before| before.last_transition_time)
                    .or_else(|| Some(now.clone())),
            });
            Ok(())
        });
        Ok(ignore_not_found(written)?)
    }
}

/// Returns status, reason and message of the condition, in Kubernetes' words.
fn condition(level: &str, is_there: bool) -> (&'static str, &'static str, String) {
    let references = "This FlowSchema references the PriorityLevelConfiguration object named";
    if is_there {
        ("False", "Found", format!("{references} \"{level}\" and it exists"))
    } else {
        ("True", "NotFound", format!("{references} \"{level}\" but there is no such object"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_cluster::TestCluster;
    use api::DeleteOptions;
    use object::Kind;

    /// Returns status and message of the condition `Dangling`.
    fn dangling(cluster: &TestCluster) -> (String, String) {
        let schema = cluster.get::<FlowSchema>("mine");
        let conditions =
            schema.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let [condition] = conditions.as_slice() else { panic!("{conditions:?}") };
        assert_eq!(condition.type_, "Dangling");
        (condition.status.clone().unwrap(), condition.message.clone().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_flow_schema_says_whether_its_level_is_there_api_17() {
        let cluster = TestCluster::start(&["flow-schema-controller"]);
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
}
