//! Pods: addresses and ports of their own.

use std::process::Command;

use super::{Cluster, idle, needs, users, wait_for, web};
use crate::instance::DataDir;

/// NET-5: two pods of one node and one of another have the same port at every address, below 1024; servers see the
/// client's address; probes of the node and port-forward reach them; `hostNetwork` is the node's.
#[test]
fn pods_have_every_port_to_themselves_net_5() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        let servers = [web("a", "node-1", ""), web("b", "node-1", ""), web("c", "node-2", "")].concat();
        let node = "apiVersion: v1\nkind: Pod\nmetadata: {name: of-node}\nspec:\n  nodeName: node-2\n  hostNetwork: true\n  \
                    terminationGracePeriodSeconds: 0\n  containers:\n  - {name: c, image: nginx}\n---\n";
        cluster.apply(&[&servers, node, &idle("asker", "node-2")].concat());
        for pod in ["a", "b", "c", "of-node", "asker"] {
            cluster.ready(pod);
        }
        assert_eq!(cluster.ip("of-node"), "172.20.0.2");
        let own = cluster.ip("asker");
        for pod in ["a", "b", "c", "of-node"] {
            let ip = cluster.ip(pod);
            assert!(pod == "of-node" || ip.starts_with("10.244."), "{ip}");
            let answer =
                cluster.shell("asker", &format!("curl -s -o /dev/null -w '%{{http_code}}' http://{ip}/"));
            assert_eq!(answer, "200", "{pod} as {user:?}");
            wait_for("the asker's own address in the server's log", || {
                cluster.instance.logs(pod).lines().any(|line| line.starts_with(&own)).then_some(())
            });
        }
        let node = "jsonpath={.metadata.annotations.podium\\.dev/network}";
        assert_eq!(cluster.instance.kubectl(&["get", "node", "node-1", "-o", node]), "fabric");
        let inside = "curl -s -o /dev/null -w '%{http_code} %{local_ip}' http://localhost/";
        assert_eq!(cluster.shell("a", inside), "200 127.0.0.1", "its own loopback");
        cluster.instance.stop();
    }
}

/// NET-5: containers have no rights over the network beyond their own.
#[test]
fn containers_hold_no_right_over_the_fabric_net_5() {
    for user in users() {
        let cluster = Cluster::start(user, "");
        cluster.apply(&idle("p", "node-1"));
        cluster.ready("p");
        let mine = cluster.shell("p", "ls /sys/class/net; ip link 2>/dev/null | grep -c eth0 || true");
        assert!(mine.contains("eth0"), "{mine}");
        let data = cluster.home.data_dir();
        let fabric = r#""Namespaces""#;
        let host = r#"{"version":4,"purpose":"Namespaces"}"#;
        let framed = [&u32::try_from(host.len()).unwrap().to_be_bytes()[..], host.as_bytes()].concat();
        for (socket, kind, payload) in [
            (data.join("fabric/socket"), "SOCK_SEQPACKET", fabric.as_bytes()),
            (data.join("nodes/node-1/host.sock"), "SOCK_STREAM", &framed),
        ] {
            assert!(socket.exists(), "{}", socket.display());
            let payload: Vec<_> = payload.iter().map(|byte| format!("{byte:02x}")).collect();
            let payload = payload.concat();
            // A relative path: the whole one may be too long for the address of a socket.
            let (folder, name) = (socket.parent().unwrap().display(), socket.file_name().unwrap().display());
            let asks = format!(
                "use Socket; chdir '{folder}' or die 'unseen'; socket(S, AF_UNIX, {kind}, 0) or die; \
                 connect(S, pack_sockaddr_un('{name}')) or die 'unseen'; \
                 send(S, pack('H*', '{payload}'), 0); $got = ''; recv(S, $got, 4096, 0); print length $got;"
            );
            let answer = cluster.shell("p", &format!("perl -e \"{}\" 2>&1", asks.replace('$', "\\$")));
            assert!(
                answer == "0" || answer.starts_with("unseen"),
                "{} as {user:?}: {answer}",
                socket.display()
            );
        }
        cluster.instance.stop();
    }
}

/// NET-5: the network of a data directory never changes, because objects contain its addresses.
#[test]
fn a_data_directory_keeps_its_network_net_5() {
    let home = DataDir::new();
    home.start(&["--nodes", "1", "--network", "loopback"]).stop();
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.args(["serve", "--nodes", "1", "--listen", "127.0.0.1:0", "--network", "fabric"]);
    let started = command.arg("--data-dir").arg(home.data_dir()).output().unwrap();
    let stderr = String::from_utf8_lossy(&started.stderr);
    assert!(
        !started.status.success() && stderr.contains("was created with the network \"loopback\""),
        "{stderr}"
    );
    home.start(&["--nodes", "1", "--network", "auto"]).stop();
}
