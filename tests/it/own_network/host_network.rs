//! Pods on the network of their node that declare ports, and host ports of pods with networks of their own.

use super::{Cluster, User, idle, needs, users};
use crate::instance::{DataDir, wait_for};

/// A DaemonSet on the host network with a server that binds `bind`, as node-exporter and ingress controllers do, and
/// one with host ports.
fn daemon_sets(bind: &str) -> String {
    let server = |name: &str, spec: &str, port: &str| {
        format!(
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: {name}}}\nspec:\n  selector: {{matchLabels: {{app: {name}}}}}\n  \
             template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n{spec}      terminationGracePeriodSeconds: 0\n      \
             containers:\n      - name: c\n        image: busybox\n        \
             command: [python3, -m, http.server, --bind, \"{bind}\", '19100']\n        ports: [{{{port}}}]\n        \
             readinessProbe: {{httpGet: {{port: 19100}}, periodSeconds: 1}}\n---\n"
        )
    };
    let exporter = server("exporter", "      hostNetwork: true\n", "containerPort: 19100");
    let agent = server("agent", "", "containerPort: 19100, hostPort: 19200");
    exporter + &agent
}

/// A pod on the host network that declares a port which the exporter has.
fn rival(name: &str, node: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  hostNetwork: true\n  {node}\n  containers:\n  \
         - {{name: c, image: busybox, command: [sleep, '100000'], ports: [{{containerPort: 19100}}]}}\n---\n"
    )
}

fn rolls_out(cluster: &Cluster) {
    for set in ["exporter", "agent"] {
        let set = format!("daemonset/{set}");
        cluster.instance.kubectl(&["rollout", "status", "--timeout=90s", &set]);
    }
    let restarts = ["get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"];
    assert_eq!(cluster.instance.kubectl(&restarts), "0 0 0 0", "nothing took a port before its pod did");
}

fn rivals_are_refused(cluster: &Cluster) {
    cluster.apply(
        &[
            rival("scheduled", "nodeSelector: {kubernetes.io/hostname: node-1}"),
            rival("bound", "nodeName: node-2"),
        ]
        .concat(),
    );
    let of = |pod: &str, path: &str| {
        cluster.instance.kubectl(&["get", "pod", pod, "-o", &format!("jsonpath={{{path}}}")])
    };
    let refusal = wait_for("the scheduler's word", || {
        Some(of("scheduled", ".status.conditions[?(@.type==\"PodScheduled\")].message"))
            .filter(|message| !message.is_empty())
    });
    assert!(refusal.contains("1 node(s) didn't have free ports for the requested pod ports"), "{refusal}");
    assert_eq!(of("scheduled", ".status.phase"), "Pending");
    wait_for("the kubelet's word", || (of("bound", ".status.phase") == "Failed").then_some(()));
    assert_eq!(
        of("bound", ".status.reason") + ": " + &of("bound", ".status.message"),
        "NodePorts: Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    );
}

#[test]
fn pods_on_the_host_network_bind_the_ports_that_they_declare_net_6() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        cluster.apply(&daemon_sets("0.0.0.0"));
        rolls_out(&cluster);
        cluster.apply(&idle("asker", "node-2"));
        cluster.ready("asker");
        for node in ["172.20.0.1", "172.20.0.2"] {
            for port in [19100, 19200] {
                let get = format!("curl -s -m 5 -o /dev/null -w '%{{http_code}}' http://{node}:{port}/");
                wait_for(&get, || (cluster.shell("asker", &get) == "200").then_some(()));
            }
        }
        rivals_are_refused(&cluster);
        cluster.instance.stop();
    }
}

/// NET-11: in the loopback network, the nodes share the machine's network, and programs bind their node's address.
#[test]
fn pods_on_the_host_network_bind_the_ports_that_they_declare_on_loopback_net_11() {
    needs!(Kubectl);
    let is_root = rustix::process::geteuid().is_root();
    let users = if is_root { vec![User::Own, User::Ordinary] } else { vec![User::Own] };
    for user in users {
        let cluster = Cluster::start_with(DataDir::for_everyone(), user, "network: {mode: loopback}\n");
        cluster.apply(&daemon_sets("$(POD_IP)"));
        rolls_out(&cluster);
        let path = "jsonpath={.items[*].status.addresses[?(@.type==\"InternalIP\")].address}";
        let nodes = cluster.instance.kubectl(&["get", "nodes", "-o", path]);
        for node in nodes.split_whitespace() {
            for port in [19100, 19200] {
                wait_for(node, || std::net::TcpStream::connect((node, port)).ok());
            }
        }
        rivals_are_refused(&cluster);
        cluster.instance.stop();
    }
}
