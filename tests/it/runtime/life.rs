//! A container's life: start, queries, kill, records, and recovery.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use podium::base::optional_file::read_optional_bytes;
use podium::kubelet::runtime::{ContainerSpec, HostLife, Runtime, RuntimeEvent};

use super::node::{Node, alive, modes, runtime, sandbox, shell, soon, until, words};

#[tokio::test]
async fn containers_run_exit_and_are_remembered() {
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        let mut spec = shell("main", "echo out $GREETING; echo err >&2; exit 3");
        spec.env = vec![("GREETING".to_owned(), "hello".to_owned())];
        let record = node.start(spec.clone()).await;
        let exit = node.exit(&record.id).await;
        assert_eq!((exit.exit_code, exit.signal, exit.oom_killed), (3, None, false));
        let log = node.log(&record.id).await;
        assert!(log.contains(" stdout F out hello\n") && log.contains(" stderr F err\n"), "{log}");
        assert_eq!(node.start(spec).await.id, record.id, "asking twice starts once");
        node.runtime.remove_container(&record.id).await.unwrap();
        node.runtime.remove_container(&record.id).await.unwrap();
        node.runtime.remove_sandbox(&"pod".to_owned()).await.unwrap();
        assert!(node.runtime.list().await.unwrap().is_empty());
        node.shutdown().await;
    }
}

/// POD-13: no variable of the control plane's environment reaches a container.
#[tokio::test]
async fn the_environment_is_the_pods_alone() {
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        let record = node.start(ContainerSpec { command: words(&["env"]), ..shell("main", "") }).await;
        node.exit(&record.id).await;
        let log = node.log(&record.id).await;
        let names: BTreeSet<&str> =
            log.lines().filter_map(|line| line.split(" stdout F ").nth(1)?.split('=').next()).collect();
        let mut expected = BTreeSet::from(["HOME", "HOSTNAME", "PATH", "PODIUM_CONTAINER", "PWD"]);
        if !namespaces {
            // The paths of the container's own files, if they cannot be at their usual places.
            expected.extend(["PODIUM_HOSTNAME", "PODIUM_SHM", "PODIUM_TERMINATION_LOG"]);
        }
        assert_eq!(names, expected);
        node.shutdown().await;
    }
}

/// POD-11: the kernel learns how soon to kill a container's processes, and commands in it.
#[tokio::test]
async fn processes_have_the_oom_score_of_their_container_pod_11() {
    for namespaces in modes().await {
        let node = Node::new(namespaces).await;
        let says = "cat /proc/self/oom_score_adj";
        let hosts_own = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        let looks = shell("main", &format!("echo is $({says}); sleep 1000"));
        let record = node.start(ContainerSpec { oom_score_adj: Some(900), ..looks.clone() }).await;
        node.log_has(&record.id, "is 900\n").await;
        let command = words(&["sh", "-c", says]);
        let output = node.runtime.exec_sync(&record.id, command, Duration::from_secs(10)).await.unwrap();
        assert_eq!((output.exit_code, output.output.as_slice()), (0, &b"900\n"[..]));
        let plain = node.start(ContainerSpec { name: "plain".to_owned(), ..looks.clone() }).await;
        node.log_has(&plain.id, &format!("is {hosts_own}")).await;
        // The kernel does not spare a container longer than Podium.
        let guaranteed = ContainerSpec { name: "spared".to_owned(), oom_score_adj: Some(-997), ..looks };
        let guaranteed = node.start(guaranteed).await;
        node.log_has(&guaranteed.id, &format!("is {hosts_own}")).await;
        node.shutdown().await;
    }
}

/// POD-7: the main process is not a PID 1, which would ignore signals that it does not handle.
#[tokio::test]
async fn asking_ends_a_plain_program_and_killing_ends_a_deaf_one() {
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        let plain = node.start(ContainerSpec { command: words(&["sleep", "1000"]), ..shell("a", "") }).await;
        node.runtime.terminate_container(&plain.id).await.unwrap();
        let exit = node.exit(&plain.id).await;
        assert_eq!((exit.exit_code, exit.signal), (143, Some(15)));

        // `lifecycle.stopSignal` takes precedence over the image's signal.
        let spec = shell("own", "trap 'echo asked; exit 7' USR1; echo ready; while :; do sleep 0.01; done");
        let own = node.start(ContainerSpec { stop_signal: Some(libc::SIGUSR1), ..spec }).await;
        node.log_has(&own.id, "ready").await;
        node.runtime.terminate_container(&own.id).await.unwrap();
        assert_eq!(node.exit(&own.id).await.exit_code, 7);

        let deaf = node.start(shell("b", "trap '' TERM; echo ready; while :; do sleep 1000; done")).await;
        node.log_has(&deaf.id, "ready").await;
        node.runtime.terminate_container(&deaf.id).await.unwrap();
        assert!(alive(deaf.pid.unwrap()));
        node.runtime.kill_container(&deaf.id).await.unwrap();
        let exit = node.exit(&deaf.id).await;
        assert_eq!((exit.exit_code, exit.signal), (137, Some(9)));
        node.shutdown().await;
    }
}

/// SAFE-7: a new control plane finds the same processes, and exits that occurred without one.
#[tokio::test]
async fn a_new_control_plane_finds_its_containers() {
    let node = Node::with_life(HostLife::Independent, true).await;
    let fifo = node.directory.path().join("fifo");
    let wait = format!("cat {} >/dev/null; exit 7", fifo.display());
    std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    let mut ends = shell("ends", &wait);
    ends.image = "host".to_owned();
    let ends = node.start(ends).await;
    let stays = node.start(shell("stays", "sleep 1000")).await;
    let Node { runtime: first, directory, .. } = node;
    drop(first);
    std::fs::write(&fifo, "go").unwrap();

    let second = runtime(&directory.path().join("node"), HostLife::Independent, true).await;
    let events = second.events();
    let mut node = Node { runtime: second, events, directory, namespaces: true };
    assert_eq!(node.record(&stays.id).await, stays);
    assert_eq!(node.exit(&ends.id).await.exit_code, 7);
    assert!(alive(stays.pid.unwrap()));
    node.shutdown().await;
}

/// A kubelet crashes and another one starts on the same runtime: it must learn of every exit after that.
#[tokio::test]
async fn a_restarted_kubelet_learns_of_exits_safe_7() {
    let mut node = Node::new(true).await;
    for attempt in 0..3 {
        let record = node.start(ContainerSpec { attempt, ..shell("main", "sleep 1000") }).await;
        // The earlier receiver gets no further events.
        let mut before = std::mem::replace(&mut node.events, node.runtime.events());
        assert_eq!(soon("end of events", before.recv()).await, None);
        node.runtime.kill_container(&record.id).await.unwrap();
        let event = soon("event", node.events.recv()).await;
        assert_eq!(event, Some(RuntimeEvent::PodChanged("pod".to_owned())), "attempt {attempt}");
        assert_eq!(node.exit(&record.id).await.exit_code, 137);
    }
    node.shutdown().await;
}

#[tokio::test]
async fn with_a_lifeline_everything_ends_with_the_control_plane() {
    let node = Node::with_life(HostLife::Ephemeral, true).await;
    let record = node.sh("sleep 1000").await;
    let Node { runtime, directory, .. } = node;
    drop(runtime);
    until("all gone", || !alive(record.pid.unwrap())).await;
    let socket = directory.path().join("node/host.sock");
    until("host gone", || !socket.exists()).await;
}

/// Values of a container's variables are on no disk, and only the owner can read the journal (SEC-4).
#[tokio::test]
async fn values_of_variables_are_not_written_down() {
    for namespaces in modes().await {
        let node = Node::new(namespaces).await;
        let mut spec = shell("main", "echo started; sleep 1000");
        spec.env = vec![("PASSWORD".to_owned(), "hunter-of-secrets".to_owned())];
        spec.args = words(&["hunter-of-secrets"]);
        let record = node.start(spec).await;
        node.log_has(&record.id, "F started\n").await;
        let state = node.directory.path().join("node");
        let journal = state.join("journal");
        assert!(std::fs::read_to_string(&journal).unwrap().contains(&record.id.0));
        assert_eq!(journal.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut next = vec![state];
        while let Some(directory) = next.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    next.push(entry.path());
                } else if kind.is_file() {
                    let bytes = read_optional_bytes(entry.path());
                    let found = bytes.windows(17).any(|part| part == b"hunter-of-secrets");
                    assert!(!found, "{}", entry.path().display());
                }
            }
        }
        node.shutdown().await;
    }
}

/// Pods that have ended or are deleted hold no descriptors of their node's host.
#[tokio::test]
async fn ended_pods_hold_no_descriptors() {
    let mut node = Node::new(true).await;
    let host = node.host_pid();
    let open = move || std::fs::read_dir(format!("/proc/{host}/fd")).unwrap().count();
    let before = open();
    let record = node.sh("exit 0").await;
    node.exit(&record.id).await;
    for number in 0..5 {
        let uid = format!("pod-{number}");
        node.runtime.run_sandbox(sandbox(&uid)).await.unwrap();
        node.start(ContainerSpec { pod_uid: uid.clone(), ..shell("main", "exit 0") }).await;
        node.runtime.stop_sandbox(&uid).await.unwrap();
    }
    until("the ended pods' descriptors to be closed", || open() <= before).await;
    let uid = "pod-gone".to_owned();
    node.runtime.run_sandbox(sandbox(&uid)).await.unwrap();
    node.runtime.remove_sandbox(&uid).await.unwrap();
    until("the gone pod's descriptors to be closed", || open() <= before).await;
    node.shutdown().await;
}
