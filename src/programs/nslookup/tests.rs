//! The command line, and what is printed for a server that knows one name.

use super::*;

fn parse(words: &str) -> Result<LookupArguments, String> {
    LookupArguments::parse(&words.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn the_command_line_is_busyboxs_net_3() {
    let plain = |name: &str, server: Option<&str>, type_| {
        Ok(LookupArguments { name: name.into(), server: server.map(Into::into), type_ })
    };
    assert_eq!(parse("web"), plain("web", None, None));
    assert_eq!(parse("-debug web 127.0.0.1:5353"), plain("web", Some("127.0.0.1:5353"), None));
    assert_eq!(parse("-type=srv web"), plain("web", None, Some(RecordType::SRV)));
    for wrong in ["", "-type=nonsense web", "a b c"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

/// A server that knows one name, for any number of queries.
fn server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let request = Message::from_vec(&buffer[..length]).unwrap();
            let mut reply = Message::response(request.metadata.id, request.metadata.op_code);
            reply.queries.clone_from(&request.queries);
            let query = &request.queries[0];
            match (query.name().to_ascii().as_str(), query.query_type()) {
                ("web.default.svc.cluster.local.", RecordType::A) => {
                    let ip = RData::A(Ipv4Addr::new(127, 32, 1, 5).into());
                    reply.answers = vec![Record::from_rdata(query.name().clone(), 5, ip)];
                }
                ("web.default.svc.cluster.local.", _) => {}
                ("5.1.32.127.in-addr.arpa.", RecordType::PTR) => {
                    let name = Name::from_ascii("web.default.svc.cluster.local.").unwrap();
                    let pointer = RData::PTR(hickory_proto::rr::rdata::PTR(name));
                    reply.answers = vec![Record::from_rdata(query.name().clone(), 5, pointer)];
                }
                _ => reply.metadata.response_code = ResponseCode::NXDomain,
            }
            socket.send_to(&reply.to_vec().unwrap(), client).unwrap();
        }
    });
    address
}

#[test]
fn it_finds_and_prints_what_busybox_does_net_3() {
    let server = server();
    let conf = "search default.svc.cluster.local svc.cluster.local\nnameserver 127.0.0.1\noptions ndots:5";
    let resolver = Resolver {
        conf: ResolvConf::parse(conf),
        hosts: "127.0.0.1 localhost\n127.64.0.2\tpod-0.web pod-0 # me\n".into(),
        low_ports: LowPorts::default(),
        port: Some(server.port()),
    };
    let head = "Server:    127.0.0.1\nAddress 1: 127.0.0.1 localhost\n\n";
    let found = "Name:      web\nAddress 1: 127.32.1.5 web.default.svc.cluster.local\n";
    assert_eq!(resolver.show_host("web"), (format!("{head}{found}"), Ok(())));
    let own = "Name:      POD-0\nAddress 1: 127.64.0.2 pod-0.web\n";
    assert_eq!(resolver.show_host("POD-0"), (format!("{head}{own}"), Ok(())));
    assert_eq!(resolver.show_host("db"), (head.to_owned(), Err("can't resolve 'db'".into())));
    let (text, outcome) = resolver.show_records("web", RecordType::A);
    assert_eq!(outcome, Ok(()));
    assert!(text.ends_with("Name:\tweb.default.svc.cluster.local\nAddress: 127.32.1.5\n"), "{text}");
    let (_, outcome) = resolver.show_records("web", RecordType::SRV);
    assert_eq!(outcome, Err("*** Can't find web: No answer".into()));
    let deaf = Resolver { conf: ResolvConf::default(), ..resolver };
    assert_eq!(deaf.show_host("web").1, Err("can't resolve 'web'".into()));
}
