//! Shares equal parts between many objects.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::pod_references::PodReferences;
use object::resources::Amounts;

/// The maximum number of interned parts per type. At the limit the table is cleared; parts in use remain valid.
const MAX_PARTS: usize = 8192;

pub(crate) type Labels = BTreeMap<String, String>;

/// The interned parts.
#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Arc<str>>,
    labels: HashSet<Arc<Labels>>,
    amounts: HashSet<Arc<Amounts>>,
    uses: HashSet<Arc<PodReferences>>,
    owners: HashMap<String, Arc<OwnerReference>>,
}

impl Interner {
    /// Interns a text.
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        keep(&mut self.texts, &new);
        new
    }

    /// Interns labels.
    pub(crate) fn labels(&mut self, labels: Option<&Labels>) -> Arc<Labels> {
        let none = Labels::new();
        let labels = labels.unwrap_or(&none);
        if let Some(known) = self.labels.get(labels) {
            return known.clone();
        }
        let new = Arc::new(labels.clone());
        keep(&mut self.labels, &new);
        new
    }

    /// Interns resource quantities.
    pub(crate) fn amounts(&mut self, amounts: Amounts) -> Arc<Amounts> {
        if let Some(known) = self.amounts.get(&amounts) {
            return known.clone();
        }
        let new = Arc::new(amounts);
        keep(&mut self.amounts, &new);
        new
    }

    /// Interns the references of a pod.
    pub(crate) fn uses(&mut self, uses: PodReferences) -> Arc<PodReferences> {
        if let Some(known) = self.uses.get(&uses) {
            return known.clone();
        }
        let new = Arc::new(uses);
        keep(&mut self.uses, &new);
        new
    }

    /// Interns an owner reference.
    pub(crate) fn owner(&mut self, owner: &OwnerReference) -> Arc<OwnerReference> {
        if let Some(known) = self.owners.get(&owner.uid).filter(|known| ***known == *owner) {
            return known.clone();
        }
        let new = Arc::new(owner.clone());
        if self.owners.len() >= MAX_PARTS {
            self.owners.clear();
        }
        self.owners.insert(owner.uid.clone(), new.clone());
        new
    }
}

fn keep<T: Clone + Eq + Hash>(known: &mut HashSet<T>, new: &T) {
    if known.len() >= MAX_PARTS {
        known.clear();
    }
    known.insert(new.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_stored_once_and_memory_is_bounded_con_1() {
        let mut interner = Interner::default();
        let (a, b) = (interner.text("Running"), interner.text("Running"));
        assert!(Arc::ptr_eq(&a, &b));
        let labels = Labels::from([("app".to_owned(), "web".to_owned())]);
        assert!(Arc::ptr_eq(&interner.labels(Some(&labels)), &interner.labels(Some(&labels))));
        assert!(interner.labels(None).is_empty());
        let owner = OwnerReference { uid: "u".into(), name: "web".into(), ..OwnerReference::default() };
        let renamed = OwnerReference { name: "api".into(), ..owner.clone() };
        assert!(Arc::ptr_eq(&interner.owner(&owner), &interner.owner(&owner)));
        assert_eq!(interner.owner(&renamed).name, "api");
        for n in 0..3 * MAX_PARTS {
            interner.text(&n.to_string());
        }
        assert!(interner.texts.len() <= MAX_PARTS);
    }
}
