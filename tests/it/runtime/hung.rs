//! Hosts that do not answer, or are overloaded: no caller waits forever.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use podium::base::optional_file::read_optional_bytes;
use podium::base::session::SessionStreams;
use podium::images::Catalogue;
use podium::kubelet::runtime::{
    ContainerSpec, HostLife, ProcessConfig, ProcessRuntime, Runtime, RuntimeError,
};
use rustix::process::{Pid, Signal, kill_process};

use super::node::{Node, config, left_in, modes, sandbox, shell, soon, until, words};
use crate::instance::{HostDirectory, seconds_of_its_own};

impl Node {
    /// A node with a short timeout for its host's responses.
    async fn impatient(life: HostLife, namespaces: bool) -> Self {
        let directory = HostDirectory::new();
        let config = ProcessConfig {
            request_timeout: Duration::from_secs(1),
            status_timeout: Duration::from_millis(500),
            ..config(&directory.path().join("node"), life, namespaces)
        };
        let catalogue = Arc::new(Catalogue::new(Vec::new(), "CONFIG"));
        let runtime = soon("host", ProcessRuntime::start(config, catalogue)).await.unwrap();
        let events = runtime.events();
        let node = Self { runtime, events, directory, namespaces };
        // A slow machine may need more than one try.
        soon("sandbox", async { while node.runtime.run_sandbox(sandbox("pod")).await.is_err() {} }).await;
        node
    }

    fn signal_host(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.host_pid()).unwrap(), signal).unwrap();
    }
}

fn is_silence<T: std::fmt::Debug>(answer: Result<T, RuntimeError>) -> bool {
    match answer {
        Err(RuntimeError::Host(text)) => text.starts_with("no answer within"),
        other => panic!("{other:?}"),
    }
}

/// Calls and sessions end with an error, and the host is used again when it resumes.
#[tokio::test]
async fn a_host_that_does_not_answer_is_an_error_and_no_wait() {
    let node = Node::impatient(HostLife::Ephemeral, true).await;
    let container = soon("start", async {
        loop {
            if let Ok(record) = node.runtime.start_container(shell("main", "sleep 1000")).await {
                return record;
            }
        }
    })
    .await;
    node.signal_host(Signal::STOP);
    assert!(is_silence(soon("status", node.runtime.status()).await));
    assert!(is_silence(soon("list", node.runtime.list()).await));
    let stop = node.runtime.terminate_container(&container.id);
    assert!(is_silence(soon("terminate", stop).await));
    let streams = SessionStreams { stdin: true, stdout: true, stderr: false, tty: true };
    let exec = soon("exec", node.runtime.exec(&container.id, words(&["true"]), streams)).await;
    assert!(matches!(exec.map(drop), Err(RuntimeError::Host(_))));
    let attach = soon("attach", node.runtime.attach(&container.id, streams)).await;
    assert!(matches!(attach.map(drop), Err(RuntimeError::Host(_))));
    let command = node.runtime.exec_sync(&container.id, words(&["true"]), Duration::from_millis(100));
    assert!(is_silence(soon("command", command).await));
    node.signal_host(Signal::CONT);
    soon("an answer", async { while node.runtime.list().await.is_err() {} }).await;
    node.shutdown().await;
}

/// Stopping does not depend on the host (SAFE-3).
#[tokio::test]
async fn a_host_that_does_not_answer_is_killed_with_all_it_holds() {
    for namespaces in modes().await {
        let node = Node::impatient(HostLife::Ephemeral, namespaces).await;
        let script = "trap '' TERM; (setsid env -i sleep 1000 &); setsid sleep 1000 & sleep 1000";
        soon("start", async { while node.runtime.start_container(shell("main", script)).await.is_err() {} })
            .await;
        node.signal_host(Signal::STOP);
        soon("shutdown", node.runtime.shutdown()).await.unwrap();
        assert_eq!(left_in(node.directory.path()), BTreeSet::new(), "namespaces: {namespaces}");
    }
}

/// A suspended host does not delay a start, and can be ended all the same.
#[tokio::test]
async fn a_start_beside_a_host_that_does_not_answer_fails_and_ending_it_does_not() {
    let node = Node::impatient(HostLife::Independent, true).await;
    node.signal_host(Signal::STOP);
    let pid = node.host_pid();
    let Node { runtime, directory, .. } = node;
    // The control plane is gone, as after kill -9.
    drop(runtime);
    let config = || ProcessConfig {
        status_timeout: Duration::from_millis(500),
        ..config(&directory.path().join("node"), HostLife::Independent, true)
    };
    let catalogue = || Arc::new(Catalogue::new(Vec::new(), "CONFIG"));
    let error = soon("start", ProcessRuntime::start(config(), catalogue())).await.err().unwrap().to_string();
    assert!(error.contains("does not answer within"), "{error}");
    assert!(error.contains(&format!("(pid {pid})")), "{error}");
    soon("end", ProcessRuntime::end(config(), catalogue())).await.unwrap();
    assert_eq!(left_in(directory.path()), BTreeSet::new());
}

/// A request above the limit used to make the node's connection unusable.
#[tokio::test]
async fn a_request_that_is_too_long_is_refused_and_the_next_is_answered() {
    let node = Node::new(true).await;
    let env = vec![("A".to_owned(), "x".repeat(70 << 20))];
    let spec = ContainerSpec { env, ..shell("main", "exit 0") };
    let error = soon("refusal", node.runtime.start_container(spec)).await.unwrap_err();
    assert!(error.to_string().contains("the frame is longer than"), "{error}");
    assert_eq!(soon("list", node.runtime.list()).await.unwrap().len(), 1);
    node.shutdown().await;
}

/// After kill -9 of the control plane, the running hook continued beside the next control plane's.
#[tokio::test]
async fn a_command_ends_with_the_control_plane_that_started_it() {
    for namespaces in modes().await {
        let node = Node::with_life(HostLife::Independent, namespaces).await;
        let container = node.sh("sleep 1000").await;
        let mark = seconds_of_its_own().to_string();
        let hook = node.runtime.exec_sync(&container.id, words(&["sleep", &mark]), Duration::from_hours(1));
        tokio::select! {
            _ = hook => panic!("the hook ended"),
            () = until("the hook", || !pids_of(&mark).is_empty()) => {}
        }
        let Node { runtime, directory, .. } = node;
        drop(runtime);
        until("its end", || pids_of(&mark).is_empty()).await;
        let next =
            super::node::runtime(&directory.path().join("node"), HostLife::Independent, namespaces).await;
        let record = next.inspect(&"pod".to_owned()).await.unwrap().unwrap();
        assert!(record.containers[0].exit.is_none(), "the container itself goes on");
        soon("shutdown", next.shutdown()).await.unwrap();
    }
}

/// The processes with this argument.
fn pids_of(word: &str) -> BTreeSet<i32> {
    let has = |pid: &i32| {
        let words = read_optional_bytes(format!("/proc/{pid}/cmdline"));
        words.split(|byte| *byte == 0).any(|found| found == word.as_bytes())
    };
    super::node::pids().into_iter().filter(has).collect()
}
