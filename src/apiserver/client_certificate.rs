//! Authentication by client certificate: the common name is the user, the organizations are its groups
//! (API-15).
//!
//! The handshake accepts any certificate whose key the client has, as Kubernetes does: a certificate of
//! another authority, or an expired one, is no credential, and the request may carry another.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DistinguishedName, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::x509::AttributeTypeAndValue;

use api::identity::{AUTHENTICATED, User};
use apimachinery::certificates::TlsError;

/// The authority that issues client certificates.
#[derive(Clone, Debug)]
pub(super) struct ClientAuthority {
    verifier: Arc<dyn ClientCertVerifier>,
}

/// A client whose certificate was valid when the connection was made.
#[derive(Clone, Debug)]
pub(super) struct CertifiedClient {
    user: User,
    not_after: Timestamp,
}

impl CertifiedClient {
    /// Returns the user, unless the certificate has expired: connections live long.
    pub(super) fn at(&self, now: Timestamp) -> Option<&User> {
        (now <= self.not_after).then_some(&self.user)
    }
}

impl ClientAuthority {
    pub(super) fn new(certificate_pem: &str) -> Result<Self, TlsError> {
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|error| TlsError::Pem(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| TlsError::Pem(error.to_string()))?;
        Ok(Self { verifier })
    }

    /// Returns the client of this certificate chain; `None` if the authority does not vouch for it now.
    pub(super) fn client(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Option<CertifiedClient> {
        let (first, others) = chain.split_first()?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now.as_second()).ok()?));
        if let Err(error) = self.verifier.verify_client_cert(first, others, at) {
            tracing::debug!("invalid client certificate: {error}");
            return None;
        }
        let (_, certificate) = X509Certificate::from_der(first).ok()?;
        let subject = certificate.subject();
        let text = |value: &AttributeTypeAndValue<'_>| value.as_str().ok().map(ToString::to_string);
        let name = subject.iter_common_name().next().and_then(text).filter(|name| !name.is_empty())?;
        let mut groups: Vec<String> = subject.iter_organization().filter_map(text).collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.into());
        }
        let not_after = Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?;
        Some(CertifiedClient { user: User::named(name, groups), not_after })
    }
}

/// Accepts every client certificate in the handshake, and handshakes without one.
#[derive(Debug)]
pub(super) struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyCertificate {
    pub(super) fn new() -> Arc<Self> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        Arc::new(Self { algorithms })
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    base::verify_handshake_signatures!(verifier => verifier.algorithms);
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};

    use super::*;
    use apimachinery::certificates::{CertificateAuthority, authority_params};

    /// Returns a client certificate that is signed with the authority's key.
    fn issue(
        authority: &CertificateAuthority,
        names: &[(DnType, &str)],
        usage: ExtendedKeyUsagePurpose,
    ) -> CertificateDer<'static> {
        let issuer_params = authority_params();
        let issuer = Issuer::from_params(&issuer_params, KeyPair::from_pem(&authority.key_pem).unwrap());
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.extended_key_usages = vec![usage];
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let key = KeyPair::generate().unwrap();
        params.signed_by(&key, &issuer).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_of_the_authority_names_a_user_and_groups_api_15() {
        let (ours, other) =
            (CertificateAuthority::generate().unwrap(), CertificateAuthority::generate().unwrap());
        let clients = ClientAuthority::new(&ours.certificate_pem).unwrap();
        let jane: &[(DnType, &str)] = &[(DnType::CommonName, "jane"), (DnType::OrganizationName, "team")];
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-22T00:00:00Z");
        let chain = [issue(&ours, jane, ExtendedKeyUsagePurpose::ClientAuth)];
        let client = clients.client(&chain, now).unwrap();
        let user = client.at(now).unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups.as_slice()),
            ("jane", &["team".to_string(), AUTHENTICATED.into()][..])
        );
        assert!(client.at(at("2027-01-01T00:00:01Z")).is_none(), "over while the connection lives");
        assert!(clients.client(&chain, at("2027-01-02T00:00:00Z")).is_none(), "over");
        for (chain, why) in [
            (vec![issue(&other, jane, ExtendedKeyUsagePurpose::ClientAuth)], "another authority"),
            (vec![issue(&ours, jane, ExtendedKeyUsagePurpose::ServerAuth)], "a server's"),
            (vec![issue(&ours, &jane[1..], ExtendedKeyUsagePurpose::ClientAuth)], "without a common name"),
            (vec![CertificateDer::from(vec![1, 2, 3])], "none"),
            (Vec::new(), "no chain"),
        ] {
            assert!(clients.client(&chain, now).is_none(), "{why}");
        }
    }
}
