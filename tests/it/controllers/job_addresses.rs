//! A Job with more completions than its nodes have addresses, with scheduler and kubelets, on virtual time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ipnet::Ipv4Net;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use podium::images::Catalogue;
use podium::kubelet::pressure::EvictionConfig;
use podium::kubelet::runtime::hollow::{HollowConfig, HollowRuntime};
use podium::kubelet::{Kubelets, NodeConfig};
use podium::object::SharedObject;
use podium::object::config::Seconds;
use podium::object::low_ports::LowPorts;
use podium::object::pod::is_active;
use podium::scheduler::{Scheduler, SchedulerConfig};
use serde_json::json;

use super::cluster::Cluster;

/// More than twice as many as there are addresses.
const COMPLETIONS: i32 = 400;
const NODES: u8 = 3;
/// A node has 61 addresses for pods.
const RANGE_PREFIX: u8 = 26;

fn node(number: u8) -> NodeConfig {
    NodeConfig {
        name: format!("n{number}"),
        zone: None,
        region: None,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        ip: [127, 16, 0, number].into(),
        pod_range: Ipv4Net::new_assert([127, 64, number, 0].into(), RANGE_PREFIX),
        ipv6: None,
        capacity: serde_json::from_value(json!({"cpu": "8", "memory": "8Gi", "pods": "110"})).unwrap(),
        pods_dir: "/nonexistent".into(),
        seccomp_dir: "/nonexistent".into(),
        hollow: true,
        static_pods: Vec::new(),
        eviction: EvictionConfig::default(),
        low_ports: LowPorts::default(),
        network_note: None,
        users_note: None,
        dns: None,
        domain: "cluster.local".into(),
    }
}

/// Checks that no two running pods share an address, and that the service's endpoints have not ended.
fn check_addresses(cluster: &Cluster) {
    let pods = cluster.pods();
    let mut by_address: HashMap<&str, &str> = HashMap::new();
    for pod in pods.iter().filter(|pod| is_active(pod)) {
        if let Some(ip) = pod.status.as_ref().and_then(|s| s.pod_ip.as_deref()) {
            let other = by_address.insert(ip, pod.uid());
            assert_eq!(other, None, "{ip} is two pods'");
        }
    }
    for slice in cluster.api.list_as::<EndpointSlice>(Some("default")) {
        for endpoint in slice.endpoints.iter().flatten() {
            let target = endpoint.target_ref.as_ref().and_then(|target| target.uid.as_deref());
            let ip = endpoint.addresses[0].as_str();
            assert_eq!(by_address.get(ip).copied(), target, "{ip} is another's by now");
        }
    }
}

/// Three nodes have 183 addresses; the pods of a Job with 400 completions end one after the other (NET-1).
#[tokio::test(start_paused = true)]
async fn a_job_may_have_more_completions_than_there_are_addresses() {
    let cluster = Cluster::start(&["nodelifecycle"]);
    let (api, caches, tasks) = (&cluster.api, &cluster.caches, &cluster.tasks);
    cluster.create::<k8s_openapi::api::core::v1::Namespace>(json!({"metadata": {"name": "kube-node-lease"}}));
    let scheduler = Scheduler::new(api, caches, SchedulerConfig::default());
    scheduler.run(tasks);
    let kubelets = Kubelets::new(api, caches, tasks);
    for number in 1..=NODES {
        let clock = api.clock().clone();
        let hollow =
            HollowConfig { run_duration: Some(Seconds(Duration::from_secs(5))), ..HollowConfig::default() };
        let catalogue = Arc::new(Catalogue::new(Vec::new(), "CONFIG"));
        let runtime = HollowRuntime::new(hollow, catalogue, Arc::new(move || clock.now()));
        kubelets.start_node(node(number), Arc::new(runtime)).await.unwrap();
    }
    cluster.create::<Service>(json!({"metadata": {"name": "work", "namespace": "default"},
        "spec": {"clusterIP": "None", "selector": {"app": "work"}, "ports": [{"port": 80}]}}));
    cluster.create::<Job>(json!({"metadata": {"name": "work", "namespace": "default"},
        "spec": {"completions": COMPLETIONS, "parallelism": 40,
            "template": {"metadata": {"labels": {"app": "work"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}}));
    let succeeded = || {
        let job: SharedObject<Job> = cluster.get("work");
        job.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0)
    };
    // Ten rounds of 5 s would do if every end were counted at once.
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_secs(4)).await;
        if succeeded() == COMPLETIONS {
            break;
        }
        check_addresses(&cluster);
    }
    assert_eq!(succeeded(), COMPLETIONS);
    let ended: Vec<SharedObject<Pod>> = cluster.pods();
    assert_eq!(ended.len(), COMPLETIONS as usize, "all pods remain");
    assert!(ended.iter().all(|pod| pod.status.as_ref().is_some_and(|s| s.pod_ip.is_some())));
    cluster.stop().await;
}
