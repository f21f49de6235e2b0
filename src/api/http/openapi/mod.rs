//! OpenAPI documents: what kubectl reads to validate, explain and merge.
//!
//! Version 3 has one document a group and version and an index with the hash of each, under which clients
//! keep them for good; version 2 is one document of everything. All are made on first demand and kept encoded.

mod gnostic;
mod old_versions;
mod ours;
mod paths;
mod reference;
mod schemas;
mod swagger;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

pub(super) use gnostic::{ANSWER_TYPE as PROTOBUF_2_ANSWER, MEDIA_TYPE as PROTOBUF_2};

use super::discovery::{KUBERNETES_VERSION, Served, served};
use crate::aggregation::ApiServices;
use crate::kinds::Kinds;

/// The documents of all that is served at one time. Each is made when it is first asked for.
pub(crate) struct Documents {
    served: Vec<Served>,
    /// Nothing else is: those of others share what is the same.
    is_built_in: bool,
    version_3: OnceLock<BTreeMap<String, Hashed>>,
    index: OnceLock<Hashed>,
    version_2: OnceLock<Hashed>,
    version_2_protobuf: OnceLock<Bytes>,
}

/// An encoded document, and the hash under which clients keep it.
#[derive(Clone)]
pub(crate) struct Hashed {
    /// The document.
    pub(crate) body: Bytes,
    /// Its hash.
    pub(crate) hash: String,
}

impl Hashed {
    fn of(document: &Value) -> Self {
        let body = Bytes::from(document.to_string());
        let hash = hash_of(&body);
        Self { body, hash }
    }
}

/// The documents of what is built in: made once a process.
pub(super) fn built_in() -> &'static Arc<Documents> {
    static BUILT_IN: LazyLock<Arc<Documents>> = LazyLock::new(|| Arc::new(Documents::of(&Kinds::default())));
    &BUILT_IN
}

impl Documents {
    /// Of what these kinds are.
    pub(super) fn of(kinds: &Kinds) -> Self {
        Self {
            served: served(kinds),
            is_built_in: kinds.all().all(|kind| !kind.is_custom()),
            version_3: OnceLock::new(),
            index: OnceLock::new(),
            version_2: OnceLock::new(),
            version_2_protobuf: OnceLock::new(),
        }
    }

    /// What is served, by group and version.
    pub(super) fn served(&self) -> &[Served] {
        &self.served
    }

    /// `/openapi/v3`: which documents there are.
    pub(crate) fn index(&self) -> &Hashed {
        self.index.get_or_init(|| {
            let url = |path: &str, hash: &str| json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")});
            let documents = self.all_of_version_3().iter();
            let paths: Map<String, Value> =
                documents.map(|(path, document)| (path.clone(), url(path, &document.hash))).collect();
            Hashed::of(&json!({"paths": paths}))
        })
    }

    /// The same, with the documents of extending servers, in place of ours where they have taken that over. Theirs are fetched
    /// from them.
    pub(super) fn index_with(&self, services: &ApiServices) -> Cow<'_, Hashed> {
        let theirs = services.remote();
        let ours = self.index();
        if theirs.is_empty() {
            return Cow::Borrowed(ours);
        }
        let mut index: Value = serde_json::from_slice(&ours.body).unwrap_or_default();
        for (of, service) in theirs {
            let path = format!("apis/{}/{}", of.group, of.version);
            let hash = service.remote.and_then(|remote| remote.discovered().openapi_hash.clone());
            let Some(paths) = index["paths"].as_object_mut() else { continue };
            match hash.filter(|_| service.is_available) {
                None => drop(paths.remove(&path)),
                Some(hash) => {
                    let query = if hash.is_empty() { String::new() } else { format!("?hash={hash}") };
                    let url = json!({"serverRelativeURL": format!("/openapi/v3/{path}{query}")});
                    paths.insert(path, url);
                }
            }
        }
        Cow::Owned(Hashed::of(&index))
    }

    /// The document of one group and version, named like its path (`api/v1`, `apis/apps/v1`).
    pub(crate) fn version_3(&self, path: &str) -> Option<&Hashed> {
        self.all_of_version_3().get(path.trim_matches('/'))
    }

    fn all_of_version_3(&self) -> &BTreeMap<String, Hashed> {
        self.version_3.get_or_init(|| {
            let made = |served: &Served| {
                let is_built_in = served.resources.iter().all(|resource| resource.schema.is_none());
                let shared = if self.is_built_in || !is_built_in {
                    None
                } else {
                    built_in().version_3(&served.path()).cloned()
                };
                shared.unwrap_or_else(|| Hashed::of(&document(served)))
            };
            self.served.iter().map(|served| (served.path(), made(served))).collect()
        })
    }

    /// `/openapi/v2` as JSON.
    pub(crate) fn version_2(&self) -> &Hashed {
        self.version_2.get_or_init(|| Hashed::of(&swagger::of(self.served.iter().map(document))))
    }

    /// `/openapi/v2` as the protobuf that kubectl up to 1.29 reads.
    pub(crate) fn version_2_protobuf(&self) -> &Bytes {
        let made = || gnostic::encode(&swagger::of(self.served.iter().map(document))).into();
        self.version_2_protobuf.get_or_init(made)
    }
}

fn document(served: &Served) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": KUBERNETES_VERSION},
        "paths": paths::of(served),
        "components": {
            "schemas": schemas::of(served),
            "securitySchemes": {"BearerToken": {
                "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
            }},
        },
    })
}

fn hash_of(body: &[u8]) -> String {
    Sha512::digest(body).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    #[test]
    fn kubectl_finds_what_it_looks_for_api_6() {
        let index = read(&built_in().index().body);
        let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL");
        assert!(url.starts_with("/openapi/v3/apis/apps/v1?hash="), "{url}");
        let document = built_in().version_3("apis/apps/v1").expect("there");
        assert!(url.ends_with(&document.hash));
        let apps = read(&document.body);
        let patch = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(
            patch["x-kubernetes-group-version-kind"],
            json!({"group": "apps", "kind": "Deployment", "version": "v1"})
        );
        assert_eq!(patch["x-kubernetes-action"], "patch");
        let names: Vec<&str> = patch["parameters"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|p| p["name"].as_str())
            .collect();
        assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
        assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
        let pod_spec = &apps["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
        let containers = &pod_spec["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        let deployment = &apps["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
        assert_eq!(
            deployment["x-kubernetes-group-version-kind"],
            json!([{"group": "apps", "kind": "Deployment", "version": "v1"}])
        );
        assert_eq!(
            deployment["properties"]["spec"]["allOf"],
            json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}])
        );
        assert!(deployment["properties"]["spec"]["description"].is_string());
        let quantity = &apps["components"]["schemas"]["io.k8s.apimachinery.pkg.api.resource.Quantity"];
        assert_eq!(quantity["oneOf"], json!([{"type": "string"}, {"type": "number"}]));
    }

    /// API-FOUND 21: as the published schema of 1.37 has them.
    #[test]
    fn only_what_a_client_must_send_is_required_api_6() {
        let document = read(&built_in().version_2().body);
        let required = |name: &str| {
            let schema = &document["definitions"][format!("io.k8s.api.{name}")];
            assert!(schema.is_object(), "{name}");
            schema["required"].as_array().cloned().unwrap_or_default()
        };
        let none: [&str; 0] = [];
        for (name, expected) in [
            ("core.v1.Pod", &none[..]),
            ("apps.v1.Deployment", &["spec"]),
            ("discovery.v1.EndpointSlice", &["addressType"]),
            ("authorization.v1.SelfSubjectAccessReview", &["spec"]),
            ("core.v1.LocalObjectReference", &none),
            ("core.v1.SecretKeySelector", &["key"]),
            ("core.v1.ConfigMapEnvSource", &none),
            ("core.v1.Container", &["name"]),
            ("core.v1.Event", &["involvedObject", "metadata"]),
            ("events.v1.Event", &["eventTime"]),
        ] {
            assert_eq!(required(name), *expected, "{name}");
        }
        for (name, schema) in document["definitions"].as_object().expect("definitions") {
            let required = schema["required"].as_array().into_iter().flatten();
            let metadata = required.filter(|field| *field == "metadata").count() > 0;
            assert_eq!(metadata, name == "io.k8s.api.core.v1.Event", "{name}");
        }
    }

    /// API-FOUND 21: the names that generated clients make their functions of.
    #[test]
    fn every_operation_has_the_name_that_clients_know_api_6() {
        let document = read(&built_in().version_2().body);
        let mut ids = std::collections::HashSet::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                if method != "parameters" {
                    let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path}"));
                    assert!(ids.insert(id.to_string()), "{id} twice: {method} {path}");
                }
            }
        }
        for id in [
            "listCoreV1NamespacedPod",
            "listCoreV1PodForAllNamespaces",
            "createAppsV1NamespacedDeployment",
            "deleteCoreV1CollectionNamespacedPod",
            "readCoreV1Node",
            "replaceCoreV1NamespaceFinalize",
            "patchAppsV1NamespacedDeploymentScale",
            "createCoreV1NamespacedPodEviction",
            "createCoreV1NamespacedServiceAccountToken",
            "readCoreV1NamespacedPodLog",
            "connectCoreV1GetNamespacedPodExec",
            "connectCoreV1PutNodeProxy",
            "watchCoreV1NamespacedPodList",
            "createAuthenticationV1TokenReview",
            "listDiscoveryV1NamespacedEndpointSlice",
        ] {
            assert!(ids.contains(id), "{id}");
        }
    }

    /// API-FOUND 21: `kubectl explain schedulingverdicts`.
    #[test]
    fn our_own_kinds_are_explained_api_6() {
        let document = built_in().version_3("apis/podium.dev/v1alpha1").expect("there");
        let document = read(&document.body);
        let verdict = &document["components"]["schemas"]["dev.podium.v1alpha1.SchedulingVerdict"];
        assert_eq!(
            verdict["x-kubernetes-group-version-kind"],
            json!([{"group": "podium.dev", "kind": "SchedulingVerdict", "version": "v1alpha1"}])
        );
        assert!(verdict["properties"]["hints"]["items"]["properties"]["changes"].is_object());
        let path = "/apis/podium.dev/v1alpha1/namespaces/{namespace}/schedulingverdicts/{name}";
        assert!(document["paths"][path]["get"].is_object() && document["paths"][path]["put"].is_null());
    }

    #[test]
    fn every_reference_has_a_target_api_6() {
        fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(entries) => {
                    found.extend(entries.get("$ref").and_then(Value::as_str));
                    entries.values().for_each(|v| references(v, found));
                }
                Value::Array(elements) => elements.iter().for_each(|v| references(v, found)),
                _ => {}
            }
        }
        let mut all: Vec<(String, Value)> =
            built_in().all_of_version_3().iter().map(|(path, d)| (path.clone(), read(&d.body))).collect();
        all.push(("v2".into(), read(&built_in().version_2().body)));
        for (path, document) in &all {
            let mut found = Vec::new();
            references(document, &mut found);
            assert!(!found.is_empty(), "{path}");
            for reference in found {
                // JSON pointers: names have neither `~` nor `/`.
                assert!(document.pointer(&reference[1..]).is_some(), "{path}: {reference}");
            }
        }
    }

    #[test]
    fn version_2_has_bodies_and_definitions_api_6() {
        let document = read(&built_in().version_2().body);
        assert_eq!(document["swagger"], "2.0");
        let post = &document["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"];
        assert_eq!(
            post["parameters"][0],
            json!({"in": "body", "name": "body", "required": true,
            "schema": {"$ref": "#/definitions/io.k8s.api.core.v1.Pod"}})
        );
        let spec = &document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
        assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
        assert_eq!(
            document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["type"],
            "string"
        );
    }
}
