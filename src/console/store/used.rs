//! The measured usage of nodes, pods and containers, stored compactly because there may be very many.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use compact_str::CompactString;

/// The measured usage of a node, a pod or a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU in thousandths.
    pub cpu_millis: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
}

impl Used {
    /// Returns the sum of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }
}

/// The usage of one pod's containers, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainersUsed(Box<[(Arc<str>, Used)]>);

impl ContainersUsed {
    /// Returns the usage of one container.
    pub(crate) fn of(&self, container: &str) -> Option<Used> {
        self.0.iter().find(|(name, _)| &**name == container).map(|(_, used)| *used)
    }

    /// Returns the usage of the whole pod.
    pub(crate) fn sum(&self) -> Used {
        self.0.iter().fold(Used::default(), |sum, (_, used)| sum.and(*used))
    }
}

impl<'a> FromIterator<(&'a str, Used)> for ContainersUsed {
    fn from_iter<T: IntoIterator<Item = (&'a str, Used)>>(containers: T) -> Self {
        Self(containers.into_iter().map(|(name, used)| (Arc::from(name), used)).collect())
    }
}

/// The usage of each pod, per container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodsUsed {
    by_namespace: HashMap<String, HashMap<CompactString, ContainersUsed>>,
    /// Interned container names: few, and each in very many pods.
    names: HashSet<Arc<str>>,
}

impl PodsUsed {
    /// Returns the usage of a pod's containers.
    pub(crate) fn of(&self, namespace: &str, name: &str) -> Option<&ContainersUsed> {
        self.by_namespace.get(namespace)?.get(name)
    }

    /// Stores the usage of a pod's containers.
    pub fn put<'a>(
        &mut self,
        namespace: &str,
        name: &str,
        containers: impl IntoIterator<Item = (&'a str, Used)>,
    ) {
        let containers = containers.into_iter().map(|(name, used)| (known(&mut self.names, name), used));
        let containers = ContainersUsed(containers.collect());
        if let Some(pods) = self.by_namespace.get_mut(namespace) {
            pods.insert(name.into(), containers);
        } else {
            self.by_namespace.insert(namespace.to_owned(), HashMap::from([(name.into(), containers)]));
        }
    }
}

/// Returns the interned name.
fn known(names: &mut HashSet<Arc<str>>, name: &str) -> Arc<str> {
    if let Some(known) = names.get(name) {
        return known.clone();
    }
    let new: Arc<str> = name.into();
    names.insert(new.clone());
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pods_containers_are_found_and_summed_con_4() {
        let used = |cpu_millis, memory_bytes| Used { cpu_millis, memory_bytes };
        let mut pods = PodsUsed::default();
        pods.put("a", "web", [("main", used(5, 10)), ("side", used(1, i64::MAX))]);
        pods.put("b", "web", [("main", used(7, 0))]);
        let of = |namespace, name| pods.of(namespace, name);
        let web = of("a", "web").expect("measured");
        assert_eq!((web.of("main"), web.of("none")), (Some(used(5, 10)), None));
        assert_eq!(web.sum(), used(6, i64::MAX));
        assert_eq!(of("b", "web").map(ContainersUsed::sum), Some(used(7, 0)));
        assert!(of("b", "db").is_none() && of("c", "web").is_none());
    }
}
