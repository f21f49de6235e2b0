//! Linearizable objects (API-3): each object is a register, which clients read, and write by compare-and-swap on its
//! version.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;

use object::{Key, Object, Revision};

/// The registers' states, as far as clients know them from responses.
#[derive(Default)]
pub(crate) struct Registers(Mutex<BTreeMap<Key, Register>>);

#[derive(Default)]
struct Register {
    /// The newest version in any response to a client.
    floor: Revision,
    /// The versions on top of which a write was acknowledged.
    followed: BTreeSet<Revision>,
    /// A client has deleted the register at this revision or before it.
    deleted_by: Revision,
    /// The start revision of the newest control plane that a client has reached.
    start_revision: Revision,
    /// The content of each version.
    contents: BTreeMap<Revision, String>,
}

fn content(object: &Object) -> String {
    let data = object.get::<ConfigMap>().and_then(|map| map.data.as_ref());
    format!("{} {}", object.uid(), data.and_then(|data| data.get("count")).map_or("", String::as_str))
}

impl Registers {
    /// Returns the newest version that any client has learned of: a read that starts now must return it or a later one.
    /// `start_revision` is that of the control plane that serves the read.
    pub(crate) fn floor(&self, key: &Key, start_revision: Revision) -> Revision {
        let mut registers = self.0.lock();
        let register = registers.entry(key.clone()).or_default();
        register.control_plane_started(start_revision);
        register.floor
    }

    /// Records the result of a read that started when the floor was `floor`. Returns the violation, if any.
    pub(crate) fn read(&self, key: &Key, floor: Revision, read: Option<&Object>) -> Option<String> {
        let mut registers = self.0.lock();
        let register = registers.entry(key.clone()).or_default();
        let Some(read) = read else {
            return (floor > register.deleted_by).then(|| {
                format!("{key} is missing, though revision {floor} was read and no client deleted it")
            });
        };
        let revision = read.revision();
        if revision < floor {
            return Some(format!("{key} was read at revision {revision}, after {floor} was reported"));
        }
        register.floor = register.floor.max(revision);
        register.same_as_before(key, read)
    }

    /// Records that a client's write on top of `expected` was acknowledged. Returns the violation, if any.
    pub(crate) fn written(&self, key: &Key, expected: Revision, written: &Object) -> Option<String> {
        let mut registers = self.0.lock();
        let register = registers.entry(key.clone()).or_default();
        let revision = written.revision();
        register.floor = register.floor.max(revision);
        if revision <= expected {
            return Some(format!("{key} was written at revision {revision} on top of {expected}"));
        }
        if expected > Revision(0) && !register.followed.insert(expected) {
            return Some(format!("{key}: two writes were made on top of revision {expected}"));
        }
        register.same_as_before(key, written)
    }

    /// Records that a client deleted the register, at `revision` or before it. Earlier writes may then be lost, even if
    /// they are acknowledged later. `start_revision` is that of the control plane that executed the deletion; the
    /// deletion may be lost with that control plane.
    pub(crate) fn deleted(&self, key: &Key, revision: Revision, start_revision: Revision) {
        let mut registers = self.0.lock();
        let register = registers.entry(key.clone()).or_default();
        register.control_plane_started(start_revision);
        let bound = if start_revision < register.start_revision {
            revision.min(register.start_revision)
        } else {
            revision
        };
        register.deleted_by = register.deleted_by.max(bound);
    }
}

impl Register {
    /// Records that a control plane started at this revision: all later writes of earlier control planes are lost.
    fn control_plane_started(&mut self, start_revision: Revision) {
        if start_revision > self.start_revision {
            self.start_revision = start_revision;
            self.deleted_by = self.deleted_by.min(start_revision);
        }
    }

    fn same_as_before(&mut self, key: &Key, object: &Object) -> Option<String> {
        let (revision, holds) = (object.revision(), content(object));
        let before = self.contents.entry(revision).or_insert_with(|| holds.clone());
        (*before != holds).then(|| format!("{key} at revision {revision} is {before:?}, but also {holds:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(revision: u64, count: &str) -> Object {
        let mut map = ConfigMap::default();
        map.metadata.resource_version = Some(revision.to_string());
        map.metadata.uid = Some("uid".into());
        map.data = Some([("count".to_string(), count.to_string())].into());
        Object::new(map)
    }

    /// FAULT-3, API-3: the checker reports each way in which a history is not linearizable.
    #[test]
    fn non_linearizable_histories_are_reported_fault_3() {
        let key = Key::new("n", "r");
        let fresh = || {
            let registers = Registers::default();
            assert_eq!(registers.written(&key, Revision(0), &version(5, "1")), None);
            assert_eq!(registers.written(&key, Revision(5), &version(9, "2")), None);
            registers
        };
        let registers = fresh();
        assert_eq!(registers.read(&key, Revision(9), Some(&version(9, "2"))), None);
        assert_eq!(registers.read(&key, Revision(5), Some(&version(5, "1"))), None, "it had begun before");
        assert!(registers.read(&key, Revision(9), Some(&version(5, "1"))).is_some(), "stale");
        assert!(registers.read(&key, Revision(9), Some(&version(9, "3"))).is_some(), "another content");
        assert!(registers.read(&key, Revision(9), None).is_some(), "lost");
        assert!(registers.written(&key, Revision(5), &version(10, "2")).is_some(), "a lost update");
        let registers = fresh();
        registers.deleted(&key, Revision(11), Revision(1));
        assert_eq!(registers.read(&key, Revision(9), None), None);
        // The acknowledgement of an earlier write arrives after the deletion.
        assert_eq!(registers.written(&key, Revision(9), &version(10, "3")), None);
        assert_eq!(registers.read(&key, Revision(10), None), None);
        assert_eq!(registers.written(&key, Revision(0), &version(12, "1")), None);
        assert!(registers.read(&key, Revision(12), None).is_some(), "the new one was not deleted");
        registers.deleted(&key, Revision(14), Revision(1));
        assert_eq!(registers.read(&key, Revision(12), None), None);
        assert_eq!(registers.floor(&key, Revision(13)), Revision(12));
        assert_eq!(registers.written(&key, Revision(12), &version(14, "2")), None);
        assert!(
            registers.read(&key, Revision(14), None).is_some(),
            "that deletion did not outlive the crash"
        );
    }
}
