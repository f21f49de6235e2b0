//! The initial objects of every cluster: namespaces, priority classes, storage classes, the CSI driver of disks, the
//! definitions of Podium's own kinds, an ingress class and the `kubernetes` service. Those that Kubernetes creates again
//! after their deletion are created again here, too.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::networking::v1::{IngressClass, IngressClassSpec};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec, StorageClass};

use super::{fixed_services, own_definitions};
use api::controller_status::Subsystem;
use api::{Api, ApiError};
use base::sort::CollectMap;
use base::task::Tasks;
use object::ingress;
use object::storage::{DEFAULT_CLASS, DIRECTORY_PROVISIONER, DISK_DRIVER};
use object::{Key, Kind, TypedKind};
use reconcile::WorkLoop;

/// The storage class of disks: volumes that are attached to one node at a time.
const DISK_CLASS: &str = "disk";

/// The interval at which deleted objects are created again; Kubernetes' for the `kubernetes` service.
const KEEP_EVERY: Duration = Duration::from_secs(10);

/// Creates missing objects; existing ones stay as they are, except that the `kubernetes` service and its endpoints get
/// the current addresses (`service`, `listening`).
pub fn bootstrap(api: &Api, listening: SocketAddr, service: Ipv4Addr) -> Result<(), ApiError> {
    namespaces(api)?;
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

/// Creates namespaces, objects of flow control and the `kubernetes` service again after their deletion.
pub(super) fn keep(api: &Api, tasks: &Tasks, listening: SocketAddr, service: Ipv4Addr) {
    let rounds = WorkLoop::start(api, "own-objects", Subsystem::Cluster, tasks);
    let api = api.clone();
    tasks.spawn_restarting("own-objects", move || run(api.clone(), rounds.clone(), listening, service));
}

async fn run(api: Api, rounds: Arc<WorkLoop>, listening: SocketAddr, service: Ipv4Addr) {
    let mut annotations = BTreeMap::new();
    loop {
        api.clock().sleep(KEEP_EVERY).await;
        let round = rounds.begin("the cluster's own objects");
        let written = namespaces(&api)
            .and_then(|()| api.reconcile_flow_control())
            .and_then(|()| keep_service(&api, listening, service, &mut annotations));
        round.ends(written);
    }
}

/// Writes the `kubernetes` service and its endpoints if they are not as they should be. A new service gets the
/// annotations of the deleted one, which `annotations` holds.
fn keep_service(
    api: &Api,
    listening: SocketAddr,
    service: Ipv4Addr,
    annotations: &mut BTreeMap<String, String>,
) -> Result<(), ApiError> {
    let key = fixed_services::kubernetes_key();
    let there = api.get_as::<Service>(&key);
    fixed_services::kubernetes(api, listening, service)?;
    match there {
        Ok(there) => *annotations = there.metadata.annotations.clone().unwrap_or_default(),
        Err(_) if annotations.is_empty() => {}
        Err(_) => drop(api.modify::<Service>(&key, |service| {
            service.metadata.annotations = Some(annotations.clone());
            Ok(())
        })?),
    }
    Ok(())
}

fn namespaces(api: &Api) -> Result<(), ApiError> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        ensure(api, Namespace { metadata: Key::new("", name).metadata(), ..Namespace::default() })?;
    }
    Ok(())
}

/// Creates the default storage class, unless any storage class exists: the user's own classes take its place.
fn storage_class(api: &Api) -> Result<(), ApiError> {
    if api.count(Kind::StorageClass) > 0 {
        return Ok(());
    }
    let mut metadata = Key::new("", "standard").metadata();
    metadata.annotations = Some([(DEFAULT_CLASS.to_string(), "true".to_string())].collect_map());
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
    metadata.annotations = Some([(ingress::DEFAULT_CLASS.to_string(), "true".to_string())].collect_map());
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
    use super::*;
    use api::{ApiConfig, DeleteOptions};
    use base::clock::Clock;
    use store::Store;

    /// Regression: after `kubectl delete all --all`, pods found no API until the next restart.
    #[tokio::test(start_paused = true)]
    async fn what_every_cluster_needs_is_created_again_api_1() {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(Store::ephemeral(), clock.clone(), ApiConfig::default());
        let (listening, address) = ("127.0.0.1:6443".parse().unwrap(), Ipv4Addr::new(127, 32, 0, 1));
        bootstrap(&api, listening, address).unwrap();
        fixed_services::annotate_kubernetes(&api, &[("a", Some("b".into()))]).unwrap();
        let tasks = Tasks::new();
        keep(&api, &tasks, listening, address);
        let before = api.revision();
        clock.sleep(KEEP_EVERY * 2).await;
        assert_eq!(api.revision(), before, "nothing is written while nothing is missing");
        let service = fixed_services::kubernetes_key();
        for (kind, key) in [
            (Kind::Service, service.clone()),
            (Kind::Endpoints, service.clone()),
            (Kind::EndpointSlice, service.clone()),
            (Kind::FlowSchema, Key::new("", "catch-all")),
        ] {
            api.delete(kind, &key, &DeleteOptions::default()).unwrap();
        }
        clock.sleep(KEEP_EVERY * 2).await;
        let created = api.get_as::<Service>(&service).unwrap();
        assert_eq!(created.metadata.annotations.as_ref().unwrap()["a"], "b");
        for kind in [Kind::Endpoints, Kind::EndpointSlice] {
            api.get(kind, &service).unwrap();
        }
        api.get(Kind::FlowSchema, &Key::new("", "catch-all")).unwrap();
        tasks.stop().await;
        let (class, options) = (Key::new("", "system-node-critical"), DeleteOptions::default());
        let refused = api.delete(Kind::PriorityClass, &class, &options).unwrap_err();
        assert!(refused.to_string().ends_with("this is a system priority class and cannot be deleted"));
    }
}
