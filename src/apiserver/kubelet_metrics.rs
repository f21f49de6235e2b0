//! The kubelet's metrics under their own names: about the kubelet itself, about the resource usage of a node
//! and its pods (`metrics/resource`), and about the same usage in cAdvisor's form.

use std::collections::BTreeMap;

use axum::response::Response;
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use prometheus::proto::MetricFamily;

use super::Server;
use super::discovery;
use super::metrics_page::{TEXT, build_info, text};
use super::process_metrics::process;
use super::respond::Responder;
use api::metrics::FamilyOptions;
use api::node_access::runtime_uid;
use api::usage::{NodeUsage, ResourceUsage};
use base::sort::CollectMap;
use object::SharedObject;
use object::quantity::Amount;

/// `/metrics`: the kubelet's metrics about itself.
pub(super) fn own(node: &str, pods: &[SharedObject<Pod>]) -> Response {
    let named = FamilyOptions::alpha("kubelet_node_name", "The node's name. The count is always 1.")
        .gauges(&["node"]);
    named.set(&[node], 1.0);
    let mut counts: BTreeMap<&str, u32> = [("exited", 0), ("running", 0)].collect_map();
    let mut running_pods = 0_u32;
    for pod in pods {
        let mut runs = false;
        for status in statuses(pod) {
            let state = status.state.as_ref();
            let state = if state.is_some_and(|state| state.running.is_some()) {
                runs = true;
                "running"
            } else if state.is_some_and(|state| state.terminated.is_some()) {
                "exited"
            } else {
                continue;
            };
            *counts.entry(state).or_default() += 1;
        }
        running_pods += u32::from(runs);
    }
    let containers =
        FamilyOptions::beta("kubelet_running_containers", "Number of containers currently running")
            .gauges(&["container_state"]);
    for (state, count) in counts {
        containers.set(&[state], f64::from(count));
    }
    let running =
        FamilyOptions::beta("kubelet_running_pods", "Number of pods that have a running pod sandbox")
            .gauges(&[]);
    running.set(&[], f64::from(running_pods));
    respond(
        [named.gather(), containers.gather(), running.gather(), build_info(&discovery::version()), process()]
            .concat(),
    )
}

/// `/metrics/resource`: the metrics that the metrics server reads.
pub(super) fn resource(server: &Server, node: &SharedObject<Node>, pods: &[SharedObject<Pod>]) -> Response {
    let of_pod = ["namespace", "pod"];
    let of_container = ["container", "namespace", "pod"];
    let node_cpu = FamilyOptions::stable(
        "node_cpu_usage_seconds_total",
        "Cumulative cpu time consumed by the node in core-seconds",
    )
    .counters(&[]);
    let node_memory =
        FamilyOptions::stable("node_memory_working_set_bytes", "Current working set of the node in bytes")
            .gauges(&[]);
    let pod_cpu = FamilyOptions::stable(
        "pod_cpu_usage_seconds_total",
        "Cumulative cpu time consumed by the pod in core-seconds",
    )
    .counters(&of_pod);
    let pod_memory =
        FamilyOptions::stable("pod_memory_working_set_bytes", "Current working set of the pod in bytes")
            .gauges(&of_pod);
    let container_cpu = FamilyOptions::stable(
        "container_cpu_usage_seconds_total",
        "Cumulative cpu time consumed by the container in core-seconds",
    )
    .counters(&of_container);
    let container_memory = FamilyOptions::stable(
        "container_memory_working_set_bytes",
        "Current working set of the container in bytes",
    )
    .gauges(&of_container);
    let container_start = FamilyOptions::stable(
        "container_start_time_seconds",
        "Start time of the container since unix epoch in seconds",
    )
    .gauges(&of_container);
    let failed = FamilyOptions::stable(
        "resource_scrape_error",
        "1 if there was an error while getting container metrics, 0 otherwise",
    )
    .gauges(&[]);
    let measured = server.api().node_usage(node.name());
    failed.set(&[], if measured.is_some() { 0.0 } else { 1.0 });
    if let Some(measured) = measured {
        node_cpu.set(&[], measured.total.cpu_time.as_secs_f64());
        node_memory.set(&[], measured.total.memory_bytes as f64);
        for used in used(pods, &measured) {
            let labels = [used.pod.namespace(), used.pod.name()];
            pod_cpu.set(&labels, used.total.cpu_time.as_secs_f64());
            pod_memory.set(&labels, used.total.memory_bytes as f64);
            for container in used.containers {
                let labels = [container.name, used.pod.namespace(), used.pod.name()];
                container_cpu.set(&labels, container.usage.cpu_time.as_secs_f64());
                container_memory.set(&labels, container.usage.memory_bytes as f64);
                if let Some(started) = container.status.and_then(started) {
                    container_start.set(&labels, seconds(started));
                }
            }
        }
    }
    let families = [
        node_cpu, node_memory, pod_cpu, pod_memory, container_cpu, container_memory, container_start, failed,
    ];
    respond(families.iter().flat_map(api::metrics::CollectedFamily::gather).collect())
}

/// `/metrics/cadvisor`.
pub(super) fn cadvisor(server: &Server, node: &SharedObject<Node>, pods: &[SharedObject<Pod>]) -> Response {
    let labels = ["container", "id", "image", "name", "namespace", "pod"];
    let with_cpu = ["container", "cpu", "id", "image", "name", "namespace", "pod"];
    let cpu = FamilyOptions::unclassified(
        "container_cpu_usage_seconds_total",
        "Cumulative cpu time consumed in seconds.",
    )
    .counters(&with_cpu);
    let memory =
        FamilyOptions::unclassified("container_memory_working_set_bytes", "Current working set in bytes.")
            .gauges(&labels);
    let start = FamilyOptions::unclassified(
        "container_start_time_seconds",
        "Start time of the container since unix epoch in seconds.",
    )
    .gauges(&labels);
    let machine = ["boot_id", "machine_id", "system_uuid"];
    let cores =
        FamilyOptions::unclassified("machine_cpu_cores", "Number of logical CPU cores.").gauges(&machine);
    let installed =
        FamilyOptions::unclassified("machine_memory_bytes", "Amount of memory installed on the machine.")
            .gauges(&machine);
    if let Some(status) = &node.status {
        let info = status.node_info.as_ref();
        let ids =
            info.map(|info| [info.boot_id.as_str(), &info.machine_id, &info.system_uuid]).unwrap_or_default();
        let capacity = |resource: &str| -> Option<f64> {
            let amount: &Quantity = status.capacity.as_ref()?.get(resource)?;
            Some(Amount::of(amount).as_f64())
        };
        if let Some(count) = capacity("cpu") {
            cores.set(&ids, count);
        }
        if let Some(bytes) = capacity("memory") {
            installed.set(&ids, bytes);
        }
    }
    if let Some(measured) = server.api().node_usage(node.name()) {
        let record = |labels: [&str; 6], usage: ResourceUsage| {
            let [container, id, image, name, namespace, pod] = labels;
            let with_cpu = [container, "total", id, image, name, namespace, pod];
            cpu.set(&with_cpu, usage.cpu_time.as_secs_f64());
            memory.set(&labels, usage.memory_bytes as f64);
        };
        record(["", "/", "", "", "", ""], measured.total);
        for used in used(pods, &measured) {
            let (namespace, pod) = (used.pod.namespace(), used.pod.name());
            let group = format!("/kubepods/pod{}", used.pod.uid());
            record(["", &group, "", "", namespace, pod], used.total);
            for container in used.containers {
                let status = container.status;
                let id = status.and_then(|status| status.container_id.as_deref()).unwrap_or_default();
                let id = id.split_once("://").map_or(id, |(_, id)| id);
                let image = status.map(|status| status.image.as_str()).unwrap_or_default();
                let path = format!("{group}/{id}");
                let labels = [container.name, &path, image, id, namespace, pod];
                record(labels, container.usage);
                if let Some(started) = status.and_then(started) {
                    start.set(&labels, seconds(started));
                }
            }
        }
    }
    respond(
        [cpu, memory, start, cores, installed]
            .iter()
            .flat_map(api::metrics::CollectedFamily::gather)
            .collect(),
    )
}

/// Usage of a pod.
struct PodMetrics<'a> {
    pod: &'a SharedObject<Pod>,
    total: ResourceUsage,
    containers: Vec<ContainerMetrics<'a>>,
}

/// Usage of a container.
struct ContainerMetrics<'a> {
    name: &'a str,
    usage: ResourceUsage,
    status: Option<&'a ContainerStatus>,
}

/// Returns the measured usage of these pods.
fn used<'a>(pods: &'a [SharedObject<Pod>], measured: &'a NodeUsage) -> impl Iterator<Item = PodMetrics<'a>> {
    pods.iter().filter_map(|pod| {
        let uid = runtime_uid(pod);
        let mut total = ResourceUsage::default();
        let mut containers = Vec::new();
        for (name, usage) in measured.pods.get(uid)? {
            total += *usage;
            let status = statuses(pod).find(|status| status.name == *name);
            containers.push(ContainerMetrics { name, usage: *usage, status });
        }
        // The pod's own counter is used, because those of its containers restart at zero.
        total.cpu_time = measured.pod_cpu_times.get(uid).copied().unwrap_or(total.cpu_time);
        Some(PodMetrics { pod, total, containers })
    })
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let lists =
        status.map(|s| [&s.init_container_statuses, &s.container_statuses, &s.ephemeral_container_statuses]);
    lists.into_iter().flatten().flatten().flatten()
}

fn started(status: &ContainerStatus) -> Option<Timestamp> {
    Some(status.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0)
}

fn seconds(time: Timestamp) -> f64 {
    time.as_millisecond() as f64 / 1000.0
}

fn respond(families: Vec<MetricFamily>) -> Response {
    Responder::typed(StatusCode::OK, TEXT, text(families).into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Credentials, ServerConfig};
    use api::{Api, ApiConfig, Part, WriteOptions};
    use base::clock::Clock;
    use object::{Key, Kind, Object};

    async fn lines(response: Response) -> Vec<String> {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        text.lines().filter(|line| !line.starts_with("# HELP")).map(ToString::to_string).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn usage_of_a_node_and_its_pods_is_exported_under_the_kubelets_metric_names_api_19() {
        let clock = Clock::starting_at(Timestamp::from_second(1000).unwrap());
        let api = Api::new(store::Store::ephemeral(), clock, ApiConfig::default());
        let create = |kind, value| {
            api.create(Object::from_value(kind, value).unwrap(), &WriteOptions::default()).unwrap()
        };
        create(Kind::Namespace, json!({"metadata": {"name": "default"}}));
        create(Kind::ServiceAccount, json!({"metadata": {"name": "default", "namespace": "default"}}));
        create(
            Kind::Node,
            json!({"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "2", "memory": "1Ki"}}}),
        );
        let pod = create(
            Kind::Pod,
            json!({"metadata": {"name": "p", "namespace": "default"}, "spec": {"nodeName": "n1",
                "containers": [{"name": "c", "image": "i"}]}}),
        );
        let key = Key::new("default", "p");
        let change = |current: &Object| {
            let mut value = current.to_value();
            value["status"] = json!({"containerStatuses": [{"name": "c", "image": "i:1", "imageID": "", "ready": true,
                "restartCount": 0, "containerID": "podium://abc",
                "state": {"running": {"startedAt": "1970-01-01T00:15:00Z"}}}]});
            Object::from_value(Kind::Pod, value).map_err(|error| api::ApiError::Internal(error.to_string()))
        };
        api.change(Kind::Pod, &key, Part::Status, &WriteOptions::default(), change).unwrap();
        let seconds = Duration::from_secs;
        let usage = |cpu| ResourceUsage { cpu_nanocores: 5, memory_bytes: 4096, cpu_time: seconds(cpu) };
        let uid = pod.uid().to_string();
        let measured = NodeUsage {
            at: api.server_clock().now(),
            reported_at: api.server_clock().now(),
            window: seconds(10),
            total: usage(9),
            pods: BTreeMap::from([(uid.clone(), BTreeMap::from([("c".to_string(), usage(3))]))]),
            pod_cpu_times: BTreeMap::from([(uid.clone(), seconds(7))]),
            volumes: BTreeMap::new(),
        };
        api.set_node_usage("n1", Some(measured));
        let node = api.get_as::<Node>(&Key::new("", "n1")).unwrap();
        let pods = api.list_as::<Pod>(None);
        let server =
            Server::new(api, Credentials::new("t"), CancellationToken::new(), ServerConfig::default());
        assert_eq!(
            lines(resource(&server, &node, &pods)).await,
            [
                "# TYPE container_cpu_usage_seconds_total counter",
                "container_cpu_usage_seconds_total{container=\"c\",namespace=\"default\",pod=\"p\"} 3",
                "# TYPE container_memory_working_set_bytes gauge",
                "container_memory_working_set_bytes{container=\"c\",namespace=\"default\",pod=\"p\"} 4096",
                "# TYPE container_start_time_seconds gauge",
                "container_start_time_seconds{container=\"c\",namespace=\"default\",pod=\"p\"} 900",
                "# TYPE node_cpu_usage_seconds_total counter",
                "node_cpu_usage_seconds_total 9",
                "# TYPE node_memory_working_set_bytes gauge",
                "node_memory_working_set_bytes 4096",
                "# TYPE pod_cpu_usage_seconds_total counter",
                "pod_cpu_usage_seconds_total{namespace=\"default\",pod=\"p\"} 7",
                "# TYPE pod_memory_working_set_bytes gauge",
                "pod_memory_working_set_bytes{namespace=\"default\",pod=\"p\"} 4096",
                "# TYPE resource_scrape_error gauge",
                "resource_scrape_error 0",
            ]
        );
        let output = lines(cadvisor(&server, &node, &pods)).await;
        let of_container = format!(
            "container=\"c\",cpu=\"total\",id=\"/kubepods/pod{uid}/abc\",image=\"i:1\",name=\"abc\",namespace=\"default\",pod=\"p\""
        );
        for line in [
            format!("container_cpu_usage_seconds_total{{{of_container}}} 3"),
            format!("container_cpu_usage_seconds_total{{container=\"\",cpu=\"total\",id=\"/kubepods/pod{uid}\",image=\"\",name=\"\",namespace=\"default\",pod=\"p\"}} 7"),
            "container_memory_working_set_bytes{container=\"\",id=\"/\",image=\"\",name=\"\",namespace=\"\",pod=\"\"} 4096".into(),
            "machine_cpu_cores{boot_id=\"\",machine_id=\"\",system_uuid=\"\"} 2".into(),
            "machine_memory_bytes{boot_id=\"\",machine_id=\"\",system_uuid=\"\"} 1024".into(),
        ] {
            assert!(output.contains(&line), "{line}: {output:#?}");
        }
        let output = lines(own("n1", &pods)).await;
        for line in [
            "kubelet_node_name{node=\"n1\"} 1",
            "kubelet_running_pods 1",
            "kubelet_running_containers{container_state=\"running\"} 1",
            "kubelet_running_containers{container_state=\"exited\"} 0",
        ] {
            assert!(output.iter().any(|printed| printed == line), "{line}: {output:#?}");
        }
        server.api().set_node_usage("n1", None);
        assert_eq!(
            lines(resource(&server, &node, &pods)).await,
            ["# TYPE resource_scrape_error gauge", "resource_scrape_error 1"]
        );
    }
}
