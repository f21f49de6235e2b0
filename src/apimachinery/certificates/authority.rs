//! The cluster's certificate authority.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};

/// A certificate could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Making or reading a certificate failed.
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A PEM text cannot be read.
    #[error("PEM: {0}")]
    Pem(String),
    /// The TLS library rejects the certificates.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// The cluster's certificate authority and the server certificate it issued.
pub struct CertificateAuthority {
    /// The authority's certificate, for clients.
    pub certificate_pem: String,
    /// The authority's key.
    pub key_pem: String,
}

impl std::fmt::Debug for CertificateAuthority {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateAuthority").finish_non_exhaustive()
    }
}

impl CertificateAuthority {
    /// Returns a new authority.
    pub fn generate() -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let params = authority_params();
        let certificate = params.self_signed(&key)?;
        Ok(Self { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

/// Returns the certificate parameters of every authority of Podium; authorities differ in their keys.
pub fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, "podium-ca");
    params
}

/// Sets the extensions with which strict verifiers (Python from 3.13 on) accept a certificate that is no authority's.
pub fn mark_leaf(params: &mut CertificateParams) {
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
}
