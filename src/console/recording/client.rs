//! A client that records its requests and their responses.

use std::error::Error;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use tower::Service;

use super::format::{RecordedEvent, chunk_event};
use super::recorder::Recorder;

type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a response.
pub(super) type RecordedBody = StreamBody<BoxStream<'static, Result<Frame<Bytes>, BoxError>>>;

/// Wraps a client so that its requests and responses are recorded under the recorder's connection. Data on upgraded
/// connections (terminals, port-forwards) is not recorded here.
pub(crate) fn recorded(inner: Client, recorder: Recorder) -> Client {
    let namespace = inner.default_namespace().to_owned();
    Client::new(RecordingClient { inner, recorder }, namespace)
}

struct RecordingClient {
    inner: Client,
    recorder: Recorder,
}

impl Service<Request<Body>> for RecordingClient {
    type Response = Response<RecordedBody>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (inner, recorder) = (self.inner.clone(), self.recorder.clone());
        let id = recorder.number();
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let (connection, method) = (recorder.connection(), request.method().to_string());
        recorder.record(RecordedEvent::Request { id, connection, method, path });
        Box::pin(async move {
            let answer = match inner.send(request).await {
                Ok(answer) => answer,
                Err(error) => {
                    recorder.record(RecordedEvent::Over { id, broken: true });
                    return Err(error);
                }
            };
            let content_type = answer.headers().get(CONTENT_TYPE);
            let content_type = content_type.and_then(|value| value.to_str().ok()).map(str::to_owned);
            recorder.record(RecordedEvent::Answered { id, status: answer.status().as_u16(), content_type });
            let (parts, body) = answer.into_parts();
            let noting = recorder.clone();
            let pieces = body.into_data_stream().inspect(move |piece| {
                noting.record(match piece {
                    Ok(bytes) => chunk_event(id, bytes),
                    Err(_) => RecordedEvent::Over { id, broken: true },
                });
            });
            let over = futures::stream::once(async move {
                recorder.record(RecordedEvent::Over { id, broken: false });
                Ok(Bytes::new())
            });
            let pieces = pieces.chain(over).map_ok(Frame::data).map_err(BoxError::from);
            Ok(Response::from_parts(parts, StreamBody::new(pieces.boxed())))
        })
    }
}
