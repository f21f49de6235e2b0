//! The kubeconfig that gives kubectl and every other client access to this cluster.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::data_dir::replace_private;
use super::error::StartError;

/// Returns the kubeconfig of this cluster alone.
pub(super) fn new(server: &str, ca_pem: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "podium", "cluster": {
            "server": server, "certificate-authority-data": STANDARD.encode(ca_pem)}}],
        "users": [{"name": "podium-admin", "user": {"token": token}}],
        "contexts": [{"name": "podium", "context": {
            "cluster": "podium", "user": "podium-admin", "namespace": "default"}}],
        "current-context": "podium",
        "preferences": {},
    })
}

/// Adds the entries of `own` to the kubeconfig at `path`, and makes its context the current one. Entries of the same
/// names are replaced, and all others stay, as with kind and minikube.
pub(super) fn add_to(path: &Path, own: &Value) -> Result<(), StartError> {
    // The target of a link is written, so that the link stays.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let fault = |reason: String| StartError::Kubeconfig { path: path.clone(), reason };
    let existing = match fs::metadata(path) {
        Ok(about) if about.is_file() => fs::read_to_string(path).map_err(|error| fault(error.to_string()))?,
        Ok(_) => return Err(fault("it is no regular file".into())),
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(fault(error.to_string())),
    };
    let existing = manifest::from_yaml(&existing).map_err(|error| fault(error.to_string()))?;
    let merged = merge(existing, own).map_err(|reason| fault(reason.into()))?;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(|error| fault(error.to_string()))?;
    }
    Ok(replace_private(path, &manifest::to_yaml(&merged))?)
}

fn merge(existing: Value, own: &Value) -> Result<Value, &'static str> {
    const NOT_A_KUBECONFIG: &str = "it is not a kubeconfig";
    let mut fields = match existing {
        Value::Null => return Ok(own.clone()),
        Value::Object(fields) => fields,
        _ => return Err(NOT_A_KUBECONFIG),
    };
    for field in ["apiVersion", "kind"] {
        if *fields.entry(field).or_insert_with(|| own[field].clone()) != own[field] {
            return Err(NOT_A_KUBECONFIG);
        }
    }
    for field in ["clusters", "users", "contexts"] {
        let own = own[field].as_array().expect("a list of our own");
        // kubectl writes null for an empty list.
        let mut entries = match fields.remove(field) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(NOT_A_KUBECONFIG),
        };
        entries.retain(|entry| own.iter().all(|own| own["name"] != entry["name"]));
        entries.extend(own.iter().cloned());
        fields.insert(field.into(), entries.into());
    }
    fields.insert("current-context".into(), own["current-context"].clone());
    Ok(Value::Object(fields))
}

/// Returns the server's port in such a text; `None` if it cannot be read.
pub(super) fn port(text: &str) -> Option<u16> {
    let config = manifest::from_yaml(text).ok()?;
    config["clusters"][0]["cluster"]["server"].as_str()?.rsplit(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The user's kubeconfig may have the only credentials of other clusters.
    #[test]
    fn a_kubeconfig_retains_the_entries_of_other_clusters_cli_2() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("kube/config"), directory.path().join("link"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        let own = new("https://127.0.0.1:6443", "ca", "secret");
        add_to(&path, &own).unwrap();
        assert_eq!(text(&path), manifest::to_yaml(&own), "a new file");

        let theirs = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "prod", "preferences": {"colors": true},
            "clusters": [{"name": "podium", "cluster": {"server": "https://old"}},
                {"name": "prod", "cluster": {"server": "https://prod"}}],
            "users": null, "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "prod"}}]});
        fs::write(&path, theirs.to_string()).unwrap();
        add_to(&link, &own).unwrap();
        let merged = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "podium", "preferences": {"colors": true},
            "clusters": [theirs["clusters"][1], own["clusters"][0]],
            "users": own["users"], "contexts": [theirs["contexts"][0], own["contexts"][0]]});
        assert_eq!(text(&path), manifest::to_yaml(&merged));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());

        for other in ["just text", "[]", "kind: Pod", "clusters: 1", "a: [", "{}\n---\n{}"] {
            fs::write(&path, other).unwrap();
            let error = add_to(&path, &own).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
            assert_eq!(text(&path), other);
        }
        assert!(add_to(directory.path(), &own).is_err());
    }
}
