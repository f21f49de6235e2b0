//! The composition root: makes, wires, starts and stops every part of a cluster.

mod actors;
mod addresses;
mod bootstrap;
pub mod client;
mod config;
mod data_dir;
mod fixed_services;
mod housekeeping;
mod images;
mod kubeconfig;
mod low_ports;
mod network;
mod nodes;
mod start;
mod static_pods;

pub use config::{
    ClusterConfig, ComponentName, ConfigFile, HollowConfig, MOST_HOLLOW_NODES, MOST_NODES, UnknownComponent,
};
pub use data_dir::{DataDir, DataDirError, default_data_dir, running_instance};
pub use images::image_catalogue;
pub use nodes::{Counts, NodeSettings, parse_config};
pub use start::{Cluster, StartError, StopProgress};
