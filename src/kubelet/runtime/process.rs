//! Real processes: the kubelet's side of a node's host process.
//!
//! Starts the host or finds the one that is running, asks it, and passes its events on. When the
//! connection breaks it connects again, to a new host if need be, and says so with `Relist`.
//!
//! Architecture Invariant: no container is a child of this process.

use std::collections::{BTreeMap, HashMap};
use std::fs::{DirBuilder, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::protocol::{
    self, Answer, Ask, FromHost, Greeting, Launch, Purpose, Request, VERSION, Welcome, read_json, write_json,
};
use super::{
    ContainerId, ContainerRecord, ContainerSpec, ExecOutput, PodUid, PulledImage, Runtime, RuntimeError,
    RuntimeEvent, SandboxRecord, SandboxSpec, Usage,
};
use crate::api::session::{Session, SessionInput, SessionOutput, SessionStreams};
use crate::kubelet::images::{Catalogue, ResolvedImage, StoredImage};

/// What becomes of a host when its control plane goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLife {
    /// It and its containers live on, and the next control plane finds them (SAFE-7).
    Own,
    /// It kills everything and ends (`--ephemeral`).
    OfControlPlane,
}

/// How a node's host is run.
#[derive(Clone, Debug)]
pub struct ProcessConfig {
    /// The binary that knows the `node-host` subcommand.
    pub program: PathBuf,
    /// The node's directory: records, logs and the containers' private files.
    pub state_dir: PathBuf,
    /// What becomes of the host when this process ends.
    pub life: HostLife,
    /// Containers get namespaces where the machine allows it; false never tries.
    pub namespaces: bool,
    /// Limits are kept by control groups where the machine allows it; false never tries.
    pub cgroups: bool,
    /// How many processes a pod may have (`podPidsLimit`), where there are control groups.
    pub pod_pids_limit: Option<u64>,
}

/// A runtime whose containers are processes held by a host process.
pub struct ProcessRuntime {
    shared: Arc<Shared>,
    events: Mutex<Option<mpsc::Receiver<RuntimeEvent>>>,
    catalogue: Arc<Catalogue>,
    connection: JoinHandle<()>,
}

struct Shared {
    config: ProcessConfig,
    /// None while there is no connection. A mutex never held across an await.
    link: Mutex<Option<Link>>,
    isolation: Mutex<BTreeMap<String, String>>,
    /// The host, when this process started it: must be waited for when it ends, and its standard input is
    /// its lifeline.
    child: Mutex<Option<Child>>,
    /// Everything is being stopped: a lost connection is no reason to start a new host.
    closing: Mutex<bool>,
    /// The connection has ended for good.
    ended: watch::Sender<bool>,
}

struct Link {
    requests: mpsc::UnboundedSender<Request>,
    waiting: HashMap<u64, oneshot::Sender<Result<Answer, RuntimeError>>>,
    next_id: u64,
}

fn host_error(what: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::Host(what.to_string())
}

impl ProcessRuntime {
    /// Connects to the node's host, starting it if none runs.
    pub async fn start(config: ProcessConfig, catalogue: Arc<Catalogue>) -> Result<Self, RuntimeError> {
        let shared = Arc::new(Shared {
            config,
            link: Mutex::new(None),
            isolation: Mutex::default(),
            child: Mutex::new(None),
            closing: Mutex::new(false),
            ended: watch::Sender::new(false),
        });
        let (events, receiver) = mpsc::channel(256);
        let stream = shared.connect_or_start().await?;
        let requests = shared.open_link();
        let connection = tokio::spawn(Arc::clone(&shared).keep_connected(stream, requests, events));
        Ok(Self { shared, events: Mutex::new(Some(receiver)), catalogue, connection })
    }

    /// Kills every container, ends the host, and answers once nothing is left.
    pub async fn shutdown(&self) -> Result<(), RuntimeError> {
        *self.shared.closing.lock() = true;
        let result = self.shared.ask(Ask::Shutdown).await.map(drop);
        // The host hangs up by ending.
        let _ = self.shared.ended.subscribe().wait_for(|ended| *ended).await;
        let child = self.shared.child.lock().take();
        if let Some(child) = child {
            let waited = tokio::task::spawn_blocking(move || wait_or_kill(child)).await;
            waited.map_err(host_error)?.map_err(host_error)?;
        }
        result
    }

    fn launch(spec: ContainerSpec, image: ResolvedImage) -> Launch {
        let working_dir = spec.working_dir.clone().unwrap_or_else(|| image.working_dir.clone());
        Launch {
            argv: command_line(&spec.command, &spec.args, &image.entrypoint, &image.cmd),
            image_id: image.image_id,
            image_env: image.env,
            working_dir,
            user: image.user,
            stop_signal: image.stop_signal,
            programs: image.programs,
            directories: image.directories,
            host_view: image.host_view,
            image_root: image.root,
            spec,
        }
    }
}

impl Drop for ProcessRuntime {
    fn drop(&mut self) {
        *self.shared.closing.lock() = true;
        self.connection.abort();
    }
}

/// Kubernetes' rule: `command` replaces entrypoint and cmd, `args` replace cmd only.
fn command_line(command: &[String], args: &[String], entrypoint: &[String], cmd: &[String]) -> Vec<String> {
    let (program, rest) = match (command.is_empty(), args.is_empty()) {
        (false, _) => (command, args),
        (true, false) => (entrypoint, args),
        (true, true) => (entrypoint, cmd),
    };
    [program, rest].concat()
}

/// A host that does not end by itself has lost its mind.
fn wait_or_kill(mut child: Child) -> std::io::Result<()> {
    for _ in 0..1000 {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill()?;
    child.wait().map(drop)
}

impl Shared {
    fn socket(&self) -> PathBuf {
        self.config.state_dir.join("host.sock")
    }

    async fn connect(&self, purpose: Purpose) -> Result<(UnixStream, Welcome), RuntimeError> {
        let socket = super::host::reachable(&self.socket()).map_err(host_error)?;
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
    async fn connect_or_start(self: &Arc<Self>) -> Result<UnixStream, RuntimeError> {
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
        command.stdout(Stdio::piped()).stderr(log).current_dir("/");
        let mut child = command
            .spawn()
            .map_err(|error| host_error(format!("{}: {error}", self.config.program.display())))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(host_error)?;
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
    async fn keep_connected(
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
    fn open_link(&self) -> mpsc::UnboundedReceiver<Request> {
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
        let (mut reader, mut writer) = stream.into_split();
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

    async fn read(&self, reader: &mut OwnedReadHalf, events: &mpsc::Sender<RuntimeEvent>) {
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

    async fn ask(&self, ask: Ask) -> Result<Answer, RuntimeError> {
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

    async fn session(&self, purpose: Purpose) -> Result<Session, RuntimeError> {
        let (stream, _) = self.connect(purpose).await?;
        let (input, inputs) = mpsc::channel(8);
        let (outputs, output) = mpsc::channel(8);
        tokio::spawn(run_session(stream, inputs, outputs));
        Ok(Session { input, output })
    }
}

/// Carries a session; hanging up when the client has dropped it is what detaches.
async fn run_session(
    stream: UnixStream,
    mut inputs: mpsc::Receiver<SessionInput>,
    outputs: mpsc::Sender<SessionOutput>,
) {
    let (mut reader, mut writer) = stream.into_split();
    let sending = async {
        while let Some(input) = inputs.recv().await {
            if protocol::write_input(&mut writer, &input).await.is_err() {
                // A process that ended without reading all its input: what it said is still to be read.
                return std::future::pending::<()>().await;
            }
        }
        // No more input is not "gone": that is when nobody wants the output.
        let _ = protocol::write_input(&mut writer, &SessionInput::StdinClosed).await;
        std::future::pending::<()>().await;
    };
    let receiving = async {
        let mut last = None;
        loop {
            match protocol::read_output(&mut reader).await {
                Ok(Some(output)) => {
                    let ends = matches!(output, SessionOutput::Exited(_) | SessionOutput::Failed(_));
                    if outputs.send(output).await.is_err() || ends {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    last = Some(error.to_string());
                    break;
                }
            }
        }
        let text = last.unwrap_or_else(|| "the node's host process ended the session".to_owned());
        let _ = outputs.send(SessionOutput::Failed(text)).await;
    };
    tokio::select! {
        () = sending => {}
        () = receiving => {}
        () = outputs.closed() => {}
    }
}

/// What a host that keeps to the protocol never sends.
fn nonsense<T>() -> Result<T, RuntimeError> {
    Err(host_error("an answer to another question"))
}

impl Runtime for ProcessRuntime {
    fn version(&self) -> String {
        concat!("podium://", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn isolation(&self) -> BTreeMap<String, String> {
        self.shared.isolation.lock().clone()
    }

    fn events(&self) -> mpsc::Receiver<RuntimeEvent> {
        self.events.lock().take().unwrap_or_else(|| mpsc::channel(1).1)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxRecord>, RuntimeError>> {
        async {
            match self.shared.ask(Ask::List).await? {
                Answer::Sandboxes(sandboxes) => Ok(sandboxes),
                _ => nonsense(),
            }
        }
        .boxed()
    }

    fn inspect<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<Option<SandboxRecord>, RuntimeError>> {
        async {
            match self.shared.ask(Ask::Inspect(pod.clone())).await? {
                Answer::Sandbox(sandbox) => Ok(sandbox),
                _ => nonsense(),
            }
        }
        .boxed()
    }

    fn pull_image<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<PulledImage, RuntimeError>> {
        async {
            let image = self.catalogue.resolve(reference)?;
            Ok(PulledImage { image_id: image.image_id, size_bytes: image.size_bytes })
        }
        .boxed()
    }

    fn has_image(&self, reference: &str) -> bool {
        self.catalogue.find_loaded(reference).is_some()
    }

    fn loaded_images(&self) -> Vec<(Vec<String>, PulledImage)> {
        let pulled = |image: StoredImage| PulledImage { image_id: image.id, size_bytes: image.size_bytes };
        let loaded = self.catalogue.all_loaded().into_iter();
        loaded.filter(|(_, names)| !names.is_empty()).map(|(image, names)| (names, pulled(image))).collect()
    }

    fn run_sandbox(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<(), RuntimeError>> {
        async { self.shared.ask(Ask::RunSandbox(spec)).await.map(drop) }.boxed()
    }

    fn stop_sandbox<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { self.shared.ask(Ask::StopSandbox(pod.clone())).await.map(drop) }.boxed()
    }

    fn write_hosts<'a>(&'a self, pod: &'a PodUid, text: String) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { self.shared.ask(Ask::WriteHosts(pod.clone(), text)).await.map(drop) }.boxed()
    }

    fn remove_sandbox<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { self.shared.ask(Ask::RemoveSandbox(pod.clone())).await.map(drop) }.boxed()
    }

    fn start_container(&self, spec: ContainerSpec) -> BoxFuture<'_, Result<ContainerRecord, RuntimeError>> {
        async {
            let image = self.catalogue.resolve(&spec.image)?;
            match self.shared.ask(Ask::Start(Box::new(Self::launch(spec, image)))).await? {
                Answer::Container(record) => Ok(record),
                _ => nonsense(),
            }
        }
        .boxed()
    }

    fn terminate_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { self.shared.ask(Ask::Terminate(id.clone())).await.map(drop) }.boxed()
    }

    fn kill_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { self.shared.ask(Ask::Kill(id.clone())).await.map(drop) }.boxed()
    }

    fn remove_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async {
            match self.shared.ask(Ask::RemoveContainer(id.clone())).await {
                // Asking twice is fine.
                Ok(_) | Err(RuntimeError::NotFound(_)) => Ok(()),
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn exec<'a>(
        &'a self,
        id: &'a ContainerId,
        command: Vec<String>,
        streams: SessionStreams,
    ) -> BoxFuture<'a, Result<Session, RuntimeError>> {
        async move {
            let purpose = Purpose::Exec { id: id.clone(), command, streams: streams.into() };
            self.shared.session(purpose).await
        }
        .boxed()
    }

    fn exec_sync<'a>(
        &'a self,
        id: &'a ContainerId,
        command: Vec<String>,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<ExecOutput, RuntimeError>> {
        async move {
            match self.shared.ask(Ask::ExecSync { id: id.clone(), command, timeout }).await? {
                Answer::Output(output) => Ok(output),
                _ => nonsense(),
            }
        }
        .boxed()
    }

    fn attach<'a>(
        &'a self,
        id: &'a ContainerId,
        streams: SessionStreams,
    ) -> BoxFuture<'a, Result<Session, RuntimeError>> {
        async move { self.shared.session(Purpose::Attach { id: id.clone(), streams: streams.into() }).await }
            .boxed()
    }

    fn listeners<'a>(
        &'a self,
        pod: &'a PodUid,
        port: u16,
    ) -> BoxFuture<'a, Result<Vec<SocketAddr>, RuntimeError>> {
        async move {
            match self.shared.ask(Ask::Listeners(pod.clone(), port)).await? {
                Answer::Addresses(addresses) => Ok(addresses),
                _ => nonsense(),
            }
        }
        .boxed()
    }

    fn log_files<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Vec<PathBuf>, RuntimeError>> {
        async {
            match self.shared.ask(Ask::LogFiles(id.clone())).await? {
                Answer::Files(files) => Ok(files),
                _ => nonsense(),
            }
        }
        .boxed()
    }

    fn container_dir(&self, pod: &PodUid, id: &ContainerId) -> Option<PathBuf> {
        Some(self.shared.config.state_dir.join("pods").join(pod).join(&id.0))
    }

    fn usage_of_all(&self) -> BoxFuture<'_, Result<BTreeMap<PodUid, BTreeMap<String, Usage>>, RuntimeError>> {
        async {
            match self.shared.ask(Ask::UsageOfAll).await? {
                Answer::UsageOfAll(usage) => Ok(usage),
                _ => nonsense(),
            }
        }
        .boxed()
    }

    fn usage<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<BTreeMap<String, Usage>, RuntimeError>> {
        async {
            match self.shared.ask(Ask::Usage(pod.clone())).await? {
                Answer::Usage(usage) => Ok(usage),
                _ => nonsense(),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// POD-13: command and args against entrypoint and cmd, the table of Kubernetes' documentation.
    #[test]
    fn command_and_args_replace_entrypoint_and_cmd() {
        let words = |text: &str| text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let table = [
            ("", "", "ep-1 foo bar"),
            ("ep-2", "", "ep-2"),
            ("", "zoo boo", "ep-1 zoo boo"),
            ("ep-2", "zoo boo", "ep-2 zoo boo"),
        ];
        for (command, args, expect) in table {
            let line = command_line(&words(command), &words(args), &words("ep-1"), &words("foo bar"));
            assert_eq!(line, words(expect), "{command} {args}");
        }
    }
}
