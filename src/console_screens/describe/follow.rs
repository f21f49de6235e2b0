//! The watches of the describe screen: its object, and related objects that are in no store.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use serde_json::Value;

use super::DescribeData;
use console_data::action::watch_error_text;
use console_data::decoded::{JsonObject, WatchBackoff, watch_object};
use console_data::resource::ObjectRef;
use console_operations::diagnostics::PolicyTarget;
use console_operations::effect::Outbox;

/// Pause between two evaluations of policies: each evaluation reads all policies, labels and namespaces that affect its
/// result.
const POLICIES: Duration = Duration::from_secs(10);

/// Watches the object until the screen is closed.
pub(crate) async fn follow(out: Outbox, target: ObjectRef) {
    let mut versions = std::pin::pin!(watch_object(target.api(out.client()), &target.name));
    while let Some(version) = versions.next().await {
        let loaded = match version {
            Ok(Some(object)) => DescribeData::Object(Box::new(whole(object, &target))),
            Ok(None) => DescribeData::Deleted,
            Err(error) => DescribeData::Failed(watch_error_text(&error)),
        };
        out.data(loaded).await;
    }
}

/// Watches related objects that the description shows and that are in no store.
pub(crate) async fn follow_beside(out: Outbox, target: ObjectRef) {
    let (api_version, kind, namespace, config) = match target.kind.kind.as_str() {
        "Node" => {
            let named = watcher::Config::default().fields(&format!("metadata.name={}", target.name));
            ("coordination.k8s.io/v1", "Lease", Some("kube-node-lease"), named)
        }
        "Service" => {
            let labels = format!("kubernetes.io/service-name={}", target.name);
            let config = watcher::Config::default().labels(&labels);
            ("discovery.k8s.io/v1", "EndpointSlice", target.namespace.as_deref(), config)
        }
        _ => return,
    };
    let (group, version) = api_version.split_once('/').unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<JsonObject> = Api::namespaced_with(out.client(), namespace.unwrap_or("default"), &resource);
    let mut events = std::pin::pin!(watcher::watcher(api, config).backoff(WatchBackoff::default()));
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    while let Some(event) = events.next().await {
        let key =
            |object: &JsonObject| object.json["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_complete = matches!(event, Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)));
        match event {
            Ok(Event::Init) => all.clear(),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let name = key(&object);
                let mut value = object.json;
                value["kind"] = Value::String(kind.to_owned());
                all.insert(name, value);
            }
            Ok(Event::Delete(object)) => {
                all.remove(&key(&object));
            }
            // If the server does not serve this kind or the user may not read it, these lines are left out.
            Ok(Event::InitDone) | Err(_) => {}
        }
        if is_complete {
            out.data(DescribeData::Beside(all.values().cloned().collect())).await;
        }
    }
}

/// Repeatedly evaluates the network policies of a pod or a policy: the result changes with policies and labels of other
/// objects. After a failed evaluation the last result stays.
pub(crate) async fn follow_policies(out: Outbox, target: ObjectRef) {
    let Some(diagnose) = out.diagnose() else { return };
    let (namespace, name) = (target.namespace.clone().unwrap_or_default(), target.name.clone());
    let object = match target.kind.kind.as_str() {
        "Pod" => PolicyTarget::Pod { namespace, name },
        "NetworkPolicy" => PolicyTarget::Policy { namespace, name },
        _ => return,
    };
    loop {
        if let Ok(lines) = diagnose.policies(out.client(), object.clone()).await {
            out.data(DescribeData::Policies(lines)).await;
        }
        tokio::time::sleep(POLICIES).await;
    }
}

/// Returns the object as JSON with its kind, which items of a list may lack.
fn whole(object: DynamicObject, target: &ObjectRef) -> Value {
    let mut value = object::json_of(object);
    if value["kind"].is_null() {
        value["kind"] = Value::String(target.kind.kind.clone());
        value["apiVersion"] = Value::String(target.kind.api_version());
    }
    value
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use k8s_openapi::api::core::v1::Service;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;
    use console_data::builtin_kinds;
    use console_data::context::ScreenId;
    use console_data::message::Message;
    use console_data::resource::ClusterId;

    /// A list that is still arriving would hide the related objects for a moment.
    #[tokio::test]
    async fn related_objects_are_shown_once_their_list_is_complete_con_18() {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            if request.uri().query().unwrap_or_default().contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let list = json!({"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1",
                "metadata": {"resourceVersion": "1"},
                "items": [{"metadata": {"name": "web-1"}}, {"metadata": {"name": "web-2"}}]});
            Ok::<_, Infallible>(http::Response::new(Body::from(list.to_string().into_bytes())))
        });
        let (messages, mut inbox) = mpsc::channel(8);
        let out = Outbox::new(Client::new(service, "default"), messages, ScreenId::new(1, ClusterId::HOME));
        let target = ObjectRef {
            kind: builtin_kinds::kind::<Service>(),
            namespace: Some("default".to_owned()),
            name: "web".to_owned(),
            uid: None,
        };
        let message = tokio::select! {
            () = follow_beside(out, target) => panic!("the watch goes on"),
            message = inbox.recv() => message,
        };
        let Some(Message::Data(_, data)) = message else { panic!("no data") };
        let Some(DescribeData::Beside(slices)) = data.take() else { panic!("no related objects") };
        assert_eq!(slices.len(), 2, "{slices:?}");
    }
}
