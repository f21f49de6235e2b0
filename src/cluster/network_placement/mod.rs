//! Decides on the network of a cluster: the pods' own (the fabric), or a slot of the machine's loopback.
//!
//! A data directory keeps the network that it was created with, since services and pods have its addresses.

mod preflight;
mod ranges;
mod remedy;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::addresses::{AddressPlan, NetworkRanges};
use super::config::{ClusterConfig, NetworkConfig, NetworkMode};
use super::data_dir::DataDir;
use super::embedding::EmbedOptions;
use super::error::StartError;
use super::fabric::{ClusterFabric, FabricConfig};
use super::host_process::process_config;
use ::fabric::Namespaces;
use kubelet::runtime::ProcessRuntime;

pub use preflight::network_preflight_main;

/// The time after which the fabric's process exits if neither a control plane nor a node's host is connected: then it
/// only retains connections that wait for the next control plane.
const UNCLAIMED_TIMEOUT: Duration = Duration::from_secs(10);
/// The file of a data directory that records the cluster's network and, on a second line, why that network was chosen
/// if the user did not request it.
const FILE: &str = "network";
/// The name of the machine's network in that file.
const LOOPBACK: &str = "loopback";

/// The network of a cluster.
pub(super) struct NetworkPlacement {
    /// The allocation of addresses.
    pub(super) addresses: Arc<AddressPlan>,
    /// The pods' own network; `None` if pods share the machine's.
    pub(super) fabric: Option<Arc<ClusterFabric>>,
    /// The reason why the pods have no network of their own although one was preferred (NET-11), or the limitations of
    /// their own network.
    pub(super) note: Option<String>,
}

/// The type of network.
#[derive(Debug, PartialEq, Eq)]
enum Network {
    Loopback { why: Option<String> },
    Own(NetworkRanges),
}

impl Network {
    /// Returns the text that a data directory records.
    fn text(&self) -> String {
        match self {
            Self::Loopback { why: Some(why) } => format!("{LOOPBACK}\n{why}"),
            Self::Loopback { why: None } => LOOPBACK.to_owned(),
            Self::Own(ranges) => ranges::text(ranges),
        }
    }
}

impl NetworkPlacement {
    /// Finds the network of a data directory, or creates it.
    pub(super) async fn find(
        data_dir: &DataDir,
        config: &ClusterConfig,
        embedding: &EmbedOptions,
    ) -> Result<Self, StartError> {
        if !config.has_processes() {
            let listens = ["proxy", "dns"].iter().any(|part| !config.is_disabled(part));
            let addresses = if listens { on_machine(data_dir)? } else { AddressPlan::unheld() };
            return Ok(Self { addresses: Arc::new(addresses), fabric: None, note: None });
        }
        let program =
            embedding.host_program.path().map_err(|error| StartError::Network(error.to_string()))?;
        let network = if let Some(network) = recorded_network(data_dir, &config.file.network)? {
            network
        } else {
            let chosen = choose(config, &program).await?;
            data_dir.write(FILE, &chosen.text())?;
            chosen
        };
        let ranges = match network {
            Network::Loopback { why } => {
                let addresses = Arc::new(on_machine(data_dir)?);
                return Ok(Self { addresses, fabric: None, note: why });
            }
            Network::Own(ranges) => ranges,
        };
        let v6 = config.file.network.ipv6.ranges().map_err(StartError::Network)?;
        let v6 = v6.filter(|_| ::fabric::has_ipv6());
        let ranges = NetworkRanges { v6, ..ranges };
        let mut notes: Vec<String> = ranges::hidden(&ranges, &ranges::routes()).into_iter().collect();
        let fabric = FabricConfig {
            program,
            directory: data_dir.directory("fabric")?,
            ranges,
            mtu: config.file.network.mtu,
            unclaimed: UNCLAIMED_TIMEOUT,
        };
        let before = of_hosts(data_dir, config, &fabric.program).await?;
        let started = base::task::blocking(move || ClusterFabric::start(fabric, before.as_ref())).await;
        let fabric = started.map_err(|error| StartError::Network(error.to_string()))??;
        let v6 = match v6.map(|v6| (v6, fabric.takes_ipv6())) {
            Some((v6, Ok(()))) => {
                keep_ipv6(data_dir, &v6.described())?;
                Some(v6)
            }
            Some((_, Err(error))) => {
                notes.push(format!("no IPv6: the kernel does not accept the rules for it ({error})"));
                None
            }
            None => None,
        };
        let ranges = NetworkRanges { v6, ..ranges };
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        let addresses = Arc::new(AddressPlan::fabric(ranges, on_machine(data_dir)?));
        Ok(Self { addresses, fabric: Some(Arc::new(fabric)), note })
    }
}

/// The network that a data directory was created with, if any; an error if the config requests another.
fn recorded_network(data_dir: &DataDir, requested: &NetworkConfig) -> Result<Option<Network>, StartError> {
    // Early versions had only the loopback network, and recorded nothing but the slot.
    let before = data_dir.read(FILE).or_else(|| data_dir.read("slot").map(|_| LOOPBACK.to_owned()));
    let Some(before) = before else { return Ok(None) };
    let (first, why) = before.trim().split_once('\n').unwrap_or((before.trim(), ""));
    let changed = |requested: String| StartError::NetworkChanged { before: first.to_owned(), requested };
    if first == LOOPBACK {
        return match requested.mode {
            NetworkMode::Fabric => Err(changed("fabric".to_owned())),
            NetworkMode::Loopback => Ok(Some(Network::Loopback { why: None })),
            NetworkMode::Auto => {
                let cause = if why.is_empty() { "no reason was recorded" } else { why };
                let reason = format!(
                    "the data directory was created with the machine's network ({cause}); a new one gets the pods' own \
                     network where the machine allows it"
                );
                Ok(Some(Network::Loopback { why: Some(reason) }))
            }
        };
    }
    let ranges = ranges::read(first).ok_or_else(|| {
        StartError::Network(format!(
            "invalid content of the file \"{FILE}\" in the data directory: \"{first}\""
        ))
    })?;
    if requested.mode == NetworkMode::Loopback {
        return Err(changed(LOOPBACK.to_owned()));
    }
    let now = ranges::or(requested, &ranges);
    if now == ranges { Ok(Some(Network::Own(ranges))) } else { Err(changed(ranges::text(&now))) }
}

/// Checks that the IPv6 ranges are those that the data directory records, since services have addresses in them;
/// records the first ones. IPv6 itself may be switched on and off.
fn keep_ipv6(data_dir: &DataDir, requested: &str) -> Result<(), StartError> {
    const FILE: &str = "network-ipv6";
    match data_dir.read(FILE).as_deref().map(str::trim) {
        Some(before) if before != requested => {
            Err(StartError::NetworkChanged { before: before.to_owned(), requested: requested.to_owned() })
        }
        Some(_) => Ok(()),
        None => Ok(data_dir.write(FILE, requested)?),
    }
}

async fn choose(config: &ClusterConfig, program: &Path) -> Result<Network, StartError> {
    let requested = &config.file.network;
    let ranges = ranges::choose(requested, &ranges::routes());
    match requested.mode {
        NetworkMode::Loopback => Ok(Network::Loopback { why: None }),
        // There is no preflight for an explicit request: the step that fails reports the obstacle.
        NetworkMode::Fabric => Ok(Network::Own(ranges)),
        NetworkMode::Auto if !config.file.namespaces => {
            Ok(Network::Loopback { why: Some("the config file sets \"namespaces: false\"".to_owned()) })
        }
        NetworkMode::Auto => {
            let program = program.to_path_buf();
            let tried = base::task::blocking(move || preflight::try_network(&program)).await;
            match tried.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(()) => Ok(Network::Own(ranges)),
                Err(why) => Ok(Network::Loopback { why: Some(why) }),
            }
        }
    }
}

/// Reserves a slot of the machine's loopback: this cluster's previous one if it is free.
fn on_machine(data_dir: &DataDir) -> Result<AddressPlan, StartError> {
    let before = data_dir.read("slot").and_then(|slot| slot.trim().parse().ok());
    let addresses = AddressPlan::take(before);
    data_dir.write("slot", &addresses.slot().to_string())?;
    Ok(addresses)
}

/// Returns the namespaces of the cluster's network from a node's host that has outlived the previous control plane.
async fn of_hosts(
    data_dir: &DataDir,
    config: &ClusterConfig,
    program: &Path,
) -> Result<Option<Namespaces>, StartError> {
    let nodes = std::fs::read_dir(data_dir.directory("nodes")?).into_iter().flatten().flatten();
    for node in nodes {
        let host = process_config(config, program.to_path_buf(), node.path());
        if let Ok(descriptors) = ProcessRuntime::fabric_namespaces(host).await {
            let mut descriptors = descriptors.into_iter();
            let network = descriptors.next();
            return Ok(network.map(|network| Namespaces { network, user: descriptors.next() }));
        }
    }
    Ok(None)
}
