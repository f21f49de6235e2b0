//! Static pods: manifests in a directory of the node, run whatever the API says (POD-15).

/// Where a pod's object came from: `file` for static pods.
pub(super) const SOURCE: &str = "kubernetes.io/config.source";
