//! The permissions of a node's kubelet: it may read the objects that its pods reference, and write its own
//! Node, Lease and pods (Kubernetes' Node authorizer; `restriction` checks the content of writes).
//!
//! The kubelets of this process are exempt; clients with a certificate of `system:node:NAME` are not.

mod references;
mod restriction;
#[cfg(test)]
mod tests;
mod volume_secrets;

use k8s_openapi::api::core::v1::{PersistentVolume, Pod, PodSpec};
use k8s_openapi::api::resource::v1::ResourceSlice;
use k8s_openapi::api::storage::v1::VolumeAttachment;

use super::attributes::{Attributes, RequestTarget, ResourceAttributes};
use super::rules::allows;
use super::{Decision, defaults};
use crate::Api;
use base::quote::quote;
use object::Key;
use object::pod::references::{config_maps, secrets};
use references::{any_pod_of_node, is_on, mounts_with_secret, names_claim, names_resource_claim};
pub(crate) use restriction::restrict;
pub use restriction::restrict_token;

/// The namespace of nodes' heartbeats.
const LEASES: &str = "kube-node-lease";

/// Decides on a node's request.
pub(super) fn decide(api: &Api, node: &str, attributes: &Attributes<'_>) -> Decision {
    if let RequestTarget::Resource(resource) = attributes.on {
        if (resource.group, resource.resource) == ("resource.k8s.io", "resourceslices") {
            // Final: the rules of `system:node` are not consulted for resource slices.
            return match check_resource_slices(api, node, attributes.verb, &resource) {
                Ok(allowed) => Decision { allowed, reason: String::new() },
                Err(reason) => Decision { allowed: false, reason },
            };
        }
        if let Err(reason) = check_target(api, node, attributes.verb, &resource) {
            return Decision { allowed: false, reason };
        }
    }
    let rules = defaults::node_rules();
    let allowed = rules.iter().any(|rule| allows(rule, attributes.verb, attributes.on));
    Decision { allowed, reason: String::new() }
}

/// Checks that the resource slices of a request belong to the node.
fn check_resource_slices(
    api: &Api,
    node: &str,
    verb: &str,
    attributes: &ResourceAttributes<'_>,
) -> Result<bool, String> {
    if !attributes.subresource.is_empty() {
        return Err("cannot authorize ResourceSlice subresources".into());
    }
    match verb {
        // The request's body names the node.
        "create" => Ok(true),
        "get" | "update" | "patch" | "delete" => {
            let slice = api.get_as::<ResourceSlice>(&Key::new("", attributes.name)).ok();
            let is_its = slice.is_some_and(|slice| slice.spec.node_name.as_deref() == Some(node));
            related(node, is_its).map(|()| true)
        }
        "list" | "watch" | "deletecollection" if attributes.on_node == node => Ok(true),
        "list" | "watch" | "deletecollection" => {
            Err("can only list/watch/deletecollection resourceslices with nodeName field selector".into())
        }
        _ => Ok(false),
    }
}

fn related(node: &str, is: bool) -> Result<(), String> {
    is.then_some(()).ok_or_else(|| format!("no relationship found between node '{node}' and this object"))
}

/// Checks that the target of a request belongs to the node; its role decides about the verb.
fn check_target(
    api: &Api,
    node: &str,
    verb: &str,
    attributes: &ResourceAttributes<'_>,
) -> Result<(), String> {
    let reads = matches!(verb, "get" | "list" | "watch");
    let related = |is: bool| related(node, is);
    let individually = || match verb {
        "get" => Ok(()),
        _ => Err("can only get individual resources of this type".to_string()),
    };
    match (attributes.group, attributes.resource, attributes.subresource) {
        ("", "secrets" | "configmaps", _) => {
            if !reads || !attributes.subresource.is_empty() {
                return Err("can only read resources of this type".into());
            }
            if attributes.name.is_empty() || attributes.namespace.is_empty() {
                return Err("can only read namespaced object of this type".into());
            }
            let names = |spec: &PodSpec| match attributes.resource {
                "secrets" => secrets(spec).any(|name| name == attributes.name),
                _ => config_maps(spec).any(|name| name == attributes.name),
            };
            let mounts = || {
                attributes.resource == "secrets"
                    && mounts_with_secret(api, node, attributes.namespace, attributes.name)
            };
            related(any_pod_of_node(api, node, attributes.namespace, names) || mounts())
        }
        ("", "persistentvolumeclaims", part) => {
            if part.is_empty() {
                individually()?;
            }
            related(names_claim(api, node, attributes.namespace, attributes.name))
        }
        ("", "persistentvolumes", _) => {
            let volume = api.get_as::<PersistentVolume>(&Key::new("", attributes.name)).ok();
            let claim = volume.and_then(|volume| volume.spec.as_ref()?.claim_ref.clone());
            related(claim.is_some_and(|claim| {
                let (namespace, name) = (claim.namespace.unwrap_or_default(), claim.name.unwrap_or_default());
                names_claim(api, node, &namespace, &name)
            }))
        }
        ("", "serviceaccounts", _) => related(any_pod_of_node(api, node, attributes.namespace, |spec| {
            spec.service_account_name.as_deref().unwrap_or("default") == attributes.name
        })),
        ("", "nodes", "") if reads => match attributes.name {
            name if name == node => Ok(()),
            _ => Err(format!("node '{node}' cannot read '{}', only its own Node object", attributes.name)),
        },
        ("", "nodes", _) if !attributes.name.is_empty() && attributes.name != node => {
            Err(format!("node '{node}' is not allowed to modify node '{}'", attributes.name))
        }
        ("", "pods", "") if matches!(verb, "list" | "watch") && attributes.name.is_empty() => {
            match attributes.on_node {
                on_node if on_node == node => Ok(()),
                _ => Err(format!("can only list/watch pods with spec.nodeName={node} field selector")),
            }
        }
        ("", "pods", _) if !attributes.name.is_empty() => {
            let its = api.get_as::<Pod>(&Key::new(attributes.namespace, attributes.name)).ok();
            // Missing objects and those of other nodes get the same refusal.
            related(its.is_some_and(|pod| is_on(&pod, node)))
        }
        ("coordination.k8s.io", "leases", _) => {
            if attributes.namespace != LEASES {
                return Err(format!("can only access leases in the {} system namespace", quote(LEASES)));
            }
            if verb != "create" && attributes.name != node {
                return Err("can only access node lease with the same name as the requesting node".into());
            }
            Ok(())
        }
        ("storage.k8s.io", "csinodes", _) if verb != "create" && attributes.name != node => {
            Err("can only access CSINode with the same name as the requesting node".into())
        }
        ("storage.k8s.io", "volumeattachments", _) => {
            individually()?;
            let attachment = api.get_as::<VolumeAttachment>(&Key::new("", attributes.name)).ok();
            related(attachment.is_some_and(|attachment| attachment.spec.node_name == node))
        }
        ("resource.k8s.io", "resourceclaims", part) => {
            individually()?;
            if !part.is_empty() {
                return Err("cannot get subresource".into());
            }
            related(names_resource_claim(api, node, attributes.namespace, attributes.name))
        }
        _ => Ok(()),
    }
}
