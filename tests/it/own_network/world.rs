//! The way out of the cluster.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};

use super::{Cluster, idle, needs, users, wait_for};

/// NET-7: the machine's loopback is reached by its name and for the named ports alone; what is refused is refused.
#[test]
fn the_machine_is_reached_by_its_name_for_the_ports_that_are_named_net_7() {
    needs!(Kubectl);
    for user in users() {
        let [named, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [open, closed] = [&named, &other].map(|listener| listener.local_addr().unwrap().port());
        let answering = std::thread::spawn(move || {
            let (mut client, _) = named.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                asked.push(byte[0]);
            }
            client.write_all(b"HTTP/1.0 200 OK\r\n\r\nthe machine").unwrap();
            named
        });
        let cluster = Cluster::start(user, &format!(", hostPorts: [{open}]"));
        cluster.apply(&idle("p", "node-1"));
        cluster.ready("p");
        let said = cluster.shell("p", &format!("curl -s -m 5 http://host.podium.internal:{open}/"));
        assert_eq!(said, "the machine", "as {user:?}");
        let named = answering.join().unwrap();
        let code = |port: u16| {
            cluster.shell(
                "p",
                &format!("curl -s -m 5 -o /dev/null -w '%{{exitcode}}' http://host.podium.internal:{port}/"),
            )
        };
        // 56 = reset; 7 = refused: from the second time on, for two seconds.
        assert!(["56", "7"].contains(&code(closed).as_str()));
        wait_for("a refusal", || (code(closed) == "7").then_some(()));
        other.set_nonblocking(true).unwrap();
        assert!(other.accept().is_err(), "nobody came");
        drop(named);
        cluster.instance.stop();
    }
}

/// NET-7: datagrams find their way out and back, as from where they were sent to.
#[test]
fn datagrams_go_out_and_come_back_net_7() {
    needs!(Kubectl);
    for user in users() {
        let machine = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = machine.local_addr().unwrap().port();
        let cluster = Cluster::start(user, &format!(", hostPorts: [{port}]"));
        cluster.apply(&idle("p", "node-1"));
        cluster.ready("p");
        let echo = std::thread::spawn(move || {
            let mut buffer = [0; 100];
            for _ in 0..2 {
                let (length, from) = machine.recv_from(&mut buffer).unwrap();
                machine.send_to(&buffer[..length].to_ascii_uppercase(), from).unwrap();
            }
        });
        // bash opens datagrams as files.
        let script = format!(
            "bash -c 'exec 3<>/dev/udp/169.254.1.2/{port}; for i in 1 2; do echo hello$i >&3; echo got $(timeout 5 dd bs=100 count=1 status=none <&3); done'"
        );
        assert_eq!(cluster.shell("p", &script), "got HELLO1\ngot HELLO2", "as {user:?}");
        echo.join().unwrap();
        cluster.instance.stop();
    }
}
