//! Egress from the cluster.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;

use super::{Cluster, idle, users, wait_for};

/// NET-7: the machine's loopback is reached only by its name and for the configured ports; its refusals are passed on.
#[test]
fn the_machine_is_reached_by_its_name_for_the_ports_that_are_named_net_7() {
    for user in users() {
        let [named, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [open, closed] = [&named, &other].map(|listener| listener.local_addr().unwrap().port());
        let answering = std::thread::spawn(move || {
            let (mut client, _) = named.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            client.write_all(b"HTTP/1.0 200 OK\r\n\r\nthe machine").unwrap();
            named
        });
        let cluster = Cluster::start(user, &format!(", hostPorts: [{open}]"));
        cluster.apply(&idle("p", "node-1"));
        cluster.ready("p");
        let body = cluster.shell("p", &format!("curl -s -m 5 http://host.podium.internal:{open}/"));
        assert_eq!(body, "the machine", "as {user:?}");
        let named = answering.join().unwrap();
        let code = |port: u16| {
            cluster.shell(
                "p",
                &format!("curl -s -m 5 -o /dev/null -w '%{{exitcode}}' http://host.podium.internal:{port}/"),
            )
        };
        // 7 = refused, and not 56 = reset: Podium connects to the destination before it accepts the pod's connection.
        assert_eq!(code(closed), "7", "as {user:?}");
        // An allowed destination without a listener: the destination's own refusal.
        let unused = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        if let Some(machine) = machines_address() {
            let refused = cluster.shell("p", &connecting(&machine, unused));
            assert!(refused.contains("Connection refused"), "{refused} as {user:?}");
        }
        other.set_nonblocking(true).unwrap();
        assert!(other.accept().is_err(), "no connection arrived");
        drop(named);
        cluster.instance.stop();
    }
}

/// Returns an address of this machine that is not its loopback; `None` if it is in no network.
fn machines_address() -> Option<String> {
    // This sends no packet: the kernel only selects the source address.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("203.0.113.1:9").ok()?;
    Some(socket.local_addr().unwrap().ip().to_string())
}

/// Connects to a server and prints the data that it sends first, or the error.
fn connecting(ip: &str, port: u16) -> String {
    format!("timeout 60 bash -c 'cat < /dev/tcp/{ip}/{port}' 2>&1")
}

/// NET-7: a connection made without a control plane waits for the next one, which serves it.
#[test]
fn connections_to_the_world_wait_for_the_next_control_plane_net_7() {
    for user in users() {
        let machine = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = machine.local_addr().unwrap().port();
        let answering = std::thread::spawn(move || {
            for _ in 0..2 {
                machine.accept().unwrap().0.write_all(b"hello").unwrap();
            }
        });
        let cluster = Cluster::start(user, &format!(", hostPorts: [{port}]"));
        let shared = cluster.home.path("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
        let greeted = connecting("169.254.1.2", port);
        let script = format!(
            "echo \"$({greeted})\" > /shared/first; until [ -e /shared/go ]; do sleep 0.05; done; touch /shared/gone; echo \"$({greeted})\" > /shared/second; sleep 100000"
        );
        let command = serde_json::json!(["sh", "-c", script]);
        cluster.apply(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  nodeName: node-1\n  terminationGracePeriodSeconds: 0\n  \
             volumes: [{{name: s, hostPath: {{path: {}}}}}]\n  containers:\n  - {{name: c, image: busybox, command: {command}, \
             volumeMounts: [{{name: s, mountPath: /shared}}]}}\n",
            shared.display()
        ));
        let reply = |name: &str| {
            wait_for(name, || {
                std::fs::read_to_string(shared.join(name)).ok().filter(|reply| reply.ends_with('\n'))
            })
        };
        assert_eq!(reply("first"), "hello\n", "as {user:?}");
        let Cluster { instance, home, user } = cluster;
        instance.crash();
        std::fs::write(shared.join("go"), "").unwrap();
        wait_for("it to begin", || shared.join("gone").exists().then_some(()));
        let cluster = Cluster { instance: Cluster::serve(&home, user), home, user };
        assert_eq!(reply("second"), "hello\n", "as {user:?}");
        answering.join().unwrap();
        cluster.instance.stop();
    }
}

/// NET-7: datagrams leave and their responses come back from the address they were sent to.
#[test]
fn datagrams_go_out_and_come_back_net_7() {
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
        // bash opens UDP sockets as files.
        let script = format!(
            "bash -c 'exec 3<>/dev/udp/169.254.1.2/{port}; for i in 1 2; do echo hello$i >&3; echo got $(timeout 5 dd bs=100 count=1 status=none <&3); done'"
        );
        assert_eq!(cluster.shell("p", &script), "got HELLO1\ngot HELLO2", "as {user:?}");
        echo.join().unwrap();
        cluster.instance.stop();
    }
}
