//! Data directories: a run destroys nothing that it did not create, and loses nothing silently.

use std::process::{Command, Stdio};

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks};
use podium::base::optional_file::read_optional;

fn named(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    }
}

async fn create(instance: &Instance, name: &str) {
    let api: Api<ConfigMap> = Api::namespaced(instance.client().await, "default");
    api.create(&PostParams::default(), &named(name)).await.unwrap();
}

async fn names(instance: &Instance) -> Vec<String> {
    let api: Api<ConfigMap> = Api::namespaced(instance.client().await, "default");
    let list = api.list(&ListParams::default()).await.unwrap();
    list.items.into_iter().filter_map(|map| map.metadata.name).filter(|name| name.contains("mine")).collect()
}

/// Exit code and standard error of a command that ends by itself.
pub(crate) fn podium(home: &DataDir, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.args(arguments).arg("--data-dir").arg(home.data_dir()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const SERVE: [&str; 5] = ["serve", "--nodes", "0", "--listen", "127.0.0.1:0"];

/// An ephemeral run would remove the persistent cluster at its end (CLI-2).
#[tokio::test(flavor = "multi_thread")]
async fn an_ephemeral_run_does_not_touch_a_persistent_cluster() {
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0"]);
    create(&instance, "mine").await;
    instance.stop();
    let (code, _, stderr) = podium(&home, &[&SERVE[..], &["--ephemeral"]].concat());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("contains a cluster, which --ephemeral would delete"), "{stderr}");
    let instance = home.start(&["--nodes", "0"]);
    assert_eq!(names(&instance).await, ["mine"]);
    instance.stop();
}

/// A start with the same manifests reverts no later changes of their objects, unless the user requests it.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_with_manifests_creates_what_is_missing_and_reverts_nothing_cli_2() {
    let home = DataDir::new();
    let manifests = home.path("manifests");
    std::fs::create_dir(&manifests).unwrap();
    let map = |name: &str| {
        let text =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{k: file}}\n");
        std::fs::write(manifests.join(format!("{name}.yaml")), text).unwrap();
    };
    map("mine-a");
    map("mine-b");
    let path = manifests.to_str().unwrap();
    let stderr_file = home.path("said");
    let start = |more: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 2>\"$0\""]).arg(&stderr_file).arg(env!("CARGO_BIN_EXE_podium"));
        command.args(SERVE).args(["-f", path]).args(more).arg("--data-dir").arg(home.data_dir());
        DataDir::start_command(&mut command, &home.data_dir().join("kubeconfig"))
    };
    let stderr = || std::fs::read_to_string(&stderr_file).unwrap();
    let value = async |instance: &Instance, name: &str| {
        let api: Api<ConfigMap> = Api::namespaced(instance.client().await, "default");
        api.get(name).await.unwrap().data.unwrap()["k"].clone()
    };

    let instance = start(&[]);
    assert!(stderr().contains("-f: 2 created"), "{}", stderr());
    let api: Api<ConfigMap> = Api::namespaced(instance.client().await, "default");
    let work = serde_json::json!({"data": {"k": "work"}});
    api.patch("mine-a", &PatchParams::default(), &Patch::Merge(work)).await.unwrap();
    instance.stop();

    map("mine-c");
    let instance = start(&[]);
    assert_eq!((value(&instance, "mine-a").await.as_str(), names(&instance).await.len()), ("work", 3));
    let expected =
        "-f: 1 created, 1 unchanged; not changed, though their manifests differ: configmap/mine-a (--reapply";
    assert!(stderr().contains(expected), "{}", stderr());
    instance.stop();

    let instance = start(&["--reapply"]);
    assert_eq!(value(&instance, "mine-a").await, "file");
    assert!(stderr().contains("-f: 1 configured, 2 unchanged"), "{}", stderr());
    instance.stop();
}

/// A truncated journal is data loss, not a new store (SAFE-2).
#[tokio::test(flavor = "multi_thread")]
async fn a_start_on_a_damaged_state_says_what_is_lost_until_that_is_accepted() {
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0"]);
    create(&instance, "mine").await;
    instance.stop();
    let state = home.data_dir().join("state");
    let journals = || {
        let files = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|e| e == "jnl")).collect::<Vec<_>>()
    };
    for journal in journals() {
        std::fs::File::options().write(true).open(journal).unwrap().set_len(0).unwrap();
    }
    let (code, _, stderr) = podium(&home, &SERVE);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("is damaged") && stderr.contains("--accept-data-loss"), "{stderr}");
    let instance = home.start(&["--nodes", "0", "--accept-data-loss"]);
    assert_eq!(names(&instance).await, [""; 0]);
    create(&instance, "mine-again").await;
    instance.stop();
    let instance = home.start(&["--nodes", "0"]);
    assert_eq!(names(&instance).await, ["mine-again"]);
    instance.stop();
}

/// strace delays the writes of the disk thread. Data that a client has read before a crash is there after it
/// (SAFE-2).
#[tokio::test(flavor = "multi_thread")]
async fn data_that_was_read_before_kill_9_exists_after_it_safe_11() {
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0"]);
    let tracer = slow_disk(instance.pid());
    if lacks(Need::Strace, tracer.is_some()) {
        return instance.stop();
    }
    let client = instance.client().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let writing = tokio::spawn(async move { maps.create(&PostParams::default(), &named("mine")).await });
    // The response to one of the reads comes once the write has been applied, and no sooner than it is durable.
    let mut read = None;
    while read.is_none() && !writing.is_finished() {
        let path = "/api/v1/namespaces/default/configmaps/mine";
        let request = Request::get(path).body(Vec::new()).unwrap();
        read = client.request::<ConfigMap>(request).await.ok();
    }
    instance.crash();
    drop(tracer);
    let acknowledged = writing.await.unwrap().is_ok();
    let instance = home.start(&["--nodes", "0"]);
    if read.is_some() || acknowledged {
        assert_eq!(names(&instance).await, ["mine"]);
    }
    instance.stop();
}

/// Delays each write of the disk thread by a second, until dropped.
struct Tracer(std::process::Child);

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn slow_disk(pid: u32) -> Option<Tracer> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let is_disk = |thread: &std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.trim() == "podium-disk")
    };
    let thread = threads.into_iter().find(is_disk)?.file_name().into_string().ok()?;
    let mut command = Command::new("strace");
    command.args([
        "-qq", "-o", "/dev/null", "-e", "trace=write", "-e", "inject=write:delay_enter=1000000", "-p",
    ]);
    let mut child = command.arg(&thread).stderr(Stdio::null()).stdin(Stdio::null()).spawn().ok()?;
    let traced = || {
        let status = read_optional(format!("/proc/{thread}/status"));
        status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|pid| pid.trim() != "0"))
    };
    let attached =
        wait_for("strace", || if traced() { Some(true) } else { child.try_wait().unwrap().map(|_| false) });
    attached.then_some(Tracer(child))
}

/// `--kubeconfig` may name a file outside of the data directory (CLI-4).
#[tokio::test(flavor = "multi_thread")]
async fn a_command_finds_an_instance_with_a_kubeconfig_outside_its_data_directory() {
    let home = DataDir::new();
    let kubeconfig = home.path("elsewhere");
    let instance = home.start(&["--nodes", "0", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    let (code, stdout, stderr) = podium(&home, &["kubeconfig"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stdout.trim(), std::fs::read_to_string(&kubeconfig).unwrap().trim());
    let manifest = home.path("map.yaml");
    std::fs::write(&manifest, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\n").unwrap();
    let (code, stdout, stderr) = podium(&home, &["apply", "-f", manifest.to_str().unwrap()]);
    assert_eq!((code, stdout.as_str()), (Some(0), "configmap/mine created\n"), "{stderr}");
    assert_eq!(names(&instance).await, ["mine"]);
    instance.stop();
}

/// Control characters in a manifest reached the user's terminal (SEC-3).
#[test]
fn control_characters_of_a_manifest_do_not_reach_the_terminal() {
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "0"]);
    let manifest = home.path("evil.yaml");
    for text in [
        "apiVersion: v1\nkind: \"Con\\e]0;PWN\\afigMap\"\nmetadata: {name: a}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"x\\e]0;PWN\\a\"}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {\"\\e[2J\": b}\n",
    ] {
        std::fs::write(&manifest, text).unwrap();
        for command in ["apply", "delete"] {
            let (_, stdout, stderr) = podium(&home, &[command, "-f", manifest.to_str().unwrap()]);
            assert!(
                !stdout.contains(['\u{1b}', '\u{7}']) && !stderr.contains(['\u{1b}', '\u{7}']),
                "{stdout}{stderr}"
            );
        }
    }
    instance.stop();
}

/// A pipe among the user's images is skipped, also by the next start.
#[test]
fn a_pipe_among_the_images_does_not_keep_a_cluster_from_starting() {
    let home = DataDir::new();
    std::fs::create_dir_all(home.data_dir().join("images")).unwrap();
    let pipe = home.data_dir().join("images/pipe.yaml");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    home.start(&["--nodes", "0"]).stop();
}
