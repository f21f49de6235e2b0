//! `podium fence` kills a node's processes for certain, so that its pods and volumes can move to other nodes (SAFE-5).
//!
//! It creates a NodeFence and reports its progress. It asks for confirmation first, because the killed pods get no
//! grace period.

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, ObjectMeta};

use super::apply::client_of;
use super::flags::InstanceArgs;
use super::output::{api_error, eprint_line, print_line};
use super::runtime::runtime;
use base::count::counted;
use console_data::decoded::TypedApi;
use extension::node_fence::{FENCED, FencePhase, NodeFence, NodeFenceSpec};
use object::conditions;
use object::node::is_ready;
use object::pod::is_terminal;

/// Interval between two polls of the fence's progress.
const LOOK: Duration = Duration::from_millis(50);
/// Time within which the processes must be dead, which includes delays by the kernel.
const TO_DIE: Duration = Duration::from_mins(2);
/// Time within which a node must come back.
const RETURN_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum number of pods named before the confirmation.
const NAMED: usize = 10;

#[derive(Debug, Args)]
pub(super) struct FenceRequest {
    #[command(flatten)]
    pub(super) instance: InstanceArgs,
    /// Name of the node
    node: String,
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    yes: bool,
    /// Reason for the fence, shown with it
    #[arg(long)]
    reason: Option<String>,
    /// Release the node instead: it starts again, with no pods running
    #[arg(long, alias = "undo", conflicts_with_all = ["yes", "reason"])]
    release: bool,
}

pub(super) fn run(request: &FenceRequest) -> Result<()> {
    runtime()?.block_on(async {
        let client = client_of(&request.instance).await?;
        let fences = TypedApi::<NodeFence>::all(client.clone());
        if request.release {
            return undo(&fences, &request.node).await;
        }
        let nodes = TypedApi::<Node>::all(client.clone());
        let node = nodes.get(&request.node).await.map_err(api_error)?;
        if !request.yes {
            preview(&node, &TypedApi::all(client)).await?;
            confirm(&request.node)?;
        }
        fence(&fences, request).await
    })
}

/// Prints the pods and processes that will be killed.
async fn preview(node: &Node, pods: &TypedApi<Pod>) -> Result<()> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let pods = pods.list(&on_node).await.map_err(api_error)?;
    let running: Vec<String> = (pods.iter())
        .filter(|pod| !is_terminal(pod))
        .map(|pod| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{}/{}", text(&pod.metadata.namespace), text(&pod.metadata.name))
        })
        .collect();
    if is_ready(node) {
        eprint_line(&format!(
            "node {name} is Ready; to end its pods gracefully, drain it instead (kubectl drain {name})"
        ));
    }
    eprint_line(&format!(
        "The processes of {} on node {name} are killed at once, without a grace period; unwritten data is lost.",
        counted(running.len(), "pod")
    ));
    for pod in running.iter().take(NAMED) {
        eprint_line(&format!("  {pod}"));
    }
    if running.len() > NAMED {
        eprint_line(&format!("  and {} more", running.len() - NAMED));
    }
    Ok(())
}

fn confirm(node: &str) -> Result<()> {
    let mut input = std::io::stdin().lock();
    if !std::io::stdin().is_terminal() {
        bail!("node {node} was not fenced: no terminal to confirm at; use --yes");
    }
    eprint_line(&format!("Type the node's name to fence {node}:"));
    let mut answer = String::new();
    input.read_line(&mut answer).context("cannot read the confirmation")?;
    if answer.trim() != node {
        bail!("node {node} was not fenced: the name does not match");
    }
    Ok(())
}

async fn fence(fences: &TypedApi<NodeFence>, request: &FenceRequest) -> Result<()> {
    let name = request.node.as_str();
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let fence = NodeFence { metadata, spec: NodeFenceSpec { reason: request.reason.clone() }, status: None };
    match fences.create(&fence).await {
        Ok(_) => {}
        // Another client has already created the fence: this command follows its progress.
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
        Err(error) => return Err(api_error(error)),
    }
    let release = request.instance.podium(&format!("fence --release {name}"));
    let mut reported = String::new();
    let mut done = async || {
        loop {
            let fence = fences.get(name).await.map_err(api_error)?;
            let all = fence.status.as_ref().and_then(|status| status.conditions.as_ref());
            if let Some(condition) = conditions::get(all, FENCED) {
                if condition.message != reported {
                    print_line(&condition.message);
                    reported.clone_from(&condition.message);
                }
                match condition.reason.as_str() {
                    _ if fence.phase() == FencePhase::Fenced => return anyhow::Ok(()),
                    "NotRunHere" | "NoSuchNode" => {
                        bail!("node {name} was not fenced; delete the fence with {release}")
                    }
                    _ => {}
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let waited = tokio::time::timeout(TO_DIE, done()).await;
    waited.with_context(|| {
        format!("node {name} is not fenced after {} s; Podium keeps trying", TO_DIE.as_secs())
    })??;
    print_line(&format!(
        "node/{name} is fenced: its pods and volumes can move to other nodes; release it with {release}"
    ));
    Ok(())
}

async fn undo(fences: &TypedApi<NodeFence>, name: &str) -> Result<()> {
    fences.delete(name).await.map_err(api_error)?;
    let deletion = async {
        while fences.get_opt(name).await.map_err(api_error)?.is_some() {
            tokio::time::sleep(LOOK).await;
        }
        anyhow::Ok(())
    };
    let waited = tokio::time::timeout(RETURN_TIMEOUT, deletion).await;
    waited.with_context(|| {
        format!("node {name} did not return to service within {} s", RETURN_TIMEOUT.as_secs())
    })??;
    print_line(&format!("node/{name} is in service again"));
    Ok(())
}
