//! The reasons why a registry does not give an image, worded as containerd words them, and hints for the user (IMG-4).
//!
//! Texts that registries send are shortened and made printable before they get here. No error contains a password, a
//! token, or the query of a URL, which may be one.

use std::fmt;
use std::io;
use std::time::Duration;

use reqwest::{Method, StatusCode, Url};

/// The reason why an operation on a registry failed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The reference could not be resolved to a manifest for this machine.
    #[error("failed to resolve reference \"{reference}\": {source}")]
    Resolve {
        /// The reference's full name.
        reference: String,
        /// The cause.
        source: Box<RegistryError>,
    },
    /// The mirrors and the registry itself all failed.
    #[error("{}", Attempts(.0))]
    Endpoints(Vec<(String, RegistryError)>),
    /// Several credentials were refused, or failed in another way.
    #[error("{}", Credentials(.0))]
    Credentials(Vec<RegistryError>),
    /// No answer came.
    #[error("failed to do request: {method} \"{url}\": {failure}")]
    Request {
        /// The method in Go's spelling, `Get`.
        method: String,
        /// The URL without its query.
        url: String,
        /// The cause.
        failure: RequestFailure,
    },
    /// The registry knows no such manifest, blob or repository.
    #[error("{subject}: not found{detail}")]
    NotFound {
        /// A reference's full name, or a blob.
        subject: String,
        /// The registry's words, after a colon; empty without any.
        detail: String,
    },
    /// The registry demands other credentials, or any.
    #[error(
        "{subject}: {action} access denied, repository does not exist or may require authorization: \
         authorization failed: {detail}"
    )]
    Denied {
        /// The image or its part.
        subject: String,
        /// `pull` or `push`.
        action: &'static str,
        /// The registry's words, or ours.
        detail: String,
    },
    /// The registry answers 401 and does not say how to authenticate.
    #[error("{url}: 401 Unauthorized without a WWW-Authenticate header that this client understands{detail}")]
    NoChallenge {
        /// The URL without its query.
        url: String,
        /// The header, after a colon; empty without any.
        detail: String,
    },
    /// The token server did not give a token.
    #[error("failed to fetch a token from \"{realm}\": {reason}")]
    Token {
        /// The token server's URL without its query.
        realm: String,
        /// The reason.
        reason: String,
    },
    /// The registry limits the rate of requests, for longer than this client waits.
    #[error("{url}: {status}{detail}: try again in {} s", retry_after.as_secs())]
    TooManyRequests {
        /// The URL without its query.
        url: String,
        /// 429 or 503.
        status: StatusCode,
        /// The registry's words, after a colon; empty without any.
        detail: String,
        /// The time until the registry accepts requests again.
        retry_after: Duration,
    },
    /// Another status than the protocol's.
    #[error("unexpected status from {method} request to {url}: {status}{detail}")]
    Status {
        /// The method.
        method: Method,
        /// The URL without its query.
        url: String,
        /// The status.
        status: StatusCode,
        /// The registry's words, after a colon; empty without any.
        detail: String,
    },
    /// A redirect that is not followed.
    #[error("{url}: the redirect is not followed: {reason}")]
    Redirect {
        /// The URL without its query.
        url: String,
        /// The reason.
        reason: String,
    },
    /// An answer that is not the requested document.
    #[error("{subject}: {reason}")]
    Invalid {
        /// The document or its URL.
        subject: String,
        /// The defect.
        reason: String,
    },
    /// Content that does not match its digest.
    #[error("{subject} is damaged: its digest is {actual}, not {expected}")]
    Digest {
        /// The part.
        subject: String,
        /// The digest in its name.
        expected: String,
        /// The digest of the content.
        actual: String,
    },
    /// A part that exceeds a limit or its own stated size.
    #[error("{subject} is too large: {reason}")]
    TooLarge {
        /// The part.
        subject: String,
        /// The limit.
        reason: String,
    },
    /// A manifest of the format that registries dropped in 2017.
    #[error(
        "{0}: the manifest has schema version 1, which is no longer supported; push the image again with a \
         newer tool"
    )]
    SchemaVersion1(String),
    /// The index has no image for this machine.
    #[error("{0}")]
    Platform(String),
    /// A blob ended early again and again.
    #[error("{subject}: the connection was lost at byte {offset} of {size}, {attempts} times: {source}")]
    Interrupted {
        /// The blob.
        subject: String,
        /// The number of bytes that arrived.
        offset: u64,
        /// The size of the blob.
        size: u64,
        /// The number of attempts without progress.
        attempts: u32,
        /// The last cause.
        source: Box<RegistryError>,
    },
    /// A setting is not usable.
    #[error("{setting}: {reason}")]
    Setting {
        /// The field in the configuration file.
        setting: String,
        /// The reason.
        reason: String,
    },
    /// A credential is not usable.
    #[error(transparent)]
    Credential(#[from] super::CredentialError),
    /// A layer to upload cannot be read.
    #[error("{subject}: {source}")]
    Source {
        /// The blob.
        subject: String,
        /// The error.
        source: io::Error,
    },
}

/// The reason why no answer came, in the words that Go has for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// The name has no address.
    Lookup {
        /// The name.
        host: String,
        /// The resolver's words.
        detail: String,
    },
    /// No connection.
    Dial {
        /// `HOST:PORT`.
        address: String,
        /// `connect: connection refused`.
        detail: String,
    },
    /// The registry's certificate or its TLS is not acceptable.
    Tls(String),
    /// A server without TLS answered.
    PlainHttp,
    /// The proxy of the environment refused or failed.
    Proxy(String),
    /// Nothing arrived in time.
    Timeout(Duration),
    /// The connection ended or its content is not HTTP.
    Broken(String),
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup { host, detail } => write!(f, "dial tcp: lookup {host}: {detail}"),
            Self::Dial { address, detail } => write!(f, "dial tcp {address}: {detail}"),
            Self::Tls(detail) | Self::Broken(detail) => f.write_str(detail),
            Self::PlainHttp => f.write_str("http: server gave HTTP response to HTTPS client"),
            Self::Proxy(detail) => write!(f, "proxyconnect tcp: {detail}"),
            Self::Timeout(after) => write!(f, "i/o timeout: no data for {} s", after.as_secs_f32()),
        }
    }
}

/// The text of the failures of several endpoints: a single one needs no name.
struct Attempts<'a>(&'a [(String, RegistryError)]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(((_, registry), mirrors)) = self.0.split_last() else { return Ok(()) };
        write!(f, "{registry}")?;
        for (mirror, error) in mirrors {
            write!(f, "; mirror {mirror}: {error}")?;
        }
        Ok(())
    }
}

/// The text of the failures with several credentials, each different one once.
struct Credentials<'a>(&'a [RegistryError]);

impl fmt::Display for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown: Vec<String> = Vec::new();
        for text in self.0.iter().map(ToString::to_string) {
            if !shown.contains(&text) {
                shown.push(text);
            }
        }
        f.write_str(&shown.join("; "))
    }
}

impl RegistryError {
    /// The error of an operation that failed at each of these servers; a single server's error needs no list.
    pub(super) fn of_endpoints(mut errors: Vec<(String, Self)>) -> Self {
        match (errors.len(), errors.pop()) {
            (1, Some((_, error))) => error,
            (_, last) => {
                errors.extend(last);
                Self::Endpoints(errors)
            }
        }
    }

    /// Returns the error of the registry itself: the cause below names and mirrors.
    pub fn cause(&self) -> &Self {
        match self {
            Self::Resolve { source, .. } | Self::Interrupted { source, .. } => source.cause(),
            Self::Endpoints(attempts) => attempts.last().map_or(self, |(_, error)| error.cause()),
            Self::Credentials(errors) => errors.last().map_or(self, Self::cause),
            _ => self,
        }
    }

    /// Returns true if the registry was reached and has no such image.
    pub fn is_not_found(&self) -> bool {
        matches!(self.cause(), Self::NotFound { .. })
    }

    /// Returns true if other credentials may help.
    pub fn is_denied(&self) -> bool {
        match self.cause() {
            Self::Denied { .. } | Self::NoChallenge { .. } => true,
            Self::Status { status, .. } => *status == StatusCode::FORBIDDEN,
            _ => false,
        }
    }

    /// The error with its advice in parentheses, if there is one.
    pub fn with_hint(&self) -> String {
        self.hint().map_or_else(|| self.to_string(), |hint| format!("{self} ({hint})"))
    }

    /// Returns the advice that fits the cause, as one sentence.
    pub fn hint(&self) -> Option<String> {
        match self.cause() {
            Self::Request { url, failure, .. } => {
                let host = host_of(url);
                Some(match failure {
                    RequestFailure::Lookup { .. } | RequestFailure::Dial { .. } => format!(
                        "{host} cannot be reached; without a network, load the image from a file: podium image load"
                    ),
                    RequestFailure::Timeout(_) => {
                        format!("{host} does not respond; a proxy is set with HTTPS_PROXY and NO_PROXY")
                    }
                    RequestFailure::PlainHttp => format!(
                        "to use plain HTTP, set registry.hosts.\"{host}\".insecure: true in the configuration"
                    ),
                    RequestFailure::Tls(_) => format!(
                        "to trust the registry, set registry.hosts.\"{host}\".ca to the PEM file of its authority, \
                         or insecure: true"
                    ),
                    RequestFailure::Proxy(_) => {
                        "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY in Podium's environment".into()
                    }
                    RequestFailure::Broken(_) => return None,
                })
            }
            Self::NotFound { .. } => Some("check the image's name and tag".into()),
            Self::Denied { .. } | Self::NoChallenge { .. } => Some(CREDENTIALS_HINT.into()),
            Self::Status { status, .. } if *status == StatusCode::FORBIDDEN => Some(CREDENTIALS_HINT.into()),
            Self::TooManyRequests { .. } => Some(
                "registries grant more requests to users who log in: use imagePullSecrets or docker login"
                    .into(),
            ),
            Self::SchemaVersion1(_) => Some("push the image again with a current tool".into()),
            _ => None,
        }
    }

    /// Adds the name of the reference that was to be resolved.
    pub(super) fn resolving(self, reference: &str) -> Self {
        Self::Resolve { reference: reference.to_owned(), source: Box::new(self) }
    }

    pub(super) fn invalid(subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { subject: subject.into(), reason: reason.into() }
    }

    pub(super) fn is_timeout(&self) -> bool {
        matches!(self, Self::Request { failure: RequestFailure::Timeout(_), .. })
    }

    /// Returns true if the server of a URL, and not one that it refers to, may answer without TLS.
    pub(super) fn may_mean_no_tls(&self, url: &Url) -> bool {
        let Self::Request { failure, url: failed, .. } = self else { return false };
        let is_of_tls = matches!(
            failure,
            RequestFailure::PlainHttp
                | RequestFailure::Dial { .. }
                | RequestFailure::Tls(_)
                | RequestFailure::Broken(_)
        );
        is_of_tls && *failed == shown_url(url)
    }

    /// Returns true if the content of a blob is not that of its descriptor.
    pub(crate) fn is_of_content(&self) -> bool {
        matches!(self, Self::Digest { .. } | Self::TooLarge { .. })
    }

    /// Returns true if the same request may succeed a little later.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Request { failure, .. } => {
                matches!(failure, RequestFailure::Timeout(_) | RequestFailure::Broken(_))
            }
            Self::Status { status, .. } => status.is_server_error() && *status != StatusCode::NOT_IMPLEMENTED,
            _ => false,
        }
    }
}

const CREDENTIALS_HINT: &str = "check the image's name; a private image needs imagePullSecrets in the pod or its \
                                service account, or docker login on this machine";

fn host_of(url: &str) -> String {
    let host =
        |url: Url| url.host_str().map(|host| url.port().map_or(host.into(), |port| format!("{host}:{port}")));
    Url::parse(url).ok().and_then(host).unwrap_or_else(|| url.to_owned())
}

/// Returns a URL without its credentials, query and fragment.
pub(super) fn shown_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Fails only for URLs that have no host, and thus no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    shown_text(url.as_str(), 200)
}

/// Returns foreign text on one line, printable and shortened.
pub(super) fn shown_text(text: &str, limit: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().take(limit).collect();
    let text = words.join(" ");
    let short: String = text.chars().take(limit).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", base::quote::printable(&short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_shortened_and_printable_sec_3() {
        assert_eq!(shown_text("a\n\u{1b}[31m  b", 100), "a \\x1b[31m b");
        assert_eq!(shown_text(&"x".repeat(500), 3), "xxx…");
    }

    #[test]
    fn secrets_in_urls_are_not_shown_img_6() {
        let url = Url::parse("https://user:pw@a.io:1/v2/x?sig=secret#f").unwrap();
        assert_eq!(shown_url(&url), "https://a.io:1/v2/x");
    }

    /// IMG-4: the words of containerd, and the mirrors' failures only when all fail.
    #[test]
    fn errors_are_worded_as_containerd_words_them() {
        let dial = |failure| RegistryError::Request {
            method: "Head".into(),
            url: "https://r.io/v2/a/manifests/1".into(),
            failure,
        };
        let lookup = RequestFailure::Lookup { host: "r.io".into(), detail: "no such host".into() };
        let error = RegistryError::Endpoints(vec![
            ("http://m:1".into(), RegistryError::Platform("other".into())),
            ("r.io".into(), dial(lookup)),
        ]);
        let error = error.resolving("r.io/a:1");
        assert_eq!(
            error.to_string(),
            "failed to resolve reference \"r.io/a:1\": failed to do request: Head \
             \"https://r.io/v2/a/manifests/1\": dial tcp: lookup r.io: no such host; mirror http://m:1: other"
        );
        assert!(matches!(error.cause(), RegistryError::Request { .. }));
        assert!(error.hint().unwrap().contains("r.io cannot be reached"));
        let plain = dial(RequestFailure::PlainHttp);
        assert!(plain.hint().unwrap().contains("registry.hosts.\"r.io\".insecure"));
        let missing = RegistryError::NotFound { subject: "r.io/a:1".into(), detail: String::new() };
        assert_eq!(
            missing.resolving("r.io/a:1").to_string(),
            "failed to resolve reference \"r.io/a:1\": r.io/a:1: not found"
        );
    }
}
