//! Programs that misbehave: each has the right end, and the node stays responsive.

use std::time::Duration;

use podium::kubelet::runtime::{ContainerSpec, Runtime, RuntimeError};

use super::node::{Node, shell, soon, words};

/// POD-3: what cannot start says why in runc's words.
#[tokio::test]
async fn what_cannot_start_says_why() {
    let node = Node::new(true).await;
    for (program, expect) in [
        ("nope", r#"exec: "nope": executable file not found in $PATH"#),
        ("/no/pe", r#"exec: "/no/pe": stat /no/pe: no such file or directory"#),
        ("/etc/passwd", r#"exec: "/etc/passwd": permission denied"#),
        ("/etc", r#"exec: "/etc": is a directory"#),
    ] {
        let spec = ContainerSpec { command: words(&[program]), ..shell("main", "") };
        let result = node.runtime.start_container(spec).await;
        assert_eq!(result, Err(RuntimeError::StartFailed(expect.to_owned())));
    }
    assert!(node.runtime.inspect(&"pod".to_owned()).await.unwrap().unwrap().containers.is_empty());
    node.shutdown().await;
}

/// POD-12: over its memory limit a container is killed.
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

/// A flood of logs rotates, and the host stays small and responsive.
#[tokio::test]
async fn a_flood_of_logs_is_bounded() {
    let node = Node::new(true).await;
    let flood = node.sh("yes 0123456789012345678901234567890123456789").await;
    let line = node
        .start(shell("line", "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end; sleep 1000"))
        .await;
    soon("rotation", async {
        while node.runtime.log_files(&flood.id).await.unwrap().len() < 5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    node.log_has(&line.id, "stdout F end").await;
    let files = node.runtime.log_files(&flood.id).await.unwrap();
    assert_eq!(files.len(), 5);
    assert!(files.iter().all(|file| file.metadata().map_or(0, |about| about.len()) < 20 << 20));
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.host_pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 40_000, "{kilobytes} kB");
    node.shutdown().await;
}
