//! The dialog for a port-forward to a pod; for a service or a workload, to one of its pods.

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::dialog::{Field, Fields, Focus};
use crate::effect::{Dialog, Effect, ForwardRequest};
use base::sort::SliceOrder;
use console_data::context::Context;
use console_data::related;
use console_data::resource::ObjectRef;
use object::host_ports::declared_ports;
use object::owner::is_terminating;
use object::pod::is_ready;

/// A named port: the text before and after its number in a hint, and the number.
struct PortHint {
    number: i32,
    hint: String,
}

/// Shows the dialog for the ports of a pod, or of a pod of the service or workload: a ready one, else a running one.
pub fn open_dialog(cx: &Context<'_>, object: ObjectRef) -> Effect {
    if object.kind.is::<Pod>() {
        return Effect::dialog(dialog(cx, object, None));
    }
    let mut pods = related::pods_of(cx, &object);
    pods.retain(|pod| runs(pod));
    pods.order_by(|a, b| (!is_ready(a), &a.metadata.name).cmp(&(!is_ready(b), &b.metadata.name)));
    let Some(pod) = pods.first() else {
        return Effect::info(format!("{} has no running pod to forward to", object.describe()));
    };
    let uid = object.uid.as_ref().filter(|_| object.kind.is::<Service>());
    let ports = match uid.and_then(|uid| cx.stores.services().get(uid)) {
        Some(service) => ports_of_a_service(service, pod),
        None => ports(pod, None),
    };
    let state = if is_ready(pod) { "ready" } else { "not ready" };
    let pod = ObjectRef::of(cx.catalogue.kind::<Pod>(), *pod);
    let through = format!("Through Pod {}, which is {state}.", pod.name);
    Effect::dialog(ports_dialog(&object, pod, &ports).line(through))
}

/// Creates the dialog for the ports of a pod, prefilled with the first port that a container names.
pub fn dialog(cx: &Context<'_>, pod: ObjectRef, container: Option<&str>) -> Dialog {
    let namespace = pod.namespace.as_deref().unwrap_or_default();
    let ports =
        cx.stores.pods().by_name(namespace, &pod.name).map(|pod| ports(pod, container)).unwrap_or_default();
    ports_dialog(&pod.clone(), pod, &ports)
}

/// Creates the dialog that requests another local port, with the reason why the previous one could not be used.
pub fn another_port(cx: &Context<'_>, forward: &ForwardRequest, reason: String) -> Dialog {
    let pod = forward.pod.clone();
    let namespace = pod.namespace.as_deref().unwrap_or_default();
    let mut ports =
        cx.stores.pods().by_name(namespace, &pod.name).map(|pod| ports(pod, None)).unwrap_or_default();
    let remote = i32::from(forward.remote);
    match ports.iter().position(|port| port.number == remote) {
        Some(at) => ports.swap(0, at),
        None => ports.insert(0, PortHint { number: remote, hint: remote.to_string() }),
    }
    let mut dialog = ports_dialog(&pod.clone(), pod, &ports);
    dialog.focus = Focus::Field(LOCAL);
    dialog.error = Some(reason);
    dialog
}

/// The index of the field for the local port.
const LOCAL: usize = 1;

/// Returns the default local port: the pod's, except that ordinary users may not listen below 1024.
fn local_port(remote: u16) -> u16 {
    const PRIVILEGED: std::ops::Range<u16> = 0..1024;
    const ABOVE: u16 = 8000;
    if PRIVILEGED.contains(&remote) { remote + ABOVE } else { remote }
}

fn ports_dialog(of: &ObjectRef, pod: ObjectRef, ports: &[PortHint]) -> Dialog {
    let first = ports.first().map(|port| port.number.to_string()).unwrap_or_default();
    let mut fields = Fields::default();
    let hints: Vec<&str> = ports.iter().map(|port| port.hint.as_str()).collect();
    let hint = if hints.is_empty() { "its containers declare none".to_owned() } else { hints.join(", ") };
    let remote = fields.add(Field::number("port of the pod", first).hint(&hint));
    let local =
        fields.add(Field::number_or("local port", "the same, or 8000 more below 1024; 0 picks a free one"));
    Dialog::new(format!("Forward a port of {}", of.describe()), "Forward", move |dialog, _| {
        let port = |number: i32, label: &str| {
            u16::try_from(number).map_err(|_| format!("{label}: a port is at most {}", u16::MAX))
        };
        let remote = dialog.number(remote)?.filter(|port| *port > 0).ok_or("port of the pod: required")?;
        let remote = port(remote, "port of the pod")?;
        let local = dialog.number(local)?.map(|local| port(local, "local port")).transpose()?;
        Ok(vec![Effect::Forward(ForwardRequest { pod: pod.clone(), remote, local: local.unwrap_or_else(|| local_port(remote)) })])
    })
    .line("Connections to 127.0.0.1 go to the pod, or to its replacement. It runs in the background; :pf lists all.")
    .fields(fields)
}

/// Reports whether a connection to the pod may succeed.
fn runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Running") && !is_terminating(&pod.metadata)
}

/// Returns the ports that containers name, or those of one container.
fn ports(pod: &Pod, container: Option<&str>) -> Vec<PortHint> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter(|one| container.is_none_or(|chosen| chosen == one.name))
        .flat_map(|one| one.ports.iter().flatten())
        .filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP")
        .map(|port| {
            let name = port.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            PortHint { number: port.container_port, hint: format!("{}{name}", port.container_port) }
        })
        .collect()
}

/// Returns the pod's ports behind those of the service. A port name that the pod does not have is skipped.
fn ports_of_a_service(service: &Service, pod: &Pod) -> Vec<PortHint> {
    let target = |port: &ServicePort| match &port.target_port {
        None | Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let mut all = declared_ports(pod);
            all.find(|port| port.name.as_ref() == Some(name)).map(|port| port.container_port)
        }
    };
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports
        .filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP")
        .filter_map(|port| {
            let number = target(port)?;
            let name = port.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            let hint = match port.port {
                same if same == number => format!("{number}{name}"),
                of_service => format!("{number} for the service's {of_service}{name}"),
            };
            Some(PortHint { number, hint })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_privileged_port_is_forwarded_from_an_ordinary_one_con_16() {
        for (remote, local) in
            [(80, 8080), (443, 8443), (1023, 9023), (1024, 1024), (8080, 8080), (65_535, 65_535)]
        {
            assert_eq!(local_port(remote), local);
        }
    }
}
