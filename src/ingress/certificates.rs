//! The certificates of Ingresses' hosts, from Secrets.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use rustls::sign::CertifiedKey;

use super::problem::Problem;
use super::table::build::TlsHost;
use object::{Key, SharedObject};
use reverse_proxy::certificates::{self, Certificates, is_for};

/// Reads the certificates of hosts, the oldest Ingress' first, and returns the problems by Ingress.
pub(super) fn load(
    hosts: &[TlsHost],
    secrets: impl Fn(&Key) -> Option<SharedObject<Secret>>,
) -> (Certificates, Vec<(Key, Problem)>) {
    let mut certificates = Certificates::default();
    let mut problems: Vec<(Key, Problem)> = Vec::new();
    let mut read: HashMap<&Key, Result<Arc<CertifiedKey>, Problem>> = HashMap::new();
    for TlsHost { ingress, host, secret } in hosts {
        let Some(key) = secret else { continue };
        let found = read.entry(key).or_insert_with(|| certified(key, secrets(key).as_deref()));
        let problem = match found {
            Ok(certified) => {
                certificates.add_first(host, certified.clone());
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
    certificates::certified(secret).map_err(|why| Problem::InvalidCertificate(key.to_string(), why))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use serde_json::json;

    use super::*;
    use rcgen::KeyPair;
    use reverse_proxy::certificates::Resolver;

    fn secret(names: &[&str]) -> SharedObject<Secret> {
        let made =
            rcgen::generate_simple_self_signed(names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let made = made.unwrap();
        of(&made.cert.pem(), &made.signing_key.serialize_pem())
    }

    fn of(certificate: &str, key: &str) -> SharedObject<Secret> {
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let value = json!({"type": "kubernetes.io/tls",
            "data": {"tls.crt": encode(certificate), "tls.key": encode(key)}});
        SharedObject::from_value(serde_json::from_value(value).unwrap())
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
        let of =
            |secret: &SharedObject<Secret>| certified(&Key::default(), Some(secret)).unwrap().cert[0].clone();
        assert_eq!(shown("A.example.com"), of(&exact), "the older one's");
        assert_eq!(shown("b.example.com"), of(&wild));
        for name in [Some("a.b.example.com"), Some("example.com"), Some("none"), None] {
            assert!(is_default(name), "{name:?}");
        }
    }

    #[test]
    fn an_unusable_secret_is_reported_net_9() {
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
            let reasons: Vec<_> = problems.iter().map(|(_, problem)| problem.reason()).collect();
            assert_eq!(reasons, [reason], "{problems:?}");
            assert!(certificates.is_empty());
        }
    }
}
