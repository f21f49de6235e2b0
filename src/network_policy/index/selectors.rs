//! Label selectors, found by the labels of the objects that they may select.

use std::collections::HashMap;
use std::hash::Hash;

use object::selector::{Labels, Operator, Selector};

/// A condition on one label that every object matching a selector meets.
pub(super) enum Anchor<'a> {
    /// The label has one of these values.
    Values(&'a str, &'a [String]),
    /// The label exists.
    Present(&'a str),
    /// No such condition.
    None,
}

/// Returns the condition of a selector that presumably the fewest objects meet.
pub(super) fn anchor(selector: &Selector) -> Anchor<'_> {
    let requirements = selector.requirements();
    let valued = requirements.iter().filter_map(|requirement| match &requirement.operator {
        Operator::In(values) => Some((requirement.key.as_str(), values.as_slice())),
        _ => None,
    });
    if let Some((key, values)) = valued.min_by_key(|(_, values)| values.len()) {
        return Anchor::Values(key, values);
    }
    let present = requirements.iter().find(|requirement| {
        matches!(requirement.operator, Operator::Exists | Operator::GreaterThan(_) | Operator::LessThan(_))
    });
    present.map_or(Anchor::None, |requirement| Anchor::Present(&requirement.key))
}

/// Owners of selectors, found by the labels that the selectors require.
pub(super) struct Selectors<T> {
    by_label: HashMap<String, SelectorsByLabel<T>>,
    /// Owners of selectors without a required label.
    others: HashMap<T, Selector>,
}

struct SelectorsByLabel<T> {
    by_value: HashMap<String, HashMap<T, Selector>>,
    any_value: HashMap<T, Selector>,
}

impl<T> Default for Selectors<T> {
    fn default() -> Self {
        Self { by_label: HashMap::new(), others: HashMap::new() }
    }
}

impl<T> Default for SelectorsByLabel<T> {
    fn default() -> Self {
        Self { by_value: HashMap::new(), any_value: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Selectors<T> {
    /// Adds a new owner with its selector.
    pub(super) fn insert(&mut self, selector: &Selector, owner: &T) {
        match anchor(selector) {
            Anchor::Values(key, values) => {
                let of_label = self.by_label.entry(key.to_owned()).or_default();
                for value in values {
                    let owners = of_label.by_value.entry(value.clone()).or_default();
                    owners.insert(owner.clone(), selector.clone());
                }
            }
            Anchor::Present(key) => {
                let of_label = self.by_label.entry(key.to_owned()).or_default();
                of_label.any_value.insert(owner.clone(), selector.clone());
            }
            Anchor::None => drop(self.others.insert(owner.clone(), selector.clone())),
        }
    }

    /// Removes an owner with its selector.
    pub(super) fn remove(&mut self, selector: &Selector, owner: &T) {
        let (Anchor::Values(key, _) | Anchor::Present(key)) = anchor(selector) else {
            self.others.remove(owner);
            return;
        };
        let Some(of_label) = self.by_label.get_mut(key) else { return };
        match anchor(selector) {
            Anchor::Values(_, values) => {
                for value in values {
                    if let Some(owners) = of_label.by_value.get_mut(value) {
                        owners.remove(owner);
                        if owners.is_empty() {
                            of_label.by_value.remove(value);
                        }
                    }
                }
            }
            Anchor::Present(_) | Anchor::None => drop(of_label.any_value.remove(owner)),
        }
        if of_label.by_value.is_empty() && of_label.any_value.is_empty() {
            self.by_label.remove(key);
        }
    }

    /// Returns the owners of matching selectors, each once.
    pub(super) fn matching<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = &'a T> + 'a {
        let candidates = self.candidates(labels);
        candidates.filter(|(_, selector)| selector.matches(Some(labels))).map(|(owner, _)| owner)
    }

    /// Returns the owners of selectors that may match.
    pub(super) fn candidates<'a>(
        &'a self,
        labels: &'a Labels,
    ) -> impl Iterator<Item = (&'a T, &'a Selector)> + 'a {
        let labelled = labels.iter().filter_map(|(key, value)| Some((self.by_label.get(key)?, value)));
        let labelled = labelled.flat_map(|(of_label, value)| {
            of_label.by_value.get(value).into_iter().flatten().chain(&of_label.any_value)
        });
        labelled.chain(&self.others)
    }

    /// Returns all owners, some of them more than once.
    pub(super) fn owners(&self) -> impl Iterator<Item = &T> {
        let labelled = self.by_label.values();
        let labelled =
            labelled.flat_map(|of_label| of_label.by_value.values().flatten().chain(&of_label.any_value));
        labelled.chain(&self.others).map(|(owner, _)| owner)
    }

    /// Returns whether there are no owners.
    pub(super) fn is_empty(&self) -> bool {
        self.by_label.is_empty() && self.others.is_empty()
    }
}
