//! Reads a service: its addresses, and the EndpointSlices that belong to it.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Key;
use super::well_known::label::SERVICE_NAME;

/// Returns a service's cluster IPs, the primary one first; none for a headless service.
pub fn cluster_ips(spec: &ServiceSpec) -> impl Iterator<Item = IpAddr> {
    let listed = spec.cluster_ips.as_deref().filter(|all| !all.is_empty());
    listed.unwrap_or(spec.cluster_ip.as_slice()).iter().filter_map(|ip| ip.parse().ok())
}

/// Returns the addresses of a service's load balancer at which the service's proxies answer. With `ipMode: Proxy`, the
/// load balancer sends packets to an address of its own instead.
pub fn load_balancer_ips(service: &Service) -> impl Iterator<Item = IpAddr> {
    let type_ = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    let status = service.status.as_ref().filter(|_| type_ == Some("LoadBalancer"));
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let points = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    let points = points.filter(|point| point.ip_mode.as_deref() != Some("Proxy"));
    points.filter_map(|point| point.ip.as_ref()?.parse().ok())
}

/// Returns the service that the EndpointSlice with this metadata belongs to.
pub fn of_slice(slice: &ObjectMeta) -> Option<Key> {
    let name = slice.labels.as_ref()?.get(SERVICE_NAME)?;
    Some(Key::new(slice.namespace.as_deref().unwrap_or_default(), name.as_str()))
}
