//! The configuration of a node's host process, from the config file.

use std::path::PathBuf;

use super::config::ClusterConfig;
use kubelet::runtime::{HostLife, ProcessConfig};

/// The configuration of a node's host process. `state_dir` is the node's directory. The node is in the machine's
/// network unless the caller sets `network`.
pub(super) fn process_config(config: &ClusterConfig, program: PathBuf, state_dir: PathBuf) -> ProcessConfig {
    let timings = &config.file.timings;
    ProcessConfig {
        program,
        state_dir,
        hidden: None,
        life: if config.ephemeral { HostLife::Ephemeral } else { HostLife::Independent },
        namespaces: config.file.namespaces,
        network: None,
        cgroups: config.file.cgroups,
        pod_pids_limit: config.file.pod_pids_limit,
        unclaimed: timings.unclaimed_host_timeout.0,
        request_timeout: timings.runtime_request_timeout.0,
        status_timeout: timings.runtime_status_timeout.0,
    }
}
