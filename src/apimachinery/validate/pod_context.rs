//! The facts about a pod that the rules of its containers depend on.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::core::v1::Volume;

/// The facts about a pod that the rules of its containers depend on.
#[derive(Default)]
pub struct PodContext<'a> {
    /// The pod's valid volumes, by name.
    pub volumes: HashMap<&'a str, &'a Volume>,
    /// The names of the pod's resource claims.
    pub claims: BTreeSet<&'a str>,
    /// The pod uses the host network.
    pub host_network: bool,
    /// The pod uses the node's user namespace; true unless the spec sets it to false.
    pub host_users: bool,
    /// The spec belongs to a pod, not to a template.
    pub is_pod: bool,
    /// The pod's grace period, in seconds.
    pub grace_seconds: i64,
    /// The pod's restart policy.
    pub restart_policy: Option<&'a str>,
    /// The pod's operating system (`spec.os.name`).
    pub os: Option<&'a str>,
}
