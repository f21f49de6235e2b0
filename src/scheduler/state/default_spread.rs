//! The cluster-level spread constraints, for pods that have none but belong to a Service or a workload.
//!
//! The pods counted are those selected by the same Services and the same owner (page "Pod Topology Spread
//! Constraints", "Cluster-level default constraints").

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;

use crate::state::pod_info::PodInfo;
use crate::state::spread::{MissingKeys, Spread};
use object::owner::controller_of;
use object::selector::{Labels, Operator, Requirement, Selector};
use object::well_known::label::{HOSTNAME, ZONE};
use object::{Body, Key, Kind, Object};

/// The constraints of a profile (`PodTopologySpreadArgs`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DefaultConstraints {
    constraints: Vec<TopologySpreadConstraint>,
    missing: MissingKeys,
}

impl DefaultConstraints {
    /// `defaultingType: System`: preferences to spread pods over nodes and, with a larger skew, over zones.
    pub(crate) fn system() -> Self {
        let wish = |key: &str, max_skew: i32| TopologySpreadConstraint {
            max_skew,
            topology_key: key.into(),
            when_unsatisfiable: "ScheduleAnyway".into(),
            ..TopologySpreadConstraint::default()
        };
        Self { constraints: vec![wish(HOSTNAME, 3), wish(ZONE, 5)], missing: MissingKeys::Ignore }
    }

    /// `defaultingType: List`.
    pub(crate) fn list(constraints: Vec<TopologySpreadConstraint>) -> Self {
        Self { constraints, missing: MissingKeys::Exclude }
    }

    /// Returns the pod with these constraints added if it has none of its own and a Service or workload selects it;
    /// `None` otherwise.
    pub(crate) fn apply(&self, pod: &Arc<PodInfo>, selectors: &Selectors) -> Option<Arc<PodInfo>> {
        if !pod.spread.is_empty() || self.constraints.is_empty() {
            return None;
        }
        let selector = selectors.of(pod)?;
        let spread = Spread::by_default(&self.constraints, &selector, &pod.pod, self.missing);
        Some(Arc::new(PodInfo { spread, ..(**pod).clone() }))
    }
}

/// The selectors of Services and workloads.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    services: HashMap<String, HashMap<String, Labels>>,
    workloads: HashMap<(Kind, Key), Selector>,
}

impl Selectors {
    /// Sets or removes the selector of a Service or workload; ignores other objects.
    pub(crate) fn update(&mut self, object: &Object, deleted: bool) {
        let key = object.key();
        if let Body::Service(service) = object.body() {
            let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone());
            if let Some(labels) = selector.filter(|labels| !deleted && !labels.is_empty()) {
                self.services.entry(key.namespace).or_default().insert(key.name, labels);
            } else if let Some(services) = self.services.get_mut(&key.namespace) {
                services.remove(&key.name);
                if services.is_empty() {
                    self.services.remove(&key.namespace);
                }
            }
            return;
        }
        let Some(selector) = workload_selector(object) else { return };
        let place = (object.kind(), key);
        if deleted {
            self.workloads.remove(&place);
        } else {
            self.workloads.insert(place, selector);
        }
    }

    /// Returns the selector of the pods counted with this one; `None` if nothing selects it.
    fn of(&self, pod: &PodInfo) -> Option<Selector> {
        let (namespace, labels) = (pod.pod.namespace(), pod.pod.metadata.labels.as_ref());
        let selects = |selector: &&Labels| Selector::from_labels(selector).matches(labels);
        let services = self.services.get(namespace).into_iter().flat_map(HashMap::values);
        let mut same = Labels::new();
        for selector in services.filter(selects) {
            same.extend(selector.clone());
        }
        let mut all: Vec<Requirement> = same
            .into_iter()
            .map(|(key, value)| Requirement { key, operator: Operator::In(vec![value]) })
            .collect();
        let owner = controller_of(&pod.pod.metadata).and_then(|owner| {
            let kind = Kind::from_api_version(&owner.api_version, &owner.kind)?;
            self.workloads.get(&(kind, Key::new(namespace, &owner.name)))
        });
        all.extend(owner.into_iter().flat_map(|selector| selector.requirements().to_vec()));
        all.dedup();
        (!all.is_empty()).then(|| Selector::all_of(all))
    }
}

/// Returns the selector of a workload with pods that may be spread.
fn workload_selector(object: &Object) -> Option<Selector> {
    Some(match object.body() {
        Body::ReplicaSet(set) => Selector::from_field(&set.spec.selector),
        Body::StatefulSet(set) => Selector::from_field(&set.spec.selector),
        // The API server defaults a missing selector to the labels of the template.
        Body::ReplicationController(controller) => {
            Selector::from_labels(controller.spec.as_ref()?.selector.as_ref()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn namespaces_without_selecting_services_take_no_memory_sch_6() {
        let service = |selector: Value| {
            let service =
                json!({"metadata": {"name": "web", "namespace": "d"}, "spec": {"selector": selector}});
            Object::from_value(Kind::Service, service).unwrap()
        };
        let (selecting, without) = (service(json!({"app": "web"})), service(json!(null)));
        let mut selectors = Selectors::default();
        selectors.update(&without, false);
        assert!(selectors.services.is_empty());
        for (now, is_deleted) in [(&selecting, true), (&without, false)] {
            selectors.update(&selecting, false);
            assert_eq!(selectors.services["d"].len(), 1);
            selectors.update(now, is_deleted);
            assert!(selectors.services.is_empty());
        }
    }
}
