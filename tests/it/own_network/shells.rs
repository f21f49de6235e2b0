//! `podium shell`, as its user sees it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Cluster, idle, needs, users, wait_for, web};
use crate::fabric::User;
use crate::instance::{ChildGuard, DataDir};

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 8080, targetPort: 80}]}\n---\n";

/// Only pods may connect to the servers.
const SHUT: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: shut}\nspec:\n  podSelector: {matchLabels: {app: web}}\n  ingress:\n  - from: [{podSelector: {}}]\n---\n";

impl Cluster {
    /// `podium shell` as the user that runs the cluster.
    fn podium_shell(&self, arguments: &[&str]) -> Command {
        let program = Some(self.home.path("podium"))
            .filter(|path| path.exists())
            .unwrap_or_else(|| self.home.program());
        let mut command = match self.user {
            User::Own => Command::new(program),
            User::Ordinary => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
                command
            }
        };
        command.args(["shell", "--data-dir"]).arg(self.home.data_dir()).args(arguments);
        command.env("HOME", self.home.path("")).current_dir(self.home.path("")).stdin(Stdio::null());
        command
    }

    /// Returns the output of a script in such a shell; it must succeed.
    pub(super) fn inside(&self, arguments: &[&str], script: &str) -> String {
        let output = self.podium_shell(&[arguments, &["--", "sh", "-c", script]].concat()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(
            output.status.success(),
            "{script} as {:?}: {}{}",
            self.user,
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// NET-7: names, services, pods, the API and the world; the user's own files, identity and exit code; no right over the
/// network; the machine's own files as before.
#[test]
fn a_shell_is_in_the_clusters_network_and_is_its_users_net_7() {
    needs!(Kubectl);
    for user in users() {
        let machine = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = machine.local_addr().unwrap().port();
        let answering = std::thread::spawn(move || {
            let (mut client, _) = machine.accept().unwrap();
            let _ = client.read(&mut [0; 1024]).unwrap();
            client.write_all(b"HTTP/1.0 200 OK\r\n\r\nthe machine").unwrap();
        });
        let cluster = Cluster::start(user, &format!(", hostPorts: [{port}]"));
        cluster.apply(&[&web("a", "node-1", ""), SERVICE].concat());
        cluster.ready("a");
        let machines = std::fs::read_to_string("/etc/resolv.conf").unwrap();

        let code = |url: &str| format!("curl -s -m 5 -o /dev/null -w '%{{http_code}}' {url}");
        wait_for("the service", || {
            let output =
                cluster.podium_shell(&["--", "sh", "-c", &code("http://web:8080/")]).output().unwrap();
            (output.stdout == b"200").then_some(())
        });
        for url in
            [format!("http://{}/", cluster.ip("a")), "http://web.default.svc.cluster.local:8080/".to_owned()]
        {
            assert_eq!(cluster.inside(&[], &code(&url)), "200", "{url} as {user:?}");
        }
        assert_eq!(cluster.inside(&["-n", "kube-system"], &code("http://web.default:8080/")), "200");
        assert_eq!(cluster.inside(&[], "kubectl get pods -o name"), "pod/a", "by the environment alone");
        assert_eq!(
            cluster.inside(&[], &format!("curl -s http://host.podium.internal:{port}/")),
            "the machine"
        );
        answering.join().unwrap();

        let uid = if user == User::Ordinary { 65_534 } else { rustix::process::getuid().as_raw() };
        let own = cluster.inside(&[], "id -u; pwd; touch made; echo $PODIUM_SHELL; echo $PODIUM_DATA_DIR");
        let own: Vec<_> = own.lines().collect();
        let (here, data) = (cluster.home.path("").canonicalize().unwrap(), cluster.home.data_dir());
        let data = data.canonicalize().unwrap().display().to_string();
        // The kernel's removal of earlier networks decides which of the nodes' last addresses it has.
        assert!(own[2].starts_with("172.20.255."), "{own:?}");
        assert_eq!(own, [uid.to_string(), here.display().to_string(), own[2].to_owned(), data]);
        assert!(cluster.home.path("made").exists(), "a file of the machine's");

        // CAP_NET_ADMIN is 12, CAP_SYS_ADMIN 21.
        let rights = cluster.inside(&[], "grep CapEff /proc/self/status; ip link add x type dummy 2>&1; mount -t tmpfs x /mnt 2>&1 || true");
        let effective = rights.lines().next().unwrap().split_whitespace().last().unwrap();
        let effective = u64::from_str_radix(effective, 16).unwrap();
        assert_eq!(effective & (1 << 12 | 1 << 21), 0, "{rights} as {user:?}");
        assert!(user == User::Own || effective == 0, "{rights}");
        assert_eq!(std::fs::read_to_string("/etc/resolv.conf").unwrap(), machines);

        let ended = |script: &str| cluster.podium_shell(&["--", "sh", "-c", script]).output().unwrap().status;
        assert_eq!(ended("exit 42").code(), Some(42));
        assert_eq!(ended("kill -TERM $$").signal(), Some(15));
        let absent = cluster.podium_shell(&["--", "no-such-program"]).output().unwrap();
        assert_eq!(absent.status.code(), Some(127), "{}", stderr_of(&absent));
        let hello = cluster.podium_shell(&["--", "true"]).output().unwrap();
        let hint = stderr_of(&hello);
        assert!(hint.starts_with("podium: in the cluster's network as 172.20.255."), "{hint}");
        assert!(hint.ends_with("; DNS names resolve as in namespace default; `exit` leaves it"), "{hint}");
        assert_eq!(hello.stdout, b"");
        cluster.instance.stop();
    }
}

/// Starts a shell that runs until it is killed; returns it and its first output.
fn staying(cluster: &Cluster) -> (ChildGuard, String) {
    let mut command = cluster.podium_shell(&["--", "sh", "-c", "echo $PODIUM_SHELL; exec sleep 100000"]);
    let mut shell = ChildGuard::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut line = Vec::new();
    let stdout: &mut Child = &mut shell.0;
    let mut stdout = stdout.stdout.take().unwrap();
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        assert_eq!(stdout.read(&mut byte).unwrap(), 1, "it says where it is");
        line.extend(byte);
    }
    (shell, String::from_utf8(line).unwrap().trim().to_owned())
}

/// NET-7: each shell has a slot of its own, which is freed when the shell ends, by `kill -9` as well.
#[test]
fn a_shells_place_is_gone_with_it_net_7() {
    for user in users() {
        let cluster = Cluster::start(user, "");
        let (first, at_first) = staying(&cluster);
        let (_second, at_second) = staying(&cluster);
        assert_eq!(
            (at_first.as_str(), at_second.as_str()),
            ("172.20.255.253", "172.20.255.252"),
            "as {user:?}"
        );
        let pid = Pid::from_child(&first.0);
        kill_process(pid, Signal::KILL).unwrap();
        drop(first);
        // The kernel removes an empty network namespace only after a while.
        wait_for("the first place", || (cluster.inside(&[], "echo $PODIUM_SHELL") == at_first).then_some(()));
        let left = std::fs::read_dir(cluster.home.data_dir().join("fabric")).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
        assert!(!left.iter().any(|name| name.contains("resolv") || name == "kubeconfig"), "{left:?}");
        cluster.instance.stop();
    }
}

/// NET-7, NET-8: policies treat a shell in a node's or a pod's network like that node or pod; a shell in a network of
/// its own is no pod, and an `ipBlock` admits it.
#[test]
fn a_shell_may_be_where_a_node_or_a_pod_is_net_7() {
    for user in users() {
        let cluster = Cluster::start(user, "");
        cluster.apply(&[&web("a", "node-1", ""), &idle("p", "node-2"), SERVICE, SHUT].concat());
        cluster.ready("a");
        cluster.ready("p");
        let url = format!("http://{}/", cluster.ip("a"));
        let asks_within = |seconds: u8, arguments: &[&str]| {
            let script =
                format!("curl -s -m {seconds} -o /dev/null -w '%{{exitcode}} %{{local_ip}}' {url} || true");
            cluster.inside(arguments, &script)
        };
        // For polls, and where there should be no response.
        let asks = |arguments: &[&str]| asks_within(1, arguments);
        wait_for("the policy", || asks(&[]).starts_with("28").then_some(()));
        assert_eq!(asks_within(10, &["--pod", "p"]), format!("0 {}", cluster.ip("p")), "as the pod");
        assert_eq!(asks_within(10, &["--node", "node-1"]), "0 172.20.0.1", "as its node's kubelet");
        assert!(asks(&["--node", "node-2"]).starts_with("28"), "another node is a stranger");
        assert_eq!(
            cluster.inside(&["--pod", "a"], "curl -s -o /dev/null -w '%{http_code}' http://localhost/"),
            "200"
        );
        cluster.apply(&SHUT.replace("[{podSelector: {}}]", "[{ipBlock: {cidr: 172.20.255.0/24}}]"));
        wait_for("the block", || asks(&[]).starts_with('0').then_some(()));

        for (arguments, reason) in [
            (
                &["--node", "node-9", "--", "true"][..],
                "no node \"node-9\" with processes in this cluster; nodes: node-1, node-2",
            ),
            (
                &["--node", "../nodes/node-1", "--", "true"],
                "no node \"../nodes/node-1\" with processes in this cluster",
            ),
            (&["--pod", "q", "--", "true"], "pods \"q\" not found"),
        ] {
            let refused = cluster.podium_shell(arguments).output().unwrap();
            assert_eq!(refused.status.code(), Some(1), "{}", stderr_of(&refused));
            assert!(stderr_of(&refused).contains(reason), "{}", stderr_of(&refused));
        }
        if user == User::Ordinary {
            let mut roots = Command::new(cluster.home.path("podium"));
            let refused =
                roots.args(["shell", "--data-dir"]).arg(cluster.home.data_dir()).args(["--", "true"]);
            let refused = refused.output().unwrap();
            assert_eq!(refused.status.code(), Some(1));
            assert!(
                stderr_of(&refused).contains("the data directory belongs to user 65534"),
                "{}",
                stderr_of(&refused)
            );
        }
        cluster.instance.stop();
    }
}

/// NET-7: without such a network there is nothing to enter, and an error says so.
#[test]
fn a_shell_needs_an_instance_with_a_network_of_its_own_net_7() {
    let shell = |data_dir: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
        let output =
            command.args(["shell", "--data-dir"]).arg(data_dir).args(["--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr_of(&output));
        stderr_of(&output)
    };
    let home = DataDir::new();
    assert!(shell(&home.data_dir()).contains("cannot find a running cluster in "));
    std::fs::write(home.path("config.yaml"), "network: {mode: loopback}\n").unwrap();
    let config = home.path("config.yaml");
    let instance = home.start(&["--nodes", "1", "--config", config.to_str().unwrap()]);
    assert!(shell(&home.data_dir()).contains("share the machine's network (mode: loopback)"));
    instance.stop();
    assert!(shell(&home.data_dir()).contains("cannot find a running cluster in "));
}
