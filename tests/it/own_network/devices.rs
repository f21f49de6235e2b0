//! The devices that processes of pods may open, at any path.

use std::path::Path;

use serde_json::{Value, json};

use super::{Cluster, needs, users};
use crate::fabric::User;

/// A pod that waits, with every kind of path that it may write to.
fn pod(name: &str, security: &Value, host: &str) -> Value {
    let mounts = [("disk", "/disk"), ("memory", "/memory"), ("host", "/host")];
    let mounts = mounts.map(|(name, path)| json!({"name": name, "mountPath": path}));
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": "node-1", "terminationGracePeriodSeconds": 0,
            "volumes": [
                {"name": "disk", "emptyDir": {}},
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
                {"name": "host", "hostPath": {"path": host}},
            ],
            "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "100000"],
                "securityContext": security, "volumeMounts": mounts}],
        },
    })
}

/// Creates a device in all directories and opens it; prints the places where that succeeds.
const TRY: &str = r#"
for place in "" /tmp /var /dev /dev/shm /disk /memory /host; do
    node=$place/made-$1-$2-$3
    mknod -m 600 $node $1 $2 $3 && if test $1 = b; then head -c 512 $node; else (exec 3> $node); fi > /dev/null && echo "$place/"
    rm -f $node
done 2> /dev/null
"#;

/// Operations that every container may do.
const ALLOWED: &str = r#"
echo x > /dev/null && test "$(head -c 2 /dev/zero | od -An -tx1 | tr -d ' ')" = 0000 &&
    test "$(head -c 8 /dev/urandom | wc -c)" = 8 && test "$(head -c 8 /dev/random | wc -c)" = 8 &&
    ! (echo x > /dev/full) 2> /dev/null &&
    test "$(ls /dev/pts)" = ptmx && (test ! -c /proc/keys || test "$(cat /proc/keys)" = "") &&
    script -qec 'tty && exec < /dev/tty && test -t 0 && echo a terminal' /dev/null < /dev/null | tr -d '\r' | tr '\n' ' '
"#;

/// The kernel's log, which may be written without a right, and one of the machine's disks, if the user that runs this
/// may read it.
fn forbidden() -> Vec<String> {
    let disks = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let disk = disks.map(|entry| entry.file_name()).find_map(|name| {
        let readable = std::fs::File::open(Path::new("/dev").join(&name)).is_ok();
        let number = std::fs::read_to_string(Path::new("/sys/class/block").join(&name).join("dev")).ok()?;
        let (major, minor) = number.trim().split_once(':').filter(|_| readable)?;
        Some(format!("b {major} {minor}"))
    });
    ["c 1 11".to_owned()].into_iter().chain(disk).collect()
}

/// POD-16: root's `mknod` gives access to no device that is not in a container's /dev, at any path, also for a debugger
/// and a command; `privileged` containers open all devices; the usual devices work in every container.
#[test]
fn a_container_opens_no_device_but_those_of_its_own_dev_pod_16() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        let is_root = user == User::Own && rustix::process::geteuid().is_root();
        let host = cluster.home.path("host");
        std::fs::create_dir(&host).unwrap();
        if user == User::Ordinary {
            std::os::unix::fs::chown(&host, Some(65_534), Some(65_534)).unwrap();
        }
        let host = host.to_str().unwrap();
        let pods = [
            ("plain", json!({})),
            ("frozen", json!({"readOnlyRootFilesystem": true})),
            ("added", json!({"capabilities": {"add": ["NET_ADMIN", "SYS_RAWIO"]}})),
            ("all", json!({"privileged": true})),
        ];
        let items: Vec<_> = pods.iter().map(|(name, security)| pod(name, security, host)).collect();
        cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
        for (name, _) in &pods {
            cluster.ready(name);
            for device in forbidden() {
                let opened = cluster.shell(name, &format!("set -- {device}; {TRY}"));
                let opened: Vec<_> = opened.lines().collect();
                let all = ["/", "/tmp/", "/var/", "/dev/", "/dev/shm/", "/disk/", "/memory/", "/host/"];
                // The pod's tmpfs mounts, /dev/shm and /memory, let no device be opened.
                let everywhere = all.iter().filter(|place| !["/dev/shm/", "/memory/"].contains(place));
                let expected: Vec<_> =
                    if *name == "all" && is_root { everywhere.copied().collect() } else { Vec::new() };
                assert_eq!(opened, expected, "{device} in {name} as {user:?}");
            }
            assert_eq!(cluster.shell(name, ALLOWED), "/dev/pts/0 a terminal", "{name} as {user:?}");
        }
        // Changes that root makes to its own devices do not affect the machine's.
        cluster.shell("plain", "chmod 000 /dev/null /proc/keys 2>&1");
        let machines = std::fs::metadata("/dev/null").unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&machines) & 0o777, 0o666);
        cluster.shell("plain", "chmod 666 /dev/null 2>&1");
        if is_root {
            // The same holds for a device that a privileged pod has left in one of the machine's directories.
            cluster.shell("all", "mknod -m 666 /host/left c 1 11");
            assert_eq!(cluster.shell("all", "(exec 3> /host/left) && echo opened"), "opened");
            let refused = cluster.shell("plain", "(exec 3> /host/left) || true");
            assert!(refused.contains("Permission denied"), "{refused}");
        }
        let script = format!("set -- c 1 11; {TRY} {ALLOWED}");
        let debug = ["debug", "plain", "--image=busybox", "--container=debugger", "--target=c"];
        cluster.instance.kubectl(&[&debug[..], &["--", "sh", "-c", &script]].concat());
        let log = super::wait_for("the debugger's word", || {
            cluster.instance.logs_of("plain", "debugger").filter(|text| !text.is_empty())
        });
        assert_eq!(log, "/dev/pts/0 a terminal ", "the debugger as {user:?}");
        cluster.instance.stop();
    }
}
