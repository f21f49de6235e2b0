//! Compares the disk with the memory, object by object (SAFE-9).
//!
//! Under one lock the memory's state is taken and the disk's records are requested; the disk then returns exactly the
//! writes made before that moment. A difference is a bug, in Podium, or a fault of the memory or the disk. Nothing is
//! repaired here.

use std::collections::HashMap;
use std::sync::Arc;

use super::database::{Records, decode, record_key};
use super::{Store, StoreError};
use base::sort::SliceOrder;
use object::{Object, Revision};

/// The most differences described; further ones are only counted.
const MAX_DIFFERENCES: usize = 20;

/// The result of an inspection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// The revision that was compared.
    pub revision: Revision,
    /// The number of objects in memory.
    pub objects: usize,
    /// Descriptions of the first differences, at most [`MAX_DIFFERENCES`].
    pub differences: Vec<String>,
    /// The number of objects that differ.
    pub differing: usize,
}

impl Inspection {
    fn add_difference(&mut self, difference: String) {
        self.differing += 1;
        if self.differences.len() < MAX_DIFFERENCES {
            self.differences.push(difference);
        }
    }
}

impl Store {
    /// Compares every object in memory with its record on the disk, as both are now; `None` for a store without a
    /// disk. Waits until all writes under way are durable.
    pub async fn inspect(&self) -> Result<Option<Inspection>, StoreError> {
        let Some(disk) = &self.inner.disk else { return Ok(None) };
        let (memory, records) = {
            let state = self.inner.state.read();
            (state.whole(), disk.read())
        };
        // Fails if the disk refuses writes.
        disk.durable(memory.revision).await?;
        let disconnected = |_| StoreError::Disk("the disk thread has ended".into());
        let records = records.await.map_err(disconnected)?;
        let compared = move || compare(memory.revision, &memory.objects, records);
        if disk.is_simulated() {
            // A simulation is deterministic only in one thread.
            return Ok(Some(compared()));
        }
        let inspection = base::task::blocking(compared).await;
        inspection.map(Some).map_err(|error| StoreError::Disk(error.to_string()))
    }
}

fn compare(revision: Revision, objects: &[Arc<Object>], records: Records) -> Inspection {
    let mut inspection = Inspection { revision, objects: objects.len(), ..Inspection::default() };
    let mut expected: HashMap<String, &Arc<Object>> =
        objects.iter().map(|object| (record_key(object.kind(), &object.key()), object)).collect();
    let mut text = Vec::new();
    for record in records.0 {
        let (key, value) = match record {
            Ok(record) => record,
            Err(reason) => {
                inspection.add_difference(format!("cannot read the disk: {reason}"));
                return inspection;
            }
        };
        let shown = String::from_utf8_lossy(&key).replace('\0', " ");
        let Some(object) = std::str::from_utf8(&key).ok().and_then(|key| expected.remove(key)) else {
            inspection.add_difference(format!("{shown} is on the disk and not in memory"));
            continue;
        };
        text.clear();
        object.write_json(&mut text);
        if text == value {
            continue;
        }
        // An earlier version of Podium may have encoded the same object differently.
        match decode(&key, &value) {
            Ok(there) if there == **object => {}
            Ok(there) => inspection.add_difference(format!(
                "{shown} is at revision {} in memory and at {} on the disk",
                object.revision(),
                there.revision()
            )),
            Err(reason) => inspection.add_difference(format!("cannot read {shown} from the disk: {reason}")),
        }
    }
    let mut missing: Vec<String> = expected.into_keys().map(|key| key.replace('\0', " ")).collect();
    missing.order();
    for key in missing {
        inspection.add_difference(format!("{key} is in memory and not on the disk"));
    }
    inspection
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::faults::DiskFault;
    use object::{Key, Kind};

    fn config_map(name: &str, text: &str) -> Object {
        let data = Some(BTreeMap::from([("k".to_owned(), text.to_owned())]));
        let mut object = Object::new(ConfigMap { data, ..ConfigMap::default() });
        object.meta_mut().name = Some(name.into());
        object
    }

    #[tokio::test]
    async fn a_disk_that_lies_is_found_out_safe_9() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let written: Vec<_> =
            ["a", "b", "c"].into_iter().map(|name| store.create(config_map(name, "1")).unwrap()).collect();
        let inspection = store.inspect().await.unwrap().unwrap();
        let well = Inspection { revision: Revision(3), objects: 3, ..Inspection::default() };
        assert_eq!(inspection, well);

        store.faults().set_disk(DiskFault::Forget);
        store.replace(config_map("a", "2"), written[0].revision()).unwrap();
        store.remove(Kind::ConfigMap, &Key::new("", "b"), written[1].revision()).unwrap();
        let last = store.create(config_map("d", "1")).unwrap();
        store.durable(last.revision()).await.unwrap();
        store.faults().set_disk(DiskFault::None);
        let inspection = store.inspect().await.unwrap().unwrap();
        assert_eq!(
            inspection.differences,
            [
                "configmaps.v1  a is at revision 4 in memory and at 1 on the disk",
                "configmaps.v1  b is on the disk and not in memory",
                "configmaps.v1  d is in memory and not on the disk",
            ]
        );
        assert_eq!((inspection.objects, inspection.differing), (3, 3));
        assert_eq!(Store::ephemeral().inspect().await.unwrap(), None);
    }

    /// Writes during the inspection are no differences: both sides are from one moment.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_busy_state_is_no_difference_safe_9() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let writer = store.clone();
        let busy = tokio::task::spawn_blocking(move || {
            for n in 0..3000 {
                let object = writer.create(config_map(&n.to_string(), "1")).unwrap();
                if n % 3 == 0 {
                    writer.remove(Kind::ConfigMap, &object.key(), object.revision()).unwrap();
                }
            }
        });
        let mut looks = 0;
        while !busy.is_finished() || looks == 0 {
            let inspection = store.inspect().await.unwrap().unwrap();
            assert_eq!(inspection.differences, [""; 0]);
            looks += 1;
        }
        assert_eq!(store.inspect().await.unwrap().unwrap().objects, 2000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulated_disk_is_inspected_as_well_safe_9() {
        let store = crate::SimulatedDisk::new().open().unwrap();
        store.create(config_map("a", "1")).unwrap();
        let inspection = store.inspect().await.unwrap().unwrap();
        assert_eq!((inspection.objects, inspection.differing), (1, 0));
    }

    #[tokio::test]
    async fn a_disk_that_refuses_is_not_judged_safe_9() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        store.faults().set_disk(DiskFault::Fail);
        store.create(config_map("a", "1")).unwrap();
        assert!(store.inspect().await.is_err());
        store.faults().set_disk(DiskFault::None);
    }
}
