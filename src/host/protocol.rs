//! The protocol between the kubelet's side and a node's host process.
//!
//! Control connections carry length-prefixed JSON: requests one way; responses, in any order, and events the other.
//! Each exec or attach has a connection of its own: one JSON request and response, then frames of `kind, length,
//! bytes`. The first frame of a connection settles its version and purpose.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{
    ContainerId, ContainerRecord, ContainerSpec, ExecOutput, HostFaults, PodUid, Program, ResourceLimits,
    RuntimeError, SandboxRecord, SandboxSpec, Usage,
};
use fabric::SocketKind;

use base::session::{SessionInput, SessionOutput, SessionStreams, TerminalSize};

/// The version of the protocol, which must be the same on both sides.
pub const VERSION: u32 = 5;

/// Longer requests are refused before they are sent. The largest possible one starts a container: it has the arguments
/// and environment of a program (the kernel's limit is 2 MiB, in JSON six bytes for each character if all are control
/// characters), and the rest of a manifest.
pub const REQUEST_LIMIT: usize = 16 << 20;

/// Longer responses are refused before they are sent. The largest one lists a node: twelve thousand ended pods with
/// messages of 4 KiB.
pub const RESPONSE_LIMIT: usize = 64 << 20;

/// The maximum size of a chunk of a session's streams; a client's longer input is split.
const PIECE_LIMIT: usize = 64 << 10;

/// The maximum length of a chunk that is read: a host of another version may send longer ones than [`PIECE_LIMIT`].
const SESSION_LIMIT: usize = 1 << 20;

/// The first frame of a connection, from the kubelet's side.
#[derive(Debug, Serialize, Deserialize)]
pub struct Greeting {
    pub version: u32,
    pub purpose: Purpose,
}

/// The purpose of a connection.
#[derive(Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// Requests, responses and events.
    Control,
    /// A command with streams in a running container.
    Exec { id: ContainerId, command: Vec<String>, streams: SessionStreams },
    /// The container's own streams.
    Attach { id: ContainerId, streams: SessionStreams },
    /// Sockets of the node's network, or of a pod's: descriptors, with one byte after the response.
    Sockets { pod: Option<PodUid>, kind: SocketKind, count: usize },
    /// The namespaces of the node's fabric, in the same way: the network's, then the user's if there is one.
    Namespaces,
    /// The network namespace of the node, or of a pod, in the same way.
    Leaf { pod: Option<PodUid> },
}

/// The host's response to a greeting.
#[derive(Debug, Serialize, Deserialize)]
pub struct Welcome {
    pub version: u32,
    pub pid: u32,
    /// The isolation of containers, for the Node's annotations.
    pub isolation: BTreeMap<String, String>,
    /// The host's files in memory, as a path in its mount namespace.
    #[serde(default)]
    pub memory: Option<PathBuf>,
    /// The host supports [`Request::Suffer`]; hosts of earlier versions do not.
    #[serde(default)]
    pub suffers: bool,
    /// The error if the session could not be opened.
    pub refused: Option<RuntimeError>,
}

/// A container attempt with its image resolved: everything that the host needs to start it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub spec: ContainerSpec,
    pub image_id: String,
    /// The image as the container's status names it (`repository@sha256:HEX`); its id if this is empty.
    #[serde(default)]
    pub image_ref: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The image's environment; the spec's variables take precedence.
    pub image_env: Vec<(String, String)>,
    pub working_dir: PathBuf,
    /// `user[:group]` of the image.
    pub user: Option<String>,
    pub stop_signal: i32,
    pub programs: Vec<(String, Program)>,
    pub directories: Vec<PathBuf>,
    /// Files that the image brings along, with their content.
    #[serde(default)]
    pub files: Vec<(PathBuf, String)>,
    pub host_view: bool,
    /// The layers of the image's own root file system, shown instead of the machine's files: the topmost one first;
    /// none without such a file system. Journals of protocol 4 have one directory or none.
    #[serde(default, alias = "image_root", deserialize_with = "layers")]
    pub image_layers: Vec<PathBuf>,
    /// A root with the machine's system directories and these installation prefixes of its programs, shown instead of
    /// all the machine's files.
    #[serde(default)]
    pub system_root: Option<Vec<PathBuf>>,
}

/// Reads a list of layers, or the one directory of an earlier version.
fn layers<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Root {
        Layers(Vec<PathBuf>),
        Directory(Option<PathBuf>),
    }
    Ok(match Root::deserialize(from)? {
        Root::Layers(layers) => layers,
        Root::Directory(directory) => directory.into_iter().collect(),
    })
}

impl Launch {
    /// The image as the container's status names it.
    pub(crate) fn shown_image(&self) -> &str {
        if self.image_ref.is_empty() { &self.image_id } else { &self.image_ref }
    }

    /// Returns true if the root of the container has the files of a loaded or pulled image.
    pub(crate) fn has_image_files(&self) -> bool {
        !self.image_layers.is_empty()
    }

    /// Returns the part that may be recorded: without the environment, the command and the content of files, which may
    /// come from Secrets, and without the filter of system calls, which may be large. The next host does not need
    /// these, because this host's processes end with this host.
    pub(crate) fn without_values(&self) -> Self {
        let mut written = self.clone();
        written.argv.clear();
        written.files.clear();
        let spec = &mut written.spec;
        (spec.env, spec.command, spec.args) = (Vec::new(), Vec::new(), Vec::new());
        spec.security.seccomp = super::seccomp::Seccomp::Unconfined;
        written
    }
}

/// One request on a control connection.
#[derive(Debug, Serialize, Deserialize)]
pub struct RequestFrame {
    pub id: u64,
    pub ask: Request,
}

/// A request of the kubelet's side.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    List,
    Inspect(PodUid),
    RunSandbox(Box<SandboxSpec>),
    /// Replaces the content of the pod's hosts file.
    WriteHosts {
        pod: PodUid,
        text: String,
    },
    StopSandbox(PodUid),
    RemoveSandbox(PodUid),
    Start(Box<Launch>),
    Resize(ContainerId, ResourceLimits),
    Terminate(ContainerId),
    Kill(ContainerId),
    /// Kills the container as the kernel's OOM killer does.
    KillForMemory(ContainerId),
    RemoveContainer(ContainerId),
    ExecSync {
        id: ContainerId,
        command: Vec<String>,
        timeout: Duration,
    },
    LogFiles(ContainerId),
    Usage(PodUid),
    UsageOfAll,
    /// The addresses on which processes of the pod listen on a TCP port.
    Listeners(PodUid, u16),
    /// The addresses on which processes of the pod listen, on any TCP port.
    EveryListener(PodUid),
    /// The addresses on which processes of the pod receive datagrams from any sender.
    EveryDatagramSocket(PodUid),
    /// Replaces the faults in force.
    Suffer(HostFaults),
    /// Kill everything and end.
    Shutdown,
}

/// A response of the host.
#[derive(Debug, Serialize, Deserialize)]
pub enum Response {
    Done,
    Sandboxes(Vec<SandboxRecord>),
    Sandbox(Option<SandboxRecord>),
    Container(ContainerRecord),
    Output(ExecOutput),
    Files(Vec<PathBuf>),
    Usage(BTreeMap<String, Usage>),
    UsageOfAll(BTreeMap<PodUid, BTreeMap<String, Usage>>),
    Addresses(Vec<SocketAddr>),
}

/// One frame from the host on a control connection.
#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "one at a time, on its way to or from the socket")]
pub enum HostFrame {
    Answer { id: u64, result: Result<Response, RuntimeError> },
    PodChanged(PodUid),
}

/// Encodes a frame; returns an error if it would exceed `limit`, without building more than that.
pub fn encode(value: &impl Serialize, limit: usize) -> std::io::Result<Vec<u8>> {
    let mut frame = Frame { bytes: vec![0; LENGTH_BYTES], limit: limit.saturating_add(LENGTH_BYTES) };
    serde_json::to_writer(&mut frame, value)?;
    let mut bytes = frame.bytes;
    let length = u32::try_from(bytes.len() - LENGTH_BYTES).map_err(std::io::Error::other)?;
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}

const LENGTH_BYTES: usize = 4;

/// A buffer that grows to its limit.
struct Frame {
    bytes: Vec<u8>,
    limit: usize,
}

impl std::io::Write for Frame {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        if piece.len() > self.limit - self.bytes.len() {
            let limit = self.limit - LENGTH_BYTES;
            return Err(std::io::Error::other(format!("the frame is longer than {limit} bytes")));
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes one JSON frame.
pub async fn write_json<W: AsyncWrite + Unpin>(
    writer: &mut W,
    value: &impl Serialize,
    limit: usize,
) -> std::io::Result<()> {
    writer.write_all(&encode(value, limit)?).await
}

/// Reads one JSON frame; none at a clean end.
pub async fn read_json<R: AsyncRead + Unpin, T: DeserializeOwned>(
    reader: &mut R,
    limit: usize,
) -> std::io::Result<Option<T>> {
    let Some(body) = read_frame(reader, limit).await? else { return Ok(None) };
    base::json::from_slice(&body).map(Some).map_err(std::io::Error::other)
}

/// Reads a length and as many bytes; none at a clean end.
pub(crate) async fn read_frame<R: AsyncRead + Unpin>(
    reader: &mut R,
    limit: usize,
) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = [0; LENGTH_BYTES];
    if reader.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    reader.read_exact(&mut length[1..]).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > limit {
        return Err(std::io::Error::other(format!("the frame has {length} bytes; at most {limit} are read")));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await?;
    Ok(Some(body))
}

/// Kinds of session frames.
mod kind {
    pub(super) const STDIN: u8 = 0;
    pub(super) const STDOUT: u8 = 1;
    pub(super) const STDERR: u8 = 2;
    pub(super) const STDIN_CLOSED: u8 = 3;
    pub(super) const RESIZE: u8 = 4;
    pub(super) const EXITED: u8 = 5;
    pub(super) const FAILED: u8 = 6;
}

async fn write_session_frame<W: AsyncWrite + Unpin>(
    writer: &mut W,
    kind: u8,
    body: &[u8],
) -> std::io::Result<()> {
    let length = u32::try_from(body.len()).map_err(std::io::Error::other)?;
    let mut header = [kind, 0, 0, 0, 0];
    header[1..].copy_from_slice(&length.to_be_bytes());
    writer.write_all(&header).await?;
    writer.write_all(body).await
}

async fn read_session_frame<R: AsyncRead + Unpin>(reader: &mut R) -> std::io::Result<Option<(u8, Bytes)>> {
    let mut kind = [0];
    if reader.read(&mut kind).await? == 0 {
        return Ok(None);
    }
    let body = read_frame(reader, SESSION_LIMIT).await?.ok_or(std::io::ErrorKind::UnexpectedEof)?;
    Ok(Some((kind[0], body.into())))
}

/// Sends a client's input to the host.
pub async fn write_input<W: AsyncWrite + Unpin>(writer: &mut W, input: &SessionInput) -> std::io::Result<()> {
    match input {
        SessionInput::Stdin(bytes) if bytes.is_empty() => write_session_frame(writer, kind::STDIN, &[]).await,
        SessionInput::Stdin(bytes) => {
            for piece in bytes.chunks(PIECE_LIMIT) {
                write_session_frame(writer, kind::STDIN, piece).await?;
            }
            Ok(())
        }
        SessionInput::StdinClosed => write_session_frame(writer, kind::STDIN_CLOSED, &[]).await,
        SessionInput::Resize(size) => {
            let [c1, c2] = size.columns.to_be_bytes();
            let [r1, r2] = size.rows.to_be_bytes();
            write_session_frame(writer, kind::RESIZE, &[c1, c2, r1, r2]).await
        }
    }
}

/// The next input of a session; none when the client has disconnected.
pub(crate) async fn read_input<R: AsyncRead + Unpin>(
    reader: &mut R,
) -> std::io::Result<Option<SessionInput>> {
    let Some((kind, body)) = read_session_frame(reader).await? else { return Ok(None) };
    let input = match (kind, &body[..]) {
        (kind::STDIN, _) => SessionInput::Stdin(body),
        (kind::STDIN_CLOSED, _) => SessionInput::StdinClosed,
        (kind::RESIZE, &[c1, c2, r1, r2]) => SessionInput::Resize(TerminalSize {
            columns: u16::from_be_bytes([c1, c2]),
            rows: u16::from_be_bytes([r1, r2]),
        }),
        _ => {
            return Err(std::io::Error::other(format!(
                "invalid input frame: kind {kind}, {} bytes",
                body.len()
            )));
        }
    };
    Ok(Some(input))
}

/// Sends a session's output to its client.
pub(crate) async fn write_output<W: AsyncWrite + Unpin>(
    writer: &mut W,
    output: &SessionOutput,
) -> std::io::Result<()> {
    match output {
        SessionOutput::Stdout(bytes) => write_session_frame(writer, kind::STDOUT, bytes).await,
        SessionOutput::Stderr(bytes) => write_session_frame(writer, kind::STDERR, bytes).await,
        SessionOutput::Exited(code) => write_session_frame(writer, kind::EXITED, &code.to_be_bytes()).await,
        SessionOutput::Failed(text) => write_session_frame(writer, kind::FAILED, text.as_bytes()).await,
    }
}

/// The next output of a session; none when the host has hung up.
pub async fn read_output<R: AsyncRead + Unpin>(reader: &mut R) -> std::io::Result<Option<SessionOutput>> {
    let Some((kind, body)) = read_session_frame(reader).await? else { return Ok(None) };
    let output = match kind {
        kind::STDOUT => SessionOutput::Stdout(body),
        kind::STDERR => SessionOutput::Stderr(body),
        kind::EXITED => {
            let code = body[..].try_into().map_err(std::io::Error::other)?;
            SessionOutput::Exited(i32::from_be_bytes(code))
        }
        kind::FAILED => SessionOutput::Failed(String::from_utf8_lossy(&body).into_owned()),
        _ => return Err(std::io::Error::other(format!("unknown output frame {kind}"))),
    };
    Ok(Some(output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn session_frames_come_out_as_they_went_in() {
        let inputs = [
            SessionInput::Stdin(Bytes::from_static(b"hello")),
            SessionInput::Resize(TerminalSize { columns: 300, rows: 7 }),
            SessionInput::Stdin(Bytes::new()),
            SessionInput::StdinClosed,
        ];
        let outputs = [
            SessionOutput::Stdout(Bytes::from_static(b"\0\xff")),
            SessionOutput::Stderr(Bytes::from_static(b"oops")),
            SessionOutput::Failed("gone".to_owned()),
            SessionOutput::Exited(-7),
        ];
        let mut wire = Vec::new();
        for input in &inputs {
            write_input(&mut wire, input).await.unwrap();
        }
        for output in &outputs {
            write_output(&mut wire, output).await.unwrap();
        }
        let mut reader = &wire[..];
        for input in inputs {
            assert_eq!(read_input(&mut reader).await.unwrap(), Some(input));
        }
        for output in outputs {
            assert_eq!(read_output(&mut reader).await.unwrap(), Some(output));
        }
        assert_eq!(read_output(&mut reader).await.unwrap(), None);
    }

    #[tokio::test]
    async fn absurd_lengths_are_refused() {
        let mut reader = &[0xff; 8][..];
        assert!(read_frame(&mut reader, RESPONSE_LIMIT).await.is_err());
    }

    /// The sender gets the error, not the receiver.
    #[tokio::test]
    async fn a_frame_over_the_limit_is_refused_before_it_is_sent() {
        let text = "x".repeat(98);
        assert_eq!(encode(&text, 100).unwrap().len(), 104);
        let mut wire = Vec::new();
        write_json(&mut wire, &text, 100).await.unwrap();
        assert_eq!(read_json::<_, String>(&mut &wire[..], 100).await.unwrap(), Some(text));
        wire.clear();
        let error = write_json(&mut wire, &"x".repeat(99), 100).await.unwrap_err();
        assert_eq!(error.to_string(), "the frame is longer than 100 bytes");
        assert!(wire.is_empty());
    }

    /// A client's input is split, so that it need not fit into the host's memory.
    #[tokio::test]
    async fn input_of_any_length_is_cut_into_pieces() {
        let bytes = Bytes::from(vec![7; 3 * PIECE_LIMIT + 1]);
        let mut wire = Vec::new();
        write_input(&mut wire, &SessionInput::Stdin(bytes.clone())).await.unwrap();
        let (mut reader, mut read) = (&wire[..], Vec::new());
        while let Some(SessionInput::Stdin(piece)) = read_input(&mut reader).await.unwrap() {
            assert!(piece.len() <= PIECE_LIMIT);
            read.extend_from_slice(&piece);
        }
        assert_eq!(read, bytes);
    }
}
