//! The composition root: creates, wires, starts and stops every part of a cluster.

mod actors;
mod addresses;
mod audit;
mod bootstrap;
pub(crate) mod client;
mod config;
mod data_dir;
mod embedding;
mod error;
mod fabric;
mod faults;
pub(crate) mod fencing;
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

pub(crate) mod snapshots;
mod start;
mod startup_writes;
mod static_pods;

pub(crate) use addresses::hollow_addresses;
pub(crate) use audit::AuditConfig;
pub(crate) use bootstrap::bootstrap;
pub(crate) use client::in_process;
pub(crate) use config::{
    ClusterConfig, ConfigFile, MOST_HOLLOW_NODES, MOST_NODES, NetworkMode, UnknownComponent,
};
pub(crate) use data_dir::{DataDir, default_data_dir, running_instance};
pub(crate) use embedding::{ApiTransport, EmbedOptions, HostProgram, PodBehaviorFn};
pub(crate) use fabric::remove_leftover_network;
pub(crate) use housekeeping::start as start_housekeeping;
pub(crate) use images::image_catalogue;
pub(crate) use network_entry::{NetworkEntry, leaf_of};
pub(crate) use network_placement::network_preflight_main;
pub(crate) use node_settings::NodeSettings;
pub(crate) use nodes::{hollow_capacity, parse_config};
pub(crate) use self_check::differences;
pub(crate) use start::{Cluster, StopProgress};
