//! TLS without certificate checks, for connections to pods, which have self-signed certificates: probes and the proxy
//! subresource check that a server responds, not its identity. Kubernetes skips the check there too, and for an
//! APIService with `insecureSkipTLSVerify`. Clients of the API server must never use it.

use std::sync::Arc;

use rustls::pki_types::ServerName;

/// Returns the configuration of a client that trusts every server.
pub fn config() -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(InsecureVerifier::new(provider)))
        .with_no_client_auth();
    Ok(config)
}

/// Accepts every server certificate.
#[derive(Debug)]
pub struct InsecureVerifier(Arc<rustls::crypto::CryptoProvider>);

impl InsecureVerifier {
    /// Creates a verifier that checks only, with this provider, that the server holds its certificate's private key.
    pub fn new(provider: Arc<rustls::crypto::CryptoProvider>) -> Self {
        Self(provider)
    }
}

impl rustls::client::danger::ServerCertVerifier for InsecureVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &rustls::pki_types::CertificateDer<'_>,
        _intermediates: &[rustls::pki_types::CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    crate::verify_handshake_signatures!(verifier => verifier.0.signature_verification_algorithms);
}
