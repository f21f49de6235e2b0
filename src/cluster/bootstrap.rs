//! The initial objects of every cluster: namespaces, priority classes, storage classes, the CSI driver of disks, the
//! definitions of Podium's own kinds, an ingress class and the `kubernetes` service.

use std::net::{Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::{IngressClass, IngressClassSpec};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec, StorageClass};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::fixed_services;
use api::{Api, ApiError};
use object::ingress;
use object::storage::{DEFAULT_CLASS, DIRECTORY_PROVISIONER, DISK_DRIVER};
use object::{Key, Kind, TypedKind};

/// The storage class of disks: volumes that are attached to one node at a time.
const DISK_CLASS: &str = "disk";

/// Creates missing objects; existing ones stay as they are, except that the `kubernetes` service and its endpoints get
/// the current addresses (`service`, `listening`).
pub fn bootstrap(api: &Api, listening: SocketAddr, service: Ipv4Addr) -> Result<(), ApiError> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        ensure(api, Namespace { metadata: Key::new("", name).metadata(), ..Namespace::default() })?;
    }
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if \
             necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        ensure(
            api,
            PriorityClass {
                metadata: Key::new("", name).metadata(),
                value: Some(value),
                description: Some(description.into()),
                ..PriorityClass::default()
            },
        )?;
    }
    api.reconcile_default_roles()?;
    api.reconcile_flow_control()?;
    storage_class(api)?;
    disks(api)?;
    own_definitions(api)?;
    fixed_services::kubernetes(api, listening, service)
}

/// Creates the default storage class, unless any storage class exists: the user's own classes take its place.
fn storage_class(api: &Api) -> Result<(), ApiError> {
    if api.count(Kind::StorageClass) > 0 {
        return Ok(());
    }
    let mut metadata = Key::new("", "standard").metadata();
    metadata.annotations = Some([(DEFAULT_CLASS.to_string(), "true".to_string())].into());
    ensure(
        api,
        StorageClass {
            metadata,
            provisioner: DIRECTORY_PROVISIONER.into(),
            reclaim_policy: Some("Delete".into()),
            volume_binding_mode: Some("WaitForFirstConsumer".into()),
            allow_volume_expansion: Some(true),
            ..StorageClass::default()
        },
    )
}

/// Creates the CSI driver of disks, and the storage class only together with it: if a user deletes the class, a later
/// start does not recreate it.
fn disks(api: &Api) -> Result<(), ApiError> {
    if api.get(Kind::CSIDriver, &Key::new("", DISK_DRIVER)).is_ok() {
        return Ok(());
    }
    ensure(
        api,
        StorageClass {
            metadata: Key::new("", DISK_CLASS).metadata(),
            provisioner: DISK_DRIVER.into(),
            reclaim_policy: Some("Delete".into()),
            volume_binding_mode: Some("WaitForFirstConsumer".into()),
            allow_volume_expansion: Some(true),
            ..StorageClass::default()
        },
    )?;
    let spec = CSIDriverSpec {
        attach_required: Some(true),
        volume_lifecycle_modes: Some(vec!["Persistent".into()]),
        ..CSIDriverSpec::default()
    };
    ensure(api, CSIDriver { metadata: Key::new("", DISK_DRIVER).metadata(), spec })
}

/// Applies the definitions of Podium's own kinds and serves them at once: actors use the kinds from the start. A changed
/// definition gets the form that this version of Podium has.
fn own_definitions(api: &Api) -> Result<(), ApiError> {
    for desired in extension::definitions() {
        let key = Key::of(&desired.metadata);
        ensure(api, desired.clone())?;
        api.modify::<CustomResourceDefinition>(&key, |stored| {
            stored.spec.clone_from(&desired.spec);
            Ok(())
        })?;
        controllers::establish_definition(api, &key)?;
    }
    Ok(())
}

/// Creates the default ingress class, unless any ingress class exists. For clusters that serve Ingresses.
pub(super) fn ingress_class(api: &Api) -> Result<(), ApiError> {
    if api.count(Kind::IngressClass) > 0 {
        return Ok(());
    }
    let mut metadata = Key::new("", ingress::OUR_CLASS).metadata();
    metadata.annotations = Some([(ingress::DEFAULT_CLASS.to_string(), "true".to_string())].into());
    let spec = IngressClassSpec { controller: Some(ingress::OUR_CONTROLLER.into()), parameters: None };
    ensure(api, IngressClass { metadata, spec: Some(spec) })
}

fn ensure<T: TypedKind>(api: &Api, object: T) -> Result<(), ApiError> {
    let key = Key::of(object.metadata());
    if api.get(T::kind(), &key).is_ok() {
        return Ok(());
    }
    api.create_as(object).map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use api::{ApiConfig, DeleteOptions, WriteOptions};
    use base::clock::Clock;
    use extension::cluster_snapshot::{ClusterRestore, ClusterSnapshot};
    use extension::node_fence::NodeFence;
    use object::Object;
    use store::Store;

    fn api() -> Api {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
        own_definitions(&api).unwrap();
        api
    }

    fn fence(spec: &Value) -> Object {
        let value = json!({"apiVersion": "podium.dev/v1alpha1", "metadata": {"name": "n"}, "spec": spec});
        Object::from_value(NodeFence::kind(), value).unwrap()
    }

    #[test]
    fn fences_say_why_and_no_more_safe_5() {
        let api = api();
        let create = |spec: &Value| {
            let created = api.create(fence(spec), &WriteOptions::default());
            created.map_err(|error| error.to_string())
        };
        let error = create(&json!({"reason": "x".repeat(1025)})).unwrap_err();
        assert!(error.contains("spec.reason: Too long: may not be more than 1024 bytes"), "{error}");
        create(&json!({})).unwrap();
        let key = Key::new("", "n");
        api.delete(NodeFence::kind(), &key, &DeleteOptions::default()).unwrap();
        create(&json!({"reason": "it hangs"})).unwrap();
        let changed = api.modify::<NodeFence>(&key, |fence| {
            fence.spec.reason = Some("another".into());
            Ok(())
        });
        assert_eq!(
            changed.unwrap_err().to_string(),
            "NodeFence.podium.dev \"n\" is invalid: spec: Forbidden: field is immutable"
        );
    }

    #[test]
    fn restores_name_a_snapshot_safe_8() {
        let api = api();
        let create = |kind: Kind, spec: &Value| {
            let value = json!({"apiVersion": "podium.dev/v1alpha1", "metadata": {"name": "r"}, "spec": spec});
            let created = api.create(Object::from_value(kind, value).unwrap(), &WriteOptions::default());
            created.map_err(|error| error.to_string())
        };
        let (snapshot, restore) = (ClusterSnapshot::kind(), ClusterRestore::kind());
        for (spec, error) in [
            (json!({}), "spec.snapshot: Required value"),
            (
                json!({"snapshot": "a", "gracePeriodSeconds": 86401}),
                "spec.gracePeriodSeconds: Invalid value: \"integer\": must be between 0 and 86400, inclusive",
            ),
            (
                json!({"snapshot": "a", "gracePeriodSeconds": -1}),
                "spec.gracePeriodSeconds: Invalid value: \"integer\": must be between 0 and 86400, inclusive",
            ),
        ] {
            let refused = create(restore, &spec).unwrap_err();
            assert!(refused.contains(error), "{spec}: {refused}");
        }
        let error = create(restore, &json!({"snapshot": "A"})).unwrap_err();
        assert!(
            error.contains("spec.snapshot: Invalid value: \"string\": a lowercase RFC 1123 subdomain"),
            "{error}"
        );
        create(restore, &json!({"snapshot": "before-lunch", "claims": true, "gracePeriodSeconds": 0}))
            .unwrap();
        create(snapshot, &json!({"claims": true})).unwrap();
        let key = Key::new("", "r");
        let changed = api.modify::<ClusterSnapshot>(&key, |snapshot| {
            snapshot.spec.claims = None;
            Ok(())
        });
        assert!(changed.unwrap_err().to_string().ends_with("spec: Forbidden: field is immutable"));
        let changed = api.modify::<ClusterRestore>(&key, |restore| {
            restore.spec.snapshot = "b".into();
            Ok(())
        });
        assert!(changed.unwrap_err().to_string().ends_with("spec: Forbidden: field is immutable"));
    }

    #[test]
    fn a_status_is_written_apart_from_the_spec_safe_5() {
        let api = api();
        let created =
            api.create_as(NodeFence::new("n", extension::node_fence::NodeFenceSpec::default())).unwrap();
        assert_eq!(created.metadata.generation, Some(1));
        let written = api.modify_status::<NodeFence>(&created.key(), |fence| {
            fence.status.get_or_insert_default().phase = extension::node_fence::FencePhase::Killing;
            Ok(())
        });
        let written = written.unwrap();
        assert_eq!(written.phase(), extension::node_fence::FencePhase::Killing);
        assert_eq!(written.metadata.generation, Some(1));
        assert_eq!(api.list_as::<NodeFence>(None).len(), 1);
    }

    #[test]
    fn a_second_start_changes_no_definition_of_ours_api_14() {
        let api = api();
        let before = api.revision();
        own_definitions(&api).unwrap();
        assert_eq!(api.revision(), before);
        let key = Key::new("", "nodefences.podium.dev");
        api.modify::<CustomResourceDefinition>(&key, |definition| {
            definition.spec.versions[0].additional_printer_columns = None;
            Ok(())
        })
        .unwrap();
        own_definitions(&api).unwrap();
        let definition = api.get_as::<CustomResourceDefinition>(&key).unwrap();
        assert_eq!(definition.spec.versions[0].additional_printer_columns.as_ref().map(Vec::len), Some(4));
    }
}
