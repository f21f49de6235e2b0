//! Programs that misbehave: each has the right end, and the node stays responsive.

use std::time::Duration;

use podium::kubelet::runtime::{ContainerSpec, Runtime, RuntimeError};

use super::node::{Node, modes, shell, soon, words};
use crate::needs::{Need, lacks};

/// POD-3: a container that cannot start reports the reason in runc's words.
#[tokio::test]
async fn a_container_that_cannot_start_reports_the_reason_as_runc_does() {
    let node = Node::new(true).await;
    for (program, expect) in [
        ("nope", r#"exec: "nope": executable file not found in $PATH"#),
        ("/no/pe", r#"exec: "/no/pe": stat /no/pe: no such file or directory"#),
        ("/etc/passwd", r#"exec: "/etc/passwd": permission denied"#),
        ("/etc", r#"exec: "/etc": is a directory"#),
        ("", r#"exec: "": executable file not found in $PATH"#),
    ] {
        let spec = ContainerSpec { command: words(&[program]), ..shell("main", "") };
        let result = node.runtime.start_container(spec).await;
        assert_eq!(result, Err(RuntimeError::StartFailed(expect.to_owned())));
    }
    let garbage = node.directory.path().join("garbage");
    std::fs::write(&garbage, "\u{7f}ELF, but not really").unwrap();
    std::fs::set_permissions(&garbage, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // The machine's /tmp is hidden from other images.
    let command = words(&[garbage.to_str().unwrap()]);
    let spec = ContainerSpec { command, image: "host".to_owned(), ..shell("main", "") };
    let expect = format!("exec {}: exec format error", garbage.display());
    assert_eq!(node.runtime.start_container(spec).await, Err(RuntimeError::StartFailed(expect)));
    // Without namespaces, the pod's own directory replaces a working directory that is unusable.
    if !lacks(Need::Namespaces, node.namespaces) {
        let spec = ContainerSpec { working_dir: Some("/etc/passwd".into()), ..shell("main", "exit 0") };
        let error = node.runtime.start_container(spec).await.unwrap_err();
        assert!(error.to_string().contains("not a directory"), "{error}");
    }
    assert!(node.runtime.inspect(&"pod".to_owned()).await.unwrap().unwrap().containers.is_empty());
    node.shutdown().await;
}

/// POD-3: unusual ends are still reported as the main process' own.
#[tokio::test]
async fn odd_programs_have_their_own_end() {
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        for (name, script, code, signal) in [
            ("closes-its-streams", "exec <&- >&- 2>&-; sleep 0.01; exit 3", 3, None),
            ("kills-itself", "kill -USR1 $$", 138, Some(10)),
            ("leaves-a-child-with-the-log", "sleep 1000 & exit 4", 4, None),
            ("stops-its-child", "sh -c 'kill -STOP $$' & sleep 0.01; exit 5", 5, None),
            ("runs-another", "exec sh -c 'exit 6'", 6, None),
            ("ignores-everything", "trap '' TERM INT HUP; kill -TERM $$; exit 7", 7, None),
            ("writes-no-newline", "printf end; exit 8", 8, None),
        ] {
            let record = node.start(shell(name, script)).await;
            let exit = node.exit(&record.id).await;
            assert_eq!((exit.exit_code, exit.signal), (code, signal), "{name}, namespaces: {namespaces}");
        }
        node.shutdown().await;
    }
}

/// A flood of logs rotates, and the host stays small and responsive.
#[tokio::test]
async fn a_flood_of_logs_is_bounded() {
    let node = Node::new(true).await;
    let flood = node.sh("yes 0123456789012345678901234567890123456789").await;
    soon("rotation", async {
        let oldest = node.runtime.log_files(&flood.id).await.unwrap().remove(0);
        while !oldest.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let files = node.runtime.log_files(&flood.id).await.unwrap();
    assert_eq!(files.len(), 5);
    assert!(files.iter().all(|file| file.metadata().map_or(0, |about| about.len()) < 20 << 20));
    node.shutdown().await;
}

/// One line of a gigabyte passes through: nothing of it stays in memory, and the text after it arrives.
#[tokio::test]
async fn a_line_of_a_gigabyte_is_no_burden() {
    let node = Node::new(true).await;
    let script = "head -c 1073741824 /dev/zero | tr '\\0' x; echo; echo end; sleep 1000";
    let line = node.start(shell("line", script)).await;
    node.log_has(&line.id, "stdout F end").await;
    let files = node.runtime.log_files(&line.id).await.unwrap();
    let bytes: u64 = files.iter().map(|file| file.metadata().map_or(0, |about| about.len())).sum();
    assert!((10 << 20..100 << 20).contains(&bytes), "{bytes}");
    // The peak memory, including the pages of its program's file.
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.host_pid())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 150_000, "{kilobytes} kB");
    node.shutdown().await;
}
