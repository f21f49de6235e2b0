//! Discovery: what the Kind table serves, in the old and the aggregated form, and the version (API-6).

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Value, json};

use crate::object::{Kind, KindInfo, Subresource};

/// The Kubernetes version whose API this is; the one of the `k8s-openapi` feature.
const MAJOR: &str = "1";
const MINOR: &str = "37";

/// `/version`.
pub(super) fn version() -> Value {
    json!({
        "major": MAJOR, "minor": MINOR, "gitVersion": format!("v{MAJOR}.{MINOR}.0+podium"),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "go1.0", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, arch()),
    })
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A resource as discovery describes it.
struct Resource {
    /// With its subresource: `pods`, `pods/log`.
    path: String,
    singular: &'static str,
    namespaced: bool,
    /// Group, version and kind of what is sent and answered.
    response: (&'static str, &'static str, &'static str),
    verbs: &'static [&'static str],
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
}

const OBJECT_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];
const CREATE: [&str; 1] = ["create"];

fn subresource(info: &KindInfo, part: Subresource) -> Resource {
    let (response, verbs): (_, &'static [&'static str]) = match part {
        Subresource::Status | Subresource::EphemeralContainers => {
            ((info.group, info.version, info.name), &PART_VERBS)
        }
        Subresource::Scale => (("autoscaling", "v1", "Scale"), &PART_VERBS),
        Subresource::Eviction => (("policy", "v1", "Eviction"), &CREATE),
        Subresource::Binding => (("", "v1", "Binding"), &CREATE),
        Subresource::Log => (("", "v1", "Pod"), &["get"]),
        Subresource::Exec => (("", "v1", "PodExecOptions"), &["create", "get"]),
        Subresource::Attach => (("", "v1", "PodAttachOptions"), &["create", "get"]),
        Subresource::PortForward => (("", "v1", "PodPortForwardOptions"), &["create", "get"]),
        Subresource::Finalize => (("", "v1", "Namespace"), &["update"]),
        Subresource::Token => (("authentication.k8s.io", "v1", "TokenRequest"), &CREATE),
    };
    Resource {
        path: format!("{}/{}", info.plural, part.path()),
        singular: "",
        namespaced: info.namespaced(),
        response,
        verbs,
        short_names: &[],
        categories: &[],
    }
}

/// Everything served, by group and version.
fn resources() -> BTreeMap<(&'static str, &'static str), Vec<Resource>> {
    let mut all: BTreeMap<(&'static str, &'static str), Vec<Resource>> = BTreeMap::new();
    for info in Kind::ALL.iter().map(|kind| kind.info()) {
        let group = all.entry((info.group, info.version)).or_default();
        group.push(Resource {
            path: info.plural.into(),
            singular: info.singular,
            namespaced: info.namespaced(),
            response: (info.group, info.version, info.name),
            verbs: &OBJECT_VERBS,
            short_names: info.short_names,
            categories: info.categories,
        });
        group.extend(info.subresources.iter().map(|part| subresource(info, *part)));
    }
    for (group, plural, singular, kind) in [
        (
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "selfsubjectaccessreview",
            "SelfSubjectAccessReview",
        ),
        (
            "authorization.k8s.io",
            "selfsubjectrulesreviews",
            "selfsubjectrulesreview",
            "SelfSubjectRulesReview",
        ),
        ("authentication.k8s.io", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview"),
    ] {
        all.entry((group, "v1")).or_default().push(Resource {
            path: plural.into(),
            singular,
            namespaced: false,
            response: (group, "v1", kind),
            verbs: &CREATE,
            short_names: &[],
            categories: &[],
        });
    }
    for resources in all.values_mut() {
        resources.sort_by(|a, b| a.path.cmp(&b.path));
    }
    all
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.into() } else { format!("{group}/{version}") }
}

/// The document at a discovery path; None when there is none. The second part is its media type.
pub(super) fn document(path: &str, headers: &HeaderMap) -> Option<(Value, &'static str)> {
    const JSON: &str = "application/json";
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    match parts.as_slice() {
        ["version"] => Some((version(), JSON)),
        ["api"] => Some(match aggregated(headers) {
            Some((version, media_type)) => (aggregated_list(version, true), media_type),
            None => (
                json!({"kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]}),
                JSON,
            ),
        }),
        ["apis"] => Some(match aggregated(headers) {
            Some((version, media_type)) => (aggregated_list(version, false), media_type),
            None => (json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups()}), JSON),
        }),
        ["apis", group] => groups().into_iter().find(|g| g["name"] == *group).map(|mut found| {
            found["kind"] = "APIGroup".into();
            found["apiVersion"] = "v1".into();
            (found, JSON)
        }),
        ["api", version] => resource_list("", version).map(|list| (list, JSON)),
        ["apis", group, version] => resource_list(group, version).map(|list| (list, JSON)),
        _ => None,
    }
}

fn groups() -> Vec<Value> {
    resources()
        .keys()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, version)| {
            let preferred = json!({"groupVersion": group_version(group, version), "version": version});
            json!({"name": group, "versions": [preferred], "preferredVersion": preferred})
        })
        .collect()
}

fn resource_list(group: &str, version: &str) -> Option<Value> {
    let all = resources();
    let (_, resources) = all.iter().find(|((g, v), _)| *g == group && *v == version)?;
    let list: Vec<Value> = resources
        .iter()
        .map(|r| {
            let mut entry = json!({"name": r.path, "singularName": r.singular, "namespaced": r.namespaced,
                "kind": r.response.2, "verbs": r.verbs});
            if (r.response.0, r.response.1) != (group, version) {
                entry["group"] = r.response.0.into();
                entry["version"] = r.response.1.into();
            }
            if !r.short_names.is_empty() {
                entry["shortNames"] = json!(r.short_names);
            }
            if !r.categories.is_empty() {
                entry["categories"] = json!(r.categories);
            }
            entry
        })
        .collect();
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": group_version(group, version), "resources": list}))
}

/// Which aggregated form the client takes first, if any.
fn aggregated(headers: &HeaderMap) -> Option<(&'static str, &'static str)> {
    let accept = headers.get(ACCEPT)?.to_str().ok()?;
    accept.split(',').find_map(|media| {
        if !media.contains("as=APIGroupDiscoveryList") || !media.trim_start().starts_with("application/json")
        {
            return None;
        }
        if media.contains("v=v2beta1") {
            Some(("v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"))
        } else if media.contains("v=v2") {
            Some(("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"))
        } else {
            None
        }
    })
}

fn aggregated_list(version: &str, core: bool) -> Value {
    let items: Vec<Value> = resources()
        .iter()
        .filter(|((group, _), _)| group.is_empty() == core)
        .map(|((group, group_version), resources)| {
            let mut metadata = json!({"creationTimestamp": null});
            if !group.is_empty() {
                metadata["name"] = (*group).into();
            }
            json!({"metadata": metadata, "versions": [{"version": group_version, "freshness": "Current",
                "resources": aggregated_resources(resources)}]})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items})
}

fn aggregated_resources(resources: &[Resource]) -> Vec<Value> {
    let kind = |r: &Resource| json!({"group": r.response.0, "version": r.response.1, "kind": r.response.2});
    resources
        .iter()
        .filter(|r| !r.path.contains('/'))
        .map(|r| {
            let mut entry = json!({"resource": r.path, "responseKind": kind(r), "singularResource": r.singular,
                "scope": if r.namespaced { "Namespaced" } else { "Cluster" }, "verbs": r.verbs});
            if !r.short_names.is_empty() {
                entry["shortNames"] = json!(r.short_names);
            }
            if !r.categories.is_empty() {
                entry["categories"] = json!(r.categories);
            }
            let parts: Vec<Value> = resources
                .iter()
                .filter_map(|part| Some((part, part.path.strip_prefix(&r.path)?.strip_prefix('/')?)))
                .map(|(part, name)| json!({"subresource": name, "responseKind": kind(part), "verbs": part.verbs}))
                .collect();
            if !parts.is_empty() {
                entry["subresources"] = json!(parts);
            }
            entry
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(accept: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, http::HeaderValue::from_static(accept))])
    }

    #[test]
    fn the_table_is_discovered_in_both_forms_api_6() {
        let (list, _) = document("/apis/apps/v1", &HeaderMap::new()).unwrap();
        let names: Vec<&str> =
            list["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"deployments") && names.contains(&"deployments/scale"), "{names:?}");
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        let (all, media_type) = document("/apis", &headers(accept)).unwrap();
        assert!(media_type.contains("v=v2;"));
        let apps = all["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "apps").unwrap();
        let deployment = &apps["versions"][0]["resources"][0];
        assert_eq!(
            (&deployment["resource"], &deployment["scope"]),
            (&json!("deployments"), &json!("Namespaced"))
        );
        assert_eq!(deployment["subresources"][0]["responseKind"]["kind"], "Scale");
        assert!(document("/apis/nosuch/v1", &HeaderMap::new()).is_none());
    }
}
