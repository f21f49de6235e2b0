//! Problems of an Ingress, as events report them.

use reconcile::EventType;

/// A problem or an unsupported feature.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Problem {
    /// An annotation of ingress-nginx that is not supported.
    UnsupportedAnnotation(String),
    /// An annotation with an invalid value.
    InvalidAnnotation(String, String),
    /// A path that is not a valid regular expression.
    InvalidPath(String, String),
    /// The service of a backend does not exist.
    ServiceNotFound(String),
    /// The service has no such port.
    PortNotFound(String, String),
    /// The service is an ExternalName, which is not served.
    ExternalService(String),
    /// A backend that is not a service.
    ResourceBackend(String),
    /// The Secret of a certificate does not exist.
    SecretNotFound(String),
    /// The Secret has no usable certificate, with the reason.
    InvalidCertificate(String, String),
    /// The certificate is not valid for this host.
    WrongCertificate(String, String),
    /// An older Ingress has the same path of the same host.
    Shadowed {
        /// The host; the empty one matches any.
        host: String,
        /// The path.
        path: String,
        /// The older Ingress.
        by: String,
    },
    /// There are more regular expressions than the maximum.
    TooManyPatterns(usize),
}

impl Problem {
    /// Returns the event's type.
    pub(super) fn type_(&self) -> EventType {
        match self {
            Self::UnsupportedAnnotation(_) => EventType::Normal,
            _ => EventType::Warning,
        }
    }

    /// Returns the event's reason.
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

    /// Returns the event's message.
    pub(super) fn message(&self) -> String {
        let any = |host: &str| if host.is_empty() { "any host".to_string() } else { format!("host {host}") };
        match self {
            Self::UnsupportedAnnotation(key) => format!("annotation {key} is not supported and is ignored"),
            Self::InvalidAnnotation(key, value) => {
                format!("invalid value \"{value}\" of annotation {key}; the annotation is ignored")
            }
            Self::InvalidPath(path, why) => format!("path {path} is not a valid regular expression: {why}"),
            Self::TooManyPatterns(most) => format!("at most {most} paths can be regular expressions"),
            Self::ServiceNotFound(key) => format!("service \"{key}\" not found; its requests get 503"),
            Self::PortNotFound(key, port) => {
                format!("service \"{key}\" has no TCP port {port}; its requests get 503")
            }
            Self::ExternalService(key) => {
                format!(
                    "service \"{key}\" has type ExternalName, which is not supported; its requests get 503"
                )
            }
            Self::ResourceBackend(what) => {
                format!("resource backends are not supported ({what}); its requests get 503")
            }
            Self::SecretNotFound(key) => {
                format!("secret \"{key}\" not found; clients get the default certificate")
            }
            Self::InvalidCertificate(key, why) => {
                format!(
                    "secret \"{key}\" has no usable certificate: {why}; clients get the default certificate"
                )
            }
            Self::WrongCertificate(key, host) => {
                format!("the certificate in secret \"{key}\" is not valid for host {host}")
            }
            Self::Shadowed { host, path, by } => {
                format!("path {path} of {} is served for the older Ingress \"{by}\"", any(host))
            }
        }
    }
}
