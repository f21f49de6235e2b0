//! The composition root: creates, wires, starts and stops every part of a cluster.

mod actors;
mod addresses;
pub mod apply;
mod audit;
mod bootstrap;
pub mod client;
mod config;
mod data_dir;
mod embedding;
mod error;
mod fabric;
mod faults;
pub mod fencing;
mod fixed_services;
mod host_process;
mod housekeeping;
mod images;
mod ipv6;
mod kubeconfig;
mod low_ports;
mod network;
mod network_entry;
mod network_placement;
mod node_register;
mod node_settings;
mod nodes;
mod panics;
mod scenarios;
mod self_check;

pub mod snapshots;
mod start;
mod startup_writes;
mod static_pods;

pub use addresses::hollow_addresses;
pub use audit::AuditConfig;
pub use bootstrap::bootstrap;
pub use client::in_process;
pub use config::{
    ClusterConfig, ConfigFile, MOST_HOLLOW_NODES, MOST_NODES, NetworkMode, UnknownComponent,
};
pub use data_dir::{DataDir, default_data_dir, running_instance};
pub use embedding::{ApiTransport, EmbedOptions, HostProgram, PodBehaviorFn};
pub use fabric::remove_leftover_network;
pub use housekeeping::start as start_housekeeping;
pub use images::image_catalogue;
pub use network_entry::{NetworkEntry, leaf_of};
pub use network_placement::network_preflight_main;
pub use node_settings::NodeSettings;
pub use nodes::{hollow_capacity, parse_config};
pub use self_check::differences;
pub use start::{Cluster, StopProgress};
