//! Resources as integers, which the scheduler adds, subtracts and compares for every pod and node.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::reason::ResourceName;
use object::quantity::{Amount, ResourceList};
use object::resources::{Amounts, amounts, pod_requests, pod_requests_or};

/// The cpu assumed when scoring a container that requests none, in thousandths.
const ASSUMED_MILLI_CPU: i64 = 100;
/// The memory assumed when scoring a container that requests none, in bytes.
const ASSUMED_MEMORY: i64 = 200 * 1024 * 1024;
/// The largest amount, so that the sum over a node's pods fits into 64 bits.
const LARGEST: i64 = 1 << 52;

/// Amounts of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    /// Cpu, in thousandths.
    pub(crate) milli_cpu: i64,
    /// Memory, in bytes.
    pub(crate) memory: i64,
    /// Ephemeral storage, in bytes.
    pub(crate) ephemeral_storage: i64,
    /// Extended resources and huge pages, by name; never zero, in no particular order.
    pub(crate) extended: Vec<(Arc<str>, i64)>,
}

impl Resources {
    /// Returns the pod's requests.
    pub(crate) fn requested_by(pod: &Pod) -> Self {
        Self::new(&pod_requests(pod))
    }

    /// Returns the pod's requests with assumed values for missing ones. Scores use these, so that pods without requests
    /// do not all go to one node.
    pub(crate) fn assumed_for(pod: &Pod) -> Self {
        Self::new(&pod_requests_or(
            pod,
            &[
                ("cpu", Amount::from_millis(ASSUMED_MILLI_CPU)),
                ("memory", Amount::from_units(ASSUMED_MEMORY)),
            ],
        ))
    }

    /// Returns a node's allocatable resources; the number of pods is handled separately.
    pub(crate) fn allocatable(list: Option<&ResourceList>) -> Self {
        Self::new(&amounts(list))
    }

    fn new(amounts: &Amounts) -> Self {
        let mut resources = Self::default();
        for (name, amount) in amounts {
            let units = amount.units().clamp(0, LARGEST);
            match name.as_str() {
                "cpu" => resources.milli_cpu = amount.millis().clamp(0, LARGEST),
                "memory" => resources.memory = units,
                "ephemeral-storage" => resources.ephemeral_storage = units,
                "pods" => {}
                _ if units == 0 => {}
                other => resources.extended.push((other.into(), units)),
            }
        }
        resources
    }

    /// Returns the amount of an extended resource.
    pub(crate) fn extended(&self, name: &str) -> i64 {
        self.extended.iter().find(|(known, _)| **known == *name).map_or(0, |(_, amount)| *amount)
    }

    /// Returns the amount of a resource; cpu in thousandths.
    pub(crate) fn amount(&self, resource: &ResourceName) -> i64 {
        match resource {
            ResourceName::Cpu => self.milli_cpu,
            ResourceName::Memory => self.memory,
            ResourceName::EphemeralStorage => self.ephemeral_storage,
            ResourceName::Extended(name) => self.extended(name),
        }
    }

    /// Returns true if all amounts are zero.
    pub(crate) fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Adds a pod's requests.
    pub(crate) fn add(&mut self, more: &Self) {
        self.milli_cpu += more.milli_cpu;
        self.memory += more.memory;
        self.ephemeral_storage += more.ephemeral_storage;
        for (name, amount) in &more.extended {
            match self.extended.iter_mut().find(|(known, _)| known == name) {
                Some((_, total)) => *total += amount,
                None => self.extended.push((name.clone(), *amount)),
            }
        }
    }

    /// Subtracts amounts added before.
    pub(crate) fn subtract(&mut self, less: &Self) {
        self.milli_cpu -= less.milli_cpu;
        self.memory -= less.memory;
        self.ephemeral_storage -= less.ephemeral_storage;
        for (name, amount) in &less.extended {
            if let Some((_, total)) = self.extended.iter_mut().find(|(known, _)| known == name) {
                *total -= amount;
            }
        }
        self.extended.retain(|(_, total)| *total != 0);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_read_as_integers_and_taken_away_again() {
        let pod: Pod = serde_json::from_value(json!({"spec": {"containers": [{"name": "a", "resources":
            {"requests": {"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "2k", "example.com/gpu": "2",
                "example.com/none": "0", "pods": "3"}}}, {"name": "b"}]}}))
        .unwrap();
        let requested = Resources::requested_by(&pod);
        assert_eq!(
            (requested.milli_cpu, requested.memory, requested.ephemeral_storage),
            (1500, 1 << 30, 2000)
        );
        assert_eq!((requested.extended("example.com/gpu"), requested.extended.len()), (2, 1));
        let assumed = Resources::assumed_for(&pod);
        assert_eq!((assumed.milli_cpu, assumed.memory), (1600, (1 << 30) + 200 * 1024 * 1024));

        let mut total = Resources::default();
        total.add(&requested);
        total.add(&requested);
        assert_eq!((total.milli_cpu, total.extended("example.com/gpu")), (3000, 4));
        total.subtract(&requested);
        assert_eq!(total, requested);
        total.subtract(&requested);
        assert!(total.is_zero());
        let huge: Pod = serde_json::from_value(json!({"spec": {"containers": [{"name": "a", "resources":
            {"requests": {"memory": "9E", "cpu": "-1"}}}]}}))
        .unwrap();
        let huge = Resources::requested_by(&huge);
        assert_eq!((huge.memory, huge.milli_cpu), (LARGEST, 0));
    }
}
