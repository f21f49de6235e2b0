//! Loaded images in their own root file systems, with the real binary (IMG-3, CLI-4).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use podium::base::hex::hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs};

/// A layer under construction.
pub(crate) struct Layer(Builder<Vec<u8>>);

impl Layer {
    pub(crate) fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// The layer's archive.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }

    pub(crate) fn directory(&mut self, path: &str, mode: u32) {
        self.add(path, EntryType::Directory, mode, b"");
    }

    pub(crate) fn add(&mut self, path: &str, kind: EntryType, mode: u32, content: &[u8]) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        self.0.append_data(&mut header, path, content).unwrap();
    }

    pub(crate) fn file(&mut self, path: &str, content: &str) {
        self.add(path, EntryType::Regular, 0o644, content.as_bytes());
    }

    /// Adds a file that belongs to a user and the user's group.
    pub(crate) fn owned_file(&mut self, path: &str, content: &str, id: u64) {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_uid(id);
        header.set_gid(id);
        header.set_size(content.len() as u64);
        self.0.append_data(&mut header, path, content.as_bytes()).unwrap();
    }

    fn link(&mut self, path: &str, target: &str) {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        self.0.append_link(&mut header, path, target).unwrap();
    }

    /// Adds a program of this machine with the libraries that it needs, at the same paths.
    pub(crate) fn program(&mut self, name: &str) {
        let output = Command::new("sh").args(["-c", &format!("command -v {name}")]).output().unwrap();
        let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        let real = path.canonicalize().unwrap();
        self.add(&format!("bin/{name}"), EntryType::Regular, 0o755, &std::fs::read(&real).unwrap());
        let libraries = Command::new("ldd").arg(&real).output().unwrap();
        let libraries = String::from_utf8(libraries.stdout).unwrap();
        let paths: BTreeSet<&str> =
            libraries.split_whitespace().filter(|word| word.starts_with('/')).collect();
        for library in paths {
            let content = std::fs::read(library).unwrap();
            self.add(&library[1..], EntryType::Regular, 0o755, &content);
        }
    }
}

/// A `docker save` archive with a shell in it.
fn archive(name: &str) -> Vec<u8> {
    let mut layer = Layer::new();
    for program in ["sh", "cat", "id", "sleep"] {
        layer.program(program);
    }
    layer.file("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1234:4321::/home/app:/bin/sh\n");
    layer.file("etc/group", "root:x:0:\nstaff:x:4321:\n");
    layer.file("etc/marker", "of the image\n");
    // Mount points through links that try to lead outside.
    layer.link("data", "../../../../../../../srv");
    layer.link("etc/hosts", "/run/nowhere/hosts");
    layer.link("proc", "/etc");
    let config = json!({"Entrypoint": ["sh", "-c"], "Cmd": ["echo default"], "User": "app:staff",
        "Env": ["PATH=/bin", "FROM_IMAGE=yes"], "WorkingDir": "/work"});
    saved(name, &layer.finish(), &config)
}

/// A `docker save` archive of one layer.
pub(crate) fn saved(name: &str, layer: &[u8], config: &Value) -> Vec<u8> {
    let config = json!({
        "os": "linux",
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hex(Sha256::digest(layer)))]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]);
    let mut outer = Layer::new();
    outer.file("config.json", &config.to_string());
    outer.add("layer.tar", EntryType::Regular, 0o644, layer);
    outer.file("manifest.json", &manifest.to_string());
    outer.finish()
}

fn podium(arguments: &[&str], data_dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.args(arguments).arg("--data-dir").arg(data_dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Loads the archive as a user does.
fn load(home: &DataDir) {
    load_archive(home, "shop/app:v1", &archive("shop/app:v1"));
}

/// Loads an archive with one image of this name.
pub(crate) fn load_archive(home: &DataDir, name: &str, archive: &[u8]) {
    let file = home.path("image.tar");
    std::fs::write(&file, archive).unwrap();
    let output = podium(&["image", "load", file.to_str().unwrap()], &home.data_dir());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.starts_with(&format!("loaded {name} sha256:")), "{printed}");
    assert!(printed.trim_end().ends_with(&format!("into {}", home.data_dir().display())), "{printed}");
}

/// The user's umask does not restrict the modes of directories that no entry of a layer names: containers of other users
/// must be able to enter them.
#[test]
fn a_umask_does_not_change_an_image_img_3() {
    use std::os::unix::fs::PermissionsExt;
    let home = DataDir::new();
    let mut layer = Layer::new();
    layer.file("etc/app/settings", "x");
    let file = home.path("image.tar");
    std::fs::write(&file, saved("shop/app:v1", &layer.finish(), &json!({}))).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_podium"), "image", "load"]);
    let output = command.arg(&file).arg("--data-dir").arg(home.data_dir()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let layers = home.data_dir().join("images/store/layers");
    let layer = std::fs::read_dir(layers).unwrap().next().unwrap().unwrap().path();
    for path in ["root/etc", "root/etc/app"] {
        let about = std::fs::metadata(layer.join(path)).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, 0o755, "{path}");
    }
}

fn apply(instance: &Instance, name: &str, spec: &Value) {
    instance
        .apply_all(&[json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})]);
}

fn pod(instance: &Instance, name: &str) -> Value {
    serde_json::to_value(instance.pod(name)).unwrap()
}

fn wait_until_phase(instance: &Instance, name: &str, phase: &str) {
    wait_for(&format!("{name} {phase}"), || {
        let pod = pod(instance, name);
        assert_ne!(pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "RunContainerError");
        (pod["status"]["phase"] == phase).then_some(())
    });
}

/// `$$$$` is `$$` to the shell: the pod's command is expanded first.
const SCRIPT: &str = r#"
echo "marker: $(cat /etc/marker)"; echo "user: $(id -u) $(id -g) $HOME"; echo "env: $FROM_IMAGE $PWD"
echo new > /tmp/written && cat /tmp/written; echo "volume: $(cat /data/inside/key)"
[ -e /usr/share ] && echo "the machine's files are visible"
echo "hostname: $(cat /etc/hostname)"; read first < /proc/1/comm && echo "process $$$$: $first"
[ -w /dev/null ] && echo "dev: yes"; cat /etc/hosts > /dev/null && echo "hosts: yes"; sleep 3600
"#;

#[test]
fn a_loaded_image_runs_in_its_own_root_img_3() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "1"]);
    load(&home);
    let node = instance.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.annotations}"]);
    if lacks(Need::Namespaces, !node.contains(r#""podium.dev/namespaces":"none""#)) {
        // Another test covers the refusal.
        return instance.stop();
    }
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"key": "value"}});
    instance.apply(&map.to_string());
    let spec = json!({"terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "docker.io/shop/app:v1", "args": [SCRIPT],
            "volumeMounts": [{"name": "m", "mountPath": "/data/inside"}, {"name": "t", "mountPath": "/tmp"}]}],
        "volumes": [{"name": "m", "configMap": {"name": "m"}}, {"name": "t", "emptyDir": {}}]});
    apply(&instance, "p", &spec);
    wait_until_phase(&instance, "p", "Running");
    let log = wait_for("the log", || {
        let log = instance.logs("p");
        log.contains("hosts: yes").then_some(log)
    });
    let expect = "marker: of the image\nuser: 1234 4321 /home/app\nenv: yes /work\nnew\nvolume: value\n\
                  hostname: p\nprocess 1: sh\ndev: yes\nhosts: yes\n";
    assert_eq!(log, expect);
    assert_eq!(
        instance.kubectl(&["exec", "p", "--", "sh", "-c", "id -u; cat /etc/marker; echo $FROM_IMAGE"]),
        "1234\nof the image\nyes\n"
    );
    // The program is process 1, which no signal from inside ends that it does not handle.
    let kill = [
        "exec",
        "p",
        "--",
        "sh",
        "-c",
        "kill -TERM 1; kill -KILL 1; echo $?; read own < /proc/1/comm; echo $own",
    ];
    assert_eq!(instance.kubectl(&kill), "0\nsh\n");
    // No file was written outside, and the image itself is never written.
    assert!(!Path::new("/srv/inside").exists());
    let events = instance.kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"]);
    assert!(
        events.contains(
            r#"Container image "docker.io/shop/app:v1" already present on machine and can be accessed by the pod"#
        ),
        "{events}"
    );
    wait_for("the node's image list", || {
        let node = instance.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].status.images}"]);
        node.contains(r#""shop/app:v1""#).then_some(())
    });

    // Two containers of it share none of their writes.
    let spec = json!({"restartPolicy": "Never", "securityContext": {"runAsUser": 0}, "containers": [
        {"name": "one", "image": "shop/app:v1", "args": ["id -u; echo one > /etc/marker; cat /etc/marker"]}]});
    apply(&instance, "one", &spec);
    wait_until_phase(&instance, "one", "Succeeded");
    assert_eq!(instance.logs("one"), "0\none\n");
    assert_eq!(instance.kubectl(&["exec", "p", "--", "cat", "/etc/marker"]), "of the image\n");

    let refused = podium(&["image", "rm", "shop/app:v1"], &home.data_dir());
    let stderr = text(&refused.stderr);
    assert!(
        !refused.status.success() && stderr.contains("in use by container c of pod default/p"),
        "{stderr}"
    );
    instance.kubectl(&["delete", "pod", "p", "one"]);
    // The node removes its directories a moment after the pods are gone.
    wait_for("the image to go", || {
        podium(&["image", "rm", "shop/app:v1"], &home.data_dir()).status.success().then_some(())
    });
    let list = text(&podium(&["image", "list"], &home.data_dir()).stdout);
    assert!(list.contains("nginx") && !list.contains("shop/app"), "{list}");
    instance.stop();
}

/// IMG-11: containers of any image share an image's files, which they cannot write, and the image stays while they do.
#[test]
fn the_files_of_an_image_are_a_volume_img_11() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "1"]);
    load(&home);
    let mut layer = Layer::new();
    layer.directory("site/en", 0o755);
    layer.file("site/en/index.html", "hello");
    layer.link("current", "/site/en");
    load_archive(&home, "shop/data:v1", &saved("shop/data:v1", &layer.finish(), &json!({})));
    let node = instance.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.annotations}"]);
    if lacks(Need::Namespaces, !node.contains(r#""podium.dev/namespaces":"none""#)) {
        return instance.stop();
    }
    let script = "cat /all/site/en/index.html /part/index.html; echo; \
                  (echo x > /all/new) 2>/dev/null || echo read-only; sleep 3600";
    let mounts = json!([{"name": "data", "mountPath": "/all"},
        {"name": "data", "mountPath": "/part", "subPathExpr": "$(PART)"}]);
    let container = |name: &str, image: &str| {
        json!({"name": name, "image": image, "command": ["sh", "-c", script], "volumeMounts": mounts,
            "env": [{"name": "PART", "value": "current"}]})
    };
    let broken = |name: &str, volume: &str, sub_path: &str| {
        json!({"name": name, "image": "busybox", "command": ["sleep", "3600"],
            "volumeMounts": [{"name": volume, "mountPath": "/v", "subPath": sub_path}]})
    };
    let spec = json!({"terminationGracePeriodSeconds": 0,
        "containers": [container("own", "shop/app:v1"), container("system", "busybox"),
            broken("missing", "data", "site/fr"), broken("file", "data", "site/en/index.html"),
            broken("builtin", "builtin", "")],
        "volumes": [{"name": "data", "image": {"reference": "shop/data:v1"}},
            {"name": "builtin", "image": {"reference": "busybox"}}]});
    apply(&instance, "p", &spec);
    for name in ["own", "system"] {
        wait_for("the log", || (instance.logs_of("p", name)? == "hellohello\nread-only\n").then_some(()));
    }
    for (name, text) in [
        ("missing", "subpath \"site/fr\" of volume \"data\": no such file or directory"),
        ("file", "only a directory can be a subpath of an image"),
        ("builtin", "image \"busybox\" stands for programs of this machine and has no files of its own"),
    ] {
        wait_for("the refusal", || {
            let pod = pod(&instance, "p");
            let statuses = pod["status"]["containerStatuses"].as_array()?.clone();
            let waiting = &statuses.iter().find(|status| status["name"] == name)?["state"]["waiting"];
            let message = waiting["message"].as_str().unwrap_or_default();
            let is_it = message.starts_with("ImageVolumeMountFailed: ") && message.contains(text);
            (waiting["reason"] == "CreateContainerError" && is_it).then_some(())
        });
    }
    let refused = podium(&["image", "rm", "shop/data:v1"], &home.data_dir());
    let stderr = text(&refused.stderr);
    let users = "in use by container own of pod default/p, container system of pod default/p";
    assert!(!refused.status.success() && stderr.contains(users), "{stderr}");
    if !lacks(Need::PodUsers, node.contains(r#""podium.dev/pod-users":"yes""#)) {
        // With users of their own, containers see the owners that the files have in the image; an image may be the root
        // of a container and a volume of it.
        let script = format!("id -u; {script}");
        let container = |name: &str, image: &str, place: &str| {
            json!({"name": name, "image": image, "command": ["sh", "-c", script], "securityContext": {"runAsUser": 0},
                "env": [{"name": "PART", "value": "current"}],
                "volumeMounts": [mounts[0], mounts[1], {"name": "app", "mountPath": place}]})
        };
        let owner = "stat -c '%u %g' /all/site/en/index.html /app/etc/marker; sleep 3600";
        let mut of_system = container("system", "busybox", "/app");
        of_system["command"] = json!(["sh", "-c", owner]);
        let spec = json!({"hostUsers": false, "terminationGracePeriodSeconds": 0,
            "containers": [container("own", "shop/app:v1", "/app"), of_system],
            "volumes": [{"name": "data", "image": {"reference": "shop/data:v1"}},
                {"name": "app", "image": {"reference": "shop/app:v1"}}]});
        apply(&instance, "u", &spec);
        for (name, expected) in [("own", "0\nhellohello\nread-only\n"), ("system", "0 0\n0 0\n")] {
            wait_for("the log", || (instance.logs_of("u", name)? == expected).then_some(()));
        }
    }
    instance.kubectl(&["delete", "pod", "--all"]);
    wait_for("the image to go", || {
        podium(&["image", "rm", "shop/data:v1"], &home.data_dir()).status.success().then_some(())
    });
    instance.stop();
}

/// Writes the marker of its image, and then whether it sees a process of another container that sleeps.
const DEBUGGER: &str = r#"
cat /etc/marker
while :; do for process in /proc/[0-9]*; do
    read name 2>/dev/null < $process/comm && [ "$name" = sleep ] && echo "sees sleep" && exit
done; done
"#;

/// EPH-2: a debugger with an image's files beside a container with those of another sees that container's processes, and
/// its own image's files; so does one in a copy of the pod that shares its processes.
#[test]
fn a_debugger_of_another_image_sees_processes_and_has_its_own_root_eph_2() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "1"]);
    load(&home);
    let mut layer = Layer::new();
    layer.program("sh");
    layer.program("cat");
    layer.file("etc/marker", "of the tools\n");
    let tools = saved("shop/tools:v1", &layer.finish(), &json!({"Env": ["PATH=/bin"]}));
    load_archive(&home, "shop/tools:v1", &tools);
    let node = instance.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.annotations}"]);
    if lacks(Need::Namespaces, !node.contains(r#""podium.dev/namespaces":"none""#)) {
        return instance.stop();
    }
    let container = json!({"name": "c", "image": "shop/app:v1", "args": ["sleep 3600; true"]});
    apply(&instance, "p", &json!({"terminationGracePeriodSeconds": 0, "containers": [container]}));
    wait_until_phase(&instance, "p", "Running");
    let beside = ["debug", "p", "--image=shop/tools:v1", "--target=c", "-c", "d"];
    let in_copy = ["debug", "p", "--image=shop/tools:v1", "--copy-to=copy", "--share-processes", "-c", "d"];
    for (pod, arguments) in [("p", &beside[..]), ("copy", &in_copy)] {
        instance.kubectl(&[arguments, &["--", "sh", "-c", DEBUGGER]].concat());
        wait_for(&format!("the debugger of {pod}"), || {
            // The container may not have started yet.
            let output = instance.kubectl_output(&["logs", pod, "-c", "d"]);
            (text(&output.stdout) == "of the tools\nsees sleep\n").then_some(())
        });
        assert_eq!(instance.kubectl(&["exec", pod, "-c", "c", "--", "cat", "/etc/marker"]), "of the image\n");
    }
    instance.kubectl(&["delete", "pod", "p", "copy"]);
    instance.stop();
}

#[test]
fn without_namespaces_a_loaded_image_says_why_it_cannot_run_img_3() {
    needs!(Kubectl);
    let home = DataDir::new();
    std::fs::write(home.path("config.yaml"), "namespaces: false\n").unwrap();
    let config = home.path("config.yaml");
    load(&home);
    let instance = home.start(&["--nodes", "1", "--config", config.to_str().unwrap()]);
    apply(&instance, "p", &json!({"containers": [{"name": "c", "image": "shop/app:v1"}]}));
    let waiting = wait_for("the refusal", || {
        let pod = pod(&instance, "p");
        let waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"].clone();
        (waiting["reason"] == "CreateContainerError").then_some(waiting)
    });
    let message = waiting["message"].as_str().unwrap();
    assert!(message.contains("has its own root file system, which needs namespaces"), "{message}");
    instance.kubectl(&["delete", "pod", "p", "--grace-period=0", "--force"]);
    instance.stop();
}

/// Errors have positions, and a file may be empty or a configuration of kube-scheduler.
#[test]
fn image_commands_read_a_config_file_as_the_server_does_cli_4_cli_6() {
    let home = DataDir::new();
    let config = home.path("config.yaml");
    let config = config.to_str().unwrap();
    for (written, expected) in [
        ("", None),
        ("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n", None),
        ("nodes: [{name: node-1, hollow: true}]\n", None),
        ("hollow:\n  runDuratoin: 7\n", Some(":2:3: hollow.runDuratoin: unknown field")),
    ] {
        std::fs::write(config, written).unwrap();
        let output =
            podium(&["image", "explain", "--offline", "busybox", "--config", config], &home.data_dir());
        let printed = text(&output.stderr);
        assert_eq!(output.status.success(), expected.is_none(), "{written}: {printed}");
        let expected = expected.map_or_else(String::new, |place| format!("{config}{place}"));
        assert!(printed.contains(&expected), "{written}: {printed}");
    }
}
