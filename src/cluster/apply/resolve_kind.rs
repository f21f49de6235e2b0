//! Resolves the kind of a document: a built-in one, or one that the server's discovery lists.

use std::time::Duration;

use http::Method;
use kube::Client;
use serde_json::Value;

use super::request;
use manifest::Document;
use object::{Kind, Scope, ServedKind};

/// Time to wait for a kind after its definition was applied.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(10);
/// Interval between two discovery requests while waiting for a kind.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Returns a document's kind in the version of its manifest, or `None` if the kind is neither built in nor served.
/// Waits for a kind that one of the documents in `beside` defines.
pub(super) async fn served(
    client: &Client,
    document: &Document,
    beside: &[Document],
) -> Result<Option<ServedKind>, kube::Error> {
    if let Ok(served) = document.served() {
        return Ok(Some(served));
    }
    let text = |field: &str| document.value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, name) = (text("apiVersion"), text("kind"));
    let is_coming = beside.iter().any(|other| defines(other, api_version, name));
    let deadline = tokio::time::Instant::now() + ESTABLISHED_WITHIN;
    loop {
        let found = discovered(client, api_version, name).await?;
        if found.is_some() || !is_coming || tokio::time::Instant::now() >= deadline {
            return Ok(found);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Returns true if a document defines this kind.
fn defines(document: &Document, api_version: &str, name: &str) -> bool {
    let text = |pointer: &str| document.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    document.kind().ok() == Some(Kind::CustomResourceDefinition)
        && text("/spec/names/kind") == name
        && api_version.rsplit_once('/').is_some_and(|(group, _)| group == text("/spec/group"))
}

async fn discovered(
    client: &Client,
    api_version: &str,
    name: &str,
) -> Result<Option<ServedKind>, kube::Error> {
    let Some((group, version)) = api_version.rsplit_once('/') else { return Ok(None) };
    let path = format!("/apis/{api_version}");
    let answer = client.request::<Value>(request(Method::GET, &path, "", Vec::new())?).await;
    let resources = match answer {
        Ok(resources) => resources,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = |resource: &Value, field: &str| resource[field].as_str().unwrap_or_default().to_string();
    let found = resources["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|resource| text(resource, "kind") == name && !text(resource, "name").contains('/'));
    Ok(found.and_then(|resource| {
        let scope =
            if resource["namespaced"] == Value::Bool(true) { Scope::Namespaced } else { Scope::Cluster };
        let kind = Kind::custom(group, &text(resource, "name"), name, scope).ok()?;
        Some(ServedKind::Custom(kind, kind.version_name(version).ok()?))
    }))
}
