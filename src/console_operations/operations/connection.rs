//! Connection diagnosis: the dialog for the other end.

use k8s_openapi::api::core::v1::Service;

use crate::dialog::{Field, Fields};
use crate::effect::{ConnectionRoute, Dialog, Effect, Route};
use console_data::resource::ObjectRef;

/// Creates the dialog for the other end of a connection from a pod, or to a service.
pub fn dialog(object: &ObjectRef) -> Dialog {
    let namespace = object.namespace.clone().unwrap_or_default();
    let own = format!("{namespace}/{}", object.name);
    let to_service = object.kind.is::<Service>();
    let mut fields = Fields::default();
    let (title, label) = if to_service {
        (format!("Check connections to {}", object.describe()), "from pod")
    } else {
        (format!("Check connections from {}", object.describe()), "to")
    };
    let typed = fields.add(Field::text(label, String::new()));
    let port = to_service.then(|| fields.add(Field::text_or("port", "if the Service has several")));
    let dialog = Dialog::new(title, "Check", move |dialog, _| {
        let text = dialog.text(typed).trim().to_owned();
        let connection = match (text.as_str(), to_service) {
            ("", true) => return Err("the pod is required: NAME or NAMESPACE/NAME".to_owned()),
            ("", false) => {
                return Err(
                    "the destination is required, such as web:80, svc/web, NAMESPACE/POD:80, 10.96.0.1:443"
                        .to_owned(),
                );
            }
            (pod, true) => {
                let source = if pod.contains('/') { pod.to_owned() } else { format!("{namespace}/{pod}") };
                let port = port.map(|field| dialog.text(field).trim()).filter(|port| !port.is_empty());
                let port = port.map_or_else(String::new, |port| format!(":{port}"));
                ConnectionRoute { source, destination: format!("svc/{own}{port}") }
            }
            (destination, false) => {
                ConnectionRoute { source: own.clone(), destination: destination.to_owned() }
            }
        };
        Ok(vec![Effect::open(Route::Connection(connection))])
    });
    let hint = if to_service {
        "the client pod, NAME or NAMESPACE/NAME; the port, if the Service has several"
    } else {
        "a host name, svc/NAME, NAMESPACE/POD or an address, then :PORT"
    };
    dialog.line(hint).fields(fields)
}
