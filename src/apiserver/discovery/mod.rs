//! Discovery: the resources that the API serves, in the legacy and the aggregated documents, and the version.
//!
//! Everything comes from the Kind table; resources that are served but never stored are in
//! `group_versions.rs`, and the order with aggregated APIs is in `order.rs`.

mod group_versions;
mod order;

use bytes::Bytes;
use serde_json::{Value, json};

use base::sort::SliceOrder;
pub(super) use group_versions::{Resource, ServedGroupVersion, returns_deleted, served, verbs};
use order::Source;
pub(super) use order::{GroupVersionEntry, listed};

/// The Kubernetes version whose behaviour and types the API implements.
pub(crate) const KUBERNETES_VERSION: &str = "v1.37.0";

/// A finished document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    /// Its `Content-Type`.
    pub(crate) content_type: &'static str,
    /// Its JSON.
    pub(crate) body: Bytes,
}

impl Document {
    fn json(value: &Value) -> Self {
        Self { content_type: "application/json", body: value.to_string().into() }
    }
}

/// The discovery document that a client prefers, by the order of its `Accept` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiscoveryFormat {
    Legacy,
    Aggregated(&'static str),
}

fn preferred(accept: &str) -> DiscoveryFormat {
    for media in accept.split(',') {
        let parts: Vec<&str> = media.split(';').map(str::trim).collect();
        let has = |part: &str| parts.contains(&part);
        if parts.first() != Some(&"application/json") {
            continue;
        }
        if !has("as=APIGroupDiscoveryList") {
            return DiscoveryFormat::Legacy;
        }
        if has("g=apidiscovery.k8s.io") && has("v=v2") {
            return DiscoveryFormat::Aggregated("v2");
        }
        if has("g=apidiscovery.k8s.io") && has("v=v2beta1") {
            return DiscoveryFormat::Aggregated("v2beta1");
        }
    }
    DiscoveryFormat::Legacy
}

/// Returns the document at a discovery path (`/version`, `/api`, `/apis`, `/api/v1`, `/apis/G`, `/apis/G/V`);
/// `None` for other paths. `server` is the `host:port` for clients.
pub(super) fn document(
    all: &[GroupVersionEntry<'_>],
    path: &str,
    accept: &str,
    server: &str,
) -> Option<Document> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let of_core = |is_core: bool| all.iter().filter(move |listed| listed.is_core() == is_core);
    match (parts.as_slice(), preferred(accept)) {
        (["version"], _) => Some(Document::json(&version())),
        (["api"], DiscoveryFormat::Aggregated(version)) => Some(aggregated(of_core(true), version)),
        (["apis"], DiscoveryFormat::Aggregated(version)) => Some(aggregated(of_core(false), version)),
        (["api"], DiscoveryFormat::Legacy) => Some(Document::json(&json!({
            "kind": "APIVersions",
            "versions": of_core(true).map(|listed| &listed.version).collect::<Vec<_>>(),
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}],
        }))),
        (["apis"], DiscoveryFormat::Legacy) => Some(Document::json(&json!({
            "kind": "APIGroupList", "apiVersion": "v1", "groups": groups(all).map(group).collect::<Vec<_>>(),
        }))),
        (["apis", name], _) => {
            let mut document = group(groups(all).find(|versions| versions[0].group == *name)?);
            document["kind"] = "APIGroup".into();
            document["apiVersion"] = "v1".into();
            Some(Document::json(&document))
        }
        (["api", version], _) => resources(all.iter().find(|l| l.is_core() && l.version == *version)?),
        (["apis", group, version], _) => {
            resources(all.iter().find(|l| !l.is_core() && l.group == *group && l.version == *version)?)
        }
        _ => None,
    }
}

/// Returns the body of `/version`.
pub(crate) fn version() -> Value {
    let (major, minor) = KUBERNETES_VERSION
        .trim_start_matches('v')
        .split_once('.')
        .map_or(("1", "0"), |(major, rest)| (major, rest.split('.').next().unwrap_or("0")));
    let platform = format!("{}/{}", std::env::consts::OS, go_arch());
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("{KUBERNETES_VERSION}+podium"),
        "gitCommit": env!("PODIUM_GIT_COMMIT"),
        "gitTreeState": env!("PODIUM_GIT_TREE_STATE"),
        "buildDate": build_date(),
        "goVersion": env!("PODIUM_COMPILER"), "compiler": "rustc", "platform": platform,
    })
}

/// Returns the build time, as far as the build knows it.
fn build_date() -> String {
    let seconds = env!("PODIUM_BUILD_EPOCH").parse().unwrap_or(0);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns the versions of each group but the core group, preferred version first.
fn groups<'a, 'b>(all: &'a [GroupVersionEntry<'b>]) -> impl Iterator<Item = &'a [GroupVersionEntry<'b>]> {
    all.chunk_by(|a, b| a.group == b.group).filter(|versions| !versions[0].is_core())
}

fn group(versions: &[GroupVersionEntry<'_>]) -> Value {
    let version = |listed: &GroupVersionEntry<'_>| json!({"groupVersion": listed.group_version(), "version": listed.version});
    json!({
        "name": versions[0].group,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": version(&versions[0]),
    })
}

/// Returns the `APIResourceList` of a group and version; `None` for an aggregated API, because its own server
/// has the document.
fn resources(listed: &GroupVersionEntry<'_>) -> Option<Document> {
    let Source::Local(served) = listed.source else { return None };
    let mut list = Vec::new();
    for resource in &served.resources {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": resource.verbs,
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        list.push(entry);
        for part in &resource.parts {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, part.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": part.kind, "verbs": part.verbs,
            });
            if (part.group, part.version) != (served.group, served.version) {
                entry["group"] = json!(part.group);
                entry["version"] = json!(part.version);
            }
            list.push(entry);
        }
    }
    list.order_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    Some(Document::json(&json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": served.group_version(), "resources": list,
    })))
}

fn aggregated<'a, 'b: 'a>(
    all: impl Iterator<Item = &'a GroupVersionEntry<'b>>,
    form: &'static str,
) -> Document {
    let mut items: Vec<Value> = Vec::new();
    for listed in all {
        let (freshness, resources) = match &listed.source {
            Source::Local(served) => {
                ("Current", served.resources.iter().map(aggregated_resource).collect::<Vec<_>>())
            }
            Source::Aggregated { discovered, is_current } => {
                (if *is_current { "Current" } else { "Stale" }, discovered.resources.clone())
            }
        };
        let document = json!({"version": listed.version, "freshness": freshness, "resources": resources});
        match items.last_mut() {
            Some(last) if last["metadata"]["name"] == *listed.group => {
                if let Some(versions) = last["versions"].as_array_mut() {
                    versions.push(document);
                }
            }
            _ => items.push(json!({
                "metadata": {"name": listed.group, "creationTimestamp": null}, "versions": [document],
            })),
        }
    }
    let body = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{form}"), "metadata": {}, "items": items,
    });
    let content_type = match form {
        "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    };
    Document { content_type, ..Document::json(&body) }
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let parts: Vec<Value> = resource
        .parts
        .iter()
        .map(|part| {
            json!({
                "subresource": part.name, "responseKind": kind(part.group, part.version, part.kind), "verbs": part.verbs,
            })
        })
        .collect();
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind(resource.group, resource.version, resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    for (name, values) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !values.is_empty() {
            entry[name] = json!(values);
        }
    }
    if !parts.is_empty() {
        entry["subresources"] = json!(parts);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::aggregation::ApiServices;

    fn built_in() -> Vec<ServedGroupVersion> {
        served(&api::served_kinds::Kinds::default())
    }

    fn all(served: &[ServedGroupVersion]) -> Vec<GroupVersionEntry<'_>> {
        listed(&ApiServices::default(), served)
    }

    fn get(path: &str, accept: &str) -> Value {
        let served = built_in();
        let document = document(&all(&served), path, accept, "127.0.0.1:6443").expect(path);
        serde_json::from_slice(&document.body).expect("JSON")
    }

    #[test]
    fn the_old_documents_api_6() {
        assert_eq!(get("/api", "")["versions"], json!(["v1"]));
        let apis = get("/apis", "application/json");
        let names: Vec<&str> =
            apis["groups"].as_array().expect("groups").iter().filter_map(|g| g["name"].as_str()).collect();
        for group in ["apps", "policy", "discovery.k8s.io", "authorization.k8s.io", "authentication.k8s.io"] {
            assert!(names.contains(&group), "{group} in {names:?}");
        }
        assert_eq!(get("/apis/apps", "")["preferredVersion"]["groupVersion"], "apps/v1");
        let core = get("/api/v1", "");
        let find = |name: &str| {
            core["resources"]
                .as_array()
                .expect("a list")
                .iter()
                .find(|r| r["name"] == name)
                .cloned()
                .expect(name)
        };
        assert_eq!(find("pods")["shortNames"], json!(["po"]));
        assert_eq!(find("pods")["verbs"].as_array().map(Vec::len), Some(8));
        assert_eq!(
            find("pods/eviction"),
            json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
                "kind": "Eviction", "verbs": ["create"]})
        );
        assert_eq!(find("nodes")["namespaced"], false);
        let served = built_in();
        assert!(document(&all(&served), "/apis/nowhere/v1", "", "").is_none());
        assert!(document(&all(&served), "/apis/apps/v2", "", "").is_none());
    }

    #[test]
    fn the_aggregated_documents_api_6() {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        let served = built_in();
        let document = document(&all(&served), "/apis", accept, "").expect("there");
        assert_eq!(
            document.content_type,
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
        let apis = get("/apis", accept);
        let apps = apis["items"]
            .as_array()
            .expect("items")
            .iter()
            .find(|i| i["metadata"]["name"] == "apps")
            .expect("apps");
        let resources = apps["versions"][0]["resources"].as_array().expect("resources");
        let deployments = resources.iter().find(|r| r["resource"] == "deployments").expect("deployments");
        assert_eq!(deployments["singularResource"], "deployment");
        let scale = json!({"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
            "verbs": ["get", "patch", "update"]});
        assert!(deployments["subresources"].as_array().expect("parts").contains(&scale));
        let old = get("/api", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList");
        assert_eq!(old["apiVersion"], "apidiscovery.k8s.io/v2beta1");
        assert_eq!(old["items"][0]["metadata"]["name"], "");
    }

    /// `kubectl version` expects a commit in hexadecimal, and a date.
    #[test]
    fn the_version_says_of_what_and_when_it_was_made_api_6() {
        let version = get("/version", "");
        let text = |field: &str| version[field].as_str().expect(field).to_string();
        assert_eq!(version["major"], "1");
        let commit = text("gitCommit");
        assert!(commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit()), "{commit}");
        assert!(["clean", "dirty", "archive"].contains(&text("gitTreeState").as_str()));
        assert!(text("buildDate").parse::<jiff::Timestamp>().expect("a time") > jiff::Timestamp::UNIX_EPOCH);
        assert!(text("goVersion").starts_with("rustc"), "{version}");
    }
}
