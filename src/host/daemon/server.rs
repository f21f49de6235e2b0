//! The host's socket: accepts connections, answers requests, sends events.

use crate::process_tree;
use base::peer_credentials::is_trusted;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use base::task::JoinSet;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use super::cgroup::Group;
use super::container::Container;
use super::outbox::Outbox;
use super::pod::Pod;
use super::{Host, log_writer};
use crate::journal::Entry;
use crate::protocol::{
    Greeting, HostFrame, Purpose, REQUEST_LIMIT, RESPONSE_LIMIT, Request, RequestFrame, Response, VERSION,
    Welcome, encode, read_json, write_json,
};
use crate::{PodUid, RuntimeError, SandboxRecord, Usage, after_all};
use base::dial::Transport;
use base::sort::CollectMap;

impl Host {
    /// Accepts connections for ever.
    pub(super) async fn serve(self: Rc<Self>, listener: UnixListener) {
        tokio::task::spawn_local(base::file_pages::return_after_start());
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let host = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        if let Err(error) = host.greet(stream).await {
                            eprintln!("connection: {error}");
                        }
                    });
                }
                Err(error) => {
                    eprintln!("accept: {error}");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn greet(self: Rc<Self>, mut stream: UnixStream) -> std::io::Result<()> {
        if !is_trusted(&stream) {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        let Some(greeting) = read_json::<_, Greeting>(&mut stream, REQUEST_LIMIT).await? else {
            return Ok(());
        };
        let welcome = Welcome {
            version: VERSION,
            pid: std::process::id(),
            isolation: self.isolation.facts.clone(),
            memory: self.memory.clone(),
            suffers: true,
            refused: None,
        };
        if greeting.version != VERSION {
            return write_json(&mut stream, &welcome, RESPONSE_LIMIT).await;
        }
        match greeting.purpose {
            Purpose::Control => {
                let (reader, mut writer) = stream.into_split();
                write_json(&mut writer, &welcome, RESPONSE_LIMIT).await?;
                self.control(reader, writer).await
            }
            Purpose::Exec { id, command, streams } => match self.exec(&id, &command, streams).await {
                Ok(exec) => {
                    let (reader, mut writer) = stream.into_split();
                    write_json(&mut writer, &welcome, RESPONSE_LIMIT).await?;
                    Self::serve_exec(exec, reader, writer).await;
                    Ok(())
                }
                Err(error) => refuse(stream, welcome, error).await,
            },
            Purpose::Attach { id, streams } => {
                // An ended container can be attached to as well: the kubelet decides for how long.
                let started = self.container(&id).ok().filter(|container| !container.starting.get());
                let Some(container) = started else {
                    let error = RuntimeError::NotFound(format!("running container {}", id.0));
                    return refuse(stream, welcome, error).await;
                };
                let (reader, mut writer) = stream.into_split();
                write_json(&mut writer, &welcome, RESPONSE_LIMIT).await?;
                Self::serve_attach(container, streams, reader, writer).await;
                Ok(())
            }
            Purpose::Sockets { pod, kind, count } => {
                send_descriptors(stream, welcome, self.sockets(pod.as_ref(), kind, count)).await
            }
            Purpose::Namespaces => send_descriptors(stream, welcome, self.namespaces()).await,
            Purpose::Leaf { pod } => send_descriptors(stream, welcome, self.leaf(pod.as_ref())).await,
        }
    }

    /// Serves requests side by side until the kubelet's side hangs up.
    async fn control(
        self: Rc<Self>,
        reader: OwnedReadHalf,
        mut writer: OwnedWriteHalf,
    ) -> std::io::Result<()> {
        let _claim = self.claim();
        let mut reader = BufReader::new(reader);
        let outbox = Rc::new(Outbox::default());
        self.outboxes.borrow_mut().push(outbox.clone());
        // The shutdown with a queued answer: the host ends once that is written, or cannot be.
        let shut_down_by = Rc::new(Cell::new(None::<u64>));
        let writing = async {
            loop {
                let frame = outbox.next().await;
                writer.write_all(&fitting(&frame)?).await?;
                if matches!(frame, HostFrame::Answer { id, .. } if shut_down_by.get() == Some(id)) {
                    self.ended.send_replace(true);
                }
            }
        };
        let reading = async {
            // Hooks and probes end with their connection: the next control plane runs its own, and the old ones must
            // not continue beside them.
            let mut commands = JoinSet::new();
            loop {
                outbox.room().await;
                let Some(RequestFrame { id, ask }) = read_json(&mut reader, REQUEST_LIMIT).await? else {
                    return Ok(());
                };
                while commands.try_join_next().is_some() {}
                let (host, outbox) = (Rc::clone(&self), Rc::clone(&outbox));
                let shut_down_by = Rc::clone(&shut_down_by);
                let (shutdown, command) =
                    (matches!(ask, Request::Shutdown), matches!(ask, Request::ExecSync { .. }));
                let work = async move {
                    let result = host.handle(ask).await;
                    if shutdown {
                        shut_down_by.set(Some(id));
                    }
                    // A client that has disconnected needs no response.
                    let is_there = outbox.answer(HostFrame::Answer { id, result });
                    if shutdown && !is_there {
                        host.ended.send_replace(true);
                    }
                };
                if command {
                    commands.spawn_local(work);
                } else {
                    tokio::task::spawn_local(work);
                }
            }
        };
        // If one direction fails both are closed: the other would wait for ever.
        let outcome: std::io::Result<()> = tokio::select! {
            outcome = reading => outcome,
            outcome = writing => outcome,
        };
        outbox.close();
        self.outboxes.borrow_mut().retain(|other| !Rc::ptr_eq(other, &outbox));
        if shut_down_by.get().is_some() {
            self.ended.send_replace(true);
        }
        outcome
    }

    async fn handle(self: &Rc<Self>, request: Request) -> Result<Response, RuntimeError> {
        match request {
            Request::List => {
                Ok(Response::Sandboxes(self.pods.borrow().values().map(|pod| pod.record()).collect()))
            }
            Request::Inspect(uid) => Ok(Response::Sandbox(self.pod(&uid).map(|pod| pod.record()))),
            Request::RunSandbox(spec) => {
                self.faults.pass().await;
                self.run_sandbox(*spec).map(|record| Response::Sandbox(Some(record)))
            }
            Request::WriteHosts { pod, text } => {
                let pod = self.pod(&pod).ok_or_else(|| RuntimeError::NotFound(format!("sandbox {pod}")))?;
                pod.write_hosts(&text).map_err(|error| RuntimeError::Os(format!("hosts file: {error}")))?;
                Ok(Response::Done)
            }
            Request::StopSandbox(uid) => {
                if let Some(pod) = self.pod(&uid) {
                    pod.stop(self).await;
                }
                Ok(Response::Done)
            }
            Request::RemoveSandbox(uid) => self.remove_sandbox(&uid).await.map(|()| Response::Done),
            Request::Start(launch) => self.start(*launch).await.map(Response::Container),
            Request::Resize(id, limits) => self.resize(&id, &limits).map(|()| Response::Done),
            Request::Terminate(id) => {
                self.container(&id)?.terminate();
                Ok(Response::Done)
            }
            Request::Kill(id) => {
                self.container(&id)?.kill();
                Ok(Response::Done)
            }
            Request::KillForMemory(id) => {
                let container = self.container(&id)?;
                if container.is_running() {
                    container.kill_for_memory();
                }
                Ok(Response::Done)
            }
            Request::RemoveContainer(id) => {
                let container = self.container(&id)?;
                if container.record.borrow().exit.is_none() {
                    return Err(RuntimeError::Os(format!("container {} is running", id.0)));
                }
                container.remove_files().map_err(|error| RuntimeError::Os(error.to_string()))?;
                self.append_journal(&Entry::ContainerRemoved(Cow::Borrowed(&id)));
                if let Some(pod) = self.pod(&container.pod) {
                    pod.containers.borrow_mut().retain(|known| known.id != id);
                }
                Ok(Response::Done)
            }
            Request::ExecSync { id, command, timeout } => {
                self.exec_sync(&id, &command, timeout).await.map(Response::Output)
            }
            Request::LogFiles(id) => Ok(Response::Files(log_writer::files(&self.container(&id)?.log_path()))),
            Request::Usage(uid) => Ok(Response::Usage(self.usage(&uid))),
            Request::UsageOfAll => {
                let processes = process_tree::all();
                let pods: Vec<(PodUid, Rc<Pod>)> =
                    self.pods.borrow().iter().map(|(uid, pod)| (uid.clone(), pod.clone())).collect();
                let usage = pods.into_iter().map(|(uid, pod)| (uid, usage(&pod, &processes))).collect_map();
                Ok(Response::UsageOfAll(usage))
            }
            Request::EveryListener(uid) => self.every_listener(&uid, Transport::Tcp).map(Response::Addresses),
            Request::EveryDatagramSocket(uid) => {
                self.every_listener(&uid, Transport::Udp).map(Response::Addresses)
            }
            Request::Listeners(uid, port) => self.listeners(&uid, port).map(Response::Addresses),
            Request::Suffer(faults) => {
                self.faults.set(faults);
                Ok(Response::Done)
            }
            Request::Shutdown => {
                self.stop_all().await;
                Ok(Response::Done)
            }
        }
    }

    fn run_sandbox(&self, spec: crate::SandboxSpec) -> Result<SandboxRecord, RuntimeError> {
        let known = self.pod(&spec.pod_uid);
        if let Some(known) = known.as_ref().filter(|pod| pod.ready.get()) {
            return Ok(known.record());
        }
        let uid = spec.pod_uid.clone();
        // The uid names a directory.
        if uid.is_empty() || uid.contains('/') || uid.starts_with('.') {
            return Err(RuntimeError::Os(format!("pod uid {uid:?} cannot name a directory")));
        }
        self.faults.admit().map_err(|error| RuntimeError::Os(format!("sandbox {uid}: {error}")))?;
        let mut pod =
            Pod::create(self, spec).map_err(|error| RuntimeError::Os(format!("sandbox {uid}: {error}")))?;
        if let Some(known) = known {
            // A recreated sandbox keeps the ended containers of the one before.
            pod.containers.replace(known.containers.borrow().clone());
            pod.created_at = after_all(pod.created_at, &pod.record().containers);
        }
        self.append_journal(&pod.entry());
        let record = pod.record();
        self.pods.borrow_mut().insert(uid, Rc::new(pod));
        Ok(record)
    }

    async fn remove_sandbox(&self, uid: &PodUid) -> Result<(), RuntimeError> {
        let Some(pod) = self.pod(uid) else { return Ok(()) };
        pod.stop(self).await;
        pod.wait_for_log_readers().await;
        pod.remove_files(self).map_err(|error| RuntimeError::Os(format!("sandbox {uid}: {error}")))?;
        self.append_journal(&Entry::SandboxRemoved(Cow::Borrowed(uid)));
        self.pods.borrow_mut().remove(uid);
        Ok(())
    }

    fn usage(&self, uid: &PodUid) -> BTreeMap<String, Usage> {
        self.pod(uid).map(|pod| usage(&pod, &process_tree::all())).unwrap_or_default()
    }

    /// Kills every container and waits until all have exited.
    pub(super) async fn stop_all(&self) {
        let pods: Vec<Rc<Pod>> = self.pods.borrow().values().cloned().collect();
        for pod in &pods {
            pod.ready.set(false);
            for container in pod.containers.borrow().iter() {
                container.kill();
            }
        }
        for pod in &pods {
            pod.stop(self).await;
        }
    }
}

/// Reports the reason why there is no session.
async fn refuse(mut stream: UnixStream, mut welcome: Welcome, error: RuntimeError) -> std::io::Result<()> {
    welcome.refused = Some(error);
    write_json(&mut stream, &welcome, RESPONSE_LIMIT).await
}

/// Sends descriptors with one byte, or the reason why there are none.
async fn send_descriptors(
    mut stream: UnixStream,
    welcome: Welcome,
    descriptors: Result<Vec<OwnedFd>, RuntimeError>,
) -> std::io::Result<()> {
    let descriptors = match descriptors {
        Ok(descriptors) => descriptors,
        Err(error) => return refuse(stream, welcome, error).await,
    };
    write_json(&mut stream, &welcome, RESPONSE_LIMIT).await?;
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let send = || fabric::descriptors::send(stream.as_fd(), &[0], &descriptors);
    stream.async_io(tokio::io::Interest::WRITABLE, send).await
}

/// Encodes a frame; a response that is too long is replaced by an error.
fn fitting(frame: &HostFrame) -> std::io::Result<Vec<u8>> {
    encode(frame, RESPONSE_LIMIT).or_else(|error| match frame {
        HostFrame::Answer { id, .. } => {
            let result = Err(RuntimeError::Host(error.to_string()));
            encode(&HostFrame::Answer { id: *id, result }, RESPONSE_LIMIT)
        }
        HostFrame::PodChanged(_) => Err(error),
    })
}

/// The usage of the pod's running containers, by name.
fn usage(pod: &Pod, processes: &[process_tree::Process]) -> BTreeMap<String, Usage> {
    let of = |container: &Rc<Container>| {
        let members = process_tree::tree(processes, &container.roots());
        let mut usage = process_tree::usage(processes, &members);
        let group = container.group.get();
        if !group.is_some_and(Group::limits_memory) {
            usage.memory_bytes += pod.bytes_in_files(container);
        }
        if let Some(group) = group {
            group.apply_cgroup_counters(&mut usage);
        }
        (container.record.borrow().name.clone(), usage)
    };
    pod.containers.borrow().iter().filter(|container| container.is_running()).map(of).collect_map()
}
