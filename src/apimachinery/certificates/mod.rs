//! Certificates of clients and kubelets: requests are parsed, checked by the rules of their signer, and
//! signed by the cluster's authority.

mod authority;
mod description;
mod front_proxy;

use std::collections::HashSet;

use jiff::Timestamp;
use rcgen::{
    CertificateSigningRequestParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::oid_registry::OID_X509_ORGANIZATION_NAME;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use base::quote::quote;

pub use authority::{CertificateAuthority, TlsError, authority_params, mark_leaf};
pub use description::described;
pub use front_proxy::ClientIdentity;
pub use front_proxy::{FRONT_PROXY_CLIENT, FrontProxy};

/// Signs certificates that identify users to the API.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Signs certificates that identify kubelets to the API.
pub const KUBELET_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signs certificates that kubelets serve with.
pub const KUBELET_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";

/// A certificate signing request with a verified proof of the key.
pub struct CertificateRequest {
    /// The subject's common name, the user.
    pub common_name: String,
    /// The subject's organizations, the groups.
    pub organizations: Vec<String>,
    params: CertificateSigningRequestParams,
}

/// Parses a request in PEM and verifies that its author has the key.
pub fn parsed(pem: &[u8]) -> Result<CertificateRequest, String> {
    const NO_REQUEST: &str = "PEM block type must be CERTIFICATE REQUEST";
    let (_, block) = parse_x509_pem(pem).map_err(|_| NO_REQUEST)?;
    if block.label != "CERTIFICATE REQUEST" {
        return Err(NO_REQUEST.into());
    }
    let (_, request) =
        X509CertificationRequest::from_der(&block.contents).map_err(|error| error.to_string())?;
    let subject = &request.certification_request_info.subject;
    let text =
        |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().ok().map(ToString::to_string);
    // The signing library uses the last of repeated attributes: the checked name would not be the signed one.
    let mut seen = HashSet::new();
    if let Some(twice) =
        subject.iter_attributes().find(|value| !seen.insert(value.attr_type().to_id_string()))
    {
        return Err(match twice.attr_type() {
            oid if *oid == OID_X509_ORGANIZATION_NAME => {
                "certificates with more than one organization are not supported".into()
            }
            oid => format!("certificates with more than one {oid} in the subject are not supported"),
        });
    }
    let organizations: Vec<String> = subject.iter_organization().filter_map(text).collect();
    let params = CertificateSigningRequestParams::from_der(&block.contents.as_slice().into())
        .map_err(|error| error.to_string())?;
    let common_name = subject.iter_common_name().next().and_then(text).unwrap_or_default();
    Ok(CertificateRequest { common_name, organizations, params })
}

/// Checks certificates from a signer: PEM, at least one.
pub fn check_certificates(pem: &[u8]) -> Result<(), String> {
    let mut rest = pem;
    let mut blocks = 0;
    while let Ok((after, block)) = parse_x509_pem(rest) {
        if block.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {}", quote(&block.label)));
        }
        X509Certificate::from_der(&block.contents).map_err(|error| error.to_string())?;
        blocks += 1;
        rest = after;
    }
    if blocks == 0 {
        return Err("must contain at least one CERTIFICATE PEM block".into());
    }
    Ok(())
}

impl CertificateRequest {
    /// Returns the reason why a signer refuses to sign the request, if any; an unknown signer signs nothing.
    pub fn fault(&self, signer: &str, usages: &[String], requester: &str) -> Option<&'static str> {
        let only = |allowed: &[&str]| usages.iter().all(|usage| allowed.contains(&usage.as_str()));
        let has = |usage: &str| usages.iter().any(|each| each == usage);
        let names = &self.params.params.subject_alt_names;
        match signer {
            CLIENT_SIGNER => {
                let fits =
                    only(&["digital signature", "key encipherment", "client auth"]) && has("client auth");
                (!fits).then_some(
                    "usages must include client auth, and may be digital signature and key encipherment",
                )
            }
            KUBELET_CLIENT_SIGNER | KUBELET_SERVING_SIGNER if self.organizations != ["system:nodes"] => {
                Some("subject organization is not system:nodes")
            }
            KUBELET_CLIENT_SIGNER | KUBELET_SERVING_SIGNER
                if !self.common_name.starts_with("system:node:") =>
            {
                Some("subject common name does not begin with system:node: ")
            }
            KUBELET_CLIENT_SIGNER => {
                let fits = only(&["digital signature", "key encipherment", "client auth"])
                    && has("client auth")
                    && has("digital signature");
                if !names.is_empty() {
                    return Some("subjectAltNames are not allowed");
                }
                (!fits).then_some("usages did not match [digital signature, key encipherment, client auth]")
            }
            KUBELET_SERVING_SIGNER => {
                let fits = only(&["digital signature", "key encipherment", "server auth"])
                    && has("server auth")
                    && has("digital signature");
                let addressed =
                    names.iter().all(|n| matches!(n, SanType::DnsName(_) | SanType::IpAddress(_)));
                if names.is_empty() || !addressed {
                    return Some("DNS or IP subjectAltName is required, and only those are allowed");
                }
                if self.common_name != requester {
                    return Some("subject common name is not that of the requester");
                }
                (!fits).then_some("usages did not match [digital signature, key encipherment, server auth]")
            }
            _ => Some("unknown signer"),
        }
    }
}

impl CertificateAuthority {
    /// Returns the signed certificate, in PEM.
    pub fn sign(
        &self,
        mut request: CertificateRequest,
        usages: &[String],
        from: Timestamp,
        until: Timestamp,
    ) -> Result<String, String> {
        let issuer_params = authority_params();
        let key = KeyPair::from_pem(&self.key_pem).map_err(|error| error.to_string())?;
        let issuer = Issuer::from_params(&issuer_params, key);
        let time = |at: Timestamp| {
            ASN1Time::from_timestamp(at.as_second()).map(|time| time.to_datetime()).map_err(|e| e.to_string())
        };
        let params = &mut request.params.params;
        (params.not_before, params.not_after) = (time(from)?, time(until)?);
        // A signed certificate is never an authority, even if the request asks for one.
        mark_leaf(params);
        params.key_usages.clear();
        params.extended_key_usages.clear();
        for usage in usages {
            match usage.as_str() {
                "digital signature" => params.key_usages.push(KeyUsagePurpose::DigitalSignature),
                "key encipherment" => params.key_usages.push(KeyUsagePurpose::KeyEncipherment),
                "client auth" => params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth),
                "server auth" => params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth),
                // No signer accepts other usages.
                _ => {}
            }
        }
        request.params.signed_by(&issuer).map(|signed| signed.pem()).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType};

    use super::*;

    fn request(names: &[(DnType, &str)], hosts: &[&str]) -> String {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    fn usages(text: &str) -> Vec<String> {
        text.split(", ").map(Into::into).collect()
    }

    /// Regression: the first was checked, and the last was signed.
    #[test]
    fn a_subject_has_one_common_name_api_15() {
        const TWO: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIG+MHICAQAwPzEVMBMGA1UECgwMc3lzdGVtOm5vZGVzMRcwFQYDVQQDDA5zeXN0
ZW06bm9kZTpuMTENMAsGA1UEAwwEamFuZTAqMAUGAytlcAMhAPobWffi8WAfcdyR
OTVKaCS3LRbOFKLWNgMYLnxGV5RNoAAwBQYDK2VwA0EAiSgUVub1gPhTnN/IqfeQ
eWTza4dpZ2frWb1U9Xd+RgPplVPHH8UmRXzy/ZfIuUNee7h9BKXnSgD+xbtVvaQ6
Cg==
-----END CERTIFICATE REQUEST-----
";
        assert_eq!(
            parsed(TWO.as_bytes()).err().as_deref(),
            Some("certificates with more than one 2.5.4.3 in the subject are not supported")
        );
    }

    #[test]
    fn each_signer_has_its_rules_api_15() {
        let jane: &[(DnType, &str)] = &[(DnType::CommonName, "jane"), (DnType::OrganizationName, "team")];
        let node: &[(DnType, &str)] =
            &[(DnType::CommonName, "system:node:n1"), (DnType::OrganizationName, "system:nodes")];
        let client = "digital signature, client auth";
        for (names, hosts, signer, requested, good) in [
            (jane, &[][..], CLIENT_SIGNER, client, true),
            (jane, &[], CLIENT_SIGNER, "digital signature", false),
            (jane, &[], CLIENT_SIGNER, "client auth, server auth", false),
            (jane, &[], KUBELET_CLIENT_SIGNER, client, false),
            (node, &[], KUBELET_CLIENT_SIGNER, client, true),
            (node, &["n1"], KUBELET_CLIENT_SIGNER, client, false),
            (node, &["n1", "10.0.0.1"], KUBELET_SERVING_SIGNER, "digital signature, server auth", true),
            (node, &[], KUBELET_SERVING_SIGNER, "digital signature, server auth", false),
            (jane, &[], "example.com/other", client, false),
        ] {
            let parsed = parsed(request(names, hosts).as_bytes()).unwrap();
            let fault = parsed.fault(signer, &usages(requested), "system:node:n1");
            assert_eq!(fault.is_none(), good, "{signer} {requested}: {fault:?}");
        }
        for (text, why) in [
            ("", "PEM block type must be CERTIFICATE REQUEST"),
            (
                "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
                "PEM block type must be CERTIFICATE REQUEST",
            ),
        ] {
            assert_eq!(parsed(text.as_bytes()).err().as_deref(), Some(why));
        }
        let cut = request(jane, &[]).replace("\nMI", "\nMA");
        assert!(parsed(cut.as_bytes()).is_err(), "not what was signed");
    }

    #[test]
    fn a_signed_certificate_has_the_requested_subject_and_is_no_authority_api_15() {
        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject;
        use x509_parser::extensions::ParsedExtension;

        let authority = CertificateAuthority::generate().unwrap();
        let names = [(DnType::CommonName, "jane"), (DnType::OrganizationName, "team")];
        let csr = parsed(request(&names, &[]).as_bytes()).unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (from, until) = (at("2026-11-22T00:00:00Z"), at("2026-11-22T01:00:00Z"));
        let pem = authority.sign(csr, &usages("digital signature, client auth"), from, until).unwrap();
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        assert_eq!(certificate.validity().not_after.timestamp(), until.as_second());
        assert!(!certificate.is_ca());
        // Python from 3.13 on refuses certificates without these.
        assert!(certificate.basic_constraints().unwrap().is_some());
        let issuer = CertificateDer::from_pem_slice(authority.certificate_pem.as_bytes()).unwrap();
        let (_, issuer) = X509Certificate::from_der(&issuer).unwrap();
        let identifier = |of: &X509Certificate<'_>| {
            of.extensions().iter().find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::AuthorityKeyIdentifier(authority) => {
                    authority.key_identifier.as_ref().map(|key| key.0.to_vec())
                }
                ParsedExtension::SubjectKeyIdentifier(own) if of.is_ca() => Some(own.0.to_vec()),
                _ => None,
            })
        };
        assert!(identifier(&certificate).is_some_and(|named| Some(named) == identifier(&issuer)));
        let common_name = certificate.subject().iter_common_name().next().unwrap().as_str().unwrap();
        assert_eq!(common_name, "jane");
    }
}
