//! Requests to endpoints: their addressing, and the part that can be sent again.

use http::header::HOST;
use http::{HeaderValue, Request, Uri, Version};

use super::options::Protocol;
use super::upstream::UpstreamRequest;

/// Sets a request's host and path as its protocol requires.
pub(super) fn address(
    parts: &mut http::request::Parts,
    protocol: Protocol,
    authority: &str,
    uri: &str,
) -> Result<(), http::Error> {
    (parts.uri, parts.version) = match protocol {
        Protocol::Http | Protocol::Https => {
            parts.headers.insert(HOST, HeaderValue::try_from(authority)?);
            (uri.parse::<Uri>()?, Version::HTTP_11)
        }
        Protocol::Grpc | Protocol::Grpcs => {
            // In HTTP/2 the host is part of the target.
            parts.headers.remove(HOST);
            let scheme = if protocol == Protocol::Grpcs { "https" } else { "http" };
            let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(uri);
            (uri.build()?, Version::HTTP_2)
        }
    };
    Ok(())
}

/// Returns a request without its body.
pub(super) fn head_of(request: &UpstreamRequest) -> Request<()> {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.version_mut() = request.version();
    *head.headers_mut() = request.headers().clone();
    head
}
