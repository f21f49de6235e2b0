//! Pods with host ports (NET-2).

use std::net::{Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use podium::api::DeleteOptions;
use podium::object::low_ports::LowPorts;
use podium::object::{Key, Kind};
use podium::services::proxy::{ProxyConfig, start};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;

use super::{Net, until};

impl Net {
    /// A node `n1` or `n2` with an address of the test's own.
    fn node(&self, number: u8) -> Ipv4Addr {
        let ip = self.backend(200 + number);
        self.create::<Node>(json!({"metadata": {"name": format!("n{number}")}}));
        self.api
            .modify_status::<Node>(&Key::new("", format!("n{number}")), |node| {
                let address = json!([{"type": "InternalIP", "address": ip.to_string()}]);
                node.status.get_or_insert_default().addresses = serde_json::from_value(address).unwrap();
                Ok(())
            })
            .unwrap();
        ip
    }

    /// A pod that runs on a node, as its kubelet reports it.
    fn runs(&self, name: &str, node: u8, ip: Ipv4Addr, ports: &Value) {
        self.create::<Pod>(json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": format!("n{node}"),
                "containers": [{"name": "c", "image": "i", "ports": ports}]}}));
        self.tell(name, "Running", ip);
    }

    fn tell(&self, name: &str, phase: &str, ip: Ipv4Addr) {
        self.api
            .modify_status::<Pod>(&Key::new("default", name), |pod| {
                let status = pod.status.get_or_insert_default();
                (status.phase, status.pod_ip) = (Some(phase.to_owned()), Some(ip.to_string()));
                Ok(())
            })
            .unwrap();
    }

    fn warnings(&self, pod: &str) -> Vec<String> {
        let events = self.api.list_as::<Event>(Some("default"));
        let of_pod = events.iter().filter(|event| event.involved_object.name.as_deref() == Some(pod));
        of_pod.filter_map(|event| event.message.clone()).collect()
    }
}

fn proxied() -> Net {
    let net = Net::new();
    let config = ProxyConfig {
        services: net.services,
        low_ports: LowPorts::default(),
        connections: 1000,
        inside: None,
    };
    start(&net.api, &net.caches, &net.tasks, config);
    net
}

/// A port that is free at all addresses of this machine.
async fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
    listener.local_addr().unwrap().port()
}

/// Sends its name to every client that connects.
async fn greet(name: &'static str, address: impl Into<SocketAddr>) -> JoinHandle<()> {
    let listener = TcpListener::bind(address.into()).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(name.as_bytes()).await;
        }
    })
}

/// The name of the server that answers there; `None` if none does.
async fn who(ip: Ipv4Addr, port: u16) -> Option<String> {
    let mut name = String::new();
    TcpStream::connect((ip, port)).await.ok()?.read_to_string(&mut name).await.ok()?;
    Some(name).filter(|name| !name.is_empty())
}

async fn answers(what: &str, ip: Ipv4Addr, port: u16, expect: Option<&str>) {
    until(what, || async move { (who(ip, port).await.as_deref() == expect).then_some(()) }).await;
}

/// Pods of two nodes have the same port, each at its own node; 127.0.0.1 shows one of them. The conformance test "no
/// conflict between pods with same hostPort but different hostIP and protocol" needs this (NET-2).
#[tokio::test]
async fn a_pod_is_served_at_its_host_port() {
    let net = proxied();
    let (one, two) = (net.node(1), net.node(2));
    let (a, b) = (net.backend(1), net.backend(2));
    let port = free_port().await;
    let ports = json!([{"containerPort": 8080, "hostPort": port}]);
    net.runs("a", 1, a, &ports);
    // The pod's program starts only later.
    let _a = greet("a", (a, 8080)).await;
    answers("a at its node", one, port, Some("a")).await;
    answers("a at localhost", Ipv4Addr::LOCALHOST, port, Some("a")).await;
    let _b = greet("b", (b, 8080)).await;
    net.runs("b", 2, b, &ports);
    answers("b at its node", two, port, Some("b")).await;
    assert_eq!(who(one, port).await.as_deref(), Some("a"));
    assert_eq!(net.warnings("b"), [""; 0], "it is served where it asked to be");
    net.tell("a", "Succeeded", a);
    answers("the end of a", one, port, None).await;
    answers("b at localhost", Ipv4Addr::LOCALHOST, port, Some("b")).await;
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    net.api.delete(Kind::Pod, &Key::new("default", "b"), &now).unwrap();
    answers("the end of b", two, port, None).await;
    net.tasks.stop().await;
}

/// NET-2: a host port is served as TCP and as UDP, at one address only; an unavailable port is reported.
#[tokio::test]
async fn a_host_port_is_one_addresss_and_one_protocols() {
    let net = proxied();
    let node = net.node(1);
    let (a, b, c) = (net.backend(1), net.backend(2), net.backend(3));
    let port = free_port().await;
    let at = |ip: Ipv4Addr, protocol: &str| json!([{"containerPort": 8080, "hostPort": port, "hostIP": ip.to_string(), "protocol": protocol}]);
    let (_a, _c) = (greet("a", (a, 8080)).await, greet("c", (c, 8080)).await);
    let echo = UdpSocket::bind((b, 8080)).await.unwrap();
    let _b = tokio::spawn(async move {
        let mut datagram = [0; 64];
        while let Ok((length, from)) = echo.recv_from(&mut datagram).await {
            let _ = echo.send_to(&datagram[..length], from).await;
        }
    });
    net.runs("a", 1, a, &at(Ipv4Addr::LOCALHOST, "TCP"));
    net.runs("b", 1, b, &at(Ipv4Addr::LOCALHOST, "UDP"));
    answers("a", Ipv4Addr::LOCALHOST, port, Some("a")).await;
    until("b", || async {
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        client.connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        // Each try has a new client: the first datagram of a flow arrives like any other.
        client.send(b"hello").await.ok()?;
        let mut datagram = [0; 64];
        let answer = tokio::time::timeout(std::time::Duration::from_millis(200), client.recv(&mut datagram));
        (answer.await.ok()?.ok()? == 5).then_some(())
    })
    .await;
    assert_eq!(who(node, port).await, None, "it asked for another address");
    let _other = greet("other", (node, port)).await;
    net.runs("c", 1, c, &at(node, "TCP"));
    let expect = format!("cannot listen on {node}:{port}/TCP: another program uses the port; retrying");
    until("the event", || async { net.warnings("c").contains(&expect).then_some(()) }).await;
    net.tasks.stop().await;
}

/// NET-2: a program that binds every address has its port to itself, and serves its host port with it.
#[tokio::test]
async fn a_program_that_binds_every_address_is_not_in_the_proxys_way() {
    let net = proxied();
    let node = net.node(1);
    let (all, after) = (net.backend(1), net.backend(2));
    let port = free_port().await;
    net.runs("all", 1, all, &json!([{"containerPort": port, "hostPort": port}]));
    // The proxy has processed the pod once it serves one that was created after it.
    let _after = greet("after", (after, 8080)).await;
    let other = free_port().await;
    net.runs("after", 1, after, &json!([{"containerPort": 8080, "hostPort": other}]));
    answers("the pod after it", node, other, Some("after")).await;
    let _all = greet("all", (Ipv4Addr::UNSPECIFIED, port)).await;
    answers("the program itself", node, port, Some("all")).await;
    net.tell("all", "Succeeded", all);
    assert_eq!(net.warnings("all"), [""; 0]);
    net.tasks.stop().await;
}
