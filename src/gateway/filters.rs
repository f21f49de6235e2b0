//! Filters of a rule: header modification, redirect, URL rewrite, mirroring.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};

use super::hosts::is_hostname;
use super::path_edit::PathEdit;
use super::problem::Cause;
use super::resources::{self, HeaderModifier, ObjectRef, RouteFilter};
use object::port_number;
use reverse_proxy::header_edits::{HeaderEdits, may_be_edited};

/// One filter; `M` is the target of mirrored requests.
#[derive(Clone, Debug)]
pub(super) enum Filter<M> {
    RequestHeaders(Arc<HeaderEdits>),
    ResponseHeaders(Arc<HeaderEdits>),
    Redirect(Arc<Redirect>),
    Rewrite(Arc<Rewrite>),
    Mirror(M, MirrorFraction),
}

/// The fraction of requests to mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MirrorFraction {
    pub(super) numerator: u32,
    pub(super) denominator: u32,
}

/// The target of a redirect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Redirect {
    /// `http` or `https`; `None` means the request's own.
    pub(super) scheme: Option<&'static str>,
    pub(super) hostname: Option<String>,
    pub(super) path: Option<PathEdit>,
    pub(super) port: Option<u16>,
    pub(super) status: StatusCode,
}

/// The replacements of a URL rewrite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rewrite {
    pub(super) hostname: Option<String>,
    pub(super) path: Option<PathEdit>,
}

impl<M> Filter<M> {
    /// Converts the mirror target.
    pub(super) fn map<N>(&self, to: impl FnOnce(&M) -> N) -> Filter<N> {
        match self {
            Self::RequestHeaders(edits) => Filter::RequestHeaders(edits.clone()),
            Self::ResponseHeaders(edits) => Filter::ResponseHeaders(edits.clone()),
            Self::Redirect(redirect) => Filter::Redirect(redirect.clone()),
            Self::Rewrite(rewrite) => Filter::Rewrite(rewrite.clone()),
            Self::Mirror(mirror, share) => Filter::Mirror(to(mirror), *share),
        }
    }

    /// Returns whether the filter replaces the matched prefix.
    fn edits_prefix(&self) -> bool {
        let path = match self {
            Self::Redirect(redirect) => &redirect.path,
            Self::Rewrite(rewrite) => &rewrite.path,
            _ => return false,
        };
        matches!(path, Some(PathEdit::Prefix(_)))
    }
}

/// Reads the filters of a rule or of one of its backends; `has_prefix` says that all matches of the rule are of type
/// PathPrefix.
pub(super) fn read(all: &[RouteFilter], has_prefix: bool) -> Result<Vec<Filter<ObjectRef>>, Cause> {
    let filters = all.iter().map(read_one).collect::<Result<Vec<_>, _>>()?;
    let count = |is_it: fn(&Filter<ObjectRef>) -> bool| filters.iter().filter(|f| is_it(f)).count();
    let redirects = count(|filter| matches!(filter, Filter::Redirect(_)));
    let rewrites = count(|filter| matches!(filter, Filter::Rewrite(_)));
    if redirects > 0 && rewrites > 0 {
        return Err(Cause::incompatible("a rule cannot have both RequestRedirect and URLRewrite"));
    }
    let most = [
        ("RequestRedirect", redirects),
        ("URLRewrite", rewrites),
        ("RequestHeaderModifier", count(|filter| matches!(filter, Filter::RequestHeaders(_)))),
        ("ResponseHeaderModifier", count(|filter| matches!(filter, Filter::ResponseHeaders(_)))),
    ];
    if let Some((name, _)) = most.iter().find(|(_, count)| *count > 1) {
        return Err(Cause::incompatible(format!("a rule cannot have filter {name} twice")));
    }
    if !has_prefix && filters.iter().any(Filter::edits_prefix) {
        return Err(Cause::unsupported(
            "ReplacePrefixMatch needs a rule whose matches are all of type PathPrefix",
        ));
    }
    Ok(filters)
}

fn read_one(filter: &RouteFilter) -> Result<Filter<ObjectRef>, Cause> {
    let missing = || Cause::unsupported(format!("filter {} has no configuration", filter.type_));
    match filter.type_.as_str() {
        "RequestHeaderModifier" => {
            let modifier = filter.request_header_modifier.as_ref().ok_or_else(missing)?;
            Ok(Filter::RequestHeaders(Arc::new(edits(modifier)?)))
        }
        "ResponseHeaderModifier" => {
            let modifier = filter.response_header_modifier.as_ref().ok_or_else(missing)?;
            Ok(Filter::ResponseHeaders(Arc::new(edits(modifier)?)))
        }
        "RequestRedirect" => {
            let redirect = filter.request_redirect.as_ref().ok_or_else(missing)?;
            Ok(Filter::Redirect(Arc::new(read_redirect(redirect)?)))
        }
        "URLRewrite" => {
            let rewrite = filter.url_rewrite.as_ref().ok_or_else(missing)?;
            let hostname = hostname(rewrite.hostname.as_deref())?;
            let path = rewrite.path.as_ref().map(PathEdit::read).transpose()?;
            Ok(Filter::Rewrite(Arc::new(Rewrite { hostname, path })))
        }
        "RequestMirror" => {
            let mirror = filter.request_mirror.as_ref().ok_or_else(missing)?;
            Ok(Filter::Mirror(mirror.backend_ref.clone(), share(mirror)?))
        }
        other => Err(Cause::unsupported(format!("filter {other} is not supported"))),
    }
}

fn edits(of: &HeaderModifier) -> Result<HeaderEdits, Cause> {
    let name = |text: &str| {
        let name = HeaderName::try_from(text).ok().filter(may_be_edited);
        name.ok_or_else(|| Cause::unsupported(format!("header \"{text}\" cannot be changed")))
    };
    let pairs = |all: &[resources::HeaderValue]| {
        let mut pairs: Vec<(HeaderName, HeaderValue)> = Vec::new();
        for header in all {
            let value = HeaderValue::try_from(&header.value)
                .map_err(|_| Cause::unsupported(format!("invalid value for header \"{}\"", header.name)))?;
            let name = name(&header.name)?;
            // Of several entries with the same name, the first one applies.
            if pairs.iter().all(|(known, _)| *known != name) {
                pairs.push((name, value));
            }
        }
        Ok::<_, Cause>(pairs)
    };
    let remove = of.remove.iter().map(|text| name(text)).collect::<Result<_, _>>()?;
    Ok(HeaderEdits { set: pairs(&of.set)?, add: pairs(&of.add)?, remove })
}

fn read_redirect(of: &resources::RequestRedirect) -> Result<Redirect, Cause> {
    let unsupported = |feature: &str| Cause::unsupported(format!("a redirect cannot have {feature}"));
    let scheme = match of.scheme.as_deref() {
        None => None,
        Some("http") => Some("http"),
        Some("https") => Some("https"),
        Some(other) => return Err(unsupported(&format!("scheme {other}"))),
    };
    let port = of.port.map(|port| port_number(port).ok_or_else(|| unsupported("this port"))).transpose()?;
    let status = match of.status_code.unwrap_or(302) {
        301 => StatusCode::MOVED_PERMANENTLY,
        302 => StatusCode::FOUND,
        303 => StatusCode::SEE_OTHER,
        307 => StatusCode::TEMPORARY_REDIRECT,
        308 => StatusCode::PERMANENT_REDIRECT,
        other => return Err(unsupported(&format!("status code {other}"))),
    };
    let path = of.path.as_ref().map(PathEdit::read).transpose()?;
    Ok(Redirect { scheme, hostname: hostname(of.hostname.as_deref())?, path, port, status })
}

fn hostname(name: Option<&str>) -> Result<Option<String>, Cause> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(None) };
    if !is_hostname(name) || name.starts_with('*') {
        return Err(Cause::unsupported(format!("invalid hostname \"{name}\"")));
    }
    Ok(Some(name.to_ascii_lowercase()))
}

fn share(of: &resources::RequestMirror) -> Result<MirrorFraction, Cause> {
    let (numerator, denominator) = match (&of.fraction, of.percent) {
        (Some(_), Some(_)) => {
            return Err(Cause::unsupported("a mirror cannot have both percent and fraction"));
        }
        (Some(fraction), None) => (fraction.numerator, fraction.denominator.unwrap_or(100)),
        (None, percent) => (percent.unwrap_or(100), 100),
    };
    match (u32::try_from(numerator), u32::try_from(denominator)) {
        (Ok(numerator), Ok(denominator)) if denominator > 0 && numerator <= denominator => {
            Ok(MirrorFraction { numerator, denominator })
        }
        _ => Err(Cause::unsupported(format!(
            "invalid fraction of requests to mirror: {numerator}/{denominator}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reason(filters: Value, has_prefix: bool) -> &'static str {
        let filters: Vec<RouteFilter> = serde_json::from_value(filters).unwrap();
        read(&filters, has_prefix).map_or_else(|problem| problem.reason, |_| "fine")
    }

    #[test]
    fn unsupported_filters_are_refused_and_never_skipped_net_9() {
        let redirect = |redirect: Value| json!({"type": "RequestRedirect", "requestRedirect": redirect});
        let rewrite = |rewrite: Value| json!({"type": "URLRewrite", "urlRewrite": rewrite});
        let set = |name: &str, value: &str| json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": name, "value": value}]}});
        let mirror = |mirror: Value| json!({"type": "RequestMirror", "requestMirror": mirror});
        let prefix = json!({"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/x"}});
        for (filters, has_prefix, expected) in [
            (json!([redirect(json!({"scheme": "https", "statusCode": 301}))]), false, "fine"),
            (json!([redirect(json!({"scheme": "ftp"}))]), false, "UnsupportedValue"),
            (json!([redirect(json!({"statusCode": 304}))]), false, "UnsupportedValue"),
            (json!([redirect(json!({"port": 70000}))]), false, "UnsupportedValue"),
            (json!([redirect(json!({"hostname": "a/b"}))]), false, "UnsupportedValue"),
            (json!([redirect(json!({})), rewrite(json!({}))]), false, "IncompatibleFilters"),
            (json!([rewrite(json!({})), rewrite(json!({}))]), false, "IncompatibleFilters"),
            (json!([rewrite(prefix.clone())]), true, "fine"),
            (json!([rewrite(prefix)]), false, "UnsupportedValue"),
            (json!([rewrite(json!({"path": {"type": "Other"}}))]), true, "UnsupportedValue"),
            (
                json!([rewrite(json!({"path": {"type": "ReplaceFullPath", "replaceFullPath": "/a?b"}}))]),
                true,
                "UnsupportedValue",
            ),
            (json!([set("x-own", "1")]), false, "fine"),
            (json!([set("host", "a")]), false, "UnsupportedValue"),
            (json!([set("transfer-encoding", "chunked")]), false, "UnsupportedValue"),
            (json!([set("a b", "1")]), false, "UnsupportedValue"),
            (json!([set("a", "1\r\nb: 2")]), false, "UnsupportedValue"),
            (json!([mirror(json!({"backendRef": {"name": "a"}, "percent": 10}))]), false, "fine"),
            (json!([mirror(json!({"percent": 101}))]), false, "UnsupportedValue"),
            (
                json!([mirror(json!({"fraction": {"numerator": 1, "denominator": 0}}))]),
                false,
                "UnsupportedValue",
            ),
            (json!([{"type": "ExtensionRef", "extensionRef": {"name": "a"}}]), false, "UnsupportedValue"),
            (json!([{"type": "CORS", "cors": {}}]), false, "UnsupportedValue"),
            (json!([{"type": "RequestRedirect"}]), false, "UnsupportedValue"),
            (json!([{}]), false, "UnsupportedValue"),
        ] {
            let shown = filters.to_string();
            assert_eq!(reason(filters, has_prefix), expected, "{shown}");
        }
    }
}
