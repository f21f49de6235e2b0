//! The status of an Ingress, which states the address that it is served at.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use k8s_openapi::api::networking::v1::{
    Ingress, IngressLoadBalancerIngress, IngressLoadBalancerStatus, IngressPortStatus,
};

use api::{Api, ApiError};
use object::{Key, SharedObject};
use reconcile::ignore_not_found;

/// Writes the address of an Ingress, unless the status has it already.
pub(super) fn write_address(api: &Api, ingress: &SharedObject<Ingress>, http: SocketAddr, https: SocketAddr) {
    let points = points(http, https);
    let current = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    if current.and_then(|balancer| balancer.ingress.as_ref()) != Some(&points) {
        write(api, &ingress.key(), |balancer| balancer.ingress = Some(points.clone()));
    }
}

/// Clears the Ingress's addresses if they are still those of this controller: another one may have written its own.
pub(super) fn withdraw(api: &Api, key: &Key, http: SocketAddr, https: SocketAddr) {
    let points = points(http, https);
    write(api, key, |balancer| {
        if balancer.ingress.as_ref() == Some(&points) {
            balancer.ingress = None;
        }
    });
}

fn write(api: &Api, key: &Key, edit: impl Fn(&mut IngressLoadBalancerStatus)) {
    let written = api.modify_status::<Ingress>(key, |ingress| {
        edit(ingress.status.get_or_insert_default().load_balancer.get_or_insert_default());
        Ok::<(), ApiError>(())
    });
    if let Err(error) = ignore_not_found(written) {
        // The next change of any object tries again.
        tracing::warn!("cannot write the status of Ingress {key}: {error}");
    }
}

fn points(http: SocketAddr, https: SocketAddr) -> Vec<IngressLoadBalancerIngress> {
    let ip = match http.ip() {
        ip if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        ip => ip,
    };
    let port = |address: SocketAddr| IngressPortStatus {
        port: i32::from(address.port()),
        protocol: "TCP".into(),
        error: None,
    };
    let ports = Some(vec![port(http), port(https)]);
    vec![IngressLoadBalancerIngress { ip: Some(ip.to_string()), hostname: None, ports }]
}
