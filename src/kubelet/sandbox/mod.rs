//! Composes a pod's sandbox: its host name, its resolv.conf and hosts (POD-14, NET-3).

mod hosts;
mod resolv_conf;

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::node::NodeConfig;
use super::runtime::{HostShares, SandboxSpec};
use super::{resize, spec, volumes};
use base::optional_file::read_optional;
use base::resolv_conf::ResolvConf;

use resolv_conf::ClusterDns;

pub(super) use hosts::{service_lines, with_services};

/// The file with the machine's DNS servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The machine's own names.
const HOSTS: &str = "/etc/hosts";
/// The longest host name that the kernel accepts.
const MAX_HOSTNAME: usize = 64;
/// The port of DNS; resolv.conf cannot name another.
const DNS_PORT: u16 = 53;

/// A setting of a sandbox that could not be applied: the reason and message of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Warning {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Returns true if pods of this node cannot reach the cluster's DNS: the node may not bind port 53, the only port that
/// resolv.conf can name.
pub(super) fn needs_service_lines(node: &NodeConfig) -> bool {
    node.dns.is_some() && !node.hollow && node.low_ports.served(DNS_PORT) != DNS_PORT
}

/// Returns the spec of a pod's sandbox, and the settings that could not be applied; an error if the pod's host name is
/// too long.
///
/// `services` are lines for its hosts file, if the pod cannot reach the cluster's DNS.
pub(super) fn spec(
    pod: &Pod,
    (ip, second_ip): (IpAddr, Option<IpAddr>),
    node: &NodeConfig,
    services: &str,
) -> Result<(SandboxSpec, Vec<Warning>), String> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let read = |path: &str| {
        if node.hollow { String::new() } else { read_optional(path) }
    };
    let names = Names::of(pod, &node.domain);
    let spec = spec::spec(pod);
    let machine = ResolvConf::parse(&read(RESOLV_CONF));
    let has_port = node.low_ports.served(DNS_PORT) == DNS_PORT;
    let dns = ClusterDns { server: node.dns, has_port, domain: &node.domain };
    let (resolv_conf, warnings) = resolv_conf::resolv_conf(pod, dns, &machine);
    let own_hosts = if spec.host_network == Some(true) {
        hosts::of_machine(spec, &read(HOSTS))
    } else {
        hosts::of_pod(spec, (ip, second_ip), &names)
    };
    let sandbox = SandboxSpec {
        pod_uid: text(&pod.metadata.uid),
        namespace: text(&pod.metadata.namespace),
        name: text(&pod.metadata.name),
        hosts: Some(with_services(&own_hosts, services)),
        resolv_conf,
        memory_volumes: volumes::memory_volumes(pod, &node.capacity, volumes::Owners::of(pod).group),
        share_process_namespace: spec.share_process_namespace == Some(true),
        host: HostShares {
            pid: spec.host_pid == Some(true),
            ipc: spec.host_ipc == Some(true),
            network: spec.host_network == Some(true),
        },
        // With the node's network, a container has the node's name.
        hostname: if spec.host_network == Some(true) {
            node.name.clone()
        } else {
            names.visible_hostname(spec)?
        },
        ip,
        second_ip,
        sysctls: Vec::new(),
        limits: resize::limits_of_pod(pod),
        users: None,
    };
    Ok((sandbox, warnings))
}

/// A pod's names.
#[derive(Debug, PartialEq, Eq)]
struct Names {
    hostname: String,
    /// `hostname.subdomain.namespace.svc.cluster.local`, with a subdomain.
    full: Option<String>,
}

impl Names {
    fn of(pod: &Pod, domain: &str) -> Self {
        let spec = spec::spec(pod);
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(hostname) = given(&spec.hostname_override) {
            return Self { hostname, full: None };
        }
        let mut hostname = given(&spec.hostname).or(pod.metadata.name.clone()).unwrap_or_default();
        // The longest label in DNS.
        hostname.truncate(63);
        let hostname = hostname.trim_end_matches(['-', '.']).to_string();
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let subdomain = given(&spec.subdomain);
        let full = subdomain.map(|subdomain| format!("{hostname}.{subdomain}.{namespace}.svc.{domain}"));
        Self { hostname, full }
    }

    /// Returns the output of `hostname` in the pod's containers; an error, in Kubernetes' words, if the kernel does not
    /// accept the name.
    fn visible_hostname(&self, spec: &PodSpec) -> Result<String, String> {
        match self.full.as_ref().filter(|_| spec.set_hostname_as_fqdn == Some(true)) {
            Some(full) if full.len() > MAX_HOSTNAME => Err(format!(
                "failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long \
                 ({MAX_HOSTNAME} characters is the max, {} characters requested)",
                full.len()
            )),
            Some(full) => Ok(full.clone()),
            None => Ok(self.hostname.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn names(spec: &Value) -> (Names, Result<String, String>) {
        let value = json!({"metadata": {"name": "web-0", "namespace": "shop"}, "spec": spec});
        let pod: Pod = serde_json::from_value(value).unwrap();
        let names = Names::of(&pod, "cluster.local");
        let shown = names.visible_hostname(spec::spec(&pod));
        (names, shown)
    }

    #[test]
    fn a_sandbox_shares_what_its_pod_says_pod_14() {
        let own = HostShares::default();
        for (given, host, share_process_namespace) in [
            (json!({}), own, false),
            (json!({"hostPID": true}), HostShares { pid: true, ..own }, false),
            (json!({"hostIPC": true}), HostShares { ipc: true, ..own }, false),
            (json!({"hostNetwork": true}), HostShares { network: true, ..own }, false),
            (json!({"shareProcessNamespace": true}), own, true),
        ] {
            let mut spec = json!({"containers": [{"name": "c"}]});
            spec.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
            let pod = json!({"metadata": {"name": "web-0"}, "spec": spec});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let node = crate::tests::config();
            let (sandbox, _) = super::spec(&pod, (node.ip, None), &node, "").unwrap();
            assert_eq!(
                (sandbox.host, sandbox.share_process_namespace),
                (host, share_process_namespace),
                "{given}"
            );
            let hostname = if host.network { node.name.as_str() } else { "web-0" };
            assert_eq!(sandbox.hostname, hostname, "{given}");
        }
    }

    #[test]
    fn a_pod_is_called_as_kubernetes_calls_it_pod_14() {
        let containers = json!([{"name": "c"}]);
        for (spec, hostname, full, shown) in [
            (json!({}), "web-0", None, "web-0"),
            (json!({"hostname": "h"}), "h", None, "h"),
            (json!({"hostname": "h", "subdomain": "s"}), "h", Some("h.s.shop.svc.cluster.local"), "h"),
            (
                json!({"subdomain": "s", "setHostnameAsFQDN": true}),
                "web-0",
                Some("web-0.s.shop.svc.cluster.local"),
                "web-0.s.shop.svc.cluster.local",
            ),
            (json!({"setHostnameAsFQDN": true}), "web-0", None, "web-0"),
            (json!({"hostname": "h", "subdomain": "s", "hostnameOverride": "o"}), "o", None, "o"),
            (json!({"hostname": format!("{}-x", "a".repeat(62))}), &"a".repeat(62), None, &"a".repeat(62)),
            (json!({"hostnameOverride": "a".repeat(64)}), &"a".repeat(64), None, &"a".repeat(64)),
        ] {
            let mut spec = spec;
            spec["containers"] = containers.clone();
            let expected = Names { hostname: hostname.into(), full: full.map(Into::into) };
            assert_eq!(names(&spec), (expected, Ok(shown.to_string())));
        }
    }

    #[test]
    fn a_full_name_that_is_too_long_for_a_hostname_is_refused_pod_14() {
        let spec = |hostname: String| {
            json!({"hostname": hostname, "subdomain": "s", "setHostnameAsFQDN": true,
                "containers": [{"name": "c"}]})
        };
        let longest = "a".repeat(64 - ".s.shop.svc.cluster.local".len());
        let full = format!("{longest}.s.shop.svc.cluster.local");
        assert_eq!(names(&spec(longest.clone())).1, Ok(full.clone()));
        let error = format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN a{full} is too long \
             (64 characters is the max, 65 characters requested)"
        );
        assert_eq!(names(&spec(format!("a{longest}"))).1, Err(error));
    }
}
