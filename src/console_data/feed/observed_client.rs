//! A client that notifies when the server has accepted a watch, because its first event may arrive hours later. kube's
//! watcher does not report that.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tower::Service;

/// Wraps a client so that `opened` is notified of each watch that the server accepts.
pub(super) fn client(inner: Client, opened: Arc<Notify>) -> Client {
    let namespace = inner.default_namespace().to_owned();
    Client::new(ObservedClient { inner, opened }, namespace)
}

struct ObservedClient {
    inner: Client,
    opened: Arc<Notify>,
}

impl Service<Request<Body>> for ObservedClient {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (inner, opened) = (self.inner.clone(), self.opened.clone());
        let watches = watches(request.uri());
        Box::pin(async move {
            let response = inner.send(request).await?;
            if watches && response.status().is_success() {
                opened.notify_one();
            }
            Ok(response)
        })
    }
}

fn watches(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|part| matches!(part, "watch=true" | "watch=1")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_opens_no_watch_con_18() {
        for (uri, expected) in [
            ("/api/v1/pods?&watch=true&resourceVersion=7", true),
            ("/api/v1/pods?watch=1", true),
            ("/api/v1/pods?limit=500", false),
            ("/api/v1/pods?labelSelector=watch%3Dtrue", false),
            ("/api/v1/pods", false),
        ] {
            assert_eq!(watches(&uri.parse().unwrap()), expected, "{uri}");
        }
    }
}
