//! The disks that a node's pods use, which it reports as `status.volumesInUse` (VOL-3).
//!
//! A disk is listed from before a pod's first container starts until the pod has nothing on the node any more, so that
//! the attach-detach controller does not detach it meanwhile.

use std::collections::{BTreeMap, BTreeSet};

/// The disks in use, by unique name, and the uids of the pods that use each.
#[derive(Debug, Default)]
pub(crate) struct VolumesInUse {
    users: BTreeMap<String, BTreeSet<String>>,
}

impl VolumesInUse {
    /// Adds a disk that a pod uses from now on.
    pub(crate) fn add(&mut self, disk: &str, pod: &str) {
        self.users.entry(disk.to_owned()).or_default().insert(pod.to_owned());
    }

    /// Returns true if this pod uses the disk.
    pub(crate) fn is_used_by(&self, disk: &str, pod: &str) -> bool {
        self.users.get(disk).is_some_and(|pods| pods.contains(pod))
    }

    /// Removes a disk that the pod does not use after all.
    pub(crate) fn remove(&mut self, disk: &str, pod: &str) {
        self.users.retain(|name, pods| {
            if name == disk {
                pods.remove(pod);
            }
            !pods.is_empty()
        });
    }

    /// Removes all disks of a pod; returns true if the pod used one.
    pub(crate) fn release(&mut self, pod: &str) -> bool {
        let mut used = false;
        self.users.retain(|_, pods| {
            used |= pods.remove(pod);
            !pods.is_empty()
        });
        used
    }

    /// Returns the unique names of the disks, in order; `None` if no disk is in use.
    pub(crate) fn names(&self) -> Option<Vec<String>> {
        (!self.users.is_empty()).then(|| self.users.keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_in_use_until_its_last_pod_has_let_go_vol_3() {
        let mut disks = VolumesInUse::default();
        disks.add("d", "1");
        disks.add("d", "2");
        disks.add("e", "2");
        assert_eq!(disks.names(), Some(vec!["d".to_owned(), "e".to_owned()]));
        assert!(disks.release("2") && !disks.release("2"));
        assert_eq!(disks.names(), Some(vec!["d".to_owned()]));
        disks.remove("d", "2");
        assert!(disks.is_used_by("d", "1"), "another pod's use is its own");
        disks.remove("d", "1");
        assert_eq!(disks.names(), None);
    }
}
