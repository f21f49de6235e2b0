//! A map by key: namespace by namespace, each in the order of its names.
//!
//! The maps are nested so that a search, which compares about a dozen keys, compares only names and not namespaces too.

use std::collections::BTreeMap;

use super::Key;

/// Values by key, in the order of keys.
#[derive(Clone, Debug)]
pub struct KeyMap<V> {
    // Invariant: none of the inner maps is empty.
    namespaces: BTreeMap<String, BTreeMap<String, V>>,
    len: usize,
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self { namespaces: BTreeMap::new(), len: 0 }
    }
}

impl<V> KeyMap<V> {
    /// Returns the value of the key.
    pub fn get(&self, key: &Key) -> Option<&V> {
        self.namespaces.get(&key.namespace)?.get(&key.name)
    }

    /// Returns true if the key has a value.
    pub fn contains(&self, key: &Key) -> bool {
        self.get(key).is_some()
    }

    /// Sets a value; returns the previous one.
    pub fn insert(&mut self, key: Key, value: V) -> Option<V> {
        let Key { namespace, name } = key;
        let before = match self.namespaces.get_mut(&namespace) {
            Some(names) => names.insert(name, value),
            None => self.namespaces.entry(namespace).or_default().insert(name, value),
        };
        self.len += usize::from(before.is_none());
        before
    }

    /// Removes a value and returns it.
    pub fn remove(&mut self, key: &Key) -> Option<V> {
        let names = self.namespaces.get_mut(&key.namespace)?;
        let removed = names.remove(&key.name)?;
        if names.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        self.len -= 1;
        Some(removed)
    }

    /// Returns all values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.namespaces.values().flat_map(BTreeMap::values)
    }

    /// Returns the values of one namespace; "" for cluster-scoped objects.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &V> {
        self.namespaces.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_by_namespace_then_name_and_each_key_has_one() {
        let mut map = KeyMap::default();
        let keys = [("b", "x"), ("a", "y"), ("", "node"), ("a", "x"), ("ab", "x"), ("a", "y")];
        for (turn, (namespace, name)) in keys.into_iter().enumerate() {
            let before = map.insert(Key::new(namespace, name), turn);
            assert_eq!(before, (turn == 5).then_some(1));
        }
        assert_eq!(map.values().copied().collect::<Vec<_>>(), [2, 3, 5, 4, 0]);
        assert_eq!(map.in_namespace("a").copied().collect::<Vec<_>>(), [3, 5]);
        assert_eq!(map.in_namespace("c").count(), 0);
        assert_eq!((map.len(), map.get(&Key::new("a", "y"))), (5, Some(&5)));
        assert_eq!((map.remove(&Key::new("b", "x")), map.remove(&Key::new("b", "x"))), (Some(0), None));
        assert!(!map.contains(&Key::new("b", "x")) && !map.namespaces.contains_key("b") && !map.is_empty());
        assert_eq!(map.len(), 4);
    }
}
