//! Parses the destination of a connection as a user writes it.

use std::fmt;
use std::net::IpAddr;

use object::Key;

/// Maximum length of a DNS name (RFC 1035).
const MAX_NAME_LENGTH: usize = 253;

/// The destination of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A pod.
    Pod(Key),
    /// A service.
    Service(Key),
    /// A DNS name, as a program in the source pod would use it.
    Name(String),
    /// An IP address.
    Address(IpAddr),
}

/// Formats the destination for messages.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod {key}"),
            Self::Service(key) => write!(f, "service {key}"),
            Self::Name(name) => f.write_str(name),
            Self::Address(ip) => write!(f, "{ip}"),
        }
    }
}

/// A port, as a user writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    /// A port number.
    Number(u16),
    /// The port's name in the service or the pod.
    Name(String),
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// An invalid question; the text describes the valid forms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl Destination {
    /// Parses `pod/web`, `other/web` (a pod), `svc/web`, `svc/other/web`, `web.other.svc`, `10.96.0.1`, `example.com`,
    /// each with or without `:PORT`, or a URL. `namespace` is the source's.
    pub fn parse(text: &str, namespace: &str) -> Result<(Self, Option<Port>), UsageError> {
        let (rest, scheme) = match text.split_once("://") {
            Some((scheme, rest)) => (rest.split(['/', '?', '#']).next().unwrap_or_default(), Some(scheme)),
            None => (text, None),
        };
        let (host, port) = split_port(rest)?;
        let port = port.or(match scheme {
            Some("http") => Some(Port::Number(80)),
            Some("https") => Some(Port::Number(443)),
            _ => None,
        });
        if host.is_empty() || host.len() > MAX_NAME_LENGTH || host.contains(char::is_whitespace) {
            return Err(UsageError(format!(
                "invalid destination {text:?}: use NAMESPACE/POD, svc/NAME, a name or an address"
            )));
        }
        if let Ok(ip) = host.parse() {
            return Ok((Self::Address(ip), port));
        }
        let mut segments: Vec<&str> = host.split('/').collect();
        let service = match segments.first() {
            Some(&("svc" | "service" | "services")) if segments.len() > 1 => true,
            Some(&("pod" | "pods" | "po")) if segments.len() > 1 => false,
            _ if segments.len() == 1 => return Ok((Self::Name(host.to_owned()), port)),
            _ => {
                segments.insert(0, "pod");
                false
            }
        };
        let key = match segments[1..] {
            [name] if !name.is_empty() => Key::new(namespace, name),
            [namespace, name] if !namespace.is_empty() && !name.is_empty() => Key::new(namespace, name),
            _ => return Err(UsageError(format!("invalid destination {text:?}: expected NAMESPACE/NAME"))),
        };
        Ok((if service { Self::Service(key) } else { Self::Pod(key) }, port))
    }
}

/// Splits a host from the port after its colon; an IPv6 address can have a port only if it is in brackets.
fn split_port(text: &str) -> Result<(&str, Option<Port>), UsageError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, port.strip_prefix(':').or(Some(""))),
            None => return Err(UsageError(format!("invalid destination {text:?}: no closing bracket"))),
        },
        None if text.parse::<IpAddr>().is_ok() => (text, None),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let Some(port) = port else { return Ok((host, None)) };
    let is_name = |text: &str| {
        let letters = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        letters && text.len() <= 15 && text.bytes().any(|b| b.is_ascii_lowercase())
    };
    match port.parse::<u16>() {
        Ok(number) if number > 0 => Ok((host, Some(Port::Number(number)))),
        _ if is_name(port) => Ok((host, Some(Port::Name(port.to_owned())))),
        _ => Err(UsageError(format!("invalid port {port:?}: use a number from 1 to 65535 or a port's name"))),
    }
}
