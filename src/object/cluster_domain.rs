//! The DNS domain of a cluster: the end of its services' names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `SERVICE.NAMESPACE.svc.` has up to 132 bytes of the 253 that a name may have.
const MAX_LENGTH: usize = 121;
/// The longest part between two dots (RFC 1035).
const MAX_LABEL: usize = 63;
/// The API's name in the cluster, before the domain.
const API: &str = "kubernetes.default.svc";

/// The DNS domain of a cluster, such as `cluster.local`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterDomain(String);

/// A text is not a domain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cluster domain {0:?}: must be a DNS name in lower case such as \"cluster.local\", of at most {MAX_LENGTH} \
     characters and not below \"localhost\""
)]
pub struct InvalidClusterDomain(String);

impl ClusterDomain {
    /// The annotation of the Service `kube-system/kube-dns` that holds the domain.
    pub const ANNOTATION: &str = "podium.dev/cluster-domain";

    /// Returns the domain without a dot at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the names of the API inside the cluster.
    pub fn api_names(&self) -> [String; 4] {
        [
            "kubernetes".to_owned(),
            "kubernetes.default".to_owned(),
            API.to_owned(),
            format!("{API}.{}", self.0),
        ]
    }

    /// Returns the issuer of service account tokens, as kubeadm names it.
    pub fn issuer(&self) -> String {
        format!("https://{API}.{}", self.0)
    }

    /// Returns whether this is the issuer of some cluster domain, such as one that the cluster had before.
    pub fn is_issuer(text: &str) -> bool {
        let rest = text.strip_prefix("https://").and_then(|text| text.strip_prefix(API)?.strip_prefix('.'));
        rest.is_some_and(|domain| domain.parse::<Self>().is_ok())
    }
}

impl Default for ClusterDomain {
    fn default() -> Self {
        Self("cluster.local".to_owned())
    }
}

impl fmt::Display for ClusterDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClusterDomain {
    type Err = InvalidClusterDomain;

    fn from_str(text: &str) -> Result<Self, InvalidClusterDomain> {
        let is_label = |label: &str| {
            let plain = label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            plain
                && (1..=MAX_LABEL).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // Names below `localhost` are always the machine itself.
        let is_localhost = text.rsplit('.').next() == Some("localhost");
        if text.len() <= MAX_LENGTH && text.split('.').all(is_label) && !is_localhost {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidClusterDomain(text.chars().take(MAX_LENGTH).collect()))
        }
    }
}

impl TryFrom<String> for ClusterDomain {
    type Error = InvalidClusterDomain;

    fn try_from(text: String) -> Result<Self, InvalidClusterDomain> {
        text.parse()
    }
}

impl From<ClusterDomain> for String {
    fn from(domain: ClusterDomain) -> Self {
        domain.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_domain_is_a_lower_case_dns_name_net_3() {
        let long = "a.".repeat(60) + "a";
        for (text, is_domain) in [
            ("cluster.local", true),
            ("k8s", true),
            ("prod-1.corp.example", true),
            (long.as_str(), true),
            ("", false),
            ("cluster.local.", false),
            (".local", false),
            ("a..b", false),
            ("Cluster.local", false),
            ("-a.local", false),
            ("a_b.local", false),
            ("dev.localhost", false),
            (&format!("{long}a"), false),
            (&format!("{}.local", "a".repeat(64)), false),
        ] {
            let parsed = text.parse::<ClusterDomain>();
            assert_eq!(parsed.is_ok(), is_domain, "{text}");
            let issuer = format!("https://kubernetes.default.svc.{text}");
            assert_eq!(ClusterDomain::is_issuer(&issuer), is_domain, "{issuer}");
        }
        assert!(!ClusterDomain::is_issuer("https://kubernetes.default.svc"));
        assert!(ClusterDomain::is_issuer(&ClusterDomain::default().issuer()));
    }
}
