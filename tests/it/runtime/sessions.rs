//! Commands in containers, attached clients and debuggers.

use std::time::Duration;

use bytes::Bytes;
use podium::base::session::{Session, SessionInput, SessionOutput, SessionStreams, TerminalSize};
use podium::kubelet::runtime::{ContainerSpec, Runtime, RuntimeError};

use super::node::{Node, alive, modes, shell, soon, words};

async fn collect(session: &mut Session) -> (String, i32) {
    let mut text = String::new();
    soon("exit", async {
        loop {
            match session.output.recv().await {
                Some(SessionOutput::Stdout(bytes) | SessionOutput::Stderr(bytes)) => {
                    text.push_str(&String::from_utf8_lossy(&bytes));
                }
                Some(SessionOutput::Exited(code)) => return code,
                other => panic!("{other:?} after {text}"),
            }
        }
    })
    .await
    .pipe(|code| (text, code))
}

trait Pipe: Sized {
    fn pipe<T>(self, into: impl FnOnce(Self) -> T) -> T {
        into(self)
    }
}
impl<T> Pipe for T {}

/// EPH-2: a real terminal: size, Ctrl-C, exit code.
#[tokio::test]
async fn exec_gives_a_terminal() {
    for namespaces in modes().await {
        let node = Node::new(namespaces).await;
        let record = node.sh("sleep 1000").await;
        let streams = SessionStreams { stdin: true, stdout: true, stderr: false, tty: true };
        let script = "trap 'stty size; exit 5' INT; echo ready; while :; do sleep 0.05; done";
        let mut session = node.runtime.exec(&record.id, words(&["sh", "-c", script]), streams).await.unwrap();
        session.input.send(SessionInput::Resize(TerminalSize { columns: 91, rows: 17 })).await.unwrap();
        let mut seen = String::new();
        while !seen.contains("ready") {
            match soon("ready", session.output.recv()).await {
                Some(SessionOutput::Stdout(bytes)) => seen.push_str(&String::from_utf8_lossy(&bytes)),
                other => panic!("{other:?}"),
            }
        }
        session.input.send(SessionInput::Stdin(Bytes::from_static(b"\x03"))).await.unwrap();
        let (text, code) = collect(&mut session).await;
        assert!(text.contains("17 91"), "{text}");
        assert_eq!(code, 5);
        node.shutdown().await;
    }
}

#[tokio::test]
async fn exec_without_a_terminal_has_three_streams_and_a_half_close() {
    let node = Node::new(true).await;
    let mut spec = shell("main", "sleep 1000");
    spec.env = vec![("COLOR".to_owned(), "blue".to_owned())];
    let record = node.start(spec).await;
    let streams = SessionStreams { stdin: true, stdout: true, stderr: true, tty: false };
    let command = words(&["sh", "-c", "cat; echo $COLOR >&2; hostname; exit 4"]);
    let mut session = node.runtime.exec(&record.id, command, streams).await.unwrap();
    let big = "x".repeat(1 << 20);
    let feed = session.input.clone();
    let text = Bytes::from(big.clone());
    tokio::spawn(async move {
        feed.send(SessionInput::Stdin(text)).await.unwrap();
        feed.send(SessionInput::StdinClosed).await.unwrap();
    });
    let (output, code) = collect(&mut session).await;
    assert_eq!(code, 4);
    assert_eq!(output.matches('x').count(), big.len());
    assert!(output.contains("blue"));

    let missing = node.runtime.exec(&record.id, words(&["nope"]), streams).await;
    assert!(matches!(missing, Err(RuntimeError::StartFailed(text)) if text.contains("not found in $PATH")));

    let output =
        node.runtime.exec_sync(&record.id, words(&["sh", "-c", "echo hi; exit 2"]), Duration::from_mins(1));
    let output = output.await.unwrap();
    assert_eq!((output.exit_code, &output.output[..]), (2, &b"hi\n"[..]));
    let command = words(&["sh", "-c", "sleep 1000 & wait"]);
    let timeout = Duration::from_millis(100);
    assert_eq!(
        node.runtime.exec_sync(&record.id, command, timeout).await,
        Err(RuntimeError::Timeout(timeout))
    );
    soon("killed", async {
        while node.runtime.usage(&"pod".to_owned()).await.unwrap()["main"].processes > 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    node.shutdown().await;
}

#[tokio::test]
async fn attach_follows_the_containers_own_streams() {
    let mut node = Node::new(true).await;
    let mut spec = shell("main", "while read line; do echo got $line; done; exit 6");
    spec.stdin = true;
    spec.stdin_once = true;
    let record = node.start(spec).await;
    let streams = SessionStreams { stdin: true, stdout: true, stderr: true, tty: false };
    let mut session = node.runtime.attach(&record.id, streams).await.unwrap();
    session.input.send(SessionInput::Stdin(Bytes::from_static(b"one\ntwo\n"))).await.unwrap();
    session.input.send(SessionInput::StdinClosed).await.unwrap();
    let (text, code) = collect(&mut session).await;
    assert_eq!((text.as_str(), code), ("got one\ngot two\n", 6));
    assert_eq!(node.exit(&record.id).await.exit_code, 6);
    node.shutdown().await;
}

/// The output of a container before its first client is not lost, and all output of an ended container is sent; a
/// later client sees new output (API-3).
#[tokio::test]
async fn the_first_client_gets_the_output_written_before_it_attached() {
    let mut node = Node::new(true).await;
    let streams = SessionStreams { stdin: false, stdout: true, stderr: true, tty: false };
    let ended = node.start(shell("ended", "echo yo; echo oops >&2; printf end; exit 3")).await;
    node.exit(&ended.id).await;
    let mut session = node.runtime.attach(&ended.id, streams).await.unwrap();
    let (text, code) = collect(&mut session).await;
    // The two outputs are independent: their order is not defined.
    assert!(text.contains("oops\n"), "{text}");
    assert_eq!((text.replace("oops\n", "").as_str(), code), ("yo\nend", 3));
    let only_errors = SessionStreams { stdout: false, ..streams };
    let mut session = node.runtime.attach(&ended.id, only_errors).await.unwrap();
    assert_eq!(collect(&mut session).await, ("oops\n".to_owned(), 3));

    let mut runs = shell("runs", "echo early; printf '$ '; read line; echo got $line; exit 4");
    runs.stdin = true;
    let record = node.start(runs).await;
    node.log_has(&record.id, "F early\n").await;
    let with_input = SessionStreams { stdin: true, ..streams };
    let mut first = node.runtime.attach(&record.id, with_input).await.unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"$ ") {
        match first.output.recv().await.unwrap() {
            SessionOutput::Stdout(bytes) => received.extend_from_slice(&bytes),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, b"early\n$ ");
    let mut second = node.runtime.attach(&record.id, streams).await.unwrap();
    first.input.send(SessionInput::Stdin(Bytes::from_static(b"one\n"))).await.unwrap();
    assert_eq!(collect(&mut first).await, ("got one\n".to_owned(), 4));
    assert_eq!(collect(&mut second).await, ("got one\n".to_owned(), 4));
    node.shutdown().await;
}

/// EPH-3: a debugger beside its target, alive or dead.
#[tokio::test]
async fn a_debugger_sees_its_target() {
    let mut node = Node::new(true).await;
    let mut target = shell("app", "touch /made-by-app; echo started; sleep 1000");
    target.env = vec![("COLOR".to_owned(), "blue".to_owned())];
    target.working_dir = Some("/etc".into());
    let target = node.start(target).await;
    node.log_has(&target.id, "started").await;
    let script = "echo $COLOR; pwd; tr '\\0' ' ' </proc/$TARGET_PID/cmdline; echo; ls $TARGET_ROOT; tail -n1 $TARGET_LOG";
    let debugger =
        |name: &str, script: &str| ContainerSpec { target: Some("app".to_owned()), ..shell(name, script) };
    let record = node.start(debugger("debug", script)).await;
    node.exit(&record.id).await;
    let log = node.log(&record.id).await;
    for text in ["F blue\n", "F /etc\n", "F sh -c", "F started", "stdout F 2"] {
        assert!(text.is_empty() || log.contains(text), "{text} in {log}");
    }
    assert!(alive(target.pid.unwrap()), "the debugger's end is not the target's");
    node.runtime.kill_container(&target.id).await.unwrap();
    node.exit(&target.id).await;
    let record = node.start(debugger("later", "echo $COLOR; ls $TARGET_ROOT; tail -n1 $TARGET_LOG")).await;
    node.exit(&record.id).await;
    let log = node.log(&record.id).await;
    assert!(log.contains("F blue\n") && log.contains("started"), "{log}");
    node.shutdown().await;
}
