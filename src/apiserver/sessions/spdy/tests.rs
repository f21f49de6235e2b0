//! Exec and attach over SPDY, with a client that uses the same codec.

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::spdy::client::Client;
use base::session::TerminalSize;

/// The process' side of a session.
struct Process {
    input: mpsc::Receiver<SessionInput>,
    output: mpsc::Sender<SessionOutput>,
}

const ALL: SessionStreams = SessionStreams { stdin: true, stdout: true, stderr: true, tty: false };
const TERMINAL: SessionStreams = SessionStreams { stdin: true, stdout: true, stderr: true, tty: true };

fn start(protocol: &'static str, streams: SessionStreams) -> (Client, Process, JoinHandle<()>) {
    let (near, far) = tokio::io::duplex(4096);
    let (input, inputs) = mpsc::channel(8);
    let (outputs, output) = mpsc::channel(8);
    let session = Session { input, output };
    let server = tokio::spawn(serve_session(far, protocol, streams, session, ExitReport::ExitCode));
    (Client::new(near), Process { input: inputs, output: outputs }, server)
}

async fn open(client: &mut Client, kinds: &[&str]) -> Vec<u32> {
    let mut ids = Vec::new();
    for kind in kinds {
        ids.push(client.open([("streamType", *kind)]));
    }
    client.until("streams are accepted", |c| ids.iter().all(|id| c.content(*id).accepted)).await;
    ids
}

/// `cat`, which then ends with a code.
async fn cat(mut process: Process, code: i32) {
    while let Some(input) = process.input.recv().await {
        match input {
            SessionInput::Stdin(bytes) => process.output.send(SessionOutput::Stdout(bytes)).await.unwrap(),
            SessionInput::StdinClosed => break,
            SessionInput::Resize(_) => {}
        }
    }
    process.output.send(SessionOutput::Stderr("done".into())).await.unwrap();
    process.output.send(SessionOutput::Exited(code)).await.unwrap();
}

#[tokio::test]
async fn megabytes_go_through_and_the_code_comes_back_eph_2() {
    let (mut client, process, server) = start("v4.channel.k8s.io", ALL);
    tokio::spawn(cat(process, 7));
    let ids = open(&mut client, &["error", "stdin", "stdout", "stderr"]).await;
    let [error, stdin, stdout, stderr] = ids[..] else { panic!() };
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    for piece in sent.chunks(10_000) {
        client.send(stdin, Bytes::copy_from_slice(piece)).await;
    }
    assert!(!client.content(stdin).finished, "our half stays open while the process runs");
    client.finish(stdin);
    client.until("the end", |c| ids.iter().all(|id| c.content(*id).finished)).await;
    assert!(client.content(stdout).data == sent);
    assert_eq!(client.content(stderr).data, b"done");
    let status: Value = serde_json::from_slice(&client.content(error).data).unwrap();
    assert_eq!(status["details"]["causes"][0]["message"], "7");
    drop(client);
    server.await.unwrap();
}

#[tokio::test]
async fn before_the_fourth_version_failure_is_text_eph_2() {
    for (protocol, code, expected) in [
        ("channel.k8s.io", 3, "command terminated with non-zero exit code: exit status 3"),
        ("v2.channel.k8s.io", 0, ""),
    ] {
        let (mut client, process, _server) = start(protocol, ALL);
        tokio::spawn(cat(process, code));
        let ids = open(&mut client, &["error", "stdin", "stdout", "stderr"]).await;
        client.finish(ids[1]);
        client.until("the end", |c| c.content(ids[0]).finished).await;
        assert_eq!(String::from_utf8_lossy(&client.content(ids[0]).data), expected);
    }
}

#[tokio::test]
async fn a_terminal_is_resized_and_has_no_stderr_eph_2() {
    let (mut client, mut process, _server) = start("v4.channel.k8s.io", TERMINAL);
    let ids = open(&mut client, &["error", "stdin", "stdout", "resize"]).await;
    client.send(ids[3], "{\"Width\":100,\"Height\":30}\n".into()).await;
    let size = TerminalSize { columns: 100, rows: 30 };
    assert_eq!(process.input.recv().await, Some(SessionInput::Resize(size)));
}

#[tokio::test]
async fn unexpected_streams_are_refused_api_3() {
    let (mut client, process, _server) = start("v4.channel.k8s.io", ALL);
    let nonsense = client.open([("streamType", "nonsense")]);
    let ids = open(&mut client, &["error", "stdin", "stdout", "stderr"]).await;
    let late = client.open([("streamType", "stdin")]);
    client.until("both are refused", |c| c.content(nonsense).closed && c.content(late).closed).await;
    tokio::spawn(cat(process, 0));
    client.finish(ids[1]);
    client.until("the end", |c| c.content(ids[0]).finished).await;
}

#[tokio::test]
async fn a_client_that_leaves_detaches_eph_2() {
    let (mut client, process, server) = start("v4.channel.k8s.io", ALL);
    open(&mut client, &["error", "stdin", "stdout", "stderr"]).await;
    drop(client);
    process.output.closed().await;
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_opens_no_streams_is_let_go_sec_2() {
    let (mut client, process, server) = start("v4.channel.k8s.io", ALL);
    open(&mut client, &["error", "stdin"]).await;
    process.output.closed().await;
    drop(client);
    server.await.unwrap();
}

#[tokio::test]
async fn a_process_that_does_not_read_holds_its_client_back_sec_2() {
    let (mut client, mut process, _server) = start("v4.channel.k8s.io", ALL);
    let ids = open(&mut client, &["error", "stdin", "stdout", "stderr"]).await;
    let total = 8 << 20;
    let writing = tokio::spawn(async move {
        for _ in 0..total / 65_536 {
            client.send(ids[1], Bytes::from(vec![1; 65_536])).await;
        }
        client.finish(ids[1]);
        client.until("the end", |c| c.content(ids[0]).finished).await;
    });
    // The channel to the process is full, and so are all buffers before it.
    let full = async {
        while process.input.len() < 8 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), full).await.expect("the channel is full");
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(!writing.is_finished());
    let mut read = 0;
    while let Some(SessionInput::Stdin(bytes)) = process.input.recv().await {
        read += bytes.len();
    }
    assert_eq!(read, total);
    process.output.send(SessionOutput::Exited(0)).await.unwrap();
    writing.await.unwrap();
}
