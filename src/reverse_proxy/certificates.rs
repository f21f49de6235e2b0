//! TLS certificates by host: read from Secrets, with a self-signed default.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use parking_lot::RwLock;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::hosts::{Hosts, WildcardScope};

/// The name in the default certificate, which no client asks for.
const DEFAULT_NAME: &str = "ingress.local";

/// Certificates by host.
#[derive(Default)]
pub struct Certificates {
    star: WildcardScope,
    /// The certificates of each host; earlier ones take precedence.
    by_host: Hosts<Vec<Arc<CertifiedKey>>>,
}

impl Certificates {
    /// Starts without certificates.
    pub fn new(star: WildcardScope) -> Self {
        Self { star, by_host: Hosts::default() }
    }

    /// Adds a certificate for a host; it is used if none of the host's earlier ones is valid for the name that a client
    /// asks for.
    pub fn add(&mut self, host: &str, certified: Arc<CertifiedKey>) {
        self.by_host.entry(host).push(certified);
    }

    /// Adds a certificate for a host that has none.
    pub fn add_first(&mut self, host: &str, certified: Arc<CertifiedKey>) {
        let of_host = self.by_host.entry(host);
        if of_host.is_empty() {
            of_host.push(certified);
        }
    }

    /// Returns whether there are no certificates.
    pub fn is_empty(&self) -> bool {
        self.by_host.values().next().is_none()
    }

    /// Returns the certificate for the name that a client asks for.
    fn find(&self, name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let name = name.unwrap_or_default().to_ascii_lowercase();
        let of_host = self.by_host.matching(&name, self.star).next()?;
        of_host.iter().find(|certified| is_for(certified, &name)).or_else(|| of_host.first())
    }
}

/// Reads the certificate and key of a Secret; the error says what is wrong with it.
pub fn certified(secret: &Secret) -> Result<Arc<CertifiedKey>, String> {
    let data = |name: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(name)).filter(|bytes| !bytes.0.is_empty());
        bytes.map(|bytes| bytes.0.as_slice()).ok_or_else(|| format!("{name} is missing or empty"))
    };
    let (chain, private_key) = (data("tls.crt")?, data("tls.key")?);
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("tls.crt: {error}"))?;
    if chain.is_empty() {
        return Err("tls.crt has no certificate".into());
    }
    let private_key =
        PrivateKeyDer::from_pem_slice(private_key).map_err(|error| format!("tls.key: {error}"))?;
    CertifiedKey::from_der(chain, private_key, &provider()).map(Arc::new).map_err(|error| error.to_string())
}

/// Returns whether clients that ask for this host accept the certificate's name.
pub fn is_for(certified: &CertifiedKey, host: &str) -> bool {
    // Any name below a wildcard serves for this check.
    let name = host.strip_prefix("*.").map_or_else(|| host.to_string(), |parent| format!("any.{parent}"));
    let Ok(name) = ServerName::try_from(name) else { return true };
    let parsed = certified.end_entity_cert().and_then(ParsedCertificate::try_from);
    parsed.is_ok_and(|parsed| rustls::client::verify_server_name(&parsed, &name).is_ok())
}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// Generates the default certificate.
fn default_certificate() -> Result<Arc<CertifiedKey>, String> {
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let mut params = CertificateParams::new(vec![DEFAULT_NAME.into()]).map_err(|error| error.to_string())?;
    params.distinguished_name.push(DnType::CommonName, "Podium Ingress Default Certificate");
    let certificate = params.self_signed(&key).map_err(|error| error.to_string())?;
    let private_key =
        PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).map_err(|error| error.to_string())?;
    let certified = CertifiedKey::from_der(vec![certificate.der().clone()], private_key, &provider());
    certified.map(Arc::new).map_err(|error| error.to_string())
}

/// Chooses certificates by the host that a client names, from the current configuration.
pub struct Resolver {
    current: RwLock<Arc<Certificates>>,
    /// The certificate for names that have none.
    pub default: Arc<CertifiedKey>,
}

impl Resolver {
    /// Creates a resolver that has only the default certificate.
    pub fn new() -> Result<Arc<Self>, String> {
        Ok(Arc::new(Self { current: RwLock::default(), default: default_certificate()? }))
    }

    /// Replaces the certificates; existing connections continue.
    pub fn replace(&self, certificates: Certificates) {
        *self.current.write() = Arc::new(certificates);
    }

    /// Returns a server configuration that uses this resolver.
    pub fn server_config(self: &Arc<Self>) -> Result<Arc<rustls::ServerConfig>, String> {
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Returns the certificate for a name, or the default one.
    pub fn find(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let current = self.current.read().clone();
        current.find(name).unwrap_or(&self.default).clone()
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.find(client_hello.server_name()))
    }
}
