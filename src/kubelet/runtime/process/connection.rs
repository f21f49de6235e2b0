//! The connection to a node's host: found or started, kept, and asked over.

use std::collections::{BTreeMap, HashMap};
use std::fs::{DirBuilder, File};
use std::io::BufRead;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot, watch};

use super::super::protocol::{
    Answer, Ask, FromHost, Greeting, Purpose, Request, VERSION, Welcome, read_json, write_json,
};
use super::super::{Memory, RuntimeError, RuntimeEvent};
use super::session::run_session;
use super::{HostLife, ProcessConfig, host_error};
use crate::api::session::Session;

pub(super) struct Shared {
    pub(super) config: ProcessConfig,
    /// None while there is no connection. A mutex never held across an await.
    pub(super) link: Mutex<Option<Link>>,
    pub(super) isolation: Mutex<BTreeMap<String, String>>,
    /// The files in memory of the host that answers.
    pub(super) memory: Mutex<Option<Arc<Memory>>>,
    /// The host that answers, whoever started it.
    pub(super) host: Mutex<Option<OwnedFd>>,
    /// The host, when this process started it: must be waited for when it ends, and its standard input is
    /// its lifeline.
    pub(super) child: Mutex<Option<Child>>,
    /// Everything is being stopped: a lost connection is no reason to start a new host.
    pub(super) closing: Mutex<bool>,
    /// The connection has ended for good.
    pub(super) ended: watch::Sender<bool>,
}

pub(super) struct Link {
    requests: mpsc::UnboundedSender<Request>,
    waiting: HashMap<u64, oneshot::Sender<Result<Answer, RuntimeError>>>,
    next_id: u64,
}

impl Shared {
    fn socket(&self) -> PathBuf {
        self.config.state_dir.join("host.sock")
    }

    async fn connect(&self, purpose: Purpose) -> Result<(UnixStream, Welcome), RuntimeError> {
        let socket = super::super::host::reachable(&self.socket()).map_err(host_error)?;
        let mut stream = UnixStream::connect(&socket.path).await.map_err(host_error)?;
        write_json(&mut stream, &Greeting { version: VERSION, purpose }).await.map_err(host_error)?;
        let welcome: Option<Welcome> = read_json(&mut stream).await.map_err(host_error)?;
        let mut welcome = welcome.ok_or_else(|| host_error("it hung up"))?;
        if welcome.version != VERSION {
            return Err(host_error(format!(
                "the running host (pid {}) speaks protocol {}, this podium {VERSION}: stop it, or use the \
                 podium that started it",
                welcome.pid, welcome.version
            )));
        }
        match welcome.refused.take() {
            Some(refused) => Err(refused),
            None => Ok((stream, welcome)),
        }
    }

    /// A control connection to the host that runs, or to a new one.
    pub(super) async fn connect_or_start(self: &Arc<Self>) -> Result<UnixStream, RuntimeError> {
        let (stream, welcome) = match self.connect(Purpose::Control).await {
            Err(RuntimeError::Host(text)) if text.contains("speaks protocol") => {
                return Err(RuntimeError::Host(text));
            }
            Err(_) => {
                let shared = Arc::clone(self);
                let started = tokio::task::spawn_blocking(move || shared.spawn()).await;
                started.map_err(host_error)??;
                self.connect(Purpose::Control).await?
            }
            connected => connected?,
        };
        *self.isolation.lock() = welcome.isolation;
        let memory = welcome.memory.and_then(|path| Memory::of_host(welcome.pid, path));
        *self.memory.lock() = memory.map(Arc::new);
        *self.host.lock() = handle_of(welcome.pid);
        Ok(stream)
    }

    /// Starts a host and waits until it says it is ready.
    fn spawn(&self) -> Result<(), RuntimeError> {
        if let Some(mut dead) = self.child.lock().take() {
            // The connection is gone, so it is dead or useless.
            let _ = dead.kill();
            let _ = dead.wait();
        }
        let dir = &self.config.state_dir;
        let at = |what: &str| {
            let what = format!("{what} in {}", dir.display());
            move |error: std::io::Error| host_error(format!("{what}: {error}"))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at("node directory"))?;
        let log =
            File::options().create(true).append(true).open(dir.join("host.log")).map_err(at("host.log"))?;
        let mut command = Command::new(&self.config.program);
        command.arg("node-host").arg("--state").arg(dir).arg("--socket").arg(self.socket());
        if self.config.life == HostLife::OfControlPlane {
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
        command.arg("--unclaimed").arg(self.config.unclaimed.as_secs_f64().to_string());
        command.stdout(Stdio::piped()).stderr(log).current_dir("/");
        let mut child = command
            .spawn()
            .map_err(|error| host_error(format!("{}: {error}", self.config.program.display())))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            std::io::BufReader::new(stdout).read_line(&mut line).map_err(host_error)?;
        }
        if line.trim() == "ready" {
            *self.child.lock() = Some(child);
            return Ok(());
        }
        // It told why; make sure it is gone.
        let _ = child.kill();
        let _ = child.wait();
        let told = if line.trim().is_empty() { "it ended at once; see host.log" } else { line.trim() };
        Err(host_error(told))
    }

    /// Serves the connection; when it breaks, finds or starts the host again.
    pub(super) async fn keep_connected(
        self: Arc<Self>,
        mut stream: UnixStream,
        mut requests: mpsc::UnboundedReceiver<Request>,
        events: mpsc::Sender<RuntimeEvent>,
    ) {
        loop {
            self.serve(stream, requests, &events).await;
            *self.link.lock() = None;
            let mut pause = Duration::from_millis(10);
            stream = loop {
                if *self.closing.lock() {
                    self.ended.send_replace(true);
                    return;
                }
                match self.connect_or_start().await {
                    Ok(stream) => break stream,
                    Err(error) => tracing::warn!(%error, dir = %self.config.state_dir.display(), "node host"),
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            };
            requests = self.open_link();
            if events.send(RuntimeEvent::Relist).await.is_err() {
                tracing::debug!("nobody listens to the runtime's events");
            }
        }
    }

    /// From here on requests are taken.
    pub(super) fn open_link(&self) -> mpsc::UnboundedReceiver<Request> {
        let (requests, receiver) = mpsc::unbounded_channel();
        *self.link.lock() = Some(Link { requests, waiting: HashMap::new(), next_id: 0 });
        receiver
    }

    /// Until the connection breaks.
    async fn serve(
        &self,
        stream: UnixStream,
        mut requests: mpsc::UnboundedReceiver<Request>,
        events: &mpsc::Sender<RuntimeEvent>,
    ) {
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let writing = async {
            while let Some(request) = requests.recv().await {
                if write_json(&mut writer, &request).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = writing => {}
            () = self.read(&mut reader, events) => {}
        }
    }

    async fn read(&self, reader: &mut BufReader<OwnedReadHalf>, events: &mpsc::Sender<RuntimeEvent>) {
        loop {
            match read_json::<_, FromHost>(reader).await {
                Ok(Some(FromHost::Answer { id, result })) => {
                    let waiting = self.link.lock().as_mut().and_then(|link| link.waiting.remove(&id));
                    if let Some(waiting) = waiting {
                        // Whoever asked may have given up.
                        let _ = waiting.send(result);
                    }
                }
                Ok(Some(FromHost::PodChanged(pod))) => {
                    // A kubelet that does not keep up sees everything when it does: the next relist.
                    if let Err(mpsc::error::TrySendError::Full(event)) =
                        events.try_send(RuntimeEvent::PodChanged(pod))
                    {
                        let events = events.clone();
                        tokio::spawn(async move { events.send(event).await.ok() });
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "node host connection");
                    return;
                }
            }
        }
    }

    pub(super) async fn ask(&self, ask: Ask) -> Result<Answer, RuntimeError> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut link = self.link.lock();
            let link = link.as_mut().ok_or_else(|| host_error("not connected"))?;
            let id = link.next_id;
            link.next_id += 1;
            link.waiting.insert(id, sender);
            link.requests.send(Request { id, ask }).map_err(|_| host_error("not connected"))?;
        }
        receiver.await.map_err(|_| host_error("connection lost"))?
    }

    pub(super) async fn session(&self, purpose: Purpose) -> Result<Session, RuntimeError> {
        let (stream, _) = self.connect(purpose).await?;
        let (input, inputs) = mpsc::channel(8);
        let (outputs, output) = mpsc::channel(8);
        tokio::spawn(run_session(stream, inputs, outputs));
        Ok(Session { input, output })
    }
}

/// A handle of a process that outlives its number; none where the kernel has no such thing.
fn handle_of(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()
}
