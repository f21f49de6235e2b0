//! The kubeconfig that gives kubectl and every other client access to this cluster.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// Returns the kubeconfig's text: JSON, which is YAML.
pub(super) fn text(server: &str, ca_pem: &str, token: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "podium", "cluster": {
            "server": server, "certificate-authority-data": STANDARD.encode(ca_pem)}}],
        "users": [{"name": "podium-admin", "user": {"token": token}}],
        "contexts": [{"name": "podium", "context": {
            "cluster": "podium", "user": "podium-admin", "namespace": "default"}}],
        "current-context": "podium",
        "preferences": {},
    });
    manifest::to_yaml(&config)
}

/// Returns the server's port in such a text; `None` if it cannot be read.
pub(super) fn port(text: &str) -> Option<u16> {
    let config = manifest::from_yaml(text).ok()?;
    config["clusters"][0]["cluster"]["server"].as_str()?.rsplit(':').next()?.parse().ok()
}
