//! Ingresses of `extensions/v1beta1` and `networking.k8s.io/v1beta1`: a backend is a service's name and port.

use serde_json::{Map, Value, json};

pub(super) fn read(ingress: &mut Value) {
    let Some(spec) = ingress.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(mut backend) = spec.remove("backend") {
        read_backend(&mut backend);
        spec.insert("defaultBackend".into(), backend);
    }
    for path in paths(spec) {
        path.entry("pathType").or_insert_with(|| "ImplementationSpecific".into());
        path.get_mut("backend").into_iter().for_each(read_backend);
    }
}

pub(super) fn show(ingress: &mut Value) {
    let Some(spec) = ingress.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(mut backend) = spec.remove("defaultBackend") {
        show_backend(&mut backend);
        spec.insert("backend".into(), backend);
    }
    for path in paths(spec) {
        path.get_mut("backend").into_iter().for_each(show_backend);
    }
}

fn paths(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let rules = spec.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten();
    let paths = rules.filter_map(|rule| rule.pointer_mut("/http/paths")?.as_array_mut());
    paths.flatten().filter_map(Value::as_object_mut)
}

fn read_backend(backend: &mut Value) {
    let Some(fields) = backend.as_object_mut() else { return };
    let (name, port) = (fields.remove("serviceName"), fields.remove("servicePort"));
    if name.is_none() && port.is_none() {
        return;
    }
    let port = match port {
        Some(Value::String(name)) => json!({"name": name}),
        Some(Value::Null) | None => json!({}),
        Some(number) => json!({"number": number}),
    };
    fields.insert("service".into(), json!({"name": name.unwrap_or_else(|| "".into()), "port": port}));
}

fn show_backend(backend: &mut Value) {
    let Some(fields) = backend.as_object_mut() else { return };
    let Some(service) = fields.remove("service") else { return };
    let port = service.get("port");
    let port = port.and_then(|port| port.get("name").or_else(|| port.get("number"))).cloned();
    fields.insert("serviceName".into(), service.get("name").cloned().unwrap_or_default());
    fields.insert("servicePort".into(), port.unwrap_or_else(|| 0.into()));
}
