//! Images that start as root and change their user, run by an ordinary user with subordinate ids and without
//! (IMG-12, POD-16, VOL-1, SAFE-7).

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::images::{Layer, saved};
use crate::instance::{DataDir, Instance, seconds_of_its_own, wait_for};
use crate::needs::{Need, lacks, needs, on_path};
use crate::own_network::debuggers;

/// The user who runs Podium: `newuidmap` wants a name.
pub(crate) const USER: (&str, u32) = ("nobody", 65_534);
/// The first of the user's subordinate ids.
const FIRST: u32 = 1_000_000;

/// An ordinary user's data, and the ids that the machine gives the user.
pub(crate) struct OrdinaryUser {
    pub(crate) home: DataDir,
    program: PathBuf,
    ids: PathBuf,
}

impl OrdinaryUser {
    /// A user with the ids of a system.
    pub(crate) fn with_subordinate_ids() -> Self {
        Self::with(&format!("{}:{FIRST}:65536\n", USER.0))
    }

    /// A user with the ranges of ids in `ids`, lines of /etc/subuid.
    pub(crate) fn with(ids: &str) -> Self {
        let home = DataDir::for_everyone();
        let user = Self { program: home.program(), ids: home.path("ids"), home };
        user.set_ids(ids);
        user
    }

    fn set_ids(&self, ids: &str) {
        std::fs::write(&self.ids, ids).unwrap();
    }

    /// `podium` as the user. The machine's files of ids stay as they are: only this process sees others.
    pub(crate) fn podium(&self, arguments: &[&str]) -> Command {
        let script =
            "mount --bind \"$0\" /etc/subuid && mount --bind \"$0\" /etc/subgid && exec setpriv \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(&self.ids);
        let id = USER.1.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(&self.program);
        command.args(arguments).arg("--data-dir").arg(self.home.data_dir());
        command.env("HOME", self.home.path(""));
        command
    }

    fn load(&self, archive: &[u8]) {
        let file = self.home.path("image.tar");
        std::fs::write(&file, archive).unwrap();
        let output = self.podium(&["image", "load", file.to_str().unwrap()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn start(&self) -> Instance {
        let kubeconfig = self.home.path("kubeconfig");
        let mut command = self.podium(&["serve", "--nodes", "1", "--listen", "127.0.0.1:0"]);
        DataDir::start_command(command.arg("--kubeconfig").arg(&kubeconfig), &kubeconfig)
    }

    /// The files of pods below a name, which the machine's root can see.
    fn files_of_pods(&self, name: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut next = vec![self.home.data_dir().join("nodes")];
        while let Some(directory) = next.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_name() == name {
                    found.push(entry.path());
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    next.push(entry.path());
                }
            }
        }
        found
    }
}

fn apply(instance: &Instance, name: &str, spec: &Value) {
    instance
        .apply_all(&[json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})]);
}

/// An image like that of redis: it starts as root, gives its data to a user, and becomes that user.
fn image() -> Vec<u8> {
    let mut layer = Layer::new();
    for program in ["sh", "chown", "id", "sleep", "setpriv", "stat"] {
        layer.program(program);
    }
    layer.file("etc/passwd", "root:x:0:0::/root:/bin/sh\nkeeper:x:999:999::/data:/bin/sh\n");
    layer.owned_file("srv/kept", "of the image\n", 999);
    saved("shop/keeper:v1", &layer.finish(), &json!({"Entrypoint": ["sh", "-c"], "Env": ["PATH=/bin"]}))
}

/// A pod of the image, which prints what it could do and stays.
fn keeper() -> Value {
    let stay = seconds_of_its_own();
    let as_keeper = format!(
        "id -u; echo written > /data/own && stat -c '%u %n' /data/own /srv/kept; stat -c %g /shared; exec sleep {stay}"
    );
    let start = format!(
        "touch() {{ : > $1; }}; touch /data/own && chown 999:999 /data/own && \
         exec setpriv --reuid 999 --regid 999 --clear-groups sh -c \"{as_keeper}\""
    );
    json!({"terminationGracePeriodSeconds": 1, "restartPolicy": "Never",
        "securityContext": {"fsGroup": 4000},
        "containers": [{"name": "c", "image": "shop/keeper:v1", "args": [start],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "shared", "mountPath": "/shared"}]}],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "shared", "emptyDir": {}}]})
}

/// An annotation of the node about its containers: `podium.dev/NAME`.
pub(crate) fn annotation(instance: &Instance, name: &str) -> String {
    let path = format!("jsonpath={{.items[0].metadata.annotations.podium\\.dev/{name}}}");
    instance.kubectl(&["get", "nodes", "-o", &path])
}

fn wait_for_log(instance: &Instance, pod: &str, lines: usize) -> String {
    wait_for("the pod's log", || {
        let log = instance.kubectl_output(&["logs", pod]);
        let text = String::from_utf8_lossy(&log.stdout).into_owned();
        (text.lines().count() >= lines).then_some(text)
    })
}

pub(crate) fn lacks_uidmap() -> bool {
    lacks(Need::Uidmap, ["newuidmap", "newgidmap", "setpriv"].into_iter().all(on_path))
}

/// The path of the machine's file, and its owner.
fn owner(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    path.symlink_metadata().unwrap().uid()
}

/// IMG-12, POD-16: a debugger, which is root of the user's namespace with SYS_PTRACE, reaches no file of the machine that
/// its container does not have, although the node host's processes run in the same user namespace.
#[test]
fn a_debugger_reaches_nothing_of_the_machine_with_subordinate_ids_pod_16() {
    needs!(Kubectl);
    needs!(Root);
    if lacks_uidmap() {
        return;
    }
    let user = OrdinaryUser::with_subordinate_ids();
    let secret = user.home.path("secret");
    std::fs::write(&secret, "x").unwrap();
    let instance = user.start();
    if annotation(&instance, "isolation") != "user-namespace" {
        lacks(Need::UserNamespaces, false);
        return instance.stop();
    }
    for (name, shared) in [("plain", false), ("shared", true)] {
        let spec = json!({"terminationGracePeriodSeconds": 0, "shareProcessNamespace": shared,
            "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "100000"]}]});
        apply(&instance, name, &spec);
        instance.until_ready(name);
        let log = debuggers::debug(&instance, name, &debuggers::search(secret.to_str().unwrap()));
        assert!(!log.contains("REACHED"), "{name}: {log}");
        assert!(log.contains("pid 1: pause 0 CapPrm: 0000000000000000\n"), "{name}: {log}");
    }
    instance.stop();
}

#[test]
fn an_image_becomes_another_user_for_an_ordinary_user_with_subordinate_ids_img_12() {
    needs!(Kubectl);
    needs!(Root);
    if lacks_uidmap() {
        return;
    }
    // An overlap, as an administrator's mistake leaves it.
    let ids = format!("{name}:{FIRST}:65536\n{name}:{FIRST}:10\n", name = USER.0);
    let user = OrdinaryUser::with(&ids);
    user.load(&image());
    let instance = user.start();
    if annotation(&instance, "isolation") != "user-namespace" {
        lacks(Need::UserNamespaces, false);
        return instance.stop();
    }
    assert_eq!(annotation(&instance, "users"), "all");
    assert_eq!(annotation(&instance, "users-note"), "");
    apply(&instance, "keeper", &keeper());
    assert_eq!(wait_for_log(&instance, "keeper", 4), "999\n999 /data/own\n999 /srv/kept\n4000\n");
    let own = user.files_of_pods("own");
    assert_eq!(own.iter().map(|path| owner(path)).collect::<Vec<_>>(), [FIRST + 998]);

    // The image `host` shows the machine as the user, who is no root there.
    let host = json!({"terminationGracePeriodSeconds": 1, "securityContext": {"runAsUser": 33}, "containers": [{"name": "c", "image": "host",
        "command": ["sh", "-c", format!("id -u; exec sleep {}", seconds_of_its_own())]}]});
    apply(&instance, "host", &host);
    assert_eq!(wait_for_log(&instance, "host", 1), format!("{}\n", USER.1));
    assert_eq!(instance.kubectl(&["exec", "host", "--", "id", "-u"]).trim(), USER.1.to_string());
    let ignored = ["get", "events", "-o", "jsonpath={.items[?(@.involvedObject.name==\"host\")].reason}"];
    wait_for("the event", || instance.kubectl(&ignored).contains("SecurityContextIgnored").then_some(()));

    instance.crash();
    let instance = user.start();
    assert_eq!(annotation(&instance, "users"), "all");
    let restarts = "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}";
    assert_eq!(instance.kubectl(&["get", "pod", "keeper", "-o", restarts]), "Running 0");
    assert_eq!(instance.kubectl(&["exec", "keeper", "--", "stat", "-c", "%u", "/data/own"]).trim(), "999");
    // The instance has the rights over the network of the one that was killed.
    apply(&instance, "second", &keeper());
    assert_eq!(wait_for_log(&instance, "second", 4).lines().next(), Some("999"));
    instance.kubectl(&["delete", "pod", "keeper", "second", "host"]);
    wait_for("the removal of the pods' files", || user.files_of_pods("own").is_empty().then_some(()));
    instance.stop();

    let deleted = user.podium(&["stop", "--delete-data"]).output().unwrap();
    assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
    assert!(!user.home.data_dir().exists());
}

#[test]
fn without_subordinate_ids_the_node_says_that_there_is_one_user_img_12() {
    needs!(Kubectl);
    needs!(Root);
    let user = OrdinaryUser::with("");
    user.load(&image());
    let instance = user.start();
    if lacks(Need::UserNamespaces, annotation(&instance, "isolation") == "user-namespace") {
        return instance.stop();
    }
    assert_eq!(annotation(&instance, "users"), "one");
    let note = annotation(&instance, "users-note");
    assert!(
        note.contains("single user id") && note.contains("/etc/subuid gives the user nobody 0"),
        "{note}"
    );
    let events = ["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"];
    wait_for("the node's event", || instance.kubectl(&events).contains("SingleUser").then_some(()));
    apply(&instance, "keeper", &keeper());
    wait_for("the end of the pod", || {
        let phase = instance.phase("keeper");
        (phase == "Failed").then_some(())
    });
    let log = instance.logs("keeper");
    assert!(log.starts_with("chown: "), "{log}");
    instance.kubectl(&["delete", "pod", "keeper"]);
    instance.stop();

    if lacks_uidmap() {
        return;
    }
    // The layers have lost their owners: with subordinate ids they do not count.
    user.set_ids(&format!("{}:{FIRST}:65536\n", USER.0));
    let instance = user.start();
    assert_eq!(annotation(&instance, "users"), "all");
    apply(&instance, "keeper", &keeper());
    let message = wait_for("the refusal", || {
        let path = "jsonpath={.status.containerStatuses[0].state.waiting.message}";
        let message = instance.kubectl(&["get", "pod", "keeper", "-o", path]);
        message.contains("unpacked").then_some(message)
    });
    assert!(message.contains("podium image load"), "{message}");
    user.load(&image());
    assert!(wait_for_log(&instance, "keeper", 4).starts_with("999\n"));
    instance.stop();
}
