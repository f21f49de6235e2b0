//! The content of a volume from API objects: files by relative path, with their modes. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, ConfigMap, Container, DownwardAPIVolumeFile, KeyToPath, Pod, Secret,
    ServiceAccountTokenProjection, Volume,
};

use super::join_inside;
use super::ownership::{Owners, READABLE};
use crate::environment::{field_value, resource_value};
use crate::ips::Ips;
use crate::spec;
use base::sort::CollectMap;
use object::SharedObject;
use object::quantity::ResourceList;

/// Files by path within the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// The bytes and the mode of each file.
    pub(crate) files: BTreeMap<String, (Vec<u8>, u32)>,
    /// The paths that are tokens.
    pub(crate) tokens: BTreeSet<String>,
}

pub(crate) struct ContentSources<'a> {
    pub(crate) pod: &'a Pod,
    /// Its address.
    pub(crate) pod_ips: Ips,
    /// The node's address.
    pub(crate) host_ips: Ips,
    /// The amounts that a container without a limit may use.
    pub(crate) allocatable: &'a ResourceList,
    /// Returns the config map of this name in the pod's namespace.
    pub(crate) config_map: &'a dyn Fn(&str) -> Option<SharedObject<ConfigMap>>,
    /// Returns the secret of this name in the pod's namespace.
    pub(crate) secret: &'a dyn Fn(&str) -> Option<SharedObject<Secret>>,
    /// A token of the pod's service account.
    pub(crate) token: &'a dyn Fn(&ServiceAccountTokenProjection) -> Result<String, String>,
}

/// The files of a volume; `None` for a volume without content from API objects.
pub(crate) fn content(volume: &Volume, sources: &ContentSources<'_>) -> Result<Option<Content>, String> {
    let mut content = Content::default();
    let mode = |mode: Option<i32>| mode.and_then(|m| u32::try_from(m).ok()).unwrap_or(0o644);
    if let Some(source) = &volume.config_map {
        let data = config_map(sources, &source.name, source.optional)?;
        let name = format!("configmap {}", source.name);
        content.add_keys(&name, data, source.items.as_deref(), mode(source.default_mode), source.optional)?;
    } else if let Some(source) = &volume.secret {
        let name = source.secret_name.clone().unwrap_or_default();
        let data = secret(sources, &name, source.optional)?;
        let shown = format!("secret {name}");
        content.add_keys(
            &shown,
            data,
            source.items.as_deref(),
            mode(source.default_mode),
            source.optional,
        )?;
    } else if let Some(source) = &volume.downward_api {
        let files = source.items.as_deref().unwrap_or_default();
        content.add_downward(sources, files, mode(source.default_mode))?;
    } else if let Some(source) = &volume.projected {
        let mode = mode(source.default_mode);
        for part in source.sources.iter().flatten() {
            if let Some(part) = &part.config_map {
                let data = config_map(sources, &part.name, part.optional)?;
                let name = format!("configmap {}", part.name);
                content.add_keys(&name, data, part.items.as_deref(), mode, part.optional)?;
            }
            if let Some(part) = &part.secret {
                let data = secret(sources, &part.name, part.optional)?;
                let name = format!("secret {}", part.name);
                content.add_keys(&name, data, part.items.as_deref(), mode, part.optional)?;
            }
            if let Some(part) = &part.service_account_token {
                let path = content.add(&part.path, (sources.token)(part)?.into_bytes(), mode)?;
                content.tokens.insert(path);
            }
            if let Some(part) = &part.downward_api {
                content.add_downward(sources, part.items.as_deref().unwrap_or_default(), mode)?;
            }
            if let Some(part) = &part.cluster_trust_bundle {
                // The API serves no ClusterTrustBundles: each one is missing.
                if part.optional != Some(true) {
                    return Err(missing_trust_bundle(part));
                }
                content.add(&part.path, Vec::new(), mode)?;
            }
            if let Some(part) = &part.pod_certificate {
                let signer = &part.signer_name;
                return Err(format!(
                    "no certificate for signer \"{signer}\": pod certificates are not supported"
                ));
            }
        }
    } else {
        return match api::unmountable(volume) {
            Some(kind) => Err(format!("volumes of type {kind} are not supported")),
            None => Ok(None),
        };
    }
    Ok(Some(content))
}

fn missing_trust_bundle(part: &ClusterTrustBundleProjection) -> String {
    match (&part.name, &part.signer_name) {
        (Some(name), _) => format!("clustertrustbundles.certificates.k8s.io \"{name}\" not found"),
        (None, signer) => {
            let signer = signer.as_deref().unwrap_or_default();
            format!("no ClusterTrustBundle of signer \"{signer}\" matches the label selector")
        }
    }
}

type Data = BTreeMap<String, Vec<u8>>;

fn config_map(sources: &ContentSources<'_>, name: &str, optional: Option<bool>) -> Result<Data, String> {
    match (sources.config_map)(name) {
        Some(map) => {
            let texts = map.data.iter().flatten().map(|(k, v)| (k.clone(), v.clone().into_bytes()));
            let binary = map.binary_data.iter().flatten().map(|(k, v)| (k.clone(), v.0.clone()));
            Ok(texts.chain(binary).collect_map())
        }
        None if optional == Some(true) => Ok(Data::new()),
        None => Err(format!("configmap \"{name}\" not found")),
    }
}

fn secret(sources: &ContentSources<'_>, name: &str, optional: Option<bool>) -> Result<Data, String> {
    match (sources.secret)(name) {
        Some(secret) => Ok(secret.data.iter().flatten().map(|(k, v)| (k.clone(), v.0.clone())).collect_map()),
        None if optional == Some(true) => Ok(Data::new()),
        None => Err(format!("secret \"{name}\" not found")),
    }
}

impl Content {
    /// Adapts the files' modes to their owners: a token is readable by its owner alone, but a group (`fsGroup`) may
    /// read all files, tokens too.
    pub(crate) fn belong_to(&mut self, owners: Owners) {
        for (path, (_, mode)) in &mut self.files {
            if owners != Owners::default() && self.tokens.contains(path) {
                *mode = 0o600;
            }
            if owners.group.is_some() {
                *mode |= READABLE.file;
            }
        }
    }

    /// Adds a file and returns its path in the volume.
    fn add(&mut self, path: &str, bytes: Vec<u8>, mode: u32) -> Result<String, String> {
        let clean = join_inside(std::path::Path::new(""), path)
            .and_then(|p| p.to_str().map(str::to_string))
            .filter(|p| !p.is_empty() && !p.starts_with(".."))
            .ok_or_else(|| format!("invalid path \"{path}\": must be relative and must not contain '..'"))?;
        self.tokens.remove(&clean);
        self.files.insert(clean.clone(), (bytes, mode));
        Ok(clean)
    }

    fn add_keys(
        &mut self,
        source: &str,
        data: Data,
        items: Option<&[KeyToPath]>,
        mode: u32,
        optional: Option<bool>,
    ) -> Result<(), String> {
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            for (key, bytes) in data {
                // A key is one file name; the API refuses others, but a store written by other means may have them.
                if key.contains('/') {
                    return Err(format!("invalid key \"{key}\" in {source}"));
                }
                self.add(&key, bytes, mode)?;
            }
            return Ok(());
        };
        for item in items {
            match data.get(&item.key) {
                Some(bytes) => {
                    let mode = item.mode.and_then(|m| u32::try_from(m).ok()).unwrap_or(mode);
                    self.add(&item.path, bytes.clone(), mode)?;
                }
                None if optional == Some(true) => {}
                None if source.starts_with("secret") => {
                    return Err(format!("references non-existent secret key: {}", item.key));
                }
                None => return Err(format!("configmap references non-existent config key: {}", item.key)),
            }
        }
        Ok(())
    }

    fn add_downward(
        &mut self,
        sources: &ContentSources<'_>,
        files: &[DownwardAPIVolumeFile],
        mode: u32,
    ) -> Result<(), String> {
        for file in files {
            let value = if let Some(field) = &file.field_ref {
                field_value(sources.pod, &field.field_path, sources.pod_ips, sources.host_ips)
                    .ok_or_else(|| format!("unsupported fieldPath: {}", field.field_path))?
            } else if let Some(field) = &file.resource_field_ref {
                let name = field.container_name.as_deref().unwrap_or_default();
                let container = spec::container(sources.pod, name).map(|(_, c)| c.into_owned());
                let container: Container = container.ok_or_else(|| format!("container {name} not found"))?;
                resource_value(sources.pod, &container, field, sources.allocatable)
                    .ok_or_else(|| format!("unsupported container resource: {}", field.resource))?
            } else {
                continue;
            };
            let mode = file.mode.and_then(|m| u32::try_from(m).ok()).unwrap_or(mode);
            self.add(&file.path, value.into_bytes(), mode)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn files(volume: Value) -> Result<String, String> {
        let mut volume = volume;
        volume["name"] = json!("v");
        let volume: Volume = serde_json::from_value(volume).unwrap();
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "2Mi"}}}]}}))
        .unwrap();
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "m"},
            "data": {"x": "1", "y": "2"}, "binaryData": {"z": "Mw=="}}))
        .unwrap();
        let bad: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "bad"}, "data": {"../x": "1"}})).unwrap();
        let secret: Secret =
            serde_json::from_value(json!({"metadata": {"name": "s"}, "data": {"k": "dg=="}})).unwrap();
        let (map, bad, secret) =
            (SharedObject::from_value(map), SharedObject::from_value(bad), SharedObject::from_value(secret));
        let sources = ContentSources {
            pod: &pod,
            pod_ips: Ips::default(),
            host_ips: Ips::default(),
            allocatable: &ResourceList::new(),
            config_map: &|name| match name {
                "m" => Some(map.clone()),
                "bad" => Some(bad.clone()),
                _ => None,
            },
            secret: &|name| (name == "s").then(|| secret.clone()),
            token: &|projection| Ok(format!("token-{}", projection.expiration_seconds.unwrap_or(0))),
        };
        let Some(content) = content(&volume, &sources)? else { return Ok("directory".into()) };
        let shown = content
            .files
            .iter()
            .map(|(path, (bytes, mode))| format!("{path}={}:{mode:o}", String::from_utf8_lossy(bytes)));
        Ok(shown.collect::<Vec<_>>().join(" "))
    }

    /// POD-16, as in Kubernetes: a group can read all files, and only the owner can read a token.
    #[test]
    fn modes_follow_the_owners() {
        let modes = |owners| {
            let file = |mode| (Vec::new(), mode);
            let mut content = Content {
                files: [("key".into(), file(0o400)), ("token".into(), file(0o644))].into(),
                tokens: ["token".to_string()].into(),
            };
            content.belong_to(owners);
            [content.files["key"].1, content.files["token"].1]
        };
        assert_eq!(modes(Owners::default()), [0o400, 0o644]);
        assert_eq!(modes(Owners { group: Some(7), ..Owners::default() }), [0o440, 0o640]);
        assert_eq!(modes(Owners { user: Some(5), ..Owners::default() }), [0o400, 0o600]);
    }

    #[test]
    fn volumes_hold_what_kubernetes_puts_there_vol_1() {
        for (volume, expected) in [
            (json!({"emptyDir": {}}), Ok("directory")),
            (json!({"configMap": {"name": "m"}}), Ok("x=1:644 y=2:644 z=3:644")),
            (
                json!({"configMap": {"name": "m", "defaultMode": 256,
                    "items": [{"key": "x", "path": "d/e", "mode": 448}, {"key": "y", "path": "f"}]}}),
                Ok("d/e=1:700 f=2:400"),
            ),
            (json!({"secret": {"secretName": "s"}}), Ok("k=v:644")),
            (
                json!({"projected": {"sources": [{"configMap": {"name": "m", "items": [{"key": "x", "path": "x"}]}},
                    {"secret": {"name": "s"}}, {"secret": {"name": "gone", "optional": true}},
                    {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                    {"downwardAPI": {"items": [
                        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                        {"path": "mem", "resourceFieldRef": {"containerName": "c", "resource": "limits.memory"}}]}}]}}),
                Ok("k=v:644 labels=a=\"b\":644 mem=2097152:644 token=token-600:644 x=1:644"),
            ),
            (json!({"configMap": {"name": "gone"}}), Err("configmap \"gone\" not found")),
            (json!({"configMap": {"name": "gone", "optional": true}}), Ok("")),
            (
                json!({"configMap": {"name": "m", "items": [{"key": "q", "path": "q"}]}}),
                Err("configmap references non-existent config key: q"),
            ),
            (
                json!({"secret": {"secretName": "s", "items": [{"key": "q", "path": "q"}]}}),
                Err("references non-existent secret key: q"),
            ),
            (
                json!({"configMap": {"name": "m", "items": [{"key": "x", "path": "../x"}]}}),
                Err("invalid path \"../x\": must be relative and must not contain '..'"),
            ),
            (
                json!({"projected": {"sources": [{"clusterTrustBundle": {"name": "nope", "path": "ca.pem"}}]}}),
                Err("clustertrustbundles.certificates.k8s.io \"nope\" not found"),
            ),
            (
                json!({"projected": {"sources": [{"clusterTrustBundle": {"signerName": "ex.io/s", "path": "ca.pem"}}]}}),
                Err("no ClusterTrustBundle of signer \"ex.io/s\" matches the label selector"),
            ),
            (
                json!({"projected": {"sources": [
                    {"clusterTrustBundle": {"name": "nope", "path": "ca.pem", "optional": true}}]}}),
                Ok("ca.pem=:644"),
            ),
            (
                json!({"projected": {"sources": [{"podCertificate": {"signerName": "ex.io/s", "keyType": "ED25519",
                    "credentialBundlePath": "b.pem"}}]}}),
                Err("no certificate for signer \"ex.io/s\": pod certificates are not supported"),
            ),
            (json!({"image": {"reference": "example.org/data:1"}}), Ok("directory")),
            (json!({"flocker": {"datasetName": "d"}}), Err("volumes of type flocker are not supported")),
            (json!({"configMap": {"name": "bad"}}), Err("invalid key \"../x\" in configmap bad")),
        ] {
            let shown = volume.to_string();
            assert_eq!(files(volume), expected.map(str::to_string).map_err(str::to_string), "{shown}");
        }
    }
}
