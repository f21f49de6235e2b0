//! OpenAPI documents: kubectl reads them to validate, explain and merge.
//!
//! Version 3 has one document for each group and version and an index with the hash of each, under which
//! clients cache it forever; version 2 is one document of everything. Each is generated on first demand and
//! held compressed. A definition's contribution is generated once for each state of the definition, and the
//! whole is assembled while it is sent.

mod compression;
mod custom;
mod gnostic;
mod paths;
mod podium_schemas;
mod reference;
mod removed_versions;
mod schemas;
mod swagger;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::io::{BufReader, Read as _};
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

pub(super) use compression::BlockBody;
use compression::{CompressedBytes, Compressor};
pub(super) use gnostic::{MEDIA_TYPE as PROTOBUF_2, is_accepted as accepts_protobuf_2};

use super::discovery::{KUBERNETES_VERSION, ServedGroupVersion, served};
use api::aggregation::ApiServices;
use api::served_kinds::Kinds;
use base::sort::CollectMap;

/// The OpenAPI version of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Two,
    Three,
}

/// The encoding of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

/// The documents of all kinds that are served at one time. Each is generated on first request.
pub(crate) struct Documents {
    base: &'static BuiltinDocuments,
    served: Vec<ServedGroupVersion>,
    /// For each group and version in `served`.
    generated: Vec<Arc<GroupVersionDocuments>>,
    index: OnceLock<HashedBody>,
    version_2_hash: OnceLock<String>,
}

/// The documents of one group and version.
#[derive(Default)]
struct GroupVersionDocuments {
    version_3: OnceLock<HashedDocument>,
    /// The contribution of its custom resources to version 2.
    version_2: OnceLock<OpenApiV2Part>,
}

/// A document and its hash.
pub(crate) struct HashedDocument {
    pub(crate) document: CompressedBytes,
    pub(crate) hash: String,
}

/// A part of the document of version 2: entries of `paths` and of `definitions`.
struct OpenApiV2Part {
    hash: String,
    /// JSON without the braces around it.
    paths: CompressedBytes,
    definitions: CompressedBytes,
    protobuf: OnceLock<CompressedBytes>,
}

/// An encoded document, and the hash under which clients cache it.
#[derive(Clone)]
pub(crate) struct HashedBody {
    /// The document.
    pub(crate) body: Bytes,
    /// Its hash.
    pub(crate) hash: String,
}

impl HashedBody {
    fn of(document: &Value) -> Self {
        let body = Bytes::from(document.to_string());
        let hash = hash_of(&body);
        Self { body, hash }
    }
}

impl HashedDocument {
    fn of(served: &ServedGroupVersion) -> Self {
        let text = document(served, Version::Three).to_string();
        Self { document: CompressedBytes::of(text.as_bytes()), hash: hash_of(text.as_bytes()) }
    }
}

impl OpenApiV2Part {
    /// Converts documents of version 3, one at a time: in parsed form, a document is several times as large as its text.
    /// Leaves out the paths and definitions that `accept` refuses by name.
    fn of(documents: impl Iterator<Item = Value>, mut accept: impl FnMut(&str) -> bool) -> Self {
        let (mut paths, mut definitions) = (EntriesWriter::new(), Map::new());
        for document in documents {
            let put_path = |path: &str, item: &Value| {
                if accept(path) {
                    paths.put(path, item);
                }
            };
            swagger::convert(document, put_path, &mut definitions);
        }
        let mut written = EntriesWriter::new();
        for (name, definition) in definitions {
            if accept(&name) {
                written.put(&name, &definition);
            }
        }
        let hash = [paths.hash.finalize(), written.hash.finalize()].concat();
        Self {
            hash: hash_of(&hash),
            paths: paths.compressor.finish(),
            definitions: written.compressor.finish(),
            protobuf: OnceLock::new(),
        }
    }

    fn protobuf(&self) -> &CompressedBytes {
        self.protobuf.get_or_init(|| {
            let mut encoded = Compressor::new();
            for_each_entry(&self.paths, |path, item| encoded.write(&gnostic::encode_path(path, item)));
            for_each_entry(&self.definitions, |name, definition| {
                encoded.write(&gnostic::encode_definition(name, definition));
            });
            encoded.finish()
        })
    }
}

/// Writes the JSON of an object without its braces, entry by entry.
struct EntriesWriter {
    compressor: Compressor,
    hash: Sha512,
}

impl EntriesWriter {
    fn new() -> Self {
        Self { compressor: Compressor::new(), hash: Sha512::new() }
    }

    fn put(&mut self, name: &str, value: &Value) {
        let comma = if self.compressor.is_empty() { "" } else { "," };
        let entry = format!("{comma}{}:{value}", Value::from(name));
        self.hash.update(&entry);
        self.compressor.write(entry.as_bytes());
    }
}

/// Reads the entries that an [`EntriesWriter`] has written, one at a time.
fn for_each_entry(entries: &CompressedBytes, entry: impl FnMut(&str, &Value)) {
    struct EntryVisitor<F>(F);

    impl<'de, F: FnMut(&str, &Value)> Visitor<'de> for EntryVisitor<F> {
        type Value = ();

        fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
            text.write_str("an object")
        }

        fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
            while let Some((name, value)) = map.next_entry::<String, Value>()? {
                (self.0)(&name, &value);
            }
            Ok(())
        }
    }

    let text = BufReader::new(b"{".chain(entries.reader()).chain(b"}".as_slice()));
    let read = serde_json::Deserializer::from_reader(text).deserialize_map(EntryVisitor(entry));
    read.expect("this module wrote the entries");
}

/// The documents of the built-in kinds, generated once per process.
struct BuiltinDocuments {
    served: Vec<ServedGroupVersion>,
    generated: Vec<Arc<GroupVersionDocuments>>,
    version_2: OnceLock<OpenApiV2Part>,
    /// Names of paths and definitions in version 2.
    names: OnceLock<HashSet<String>>,
}

impl BuiltinDocuments {
    fn of(kinds: &Kinds) -> Self {
        let served = served(kinds);
        let made = served.iter().map(|_| Arc::default()).collect();
        Self { served, generated: made, version_2: OnceLock::new(), names: OnceLock::new() }
    }

    /// Returns the documents of the built-in kinds, with legacy versions if `kinds` lists them.
    fn among(kinds: &Kinds) -> &'static Self {
        static BASE: LazyLock<BuiltinDocuments> =
            LazyLock::new(|| BuiltinDocuments::of(&Kinds::built_in(false)));
        static WITH_LEGACY: LazyLock<BuiltinDocuments> =
            LazyLock::new(|| BuiltinDocuments::of(&Kinds::built_in(true)));
        if kinds.lists_legacy() { &WITH_LEGACY } else { &BASE }
    }

    fn version_2(&self) -> &OpenApiV2Part {
        self.version_2.get_or_init(|| {
            let mut names = HashSet::new();
            let documents = self.served.iter().map(|served| document(served, Version::Two));
            let part = OpenApiV2Part::of(documents, |name| names.insert(name.to_owned()));
            self.names.get_or_init(|| names);
            part
        })
    }

    fn names(&self) -> &HashSet<String> {
        self.version_2();
        self.names.get_or_init(HashSet::new)
    }
}

/// Returns the documents of the built-in kinds.
pub(super) fn built_in() -> &'static Arc<Documents> {
    static BUILT_IN: LazyLock<Arc<Documents>> =
        LazyLock::new(|| Arc::new(Documents::of(&Kinds::default(), None)));
    &BUILT_IN
}

impl Documents {
    /// Returns the documents of these kinds. Unchanged documents are reused from `before`.
    pub(super) fn of(kinds: &Kinds, before: Option<&Self>) -> Self {
        let (base, served) = (BuiltinDocuments::among(kinds), served(kinds));
        let known = before.into_iter().flat_map(|before| before.served.iter().zip(&before.generated));
        let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
        for (known, made) in base.served.iter().zip(&base.generated).chain(known) {
            by_name.entry((known.group, known.version)).or_default().push((known, made));
        }
        let made = served.iter().map(|served| {
            let mut named = by_name.get(&(served.group, served.version)).into_iter().flatten();
            let same = named.find(|(known, _)| *known == served);
            same.map_or_else(Arc::default, |(_, made)| (*made).clone())
        });
        let made = made.collect();
        Self { base, served, generated: made, index: OnceLock::new(), version_2_hash: OnceLock::new() }
    }

    /// Returns the served groups and versions.
    pub(super) fn served(&self) -> &[ServedGroupVersion] {
        &self.served
    }

    fn groups(&self) -> impl Iterator<Item = (&ServedGroupVersion, &GroupVersionDocuments)> {
        self.served.iter().zip(self.generated.iter().map(|made| &**made))
    }

    /// `/openapi/v3`: the index of documents.
    pub(crate) fn index(&self) -> &HashedBody {
        self.index.get_or_init(|| {
            let url = |path: &str, hash: &str| json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")});
            let paths = self.groups().map(|(served, made)| {
                let path = served.path();
                let url = url(&path, &made.version_3(served).hash);
                (path, url)
            });
            let paths: Map<String, Value> = paths.collect_map();
            HashedBody::of(&json!({"paths": paths}))
        })
    }

    /// Returns the index with the documents of aggregated APIs, which replace local ones of the same path.
    /// The content of these documents comes from the APIs' own servers.
    pub(super) fn index_with(&self, services: &ApiServices) -> Cow<'_, HashedBody> {
        let remote_services = services.remote();
        let local_index = self.index();
        if remote_services.is_empty() {
            return Cow::Borrowed(local_index);
        }
        let mut index: Value = serde_json::from_slice(&local_index.body).expect("the local index is JSON");
        for (of, service) in remote_services {
            let path = format!("apis/{}/{}", of.group, of.version);
            let hash = service.remote.and_then(|remote| remote.discovery().openapi_hash.clone());
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
        Cow::Owned(HashedBody::of(&index))
    }

    /// Returns the document of one group and version, named like its path (`api/v1`, `apis/apps/v1`).
    pub(crate) fn version_3(&self, path: &str) -> Option<&HashedDocument> {
        let path = path.trim_matches('/');
        let (served, made) = self.groups().find(|(served, _)| served.path() == path)?;
        Some(made.version_3(served))
    }

    /// Returns the contributions of custom resources to version 2.
    fn custom_version_2(&self) -> impl Iterator<Item = &OpenApiV2Part> {
        self.groups().filter(|(served, _)| is_custom(served)).map(|(served, made)| {
            made.version_2.get_or_init(|| {
                let built_in = self.base.names();
                let documents = std::iter::once(document(served, Version::Two));
                OpenApiV2Part::of(documents, |name| !built_in.contains(name))
            })
        })
    }

    /// Returns the hash of `/openapi/v2`.
    pub(crate) fn version_2_hash(&self) -> &str {
        self.version_2_hash.get_or_init(|| {
            let mut hash = Sha512::new();
            hash.update(&self.base.version_2().hash);
            self.custom_version_2().for_each(|part| hash.update(&part.hash));
            hex(&hash.finalize())
        })
    }

    /// `/openapi/v2`.
    pub(crate) fn version_2(&self, encoding: Encoding) -> BlockBody {
        let parts = || std::iter::once(self.base.version_2()).chain(self.custom_version_2());
        let mut blocks = BlockBody::default();
        if encoding == Encoding::Protobuf {
            blocks.put(gnostic::encode_head());
            parts().for_each(|part| blocks.share(part.protobuf()));
            return blocks;
        }
        let mut put_all = |before: String, of: fn(&OpenApiV2Part) -> &CompressedBytes| {
            blocks.put(before);
            for (i, entries) in parts().map(of).filter(|entries| !entries.is_empty()).enumerate() {
                if i > 0 {
                    blocks.put(",");
                }
                blocks.share(entries);
            }
        };
        put_all(swagger::HEAD.replace("VERSION", KUBERNETES_VERSION), |part| &part.paths);
        put_all(swagger::BETWEEN.into(), |part| &part.definitions);
        blocks.put(swagger::TAIL);
        blocks
    }
}

impl GroupVersionDocuments {
    fn version_3(&self, served: &ServedGroupVersion) -> &HashedDocument {
        self.version_3.get_or_init(|| HashedDocument::of(served))
    }
}

fn is_custom(served: &ServedGroupVersion) -> bool {
    served.resources.iter().any(|resource| resource.schema.is_some())
}

fn document(served: &ServedGroupVersion, version: Version) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": KUBERNETES_VERSION},
        "paths": paths::of(served),
        "components": {
            "schemas": schemas::of(served, version),
            "securitySchemes": {"BearerToken": {
                "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
            }},
        },
    })
}

/// Returns the hash under which clients cache a document.
pub(super) fn hash_of(body: &[u8]) -> String {
    hex(&Sha512::digest(body))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn read(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    fn version_3(path: &str) -> Value {
        read(&built_in().version_3(path).expect("a document").document.read())
    }

    fn version_2() -> Value {
        let body = futures::executor::block_on(built_in().version_2(Encoding::Json).collect());
        read(&body.expect("no body of ours fails").to_bytes())
    }

    #[test]
    fn kubectl_finds_what_it_looks_for_api_6() {
        let index = read(&built_in().index().body);
        let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL");
        assert!(url.starts_with("/openapi/v3/apis/apps/v1?hash="), "{url}");
        let document = built_in().version_3("apis/apps/v1").expect("there");
        assert!(url.ends_with(&document.hash));
        let apps = version_3("apis/apps/v1");
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

    /// The required fields are those of the published schema of 1.37.
    #[test]
    fn only_what_a_client_must_send_is_required_api_6() {
        let document = version_2();
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

    /// Generated clients name their functions after these ids.
    #[test]
    fn every_operation_has_the_name_that_clients_know_api_6() {
        let document = version_2();
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

    /// `kubectl explain schedulingverdicts`.
    #[test]
    fn our_own_kinds_are_explained_api_6() {
        let document = version_3("apis/podium.dev/v1alpha1");
        let verdict = &document["components"]["schemas"]["dev.podium.v1alpha1.SchedulingVerdict"];
        assert_eq!(
            verdict["x-kubernetes-group-version-kind"],
            json!([{"group": "podium.dev", "kind": "SchedulingVerdict", "version": "v1alpha1"}])
        );
        assert!(verdict["properties"]["hints"]["items"]["properties"]["changes"].is_object());
        let path = "/apis/podium.dev/v1alpha1/namespaces/{namespace}/schedulingverdicts/{name}";
        assert!(document["paths"][path]["get"].is_object() && document["paths"][path]["put"].is_null());
        let controller = &document["components"]["schemas"]["dev.podium.v1alpha1.Controller"];
        let status = &controller["properties"]["status"]["properties"];
        for field in ["subsystem", "component", "node", "cannotPause", "cannotStep"] {
            assert_eq!(status[field]["type"], "string", "{field}");
        }
        assert_eq!(status["counts"]["items"]["properties"]["count"]["type"], "integer");
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
            built_in().served.iter().map(|served| (served.path(), version_3(&served.path()))).collect();
        all.push(("v2".into(), version_2()));
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
        let document = version_2();
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
