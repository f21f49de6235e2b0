//! The processes of Podium in the PID namespaces of containers: a container with the capability SYS_PTRACE finds nothing
//! of the machine there (POD-16, SEC-2).

use podium::kubelet::runtime::{ContainerRecord, ContainerSpec, Runtime, SandboxSpec};

use super::node::{Node, sandbox, shell, words};
use crate::needs::{Need, lacks};

/// Looks in every process of the PID namespace for a file of the machine, through its root, its working directory and its
/// descriptors, until another container ends it.
const SEARCH: &str = r#"
look() {
    for process in /proc/[0-9]*; do
        for place in $process/root $process/cwd $process/fd/*; do
            if [ -e $place$SECRET ]; then echo "REACHED $place $(cat $process/comm)"; fi
        done
    done 2>/dev/null
}
look
for process in /proc/[0-9]*; do
    if [ "$(cat $process/comm)" = pause ]; then
        echo "pause ${process#/proc/}" $(ls $process/fd | wc -l) \
            $(sed -n 's/^\(CapInh\|CapPrm\|CapEff\|CapBnd\|CapAmb\|NoNewPrivs\):\t//p' $process/status)
    fi
done
echo "root $(ls -A /proc/1/root 2>&1 | wc -l) $(readlink /proc/1/root) $(readlink /proc/1/cwd)"
for kind in uts ipc net pid; do
    if [ "$(readlink /proc/1/ns/$kind)" != "$(readlink /proc/self/ns/$kind)" ]; then echo "other $kind"; fi
done
echo watching
until [ -e /dev/shm/stop ]; do look; done
echo over
"#;

/// The number and the descriptors of each `pause`, which has no rights.
fn pauses(log: &str) -> Vec<(u32, u32)> {
    let lines = log.lines().filter_map(|line| line.split_once("F pause ").map(|(_, text)| text));
    let read = |text: &str| {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let none = "0000000000000000";
        assert_eq!(fields[2..], [none, none, none, none, none, "1"], "{log}");
        (fields[0].parse().unwrap(), fields[1].parse().unwrap())
    };
    lines.map(read).collect()
}

/// Starts a container that searches for the machine's files, while commands and containers start beside it.
async fn search(node: &mut Node, pod: &str, main: &ContainerRecord, target: Option<&str>) -> String {
    let secret = node.directory.path().join("secret");
    std::fs::write(&secret, "x").unwrap();
    let spec = |name: &str, script: &str| ContainerSpec {
        pod_uid: pod.to_owned(),
        target: target.map(str::to_owned),
        ..shell(name, script)
    };
    let mut tracer = spec("tracer", SEARCH);
    tracer.env = vec![("SECRET".to_owned(), secret.to_str().unwrap().to_owned())];
    tracer.security.add_capabilities = vec!["SYS_PTRACE".to_owned()];
    let tracer = node.start(tracer).await;
    node.log_has(&tracer.id, "F watching\n").await;
    for number in 0..10 {
        let output = node.runtime.exec_sync(&main.id, words(&["echo", "there"]), MINUTE).await.unwrap();
        assert_eq!((output.exit_code, output.output), (0, b"there\n".to_vec()));
        node.start(spec(&format!("beside-{number}"), "exit 3")).await;
    }
    node.runtime.exec_sync(&main.id, words(&["touch", "/dev/shm/stop"]), MINUTE).await.unwrap();
    node.log_has(&tracer.id, "F over\n").await;
    let log = node.log(&tracer.id).await;
    assert!(!log.contains("REACHED"), "{log}");
    log
}

const MINUTE: std::time::Duration = std::time::Duration::from_mins(1);

/// POD-16: in a PID namespace that containers share, pid 1 and the subreapers have an empty root or the container's, the
/// pod's namespaces, and no rights; nothing of the machine is ever in reach.
#[tokio::test]
async fn a_tracer_finds_nothing_of_the_machine_among_shared_processes() {
    let mut node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    let shared = SandboxSpec { share_process_namespace: true, ..sandbox("shared") };
    node.runtime.run_sandbox(shared).await.unwrap();
    let main = ContainerSpec { pod_uid: "shared".to_owned(), ..shell("main", "sleep 1000") };
    let main = node.start(main).await;
    let log = search(&mut node, "shared", &main, None).await;
    if rustix::process::geteuid().is_root() {
        let pauses = pauses(&log);
        assert_eq!(pauses[0], (1, 0), "{log}");
        assert!(pauses.len() >= 3 && pauses[1..].iter().all(|(_, descriptors)| *descriptors == 1), "{log}");
        assert!(log.contains("F root 0 / /\n") && !log.contains("F other"), "{log}");
    }
    node.runtime.stop_sandbox(&"shared".to_owned()).await.unwrap();
    node.shutdown().await;
}

/// POD-16: the same for a debug container in the PID namespace of its target.
#[tokio::test]
async fn a_debugger_finds_nothing_of_the_machine_beside_its_target() {
    let mut node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    let main = node.sh("sleep 1000").await;
    let log = search(&mut node, "pod", &main, Some("main")).await;
    if rustix::process::geteuid().is_root() {
        assert_eq!(pauses(&log)[0], (1, 0), "{log}");
        assert!(log.contains("F root 0 / /\n") && !log.contains("F other"), "{log}");
    }
    node.shutdown().await;
}

/// POD-10, POD-16: the exit of a container among shared processes is its program's, and so is a failure to start.
#[tokio::test]
async fn containers_among_shared_processes_end_as_their_programs_do() {
    let mut node = Node::new(true).await;
    let shared = SandboxSpec { share_process_namespace: true, ..sandbox("pod-2") };
    node.runtime.run_sandbox(shared).await.unwrap();
    let of = |name: &str, script: &str| ContainerSpec { pod_uid: "pod-2".to_owned(), ..shell(name, script) };
    let is_root = rustix::process::geteuid().is_root();
    let kill = "kill -9 $PPID 2>/dev/null; kill -STOP $PPID 2>/dev/null; id -u; exit 5";
    let cases = [
        ("code", "exit 7", None, (7, None)),
        ("signal", "kill -9 $$", None, (137, Some(9))),
        ("orphan", "sleep 1000 & exit 0", None, (0, None)),
        // Another user cannot stop the subreaper.
        ("user", kill, is_root.then_some(1000), if is_root { (5, None) } else { (137, Some(9)) }),
        // Root can, and ends its own container.
        ("root", "until [ -e /dev/shm/go ]; do :; done; kill -9 $PPID; sleep 1000", None, (137, Some(9))),
    ];
    for (name, script, run_as_user, expect) in cases {
        let record = node.start(ContainerSpec { run_as_user, ..of(name, script) }).await;
        if name == "root" {
            // The command may end with the container, and its exit code is of no interest.
            node.runtime.exec_sync(&record.id, words(&["touch", "/dev/shm/go"]), MINUTE).await.unwrap();
        }
        let exit = super::node::soon("exit", async {
            loop {
                let pod = node.runtime.inspect(&"pod-2".to_owned()).await.unwrap().unwrap();
                let known = pod.containers.into_iter().find(|known| known.id == record.id).unwrap();
                if let Some(exit) = known.exit {
                    return exit;
                }
                node.events.recv().await.unwrap();
            }
        })
        .await;
        assert_eq!((exit.exit_code, exit.signal), expect, "{name}");
    }
    let mut missing = of("missing", "");
    missing.command = words(&["no-such-program"]);
    let error = node.runtime.start_container(missing.clone()).await.unwrap_err().to_string();
    assert!(error.contains("exec: \"no-such-program\": executable file not found in $PATH"), "{error}");
    // An attempt that failed does not count as being started.
    missing.command = words(&["true"]);
    node.runtime.start_container(missing).await.unwrap();
    // A stopped subreaper does not keep its container.
    let stopped = node.start(of("stopped", "kill -STOP $PPID; echo stopped; sleep 1000")).await;
    node.log_has(&stopped.id, "F stopped\n").await;
    super::node::soon("kill", node.runtime.kill_container(&stopped.id)).await.unwrap();
    node.runtime.stop_sandbox(&"pod-2".to_owned()).await.unwrap();
    node.shutdown().await;
}

/// POD-16: programs that stop all new processes of their PID namespace do not stop the node.
#[tokio::test]
async fn stopped_processes_of_a_pod_do_not_stop_its_node() {
    let node = Node::new(true).await;
    if lacks(Need::Namespaces, node.namespaces) {
        return node.shutdown().await;
    }
    let shared = SandboxSpec { share_process_namespace: true, ..sandbox("pod-2") };
    node.runtime.run_sandbox(shared).await.unwrap();
    let of = |name: &str, script: &str| ContainerSpec { pod_uid: "pod-2".to_owned(), ..shell(name, script) };
    node.start(of("stopper", "while :; do kill -STOP -1; done")).await;
    let other = node.sh("sleep 1000").await;
    let starts = async {
        for name in ["a", "b", "c"] {
            // Only the end of the pod ends an attempt whose processes are stopped.
            let _ = node.runtime.start_container(of(name, "exit 0")).await;
        }
    };
    let of_other_pod = async {
        for _ in 0..10 {
            node.runtime.exec_sync(&other.id, words(&["true"]), MINUTE).await.unwrap();
        }
        node.runtime.stop_sandbox(&"pod-2".to_owned()).await.unwrap();
    };
    super::node::soon("both pods", async { tokio::join!(starts, of_other_pod) }).await;
    node.shutdown().await;
}
