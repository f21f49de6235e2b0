//! The authority of the front proxy: its one client certificate proves to extension API servers that a
//! request comes from the API, whose statement of the user they trust (`--requestheader-client-ca-file`).
//!
//! Architecture Invariant: its certificates are no credentials for the API itself, so that a request that an
//! extension API server sends back is not authenticated.

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::authority::{CertificateAuthority, TlsError, authority_params, mark_leaf};

/// The common name of the certificate, kubeadm's.
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// A client's certificate and its key.
pub struct ClientIdentity {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// The private key.
    pub key: PrivateKeyDer<'static>,
}

impl std::fmt::Debug for ClientIdentity {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}

/// The authority, and the client certificate it signed.
#[derive(Debug)]
pub struct FrontProxy {
    certificate_pem: String,
    identity: ClientIdentity,
}

impl FrontProxy {
    /// Returns a new authority for [`FrontProxy::new`].
    pub fn generate_authority() -> Result<CertificateAuthority, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = params().self_signed(&key)?;
        Ok(CertificateAuthority { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    /// Returns the front proxy of this authority, with a new certificate.
    pub fn new(authority: &CertificateAuthority) -> Result<Self, TlsError> {
        let issuer_params = params();
        let issuer = Issuer::from_params(&issuer_params, KeyPair::from_pem(&authority.key_pem)?);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, FRONT_PROXY_CLIENT);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        mark_leaf(&mut params);
        let certificate = params.signed_by(&key, &issuer)?.der().clone();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes());
        let key = key.map_err(|error| TlsError::Pem(error.to_string()))?;
        let certificate_pem = authority.certificate_pem.clone();
        Ok(Self { certificate_pem, identity: ClientIdentity { certificate, key } })
    }

    /// Returns a front proxy whose authority ends with the process.
    pub fn ephemeral() -> Result<Self, TlsError> {
        Self::new(&Self::generate_authority()?)
    }

    /// Returns the authority's certificate, for servers.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Returns the certificate that the proxy presents to servers, and its key.
    pub fn identity(&self) -> &ClientIdentity {
        &self.identity
    }
}

/// Returns the parameters of the authority's certificate. The subject differs from that of the cluster
/// authority, because verifiers that trust both find an issuer by its name.
fn params() -> CertificateParams {
    let mut params = authority_params();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "podium-front-proxy-ca");
    params
}
