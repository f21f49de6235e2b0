//! Questions over datagrams and connections, for the cluster's names and for the world's (NET-3).

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use ipnet::IpAdd;
use podium::api::DeleteOptions;
use podium::dns::{DnsConfig, Resolvers, bind, start};
use podium::object::Key;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use super::{Net, until};

/// A cluster's DNS with these other servers.
fn running(resolvers: Vec<SocketAddr>) -> (Net, SocketAddr) {
    let net = Net::new();
    let address = SocketAddr::from((net.services.network().saturating_add(10), 8053));
    let config = DnsConfig {
        open: std::sync::Arc::new(bind),
        addresses: vec![address],
        domain: "cluster.local".into(),
        host: None,
        resolvers: Resolvers::Fixed(resolvers),
        service: Key::new("kube-system", "kube-dns"),
    };
    start(&net.api, &net.caches, &net.tasks, config);
    (net, address)
}

fn question(name: &str, type_: RecordType) -> Message {
    let mut message = Message::query();
    message.queries = vec![Query::query(Name::from_ascii(name).unwrap(), type_)];
    message
}

/// Sends one datagram and returns the response; `None` if none arrives in time.
async fn ask(server: SocketAddr, name: &str, type_: RecordType) -> Option<Message> {
    let query = question(name, type_);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(server).await.unwrap();
    socket.send(&query.to_vec().unwrap()).await.ok()?;
    let mut buffer = vec![0; 4096];
    let wait = Duration::from_secs(10);
    let length = tokio::time::timeout(wait, socket.recv(&mut buffer)).await.ok()?.ok()?;
    assert!(length <= 512, "a client that says nothing takes no more");
    let answer = Message::from_vec(&buffer[..length]).unwrap();
    assert_eq!((answer.metadata.id, &answer.queries), (query.metadata.id, &query.queries));
    Some(answer)
}

fn addresses(answer: &Message) -> Vec<Ipv4Addr> {
    let ip = |record: &Record| if let RData::A(ip) = record.data { Some(ip.0) } else { None };
    answer.answers.iter().filter_map(ip).collect()
}

/// A server of the world that knows one name.
async fn world() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let request = Message::from_vec(&buffer[..length]).unwrap();
            let mut reply = Message::response(request.metadata.id, request.metadata.op_code);
            reply.queries.clone_from(&request.queries);
            if request.queries[0].name().to_ascii() == "example.org." {
                let name = request.queries[0].name().clone();
                reply.answers = vec![Record::from_rdata(name, 60, RData::A(A([192, 0, 2, 7].into())))];
            } else {
                reply.metadata.response_code = ResponseCode::NXDomain;
            }
            let packet = reply.to_vec().unwrap();
            // The first response has a wrong ID, as a forged one might.
            let mut wrong = packet.clone();
            wrong[0] ^= 0xff;
            let _ = socket.send_to(&wrong, from).await;
            let _ = socket.send_to(&packet, from).await;
        }
    });
    address
}

#[tokio::test]
async fn names_appear_and_go_with_their_services_net_3() {
    let (net, server) = running(Vec::new());
    let name = "web.default.svc.cluster.local.";
    let missing = until("the server", || ask(server, name, RecordType::A)).await;
    assert_eq!(missing.metadata.response_code, ResponseCode::NXDomain);
    let service = net.service("web", &json!({"ports": [{"port": 80}]}));
    let found = until("the name", || async {
        ask(server, name, RecordType::A).await.filter(|answer| !answer.answers.is_empty())
    })
    .await;
    assert_eq!(addresses(&found), [service]);
    net.api
        .delete(podium::object::Kind::Service, &Key::new("default", "web"), &DeleteOptions::default())
        .unwrap();
    until("no name", || async {
        let answer = ask(server, name, RecordType::A).await?;
        (answer.metadata.response_code == ResponseCode::NXDomain).then_some(())
    })
    .await;
    net.tasks.stop().await;
}

#[tokio::test]
async fn an_answer_too_large_for_a_datagram_is_served_over_tcp_net_3() {
    let (net, server) = running(Vec::new());
    net.service("many", &json!({"clusterIP": "None", "ports": [{"port": 80}]}));
    let all: Vec<_> = (1..=100)
        .map(|n| json!({"addresses": [net.backend(n).to_string()], "conditions": {"ready": true}}))
        .collect();
    net.endpoints("many", &json!([{"name": "", "port": 80, "protocol": "TCP"}]), &json!(all));
    let name = "many.default.svc.cluster.local.";
    let cut = until("the set", || async {
        ask(server, name, RecordType::A).await.filter(|answer| !answer.answers.is_empty())
    })
    .await;
    assert!(cut.metadata.truncation && cut.answers.len() < 100);

    let mut stream = TcpStream::connect(server).await.unwrap();
    // Two questions on one connection.
    for _ in 0..2 {
        let packet = question(name, RecordType::A).to_vec().unwrap();
        stream.write_u16(u16::try_from(packet.len()).unwrap()).await.unwrap();
        stream.write_all(&packet).await.unwrap();
        let mut answer = vec![0; usize::from(stream.read_u16().await.unwrap())];
        stream.read_exact(&mut answer).await.unwrap();
        let whole = Message::from_vec(&answer).unwrap();
        let mut ips = addresses(&whole);
        ips.sort_unstable();
        assert_eq!(ips, (1..=100).map(|n| net.backend(n)).collect::<Vec<_>>());
        assert!(!whole.metadata.truncation);
    }
    net.tasks.stop().await;
}

#[tokio::test]
async fn other_names_are_forwarded_to_the_resolvers_of_the_machine_net_3() {
    // The first server does not answer: no process reads from its port.
    let deaf = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (net, server) = running(vec![deaf, world().await]);
    net.service("out", &json!({"type": "ExternalName", "externalName": "example.org"}));
    let found = until("the world", || ask(server, "example.org.", RecordType::A)).await;
    assert_eq!(addresses(&found), [Ipv4Addr::new(192, 0, 2, 7)]);
    let missing = ask(server, "no.example.org.", RecordType::A).await.unwrap();
    assert_eq!(missing.metadata.response_code, ResponseCode::NXDomain);
    let name = "out.default.svc.cluster.local.";
    let followed = until("the alias", || async {
        ask(server, name, RecordType::A).await.filter(|answer| !answer.answers.is_empty())
    })
    .await;
    assert_eq!(followed.answers[0].record_type(), RecordType::CNAME);
    assert_eq!(addresses(&followed), [Ipv4Addr::new(192, 0, 2, 7)]);
    net.tasks.stop().await;

    let (net, server) = running(vec![deaf]);
    let failed = until("the server", || ask(server, "example.org.", RecordType::A)).await;
    assert_eq!(failed.metadata.response_code, ResponseCode::ServFail);
    net.tasks.stop().await;
}

/// A client that holds all the connections it gets leaves some to others.
#[tokio::test]
async fn connections_are_left_to_others_sec_2() {
    let (net, server) = running(Vec::new());
    let name = "web.default.svc.cluster.local.";
    until("the server", || ask(server, name, RecordType::A)).await;
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(TcpStream::connect(server).await.unwrap());
    }
    let other = TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut stream = other.connect(server).await.unwrap();
    let packet = question(name, RecordType::A).to_vec().unwrap();
    stream.write_u16(u16::try_from(packet.len()).unwrap()).await.unwrap();
    stream.write_all(&packet).await.unwrap();
    // The response comes sooner than silent clients are disconnected.
    let answered = tokio::time::timeout(Duration::from_secs(5), stream.read_u16()).await;
    assert!(matches!(answered, Ok(Ok(length)) if length > 0), "{answered:?}");
    drop(held);
    net.tasks.stop().await;
}

/// SEC-2: datagrams and connections with any content are answered or dropped, and other clients are served meanwhile.
#[tokio::test]
async fn garbage_is_no_reason_to_be_silent_to_others_sec_2() {
    let (net, server) = running(Vec::new());
    let name = "web.default.svc.cluster.local.";
    let service = net.service("web", &json!({"ports": [{"port": 80}]}));
    let found = async || {
        until("the name", || async {
            ask(server, name, RecordType::A).await.filter(|answer| addresses(answer) == [service])
        })
        .await
    };
    found().await;
    let query = question(name, RecordType::A).to_vec().unwrap();
    // The data is the same in every run: whole questions that are cut, changed and continued, and noise of every
    // length.
    let mut seed = 0x9e37_79b9_u32;
    let mut noise = || {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed
    };
    let mut packets = Vec::new();
    for round in 0..2000 {
        let mut packet = query.clone();
        match round % 4 {
            0 => packet.truncate(noise() as usize % packet.len()),
            1 => {
                for _ in 0..=noise() % 4 {
                    let place = noise() as usize % packet.len();
                    packet[place] = noise().to_le_bytes()[0];
                }
            }
            2 => packet.extend((0..noise() % 3000).map(|_| noise().to_le_bytes()[0])),
            _ => packet = (0..noise() % 600).map(|_| noise().to_le_bytes()[0]).collect(),
        }
        packets.push(packet);
    }
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for packet in &packets {
        socket.send_to(packet, server).await.unwrap();
    }
    found().await;
    let mut open = Vec::new();
    for (round, packet) in packets.iter().take(400).enumerate() {
        // One client has a quarter of all connections; the others are closed, which is no error here.
        let Ok(mut stream) = TcpStream::connect(server).await else { continue };
        let says = if round % 2 == 0 { packet.len() } else { usize::from(u16::MAX) };
        let _ = stream.write_u16(u16::try_from(says).unwrap()).await;
        let _ = stream.write_all(packet).await;
        if round % 3 == 0 {
            open.push(stream);
        }
    }
    found().await;
    drop(open);
    until("a connection that is served", || async {
        let mut stream = TcpStream::connect(server).await.ok()?;
        stream.write_u16(u16::try_from(query.len()).unwrap()).await.ok()?;
        stream.write_all(&query).await.ok()?;
        let mut answer = vec![0; usize::from(stream.read_u16().await.ok()?)];
        stream.read_exact(&mut answer).await.ok()?;
        (addresses(&Message::from_vec(&answer).unwrap()) == [service]).then_some(())
    })
    .await;
    net.tasks.stop().await;
}

/// NET-3: if the machine's resolvers are silent, a failure comes in the end, and the cluster's names are answered
/// meanwhile.
#[tokio::test]
async fn unreachable_resolvers_do_not_delay_other_queries_net_3() {
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    }
    let (net, server) = running(silent.iter().map(|socket| socket.local_addr().unwrap()).collect());
    let name = "web.default.svc.cluster.local.";
    let service = net.service("web", &json!({"ports": [{"port": 80}]}));
    until("the name", || async {
        ask(server, name, RecordType::A).await.filter(|answer| addresses(answer) == [service])
    })
    .await;
    // On one socket, the external query is sent first, and the cluster's answer arrives first.
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(server).await.unwrap();
    let world = question("example.org.", RecordType::A);
    let own = question(name, RecordType::A);
    for query in [&world, &own] {
        socket.send(&query.to_vec().unwrap()).await.unwrap();
    }
    let mut answers = Vec::new();
    let mut buffer = vec![0; 4096];
    for _ in 0..2 {
        let length = super::soon("an answer", socket.recv(&mut buffer)).await.unwrap();
        answers.push(Message::from_vec(&buffer[..length]).unwrap());
    }
    assert_eq!(answers[0].metadata.id, own.metadata.id);
    assert_eq!(addresses(&answers[0]), [service]);
    assert_eq!(answers[1].metadata.id, world.metadata.id);
    assert_eq!(answers[1].metadata.response_code, ResponseCode::ServFail);
    net.tasks.stop().await;
}
