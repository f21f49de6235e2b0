//! The rights of pods' processes: their capabilities, and the actions that fail in every container.

use serde_json::{Value, json};

use super::{Cluster, needs, users, wait_for};
use crate::fabric::User;

/// A pod in which every kind of process records its rights.
const RIGHTS_POD: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: selves}
spec:
  nodeName: node-1
  terminationGracePeriodSeconds: 0
  volumes: [{name: seen, emptyDir: {}}]
  initContainers:
  - name: init
    image: busybox
    command: [sh, -c, 'grep -E Cap /proc/self/status > /seen/init']
    volumeMounts: [{name: seen, mountPath: /seen}]
  - name: sidecar
    image: busybox
    restartPolicy: Always
    command: [sh, -c, 'grep -E Cap /proc/self/status > /seen/sidecar; sleep 100000']
    volumeMounts: [{name: seen, mountPath: /seen}]
  containers:
  - name: c
    image: busybox
    command: [sh, -c, 'grep -E Cap /proc/self/status > /seen/main; sleep 100000']
    volumeMounts: [{name: seen, mountPath: /seen}]
    lifecycle: {postStart: {exec: {command: [sh, -c, 'grep -E Cap /proc/self/status > /seen/hook']}}}
    readinessProbe: {exec: {command: [sh, -c, 'grep -E Cap /proc/self/status > /seen/.probe && mv /seen/.probe /seen/probe']}, periodSeconds: 1}
---
";

/// A pod that waits, with a `securityContext` of its container and more of its spec.
fn with(name: &str, of_container: &Value, of_pod: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": "node-1", "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "100000"],
                "securityContext": of_container, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
    });
    for (field, value) in of_pod.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// Reads a set of capabilities from a process' status.
fn set(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:\t")));
    u64::from_str_radix(line.unwrap_or_else(|| panic!("no {name} in {status}")), 16).unwrap()
}

/// The capabilities that containerd grants, as `/proc/self/status` shows them.
const DEFAULT: u64 = 0xa804_25fb;
const NET_ADMIN: u64 = 1 << 12;

/// The upper bound of this test's own capabilities: a container's cannot exceed it.
fn own_bounds() -> u64 {
    set(&std::fs::read_to_string("/proc/self/status").unwrap(), "CapBnd")
}

/// POD-16, NET-5: root has containerd's capabilities and no other, in containers, init containers, sidecars, debuggers,
/// probes, hooks and commands; an ordinary user's pods hold none over the user namespace that owns their networks.
#[test]
fn every_process_of_a_pod_has_containerds_capabilities_at_most_pod_16_net_5() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        cluster.apply(RIGHTS_POD);
        cluster.ready("selves");
        cluster.shell("selves", "grep Cap /proc/self/status > /seen/exec");
        let debug = ["debug", "selves", "--profile=baseline", "--image=busybox", "--container=debugger"];
        let debug = [&debug[..], &["--target=c", "--", "grep", "Cap", "/proc/self/status"]].concat();
        cluster.instance.kubectl(&debug);
        let debugger = wait_for("the debugger's word", || {
            cluster.instance.logs_of("selves", "debugger").filter(|text| text.contains("CapAmb"))
        });
        let seen = ["init", "sidecar", "main", "hook", "probe", "exec"]
            .map(|kind| (kind, cluster.shell("selves", &format!("cat /seen/{kind}"))));
        // Under an ordinary user no program holds a capability; the bounding set remains, but there is no root that
        // could use it.
        let (held, bounds) = match user {
            User::Own if rustix::process::geteuid().is_root() => {
                (DEFAULT & own_bounds(), DEFAULT & own_bounds())
            }
            _ => (0, DEFAULT),
        };
        for (kind, status) in seen.into_iter().chain([("debugger", debugger)]) {
            let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|name| set(&status, name));
            assert_eq!(sets, [0, held, held, bounds, 0], "{kind} as {user:?}: {status}");
        }
        cluster.instance.stop();
    }
}

/// POD-16: capabilities that a securityContext adds, drops and forbids; users other than root have none; the usual
/// operations of root's programs work with the default set, and those that need the machine's root do not.
#[test]
fn a_security_context_gives_and_takes_rights_pod_16() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        let is_root = user == User::Own && rustix::process::geteuid().is_root();
        let everything = own_bounds();
        let default = DEFAULT & everything;
        let pods = [
            ("plain", json!({}), json!({}), default, default, 0),
            (
                "admin",
                json!({"capabilities": {"add": ["NET_ADMIN"]}}),
                json!({}),
                default | NET_ADMIN,
                default | NET_ADMIN,
                0,
            ),
            ("bare", json!({"capabilities": {"drop": ["ALL"]}}), json!({}), 0, 0, 0),
            ("one", json!({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}), json!({}), 1, 1, 0),
            ("calm", json!({"allowPrivilegeEscalation": false}), json!({}), default, default, 1),
            ("all", json!({"privileged": true}), json!({}), everything, everything, 0),
            ("of-node", json!({}), json!({"hostNetwork": true}), default, default, 0),
            ("nobody", json!({"runAsUser": 65534, "runAsGroup": 65534}), json!({}), 0, default, 0),
        ];
        let items: Vec<_> = pods.iter().map(|(name, own, more, ..)| with(name, own, more)).collect();
        cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
        for (name, _, _, held, bounds, no_new) in &pods {
            cluster.ready(name);
            let status = cluster.shell(name, "grep -E 'Cap|NoNew' /proc/self/status");
            let held = if is_root { *held } else { 0 };
            assert_eq!(set(&status, "CapEff"), held, "{name} as {user:?}: {status}");
            assert_eq!(
                set(&status, "CapPrm") | set(&status, "CapAmb") | set(&status, "CapInh"),
                held,
                "{name}: {status}"
            );
            if is_root {
                assert_eq!(set(&status, "CapBnd"), *bounds, "{name}: {status}");
            }
            assert_eq!(set(&status, "NoNewPrivs"), *no_new, "{name}: {status}");
        }
        let events = cluster.instance.kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"]);
        let refused = "spec.containers{c}.securityContext.capabilities.add is ignored";
        assert_eq!(events.contains(refused), !is_root, "{events}");

        let says = |pod: &str, script: &str| cluster.shell(pod, &format!("{{ {script}; }} 2>&1 && echo yes"));
        let can = |pod: &str, script: &str| says(pod, script).lines().last() == Some("yes");
        // All users may bind ports below 1024 in the pod's own network, and ping is open to the group.
        let listen = "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) and bind(S, pack_sockaddr_in(80, INADDR_ANY)) or die $!'";
        let ping = |kind: &str| format!("perl -MSocket -e 'socket(S, AF_INET, {kind}, 1) or die $!'");
        for pod in ["plain", "bare", "nobody", "of-node"] {
            assert!(can(pod, listen), "{pod} as {user:?}: {}", says(pod, listen));
        }
        assert!(can("plain", &ping("SOCK_DGRAM")) || is_root, "{}", says("plain", &ping("SOCK_DGRAM")));
        assert_eq!(can("plain", &ping("SOCK_RAW")), is_root, "{}", says("plain", &ping("SOCK_RAW")));
        if is_root {
            for script in [
                "echo x > /v/file && chown 1234:5678 /v/file && test $(stat -c %u:%g /v/file) = 1234:5678",
                "test $(setpriv --reuid 65534 --regid 65534 --clear-groups id -u) = 65534",
                "test $(su -s /bin/sh nobody -c 'id -u') = 65534",
                "chroot / true",
            ] {
                assert!(can("plain", script), "{script}: {}", says("plain", script));
            }
            assert!(can("admin", "ip link set lo mtu 1400"), "{}", says("admin", "ip link set lo mtu 1400"));
        }
        for script in [
            "mount -t tmpfs none /v", "ip link set eth0 down", "nsenter -t 1 -n true", "ls /proc/1/root/",
            "readlink /proc/1/cwd", "readlink /proc/1/ns/net",
        ] {
            assert!(!can("plain", script), "{script} as {user:?}: {}", says("plain", script));
        }
        assert_eq!(cluster.shell("plain", "cat /proc/1/comm"), "pause");
        cluster.instance.stop();
    }
}
