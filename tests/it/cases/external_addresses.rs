//! Services at addresses outside the cluster's ranges.

use crate::instance::wait_for;
use crate::needs::needs;
use crate::own_network::{Cluster, idle, users};

const EXTERNAL_IP: &str = include_str!("manifests/03-external-ip-from-pods.yaml");

/// A Service with a load balancer of another implementation, such as MetalLB, and one without any.
const OTHERS: &str = r"
apiVersion: v1
kind: Service
metadata: {name: balanced}
spec: {type: LoadBalancer, loadBalancerClass: example.com/balancer, selector: {app: srv}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: none}
spec: {selector: {app: none}, externalIPs: [203.0.113.12], ports: [{port: 8080}]}
---
";

fn code(cluster: &Cluster, pod: &str, ip: &str) -> String {
    let get = format!("curl -s -m 5 -o /dev/null -w '%{{http_code}} %{{exitcode}}' http://{ip}:8080/");
    cluster.shell(pod, &get)
}

#[test]
fn external_addresses_are_answered_from_pods_and_nodes_net_6() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        let of_node = idle("of-node", "node-2").replace("spec:\n", "spec:\n  hostNetwork: true\n");
        cluster.apply(EXTERNAL_IP);
        cluster.apply(&[OTHERS, &idle("asker", "node-1"), &of_node].concat());
        let status = r#"{"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.11"}]}}}"#;
        cluster.instance.kubectl(&[
            "patch", "service", "balanced", "--subresource", "status", "--type", "merge", "-p", status,
        ]);
        for pod in ["srv", "asker", "of-node"] {
            cluster.ready(pod);
        }
        for pod in ["asker", "of-node", "srv"] {
            for ip in ["203.0.113.10", "203.0.113.11"] {
                wait_for(&format!("{pod} to reach {ip}"), || {
                    (code(&cluster, pod, ip) == "200 0").then_some(())
                });
            }
            // 7 = could not connect: at once, and not after a time-out.
            assert_eq!(code(&cluster, pod, "203.0.113.12"), "000 7", "as {user:?}");
        }
        cluster.instance.stop();
    }
}
