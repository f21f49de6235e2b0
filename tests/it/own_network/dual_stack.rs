//! Both address families, as pods use them (NET-5, NET-6, NET-8).

use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use super::{Cluster, idle, needs, running, users, wait_for};

const SERVICES: &str = r"
apiVersion: v1
kind: Service
metadata: {name: both}
spec: {selector: {app: both}, ipFamilyPolicy: PreferDualStack, type: NodePort, ports: [{port: 80, targetPort: 8000, nodePort: 30080}]}
---
apiVersion: v1
kind: Service
metadata: {name: six}
spec: {selector: {app: both}, ipFamilies: [IPv6], sessionAffinity: ClientIP, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: v1
kind: Service
metadata: {name: heads}
spec: {selector: {app: both}, clusterIP: None, ipFamilyPolicy: RequireDualStack, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: v1
kind: Service
metadata: {name: plain}
spec: {selector: {app: both}, ports: [{port: 80, targetPort: 8000}]}
---
";

/// Only the client's IPv4 address is allowed in; for IPv6, only a block that contains no client.
fn policy(ip: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p}}\nspec:\n  \
         podSelector: {{matchLabels: {{app: both}}}}\n  ingress:\n  - from: [{{ipBlock: {{cidr: {ip}/32}}}}, \
         {{ipBlock: {{cidr: 'fd99::/64'}}}}]\n"
    )
}

/// A program that listens at every address of both families.
fn server(name: &str, node: &str) -> String {
    running(name, node, "[python3, -m, http.server, --bind, '::', '8000']").replace(
        &format!("metadata: {{name: {name}}}"),
        &format!("metadata: {{name: {name}, labels: {{app: both}}}}"),
    )
}

fn get(cluster: &Cluster, what: &str, path: &str) -> String {
    let path = format!("jsonpath={{{path}}}");
    let arguments: Vec<&str> = ["get"].into_iter().chain(what.split(' ')).chain(["-o", &path]).collect();
    cluster.instance.kubectl(&arguments)
}

/// curl's status and exit code, for one family.
fn code(cluster: &Cluster, pod: &str, family: u8, url: &str) -> String {
    cluster.shell(
        pod,
        &format!("curl -g -{family} -s -m 3 -o /dev/null -w '%{{http_code}} %{{exitcode}}' {url}"),
    )
}

/// NET-5, NET-6, NET-8, SVC-1: addresses, services, names, node ports, affinity, a pod that reaches itself, policies:
/// of both families.
#[test]
fn pods_and_services_have_both_families_net_5_net_6_net_8_svc_1() {
    needs!(Kubectl);
    if !fabric::has_ipv6() {
        return;
    }
    for user in users() {
        let cluster = Cluster::start(user, "");
        cluster.apply(
            &[&server("a", "node-1"), &server("b", "node-2"), &idle("asker", "node-1"), SERVICES].concat(),
        );
        for pod in ["a", "b", "asker"] {
            cluster.ready(pod);
        }
        let ips = get(&cluster, "pod a", ".status.podIPs[*].ip");
        let (four, six) = ips.split_once(' ').expect("two addresses");
        assert!(four.starts_with("10.244.0.") && six.starts_with("fd00:10:244::"), "{ips}");
        assert_eq!(get(&cluster, "pod a", ".status.hostIPs[*].ip"), "172.20.0.1 fd00:172:20::1");
        assert_eq!(
            get(&cluster, "node node-2", ".spec.podCIDRs"),
            r#"["10.244.1.0/24","fd00:10:244:1::/64"]"#
        );
        let hosts = cluster.shell("a", "cat /etc/hosts");
        assert!(hosts.contains(&format!("{six}\ta")), "{hosts}");

        assert_eq!(get(&cluster, "service both", ".spec.ipFamilies"), r#"["IPv4","IPv6"]"#);
        assert_eq!(get(&cluster, "service plain", ".spec.ipFamilies"), r#"["IPv4"]"#);
        let of = |service: &str, n: usize| {
            get(&cluster, &format!("service {service}"), &format!(".spec.clusterIPs[{n}]"))
        };
        let slices = "endpointslices -l kubernetes.io/service-name=both";
        wait_for("slices of both families", || {
            let all = get(&cluster, slices, ".items[*].endpoints[*].addresses[0]");
            (all.contains(four) && all.contains(six) && all.split(' ').count() == 4).then_some(())
        });
        let targets = [
            (4, format!("http://{four}:8000/")),
            (6, format!("http://[{six}]:8000/")),
            (4, format!("http://{}/", of("both", 0))),
            (6, format!("http://[{}]/", of("both", 1))),
            (4, "http://both/".into()),
            (6, "http://both/".into()),
            (6, "http://six.default.svc.cluster.local/".into()),
            (4, "http://heads:8000/".into()),
            (6, "http://heads:8000/".into()),
            (4, "http://172.20.0.2:30080/".into()),
            (6, "http://[fd00:172:20::1]:30080/".into()),
            (6, "http://[fd00:172:20::2]:30080/".into()),
        ];
        for (family, url) in &targets {
            wait_for(url, || (code(&cluster, "asker", *family, url) == "200 0").then_some(()));
        }
        // Ingresses have their backends in either family.
        let (ingress, found) = ("ingress six", ".status.loadBalancer.ingress[0].ports[0].port");
        cluster.instance.kubectl(&["create", "ingress", "six", "--rule=six.test/*=six:80"]);
        wait_for("the ingress to answer", || {
            let port = get(&cluster, ingress, found).parse::<u16>().ok()?;
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
            stream.write_all(b"GET / HTTP/1.1\r\nHost: six.test\r\nConnection: close\r\n\r\n").ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            answer.starts_with("HTTP/1.1 200").then_some(())
        });
        // A service of one family has no address of the other.
        let asks = "import socket; print(socket.getaddrinfo('plain.default.svc.cluster.local', 80, socket.AF_INET6))";
        let named = cluster.shell("asker", &format!("python3 -c \"{asks}\""));
        assert!(named.contains("gaierror"), "as {user:?}: {named}");
        // It reaches itself through its service, with either endpoint.
        for _ in 0..4 {
            assert_eq!(code(&cluster, "a", 6, "http://both/"), "200 0");
        }
        // One client is always served by the same endpoint.
        for _ in 0..6 {
            assert_eq!(code(&cluster, "asker", 6, "http://six/sticky"), "404 0");
        }
        let counts = wait_for("all to be logged", || {
            let logs = ["a", "b"].map(|pod| cluster.instance.logs(pod));
            let mut counts = logs.map(|log| log.matches("GET /sticky").count());
            counts.sort_unstable();
            (counts.iter().sum::<usize>() == 6).then_some(counts)
        });
        assert_eq!(counts, [0, 6]);
        // Programs of the machine reach the node port at both of its own addresses.
        for at in ["127.0.0.1", "::1"] {
            let at = (at, 30080);
            wait_for(&format!("{at:?}"), || std::net::TcpStream::connect(at).ok());
        }
        let log = cluster.instance.logs("b");
        let own = get(&cluster, "pod asker", ".status.podIPs[1].ip");
        assert!(log.lines().any(|line| line.starts_with(&own)), "the client's own address: {log}");
        // 7 = could not connect: the address is unused, and the machine's own loopback is out of reach.
        assert_eq!(code(&cluster, "asker", 6, "http://[fd00:10:96::ffff]/"), "000 7");
        assert_eq!(code(&cluster, "asker", 6, "http://[::ffff:127.0.0.1]:22/"), "000 7");

        cluster.apply(&policy(&get(&cluster, "pod asker", ".status.podIP")));
        let cut = format!("http://[{six}]:8000/");
        // 28 = timeout: the policy drops forbidden packets.
        wait_for("the policy", || (code(&cluster, "asker", 6, &cut) == "000 28").then_some(()));
        assert_eq!(code(&cluster, "asker", 6, "http://both/"), "000 28");
        assert_eq!(code(&cluster, "asker", 4, &format!("http://{four}:8000/")), "200 0");
        assert_eq!(code(&cluster, "asker", 4, "http://both/"), "200 0");

        // The service changes to one family and back, only by its policy.
        let patch = |policy: &str| {
            let patch = format!(r#"{{"spec": {{"ipFamilyPolicy": "{policy}"}}}}"#);
            cluster.instance.kubectl(&["patch", "service", "both", "-p", &patch]);
        };
        let retained = of("both", 0);
        patch("SingleStack");
        assert_eq!(get(&cluster, "service both", ".spec.clusterIPs[*]"), retained);
        wait_for("the slice to go", || {
            (!get(&cluster, slices, ".items[*].addressType").contains("IPv6")).then_some(())
        });
        cluster.instance.kubectl(&["delete", "networkpolicy", "p"]);
        patch("RequireDualStack");
        assert_eq!(of("both", 0), retained);
        let again = format!("http://[{}]/", of("both", 1));
        wait_for(&again, || (code(&cluster, "asker", 6, &again) == "200 0").then_some(()));
        cluster.instance.stop();
    }
}

/// Writes the sender of each datagram that it gets.
const HEARS: &str = "import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 99))
while True: data, sender = s.recvfrom(99); print(sender[0], data.decode(), flush=True)";

/// Sends a datagram to `argv[1]` with each of the other addresses as its source, and then one with its own.
const FORGES: &str = "import socket, sys
for name in [*sys.argv[2:], '::']:
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND
    s.bind((name, 0))
    s.sendto(b'last' if name == '::' else b'forged', (sys.argv[1], 99))
";

/// NET-5, NET-8: a pod cannot forge its IPv6 source address, for which a program needs no right.
#[test]
fn packets_of_a_pod_with_a_forged_ipv6_source_address_are_dropped_net_5_net_8() {
    needs!(Kubectl);
    if !fabric::has_ipv6() {
        return;
    }
    for user in users() {
        let cluster = Cluster::start(user, "");
        let hearing = HEARS.replace('\n', "\\n");
        let hearer = running("hearer", "node-1", &format!("[python3, -c, \"{hearing}\"]"));
        cluster.apply(&[hearer.as_str(), &idle("forger", "node-1"), &idle("friend", "node-2")].concat());
        for pod in ["hearer", "forger", "friend"] {
            cluster.ready(pod);
        }
        let of = |pod: &str| get(&cluster, &format!("pod {pod}"), ".status.podIPs[1].ip");
        let (hearer, own) = (of("hearer"), of("forger"));
        // A neighbour's address, a node's, an unused one, one of the world.
        let names = [of("friend"), "fd00:172:20::1".into(), "fd00:10:244::77:1".into(), "2001:db8::1".into()];
        let output =
            cluster.shell("forger", &format!("python3 -c \"{FORGES}\" {hearer} {} 2>&1", names.join(" ")));
        assert_eq!(output.trim(), "", "as {user:?}");
        let log = wait_for("the datagram in its own name", || {
            Some(cluster.instance.logs("hearer")).filter(|log| log.contains("last"))
        });
        assert_eq!(log.trim(), format!("{own} last"), "as {user:?}");
        cluster.instance.stop();
    }
}

/// NET-5: a cluster without IPv6 has one family, and reports that for services that request both.
#[test]
fn a_cluster_without_ipv6_has_one_family_net_5() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, ", ipv6: false");
        cluster.apply(&idle("asker", "node-1"));
        cluster.ready("asker");
        assert_eq!(get(&cluster, "pod asker", ".status.podIPs[*].ip").split(' ').count(), 1);
        let file = cluster.home.path("both.yaml");
        std::fs::write(&file, SERVICES).unwrap();
        let refused = cluster.instance.kubectl_output(&["apply", "-f", file.to_str().unwrap()]);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        for why in [
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
            "this cluster is not configured for dual-stack services",
        ] {
            assert!(stderr.contains(why), "{stderr}");
        }
        assert_eq!(get(&cluster, "service both", ".spec.ipFamilies"), r#"["IPv4"]"#);
        cluster.instance.stop();
    }
}

/// An address of this machine that is no loopback; it may have none.
fn own_address() -> Option<Ipv6Addr> {
    let table = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_global = fields.get(3) == Some(&"00");
        let bits = u128::from_str_radix(fields.first()?, 16).ok().filter(|_| is_global)?;
        Some(Ipv6Addr::from_bits(bits))
    })
}

/// NET-7: the world is reached over IPv6 as over IPv4, by connections and datagrams.
#[test]
fn the_way_out_is_of_both_families_net_7() {
    needs!(Kubectl);
    let Some(own) = own_address().filter(|_| fabric::has_ipv6()) else { return };
    for user in users() {
        let server = TcpListener::bind(SocketAddr::new(own.into(), 0)).unwrap();
        let datagrams = UdpSocket::bind(SocketAddr::new(own.into(), 0)).unwrap();
        let [tcp, udp] = [server.local_addr().unwrap().port(), datagrams.local_addr().unwrap().port()];
        let cluster = Cluster::start(user, "");
        cluster.apply(&idle("p", "node-1"));
        cluster.ready("p");
        let answering = std::thread::spawn(move || {
            let (mut client, _) = server.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            client.write_all(b"HTTP/1.0 200 OK\r\n\r\nthe world").unwrap();
            let mut buffer = [0; 100];
            let (length, from) = datagrams.recv_from(&mut buffer).unwrap();
            datagrams.send_to(&buffer[..length].to_ascii_uppercase(), from).unwrap();
        });
        let body = cluster.shell("p", &format!("curl -g -s -m 5 http://[{own}]:{tcp}/"));
        assert_eq!(body, "the world", "as {user:?}");
        let script = format!(
            "import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(5); \
             s.sendto(b'hello', ('{own}', {udp})); data, sender = s.recvfrom(100); print(data.decode(), sender[0])"
        );
        assert_eq!(cluster.shell("p", &format!("python3 -c \"{script}\"")), format!("HELLO {own}"));
        answering.join().unwrap();
        // The port has no listener any more: reset at first, then refused.
        let url = format!("http://[{own}]:{tcp}/");
        wait_for("a refusal", || (code(&cluster, "p", 6, &url) == "000 7").then_some(()));
        cluster.instance.stop();
    }
}

/// Queries a server for names, over datagrams or connections, and prints the number of answers for each, and the last
/// bytes.
const ASK: &str = r"
import socket, struct, sys
server, way = sys.argv[1:3]
family = socket.AF_INET6 if ':' in server else socket.AF_INET
for question in sys.argv[3:]:
    kind, name = question.split('/')
    kind = int(kind)
    labels = b''.join(bytes([len(l)]) + l.encode() for l in name.split('.')) + b'\0'
    asked = struct.pack('>6H', 7, 0x100, 1, 0, 0, 0) + labels + struct.pack('>2H', kind, 1)
    if way == 'udp':
        s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(5); s.connect((server, 53)); s.send(asked); got = s.recv(4096)
    else:
        s = socket.create_connection((server, 53), 5); s.send(struct.pack('>H', len(asked)) + asked)
        f = s.makefile('rb'); got = f.read(struct.unpack('>H', f.read(2))[0])
    count = struct.unpack('>H', got[6:8])[0]
    last = socket.inet_ntop(socket.AF_INET6, got[-16:]) if kind == 28 else got[-4:].hex() if kind == 1 else 'cluster' if b'cluster' in got[len(asked):] else 'else'
    print(got[3] & 15, count, last if count else '-')
";

/// Pods may only connect to the cluster's DNS.
const ONLY_DNS: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: dns}\nspec:\n  podSelector: {matchLabels: {run: asker}}\n  \
                        policyTypes: [Egress]\n  egress:\n  - to: [{namespaceSelector: {}, podSelector: {matchLabels: {k8s-app: kube-dns}}}]\n    \
                        ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]\n---\n";

/// NET-3, NET-5, NET-7, NET-8: the cluster's DNS has an address of each family with the same answers, and policies know
/// both; pods' resolv.conf names the first, and the API's service is of one family, as in Kubernetes; a shell has both
/// families.
#[test]
fn the_clusters_dns_answers_at_both_families_net_3_net_5_net_7_net_8() {
    needs!(Kubectl);
    if !fabric::has_ipv6() {
        return;
    }
    for user in users() {
        let mut cluster = Cluster::start(user, "");
        let asker = idle("asker", "node-1").replace("{name: asker}", "{name: asker, labels: {run: asker}}");
        cluster.apply(&[&server("a", "node-2"), &asker, SERVICES].concat());
        cluster.ready("a");
        cluster.ready("asker");
        let dns = get(&cluster, "service -n kube-system kube-dns", ".spec.clusterIPs");
        assert_eq!(dns, r#"["10.96.0.10","fd00:10:96::a"]"#);
        assert_eq!(get(&cluster, "service kubernetes", ".spec.clusterIPs"), r#"["10.96.0.1"]"#);
        let resolv = cluster.shell("asker", "grep nameserver /etc/resolv.conf");
        assert_eq!(resolv, "nameserver 10.96.0.10");
        let six = get(&cluster, "service six", ".spec.clusterIPs[0]");
        let nibbles = six.parse::<Ipv6Addr>().unwrap().octets();
        let nibbles: Vec<String> =
            nibbles.iter().rev().map(|byte| format!("{:x}.{:x}", byte & 15, byte >> 4)).collect();
        let reversed = format!("{}.ip6.arpa", nibbles.join("."));
        let queries = [
            ("28/six.default.svc.cluster.local", format!("0 1 {six}")),
            ("1/six.default.svc.cluster.local", "0 0 -".to_owned()),
            ("28/kube-dns.kube-system.svc.cluster.local", "0 1 fd00:10:96::a".to_owned()),
            ("1/ns.dns.cluster.local", "0 1 ac14fffe".to_owned()),
            ("28/ns.dns.cluster.local", "0 1 fd00:172:20::fffe".to_owned()),
            (&format!("12/{reversed}"), "0 1 cluster".to_owned()),
            ("28/missing.default.svc.cluster.local", "3 0 -".to_owned()),
        ];
        let questions: Vec<&str> = queries.iter().map(|(question, _)| *question).collect();
        let answers: Vec<&str> = queries.iter().map(|(_, answer)| answer.as_str()).collect();
        let both = |cluster: &Cluster| {
            for way in ["udp", "tcp"] {
                for address in ["10.96.0.10", "fd00:10:96::a"] {
                    let ask =
                        format!("python3 - {address} {way} {} <<'END'\n{ASK}\nEND", questions.join(" "));
                    wait_for(&format!("{way} {address} as {user:?}"), || {
                        let output = cluster.shell("asker", &ask);
                        (output.lines().eq(answers.iter().copied())).then_some(())
                    });
                }
            }
        };
        both(&cluster);
        cluster.apply(ONLY_DNS);
        wait_for("the policy", || {
            (code(&cluster, "asker", 6, &format!("http://[{six}]/")) == "000 28").then_some(())
        });
        both(&cluster);

        // From a shell with a network of its own, by name, a server with IPv6 alone.
        let web = "curl -sS -m 5 -o /dev/null -w '%{http_code} %{local_ip}' http://six/";
        wait_for("the shell's IPv6", || (cluster.inside(&[], web) == "200 fd00:172:20::fffd").then_some(()));

        // The next control plane finds its own services and slices unchanged.
        cluster.instance.stop();
        cluster.instance = Cluster::serve(&cluster.home, user);
        cluster.ready("asker");
        both(&cluster);
        cluster.instance.stop();
        // A control plane without IPv6 removes them.
        std::fs::write(cluster.home.path("config.yaml"), "network: {mode: fabric, ipv6: false}\n").unwrap();
        cluster.instance = Cluster::serve(&cluster.home, user);
        assert_eq!(get(&cluster, "service -n kube-system kube-dns", ".spec.clusterIPs"), r#"["10.96.0.10"]"#);
        let slices = get(&cluster, "endpointslices -n kube-system", ".items[*].metadata.name");
        assert_eq!(slices, "kube-dns");
        cluster.instance.stop();
    }
}

/// NET-5, NET-6: a hostNetwork pod has the node's addresses of both families, is served at both, also through services,
/// and reaches both families itself.
#[test]
fn a_pod_of_its_nodes_network_has_both_addresses_net_5_net_6() {
    needs!(Kubectl);
    if !fabric::has_ipv6() {
        return;
    }
    for user in users() {
        let cluster = Cluster::start(user, "");
        let of_node = server("host", "node-1").replace("  containers:", "  hostNetwork: true\n  containers:");
        cluster.apply(&[&of_node, &idle("asker", "node-2"), SERVICES].concat());
        cluster.ready("host");
        cluster.ready("asker");
        let both = "172.20.0.1 fd00:172:20::1";
        assert_eq!(get(&cluster, "pod host", ".status.podIPs[*].ip"), both);
        assert_eq!(get(&cluster, "pod host", ".status.hostIPs[*].ip"), both);
        let own = cluster.shell("host", "ip -o addr show dev eth0 scope global | awk '{print $4}'");
        assert_eq!(own, "172.20.0.1/32\nfd00:172:20::1/128", "as {user:?}");
        for pod in ["asker", "host"] {
            for (family, url) in [
                (4, "http://172.20.0.1:8000/"),
                (6, "http://[fd00:172:20::1]:8000/"),
                (4, "http://both.default.svc.cluster.local/"),
                (6, "http://both.default.svc.cluster.local/"),
                (4, "http://172.20.0.2:30080/"),
                (6, "http://[fd00:172:20::2]:30080/"),
            ] {
                // It resolves the machine's names: dnsPolicy is ClusterFirst, which means Default for hostNetwork pods.
                if pod == "host" && url.contains("both") {
                    continue;
                }
                wait_for(&format!("{url} from {pod} as {user:?}"), || {
                    (code(&cluster, pod, family, url) == "200 0").then_some(())
                });
            }
        }
        for service in ["both", "six"] {
            let ip = get(&cluster, &format!("service {service}"), ".spec.clusterIPs[*]");
            let six = ip.split(' ').find(|ip| ip.contains(':')).unwrap();
            assert_eq!(code(&cluster, "host", 6, &format!("http://[{six}]/")), "200 0", "{service}, its own");
        }
        cluster.instance.stop();
    }
}
