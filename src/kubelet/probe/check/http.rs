//! One HTTP GET as the prober makes it: a new connection, no certificate checks, only the status counts.

use std::fmt::Write;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{PodEndpoint, host_and_port};
use crate::spec;
use base::dial::{Dial, dial};
use base::dial_error::dial_error;
use base::insecure_verifier;
use base::tls_client::TlsClient;

/// The maximum size of a response's head.
const MAX_HEAD: usize = 16 * 1024;

/// The address of the request; port 0 if no port has that name.
fn address(endpoint: PodEndpoint, container: &Container, get: &HTTPGetAction) -> (String, u16) {
    endpoint.address(get.host.as_deref(), spec::port_number(container, &get.port).unwrap_or(0))
}

fn is_tls(get: &HTTPGetAction) -> bool {
    get.scheme.as_deref().is_some_and(|s| s.eq_ignore_ascii_case("https"))
}

fn path_of(get: &HTTPGetAction) -> String {
    let path = get.path.as_deref().unwrap_or("/");
    // A line break or a blank would end the request line; such a path is sent escaped.
    let mut out = String::new();
    if !path.starts_with('/') {
        out.push('/');
    }
    for byte in path.bytes() {
        if byte.is_ascii_graphic() {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The `HOST:PORT` of the request.
pub(crate) fn authority(endpoint: PodEndpoint, container: &Container, get: &HTTPGetAction) -> String {
    let (host, port) = address(endpoint, container, get);
    host_and_port(&host, port)
}

/// The URL as messages show it.
pub(super) fn url(endpoint: PodEndpoint, container: &Container, get: &HTTPGetAction) -> String {
    let scheme = if is_tls(get) { "https" } else { "http" };
    format!("{scheme}://{}{}", authority(endpoint, container, get), path_of(get))
}

/// Sends a GET request and returns the status code; errors are worded as by Go's HTTP client.
pub(crate) async fn http_get(
    dialer: &dyn Dial,
    endpoint: PodEndpoint,
    container: &Container,
    get: &HTTPGetAction,
    agent: &str,
) -> Result<u16, String> {
    let (host, port) = address(endpoint, container, get);
    if port == 0 {
        return Err(format!("couldn't find port: {:?}", get.port));
    }
    let failed = |text: String| format!("Get \"{}\": {text}", url(endpoint, container, get));
    let stream = dial(dialer, &host, port).await.map_err(|error| {
        failed(format!("dial tcp {}: {}", host_and_port(&host, port), dial_error(&error)))
    })?;
    let request = request(get, &host, port, agent);
    if !is_tls(get) {
        return status(stream, &request).await.map_err(failed);
    }
    let name = ServerName::try_from(host.clone()).map_err(|error| failed(error.to_string()))?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(
        insecure_verifier::config().map_err(|error| failed(error.to_string()))?,
    ));
    let stream =
        TlsClient::connect(&connector, name, stream).await.map_err(|error| failed(error.to_string()))?;
    status(stream, &request).await.map_err(failed)
}

fn request(get: &HTTPGetAction, host: &str, port: u16, agent: &str) -> String {
    let headers = get.http_headers.as_deref().unwrap_or_default();
    let given = |name: &str| headers.iter().any(|h| h.name.eq_ignore_ascii_case(name));
    let mut request = format!("GET {} HTTP/1.1\r\n", path_of(get));
    for (name, value) in
        [("Host", host_and_port(host, port)), ("User-Agent", agent.into()), ("Accept", "*/*".into())]
    {
        if !given(name) {
            let _ = write!(request, "{name}: {value}\r\n");
        }
    }
    for header in headers {
        // Validation refuses control characters in names; in values they must not start a new header.
        let value: String = header.value.chars().filter(|c| !c.is_control()).collect();
        let name: String = header.name.chars().filter(|c| c.is_ascii_graphic() && *c != ':').collect();
        let _ = write!(request, "{name}: {value}\r\n");
    }
    request.push_str("Connection: close\r\n\r\n");
    request
}

async fn status(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Result<u16, String> {
    stream.write_all(request.as_bytes()).await.map_err(|error| dial_error(&error))?;
    let mut head = Vec::new();
    let mut buffer = [0u8; 1024];
    loop {
        if let Some(end) = head.windows(2).position(|w| w == b"\r\n") {
            return code(&head[..end]);
        }
        if head.len() > MAX_HEAD {
            return Err("net/http: HTTP/1.x transport connection broken: malformed HTTP response".into());
        }
        match stream.read(&mut buffer).await {
            Ok(0) => return Err("EOF".into()),
            Ok(n) => head.extend_from_slice(&buffer[..n]),
            Err(error) => return Err(dial_error(&error)),
        }
    }
}

fn code(line: &[u8]) -> Result<u16, String> {
    let text = String::from_utf8_lossy(line);
    let mut parts = text.split(' ');
    let version = parts.next().unwrap_or_default();
    match parts.next().and_then(|w| w.parse().ok()) {
        Some(code) if version.starts_with("HTTP/") => Ok(code),
        _ => {
            Err(format!("net/http: HTTP/1.x transport connection broken: malformed HTTP response \"{text}\""))
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::HTTPHeader;
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    use tokio::net::TcpListener;

    use super::*;
    use object::low_ports::LowPorts;

    #[test]
    fn a_low_port_is_probed_at_its_mapped_port_and_other_hosts_unmapped_net_1() {
        let endpoint = PodEndpoint { ip: [127, 1, 0, 5].into(), low_ports: LowPorts::below(1024) };
        for (host, port, expected) in [
            (None, 80, "http://127.1.0.5:8080/"),
            (Some(""), 1024, "http://127.1.0.5:1024/"),
            (Some("127.1.0.5"), 80, "http://127.1.0.5:8080/"),
            (Some("example.com"), 80, "http://example.com:80/"),
            (Some("::1"), 80, "http://[::1]:80/"),
        ] {
            let get = HTTPGetAction {
                host: host.map(Into::into),
                port: IntOrString::Int(port),
                ..HTTPGetAction::default()
            };
            assert_eq!(url(endpoint, &Container::default(), &get), expected);
            let (host, port) = address(endpoint, &Container::default(), &get);
            let authority = &expected["http://".len()..expected.len() - 1];
            assert!(request(&get, &host, port, "agent").contains(&format!("\r\nHost: {authority}\r\n")));
        }
    }

    async fn answered(answer: &'static str) -> (Result<u16, String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = vec![0; 4096];
            let n = stream.read(&mut seen).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&seen[..n]).into_owned()
        });
        let get = HTTPGetAction {
            path: Some("/ok?a b\r\nX: y".into()),
            port: IntOrString::Int(port.into()),
            http_headers: Some(vec![HTTPHeader { name: "X-Test".into(), value: "1\r\n2".into() }]),
            ..HTTPGetAction::default()
        };
        let endpoint = PodEndpoint { ip: [127, 0, 0, 1].into(), low_ports: LowPorts::default() };
        let result =
            http_get(&base::dial::LocalDialer, endpoint, &Container::default(), &get, "kube-probe/1.37")
                .await;
        (result.map_err(|e| e.replace(&port.to_string(), "PORT")), server.await.unwrap())
    }

    #[tokio::test]
    async fn the_status_counts_and_nothing_can_be_smuggled_in_pod_5() {
        let (status, request) = answered("HTTP/1.1 503 Service Unavailable\r\n\r\n").await;
        assert_eq!(status, Ok(503));
        assert!(request.starts_with("GET /ok?a%20b%0D%0AX:%20y HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("X-Test: 12\r\n") && request.contains("User-Agent: kube-probe/1.37\r\n"));
        let (broken, _) = answered("SSH-2.0-OpenSSH\r\n").await;
        assert!(broken.unwrap_err().ends_with("malformed HTTP response \"SSH-2.0-OpenSSH\""));
        let (silent, _) = answered("").await;
        assert_eq!(silent, Err("Get \"http://127.0.0.1:PORT/ok?a%20b%0D%0AX:%20y\": EOF".into()));
    }
}
