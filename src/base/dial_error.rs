//! Connection errors in the words users know from Kubernetes, which are Go's.

/// Describes a connection error in the words that follow `dial tcp HOST:PORT: ` in Go's messages.
pub fn dial_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused".into(),
        std::io::ErrorKind::ConnectionReset => "read: connection reset by peer".into(),
        std::io::ErrorKind::HostUnreachable => "connect: no route to host".into(),
        _ => error.to_string(),
    }
}
