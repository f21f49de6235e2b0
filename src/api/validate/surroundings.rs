//! What the rules of a container need to know of its pod.

use std::collections::HashSet;

/// What a container's rules need to know of its pod.
pub(in crate::api) struct Surroundings<'a> {
    /// The names of the pod's volumes.
    pub(in crate::api) volumes: HashSet<&'a str>,
    /// The pod uses the node's network.
    pub(in crate::api) host_network: bool,
    /// The pod's grace period.
    pub(in crate::api) grace_seconds: i64,
    /// When the pod's containers are started again.
    pub(in crate::api) restart_policy: Option<&'a str>,
    /// The system the pod is for (`spec.os.name`).
    pub(in crate::api) os: Option<&'a str>,
}
