//! The composition root: makes, wires, starts and stops every part of a cluster.

mod actors;
mod addresses;
mod bootstrap;
pub mod client;
mod config;
mod data_dir;
mod error;
mod fixed_services;
mod housekeeping;
mod images;
mod kubeconfig;
mod low_ports;
mod network;
mod node_settings;
mod nodes;
mod start;
mod static_pods;

pub use config::{
    ClusterConfig, ComponentName, ConfigFile, HollowConfig, MOST_HOLLOW_NODES, MOST_NODES, UnknownComponent,
};
pub use data_dir::{DataDir, DataDirError, default_data_dir, running_instance};
pub use error::StartError;
pub use images::image_catalogue;
pub use node_settings::{NodeCounts, NodeSettings};
pub use nodes::parse_config;
pub use start::{Cluster, StopProgress};
