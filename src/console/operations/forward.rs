//! The dialog before a port of a pod is forwarded.

use k8s_openapi::api::core::v1::Pod;

use crate::context::Context;
use crate::dialog::{Field, Fields};
use crate::effect::{Dialog, Effect, Forward};
use crate::resource::ObjectRef;

/// Asks for the ports; the first that a container names stands there already.
pub(crate) fn dialog(cx: &Context<'_>, pod: ObjectRef, container: Option<&str>) -> Dialog {
    let namespace = pod.namespace.as_deref().unwrap_or_default();
    let ports =
        cx.stores.pods().by_name(namespace, &pod.name).map(|pod| ports(pod, container)).unwrap_or_default();
    let named: Vec<String> = ports.iter().map(|(name, port)| format!("{port}{name}")).collect();
    let first = ports.first().map(|(_, port)| port.to_string()).unwrap_or_default();
    let mut fields = Fields::default();
    let hint = if named.is_empty() { "its containers name none".to_owned() } else { named.join(", ") };
    let remote = fields.add(Field::number("port of the pod", first).hint(&hint));
    let local = fields.add(Field::number_or("local port", "the same; 0 picks a free one"));
    Dialog::new(format!("Forward a port of {}", pod.describe()), "Forward", move |dialog, _| {
        let port = |number: i32, what: &str| {
            u16::try_from(number).map_err(|_| format!("{what}: a port is at most {}", u16::MAX))
        };
        let remote = dialog.number(remote)?.filter(|port| *port > 0).ok_or("port of the pod: which one?")?;
        let remote = port(remote, "port of the pod")?;
        let local = dialog.number(local)?.map(|local| port(local, "local port")).transpose()?;
        Ok(vec![Effect::Forward(Forward { pod: pod.clone(), remote, local: local.unwrap_or(remote) })])
    })
    .line("Connections to 127.0.0.1 go to the pod, or to its successor. It goes on in the background; :pf lists all.")
    .fields(fields)
}

/// The ports that containers name, each with a note, those of one container where that is meant.
fn ports(pod: &Pod, container: Option<&str>) -> Vec<(String, i32)> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter(|one| container.is_none_or(|wanted| wanted == one.name))
        .flat_map(|one| one.ports.iter().flatten())
        .filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP")
        .map(|port| {
            let name = port.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            (name, port.container_port)
        })
        .collect()
}
