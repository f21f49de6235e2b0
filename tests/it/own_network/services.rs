//! Services in the kernel, met from pods.

use super::{Cluster, idle, needs, users, wait_for, web};

const SERVICES: &str = r"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, type: NodePort, ports: [{port: 8080, targetPort: 80, nodePort: 30080}]}
---
apiVersion: v1
kind: Service
metadata: {name: none}
spec: {selector: {app: none}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: sticky}
spec: {selector: {app: web}, sessionAffinity: ClientIP, ports: [{port: 80}]}
";

/// What curl says of an address.
fn code(cluster: &Cluster, pod: &str, url: &str) -> String {
    cluster.shell(pod, &format!("curl -s -m 5 -o /dev/null -w '%{{http_code}} %{{exitcode}}' {url}"))
}

/// Which servers have been asked how often, by their logs.
fn asked(cluster: &Cluster, pods: &[&str], from: &str, path: &str) -> Vec<usize> {
    let of = |pod: &&str| {
        let log = cluster.instance.kubectl(&["logs", pod]);
        log.lines().filter(|line| line.starts_with(from) && line.contains(path)).count()
    };
    pods.iter().map(of).collect()
}

/// NET-6: cluster addresses, names, node ports, affinity, a pod that reaches itself, no endpoints; the client's address is
/// kept; the API is where pods look for it.
#[test]
fn services_are_served_by_the_kernel_net_6() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        cluster.apply(
            &[&web("a", "node-1", ""), &web("b", "node-2", ""), &idle("asker", "node-1"), SERVICES].concat(),
        );
        for pod in ["a", "b", "asker"] {
            cluster.ready(pod);
        }
        wait_for("both endpoints", || (code(&cluster, "asker", "http://web:8080/") == "200 0").then_some(()));
        let own = cluster.ip("asker");
        for _ in 0..6 {
            assert_eq!(code(&cluster, "asker", "http://web:8080/fair"), "404 0", "as {user:?}");
            assert_eq!(code(&cluster, "asker", "http://sticky.default.svc.cluster.local/sticky"), "404 0");
        }
        let both = ["a", "b"];
        wait_for("all to be logged", || {
            (asked(&cluster, &both, &own, "/sticky").iter().sum::<usize>() == 6).then_some(())
        });
        assert_eq!(asked(&cluster, &both, &own, "/fair"), [3, 3], "in turn, and by the client's own address");
        let mut sticky = asked(&cluster, &both, &own, "/sticky");
        sticky.sort_unstable();
        assert_eq!(sticky, [0, 6], "one client, one endpoint");
        for node in ["172.20.0.1", "172.20.0.2"] {
            assert_eq!(code(&cluster, "asker", &format!("http://{node}:30080/")), "200 0");
        }
        for _ in 0..4 {
            assert_eq!(code(&cluster, "a", "http://web:8080/"), "200 0", "itself as well");
        }
        // 7 = could not connect: at once, and not after a time-out, which were 28.
        assert_eq!(code(&cluster, "asker", "http://none/"), "000 7");
        assert_eq!(cluster.shell("asker", "curl -sk https://kubernetes/healthz"), "ok");

        cluster.instance.kubectl(&["delete", "pod", "a", "b"]);
        wait_for("a refusal", || (code(&cluster, "asker", "http://web:8080/") == "000 7").then_some(()));
        cluster.instance.stop();
    }
}

/// NET-6: a pod's host port is at its node's address alone.
#[test]
fn host_ports_are_at_the_nodes_address_net_6() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        let server =
            web("a", "node-1", "").replace("containerPort: 80}", "containerPort: 80, hostPort: 9090}");
        cluster.apply(&[server, idle("asker", "node-2")].concat());
        cluster.ready("a");
        cluster.ready("asker");
        wait_for("the port", || {
            (code(&cluster, "asker", "http://172.20.0.1:9090/") == "200 0").then_some(())
        });
        assert_eq!(code(&cluster, "asker", "http://172.20.0.2:9090/"), "000 7");
        cluster.instance.stop();
    }
}
