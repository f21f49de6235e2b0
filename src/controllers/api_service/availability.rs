//! The availability of an APIService, in Kubernetes' reasons and messages: from its service and endpoints before the
//! server is probed, and from the probe's result.

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIServiceCondition, ServiceReference};

use object::conditions::{Condition, ConditionStatus};

/// The content of the condition `Available`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Availability {
    pub(super) is_available: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Availability {
    /// Returns the availability of a local APIService.
    pub(super) fn local() -> Self {
        let message = "Local APIServices are always available".into();
        Self { is_available: true, reason: "Local", message }
    }

    /// Returns the availability of a server after a probe.
    pub(super) fn from_probe(answer: Result<(), String>) -> Self {
        match answer {
            Ok(()) => Self { is_available: true, reason: "Passed", message: "all checks passed".into() },
            Err(why) => no("FailedDiscoveryCheck", why),
        }
    }

    /// Returns true if a condition has this content.
    pub(super) fn is_reported_by(&self, condition: &APIServiceCondition) -> bool {
        condition.is(ConditionStatus::from(self.is_available))
            && condition.reason.as_deref() == Some(self.reason)
            && condition.message.as_deref() == Some(&self.message)
    }
}

fn no(reason: &'static str, message: String) -> Availability {
    Availability { is_available: false, reason, message }
}

/// Checks that the service has an endpoint to probe; otherwise returns the reason why the APIService is not
/// available.
pub(super) fn of_service(
    reference: &ServiceReference,
    service: Option<&Service>,
    endpoints: Option<&Endpoints>,
) -> Result<(), Availability> {
    let name = reference.name.as_deref().unwrap_or_default();
    let namespace = reference.namespace.as_deref().unwrap_or_default();
    let Some(service) = service else {
        return Err(no("ServiceNotFound", format!("service/{name} in {namespace:?} is not present")));
    };
    let spec = service.spec.as_ref();
    if spec.is_some_and(|spec| spec.type_.as_deref().is_some_and(|type_| type_ != "ClusterIP")) {
        return Ok(());
    }
    let port = reference.port.unwrap_or(443);
    let mut ports = spec.into_iter().flat_map(|spec| spec.ports.iter().flatten());
    let Some(port_name) = ports.find(|known| known.port == port).map(|known| known.name.as_deref()) else {
        let message = format!("service/{name} in {namespace:?} is not listening on port {port}");
        return Err(no("ServicePortError", message));
    };
    let port_name = port_name.unwrap_or_default();
    let Some(endpoints) = endpoints else {
        let message = format!("cannot find endpoints for service/{name} in {namespace:?}");
        return Err(no("EndpointsNotFound", message));
    };
    let is_active = endpoints.subsets.iter().flatten().any(|subset| {
        let mut ports = subset.ports.iter().flatten();
        subset.addresses.as_ref().is_some_and(|addresses| !addresses.is_empty())
            && ports.any(|port| port.name.as_deref().unwrap_or_default() == port_name)
    });
    if is_active {
        return Ok(());
    }
    let message = format!(
        "endpoints for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
    );
    Err(no("MissingEndpoints", message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_missing_backend_is_reported_in_the_words_of_kubernetes_api_17() {
        let reference: ServiceReference =
            serde_json::from_value(json!({"namespace": "a", "name": "b", "port": 443})).unwrap();
        let service = |type_: &str, port: i32| json!({"spec": {"type": type_, "ports": [{"port": port, "name": "https"}]}});
        let endpoints = |addresses: Value, name: &str| json!({"subsets": [{"addresses": addresses, "ports": [{"port": 1, "name": name}]}]});
        let one = json!([{"ip": "10.0.0.1"}]);
        for (service, endpoints, expected) in [
            (None, None, Some(("ServiceNotFound", "service/b in \"a\" is not present"))),
            (
                Some(service("ClusterIP", 80)),
                None,
                Some(("ServicePortError", "service/b in \"a\" is not listening on port 443")),
            ),
            (
                Some(service("ClusterIP", 443)),
                None,
                Some(("EndpointsNotFound", "cannot find endpoints for service/b in \"a\"")),
            ),
            (
                Some(service("ClusterIP", 443)),
                Some(endpoints(json!([]), "https")),
                Some((
                    "MissingEndpoints",
                    "endpoints for service/b in \"a\" have no addresses with port name \"https\"",
                )),
            ),
            (
                Some(service("ClusterIP", 443)),
                Some(endpoints(one.clone(), "other")),
                Some((
                    "MissingEndpoints",
                    "endpoints for service/b in \"a\" have no addresses with port name \"https\"",
                )),
            ),
            (Some(service("ClusterIP", 443)), Some(endpoints(one, "https")), None),
            (Some(service("ExternalName", 1)), None, None),
        ] {
            let service: Option<Service> = service.map(|service| serde_json::from_value(service).unwrap());
            let endpoints: Option<Endpoints> = endpoints.map(|some| serde_json::from_value(some).unwrap());
            let outcome = of_service(&reference, service.as_ref(), endpoints.as_ref());
            assert_eq!(
                outcome.as_ref().err().map(|error| (error.reason, error.message.as_str())),
                expected,
                "{service:?} {endpoints:?}"
            );
        }
    }
}
