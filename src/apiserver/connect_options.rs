//! The options of a session as admission sees them: Kubernetes' PodExecOptions and its relatives.

use http::Method;
use serde_json::{Map, Value, json};

use super::Server;
use super::proxy;
use super::query::Query;
use super::request::ResourceTarget;
use super::response_format::ResponseFormat;
use api::admission::{Operation, has_matching_configuration};
use api::{ApiError, WriteOptions};
use object::{Key, Kind, Subresource};

/// Runs the configured admission for a session before it starts; other requests pass.
pub(super) async fn admit(
    server: &Server,
    target: &ResourceTarget,
    key: &Key,
    part: Subresource,
    (method, path): (&Method, &str),
    format: &ResponseFormat,
) -> Result<(), ApiError> {
    use Subresource::{Attach, Exec, PortForward, Proxy};
    let is_session = match part {
        Exec | Attach | PortForward => matches!(*method, Method::GET | Method::POST),
        Proxy => true,
        _ => false,
    };
    let operations = [Operation::Connect];
    if !is_session || !has_matching_configuration(server.api(), &operations, target.kind(), part.path()) {
        return Ok(());
    }
    let session = options(target.kind(), part, path, &format.query);
    // The port and the scheme of a proxied name do not belong to the object's name.
    let name = if part == Proxy { bare(&key.name) } else { &key.name };
    let key = Key::new(key.namespace.as_str(), name);
    let (user, remarks) = (format.user.clone(), format.warnings.clone());
    let writes = WriteOptions { user, warnings: remarks, ..WriteOptions::default() };
    let check_session = || server.api().admit_session(target.kind(), &key, part.path(), &writes, &session);
    server.run_queued(target, &operations, check_session).await
}

/// Returns the name in `[SCHEME:]NAME[:PORT]`.
fn bare(text: &str) -> &str {
    let mut parts = text.split(':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(name), Some(_)) | (Some(name), ..) => name,
        _ => text,
    }
}

fn options(kind: Kind, part: Subresource, path: &str, query: &Query) -> Value {
    use Subresource::{Attach, Exec, PortForward};
    let mut options = Map::new();
    let name = match (part, kind) {
        (Exec, _) => "PodExecOptions",
        (Attach, _) => "PodAttachOptions",
        (PortForward, _) => "PodPortForwardOptions",
        (_, Kind::Node) => "NodeProxyOptions",
        (_, Kind::Service) => "ServiceProxyOptions",
        _ => "PodProxyOptions",
    };
    options.insert("kind".into(), name.into());
    options.insert("apiVersion".into(), "v1".into());
    match part {
        Exec | Attach => {
            for flag in ["stdin", "stdout", "stderr", "tty"] {
                if query.flag(flag) {
                    options.insert(flag.into(), true.into());
                }
            }
            if let Some(container) = query.get("container") {
                options.insert("container".into(), container.into());
            }
            if part == Exec {
                options.insert("command".into(), json!(query.all("command")));
            }
        }
        PortForward => {
            let ports = query.all("ports");
            let ports =
                ports.iter().flat_map(|ports| ports.split(',')).filter_map(|port| port.parse::<u16>().ok());
            options.insert("ports".into(), ports.collect::<Vec<_>>().into());
        }
        _ => {
            options.insert("path".into(), proxy::path_below(kind, path).into());
        }
    }
    Value::Object(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_request_is_parsed_into_its_options_api_16() {
        use Subresource::{Attach, Exec, PortForward, Proxy};
        for (kind, part, path, query, expected) in [
            (
                Kind::Pod,
                Exec,
                "",
                "command=sh&command=-c&stdin=true&stdout=1&container=c",
                json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "stdout": true, "container": "c",
                    "command": ["sh", "-c"]}),
            ),
            (
                Kind::Pod,
                Attach,
                "",
                "tty=true&command=sh",
                json!({"kind": "PodAttachOptions", "apiVersion": "v1", "tty": true}),
            ),
            (
                Kind::Pod,
                PortForward,
                "",
                "ports=80,81&ports=82&ports=x",
                json!({"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": [80, 81, 82]}),
            ),
            (
                Kind::Service,
                Proxy,
                "/api/v1/namespaces/a/services/b:80/proxy/x/y",
                "",
                json!({"kind": "ServiceProxyOptions", "apiVersion": "v1", "path": "/x/y"}),
            ),
        ] {
            assert_eq!(options(kind, part, path, &Query::parse(query)), expected);
        }
        let names = ["p", "p:80", "http:p:80", "https:p:"].map(bare);
        assert_eq!(names, ["p"; 4]);
    }
}
