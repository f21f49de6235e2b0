//! The initial objects of every cluster: namespaces, priority classes, storage classes, the CSI driver of disks, the
//! definitions of Podium's own kinds, an ingress class and the `kubernetes` service.

use std::net::{Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::{IngressClass, IngressClassSpec};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec, StorageClass};

use super::{fixed_services, own_definitions};
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
    own_definitions::apply(api)?;
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
