//! Rules of the resize subresource, which may change the CPU and memory of running containers and sidecars within the
//! pod's QoS class. The subresource has already restored all other fields.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};

use super::validate as pod;
use apimachinery::validate::container::RESIZABLE;
use apimachinery::validate::{FieldErrors, Path};
use object::quantity::ResourceList;
use object::resources::{is_sidecar, qos_class};
use object::well_known::annotation::MIRROR_POD;

/// Validates a write through the resize subresource.
pub(crate) fn resize(errors: &mut FieldErrors, new_pod: &Pod, old_pod: &Pod) {
    pod::pod(errors, new_pod);
    let (new, old) = (pod::spec_of(new_pod), pod::spec_of(old_pod));
    let (root, path) = (Path::root(""), Path::root("spec"));
    let static_pod = old_pod.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(MIRROR_POD));
    let windows = old.os.as_ref().is_some_and(|os| os.name == "windows");
    let whole = old.resources.as_ref().is_some_and(|r| r.limits.is_some() || r.requests.is_some());
    for (is, what) in [
        (static_pod, "static pods cannot be resized"),
        (windows, "windows pods cannot be resized"),
        (whole, "pods with pod-level resources cannot be resized"),
    ] {
        if is {
            errors.forbidden(&root, what);
            return;
        }
    }
    let stored = old_pod.status.as_ref().and_then(|s| s.qos_class.clone());
    let before = stored.unwrap_or_else(|| qos_class(old_pod).to_string());
    if before != qos_class(new_pod) {
        errors.invalid(&path, &before, "Pod QOS Class may not change as a result of resizing");
    }
    let inits = |spec: &PodSpec| spec.init_containers.clone().unwrap_or_default();
    let lists = [
        ("containers", new.containers.clone(), old.containers.clone()),
        ("initContainers", inits(new), inits(old)),
    ];
    let mut in_order = true;
    for (field, new, old) in &lists {
        let list = path.child(field);
        if new.len() != old.len() {
            errors.forbidden(&list, format!("{field} may not be added or removed on resize"));
            in_order = false;
            continue;
        }
        for (i, (new, old)) in new.iter().zip(old).enumerate() {
            if new.name != old.name {
                let detail = format!("{field} may not be renamed or reordered on resize");
                errors.forbidden(&list.index(i).child("name"), detail);
                in_order = false;
            }
        }
    }
    if !in_order {
        return;
    }
    for (field, new, old) in &lists {
        let list = path.child(field);
        for (i, (new, old)) in new.iter().zip(old).enumerate() {
            nothing_removed(errors, &list.index(i).child("resources"), new, old);
        }
    }
    for (field, new, old) in lists {
        for (new, old) in new.into_iter().zip(old) {
            let text = match field {
                "containers" => "only cpu and memory resources are mutable",
                _ if is_sidecar(&old) => "only cpu and memory resources for sidecar containers are mutable",
                _ if new != old => {
                    errors.forbidden(&path, "resources for non-sidecar init containers are immutable");
                    continue;
                }
                _ => continue,
            };
            if with_cpu_and_memory_of(new, &old) != old {
                errors.forbidden(&path, text);
            }
        }
    }
}

/// Requests and limits may change, but cannot be removed.
fn nothing_removed(errors: &mut FieldErrors, path: &Path<'_>, new: &Container, old: &Container) {
    type Side = fn(&ResourceRequirements) -> Option<&ResourceList>;
    let sides: [(&str, Side); 2] = [("requests", |r| r.requests.as_ref()), ("limits", |r| r.limits.as_ref())];
    for (field, side) in sides {
        let of = |container: &Container, name: &str| {
            container.resources.as_ref().and_then(side).is_some_and(|list| list.contains_key(name))
        };
        if RESIZABLE.iter().any(|name| of(old, name) && !of(new, name)) {
            errors.forbidden(&path.child(field), format!("resource {field} cannot be removed"));
        }
    }
}

/// Returns the container with the CPU and memory of `old`. Remaining differences are errors.
fn with_cpu_and_memory_of(mut container: Container, old: &Container) -> Container {
    fn put_back(to: &mut Option<ResourceList>, from: Option<&ResourceList>) {
        for name in RESIZABLE {
            match from.and_then(|list| list.get(name)) {
                Some(amount) => {
                    to.get_or_insert_default().insert(name.to_string(), amount.clone());
                }
                None => {
                    if let Some(list) = to {
                        list.remove(name);
                    }
                }
            }
        }
        // An empty list is the same as none.
        if to.as_ref().is_some_and(ResourceList::is_empty) && from.is_none() {
            *to = None;
        }
    }
    let resources = container.resources.get_or_insert_default();
    let before = old.resources.as_ref();
    put_back(&mut resources.limits, before.and_then(|r| r.limits.as_ref()));
    put_back(&mut resources.requests, before.and_then(|r| r.requests.as_ref()));
    if before.is_none() && *resources == ResourceRequirements::default() {
        container.resources = None;
    }
    container
}
