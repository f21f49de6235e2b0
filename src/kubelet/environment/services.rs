//! Service environment variables: `NAME_SERVICE_HOST` and the older link variables.

use k8s_openapi::api::core::v1::{Pod, Service};

use super::EnvError;
use object::low_ports::LowPorts;
use object::{Key, SharedObject};
use reconcile::Cache;

/// Receives one variable.
type Set<'a> = dyn FnMut(String, String) -> Result<(), EnvError> + 'a;

/// The services that pods of a namespace see: those of the namespace, and `default/kubernetes`.
pub(crate) fn visible_services(services: &Cache<Service>, namespace: &str) -> Vec<SharedObject<Service>> {
    let mut visible: Vec<SharedObject<Service>> =
        services.get(&Key::new("default", "kubernetes")).into_iter().collect();
    let own = services.in_namespace(namespace);
    visible.retain(|master| !own.iter().any(|s| s.namespace() == "default" && s.name() == master.name()));
    visible.extend(own);
    visible
}

/// Sets the variables of all services with an address; without `links`, of `default/kubernetes` only. Stops at the
/// first error.
///
/// Names contain the declared ports, values the actual ones: low ports may be moved here.
pub(super) fn variables(
    services: &[SharedObject<Service>],
    pod: &Pod,
    links: bool,
    low_ports: LowPorts,
    set: &mut Set<'_>,
) -> Result<(), EnvError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    for service in services {
        let master = service.namespace() == "default" && service.name() == "kubernetes";
        // A namespace's own service of the same name comes later and takes precedence.
        if master || (links && service.namespace() == namespace) {
            of_service(service, low_ports, set)?;
        }
    }
    Ok(())
}

fn of_service(
    service: &SharedObject<Service>,
    low_ports: LowPorts,
    set: &mut Set<'_>,
) -> Result<(), EnvError> {
    let Some(spec) = &service.spec else { return Ok(()) };
    let Some(ip) = spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "None") else {
        return Ok(());
    };
    let ports = spec.ports.as_deref().unwrap_or_default();
    let Some(first) = ports.first() else { return Ok(()) };
    let prefix = variable_name(service.name());
    let served = |port: i32| u16::try_from(port).map_or(port, |port| low_ports.served(port).into());
    set(format!("{prefix}_SERVICE_HOST"), ip.to_string())?;
    set(format!("{prefix}_SERVICE_PORT"), served(first.port).to_string())?;
    for port in ports {
        if let Some(name) = port.name.as_deref().filter(|n| !n.is_empty()) {
            set(format!("{prefix}_SERVICE_PORT_{}", variable_name(name)), served(port.port).to_string())?;
        }
    }
    for (index, port) in ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let url = format!("{}://{ip}:{}", protocol.to_lowercase(), served(port.port));
        if index == 0 {
            set(format!("{prefix}_PORT"), url.clone())?;
        }
        let port_prefix = format!("{prefix}_PORT_{}_{protocol}", port.port);
        set(port_prefix.clone(), url)?;
        set(format!("{port_prefix}_PROTO"), protocol.to_lowercase())?;
        set(format!("{port_prefix}_PORT"), served(port.port).to_string())?;
        set(format!("{port_prefix}_ADDR"), ip.to_string())?;
    }
    Ok(())
}

fn variable_name(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}
