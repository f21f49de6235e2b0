//! A cache of conversions, so that many clients that watch or list the same objects share them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use object::{Object, Revision, Uid};

/// The limit on the JSON of all cached objects; in memory they take several times that.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The key of a converted object: the state of the definition, the index of the target version, the object's
/// uid and its revision.
pub(super) type Key = (u64, usize, Uid, Revision);

/// The newest conversions.
#[derive(Default)]
pub(crate) struct Cache {
    cached: Mutex<CachedObjects>,
}

#[derive(Default)]
struct CachedObjects {
    objects: HashMap<Key, Arc<Object>>,
    /// Oldest first.
    order: VecDeque<Key>,
    bytes: usize,
}

impl Cache {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.cached.lock().objects.get(key).cloned()
    }

    pub(super) fn put(&self, key: Key, object: Arc<Object>) {
        let bytes = object.size();
        let mut cached = self.cached.lock();
        match cached.objects.insert(key.clone(), object) {
            Some(before) => cached.bytes -= before.size(),
            None => cached.order.push_back(key),
        }
        cached.bytes += bytes;
        while cached.bytes > MAX_BYTES {
            let Some(oldest) = cached.order.pop_front() else { return };
            if let Some(gone) = cached.objects.remove(&oldest) {
                cached.bytes -= gone.size();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn the_cache_is_bounded_and_evicts_the_oldest_entry_first_api_14() {
        let cache = Cache::default();
        let of = |length: usize| {
            let data = [("a".to_string(), "x".repeat(length))].into();
            Arc::new(Object::new(ConfigMap { data: Some(data), ..ConfigMap::default() }))
        };
        let key = |n: u64| (1, 0, "u".into(), Revision(n));
        for n in 0..40 {
            cache.put(key(n), of(1024 * 1024));
            cache.put(key(n), of(1024 * 1024));
        }
        let retained: Vec<u64> = (0..40).filter(|n| cache.get(&key(*n)).is_some()).collect();
        assert_eq!(retained, (25..40).collect::<Vec<_>>());
        assert!(cache.cached.lock().order.len() == retained.len());
    }
}
