//! The connection to a node's host: finds or starts the host, holds the connection, and sends requests over it.

use std::collections::{BTreeMap, HashMap};
use std::fs::{DirBuilder, File};
use std::io::BufRead;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot, watch};

use super::ready_sockets::ReadySockets;
use super::session::run_session;
use super::{HostLife, NodeNetwork, ProcessConfig, host_error};
use crate::runtime::events::EventSource;
use crate::runtime::{HostFaults, Memory, PodUid, RuntimeError, RuntimeEvent};
use base::session::Session;
use host::Descendants;
use host::protocol::{
    Greeting, HostFrame, Purpose, REQUEST_LIMIT, RESPONSE_LIMIT, Request, RequestFrame, Response, VERSION,
    Welcome, encode, read_json, write_json,
};

pub(super) struct SharedConnection {
    pub(super) config: ProcessConfig,
    /// `None` while there is no connection. The mutex is never held across an await.
    pub(super) link: Mutex<Option<Link>>,
    pub(super) isolation: Mutex<BTreeMap<String, String>>,
    /// The connected host's files in memory.
    pub(super) memory: Mutex<Option<Arc<Memory>>>,
    /// The last host connected to, started by this or an earlier process; it need not have responded.
    pub(super) host: Mutex<Option<HostProcess>>,
    /// The host, if this process started it: the exited host must be reaped, and its standard input is its lifeline.
    pub(super) child: Mutex<Option<Child>>,
    /// A shutdown is in progress: a lost connection is no reason to start a new host.
    pub(super) closing: Mutex<bool>,
    /// The connection has ended for good.
    pub(super) ended: watch::Sender<bool>,
    /// Processes that were killed with a host and had not exited by then.
    pub(super) unreaped: Mutex<Option<Descendants>>,
    /// Sockets of the node's own network, opened in advance.
    pub(super) ready_sockets: Mutex<ReadySockets>,
    /// The id of the next request, over all connections.
    pub(super) next_id: AtomicU64,
    /// The host's desired faults; marked as changed when a new host must receive them.
    pub(super) faults: watch::Sender<HostFaults>,
    /// The connected host can receive faults.
    pub(super) suffers: AtomicBool,
    /// Events of pods for the kubelet.
    pub(super) events: EventSource,
}

pub(super) struct HostProcess {
    pub(super) pid: u32,
    /// The pidfd, which stays valid if the pid is reused.
    pub(super) handle: OwnedFd,
}

/// The interval at which faults that a host did not accept are sent again.
const RESEND_INTERVAL: Duration = Duration::from_secs(1);

/// Requests queued for a host that does not read; the others wait for capacity or their timeout.
const MAX_QUEUED_REQUESTS: usize = 16;

pub(super) struct Link {
    requests: mpsc::Sender<Vec<u8>>,
    waiting: HashMap<u64, oneshot::Sender<Result<Response, RuntimeError>>>,
}

/// The reason why there is no connection.
pub(super) enum ConnectError {
    /// No host runs, or it died just now.
    Absent(String),
    /// A host runs and is unusable: another must not be started beside it.
    Unusable(String),
    /// A host runs and does not respond.
    Silent(String),
    /// The host refuses the session.
    Refused(RuntimeError),
}

impl From<ConnectError> for RuntimeError {
    fn from(connect_error: ConnectError) -> Self {
        match connect_error {
            ConnectError::Absent(text) | ConnectError::Unusable(text) => host_error(text),
            ConnectError::Silent(text) => RuntimeError::HostSilent(text),
            ConnectError::Refused(error) => error,
        }
    }
}

impl SharedConnection {
    /// Creates a connection that is not connected yet.
    pub(super) fn new(config: ProcessConfig) -> Arc<Self> {
        Arc::new(Self {
            config,
            link: Mutex::new(None),
            isolation: Mutex::default(),
            memory: Mutex::default(),
            host: Mutex::new(None),
            child: Mutex::new(None),
            closing: Mutex::new(false),
            ended: watch::Sender::new(false),
            unreaped: Mutex::default(),
            ready_sockets: Mutex::default(),
            next_id: AtomicU64::new(0),
            faults: watch::Sender::default(),
            suffers: AtomicBool::new(false),
            events: EventSource::default(),
        })
    }

    fn socket(&self) -> PathBuf {
        self.config.state_dir.join("host.sock")
    }

    /// Connects to the running host and performs the handshake; `timeout` is the timeout of the host's response.
    pub(super) async fn connect(
        &self,
        purpose: Purpose,
        timeout: Duration,
    ) -> Result<(UnixStream, Welcome), ConnectError> {
        let absent = |error: std::io::Error| ConnectError::Absent(error.to_string());
        let socket = base::socket_path::reachable(&self.socket()).map_err(absent)?;
        let mut stream = UnixStream::connect(&socket.path).await.map_err(absent)?;
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
        if matches!(purpose, Purpose::Control) {
            // From now on the host can be killed, even if it does not respond.
            *self.host.lock() = pid.and_then(HostProcess::of);
        }
        let greeted = async {
            write_json(&mut stream, &Greeting { version: VERSION, purpose }, REQUEST_LIMIT).await?;
            read_json::<_, Welcome>(&mut stream, RESPONSE_LIMIT).await
        };
        let Ok(welcome) = tokio::time::timeout(timeout, greeted).await else {
            let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
            return Err(ConnectError::Silent(format!(
                "the running node host{pid} does not answer within {timeout:?}"
            )));
        };
        let mut welcome = welcome
            .map_err(absent)?
            .ok_or_else(|| ConnectError::Absent("it closed the connection".to_owned()))?;
        if welcome.version != VERSION {
            return Err(ConnectError::Unusable(format!(
                "the running node host (pid {}) uses protocol {}, but this podium uses {VERSION}: stop it, \
                 or use the podium that started it",
                welcome.pid, welcome.version
            )));
        }
        match welcome.refused.take() {
            Some(refused) => Err(ConnectError::Refused(refused)),
            None => Ok((stream, welcome)),
        }
    }

    /// A control connection to the running host, or to a new one.
    pub(super) async fn connect_or_start(self: &Arc<Self>) -> Result<UnixStream, RuntimeError> {
        let timeout = self.config.status_timeout;
        let (stream, welcome) = match self.connect(Purpose::Control, timeout).await {
            Err(ConnectError::Absent(_)) => {
                let shared = Arc::clone(self);
                let started = base::task::blocking(move || shared.spawn()).await;
                started.map_err(host_error)??;
                self.connect(Purpose::Control, timeout).await?
            }
            connected => connected?,
        };
        self.ready_sockets.lock().forget();
        self.suffers.store(welcome.suffers, Ordering::Release);
        *self.isolation.lock() = welcome.isolation;
        let memory = welcome.memory.and_then(|path| Memory::of_host(welcome.pid, path));
        *self.memory.lock() = memory.map(Arc::new);
        Ok(stream)
    }

    /// Starts a host and waits until it reports that it is ready.
    fn spawn(&self) -> Result<(), RuntimeError> {
        if let Some(mut dead) = self.child.lock().take() {
            // The connection is lost, so the host is dead or unusable.
            let _ = dead.kill();
            let _ = dead.wait();
        }
        let dir = &self.config.state_dir;
        let at = |context: &str| {
            let context = format!("{context} in {}", dir.display());
            move |error: std::io::Error| host_error(format!("{context}: {error}"))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at("node directory"))?;
        let log =
            File::options().create(true).append(true).open(dir.join("host.log")).map_err(at("host.log"))?;
        let mut command = Command::new(&self.config.program);
        command.arg("node-host").arg("--state").arg(dir).arg("--socket").arg(self.socket());
        if self.config.life == HostLife::Ephemeral {
            command.arg("--lifeline").stdin(Stdio::piped());
        } else {
            command.stdin(Stdio::null());
        }
        if !self.config.namespaces {
            command.arg("--no-namespaces");
        }
        if !self.config.cgroups {
            command.arg("--no-cgroups");
        }
        if let Some(limit) = self.config.pod_pids_limit {
            command.arg("--pod-pids-limit").arg(limit.to_string());
        }
        if let Some(hidden) = &self.config.hidden {
            command.arg("--hidden").arg(hidden);
        }
        if let Some(NodeNetwork { fabric, leaf }) = &self.config.network {
            command.arg("--fabric").arg(fabric).arg("--link").arg(&leaf.link);
            command.arg("--mtu").arg(leaf.mtu.to_string());
            for address in &leaf.addresses {
                command.arg("--address").arg(address.to_string());
            }
        }
        command.arg("--unclaimed").arg(self.config.unclaimed.as_secs_f64().to_string());
        command.stdout(Stdio::piped()).stderr(log).current_dir("/");
        let mut child = command
            .spawn()
            .map_err(|error| host_error(format!("{}: {error}", self.config.program.display())))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take()
            && wait_readable(&stdout, self.config.request_timeout).map_err(host_error)?
        {
            std::io::BufReader::new(stdout).read_line(&mut line).map_err(host_error)?;
        }
        if line.trim() == "ready" {
            *self.child.lock() = Some(child);
            return Ok(());
        }
        // The host reported the reason; make sure it has exited.
        let _ = child.kill();
        let _ = child.wait();
        let message =
            if line.trim().is_empty() { "it did not become ready; see host.log" } else { line.trim() };
        Err(host_error(message))
    }

    /// Serves the connection; when it breaks, finds or starts the host again.
    pub(super) async fn keep_connected(
        self: Arc<Self>,
        mut stream: UnixStream,
        mut requests: mpsc::Receiver<Vec<u8>>,
    ) {
        loop {
            self.serve(stream, requests).await;
            *self.link.lock() = None;
            if !*self.closing.lock() {
                let dir = self.config.state_dir.display();
                tracing::warn!(%dir, "lost the connection to the node host; connecting again");
            }
            let mut pause = Duration::from_millis(10);
            stream = loop {
                if *self.closing.lock() {
                    self.ended.send_replace(true);
                    self.events.close();
                    return;
                }
                match self.connect_or_start().await {
                    // The host was started during a shutdown.
                    Ok(_) if *self.closing.lock() => {
                        let shared = Arc::clone(&self);
                        let _ = base::task::blocking(move || shared.kill()).await;
                        continue;
                    }
                    Ok(stream) => break stream,
                    Err(error) => tracing::warn!(%error, dir = %self.config.state_dir.display(), "node host"),
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            };
            requests = self.open_link();
            // The connection may be to another host, which needs the faults.
            self.faults.send_modify(|_| {});
            self.events.emit(RuntimeEvent::Relist);
        }
    }

    /// Sends the faults to every host that is connected, for ever: a host of an earlier control plane may have other
    /// faults in force.
    pub(super) async fn push_faults(self: Arc<Self>) {
        let mut faults = self.faults.subscribe();
        loop {
            let desired = *faults.borrow_and_update();
            if self.suffers.load(Ordering::Acquire) {
                if let Err(error) = self.request(Request::Suffer(desired)).await {
                    tracing::debug!(dir = %self.config.state_dir.display(), "cannot send faults; retrying: {error}");
                    tokio::time::sleep(RESEND_INTERVAL).await;
                    continue;
                }
            } else if desired != HostFaults::default() {
                let dir = self.config.state_dir.display();
                tracing::warn!(%dir, "the node host of an earlier podium ignores faults of logs and files");
            }
            if faults.changed().await.is_err() {
                return;
            }
        }
    }

    /// Accepts requests from now on.
    pub(super) fn open_link(&self) -> mpsc::Receiver<Vec<u8>> {
        let (requests, receiver) = mpsc::channel(MAX_QUEUED_REQUESTS);
        *self.link.lock() = Some(Link { requests, waiting: HashMap::new() });
        receiver
    }

    /// Serves a connection until it breaks.
    async fn serve(&self, stream: UnixStream, mut requests: mpsc::Receiver<Vec<u8>>) {
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let writing = async {
            while let Some(request) = requests.recv().await {
                if writer.write_all(&request).await.is_err() {
                    return;
                }
            }
        };
        // If one direction fails, both are closed, because the other would wait for ever.
        tokio::select! {
            () = writing => {}
            () = self.read(&mut reader) => {}
        }
    }

    async fn read(&self, reader: &mut BufReader<OwnedReadHalf>) {
        loop {
            match read_json::<_, HostFrame>(reader, RESPONSE_LIMIT).await {
                Ok(Some(HostFrame::Answer { id, result })) => {
                    let waiting = self.link.lock().as_mut().and_then(|link| link.waiting.remove(&id));
                    if let Some(waiting) = waiting {
                        // The caller may have given up.
                        let _ = waiting.send(result);
                    }
                }
                Ok(Some(HostFrame::PodChanged(pod))) => self.events.emit(RuntimeEvent::PodChanged(pod)),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "node host connection");
                    return;
                }
            }
        }
    }

    /// Sends a request to the host, with the timeout of its type.
    pub(super) async fn request(&self, request: Request) -> Result<Response, RuntimeError> {
        let timeout = match &request {
            Request::ExecSync { timeout, .. } => timeout.saturating_add(self.config.request_timeout),
            _ => self.config.request_timeout,
        };
        self.request_with_timeout(request, timeout).await
    }

    /// Checks that the host responds.
    pub(super) async fn status(&self) -> Result<(), RuntimeError> {
        // No pod has an empty uid, so the host responds at once that there is none.
        self.request_with_timeout(Request::Inspect(PodUid::new()), self.config.status_timeout).await.map(drop)
    }

    async fn request_with_timeout(
        &self,
        request: Request,
        timeout: Duration,
    ) -> Result<Response, RuntimeError> {
        let answered = tokio::time::timeout(timeout, self.request_without_timeout(request)).await;
        answered.unwrap_or_else(|_| Err(host_error(format!("no answer within {timeout:?}"))))
    }

    async fn request_without_timeout(&self, request: Request) -> Result<Response, RuntimeError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = encode(&RequestFrame { id, ask: request }, REQUEST_LIMIT).map_err(host_error)?;
        let (sender, receiver) = oneshot::channel();
        let requests = {
            let mut link = self.link.lock();
            let link = link.as_mut().ok_or_else(|| host_error("not connected"))?;
            link.waiting.insert(id, sender);
            link.requests.clone()
        };
        let _waits = PendingReply { shared: self, id };
        requests.send(frame).await.map_err(|_| host_error("not connected"))?;
        drop(requests);
        receiver.await.map_err(|_| host_error("connection lost"))?
    }

    /// Opens a session. A host that does not even complete the handshake is given up sooner than one that is slow.
    pub(super) async fn session(&self, purpose: Purpose) -> Result<Session, RuntimeError> {
        let timeout = self.config.status_timeout;
        let silent = async {
            while tokio::time::timeout(timeout, self.request_without_timeout(Request::Inspect(PodUid::new())))
                .await
                .is_ok()
            {
                tokio::time::sleep(timeout).await;
            }
        };
        let (stream, _) = tokio::select! {
            connected = self.connect(purpose, self.config.request_timeout) => connected?,
            () = silent => return Err(host_error(format!("no answer within {timeout:?}"))),
        };
        let (input, inputs) = mpsc::channel(8);
        let (outputs, output) = mpsc::channel(8);
        base::task::start(run_session(stream, inputs, outputs));
        Ok(Session { input, output })
    }
}

/// A caller's wait for a response; removed when the caller gives up.
struct PendingReply<'a> {
    shared: &'a SharedConnection,
    id: u64,
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.shared.link.lock().as_mut() {
            link.waiting.remove(&self.id);
        }
    }
}

impl HostProcess {
    /// Opens a handle of the process; `None` if it has exited, or the kernel does not support such handles.
    fn of(pid: u32) -> Option<Self> {
        let handle = pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, handle })
    }
}

/// Returns true if a pipe becomes readable within the timeout, or ends.
fn wait_readable(pipe: &ChildStdout, timeout: Duration) -> std::io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(std::io::Error::other)?;
    let ready = retry_on_intr(|| poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&timeout)))?;
    Ok(ready > 0)
}
