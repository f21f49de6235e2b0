//! Stress on a network: a pod that takes all it can, another cluster beside it, a machine that changes networks.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Cluster, idle, lacks, needs, running, users, wait_for};
use crate::instance::ChildGuard;
use crate::needs::Need;

/// Accepts connections in four processes and holds them.
const KEEPS: &str = "import os, resource, socket
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('', 8000)); s.listen(4096)
os.fork(); os.fork()
kept = []
while True: kept.append(s.accept()[0])
";

/// Opens this many connections in four processes, prints their number, and holds them until its input ends.
const OPENS: &str = "import os, resource, socket, sys
address, count = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
os.fork(); os.fork()
kept = []
for _ in range(count // 4): kept.append(socket.create_connection(address, 20))
print('opened', len(kept), flush=True)
sys.stdin.read()
";

/// Opens connections one after the other, each of which must receive a byte; prints the numbers of successes and
/// refusals.
const ASKS: &str = "import socket, sys
kept, refused = [], 0
for _ in range(int(sys.argv[3])):
    try:
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
        assert s.recv(1) == b'k'
        kept.append(s)
    except (ConnectionRefusedError, ConnectionResetError):
        refused += 1
print('kept', len(kept), 'refused', refused, flush=True)
sys.stdin.read()
";

/// A program in a pod with its input held open, and the first lines of its output.
fn held(cluster: &Cluster, pod: &str, arguments: &[&str], lines: usize) -> (ChildGuard, Vec<String>) {
    let mut command = cluster.instance.kubectl_command();
    command.args(["exec", "-i", pod, "--"]).args(arguments);
    let mut program = ChildGuard::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let output = BufReader::new(program.0.stdout.take().unwrap()).lines().take(lines);
    let output = output.map(|line| line.unwrap()).collect();
    (program, output)
}

/// Sends a byte to every client, and holds the connection until the client closes it.
fn greet(listener: &TcpListener, over: &AtomicBool) {
    let mut open: Vec<TcpStream> = Vec::new();
    let interval = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !over.load(Ordering::Relaxed) {
        if poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&interval)).unwrap() > 0 {
            let (mut client, _) = listener.accept().unwrap();
            // A client over its limit has been closed already.
            let _ = client.write_all(b"k");
            client.set_nonblocking(true).unwrap();
            open.push(client);
            continue;
        }
        open.retain_mut(
            |client| matches!(client.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock),
        );
    }
}

/// NET-5, NET-6, NET-7: a service has twenty thousand connections at once; a pod has a limit of connections to the
/// world, further ones are refused, and others are not delayed.
#[test]
fn a_pod_with_very_many_connections_does_not_delay_others_net_5_net_6_net_7() {
    needs!(Kubectl);
    for user in users() {
        let machine = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = machine.local_addr().unwrap().port();
        let over = Arc::new(AtomicBool::new(false));
        let greets = {
            let over = over.clone();
            std::thread::spawn(move || greet(&machine, &over))
        };
        let cluster = Cluster::start(user, &format!(", hostPorts: [{port}]"));
        let service = "apiVersion: v1\nkind: Service\nmetadata: {name: keeps}\nspec: {selector: {run: keeps}, ports: [{port: 80, targetPort: 8000}]}\n---\n";
        let keeps = running("keeps", "node-1", "[python3, -c, KEEPS]")
            .replace("KEEPS", &format!("{KEEPS:?}"))
            .replace("{name: keeps}", "{name: keeps, labels: {run: keeps}}");
        cluster.apply(&[&keeps, service, &idle("greedy", "node-2"), &idle("other", "node-1")].concat());
        for pod in ["keeps", "greedy", "other"] {
            cluster.ready(pod);
        }
        let reach = |pod: &str| {
            wait_for("the service", || {
                let script =
                    "python3 -c 'import socket; socket.create_connection((\"keeps\", 80), 20); print(1)'";
                (cluster.shell(pod, script) == "1").then_some(())
            });
        };
        reach("greedy");
        let (many, lines) = held(&cluster, "greedy", &["python3", "-c", OPENS, "keeps", "80", "20000"], 4);
        assert_eq!(lines, ["opened 5000"; 4], "as {user:?}");
        reach("other");
        let world = |pod: &str, count: &str| {
            let arguments = ["python3", "-c", ASKS, "host.podium.internal", &port.to_string(), count];
            held(&cluster, pod, &arguments, 1)
        };
        let (greedy, lines) = world("greedy", "1500");
        let numbers: Vec<u32> = lines[0].split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(
            numbers[0] <= 1024 && numbers[0] >= 64 && numbers[0] + numbers[1] == 1500,
            "{lines:?} as {user:?}"
        );
        let (_other, lines) = world("other", "10");
        assert_eq!(lines, ["kept 10 refused 0"], "as {user:?}");
        drop((many, greedy));
        cluster.shell("greedy", "pkill python3; true");
        wait_for("its share", || (world("greedy", "10").1 == ["kept 10 refused 0"]).then_some(()));
        reach("greedy");
        cluster.instance.stop();
        over.store(true, Ordering::Relaxed);
        greets.join().unwrap();
    }
}

/// The mirror address of a service's address, by its last two bytes.
fn on_machine(cluster: &Cluster, third: u8, last: u8) -> String {
    let slot = std::fs::read_to_string(cluster.home.data_dir().join("slot")).unwrap();
    format!("127.{}.{third}.{last}", 32 + slot.trim().parse::<u8>().unwrap())
}

/// NET-5, NET-7: two clusters with the same ranges side by side: each is reachable at its own addresses, inside and
/// from the machine, and the end of one does not affect the other.
#[test]
fn clusters_of_the_same_ranges_do_not_meet_net_5_net_7() {
    let all = users();
    let Some(&last) = all.last() else { return };
    let clusters = [all[0], last].map(|user| Cluster::start(user, ""));
    for (cluster, name) in clusters.iter().zip(["one", "two"]) {
        let serve =
            format!("[sh, -c, 'cd /tmp && echo {name} > index.html && exec python3 -m http.server 8000']");
        let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.77.77, selector: {run: web}, ports: [{port: 8080, targetPort: 8000}]}\n---\n";
        let web = running("web", "node-1", &serve).replace("{name: web}", "{name: web, labels: {run: web}}");
        cluster.apply(&[&web, service, &idle("asker", "node-2")].concat());
        cluster.ready("web");
        cluster.ready("asker");
    }
    assert_eq!(clusters[0].ip("web"), clusters[1].ip("web"), "the same address in both");
    let look = |cluster: &Cluster, name: &str| {
        let pod = cluster.ip("web");
        wait_for(name, || {
            let body = cluster.shell("asker", "curl -s -m 5 http://web:8080/ http://10.96.77.77:8080/");
            (body == format!("{name}\n{name}")).then_some(())
        });
        assert_eq!(cluster.shell("asker", &format!("curl -s -m 5 http://{pod}:8000/")), name);
        assert_eq!(cluster.inside(&[], "curl -s -m 5 http://web:8080/"), name);
        let url = format!("http://{}:8080/", on_machine(cluster, 77, 77));
        wait_for(&url, || {
            let output = Command::new("curl").args(["-s", "-m", "5", &url]).output().unwrap();
            (output.stdout == format!("{name}\n").as_bytes()).then_some(())
        });
    };
    for (cluster, name) in clusters.iter().zip(["one", "two"]) {
        look(cluster, name);
    }
    let [one, two] = clusters;
    one.instance.stop();
    look(&two, "two");
    two.instance.stop();
}

/// Returns the client's source address to it, over datagrams and connections.
const TELLS: &str = "import socket, threading
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('', 7000))
t = socket.socket(); t.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); t.bind(('', 7000)); t.listen(64)
def connections():
    while True:
        c, a = t.accept(); c.sendall(a[0].encode()); c.close()
threading.Thread(target=connections, daemon=True).start()
print('tells', flush=True)
while True:
    _, a = u.recvfrom(100); u.sendto(a[0].encode(), a)
";

/// Sends a datagram from the same socket for each line of its input until a response comes, and prints it.
const SENDS: &str = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.2); s.connect(('198.51.100.2', 7000))
for line in sys.stdin:
    said = ''
    for _ in range(100):
        try:
            s.send(b'who'); said = s.recv(100).decode()
        except OSError: continue
        if said == line.strip(): break
    print(said, flush=True)
";

/// The other end of a link of the machine: a network with a program that reports its clients' addresses. All of it ends
/// with the program.
fn neighbour() -> ChildGuard {
    let mut command = Command::new("unshare");
    let mut program =
        ChildGuard::spawn(command.args(["--net", "python3", "-c", TELLS]).stdout(Stdio::piped()));
    let mut first = String::new();
    BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "tells\n");
    let pid = program.0.id().to_string();
    ip(&["link", "add", "podium-weather", "type", "veth", "peer", "name", "eth0", "netns", &pid]);
    ip(&["link", "set", "podium-weather", "up"]);
    for words in [&["addr", "add", "198.51.100.2/24", "dev", "eth0"][..], &["link", "set", "eth0", "up"]] {
        let mut inside = Command::new("nsenter");
        let status = inside.args(["--net", "--target", &pid, "ip"]).args(words).status().unwrap();
        assert!(status.success(), "{words:?}");
    }
    program
}

fn ip(words: &[&str]) {
    assert!(Command::new("ip").args(words).status().unwrap().success(), "{words:?}");
}

/// NET-7: when the machine's address changes, packets to the world get the new source address: connections, and
/// existing flows of datagrams.
#[test]
fn the_way_out_follows_the_machines_address_net_7() {
    needs!(Kubectl);
    if lacks(Need::Root, rustix::process::geteuid().is_root()) {
        return;
    }
    let neighbour = neighbour();
    for user in users() {
        let cluster = Cluster::start(user, "");
        cluster.apply(&idle("p", "node-1"));
        cluster.ready("p");
        let mut command = cluster.instance.kubectl_command();
        command.args(["exec", "-i", "p", "--", "python3", "-c", SENDS]);
        let mut sends = ChildGuard::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut input = sends.0.stdin.take().unwrap();
        let mut output = BufReader::new(sends.0.stdout.take().unwrap()).lines();
        for address in ["198.51.100.1", "198.51.100.3", "198.51.100.4"] {
            ip(&["addr", "add", &format!("{address}/24"), "dev", "podium-weather"]);
            writeln!(input, "{address}").unwrap();
            assert_eq!(output.next().unwrap().unwrap(), address, "datagrams as {user:?}");
            let connects = "import socket; print(socket.create_connection((\"198.51.100.2\", 7000), 20).recv(100).decode())";
            wait_for("the connection", || {
                (cluster.shell("p", &format!("python3 -c '{connects}'")) == address).then_some(())
            });
            ip(&["addr", "del", &format!("{address}/24"), "dev", "podium-weather"]);
        }
        drop(input);
        cluster.instance.stop();
    }
    drop(neighbour);
}
