//! Options of an Ingress in annotations: the ones of ingress-nginx that charts use most.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::problem::Problem;
use reverse_proxy::options::{MAX_TIMEOUT, Protocol};

/// The prefix of ingress-nginx's annotations.
const PREFIX: &str = "nginx.ingress.kubernetes.io/";
/// The options for requests of one Ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// `backend-protocol`, `proxy-body-size`, `proxy-connect-timeout`, `proxy-read-timeout`, `proxy-send-timeout`
    pub(super) forwarding: Arc<reverse_proxy::options::Options>,
    /// `rewrite-target`
    pub(super) rewrite: Option<String>,
    /// `use-regex`
    pub(super) regex: bool,
    /// `ssl-redirect`: if TLS is configured for the host.
    pub(super) ssl_redirect: bool,
    /// `force-ssl-redirect`: even if TLS is not configured.
    pub(super) force_ssl_redirect: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            forwarding: Arc::default(),
            rewrite: None,
            regex: false,
            ssl_redirect: true,
            force_ssl_redirect: false,
        }
    }
}

impl Options {
    /// Reads an Ingress' annotations; adds unsupported and invalid ones to `problems`.
    pub(super) fn read(annotations: Option<&BTreeMap<String, String>>, problems: &mut Vec<Problem>) -> Self {
        let mut options = Self::default();
        for (key, value) in annotations.into_iter().flatten() {
            let Some(name) = key.strip_prefix(PREFIX) else { continue };
            match options.take(name, value.trim()) {
                AnnotationResult::Yes => {}
                AnnotationResult::Invalid => {
                    problems.push(Problem::InvalidAnnotation(key.clone(), value.clone()));
                }
                AnnotationResult::Unknown => problems.push(Problem::UnsupportedAnnotation(key.clone())),
            }
        }
        options
    }

    fn take(&mut self, name: &str, value: &str) -> AnnotationResult {
        let passing = Arc::make_mut(&mut self.forwarding);
        match name {
            "backend-protocol" => match value.to_ascii_uppercase().as_str() {
                "HTTP" | "AUTO_HTTP" => passing.protocol = Protocol::Http,
                "HTTPS" => passing.protocol = Protocol::Https,
                "GRPC" => passing.protocol = Protocol::Grpc,
                "GRPCS" => passing.protocol = Protocol::Grpcs,
                _ => return AnnotationResult::Invalid,
            },
            "rewrite-target" if value.is_empty() => {}
            "rewrite-target" if value.starts_with('/') => self.rewrite = Some(value.into()),
            "rewrite-target" => return AnnotationResult::Invalid,
            "use-regex" => return set(&mut self.regex, flag(value)),
            "ssl-redirect" => return set(&mut self.ssl_redirect, flag(value)),
            "force-ssl-redirect" => return set(&mut self.force_ssl_redirect, flag(value)),
            "proxy-body-size" => return set(&mut passing.body_bytes, size(value)),
            "proxy-connect-timeout" => return set(&mut passing.connect_timeout, seconds(value)),
            "proxy-read-timeout" => return set(&mut passing.read_timeout, seconds(value)),
            "proxy-send-timeout" => return set(&mut passing.send_timeout, seconds(value)),
            // These values describe the proxy's behaviour anyway: it buffers nothing and speaks both versions of HTTP.
            "proxy-buffering" | "proxy-request-buffering" if value == "off" => {}
            "proxy-http-version" if value == "1.1" => {}
            _ => return AnnotationResult::Unknown,
        }
        AnnotationResult::Yes
    }
}

enum AnnotationResult {
    Yes,
    Invalid,
    Unknown,
}

fn set<T>(field: &mut T, value: Option<T>) -> AnnotationResult {
    match value {
        Some(value) => {
            *field = value;
            AnnotationResult::Yes
        }
        None => AnnotationResult::Invalid,
    }
}

fn flag(value: &str) -> Option<bool> {
    value.parse().ok()
}

/// Parses seconds, with or without their unit.
fn seconds(value: &str) -> Option<Duration> {
    let number: u64 = value.strip_suffix('s').unwrap_or(value).parse().ok()?;
    (number > 0).then(|| Duration::from_secs(number).min(MAX_TIMEOUT))
}

/// Parses a size in nginx's format: `8m`; 0 means unlimited.
#[expect(clippy::option_option, reason = "a missing size differs from no limit")]
fn size(value: &str) -> Option<Option<u64>> {
    let lower = value.to_ascii_lowercase();
    let units = [('k', 1_u64 << 10), ('m', 1 << 20), ('g', 1 << 30)];
    let unit = units.iter().find(|(letter, _)| lower.ends_with(*letter));
    let (digits, unit) = match unit {
        Some((letter, unit)) => (lower.trim_end_matches(*letter), *unit),
        None => (lower.as_str(), 1),
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    Some((bytes > 0).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Options, Vec<Problem>) {
        let annotations = pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let mut problems = Vec::new();
        let options = Options::read(Some(&annotations), &mut problems);
        (options, problems)
    }

    #[test]
    fn annotations_used_by_charts_are_supported_net_9() {
        let (options, problems) = read(&[
            ("nginx.ingress.kubernetes.io/backend-protocol", "https"),
            ("nginx.ingress.kubernetes.io/rewrite-target", "/$2"),
            ("nginx.ingress.kubernetes.io/use-regex", "true"),
            ("nginx.ingress.kubernetes.io/ssl-redirect", "false"),
            ("nginx.ingress.kubernetes.io/proxy-body-size", "8m"),
            ("nginx.ingress.kubernetes.io/proxy-read-timeout", "3600"),
            ("nginx.ingress.kubernetes.io/proxy-connect-timeout", "10s"),
            ("cert-manager.io/cluster-issuer", "another's matter"),
        ]);
        assert_eq!(problems, []);
        let passing = reverse_proxy::options::Options {
            protocol: Protocol::Https,
            body_bytes: Some(8 << 20),
            read_timeout: Duration::from_hours(1),
            connect_timeout: Duration::from_secs(10),
            ..reverse_proxy::options::Options::default()
        };
        let expected = Options {
            forwarding: Arc::new(passing),
            rewrite: Some("/$2".into()),
            regex: true,
            ssl_redirect: false,
            ..Options::default()
        };
        assert_eq!(options, expected);
        assert_eq!(
            read(&[("nginx.ingress.kubernetes.io/proxy-body-size", "0")]).0.forwarding.body_bytes,
            None
        );
        assert_eq!(
            read(&[("nginx.ingress.kubernetes.io/proxy-body-size", "1024")]).0.forwarding.body_bytes,
            Some(1024)
        );
    }

    #[test]
    fn invalid_annotations_are_reported_and_change_no_option_net_9() {
        for (name, value) in [
            ("backend-protocol", "FCGI"),
            ("rewrite-target", "https://elsewhere/"),
            ("use-regex", "maybe"),
            ("proxy-body-size", "many"),
            ("proxy-body-size", "99999999999999999999g"),
            ("proxy-read-timeout", "0"),
            ("proxy-read-timeout", "-1"),
        ] {
            let key = format!("{PREFIX}{name}");
            let (options, problems) = read(&[(&key, value)]);
            assert_eq!(problems, [Problem::InvalidAnnotation(key, value.into())]);
            assert_eq!(options, Options::default());
        }
        for name in ["configuration-snippet", "auth-url", "canary"] {
            let key = format!("{PREFIX}{name}");
            assert_eq!(read(&[(&key, "x")]).1, [Problem::UnsupportedAnnotation(key)]);
        }
    }
}
