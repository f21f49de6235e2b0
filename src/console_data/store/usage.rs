//! The measured usage of nodes, pods and containers, stored compactly because there may be very many.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use compact_str::CompactString;

/// The measured usage of a node, a pod or a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// CPU in thousandths.
    pub cpu_millis: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
}

impl ResourceUsage {
    /// Returns the sum of two usages.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }
}

/// The usage of one pod's containers, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerUsages(Box<[(Arc<str>, ResourceUsage)]>);

impl ContainerUsages {
    pub(crate) fn of(&self, container: &str) -> Option<ResourceUsage> {
        self.0.iter().find(|(name, _)| &**name == container).map(|(_, used)| *used)
    }

    /// Returns the usage of the whole pod.
    pub(crate) fn sum(&self) -> ResourceUsage {
        self.0.iter().fold(ResourceUsage::default(), |sum, (_, used)| sum.and(*used))
    }
}

impl<'a> FromIterator<(&'a str, ResourceUsage)> for ContainerUsages {
    fn from_iter<T: IntoIterator<Item = (&'a str, ResourceUsage)>>(containers: T) -> Self {
        Self(containers.into_iter().map(|(name, used)| (Arc::from(name), used)).collect())
    }
}

/// The usage of each pod, per container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodUsages {
    by_namespace: HashMap<String, HashMap<CompactString, ContainerUsages>>,
    /// Interned container names: few, and each in very many pods.
    names: HashSet<Arc<str>>,
}

impl PodUsages {
    pub(crate) fn of(&self, namespace: &str, name: &str) -> Option<&ContainerUsages> {
        self.by_namespace.get(namespace)?.get(name)
    }

    /// Stores the usage of a pod's containers.
    pub fn put<'a>(
        &mut self,
        namespace: &str,
        name: &str,
        containers: impl IntoIterator<Item = (&'a str, ResourceUsage)>,
    ) {
        let containers = containers.into_iter().map(|(name, used)| (intern(&mut self.names, name), used));
        let containers = ContainerUsages(containers.collect());
        if let Some(pods) = self.by_namespace.get_mut(namespace) {
            pods.insert(name.into(), containers);
        } else {
            self.by_namespace.insert(namespace.to_owned(), HashMap::from([(name.into(), containers)]));
        }
    }
}

/// Returns the interned name.
fn intern(names: &mut HashSet<Arc<str>>, name: &str) -> Arc<str> {
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
        let used = |cpu_millis, memory_bytes| ResourceUsage { cpu_millis, memory_bytes };
        let mut pods = PodUsages::default();
        pods.put("a", "web", [("main", used(5, 10)), ("side", used(1, i64::MAX))]);
        pods.put("b", "web", [("main", used(7, 0))]);
        let of = |namespace, name| pods.of(namespace, name);
        let web = of("a", "web").expect("measured");
        assert_eq!((web.of("main"), web.of("none")), (Some(used(5, 10)), None));
        assert_eq!(web.sum(), used(6, i64::MAX));
        assert_eq!(of("b", "web").map(ContainerUsages::sum), Some(used(7, 0)));
        assert!(of("b", "db").is_none() && of("c", "web").is_none());
    }
}
