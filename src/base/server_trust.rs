//! TLS towards external servers: the trusted authorities, and errors worded as Go words them, which users know.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, ConfigBuilder, RootCertStore};

use super::dial_error::dial_error;
use super::insecure_verifier::InsecureVerifier;

/// The server certificates that a client trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust<'a> {
    /// Certificates from the authorities in this PEM, and the certificates in the PEM themselves; if it is
    /// empty, certificates from the system's authorities.
    Bundle(&'a [u8]),
    /// As a bundle, and certificates from the system's authorities as well.
    SystemAndBundle(&'a [u8]),
    /// Any certificate: the configuration disables verification.
    SkipVerify,
}

/// Begins the configuration of a client with this trust; the client's own certificate is still to be chosen.
pub fn client_trusting(trust: Trust<'_>) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::SkipVerify => Arc::new(InsecureVerifier::new(provider)),
        Trust::Bundle([]) | Trust::SystemAndBundle([]) => {
            return Ok(builder.with_root_certificates(system_roots()));
        }
        Trust::Bundle(bundle) => Arc::new(BundleVerifier::new(bundle, RootCertStore::empty(), provider)?),
        Trust::SystemAndBundle(bundle) => {
            Arc::new(BundleVerifier::new(bundle, RootCertStore::clone(&system_roots()), provider)?)
        }
    };
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier))
}

/// Returns the system's authorities, read once.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    };
    ROOTS.get_or_init(read).clone()
}

/// Verifies a bundle as Go does: a certificate in it vouches for itself, even if it is no authority. Small
/// webhooks use self-signed certificates.
#[derive(Debug)]
struct BundleVerifier {
    signed: Arc<WebPkiServerVerifier>,
    algorithms: WebPkiSupportedAlgorithms,
    certificates: Vec<CertificateDer<'static>>,
}

impl BundleVerifier {
    fn new(
        bundle: &[u8],
        mut roots: RootCertStore,
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> Result<Self, String> {
        let known: Vec<_> = CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect();
        roots.add_parsable_certificates(known.iter().cloned());
        let algorithms = provider.signature_verification_algorithms;
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let signed = signed.map_err(|_| {
            "unable to load root certificates: unable to parse bytes as PEM block".to_string()
        })?;
        Ok(Self { signed, algorithms, certificates: known })
    }
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.certificates.iter().any(|known| known == end_entity) {
            return self
                .signed
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        let bad = |why| Err(rustls::Error::InvalidCertificate(why));
        let Ok((_, read)) = x509_parser::parse_x509_certificate(end_entity) else {
            return bad(CertificateError::BadEncoding);
        };
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let validity = read.validity();
        if now < validity.not_before.timestamp() || now > validity.not_after.timestamp() {
            return bad(CertificateError::Expired);
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    crate::verify_handshake_signatures!(verifier => verifier.algorithms);
}

/// Returns the reason of a failed handshake.
pub fn tls_error(error: &io::Error) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, UnknownIssuer,
    };
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let reason = match inner {
        Some(rustls::Error::InvalidCertificate(why)) => why,
        Some(other) => return format!("tls: {other}"),
        None => {
            return if error.kind() == io::ErrorKind::UnexpectedEof {
                "EOF".into()
            } else {
                dial_error(error)
            };
        }
    };
    let reason = match reason {
        // Signed by another authority of the same name, which Go adds in parentheses.
        UnknownIssuer | BadSignature => "x509: certificate signed by unknown authority".to_string(),
        Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } => {
            "x509: certificate has expired or is not yet valid".into()
        }
        NotValidForNameContext { expected, presented } => {
            // As in `DnsName("a")`.
            let bare = |name: &String| name.split('"').nth(1).unwrap_or(name).to_string();
            let names: Vec<_> = presented.iter().map(bare).collect();
            let expected = expected.to_str();
            format!("x509: certificate is valid for {}, not {expected}", names.join(", "))
        }
        NotValidForName => "x509: certificate is not valid for any names".into(),
        other => format!("x509: {other}"),
    };
    format!("tls: failed to verify certificate: {reason}")
}
