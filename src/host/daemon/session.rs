//! Clients of commands and of containers' own streams: their input, their output, and the end of either side.

use std::rc::Rc;

use bytes::Bytes;
use tokio::io::Interest;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::Host;
use super::container::Container;
use super::exec::Exec;
use super::io::END_OF_FILE;
use super::pipe_end::PipeEnd;
use crate::protocol;
use base::session::{SessionInput, SessionOutput, SessionStreams};

/// The chunk size of earlier output.
const PIECE_BYTES: usize = 32 << 10;

impl Host {
    /// Serves a client's exec until the command ends or the client disconnects.
    pub(super) async fn serve_exec(mut exec: Exec, reader: OwnedReadHalf, writer: OwnedWriteHalf) {
        let outputs = exec.pump();
        let end_of_input = if exec.terminal.is_some() { END_OF_FILE } else { &[] };
        let input = feed_input(reader, exec.input.take(), exec.terminal.clone(), end_of_input, || {});
        tokio::select! {
            () = send_outputs(outputs, writer) => {}
            () = input => {}
        }
    }

    /// Serves a client attached to a container's own streams.
    pub(super) async fn serve_attach(
        container: Rc<Container>,
        streams: SessionStreams,
        reader: OwnedReadHalf,
        writer: OwnedWriteHalf,
    ) {
        let terminal = container.streams.terminal.clone();
        let (stdout, stderr) = (streams.stdout, streams.stderr && terminal.is_none());
        // Without an await in between: output goes either to the earlier part or to the live one, never to both.
        let output = container.streams.buffered_output(container.has_just_started());
        let mut tap = container.streams.tap(stdout, stderr);
        let (sender, outputs) = mpsc::channel(1);
        let watched = Rc::clone(&container);
        let relay = tokio::task::spawn_local(async move {
            let is_requested = |piece: &SessionOutput| match piece {
                SessionOutput::Stdout(_) => stdout,
                _ => stderr,
            };
            for piece in output.into_iter().filter(is_requested).flat_map(in_pieces) {
                if sender.send(piece).await.is_err() {
                    return;
                }
            }
            while let Some(piece) = tap.recv().await {
                if sender.send(piece).await.is_err() {
                    return;
                }
            }
            if watched.streams.are_over() {
                watched.wait_exited().await;
            }
            // The output ends because the container has ended, or because the client read too slowly.
            let last = match &watched.record.borrow().exit {
                Some(exit) => SessionOutput::Exited(exit.exit_code),
                None => SessionOutput::Failed("the client was too slow to read".to_owned()),
            };
            // The client may have disconnected too.
            let _ = sender.send(last).await;
        });
        let input = if streams.stdin { container.streams.input() } else { None };
        let closed = || container.streams.close_input();
        tokio::select! {
            () = send_outputs(outputs, writer) => {}
            () = feed_input(reader, input, terminal, container.streams.end_of_input(), closed) => {}
        }
        relay.abort();
        if streams.stdin {
            container.streams.close_input();
        }
    }
}

/// Splits output into frames of the size in which programs write.
fn in_pieces(output: SessionOutput) -> Vec<SessionOutput> {
    let cut =
        |bytes: &Bytes| -> Vec<Bytes> { bytes.chunks(PIECE_BYTES).map(Bytes::copy_from_slice).collect() };
    match output {
        SessionOutput::Stdout(bytes) => cut(&bytes).into_iter().map(SessionOutput::Stdout).collect(),
        SessionOutput::Stderr(bytes) => cut(&bytes).into_iter().map(SessionOutput::Stderr).collect(),
        other => vec![other],
    }
}

/// Sends the output to the client until the last output, or until the client disconnects.
async fn send_outputs(mut outputs: mpsc::Receiver<SessionOutput>, mut writer: OwnedWriteHalf) {
    while let Some(output) = outputs.recv().await {
        if protocol::write_output(&mut writer, &output).await.is_err() {
            return;
        }
    }
}

/// Passes the client's input to the program until the client disconnects. At the end of the input, writes
/// `end_of_input` and continues.
async fn feed_input(
    mut reader: OwnedReadHalf,
    mut input: Option<Rc<PipeEnd>>,
    terminal: Option<Rc<PipeEnd>>,
    end_of_input: &[u8],
    closed: impl Fn(),
) {
    while let Ok(Some(message)) = protocol::read_input(&mut reader).await {
        match message {
            SessionInput::Stdin(bytes) => {
                if let Some(wire) = &input {
                    // Even if a program reads nothing, the disconnection of its client must be noticed.
                    let written = tokio::select! {
                        written = wire.write_all(&bytes) => written,
                        () = hung_up(&reader) => return,
                    };
                    if written.is_err() {
                        // The program closed its input; further input is discarded.
                        input = None;
                    }
                }
            }
            SessionInput::StdinClosed => {
                if let Some(wire) = &input
                    && !end_of_input.is_empty()
                {
                    let _ = wire.write_all(end_of_input).await;
                }
                input = None;
                closed();
            }
            SessionInput::Resize(size) => {
                if let Some(terminal) = &terminal {
                    terminal.resize(size);
                }
            }
        }
    }
}

/// Returns when the other side has closed, even if data it has sent is still to be read.
async fn hung_up(reader: &OwnedReadHalf) {
    // A socket has no urgent bytes: of the events that this waits for, only the end can come.
    let _ = reader.ready(Interest::PRIORITY).await;
}
