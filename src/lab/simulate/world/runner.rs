//! The simulated world's nodes as the fencing controller of one control plane uses them.

use std::sync::{Arc, Weak};

use super::{ControlPlane, World, node_of};
use operators::fencing::{FenceError, NodeRunState, NodeRunner};

/// A control plane, and the world that runs its nodes.
#[derive(Clone)]
pub(super) struct Runner {
    world: Weak<World>,
    plane: Weak<ControlPlane>,
}

impl Runner {
    pub(super) fn new(world: Weak<World>, plane: Weak<ControlPlane>) -> Self {
        Self { world, plane }
    }

    /// Returns the world, the control plane and the node's number; `None` once the control plane has ended, or if there
    /// is no node of this name.
    fn resolve(&self, name: &str) -> Option<(Arc<World>, Arc<ControlPlane>, usize)> {
        Some((self.world.upgrade()?, self.plane.upgrade()?, node_of(name)?))
    }
}

impl NodeRunner for Runner {
    fn run_state(&self, name: &str) -> NodeRunState {
        let resolved = self.resolve(name);
        resolved.map_or(NodeRunState::Undeclared, |(_, plane, node)| World::run_state(&plane, node))
    }

    async fn kill_for_certain(&self, name: &str) -> Result<(), FenceError> {
        let (world, plane, node) = self.resolve(name).ok_or_else(|| FenceError::NotLocal(name.into()))?;
        world.kill_for_certain(&plane, node).await
    }

    async fn take_back(&self, name: &str, _is_deleted: bool) -> Result<(), String> {
        // `_is_deleted` can be ignored: no client of the simulation deletes nodes.
        if let Some((world, plane, node)) = self.resolve(name) {
            world.take_back(&plane, node);
        }
        Ok(())
    }
}
