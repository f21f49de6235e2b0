//! Images of Debian's redis, postgres, nginx and python, built by mmdebstrap and umoci, and pushed by skopeo and by
//! `podium image push` (IMG-4, IMG-7, IMG-8).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs, on_path};
use crate::registry::{self, Registry, free_address};
use crate::subordinate_ids::{OrdinaryUser, annotation, lacks_uidmap};

/// Builds the images.
fn build(home: &DataDir) -> PathBuf {
    let layout = home.path("layout");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/debian/build");
    run(Command::new(script).arg(&layout));
    layout
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
}

fn push_by_skopeo(layout: &Path, name: &str, registry: &Registry) {
    let source = format!("oci:{}:{name}", layout.display());
    let target = format!("docker://{}/{name}:1", registry.address);
    run(Command::new("skopeo").args(["copy", "--quiet", "--dest-tls-verify=false", &source, &target]));
}

fn push_by_podium(home: &DataDir, layout: &Path, name: &str, registry: &Registry) {
    let archive = home.path(&format!("{name}.tar"));
    let source = format!("oci:{}:{name}", layout.display());
    let target = format!("oci-archive:{}", archive.display());
    run(Command::new("skopeo").args(["copy", "--quiet", &source, &target]));
    let image = format!("{}/{name}:1", registry.address);
    let mut push = Command::new(env!("CARGO_BIN_EXE_podium"));
    run(push.args(["image", "push"]).arg(&archive).arg(&image).arg("--data-dir").arg(home.path("push")));
}

/// A pod of an image with a volume and a readiness probe.
fn pod(registry: &Registry, name: &str, volume: &str, probe: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 5,
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [{"name": name, "image": format!("{}/{name}:1", registry.address), "readinessProbe": probe,
            "volumeMounts": [{"name": "data", "mountPath": volume}]}]}})
}

fn probe(command: &[&str]) -> Value {
    json!({"exec": {"command": command}, "periodSeconds": 1, "timeoutSeconds": 10})
}

fn exec(instance: &Instance, pod: &str, command: &[&str]) -> String {
    instance.kubectl(&[&["exec", pod, "--"], command].concat()).trim().to_owned()
}

fn wait_until_ready(instance: &Instance, pod: &str) {
    instance.kubectl(&["wait", "--for=condition=Ready", &format!("pod/{pod}"), "--timeout=120s"]);
}

#[test]
fn debians_servers_run_from_a_registry_img_4_img_7_img_8() {
    needs!(Kubectl);
    needs!(Root);
    let programs = ["docker-registry", "mmdebstrap", "umoci", "skopeo"];
    if lacks(Need::ImageTools, programs.into_iter().all(on_path)) {
        return;
    }
    let home = DataDir::new();
    let registry = Registry::with_settings(&home, "registry", &free_address(), &json!({}), &Value::Null);
    let layout = build(&home);
    for name in ["redis", "postgres"] {
        push_by_skopeo(&layout, name, &registry);
    }
    for name in ["nginx", "python"] {
        push_by_podium(&home, &layout, name, &registry);
    }
    let servers = servers(&registry);
    let instance = home.start(&["--nodes", "1"]);
    instance.apply_all(&servers);
    check_servers(&instance);
    exec(&instance, "redis", &["redis-cli", "set", "written", "before"]);
    exec(&instance, "postgres", &["psql", "-h", "/tmp", "-U", "postgres", "-c", "create table written ()"]);

    instance.crash();
    let instance = home.start(&["--nodes", "1"]);
    for pod in ["redis", "postgres"] {
        wait_until_ready(&instance, pod);
    }
    assert_eq!(exec(&instance, "redis", &["redis-cli", "get", "written"]), "before");
    exec(&instance, "postgres", &["psql", "-h", "/tmp", "-U", "postgres", "-c", "select * from written"]);
    let ids: Vec<String> =
        ["redis", "nginx"].iter().map(|pod| registry::field(&instance, pod, ".imageID")).collect();
    assert!(ids.iter().all(|id| id.starts_with(&registry.address)), "{ids:?}");
    let files_of_pods = || {
        let directory = std::fs::read_dir(home.data_dir().join("nodes/node-1/pods"));
        directory.unwrap().count()
    };
    assert_eq!(files_of_pods(), servers.len());
    instance.kubectl(&["delete", "pod", "--all", "--wait"]);
    wait_for("the removal of what the pods wrote", || (files_of_pods() == 0).then_some(()));
    instance.stop();

    run_by_ordinary_users(&registry, &servers);
}

/// With subordinate ids an ordinary user's servers run as root's do; with a single id those do that need no other.
fn run_by_ordinary_users(registry: &Registry, servers: &[Value]) {
    if lacks_uidmap() {
        return;
    }
    let user = OrdinaryUser::with_subordinate_ids();
    let instance = user.start();
    if lacks(Need::UserNamespaces, annotation(&instance, "users") == "all") {
        return instance.stop();
    }
    instance.apply_all(servers);
    check_servers(&instance);
    instance.stop();

    let user = OrdinaryUser::with("");
    let instance = user.start();
    assert_eq!(annotation(&instance, "users"), "one");
    instance.apply_all(&[pod(registry, "python", "/srv", &Value::Null)]);
    wait_until_ready(&instance, "python");
    assert_eq!(instance.logs("python"), "python as 1000 1000\n");
    instance.stop();
}

fn servers(registry: &Registry) -> [Value; 4] {
    let postgres = probe(&["psql", "-h", "/tmp", "-U", "postgres", "-c", "select 1"]);
    [
        pod(registry, "redis", "/data", &probe(&["redis-cli", "ping"])),
        pod(registry, "postgres", "/database", &postgres),
        pod(registry, "nginx", "/srv", &json!({"httpGet": {"port": 80}, "periodSeconds": 1})),
        pod(registry, "python", "/srv", &Value::Null),
    ]
}

/// Checks that all servers become ready as the users that their images mean.
fn check_servers(instance: &Instance) {
    for name in ["redis", "postgres", "nginx", "python"] {
        wait_until_ready(instance, name);
    }
    for (pod, file, owner) in [
        ("redis", "/data", "redis:redis"),
        ("redis", "/proc/1", "redis:redis"),
        ("postgres", "/database/PG_VERSION", "postgres:postgres"),
        ("nginx", "/proc/1", "root:root"),
    ] {
        assert_eq!(exec(instance, pod, &["stat", "-c", "%U:%G", file]), owner, "{file} of {pod}");
    }
    assert_eq!(instance.logs("python"), "python as 1000 1000\n");
}
