//! Pods with users of their own (`hostUsers: false`): their owners, rights and ids, and the nodes that refuse them.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use podium::base::optional_file::read_optional;
use serde_json::{Value, json};
use tar::EntryType;

use super::{Cluster, needs, users};
use crate::fabric::User;
use crate::images::{Layer, load_archive, saved};
use crate::instance::wait_for;
use crate::needs::{Need, lacks};

pub(super) const IMAGE: &str = "users/app:v1";

/// Loads an image with a shell, a program with the set-user-ID bit, and files of several owners.
pub(super) fn load(cluster: &Cluster) {
    let mut layer = Layer::new();
    for program in [
        "sh", "cat", "id", "sleep", "stat", "chown", "touch", "mkdir", "mknod", "mount", "umount", "unshare",
        "hostname",
    ] {
        layer.program(program);
    }
    let id =
        String::from_utf8(std::process::Command::new("which").arg("id").output().unwrap().stdout).unwrap();
    layer.add("bin/id-of-root", EntryType::Regular, 0o4755, &std::fs::read(id.trim()).unwrap());
    layer.directory("etc", 0o755);
    layer.file("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/:/bin/sh\n");
    layer.directory("tmp", 0o1777);
    let config = json!({"Cmd": ["sleep", "100000"], "Env": ["PATH=/bin"], "WorkingDir": "/work"});
    load_archive(&cluster.home, IMAGE, &saved(IMAGE, &layer.finish(), &config));
}

/// A pod with users of its own.
fn pod(name: &str, node: &str, more: &Value) -> String {
    let mut spec = json!({"nodeSelector": {"kubernetes.io/hostname": node}, "hostUsers": false, "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": IMAGE}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
    format!("---\n{pod}\n")
}

/// The first id of the machine that a pod has.
fn first_id(cluster: &Cluster, pod: &str) -> u32 {
    let map = cluster.instance.exec_in(pod, "c", &["cat", "/proc/self/uid_map", "/proc/self/gid_map"]);
    let fields: Vec<u32> = map.split_whitespace().map(|field| field.parse().unwrap()).collect();
    let [0, first, 65_536, 0, of_groups, 65_536] = fields[..] else { panic!("{map}") };
    assert_eq!(first, of_groups);
    assert!(first >= 65_536 && first.is_multiple_of(65_536), "{first}");
    first
}

/// The container and the user of each container's process that is in a user namespace with this first id.
fn processes(first: u32) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| read_optional(process.path().join(name));
        let environ = read("environ");
        let container = environ.split('\0').find_map(|variable| variable.strip_prefix("PODIUM_CONTAINER="));
        let is_in_namespace = read("uid_map").split_whitespace().nth(1) == Some(&first.to_string());
        if let Some(container) = container.filter(|_| is_in_namespace) {
            let status = read("status");
            let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
            let user = line.split_whitespace().next().unwrap_or_default();
            found.push((container.to_owned(), user.to_owned()));
        }
    }
    found
}

fn owner(path: &Path) -> (u32, u32) {
    let about = std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (about.uid(), about.gid())
}

/// The directory of a pod's files.
fn directory(cluster: &Cluster, node: &str, pod: &str) -> PathBuf {
    let uid = cluster.instance.field(pod, ".metadata.uid");
    cluster.home.data_dir().join("nodes").join(node).join("pods").join(uid)
}

/// Returns the cluster of root, unless this machine has none with such pods.
fn cluster() -> Option<Cluster> {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !users().contains(&User::Own) {
        return None;
    }
    let cluster = Cluster::start(User::Own, "");
    let node = cluster.instance.kubectl(&["get", "node", "node-1", "-o", "json"]);
    if lacks(Need::PodUsers, node.contains(r#""podium.dev/pod-users": "yes""#)) {
        cluster.instance.stop();
        return None;
    }
    let node: Value = serde_json::from_str(&node).unwrap();
    assert_eq!(node["status"]["runtimeHandlers"][0]["features"]["userNamespaces"], true);
    load(&cluster);
    Some(cluster)
}

/// POD-18: the owners inside are those of an ordinary pod, on the machine they are other users', rights end at the pod,
/// and each pod has other ids.
#[test]
fn a_pod_has_users_of_its_own_pod_18() {
    needs!(Kubectl);
    let Some(cluster) = cluster() else { return };
    let volumes = json!([
        {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "settings", "configMap": {"name": "settings"}}]);
    let mounts = json!([
        {"name": "disk", "mountPath": "/disk"},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "scratch", "mountPath": "/part", "subPath": "a/b"},
        {"name": "memory", "mountPath": "/memory"},
        {"name": "settings", "mountPath": "/settings"}]);
    let container = |name: &str, security: Value| json!({"name": name, "image": IMAGE, "volumeMounts": mounts, "securityContext": security});
    let containers = json!([
        container("c", json!({})),
        container("user", json!({"runAsUser": 1000, "runAsGroup": 7})),
        container("admin", json!({"capabilities": {"add": ["SYS_ADMIN"]}})),
        container("open", json!({"procMount": "Unmasked"})),
        container("closed", json!({"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false}))
    ]);
    let of_pod = json!({"volumes": volumes, "containers": containers,
        "initContainers": [{"name": "i", "image": IMAGE, "command": ["touch", "/scratch/of-init"],
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}]});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"k": "v"}});
    cluster.apply(&format!(
        "---\n{claim}\n---\n{settings}\n{}{}{}",
        pod("mapped", "node-1", &of_pod),
        pod("other", "node-2", &json!({})),
        pod(
            "builtin",
            "node-1",
            &json!({"containers": [{"name": "c", "image": "busybox", "command": ["sleep", "100000"]}]})
        ),
    ));
    for name in ["mapped", "other", "builtin"] {
        cluster.ready(name);
    }
    let firsts = ["mapped", "other", "builtin"].map(|name| first_id(&cluster, name));
    assert!(firsts[0] != firsts[1] && firsts[1] != firsts[2] && firsts[0] != firsts[2], "{firsts:?}");
    let at = |container: &str, script: &str| {
        let arguments = ["exec", "mapped", "-c", container, "--", "sh", "-c", script];
        let output = cluster.instance.kubectl_output(&arguments);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };

    // Owners inside.
    let stat = "stat -c '%u:%g' / /etc/passwd /work /disk /scratch /scratch/of-init /part /memory /settings/k /etc/hosts /etc/hostname /etc/resolv.conf /dev/null /dev/shm";
    for container in ["c", "admin", "open", "closed"] {
        assert_eq!(at(container, stat), ["0:0"; 14].join("\n"), "{container}");
    }
    assert_eq!(at("c", "id -u; id -G"), "0\n0");
    assert_eq!(at("user", "id -u; id -g; stat -c %u /proc/self/"), "1000\n7\n1000");
    assert_eq!(
        at("user", "id-of-root").split_whitespace().nth(2),
        Some("euid=0(root)"),
        "the bit has its effect"
    );
    assert_eq!(cluster.shell("builtin", "stat -c %u / /usr/bin/env /etc/passwd /tmp /root"), "0\n0\n0\n0\n0");

    // Owners on the machine.
    assert_eq!(
        at(
            "c",
            "touch /disk/own /scratch/own /part/own /memory/own && chown 33:44 /scratch/own && echo done"
        ),
        "done"
    );
    assert_eq!(at("user", "touch /memory/of-user; stat -c %u:%g /memory/own"), "0:0");
    let scratch = directory(&cluster, "node-1", "mapped").join("volumes/scratch");
    assert_eq!(owner(&scratch.join("own")), (33, 44));
    assert_eq!(owner(&scratch.join("of-init")), (0, 0));
    assert_eq!((owner(&scratch.join("a/b")), owner(&scratch.join("a/b/own"))), ((0, 0), (0, 0)));
    let disk = cluster.instance.kubectl(&["get", "pvc", "disk", "-o", "jsonpath={.spec.volumeName}"]);
    assert_eq!(owner(&cluster.home.data_dir().join("volumes").join(disk.trim()).join("own")), (0, 0));
    let running = processes(firsts[0]);
    let expect = [firsts[0], firsts[0] + 1000].map(|id| id.to_string());
    assert!(running.len() >= 5 && running.iter().all(|(_, user)| expect.contains(user)), "{running:?}");
    assert!(running.iter().any(|(_, user)| *user == expect[1]), "{running:?}");

    // Rights inside, and none outside.
    let capabilities =
        "while read n v; do case $n in CapEff:|CapBnd:) echo $v;; esac; done < /proc/self/status";
    assert_eq!(at("c", capabilities), "00000000a80425fb\n00000000a80425fb");
    assert_eq!(at("user", capabilities), "0000000000000000\n00000000a80425fb");
    assert_eq!(
        at(
            "c",
            "mknod /tmp/disk b 1 0; mount -t tmpfs none /tmp; hostname other; unshare -u sh -c 'echo made'"
        ),
        ""
    );
    assert_eq!(at("admin", "mount -t tmpfs none /tmp && hostname other && hostname"), "other");
    assert_eq!(
        at(
            "admin",
            "umount /proc/keys; mount -o remount,rw /proc/sys; mknod /dev/disk b 1 0; echo 1 > /proc/sys/vm/drop_caches || echo refused"
        ),
        "refused"
    );
    assert_ne!(rustix::system::uname().nodename(), c"other");
    assert_eq!(at("open", "test -c /proc/keys || echo shown"), "shown");
    assert_eq!(at("open", "echo 1 > /proc/sys/vm/drop_caches || echo refused"), "refused");
    let nested = "unshare --user --map-root-user --pid --fork --mount-proc cat /proc/self/uid_map";
    assert_eq!(at("open", nested).split_whitespace().collect::<Vec<_>>(), ["0", "0", "1"]);
    assert_eq!(at("c", nested), "", "only an unmasked /proc allows a further one");
    assert_eq!(
        at("closed", "touch /new || echo refused; touch /scratch/new && echo written"),
        "refused\nwritten"
    );
    assert_eq!(at("c", "echo text > /dev/stdout"), "text");

    // A crash of the server changes nothing, and its successor knows the ids.
    let Cluster { instance, user, home } = cluster;
    instance.crash();
    let instance = Cluster::serve(&home, user);
    let cluster = Cluster { instance, user, home };
    assert_eq!(["mapped", "other", "builtin"].map(|name| first_id(&cluster, name)), firsts);
    cluster.apply(&pod("later", "node-2", &json!({})));
    cluster.ready("later");
    assert!(!firsts.contains(&first_id(&cluster, "later")));

    // The end of a pod leaves nothing, and its ids are free, unless another cluster has taken them.
    let files = directory(&cluster, "node-1", "mapped");
    cluster.instance.kubectl(&["delete", "pod", "mapped"]);
    wait_for("the pod's files to be removed", || (!files.exists()).then_some(()));
    let mut left = processes(firsts[0]);
    left.retain(|(container, _)| running.iter().any(|(before, _)| before == container));
    assert!(left.is_empty(), "{left:?}");
    cluster.apply(&pod("again", "node-2", &json!({})));
    cluster.ready("again");
    assert!(!firsts[1..].contains(&first_id(&cluster, "again")));
    cluster.instance.stop();
}

/// POD-18: pods of two clusters on one machine have different ids, also after a restart of one of them.
#[test]
fn pods_of_two_clusters_have_different_ids_pod_18() {
    needs!(Kubectl);
    let Some(one) = cluster() else { return };
    let other = Cluster::start(User::Own, "");
    load(&other);
    for name in ["a", "b"] {
        for cluster in [&one, &other] {
            cluster.apply(&pod(name, "node-1", &json!({})));
            cluster.ready(name);
        }
    }
    let ids = |one: &Cluster, other: &Cluster| {
        let all: BTreeSet<u32> = [one, other]
            .into_iter()
            .flat_map(|cluster| ["a", "b"].map(|name| first_id(cluster, name)))
            .collect();
        assert_eq!(all.len(), 4, "{all:?}");
    };
    ids(&one, &other);
    // The hosts keep the ids of a killed control plane.
    let Cluster { instance, user, home } = other;
    instance.crash();
    one.apply(&pod("meanwhile", "node-2", &json!({})));
    one.ready("meanwhile");
    let other = Cluster { instance: Cluster::serve(&home, user), user, home };
    ids(&one, &other);
    assert!(["a", "b"].iter().all(|name| first_id(&other, name) != first_id(&one, "meanwhile")));
    other.instance.stop();
    one.instance.stop();
}

/// POD-18: the pod's users own the PID namespace, so that its root can mount a /proc of it, unless a loaded image's
/// program is process 1.
#[test]
fn the_users_of_a_pod_own_its_processes_pod_18() {
    needs!(Kubectl);
    let Some(cluster) = cluster() else { return };
    let of = |name: &str, image: &str, shared: bool| {
        let security = json!({"procMount": "Unmasked", "capabilities": {"add": ["SYS_ADMIN"]}});
        let containers = json!([{"name": "c", "image": image, "command": ["sleep", "100000"],
            "securityContext": security}]);
        pod(name, "node-1", &json!({"containers": containers, "shareProcessNamespace": shared}))
    };
    let pods =
        [("builtin", "busybox", false, true), ("shared", IMAGE, true, true), ("image", IMAGE, false, false)];
    cluster.apply(&pods.map(|(name, image, shared, _)| of(name, image, shared)).concat());
    for (name, .., is_owner) in pods {
        cluster.ready(name);
        let output =
            cluster.shell(name, "mkdir -p /tmp/proc && mount -t proc none /tmp/proc && cat /tmp/proc/1/comm");
        let expect = if is_owner { "pause" } else { "permission denied" };
        assert!(output.contains(expect), "{name}: {output}");
    }
    cluster.instance.stop();
}

/// POD-18: a pod that cannot have users of its own does not run without them, and an event tells why.
#[test]
fn a_pod_without_users_of_its_own_does_not_start_pod_18() {
    needs!(Kubectl);
    let event = |cluster: &Cluster, pod: &str, part: &str| {
        let field = format!("--field-selector=involvedObject.name={pod}");
        wait_for(&format!("{part:?} of {pod}"), || {
            let events =
                cluster.instance.kubectl(&["get", "events", &field, "-o", "jsonpath={.items[*].message}"]);
            events.contains(part).then_some(())
        });
    };
    let busybox = json!({"containers": [{"name": "c", "image": "busybox", "command": ["sleep", "100000"]}]});
    if users().contains(&User::Ordinary) {
        let cluster = Cluster::start(User::Ordinary, "");
        cluster.apply(&pod("refused", "node-1", &busybox));
        event(
            &cluster,
            "refused",
            "pods cannot have user namespaces of their own (hostUsers: false) on this node",
        );
        event(&cluster, "refused", "podium must run as root of the machine");
        let node = cluster.instance.kubectl(&["get", "node", "node-1", "-o", "json"]);
        assert!(node.contains(r#""podium.dev/pod-users": "no""#), "{node}");
        cluster.instance.kubectl(&["delete", "pod", "refused"]);
        cluster.instance.stop();
    }
    let Some(cluster) = cluster() else { return };
    let of_machine = json!({"containers": [{"name": "c", "image": "host", "command": ["sleep", "100000"]}]});
    let outside =
        json!({"containers": [{"name": "c", "image": IMAGE}], "securityContext": {"runAsUser": 65_536}});
    cluster.apply(&[pod("machine", "node-1", &of_machine), pod("outside", "node-1", &outside)].concat());
    event(&cluster, "machine", "shows the machine's own files");
    event(&cluster, "outside", "has the ids 0 to 65535 and not 65536");
    cluster.instance.stop();
}
