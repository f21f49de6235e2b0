//! What the rules of a container need to know of its pod.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::core::v1::Volume;

/// What a container's rules need to know of its pod.
#[derive(Default)]
pub(crate) struct Surroundings<'a> {
    /// The pod's volumes that have no faults, by name.
    pub(crate) volumes: HashMap<&'a str, &'a Volume>,
    /// The names of the pod's resource claims.
    pub(crate) claims: BTreeSet<&'a str>,
    /// The pod uses the node's network.
    pub(crate) host_network: bool,
    /// The pod uses the node's users; only a pod with users of its own says otherwise.
    pub(crate) host_users: bool,
    /// The spec is of a pod, not of a template.
    pub(crate) is_pod: bool,
    /// The pod's grace period.
    pub(crate) grace_seconds: i64,
    /// When the pod's containers are started again.
    pub(crate) restart_policy: Option<&'a str>,
    /// The system the pod is for (`spec.os.name`).
    pub(crate) os: Option<&'a str>,
}
