//! What a node's kubelet may do: read what the pods bound to it name, and write its own Node, Lease and pods
//! (Kubernetes' Node authorizer and its admission plugin NodeRestriction).
//!
//! The kubelets of this process are not asked; who comes with a certificate of `system:node:NAME` is.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod, PodSpec};

use super::attributes::{Attributes, On, ResourceAttributes};
use super::rules::allows;
use super::{Decision, defaults};
use crate::identity::User;
use crate::{Api, ApiError};
use base::quote::quote;
use object::well_known::annotation;
use object::{Key, Kind, Object, Shared};

/// Where nodes keep their heartbeats.
const LEASES: &str = "kube-node-lease";

/// Labels that only others may give a node.
const RESTRICTED_LABELS: &str = "node-restriction.kubernetes.io";

/// Whether a node may do what is asked, or why not.
pub(super) fn decide(api: &Api, node: &str, asked: &Attributes<'_>) -> Decision {
    if let On::Resource(resource) = asked.on
        && let Err(reason) = reaches(api, node, asked.verb, &resource)
    {
        return Decision { allowed: false, reason };
    }
    let rules = defaults::node_rules();
    let allowed = rules.iter().any(|rule| allows(rule, asked.verb, asked.on));
    Decision { allowed, reason: String::new() }
}

/// Whether what is asked is about what belongs to the node; what it may do there is its role's business.
fn reaches(api: &Api, node: &str, verb: &str, asked: &ResourceAttributes<'_>) -> Result<(), String> {
    let reads = matches!(verb, "get" | "list" | "watch");
    let related = |is: bool| {
        is.then_some(()).ok_or_else(|| format!("no relationship found between node '{node}' and this object"))
    };
    match (asked.group, asked.resource, asked.subresource) {
        ("", "secrets" | "configmaps", _) => {
            if !reads || !asked.subresource.is_empty() {
                return Err("can only read resources of this type".into());
            }
            if asked.name.is_empty() || asked.namespace.is_empty() {
                return Err("can only read namespaced object of this type".into());
            }
            let names: fn(&PodSpec, &str) -> bool =
                if asked.resource == "secrets" { names_secret } else { names_config_map };
            related(pods(api, node, asked.namespace, |spec| names(spec, asked.name)))
        }
        ("", "persistentvolumeclaims", part) => {
            if part.is_empty() && verb != "get" {
                return Err("can only get individual resources of this type".into());
            }
            related(names_claim(api, node, asked.namespace, asked.name))
        }
        ("", "persistentvolumes", _) => {
            let volume = api.get_as::<PersistentVolume>(&Key::new("", asked.name)).ok();
            let claim = volume.and_then(|volume| volume.spec.as_ref()?.claim_ref.clone());
            related(claim.is_some_and(|claim| {
                let (namespace, name) = (claim.namespace.unwrap_or_default(), claim.name.unwrap_or_default());
                names_claim(api, node, &namespace, &name)
            }))
        }
        ("", "serviceaccounts", _) => related(pods(api, node, asked.namespace, |spec| {
            spec.service_account_name.as_deref().unwrap_or("default") == asked.name
        })),
        ("", "nodes", "") if reads => match asked.name {
            name if name == node => Ok(()),
            _ => Err(format!("node '{node}' cannot read '{}', only its own Node object", asked.name)),
        },
        ("", "nodes", _) if !asked.name.is_empty() && asked.name != node => {
            Err(format!("node '{node}' is not allowed to modify node '{}'", asked.name))
        }
        ("", "pods", "") if matches!(verb, "list" | "watch") && asked.name.is_empty() => {
            match asked.on_node {
                on_node if on_node == node => Ok(()),
                _ => Err(format!("can only list/watch pods with spec.nodeName={node} field selector")),
            }
        }
        ("", "pods", _) if !asked.name.is_empty() => {
            let its = api.get_as::<Pod>(&Key::new(asked.namespace, asked.name)).ok();
            // What is not there is told apart from what is another's by nobody.
            related(its.is_some_and(|pod| is_on(&pod, node)))
        }
        ("coordination.k8s.io", "leases", _) => {
            if asked.namespace != LEASES {
                return Err(format!("can only access leases in the {} system namespace", quote(LEASES)));
            }
            if verb != "create" && asked.name != node {
                return Err("can only access node lease with the same name as the requesting node".into());
            }
            Ok(())
        }
        ("storage.k8s.io", "csinodes", _) if verb != "create" && asked.name != node => {
            Err("can only access CSINode with the same name as the requesting node".into())
        }
        _ => Ok(()),
    }
}

fn is_on(pod: &Shared<Pod>, node: &str) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node)
}

/// Whether a pod of the namespace that is bound to the node is such.
fn pods(api: &Api, node: &str, namespace: &str, is_such: impl Fn(&PodSpec) -> bool) -> bool {
    !namespace.is_empty()
        && api
            .list_as::<Pod>(Some(namespace))
            .iter()
            .any(|pod| is_on(pod, node) && pod.spec.as_ref().is_some_and(&is_such))
}

fn names_claim(api: &Api, node: &str, namespace: &str, claim: &str) -> bool {
    !namespace.is_empty()
        && api.list_as::<Pod>(Some(namespace)).iter().any(|pod| {
            let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
            is_on(pod, node)
                && volumes.into_iter().any(|volume| {
                    let named = volume.persistent_volume_claim.as_ref().map(|c| c.claim_name.as_str());
                    named == Some(claim)
                        || (volume.ephemeral.is_some() && claim == format!("{}-{}", pod.name(), volume.name))
                })
        })
}

fn names_secret(spec: &PodSpec, name: &str) -> bool {
    let pulled = spec.image_pull_secrets.iter().flatten().any(|secret| secret.name == name);
    let mounted = spec.volumes.iter().flatten().any(|volume| {
        let projected = volume.projected.iter().flat_map(|p| p.sources.iter().flatten());
        volume.secret.as_ref().and_then(|secret| secret.secret_name.as_deref()) == Some(name)
            || projected.into_iter().any(|source| source.secret.as_ref().is_some_and(|s| s.name == name))
    });
    let read = environment(spec).any(|(from, env)| match (from, env) {
        (Some(from), _) => from.secret_ref.as_ref().is_some_and(|secret| secret.name == name),
        (_, Some(env)) => env
            .value_from
            .as_ref()
            .and_then(|source| source.secret_key_ref.as_ref())
            .is_some_and(|secret| secret.name == name),
        _ => false,
    });
    pulled || mounted || read
}

fn names_config_map(spec: &PodSpec, name: &str) -> bool {
    let mounted = spec.volumes.iter().flatten().any(|volume| {
        let projected = volume.projected.iter().flat_map(|p| p.sources.iter().flatten());
        volume.config_map.as_ref().is_some_and(|map| map.name == name)
            || projected.into_iter().any(|source| source.config_map.as_ref().is_some_and(|m| m.name == name))
    });
    let read = environment(spec).any(|(from, env)| match (from, env) {
        (Some(from), _) => from.config_map_ref.as_ref().is_some_and(|map| map.name == name),
        (_, Some(env)) => env
            .value_from
            .as_ref()
            .and_then(|source| source.config_map_key_ref.as_ref())
            .is_some_and(|map| map.name == name),
        _ => false,
    });
    mounted || read
}

type Source<'a> =
    (Option<&'a k8s_openapi::api::core::v1::EnvFromSource>, Option<&'a k8s_openapi::api::core::v1::EnvVar>);

/// Where the environment of every container comes from.
fn environment(spec: &PodSpec) -> impl Iterator<Item = Source<'_>> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let of_containers = containers.flat_map(|c| {
        let from = c.env_from.iter().flatten().map(|from| (Some(from), None));
        from.chain(c.env.iter().flatten().map(|env| (None, Some(env))))
    });
    let of_ephemeral = spec.ephemeral_containers.iter().flatten().flat_map(|c| {
        let from = c.env_from.iter().flatten().map(|from| (Some(from), None));
        from.chain(c.env.iter().flatten().map(|env| (None, Some(env))))
    });
    of_containers.chain(of_ephemeral)
}

/// Refuses a token that a node asks for and no pod of its own is bound to.
pub(crate) fn restrict_token(
    api: &Api,
    user: Option<&User>,
    account: &Key,
    request: &TokenRequest,
) -> Result<(), ApiError> {
    let Some(node) = user.and_then(User::node_name) else { return Ok(()) };
    let bound = request.spec.as_ref().and_then(|spec| spec.bound_object_ref.as_ref());
    let pod = bound.filter(|bound| {
        bound.kind.as_deref() == Some("Pod") && bound.uid.as_ref().is_some_and(|uid| !uid.is_empty())
    });
    let why = match pod {
        None => "node requested token not bound to a pod",
        Some(bound) => {
            let key = Key::new(account.namespace.as_str(), bound.name.as_deref().unwrap_or_default());
            match api.get_as::<Pod>(&key) {
                Ok(pod) if bound.uid.as_deref() != Some(pod.uid()) => {
                    "the UID in the bound object reference does not match"
                }
                Ok(pod) if is_on(&pod, node) => return Ok(()),
                Ok(_) => "node requested token bound to a pod scheduled on a different node",
                Err(_) => "node requested token bound to a pod that is not there",
            }
        }
    };
    Err(ApiError::forbidden(Kind::ServiceAccount, &account.name, why))
}

/// Refuses what a node may not write, by what is written; `old` is the version that it changes.
pub(crate) fn restrict(user: Option<&User>, old: Option<&Object>, new: &Object) -> Result<(), ApiError> {
    let Some(node) = user.and_then(User::node_name) else { return Ok(()) };
    let refused = |why: String| Err(ApiError::forbidden(new.kind(), new.name(), why));
    let its_own = new.name() == node;
    match new.kind() {
        Kind::Pod if old.is_none() => {
            let pod = new.get::<Pod>();
            if !new.meta().annotations.as_ref().is_some_and(|a| a.contains_key(annotation::MIRROR_POD)) {
                return refused(format!(
                    "pod does not have {} annotation, node {} can only create mirror pods",
                    quote(annotation::MIRROR_POD),
                    quote(node)
                ));
            }
            let spec = pod.and_then(|pod| pod.spec.as_ref());
            if spec.and_then(|spec| spec.node_name.as_deref()) != Some(node) {
                let why = "can only create pods with spec.nodeName set to itself";
                return refused(format!("node {} {why}", quote(node)));
            }
            if spec.is_some_and(names_anything) {
                let why = "can not create pods that reference secrets, configmaps, volume claims or a service account";
                return refused(format!("node {} {why}", quote(node)));
            }
            Ok(())
        }
        Kind::Pod if old.is_some_and(|old| old.meta().labels != new.meta().labels) => {
            refused(format!("node {} cannot update labels through pod status", quote(node)))
        }
        Kind::Node if !its_own => {
            refused(format!("node {} is not allowed to modify node {}", quote(node), quote(new.name())))
        }
        Kind::Node => restrict_node(node, old, new),
        Kind::Lease if new.meta().namespace.as_deref() == Some(LEASES) && !its_own => {
            refused("can only access node lease with the same name as the requesting node".into())
        }
        _ => Ok(()),
    }
}

fn names_anything(spec: &PodSpec) -> bool {
    let volumes = spec.volumes.iter().flatten().any(|volume| {
        volume.secret.is_some()
            || volume.config_map.is_some()
            || volume.persistent_volume_claim.is_some()
            || volume.ephemeral.is_some()
            || volume.projected.is_some()
    });
    let environment = environment(spec).any(|(from, env)| {
        let named = env.and_then(|env| env.value_from.as_ref());
        from.is_some()
            || named.is_some_and(|named| named.secret_key_ref.is_some() || named.config_map_key_ref.is_some())
    });
    volumes || environment || spec.service_account_name.as_ref().is_some_and(|name| !name.is_empty())
}

fn restrict_node(node: &str, old: Option<&Object>, new: &Object) -> Result<(), ApiError> {
    let refused = |why: String| Err(ApiError::forbidden(Kind::Node, node, why));
    let taints = |object: &Object| object.get::<Node>().and_then(|n| n.spec.as_ref()?.taints.clone());
    if old.is_some_and(|old| taints(old) != taints(new)) {
        return refused(format!("node {} is not allowed to modify taints", quote(node)));
    }
    let labels = |object: &Object| object.meta().labels.clone().unwrap_or_default();
    let (before, after) = (old.map(labels).unwrap_or_default(), labels(new));
    let restricted = |key: &&String| {
        let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
        prefix == RESTRICTED_LABELS || prefix.ends_with(&format!(".{RESTRICTED_LABELS}"))
    };
    let mut changed: Vec<&String> = before
        .keys()
        .chain(after.keys())
        .filter(restricted)
        .filter(|k| before.get(*k) != after.get(*k))
        .collect();
    changed.sort();
    changed.dedup();
    if changed.is_empty() {
        return Ok(());
    }
    let list: Vec<&str> = changed.iter().map(|key| key.as_str()).collect();
    refused(format!("node {} is not allowed to modify labels: {}", quote(node), list.join(", ")))
}
