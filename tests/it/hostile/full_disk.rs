//! `kill -9` while the disk is full: the instance starts again on the full disk with all acknowledged writes, and
//! continues when there is space (SAFE-2). `bad_input` tests that it refuses writes and recovers without a restart.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use rustix::process::{Pid, Signal, kill_process};

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, mounts, own_mounts};

/// Mounts a small file system and runs one instance after another on it; each reports its readiness in a file, the
/// first also to the test. Between them a file may take the free space.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=24m small "$1" || exit 1
serve() { "$program" serve --nodes 0 --listen 127.0.0.1:0 --data-dir "$place/data" --kubeconfig "$kubeconfig"; }
program=$0 place=$1 kubeconfig=$2
serve
[ -z "$4" ] || cat /dev/zero >"$4" 2>/dev/null
serve >"$3"
"#;

fn config_map(name: &str) -> ConfigMap {
    let object = serde_json::json!({"metadata": {"name": name}, "data": {"filling": "x".repeat(1000)}});
    serde_json::from_value(object).unwrap()
}

/// The only child of a process.
fn child(pid: u32) -> Option<Pid> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
}

/// Writes until the file system is full.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    let mut size = 1 << 20;
    while size > 0 {
        if file.write_all(&vec![b'x'; size]).is_err() {
            size /= 2;
        }
    }
}

/// Creates objects until one is refused, and returns the acknowledged ones.
async fn until_refused(api: &Api<ConfigMap>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    loop {
        let name = format!("c{}", acknowledged.len());
        match api.create(&PostParams::default(), &config_map(&name)).await {
            Ok(_) => acknowledged.push(name),
            Err(kube::Error::Api(_)) => return acknowledged,
            Err(other) => panic!("{other}"),
        }
    }
}

/// The names of all objects but the test's own.
async fn names(api: &Api<ConfigMap>) -> Vec<String> {
    let items = api.list(&ListParams::default()).await.unwrap().items;
    let names = items.into_iter().filter_map(|object| object.metadata.name);
    names.filter(|name| name.starts_with('c')).collect()
}

/// A disk without any space for other writes: existing objects can be read and deleted, which frees space.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_on_a_full_disk_serves_reads_and_deletions_and_refuses_other_writes_safe_2() {
    if lacks(Need::Mounts, mounts()) {
        return;
    }
    let home = DataDir::new();
    let (place, kubeconfig, ready) = (home.path("small"), home.path("kubeconfig"), home.path("ready"));
    std::fs::create_dir(&place).unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(own_mounts()).args(["sh", "-c", SCRIPT, env!("CARGO_BIN_EXE_podium")]);
    let last = place.join("filler-last");
    let instance = DataDir::start_command(unshare.args([&place, &kubeconfig, &ready, &last]), &kubeconfig);
    let root: PathBuf = Path::new("/proc").join(instance.pid().to_string()).join("root");
    let inside = |name: &str| root.join(place.join(name).strip_prefix("/").unwrap());
    let first = Api::<ConfigMap>::namespaced(instance.impatient_client().await, "default");
    for n in 0..20 {
        first.create(&PostParams::default(), &config_map(&format!("c-before-{n}"))).await.unwrap();
    }
    // Writes get the reserved space, until others have used all of it.
    let mut fillers = Vec::new();
    while fillers.is_empty() || inside("data/state.reserve").exists() {
        let filler = inside(&format!("filler-{}", fillers.len()));
        fill(&filler);
        fillers.push(filler);
        until_refused(&first).await;
    }
    let serve = wait_for("the instance", || child(instance.pid()));
    kill_process(serve, Signal::KILL).unwrap();
    wait_for("the next instance on the full disk", || {
        std::fs::read_to_string(&ready).ok().filter(|line| line.starts_with("ready ") && line.ends_with('\n'))
    });
    let second = Api::<ConfigMap>::namespaced(instance.impatient_client().await, "default");
    let there = names(&second).await;
    assert!((0..20).all(|n| there.contains(&format!("c-before-{n}"))), "{there:?}");
    until_refused(&second).await;
    for n in 0..20 {
        second.delete(&format!("c-before-{n}"), &DeleteParams::default()).await.unwrap();
    }
    let left = names(&second).await;
    assert!((0..20).all(|n| !left.contains(&format!("c-before-{n}"))), "{left:?}");
    fillers.push(inside("filler-last"));
    for filler in fillers {
        std::fs::remove_file(filler).unwrap();
    }
    let mut n = 0;
    while second.create(&PostParams::default(), &config_map(&format!("c-after-{n}"))).await.is_err() {
        n += 1;
        assert!(n < 10_000, "writes do not go on");
        tokio::task::yield_now().await;
    }
    let serve = wait_for("the instance", || child(instance.pid()));
    kill_process(serve, Signal::TERM).unwrap();
    let mut instance = instance;
    assert_eq!(instance.wait(), 0, "a clean stop exits 0");
}

/// The disk is full, and the server crashes while it is full.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_on_a_full_disk_loses_nothing_and_the_next_start_works_safe_2() {
    if lacks(Need::Mounts, mounts()) {
        return;
    }
    let home = DataDir::new();
    let (place, kubeconfig, ready) = (home.path("small"), home.path("kubeconfig"), home.path("ready"));
    std::fs::create_dir(&place).unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(own_mounts()).args(["sh", "-c", SCRIPT, env!("CARGO_BIN_EXE_podium")]);
    let instance = DataDir::start_command(unshare.args([&place, &kubeconfig, &ready]), &kubeconfig);
    let inside: PathBuf = Path::new("/proc").join(instance.pid().to_string()).join("root");
    let filler = inside.join(place.join("filler").strip_prefix("/").unwrap());
    let api = |instance: Instance| async move {
        let client = instance.impatient_client().await;
        (Api::<ConfigMap>::namespaced(client, "default"), instance)
    };

    let (first, instance) = api(instance).await;
    for n in 0..20 {
        first.create(&PostParams::default(), &config_map(&format!("c-before-{n}"))).await.unwrap();
    }
    fill(&filler);
    let mut acknowledged = until_refused(&first).await;
    acknowledged.extend((0..20).map(|n| format!("c-before-{n}")));
    let serve = wait_for("the instance", || child(instance.pid()));
    kill_process(serve, Signal::KILL).unwrap();

    wait_for("the next instance on the full disk", || {
        std::fs::read_to_string(&ready).ok().filter(|line| line.starts_with("ready ") && line.ends_with('\n'))
    });
    let (second, instance) = api(instance).await;
    let there = names(&second).await;
    for name in &acknowledged {
        assert!(there.contains(name), "{name} was acknowledged");
    }
    assert!(there.len() <= acknowledged.len() + 1, "refused objects are not stored: {there:?}");
    std::fs::remove_file(&filler).unwrap();
    let mut n = 0;
    while second.create(&PostParams::default(), &config_map(&format!("c-after-{n}"))).await.is_err() {
        n += 1;
        assert!(n < 10_000, "writes do not go on");
        tokio::task::yield_now().await;
    }
    assert!(names(&second).await.contains(&format!("c-after-{n}")));
    let serve = wait_for("the instance", || child(instance.pid()));
    kill_process(serve, Signal::TERM).unwrap();
    let mut instance = instance;
    assert_eq!(instance.wait(), 0, "a clean stop exits 0");
}
