//! Plans the writes that bring the cluster to the state of a snapshot, purely (SAFE-8).
//!
//! Everything is restored, except objects of this machine and of the present: nodes, leases, the services of the
//! control plane, faults, fences, scenarios, snapshots, restores, events and VolumeAttachments stay as they are now.
//! Pods start again: controllers recreate theirs, and pods without a controller are created here, unbound. Controllers
//! also recreate objects that they derive from others, such as endpoints.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::Rewrite;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{
    Endpoints, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodStatus, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::IPAddress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use object::owner::{controller_of, is_terminating};
use object::pod::{is_mirror, is_terminal};
use object::storage::{DISK_DRIVER, DISK_PATH};
use object::well_known::{annotation, label, taint};
use object::{Key, Kind, Object};

/// The control plane's own objects, which each start writes.
const FIXED: [(Kind, &str, &str); 10] = [
    (Kind::Service, "default", "kubernetes"),
    (Kind::Endpoints, "default", "kubernetes"),
    (Kind::EndpointSlice, "default", "kubernetes"),
    (Kind::Service, "kube-system", "kube-dns"),
    (Kind::Endpoints, "kube-system", "kube-dns"),
    (Kind::EndpointSlice, "kube-system", "kube-dns"),
    (Kind::EndpointSlice, "kube-system", "kube-dns-ipv6"),
    (Kind::ConfigMap, "kube-system", "extension-apiserver-authentication"),
    (Kind::ConfigMap, "kube-public", "cluster-info"),
    (Kind::ServiceCIDR, "", "kubernetes"),
];

/// Kinds whose objects a restore leaves as they are now, besides Podium's own kinds. Events, for example, are not
/// undone.
const OF_NOW: [Kind; 4] = [
    Kind::Event,
    Kind::Lease,
    Kind::CSINode,
    // A node that does not respond keeps its disks: the controller detaches unneeded ones.
    Kind::VolumeAttachment,
];

/// The differences between the snapshot's cluster and this one.
#[derive(Clone, Debug)]
pub(super) struct RestoreMapping {
    /// The ranges of services, by family: the snapshot's and the current one.
    pub(super) services: Vec<(IpNet, IpNet)>,
    /// The data directory of the snapshot, and the current one.
    pub(super) data_dir: (PathBuf, PathBuf),
}

/// The planned writes, and the facts to report about them.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) writes: Vec<Rewrite>,
    /// Pods without a controller that are not recreated, because pods with their names exist and have not ended.
    pub(super) skipped: Vec<Key>,
    /// The other pods that exist and have not ended: they stay as they are, and their controllers' new pods wait for
    /// their names and claims.
    pub(super) left_behind: Vec<Key>,
    /// Volumes that are not in the snapshot; they are not removed, and keep their content.
    pub(super) retained_volumes: Vec<String>,
}

/// Plans the writes that turn the state `now` into the state `saved`. `uid` creates uids.
pub(super) fn plan(
    now: &[Arc<Object>],
    saved: Vec<Object>,
    mapping: &RestoreMapping,
    moment: &Time,
    mut uid: impl FnMut() -> String,
) -> Plan {
    let there: HashMap<(Kind, Key), &Arc<Object>> =
        now.iter().map(|object| ((object.kind(), object.key()), object)).collect();
    let selecting: HashSet<Key> = (saved.iter())
        .filter(|object| object.get::<Service>().is_some_and(selects))
        .map(Object::key)
        .collect();
    let mut plan = Plan::default();
    let mut desired: HashSet<(Kind, Key)> = HashSet::new();
    for object in saved {
        if stays_as_it_is(&object) || is_recreated(&object, &selecting) {
            continue;
        }
        let id = (object.kind(), object.key());
        let current = there.get(&id).copied();
        if object.kind() == Kind::Pod && current.is_some_and(|pod| !has_ended(pod)) {
            if !is_recreated_by_controller(&object) {
                plan.skipped.push(id.1);
            }
            continue;
        }
        let Some(object) = come_back(object, current, mapping, moment, &mut uid) else { continue };
        desired.insert(id);
        if current.is_some_and(|current| same(current, &object)) {
            continue;
        }
        // A current object with this name but another uid is removed first, so that no client takes the restored object
        // for a newer version of it.
        if let Some(other) = current.filter(|current| current.uid() != object.uid()) {
            plan.writes.push(Rewrite::Remove(other.kind(), other.key()));
        }
        plan.writes.push(Rewrite::Set(Box::new(object)));
    }
    for object in now {
        let id = (object.kind(), object.key());
        if desired.contains(&id) || stays_as_it_is(object) {
            continue;
        }
        match object.kind() {
            Kind::Node => {}
            // A pod that has not ended may be removed only by its node.
            Kind::Pod if !has_ended(object) => {
                if !plan.skipped.contains(&id.1) {
                    plan.left_behind.push(id.1);
                }
            }
            Kind::PersistentVolume => {
                plan.retained_volumes.push(object.name().to_owned());
                plan.writes.extend(retained(object));
            }
            kind => plan.writes.push(Rewrite::Remove(kind, id.1)),
        }
    }
    plan
}

/// Returns true if a restore leaves the object as it is now, regardless of the snapshot.
fn stays_as_it_is(object: &Object) -> bool {
    let is_fixed = FIXED.iter().any(|(kind, namespace, name)| {
        (*kind, *namespace, *name) == (object.kind(), object.namespace(), object.name())
    });
    let is_users = object.get::<Service>().is_some_and(selects);
    (is_fixed && !is_users)
        || OF_NOW.contains(&object.kind())
        || extension::owns(object)
        || object.get::<Pod>().is_some_and(is_mirror)
}

/// Returns true if a controller recreates the object from the restored ones.
fn is_recreated(object: &Object, selecting: &HashSet<Key>) -> bool {
    if object.get::<EndpointSlice>().is_some() {
        let labels = object.meta().labels.as_ref();
        let manager = labels.and_then(|labels| labels.get(label::ENDPOINT_SLICE_MANAGED_BY));
        return manager.is_some_and(|manager| manager.ends_with("-controller.k8s.io"));
    }
    if object.get::<Endpoints>().is_some() {
        return selecting.contains(&object.key());
    }
    if let Some(address) = object.get::<IPAddress>() {
        return address.spec.parent_ref.resource == "services";
    }
    is_recreated_by_controller(object)
}

/// Returns true for a pod that was being deleted, or that had not ended and has a controller, which recreates it.
fn is_recreated_by_controller(object: &Object) -> bool {
    object.get::<Pod>().is_some_and(|pod| {
        is_terminating(&pod.metadata) || (!is_terminal(pod) && controller_of(&pod.metadata).is_some())
    })
}

fn has_ended(object: &Object) -> bool {
    object.get::<Pod>().is_none_or(is_terminal)
}

fn selects(service: &Service) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| !selector.is_empty())
}

/// Adapts an object of a snapshot to this cluster; `None` if it cannot exist here.
fn come_back(
    mut object: Object,
    current: Option<&Arc<Object>>,
    mapping: &RestoreMapping,
    moment: &Time,
    uid: &mut impl FnMut() -> String,
) -> Option<Object> {
    match object.kind() {
        Kind::Node => return node(&object, current),
        Kind::Pod if !has_ended(&object) => reset_pod(&mut object, moment, uid()),
        Kind::Service => move_addresses(&mut object, &mapping.services),
        Kind::PersistentVolume => {
            if let Some(volume) = object.get_mut::<PersistentVolume>() {
                move_directory(volume, &mapping.data_dir);
            }
        }
        // The pods for which the claim was reserved no longer exist, and other pods may use the devices that were
        // allocated to it.
        Kind::ResourceClaim => object.clear_status(),
        _ => {}
    }
    Some(object)
}

/// Restores a node: a node belongs to this machine, so only labels, taints and other settings of users come from the
/// snapshot. The object of a missing node is recreated only if it had requested its node.
fn node(then: &Object, current: Option<&Arc<Object>>) -> Option<Object> {
    let before = then.get::<Node>()?;
    let Some(current) = current else {
        let is_requested =
            before.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotation::PODIUM_NODE));
        let mut object = then.clone();
        object.clear_status();
        object.get_mut::<Node>()?.spec.get_or_insert_default().pod_cidr = None;
        object.get_mut::<Node>()?.spec.get_or_insert_default().pod_cidrs = None;
        return is_requested.then_some(object);
    };
    let mut object = Object::clone(current);
    let node = object.get_mut::<Node>()?;
    node.metadata.labels.clone_from(&before.metadata.labels);
    let spec = node.spec.get_or_insert_default();
    let (now, then) = (spec.taints.take(), before.spec.as_ref());
    // Taints with this prefix describe the node's state, which is the current one.
    let of_state = |key: &str| key.starts_with(taint::PREFIX);
    let retained = now.into_iter().flatten().filter(|taint| of_state(&taint.key));
    let own = then.iter().flat_map(|spec| spec.taints.iter().flatten());
    let taints: Vec<_> = retained.chain(own.filter(|taint| !of_state(&taint.key)).cloned()).collect();
    spec.taints = Some(taints).filter(|taints| !taints.is_empty());
    spec.unschedulable = then.and_then(|spec| spec.unschedulable);
    Some(object)
}

/// Makes a pod without a controller a new, unbound one, since none of its processes runs.
fn reset_pod(object: &mut Object, moment: &Time, uid: String) {
    if let Some(pod) = object.get_mut::<Pod>() {
        let qos_class = pod.status.take().and_then(|status| status.qos_class);
        pod.status = Some(PodStatus { phase: Some("Pending".to_owned()), qos_class, ..PodStatus::default() });
        if let Some(spec) = &mut pod.spec {
            spec.node_name = None;
            spec.ephemeral_containers = None;
        }
    }
    let meta = object.meta_mut();
    meta.uid = Some(uid);
    meta.creation_timestamp = Some(moment.clone());
}

/// Moves a service's addresses to the current range of services, at the same offsets.
fn move_addresses(object: &mut Object, ranges: &[(IpNet, IpNet)]) {
    let Some(spec) = object.get_mut::<Service>().and_then(|service| service.spec.as_mut()) else { return };
    let texts = spec.cluster_ip.iter_mut().chain(spec.cluster_ips.iter_mut().flatten());
    for text in texts {
        let moved = text.parse().ok().and_then(|ip| ranges.iter().find_map(|range| moved(ip, *range)));
        if let Some(moved) = moved {
            *text = moved.to_string();
        }
    }
}

/// The address at the same offset of another range, if both ranges contain it.
fn moved(ip: IpAddr, (then, now): (IpNet, IpNet)) -> Option<IpAddr> {
    let at = match (ip, then, now) {
        (IpAddr::V4(ip), IpNet::V4(then), IpNet::V4(now)) if then.contains(&ip) => {
            let offset = u32::from(ip) - u32::from(then.network());
            IpAddr::V4(u32::from(now.network()).checked_add(offset)?.into())
        }
        (IpAddr::V6(ip), IpNet::V6(then), IpNet::V6(now)) if then.contains(&ip) => {
            let offset = u128::from(ip) - u128::from(then.network());
            IpAddr::V6(u128::from(now.network()).checked_add(offset)?.into())
        }
        _ => return None,
    };
    now.contains(&at).then_some(at)
}

/// Moves a volume below the old data directory to this one.
fn move_directory(volume: &mut PersistentVolume, (then, now): &(PathBuf, PathBuf)) {
    let Some(spec) = volume.spec.as_mut() else { return };
    let of_disk = spec.csi.as_mut().filter(|source| source.driver == DISK_DRIVER);
    let attribute = of_disk.and_then(|source| source.volume_attributes.as_mut()?.get_mut(DISK_PATH));
    for path in spec.host_path.as_mut().map(|host| &mut host.path).into_iter().chain(attribute) {
        if let Ok(below) = Path::new(path.as_str()).strip_prefix(then) {
            *path = now.join(below).display().to_string();
        }
    }
}

/// Plans the write for a volume that is not in the snapshot: its reclaim policy becomes Retain, so that it keeps its
/// content although its claim is removed.
fn retained(current: &Arc<Object>) -> Option<Rewrite> {
    let mut object = Object::clone(current);
    let spec = object.get_mut::<PersistentVolume>()?.spec.get_or_insert_default();
    spec.persistent_volume_reclaim_policy = Some("Retain".to_owned());
    (!same(current, &object)).then(|| Rewrite::Set(Box::new(object)))
}

/// Returns true if two versions differ in nothing but their revision.
fn same(one: &Object, other: &Object) -> bool {
    let mut one = one.clone();
    one.meta_mut().resource_version.clone_from(&other.meta().resource_version);
    one == *other
}

/// The volumes of claims whose content a snapshot may contain, by the volumes' names.
pub(super) fn volumes_of_claims<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Vec<String> {
    let claims = objects.into_iter().filter_map(|object| object.get::<PersistentVolumeClaim>());
    claims.filter_map(|claim| claim.spec.as_ref()?.volume_name.clone()).collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
