//! PodDisruptionBudgets for preemption: the pods that each one still allows to evict.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::state::pod_info::PodInfo;
use object::selector::Selector;
use object::{Key, SharedObject};

#[derive(Clone, Debug)]
struct Budget {
    selector: Selector,
    allowed: i64,
    /// Pods with an eviction that the status has already counted.
    disrupted: HashSet<String>,
}

/// All budgets, by namespace.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    by_namespace: HashMap<String, HashMap<String, Budget>>,
}

impl Budgets {
    /// Sets a new or changed budget.
    pub(crate) fn set(&mut self, budget: &SharedObject<PodDisruptionBudget>) {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let status = budget.status.as_ref();
        let read = Budget {
            // policy/v1: no selector selects nothing, an empty one everything.
            selector: Selector::from_optional(selector),
            allowed: status.and_then(|s| s.disruptions_allowed).map_or(0, i64::from),
            disrupted: status
                .and_then(|s| s.disrupted_pods.as_ref())
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone())
                .collect(),
        };
        let Key { namespace, name } = budget.key();
        self.by_namespace.entry(namespace).or_default().insert(name, read);
    }

    /// Removes a budget.
    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(budgets) = self.by_namespace.get_mut(&key.namespace) {
            budgets.remove(&key.name);
            if budgets.is_empty() {
                self.by_namespace.remove(&key.namespace);
            }
        }
    }

    /// Returns for each pod whether its eviction, after those of the pods before it, violates a budget.
    pub(crate) fn violated_by<'p>(&self, pods: impl Iterator<Item = &'p PodInfo>) -> Vec<bool> {
        if self.by_namespace.is_empty() {
            return pods.map(|_| false).collect();
        }
        let mut left: HashMap<(&str, &str), i64> = HashMap::new();
        let mut violated = Vec::new();
        for pod in pods {
            let (namespace, name) = (pod.pod.namespace(), pod.pod.name());
            let labels = pod.pod.metadata.labels.as_ref();
            let mut breaks = false;
            // A pod without labels matches no budget.
            let budgets = self.by_namespace.get(namespace).filter(|_| labels.is_some_and(|l| !l.is_empty()));
            for (budget_name, budget) in budgets.into_iter().flatten() {
                if budget.disrupted.contains(name) || !budget.selector.matches(labels) {
                    continue;
                }
                let left = left.entry((namespace, budget_name)).or_insert(budget.allowed);
                *left -= 1;
                breaks |= *left < 0;
            }
            violated.push(breaks);
        }
        violated
    }
}
