//! Pods, found by namespace and label.

use std::collections::{BTreeSet, HashMap};

use super::selectors::{Anchor, anchor};
use object::Key;
use object::selector::{Labels, Selector};

/// The pods that selectors can match.
#[derive(Default)]
pub(super) struct Pods {
    by_namespace: HashMap<String, NamespacePods>,
}

#[derive(Default)]
struct NamespacePods {
    all: BTreeSet<Key>,
    by_label: HashMap<String, HashMap<String, BTreeSet<Key>>>,
}

impl Pods {
    /// Adds a new pod with its labels.
    pub(super) fn insert(&mut self, pod: &Key, labels: &Labels) {
        let own = self.by_namespace.entry(pod.namespace.clone()).or_default();
        own.all.insert(pod.clone());
        for (key, value) in labels {
            let values = own.by_label.entry(key.clone()).or_default();
            values.entry(value.clone()).or_default().insert(pod.clone());
        }
    }

    /// Removes a pod with its labels.
    pub(super) fn remove(&mut self, pod: &Key, labels: &Labels) {
        let Some(own) = self.by_namespace.get_mut(&pod.namespace) else { return };
        own.all.remove(pod);
        for (key, value) in labels {
            let Some(values) = own.by_label.get_mut(key) else { continue };
            if let Some(pods) = values.get_mut(value) {
                pods.remove(pod);
                if pods.is_empty() {
                    values.remove(value);
                }
            }
            if values.is_empty() {
                own.by_label.remove(key);
            }
        }
        if own.all.is_empty() {
            self.by_namespace.remove(&pod.namespace);
        }
    }

    /// Returns the namespaces with pods.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.by_namespace.keys().map(String::as_str)
    }

    /// Returns the pods of a namespace that a selector may match: all that it matches, and few others.
    pub(super) fn candidates<'a>(
        &'a self,
        namespace: &str,
        selector: &'a Selector,
    ) -> Box<dyn Iterator<Item = &'a Key> + 'a> {
        let Some(own) = self.by_namespace.get(namespace) else { return Box::new(std::iter::empty()) };
        match anchor(selector) {
            Anchor::Values(key, values) => {
                let by_value = own.by_label.get(key);
                Box::new(values.iter().filter_map(move |value| by_value?.get(value)).flatten())
            }
            Anchor::Present(key) => {
                Box::new(own.by_label.get(key).into_iter().flat_map(HashMap::values).flatten())
            }
            Anchor::None => Box::new(own.all.iter()),
        }
    }
}
