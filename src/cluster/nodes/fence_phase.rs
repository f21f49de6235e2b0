//! The phase of a node's fence, if it has one.

use api::Api;
use extension::node_fence::{FencePhase, NodeFence};
use object::Key;

/// The phase of the NodeFence of this node; `None` if the node has no fence.
pub(super) fn fence_of(api: &Api, node: &str) -> Option<FencePhase> {
    api.get_as::<NodeFence>(&Key::new("", node)).ok().map(|fence| fence.phase())
}
