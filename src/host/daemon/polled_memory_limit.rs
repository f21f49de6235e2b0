//! Memory limits without a control group: usage is sampled, several times a second.
//!
//! A container's usage is the memory of its processes and the content of memory volumes that only it writes. Memory
//! that several containers may write (`/dev/shm`, a shared volume) cannot be attributed to one of them: it counts
//! against the sum of their limits.

use std::rc::Rc;

use super::cgroup::Group;
use super::container::Container;
use super::memory_volumes;
use super::pod::Pod;
use crate::process_tree;

impl Pod {
    /// Kills containers that exceed their memory limits; returns true if the pod must be watched at all.
    pub(super) fn watch_memory(&self) -> bool {
        let running: Vec<Rc<Container>> =
            self.containers.borrow().iter().filter(|container| container.is_running()).cloned().collect();
        let kernel_does = |container: &Container| container.group.get().is_some_and(Group::limits_memory);
        let limited =
            |container: &&Rc<Container>| container.memory_limit.get().is_some() && !kernel_does(container);
        if !running.iter().any(|container| limited(&container)) {
            return false;
        }
        let held: Vec<ContainerMemory> = running.iter().map(|container| self.usage(container)).collect();
        for (container, held) in running.iter().zip(&held).filter(|(container, _)| limited(container)) {
            if held.limit.is_some_and(|limit| held.bytes > limit) {
                container.kill_for_memory();
            }
        }
        if let Some(biggest) = over_together(&held, || self.shared_bytes()) {
            running[biggest].kill_for_memory();
        }
        true
    }

    fn usage(&self, container: &Container) -> ContainerMemory {
        let bytes = process_tree::memory_of_tree(&container.roots()) + self.own_bytes(container);
        ContainerMemory { bytes, limit: container.memory_limit.get() }
    }

    /// The size of the memory volumes that only this container writes.
    fn own_bytes(&self, container: &Container) -> u64 {
        memory_volumes::bytes(&self.private, &container.launch.spec.memory_volumes)
    }

    /// The size of the memory volumes that more than one container may write.
    fn shared_bytes(&self) -> u64 {
        let containers = self.containers.borrow();
        let own = |name: &str| {
            let mut all = containers.iter().flat_map(|container| &container.launch.spec.memory_volumes);
            all.any(|known| known == name)
        };
        let volumes = self.spec.memory_volumes.iter().map(|volume| &volume.name);
        let shared: Vec<String> = volumes.filter(|name| !own(name)).cloned().collect();
        memory_volumes::bytes(&self.private, &shared) + memory_volumes::shared_memory_bytes(&self.private)
    }

    /// A running container's memory besides that of its processes; if it runs alone, including the shared volumes.
    pub(super) fn bytes_in_files(&self, container: &Container) -> u64 {
        let running = self.containers.borrow().iter().filter(|known| known.is_running()).count();
        self.own_bytes(container) + if running == 1 { self.shared_bytes() } else { 0 }
    }
}

/// The memory usage of one container, and its limit.
#[derive(Clone, Copy, Debug)]
struct ContainerMemory {
    bytes: u64,
    limit: Option<u64>,
}

/// Selects the container to kill if all of them together exceed their limits: the biggest. If any container has no
/// limit, the pod has none.
fn over_together(held: &[ContainerMemory], shared: impl FnOnce() -> u64) -> Option<usize> {
    let limit = held.iter().try_fold(0_u64, |sum, held| Some(sum.saturating_add(held.limit?)))?;
    let bytes: u64 = held.iter().map(|held| held.bytes).sum();
    if bytes + shared() <= limit {
        return None;
    }
    (0..held.len()).max_by_key(|index| held[*index].bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shared memory counts for the pod's memory limit (POD-12).
    #[test]
    fn shared_memory_counts_for_the_memory_limit_of_the_pod() {
        for (held, shared, gone) in [
            (&[(10, Some(20))][..], 10, None),
            (&[(10, Some(20))], 11, Some(0)),
            (&[(10, Some(20)), (12, Some(20))], 18, None),
            (&[(10, Some(20)), (12, Some(20))], 19, Some(1)),
            (&[(10, Some(20)), (12, None)], 1000, None),
            (&[], 1, None),
        ] {
            let all: Vec<ContainerMemory> =
                held.iter().map(|&(bytes, limit)| ContainerMemory { bytes, limit }).collect();
            let found = if all.is_empty() { None } else { over_together(&all, || shared) };
            assert_eq!(found, gone, "{held:?} {shared}");
        }
    }
}
