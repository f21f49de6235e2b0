//! API services: each names the server of one version of an API group. `api::aggregation` passes requests on if that
//! is another server.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceCondition, APIServiceSpec, APIServiceStatus,
};
use serde_json::{Value, json};

use super::columns::Column;
use super::resource::Resource;
use apimachinery::default::set;
use apimachinery::validate::{FieldErrors, Path, names};
use object::ServedKind;
use object::conditions::ConditionStatus;

/// The highest priority of a group.
const MAX_GROUP_PRIORITY: i32 = 20_000;
/// The highest priority of a version in its group.
const MAX_VERSION_PRIORITY: i32 = 1_000;

/// Groups and versions that this server serves although none of their kinds is stored.
pub const ANSWERED_ONLY: [(&str, &str); 3] =
    [("authentication.k8s.io", "v1"), ("authorization.k8s.io", "v1"), ("podium.dev", "v1alpha1")];

/// Returns whether a group and version is built in, so that no other server may serve it. The metrics API does not
/// count as built in, because a metrics server may replace Podium's.
pub fn is_built_in(group: &str, version: &str) -> bool {
    ANSWERED_ONLY.contains(&(group, version))
        || ServedKind::built_in().any(|served| (served.group(), served.version()) == (group, version))
}

impl Resource for APIService {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    // `v1.` is the name of the core group's APIService.
    const NAME_RULE: fn(&str) -> Vec<String> = names::path_segment;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Service", "The reference to the service that hosts this API endpoint.", |api, _| {
            let service = api.spec.as_ref().and_then(|spec| spec.service.as_ref());
            json!(service.map_or_else(
                || "Local".into(),
                |service| {
                    let name = |text: &Option<String>| text.clone().unwrap_or_default();
                    format!("{}/{}", name(&service.namespace), name(&service.name))
                }
            ))
        }),
        Column::text("Available", "Whether this service is available.", |api, _| available(api)),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        if let Some(service) = self.spec.as_mut().and_then(|spec| spec.service.as_mut()) {
            set(&mut service.port, 443);
        }
    }

    /// Marks an APIService without a service as available: this server serves its version.
    fn prepare_for_create(&mut self) {
        if self.spec.as_ref().is_some_and(|spec| spec.service.is_none()) {
            let local = APIServiceCondition {
                type_: "Available".into(),
                status: ConditionStatus::True.into(),
                reason: Some("Local".into()),
                message: Some("Local APIServices are always available".into()),
                last_transition_time: self.metadata.creation_timestamp.clone(),
            };
            self.status = Some(APIServiceStatus { conditions: Some(vec![local]) });
        }
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let empty = APIServiceSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&empty);
        let path = Path::root("spec");
        let group = spec.group.as_deref().unwrap_or_default();
        let version = spec.version.as_deref().unwrap_or_default();
        let expected = format!("{version}.{group}");
        let name = self.metadata.name.as_deref().unwrap_or_default();
        if name != expected {
            let metadata = Path::root("metadata");
            errors.invalid(
                &metadata.child("name"),
                name,
                format!("must be `spec.version+\".\"+spec.group`: {expected:?}"),
            );
        }
        if group.is_empty() {
            if version != "v1" {
                errors.required(
                    &path.child("group"),
                    "only v1 may have an empty group and it better be legacy kube",
                );
            }
        } else {
            errors.invalid_each(&path.child("group"), group, names::dns_1123_subdomain(group));
        }
        errors.invalid_each(&path.child("version"), version, names::dns_1035_label(version));
        for (field, priority, most) in [
            ("groupPriorityMinimum", spec.group_priority_minimum, MAX_GROUP_PRIORITY),
            ("versionPriority", spec.version_priority, MAX_VERSION_PRIORITY),
        ] {
            if !(1..=most).contains(&priority) {
                let detail = format!("must be positive and less than {most}");
                errors.invalid(&path.child(field), &priority, detail);
            }
        }
        service(errors, &path, spec);
    }
}

fn service(errors: &mut FieldErrors, path: &Path<'_>, spec: &APIServiceSpec) {
    let bundle = spec.ca_bundle.as_ref().is_some_and(|bundle| !bundle.0.is_empty());
    let insecure = spec.insecure_skip_tls_verify == Some(true);
    let Some(service) = &spec.service else {
        if bundle {
            errors.invalid_itself(&path.child("caBundle"), "local APIServices may not have a caBundle");
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(&path.child("insecureSkipTLSVerify"), &true, detail);
        }
        return;
    };
    let at = path.child("service");
    let (group, version) = (spec.group.as_deref(), spec.version.as_deref());
    if is_built_in(group.unwrap_or_default(), version.unwrap_or_default()) {
        errors.forbidden(
            &at,
            "this group and version is built in; its requests are not forwarded to a service",
        );
    }
    for (field, value) in [("namespace", &service.namespace), ("name", &service.name)] {
        if value.as_ref().is_none_or(String::is_empty) {
            errors.required(&at.child(field), "");
        }
    }
    if let Some(port) = service.port
        && !names::port_number(port.into()).is_empty()
    {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(&at.child("port"), &port, detail);
    }
    if insecure && bundle {
        let detail = "may not be true if caBundle is present";
        errors.invalid(&path.child("insecureSkipTLSVerify"), &true, detail);
    }
}

fn available(api: &APIService) -> Value {
    let conditions = api.status.as_ref().and_then(|status| status.conditions.as_ref());
    let found = conditions.into_iter().flatten().find(|condition| condition.type_ == "Available");
    json!(match found {
        None => "Unknown".into(),
        Some(condition) if condition.status == "True" => "True".into(),
        Some(condition) =>
            format!("{} ({})", condition.status, condition.reason.as_deref().unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_groups_except_metrics_cannot_be_aggregated_api_17() {
        for (group, version, expected) in [
            ("", "v1", true),
            ("apps", "v1", true),
            ("authorization.k8s.io", "v1", true),
            ("apiregistration.k8s.io", "v1", true),
            ("metrics.k8s.io", "v1beta1", false),
            ("apps", "v9", false),
            ("example.com", "v1", false),
        ] {
            assert_eq!(is_built_in(group, version), expected, "{version}.{group}");
        }
    }
}
