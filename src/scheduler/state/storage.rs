//! Claims, volumes and classes for the scheduler, updated change by change.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use crate::state::pod_info::PodInfo;
use object::storage::volume_class;
use object::{Key, SharedObject};

#[derive(Debug, Default)]
pub(crate) struct Storage {
    claims: HashMap<Key, SharedObject<PersistentVolumeClaim>>,
    volumes: HashMap<String, SharedObject<PersistentVolume>>,
    /// The names of volumes by class, in order, so that choices among them are reproducible.
    by_class: HashMap<String, BTreeSet<String>>,
    classes: HashMap<String, SharedObject<StorageClass>>,
    /// The number of placed pods that use a claim.
    users: HashMap<Key, usize>,
}

impl Storage {
    pub(crate) fn claim(&self, key: &Key) -> Option<&SharedObject<PersistentVolumeClaim>> {
        self.claims.get(key)
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&SharedObject<PersistentVolume>> {
        self.volumes.get(name)
    }

    /// Returns the volumes of a class, ordered by name.
    pub(crate) fn volumes_of<'a>(
        &'a self,
        class: &str,
    ) -> impl Iterator<Item = &'a SharedObject<PersistentVolume>> {
        self.by_class.get(class).into_iter().flatten().filter_map(|name| self.volumes.get(name))
    }

    pub(crate) fn class(&self, name: &str) -> Option<&SharedObject<StorageClass>> {
        self.classes.get(name)
    }

    /// Returns the number of placed pods that use a claim.
    pub(crate) fn users(&self, claim: &Key) -> usize {
        self.users.get(claim).copied().unwrap_or(0)
    }

    /// Sets a new or changed claim.
    pub(crate) fn set_claim(&mut self, claim: SharedObject<PersistentVolumeClaim>) {
        self.claims.insert(claim.key(), claim);
    }

    pub(crate) fn remove_claim(&mut self, key: &Key) {
        self.claims.remove(key);
    }

    /// Sets a new or changed volume.
    pub(crate) fn set_volume(&mut self, volume: SharedObject<PersistentVolume>) {
        self.remove_volume(volume.name());
        let names = self.by_class.entry(volume_class(&volume).to_string()).or_default();
        names.insert(volume.name().to_string());
        self.volumes.insert(volume.name().to_string(), volume);
    }

    pub(crate) fn remove_volume(&mut self, name: &str) {
        let Some(known) = self.volumes.remove(name) else { return };
        let class = volume_class(&known);
        if let Some(names) = self.by_class.get_mut(class) {
            names.remove(name);
            if names.is_empty() {
                self.by_class.remove(class);
            }
        }
    }

    /// Sets a new or changed class.
    pub(crate) fn set_class(&mut self, class: SharedObject<StorageClass>) {
        self.classes.insert(class.name().to_string(), class);
    }

    pub(crate) fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    /// Counts the claims of a placed pod.
    pub(crate) fn pod_placed(&mut self, pod: &PodInfo) {
        for claim in &pod.claims {
            *self.users.entry(pod.claim_key(claim)).or_default() += 1;
        }
    }

    /// Stops counting the claims of a removed pod.
    pub(crate) fn remove_pod(&mut self, pod: &PodInfo) {
        for claim in &pod.claims {
            let key = pod.claim_key(claim);
            if let Some(users) = self.users.get_mut(&key) {
                *users -= 1;
                if *users == 0 {
                    self.users.remove(&key);
                }
            }
        }
    }
}
