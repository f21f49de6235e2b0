//! A second opinion about what a container's process may do and sees: the same image and configurations, once as pods
//! and once run by crun from OCI bundles (POD-16, POD-17, IMG-3).
//!
//! Each bundle is what containerd would make of the pod. The process reports its identity, its capabilities and its
//! view, and tries what configurations forbid. Both reports must be equal.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::images::{Layer, load_archive, saved};
use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs, on_path};

/// Prints what a process can know of itself. Reads nothing that differs between two runs.
const REPORT: &str = r#"
exec 2> /dev/null
while read -r name value; do
  case $name in Umask:|Uid:|Gid:|Groups:|NSpid:|Cap*|NoNewPrivs:|Seccomp:|Seccomp_filters:|SigIgn:|SigBlk:) echo "$name $value";; esac
done < /proc/self/status
echo "process $$ in $(pwd) on $(cat /proc/sys/kernel/hostname)"
processes=0; for entry in /proc/[0-9]*; do processes=$((processes + 1)); done; echo "processes: $processes"
env | sort
echo "open files: $(ulimit -S -n) $(ulimit -H -n), core: $(ulimit -c), processes: $(ulimit -u)"
for path in / /etc/passwd /tmp /work /dev /dev/null /dev/shm /proc/sys/kernel/hostname /proc/sysrq-trigger /proc/irq; do
  [ -w $path ] && echo "writable: $path"
done
for path in /proc/kcore /proc/keys /proc/timer_list /proc/sched_debug /proc/latency_stats; do
  [ -e $path ] && [ -c $path ] && echo "masked: $path"
done
for path in /proc/acpi /proc/asound /proc/scsi /sys/firmware /sys/devices/virtual/powercap; do
  for entry in $path/*; do [ -e "$entry" ] && echo "visible: $entry"; done
done
for device in null zero full random urandom tty; do [ -c /dev/$device ] && echo "device: $device"; done
mkdir /tmp/made && echo "made a directory"
chroot / /bin/cat /dev/null && echo "changed the root"
unshare --uts /bin/cat /dev/null && echo "made a namespace"
unshare --user /bin/cat /dev/null && echo "made a user namespace"
mount -t tmpfs none /tmp && echo "mounted"
chown 5 /work && echo "changed an owner"
exit 0
"#;

/// The calls that `RuntimeDefault` denies without capabilities, of those that the report tries.
fn runtime_default(denied: &[&str]) -> Value {
    json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": denied, "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]})
}

/// A profile of the user's.
fn own_profile() -> Value {
    json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28},
        {"names": ["chown", "fchownat"], "action": "SCMP_ACT_ERRNO"},
        {"names": ["unshare"], "action": "SCMP_ACT_KILL_PROCESS",
            "args": [{"index": 0, "value": 0x1000_0000, "valueTwo": 0x1000_0000, "op": "SCMP_CMP_MASKED_EQ"}]}]})
}

const DEFAULT_CAPABILITIES: [&str; 14] = [
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
    "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL",
    "CAP_AUDIT_WRITE",
];

/// One configuration.
struct Case {
    name: &'static str,
    image: &'static str,
    /// Fields of the pod's spec.
    pod: Value,
    /// Fields of the container.
    container: Value,
    /// Changes the bundle's configuration.
    bundle: fn(&mut Value),
}

/// Only root has capabilities besides the bounding set.
fn set_capabilities(config: &mut Value, names: &[&str]) {
    let is_root = config["process"]["user"]["uid"] == 0;
    let own = if is_root { names } else { &[] };
    config["process"]["capabilities"] =
        json!({"bounding": names, "effective": own, "permitted": own, "inheritable": [], "ambient": []});
}

fn set_user(config: &mut Value, uid: u32, gid: u32, groups: &[u32], home: &str) {
    config["process"]["user"] = json!({"uid": uid, "gid": gid, "additionalGids": groups, "umask": 0o22});
    set_capabilities(config, &DEFAULT_CAPABILITIES);
    let env = config["process"]["env"].as_array_mut().unwrap();
    env.retain(|pair| !pair.as_str().unwrap().starts_with("HOME="));
    env.push(json!(format!("HOME={home}")));
}

/// All capabilities of this process: a container can have no others.
fn all_capabilities() -> Vec<String> {
    let own = rustix::thread::capabilities(None).unwrap().permitted;
    own.iter_names().map(|(name, _)| format!("CAP_{name}")).collect()
}

fn set_all_capabilities(config: &mut Value) {
    let names = all_capabilities();
    set_capabilities(config, &names.iter().map(String::as_str).collect::<Vec<_>>());
}

fn security(fields: &Value) -> Value {
    json!({"securityContext": fields})
}

fn cases() -> Vec<Case> {
    const ROOT: &str = "second/root:v1";
    const APP: &str = "second/app:v1";
    let case = |name, image, pod, container, bundle| Case { name, image, pod, container, bundle };
    let none = || json!({});
    vec![
        case("plain", ROOT, none(), none(), |_| {}),
        case("image-user", APP, none(), none(), |config| set_user(config, 1234, 50, &[50, 26], "/home/app")),
        case("user", ROOT, none(), security(&json!({"runAsUser": 7})), |config| {
            set_user(config, 7, 0, &[0], "/");
        }),
        case("named-user", ROOT, none(), security(&json!({"runAsUser": 1234})), |config| {
            set_user(config, 1234, 4321, &[4321, 26], "/home/app");
        }),
        case(
            "groups",
            ROOT,
            security(
                &json!({"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [4000]}),
            ),
            none(),
            |config| set_user(config, 1000, 3000, &[3000, 4000, 2000], "/"),
        ),
        case(
            "strict-groups",
            ROOT,
            security(
                &json!({"runAsUser": 1234, "supplementalGroups": [4000], "supplementalGroupsPolicy": "Strict"}),
            ),
            none(),
            |config| set_user(config, 1234, 4321, &[4321, 4000], "/home/app"),
        ),
        case(
            "environment",
            ROOT,
            none(),
            json!({"env": [{"name": "FROM_IMAGE", "value": "no"}, {"name": "MORE", "value": "a $(FROM_IMAGE)"}]}),
            |config| {
                let env = config["process"]["env"].as_array_mut().unwrap();
                env.retain(|pair| pair != "FROM_IMAGE=yes");
                env.extend([json!("FROM_IMAGE=no"), json!("MORE=a no")]);
            },
        ),
        case("directory", ROOT, none(), json!({"workingDir": "/etc"}), |config| {
            config["process"]["cwd"] = json!("/etc");
        }),
        case("new-directory", ROOT, none(), json!({"workingDir": "/new/one"}), |config| {
            config["process"]["cwd"] = json!("/new/one");
        }),
        case(
            "no-capabilities",
            ROOT,
            none(),
            security(&json!({"capabilities": {"drop": ["ALL"]}})),
            |config| {
                set_capabilities(config, &[]);
            },
        ),
        case(
            "one-capability",
            ROOT,
            none(),
            security(&json!({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}})),
            |config| set_capabilities(config, &["CAP_NET_BIND_SERVICE"]),
        ),
        case(
            "more-capabilities",
            ROOT,
            none(),
            security(&json!({"capabilities": {"add": ["SYS_ADMIN", "SYS_TIME"], "drop": ["CHOWN"]}})),
            |config| {
                let others = DEFAULT_CAPABILITIES.into_iter().filter(|name| *name != "CAP_CHOWN");
                let all: Vec<_> = others.chain(["CAP_SYS_ADMIN", "CAP_SYS_TIME"]).collect();
                set_capabilities(config, &all);
            },
        ),
        case(
            "all-capabilities",
            ROOT,
            none(),
            security(&json!({"capabilities": {"add": ["ALL"]}})),
            set_all_capabilities,
        ),
        case("privileged", ROOT, none(), security(&json!({"privileged": true})), |config| {
            set_all_capabilities(config);
            config["linux"]["maskedPaths"] = json!([]);
            config["linux"]["readonlyPaths"] = json!([]);
        }),
        case(
            "no-escalation",
            ROOT,
            none(),
            security(&json!({"allowPrivilegeEscalation": false})),
            |config| {
                config["process"]["noNewPrivileges"] = json!(true);
            },
        ),
        case(
            "seccomp",
            ROOT,
            security(&json!({"seccompProfile": {"type": "RuntimeDefault"}})),
            none(),
            |config| {
                config["linux"]["seccomp"] = runtime_default(&["unshare", "mount"]);
            },
        ),
        case(
            "seccomp-of-user",
            ROOT,
            none(),
            security(&json!({"runAsUser": 7, "seccompProfile": {"type": "RuntimeDefault"}})),
            |config| {
                set_user(config, 7, 0, &[0], "/");
                config["linux"]["seccomp"] = runtime_default(&["unshare", "mount"]);
            },
        ),
        case(
            "seccomp-with-capabilities",
            ROOT,
            security(&json!({"seccompProfile": {"type": "RuntimeDefault"}})),
            security(&json!({"capabilities": {"add": ["SYS_ADMIN"], "drop": ["SYS_CHROOT"]}})),
            |config| {
                let others = DEFAULT_CAPABILITIES.into_iter().filter(|name| *name != "CAP_SYS_CHROOT");
                let all: Vec<_> = others.chain(["CAP_SYS_ADMIN"]).collect();
                set_capabilities(config, &all);
                config["linux"]["seccomp"] = runtime_default(&["chroot"]);
            },
        ),
        case(
            "own-seccomp",
            ROOT,
            none(),
            security(
                &json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/own.json"}}),
            ),
            |config| config["linux"]["seccomp"] = own_profile(),
        ),
        case("read-only", ROOT, none(), security(&json!({"readOnlyRootFilesystem": true})), |config| {
            config["root"]["readonly"] = json!(true);
        }),
        case("host-name", ROOT, json!({"hostname": "other"}), none(), |config| {
            config["hostname"] = json!("other");
            let env = config["process"]["env"].as_array_mut().unwrap();
            env.retain(|pair| !pair.as_str().unwrap().starts_with("HOSTNAME="));
            env.push(json!("HOSTNAME=other"));
        }),
        case("own-users", ROOT, json!({"hostUsers": false}), none(), |config| {
            let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
            namespaces.push(json!({"type": "user"}));
            let map = json!([{"containerID": 0, "hostID": 2_000_000_000, "size": 65_536}]);
            config["linux"]["uidMappings"] = map.clone();
            config["linux"]["gidMappings"] = map;
        }),
        case(
            "restricted",
            ROOT,
            security(&json!({"runAsUser": 7, "runAsGroup": 9, "runAsNonRoot": true,
                "seccompProfile": {"type": "RuntimeDefault"}})),
            security(&json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]}})),
            |config| {
                set_user(config, 7, 9, &[9], "/");
                set_capabilities(config, &[]);
                config["process"]["noNewPrivileges"] = json!(true);
                config["root"]["readonly"] = json!(true);
                config["linux"]["seccomp"] = runtime_default(&["unshare", "mount"]);
            },
        ),
    ]
}

/// The layer of both images.
fn layer() -> Vec<u8> {
    let mut layer = Layer::new();
    for directory in ["bin", "etc", "work", "proc", "dev", "sys"] {
        layer.directory(directory, 0o755);
    }
    layer.directory("tmp", 0o1777);
    for program in ["sh", "cat", "env", "sort", "mkdir", "chroot", "unshare", "mount", "chown"] {
        layer.program(program);
    }
    layer.file("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1234:4321::/home/app:/bin/sh\n");
    layer.file("etc/group", "root:x:0:\nwheel:x:10:root\ntape:x:26:app\nstaff:x:50:\n");
    layer.finish()
}

/// The configuration of a bundle as containerd makes it of a pod without settings.
fn bundle(name: &str) -> Value {
    let mount = |destination: &str, kind: &str, options: &[&str]| json!({"destination": destination, "type": kind, "source": kind, "options": options});
    let mut config = json!({
        "ociVersion": "1.0.2",
        "process": {
            "cwd": "/work",
            "args": ["/bin/sh", "-c", REPORT],
            "env": ["PATH=/bin", "FROM_IMAGE=yes", format!("HOSTNAME={name}")],
        },
        "root": {"path": "rootfs"},
        "hostname": name,
        "mounts": [
            mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
            mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
            mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
            mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
            mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        ],
        "linux": {
            "namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}],
            "maskedPaths": ["/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
                "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
                "/sys/devices/virtual/powercap"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    });
    set_user(&mut config, 0, 0, &[0, 10], "/root");
    config
}

/// Runs a bundle; crun needs control groups of one version, even if it makes none.
fn crun(bundle: &Path, state: &Path, name: &str) -> Output {
    let script = "mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec crun --cgroup-manager=disabled --root \"$1\" run --bundle \"$2\" \"$3\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(state).arg(bundle).arg(name);
    command.stdin(std::process::Stdio::null()).output().unwrap()
}

/// The lines of a report, without the variables that only a pod has.
fn lines(report: &str) -> Vec<String> {
    let of_pod = |line: &str| {
        // The marker by which processes of containers are found, the pod's address, and the service `kubernetes`.
        ["PODIUM_CONTAINER=", "POD_IP=", "KUBERNETES_"].iter().any(|prefix| line.starts_with(prefix))
    };
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    report.lines().filter(|line| !of_pod(line)).map(words).collect()
}

fn pods(cases: &[Case]) -> Value {
    let merged = |mut into: Value, from: &Value| {
        into.as_object_mut().unwrap().extend(from.as_object().unwrap().clone());
        into
    };
    let pod = |case: &Case| {
        // The command of a pod is expanded, which leaves one of two dollars.
        let script = REPORT.replace("$$", "$$$$");
        let container = json!({"name": "c", "image": case.image, "command": ["/bin/sh", "-c", script]});
        let spec = json!({"restartPolicy": "Never", "enableServiceLinks": false, "automountServiceAccountToken": false,
            "containers": [merged(container, &case.container)]});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": case.name}, "spec": merged(spec, &case.pod)})
    };
    json!({"apiVersion": "v1", "kind": "List", "items": cases.iter().map(pod).collect::<Vec<_>>()})
}

/// Waits for the end of the pod, and returns it.
fn ended(instance: &Instance, name: &str) -> Value {
    wait_for(&format!("{name} to end"), || {
        let pod = serde_json::to_value(instance.pod(name)).unwrap();
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        let reason = waiting["reason"].as_str().unwrap_or_default();
        assert!(!reason.contains("Error"), "{name}: {waiting}");
        ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str()?).then_some(pod)
    })
}

/// Returns true if the kernel filters system calls.
fn filters_system_calls() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().contains("\nSeccomp:")
}

#[test]
fn a_process_is_and_sees_the_same_in_a_pod_and_under_crun_pod_16_pod_17_img_3() {
    needs!(Kubectl);
    needs!(Root);
    if lacks(Need::Crun, on_path("crun")) || lacks(Need::Seccomp, filters_system_calls()) {
        return;
    }
    // Also for crun's users, who look for the bundle.
    let home = DataDir::for_everyone();
    let instance = home.start(&["--nodes", "1"]);
    let node = instance.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.annotations}"]);
    if lacks(Need::Namespaces, !node.contains(r#""podium.dev/namespaces":"none""#)) {
        return instance.stop();
    }
    let layer = layer();
    let config =
        |user: &str| json!({"Env": ["PATH=/bin", "FROM_IMAGE=yes"], "WorkingDir": "/work", "User": user});
    load_archive(&home, "second/root:v1", &saved("second/root:v1", &layer, &config("")));
    load_archive(&home, "second/app:v1", &saved("second/app:v1", &layer, &config("app:staff")));
    let profiles = home.data_dir().join("seccomp/profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("own.json"), own_profile().to_string()).unwrap();
    let mut cases = cases();
    if lacks(Need::PodUsers, node.contains(r#""podium.dev/pod-users":"yes""#)) {
        cases.retain(|case| case.pod["hostUsers"].is_null());
    }
    assert!(cases.len() >= 20);
    instance.apply(&pods(&cases).to_string());

    let mut differences = Vec::new();
    for case in &cases {
        let directory: PathBuf = home.path(case.name);
        let root = directory.join("rootfs");
        std::fs::create_dir_all(&root).unwrap();
        tar::Archive::new(&layer[..]).unpack(&root).unwrap();
        let mut config = bundle(case.name);
        (case.bundle)(&mut config);
        std::fs::write(directory.join("config.json"), config.to_string()).unwrap();
        if let Some(first) = config["linux"]["uidMappings"][0]["hostID"].as_u64() {
            // Under crun the files of the bundle must belong to the container's users.
            let given = Command::new("chown").args(["-R", &format!("{first}:{first}")]).arg(&root).status();
            assert!(given.unwrap().success());
        }
        let output = crun(&directory, &home.path("crun"), case.name);
        let by_crun = lines(&String::from_utf8_lossy(&output.stdout));
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || by_crun.is_empty() {
            differences.push(format!("{}: crun: {errors}", case.name));
        }

        let pod = ended(&instance, case.name);
        let log = instance.kubectl(&["logs", case.name]);
        let in_pod = lines(&log);
        for line in by_crun.iter().filter(|line| !in_pod.contains(line)) {
            differences.push(format!("{}: only under crun: {line}", case.name));
        }
        for line in in_pod.iter().filter(|line| !by_crun.contains(line)) {
            differences.push(format!("{}: only in the pod: {line}", case.name));
        }
        let user = &pod["status"]["containerStatuses"][0]["user"]["linux"];
        let expect = &config["process"]["user"];
        assert_eq!(
            (&user["uid"], &user["gid"], &user["supplementalGroups"]),
            (&expect["uid"], &expect["gid"], &expect["additionalGids"]),
            "{}",
            case.name
        );
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let features = instance.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].status.features}"]);
    assert_eq!(features, r#"{"supplementalGroupsPolicy":true}"#);
    instance.stop();
}

/// POD-17: a container with a profile that cannot be used does not start, and the message has the reason; commands are
/// filtered as the program is.
#[test]
fn a_container_without_its_seccomp_profile_does_not_start_pod_17() {
    needs!(Kubectl);
    if lacks(Need::Seccomp, filters_system_calls()) {
        return;
    }
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "1"]);
    let profiles = home.data_dir().join("seccomp");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("bad.json"), "{}").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", profiles.join("link.json")).unwrap();
    let denying = json!({"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}]});
    std::fs::write(profiles.join("good.json"), denying.to_string()).unwrap();
    let pod = |name: &str| {
        let profile = json!({"type": "Localhost", "localhostProfile": format!("{name}.json")});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 0, "securityContext": {"seccompProfile": profile},
            "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "100000"]}]}})
    };
    let names = ["missing", "bad", "link", "good"];
    instance.apply_all(&names.map(pod));
    for (name, expect) in [
        ("missing", "No such file or directory"),
        ("bad", "missing field `defaultAction`"),
        ("link", "the path leads out of the directory of profiles"),
    ] {
        let message = wait_for(&format!("{name} to be refused"), || {
            let state = "jsonpath={.status.containerStatuses[0].state.waiting}";
            let waiting = instance.kubectl(&["get", "pod", name, "-o", state]);
            waiting.contains("CreateContainerError").then_some(waiting)
        });
        assert!(message.contains("cannot load seccomp profile") && message.contains(expect), "{message}");
    }
    instance.until_ready("good");
    let script = "while read -r name value; do [ $name = Seccomp: ] && echo $value; done < /proc/self/status; \
                  mkdir /tmp/made 2>/dev/null || echo refused";
    assert_eq!(instance.kubectl(&["exec", "good", "--", "sh", "-c", script]), "2\nrefused\n");
    instance.stop();
}
