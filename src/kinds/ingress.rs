//! Ingresses: they route requests from outside to services. The network layer serves those of its class.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, Ingress, IngressBackend, IngressRule, IngressSpec, IngressTLS,
};
use serde_json::{Value, json};

use super::columns::{Column, NONE};
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, names};
use object::ingress::CLASS_ANNOTATION;

/// The number of hosts that a table shows.
const MAX_PRINTED_HOSTS: usize = 3;
/// Sequences that no path may contain.
const NOT_IN_PATHS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
/// Sequences that no path may end with.
const NOT_AT_ENDS: [&str; 2] = ["/..", "/."];

impl Resource for Ingress {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Class", "Class of the ingress controller.", |ingress, _| {
            json!(ingress.spec.as_ref().and_then(|s| s.ingress_class_name.as_deref()).unwrap_or(NONE))
        }),
        Column::text("Hosts", "Hosts that this ingress has rules for.", |ingress, _| hosts(ingress)),
        Column::text("Address", "Address is a list containing ingress points.", |ingress, _| {
            addresses(ingress)
        }),
        Column::text("Ports", "The ports that the ingress serves.", |ingress, _| {
            let tls = ingress.spec.as_ref().and_then(|s| s.tls.as_ref());
            json!(if tls.is_some_and(|tls| !tls.is_empty()) { "80, 443" } else { "80" })
        }),
        Column::age(),
    ];

    fn complete_status(&mut self) {
        self.status.get_or_insert_default().load_balancer.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let empty = IngressSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&empty);
        let path = Path::root("spec");
        if spec.rules.as_ref().is_none_or(Vec::is_empty) && spec.default_backend.is_none() {
            errors.invalid(&path, &Value::Null, "either `defaultBackend` or `rules` must be specified");
        }
        if let Some(own) = &spec.default_backend {
            backend(errors, &path.child("defaultBackend"), own);
        }
        for (i, one) in spec.rules.iter().flatten().enumerate() {
            rule(errors, &path.child("rules").index(i), one);
        }
        for (i, one) in spec.tls.iter().flatten().enumerate() {
            tls(errors, &path.child("tls").index(i), one);
        }
        if let Some(class) = &spec.ingress_class_name {
            errors.invalid_each(&path.child("ingressClassName"), class, names::dns_1123_subdomain(class));
        }
    }

    fn validate_create(&self, errors: &mut FieldErrors) {
        let annotation = self.metadata.annotations.as_ref().and_then(|all| all.get(CLASS_ANNOTATION));
        let class = self.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_ref());
        if let (Some(annotation), Some(class)) = (annotation, class)
            && annotation != class
        {
            let path = Path::root("annotations");
            let detail = "must match `ingressClassName` when both are specified";
            errors.invalid(&path.child(CLASS_ANNOTATION), annotation, detail);
        }
        self.validate(errors);
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        let balancer = self.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let path = Path::root("status");
        let path = path.child("loadBalancer");
        let list = path.child("ingress");
        for (path, point) in list.each(balancer.and_then(|b| b.ingress.as_ref()).into_iter().flatten()) {
            errors.optional_name(&path.child("ip"), point.ip.as_deref(), names::ip);
            if let Some(name) = point.hostname.as_ref().filter(|name| !name.is_empty()) {
                let path = path.child("hostname");
                errors.invalid_each(&path, name, names::dns_1123_subdomain(name));
                not_an_address(errors, &path, name);
            }
        }
    }
}

fn hosts(ingress: &Ingress) -> Value {
    let rules = ingress.spec.as_ref().and_then(|spec| spec.rules.as_deref()).unwrap_or_default();
    let named = rules.iter().filter_map(|rule| rule.host.as_deref()).filter(|host| !host.is_empty());
    let shown: Vec<&str> = named.take(MAX_PRINTED_HOSTS).collect();
    if shown.is_empty() {
        return json!("*");
    }
    let more = rules.len().saturating_sub(MAX_PRINTED_HOSTS);
    let text = shown.join(",");
    json!(if shown.len() == MAX_PRINTED_HOSTS && more > 0 {
        format!("{text} + {more} more...")
    } else {
        text
    })
}

fn addresses(ingress: &Ingress) -> Value {
    let balancer = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let points = balancer.and_then(|b| b.ingress.as_ref()).into_iter().flatten();
    let named = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let texts: Vec<String> =
        points.filter_map(|point| named(&point.ip).or_else(|| named(&point.hostname))).collect();
    json!(texts.join(","))
}

fn not_an_address(errors: &mut FieldErrors, path: &Path<'_>, host: &str) {
    if host.parse::<IpAddr>().is_ok() {
        errors.invalid(path, host, "must be a DNS name, not an IP address");
    }
}

/// Validates a host name, or a wildcard for all hosts directly below a domain.
fn any_host(errors: &mut FieldErrors, path: &Path<'_>, host: &str) {
    let faults = if host.contains('*') {
        names::wildcard_dns_1123_subdomain(host)
    } else {
        names::dns_1123_subdomain(host)
    };
    errors.invalid_each(path, host, faults);
}

fn rule(errors: &mut FieldErrors, path: &Path<'_>, rule: &IngressRule) {
    if let Some(host) = rule.host.as_deref().filter(|host| !host.is_empty()) {
        let path = path.child("host");
        not_an_address(errors, &path, host);
        any_host(errors, &path, host);
    }
    let Some(http) = &rule.http else { return };
    let path = path.child("http");
    let list = path.child("paths");
    if http.paths.is_empty() {
        errors.required(&list, "");
    }
    for (i, one) in http.paths.iter().enumerate() {
        http_path(errors, &list.index(i), one);
    }
}

fn http_path(errors: &mut FieldErrors, path: &Path<'_>, one: &HTTPIngressPath) {
    let at = path.child("path");
    let text = one.path.as_deref().unwrap_or_default();
    match one.path_type.as_str() {
        "" => return errors.required(&path.child("pathType"), "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                errors.invalid(&at, text, "must be an absolute path");
            }
            for wrong in NOT_IN_PATHS.iter().filter(|wrong| text.contains(**wrong)) {
                errors.invalid(&at, text, format!("must not contain '{wrong}'"));
            }
            for wrong in NOT_AT_ENDS.iter().filter(|wrong| text.ends_with(**wrong)) {
                errors.invalid(&at, text, format!("cannot end with '{wrong}'"));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                errors.invalid(&at, text, "must be an absolute path");
            }
        }
        other => {
            errors.unsupported(
                &path.child("pathType"),
                other,
                &["Exact", "ImplementationSpecific", "Prefix"],
            );
        }
    }
    backend(errors, &path.child("backend"), &one.backend);
}

fn backend(errors: &mut FieldErrors, path: &Path<'_>, backend: &IngressBackend) {
    match (&backend.resource, &backend.service) {
        (Some(_), Some(_)) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (Some(resource), None) => {
            let path = path.child("resource");
            typed_reference(errors, &path, resource.api_group.as_deref(), &resource.kind, &resource.name);
        }
        (None, Some(service)) => {
            let at = path.child("service");
            errors.required_name(&at.child("name"), &service.name, Service::NAME_RULE);
            let port = service.port.as_ref();
            let name = port.and_then(|port| port.name.as_deref()).filter(|name| !name.is_empty());
            let number = port.and_then(|port| port.number).filter(|number| *number != 0);
            let port = at.child("port");
            match (name, number) {
                (Some(_), Some(_)) => errors.invalid(path, "", "cannot set both port name & port number"),
                (Some(name), None) => {
                    errors.invalid_each(&port.child("name"), name, names::port_name(name));
                }
                (None, Some(number)) => {
                    let faults = names::port_number(number.into());
                    errors.invalid_each(&port.child("number"), &number, faults);
                }
                (None, None) => errors.required(path, "port name or number is required"),
            }
        }
        (None, None) => errors.invalid(path, "", "resource or service backend is required"),
    }
}

fn tls(errors: &mut FieldErrors, path: &Path<'_>, tls: &IngressTLS) {
    for (i, host) in tls.hosts.iter().flatten().enumerate() {
        any_host(errors, &path.child("hosts").index(i), host);
    }
    errors.optional_name(&path.child("secretName"), tls.secret_name.as_deref(), names::dns_1123_subdomain);
}

/// Validates a reference to an object by API group, kind and name.
pub(super) fn typed_reference(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    group: Option<&str>,
    kind: &str,
    name: &str,
) {
    if let Some(group) = group {
        errors.invalid_each(&path.child("apiGroup"), group, names::dns_1123_subdomain(group));
    }
    for (field, value) in [("kind", kind), ("name", name)] {
        errors.required_name(&path.child(field), value, names::path_segment);
    }
}
