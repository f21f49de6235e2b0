//! Rewrites links in the pages of a proxied server on the fly, so that they lead back through the proxy.

use axum::body::Body as AnyBody;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::start_tags::StartTags;
use crate::transformed_body::{Transform, TransformedBody};

/// Returns the attributes of an element that contain links; Kubernetes' list.
fn links_of(element: &str) -> &'static [&'static str] {
    match element {
        "a" | "area" | "base" | "link" => &["href"],
        "applet" => &["codebase"],
        "audio" | "embed" | "script" | "source" => &["src"],
        "blockquote" | "del" | "ins" | "q" => &["cite"],
        "body" => &["background"],
        "button" => &["formaction"],
        "command" => &["icon"],
        "form" => &["action"],
        "frame" | "iframe" => &["longdesc", "src"],
        "head" => &["profile"],
        "html" => &["manifest"],
        "img" => &["longdesc", "src", "usemap"],
        "input" => &["src", "usemap", "formaction"],
        "object" => &["classid", "codebase", "data", "usemap"],
        "video" => &["poster", "src"],
        _ => &[],
    }
}

/// Returns true if a response is an HTML page whose links can be rewritten. A page that its server
/// compressed, although the request accepted no compression, passes unchanged.
pub(super) fn has_links(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let media_type = text(CONTENT_TYPE).and_then(|value| value.split(';').next()).unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("text/html")
        && text(CONTENT_ENCODING).is_none_or(|encoding| encoding.eq_ignore_ascii_case("identity"))
}

/// Rewrites the links of a page as it passes.
pub(super) struct Links<R> {
    tags: StartTags<R>,
    output: Vec<u8>,
}

impl<R: Fn(&str) -> Option<String> + Send + Unpin + 'static> Links<R> {
    /// Returns the page with links replaced by `rewrite`; `None` leaves a link unchanged.
    pub(super) fn rewritten(page: AnyBody, rewrite: R) -> TransformedBody<Self> {
        TransformedBody::new(page, Self { tags: StartTags::new(links_of, rewrite), output: Vec::new() })
    }
}

impl<R: Fn(&str) -> Option<String> + Unpin> Transform for Links<R> {
    fn write(&mut self, data: &[u8]) -> Result<(), axum::Error> {
        self.tags.write(data, &mut self.output);
        Ok(())
    }

    fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    fn end(mut self) -> Result<Vec<u8>, axum::Error> {
        self.tags.end(&mut self.output);
        Ok(self.output)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::BodyExt;

    use super::*;

    /// The conformance test "Proxy version v1 should proxy through a service and a pod" checks a rewritten link.
    #[tokio::test]
    async fn links_of_a_page_lead_through_the_proxy_api_3() {
        let rewrite = |link: &str| link.starts_with('/').then(|| format!("/p/proxy{link}"));
        let page = "<!doctype html><HTML><a class=x href=\"/x?a=1&amp;b\">y</a><img src='/i.png'><p href=\"/no\">\
                    <a href=\"x\">r</a><script>\"<a href='/s'>\"</script><iframe longdesc=/l src=//e/></iframe>é";
        // Cut at any position.
        for size in [1, 7, 1000] {
            let pieces: Vec<_> = page.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
            let pieces = futures::stream::iter(pieces.into_iter().map(Ok::<_, std::convert::Infallible>));
            let page = Links::rewritten(AnyBody::from_stream(pieces), rewrite);
            let text = page.collect().await.unwrap().to_bytes();
            let text = String::from_utf8(text.to_vec()).unwrap();
            assert!(text.contains("<a class=x href=\"/p/proxy/x?a=1&amp;b\">y</a>"), "{text}");
            assert!(text.contains("<img src=\"/p/proxy/i.png\"><p href=\"/no\">"), "{text}");
            assert!(text.contains("<a href=\"x\">r</a><script>\"<a href='/s'>\"</script>"), "{text}");
            assert!(text.contains("longdesc=\"/p/proxy/l\"") && text.ends_with("</iframe>é"), "{text}");
        }
    }

    #[test]
    fn only_plain_pages_are_read_api_3() {
        let check = |type_: &str, encoding: &str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, type_.parse().unwrap());
            if !encoding.is_empty() {
                headers.insert(CONTENT_ENCODING, encoding.parse().unwrap());
            }
            assert_eq!(has_links(&headers), expected, "{type_} {encoding}");
        };
        check("text/html", "", true);
        check("Text/HTML; charset=utf-8", "identity", true);
        check("text/html", "gzip", false);
        check("application/json", "", false);
    }
}
