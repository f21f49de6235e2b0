//! A parsed HTTPRoute: read and checked once, independently of its parents and references.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::filters::{self, Filter};
use super::hosts::is_hostname;
use super::matches::{Match, PathMatch};
use super::problem::Cause;
use super::resources::{ObjectRef, ParentRef, RouteHead, RouteMatch, RouteRule, RouteRules, Timeouts};
use object::{Key, Object};
use reverse_proxy::options::MAX_TIMEOUT;

/// Maximum number of matches of one route; each is an entry in the table.
const MAX_MATCHES: usize = 1024;
/// Maximum number of regular expressions of one route; each may be tried on each request.
const MAX_PATTERNS: usize = 100;
/// Maximum number of headers, query parameters, filters or backends in one list of a rule.
const MAX_ITEMS: usize = 128;
/// Maximum number of hostnames of one route.
const MAX_HOSTNAMES: usize = 64;
/// Maximum number of parents of one route, as in the API's CRD; further ones get no status.
const MAX_PARENTS: usize = 32;
/// Maximum weight of a backend, as in the API's CRD.
const MAX_WEIGHT: i64 = 1_000_000;

/// A parsed HTTPRoute.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) key: Key,
    pub(super) generation: i64,
    pub(super) parents: Vec<ParentRef>,
    /// The hostnames in lower case; an empty list matches any host.
    pub(super) hostnames: Vec<String>,
    /// The rules, or the reason why they cannot be served.
    pub(super) rules: Result<Vec<Rule>, Cause>,
}

/// A rule of a route.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) matches: Vec<Arc<Match>>,
    pub(super) filters: Vec<Filter<ObjectRef>>,
    pub(super) backends: Vec<RouteBackend>,
    pub(super) timeouts: Limits,
}

/// A backend of a rule.
#[derive(Clone, Debug)]
pub(super) struct RouteBackend {
    pub(super) to: ObjectRef,
    pub(super) weight: u32,
    pub(super) filters: Vec<Filter<ObjectRef>>,
}

/// Timeouts of a rule's requests; `None` if the rule does not set them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) request: Option<Duration>,
    pub(super) backend: Option<Duration>,
}

impl Route {
    /// Reads an HTTPRoute; `None` if not even its parents can be read.
    pub(super) fn read(object: &Object) -> Option<Self> {
        let spec = object.custom()?.fields.get("spec").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let mut head: RouteHead = match base::json::from_value(spec.clone()) {
            Ok(head) => head,
            Err(error) => {
                tracing::debug!("cannot parse HTTPRoute {}: {error}", object.key());
                return None;
            }
        };
        head.parent_refs.truncate(MAX_PARENTS);
        let hostnames: Vec<String> = head.hostnames.iter().map(|name| name.to_ascii_lowercase()).collect();
        Some(Self {
            key: object.key(),
            generation: object.meta().generation.unwrap_or_default(),
            parents: head.parent_refs,
            rules: check_hostnames(&hostnames).and_then(|()| read_rules(spec)),
            hostnames,
        })
    }
}

fn check_hostnames(hostnames: &[String]) -> Result<(), Cause> {
    if hostnames.len() > MAX_HOSTNAMES {
        return Err(Cause::unsupported(format!("at most {MAX_HOSTNAMES} hostnames are supported")));
    }
    match hostnames.iter().find(|name| !is_hostname(name)) {
        Some(name) => Err(Cause::unsupported(format!("invalid hostname \"{name}\""))),
        None => Ok(()),
    }
}

fn read_rules(spec: Value) -> Result<Vec<Rule>, Cause> {
    let RouteRules { rules } = base::json::from_value(spec)
        .map_err(|error| Cause::unsupported(format!("cannot parse the rules: {error}")))?;
    let matches: usize = rules.iter().map(|rule| rule.matches.len().max(1)).sum();
    if matches > MAX_MATCHES {
        return Err(Cause::unsupported(format!("at most {MAX_MATCHES} matches are supported")));
    }
    let mut patterns = 0;
    let read = rules.iter().map(|rule| {
        let rule = read_rule(rule, MAX_PATTERNS - patterns)?;
        patterns += rule.matches.iter().map(|one| one.patterns()).sum::<usize>();
        Ok(rule)
    });
    read.collect()
}

fn read_rule(rule: &RouteRule, patterns: usize) -> Result<Rule, Cause> {
    if rule.retry.is_some() || rule.session_persistence.is_some() {
        return Err(Cause::unsupported("retry and sessionPersistence are not supported"));
    }
    let of_matches = rule.matches.iter().flat_map(|one| [one.headers.len(), one.query_params.len()]);
    let of_backends = rule.backend_refs.iter().map(|backend| backend.filters.len());
    let lists = of_matches.chain(of_backends).chain([rule.filters.len(), rule.backend_refs.len()]);
    if lists.max().is_some_and(|longest| longest > MAX_ITEMS) {
        return Err(Cause::unsupported(format!("a list of a rule can have at most {MAX_ITEMS} items")));
    }
    check_patterns(&rule.matches, patterns)?;
    let whole = [RouteMatch::default()];
    let given = if rule.matches.is_empty() { &whole[..] } else { &rule.matches };
    let matches = given.iter().map(|one| Match::read(one).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
    let has_prefix = matches.iter().all(|one| matches!(one.path, PathMatch::Prefix(_)));
    let backends = rule.backend_refs.iter().map(|backend| {
        let weight = backend.weight.unwrap_or(1);
        let weight = u32::try_from(weight).ok().filter(|_| weight <= MAX_WEIGHT);
        let weight = weight
            .ok_or_else(|| Cause::unsupported(format!("invalid weight of backend {}", backend.to.name)))?;
        let filters = filters::read(&backend.filters, has_prefix)?;
        Ok(RouteBackend { to: backend.to.clone(), weight, filters })
    });
    let timeouts = rule.timeouts.as_ref().map(limits).transpose()?.unwrap_or_default();
    let backends = backends.collect::<Result<_, _>>()?;
    Ok(Rule { matches, filters: filters::read(&rule.filters, has_prefix)?, backends, timeouts })
}

/// Checks the number of regular expressions before any is compiled, because compiling takes time and memory.
fn check_patterns(matches: &[RouteMatch], most: usize) -> Result<(), Cause> {
    let values = matches.iter().flat_map(|one| one.path.iter().chain(&one.headers).chain(&one.query_params));
    let patterns = values.filter(|value| value.type_.as_deref() == Some("RegularExpression")).count();
    if patterns > most {
        return Err(Cause::unsupported(format!("at most {MAX_PATTERNS} regular expressions are supported")));
    }
    Ok(())
}

fn limits(of: &Timeouts) -> Result<Limits, Cause> {
    let read = |text: Option<&str>| {
        let Some(text) = text else { return Ok(None) };
        let read = duration(text);
        read.map(Some).ok_or_else(|| Cause::unsupported(format!("invalid duration \"{text}\"")))
    };
    let limits =
        Limits { request: read(of.request.as_deref())?, backend: read(of.backend_request.as_deref())? };
    if let Limits { request: Some(request), backend: Some(backend) } = limits
        && !request.is_zero()
        && backend > request
    {
        return Err(Cause::unsupported("timeouts.backendRequest is longer than timeouts.request"));
    }
    Ok(limits)
}

/// Parses a duration in the API's format (GEP-2257): up to four numbers of up to five digits, each with `h`, `m`, `s`
/// or `ms`. Longer ones are limited to a day.
fn duration(text: &str) -> Option<Duration> {
    let (mut rest, mut total, mut parts) = (text, Duration::ZERO, 0);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest.get(..digits).filter(|_| (1..=5).contains(&digits))?.parse().ok()?;
        rest = &rest[digits..];
        let units = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
        let (unit, millis) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        total += Duration::from_millis(number * millis);
        parts += 1;
    }
    (1..=4).contains(&parts).then(|| total.min(MAX_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use object::{Kind, Scope};
    use serde_json::json;

    use super::*;

    fn route(spec: &Value) -> Option<Route> {
        let kind =
            Kind::custom("gateway.networking.k8s.io", "httproutes", "HTTPRoute", Scope::Namespaced).unwrap();
        let value = json!({"apiVersion": "gateway.networking.k8s.io/v1", "metadata": {"name": "r", "namespace": "d"},
            "spec": spec});
        Route::read(&Object::from_value(kind, value).unwrap())
    }

    #[test]
    fn durations_are_those_of_the_api_net_9() {
        for (text, expected) in [
            ("10s", Some(10_000)),
            ("1h2m3s4ms", Some(3_723_004)),
            ("0s", Some(0)),
            ("500ms", Some(500)),
            ("99999h", Some(86_400_000)),
            ("", None),
            ("10", None),
            ("1.5s", None),
            ("123456s", None),
            ("1s1s1s1s1s", None),
            ("s", None),
            ("-1s", None),
            ("1d", None),
            ("1é", None),
        ] {
            assert_eq!(duration(text), expected.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn a_route_with_something_unknown_is_not_served_at_all_net_9() {
        let check = |rule: Value, expected: Option<&str>| {
            let read = route(&json!({"parentRefs": [{"name": "g"}], "rules": [rule]})).unwrap();
            let problem = read.rules.err().map(|problem| problem.message);
            match expected {
                None => assert_eq!(problem, None, "{rule}"),
                Some(part) => {
                    assert!(problem.as_ref().is_some_and(|p| p.contains(part)), "{rule}: {problem:?}");
                }
            }
        };
        let path = |type_: &str, value: &str| json!({"matches": [{"path": {"type": type_, "value": value}}]});
        check(json!({}), None);
        check(path("Exact", "/a"), None);
        check(path("RegularExpression", "/a/[0-9]+"), None);
        check(path("RegularExpression", "/("), Some("invalid regular expression"));
        check(path("RegularExpression", "/a{2000}{2000}"), Some("invalid regular expression"));
        check(path("Glob", "/a"), Some("path match type Glob"));
        check(path("Exact", "a"), Some("invalid path"));
        check(path("Exact", "/a//b"), Some("invalid path"));
        check(json!({"matches": [{"method": "BREW"}]}), Some("method BREW"));
        check(
            json!({"matches": [{"headers": [{"name": "a b", "value": "1"}]}]}),
            Some("invalid header name"),
        );
        check(
            json!({"matches": [{"queryParams": [{"type": "Glob", "name": "a"}]}]}),
            Some("match type Glob"),
        );
        check(json!({"timeouts": {"request": "1s", "backendRequest": "2s"}}), Some("longer"));
        check(json!({"timeouts": {"request": "soon"}}), Some("invalid duration"));
        check(json!({"retry": {"attempts": 3}}), Some("retry"));
        check(json!({"backendRefs": [{"name": "a", "weight": -1}]}), Some("weight"));
        check(json!({"backendRefs": "a"}), Some("cannot parse the rules"));
        check(
            json!({"filters": vec![json!({"type": "RequestMirror", "requestMirror": {}}); 129]}),
            Some("at most"),
        );
        let one = json!({"path": {"type": "RegularExpression", "value": "/a"}});
        check(json!({"matches": vec![one.clone(); 100]}), None);
        check(json!({"matches": vec![one; 101]}), Some("regular expressions"));
        check(json!({"matches": vec![json!({}); 1025]}), Some("at most 1024 matches"));
        for (hostnames, expected) in [
            (json!(["*.A.test"]), true),
            (json!(["a b"]), false),
            (json!(vec!["a"; 65]), false),
            (json!([""]), false),
        ] {
            let read = route(&json!({"hostnames": hostnames})).unwrap();
            assert_eq!(read.rules.is_ok(), expected, "{hostnames}");
        }
        assert!(route(&json!({"parentRefs": 7})).is_none());
        let many = route(&json!({"parentRefs": vec![json!({"name": "g"}); 1000]})).unwrap();
        assert_eq!(many.parents.len(), MAX_PARENTS);
    }
}
