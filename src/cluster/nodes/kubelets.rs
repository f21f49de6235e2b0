//! Lists the kubelets that should exist, by their nodes' names, including those that are down (CON-19).

use std::sync::Arc;

use super::follow::Follower;
use api::controller_status::{
    ControllerProbe, ControllerStatus, ProbeName, ProbeSource, kubelet_name, node_of_kubelet,
};

/// Returns no statuses, since running kubelets report theirs themselves.
impl ProbeSource for Follower {
    fn statuses(&self) -> Vec<(ProbeName, Option<ControllerStatus>)> {
        self.state.lock().slots.keys().map(|node| (kubelet_name(node), None)).collect()
    }

    fn find(&self, name: &str) -> Option<Option<Arc<dyn ControllerProbe>>> {
        self.state.lock().slots.contains_key(node_of_kubelet(name)?).then_some(None)
    }
}
