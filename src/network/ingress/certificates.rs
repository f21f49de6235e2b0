//! The certificates that hosts are shown: from Secrets, and one of our own where there is none.

use std::collections::HashMap;
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

use super::problem::Problem;
use super::table::build::TlsHost;
use object::{Key, Shared};

/// Whom the default certificate is for: nobody.
const DEFAULT_NAME: &str = "ingress.local";

/// Certificates by host.
#[derive(Default)]
pub(super) struct Certificates {
    /// Hosts as Ingresses have them, with `*.` and without.
    by_host: HashMap<String, Arc<CertifiedKey>>,
}

/// Reads the certificates of hosts, the oldest Ingress' first; what is wrong is told by Ingress.
pub(super) fn load(
    hosts: &[TlsHost],
    secrets: impl Fn(&Key) -> Option<Shared<Secret>>,
) -> (Certificates, Vec<(Key, Problem)>) {
    let mut certificates = Certificates::default();
    let mut problems: Vec<(Key, Problem)> = Vec::new();
    let mut read: HashMap<&Key, Result<Arc<CertifiedKey>, Problem>> = HashMap::new();
    for TlsHost { ingress, host, secret } in hosts {
        let Some(key) = secret else { continue };
        let found = read.entry(key).or_insert_with(|| certified(key, secrets(key).as_deref()));
        let problem = match found {
            Ok(certified) => {
                certificates.by_host.entry(host.clone()).or_insert_with(|| certified.clone());
                (!is_for(certified, host)).then(|| Problem::WrongCertificate(key.to_string(), host.clone()))
            }
            Err(problem) => Some(problem.clone()),
        };
        if let Some(problem) = problem.map(|problem| (ingress.clone(), problem))
            && !problems.contains(&problem)
        {
            problems.push(problem);
        }
    }
    (certificates, problems)
}

fn certified(key: &Key, secret: Option<&Secret>) -> Result<Arc<CertifiedKey>, Problem> {
    let secret = secret.ok_or_else(|| Problem::SecretNotFound(key.to_string()))?;
    let invalid = |why: String| Problem::InvalidCertificate(key.to_string(), why);
    let data = |name: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(name)).filter(|bytes| !bytes.0.is_empty());
        bytes.map(|bytes| bytes.0.as_slice()).ok_or_else(|| invalid(format!("it has no {name}")))
    };
    let (chain, private_key) = (data("tls.crt")?, data("tls.key")?);
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(format!("tls.crt: {error}")))?;
    if chain.is_empty() {
        return Err(invalid("tls.crt has no certificate".into()));
    }
    let private_key =
        PrivateKeyDer::from_pem_slice(private_key).map_err(|error| invalid(format!("tls.key: {error}")))?;
    CertifiedKey::from_der(chain, private_key, &provider())
        .map(Arc::new)
        .map_err(|error| invalid(error.to_string()))
}

/// Whether clients that ask for this host take the certificate for its.
fn is_for(certified: &CertifiedKey, host: &str) -> bool {
    // Any name below a wildcard will do.
    let name = host.strip_prefix("*.").map_or_else(|| host.to_string(), |parent| format!("any.{parent}"));
    let Ok(name) = ServerName::try_from(name) else { return true };
    let parsed = certified.end_entity_cert().and_then(ParsedCertificate::try_from);
    parsed.is_ok_and(|parsed| rustls::client::verify_server_name(&parsed, &name).is_ok())
}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// A certificate that nobody has asked for.
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

/// Chooses certificates by the host that clients name, as it is configured at this moment.
pub(super) struct Resolver {
    current: RwLock<Arc<Certificates>>,
    default: Arc<CertifiedKey>,
}

impl Resolver {
    /// One that has only the default certificate yet.
    pub(super) fn new() -> Result<Arc<Self>, String> {
        Ok(Arc::new(Self { current: RwLock::default(), default: default_certificate()? }))
    }

    /// From now on these are shown; connections that exist go on.
    pub(super) fn replace(&self, certificates: Certificates) {
        *self.current.write() = Arc::new(certificates);
    }

    /// What a server is made of that asks this.
    pub(super) fn server_config(self: &Arc<Self>) -> Result<Arc<rustls::ServerConfig>, String> {
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn find(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let current = self.current.read().clone();
        let by_name = |name: &str| {
            let name = name.to_ascii_lowercase();
            let wildcard = || current.by_host.get(&format!("*.{}", name.split_once('.')?.1));
            current.by_host.get(&name).or_else(wildcard)
        };
        let found = name.and_then(by_name).or_else(|| current.by_host.get(""));
        found.unwrap_or(&self.default).clone()
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

#[cfg(test)]
mod tests {
    use base64::Engine;
    use serde_json::json;

    use super::*;

    fn secret(names: &[&str]) -> Shared<Secret> {
        let made =
            rcgen::generate_simple_self_signed(names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let made = made.unwrap();
        of(&made.cert.pem(), &made.signing_key.serialize_pem())
    }

    fn of(certificate: &str, key: &str) -> Shared<Secret> {
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let value = json!({"type": "kubernetes.io/tls",
            "data": {"tls.crt": encode(certificate), "tls.key": encode(key)}});
        Shared::from_value(serde_json::from_value(value).unwrap())
    }

    fn host(host: &str, secret: &str) -> TlsHost {
        let secret = Some(Key::new("d", secret)).filter(|_| !secret.is_empty());
        TlsHost { ingress: Key::new("d", "i"), host: host.into(), secret }
    }

    #[test]
    fn each_host_is_shown_its_certificate_net_9() {
        let exact = secret(&["a.example.com"]);
        let wild = secret(&["*.example.com"]);
        let other = secret(&["other"]);
        let secrets = |key: &Key| match key.name.as_str() {
            "exact" => Some(exact.clone()),
            "wild" => Some(wild.clone()),
            "other" => Some(other.clone()),
            _ => None,
        };
        let hosts = [
            host("a.example.com", "exact"),
            host("*.example.com", "wild"),
            host("a.example.com", "other"),
            host("none", ""),
        ];
        let (certificates, problems) = load(&hosts, secrets);
        assert_eq!(
            problems,
            [(Key::new("d", "i"), Problem::WrongCertificate("d/other".into(), "a.example.com".into()))]
        );
        let resolver = Resolver::new().unwrap();
        let is_default = |name: Option<&str>| Arc::ptr_eq(&resolver.find(name), &resolver.default);
        assert!(is_default(Some("a.example.com")), "nothing is configured yet");
        resolver.replace(certificates);
        let shown = |name: &str| resolver.find(Some(name)).cert[0].clone();
        let of = |secret: &Shared<Secret>| certified(&Key::default(), Some(secret)).unwrap().cert[0].clone();
        assert_eq!(shown("A.example.com"), of(&exact), "the older one's");
        assert_eq!(shown("b.example.com"), of(&wild));
        for name in [Some("a.b.example.com"), Some("example.com"), Some("none"), None] {
            assert!(is_default(name), "{name:?}");
        }
    }

    #[test]
    fn a_secret_that_cannot_be_used_is_told_net_9() {
        let good = rcgen::generate_simple_self_signed(vec!["a".into()]).unwrap();
        let key = good.signing_key.serialize_pem();
        let another = KeyPair::generate().unwrap().serialize_pem();
        for (found, reason) in [
            (None, "SecretNotFound"),
            (Some(of("", &key)), "InvalidCertificate"),
            (Some(of("nonsense", &key)), "InvalidCertificate"),
            (Some(of(&good.cert.pem(), "nonsense")), "InvalidCertificate"),
            (Some(of(&good.cert.pem(), &another)), "InvalidCertificate"),
        ] {
            let (certificates, problems) = load(&[host("a", "s")], |_| found.clone());
            let told: Vec<_> = problems.iter().map(|(_, problem)| problem.reason()).collect();
            assert_eq!(told, [reason], "{problems:?}");
            assert!(certificates.by_host.is_empty());
        }
    }
}
