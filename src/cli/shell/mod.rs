//! `podium shell`: the user's shell, or a command, inside the cluster's network (NET-7).
//!
//! This process replaces itself by the shell, so output, exit code, terminal and signals are the shell's. The kernel
//! removes the network namespace with its last process, so nothing is left, however the shell ends.

mod context;
mod enter;
mod files;
mod program;

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base::sort::SliceOrder;
use console_data::decoded::TypedApi;
use k8s_openapi::api::core::v1::Pod;

use super::apply::client_of;
use super::flags::InstanceArgs;
use super::output::eprint_line;
use cluster::{NetworkEntry, leaf_of, running_instance};
use context::ShellContext;
use enter::EnteredNetwork;
use object::well_known::annotation;

/// Environment variable that names the network of the shell, for prompts.
const WHERE: &str = "PODIUM_SHELL";

#[derive(Debug, clap::Args)]
pub(super) struct ShellRequest {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Use the network of a node, as its kubelet and its hostNetwork pods do [default: a network of its own, which
    /// belongs to no pod for network policies]
    #[arg(long, value_name = "NODE", conflicts_with = "pod")]
    node: Option<String>,
    /// Use the network of a pod, with its address, its ports, its loopback and the policies that select it
    #[arg(long, value_name = "POD")]
    pod: Option<String>,
    /// Namespace of the pod, and of short names of services
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Command to run [default: $SHELL]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Replaces this process by the shell; returns, with the reason, only if the shell cannot be started.
pub(super) fn run(request: &ShellRequest) -> Result<()> {
    let given = request.instance.directory()?;
    let data_dir = given.canonicalize().with_context(|| not_running(&given))?;
    let entry = entry_of(&data_dir)?;
    let leaf = leaf(request, &data_dir)?;
    let inside = ShellContext { data_dir: &data_dir, entry: &entry, namespace: &request.namespace };
    let place = inside.enter(leaf)?;

    let command = program::command(&request.command, std::env::var_os("SHELL"));
    let (name, arguments) = command.split_first().context("no command")?;
    eprint_line(&format!(
        "podium: in the cluster's network as {place}; DNS names resolve as in namespace {}; `exit` leaves it",
        request.namespace
    ));
    let mut shell = std::process::Command::new(name);
    shell.args(arguments).env(WHERE, &place).env("PODIUM_DATA_DIR", &data_dir);
    shell.env("KUBECONFIG", inside.kubeconfig());
    let error = shell.exec();
    eprint_line(&format!("podium: {}: {error}", name.display()));
    std::process::exit(program::exit_code(name, std::env::var_os("PATH"), &error));
}

fn not_running(data_dir: &Path) -> String {
    format!("cannot find a running cluster in {}", data_dir.display())
}

/// Reads the network entry of the running instance.
fn entry_of(data_dir: &Path) -> Result<NetworkEntry> {
    let Some(entry) = NetworkEntry::read(data_dir) else {
        if let Some(place) = std::env::var_os(WHERE) {
            bail!("this process is already in the cluster's network, as {}", place.display());
        }
        if running_instance(data_dir).is_none() {
            bail!(not_running(data_dir));
        }
        bail!(
            "pods of this cluster share the machine's network (mode: loopback); all its addresses are reachable \
             without podium shell"
        );
    };
    let owner = fs::metadata(data_dir).with_context(|| data_dir.display().to_string())?.uid();
    let own = rustix::process::geteuid().as_raw();
    if owner != own {
        bail!(
            "the data directory belongs to user {owner}; only this user can enter the cluster's network, not user {own}"
        );
    }
    if running_instance(data_dir).is_none() {
        bail!(not_running(data_dir));
    }
    Ok(entry)
}

/// Opens the network to enter.
fn leaf(request: &ShellRequest, data_dir: &Path) -> Result<EnteredNetwork> {
    // A single-threaded runtime leaves no threads behind; entering the network requires a process with one thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match (&request.node, &request.pod) {
        (None, None) => Ok(EnteredNetwork::Own),
        (Some(node), _) => {
            let network = runtime.block_on(of_host(data_dir, node, None))?;
            Ok(EnteredNetwork::Of { network, owner: format!("node {node}") })
        }
        (None, Some(pod)) => {
            let network = runtime.block_on(of_pod(request, data_dir, pod))?;
            Ok(EnteredNetwork::Of { network, owner: format!("pod {}/{pod}", request.namespace) })
        }
    }
}

async fn of_pod(request: &ShellRequest, data_dir: &Path, name: &str) -> Result<OwnedFd> {
    let client = client_of(&InstanceArgs { data_dir: Some(data_dir.to_path_buf()) }).await?;
    let pod = TypedApi::<Pod>::namespaced(client, &request.namespace).get(name).await?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let node = node.with_context(|| format!("pod {name} is not assigned to a node yet"))?;
    let mirrored = pod.metadata.annotations.as_ref().and_then(|all| all.get(annotation::MIRROR_POD));
    let uid = mirrored.or(pod.metadata.uid.as_ref()).context("the pod has no uid")?;
    of_host(data_dir, node, Some(uid.clone())).await.with_context(|| format!("pod {name}"))
}

async fn of_host(data_dir: &Path, node: &str, pod: Option<String>) -> Result<OwnedFd> {
    let nodes = data_dir.join("nodes");
    let directory = directory_of(&nodes, node).with_context(|| {
        format!("no node \"{node}\" with processes in this cluster{}", list_nodes(&nodes))
    })?;
    leaf_of(directory, pod).await.with_context(|| format!("node {node}"))
}

/// Returns a node's directory. The name is compared with existing entries, so that it cannot be used as a path.
fn directory_of(nodes: &Path, node: &str) -> Option<PathBuf> {
    let mut all = fs::read_dir(nodes).ok()?.flatten();
    all.find(|entry| entry.file_name().as_encoded_bytes() == node.as_bytes()).map(|entry| entry.path())
}

fn list_nodes(nodes: &Path) -> String {
    let all = fs::read_dir(nodes).into_iter().flatten().flatten();
    let mut names: Vec<String> = all.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.order();
    if names.is_empty() { String::new() } else { format!("; nodes: {}", names.join(", ")) }
}
