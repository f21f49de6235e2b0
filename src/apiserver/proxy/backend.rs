//! The destination of a proxied request: `[SCHEME:]NAME[:PORT]` of a pod or a service.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Pod;

use api::endpoints::{of_service, served};
use api::{Api, ApiError};
use object::pod::is_terminal;
use object::{Key, Kind};

/// A server to connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) address: SocketAddr,
    pub(super) tls: bool,
}

impl Backend {
    /// Returns the backend of a pod's or service's name in a path.
    pub(super) fn find(api: &Api, kind: Kind, key: &Key) -> Result<Self, ApiError> {
        let kind_name = if kind == Kind::Pod { "pod" } else { "service" };
        let invalid = || ApiError::BadRequest(format!("invalid {kind_name} request \"{}\"", key.name));
        let named = SchemeNamePort::parse(&key.name).ok_or_else(invalid)?;
        let real = Key::new(key.namespace.clone(), named.name.to_string());
        let address = match kind {
            Kind::Pod => of_pod(api, &real, named.port).and_then(|address| address.ok_or_else(invalid))?,
            _ => of_service(api, &real, &key.name, named.port)?,
        };
        if !may_be_reached(address.ip()) {
            return Err(ApiError::BadRequest("address not allowed".into()));
        }
        Ok(Self { address, tls: named.tls })
    }
}

/// The parts of a name in a path.
#[derive(Debug, PartialEq, Eq)]
struct SchemeNamePort<'a> {
    tls: bool,
    name: &'a str,
    port: &'a str,
}

impl<'a> SchemeNamePort<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] if name != "http" && name != "https" => ("", name, port),
            // `http:name` with an empty port has a form of its own: `http:name:`.
            [scheme @ ("http" | "https" | ""), name, port] => (scheme, name, port),
            _ => return None,
        };
        (!name.is_empty()).then_some(Self { tls: scheme == "https", name, port })
    }
}

/// Returns the pod's address and port; `None` if the port is invalid.
fn of_pod(api: &Api, key: &Key, port: &str) -> Result<Option<SocketAddr>, ApiError> {
    let pod = api.get_as::<Pod>(key)?;
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let first = || containers.flat_map(|c| c.ports.iter().flatten()).map(|p| p.container_port).next();
    let port = if port.is_empty() {
        first().and_then(|port| u16::try_from(port).ok()).or(Some(80))
    } else {
        port.parse().ok()
    };
    let Some(port) = port.filter(|port| *port > 0) else { return Ok(None) };
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()?.parse::<IpAddr>().ok());
    let Some(ip) = ip else {
        return Err(ApiError::Unavailable(format!("pod \"{}\" has no address", key.name)));
    };
    if is_terminal(&pod) {
        // Another pod may have its address by now.
        return Err(ApiError::Unavailable(format!("pod \"{}\" has ended", key.name)));
    }
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    Ok(Some(SocketAddr::new(ip, served(api, node, port))))
}

/// Returns true if a pod or endpoint may have this address: an address in a status must not give users who
/// can only write statuses access to the machine's own services.
fn may_be_reached(ip: IpAddr) -> bool {
    let local = match ip {
        IpAddr::V4(ip) => ip == std::net::Ipv4Addr::LOCALHOST || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
    };
    !(local || ip.is_unspecified() || ip.is_multicast())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_have_a_scheme_and_a_port_api_3() {
        let check = |text: &str, expected: Option<(bool, &str, &str)>| {
            let named = SchemeNamePort::parse(text).map(|named| (named.tls, named.name, named.port));
            assert_eq!(named, expected, "{text}");
        };
        check("web", Some((false, "web", "")));
        check("web:80", Some((false, "web", "80")));
        check("web:http", Some((false, "web", "http")));
        check("http:web:80", Some((false, "web", "80")));
        check("https:web:", Some((true, "web", "")));
        check(":web:80", Some((false, "web", "80")));
        check("", None);
        check("ftp:web:80", None);
        check("https::80", None);
        check("a:b:c:d", None);
    }

    /// Another pod may have the address of a pod that has ended.
    #[tokio::test(start_paused = true)]
    async fn a_pod_that_has_ended_is_not_reached() {
        let clock = base::clock::Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let api = Api::new(store::Store::ephemeral(), clock, api::ApiConfig::default());
        let namespace = json!({"metadata": {"name": "default"}});
        let namespace: k8s_openapi::api::core::v1::Namespace = serde_json::from_value(namespace).unwrap();
        api.create_as(namespace).unwrap();
        let pod = json!({"metadata": {"name": "p", "namespace": "default"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        let key = api.create_as::<Pod>(serde_json::from_value(pod).unwrap()).unwrap().key();
        for (phase, reached) in [("Running", true), ("Succeeded", false), ("Failed", false)] {
            api.modify_status::<Pod>(&key, |pod| {
                let status = pod.status.get_or_insert_default();
                (status.phase, status.pod_ip) = (Some(phase.into()), Some("127.72.0.2".into()));
                Ok(())
            })
            .unwrap();
            let result = of_pod(&api, &key, "80").map_err(|error| error.to_string());
            assert_eq!(result.is_ok(), reached, "{phase}: {result:?}");
        }
    }

    #[test]
    fn only_pods_addresses_are_reached_sec_2() {
        for (ip, may) in [
            ("127.72.0.2", true),
            ("10.1.2.3", true),
            ("127.0.0.1", false),
            ("::1", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("224.0.0.1", false),
        ] {
            assert_eq!(may_be_reached(ip.parse().unwrap()), may, "{ip}");
        }
    }
}
