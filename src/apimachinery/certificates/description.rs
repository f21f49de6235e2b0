//! Contents of certificates, for people and expressions.

use jiff::Timestamp;
use serde_json::{Value, json};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::time::ASN1Time;

/// The limit on described certificates of a chain.
const MAX_CERTIFICATES: usize = 16;

/// Returns the contents of the certificates in a PEM text: `notBefore`, `notAfter` (RFC 3339), `subject`,
/// `issuer`, `dnsNames`. Blocks that are no certificate are left out.
pub fn described(pem: &[u8]) -> Vec<Value> {
    let blocks = Pem::iter_from_buffer(pem).take(MAX_CERTIFICATES).filter_map(Result::ok);
    let described = blocks.filter_map(|block| {
        let certificate = block.parse_x509().ok()?;
        #[expect(clippy::disallowed_methods, reason = "a time beyond the calendar has no text")]
        let time = |at: ASN1Time| {
            Timestamp::from_second(at.timestamp()).map(|at| at.to_string()).unwrap_or_default()
        };
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.iter().flat_map(|names| &names.value.general_names);
        let names: Vec<&str> = names
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some(*name),
                _ => None,
            })
            .collect();
        Some(json!({
            "notBefore": time(certificate.validity().not_before),
            "notAfter": time(certificate.validity().not_after),
            "subject": certificate.subject().to_string(),
            "issuer": certificate.issuer().to_string(),
            "dnsNames": names,
        }))
    });
    described.collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn certificates_are_described_with_their_validity_and_names_fault_2() {
        let mut params = CertificateParams::new(["shop.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2025, 1, 1), date_time_ymd(2025, 4, 1));
        let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        let text = format!("nothing\n{pem}-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n");
        let found = described(text.as_bytes());
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (&one["notBefore"], &one["notAfter"], &one["dnsNames"]),
            (&json!("2025-01-01T00:00:00Z"), &json!("2025-04-01T00:00:00Z"), &json!(["shop.example"]))
        );
        assert!(described(b"\xff\x00-----BEGIN").is_empty());
    }
}
