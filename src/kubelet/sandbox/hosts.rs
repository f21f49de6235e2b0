//! A pod's hosts file as the kubelet writes it, with lines for services if the pod cannot reach the cluster's DNS.

use std::fmt::Write;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{PodSpec, Service};

use super::Names;
use object::SharedObject;

/// The heading of the lines for services. Everything from this heading on is replaced at once.
const SERVICES: &str = "\n# Services: Podium's stand-in for cluster DNS, which may not have port 53 here.\n";
/// The maximum number of services of other namespaces: every pod has its own copy.
const OTHERS: usize = 500;

const OF_POD: &str = "# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
";

/// Returns the hosts file of a pod with an address of its own, and perhaps a second one of the other family.
pub(super) fn of_pod(spec: &PodSpec, (ip, second): (IpAddr, Option<IpAddr>), names: &Names) -> String {
    let mut out = String::from(OF_POD);
    for ip in std::iter::once(ip).chain(second) {
        let _ = match &names.full {
            Some(full) => writeln!(out, "{ip}\t{full}\t{}", names.hostname),
            None => writeln!(out, "{ip}\t{}", names.hostname),
        };
    }
    out + &aliases(spec)
}

/// Returns the hosts file of a pod on the machine's own network.
pub(super) fn of_machine(spec: &PodSpec, machine: &str) -> String {
    format!("# Kubernetes-managed hosts file (host network).\n{machine}{}", aliases(spec))
}

fn aliases(spec: &PodSpec) -> String {
    let aliases = spec.host_aliases.as_deref().unwrap_or_default();
    if aliases.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n# Entries added by HostAliases.\n");
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        let _ = writeln!(out, "{}\t{names}", alias.ip);
    }
    out
}

/// Returns a hosts file with these lines for services, which replace those that it has.
pub(crate) fn with_services(hosts: &str, lines: &str) -> String {
    let own = hosts.split(SERVICES).next().unwrap_or_default();
    if lines.is_empty() { own.to_owned() } else { format!("{own}{SERVICES}{lines}") }
}

/// Lines for the services that have an address, under every name that a pod of the namespace may use.
pub(crate) fn service_lines(services: &[SharedObject<Service>], namespace: &str, domain: &str) -> String {
    let (own, others): (Vec<_>, Vec<_>) = services.iter().partition(|s| s.namespace() == namespace);
    let mut out = String::new();
    for service in own.into_iter().chain(others.into_iter().take(OTHERS)) {
        let ip = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default();
        if ip.parse::<IpAddr>().is_err() {
            continue;
        }
        let (name, of) = (service.name(), service.namespace());
        let _ = write!(out, "{ip}\t{name}.{of}.svc.{domain}\t{name}.{of}.svc\t{name}.{of}");
        if of == namespace {
            let _ = write!(out, "\t{name}");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_file_is_the_kubelets_pod_14() {
        let spec: PodSpec = serde_json::from_value(json!({"containers": [],
            "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["foo", "bar"]}, {"ip": "192.0.2.2"}]}))
        .unwrap();
        let names = |full: Option<&str>| Names { hostname: "web-0".into(), full: full.map(Into::into) };
        let ip = [127, 64, 0, 5].into();
        let aliases = "\n# Entries added by HostAliases.\n192.0.2.1\tfoo\tbar\n192.0.2.2\t\n";
        assert_eq!(of_pod(&spec, (ip, None), &names(None)), format!("{OF_POD}127.64.0.5\tweb-0\n{aliases}"));
        let plain = PodSpec::default();
        assert_eq!(
            of_pod(&plain, (ip, "fd00::5".parse().ok()), &names(Some("web-0.s.d.svc.cluster.local"))),
            format!(
                "{OF_POD}127.64.0.5\tweb-0.s.d.svc.cluster.local\tweb-0\nfd00::5\tweb-0.s.d.svc.cluster.local\tweb-0\n"
            )
        );
        assert_eq!(
            of_machine(&spec, "127.0.0.1 localhost\n"),
            format!("# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n{aliases}")
        );
    }

    #[test]
    fn services_are_replaced_as_a_whole_net_3() {
        let service = |name: &str, namespace: &str, ip: &str| {
            let value =
                json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": ip}});
            SharedObject::<Service>::from_value(serde_json::from_value(value).unwrap())
        };
        let all = [
            service("db", "other", "127.32.1.1"),
            service("web", "shop", "127.32.1.2"),
            service("set", "shop", "None"),
        ];
        let lines = service_lines(&all, "shop", "cluster.local");
        assert_eq!(
            lines,
            "127.32.1.2\tweb.shop.svc.cluster.local\tweb.shop.svc\tweb.shop\tweb\n\
             127.32.1.1\tdb.other.svc.cluster.local\tdb.other.svc\tdb.other\n"
        );
        let with = with_services("own\n", &lines);
        assert!(with.starts_with("own\n\n# Services") && with.ends_with("db.other\n"), "{with}");
        assert_eq!(with_services(&with, "x\n"), format!("own\n{SERVICES}x\n"));
        assert_eq!(with_services(&with, ""), "own\n");
    }
}
