//! Checks the existing pods of a namespace when its level is raised.

use std::collections::{BTreeMap, HashSet};

use k8s_openapi::api::core::v1::Pod;

use super::checks;
use super::policy::LevelVersion;
use crate::Api;
use base::quote::quote;
use base::sort::SliceOrder;
use kinds::built_in;
use object::owner::controller_of;
use object::{Kind, SharedObject};

/// The limit on checked pods; Kubernetes' `defaultNamespaceMaxPodsToCheck`.
const MAX_CHECKED: usize = 3000;

/// Returns warnings that name existing pods which violate the level, and would now be refused.
pub(super) fn warnings(api: &Api, namespace: &str, enforce: LevelVersion) -> Vec<String> {
    let pods = one_per_controller_first(api.list_as::<Pod>(Some(namespace)));
    let total = pods.len();
    let checked = total.min(MAX_CHECKED);
    // By violation: the first pod's name, and the number of pods.
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in &pods[..checked] {
        let shape = built_in(Kind::Pod).pod(pod.object());
        let Some(violations) = shape.and_then(|shape| checks::violations(enforce, &shape)) else { continue };
        let name = pod.object().name();
        let (first, count) = found.entry(violations.reasons()).or_insert_with(|| (name.into(), 0));
        if name < first.as_str() {
            *first = name.into();
        }
        *count += 1;
    }
    let mut warnings = Vec::new();
    if checked < total {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {} violate the new PodSecurity enforce level {}",
            quote(namespace),
            quote(&enforce.to_string())
        ));
    }
    let mut lines: Vec<String> = found
        .into_iter()
        .map(|(reasons, (first, count))| match count {
            1 => format!("{first}: {reasons}"),
            2 => format!("{first} (and 1 other pod): {reasons}"),
            _ => format!("{first} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    lines.order();
    warnings.append(&mut lines);
    warnings
}

/// Orders pods so that one of each kind is checked first: those without a controller, and the first of each
/// controller.
fn one_per_controller_first(pods: Vec<SharedObject<Pod>>) -> Vec<SharedObject<Pod>> {
    let mut controllers = HashSet::new();
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for pod in pods {
        let is_first =
            controller_of(&pod.metadata).is_none_or(|controller| controllers.insert(controller.uid.clone()));
        if is_first { first.push(pod) } else { others.push(pod) }
    }
    first.append(&mut others);
    first
}
