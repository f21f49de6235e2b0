//! `grpc.health.v1.Health/Check` over plain HTTP/2: one request, one field of the response.

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::GRPCAction;
use tokio::net::TcpStream;

use super::{ProbeOutcome, host_and_port};
use base::dial::{Dial, dial};
use base::dial_error::dial_error;

/// Checks once; the caller limits the time.
pub(super) async fn check(dialer: &dyn Dial, (host, port): (&str, u16), action: &GRPCAction) -> ProbeOutcome {
    let address = &host_and_port(host, port);
    let stream = match dial(dialer, host, port).await {
        Ok(stream) => stream,
        Err(error) => {
            return ProbeOutcome::Failure(format!(
                "timeout: failed to connect service \"{address}\" within 1s: dial tcp {address}: {}",
                dial_error(&error)
            ));
        }
    };
    let service = action.service.clone().unwrap_or_default();
    match exchange(stream, address, &service).await {
        Ok(HealthResponse { grpc_status: 0, serving: 1 }) => ProbeOutcome::Success,
        Ok(HealthResponse { grpc_status: 0, serving }) => {
            let status_text = match serving {
                2 => "NOT_SERVING",
                3 => "SERVICE_UNKNOWN",
                _ => "UNKNOWN",
            };
            ProbeOutcome::Failure(format!("service unhealthy (responded with \"{status_text}\")"))
        }
        Ok(HealthResponse { grpc_status: 12, .. }) => ProbeOutcome::Failure(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)".into(),
        ),
        Ok(HealthResponse { grpc_status, .. }) => {
            ProbeOutcome::Failure(format!("error: health rpc failed: rpc error: code = {grpc_status}"))
        }
        Err(text) => ProbeOutcome::Failure(format!("error: health rpc failed: {text}")),
    }
}

struct HealthResponse {
    grpc_status: u32,
    /// `HealthCheckResponse.status`.
    serving: u64,
}

async fn exchange(stream: TcpStream, address: &str, service: &str) -> Result<HealthResponse, String> {
    let text = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(text)?;
    let call = async {
        let request = http::Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", "kube-probe/1.37")
            .body(Full::new(message(service)))
            .map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(text)?;
        let head = response.headers().get("grpc-status").cloned();
        let body = response.into_body().collect().await.map_err(text)?;
        let status = head.or_else(|| body.trailers().and_then(|t| t.get("grpc-status").cloned()));
        let grpc_status = status.and_then(|s| s.to_str().ok()?.parse().ok()).unwrap_or(2);
        Ok(HealthResponse { grpc_status, serving: serving(&body.to_bytes()) })
    };
    // The connection lives exactly as long as the one exchange on it.
    tokio::select! {
        answer = call => answer,
        ended = connection => Err(ended.err().map_or_else(|| "connection closed".into(), text)),
    }
}

/// A length-prefixed `HealthCheckRequest { service = 1 }`.
fn message(service: &str) -> Bytes {
    let mut body = BytesMut::new();
    if !service.is_empty() {
        body.put_u8(0x0a);
        varint(&mut body, service.len());
        body.put_slice(service.as_bytes());
    }
    let mut framed = BytesMut::with_capacity(body.len() + 5);
    framed.put_u8(0);
    framed.put_u32(body.len() as u32);
    framed.extend_from_slice(&body);
    framed.freeze()
}

fn varint(out: &mut BytesMut, mut value: usize) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Returns field 1 of a framed `HealthCheckResponse`; 0 if the field is missing.
fn serving(framed: &[u8]) -> u64 {
    match framed.get(5..) {
        Some([0x08, value, ..]) => u64::from(*value),
        _ => 0,
    }
}
