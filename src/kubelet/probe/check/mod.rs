//! Probes a container: exec, httpGet, tcpSocket, grpc, with the texts of Kubernetes' prober.

mod grpc;
mod http;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe, TCPSocketAction};

use super::ProbeOutcome;
use crate::runtime::{ContainerId, Runtime, RuntimeError};
use crate::spec;
use base::dial::{Dial, dial};
use base::dial_error::dial_error;
pub(crate) use http::{authority, http_get};
use object::low_ports::LowPorts;

/// The target of a probe or hook.
#[derive(Clone)]
pub(crate) struct Target {
    /// The node's runtime, for commands.
    pub(crate) runtime: Arc<dyn Runtime>,
    /// The container attempt.
    pub(crate) id: ContainerId,
    /// The address of its ports.
    pub(crate) endpoint: PodEndpoint,
    /// No process listens at the address (hollow nodes): probes over the network count as successful.
    pub(crate) hollow: bool,
}

/// The address of a pod's ports, unless a probe or hook names another host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodEndpoint {
    /// The pod's address.
    pub(crate) ip: IpAddr,
    /// The pod's ports that are served at another address.
    pub(crate) low_ports: LowPorts,
}

impl PodEndpoint {
    /// The host and port to connect to for a port of the pod, or of the named host.
    fn address(self, host: Option<&str>, port: u16) -> (String, u16) {
        match host.filter(|host| !host.is_empty()) {
            Some(host) if host != self.ip.to_string() => (host.to_string(), port),
            _ => (self.ip.to_string(), self.low_ports.served(port)),
        }
    }
}

/// Maximum size of a failed command's output in the event.
const MAX_OUTPUT: usize = 1024;

/// Probes once.
pub(crate) async fn run_probe(target: &Target, container: &Container, probe: &Probe) -> ProbeOutcome {
    let limit = Duration::from_secs(
        probe.timeout_seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0).unwrap_or(1),
    );
    if let Some(exec) = &probe.exec {
        return run(target, exec.command.clone().unwrap_or_default(), limit).await;
    }
    if target.hollow {
        return ProbeOutcome::Success;
    }
    let dialer = target.runtime.dialer();
    if let Some(get) = &probe.http_get {
        // Boxed, as the gRPC check is: otherwise the task of every socket probe would have the size of an HTTP request.
        let attempt = Box::pin(http_get(&*dialer, target.endpoint, container, get, "kube-probe/1.37"));
        return match tokio::time::timeout(limit, attempt).await {
            Ok(Ok(status)) if (200..400).contains(&status) => ProbeOutcome::Success,
            Ok(Ok(status)) => ProbeOutcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
            Ok(Err(text)) => ProbeOutcome::Failure(text),
            Err(_) => ProbeOutcome::Failure(format!(
                "Get \"{}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
                http::url(target.endpoint, container, get)
            )),
        };
    }
    if let Some(socket) = &probe.tcp_socket {
        return match tokio::time::timeout(limit, tcp_connect(&*dialer, target.endpoint, container, socket))
            .await
        {
            Ok(Ok(())) => ProbeOutcome::Success,
            Ok(Err(text)) => ProbeOutcome::Failure(text),
            Err(_) => {
                let (host, port) = tcp_address(target.endpoint, container, socket);
                ProbeOutcome::Failure(format!("dial tcp {}: i/o timeout", host_and_port(&host, port)))
            }
        };
    }
    if let Some(action) = &probe.grpc {
        let (host, port) = target.endpoint.address(None, u16::try_from(action.port).unwrap_or(0));
        let address = host_and_port(&host, port);
        return match tokio::time::timeout(limit, Box::pin(grpc::check(&*dialer, (&host, port), action))).await
        {
            Ok(outcome) => outcome,
            Err(_) => ProbeOutcome::Failure(format!(
                "timeout: failed to connect service \"{address}\" within {limit:?}: context deadline exceeded"
            )),
        };
    }
    ProbeOutcome::Unknown("missing probe handler".into())
}

async fn run(target: &Target, command: Vec<String>, limit: Duration) -> ProbeOutcome {
    let shown = command.join(" ");
    match target.runtime.exec_sync(&target.id, command, limit).await {
        Ok(output) if output.exit_code == 0 => ProbeOutcome::Success,
        Ok(output) => {
            let end = output.output.len().min(MAX_OUTPUT);
            ProbeOutcome::Failure(String::from_utf8_lossy(&output.output[..end]).trim_end().to_string())
        }
        Err(RuntimeError::Timeout(limit)) => {
            ProbeOutcome::Failure(format!("command timed out: \"{shown}\" timed out after {limit:?}"))
        }
        Err(RuntimeError::StartFailed(text)) => ProbeOutcome::Failure(text),
        Err(error) => ProbeOutcome::Unknown(error.to_string()),
    }
}

/// The address of a container's socket; port 0 if no port has that name.
fn tcp_address(endpoint: PodEndpoint, container: &Container, socket: &TCPSocketAction) -> (String, u16) {
    endpoint.address(socket.host.as_deref(), spec::port_number(container, &socket.port).unwrap_or(0))
}

/// Opens a connection and closes it.
pub(crate) async fn tcp_connect(
    dialer: &dyn Dial,
    endpoint: PodEndpoint,
    container: &Container,
    socket: &TCPSocketAction,
) -> Result<(), String> {
    let (host, port) = tcp_address(endpoint, container, socket);
    if port == 0 {
        return Err(format!("couldn't find port: {:?}", socket.port));
    }
    match dial(dialer, &host, port).await {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("dial tcp {}: {}", host_and_port(&host, port), dial_error(&error))),
    }
}

/// `HOST:PORT`, with brackets around an IPv6 address.
fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::Frame;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::hooks::{self, HookSuccess};
    use crate::runtime::hollow::{HollowConfig, HollowRuntime};
    use images::Catalogue;

    fn target() -> Target {
        let catalogue = Arc::new(Catalogue::new(Vec::new(), "CONFIG"));
        let wall = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
        Target {
            runtime: Arc::new(HollowRuntime::new(HollowConfig::default(), catalogue, wall)),
            id: ContainerId("c".into()),
            endpoint: PodEndpoint { ip: [127, 0, 0, 1].into(), low_ports: LowPorts::default() },
            hollow: false,
        }
    }

    async fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// A server of the gRPC health protocol where only the service `lives` is healthy.
    async fn health_server() -> u16 {
        let (listener, port) = listener().await;
        let answer = async |request: hyper::Request<hyper::body::Incoming>| {
            assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
            let body = request.into_body().collect().await?.to_bytes();
            let status = if body.ends_with(b"lives") { 1 } else { 2 };
            let message = Frame::data(Bytes::copy_from_slice(&[0, 0, 0, 0, 2, 8, status]));
            let end = ::http::HeaderMap::from_iter([(
                ::http::HeaderName::from_static("grpc-status"),
                ::http::HeaderValue::from_static("0"),
            )]);
            let frames = [message, Frame::trailers(end)].map(Ok::<_, hyper::Error>);
            Ok::<_, hyper::Error>(::http::Response::new(StreamBody::new(futures::stream::iter(frames))))
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let service = hyper::service::service_fn(answer);
                tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
            }
        });
        port
    }

    /// A server with one answer for each connection; the receiver gets the first byte that each client sends.
    async fn http_server(answer: &'static str) -> (u16, tokio::sync::mpsc::UnboundedReceiver<u8>) {
        let (listener, port) = listener().await;
        let (first, firsts) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut seen = vec![0; 4096];
                let length = stream.read(&mut seen).await.unwrap_or(0);
                let _ = first.send(seen[..length].first().copied().unwrap_or_default());
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        (port, firsts)
    }

    #[tokio::test]
    async fn each_kind_of_probe_asks_its_server_pod_5() {
        let (ok, mut firsts) = http_server("HTTP/1.1 204 No Content\r\n\r\n").await;
        let (broken, _) = http_server("HTTP/1.1 500 Internal Server Error\r\n\r\n").await;
        let health = health_server().await;
        let (gone, closed_port) = listener().await;
        drop(gone);
        let target = target();
        let outcome_of = async |probe: Value| {
            let probe: Probe = serde_json::from_value(probe).unwrap();
            match super::run_probe(&target, &Container::default(), &probe).await {
                ProbeOutcome::Success => "healthy".to_owned(),
                ProbeOutcome::Failure(why) | ProbeOutcome::Unknown(why) => why,
            }
        };
        let refused = format!("dial tcp 127.0.0.1:{closed_port}: connect: connection refused");
        for (probe, expected) in [
            (json!({"httpGet": {"port": ok}}), "healthy"),
            (json!({"httpGet": {"port": broken}}), "HTTP probe failed with statuscode: 500"),
            (json!({"tcpSocket": {"port": ok}}), "healthy"),
            (json!({"tcpSocket": {"port": closed_port}}), &refused),
            (json!({"grpc": {"port": health, "service": "lives"}}), "healthy"),
            (json!({"grpc": {"port": health}}), "service unhealthy (responded with \"NOT_SERVING\")"),
            (json!({}), "missing probe handler"),
        ] {
            assert_eq!(outcome_of(probe.clone()).await, expected, "{probe}");
        }
        assert_eq!(firsts.recv().await, Some(b'G'), "a GET");
        let _ = firsts.recv().await;
        // A plain server is no TLS server: it sees the first record of a handshake.
        assert_ne!(outcome_of(json!({"httpGet": {"port": ok, "scheme": "HTTPS"}})).await, "healthy");
        assert_eq!(firsts.recv().await, Some(22));
    }

    #[tokio::test]
    async fn hooks_ask_over_the_network_pod_6() {
        let (ok, _firsts) = http_server("HTTP/1.1 500 Internal Server Error\r\n\r\n").await;
        let (gone, closed_port) = listener().await;
        drop(gone);
        let target = target();
        let direct = Some(HookSuccess::default());
        let fallback = Some(HookSuccess { http_fallback: Some(format!("127.0.0.1:{ok}")) });
        for (hook, expected) in [
            (json!({"httpGet": {"port": ok}}), &direct),
            (json!({"httpGet": {"port": ok, "scheme": "HTTPS"}}), &fallback),
            (json!({"httpGet": {"port": closed_port}}), &None),
            (json!({"httpGet": {"port": closed_port, "scheme": "HTTPS"}}), &None),
            (json!({"tcpSocket": {"port": ok}}), &direct),
            (json!({"tcpSocket": {"port": closed_port}}), &None),
        ] {
            let handler = serde_json::from_value(hook.clone()).unwrap();
            let result = hooks::run(&target, &Container::default(), &handler, hooks::UNLIMITED).await;
            assert_eq!(result.as_ref().ok(), expected.as_ref(), "{hook}: {result:?}");
        }
    }

    #[test]
    fn a_tcp_probe_connects_to_its_pod_or_to_the_host_it_names_pod_5() {
        let endpoint = PodEndpoint { ip: [10, 0, 0, 5].into(), low_ports: LowPorts::default() };
        let container: Container =
            serde_json::from_value(json!({"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}))
                .unwrap();
        for (socket, host, port) in [
            (json!({"port": "web"}), "10.0.0.5", 8080),
            (json!({"port": 81, "host": "10.0.0.9"}), "10.0.0.9", 81),
            (json!({"port": "none"}), "10.0.0.5", 0),
        ] {
            let action: TCPSocketAction = serde_json::from_value(socket).unwrap();
            assert_eq!(tcp_address(endpoint, &container, &action), (host.to_string(), port));
        }
    }
}
