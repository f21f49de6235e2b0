//! Restrictions on the content of a node's writes: its own Node, mirror pods, and the observed status of its
//! pods and their claims (Kubernetes' admission plugin NodeRestriction). Access to the objects has been
//! authorized before.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, PodSpec};
use k8s_openapi::api::resource::v1::ResourceSlice;

use super::LEASES;
use super::references::{is_on, uses_audience};
use crate::authorization::{Attributes, RequestTarget, ResourceAttributes};
use crate::identity::User;
use crate::{Api, ApiError, Part};
use base::quote::quote;
use base::sort::SliceOrder;
use object::pod::references::{config_maps, projected, secrets};
use object::well_known::{annotation, label};
use object::{Key, Kind, Object};

/// The domain of labels that a node must not set on itself.
const RESTRICTED_LABELS: &str = "node-restriction.kubernetes.io";

/// Prefixes of further labels that a kubelet may set on its node.
const KUBELET_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The verb that permits a node to request tokens for an audience that none of its pods needs; the audience
/// is the resource of the rule.
const ANY_AUDIENCE: &str = "request-serviceaccounts-token-audience";

/// Refuses a token for a node if none of its pods needs it.
pub fn restrict_token(
    api: &Api,
    user: Option<&User>,
    account: &Key,
    request: &TokenRequest,
) -> Result<(), ApiError> {
    let Some((user, node)) = user.and_then(|user| Some((user, user.node_name()?))) else { return Ok(()) };
    let bound = request.spec.as_ref().and_then(|spec| spec.bound_object_ref.as_ref());
    let pod = bound.filter(|bound| {
        bound.kind.as_deref() == Some("Pod") && bound.uid.as_ref().is_some_and(|uid| !uid.is_empty())
    });
    let refused = |reason: String| Err(ApiError::forbidden(Kind::ServiceAccount, &account.name, reason));
    let Some(bound) = pod else { return refused("node requested token not bound to a pod".into()) };
    let key = Key::new(account.namespace.as_str(), bound.name.as_deref().unwrap_or_default());
    let Ok(pod) = api.get_as::<Pod>(&key) else {
        return refused("node requested token bound to a pod that does not exist".into());
    };
    if bound.uid.as_deref() != Some(pod.uid()) {
        return refused("the UID in the bound object reference does not match".into());
    }
    if !is_on(&pod, node) {
        return refused("node requested token bound to a pod scheduled on a different node".into());
    }
    let audiences = request.spec.as_ref().and_then(|spec| spec.audiences.as_deref());
    let audience = match audiences.unwrap_or_default() {
        [] => "",
        [audience] => audience,
        _ => return refused("node may only request 0 or 1 audiences".into()),
    };
    let attributes = Attributes {
        user,
        verb: ANY_AUDIENCE,
        on: RequestTarget::Resource(ResourceAttributes {
            resource: audience,
            name: &account.name,
            namespace: &account.namespace,
            ..ResourceAttributes::default()
        }),
    };
    if uses_audience(api, &pod, audience) || api.decide(&attributes).allowed {
        return Ok(());
    }
    refused(format!(
        "audience {} not found in pod spec volume, {} is not authorized to request tokens for this audience",
        quote(audience),
        user.name
    ))
}

/// Refuses a node's write by its content; `old` is the version before the change.
pub(crate) fn restrict(
    api: &Api,
    user: Option<&User>,
    part: Part,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), ApiError> {
    let Some(node) = user.and_then(User::node_name) else { return Ok(()) };
    let is_its_own = new.name() == node;
    let result = match new.kind() {
        Kind::Pod => match (old, new.get::<Pod>()) {
            (None, Some(pod)) => restrict_new_pod(api, node, pod),
            (Some(old), Some(pod)) => restrict_pod_status(node, old, pod),
            _ => Ok(()),
        },
        Kind::Node if !is_its_own => {
            Err(format!("node {} is not allowed to modify node {}", quote(node), quote(new.name())))
        }
        Kind::Node => restrict_node(node, old, new),
        Kind::PersistentVolumeClaim => restrict_claim(node, part, old, new),
        Kind::Lease if new.meta().namespace.as_deref() == Some(LEASES) && !is_its_own => {
            Err("can only access node lease with the same name as the requesting node".into())
        }
        Kind::CSINode if !is_its_own => {
            Err("can only access CSINode with the same name as the requesting node".into())
        }
        Kind::ResourceSlice if old.is_none() => {
            let slice = new.get::<ResourceSlice>();
            if slice.is_some_and(|slice| slice.spec.node_name.as_deref() == Some(node)) {
                Ok(())
            } else {
                Err("can only create ResourceSlice with the same NodeName as the requesting node".into())
            }
        }
        _ => Ok(()),
    };
    result.map_err(|why| ApiError::forbidden(new.kind(), new.name(), why))
}

/// Refuses a new pod of a node unless it is a mirror pod, which belongs to the node and references nothing.
fn restrict_new_pod(api: &Api, node: &str, pod: &Pod) -> Result<(), String> {
    let name = quote(node);
    let meta = &pod.metadata;
    if !meta.annotations.as_ref().is_some_and(|a| a.contains_key(annotation::MIRROR_POD)) {
        let mirror = quote(annotation::MIRROR_POD);
        return Err(format!(
            "pod does not have {mirror} annotation, node {name} can only create mirror pods"
        ));
    }
    let Some(spec) = pod.spec.as_ref().filter(|spec| spec.node_name.as_deref() == Some(node)) else {
        return Err(format!("node {name} can only create pods with spec.nodeName set to itself"));
    };
    let owner = match meta.owner_references.as_deref().unwrap_or_default() {
        [owner] if (&*owner.api_version, &*owner.kind, &*owner.name) == ("v1", "Node", node) => owner,
        [_, _, ..] => {
            return Err(format!(
                "node {name} can only create pods with a single owner reference set to itself"
            ));
        }
        _ => return Err(format!("node {name} can only create pods with an owner reference set to itself")),
    };
    if owner.controller != Some(true) {
        return Err(format!(
            "node {name} can only create pods with a controller owner reference set to itself"
        ));
    }
    if owner.block_owner_deletion == Some(true) {
        return Err(format!("node {name} must not set blockOwnerDeletion on an owner reference"));
    }
    let Ok(itself) = api.get_as::<Node>(&Key::new("", node)) else {
        return Err(format!("error looking up node {node} to verify uid: node {name} not found"));
    };
    if owner.uid != itself.uid() {
        return Err(format!("node {node} UID mismatch: expected {} got {}", owner.uid, itself.uid()));
    }
    match refers_to(spec) {
        Some(what) => Err(format!("node {name} can not create pods that reference {what}")),
        None => Ok(()),
    }
}

/// Returns the first kind of object that the pod references, if any; a mirror pod must reference none.
fn refers_to(spec: &PodSpec) -> Option<&'static str> {
    let referred = [
        (spec.service_account_name.as_ref().is_some_and(|name| !name.is_empty()), "a service account"),
        (secrets(spec).next().is_some(), "secrets"),
        (config_maps(spec).next().is_some(), "configmaps"),
        (projected(spec).any(|source| source.cluster_trust_bundle.is_some()), "clustertrustbundles"),
        (projected(spec).any(|source| source.pod_certificate.is_some()), "pod certificates"),
        (
            spec.volumes
                .iter()
                .flatten()
                .any(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some()),
            "persistentvolumeclaims",
        ),
        (spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()), "resourceclaims"),
    ];
    referred.into_iter().find_map(|(is, what)| is.then_some(what))
}

/// Permits a node to write a pod's observed status, but not the status of its resource claims.
fn restrict_pod_status(node: &str, old: &Object, pod: &Pod) -> Result<(), String> {
    let name = quote(node);
    if old.meta().labels != pod.metadata.labels {
        return Err(format!("node {name} cannot update labels through pod status"));
    }
    let before = old.get::<Pod>().and_then(|old| old.status.as_ref());
    let after = pod.status.as_ref();
    if before.and_then(|s| s.resource_claim_statuses.as_ref())
        != after.and_then(|s| s.resource_claim_statuses.as_ref())
    {
        return Err(format!("node {name} cannot update resource claim statuses"));
    }
    if before.and_then(|s| s.extended_resource_claim_status.as_ref())
        != after.and_then(|s| s.extended_resource_claim_status.as_ref())
    {
        return Err(format!("node {name} cannot update extended resource claim status"));
    }
    Ok(())
}

/// Permits a node to write the present size of a volume claim's file system.
fn restrict_claim(node: &str, part: Part, old: Option<&Object>, new: &Object) -> Result<(), String> {
    let (Some(old), Some(new), Part::Status) =
        (old.and_then(Object::get::<PersistentVolumeClaim>), new.get::<PersistentVolumeClaim>(), part)
    else {
        return Err("may only update PVC status".into());
    };
    let rest = |claim: &PersistentVolumeClaim| {
        let mut claim = claim.clone();
        claim.metadata.resource_version = None;
        claim.metadata.managed_fields = None;
        if let Some(status) = claim.status.as_mut() {
            status.capacity = None;
            status.conditions = None;
            status.allocated_resources = None;
            status.allocated_resource_statuses = None;
        }
        claim
    };
    if rest(old) == rest(new) {
        return Ok(());
    }
    let name = quote(node);
    Err(format!(
        "node {name} is not allowed to update fields other than status.capacity and status.conditions"
    ))
}

fn restrict_node(node: &str, old: Option<&Object>, new: &Object) -> Result<(), String> {
    let name = quote(node);
    let taints = |object: &Object| object.get::<Node>().and_then(|n| n.spec.as_ref()?.taints.clone());
    if old.is_some_and(|old| taints(old) != taints(new)) {
        return Err(format!("node {name} is not allowed to modify taints"));
    }
    if old.is_some_and(|old| old.meta().owner_references != new.meta().owner_references) {
        return Err(format!("node {name} is not allowed to modify ownerReferences"));
    }
    let labels = |object: &Object| object.meta().labels.clone().unwrap_or_default();
    let (before, after) = (old.map(labels).unwrap_or_default(), labels(new));
    let mut changed: Vec<&str> = before
        .keys()
        .chain(after.keys())
        .filter(|key| before.get(*key) != after.get(*key))
        .map(String::as_str)
        .filter(|key| is_forbidden_label(key))
        .collect();
    changed.order();
    changed.dedup();
    match (changed.is_empty(), old) {
        (true, _) => Ok(()),
        (false, None) => {
            Err(format!("node {name} is not allowed to set the following labels: {}", changed.join(", ")))
        }
        (false, Some(_)) => Err(format!("is not allowed to modify labels: {}", changed.join(", "))),
    }
}

/// Returns true for labels that steer pods to nodes: restricted ones, or Kubernetes' own that no kubelet
/// sets.
fn is_forbidden_label(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_within =
        |of: &str| prefix == of || prefix.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
    let is_kubelets = key == label::HOSTNAME
        || label::RENAMED_NODE_LABELS.iter().any(|(old, _, new)| key == *old || key == *new)
        || KUBELET_PREFIXES.into_iter().any(is_within);
    is_within(RESTRICTED_LABELS) || (is_within("kubernetes.io") || is_within("k8s.io")) && !is_kubelets
}
