//! No process outlives its container, its pod or its host (POD-10, SAFE-3).

use std::time::Duration;

use podium::base::optional_file::read_optional_bytes;
use podium::kubelet::runtime::{ContainerSpec, Runtime, RuntimeEvent, SandboxSpec};

use super::node::{Node, alive, left_in, modes, sandbox, shell, sleeping, soon, until, words};
use crate::instance::seconds_of_its_own;

/// POD-10: no process survives its container, not even one that called setsid.
#[tokio::test]
async fn the_whole_tree_dies_with_its_container() {
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        let script = "D=$MARK setsid sh -c 'sleep 1000 & sleep 1001' & D=$MARK sleep 1002 & echo ready; wait";
        let mut spec = shell("main", script);
        let mark = node.directory.path().display().to_string();
        spec.env = vec![("MARK".to_owned(), mark)];
        let record = node.start(spec).await;
        let sleepers = || {
            let is_sleeper = |pid: &i32| {
                let words = read_optional_bytes(format!("/proc/{pid}/cmdline"));
                words.starts_with(b"sleep\x00100")
            };
            left_in(node.directory.path()).into_iter().filter(is_sleeper).count()
        };
        until("sleepers", || sleepers() == 3).await;
        node.runtime.kill_container(&record.id).await.unwrap();
        node.exit(&record.id).await;
        let count = left_in(node.directory.path());
        let of_container = |pid: &&i32| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| String::from_utf8_lossy(&env).contains("PODIUM_CONTAINER"))
        };
        assert_eq!(count.iter().filter(of_container).count(), 0);
        node.shutdown().await;
    }
}

/// POD-10: background processes of a main process that ended by itself die too.
#[tokio::test]
async fn background_processes_die_with_the_main_process() {
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        let record = node.sh("setsid sleep 1000 & echo $!; exit 0").await;
        let exit = node.exit(&record.id).await;
        assert_eq!(exit.exit_code, 0);
        let usage = node.runtime.usage(&"pod".to_owned()).await.unwrap();
        assert!(usage.is_empty());
        node.shutdown().await;
    }
}

/// A killed host takes all its containers with it, and the next one knows them from the journal.
#[tokio::test]
async fn killing_the_host_kills_its_containers() {
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        let mut spec = shell("main", "setsid sleep 1000 & setsid sleep 1000 & echo ready; wait");
        spec.env = vec![("MARK".to_owned(), node.directory.path().display().to_string())];
        let record = node.start(spec).await;
        node.log_has(&record.id, "ready").await;
        let host = rustix::process::Pid::from_raw(node.host_pid()).unwrap();
        rustix::process::kill_process(host, rustix::process::Signal::KILL).unwrap();
        soon("relist", async { while node.events.recv().await != Some(RuntimeEvent::Relist) {} }).await;
        until("everything is gone", || !alive(record.pid.unwrap())).await;
        let pod = node.runtime.inspect(&"pod".to_owned()).await.unwrap().unwrap();
        assert!(!pod.ready, "its namespaces are gone");
        assert_eq!(pod.containers[0].exit.as_ref().unwrap().exit_code, 137);
        // A recreated sandbox retains the records of ended containers.
        node.runtime.run_sandbox(sandbox("pod")).await.unwrap();
        let again = node.start(ContainerSpec { attempt: 1, ..shell("main", "exit 0") }).await;
        assert_eq!(node.exit(&again.id).await.exit_code, 0);
        assert_eq!(node.record(&record.id).await.exit.unwrap().exit_code, 137);
        node.shutdown().await;
    }
}

/// Sleepers that forked twice, lead a session of their own and have nothing of their container's environment, one of
/// them under another name.
fn hide(seconds: u32) -> String {
    format!(
        "for n in 1 2; do env -i setsid sh -c '(exec env -i setsid sleep {seconds} </dev/null >/dev/null 2>&1 &) ; exit 0'; done; \
         env -i bash -c '(exec -a kworker setsid sleep {seconds} </dev/null >/dev/null 2>&1 &)'; "
    )
}

/// POD-10: neither descent, session, environment nor name identify these; the container's own containment does.
#[tokio::test]
async fn nothing_escapes_that_hides_from_its_container() {
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        let (killed, left, exec) = (seconds_of_its_own(), seconds_of_its_own(), seconds_of_its_own());
        let record = node.start(shell("killed", &format!("{} sleep 1000", hide(killed)))).await;
        until("hidden", || sleeping(killed) == 3).await;
        let command = words(&["sh", "-c", &hide(exec)]);
        node.runtime.exec_sync(&record.id, command, Duration::from_mins(1)).await.unwrap();
        node.runtime.kill_container(&record.id).await.unwrap();
        node.exit(&record.id).await;
        assert_eq!((sleeping(killed), sleeping(exec)), (0, 0), "namespaces: {namespaces}");

        let record = node.start(shell("left", &format!("{} exit 5", hide(left)))).await;
        assert_eq!(node.exit(&record.id).await.exit_code, 5);
        assert_eq!(sleeping(left), 0, "namespaces: {namespaces}");
        node.shutdown().await;
    }
}

/// SAFE-3: the same when the host is killed.
#[tokio::test]
async fn nothing_that_hides_outlives_its_host() {
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        let hidden = seconds_of_its_own();
        node.start(shell("main", &format!("{} sleep 1000", hide(hidden)))).await;
        until("hidden", || sleeping(hidden) == 3).await;
        let host = rustix::process::Pid::from_raw(node.host_pid()).unwrap();
        rustix::process::kill_process(host, rustix::process::Signal::KILL).unwrap();
        until("everything is gone", || sleeping(hidden) == 0).await;
        soon("relist", async { while node.events.recv().await != Some(RuntimeEvent::Relist) {} }).await;
        node.shutdown().await;
    }
}

/// POD-10: without namespaces, a container can kill the process that contains it; the container dies with it.
#[tokio::test]
async fn a_container_that_kills_its_keeper_dies_with_it() {
    let mut node = Node::new(false).await;
    let hidden = seconds_of_its_own();
    let script = format!("{} until kill -9 $PPID; do :; done; sleep 1000", hide(hidden));
    let record = node.start(shell("main", &script)).await;
    let exit = node.exit(&record.id).await;
    assert_eq!((exit.exit_code, exit.signal), (137, Some(9)));
    assert_eq!(sleeping(hidden), 0);
    node.shutdown().await;
}

/// POD-10: containers that share processes still end one by one.
#[tokio::test]
async fn a_container_among_shared_processes_takes_only_its_own() {
    let mut node = Node::new(true).await;
    node.runtime
        .run_sandbox(SandboxSpec { share_process_namespace: true, ..sandbox("shared") })
        .await
        .unwrap();
    let (one, other) = (seconds_of_its_own(), seconds_of_its_own());
    let shared =
        |name: &str, script: String| ContainerSpec { pod_uid: "shared".to_owned(), ..shell(name, &script) };
    let killed = node.start(shared("killed", format!("{} sleep 1000", hide(one)))).await;
    let stays = node.start(shared("stays", format!("{} sleep 1000", hide(other)))).await;
    until("hidden", || (sleeping(one), sleeping(other)) == (3, 3)).await;
    node.runtime.kill_container(&killed.id).await.unwrap();
    soon("exit", async {
        while node.runtime.inspect(&"shared".to_owned()).await.unwrap().unwrap().containers[0].exit.is_none()
        {
            node.events.recv().await.unwrap();
        }
    })
    .await;
    assert_eq!((sleeping(one), sleeping(other)), (0, 3));
    assert!(alive(stays.pid.unwrap()));
    node.runtime.stop_sandbox(&"shared".to_owned()).await.unwrap();
    assert_eq!(sleeping(other), 0);
    node.shutdown().await;
}
