//! Volumes of the runtime, and the rights of containers in them (VOL-1).

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use podium::kubelet::runtime::{ContainerSpec, MemoryVolume, Mount, Runtime, SandboxSpec};

use super::node::{Node, sandbox, shell, words};
use crate::needs::{Need, lacks};

fn in_memory(name: &str, size_bytes: u64) -> MemoryVolume {
    MemoryVolume { name: name.to_owned(), size_bytes: Some(size_bytes), mode: 0o2777, group: None }
}

/// VOL-1: an emptyDir of medium Memory is a file system in memory of its own size, shared by the pod's containers. It
/// survives them and a recreated sandbox, and no link in it leads out.
#[tokio::test]
async fn a_volume_in_memory_is_one() {
    let node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    let memory = node.runtime.memory().expect("files in memory where there are namespaces");
    let spec = SandboxSpec { memory_volumes: vec![in_memory("m", 1 << 20)], ..sandbox("pod-m") };
    node.runtime.run_sandbox(spec.clone()).await.unwrap();
    let mount = |sub: Option<&str>, path: &str| Mount {
        host_path: memory.container_path("pod-m").join("volumes/m"),
        sub_path: sub.map(Into::into),
        container_path: path.into(),
        ..Mount::default()
    };
    let of_pod = |name: &str, script: &str, mounts| ContainerSpec {
        pod_uid: "pod-m".to_owned(),
        mounts,
        ..shell(name, script)
    };
    let script = "stat -c %a /m; grep ' /m ' /proc/mounts; echo word > /m/word; ln -s /etc /m/out; \
                  head -c 3000000 /dev/zero > /m/much 2>&1 || echo full; rm /m/much; sleep 1000";
    let first = node.start(of_pod("first", script, vec![mount(None, "/m")])).await;
    node.log_has(&first.id, "F full\n").await;
    let log = node.log(&first.id).await;
    assert!(log.contains("F 2777\n") && log.contains("tmpfs") && log.contains("size=1024k"), "{log}");

    let script = "cat /m/word; stat -c 'deep %a' /deep /m/a; touch /deep/made && ls /out/passwd; echo over";
    let mounts = vec![mount(None, "/m"), mount(Some("a/b"), "/deep"), mount(Some("out"), "/out")];
    let second = node.start(of_pod("second", script, mounts)).await;
    node.log_has(&second.id, "F over\n").await;
    let log = node.log(&second.id).await;
    assert!(log.contains("F word\n"), "{log}");
    assert_eq!(log.matches("F deep 2777\n").count(), 2, "as the volume: {log}");
    assert!(!log.contains("F /out/passwd"), "the link leads to nothing but the volume's own: {log}");

    node.runtime.stop_sandbox(&"pod-m".to_owned()).await.unwrap();
    node.runtime.run_sandbox(spec).await.unwrap();
    let third = node
        .start(of_pod("third", "cat /m/word; ls -d /m/a/b/made; sleep 1000", vec![mount(None, "/m")]))
        .await;
    node.log_has(&third.id, "F /m/a/b/made\n").await;
    assert!(node.log(&third.id).await.contains("F word\n"));
    node.runtime.remove_sandbox(&"pod-m".to_owned()).await.unwrap();
    assert!(!memory.reach("pod-m").exists(), "nothing of it stays");
    node.shutdown().await;
}

/// POD-12: the content of a container's memory volume counts as its memory.
#[tokio::test]
async fn a_volume_in_memory_counts_as_memory() {
    let mut node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    let memory = node.runtime.memory().expect("files in memory where there are namespaces");
    node.runtime.remove_sandbox(&"pod".to_owned()).await.unwrap();
    let spec = SandboxSpec { memory_volumes: vec![in_memory("m", 256 << 20)], ..sandbox("pod") };
    node.runtime.run_sandbox(spec).await.unwrap();
    let mut spec = shell("main", "head -c 200000000 /dev/zero > /m/much; sleep 1000");
    spec.mounts = vec![Mount {
        host_path: memory.container_path("pod").join("volumes/m"),
        container_path: "/m".into(),
        ..Mount::default()
    }];
    spec.memory_volumes = vec!["m".to_owned()];
    spec.memory_limit_bytes = Some(64 << 20);
    let record = node.start(spec.clone()).await;
    let exit = node.exit(&record.id).await;
    assert!(exit.oom_killed || exit.exit_code == 137, "{exit:?}");

    // Without a limit it is only reported.
    node.runtime.exec_sync(&record.id, words(&["true"]), Duration::from_secs(9)).await.unwrap_err();
    spec.memory_limit_bytes = None;
    spec.attempt = 1;
    spec.command = words(&["sh", "-c", "head -c 100000000 /dev/zero > /m/much; echo written; sleep 1000"]);
    let record = node.start(spec).await;
    node.log_has(&record.id, "written").await;
    let usage = node.runtime.usage(&"pod".to_owned()).await.unwrap();
    assert!(usage["main"].memory_bytes > 90_000_000, "{usage:?}");
    node.runtime.remove_sandbox(&"pod".to_owned()).await.unwrap();
    node.shutdown().await;
}

/// `/dev/shm` has containerd's 64 MiB and counts for the pod's memory limit, whether the kernel enforces that or
/// Podium watches it (POD-12).
#[tokio::test]
async fn shared_memory_is_bounded_and_counts_as_memory() {
    let mut node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    let script = "grep ' /dev/shm ' /proc/mounts; head -c 300000000 /dev/zero > /dev/shm/much || echo full; \
                  stat -c 'has %s' /dev/shm/much; sleep 1000";
    let roomy = ContainerSpec { memory_limit_bytes: Some(100 << 20), ..shell("roomy", script) };
    let record = node.start(roomy).await;
    node.log_has(&record.id, "F has 67108864\n").await;
    let log = node.log(&record.id).await;
    assert!(log.contains("F full\n") && log.contains("size=65536k"), "{log}");
    let usage = node.runtime.usage(&"pod".to_owned()).await.unwrap();
    assert!(usage["roomy"].memory_bytes > 60 << 20, "{usage:?}");
    node.runtime.kill_container(&record.id).await.unwrap();
    node.exit(&record.id).await;

    node.runtime.stop_sandbox(&"pod".to_owned()).await.unwrap();
    node.runtime.remove_sandbox(&"pod".to_owned()).await.unwrap();
    node.runtime.run_sandbox(sandbox("pod")).await.unwrap();
    let script = "head -c 60000000 /dev/zero > /dev/shm/much; sleep 1000";
    let tight = ContainerSpec { memory_limit_bytes: Some(32 << 20), ..shell("tight", script) };
    let record = node.start(tight).await;
    let exit = node.exit(&record.id).await;
    assert_eq!((exit.oom_killed, exit.exit_code), (true, 137), "{exit:?}");
    node.shutdown().await;
}

/// VOL-1: `readOnly` applies to the volume, `recursiveReadOnly` also to mounts in it.
#[tokio::test]
async fn read_only_volumes_are_recursively_so_on_request() {
    let mut node = Node::new(true).await;
    let device = |path: &str| std::fs::metadata(path).map(|about| about.dev()).ok();
    let nested =
        device("/dev").is_some() && device("/dev/shm").is_some_and(|shm| Some(shm) != device("/dev"));
    if lacks(Need::Namespaces, node.namespaces) || lacks(Need::NestedMounts, nested) {
        return node.shutdown().await;
    }
    let name = format!("podium-test-{}", std::process::id());
    let mount = |path: &str, recursive| Mount {
        host_path: Path::new("/dev").into(),
        container_path: path.into(),
        read_only: true,
        recursive,
        ..Mount::default()
    };
    let script = format!(
        "for d in /flat /deep; do for f in $d/{name} $d/shm/{name}; do \
         touch $f 2>/dev/null && rm $f && echo wrote $f; done; done; echo over"
    );
    let mut spec = shell("main", &script);
    spec.mounts = vec![mount("/flat", false), mount("/deep", true)];
    let record = node.start(spec).await;
    assert_eq!(node.exit(&record.id).await.exit_code, 0);
    let log = node.log(&record.id).await;
    let wrote: Vec<_> =
        log.lines().filter_map(|line| line.split_once("wrote ")).map(|(_, file)| file).collect();
    assert_eq!(wrote, [format!("/flat/shm/{name}")], "{log}");
    node.shutdown().await;
}
