//! Services in the kernel, as pods use them.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use super::crashes::{kill, processes};
use super::{Cluster, idle, needs, running, users, wait_for, web};

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

/// curl's status and exit code for an address.
fn code(cluster: &Cluster, pod: &str, url: &str) -> String {
    cluster.shell(pod, &format!("curl -s -m 5 -o /dev/null -w '%{{http_code}} %{{exitcode}}' {url}"))
}

/// The number of requests that each server got, by its log.
fn count_hits(cluster: &Cluster, pods: &[&str], from: &str, path: &str) -> Vec<usize> {
    let of = |pod: &&str| {
        let log = cluster.instance.logs(pod);
        log.lines().filter(|line| line.starts_with(from) && line.contains(path)).count()
    };
    pods.iter().map(of).collect()
}

/// NET-6: cluster addresses, names, node ports, affinity, a pod that reaches itself, no endpoints; the client's address
/// is preserved; the API is at its usual address.
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
        let (own, both) = (cluster.ip("asker"), ["a", "b"]);
        wait_for("both endpoints", || {
            code(&cluster, "asker", "http://web:8080/both");
            count_hits(&cluster, &both, &own, "/both").iter().all(|count| *count > 0).then_some(())
        });
        for _ in 0..6 {
            assert_eq!(code(&cluster, "asker", "http://web:8080/fair"), "404 0", "as {user:?}");
            assert_eq!(code(&cluster, "asker", "http://sticky.default.svc.cluster.local/sticky"), "404 0");
        }
        for path in ["/fair", "/sticky"] {
            wait_for("all to be logged", || {
                (count_hits(&cluster, &both, &own, path).iter().sum::<usize>() == 6).then_some(())
            });
        }
        // Endpoints are used in turn, and see the client's own address. A change of the service's rules restarts with
        // the first endpoint.
        let fair = count_hits(&cluster, &both, &own, "/fair");
        assert!(fair.iter().sum::<usize>() == 6 && fair.iter().all(|count| *count >= 2), "{fair:?}");
        let mut sticky = count_hits(&cluster, &both, &own, "/sticky");
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

/// Returns the number of this cluster's slot in the loopback range.
fn slot(cluster: &Cluster) -> u8 {
    std::fs::read_to_string(cluster.home.data_dir().join("slot")).unwrap().trim().parse().unwrap()
}

/// The mirror address of an address inside.
fn mirror(ip: &str, from: &str, first: u8) -> String {
    ip.replacen(from, &format!("127.{first}"), 1)
}

/// NET-7: programs of the machine reach node ports at 127.0.0.1, and services and pods at their mirror addresses; an
/// address without a server refuses.
#[test]
fn the_machine_meets_services_and_pods_at_their_mirrors_net_7() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        cluster.apply(&[&web("a", "node-1", ""), SERVICES].concat());
        cluster.ready("a");
        let slot = slot(&cluster);
        let ask = |ip: &str, port: u16| {
            let mut stream = TcpStream::connect((ip, port)).ok()?;
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok()?;
            text.lines().next().map(ToString::to_string)
        };
        let ok = Some("HTTP/1.0 200 OK");
        wait_for("the node port", || (ask("127.0.0.1", 30080).as_deref() == ok).then_some(()));
        let of = |service: &str| {
            cluster.instance.kubectl(&["get", "svc", service, "-o", "jsonpath={.spec.clusterIP}"])
        };
        assert_eq!(ask(&mirror(&of("web"), "10.96", 32 + slot), 8080).as_deref(), ok);
        assert_eq!(ask(&mirror(&of("none"), "10.96", 32 + slot), 80), None);
        // Ports below 1024 are 8000 higher if only root may bind them.
        let pod = mirror(&cluster.ip("a"), "10.244", 64 + 4 * slot);
        wait_for("the pod's port", || {
            [80, 8080].iter().any(|port| ask(&pod, *port).as_deref() == ok).then_some(())
        });
        cluster.instance.stop();
    }
}

/// Responds to each datagram with its text in capitals, and its sender.
const ECHO: &str =
    "import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 5353))
while True: data, sender = s.recvfrom(2000); s.sendto(data.upper() + b' ' + sender[0].encode(), sender)";

/// A pod that responds to datagrams, with a service of its own.
fn echo(node: &str) -> String {
    let pod = running("echo", node, &format!("[python3, -c, \"{}\"]", ECHO.replace('\n', "\\n")));
    let ports = "ports: [{containerPort: 5353, protocol: UDP}, {containerPort: 5353, hostPort: 9353, protocol: UDP, hostIP: 127.0.0.1}]";
    let pod = pod.replace("{name: echo}", "{name: echo, labels: {app: echo}}");
    let pod = pod.replace("image: busybox,", &format!("image: busybox, {ports},"));
    let spec =
        "{selector: {app: echo}, type: NodePort, ports: [{port: 5353, protocol: UDP, nodePort: 30353}]}";
    format!("{pod}apiVersion: v1\nkind: Service\nmetadata: {{name: echo}}\nspec: {spec}\n---\n")
}

/// NET-7: programs of the machine send datagrams to the mirror addresses of services and pods, and get the responses.
#[test]
fn the_machine_meets_datagrams_at_their_mirrors_net_7() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        cluster.apply(&echo("node-1"));
        cluster.ready("echo");
        let slot = slot(&cluster);
        let service = cluster.instance.kubectl(&["get", "svc", "echo", "-o", "jsonpath={.spec.clusterIP}"]);
        let (service, pod) =
            (mirror(&service, "10.96", 32 + slot), mirror(&cluster.ip("echo"), "10.244", 64 + 4 * slot));
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let says = |ip: &str, port: u16, text: &str| {
            client.send_to(text.as_bytes(), (ip, port)).ok()?;
            let mut buffer = [0; 2000];
            let (length, from) = client.recv_from(&mut buffer).ok()?;
            assert_eq!((from.ip().to_string().as_str(), from.port()), (ip, port));
            Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
        };
        for (ip, port) in
            [("127.0.0.1", 30353), (service.as_str(), 5353), (pod.as_str(), 5353), ("127.0.0.1", 9353)]
        {
            // A late response answers an earlier datagram.
            let reply =
                wait_for(&format!("an answer of {ip}:{port} as {user:?}"), || says(ip, port, "hello"));
            assert!(reply.starts_with("HELLO "), "{reply}");
        }
        let large = "x".repeat(1400);
        let reply =
            wait_for("a large one", || says("127.0.0.1", 30353, &large).filter(|reply| reply.len() > 1000));
        assert!(reply.starts_with(&"X".repeat(1400)), "{reply}");

        // The service has no endpoint any more: the port is free.
        cluster.instance.kubectl(&["delete", "pod", "echo"]);
        wait_for("the port to be free", || UdpSocket::bind("127.0.0.1:30353").ok());
        cluster.instance.stop();
    }
}

/// NET-5, NET-6: a hostNetwork pod has the node's addresses, and reaches the servers at them like any other client:
/// node ports, host ports of other pods, itself.
#[test]
fn pods_of_a_nodes_network_meet_what_is_served_there_net_5_net_6() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        let server =
            web("a", "node-1", "").replace("containerPort: 80}", "containerPort: 80, hostPort: 9091}");
        let own = running("own", "node-1", "[python3, -m, http.server, --bind, '::', '8123']");
        let own =
            own.replace("spec:\n", "spec:\n  hostNetwork: true\n  dnsPolicy: ClusterFirstWithHostNet\n");
        let services = SERVICES.replace("30080", "30091").replace(
            "spec: {selector: {app: web}, type",
            "spec: {selector: {app: web}, ipFamilyPolicy: PreferDualStack, type",
        );
        cluster.apply(&[server, own, services].concat());
        for pod in ["a", "own"] {
            cluster.ready(pod);
        }
        let has_ipv6 = fabric::has_ipv6();
        let ips = cluster.instance.kubectl(&["get", "pod", "own", "-o", "jsonpath={.status.podIPs[*].ip}"]);
        assert_eq!(ips, if has_ipv6 { "172.20.0.1 fd00:172:20::1" } else { "172.20.0.1" });
        for ip in ["172.20.0.1", "172.20.0.2", "[fd00:172:20::1]", "[fd00:172:20::2]"] {
            if !has_ipv6 && ip.starts_with('[') {
                continue;
            }
            let url = format!("-g http://{ip}:30091/");
            wait_for(&url, || (code(&cluster, "own", &url) == "200 0").then_some(()));
        }
        for url in [
            "http://172.20.0.1:9091/", "http://172.20.0.1:8123/", "http://127.0.0.1:8123/",
            "http://127.0.0.1:9091/", "http://web:8080/",
        ] {
            wait_for(url, || (code(&cluster, "own", url) == "200 0").then_some(()));
        }
        // 7 = could not connect.
        assert_eq!(code(&cluster, "own", "http://172.20.0.1:8124/"), "000 7");
        // The network of a node ends with its host, and comes back with the next one, including all its servers.
        kill(&processes(&cluster, "node-host"));
        let url = "http://127.0.0.1:9091/";
        wait_for("the next host", || {
            (code(&cluster, "own", "http://127.0.0.1:8123/") == "200 0").then_some(())
        });
        wait_for(url, || (code(&cluster, "own", url) == "200 0").then_some(()));
        cluster.instance.stop();
    }
}
