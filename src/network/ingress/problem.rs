//! What is wrong with an Ingress, as an event tells it.

use reconcile::EventType;

/// What is wrong, or not done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Problem {
    /// An annotation of ingress-nginx that is not followed here.
    UnsupportedAnnotation(String),
    /// One with a value that cannot be followed.
    InvalidAnnotation(String, String),
    /// A path that is no regular expression.
    InvalidPath(String, String),
    /// The service of a backend is not there.
    ServiceNotFound(String),
    /// It has no such port.
    PortNotFound(String, String),
    /// It has no endpoints of its own.
    ExternalService(String),
    /// A backend that is no service.
    ResourceBackend(String),
    /// The Secret of a certificate is not there.
    SecretNotFound(String),
    /// It has no certificate that can be used, for this reason.
    InvalidCertificate(String, String),
    /// Its certificate is not for this host.
    WrongCertificate(String, String),
    /// Another Ingress, which is older, has the same path of the same host.
    Shadowed {
        /// The host; empty = any.
        host: String,
        /// The path.
        path: String,
        /// The older one.
        by: String,
    },
    /// There are more regular expressions than are followed.
    TooManyPatterns(usize),
}

impl Problem {
    /// Whether it wants attention.
    pub(super) fn type_(&self) -> EventType {
        match self {
            Self::UnsupportedAnnotation(_) => EventType::Normal,
            _ => EventType::Warning,
        }
    }

    /// The event's reason.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::UnsupportedAnnotation(_) => "UnsupportedAnnotation",
            Self::InvalidAnnotation(..) => "InvalidAnnotation",
            Self::InvalidPath(..) | Self::TooManyPatterns(_) => "InvalidPath",
            Self::ServiceNotFound(_) => "ServiceNotFound",
            Self::PortNotFound(..) => "PortNotFound",
            Self::ExternalService(_) | Self::ResourceBackend(_) => "UnsupportedBackend",
            Self::SecretNotFound(_) => "SecretNotFound",
            Self::InvalidCertificate(..) | Self::WrongCertificate(..) => "InvalidCertificate",
            Self::Shadowed { .. } => "Shadowed",
        }
    }

    /// The event's message.
    pub(super) fn message(&self) -> String {
        let any = |host: &str| if host.is_empty() { "any host".to_string() } else { format!("host {host}") };
        match self {
            Self::UnsupportedAnnotation(key) => format!("annotation {key} is not supported here: ignored"),
            Self::InvalidAnnotation(key, value) => {
                format!("annotation {key} cannot have the value \"{value}\": ignored")
            }
            Self::InvalidPath(path, why) => format!("path {path} is no regular expression: {why}"),
            Self::TooManyPatterns(most) => format!("no more than {most} paths may be regular expressions"),
            Self::ServiceNotFound(key) => format!("service \"{key}\" not found: its requests get 503"),
            Self::PortNotFound(key, port) => {
                format!("service \"{key}\" has no TCP port {port}: its requests get 503")
            }
            Self::ExternalService(key) => {
                format!(
                    "service \"{key}\" is of type ExternalName, which is not served: its requests get 503"
                )
            }
            Self::ResourceBackend(what) => {
                format!("resource backends are not supported ({what}): its requests get 503")
            }
            Self::SecretNotFound(key) => {
                format!("secret \"{key}\" not found: the default certificate is shown")
            }
            Self::InvalidCertificate(key, why) => {
                format!("secret \"{key}\" has no usable certificate: {why}; the default certificate is shown")
            }
            Self::WrongCertificate(key, host) => {
                format!("the certificate in secret \"{key}\" is not valid for host {host}")
            }
            Self::Shadowed { host, path, by } => {
                format!("path {path} of {} is served for ingress \"{by}\", which is older", any(host))
            }
        }
    }
}
