//! A node's proxy subresource, from which monitoring reads kubelets, and clients read and change their images. Podium's
//! kubelets have no server of their own, so the API responds from their reports, and asks them about images.

use std::collections::BTreeMap;

use axum::response::Response;
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::Server;
use super::kubelet_metrics;
use super::query::Query;
use super::respond::Responder;
use super::response_format::not_allowed;
use api::node_access::ImageAccess;
use api::usage::{ResourceUsage, VolumeUsage};
use api::{ApiError, node_access};
use base::clock::time;
use object::storage::claims_of;
use object::{Key, SharedObject};

/// Handles a request for a node (`[SCHEME:]NAME[:PORT]`) and a path of its kubelet.
pub(super) async fn handle(
    server: &Server,
    name: &str,
    path: &str,
    method: &Method,
    query: &Query,
) -> Result<Response, ApiError> {
    let parts: Vec<&str> = name.split(':').collect();
    let ([name] | ["http" | "https" | "", name, _] | [name, _]) = parts[..] else {
        return Err(ApiError::BadRequest(format!("invalid node request \"{name}\"")));
    };
    let node = server.api().get_as::<Node>(&Key::new("", name))?;
    let Some(kubelet) = server.api().node_access(name) else {
        return Err(ApiError::Unavailable(format!("cannot reach the kubelet of node {name}")));
    };
    let path = path.trim_matches('/');
    if path == "images" || path.starts_with("images/") {
        return images(&*kubelet.images()?, path, method, query).await;
    }
    if *method != Method::GET {
        return Err(not_allowed());
    }
    match path {
        "healthz" | "healthz/ping" | "healthz/log" | "healthz/syncloop" => {
            Ok(Responder::text(StatusCode::OK, "ok"))
        }
        "pods" | "runningpods" => {
            let items: Vec<Value> = pods(server, name).iter().map(|pod| pod.object().to_value()).collect();
            Responder::json(
                StatusCode::OK,
                &json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}),
            )
        }
        "metrics" => Ok(kubelet_metrics::own(name, &pods(server, name))),
        "metrics/resource" => Ok(kubelet_metrics::resource(server, &node, &pods(server, name))),
        "metrics/cadvisor" => Ok(kubelet_metrics::cadvisor(server, &node, &pods(server, name))),
        "stats/summary" => Responder::json(StatusCode::OK, &summary(server, &node)),
        // The machine's logs do not belong to a node, so this is the response of a kubelet with
        // `enableSystemLogHandler: false`.
        "logs" => Ok(Responder::text(StatusCode::METHOD_NOT_ALLOWED, "logs endpoint is disabled.\n")),
        _ => Ok(Responder::text(StatusCode::NOT_FOUND, "404 page not found\n")),
    }
}

/// Handles a request about a node's images; the parameter `name` is a name or an id.
async fn images(
    images: &dyn ImageAccess,
    path: &str,
    method: &Method,
    query: &Query,
) -> Result<Response, ApiError> {
    let name = || {
        let name = query.get("name").map(str::to_owned);
        name.ok_or_else(|| ApiError::BadRequest("the parameter name is required".into()))
    };
    match (path, method) {
        ("images", &Method::GET) => Responder::json(StatusCode::OK, &images.list().await?),
        ("images/details", &Method::GET) => Responder::json(StatusCode::OK, &images.details(name()?).await?),
        ("images/explain", &Method::GET) => {
            Ok(Responder::text(StatusCode::OK, images.explain(name()?).await? + "\n"))
        }
        ("images", &Method::POST) => Responder::json(StatusCode::ACCEPTED, &images.pull(&name()?)?),
        ("images", &Method::DELETE) => {
            Responder::json(StatusCode::OK, &json!({ "removed": images.remove(name()?).await? }))
        }
        ("images" | "images/details" | "images/explain", _) => Err(not_allowed()),
        _ => Ok(Responder::text(StatusCode::NOT_FOUND, "404 page not found\n")),
    }
}

fn pods(server: &Server, node: &str) -> Vec<SharedObject<Pod>> {
    let on_node =
        |pod: &SharedObject<Pod>| pod.spec.as_ref().is_some_and(|s| s.node_name.as_deref() == Some(node));
    server.api().list_as::<Pod>(None).into_iter().filter(on_node).collect()
}

/// Returns the volumes of a pod's claims, in the kubelet's format.
fn volumes_of(pod: &SharedObject<Pod>, measured: &BTreeMap<String, VolumeUsage>, at: &Time) -> Value {
    let stats = claims_of(pod).filter_map(|used| {
        let volume = measured.get(used.volume)?;
        Some(json!({"name": used.volume, "pvcRef": {"name": used.claim, "namespace": pod.namespace()}, "time": at,
            "capacityBytes": volume.capacity_bytes, "availableBytes": volume.available_bytes,
            "usedBytes": volume.used_bytes, "inodes": volume.inodes, "inodesFree": volume.inodes_free,
            "inodesUsed": volume.inodes.saturating_sub(volume.inodes_free)}))
    });
    Value::Array(stats.collect())
}

/// Returns the usage of the node and its pods, as in `metrics.k8s.io`, in the kubelet's format.
fn summary(server: &Server, node: &SharedObject<Node>) -> Value {
    let Some(measured) = server.api().node_usage(node.name()) else {
        return json!({"node": {"nodeName": node.name()}, "pods": []});
    };
    let at = time(measured.reported_at);
    let amounts = |value: &mut Value, usage: ResourceUsage| {
        value["cpu"] = json!({"time": at, "usageNanoCores": usage.cpu_nanocores});
        value["memory"] = json!({"time": at, "workingSetBytes": usage.memory_bytes});
    };
    let mut node_stats = json!({"nodeName": node.name(), "startTime": node.metadata.creation_timestamp});
    amounts(&mut node_stats, measured.total);
    let pods = pods(server, node.name());
    let pods = pods.iter().filter_map(|pod| {
        let used = measured.pods.get(node_access::runtime_uid(pod))?;
        let reference = json!({"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()});
        let mut total = ResourceUsage::default();
        let mut containers = Vec::new();
        for (name, usage) in used {
            let mut container = json!({ "name": name });
            amounts(&mut container, *usage);
            containers.push(container);
            total += *usage;
        }
        let started = pod.status.as_ref().and_then(|status| status.start_time.clone());
        let mut pod_stats = json!({"podRef": reference, "startTime": started, "containers": containers});
        amounts(&mut pod_stats, total);
        if let Some(volumes) = measured.volumes.get(node_access::runtime_uid(pod)) {
            pod_stats["volume"] = volumes_of(pod, volumes, &at);
        }
        Some(pod_stats)
    });
    json!({"pods": pods.collect::<Vec<_>>(), "node": node_stats})
}
