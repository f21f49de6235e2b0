//! A Service, as `kubectl describe service` prints it.

use serde_json::Value;

use super::builder::{DocumentBuilder, at, identity, items, labels, pairs, text};

/// Maximum number of endpoints listed; the rest is counted, as kubectl does.
const NAMED: usize = 3;

/// Writes the description; `beside` contains its EndpointSlices.
pub(crate) fn describe(doc: &mut DocumentBuilder, service: &Value, beside: &[Value]) {
    identity(doc, service);
    labels(doc, service);
    doc.field(0, "Selector", pairs(service, "/spec/selector", "=").join(","));
    doc.field(0, "Type", at(service, "/spec/type"));
    doc.field(0, "IP Family Policy", at(service, "/spec/ipFamilyPolicy"));
    let list = |path: &str| items(service, path).map(text).collect::<Vec<_>>().join(",");
    doc.field(0, "IP Families", list("/spec/ipFamilies"));
    doc.field(0, "IP", at(service, "/spec/clusterIP"));
    doc.field(0, "IPs", list("/spec/clusterIPs"));
    if service.pointer("/spec/externalName").is_some() {
        doc.field(0, "External Name", at(service, "/spec/externalName"));
    }
    for port in items(service, "/spec/ports") {
        let name = port["name"].as_str().unwrap_or("<unset>");
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        doc.field(0, "Port", format!("{name}  {}/{protocol}", text(&port["port"])));
        let target = if port["targetPort"].is_null() { &port["port"] } else { &port["targetPort"] };
        doc.field(0, "TargetPort", format!("{}/{protocol}", text(target)));
        if port["nodePort"].as_i64().is_some_and(|port| port > 0) {
            doc.field(0, "NodePort", format!("{name}  {}/{protocol}", text(&port["nodePort"])));
        }
        doc.field(0, "Endpoints", endpoints(beside, port["name"].as_str()));
    }
    doc.field(0, "Session Affinity", at(service, "/spec/sessionAffinity"));
    for (title, path) in [
        ("External Traffic Policy", "/spec/externalTrafficPolicy"),
        ("Internal Traffic Policy", "/spec/internalTrafficPolicy"),
    ] {
        if service.pointer(path).is_some() {
            doc.field(0, title, at(service, path));
        }
    }
}

/// Returns the ready addresses of a port, the first few by name.
fn endpoints(slices: &[Value], port: Option<&str>) -> String {
    let mut found = Vec::new();
    for slice in slices.iter().filter(|object| object["kind"] == "EndpointSlice") {
        let same = |own: &&Value| own["name"].as_str().unwrap_or_default() == port.unwrap_or_default();
        let Some(number) = items(slice, "/ports").find(same).map(|own| text(&own["port"])) else { continue };
        // An endpoint without a ready condition counts as ready.
        let ready = |endpoint: &&Value| endpoint["conditions"]["ready"] != false;
        for endpoint in items(slice, "/endpoints").filter(ready) {
            found.extend(items(endpoint, "/addresses").map(|address| format!("{}:{number}", text(address))));
        }
    }
    match found.len().checked_sub(NAMED) {
        None | Some(0) => found.join(","),
        Some(more) => format!("{} + {more} more...", found[..NAMED].join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// CON-3: the endpoints of a port are the ready ones of its slices; the first three are listed by name.
    #[test]
    fn endpoints_are_named_and_then_counted() {
        let slice = |ready: &[bool]| {
            let endpoints: Vec<Value> = ready
                .iter()
                .enumerate()
                .map(|(at, ready)| json!({ "addresses": [format!("10.0.0.{at}")], "conditions": { "ready": ready } }))
                .collect();
            json!({ "kind": "EndpointSlice", "ports": [{ "name": "http", "port": 80 }], "endpoints": endpoints })
        };
        assert_eq!(endpoints(&[], Some("http")), "");
        assert_eq!(endpoints(&[slice(&[true])], Some("other")), "");
        assert_eq!(endpoints(&[slice(&[true, false, true])], Some("http")), "10.0.0.0:80,10.0.0.2:80");
        assert_eq!(
            endpoints(&[slice(&[true; 5])], Some("http")),
            "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more..."
        );
    }
}
