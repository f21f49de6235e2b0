//! The API of a recording: answers each request with its recorded response, at its time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tower::Service;

use super::client::RecordedBody;
use super::format::Exchange;
use base::sort::SliceOrder;

/// Method and path.
type RequestKey = (String, String);

/// Creates clients that replay the requests of each connection, from now on.
pub(super) fn clients(exchanges: Vec<(u64, RequestKey, Exchange)>) -> HashMap<u64, Client> {
    let mut by_connection: HashMap<u64, Vec<(RequestKey, Exchange)>> = HashMap::from([(0, Vec::new())]);
    for (connection, question, exchange) in exchanges {
        by_connection.entry(connection).or_default().push((question, exchange));
    }
    by_connection.into_iter().map(|(connection, exchanges)| (connection, client(exchanges))).collect()
}

/// Creates a client that replays the requests of one connection.
pub(super) fn client(exchanges: Vec<(RequestKey, Exchange)>) -> Client {
    let mut left: HashMap<RequestKey, VecDeque<Exchange>> = HashMap::new();
    for (question, exchange) in exchanges {
        left.entry(question).or_default().push_back(exchange);
    }
    Client::new(ReplayClient { started: Instant::now(), remaining: Arc::new(Mutex::new(left)) }, "default")
}

#[derive(Clone)]
struct ReplayClient {
    started: Instant,
    remaining: Arc<Mutex<HashMap<RequestKey, VecDeque<Exchange>>>>,
}

impl ReplayClient {
    /// Returns the next exchange for a request; the query parameters are ignored.
    fn take(&self, question: &RequestKey) -> Option<Exchange> {
        let mut left = self.remaining.lock();
        if let Some(exchange) = left.get_mut(question).and_then(VecDeque::pop_front) {
            return Some(exchange);
        }
        let path = |path: &str| path.split('?').next().unwrap_or_default().to_owned();
        let is_watch = |path: &str| path.contains("watch=");
        let mut alike: Vec<_> = left
            .iter_mut()
            .filter(|((method, other), waiting)| {
                *method == question.0
                    && path(other) == path(&question.1)
                    && is_watch(other) == is_watch(&question.1)
                    && !waiting.is_empty()
            })
            .collect();
        alike.order_by_key(|(question, _)| *question);
        alike.first_mut()?.1.pop_front()
    }
}

impl Service<Request<Body>> for ReplayClient {
    type Response = Response<RecordedBody>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let question = (request.method().to_string(), path);
        let (exchange, started) = (self.take(&question), self.started);
        Box::pin(async move {
            let Some(Exchange { answered, chunks, over }) = exchange else {
                return Ok(not_recorded(&question).await);
            };
            let Some((at, status, content_type)) = answered else {
                // The request failed, or had no response before the session ended.
                match over {
                    Some((at, _)) => sleep_until(started + at).await,
                    None => std::future::pending().await,
                }
                return Ok(failed(StatusCode::BAD_GATEWAY, "the server did not answer"));
            };
            sleep_until(started + at).await;
            let pieces = futures::stream::iter(chunks).then(move |(at, bytes)| async move {
                sleep_until(started + at).await;
                Ok(Frame::data(bytes))
            });
            let end = futures::stream::once(async move {
                match over {
                    Some((at, broken)) => {
                        sleep_until(started + at).await;
                        if broken {
                            Err("the connection broke".into())
                        } else {
                            Ok(Frame::data(Bytes::new()))
                        }
                    }
                    None => std::future::pending().await,
                }
            });
            let mut response = Response::new(StreamBody::new(pieces.chain(end).boxed()));
            *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            if let Some(value) = content_type.and_then(|value| HeaderValue::from_str(&value).ok()) {
                response.headers_mut().insert(CONTENT_TYPE, value);
            }
            Ok(response)
        })
    }
}

/// Returns the response to a request that was not recorded. A watch stays silent.
async fn not_recorded((method, path): &RequestKey) -> Response<RecordedBody> {
    if path.contains("watch=") || path.contains("follow=") {
        std::future::pending::<()>().await;
    }
    failed(StatusCode::GATEWAY_TIMEOUT, &format!("the recording does not have {method} {path}"))
}

fn failed(status: StatusCode, message: &str) -> Response<RecordedBody> {
    let body = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "", "code": status.as_u16()});
    let piece = futures::stream::iter([Ok(Frame::data(Bytes::from(body.to_string())))]);
    let mut response = Response::new(StreamBody::new(piece.boxed()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
