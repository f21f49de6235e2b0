//! A pod's resolv.conf by its dnsPolicy and dnsConfig, as the kubelet merges them.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig};

use super::Warning;
use crate::spec;
use base::resolv_conf::ResolvConf;

/// The number of servers that libc uses.
const SERVERS: usize = 3;
/// Kubernetes' limits on search domains and on their total length.
const SEARCHES: usize = 32;
const SEARCH_LETTERS: usize = 2048;

/// The cluster's DNS for a node's pods.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClusterDns<'a> {
    /// Its address, if there is a server.
    pub(super) server: Option<IpAddr>,
    /// True if the server listens on the port that libc uses.
    pub(super) has_port: bool,
    /// The cluster's domain.
    pub(super) domain: &'a str,
}

/// Returns the file's text, or `None` if the machine's own file is right, and warnings about omitted entries.
pub(super) fn resolv_conf(
    pod: &Pod,
    dns: ClusterDns<'_>,
    machine: &ResolvConf,
) -> (Option<String>, Vec<Warning>) {
    let spec = spec::spec(pod);
    let own = spec.dns_config.as_ref();
    let host_network = spec.host_network == Some(true);
    let wants_cluster = match spec.dns_policy.as_deref().unwrap_or("ClusterFirst") {
        "ClusterFirstWithHostNet" => true,
        "ClusterFirst" => !host_network,
        _ => false,
    };
    let mut warnings = Vec::new();
    if wants_cluster && dns.server.is_none() {
        warnings.push(missing(pod));
    }
    let mut conf = if spec.dns_policy.as_deref() == Some("None") {
        ResolvConf::default()
    } else if wants_cluster && dns.server.is_some() {
        cluster_first(pod.metadata.namespace.as_deref().unwrap_or_default(), dns, machine)
    } else if own.is_none() {
        return (None, warnings);
    } else {
        machine.clone()
    };
    if let Some(own) = own {
        merge(&mut conf, own);
    }
    warnings.extend(limit(&mut conf));
    (Some(conf.text()).filter(|text| !text.is_empty()), warnings)
}

fn cluster_first(namespace: &str, dns: ClusterDns<'_>, machine: &ResolvConf) -> ResolvConf {
    let domain = dns.domain;
    let own = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
    let mut conf = ResolvConf {
        nameservers: dns.server.iter().map(ToString::to_string).collect(),
        searches: own.to_vec(),
        options: vec!["ndots:5".into()],
    };
    add_new(&mut conf.searches, &machine.searches);
    if !dns.has_port {
        // No server listens where libc asks first; the machine's servers at least know external names.
        add_new(&mut conf.nameservers, &machine.nameservers);
    }
    conf
}

fn merge(conf: &mut ResolvConf, own: &PodDNSConfig) {
    add_new(&mut conf.nameservers, own.nameservers.as_deref().unwrap_or_default());
    add_new(&mut conf.searches, own.searches.as_deref().unwrap_or_default());
    for option in own.options.iter().flatten() {
        let name = option.name.clone().unwrap_or_default();
        conf.options.retain(|known| known.split(':').next() != Some(&name));
        conf.options.push(match &option.value {
            Some(value) if !value.is_empty() => format!("{name}:{value}"),
            _ => name,
        });
    }
}

fn add_new(to: &mut Vec<String>, more: &[String]) {
    for one in more {
        if !to.contains(one) {
            to.push(one.clone());
        }
    }
}

fn missing(pod: &Pod) -> Warning {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let meta = &pod.metadata;
    let pod_name = format!("{}_{}({})", text(&meta.name), text(&meta.namespace), text(&meta.uid));
    let policy = spec::spec(pod).dns_policy.as_deref().unwrap_or("ClusterFirst");
    Warning {
        reason: "MissingClusterDNS",
        message: format!(
            "pod: {pod_name:?}. kubelet does not have ClusterDNS IP configured and cannot create Pod using \
             {policy:?} policy. Falling back to \"Default\" policy."
        ),
    }
}

fn forming(message: String) -> Warning {
    Warning { reason: "DNSConfigForming", message }
}

/// Cuts entries beyond libc's limits; warns in the kubelet's words.
fn limit(conf: &mut ResolvConf) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if conf.nameservers.len() > SERVERS {
        conf.nameservers.truncate(SERVERS);
        warnings.push(forming(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line \
             is: {}",
            conf.nameservers.join(" ")
        )));
    }
    let count = conf.searches.len();
    conf.searches.truncate(SEARCHES);
    while conf.searches.join(" ").len() > SEARCH_LETTERS {
        conf.searches.pop();
    }
    if conf.searches.len() < count {
        warnings.push(forming(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: \
             {}",
            conf.searches.join(" ")
        )));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn dns(server: bool, has_port: bool) -> ClusterDns<'static> {
        ClusterDns { server: server.then(|| [127, 32, 0, 10].into()), has_port, domain: "cluster.local" }
    }

    fn text(spec: &Value, dns: ClusterDns<'_>) -> (String, Vec<Warning>) {
        let mut value = json!({"metadata": {"name": "p", "namespace": "shop"}, "spec": {"containers": []}});
        json_patch::merge(&mut value["spec"], spec);
        let pod: Pod = serde_json::from_value(value).unwrap();
        let machine = ResolvConf::parse("search lan corp\nnameserver 192.0.2.1\noptions rotate\n");
        let (text, warnings) = resolv_conf(&pod, dns, &machine);
        (text.unwrap_or_else(|| "the machine's".into()).replace('\n', "|"), warnings)
    }

    #[test]
    fn policies_and_config_merge_as_the_kubelet_merges_them_net_3() {
        let first = "search shop.svc.cluster.local svc.cluster.local cluster.local lan corp";
        let own = json!({"nameservers": ["192.0.2.1", "192.0.2.9"], "searches": ["lan", "own"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]});
        let with = |policy: &str| json!({"dnsPolicy": policy, "dnsConfig": own.clone()});
        for (spec, expected) in [
            (json!({}), format!("{first}|nameserver 127.32.0.10|options ndots:5|")),
            (json!({"hostNetwork": true}), "the machine's".into()),
            (
                json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"}),
                format!("{first}|nameserver 127.32.0.10|options ndots:5|"),
            ),
            (json!({"dnsPolicy": "Default"}), "the machine's".into()),
            (
                with("ClusterFirst"),
                format!(
                    "{first} own|nameserver 127.32.0.10|nameserver 192.0.2.1|nameserver 192.0.2.9|\
                 options ndots:2 edns0|"
                ),
            ),
            (
                with("Default"),
                "search lan corp own|nameserver 192.0.2.1|nameserver 192.0.2.9|\
                options rotate ndots:2 edns0|"
                    .into(),
            ),
            (
                with("None"),
                "search lan own|nameserver 192.0.2.1|nameserver 192.0.2.9|options ndots:2 edns0|".into(),
            ),
        ] {
            assert_eq!(text(&spec, dns(true, true)), (expected, Vec::new()), "{spec}");
        }
        let (without, warnings) = text(&json!({}), dns(false, true));
        assert_eq!((without.as_str(), warnings[0].reason), ("the machine's", "MissingClusterDNS"));
        assert!(warnings[0].message.starts_with("pod: \"p_shop()\". kubelet does not have ClusterDNS IP"));
        let moved = format!("{first}|nameserver 127.32.0.10|nameserver 192.0.2.1|options ndots:5|");
        assert_eq!(text(&json!({}), dns(true, false)).0, moved);
    }

    #[test]
    fn servers_and_searches_beyond_libc_limits_are_cut_with_a_warning_net_3() {
        let searches: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
        let servers: Vec<String> = (0..5).map(|n| format!("192.0.2.{n}")).collect();
        let spec = json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": servers, "searches": searches}});
        let (cut, warnings) = text(&spec, dns(true, true));
        assert_eq!(cut.matches("nameserver").count(), 3);
        assert!(cut.contains(" s31|") && !cut.contains("s32"), "{cut}");
        assert_eq!(
            warnings[0].message,
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line \
             is: 192.0.2.0 192.0.2.1 192.0.2.2"
        );
        assert!(
            warnings[1]
                .message
                .starts_with("Search Line limits were exceeded, some search paths have been omitted")
        );
    }
}
