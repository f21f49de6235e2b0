//! A map by key: namespace by namespace, each in the order of its names.
//!
//! One map in the other, because names are compared a dozen times in each search and namespaces need not be.

use std::collections::BTreeMap;

use super::Key;

/// Values by key, in the order of keys.
#[derive(Clone, Debug)]
pub struct KeyMap<V> {
    // None of them is empty.
    namespaces: BTreeMap<String, BTreeMap<String, V>>,
    len: usize,
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self { namespaces: BTreeMap::new(), len: 0 }
    }
}

impl<V> KeyMap<V> {
    /// What is kept under the key.
    pub fn get(&self, key: &Key) -> Option<&V> {
        self.namespaces.get(&key.namespace)?.get(&key.name)
    }

    /// Whether anything is kept under the key.
    pub fn contains(&self, key: &Key) -> bool {
        self.get(key).is_some()
    }

    /// Keeps a value; answers the one that was there.
    pub fn insert(&mut self, key: Key, value: V) -> Option<V> {
        let Key { namespace, name } = key;
        let before = match self.namespaces.get_mut(&namespace) {
            Some(names) => names.insert(name, value),
            None => self.namespaces.entry(namespace).or_default().insert(name, value),
        };
        self.len += usize::from(before.is_none());
        before
    }

    /// Keeps it no longer.
    pub fn remove(&mut self, key: &Key) -> Option<V> {
        let names = self.namespaces.get_mut(&key.namespace)?;
        let removed = names.remove(&key.name)?;
        if names.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        self.len -= 1;
        Some(removed)
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.namespaces.values().flat_map(BTreeMap::values)
    }

    /// The values of one namespace; that of cluster-scoped objects is "".
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &V> {
        self.namespaces.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
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
