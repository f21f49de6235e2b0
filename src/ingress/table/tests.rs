//! Tables of what Kubernetes documents about Ingress, and of ingress-nginx's rewriting.

use serde_json::{Value, json};

use super::build::{BuildResult, build};
use super::*;
use crate::problem::Problem;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::Ingress;
use object::SharedObject;

fn service(name: &str) -> Option<SharedObject<Service>> {
    let spec = match name {
        "missing" => return None,
        "external" => json!({"type": "ExternalName", "externalName": "example.com"}),
        _ => json!({"ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]}),
    };
    let value = json!({"metadata": {"name": name, "namespace": "d"}, "spec": spec});
    Some(SharedObject::from_value(serde_json::from_value(value).unwrap()))
}

fn ingress(name: &str, annotations: &Value, spec: &Value) -> SharedObject<Ingress> {
    let value =
        json!({"metadata": {"name": name, "namespace": "d", "annotations": annotations}, "spec": spec});
    SharedObject::from_value(serde_json::from_value(value).unwrap())
}

fn to(name: &str) -> Value {
    json!({"service": {"name": name, "port": {"number": 80}}})
}

/// A rule of a host: paths with their types, each with its service.
fn rule(host: &str, paths: &[(&str, &str, &str)]) -> Value {
    let paths: Vec<Value> = paths
        .iter()
        .map(|(type_, path, service)| json!({"pathType": type_, "path": path, "backend": to(service)}))
        .collect();
    json!({"host": host, "http": {"paths": paths}})
}

fn built(ingresses: &[SharedObject<Ingress>]) -> BuildResult {
    build(ingresses, &|key| service(&key.name))
}

/// Returns the service that a request goes to.
fn service_for<'t>(table: &'t Table, host: &str, path: &str) -> Option<&'t str> {
    let path = RequestPath::read(path)?;
    let route = table.find(host, &path.decoded)?;
    Some(route.backend.as_ref().map_or("no backend", |backend| backend.service.name.as_str()))
}

/// The table of kubernetes.io/docs/concepts/services-networking/ingress, "Examples".
#[test]
fn paths_match_as_kubernetes_documents_net_9() {
    let check = |rules: &[(&str, &str, &str)], path: &str, expected: Option<&str>| {
        let table = built(&[ingress("i", &json!({}), &json!({"rules": [rule("", rules)]}))]).table;
        assert_eq!(service_for(&table, "h", path), expected, "{rules:?} {path}");
    };
    let all = [("Prefix", "/", "a")];
    check(&all, "/", Some("a"));
    check(&all, "/any/thing", Some("a"));
    let exact = [("Exact", "/foo", "a")];
    check(&exact, "/foo", Some("a"));
    check(&exact, "/bar", None);
    check(&exact, "/foo/", None);
    check(&exact, "/Foo", None);
    check(&[("Exact", "/foo/", "a")], "/foo", None);
    check(&[("Exact", "/foo/", "a")], "/foo/", Some("a"));
    for prefix in ["/foo", "/foo/"] {
        for (path, expected) in [
            ("/foo", Some("a")),
            ("/foo/", Some("a")),
            ("/foo/bar", Some("a")),
            ("/foobar", None),
            ("/FOO", None),
        ] {
            check(&[("Prefix", prefix, "a")], path, expected);
            check(&[("ImplementationSpecific", prefix, "a")], path, expected);
        }
    }
    check(&[("Prefix", "/aaa/bb", "a")], "/aaa/bbb", None);
    check(&[("Prefix", "/aaa/bbb", "a")], "/aaa/bbb/ccc", Some("a"));
    check(&[("Prefix", "/aaa/bbb", "a")], "/aaa/bbbxyz", None);
    check(&[("Prefix", "/aaa", "a"), ("Prefix", "/aaa/bbb", "b")], "/aaa/ccc", Some("a"));
    let three = [("Prefix", "/", "c"), ("Prefix", "/aaa", "a"), ("Prefix", "/aaa/bbb", "b")];
    check(&three, "/aaa/bbb", Some("b"));
    check(&three, "/ccc", Some("c"));
    check(&[("Prefix", "/foo", "a"), ("Exact", "/foo", "b")], "/foo", Some("b"));
    check(&[("Prefix", "/foo", "a"), ("Exact", "/foo", "b")], "/foo/", Some("a"));
    // Paths are read as nginx does: a path that an endpoint may read as this one must not bypass its rule.
    let admin = [("Prefix", "/", "a"), ("Prefix", "/admin", "b")];
    for path in ["/admin", "//admin", "/%61dmin/x", "/x/../admin", "/x/%2e%2e/admin", "/admin%2Fx"] {
        check(&admin, path, Some("b"));
    }
    check(&[("ImplementationSpecific", "", "a")], "/x", Some("a"));
}

#[test]
fn hosts_match_exactly_or_by_one_label_net_9() {
    let spec = json!({"rules": [
        rule("foo.bar.com", &[("Prefix", "/foo", "exact")]),
        rule("*.bar.com", &[("Prefix", "/", "wild")]),
        rule("", &[("Prefix", "/open", "any")]),
    ]});
    let table = built(&[ingress("i", &json!({}), &spec)]).table;
    for (host, path, expected) in [
        ("foo.bar.com", "/foo", Some("exact")),
        ("foo.bar.com", "/else", Some("wild")),
        ("x.bar.com", "/", Some("wild")),
        ("x.y.bar.com", "/", None),
        ("bar.com", "/", None),
        ("bar.com", "/open", Some("any")),
        ("elsewhere", "/open/x", Some("any")),
    ] {
        assert_eq!(service_for(&table, host, path), expected, "{host}{path}");
    }
}

#[test]
fn requests_without_a_matching_rule_go_to_the_default_backend_net_9() {
    let with = |name: &str, service: &str, host: &str| {
        let rules = json!([rule(host, &[("Exact", "/x", "x")])]);
        ingress(name, &json!({}), &json!({"defaultBackend": to(service), "rules": rules}))
    };
    let table = built(&[with("i", "first", "a"), with("j", "second", "b")]).table;
    for (host, path, expected) in
        [("a", "/x", "x"), ("a", "/y", "first"), ("b", "/y", "second"), ("c", "/x", "first")]
    {
        assert_eq!(service_for(&table, host, path), Some(expected), "{host}{path}");
    }
}

#[test]
fn of_two_ingresses_the_older_one_has_the_path_net_9() {
    let of = |name: &str, service: &str| {
        ingress(name, &json!({}), &json!({"rules": [rule("h", &[("Prefix", "/", service)])]}))
    };
    let BuildResult { table, problems, .. } = built(&[of("old", "a"), of("young", "b")]);
    assert_eq!(service_for(&table, "h", "/"), Some("a"));
    let shadowed = Problem::Shadowed { host: "h".into(), path: "/".into(), by: "d/old".into() };
    assert_eq!(problems, [(Key::new("d", "young"), shadowed)]);
    assert_ne!(table, built(&[of("young", "b"), of("old", "a")]).table);
    assert_eq!(table, built(&[of("old", "a"), of("young", "b")]).table, "the same once more");
}

#[test]
fn paths_are_rewritten_as_ingress_nginx_does_net_9() {
    let check = |target: &str, path: &str, requested: &str, query: Option<&str>, expected: Option<&str>| {
        let annotations = json!({"nginx.ingress.kubernetes.io/rewrite-target": target});
        let rules = json!([rule("", &[("ImplementationSpecific", path, "a")])]);
        let table = built(&[ingress("i", &annotations, &json!({"rules": rules}))]).table;
        let read = RequestPath::read(requested).unwrap();
        let onward = table.find("h", &read.decoded).map(|route| route.onward(&read, query));
        assert_eq!(onward.as_deref(), expected, "{target} {path} {requested}");
    };
    let something = "/something(/|$)(.*)";
    check("/$2", something, "/something", None, Some("/"));
    check("/$2", something, "/something/", None, Some("/"));
    check("/$2", something, "/something/new", Some("a=b"), Some("/new?a=b"));
    check("/$2", something, "/SomeThing/new", None, Some("/new"));
    check("/$2", something, "/somethingelse", None, None);
    check("/", "/app", "/app/x/y", None, Some("/"));
    check("/$1?from=$1", "/p/(.*)", "/p/a b", Some("q"), Some("/a%20b?from=a%20b&q"));
    // Decoded parts are encoded again: a path cannot inject a query, a fragment or a line break.
    check("/$1", "/p/(.*)", "/p/a%3Fb%23c%0d%0ad%25", None, Some("/a%3Fb%23c%0D%0Ad%25"));
    check("/$1/$9/$x$", "/p/(.*)", "/p/a", None, Some("/a//$x$"));
    check("/x", "/(", "/a", None, None);
}

#[test]
fn expressions_are_ranked_by_length_and_bounded_net_9() {
    let annotations = json!({"nginx.ingress.kubernetes.io/use-regex": "true"});
    let rules = json!([rule(
        "",
        &[
            ("ImplementationSpecific", "/foo/.*", "short"),
            ("ImplementationSpecific", "/foo/bar/[0-9]+$", "long"),
            ("Exact", "/foo/bar/7", "exact"),
        ]
    )]);
    let plain = ingress(
        "p",
        &json!({}),
        &json!({"rules": [rule("", &[("Prefix", "/foo/bar/longer/than/it", "plain")])]}),
    );
    let table = built(&[ingress("i", &annotations, &json!({"rules": rules})), plain]).table;
    for (path, expected) in [
        ("/foo/bar/7", Some("exact")),
        ("/foo/bar/8", Some("long")),
        ("/foo/bar/x", Some("short")),
        ("/foo/bar/longer/than/it/is", Some("plain")),
        ("/bar", None),
    ] {
        assert_eq!(service_for(&table, "h", path), expected, "{path}");
    }
    let many: Vec<(&str, &str, &str)> = vec![("ImplementationSpecific", "/a{2000}{2000}", "a"); 101];
    let BuildResult { problems, .. } =
        built(&[ingress("i", &annotations, &json!({"rules": [rule("", &many)]}))]);
    assert!(problems.iter().any(|(_, problem)| matches!(problem, Problem::InvalidPath(..))), "too large");
    assert!(problems.iter().any(|(_, problem)| matches!(problem, Problem::TooManyPatterns(_))));
}

#[test]
fn a_missing_backend_is_reported_and_its_requests_are_refused_net_9() {
    for (backend, reason) in [
        (to("missing"), Some("ServiceNotFound")),
        (to("external"), Some("UnsupportedBackend")),
        (json!({"service": {"name": "a", "port": {"number": 81}}}), Some("PortNotFound")),
        (json!({"service": {"name": "a", "port": {"name": "dns"}}}), Some("PortNotFound")),
        (json!({"resource": {"kind": "Bucket", "name": "b"}}), Some("UnsupportedBackend")),
        (json!({"service": {"name": "a", "port": {"name": "http"}}}), None),
    ] {
        let BuildResult { table, problems, .. } =
            built(&[ingress("i", &json!({}), &json!({"defaultBackend": backend}))]);
        let reasons: Vec<_> = problems.iter().map(|(_, problem)| problem.reason()).collect();
        assert_eq!(reasons, reason.into_iter().collect::<Vec<_>>(), "{backend}");
        assert_eq!(service_for(&table, "h", "/"), Some(if reason.is_some() { "no backend" } else { "a" }));
    }
}

#[test]
fn tls_is_of_the_hosts_that_it_names_net_9() {
    let of = |tls: Value| {
        built(&[ingress(
            "i",
            &json!({}),
            &json!({"rules": [rule("a", &[])], "tls": tls, "defaultBackend": to("a")}),
        )])
    };
    let named = of(json!([{"hosts": ["b", "*.c"], "secretName": "s"}])).table;
    for (host, expected) in [("b", true), ("x.c", true), ("x.y.c", false), ("a", false)] {
        assert_eq!(named.has_tls(host), expected, "{host}");
    }
    let unnamed = of(json!([{"secretName": "s"}]));
    assert!(unnamed.table.has_tls("a") && !unnamed.table.has_tls("b"));
    assert_eq!(unnamed.tls[0].secret, Some(Key::new("d", "s")));
}
