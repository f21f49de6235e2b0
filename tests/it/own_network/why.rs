//! `podium why-not-connected`, with real pods.

use std::path::Path;
use std::process::{Command, Output};

use super::{Cluster, idle, needs, running, users, wait_for, web};
use crate::instance::DataDir;

/// A service with a selector that matches the servers, one that matches no pod, and one of datagrams without a
/// listener.
const SERVICES: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 8080, targetPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: mistyped}
spec: {selector: {app: wbe}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: deaf}
spec: {selector: {app: web}, ports: [{port: 53, targetPort: 5353, protocol: UDP}]}
---
";

const SHUT: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: shut}
spec: {podSelector: {matchLabels: {app: web}}}
---
";

/// A server that listens only on loopback.
const LOCAL: &str = "[perl, -MIO::Socket::INET, -e, '$s = IO::Socket::INET->new(LocalAddr => \"127.0.0.1\", LocalPort => 8000, Listen => 1) or die; sleep 100000']";

/// Returns the exit code, and the output.
fn ask(data_dir: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    let Output { status, stdout, stderr } =
        command.args(["why-not-connected", "--data-dir"]).arg(data_dir).args(arguments).output().unwrap();
    let output = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.code().unwrap(), output.trim().to_owned())
}

fn last(output: &str) -> &str {
    output.lines().last().unwrap_or_default()
}

/// NET-8: working connections and the classic mistakes, diagnosed with real pods, services and policies; the exit code
/// distinguishes them.
#[test]
fn a_connection_is_walked_step_by_step_net_8() {
    for user in users() {
        let cluster = Cluster::start(user, "");
        let data_dir = cluster.home.data_dir();
        let asks = |arguments: &[&str]| ask(&data_dir, arguments);
        // Listeners of a pod on the node's own network do not count for other pods.
        let of_node = running("of-node", "node-2", "[python3, -m, http.server, '8088']")
            .replace("nodeName: node-2", "nodeName: node-2\n  hostNetwork: true");
        let pods = [
            idle("client", "node-1"),
            web("web-1", "node-2", ""),
            running("local", "node-2", LOCAL),
            of_node,
        ];
        cluster.apply(&[&pods.concat(), SERVICES].concat());
        for pod in ["client", "web-1", "local", "of-node"] {
            cluster.ready(pod);
        }
        let node = "curl -s -m 3 -o /dev/null -w '%{http_code}' http://172.20.0.2:8088/";
        wait_for("the node's own", || (cluster.shell("client", node) == "200").then_some(()));
        wait_for("the service", || (asks(&["client", "web"]).0 == 0).then_some(()));
        let (code, output) = asks(&["client", "http://web:8080/index.html"]);
        assert_eq!(code, 0, "{output}");
        let found: Vec<&str> =
            output.lines().filter_map(|line| line.trim_start().strip_prefix("✓ ")).collect();
        let steps = ["name", "port", "endpoints", "policy", "listener", "connection"];
        assert!(
            found.iter().zip(steps).all(|(line, step)| line.starts_with(step)) && found.len() == 6,
            "{output}"
        );
        assert!(last(&output).starts_with("connected: 10.96."), "{output}");

        wait_for("the listener at 127.0.0.1", || {
            let (code, output) = asks(&["client", "pod/local:8000"]);
            assert_eq!(code, 1, "{output}");
            let expected = "not connected: pod default/local listens only at 127.0.0.1:8000, which other pods cannot \
                        reach; make the program listen at 0.0.0.0:8000, not at 127.0.0.1";
            (last(&output) == expected && output.contains(":8000 refuses the connection")).then_some(())
        });
        for (destination, reason) in [
            ("mistyped", "the selector app=wbe matches no pod in namespace default; make the selector"),
            ("web:80", "80 is the pods' port (targetPort); clients use 8080"),
            ("wbe:80", "did you mean service web?"),
            ("deaf", "no program in pod default/web-1 listens at port 5353 or any other port"),
            ("pod/web-1:81", "no program in pod default/web-1 listens at port 81; the pod listens at"),
            ("10.244.0.250:80", "no pod has 10.244.0.250, an address of the pod network"),
        ] {
            let (code, output) = asks(&["client", destination]);
            assert!(code == 1 && last(&output).contains(reason), "{destination} as {user:?}: {output}");
        }
        for (source, destination, reason) in
            [("missing", "web", "pod default/missing not found"), ("client", "web:none!", "invalid port")]
        {
            let (code, output) = asks(&[source, destination]);
            assert!(code == 2 && output.contains(reason), "{output}");
        }

        cluster.apply(SHUT);
        wait_for("the policy", || {
            let (code, output) = asks(&["default/client", "web", "-o", "json"]);
            let report: serde_json::Value = serde_json::from_str(&output).unwrap();
            let reason = report["verdict"]["reason"].as_str().unwrap();
            assert_eq!(report["verdict"]["connected"], code == 0, "{output}");
            let tried = report["findings"].as_array().unwrap().last().unwrap();
            let dropped = tried["text"].as_str().unwrap().contains("does not answer in time");
            (code == 1
                && reason == "policy default/shut (ingress) does not allow connections to the destination"
                && dropped)
                .then_some(())
        });
        cluster.instance.stop();
    }
}

/// NET-8, SEC-2: roles decide what is reported. A user that may not run commands in pods does not learn of sockets, but
/// of everything else.
#[test]
fn a_report_omits_facts_that_the_roles_of_the_user_hide_net_8() {
    needs!(Kubectl);
    let Some(user) = users().into_iter().next() else { return };
    let cluster = Cluster::start(user, "");
    let pods = [idle("client", "node-1"), web("web-1", "node-2", "")];
    cluster.apply(&[&pods.concat(), SERVICES].concat());
    cluster.ready("client");
    cluster.ready("web-1");
    let kubectl = |arguments: &[&str]| cluster.instance.kubectl(arguments);
    kubectl(&["create", "serviceaccount", "viewer"]);
    kubectl(&["create", "rolebinding", "viewer", "--clusterrole=view", "--serviceaccount=default:viewer"]);
    let token = kubectl(&["create", "token", "viewer"]);
    let theirs = cluster.home.path("viewer.yaml");
    let admins = std::fs::read_to_string(cluster.instance.kubeconfig()).unwrap();
    let before = admins.lines().find(|line| line.trim_start().starts_with("token:")).unwrap();
    let indent = before.len() - before.trim_start().len();
    let own = format!("{}token: {}", " ".repeat(indent), token.trim());
    std::fs::write(&theirs, admins.replace(before, &own)).unwrap();

    let (code, output) =
        ask(&cluster.home.data_dir(), &["client", "web", "--kubeconfig", theirs.to_str().unwrap()]);
    assert_eq!(code, 1, "{output}");
    for part in [
        "no permission to list pods of other namespaces",
        "no permission to list nodes",
        "cannot get resource \"pods/exec\"",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
    assert!(output.contains("✓ endpoints"), "{output}");
    cluster.instance.stop();
}

/// NET-8: the command works as far as possible where pods share the machine's network, too.
#[test]
fn a_connection_is_walked_in_the_machines_network_too_net_8() {
    let home = DataDir::new();
    let config = home.path("config.yaml");
    std::fs::write(&config, "network: {mode: loopback}\n").unwrap();
    let instance = home.start(&["--nodes", "2", "--config", config.to_str().unwrap()]);
    let pods = [idle("client", "node-1"), web("web-1", "node-2", "")];
    instance.apply(&[&pods.concat(), SERVICES, SHUT].concat());
    instance.until_ready("client");
    instance.until_ready("web-1");
    let asks = |destination: &str| ask(&home.data_dir(), &["client", destination]);
    wait_for("the service", || (asks("web").0 == 0).then_some(()));
    let (_, output) = asks("web");
    assert!(output.contains("not enforced here, as pods share the machine's network"), "{output}");
    assert!(output.contains("✓ listener") && output.contains("✓ connection"), "{output}");
    let (code, output) = asks("pod/web-1:81");
    assert!(
        code == 1 && last(&output).contains("no program in pod default/web-1 listens at port 81"),
        "{output}"
    );
    instance.stop();
}
