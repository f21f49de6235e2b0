//! The indexed objects of one resource, and typed access to them.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::marker::PhantomData;
use std::sync::Arc;

use kube::Resource;

use super::any_object::{Identity, Object, controller};
use super::change::{Change, TouchedObjects};
use super::packed_object::{PackedKind, PackedObject};
use crate::resource::Uid;
use crate::server_table::{ColumnDefinition, TableRow};

/// All objects of one resource.
#[derive(Debug, Default)]
pub struct Store {
    objects: HashMap<Uid, Arc<dyn Object>>,
    /// Uids by namespace and name, separated by a slash.
    names: HashMap<Arc<str>, Uid>,
    owned: HashMap<Uid, BTreeSet<Uid>>,
    columns: Vec<ColumnDefinition>,
    synced: bool,
    /// The objects that were unpacked for reading.
    unpacked: RefCell<Vec<Uid>>,
}

/// The number of objects that stay unpacked for the next read; visible objects are read again and again.
const UNPACKED: usize = 1024;

impl Store {
    /// Returns the object of this uid.
    pub fn get(&self, uid: &Uid) -> Option<&Arc<dyn Object>> {
        self.objects.get(uid)
    }

    /// Returns the object of this name; the namespace is empty for cluster-wide kinds.
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<&Arc<dyn Object>> {
        let uid = self.names.get(format!("{namespace}/{name}").as_str())?;
        self.objects.get(uid)
    }

    /// Iterates over all objects, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Uid, &Arc<dyn Object>)> {
        self.objects.iter()
    }

    /// Returns the objects with a controller of this uid, by their own uid.
    pub fn owned_by(&self, owner: &Uid) -> impl Iterator<Item = &Arc<dyn Object>> {
        self.owned.get(owner).into_iter().flatten().filter_map(|uid| self.objects.get(uid))
    }

    /// Returns the columns of the server's Table; empty if the objects did not arrive in that form.
    pub(crate) fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    pub(super) fn set_columns(&mut self, columns: Vec<ColumnDefinition>) {
        self.columns = columns;
    }

    /// Returns the row of the server's Table, if the objects arrived in that form.
    pub fn row(&self, uid: &Uid) -> Option<&TableRow> {
        (&**self.objects.get(uid)? as &dyn Any).downcast_ref()
    }

    /// Reports whether the first list has arrived; before that an empty store means nothing.
    pub fn synced(&self) -> bool {
        self.synced
    }

    /// Packs unpacked objects again, if there are many.
    pub(super) fn tidy(&mut self) {
        if self.unpacked.get_mut().len() <= UNPACKED {
            return;
        }
        for uid in std::mem::take(self.unpacked.get_mut()) {
            if let Some(object) = self.objects.get_mut(&uid).and_then(Arc::get_mut) {
                object.drop_unpacked();
            }
        }
    }

    /// Records that an object may be unpacked from now on.
    pub(super) fn note(&self, object: &dyn Object) {
        if object.is_packed() {
            self.unpacked.borrow_mut().extend(object.identity().uid);
        }
    }

    /// Returns an object as its own type.
    fn whole<'a, K: 'static>(&self, object: &'a dyn Object) -> Option<&'a K> {
        self.note(object);
        object.whole().downcast_ref()
    }

    fn put(&mut self, object: Arc<dyn Object>) -> Option<(Uid, Option<Arc<dyn Object>>)> {
        let Identity { uid, path, controller } = object.identity();
        let uid = uid?;
        self.names.insert(path, uid.clone());
        let before = self.objects.insert(uid.clone(), object);
        self.release(before.as_deref(), &uid);
        if let Some(owner) = controller {
            self.owned.entry(owner).or_default().insert(uid.clone());
        }
        Some((uid, before))
    }

    /// Removes an object from those of the controller that its stored version had.
    fn release(&mut self, before: Option<&dyn Object>, uid: &Uid) {
        if let Some(owner) = before.and_then(|object| object.identity().controller)
            && let Some(owned) = self.owned.get_mut(&owner)
        {
            owned.remove(uid);
            if owned.is_empty() {
                self.owned.remove(&owner);
            }
        }
    }

    fn take(&mut self, object: &dyn Object) -> Option<(Uid, Option<Arc<dyn Object>>)> {
        let Identity { uid, path, .. } = object.identity();
        let uid = uid?;
        let before = self.objects.remove(&uid);
        self.release(before.as_deref(), &uid);
        // A new object of the same name may have arrived first; its entry stays.
        if self.names.get(&path) == Some(&uid) {
            self.names.remove(&path);
        }
        Some((uid, before))
    }

    /// Applies a batch; `seen` is called with the old and new state of every affected object, for counts outside the
    /// store.
    pub(super) fn apply(
        &mut self,
        batch: Vec<Change>,
        mut seen: impl FnMut(Option<&dyn Object>, Option<&dyn Object>),
    ) -> TouchedObjects {
        let mut touched = Vec::new();
        let mut all = false;
        for change in batch {
            match change {
                Change::Reset(objects) => {
                    if let Some(gone) = self.end_list(&objects, &mut seen) {
                        touched.extend(gone);
                        continue;
                    }
                    for object in self.objects.values() {
                        seen(Some(&**object), None);
                    }
                    self.objects.clear();
                    self.names.clear();
                    self.owned.clear();
                    for object in objects {
                        seen(None, Some(&*object));
                        self.put(object);
                    }
                    self.synced = true;
                    all = true;
                }
                Change::Listed(objects) => {
                    for object in objects {
                        self.change(object, &mut touched, &mut seen);
                    }
                }
                Change::Applied(object) => self.change(object, &mut touched, &mut seen),
                Change::Deleted(object) => {
                    if let Some((uid, before)) = self.take(&*object) {
                        seen(before.as_deref(), None);
                        touched.push(uid);
                    }
                }
            }
        }
        if all { TouchedObjects::All } else { TouchedObjects::Some(touched) }
    }

    fn change(
        &mut self,
        object: Arc<dyn Object>,
        touched: &mut Vec<Uid>,
        on_change: &mut impl FnMut(Option<&dyn Object>, Option<&dyn Object>),
    ) {
        if let Some((uid, before)) = self.put(object) {
            on_change(before.as_deref(), self.objects.get(&uid).map(|object| &**object));
            touched.push(uid);
        }
    }

    /// Ends a list that arrived in parts: removes the stored objects that are not in it. Does nothing and returns
    /// `None` unless every object of the list is in the store already.
    fn end_list(
        &mut self,
        objects: &[Arc<dyn Object>],
        on_change: &mut impl FnMut(Option<&dyn Object>, Option<&dyn Object>),
    ) -> Option<Vec<Uid>> {
        let mut listed = HashSet::with_capacity(objects.len());
        for object in objects {
            let uid = object.identity().uid?;
            let here = self.objects.get(&uid)?;
            if !std::ptr::addr_eq(Arc::as_ptr(here), Arc::as_ptr(object)) {
                return None;
            }
            listed.insert(uid);
        }
        if listed.is_empty() {
            return None;
        }
        let removed: Vec<_> = self.objects.iter().filter(|(uid, _)| !listed.contains(*uid)).collect();
        let removed: Vec<Arc<dyn Object>> = removed.into_iter().map(|(_, object)| object.clone()).collect();
        let mut touched = Vec::with_capacity(removed.len());
        for object in removed {
            if let Some((uid, before)) = self.take(&*object) {
                on_change(before.as_deref(), None);
                touched.push(uid);
            }
        }
        self.synced = true;
        Some(touched)
    }
}

/// Returns the uid of a typed object.
pub fn uid_of<K: Resource>(object: &K) -> Option<Uid> {
    object.meta().uid.as_deref().map(Uid::from)
}

/// Returns the uid of the owner with `controller: true`.
pub fn controller_of<K: Resource>(object: &K) -> Option<Uid> {
    controller(object.meta())
}

/// Typed access to a store.
#[derive(Debug)]
pub struct TypedStore<'a, K> {
    store: Option<&'a Store>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for TypedStore<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for TypedStore<'_, K> {}

impl<'a, K: Object> TypedStore<'a, K> {
    pub(super) fn new(store: Option<&'a Store>) -> Self {
        Self { store, kind: PhantomData }
    }

    pub fn get(self, uid: &Uid) -> Option<&'a K> {
        let store = self.store?;
        store.whole(&**store.get(uid)?)
    }

    /// Returns the object of this name; the namespace is empty for cluster-wide kinds.
    pub fn by_name(self, namespace: &str, name: &str) -> Option<&'a K> {
        let store = self.store?;
        store.whole(&**store.by_name(namespace, name)?)
    }

    /// Iterates over all objects, in no order.
    pub fn iter(self) -> impl Iterator<Item = (&'a Uid, &'a K)> {
        self.store
            .into_iter()
            .flat_map(|store| store.iter().filter_map(|(uid, object)| Some((uid, store.whole(&**object)?))))
    }

    /// Returns the objects with a controller of this uid, by their own uid.
    pub fn owned_by(self, owner: &Uid) -> impl Iterator<Item = &'a K> + use<'a, K> {
        let owned = self.store.and_then(|store| Some((store, store.owned.get(owner)?)));
        owned.into_iter().flat_map(|(store, owned)| {
            let objects = owned.iter().filter_map(|uid| store.objects.get(uid));
            objects.filter_map(|object| store.whole(&**object))
        })
    }

    /// Returns the number of objects.
    pub fn len(self) -> usize {
        self.store.map_or(0, |store| store.objects.len())
    }

    /// Reports whether there are no objects.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Reports whether the first list has arrived; before that an empty store means nothing.
    pub fn synced(self) -> bool {
        self.store.is_some_and(Store::synced)
    }
}

/// An object of a packed kind: its unpacked part, and the whole of it on demand.
#[derive(Clone, Debug)]
pub struct StoredObject<'a, K: PackedKind> {
    store: &'a Store,
    packed: &'a PackedObject<K>,
}

impl<K: PackedKind> Copy for StoredObject<'_, K> {}

impl<K: PackedKind> std::ops::Deref for StoredObject<'_, K> {
    type Target = PackedObject<K>;
    fn deref(&self) -> &PackedObject<K> {
        self.packed
    }
}

impl<'a, K: PackedKind> StoredObject<'a, K> {
    fn of(store: &'a Store, object: &'a Arc<dyn Object>) -> Option<Self> {
        let packed = (&**object as &dyn Any).downcast_ref()?;
        Some(Self { store, packed })
    }

    /// Returns the whole object; unpacks it.
    pub fn whole(self) -> &'a K {
        self.store.note(self.packed);
        self.packed.unpacked()
    }

    /// Returns the unpacked part; valid while the store does not change.
    pub fn open(self) -> &'a PackedObject<K> {
        self.packed
    }
}

impl<'a, K> TypedStore<'a, K> {
    /// Returns the unpacked part of the object with this uid.
    pub fn entry(self, uid: &Uid) -> Option<StoredObject<'a, K>>
    where
        K: PackedKind,
    {
        let store = self.store?;
        StoredObject::of(store, store.get(uid)?)
    }

    /// Returns the unpacked parts of all objects, in no order.
    pub fn entries(self) -> impl Iterator<Item = StoredObject<'a, K>>
    where
        K: PackedKind,
    {
        let store = self.store.into_iter();
        store.flat_map(|store| store.objects.values().filter_map(|object| StoredObject::of(store, object)))
    }

    /// Returns the unpacked parts of the objects with a controller of this uid, by their own uid.
    pub fn entries_owned_by(self, owner: &Uid) -> impl Iterator<Item = StoredObject<'a, K>> + use<'a, K>
    where
        K: PackedKind,
    {
        let owned = self.store.and_then(|store| Some((store, store.owned.get(owner)?)));
        owned.into_iter().flat_map(|(store, owned)| {
            owned.iter().filter_map(|uid| StoredObject::of(store, store.objects.get(uid)?))
        })
    }
}
