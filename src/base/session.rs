//! A running exec or attach session, as plain channels.
//!
//! The API hands a client's stream to whoever runs the pod and back; neither side knows the other's
//! wire. Dropping a [`Session`] detaches: an exec'd process is then killed, an attached container is
//! left alone.

use bytes::Bytes;
use tokio::sync::mpsc;

/// The size of a terminal, in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Cells in a row.
    pub columns: u16,
    /// Rows on the screen.
    pub rows: u16,
}

/// What a client sends into a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionInput {
    /// Bytes for the process' standard input (or its terminal).
    Stdin(Bytes),
    /// The client has no more input: end of file.
    StdinClosed,
    /// The client's terminal has a new size.
    Resize(TerminalSize),
}

/// What a session sends to its client; the last message is `Exited` or `Failed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOutput {
    /// Bytes from standard output (with a terminal: everything it shows).
    Stdout(Bytes),
    /// Bytes from standard error; never with a terminal.
    Stderr(Bytes),
    /// The process ended with this exit code (128 + signal when a signal ended it).
    Exited(i32),
    /// The session broke; the text is for the user.
    Failed(String),
}

/// Both ends of one exec or attach, held by the client's side.
#[derive(Debug)]
pub struct Session {
    /// Towards the process.
    pub input: mpsc::Sender<SessionInput>,
    /// From the process.
    pub output: mpsc::Receiver<SessionOutput>,
}

/// Which standard streams a client wants, and whether over a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStreams {
    /// The client sends input.
    pub stdin: bool,
    /// The client wants standard output.
    pub stdout: bool,
    /// The client wants standard error; ignored with a terminal.
    pub stderr: bool,
    /// The process gets a terminal.
    pub tty: bool,
}
