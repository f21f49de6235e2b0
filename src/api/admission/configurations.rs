//! What users have configured for admission, made ready to be asked: all objects of one kind, compiled.
//!
//! Every write asks for it, so that looking costs one atomic load and one reference count while nothing changes, and
//! with nothing configured there is nothing behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::Api;
use object::{Kind, Object, Revision, Uid};

/// The compiled objects of a kind, as every write that was answered has left them.
pub(crate) struct Configurations<T> {
    kind: Kind,
    /// Counts the writes of the kind.
    written: AtomicU64,
    snapshot: RwLock<Snapshot<T>>,
    /// Held by who compiles. Whoever needs what is compiled just then waits for it, for two compilations at most: one that
    /// had begun before the write that they saw, and the next.
    compiling: Mutex<()>,
}

struct Snapshot<T> {
    /// What [`Configurations::written`] was before the objects were listed; none before the first time.
    written: Option<u64>,
    compiled: Arc<Vec<Compiled<T>>>,
}

/// One object, compiled.
pub(crate) struct Compiled<T> {
    uid: Uid,
    revision: Revision,
    /// What it says.
    pub(crate) value: Arc<T>,
}

impl<T> Configurations<T> {
    pub(crate) fn new(kind: Kind) -> Self {
        let snapshot = Snapshot { written: None, compiled: Arc::default() };
        Self { kind, written: AtomicU64::new(0), snapshot: RwLock::new(snapshot), compiling: Mutex::new(()) }
    }

    /// An object was written: if it is one of these, what it says is acted upon from now on.
    pub(crate) fn object_stored(&self, object: &Object) {
        if object.kind() == self.kind {
            self.written.fetch_add(1, Ordering::Release);
        }
    }

    /// All of them, in the order of their names.
    pub(crate) fn current(&self, api: &Api, compile: impl Fn(&Object) -> T) -> Arc<Vec<Compiled<T>>> {
        let seen = self.written.load(Ordering::Acquire);
        if let Some(compiled) = self.since(seen) {
            return compiled;
        }
        let _compiling = self.compiling.lock();
        // Whoever was before this one may have read what this one saw.
        if let Some(compiled) = self.since(seen) {
            return compiled;
        }
        let written = self.written.load(Ordering::Acquire);
        let mut objects = api.list(self.kind, None).objects;
        objects.sort_by(|a, b| a.name().cmp(b.name()));
        let before = self.snapshot.read().compiled.clone();
        let kept = |object: &Object| {
            let same =
                |known: &&Compiled<T>| known.uid == object.uid() && known.revision == object.revision();
            before.iter().find(same).map(|known| known.value.clone())
        };
        let compiled = objects.iter().map(|object| Compiled {
            uid: object.uid().into(),
            revision: object.revision(),
            value: kept(object).unwrap_or_else(|| Arc::new(compile(object))),
        });
        let compiled = Arc::new(compiled.collect::<Vec<_>>());
        *self.snapshot.write() = Snapshot { written: Some(written), compiled: compiled.clone() };
        compiled
    }

    /// What is compiled, if it is as that many writes have left it, or later ones.
    fn since(&self, written: u64) -> Option<Arc<Vec<Compiled<T>>>> {
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
    use crate::{ApiConfig, WriteOptions};

    #[test]
    fn what_has_changed_is_compiled_once_however_many_ask_api_16() {
        const ASKING: usize = 16;
        let clock = base::clock::Clock::machine();
        let api = Api::new(store::Store::ephemeral(), clock, ApiConfig::default());
        let all: Configurations<usize> = Configurations::new(Kind::ConfigMap);
        let (begin, compiled) = (Barrier::new(ASKING), AtomicUsize::new(0));
        let namespace = json!({"metadata": {"name": "a"}});
        let namespace = Object::from_value(Kind::Namespace, namespace).unwrap();
        api.create(namespace, &WriteOptions::default()).unwrap();
        for round in 1..=3 {
            let map = json!({"metadata": {"name": format!("m{round}"), "namespace": "a"}});
            let map = Object::from_value(Kind::ConfigMap, map).unwrap();
            all.object_stored(&api.create(map, &WriteOptions::default()).unwrap());
            std::thread::scope(|scope| {
                for _ in 0..ASKING {
                    scope.spawn(|| {
                        begin.wait();
                        let current = all.current(&api, |_| {
                            // Everybody who has begun has time to see that nothing is compiled yet.
                            (0..1_000).for_each(|_| std::thread::yield_now());
                            compiled.fetch_add(1, Ordering::Relaxed)
                        });
                        assert_eq!(current.len(), round);
                    });
                }
            });
            assert_eq!(compiled.load(Ordering::Relaxed), round, "what is known is kept");
        }
    }
}
