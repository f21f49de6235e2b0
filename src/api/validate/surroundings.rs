//! What the rules of a container need to know of its pod.

use std::collections::HashSet;

/// What a container's rules need to know of its pod.
pub(crate) struct Surroundings<'a> {
    /// The names of the pod's volumes.
    pub(crate) volumes: HashSet<&'a str>,
    /// The pod uses the node's network.
    pub(crate) host_network: bool,
    /// The pod's grace period.
    pub(crate) grace_seconds: i64,
    /// When the pod's containers are started again.
    pub(crate) restart_policy: Option<&'a str>,
    /// The system the pod is for (`spec.os.name`).
    pub(crate) os: Option<&'a str>,
}
