//! Real processes: the kubelet's side of a node's host process.
//!
//! Starts the host or finds the one that is running, asks it, and passes its events on. When the
//! connection breaks it connects again, to a new host if need be, and says so with `Relist`.
//!
//! Architecture Invariant: no container is a child of this process.

mod calls;
mod connection;
mod session;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, pidfd_send_signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::protocol::{Ask, Launch};
use super::{ContainerSpec, RuntimeError, RuntimeEvent};
use crate::kubelet::images::{Catalogue, ResolvedImage};
use connection::Shared;

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
    /// How long a host lives on that no control plane claims.
    pub unclaimed: Duration,
}

/// A runtime whose containers are processes held by a host process.
pub struct ProcessRuntime {
    shared: Arc<Shared>,
    events: Mutex<Option<mpsc::Receiver<RuntimeEvent>>>,
    catalogue: Arc<Catalogue>,
    connection: JoinHandle<()>,
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
            memory: Mutex::default(),
            host: Mutex::new(None),
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
        let (host, child) = (self.shared.host.lock().take(), self.shared.child.lock().take());
        let waited = tokio::task::spawn_blocking(move || {
            // A host that an earlier control plane started has another parent: it is only seen to end.
            host.as_ref().map_or(Ok(()), end_or_kill)?;
            child.map_or(Ok(()), wait_or_kill)
        });
        waited.await.map_err(host_error)?.map_err(host_error)?;
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
            stop_signal: spec.stop_signal.unwrap_or(image.stop_signal),
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

/// Waits until the process behind a handle has ended. A host that does not by itself has lost its mind.
fn end_or_kill(host: &OwnedFd) -> std::io::Result<()> {
    let ended = |patience: Option<&Timespec>| {
        retry_on_intr(|| poll(&mut [PollFd::new(host, PollFlags::IN)], patience)).map(|ready| ready > 0)
    };
    if !ended(Some(&Timespec { tv_sec: 5, tv_nsec: 0 }))? {
        pidfd_send_signal(host, Signal::KILL)?;
        ended(None)?;
    }
    Ok(())
}

/// The same of a child, which is reaped as well.
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
