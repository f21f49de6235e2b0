//! Splits the path of a proxied request from the path on the proxied server.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use object::Kind;

/// Returns a request's path up to `proxy`, and the remainder as sent.
pub(super) fn split(kind: Kind, path: &str) -> (&str, &str) {
    // api, v1, namespaces, NAMESPACE, KIND, NAME, proxy; for nodes api, v1, nodes, NAME, proxy.
    let before = if kind.namespaced() { 7 } else { 5 };
    let (mut at, mut segments) = (0, 0);
    for segment in path.split_inclusive('/') {
        at += segment.len();
        segments += usize::from(segment != "/");
        if segments == before {
            let end = at - usize::from(segment.ends_with('/'));
            return path.split_at(end);
        }
    }
    (path, "")
}

/// Returns the path on the proxied server, decoded: authorization and the proxy split at the same position.
pub(crate) fn path_below(kind: Kind, path: &str) -> Cow<'_, str> {
    percent_decode_str(split(kind, path).1).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_passed_on_as_they_were_sent_api_3() {
        let root = "/api/v1/namespaces/a/pods/b:80/proxy";
        for (path, rest) in
            [("", ""), ("/", "/"), ("/x%2Fy//z/", "/x%2Fy//z/"), ("/proxy/proxy", "/proxy/proxy")]
        {
            assert_eq!(split(Kind::Pod, &format!("{root}{path}")), (root, rest), "{path}");
        }
    }

    /// Regression: a name, a namespace or an encoding of `proxy` showed policies and webhooks another path
    /// than was served.
    #[test]
    fn admission_sees_the_path_that_is_served_api_16() {
        for (kind, path, below) in [
            (Kind::Pod, "/api/v1/namespaces/proxy-x/pods/b/proxy/admin", "/admin"),
            (Kind::Pod, "/api/v1/namespaces/a/pods/proxy/proxy/admin", "/admin"),
            (Kind::Service, "/api/v1/namespaces/a/services/b:80/pro%78y/admin", "/admin"),
            (Kind::Service, "/api/v1/namespaces/a/services/b/proxy/%61dmin/x%2Fy/", "/admin/x/y/"),
            (Kind::Pod, "//api//v1/namespaces/a/pods/b/proxy//admin", "//admin"),
            (Kind::Node, "/api/v1/nodes/n/proxy/stats/summary", "/stats/summary"),
            (Kind::Node, "/api/v1/nodes/proxy/proxy/proxy/x", "/proxy/x"),
            (Kind::Node, "/api/v1/nodes/n/proxy", ""),
        ] {
            assert_eq!(path_below(kind, path), below, "{path}");
        }
    }
}
