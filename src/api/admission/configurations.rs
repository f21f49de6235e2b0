//! What users have configured for admission, made ready to be asked: all objects of one kind, compiled.
//!
//! Every write asks for it, so that looking costs one atomic load and one reference count while nothing changes, and
//! with nothing configured there is nothing behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::Api;
use object::{Kind, Object, Revision, Uid};

/// The compiled objects of a kind, as every write that was answered has left them.
pub(crate) struct Configurations<T> {
    kind: Kind,
    /// Counts the writes of the kind.
    written: AtomicU64,
    snapshot: RwLock<Snapshot<T>>,
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
        Self { kind, written: AtomicU64::new(0), snapshot: RwLock::new(snapshot) }
    }

    /// An object was written: if it is one of these, what it says is acted upon from now on.
    pub(crate) fn object_stored(&self, object: &Object) {
        if object.kind() == self.kind {
            self.written.fetch_add(1, Ordering::Release);
        }
    }

    /// All of them, in the order of their names.
    pub(crate) fn current(&self, api: &Api, compile: impl Fn(&Object) -> T) -> Arc<Vec<Compiled<T>>> {
        let written = self.written.load(Ordering::Acquire);
        {
            let snapshot = self.snapshot.read();
            if snapshot.written == Some(written) {
                return snapshot.compiled.clone();
            }
        }
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
        let mut snapshot = self.snapshot.write();
        // Somebody who has listed later knows better.
        if snapshot.written.is_none_or(|known| known <= written) {
            *snapshot = Snapshot { written: Some(written), compiled: compiled.clone() };
        }
        compiled
    }
}
