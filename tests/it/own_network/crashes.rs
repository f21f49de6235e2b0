//! Crashes of the processes of a cluster with its own network, and the traffic that continues.

use std::process::Command;

use super::{Cluster, idle, needs, running, users, wait_for, web};
use podium::base::optional_file::read_optional_bytes;

/// Returns the processes of a cluster with this word on their command lines.
pub(super) fn processes(cluster: &Cluster, word: &str) -> Vec<i32> {
    let data = cluster.home.data_dir().display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is = |pid: &i32| {
        let line = read_optional_bytes(format!("/proc/{pid}/cmdline"));
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(&format!(" {word} ")) && line.contains(&data)
    };
    numbers.filter(is).collect()
}

pub(super) fn kill(pids: &[i32]) {
    assert!(!pids.is_empty());
    for pid in pids {
        assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    }
}

/// A persistent connection through a service: one request after the other, and a line for each response.
const KEEPER: &str = r"
until exec 3<>/dev/tcp/web/8080; do sleep 0.1; done
while printf 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' >&3 && read -t 20 line <&3; do
  echo alive
  while read -t 0.2 line <&3; do :; done
done
echo lost
sleep 100000
";

/// NET-5, NET-6: connections through services survive the end of the fabric's process, the control plane, or both; new
/// pods and new connections work again; a stop leaves nothing behind.
#[test]
fn connections_survive_kills_of_the_fabric_and_the_control_plane_net_5_net_6() {
    needs!(Kubectl);
    for user in users() {
        let mut cluster = Cluster::start(user, "");
        let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 8080, targetPort: 80}]}\n---\n";
        let keeper = running("asker", "node-2", &format!("[bash, -c, {}]", serde_json::Value::from(KEEPER)));
        cluster.apply(&[&web("a", "node-1", ""), service, &keeper].concat());
        cluster.ready("a");
        cluster.ready("asker");
        wait_for("the service", || {
            cluster.shell("asker", "curl -s -m 2 http://web:8080/ && echo").contains("html").then_some(())
        });
        cluster.shell("asker", KEEPER);
        let alive = |cluster: &Cluster| {
            let log = cluster.instance.logs("asker");
            assert!(!log.contains("lost"), "{log}");
            log.lines().filter(|line| *line == "alive").count()
        };
        let goes_on = |cluster: &Cluster| {
            let before = alive(cluster);
            wait_for("the connection to go on", || (alive(cluster) > before + 1).then_some(()));
        };
        goes_on(&cluster);

        let fabric = processes(&cluster, "fabric");
        kill(&fabric);
        wait_for("another process of the fabric", || {
            let now = processes(&cluster, "fabric");
            (!now.is_empty() && now != fabric).then_some(())
        });
        goes_on(&cluster);
        cluster.apply(&idle("second", "node-1"));
        cluster.ready("second");
        assert!(cluster.shell("second", "curl -s -m 5 http://web:8080/").contains("html"), "as {user:?}");

        kill(&processes(&cluster, "fabric"));
        let Cluster { instance, home, user } = cluster;
        instance.crash();
        cluster = Cluster { instance: Cluster::serve(&home, user), home, user };
        cluster.ready("a");
        goes_on(&cluster);
        cluster.apply(&idle("third", "node-2"));
        cluster.ready("third");
        wait_for("the service", || {
            cluster.shell("third", "curl -s -m 5 http://web:8080/").contains("html").then_some(())
        });

        let Cluster { instance, home, user } = cluster;
        instance.stop();
        let stopped = Cluster { instance: Cluster::serve(&home, user), home, user };
        assert_eq!(processes(&stopped, "fabric").len(), 1, "one, of the second start");
        stopped.instance.kubectl(&["get", "nodes"]);
        let Cluster { instance, home, .. } = stopped;
        instance.stop();
        let socket = home.data_dir().join("fabric/socket");
        wait_for("nothing to be left", || (!socket.exists()).then_some(()));
    }
}

/// A service with client affinity, and servers that log their requests.
const STICKY: &str = r"
apiVersion: v1
kind: Service
metadata: {name: sticky}
spec: {selector: {app: sticky}, sessionAffinity: ClientIP, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: v1
kind: Service
metadata: {name: later}
spec: {selector: {app: later}, ports: [{port: 80, targetPort: 8000}]}
---
";

/// NET-6: a client keeps its endpoint when the control plane is killed and another one writes the rules again.
#[test]
fn a_client_keeps_its_endpoint_when_the_control_plane_is_killed_net_6() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        let server = |name: &str, app: &str| {
            running(name, "node-1", "[python3, -m, http.server, '8000']").replace(
                &format!("metadata: {{name: {name}}}"),
                &format!("metadata: {{name: {name}, labels: {{app: {app}}}}}"),
            )
        };
        let pods =
            [server("a", "sticky"), server("b", "sticky"), idle("one", "node-1"), idle("two", "node-2")];
        cluster.apply(&[&pods.concat(), STICKY].concat());
        for pod in ["a", "b", "one", "two"] {
            cluster.ready(pod);
        }
        let asks = |cluster: &Cluster, pod: &str, url: &str| {
            cluster.shell(pod, &format!("curl -s -m 3 -o /dev/null -w '%{{http_code}}' {url}"))
        };
        wait_for("both endpoints", || {
            let slices = cluster.instance.kubectl(&[
                "get",
                "endpointslices",
                "-l",
                "kubernetes.io/service-name=sticky",
                "-o",
                "jsonpath={.items[*].endpoints[*].conditions.ready}",
            ]);
            (slices == "true true").then_some(())
        });
        // The servers' logs show which server got a client's request.
        let server_of = |cluster: &Cluster, client: &str, path: &str| {
            wait_for("an answer", || {
                (asks(cluster, client, &format!("http://sticky/{path}")) == "404").then_some(())
            });
            wait_for("the log", || {
                let is = |pod: &&str| cluster.instance.logs(pod).contains(&format!("GET /{path} "));
                ["a", "b"].into_iter().find(is)
            })
        };
        let (one, two) = (server_of(&cluster, "one", "one"), server_of(&cluster, "two", "two"));
        assert_ne!(one, two, "in turn, as {user:?}");
        let Cluster { instance, home, user } = cluster;
        instance.crash();
        let cluster = Cluster { instance: Cluster::serve(&home, user), home, user };
        // A change that only the next control plane has seen is in force.
        cluster.apply(&server("later", "later"));
        cluster.ready("later");
        wait_for("new rules", || (asks(&cluster, "two", "http://later/") == "200").then_some(()));
        // The first client would get the first endpoint if the affinity were lost.
        for (client, path, expected) in [("two", "two-again", two), ("one", "one-again", one)] {
            assert_eq!(server_of(&cluster, client, path), expected, "{client} as {user:?}");
        }
        cluster.instance.stop();
    }
}
