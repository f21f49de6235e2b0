//! What a pod's sandbox is made from: its name on the network, its resolv.conf and hosts (POD-14, NET-3).

use std::fmt::Write;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;

use super::node::NodeConfig;
use super::runtime::{HostShares, SandboxSpec};
use super::spec;

/// The sandbox of a pod with this address.
pub(super) fn spec(pod: &Pod, ip: IpAddr, node: &NodeConfig) -> Result<SandboxSpec, String> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let short = hostname(pod);
    let yes = |field: Option<bool>| field == Some(true);
    let spec = spec::spec(pod);
    Ok(SandboxSpec {
        pod_uid: text(&pod.metadata.uid),
        namespace: text(&pod.metadata.namespace),
        name: text(&pod.metadata.name),
        hosts: Some(hosts(pod, ip, &short, &node.domain)),
        resolv_conf: resolv_conf(pod, node),
        share_process_namespace: yes(spec.share_process_namespace),
        host: HostShares {
            pid: yes(spec.host_pid),
            ipc: yes(spec.host_ipc),
            network: yes(spec.host_network),
        },
        hostname: if yes(spec.set_hostname_as_fqdn) { full_hostname(pod, short, node)? } else { short },
        ip,
    })
}

/// The host name with its domain, for pods that want it so (`setHostnameAsFQDN`) and have one.
fn full_hostname(pod: &Pod, hostname: String, node: &NodeConfig) -> Result<String, String> {
    let Some(subdomain) = spec::spec(pod).subdomain.as_deref().filter(|s| !s.is_empty()) else {
        return Ok(hostname);
    };
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let full = format!("{hostname}.{subdomain}.{namespace}.svc.{}", node.domain);
    if full.len() > 64 {
        return Err(format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long (64 characters \
             is the max, {} characters requested)",
            full.len()
        ));
    }
    Ok(full)
}

/// The pod's host name: `spec.hostname`, or its own name, at most 63 characters.
fn hostname(pod: &Pod) -> String {
    let spec = spec::spec(pod);
    let name = spec.hostname.as_ref().filter(|h| !h.is_empty()).or(pod.metadata.name.as_ref());
    let mut name = name.cloned().unwrap_or_default();
    name.truncate(63);
    name.trim_end_matches(['-', '.']).to_string()
}

fn hosts(pod: &Pod, ip: IpAddr, hostname: &str, domain: &str) -> String {
    let spec = spec::spec(pod);
    let mut out = String::from(
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
    );
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let _ = match spec.subdomain.as_deref().filter(|s| !s.is_empty()) {
        Some(subdomain) => {
            writeln!(out, "{ip}\t{hostname}.{subdomain}.{namespace}.svc.{domain}\t{hostname}")
        }
        None => writeln!(out, "{ip}\t{hostname}"),
    };
    let aliases = spec.host_aliases.as_deref().unwrap_or_default();
    if !aliases.is_empty() {
        out.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        let _ = writeln!(
            out,
            "{}\t{}",
            alias.ip,
            alias.hostnames.iter().flatten().cloned().collect::<Vec<_>>().join("\t")
        );
    }
    out
}

fn resolv_conf(pod: &Pod, node: &NodeConfig) -> Option<String> {
    let spec = spec::spec(pod);
    let policy = spec.dns_policy.as_deref().unwrap_or("ClusterFirst");
    let host_network = spec.host_network == Some(true);
    let cluster = match policy {
        "ClusterFirstWithHostNet" => true,
        "ClusterFirst" => !host_network,
        _ => false,
    };
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let (mut servers, mut searches, mut options) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(dns) = node.dns.filter(|_| cluster) {
        let domain = &node.domain;
        servers.push(dns.to_string());
        searches.extend([format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()]);
        options.push("ndots:5".to_string());
    }
    if let Some(own) = &spec.dns_config {
        servers.extend(own.nameservers.iter().flatten().cloned());
        searches.extend(own.searches.iter().flatten().cloned());
        for option in own.options.iter().flatten() {
            let name = option.name.clone().unwrap_or_default();
            options.retain(|known: &String| known.split(':').next() != Some(&name));
            options.push(match &option.value {
                Some(value) => format!("{name}:{value}"),
                None => name,
            });
        }
    }
    if servers.is_empty() {
        return None;
    }
    let mut out = String::new();
    if !searches.is_empty() {
        let _ = writeln!(out, "search {}", searches.join(" "));
    }
    for server in servers {
        let _ = writeln!(out, "nameserver {server}");
    }
    if !options.is_empty() {
        let _ = writeln!(out, "options {}", options.join(" "));
    }
    Some(out)
}
