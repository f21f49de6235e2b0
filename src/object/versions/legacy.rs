//! Versions that Kubernetes has removed and that documents still use: served at their paths, converted from and to the
//! stored version. These versions have defaults of their own, which this module sets before the stored version's.

mod custom_resource_definition;
mod endpoint_slice;
mod horizontal_pod_autoscaler;
mod ingress;
mod pod_disruption_budget;
mod roles;
mod webhooks;
mod workloads;

use serde_json::Value;

use super::{Deprecation, FieldNames, OtherVersion, events};
use crate::Kind;

type Change = fn(&mut Value);

/// No conversion: both versions have the same fields.
fn same(_: &mut Value) {}

/// Declares one version: its kind, group and name, the releases that deprecated and removed it, and its conversions.
const fn old(
    kind: Kind,
    group: &'static str,
    version: &'static str,
    (since, until): (&'static str, &'static str),
    read: Change,
    show: Change,
) -> OtherVersion {
    let deprecation = Some(Deprecation { since, until, replacement: Some("") });
    OtherVersion { kind, group, version, fields: &[], show, read, deprecation, field_names: FieldNames::Own }
}

/// Declares a version with the stored version's fields and defaults of its own.
const fn defaulted(
    kind: Kind,
    group: &'static str,
    version: &'static str,
    times: (&'static str, &'static str),
    read: Change,
) -> OtherVersion {
    let OtherVersion { kind, group, version, fields, show, read, deprecation, .. } =
        old(kind, group, version, times, read, same);
    OtherVersion { kind, group, version, fields, show, read, deprecation, field_names: FieldNames::Stored }
}

/// Declares a version that differs from the stored one only by name.
const fn renamed(
    kind: Kind,
    group: &'static str,
    version: &'static str,
    times: (&'static str, &'static str),
) -> OtherVersion {
    defaulted(kind, group, version, times, same)
}

/// Sets the replacement that Kubernetes recommends, if it is not the stored version; `None` means no recommendation.
const fn replaced_by(of: &OtherVersion, replacement: Option<&'static str>) -> OtherVersion {
    let OtherVersion { kind, group, version, fields, show, read, deprecation, field_names: words } = *of;
    let deprecation = match deprecation {
        Some(Deprecation { since, until, .. }) => Some(Deprecation { since, until, replacement }),
        None => None,
    };
    OtherVersion { kind, group, version, fields, show, read, deprecation, field_names: words }
}

const EXTENSIONS: &str = "extensions";
const APPS: &str = "apps";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const NETWORKING: &str = "networking.k8s.io";

/// The releases are those in the markers of Kubernetes' types: deprecated since, removed in.
pub(super) static LEGACY: &[OtherVersion] = &[
    defaulted(Kind::Deployment, EXTENSIONS, "v1beta1", ("1.8", "1.16"), workloads::extensions_deployment),
    defaulted(Kind::DaemonSet, EXTENSIONS, "v1beta1", ("1.8", "1.16"), workloads::extensions_daemon_set),
    defaulted(Kind::ReplicaSet, EXTENSIONS, "v1beta1", ("1.8", "1.16"), workloads::selected_by_labels),
    renamed(Kind::NetworkPolicy, EXTENSIONS, "v1beta1", ("1.9", "1.16")),
    old(Kind::Ingress, EXTENSIONS, "v1beta1", ("1.14", "1.22"), ingress::read, ingress::show),
    defaulted(Kind::Deployment, APPS, "v1beta1", ("1.8", "1.16"), workloads::apps_v1beta1_deployment),
    defaulted(Kind::StatefulSet, APPS, "v1beta1", ("1.8", "1.16"), workloads::apps_v1beta1_stateful_set),
    renamed(Kind::ControllerRevision, APPS, "v1beta1", ("1.8", "1.16")),
    renamed(Kind::Deployment, APPS, "v1beta2", ("1.9", "1.16")),
    renamed(Kind::DaemonSet, APPS, "v1beta2", ("1.9", "1.16")),
    renamed(Kind::ReplicaSet, APPS, "v1beta2", ("1.9", "1.16")),
    renamed(Kind::StatefulSet, APPS, "v1beta2", ("1.9", "1.16")),
    renamed(Kind::ControllerRevision, APPS, "v1beta2", ("1.9", "1.16")),
    renamed(Kind::CronJob, "batch", "v1beta1", ("1.21", "1.25")),
    old(
        Kind::PodDisruptionBudget,
        "policy",
        "v1beta1",
        ("1.21", "1.25"),
        pod_disruption_budget::read,
        pod_disruption_budget::show,
    ),
    old(
        Kind::HorizontalPodAutoscaler,
        "autoscaling",
        "v2beta1",
        ("1.22", "1.25"),
        horizontal_pod_autoscaler::read,
        horizontal_pod_autoscaler::show,
    ),
    renamed(Kind::HorizontalPodAutoscaler, "autoscaling", "v2beta2", ("1.23", "1.26")),
    old(Kind::Ingress, NETWORKING, "v1beta1", ("1.19", "1.22"), ingress::read, ingress::show),
    // Kubernetes names a wrong replacement; Podium repeats it.
    replaced_by(
        &renamed(Kind::IngressClass, NETWORKING, "v1beta1", ("1.19", "1.22")),
        Some("networking.k8s.io/v1 IngressClassList"),
    ),
    replaced_by(&renamed(Kind::IPAddress, NETWORKING, "v1beta1", ("1.34", "1.37")), None),
    replaced_by(&renamed(Kind::ServiceCIDR, NETWORKING, "v1beta1", ("1.34", "1.37")), None),
    renamed(Kind::ClusterRole, RBAC, "v1beta1", ("1.17", "1.22")),
    renamed(Kind::ClusterRoleBinding, RBAC, "v1beta1", ("1.17", "1.22")),
    renamed(Kind::Role, RBAC, "v1beta1", ("1.17", "1.22")),
    renamed(Kind::RoleBinding, RBAC, "v1beta1", ("1.17", "1.22")),
    renamed(Kind::ClusterRole, RBAC, "v1alpha1", ("1.17", "1.22")),
    old(Kind::ClusterRoleBinding, RBAC, "v1alpha1", ("1.17", "1.22"), roles::read_alpha, roles::show_alpha),
    renamed(Kind::Role, RBAC, "v1alpha1", ("1.17", "1.22")),
    old(Kind::RoleBinding, RBAC, "v1alpha1", ("1.17", "1.22"), roles::read_alpha, roles::show_alpha),
    old(
        Kind::CustomResourceDefinition,
        "apiextensions.k8s.io",
        "v1beta1",
        ("1.16", "1.22"),
        custom_resource_definition::read,
        custom_resource_definition::show,
    ),
    renamed(Kind::APIService, "apiregistration.k8s.io", "v1beta1", ("1.19", "1.22")),
    old(
        Kind::EndpointSlice,
        "discovery.k8s.io",
        "v1beta1",
        ("1.21", "1.25"),
        endpoint_slice::read,
        endpoint_slice::show,
    ),
    OtherVersion {
        fields: events::FIELDS,
        ..replaced_by(
            &old(Kind::Event, "events.k8s.io", "v1beta1", ("1.22", "1.25"), events::read, events::show),
            None,
        )
    },
    renamed(Kind::StorageClass, STORAGE, "v1beta1", ("1.19", "1.22")),
    renamed(Kind::CSIDriver, STORAGE, "v1beta1", ("1.19", "1.22")),
    renamed(Kind::CSINode, STORAGE, "v1beta1", ("1.17", "1.22")),
    renamed(Kind::VolumeAttachment, STORAGE, "v1beta1", ("1.19", "1.22")),
    renamed(Kind::CSIStorageCapacity, STORAGE, "v1beta1", ("1.24", "1.27")),
    renamed(Kind::VolumeAttributesClass, STORAGE, "v1beta1", ("1.34", "1.37")),
    renamed(Kind::PriorityClass, "scheduling.k8s.io", "v1alpha1", ("1.14", "1.17")),
    renamed(Kind::PriorityClass, "scheduling.k8s.io", "v1beta1", ("1.14", "1.22")),
    renamed(Kind::Lease, "coordination.k8s.io", "v1beta1", ("1.19", "1.22")),
    defaulted(
        Kind::MutatingWebhookConfiguration,
        "admissionregistration.k8s.io",
        "v1beta1",
        ("1.16", "1.22"),
        webhooks::read,
    ),
    defaulted(
        Kind::ValidatingWebhookConfiguration,
        "admissionregistration.k8s.io",
        "v1beta1",
        ("1.16", "1.22"),
        webhooks::read,
    ),
    replaced_by(&renamed(Kind::RuntimeClass, "node.k8s.io", "v1beta1", ("1.22", "1.25")), None),
    renamed(Kind::FlowSchema, "flowcontrol.apiserver.k8s.io", "v1beta3", ("1.29", "1.32")),
    renamed(Kind::PriorityLevelConfiguration, "flowcontrol.apiserver.k8s.io", "v1beta3", ("1.29", "1.32")),
];

/// Returns the object below a field, creating it if it is absent. A value of another type is left for the stored
/// version to refuse.
fn within<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut serde_json::Map<String, Value>> {
    let mut fields = object.as_object_mut()?;
    for name in path {
        let below = fields.entry(*name).or_insert(Value::Null);
        if below.is_null() {
            *below = Value::Object(serde_json::Map::new());
        }
        fields = below.as_object_mut()?;
    }
    Some(fields)
}

/// Sets a field unless it has a value.
fn default(fields: &mut serde_json::Map<String, Value>, name: &str, value: Value) {
    let field = fields.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = value;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Object, ServedKind};

    /// Returns a document in the stored version.
    fn stored(document: serde_json::Value) -> serde_json::Value {
        Object::from_any_value(document).unwrap().to_value()
    }

    /// Returns a stored object in another version.
    fn to_version(api_version: &str, stored: &serde_json::Value) -> serde_json::Value {
        let kind = stored["kind"].as_str().unwrap();
        let served = ServedKind::from_api_version(api_version, kind).unwrap();
        let mut shown = served.value(&Object::from_any_value(stored.clone()).unwrap());
        shown["metadata"].as_object_mut().unwrap().remove("managedFields");
        shown
    }

    #[test]
    fn deprecations_are_reported_in_the_words_of_kubernetes_api_18() {
        for (api_version, kind, expected) in [
            (
                "extensions/v1beta1",
                "Deployment",
                Some(
                    "extensions/v1beta1 Deployment is deprecated in v1.8+, unavailable in v1.16+; use apps/v1 Deployment",
                ),
            ),
            (
                "batch/v1beta1",
                "CronJob",
                Some(
                    "batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob",
                ),
            ),
            (
                "apiextensions.k8s.io/v1beta1",
                "CustomResourceDefinition",
                Some(
                    "apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+, unavailable in v1.22+; \
                     use apiextensions.k8s.io/v1 CustomResourceDefinition",
                ),
            ),
            (
                "networking.k8s.io/v1beta1",
                "IngressClass",
                Some(
                    "networking.k8s.io/v1beta1 IngressClass is deprecated in v1.19+, unavailable in v1.22+; use \
                     networking.k8s.io/v1 IngressClassList",
                ),
            ),
            (
                "node.k8s.io/v1beta1",
                "RuntimeClass",
                Some("node.k8s.io/v1beta1 RuntimeClass is deprecated in v1.22+, unavailable in v1.25+"),
            ),
            ("autoscaling/v1", "HorizontalPodAutoscaler", None),
            ("apps/v1", "Deployment", None),
        ] {
            let served = ServedKind::from_api_version(api_version, kind).unwrap();
            assert_eq!(served.deprecation().as_deref(), expected, "{api_version} {kind}");
            assert_eq!(served.is_legacy(), expected.is_some());
        }
    }

    #[test]
    fn old_workloads_have_defaults_of_their_own_api_18() {
        let of = |api_version: &str, kind: &str, spec: serde_json::Value| {
            let mut spec = spec;
            spec["template"] = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
            stored(
                json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}),
            )
        };
        let web = json!({"matchLabels": {"app": "web"}});
        let old = of("extensions/v1beta1", "Deployment", json!({"rollbackTo": {"revision": 1}}));
        assert_eq!((&old["apiVersion"], &old["kind"]), (&json!("apps/v1"), &json!("Deployment")));
        assert_eq!(old["metadata"]["labels"], json!({"app": "web"}));
        let spec = &old["spec"];
        assert_eq!(spec["selector"], web);
        assert_eq!(
            spec["strategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
        );
        assert_eq!(spec["progressDeadlineSeconds"], i32::MAX);
        assert_eq!((&spec["revisionHistoryLimit"], &spec["rollbackTo"]), (&json!(i32::MAX), &json!(null)));
        // Given values stay.
        let legacy_spec = json!({"selector": {"matchLabels": {"a": "b"}}, "strategy": {"type": "Recreate"}, "revisionHistoryLimit": 3});
        let spec = &of("extensions/v1beta1", "Deployment", legacy_spec)["spec"];
        assert_eq!(
            (&spec["selector"], &spec["strategy"], &spec["revisionHistoryLimit"]),
            (&json!({"matchLabels": {"a": "b"}}), &json!({"type": "Recreate"}), &json!(3))
        );
        let spec = &of("apps/v1beta1", "Deployment", json!({}))["spec"];
        assert_eq!((&spec["selector"], &spec["revisionHistoryLimit"]), (&web, &json!(2)));
        assert_eq!(spec["strategy"], json!(null));
        let spec = &of("apps/v1beta2", "Deployment", json!({"selector": web}))["spec"];
        assert_eq!(spec["revisionHistoryLimit"], json!(null));
        let set = of("extensions/v1beta1", "DaemonSet", json!({"templateGeneration": 3}));
        assert_eq!(
            (&set["spec"]["updateStrategy"], &set["spec"]["selector"]),
            (&json!({"type": "OnDelete"}), &web)
        );
        let set = of("extensions/v1beta1", "ReplicaSet", json!({}));
        assert_eq!(set["spec"]["selector"], web);
        let set = of("apps/v1beta1", "StatefulSet", json!({"serviceName": "s"}));
        assert_eq!(
            (&set["spec"]["updateStrategy"], &set["spec"]["selector"]),
            (&json!({"type": "OnDelete"}), &web)
        );
    }

    #[test]
    fn an_ingress_names_its_backends_in_other_words_api_18() {
        let old = json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "Ingress", "metadata": {"name": "web"},
            "spec": {"backend": {"serviceName": "rest", "servicePort": "http"}, "rules": [{"host": "a", "http": {"paths": [
                {"path": "/", "backend": {"serviceName": "web", "servicePort": 80}},
                {"path": "/b", "pathType": "Prefix", "backend": {"resource": {"kind": "B", "name": "b"}}}]}}]}});
        let new = stored(old.clone());
        assert_eq!(
            new["spec"]["defaultBackend"],
            json!({"service": {"name": "rest", "port": {"name": "http"}}})
        );
        let paths = &new["spec"]["rules"][0]["http"]["paths"];
        assert_eq!(
            paths[0],
            json!({"path": "/", "pathType": "ImplementationSpecific",
                "backend": {"service": {"name": "web", "port": {"number": 80}}}})
        );
        assert_eq!(paths[1]["backend"]["resource"]["name"], "b");
        let mut expected = old;
        expected["spec"]["rules"][0]["http"]["paths"][0]["pathType"] = json!("ImplementationSpecific");
        assert_eq!(to_version("networking.k8s.io/v1beta1", &new), expected);
        assert_eq!(to_version("extensions/v1beta1", &new)["spec"], expected["spec"]);
    }

    #[test]
    fn an_empty_selector_of_a_budget_meant_no_pod_api_18() {
        const KEY: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
        let of = |selector: serde_json::Value| {
            stored(
                json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
                "spec": {"minAvailable": 1, "selector": selector}}),
            )
        };
        let none = of(json!({}));
        assert_eq!(
            none["spec"]["selector"],
            json!({"matchExpressions": [{"key": KEY, "operator": "Exists"}]})
        );
        let all = of(json!({"matchExpressions": [{"key": KEY, "operator": "DoesNotExist"}]}));
        assert_eq!(all["spec"]["selector"], json!({}));
        let some = of(json!({"matchLabels": {"a": "b"}}));
        assert_eq!(some["spec"]["selector"], json!({"matchLabels": {"a": "b"}}));
        for (new, old) in [
            (none, json!({})),
            (all, json!({"matchExpressions": [{"key": KEY, "operator": "DoesNotExist"}]})),
            (some, json!({"matchLabels": {"a": "b"}})),
        ] {
            assert_eq!(to_version("policy/v1beta1", &new)["spec"]["selector"], old);
        }
    }

    #[test]
    fn metrics_of_an_autoscaler_lie_flat_api_18() {
        let old = json!({"apiVersion": "autoscaling/v2beta1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 5, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 50}},
                {"type": "Pods", "pods": {"metricName": "p", "targetAverageValue": "1k"}},
                {"type": "Object", "object": {"metricName": "o", "target": {"kind": "Ingress", "name": "i"}, "targetValue": "2k"}},
                {"type": "External", "external": {"metricName": "e", "metricSelector": {"matchLabels": {"a": "b"}}, "targetValue": "3"}}]}});
        let new = stored(old.clone());
        let metrics = &new["spec"]["metrics"];
        assert_eq!(
            metrics[0]["resource"],
            json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}})
        );
        assert_eq!(
            metrics[1]["pods"],
            json!({"metric": {"name": "p"}, "target": {"type": "AverageValue", "averageValue": "1k"}})
        );
        assert_eq!(metrics[2]["object"]["describedObject"]["name"], "i");
        assert_eq!(metrics[3]["external"]["metric"]["selector"], json!({"matchLabels": {"a": "b"}}));
        assert_eq!(to_version("autoscaling/v2beta1", &new)["spec"], old["spec"]);
    }

    #[test]
    fn a_definition_says_for_all_versions_what_each_says_now_api_18() {
        let old = json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.a.b"}, "spec": {"group": "a.b", "version": "v1",
                "names": {"plural": "things", "kind": "Thing"}, "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "JSONPath": ".spec.size"}],
                "validation": {"openAPIV3Schema": {"properties": {"metadata": {"type": "object",
                    "description": "d", "properties": {"name": {"maxLength": 9}, "initializers": {}}},
                    "spec": {"properties": {"size": {"type": "integer"}, "any": {},
                        "port": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}}}}}});
        let new = stored(old.clone());
        let spec = &new["spec"];
        assert_eq!((&spec["scope"], &spec["preserveUnknownFields"]), (&json!("Namespaced"), &json!(false)));
        let version = &spec["versions"][0];
        assert_eq!(
            (&version["name"], &version["served"], &version["storage"], &version["subresources"]),
            (&json!("v1"), &json!(true), &json!(true), &json!({"status": {}}))
        );
        assert_eq!(version["additionalPrinterColumns"][0]["jsonPath"], ".spec.size");
        // The schema gets types, and preserves unknown fields, as version v1beta1 did.
        let keeps = "x-kubernetes-preserve-unknown-fields";
        assert_eq!(
            version["schema"]["openAPIV3Schema"],
            json!({"type": "object", keeps: true, "properties": {
                "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}},
                "spec": {"type": "object", keeps: true, "properties": {"size": {"type": "integer"}, "any": {keeps: true},
                    "port": {"x-kubernetes-int-or-string": true}}}}})
        );
        let shown = to_version("apiextensions.k8s.io/v1beta1", &new);
        assert_eq!(shown["spec"]["version"], "v1");
        assert_eq!(shown["spec"]["additionalPrinterColumns"], old["spec"]["additionalPrinterColumns"]);
        assert_eq!(shown["spec"]["versions"], json!([{"name": "v1", "served": true, "storage": true}]));
        assert_eq!(stored(shown), new);
        // A definition that prunes is taken as it is.
        let mut prunes = old;
        prunes["spec"]["preserveUnknownFields"] = json!(false);
        prunes["spec"]["conversion"] = json!({"strategy": "Webhook", "conversionReviewVersions": ["v1"],
            "webhookClientConfig": {"url": "https://a.b"}});
        let new = stored(prunes);
        assert_eq!(new["spec"]["versions"][0]["schema"]["openAPIV3Schema"][keeps], json!(null));
        assert_eq!(
            new["spec"]["conversion"],
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a.b"}, "conversionReviewVersions": ["v1"]}})
        );
    }

    #[test]
    fn slices_bindings_and_webhooks_are_read_and_shown_api_18() {
        let old = json!({"apiVersion": "discovery.k8s.io/v1beta1", "kind": "EndpointSlice", "metadata": {"name": "s"},
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "topology": {"kubernetes.io/hostname": "node-1",
                "topology.kubernetes.io/zone": "z", "rack": "r"}}]});
        let new = stored(old.clone());
        let endpoint = &new["endpoints"][0];
        assert_eq!(
            (&endpoint["nodeName"], &endpoint["zone"], &endpoint["deprecatedTopology"]),
            (&json!("node-1"), &json!("z"), &json!({"rack": "r"}))
        );
        let back = to_version("discovery.k8s.io/v1beta1", &new);
        assert_eq!(back["endpoints"][0]["topology"], old["endpoints"][0]["topology"]);
        let old = json!({"apiVersion": "rbac.authorization.k8s.io/v1alpha1", "kind": "RoleBinding", "metadata": {"name": "b"},
            "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "User", "apiVersion": "rbac.authorization.k8s.io/v1alpha1", "name": "u"},
                {"kind": "ServiceAccount", "name": "a", "namespace": "default"}]});
        let new = stored(old.clone());
        assert_eq!(
            new["subjects"],
            json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"},
                {"kind": "ServiceAccount", "name": "a", "namespace": "default"}])
        );
        let back = to_version("rbac.authorization.k8s.io/v1alpha1", &new);
        assert_eq!(back["subjects"][0], old["subjects"][0]);
        let old = json!({"apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "w"}, "webhooks": [{"name": "a.b.c", "clientConfig": {"url": "https://a.b"}, "sideEffects": "None"}]});
        let webhook = &stored(old)["webhooks"][0];
        assert_eq!(
            (
                &webhook["failurePolicy"], &webhook["matchPolicy"], &webhook["timeoutSeconds"],
                &webhook["admissionReviewVersions"]
            ),
            (&json!("Ignore"), &json!("Exact"), &json!(30), &json!(["v1beta1"]))
        );
    }

    /// SEC-2: no malformed document causes a panic.
    #[test]
    fn no_document_of_an_old_version_panics_api_18() {
        let odd = [json!(null), json!(1), json!("x"), json!([]), json!([null, 1, {}]), json!({"a": []})];
        let fields = ["spec", "metadata", "status", "subjects", "endpoints", "webhooks"];
        let below = [
            "selector", "template", "strategy", "updateStrategy", "backend", "rules", "metrics", "versions",
            "validation", "conversion", "subresources", "additionalPrinterColumns", "defaultBackend",
            "names",
        ];
        for version in super::LEGACY {
            for value in &odd {
                for field in fields {
                    let mut document = json!({field: value});
                    (version.read)(&mut document);
                    (version.show)(&mut document);
                }
                for field in below {
                    let mut document = json!({"spec": {field: value}});
                    (version.read)(&mut document);
                    (version.show)(&mut document);
                }
            }
        }
    }
}
