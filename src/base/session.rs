//! A running exec or attach session, as plain channels.
//!
//! The API passes a client's stream to the kubelet that runs the pod, and back; neither side knows the other's
//! protocol. Dropping a [`Session`] detaches: an exec'd process is then killed, an attached container keeps running.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// The size of a terminal, in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Cells in a row.
    pub columns: u16,
    /// Rows on the screen.
    pub rows: u16,
}

/// A message from the client to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionInput {
    /// Bytes for the process' standard input (or its terminal).
    Stdin(Bytes),
    /// The client's input has ended.
    StdinClosed,
    /// The client's terminal has a new size.
    Resize(TerminalSize),
}

/// A message from a session to its client; the last one is `Exited` or `Failed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOutput {
    /// Bytes from standard output (with a terminal: everything it shows).
    Stdout(Bytes),
    /// Bytes from standard error; never with a terminal.
    Stderr(Bytes),
    /// The process exited with this code (128 + signal if a signal ended it).
    Exited(i32),
    /// The session failed; the text is for the user.
    Failed(String),
}

/// The client's side of an exec or attach session.
#[derive(Debug)]
pub struct Session {
    /// Sends to the process.
    pub input: mpsc::Sender<SessionInput>,
    /// Receives from the process.
    pub output: mpsc::Receiver<SessionOutput>,
}

/// The standard streams a client requests, and the request for a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStreams {
    /// The client sends input.
    pub stdin: bool,
    /// The client requests standard output.
    pub stdout: bool,
    /// The client requests standard error; ignored with a terminal.
    pub stderr: bool,
    /// The process gets a terminal.
    pub tty: bool,
}
