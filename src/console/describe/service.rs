//! A Service, as `kubectl describe service` has it.

use serde_json::Value;

use super::doc::{Doc, at, identity, items, labels, pairs, text};

/// Writes the description.
pub fn describe(doc: &mut Doc, service: &Value) {
    identity(doc, service);
    labels(doc, service);
    doc.field(0, "Selector", pairs(service, "/spec/selector", "=").join(","));
    doc.field(0, "Type", at(service, "/spec/type"));
    doc.field(0, "IP Family Policy", at(service, "/spec/ipFamilyPolicy"));
    doc.field(0, "IP", at(service, "/spec/clusterIP"));
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
    }
    doc.field(0, "Session Affinity", at(service, "/spec/sessionAffinity"));
}
