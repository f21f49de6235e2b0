//! `podium address`: the addresses at which programs of this machine reach services and pods (NET-7).
//!
//! Each cluster on a machine has its own part of 127.0.0.0/8 for mirror addresses. Annotations of the Service
//! `default/kubernetes` state this part, so that any client can read it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ListParams;
use kube::{Client, ResourceExt};

use super::flags::InstanceArgs;
use super::output::{api_error, eprint_line, print_table};
use super::runtime::runtime;
use super::why::client_for;
use console_data::decoded::TypedApi;
use object::host_ports::declared_ports;
use object::pod::is_terminal;
use services::proxy::Mirrors;
use why::Destination;

#[derive(Debug, clap::Args)]
pub(super) struct AddressRequest {
    /// svc/NAME, pod/NAME, or the name of either [default: all services and pods of the namespace]
    #[arg(value_name = "OBJECT")]
    objects: Vec<String>,
    /// Namespace of the services and pods
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    #[command(flatten)]
    instance: InstanceArgs,
    /// Path to the kubeconfig file to use [default: the instance's]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// The columns: the object, the port, its address in the cluster, and its address on this machine.
type Row = [String; 4];

pub(super) fn run(request: &AddressRequest) -> Result<()> {
    runtime()?.block_on(async {
        let client = client_for(&request.instance, request.kubeconfig.as_deref()).await?;
        let mirrors = mirrors(&client).await?;
        let rows = rows(&client, request, &mirrors).await?;
        if rows.is_empty() {
            eprint_line(&format!("No services or pods with addresses in namespace {}.", request.namespace));
            return Ok(());
        }
        let head = ["OBJECT", "PORT", "IN THE CLUSTER", "ON THIS MACHINE"].map(str::to_owned);
        print_table(&[vec![head], rows].concat());
        Ok(())
    })
}

/// The addresses on this machine of some services, by namespace and name: `service/web: 80/TCP at 127.32.1.2:80`. Nothing
/// for services without one, and for clusters whose services are not served on this machine.
pub(super) async fn addresses_of_services(client: &Client, services: &[(&str, &str)]) -> Vec<String> {
    let mut lines = Vec::new();
    if services.is_empty() {
        return lines;
    }
    let Ok(mirrors) = mirrors(client).await else { return lines };
    for (namespace, name) in services {
        let api = TypedApi::<Service>::namespaced(client.clone(), namespace);
        let Ok(service) = api.get(name).await else { continue };
        let rows = of_service(&service, &mirrors).into_iter().filter(|[.., address]| address != "-");
        lines.extend(rows.map(|[object, port, _, address]| format!("{object}: {port} at {address}")));
    }
    lines
}

async fn mirrors(client: &Client) -> Result<Mirrors> {
    let services = TypedApi::<Service>::namespaced(client.clone(), "default");
    let service =
        services.get("kubernetes").await.map_err(api_error).context("service default/kubernetes")?;
    Mirrors::read(service.annotations()).context(
        "service default/kubernetes has no annotations with addresses on this machine; `podium address` needs a \
         cluster of Podium with its proxy enabled",
    )
}

async fn rows(client: &Client, request: &AddressRequest, mirrors: &Mirrors) -> Result<Vec<Row>> {
    let services = |namespace: &str| TypedApi::<Service>::namespaced(client.clone(), namespace);
    let pods = |namespace: &str| TypedApi::<Pod>::namespaced(client.clone(), namespace);
    if request.objects.is_empty() {
        let all = services(&request.namespace).list(&ListParams::default()).await.map_err(api_error)?;
        let mut rows: Vec<Row> = all.iter().flat_map(|service| of_service(service, mirrors)).collect();
        let all = pods(&request.namespace).list(&ListParams::default()).await.map_err(api_error)?;
        rows.extend(all.iter().flat_map(|pod| of_pod(pod, mirrors)));
        return Ok(rows);
    }
    let mut rows = Vec::new();
    for object in &request.objects {
        match Destination::parse(object, &request.namespace)?.0 {
            Destination::Service(key) => {
                let service = services(&key.namespace).get(&key.name).await.map_err(api_error)?;
                rows.extend(of_service(&service, mirrors));
            }
            Destination::Pod(key) => {
                let pod = pods(&key.namespace).get(&key.name).await.map_err(api_error)?;
                rows.extend(of_pod(&pod, mirrors));
            }
            Destination::Name(name) => {
                let service = services(&request.namespace).get_opt(&name).await.map_err(api_error)?;
                let pod = pods(&request.namespace).get_opt(&name).await.map_err(api_error)?;
                if service.is_none() && pod.is_none() {
                    bail!("no service or pod \"{name}\" in namespace {}", request.namespace);
                }
                rows.extend(service.iter().flat_map(|service| of_service(service, mirrors)));
                rows.extend(pod.iter().flat_map(|pod| of_pod(pod, mirrors)));
            }
            Destination::Address(ip) => rows.push(of_address(ip, mirrors)),
        }
    }
    Ok(rows)
}

fn of_address(ip: IpAddr, mirrors: &Mirrors) -> Row {
    let machine = on_machine(ip, u16::MAX, mirrors).map(|address| address.ip().to_string());
    [ip.to_string(), "-".to_owned(), ip.to_string(), machine.unwrap_or_else(|| "-".to_owned())]
}

/// Returns the machine's address for a port of an address of the cluster; only IPv4 addresses have mirrors.
fn on_machine(ip: IpAddr, port: u16, mirrors: &Mirrors) -> Option<SocketAddr> {
    match ip {
        IpAddr::V4(ip) => mirrors.on_machine(ip, port),
        IpAddr::V6(_) => None,
    }
}

/// Makes a row for each port at the service's address, its IPv4 one if it has both, and rows for each node port.
fn of_service(service: &Service, mirrors: &Mirrors) -> Vec<Row> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let name = format!("service/{}", service.name_any());
    let own = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    let own: Vec<IpAddr> = own.filter_map(|ip| ip.parse().ok()).collect();
    let first = own.iter().find(|ip| ip.is_ipv4()).or(own.first()).copied();
    let mut rows = Vec::new();
    for port in spec.ports.iter().flatten() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let Ok(number) = u16::try_from(port.port) else { continue };
        if let Some(ip) = first {
            rows.push(row(&name, (number, protocol), ip, mirrors));
        }
        if let Some(node_port) = port.node_port.and_then(|port| u16::try_from(port).ok()) {
            let machine = mirrors.low_ports.served(node_port);
            rows.extend(mirrors.of_machine(&own).into_iter().map(|(at, _)| {
                [
                    name.clone(),
                    format!("{node_port}/{protocol}"),
                    "every node".to_owned(),
                    SocketAddr::new(at, machine).to_string(),
                ]
            }));
        }
    }
    rows
}

/// Makes a row for each port that the pod declares. Other ports are not mirrored on the machine.
fn of_pod(pod: &Pod, mirrors: &Mirrors) -> Vec<Row> {
    let own = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()?.parse::<Ipv4Addr>().ok());
    let Some(own) = own.filter(|_| !is_terminal(pod)) else { return Vec::new() };
    let name = format!("pod/{}", pod.name_any());
    let ports = declared_ports(pod).filter_map(|port| {
        let number = u16::try_from(port.container_port).ok()?;
        Some(row(&name, (number, port.protocol.as_deref().unwrap_or("TCP")), own.into(), mirrors))
    });
    let mut rows: Vec<Row> = ports.collect();
    rows.dedup();
    if rows.is_empty() {
        let machine = "no declared port; use kubectl port-forward".to_owned();
        rows.push([name, "-".to_owned(), own.to_string(), machine]);
    }
    rows
}

fn row(name: &str, (port, protocol): (u16, &str), ip: IpAddr, mirrors: &Mirrors) -> Row {
    let machine = on_machine(ip, port, mirrors).filter(|_| protocol != "SCTP");
    [
        name.to_owned(),
        format!("{port}/{protocol}"),
        SocketAddr::new(ip, port).to_string(),
        machine.map_or_else(|| "-".to_owned(), |address| address.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use object::low_ports::LowPorts;

    fn mirrors() -> Mirrors {
        let net = |text: &str| text.parse().unwrap();
        Mirrors {
            ranges: vec![
                (net("10.96.0.0/16"), net("127.33.0.0/16")),
                (net("10.244.0.0/14"), net("127.68.0.0/14")),
            ],
            low_ports: LowPorts::below(1024),
            has_ipv6: true,
        }
    }

    fn lines(rows: &[Row]) -> Vec<String> {
        rows.iter().map(|row| row.join(" | ")).collect()
    }

    #[test]
    fn each_port_has_its_address_on_the_machine_net_7() {
        let service: Service = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {
            "clusterIP": "10.96.1.2", "clusterIPs": ["10.96.1.2"], "type": "NodePort",
            "ports": [{"port": 80, "nodePort": 30080}, {"port": 99, "protocol": "SCTP"}]}}))
        .unwrap();
        assert_eq!(
            lines(&of_service(&service, &mirrors())),
            [
                "service/web | 80/TCP | 10.96.1.2:80 | 127.33.1.2:8080",
                "service/web | 30080/TCP | every node | 127.0.0.1:30080",
                "service/web | 99/SCTP | 10.96.1.2:99 | -",
            ]
        );
        let dual = |ips: &[&str]| -> Service {
            serde_json::from_value(json!({"metadata": {"name": "six"}, "spec": {"clusterIPs": ips,
                "clusterIP": ips[0], "type": "NodePort", "ports": [{"port": 80, "nodePort": 30081}]}}))
            .unwrap()
        };
        let node_ports = [
            "service/six | 30081/TCP | every node | 127.0.0.1:30081",
            "service/six | 30081/TCP | every node | [::1]:30081",
        ];
        let without = Mirrors { has_ipv6: false, ..mirrors() };
        for (ips, port) in [
            (&["fd00:10:96::9", "10.96.1.9"][..], "service/six | 80/TCP | 10.96.1.9:80 | 127.33.1.9:8080"),
            (&["fd00:10:96::9"], "service/six | 80/TCP | [fd00:10:96::9]:80 | -"),
        ] {
            assert_eq!(lines(&of_service(&dual(ips), &mirrors())), [port, node_ports[0], node_ports[1]]);
            assert_eq!(lines(&of_service(&dual(ips), &without)), [port, node_ports[0]]);
        }
        let headless: Service = serde_json::from_value(
            json!({"metadata": {"name": "db"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
        )
        .unwrap();
        assert!(of_service(&headless, &mirrors()).is_empty());
        let pod = |ports: &serde_json::Value, ip: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "ports": ports}]}, "status": {"podIP": ip}}))
            .unwrap()
        };
        let port = json!([{"containerPort": 9000}]);
        assert_eq!(
            lines(&of_pod(&pod(&port, "10.244.1.2"), &mirrors())),
            ["pod/p | 9000/TCP | 10.244.1.2:9000 | 127.68.1.2:9000"]
        );
        assert_eq!(
            lines(&of_pod(&pod(&port, "10.64.0.2"), &mirrors())),
            ["pod/p | 9000/TCP | 10.64.0.2:9000 | -"],
            "a hollow node's pod"
        );
        assert_eq!(
            lines(&of_pod(&pod(&json!([]), "10.244.1.2"), &mirrors())),
            ["pod/p | - | 10.244.1.2 | no declared port; use kubectl port-forward"]
        );
    }
}
