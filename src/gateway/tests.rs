//! Tables of what the Gateway API documents: attachment, precedence, references, conditions.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use super::listener::ListenerAddress;
use super::resources::{GROUP, Labels};
use super::route::Route;
use super::router::{GatewayRouter, ServingState};
use super::serving_plan::{GatewayObjects, ServingPlan};
use super::status::{self, ConditionContext, Ports, ServedPort};
use object::well_known::controller::PODIUM_GATEWAY;
use object::{Key, Kind, Object, Scope, SharedObject};
use reverse_proxy::{RequestHead, RequestHost, RequestPath, RouteDecision, Router};

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn object(kind: &str, name: &str, second: u8, spec: &Value) -> Arc<Object> {
    let (plural, scope) = match kind {
        "GatewayClass" => ("gatewayclasses", Scope::Cluster),
        "Gateway" => ("gateways", Scope::Namespaced),
        "HTTPRoute" => ("httproutes", Scope::Namespaced),
        _ => ("referencegrants", Scope::Namespaced),
    };
    let kind = Kind::custom(GROUP, plural, kind, scope).unwrap();
    let (namespace, name) = name.split_once('/').unwrap_or(("d", name));
    let value = json!({"apiVersion": format!("{GROUP}/v1"), "spec": spec, "metadata": {
        "name": name, "namespace": namespace, "generation": 3,
        "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")}});
    Arc::new(Object::from_value(kind, value).unwrap())
}

fn class() -> Arc<Object> {
    object("GatewayClass", "podium", 0, &json!({"controllerName": PODIUM_GATEWAY}))
}

/// A Gateway of Podium's class with these listeners.
fn gateway(name: &str, second: u8, listeners: &Value) -> Arc<Object> {
    object("Gateway", name, second, &json!({"gatewayClassName": "podium", "listeners": listeners}))
}

fn http(name: &str, port: u16, hostname: &str) -> Value {
    let listener = json!({"name": name, "port": port, "protocol": "HTTP", "hostname": hostname});
    if hostname.is_empty() { json!({"name": name, "port": port, "protocol": "HTTP"}) } else { listener }
}

fn route(name: &str, second: u8, spec: &Value) -> Arc<Object> {
    object("HTTPRoute", name, second, spec)
}

fn service(key: &Key) -> Option<SharedObject<Service>> {
    let spec = match key.name.as_str() {
        "missing" => return None,
        "external" => json!({"type": "ExternalName", "externalName": "example.com"}),
        _ => json!({"ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]}),
    };
    let value = json!({"metadata": {"name": key.name, "namespace": key.namespace}, "spec": spec});
    Some(SharedObject::from_value(serde_json::from_value(value).unwrap()))
}

fn secret(key: &Key) -> Option<Result<(), String>> {
    match key.name.as_str() {
        "missing" => None,
        "broken" => Some(Err("nonsense".into())),
        _ => Some(Ok(())),
    }
}

fn labels(namespace: &str) -> Option<Labels> {
    (namespace != "gone").then(|| [("name".to_string(), namespace.to_string())].into())
}

/// All objects, and the result of a reconcile.
struct GatewayFixture {
    objects: GatewayObjects,
    plan: ServingPlan,
}

impl GatewayFixture {
    fn of(gateways: Vec<Arc<Object>>, routes: Vec<Arc<Object>>, grants: &[Arc<Object>]) -> Self {
        let mut seen = GatewayObjects::of(vec![class()], gateways, routes, grants);
        for (object, route) in &mut seen.routes {
            *route = Route::read(object).map(Arc::new);
        }
        let plan = ServingPlan::of(&seen, ADDRESS, &secret, &service, &labels);
        Self { objects: seen, plan }
    }

    /// The result for the first parent of the first route: the reasons that it is not accepted, and that a reference is
    /// not resolved.
    fn parent(&self) -> (Option<&'static str>, Option<&'static str>) {
        let route = &self.objects.routes[0].0.key();
        let outcome = &self.plan.parents(route)[0];
        let reason = |cause: &Option<super::problem::Cause>| cause.as_ref().map(|cause| cause.reason);
        (reason(&outcome.refused), reason(&outcome.unresolved))
    }

    /// Formats the conditions of the first Gateway, and of each of its listeners, as `Accepted=True:Accepted`.
    fn gateway(&self, ports: &Ports) -> (String, Vec<String>) {
        let key = self.objects.gateways[0].0.key();
        let status = self.gateway_status(&key, &Map::new(), ports, 1);
        let listeners = status["listeners"].as_array().unwrap();
        (
            format_conditions(&status["conditions"]),
            listeners.iter().map(|one| format_conditions(&one["conditions"])).collect(),
        )
    }

    fn gateway_status(&self, key: &Key, before: &Map<String, Value>, ports: &Ports, second: i64) -> Value {
        let (gateway, attached) = self.plan.gateway(key).unwrap();
        let now = Time(jiff::Timestamp::from_second(second).unwrap());
        status::of_gateway(
            before,
            gateway,
            ports,
            attached,
            ConditionContext { now: &now, generation: gateway.generation },
        )
    }

    /// All desired ports, open where they were requested.
    fn ports(&self) -> Ports {
        let desired = self.plan.desired_ports().into_keys();
        desired.map(|at| (at, Ok(ServedPort { port: at.1, moved: None }))).collect()
    }

    fn router(mut self, at: ListenerAddress, moved: &[(u16, u16)]) -> GatewayRouter {
        let table = self.plan.take_tables().remove(&at).unwrap_or_default();
        let pools = Arc::default();
        let router = GatewayRouter::default();
        router.replace(ServingState { table, pools, moved: moved.iter().copied().collect() });
        router
    }
}

fn format_conditions(conditions: &Value) -> String {
    let one = |c: &Value| {
        let text = |field: &str| c[field].as_str().unwrap().to_string();
        format!("{}={}:{}", text("type"), text("status"), text("reason"))
    };
    conditions.as_array().unwrap().iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Formats the decision about a request; a header is `name: value`.
fn route_summary(
    router: &GatewayRouter,
    method: &str,
    url: &str,
    headers: &[&str],
    tls_for: Option<&str>,
) -> String {
    let uri: http::Uri = url.parse().unwrap();
    let mut map = HeaderMap::new();
    for header in headers {
        let (name, value) = header.split_once(": ").unwrap();
        map.append(HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
    }
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let host = RequestHost::of(&uri, &HeaderMap::new()).unwrap();
    let path = RequestPath::read(uri.path()).unwrap();
    let head = RequestHead {
        method: &method,
        uri: &uri,
        headers: &map,
        host: &host,
        path: &path,
        is_tls: tls_for.is_some(),
        port: 18_080,
        server_name: tls_for,
    };
    match router.route(&head) {
        RouteDecision::Refuse(status) | RouteDecision::RefuseWithText(status, _) => {
            status.as_u16().to_string()
        }
        RouteDecision::Redirect(status, location) => format!("{} {location}", status.as_u16()),
        RouteDecision::Forward(plan) => {
            format!("{} {}{}", plan.rule.name, plan.authority, plan.uri)
        }
    }
}

fn to(name: &str) -> Value {
    json!([{"name": name, "port": 80}])
}

fn path(type_: &str, value: &str) -> Value {
    json!({"path": {"type": type_, "value": value}})
}

#[test]
fn a_route_is_attached_where_listeners_let_it_in_net_9() {
    let check = |listeners: Value, namespace: &str, spec: Value, expected: Option<&str>| {
        let mut spec = spec;
        if spec["parentRefs"].is_null() {
            spec["parentRefs"] = json!([{"name": "g", "namespace": "d"}]);
        }
        let routes = vec![route(&format!("{namespace}/r"), 0, &spec)];
        let world = GatewayFixture::of(vec![gateway("g", 0, &listeners)], routes, &[]);
        assert_eq!(world.parent().0, expected, "{listeners} {namespace} {spec}");
    };
    let from = |namespaces: Value| json!([{"name": "l", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": namespaces}}]);
    let plain = || json!([http("l", 80, "")]);
    check(plain(), "d", json!({}), None);
    check(plain(), "e", json!({}), Some("NotAllowedByListeners"));
    check(from(json!({"from": "All"})), "e", json!({}), None);
    check(from(json!({"from": "Same"})), "e", json!({}), Some("NotAllowedByListeners"));
    let selector = |value: &str| json!({"from": "Selector", "selector": {"matchLabels": {"name": value}}});
    check(from(selector("e")), "e", json!({}), None);
    check(from(selector("f")), "e", json!({}), Some("NotAllowedByListeners"));
    check(from(selector("gone")), "gone", json!({}), Some("NotAllowedByListeners"));
    check(from(json!({"from": "Selector"})), "d", json!({}), Some("NotAllowedByListeners"));
    check(from(json!({"from": "Everywhere"})), "d", json!({}), Some("NotAllowedByListeners"));
    let kinds = |kinds: Value| json!([{"name": "l", "port": 80, "protocol": "HTTP", "allowedRoutes": {"kinds": kinds}}]);
    check(kinds(json!([{"kind": "HTTPRoute"}])), "d", json!({}), None);
    check(kinds(json!([{"kind": "GRPCRoute"}])), "d", json!({}), Some("NotAllowedByListeners"));
    let parent = |more: Value| {
        let mut parent = json!({"name": "g", "namespace": "d"});
        parent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"parentRefs": [parent]})
    };
    check(plain(), "d", parent(json!({"sectionName": "l"})), None);
    check(plain(), "d", parent(json!({"sectionName": "x"})), Some("NoMatchingParent"));
    check(plain(), "d", parent(json!({"port": 80})), None);
    check(plain(), "d", parent(json!({"port": 81})), Some("NoMatchingParent"));
    let wild = || json!([http("l", 80, "*.example.com")]);
    check(wild(), "d", json!({"hostnames": ["a.example.com", "b.test"]}), None);
    check(wild(), "d", json!({"hostnames": ["example.com"]}), Some("NoMatchingListenerHostname"));
    check(plain(), "d", json!({"rules": [{"matches": [path("Glob", "/")]}]}), Some("UnsupportedValue"));
    check(plain(), "d", json!({"rules": [{"filters": [{"type": "CORS"}]}]}), Some("UnsupportedValue"));
    // A parent that is not a Gateway of this controller gets no status from it.
    for parent in
        [json!({"name": "other"}), json!({"name": "g", "kind": "Service"}), json!({"name": "g", "group": ""})]
    {
        let routes = vec![route("r", 0, &json!({"parentRefs": [parent]}))];
        let world = GatewayFixture::of(vec![gateway("g", 0, &plain())], routes, &[]);
        assert_eq!(world.plan.parents(&Key::new("d", "r")), []);
    }
}

#[test]
fn references_are_followed_where_they_may_be_net_9() {
    let grant = object(
        "ReferenceGrant",
        "e/g",
        0,
        &json!({"from": [{"group": GROUP, "kind": "HTTPRoute", "namespace": "d"}],
            "to": [{"group": "", "kind": "Service", "name": "granted"}]}),
    );
    let check = |backend: Value, expected: Option<&str>| {
        let mut routes = Vec::new();
        for (name, rule) in [
            ("backend", json!({"backendRefs": [backend]})),
            (
                "mirror",
                json!({"backendRefs": to("a"),
                "filters": [{"type": "RequestMirror", "requestMirror": {"backendRef": backend}}]}),
            ),
        ] {
            routes = vec![route(name, 0, &json!({"parentRefs": [{"name": "g"}], "rules": [rule]}))];
            let listeners = json!([http("l", 80, "")]);
            let world = GatewayFixture::of(
                vec![gateway("g", 0, &listeners)],
                routes.clone(),
                std::slice::from_ref(&grant),
            );
            assert_eq!(world.parent(), (None, expected), "{name} {backend}");
        }
        drop(routes);
    };
    check(json!({"name": "a", "port": 80}), None);
    check(json!({"name": "missing", "port": 80}), Some("BackendNotFound"));
    check(json!({"name": "a", "port": 81}), Some("BackendNotFound"));
    check(json!({"name": "a", "port": 53}), Some("BackendNotFound"));
    check(json!({"name": "a"}), Some("BackendNotFound"));
    check(json!({"name": "external", "port": 80}), Some("UnsupportedProtocol"));
    check(json!({"name": "a", "port": 80, "kind": "Bucket"}), Some("InvalidKind"));
    check(json!({"name": "a", "port": 80, "group": "example.com"}), Some("InvalidKind"));
    check(json!({"name": "granted", "port": 80, "namespace": "e"}), None);
    check(json!({"name": "a", "port": 80, "namespace": "e"}), Some("RefNotPermitted"));
}

#[test]
fn the_rule_that_says_most_comes_first_net_9() {
    let named = |name: &str, second: u8, hostnames: Value, matches: Value| {
        let rules = json!([{"matches": matches, "backendRefs": to("a")}]);
        route(name, second, &json!({"parentRefs": [{"name": "g"}], "hostnames": hostnames, "rules": rules}))
    };
    let header =
        |path: &str| json!({"path": {"value": path}, "headers": [{"name": "X-Env", "value": "test"}]});
    let routes = vec![
        named("root", 0, json!([]), json!([path("PathPrefix", "/")])),
        named("short", 1, json!([]), json!([path("PathPrefix", "/a/")])),
        named("long", 9, json!([]), json!([path("PathPrefix", "/a/b")])),
        named("exact", 9, json!([]), json!([path("Exact", "/a/b")])),
        named("pattern", 9, json!([]), json!([path("RegularExpression", "/a/[0-9]+/x")])),
        named("method", 9, json!([]), json!([{"path": {"value": "/a"}, "method": "PUT"}])),
        named("header", 9, json!([]), json!([header("/a")])),
        named(
            "two",
            9,
            json!([]),
            json!([{"path": {"value": "/a"}, "headers": [{"name": "x-env", "value": "test"},
                {"name": "X-ENV", "value": "ignored"}, {"name": "b", "type": "RegularExpression", "value": "[0-9]+"}]}]),
        ),
        named(
            "query",
            9,
            json!([]),
            json!([{"path": {"value": "/a"}, "queryParams": [{"name": "q", "value": "a b"}]}]),
        ),
        named("younger", 8, json!([]), json!([path("PathPrefix", "/same")])),
        named("older", 7, json!([]), json!([path("PathPrefix", "/same")])),
        named("b-name", 5, json!([]), json!([path("PathPrefix", "/name")])),
        named("a-name", 5, json!([]), json!([path("PathPrefix", "/name")])),
        named("wild", 9, json!(["*.h.test"]), json!([path("PathPrefix", "/")])),
        named("host", 9, json!(["x.h.test"]), json!([path("PathPrefix", "/host")])),
    ];
    let router = GatewayFixture::of(vec![gateway("g", 0, &json!([http("l", 80, "")]))], routes, &[])
        .router((ADDRESS, 80), &[]);
    let check = |method: &str, url: &str, headers: &[&str], expected: &str| {
        let found = route_summary(&router, method, url, headers, None);
        assert_eq!(found.split(' ').next(), Some(expected), "{method} {url} {headers:?}");
    };
    check("GET", "http://h/", &[], "root");
    check("GET", "http://h/ab", &[], "root");
    check("GET", "http://h/a", &[], "short");
    check("GET", "http://h/a/c", &[], "short");
    check("GET", "http://h/a/b/c", &[], "long");
    check("GET", "http://h/a/b/", &[], "long");
    check("GET", "http://h/a/b", &[], "exact");
    check("GET", "http://h/A/b", &[], "root");
    check("GET", "http://h/a/7/x", &[], "pattern");
    check("GET", "http://h/a/7/x/y", &[], "short");
    check("PUT", "http://h/a/c", &["x-env: test"], "method");
    check("GET", "http://h/a/c", &["x-env: test"], "header");
    check("GET", "http://h/a/c", &["x-env: Test"], "short");
    check("GET", "http://h/a/c", &["x-env: test", "x-env: more"], "short");
    check("GET", "http://h/a/c", &["x-env: test", "b: 12"], "two");
    check("GET", "http://h/a/c", &["x-env: test", "b: 12x"], "header");
    check("GET", "http://h/a/c?z=1&q=a+b", &[], "query");
    check("GET", "http://h/a/c?q=a%20b&q=c", &[], "query");
    check("GET", "http://h/a/c?q=c&q=a%20b", &[], "short");
    check("PUT", "http://h/a/b/c", &["x-env: test"], "long");
    check("GET", "http://h/same/x", &[], "older");
    check("GET", "http://h/name", &[], "a-name");
    check("GET", "http://x.h.test/host", &[], "host");
    check("GET", "http://x.h.test/else", &[], "wild");
    check("GET", "http://y.x.h.test/host", &[], "wild");
    check("GET", "http://h.test/host", &[], "root");
    // Paths are matched as an endpoint may read them.
    check("GET", "http://h/x/../a/%62", &[], "exact");
}

#[test]
fn a_listener_has_its_hosts_alone_net_9() {
    let listeners = json!([
        http("any", 80, ""),
        http("wild", 80, "*.example.com"),
        http("foo", 80, "*.foo.example.com"),
        http("exact", 80, "a.example.com"),
        http("empty", 80, "empty.test"),
        http("other", 81, "")
    ]);
    let to_section = |name: &str| {
        let parents = json!([{"name": "g", "sectionName": name}]);
        route(name, 0, &json!({"parentRefs": parents, "rules": [{"backendRefs": to("a")}]}))
    };
    let routes = ["any", "wild", "foo", "exact", "other"].map(to_section).into();
    let router =
        GatewayFixture::of(vec![gateway("g", 0, &listeners)], routes, &[]).router((ADDRESS, 80), &[]);
    for (host, expected) in [
        ("a.example.com", "exact"),
        ("b.example.com", "wild"),
        ("c.b.example.com", "wild"),
        ("x.foo.example.com", "foo"),
        ("example.com", "any"),
        ("else", "any"),
        ("empty.test", "404"),
    ] {
        let found = route_summary(&router, "GET", &format!("http://{host}/"), &[], None);
        assert_eq!(found.split(' ').next(), Some(expected), "{host}");
        // A TLS connection for one listener's host must not carry requests for another's.
        let other = route_summary(&router, "GET", &format!("http://{host}/"), &[], Some("z.other"));
        let is_any = matches!(expected, "any");
        assert_eq!(other == "421", !is_any, "{host} {other}");
    }
}

#[test]
fn requests_are_rewritten_and_redirected_net_9() {
    let check = |rule: Value, moved: &[(u16, u16)], url: &str, expected: &str| {
        let routes = vec![route("r", 0, &json!({"parentRefs": [{"name": "g"}], "rules": [rule]}))];
        let listeners = json!([http("l", 80, "")]);
        let router =
            GatewayFixture::of(vec![gateway("g", 0, &listeners)], routes, &[]).router((ADDRESS, 80), moved);
        assert_eq!(route_summary(&router, "GET", url, &[], None), expected, "{rule} {url}");
    };
    let redirect = |redirect: Value| {
        json!({"matches": [path("PathPrefix", "/cayenne")],
            "filters": [{"type": "RequestRedirect", "requestRedirect": redirect}]})
    };
    let target = "http://a.test:18080/cayenne/bonus?x=1";
    check(redirect(json!({})), &[], target, "302 http://a.test:18080/cayenne/bonus?x=1");
    check(
        redirect(json!({"scheme": "https", "statusCode": 301})),
        &[],
        target,
        "301 https://a.test/cayenne/bonus?x=1",
    );
    // Port 443 is moved on this machine; the redirect leads there.
    check(
        redirect(json!({"scheme": "https"})),
        &[(443, 18_443)],
        target,
        "302 https://a.test:18443/cayenne/bonus?x=1",
    );
    check(redirect(json!({"scheme": "http"})), &[(80, 80)], target, "302 http://a.test/cayenne/bonus?x=1");
    check(
        redirect(json!({"hostname": "b.test", "port": 8080, "statusCode": 308})),
        &[],
        target,
        "308 http://b.test:8080/cayenne/bonus?x=1",
    );
    let prefix = json!({"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/paprika"}});
    check(redirect(prefix.clone()), &[], target, "302 http://a.test:18080/paprika/bonus?x=1");
    let full = json!({"path": {"type": "ReplaceFullPath", "replaceFullPath": "/paprika"}});
    check(redirect(full), &[], target, "302 http://a.test:18080/paprika?x=1");
    let rewrite = |rewrite: Value| {
        json!({"matches": [path("PathPrefix", "/cayenne")], "backendRefs": to("a"),
            "filters": [{"type": "URLRewrite", "urlRewrite": rewrite}]})
    };
    check(rewrite(prefix), &[], target, "r a.test:18080/paprika/bonus?x=1");
    check(rewrite(json!({"hostname": "c.test"})), &[], target, "r c.test/cayenne/bonus?x=1");
    check(json!({"backendRefs": to("a")}), &[], target, "r a.test:18080/cayenne/bonus?x=1");
    check(json!({"backendRefs": to("missing")}), &[], target, "500");
    check(json!({}), &[], target, "500");
    check(json!({"backendRefs": [{"name": "a", "port": 80, "weight": 0}]}), &[], target, "500");
}

#[test]
fn backends_get_the_share_of_their_weight_net_9() {
    let backend = |name: &str, weight: u32| {
        let of_it = json!([{"type": "URLRewrite", "urlRewrite": {"hostname": name}}]);
        json!({"name": name, "port": 80, "weight": weight, "filters": of_it})
    };
    let count = |backends: &[Value]| {
        let rules = json!([{"backendRefs": backends}]);
        let routes = vec![route("r", 0, &json!({"parentRefs": [{"name": "g"}], "rules": rules}))];
        let listeners = json!([http("l", 80, "")]);
        let router =
            GatewayFixture::of(vec![gateway("g", 0, &listeners)], routes, &[]).router((ADDRESS, 80), &[]);
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for _ in 0..1000 {
            let found = route_summary(&router, "GET", "http://a/", &[], None);
            *counts.entry(found.replace("r ", "").replace('/', "")).or_default() += 1;
        }
        counts
    };
    let close = |counts: &BTreeMap<String, u32>, name: &str, expected: u32| {
        let found = counts.get(name).copied().unwrap_or_default();
        assert!(found.abs_diff(expected) <= 5, "{name}: {counts:?}");
    };
    let counts = count(&[backend("a", 90), backend("b", 10), backend("c", 0)]);
    close(&counts, "a", 900);
    close(&counts, "b", 100);
    assert_eq!(counts.get("c"), None);
    let counts = count(&[backend("a", 1), backend("missing", 1)]);
    close(&counts, "a", 500);
    close(&counts, "500", 500);
}

#[test]
fn a_listener_says_what_became_of_it_net_9() {
    const GOOD: &str = "Accepted=True:Accepted Conflicted=False:NoConflicts ResolvedRefs=True:ResolvedRefs Programmed=True:Programmed";
    let check = |listeners: Value, gateway_conditions: &str, expected: &[&str]| {
        let world = GatewayFixture::of(vec![gateway("g", 0, &listeners)], Vec::new(), &[]);
        let (conditions, of_listeners) = world.gateway(&world.ports());
        assert_eq!(conditions, gateway_conditions, "{listeners}");
        assert_eq!(of_listeners, expected, "{listeners}");
    };
    let all_good = "Accepted=True:Accepted Programmed=True:Programmed";
    let none = "Accepted=False:ListenersNotValid Programmed=False:Invalid";
    let some = "Accepted=True:ListenersNotValid Programmed=True:Programmed";
    check(json!([http("a", 80, ""), http("b", 80, "b.test"), http("c", 81, "")]), all_good, &[GOOD; 3]);
    let same = "Accepted=False:HostnameConflict Conflicted=True:HostnameConflict ResolvedRefs=True:ResolvedRefs Programmed=False:Invalid";
    check(json!([http("a", 80, "x.test"), http("b", 80, "X.test")]), none, &[same; 2]);
    check(
        json!([http("a", 80, "x.test"), http("b", 80, "x.test"), http("c", 80, "")]),
        some,
        &[same, same, GOOD],
    );
    let https = |name: &str, port: u16, tls: Value| json!({"name": name, "port": port, "protocol": "HTTPS", "tls": tls});
    let with = |secret: Value| https("s", 443, json!({"certificateRefs": [secret]}));
    let other = "Accepted=False:ProtocolConflict Conflicted=True:ProtocolConflict ResolvedRefs=True:ResolvedRefs Programmed=False:Invalid";
    let good = https("s", 80, json!({"certificateRefs": [{"name": "good"}]}));
    check(json!([http("a", 80, ""), good]), none, &[other; 2]);
    check(json!([with(json!({"name": "good"}))]), all_good, &[GOOD]);
    let unserved = "Accepted=True:Accepted Programmed=False:Invalid";
    let unresolved = |reason: &str| {
        format!(
            "Accepted=True:Accepted Conflicted=False:NoConflicts ResolvedRefs=False:{reason} Programmed=False:Invalid"
        )
    };
    for secret in
        [json!({"name": "missing"}), json!({"name": "broken"}), json!({"name": "good", "kind": "ConfigMap"})]
    {
        check(json!([with(secret)]), unserved, &[&unresolved("InvalidCertificateRef")]);
    }
    check(
        json!([with(json!({"name": "good", "namespace": "e"}))]),
        unserved,
        &[&unresolved("RefNotPermitted")],
    );
    check(json!([https("s", 443, json!({}))]), unserved, &[&unresolved("InvalidCertificateRef")]);
    let unsupported = |reason: &str| {
        format!(
            "Accepted=False:{reason} Conflicted=False:NoConflicts ResolvedRefs=True:ResolvedRefs Programmed=False:Invalid"
        )
    };
    for (listener, reason) in [
        (json!({"name": "t", "port": 80, "protocol": "TCP"}), "UnsupportedProtocol"),
        (json!({"name": "t", "port": 80, "protocol": "gopher"}), "UnsupportedProtocol"),
        (
            https("s", 443, json!({"mode": "Passthrough", "certificateRefs": [{"name": "good"}]})),
            "UnsupportedValue",
        ),
        (
            https(
                "s",
                443,
                json!({"certificateRefs": [{"name": "good"}], "frontendValidation": {"caCertificateRefs": []}}),
            ),
            "UnsupportedValue",
        ),
        (json!({"name": "t", "port": 0, "protocol": "HTTP"}), "UnsupportedValue"),
        (json!({"name": "t", "port": 70_000, "protocol": "HTTP"}), "UnsupportedValue"),
        (http("t", 80, "a b"), "UnsupportedValue"),
    ] {
        check(json!([listener]), none, &[&unsupported(reason)]);
    }
    let kinds = |kinds: Value| json!([{"name": "k", "port": 80, "protocol": "HTTP", "allowedRoutes": {"kinds": kinds}}]);
    check(kinds(json!([{"kind": "TCPRoute"}])), unserved, &[&unresolved("InvalidRouteKinds")]);
    let partly = "Accepted=True:Accepted Conflicted=False:NoConflicts ResolvedRefs=False:InvalidRouteKinds Programmed=True:Programmed";
    check(kinds(json!([{"kind": "TCPRoute"}, {"kind": "HTTPRoute"}])), all_good, &[partly]);
}

#[test]
fn unavailable_and_moved_ports_are_reported_net_9() {
    let world = GatewayFixture::of(
        vec![gateway("g", 0, &json!([http("a", 80, ""), http("b", 81, "")]))],
        Vec::new(),
        &[],
    );
    let moved = ServedPort { port: 18_080, moved: Some("cannot listen on 127.0.0.1:80: no".into()) };
    let ports: Ports =
        [((ADDRESS, 80), Ok(moved)), ((ADDRESS, 81), Err("cannot listen on 127.0.0.1:81: in use".into()))]
            .into();
    let status = world.gateway_status(&Key::new("d", "g"), &Map::new(), &ports, 1);
    assert_eq!(status["addresses"], json!([{"type": "IPAddress", "value": "127.0.0.1"}]));
    assert_eq!(
        format_conditions(&status["conditions"]),
        "Accepted=True:ListenersNotValid Programmed=True:Programmed"
    );
    let listener = |n: usize| status["listeners"][n]["conditions"].as_array().unwrap().clone();
    assert_eq!(
        listener(0)[3]["message"],
        "served at http://127.0.0.1:18080 (cannot listen on 127.0.0.1:80: no)"
    );
    assert_eq!(
        (&listener(1)[0]["reason"], &listener(1)[0]["observedGeneration"]),
        (&json!("PortUnavailable"), &json!(3))
    );
    // Entries of other controllers stay, and so do timestamps while nothing changes.
    let mut before = status.as_object().unwrap().clone();
    let conditions = before["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Other", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "1970-01-01T00:00:01Z"}));
    before.insert("extra".into(), json!(1));
    let now = Time(jiff::Timestamp::from_second(99).unwrap());
    let released = status::of_released(&before, ConditionContext { now: &now, generation: 3 });
    let expected = "Accepted=False:Pending Programmed=False:Pending Other=True:R";
    assert_eq!(
        (format_conditions(&released["conditions"]).as_str(), &released["addresses"]),
        (expected, &json!([]))
    );
    let again = world.gateway_status(&Key::new("d", "g"), &before, &ports, 99);
    assert_eq!(again, Value::Object(before));
}

#[test]
fn gateways_share_ports_and_the_older_one_keeps_its_own_net_9() {
    let at = |name: &str, second: u8, listeners: Value, addresses: Value| {
        let spec = json!({"gatewayClassName": "podium", "listeners": listeners, "addresses": addresses});
        object("Gateway", name, second, &spec)
    };
    let gateways = vec![
        at("young", 5, json!([http("l", 80, ""), http("own", 80, "own.test")]), json!([])),
        at("old", 1, json!([http("l", 80, "")]), json!([])),
        at("apart", 6, json!([http("l", 80, "")]), json!([{"type": "IPAddress", "value": "127.0.0.9"}])),
        at("away", 7, json!([http("l", 80, "")]), json!([{"type": "IPAddress", "value": "10.0.0.1"}])),
        at("service", 7, json!([http("l", 80, "")]), json!([{"value": "127.32.0.1"}])),
        at("named", 8, json!([http("l", 80, "")]), json!([{"type": "Hostname", "value": "a.test"}])),
        object(
            "Gateway",
            "others",
            0,
            &json!({"gatewayClassName": "other", "listeners": [http("l", 80, "")]}),
        ),
        object("Gateway", "odd", 9, &json!({"gatewayClassName": "podium", "listeners": 7})),
    ];
    let world = GatewayFixture::of(gateways, Vec::new(), &[]);
    let ports = world.ports();
    let of = |name: &str| {
        let status = world.gateway_status(&Key::new("d", name), &Map::new(), &ports, 1);
        format_conditions(&status["conditions"])
    };
    assert_eq!(of("old"), "Accepted=True:Accepted Programmed=True:Programmed");
    assert_eq!(of("young"), "Accepted=True:ListenersNotValid Programmed=True:Programmed");
    assert_eq!(of("apart"), "Accepted=True:Accepted Programmed=True:Programmed");
    for name in ["away", "service"] {
        assert_eq!(of(name), "Accepted=True:Accepted Programmed=False:AddressNotUsable", "{name}");
    }
    assert_eq!(of("named"), "Accepted=False:UnsupportedAddress Programmed=False:Invalid");
    assert_eq!(of("odd"), "Accepted=False:Invalid Programmed=False:Invalid");
    assert!(world.plan.gateway(&Key::new("d", "others")).is_none());
    let addresses: Vec<IpAddr> = world.plan.desired_ports().into_keys().map(|(ip, _)| ip).collect();
    assert_eq!(addresses, [ADDRESS, IpAddr::from([127, 0, 0, 9])]);
}

#[test]
fn a_routes_status_is_ours_alone_and_others_stay_net_9() {
    let listeners = json!([http("l", 80, ""), http("m", 81, "")]);
    let spec = json!({"parentRefs": [{"name": "g"}, {"name": "g", "sectionName": "x"}],
        "rules": [{"backendRefs": to("missing")}]});
    let world = GatewayFixture::of(vec![gateway("g", 0, &listeners)], vec![route("r", 0, &spec)], &[]);
    let now = Time(jiff::Timestamp::from_second(1).unwrap());
    let at = ConditionContext { now: &now, generation: 3 };
    let foreign = json!({"parentRef": {"name": "h"}, "controllerName": "other.test/c", "conditions": []});
    let stale = json!({"parentRef": {"name": "old"}, "controllerName": PODIUM_GATEWAY, "conditions": []});
    let before = json!({"parents": [stale, foreign]}).as_object().unwrap().clone();
    let parents = world.plan.parents(&Key::new("d", "r"));
    let status = status::of_route(&before, parents, at);
    let all = status["parents"].as_array().unwrap();
    assert_eq!((all.len(), &all[0]), (3, &foreign));
    assert_eq!(
        format_conditions(&all[1]["conditions"]),
        "Accepted=True:Accepted ResolvedRefs=False:BackendNotFound"
    );
    assert_eq!(
        format_conditions(&all[2]["conditions"]),
        "Accepted=False:NoMatchingParent ResolvedRefs=False:BackendNotFound"
    );
    assert_eq!(
        all[2]["parentRef"],
        json!({"group": GROUP, "kind": "Gateway", "name": "g", "sectionName": "x"})
    );
    let before = status.as_object().unwrap().clone();
    assert_eq!(status::of_route(&before, parents, at), status);
    assert_eq!(
        status::of_route(&before, &[], at),
        json!({"parents": [foreign]}),
        "no parent of ours remains"
    );
    assert_eq!(status::of_route(&Map::new(), &[], at), json!({}));
    let gateway = world.gateway_status(&Key::new("d", "g"), &Map::new(), &world.ports(), 1);
    let counts: Vec<_> =
        gateway["listeners"].as_array().unwrap().iter().map(|l| &l["attachedRoutes"]).collect();
    assert_eq!(counts, [&json!(1), &json!(1)]);
    assert_eq!(StatusCode::MISDIRECTED_REQUEST.as_u16(), 421);
}

#[test]
fn a_class_with_parameters_is_not_accepted_net_9() {
    let with = json!({"controllerName": PODIUM_GATEWAY, "parametersRef": {"name": "p"}});
    let other = json!({"controllerName": "other.test/c"});
    let classes =
        vec![class(), object("GatewayClass", "with", 0, &with), object("GatewayClass", "other", 0, &other)];
    let listeners = json!([http("l", 80, "")]);
    let spec = json!({"gatewayClassName": "with", "listeners": listeners});
    let gateways = vec![gateway("g", 0, &listeners), object("Gateway", "h", 0, &spec)];
    let seen = GatewayObjects::of(classes, gateways, Vec::new(), &[]);
    let names: Vec<_> =
        seen.classes.iter().map(|(class, refused)| (class.name(), refused.is_none())).collect();
    assert_eq!(names, [("podium", true), ("with", false)]);
    assert_eq!(seen.gateways.len(), 1);
    let now = Time(jiff::Timestamp::from_second(1).unwrap());
    for (class, refused) in &seen.classes {
        let status =
            status::of_class(&Map::new(), refused.as_ref(), ConditionContext { now: &now, generation: 1 });
        let expected = if class.name() == "podium" {
            "Accepted=True:Accepted"
        } else {
            "Accepted=False:InvalidParameters"
        };
        assert_eq!(format_conditions(&status["conditions"]), expected);
    }
}
