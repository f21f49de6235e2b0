//! Compiled admission configurations: all objects of one kind.
//!
//! Every write reads them, so that access costs one atomic load and one reference count while nothing
//! changes, and the list is empty without configurations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::Api;
use base::sort::SliceOrder;
use object::{Kind, Object, Revision, Uid};

/// The compiled objects of a kind. They include every write that a client has received a response to.
pub(crate) struct Configurations<T> {
    kind: Kind,
    /// Counts the writes of the kind.
    written: AtomicU64,
    snapshot: RwLock<Snapshot<T>>,
    /// Locked during compilation. A reader waits for at most two compilations: one that had started before
    /// the write that it saw, and the next.
    compiling: Mutex<()>,
}

struct Snapshot<T> {
    /// The value of [`Configurations::written`] before the objects were listed; `None` before the first time.
    written: Option<u64>,
    compiled: Arc<Vec<CompiledConfiguration<T>>>,
}

/// One object, compiled.
pub(crate) struct CompiledConfiguration<T> {
    uid: Uid,
    revision: Revision,
    /// The compiled content.
    pub(crate) value: Arc<T>,
}

impl<T> Configurations<T> {
    pub(crate) fn new(kind: Kind) -> Self {
        let snapshot = Snapshot { written: None, compiled: Arc::default() };
        Self { kind, written: AtomicU64::new(0), snapshot: RwLock::new(snapshot), compiling: Mutex::new(()) }
    }

    /// Marks the cache as outdated if the written object is of this kind.
    pub(crate) fn object_stored(&self, object: &Object) {
        if object.kind() == self.kind {
            self.written.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns all compiled objects, ordered by name.
    pub(crate) fn current(
        &self,
        api: &Api,
        compile: impl Fn(&Object) -> T,
    ) -> Arc<Vec<CompiledConfiguration<T>>> {
        let seen = self.written.load(Ordering::Acquire);
        if let Some(compiled) = self.since(seen) {
            return compiled;
        }
        let _compiling = self.compiling.lock();
        // The previous holder of the lock may have compiled the state that this caller needs.
        if let Some(compiled) = self.since(seen) {
            return compiled;
        }
        let written = self.written.load(Ordering::Acquire);
        let mut objects = api.list(self.kind, None).objects;
        objects.order_by(|a, b| a.name().cmp(b.name()));
        let before = self.snapshot.read().compiled.clone();
        let cached = |object: &Object| {
            let same = |known: &&CompiledConfiguration<T>| {
                known.uid == object.uid() && known.revision == object.revision()
            };
            before.iter().find(same).map(|known| known.value.clone())
        };
        let compiled = objects.iter().map(|object| CompiledConfiguration {
            uid: object.uid().into(),
            revision: object.revision(),
            value: cached(object).unwrap_or_else(|| Arc::new(compile(object))),
        });
        let compiled = Arc::new(compiled.collect::<Vec<_>>());
        *self.snapshot.write() = Snapshot { written: Some(written), compiled: compiled.clone() };
        compiled
    }

    /// Returns the compiled objects, if they include at least this number of writes.
    fn since(&self, written: u64) -> Option<Arc<Vec<CompiledConfiguration<T>>>> {
        let snapshot = self.snapshot.read();
        let is_known = snapshot.written.is_some_and(|known| known >= written);
        is_known.then(|| snapshot.compiled.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use serde_json::json;

    use super::*;
    use crate::WriteOptions;
    use crate::test_api::api;

    #[test]
    fn a_changed_configuration_is_compiled_once_for_concurrent_readers_api_16() {
        const ASKING: usize = 16;
        let api = api(&["a"]);
        let all: Configurations<usize> = Configurations::new(Kind::ConfigMap);
        let (begin, compiled) = (Barrier::new(ASKING), AtomicUsize::new(0));
        for round in 1..=3 {
            let map = json!({"metadata": {"name": format!("m{round}"), "namespace": "a"}});
            let map = Object::from_value(Kind::ConfigMap, map).unwrap();
            all.object_stored(&api.create(map, &WriteOptions::default()).unwrap());
            std::thread::scope(|scope| {
                for _ in 0..ASKING {
                    scope.spawn(|| {
                        begin.wait();
                        let current = all.current(&api, |_| {
                            // Every thread that has started gets time to see that nothing is compiled yet.
                            (0..1_000).for_each(|_| std::thread::yield_now());
                            compiled.fetch_add(1, Ordering::Relaxed)
                        });
                        assert_eq!(current.len(), round);
                    });
                }
            });
            assert_eq!(
                compiled.load(Ordering::Relaxed),
                round,
                "a known configuration is not compiled again"
            );
        }
    }
}
