//! Faults between pods, nodes and addresses, under real traffic (NET-10, FAULT-1). The tests count responses.

use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Output};

use super::{Cluster, idle, needs, running, users, wait_for};

/// Echoes datagrams and connections of both families, and serves files by HTTP.
const ECHO: &str = "
import socket, threading, http.server
def echo():
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind(('::', 7777))
    while True:
        data, who = s.recvfrom(2000)
        s.sendto(data, who)
threading.Thread(target=echo, daemon=True).start()
class Six(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
Six(('::', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()
";

/// Sends this many datagrams of this many bytes from one port, so that they belong to a connection that the kernel
/// knows; waits this many seconds for each response. Prints the number of responses, and the milliseconds until the
/// first.
const ASK: &str = "
import socket, sys, time
host, port, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
within = float(sys.argv[5])
s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 5555))
s.settimeout(within)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
sent = time.monotonic()
back, first = set(), -1
for number in range(count):
    try: s.sendto(str(number).ljust(size).encode(), (host, port))
    except OSError: pass
    time.sleep(0.001)
while len(back) < count:
    try: data = s.recv(2000)
    except TimeoutError: break
    except OSError: continue
    if data.split()[0] not in back and data.split()[0] == b'0': first = int((time.monotonic() - sent) * 1000)
    back.add(data.split()[0])
print(len(back), first)
";

/// Seconds to wait before concluding that no response comes.
const SILENCE_TIMEOUT: &str = "0.7";
/// Seconds to wait for a response that must come, however busy the machine is.
const RESPONSE_TIMEOUT: &str = "10";

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: a}, ipFamilyPolicy: PreferDualStack, ports: [{port: 80, targetPort: 8000}]}\n---\n";

/// Responses to datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReceivedDatagrams {
    count: usize,
    /// Milliseconds until the first one did; negative where it did not.
    first: i64,
}

impl ReceivedDatagrams {
    fn read(output: &str) -> Self {
        let mut words = output.split_whitespace();
        let (count, first) = (words.next(), words.next());
        let read = || Some(Self { count: count?.parse().ok()?, first: first?.parse().ok()? });
        read().unwrap_or_else(|| panic!("{output}"))
    }
}

/// `a` on one node; `b` and the asker on the other.
struct Lab {
    cluster: Cluster,
    a: Vec<String>,
    b: Vec<String>,
}

impl Lab {
    fn start(user: crate::fabric::User, network: &str) -> Self {
        let cluster = Cluster::start(user, network);
        let command = serde_json::json!(["python3", "-c", ECHO]).to_string();
        let echo = |name: &str, node: &str| {
            running(name, node, &command)
                .replace(&format!("{{name: {name}}}"), &format!("{{name: {name}, labels: {{app: {name}}}}}"))
        };
        cluster
            .apply(&[&echo("a", "node-1"), &echo("b", "node-2"), &idle("asker", "node-2"), SERVICE].concat());
        for pod in ["a", "b", "asker"] {
            cluster.ready(pod);
        }
        let ips = |pod: &str| -> Vec<String> {
            let ips = cluster.instance.pod(pod).status.and_then(|status| status.pod_ips).unwrap();
            ips.into_iter().map(|ip| ip.ip).collect()
        };
        let (a, b) = (ips("a"), ips("b"));
        let lab = Self { cluster, a, b };
        for ip in lab.a.iter().chain(&lab.b) {
            wait_for("the echo", || (lab.asks(ip, 1, 10).count == 1).then_some(()));
        }
        wait_for("the service", || (lab.code("http://web/") == "200 0").then_some(()));
        lab
    }

    /// Sends datagrams from the client and collects the responses, for polls and where some or all are lost.
    fn asks(&self, ip: &str, count: usize, size: usize) -> ReceivedDatagrams {
        self.asks_at(ip, 7777, count, size, SILENCE_TIMEOUT)
    }

    /// Like [`Lab::asks`], where every datagram must be responded to.
    fn asks_all(&self, ip: &str, count: usize, size: usize) -> ReceivedDatagrams {
        self.asks_at(ip, 7777, count, size, RESPONSE_TIMEOUT)
    }

    fn asks_at(&self, ip: &str, port: u16, count: usize, size: usize, within: &str) -> ReceivedDatagrams {
        let numbers = [usize::from(port), count, size].map(|number| number.to_string());
        let command = ["python3", "-c", ASK.trim(), ip];
        let numbers = numbers.each_ref().map(String::as_str);
        let command = [&command[..], &numbers, &[within]].concat();
        ReceivedDatagrams::read(&self.cluster.instance.exec("asker", &command))
    }

    /// Returns curl's status and exit code.
    fn code(&self, url: &str) -> String {
        self.code_within(10, url)
    }

    fn code_within(&self, seconds: u8, url: &str) -> String {
        let script = format!("curl -g -s -m {seconds} -o /dev/null -w '%{{http_code}} %{{exitcode}}' {url}");
        self.cluster.shell("asker", &script)
    }

    /// Runs `podium fault …`. Returns its output and its success.
    fn tried(&self, arguments: &[&str]) -> (bool, String) {
        let Output { status, stdout, stderr } = self.cluster.home.fault(arguments);
        let output = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (status.success(), output)
    }

    fn fault(&self, arguments: &[&str]) -> String {
        let (done, output) = self.tried(arguments);
        assert!(done, "{arguments:?}: {output}");
        output
    }

    /// Returns all nftables rules, routing rules and links of the fabric.
    fn inside(&self) -> String {
        let process = super::crashes::processes(&self.cluster, "fabric");
        let shown = |arguments: &[&str]| {
            let mut command = Command::new("nsenter");
            command.args(["-t", &process[0].to_string(), "-n"]).args(arguments);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let links = shown(&["ip", "-o", "link"]);
        let mut links: Vec<&str> = links.lines().filter_map(|line| line.split(": ").nth(1)).collect();
        links.sort_unstable();
        let rules = [shown(&["ip", "rule"]), shown(&["ip", "-6", "rule"])].concat();
        format!("{}\n{rules}\n{}", shown(&["nft", "-nn", "list", "ruleset"]), links.join("\n"))
    }
}

/// NET-10, FAULT-1: each kind of fault, started and healed by the command line: it affects its targets, through
/// services and in both families, and existing connections as well; it affects no others, and leaves nothing behind.
#[test]
fn network_faults_affect_only_their_targets_net_10_fault_1() {
    needs!(Kubectl);
    for user in users() {
        let lab = Lab::start(user, "");
        let is_root = rustix::process::geteuid().is_root();
        let before = is_root.then(|| lab.inside());
        let healthy = || {
            for ip in lab.a.iter().chain(&lab.b) {
                wait_for("nothing to be met", || (lab.asks(ip, 20, 10).count == 20).then_some(()));
            }
        };
        healthy();

        let output = lab.fault(&["partition", "node/node-1", "node/node-2", "--name", "split"]);
        assert!(
            output.starts_with("fault/split is in force: Partition between node node-1 and node node-2"),
            "{output}"
        );
        for (a, b) in lab.a.iter().zip(&lab.b) {
            assert_eq!((lab.asks(a, 20, 10).count, lab.asks_all(b, 20, 10).count), (0, 20), "as {user:?}");
        }
        assert_eq!(lab.code_within(2, "http://web/"), "000 28", "the endpoint of a service as well");
        let shown = lab.cluster.instance.kubectl(&["get", "faults", "--no-headers"]);
        let cells: Vec<&str> = shown.split_whitespace().take(6).collect();
        assert_eq!(cells, ["split", "Partition", "node/node-1", "node/node-2", "True", "<none>"]);
        lab.fault(&["partition", "node/node-2", "node/node-1", "--heal"]);
        healthy();
        assert_eq!(lab.code("http://web/"), "200 0");

        // Packets from the client are lost; packets to it are not affected.
        lab.fault(&["partition", "pod/asker", "pods:app=a", "--one-way", "--name", "one-way"]);
        assert_eq!(lab.asks(&lab.a[0], 5, 10).count, 0);
        lab.cluster.instance.kubectl(&["delete", "fault", "one-way"]);
        healthy();

        lab.fault(&["refuse", "pod/asker", "pod/a", "--name", "no"]);
        // 7 = refused, and not 28 = timeout.
        assert_eq!(lab.code("http://web/"), "000 7");
        assert_eq!((lab.asks(&lab.a[0], 5, 10).count, lab.asks_all(&lab.b[0], 5, 10).count), (0, 5));
        lab.fault(&["heal", "no"]);

        lab.fault(&["loss", "pod/asker", "pod/a", "--per-mille", "0", "--name", "loss"]);
        lab.a.iter().for_each(|a| assert_eq!(lab.asks_all(a, 50, 10).count, 50));
        lab.fault(&["heal", "loss"]);
        lab.fault(&["loss", "pod/asker", "pod/a", "--per-mille", "500", "--name", "loss"]);
        // A quarter of the datagrams passes in both directions: 100 ± 9.
        let back = lab.asks(&lab.a[0], 400, 10).count;
        assert!((40..=160).contains(&back), "{back} of 400");
        lab.fault(&["heal", "loss"]);
        lab.fault(&["loss", "pod/asker", "pod/a", "--per-mille", "1000", "--name", "loss"]);
        lab.a.iter().for_each(|a| assert_eq!(lab.asks(a, 50, 10).count, 0));

        // Two faults at once, with different targets.
        lab.fault(&["rate", "pod/asker", "pod/b", "--bytes-per-second", "1000", "--name", "rate"]);
        let back = lab.asks(&lab.b[0], 300, 1000).count;
        // The rate allows 20 000 bytes at once, and then 1000 a second.
        assert!((1..=60).contains(&back), "{back} of 300");
        let listed = lab.fault(&["list"]);
        assert!(listed.contains("loss") && listed.contains("pod/default/b"), "{listed}");
        let healed = lab.fault(&["heal", "--all"]);
        assert_eq!(healed.lines().count(), 2, "{healed}");
        healthy();

        lab.fault(&[
            "latency", "pod/asker", "pod/a", "--delay", "100ms", "--jitter", "20ms", "--name", "slow",
        ]);
        for (a, b) in lab.a.iter().zip(&lab.b) {
            let (slow, other) = (lab.asks_all(a, 20, 1000), lab.asks_all(b, 20, 1000));
            assert!(slow.count == 20 && slow.first >= 200, "{slow:?} as {user:?}");
            assert!(other.count == 20 && other.first < slow.first, "{other:?}");
        }
        let took = lab
            .cluster
            .shell("asker", "curl -s -m 10 -o /dev/null -w '%{http_code} %{time_connect}' http://web/");
        let (code, connect) = took.split_once(' ').unwrap();
        assert!(code == "200" && connect.parse::<f64>().unwrap() >= 0.2, "{took}");
        lab.fault(&["heal", "slow"]);
        healthy();
        assert_eq!(lab.fault(&["list"]).trim(), "No faults");
        if let Some(before) = before {
            wait_for("the former state of the network", || {
                let now = lab.inside();
                let lines =
                    |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
                let left: Vec<String> = lines(&now).difference(&lines(&before)).cloned().collect();
                eprintln!("left: {left:?}");
                (now == before).then_some(())
            });
        }
        let events = [
            "get",
            "events",
            "-o",
            "jsonpath={range .items[*]}{.involvedObject.kind} {.involvedObject.name} {.reason}{\"\\n\"}{end}",
        ];
        let events = lab.cluster.instance.kubectl(&events);
        for event in ["Fault slow FaultStarted", "Fault slow FaultEnded", "Fault split FaultEnded"] {
            assert!(events.contains(event), "{event}: {events}");
        }
        lab.cluster.instance.stop();
    }
}

/// NET-10: between a pod and the world as well; a fault ends after its duration; an invalid fault is refused.
#[test]
fn the_world_is_a_side_and_faults_end_in_time_net_10_fault_1() {
    needs!(Kubectl);
    for user in users() {
        let machine = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = machine.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            while let Ok((length, from)) = machine.recv_from(&mut buffer) {
                let _ = machine.send_to(&buffer[..length], from);
            }
        });
        let served = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = served.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in served.incoming() {
                let _ = stream.unwrap().write_all(b"HTTP/1.0 200 OK\r\n\r\n");
            }
        });
        let lab = Lab::start(user, &format!(", hostPorts: [{port}, {tcp}]"));
        let world = "169.254.1.2";
        let connects = |seconds: u8| {
            let written = "-w '%{http_code} %{exitcode} %{time_connect}'";
            let script =
                format!("curl -s -m {seconds} --http0.9 -o /dev/null {written} http://{world}:{tcp}/");
            lab.cluster.shell("asker", &script)
        };
        let connected = connects(10);
        assert!(connected.starts_with("200 "), "{connected}");
        let asks = |within: &str| lab.asks_at(world, port, 10, 100, within);
        wait_for("the world", || (asks(SILENCE_TIMEOUT).count == 10).then_some(()));
        lab.fault(&["partition", "pod/asker", world, "--name", "cut"]);
        let cut = (asks(SILENCE_TIMEOUT).count, lab.asks_all(&lab.a[0], 10, 10).count);
        assert_eq!(cut, (0, 10), "as {user:?}");
        // 28 = timeout.
        let connected = connects(2);
        assert!(connected.starts_with("000 28"), "{connected}");
        lab.fault(&["heal", "cut"]);
        lab.fault(&["refuse", "pod/asker", world, "--name", "no"]);
        let connected = connects(10);
        assert!(connected.starts_with("000 7"), "{connected}");
        lab.fault(&["heal", "no"]);
        wait_for("the world", || (asks(SILENCE_TIMEOUT).count == 10).then_some(()));
        lab.fault(&["latency", "pod/asker", "all", "--delay", "80ms", "--name", "slow"]);
        let back = [asks(RESPONSE_TIMEOUT), lab.asks_all(&lab.a[0], 10, 10), lab.asks_all(&lab.b[0], 10, 10)];
        for back in back {
            assert!(back.count == 10 && back.first >= 160, "{back:?} as {user:?}");
        }
        assert_eq!(lab.code("http://web/"), "200 0");
        let connected = connects(10);
        let took = connected.split(' ').next_back().and_then(|seconds| seconds.parse::<f64>().ok());
        assert!(connected.starts_with("200 ") && took >= Some(0.16), "{connected}");
        lab.fault(&["heal", "slow"]);

        lab.fault(&["partition", "pod/asker", "pod/a", "--duration", "3s", "--name", "short"]);
        lab.cluster
            .instance
            .kubectl(&["wait", "--for=condition=Active=False", "--timeout=60s", "fault/short"]);
        wait_for("the end", || (lab.asks(&lab.a[0], 5, 10).count == 5).then_some(()));
        let reason =
            ["get", "fault", "short", "-o", "jsonpath={.status.conditions[?(@.type==\"Active\")].reason}"];
        assert_eq!(lab.cluster.instance.kubectl(&reason), "Expired");
        for (arguments, why) in [
            (&["partition", "all"][..], "spec.from: Required value: must specify `from`, `to` or both"),
            (&["loss", "pod/a", "--per-mille", "1001"], "must be between 0 and 1000"),
            (&["latency", "pod/a", "--delay", "1h"], "must be at most 10s"),
            (&["rate", "pod/a", "--bytes-per-second", "0"], "spec.rate.bytesPerSecond: Invalid value: 0"),
            (&["partition", "pod/a", "--duration", "soon"], "spec.duration: Invalid value: \"soon\""),
            (&["heal", "none"], "faults.podium.dev \"none\" not found"),
        ] {
            let (done, output) = lab.tried(arguments);
            assert!(!done && output.contains(why), "{arguments:?}: {output}");
        }
        lab.cluster.instance.stop();
    }
}

/// NET-10: faults survive the end of the control plane and of the fabric's process; without a process to delay packets,
/// they flow.
#[test]
fn network_faults_survive_kills_of_the_fabric_and_the_control_plane_net_10_fault_1() {
    for user in users() {
        let mut lab = Lab::start(user, "");
        lab.fault(&["partition", "pod/asker", "pod/b", "--name", "cut"]);
        lab.fault(&["latency", "pod/asker", "pod/a", "--delay", "100ms", "--name", "slow"]);
        let both = |lab: &Lab| (lab.asks_all(&lab.a[0], 5, 10), lab.asks(&lab.b[0], 5, 10).count);
        let in_force = |lab: &Lab| {
            let (slow, cut) = both(lab);
            slow.count == 5 && slow.first >= 200 && cut == 0
        };
        assert!(in_force(&lab), "{:?}", both(&lab));

        let fabric = super::crashes::processes(&lab.cluster, "fabric");
        super::crashes::kill(&fabric);
        wait_for("another process of the fabric", || {
            let now = super::crashes::processes(&lab.cluster, "fabric");
            (!now.is_empty() && now != fabric).then_some(())
        });
        wait_for("both faults", || in_force(&lab).then_some(()));

        let asker = lab.cluster.shell("asker", "readlink /proc/self/ns/net");
        let Cluster { instance, home, user } = lab.cluster;
        instance.crash();
        if rustix::process::geteuid().is_root() {
            // There is no `kubectl exec` without a control plane: the client is started in the pods' network directly.
            let from_inside = |ip: &str| {
                let pid = in_network(&asker);
                let mut command = Command::new("nsenter");
                command.args(["-t", &pid, "-n", "python3", "-c", ASK.trim(), ip, "7777", "5", "10"]);
                command.arg(SILENCE_TIMEOUT);
                ReceivedDatagrams::read(&String::from_utf8(command.output().unwrap().stdout).unwrap())
            };
            wait_for("packets to flow", || {
                let back = from_inside(&lab.a[0]);
                (back.count == 5 && back.first < 200).then_some(())
            });
            assert_eq!(from_inside(&lab.b[0]).count, 0, "the rules stay without a control plane");
        }
        lab.cluster = Cluster { instance: Cluster::serve(&home, user), home, user };
        lab.cluster.ready("asker");
        wait_for("both faults again", || in_force(&lab).then_some(()));
        lab.fault(&["heal", "--all"]);
        wait_for("nothing to be met", || {
            let (a, b) = both(&lab);
            (a.count == 5 && a.first < 200 && b == 5).then_some(())
        });
        lab.cluster.instance.stop();
    }
}

/// A process in this network.
fn in_network(namespace: &str) -> String {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is = |pid: &i32| {
        let own = std::fs::read_link(format!("/proc/{pid}/ns/net"));
        own.is_ok_and(|own| own.to_str() == Some(namespace))
    };
    numbers.find(is).expect("its pause or its container").to_string()
}
