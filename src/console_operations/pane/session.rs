//! One terminal session with a container: opens it, relays bytes in both directions, reports its outcome.
//!
//! Runs as one task that owns the WebSocket. Never draws, never interprets output, never changes a pod. Dropping the
//! [`Session`] detaches: the task ends by itself, and an attached container continues to run.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, AttachedProcess, TerminalSize};
use kube::{Api, Client};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::debug::{StartProgress, progress};
use super::heartbeat::Heartbeat;
use super::inputs::{InputSender, Inputs, PaneInput, PaneSize, inputs};
use super::outcome::Outcome;
use super::output::carriage_returns;
use crate::exec_streams::{self, READ_BYTES, Source};
use base::clock::if_some;
use console_data::action::error_text;
use console_data::container::{default_container, terminal_of};
use console_data::container_state::statuses;
use console_data::decoded::{JsonObject, api_of, watch_object};

/// Runs bash, which users expect, or `sh` in images without bash. The pane supports 256 colours, independent of the
/// container's own `TERM`.
const SHELL: [&str; 3] =
    ["sh", "-c", "TERM=xterm-256color; export TERM; command -v bash >/dev/null && exec bash || exec sh"];
/// Maximum number of events in flight; beyond it, reading pauses and the container waits.
pub(super) const EVENTS: usize = 64;
/// Time limit for errors of a pod created for a shell: kubelets retry, but a wrong image name stays wrong.
const ERROR_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for the pod's status to have the exit code of an attached container.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The process to open in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionTarget {
    /// A shell: bash if the container has it, else sh.
    Shell {
        /// The container; `None` is the pod's default one.
        container: Option<String>,
    },
    /// A command with a terminal.
    Exec {
        /// The container; `None` is the pod's default one.
        container: Option<String>,
        /// Program and arguments.
        command: Vec<String>,
    },
    /// The container's own main process.
    Attach {
        /// The container; `None` is the pod's default one.
        container: Option<String>,
    },
    /// An ephemeral container that was just added; it is attached to once it runs.
    Debug {
        /// The container's name.
        container: String,
    },
    /// A shell in a pod that was just created for it. It is opened once the container runs, and a heartbeat tells the
    /// container that the session is alive ([`super::heartbeat`]).
    Created {
        /// The container.
        container: String,
        /// The command; a shell if it is empty.
        command: Vec<String>,
    },
}

/// An event of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaneEvent {
    /// A debug container is starting.
    Progress(StartProgress),
    /// The terminal is open in this container.
    Opened {
        /// The name of the container.
        container: String,
        /// False for a container without `tty: true`: it has no line editing and no resizing.
        tty: bool,
        /// False for a container that does not read its input (`stdin: true` is missing).
        stdin: bool,
    },
    /// Output of the program, ready for an emulator.
    Output(Bytes),
    /// The session ended; no event follows.
    Ended(Outcome),
}

/// The console's end of a session.
#[derive(Debug, Clone)]
pub struct Session {
    input: InputSender,
}

impl Session {
    /// Starts a session; its events arrive on the receiver, the last one is [`PaneEvent::Ended`].
    pub fn open(
        client: Client,
        namespace: &str,
        pod: &str,
        opening: SessionTarget,
        size: PaneSize,
    ) -> (Self, mpsc::Receiver<PaneEvent>) {
        let (input, inputs) = inputs();
        let (events, receiver) = mpsc::channel(EVENTS);
        let shell = Shell {
            pods: api_of(client, object::Kind::Pod, Some(namespace)),
            pod: pod.to_owned(),
            inputs,
            events,
            size,
            pending: Vec::new(),
        };
        base::task::start(shell.run(opening));
        (Self { input }, receiver)
    }

    /// Creates a session that another task serves: its input arrives at the returned receiver.
    pub(super) fn carried_by_another() -> (Self, Inputs) {
        let (input, inputs) = inputs();
        (Self { input }, inputs)
    }

    /// Queues input without waiting; returns false if the session has ended or does not keep up.
    pub fn send(&self, input: PaneInput) -> bool {
        self.input.send(input)
    }
}

/// The reason why a session ends before its command does.
enum SessionEnd {
    /// The user detached, or the pane was closed.
    Detached,
    /// The session could not be opened.
    Failed(String),
}

impl From<kube::Error> for SessionEnd {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error_text(&error))
    }
}

/// The task's state.
struct Shell {
    pods: Api<JsonObject>,
    pod: String,
    inputs: Inputs,
    events: mpsc::Sender<PaneEvent>,
    size: PaneSize,
    /// Input typed before the terminal was open.
    pending: Vec<u8>,
}

impl Shell {
    async fn run(mut self, opening: SessionTarget) {
        let outcome = match self.session(opening).await {
            Ok(outcome) => outcome,
            Err(SessionEnd::Detached) => Outcome::Detached,
            Err(SessionEnd::Failed(message)) => Outcome::Failed(message),
        };
        // The pane may be closed already, so that the receiver is gone.
        let _ = self.events.send(PaneEvent::Ended(outcome)).await;
    }

    async fn session(&mut self, opening: SessionTarget) -> Result<Outcome, SessionEnd> {
        let mut heartbeat = None;
        let mut attached = None;
        let (process, tty) = match opening {
            SessionTarget::Shell { container } => {
                (self.exec(container, SHELL.map(str::to_owned).to_vec()).await?, true)
            }
            SessionTarget::Exec { container, command } => (self.exec(container, command).await?, true),
            SessionTarget::Attach { container } => {
                let pod: Pod = self.pods.get(&self.pod).await?.decode()?;
                let container = container.or_else(|| default_container(&pod));
                let Some(container) = container else {
                    return Err(SessionEnd::Failed(format!("pod {} has no container", self.pod)));
                };
                attached = run_of(&pod, &container);
                self.attach(&pod, container).await?
            }
            SessionTarget::Debug { container } => {
                let pod = self.until_running(&container, None).await?;
                attached = run_of(&pod, &container);
                self.attach(&pod, container).await?
            }
            SessionTarget::Created { container, command } => {
                self.until_running(&container, Some(ERROR_TIMEOUT)).await?;
                heartbeat = Some(Heartbeat::start(&self.pods, &self.pod, &container).await?);
                let shell = || SHELL.map(str::to_owned).to_vec();
                let command = if command.is_empty() { shell() } else { command };
                (self.exec(Some(container), command).await?, true)
            }
        };
        let outcome = self.carry(process, tty).await;
        drop(heartbeat);
        match (outcome, attached) {
            // The server reports the success of the connection; only the pod's status has the exit code.
            (Ok(Outcome::Exited(0)), Some(run)) => {
                let exit = tokio::time::timeout(EXIT_TIMEOUT, self.exit_of(&run)).await;
                exit.unwrap_or(Ok(Outcome::Closed))
            }
            (outcome, _) => outcome,
        }
    }

    /// Waits for the exit code of a container's run in the pod's status.
    async fn exit_of(&self, run: &str) -> Result<Outcome, SessionEnd> {
        let mut pods = std::pin::pin!(watch_object(self.pods.clone(), &self.pod));
        while let Some(seen) = pods.next().await {
            match seen {
                Ok(Some(pod)) => {
                    if let Some(code) = exit_code(&pod.decode()?, run) {
                        return Ok(Outcome::Exited(code));
                    }
                }
                Ok(None) => return Err(SessionEnd::Failed(format!("pod {} is gone", self.pod))),
                // The watcher retries by itself.
                Err(_) => {}
            }
        }
        Ok(Outcome::Closed)
    }

    async fn exec(
        &mut self,
        container: Option<String>,
        command: Vec<String>,
    ) -> Result<AttachedProcess, SessionEnd> {
        let container = if let Some(container) = container {
            container
        } else {
            let pod: Pod = self.pods.get(&self.pod).await?.decode()?;
            default_container(&pod)
                .ok_or_else(|| SessionEnd::Failed(format!("pod {} has no container", self.pod)))?
        };
        let process = self.pods.exec(&self.pod, command, &terminal_params(&container, true, true)).await?;
        self.report(PaneEvent::Opened { container, tty: true, stdin: true }).await?;
        Ok(process)
    }

    /// Attaches with the TTY and stdin settings of the container; the server refuses other settings.
    async fn attach(&mut self, pod: &Pod, container: String) -> Result<(AttachedProcess, bool), SessionEnd> {
        let (tty, stdin) = terminal_of(pod, &container).unwrap_or((false, false));
        let process = self.pods.attach(&self.pod, &terminal_params(&container, tty, stdin)).await?;
        self.report(PaneEvent::Opened { container, tty, stdin }).await?;
        Ok((process, tty))
    }

    /// Waits for a container, and reports every step; the user may detach meanwhile. Errors are tolerated for the time
    /// `error_timeout`, or without limit.
    async fn until_running(
        &mut self,
        container: &str,
        error_timeout: Option<Duration>,
    ) -> Result<Pod, SessionEnd> {
        let mut pods = std::pin::pin!(watch_object(self.pods.clone(), &self.pod));
        let mut reported = None;
        let (mut trouble_until, mut trouble) = (None, String::new());
        loop {
            let seen = tokio::select! {
                seen = pods.next() => seen,
                () = if_some(trouble_until.map(tokio::time::sleep_until)) => {
                    return Err(SessionEnd::Failed(trouble));
                }
                input = self.inputs.recv() => {
                    self.early_input(input)?;
                    continue;
                }
            };
            let pod = match seen {
                Some(Ok(pod)) => pod.map(JsonObject::decode::<Pod>).transpose()?,
                // The watcher retries by itself; the user sees the reason for the delay.
                Some(Err(error)) => {
                    let message = error.to_string();
                    self.report(PaneEvent::Progress(StartProgress::Waiting {
                        reason: String::new(),
                        message,
                        trouble: true,
                    }))
                    .await?;
                    continue;
                }
                None => return Err(SessionEnd::Failed("the watch ended".to_owned())),
            };
            let now = progress(pod.as_ref(), container);
            if reported.as_ref() != Some(&now) {
                self.report(PaneEvent::Progress(now.clone())).await?;
                reported = Some(now.clone());
            }
            match (now, pod) {
                (StartProgress::Running, Some(pod)) => return Ok(pod),
                (StartProgress::Ended { exit_code, message }, _) => {
                    return Err(SessionEnd::Failed(format!(
                        "container {container} ended with exit code {exit_code} before it could be attached to: \
                         {message}"
                    )));
                }
                (StartProgress::PodFailed(why), _) => {
                    return Err(SessionEnd::Failed(format!("pod {} failed: {why}", self.pod)));
                }
                (StartProgress::PodDeleted, _) => {
                    return Err(SessionEnd::Failed(format!("pod {} is gone", self.pod)));
                }
                (StartProgress::Waiting { reason, message, trouble: true }, _) if !reason.is_empty() => {
                    trouble = format!("container {container} does not start: {reason}: {message}");
                    let since = error_timeout.map(|patience| tokio::time::Instant::now() + patience);
                    trouble_until = trouble_until.or(since);
                }
                _ => {}
            }
        }
    }

    fn early_input(&mut self, input: Option<PaneInput>) -> Result<(), SessionEnd> {
        match input {
            Some(PaneInput::Bytes(bytes)) => self.pending.extend_from_slice(&bytes),
            Some(PaneInput::Resize(size)) => self.size = size,
            Some(PaneInput::Detach) | None => return Err(SessionEnd::Detached),
        }
        Ok(())
    }

    /// Relays bytes until the program exits or the user detaches.
    async fn carry(&mut self, mut process: AttachedProcess, tty: bool) -> Result<Outcome, SessionEnd> {
        let mut stdin = process.stdin();
        let mut sizes = process.terminal_size();
        let status = exec_streams::status_of(&mut process);
        let mut stdout = Source::new(process.stdout(), status.clone());
        let mut stderr = Source::new(process.stderr(), status.clone());
        if let Some(sizes) = &mut sizes {
            // The first size has one row more: a program that already runs redraws only when the size changes.
            let PaneSize { rows, columns } = self.size;
            let _ = sizes.send(TerminalSize { width: columns, height: rows.saturating_add(1) }).await;
            let _ = sizes.send(TerminalSize { width: columns, height: rows }).await;
        }
        if let Some(stdin) = &mut stdin {
            let _ = exec_streams::write_all(stdin, &std::mem::take(&mut self.pending), &status).await;
        }
        while stdout.is_open() || stderr.is_open() {
            let bytes = tokio::select! {
                bytes = stdout.read(), if stdout.is_open() => bytes,
                bytes = stderr.read(), if stderr.is_open() => bytes,
                input = self.inputs.recv() => {
                    match input {
                        Some(PaneInput::Bytes(bytes)) => {
                            if let Some(writer) = &mut stdin
                                && exec_streams::write_all(writer, &bytes, &status).await.is_err()
                            {
                                stdin = None;
                            }
                        }
                        Some(PaneInput::Resize(size)) => {
                            self.size = size;
                            if let Some(sizes) = &mut sizes {
                                let _ = sizes
                                    .send(TerminalSize { width: size.columns, height: size.rows })
                                    .await;
                            }
                        }
                        Some(PaneInput::Detach) | None => return Err(SessionEnd::Detached),
                    }
                    continue;
                }
            };
            if !bytes.is_empty() {
                self.report(PaneEvent::Output(if tty { bytes } else { carriage_returns(&bytes) })).await?;
            }
        }
        if let Some(mut stdin) = stdin {
            let _ = stdin.shutdown().await;
        }
        Ok(Outcome::from_status(status.await.as_ref()))
    }

    async fn report(&self, event: PaneEvent) -> Result<(), SessionEnd> {
        self.events.send(event).await.map_err(|_| SessionEnd::Detached)
    }
}

/// Returns the id of a container's current run.
fn run_of(pod: &Pod, container: &str) -> Option<String> {
    statuses(pod).find(|status| status.name == container)?.container_id.clone()
}

/// Returns the exit code of a container's run, once it has ended.
fn exit_code(pod: &Pod, run: &str) -> Option<i32> {
    let states = statuses(pod).flat_map(|status| [&status.state, &status.last_state]);
    let mut ends = states.filter_map(|state| state.as_ref()?.terminated.as_ref());
    ends.find(|end| end.container_id.as_deref() == Some(run)).map(|end| end.exit_code)
}

fn terminal_params(container: &str, tty: bool, stdin: bool) -> AttachParams {
    AttachParams {
        container: Some(container.to_owned()),
        stdin,
        stdout: true,
        // With a TTY both streams are one, and requesting stderr is an error.
        stderr: !tty,
        tty,
        max_stdin_buf_size: Some(READ_BYTES),
        max_stdout_buf_size: Some(READ_BYTES),
        max_stderr_buf_size: Some(READ_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{SinkExt, StreamExt};
    use serde_json::json;
    use tokio::net::TcpListener;
    use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
    use tokio_tungstenite::tungstenite::http::HeaderValue;

    /// A server that is killed closes its TCP connections without a WebSocket close frame.
    #[tokio::test]
    async fn a_session_ends_when_its_server_is_killed_con_8() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        base::task::start(async move {
            let (connection, _) = listener.accept().await.unwrap();
            #[expect(clippy::result_large_err, reason = "the callback's signature")]
            let choose_protocol = |_: &Request, mut response: Response| {
                let protocol = HeaderValue::from_static("v5.channel.k8s.io");
                response.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
                Ok(response)
            };
            let mut socket = tokio_tungstenite::accept_hdr_async(connection, choose_protocol).await.unwrap();
            socket.send(b"\x01$ ".to_vec().into()).await.unwrap();
            // The connection is dropped once the user has typed.
            let is_typed = |frame: &[u8]| frame.strip_prefix(b"\0").is_some_and(|typed| typed == b"ls");
            while let Some(Ok(message)) = socket.next().await {
                if is_typed(&message.into_data()) {
                    return;
                }
            }
        });
        let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        let target =
            SessionTarget::Exec { container: Some("main".to_owned()), command: vec!["sh".to_owned()] };
        let (session, mut events) =
            Session::open(client, "default", "web", target, PaneSize { rows: 10, columns: 40 });
        let opened = PaneEvent::Opened { container: "main".to_owned(), tty: true, stdin: true };
        assert_eq!(events.recv().await, Some(opened));
        assert_eq!(events.recv().await, Some(PaneEvent::Output(Bytes::from_static(b"$ "))));
        assert!(session.send(PaneInput::Bytes(b"ls".to_vec())));
        let end = tokio::time::timeout(Duration::from_secs(20), events.recv()).await;
        assert_eq!(end.expect("the session ends"), Some(PaneEvent::Ended(Outcome::Closed)));
    }

    /// The session of an attached container ends with the exit code of the run that it was attached to.
    #[test]
    fn an_attached_container_has_its_exit_code_in_the_status_con_8_eph_2() {
        let pod = |status: serde_json::Value| -> Pod {
            serde_json::from_value(json!({ "status": status })).unwrap()
        };
        let ended = |id: &str, code: i32| json!({"terminated": {"containerID": id, "exitCode": code}});
        let running = pod(json!({"ephemeralContainerStatuses": [
            {"name": "debugger", "containerID": "a", "state": {"running": {}}}]}));
        assert_eq!(run_of(&running, "debugger").as_deref(), Some("a"));
        assert_eq!(exit_code(&running, "a"), None);
        let killed = pod(json!({"ephemeralContainerStatuses": [
            {"name": "debugger", "containerID": "a", "state": ended("a", 137)}]}));
        assert_eq!(exit_code(&killed, "a"), Some(137));
        let restarted = pod(json!({"containerStatuses": [
            {"name": "app", "containerID": "c", "state": {"running": {}}, "lastState": ended("b", 3)}]}));
        assert_eq!((exit_code(&restarted, "b"), exit_code(&restarted, "c")), (Some(3), None));
    }
}
