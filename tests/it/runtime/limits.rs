//! The limits of containers, and their enforcement (POD-12).

use std::path::PathBuf;

use podium::base::optional_file::read_optional;
use podium::kubelet::runtime::{ContainerRecord, ResourceLimits, Runtime, RuntimeError};

use super::node::{Node, shell, soon};
use crate::needs::{Need, lacks};

/// POD-12: a container that exceeds its memory limit is killed.
#[tokio::test]
async fn memory_limits_kill() {
    let mut node = Node::new(true).await;
    let mut spec = shell("main", "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done");
    spec.memory_limit_bytes = Some(32 << 20);
    let record = node.start(spec).await;
    let exit = node.exit(&record.id).await;
    assert_eq!((exit.exit_code, exit.oom_killed), (137, true));
    node.shutdown().await;
}

/// POD-12: another limit applies to a running container from now on, without a restart.
#[tokio::test]
async fn limits_change_while_it_runs() {
    let mut node = Node::new(true).await;
    let script = "while [ ! -e /tmp/go ]; do sleep 0.05; done; x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done";
    let record = node.start(shell("main", script)).await;
    let limits = ResourceLimits {
        memory_bytes: Some(32 << 20),
        cpu_millicores: Some(500),
        cpu_request_millicores: Some(100),
        pod_cpu_request_millicores: Some(500),
    };
    node.runtime.resize_container(&record.id, limits).await.unwrap();
    let cpu = !node.runtime.isolation()["podium.dev/limits"].contains("cpu not limited");
    if !lacks(Need::Cgroups, cpu) {
        let held = group(&record, "cpu").expect("its processes are in a group now");
        let read = |file: &str| read_optional(held.join(file));
        assert!(read("cpu.cfs_quota_us") == "50000\n" || read("cpu.max") == "50000 100000\n");
        // Its pod's share changes, too.
        assert!(read("../cpu.shares") == "512\n" || read("../cpu.weight") == "20\n");
    }
    let go = vec!["touch".to_owned(), "/tmp/go".to_owned()];
    node.runtime.exec_sync(&record.id, go, std::time::Duration::from_secs(30)).await.unwrap();
    let exit = node.exit(&record.id).await;
    assert_eq!((exit.exit_code, exit.oom_killed), (137, true));
    let over = node.runtime.resize_container(&record.id, limits).await;
    assert!(matches!(over, Err(RuntimeError::NotFound(_))), "{over:?}");
    node.shutdown().await;
}

/// The cgroup of a container's processes, in one hierarchy.
fn group(record: &ContainerRecord, controller: &str) -> Option<PathBuf> {
    let groups = std::fs::read_to_string(format!("/proc/{}/cgroup", record.pid?)).ok()?;
    let path = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let names = fields.next()?;
        (names.is_empty() || names.split(',').any(|name| name == controller)).then_some(fields.next()?)
    })?;
    let mounts = [PathBuf::from("/sys/fs/cgroup").join(controller), PathBuf::from("/sys/fs/cgroup")];
    mounts
        .into_iter()
        .map(|mount| mount.join(path.trim_start_matches('/')))
        .find(|group| group.join("cgroup.procs").exists())
}

/// POD-12: a pod that requests more processes than its limit does not get them, its node survives, and its control
/// groups are removed.
#[tokio::test]
async fn control_groups_hold_processes_and_processor_time() {
    let mut node = Node::new(true).await;
    let limits = node.runtime.isolation()["podium.dev/limits"].clone();
    if lacks(Need::Cgroups, !limits.contains("pids not limited")) {
        return node.shutdown().await;
    }
    let bomb = "for n in $(seq 200); do sleep 1000 & done; echo all";
    let record = node.start(shell("bomb", &format!("({bomb}) 2>&1; sleep 1000"))).await;
    node.log_has(&record.id, "ork").await;
    assert!(node.runtime.usage(&"pod".to_owned()).await.unwrap()["bomb"].processes <= 64 + 1);
    let held = group(&record, "pids").expect("its processes are in a group");
    node.runtime.kill_container(&record.id).await.unwrap();
    assert_eq!(node.exit(&record.id).await.exit_code, 137);
    assert!(!held.exists(), "{}", held.display());

    if !lacks(Need::Cgroups, !limits.contains("cpu not limited")) {
        let mut spec = shell("slow", "sleep 1000");
        (spec.cpu_limit_millicores, spec.cpu_request_millicores) = (Some(250), Some(100));
        let record = node.start(spec).await;
        let held = group(&record, "cpu").expect("its processes are in a group");
        let read = |file: &str| read_optional(held.join(file));
        assert!(
            read("cpu.cfs_quota_us") == "25000\n" || read("cpu.max") == "25000 100000\n",
            "{}",
            held.display()
        );
        node.runtime.stop_sandbox(&"pod".to_owned()).await.unwrap();
        assert!(!held.parent().unwrap().exists(), "its pod's group is gone too");
    }
    soon("shutdown", node.shutdown()).await;
}
