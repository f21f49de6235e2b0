//! Real processes: the kubelet's side of a node's host process.
//!
//! Starts the host or finds the one that is running, sends it requests, and passes its events on. A broken connection
//! is made again, to a new host if need be, and reported with `Relist`.
//!
//! Architecture Invariant: no container is a child of this process.

mod calls;
mod connection;
mod dial;
mod kill;
mod ready_sockets;
mod session;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{ContainerSpec, PodUid, RuntimeError};
use base::optional_file::read_optional;
use connection::SharedConnection;
pub use dial::NodeSockets;
use fabric::LeafSpec;
use host::accounts_of_system;
use host::protocol::{Launch, Purpose, Request};
use images::{Catalogue, Puller, ResolvedImage, password_file};

/// The fate of a host when its control plane exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLife {
    /// It and its containers live on, and the next control plane finds them (SAFE-7).
    Independent,
    /// It kills its containers and ends (`--ephemeral`).
    Ephemeral,
}

/// A node's leaf in the pods' network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNetwork {
    /// The socket of the fabric's process.
    pub fabric: PathBuf,
    /// The node's own leaf.
    pub leaf: LeafSpec,
}

/// The configuration of a node's host.
#[derive(Clone, Debug)]
pub struct ProcessConfig {
    /// The binary that knows the `node-host` subcommand.
    pub program: PathBuf,
    /// The node's directory: records, logs and the containers' private files.
    pub state_dir: PathBuf,
    /// A directory that containers with mounts of their own do not see: the cluster's data directory.
    pub hidden: Option<PathBuf>,
    /// The fate of the host when this process ends.
    pub life: HostLife,
    /// Containers get namespaces where the machine allows it; false never tries.
    pub namespaces: bool,
    /// The fabric in which pods have networks of their own; `None` means that all share the machine's.
    pub network: Option<NodeNetwork>,
    /// Control groups enforce limits if the machine allows it; false never tries.
    pub cgroups: bool,
    /// The maximum number of processes in a pod (`podPidsLimit`), if there are control groups.
    pub pod_pids_limit: Option<u64>,
    /// The time after which a host that no control plane claims ends.
    pub unclaimed: Duration,
    /// Timeout of a request to the host; a command gets this on top of its own timeout.
    pub request_timeout: Duration,
    /// Timeout of the host's health check.
    pub status_timeout: Duration,
}

/// A runtime with processes as containers, held by a host process.
pub struct ProcessRuntime {
    shared: Arc<SharedConnection>,
    catalogue: Arc<Catalogue>,
    /// Pulls images; `None` if nothing is pulled.
    puller: Option<Arc<Puller>>,
    connection: JoinHandle<()>,
    faults: JoinHandle<()>,
}
fn host_error(message: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::Host(message.to_string())
}

impl ProcessRuntime {
    /// Connects to the node's host, starting it if none runs.
    pub async fn start(config: ProcessConfig, catalogue: Arc<Catalogue>) -> Result<Self, RuntimeError> {
        Self::over(SharedConnection::new(config), catalogue).await
    }

    /// Pulls images that this machine does not have.
    #[must_use]
    pub fn with_puller(mut self, puller: Arc<Puller>) -> Self {
        self.puller = Some(puller);
        self
    }

    /// Ends the host of a directory with all its processes, even if it does not respond; an error means that something
    /// may still run.
    pub async fn end(config: ProcessConfig, catalogue: Arc<Catalogue>) -> Result<(), RuntimeError> {
        let shared = SharedConnection::new(config);
        match Self::over(shared.clone(), catalogue).await {
            Ok(runtime) => runtime.shutdown().await,
            Err(error) => {
                tracing::warn!(dir = %shared.config.state_dir.display(), "{error}; killing it and all its processes");
                base::task::blocking(move || shared.kill()).await.map_err(host_error)?
            }
        }
    }

    async fn over(shared: Arc<SharedConnection>, catalogue: Arc<Catalogue>) -> Result<Self, RuntimeError> {
        let stream = shared.connect_or_start().await?;
        let requests = shared.open_link();
        let connection = base::task::start(Arc::clone(&shared).keep_connected(stream, requests));
        let faults = base::task::start(Arc::clone(&shared).push_faults());
        Ok(Self { shared, catalogue, puller: None, connection, faults })
    }

    /// Kills every container, ends the host, and returns once nothing is left. A host that does not respond in time is
    /// killed with all its processes; an error means that something may still run.
    pub async fn shutdown(&self) -> Result<(), RuntimeError> {
        *self.shared.closing.lock() = true;
        let request = async {
            self.shared.status().await?;
            self.shared.request(Request::Shutdown).await?;
            // The host closes the connection by ending.
            let _ = self.shared.ended.subscribe().wait_for(|ended| *ended).await;
            Ok::<(), RuntimeError>(())
        };
        let ended = match tokio::time::timeout(self.shared.config.request_timeout, request).await {
            Ok(ended) => ended,
            Err(_) => Err(host_error("it does not exit")),
        };
        let shared = self.shared.clone();
        let waited = match ended {
            Ok(()) => base::task::blocking(move || shared.wait_for_end()).await,
            Err(error) => {
                let dir = self.shared.config.state_dir.display();
                tracing::warn!(%dir, "{error}; killing it and all its processes");
                base::task::blocking(move || shared.kill()).await
            }
        };
        waited.map_err(host_error)?
    }

    /// Returns the namespaces of a fabric from a node's host, the network namespace first. A new fabric process takes
    /// them over after the previous one died. Fails if no host is running in a fabric.
    pub async fn fabric_namespaces(config: ProcessConfig) -> Result<Vec<OwnedFd>, RuntimeError> {
        SharedConnection::new(config).descriptors(Purpose::Namespaces).await
    }

    /// The network namespace of a node, or of one of its pods, from the node's host.
    pub async fn leaf(config: ProcessConfig, pod: Option<PodUid>) -> Result<OwnedFd, RuntimeError> {
        let mut descriptors = SharedConnection::new(config).descriptors(Purpose::Leaf { pod }).await?;
        descriptors.pop().ok_or_else(|| host_error("the node host sent no descriptor"))
    }

    /// Sockets of the node's own network, where pods have networks of their own.
    pub fn sockets(&self) -> NodeSockets {
        NodeSockets(Arc::downgrade(&self.shared))
    }

    /// Kills the host with all its processes, at once and in any state; blocks until nothing is left, for some seconds
    /// at most. An error means that something may still run.
    pub fn kill(&self) -> Result<(), RuntimeError> {
        *self.shared.closing.lock() = true;
        self.shared.kill()
    }

    fn launch(spec: ContainerSpec, image: ResolvedImage) -> Launch {
        let mut files = image.files;
        if let Some(account) = &image.account {
            // A machine without such a file has no accounts.
            let read = |path: &str| read_optional(path);
            let (passwd, group) = (read("/etc/passwd"), read("/etc/group"));
            let shown = accounts_of_system(&passwd, rustix::process::geteuid().as_raw());
            let text = password_file(account, spec.run_as_user, spec.run_as_group, &shown, [&passwd, &group]);
            files.extend(text.map(|text| (PathBuf::from("/etc/passwd"), text)));
        }
        let working_dir = spec.working_dir.clone().unwrap_or_else(|| image.working_dir.clone());
        Launch {
            argv: command_line(&spec.command, &spec.args, &image.entrypoint, &image.cmd),
            image_id: image.image_id,
            image_ref: image.image_ref,
            image_env: image.env,
            working_dir,
            user: image.user,
            stop_signal: spec.stop_signal.unwrap_or(image.stop_signal),
            programs: image.programs,
            directories: image.directories,
            files,
            host_view: image.host_view,
            image_layers: image.layers,
            system_root: image.system_root,
            spec,
        }
    }
}

impl Drop for ProcessRuntime {
    fn drop(&mut self) {
        *self.shared.closing.lock() = true;
        self.connection.abort();
        self.faults.abort();
        self.shared.events.close();
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
