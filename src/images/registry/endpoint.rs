//! The servers that may have a repository: its mirrors in order, then the registry itself (IMG-4).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::StatusCode;
use reqwest::{Response, Url};

use crate::ImageReference;

use super::auth_entries::FoundCredentials;
use super::authorization::{Access, AuthorizationCache, Authorizer};
use super::config::{RegistryConfig, RegistryHostConfig, mirror_url};
use super::credential::Credential;
use super::error::{RegistryError, RequestFailure, shown_url};
use super::keyring::Keyring;
use super::transport::{Call, EndpointTrust, Transport, is_loopback};

/// The host that serves Docker Hub's images.
const HUB_HOST: &str = "registry-1.docker.io";

/// One server with a repository.
pub(super) struct Endpoint {
    /// For messages: the mirror's URL, or the registry's name.
    pub(super) name: String,
    /// Up to the protocol's prefix: `https://HOST/v2/`.
    base: Url,
    trust: EndpointTrust,
    /// Plain HTTP is acceptable if the server does not speak TLS.
    may_be_plain: bool,
    is_plain: AtomicBool,
    /// The parameter `ns` tells a mirror the registry that it stands for.
    namespace: Option<String>,
    repository: String,
    found: FoundCredentials,
    /// The position of the credential that worked last.
    working: AtomicUsize,
}

/// The endpoints of a reference, mirrors first, each with its own credentials.
pub(super) async fn endpoints(
    config: &RegistryConfig,
    reference: &ImageReference,
    keyring: &Keyring,
) -> Result<Vec<Endpoint>, RegistryError> {
    let registry = reference.registry_host();
    let repository = reference.full_repository();
    let settings = config.hosts.get(registry);
    let mut endpoints = Vec::new();
    for mirror in settings.map_or(&[][..], |settings| &settings.mirrors) {
        let base = mirror_url(mirror).map_err(|reason| RegistryError::Setting {
            setting: format!("registry.hosts.\"{registry}\".mirrors"),
            reason: format!("{mirror}: {reason}"),
        })?;
        let host = host_and_port(&base);
        // The path of a mirror is a part of its repositories' names, as credentials see them.
        let path = base.path().trim_matches('/').trim_start_matches("v2").trim_matches('/').to_owned();
        let target = [host.as_str(), &path, &repository]
            .iter()
            .filter(|part| !part.is_empty())
            .copied()
            .collect::<Vec<_>>();
        let found = keyring.lookup(&target.join("/")).await;
        endpoints.push(Endpoint::new(
            mirror.clone(),
            base,
            (&host, config.hosts.get(&host)),
            Some(registry.to_owned()),
            &repository,
            found,
        ));
    }
    let host = if registry == "docker.io" { HUB_HOST } else { registry };
    let base = Url::parse(&format!("https://{host}/v2/"))
        .map_err(|error| RegistryError::invalid(registry, format!("not a host: {error}")))?;
    let found = keyring.lookup(&format!("{registry}/{repository}")).await;
    endpoints.push(Endpoint::new(registry.to_owned(), base, (registry, settings), None, &repository, found));
    Ok(endpoints)
}

fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or(host.to_owned(), |port| format!("{host}:{port}"))
}

impl Endpoint {
    fn new(
        name: String,
        base: Url,
        (host, settings): (&str, Option<&RegistryHostConfig>),
        namespace: Option<String>,
        repository: &str,
        found: FoundCredentials,
    ) -> Self {
        let ca = settings.and_then(|settings| settings.ca.clone());
        // Docker takes registries on the loopback interface for insecure: only this machine can answer there.
        let is_local = is_loopback(base.host_str().unwrap_or_default());
        let is_insecure = settings.is_some_and(|settings| settings.insecure) || (is_local && ca.is_none());
        let trust = match ca {
            _ if is_insecure => EndpointTrust::Insecure,
            Some(path) => EndpointTrust::File { setting: format!("registry.hosts.\"{host}\".ca"), path },
            None => EndpointTrust::System,
        };
        // A mirror's URL says which it is.
        let is_plain = base.scheme() == "http";
        Self {
            name,
            trust,
            may_be_plain: is_insecure && namespace.is_none() && !is_plain,
            is_plain: AtomicBool::new(is_plain),
            base,
            namespace,
            repository: repository.to_owned(),
            found,
            working: AtomicUsize::new(0),
        }
    }

    /// The URL of a path below the repository: `manifests/latest`.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        if self.is_plain.load(Ordering::Relaxed) {
            // Not possible only for URLs of other kinds.
            let _ = url.set_scheme("http");
        }
        url.set_path(&format!("{}{}/{path}", self.base.path(), self.repository));
        if let Some(namespace) = &self.namespace {
            url.query_pairs_mut().append_pair("ns", namespace);
        }
        url
    }

    fn authorizer<'a>(
        &'a self,
        transport: &'a Transport,
        cache: &'a AuthorizationCache,
        credential: Option<&'a Credential>,
        subject: &'a str,
    ) -> Authorizer<'a> {
        Authorizer { transport, cache, trust: &self.trust, repository: &self.repository, credential, subject }
    }

    /// The authorizer with the credential that worked last.
    pub(super) fn current<'a>(
        &'a self,
        transport: &'a Transport,
        cache: &'a AuthorizationCache,
        subject: &'a str,
    ) -> Authorizer<'a> {
        let working = self.working.load(Ordering::Relaxed);
        self.authorizer(transport, cache, self.found.credentials.get(working), subject)
    }

    pub(super) fn trust(&self) -> &EndpointTrust {
        &self.trust
    }

    /// Sends a request for a path, with each credential until one is accepted. Answers are 2xx; `subject` is the part
    /// of the image that a 404 means.
    pub(super) async fn send(
        &self,
        transport: &Transport,
        cache: &AuthorizationCache,
        subject: &str,
        access: Access,
        make: impl Fn(Url) -> Call,
        path: &str,
    ) -> Result<Response, RegistryError> {
        let count = self.found.credentials.len().max(1);
        let first = self.working.load(Ordering::Relaxed);
        let mut errors = Vec::new();
        for turn in 0..count {
            let position = (first + turn) % count;
            let authorizer = self.authorizer(transport, cache, self.found.credentials.get(position), subject);
            match self.send_with(&authorizer, access, &make, path).await {
                Ok(response) => {
                    self.working.store(position, Ordering::Relaxed);
                    return Ok(response);
                }
                Err(error) if error.is_denied() || error.is_not_found() => errors.push(error),
                Err(error) => return Err(error),
            }
        }
        match (errors.pop(), errors.is_empty()) {
            (Some(error), true) => Err(self.with_problems(error)),
            (Some(last), false) => {
                errors.push(self.with_problems(last));
                Err(RegistryError::Credentials(errors))
            }
            (None, _) => Err(RegistryError::invalid(subject, "no credential was tried")),
        }
    }

    /// Adds the sources of credentials that failed to an error that may come from it.
    fn with_problems(&self, error: RegistryError) -> RegistryError {
        match error {
            RegistryError::Denied { subject, action, mut detail } => {
                for problem in &self.found.problems {
                    detail = format!("{detail}; {problem}");
                }
                RegistryError::Denied { subject, action, detail }
            }
            error => error,
        }
    }

    async fn send_with(
        &self,
        authorizer: &Authorizer<'_>,
        access: Access,
        make: &impl Fn(Url) -> Call,
        path: &str,
    ) -> Result<Response, RegistryError> {
        let mut call = make(self.url(path));
        // TLS comes first: a registry that speaks it must never get a credential without it. One attempt decides, since
        // a plain registry fails every time, and may take its time for it.
        call.may_be_plain = self.may_be_plain && !self.is_plain.load(Ordering::Relaxed);
        let sent = match authorizer.send(&call, access).await {
            Err(error) if call.may_be_plain && error.may_mean_no_tls(&call.url) => {
                let mut plain = Call { may_be_plain: false, ..call.clone() };
                let _ = plain.url.set_scheme("http");
                match authorizer.send(&plain, access).await {
                    Ok(response) => {
                        // A server with TLS answers a plain request like this.
                        let is_plain = response.status() != StatusCode::BAD_REQUEST;
                        self.is_plain.store(is_plain, Ordering::Relaxed);
                        Ok(response)
                    }
                    // The first error says more unless TLS was the reason.
                    Err(RegistryError::Request { failure: RequestFailure::Dial { .. }, .. }) => Err(error),
                    Err(other) => Err(other),
                }
            }
            sent => sent,
        }?;
        if sent.status().is_success() {
            return Ok(sent);
        }
        match sent.status() {
            StatusCode::NOT_FOUND => Err(RegistryError::NotFound {
                subject: authorizer.subject.to_owned(),
                detail: authorizer.transport.error_detail(sent).await,
            }),
            _ => Err(authorizer.transport.status_error(&call, sent).await),
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("name", &self.name)
            .field("base", &shown_url(&self.base))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn of(config: &str, reference: &str) -> Vec<Endpoint> {
        let config = serde_json::from_str(config).unwrap();
        endpoints(&config, &ImageReference::parse(reference).unwrap(), &Keyring::new()).await.unwrap()
    }

    /// IMG-4: names mean registries, and mirrors come first.
    #[tokio::test]
    async fn names_mean_registries() {
        let table = [
            ("nginx", "https://registry-1.docker.io/v2/library/nginx/x", "docker.io/library/nginx:latest"),
            ("docker.io/a/b:1", "https://registry-1.docker.io/v2/a/b/x", "docker.io/a/b:1"),
            ("ghcr.io/nginx", "https://ghcr.io/v2/nginx/x", "ghcr.io/nginx:latest"),
            ("127.0.0.1:5000/a", "https://127.0.0.1:5000/v2/a/x", "127.0.0.1:5000/a:latest"),
        ];
        for (text, url, name) in table {
            let endpoints = of("{}", text).await;
            assert_eq!((endpoints.len(), endpoints[0].url("x").as_str()), (1, url), "{text}");
            assert_eq!(ImageReference::parse(text).unwrap().full_name(), name);
        }
        let config = r#"{"hosts":{"docker.io":{"mirrors":["http://m:1","https://h.io/v2/hub"]}}}"#;
        let urls: Vec<String> = of(config, "nginx").await.iter().map(|at| at.url("x").to_string()).collect();
        let expect = [
            "http://m:1/v2/library/nginx/x?ns=docker.io",
            "https://h.io/v2/hub/library/nginx/x?ns=docker.io",
            "https://registry-1.docker.io/v2/library/nginx/x",
        ];
        assert_eq!(urls, expect);
    }

    /// IMG-4: trust follows the settings; registries of this machine need no TLS, as for docker.
    #[tokio::test]
    async fn trust_follows_the_settings() {
        let file = EndpointTrust::File { setting: "registry.hosts.\"a.io\".ca".into(), path: "/ca".into() };
        let table = [
            ("{}", "a.io/x", EndpointTrust::System, false),
            ("{}", "localhost:5000/x", EndpointTrust::Insecure, true),
            ("{}", "127.8.0.1/x", EndpointTrust::Insecure, true),
            (r#"{"hosts":{"a.io":{"insecure":true}}}"#, "a.io/x", EndpointTrust::Insecure, true),
            (r#"{"hosts":{"a.io":{"insecure":true}}}"#, "a.io:444/x", EndpointTrust::System, false),
            (r#"{"hosts":{"a.io":{"ca":"/ca"}}}"#, "a.io/x", file, false),
        ];
        for (config, reference, trust, may_be_plain) in table {
            let endpoint = &of(config, reference).await[0];
            assert_eq!((&endpoint.trust, endpoint.may_be_plain), (&trust, may_be_plain), "{reference}");
        }
    }
}
