//! Connections and datagrams through services, while their endpoints come and go (NET-2, SVC-1).

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::Event;
use podium::object::low_ports::LowPorts;
use podium::services::proxy::{ProxyConfig, start};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;

use super::{Net, soon, until};

const PORT: u16 = 8080;

fn running() -> Net {
    running_with(LowPorts::default())
}

fn running_with(low_ports: LowPorts) -> Net {
    let net = Net::new();
    start(
        &net.api,
        &net.caches,
        &net.tasks,
        ProxyConfig { services: net.services, low_ports, connections: 1000, inside: None },
    );
    net
}

fn ports(protocol: &str) -> Value {
    json!([{"name": "", "port": PORT, "protocol": protocol}])
}

/// An endpoint: `r`eady, or `t`erminating but serving.
fn endpoint(ip: Ipv4Addr, state: char) -> Value {
    json!({"addresses": [ip.to_string()],
        "conditions": {"ready": state == 'r', "serving": true, "terminating": state == 't'}})
}

/// Sends its name, then echoes data until the client is done.
async fn echo(ip: Ipv4Addr) -> JoinHandle<()> {
    echo_as(&ip.to_string(), (ip, PORT).into()).await
}

async fn echo_as(name: &str, address: SocketAddr) -> JoinHandle<()> {
    let listener = TcpListener::bind(address).await.unwrap();
    let greeting = format!("{name}\n");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let greeting = greeting.clone();
            tokio::spawn(async move {
                let _ = stream.write_all(greeting.as_bytes()).await;
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.write_all(b"end").await;
            });
        }
    })
}

async fn line(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        if byte == b'\n' {
            break;
        }
        text.push(byte);
    }
    String::from_utf8(text).unwrap()
}

/// The name of the server that answers a new connection; `None` if it is refused or reset.
async fn who(service: Ipv4Addr) -> Option<String> {
    let mut stream = TcpStream::connect((service, PORT)).await.ok()?;
    Some(line(&mut stream).await).filter(|name| !name.is_empty())
}

#[tokio::test]
async fn connections_follow_the_endpoints_net_2() {
    let net = running();
    let (one, two) = (net.backend(2), net.backend(3));
    let (_first, second) = (echo(one).await, echo(two).await);
    let service = net.service("web", &json!({"ports": [{"port": PORT}]}));
    let refused = TcpStream::connect((service, PORT)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "no endpoint");

    net.endpoints("web", &ports("TCP"), &json!([endpoint(one, 'r'), endpoint(two, 'r')]));
    until("an answer", || who(service)).await;
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..10 {
        *seen.entry(who(service).await.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(seen, [(one.to_string(), 5), (two.to_string(), 5)].into(), "taking turns");

    // A connection outlives its endpoint's membership; half of it may end before the other.
    let mut open = TcpStream::connect((service, PORT)).await.unwrap();
    let with = line(&mut open).await;
    let other = if with == one.to_string() { two } else { one };
    net.endpoints("web", &ports("TCP"), &json!([endpoint(with.parse().unwrap(), 't'), endpoint(other, 'r')]));
    until("only the other", || async {
        let all = [who(service).await, who(service).await];
        (all == [Some(other.to_string()), Some(other.to_string())]).then_some(())
    })
    .await;
    let long = vec![b'x'; 3 << 20];
    let (mut read, mut write) = open.split();
    let sent = async {
        write.write_all(&long).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut got = Vec::new();
    let ((), count) = soon("the echo", async { tokio::join!(sent, read.read_to_end(&mut got)) }).await;
    assert_eq!(count.unwrap(), long.len() + 3, "all of it, and what came after our end");
    assert!(got.ends_with(b"xend"));

    // An endpoint that does not listen is skipped; one that is not ready serves if no other does.
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    net.endpoints("web", &ports("TCP"), &json!([endpoint(one, 'r'), endpoint(two, 'r')]));
    for _ in 0..4 {
        until("the living one", || async { (who(service).await? == one.to_string()).then_some(()) }).await;
    }
    net.endpoints("web", &ports("TCP"), &json!([endpoint(one, 't')]));
    assert_eq!(until("the leaving one", || who(service)).await, one.to_string());
    net.endpoints("web", &ports("TCP"), &json!([]));
    until("refused again", || async {
        let refused = TcpStream::connect((service, PORT)).await.err()?;
        (refused.kind() == ErrorKind::ConnectionRefused).then_some(())
    })
    .await;
    net.tasks.stop().await;
}

#[tokio::test]
async fn a_reset_is_passed_on_as_a_reset_net_2() {
    let net = running();
    let ip = net.backend(2);
    let listener = TcpListener::bind((ip, PORT)).await.unwrap();
    let service = net.service("web", &json!({"ports": [{"port": PORT}]}));
    net.endpoints("web", &ports("TCP"), &json!([endpoint(ip, 'r')]));
    let connect = || async { TcpStream::connect((service, PORT)).await.ok() };
    let mut client = until("a connection", connect).await;
    let (mut backend, _) = soon("accept", listener.accept()).await.unwrap();
    backend.write_all(b"half an ans").await.unwrap();
    let mut start = [0; 11];
    client.read_exact(&mut start).await.unwrap();
    backend.set_zero_linger().unwrap();
    drop(backend);
    let end = soon("the end", client.read_u8()).await.unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset, "not an end of file: the answer was not whole");
    net.tasks.stop().await;
}

#[tokio::test]
async fn a_client_keeps_its_endpoint_svc_1() {
    let net = running();
    let all = [net.backend(2), net.backend(3), net.backend(4)];
    for ip in all {
        echo(ip).await;
    }
    let service = net.service("web", &json!({"ports": [{"port": PORT}], "sessionAffinity": "ClientIP"}));
    net.endpoints("web", &ports("TCP"), &json!(all.map(|ip| endpoint(ip, 'r'))));
    let first = until("an answer", || who(service)).await;
    for _ in 0..5 {
        assert_eq!(who(service).await.as_ref(), Some(&first));
    }
    let left: Vec<Value> =
        all.iter().filter(|ip| ip.to_string() != first).map(|ip| endpoint(*ip, 'r')).collect();
    net.endpoints("web", &ports("TCP"), &json!(left));
    until("another", || async { who(service).await.filter(|name| *name != first) }).await;
    net.tasks.stop().await;
}

#[tokio::test]
async fn datagrams_flow_and_find_their_way_back_net_2() {
    let net = running();
    let (one, two) = (net.backend(2), net.backend(3));
    let mut servers = Vec::new();
    for ip in [one, two] {
        let socket = UdpSocket::bind((ip, PORT)).await.unwrap();
        servers.push(tokio::spawn(async move {
            let mut buffer = [0; 2048];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let answer = format!("{ip} {}", String::from_utf8_lossy(&buffer[..length]));
                let _ = socket.send_to(answer.as_bytes(), from).await;
            }
        }));
    }
    let service = net.service("dns", &json!({"ports": [{"port": PORT, "protocol": "UDP"}]}));
    net.endpoints("dns", &ports("UDP"), &json!([endpoint(one, 'r')]));
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect((service, PORT)).await.unwrap();
    let client = &client;
    let ask = |text: &'static str| async move {
        let mut buffer = [0; 2048];
        // The server is not ready yet, or the response was lost: try again.
        client.send(text.as_bytes()).await.ok()?;
        let wait = std::time::Duration::from_millis(500);
        let length = tokio::time::timeout(wait, client.recv(&mut buffer)).await.ok()?.ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    };
    assert_eq!(until("an answer", || ask("a")).await, format!("{one} a"));
    // The flow moves when its endpoint is removed.
    net.endpoints("dns", &ports("UDP"), &json!([endpoint(two, 'r')]));
    until("the other", || async { ask("b").await.filter(|answer| answer.starts_with(&two.to_string())) })
        .await;
    net.tasks.stop().await;
}

#[tokio::test]
async fn a_port_of_another_program_is_reported_and_retried_net_2() {
    let net = running();
    let ip = net.backend(2);
    echo(ip).await;
    let service = net.service("web", &json!({"ports": [{"port": PORT}]}));
    let squatter = TcpListener::bind((service, PORT)).await.unwrap();
    net.endpoints("web", &ports("TCP"), &json!([endpoint(ip, 'r')]));
    let event = until("the event", || async {
        let events = net.api.list_as::<Event>(Some("default"));
        events.iter().find(|e| e.reason.as_deref() == Some("FailedToListen")).cloned()
    })
    .await;
    assert_eq!(event.involved_object.kind.as_deref(), Some("Service"));
    let place = SocketAddr::from((service, PORT));
    let expected = format!("cannot listen on {place}/TCP: another program uses the port; retrying");
    assert_eq!(event.message.as_deref(), Some(expected.as_str()));
    drop(squatter);
    assert_eq!(until("an answer", || who(service)).await, ip.to_string());
    net.tasks.stop().await;
}

#[tokio::test]
async fn a_moved_port_gives_way_to_a_declared_one_net_1() {
    let net = running_with(LowPorts::below(1024));
    let ip = net.backend(2);
    let (_low, _high) = (echo_as("low", (ip, 9001).into()).await, echo_as("high", (ip, 9002).into()).await);
    let low = json!({"name": "low", "port": 80});
    let service = net.service("web", &json!({"ports": [low.clone()]}));
    let ports = json!([{"name": "low", "port": 9001, "protocol": "TCP"},
        {"name": "high", "port": 9002, "protocol": "TCP"}]);
    net.endpoints("web", &ports, &json!([endpoint(ip, 'r')]));
    assert_eq!(until("an answer", || who(service)).await, "low", "80 is served at 8080");

    let key = podium::object::Key::new("default", "web");
    let declare = |ports: Value| {
        net.api
            .modify::<k8s_openapi::api::core::v1::Service>(&key, |service| {
                service.spec.as_mut().unwrap().ports = serde_json::from_value(ports.clone()).unwrap();
                Ok(())
            })
            .unwrap();
    };
    declare(json!([low.clone(), {"name": "high", "port": 8080}]));
    until("the declared one", || async { (who(service).await? == "high").then_some(()) }).await;
    declare(json!([low]));
    until("the moved one again", || async { (who(service).await? == "low").then_some(()) }).await;
    net.tasks.stop().await;
}

#[tokio::test]
async fn node_ports_are_served_on_loopback_svc_1() {
    let net = running();
    let ip = net.backend(2);
    echo(ip).await;
    net.service("web", &json!({"type": "NodePort", "ports": [{"port": PORT}]}));
    let service: podium::object::SharedObject<k8s_openapi::api::core::v1::Service> =
        net.api.get_as(&podium::object::Key::new("default", "web")).unwrap();
    let port = service.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].node_port.unwrap();
    net.endpoints("web", &ports("TCP"), &json!([endpoint(ip, 'r')]));
    let ask = || async {
        let mut stream = TcpStream::connect(("127.0.0.1", u16::try_from(port).unwrap())).await.ok()?;
        Some(line(&mut stream).await).filter(|name| !name.is_empty())
    };
    assert_eq!(until("an answer", ask).await, ip.to_string());
    net.tasks.stop().await;
}

#[tokio::test]
async fn a_thousand_services_open_and_close_net_2() {
    let net = running();
    let ip = net.backend(2);
    echo(ip).await;
    let all: Vec<Ipv4Addr> = (0..1000)
        .map(|n| {
            let name = format!("s{n}");
            let service = net.service(&name, &json!({"ports": [{"port": PORT}]}));
            net.endpoints(&name, &ports("TCP"), &json!([endpoint(ip, 'r')]));
            service
        })
        .collect();
    for service in &all {
        assert_eq!(until("an answer", || who(*service)).await, ip.to_string());
    }
    for n in 0..1000 {
        let key = podium::object::Key::new("default", format!("s{n}"));
        let options = podium::api::DeleteOptions::default();
        net.api.delete(podium::object::Kind::Service, &key, &options).unwrap();
    }
    for service in &all {
        until("closed", || async { TcpStream::connect((*service, PORT)).await.err() }).await;
    }
    net.tasks.stop().await;
}
