//! The objects of one resource, indexed; and the same objects read as the type they are of.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::change::{Change, Object, Touched};
use crate::resource::Uid;
use crate::server_table::{ColumnDefinition, TableRow};

/// All objects of one resource.
#[derive(Debug, Default)]
pub(crate) struct Store {
    objects: HashMap<Uid, Arc<dyn Object>>,
    names: HashMap<(String, String), Uid>,
    owned: HashMap<Uid, BTreeSet<Uid>>,
    columns: Vec<ColumnDefinition>,
    synced: bool,
}

impl Store {
    /// The object with this uid.
    pub(crate) fn get(&self, uid: &Uid) -> Option<&Arc<dyn Object>> {
        self.objects.get(uid)
    }

    /// The object of this name; the namespace is empty for cluster-wide kinds.
    pub(crate) fn by_name(&self, namespace: &str, name: &str) -> Option<&Arc<dyn Object>> {
        let uid = self.names.get(&(namespace.to_owned(), name.to_owned()))?;
        self.objects.get(uid)
    }

    /// Every object, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Uid, &Arc<dyn Object>)> {
        self.objects.iter()
    }

    /// The objects whose controller has this uid, by uid.
    pub(crate) fn owned_by(&self, owner: &Uid) -> impl Iterator<Item = &Arc<dyn Object>> {
        self.owned.get(owner).into_iter().flatten().filter_map(|uid| self.objects.get(uid))
    }

    /// The columns of the server's Table; none where the objects did not come as one.
    pub(crate) fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    pub(super) fn set_columns(&mut self, columns: Vec<ColumnDefinition>) {
        self.columns = columns;
    }

    /// The row of the server's Table, where the objects came as one.
    pub(crate) fn row(&self, uid: &Uid) -> Option<&TableRow> {
        (&**self.objects.get(uid)? as &dyn Any).downcast_ref()
    }

    /// Whether the first list has arrived; before that an empty store means nothing.
    pub(crate) fn synced(&self) -> bool {
        self.synced
    }

    fn put(&mut self, object: Arc<dyn Object>) -> Option<(Uid, Option<Arc<dyn Object>>)> {
        let meta = object.metadata();
        let uid = Uid::from(meta.uid.as_deref()?);
        let key = name_key(meta);
        if let Some(owner) = controller(meta) {
            self.owned.entry(owner).or_default().insert(uid.clone());
        }
        self.names.insert(key, uid.clone());
        let before = self.objects.insert(uid.clone(), object);
        Some((uid, before))
    }

    fn take(&mut self, object: &dyn Object) -> Option<(Uid, Option<Arc<dyn Object>>)> {
        let meta = object.metadata();
        let uid = Uid::from(meta.uid.as_deref()?);
        let before = self.objects.remove(&uid);
        if let Some(owner) = controller(meta)
            && let Some(owned) = self.owned.get_mut(&owner)
        {
            owned.remove(&uid);
            if owned.is_empty() {
                self.owned.remove(&owner);
            }
        }
        let key = name_key(meta);
        // A new object of the same name may have come first; its entry stays.
        if self.names.get(&key) == Some(&uid) {
            self.names.remove(&key);
        }
        Some((uid, before))
    }

    /// Applies a batch; `seen` is called for every object that went and came, for counts kept elsewhere.
    pub(super) fn apply(
        &mut self,
        batch: Vec<Change>,
        mut seen: impl FnMut(Option<&dyn Object>, Option<&dyn Object>),
    ) -> Touched {
        let mut touched = Vec::new();
        let mut all = false;
        for change in batch {
            match change {
                Change::Reset(objects) => {
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
                Change::Applied(object) => {
                    if let Some((uid, before)) = self.put(object.clone()) {
                        seen(before.as_deref(), Some(&*object));
                        touched.push(uid);
                    }
                }
                Change::Deleted(object) => {
                    if let Some((uid, before)) = self.take(&*object) {
                        seen(before.as_deref(), None);
                        touched.push(uid);
                    }
                }
            }
        }
        if all { Touched::All } else { Touched::Some(touched) }
    }
}

fn name_key(meta: &ObjectMeta) -> (String, String) {
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// The uid of the owner with `controller: true` in an object's metadata.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<Uid> {
    let owners = meta.owner_references.as_ref()?;
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| Uid::from(owner.uid.as_str()))
}

/// The uid of a typed object.
pub(crate) fn uid_of<K: Resource>(object: &K) -> Option<Uid> {
    object.meta().uid.as_deref().map(Uid::from)
}

/// The uid of the owner with `controller: true`.
pub(crate) fn controller_of<K: Resource>(object: &K) -> Option<Uid> {
    controller(object.meta())
}

/// A store read as objects of the type that is in it.
#[derive(Debug)]
pub struct Typed<'a, K> {
    store: Option<&'a Store>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Typed<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Typed<'_, K> {}

impl<'a, K: Object> Typed<'a, K> {
    pub(super) fn new(store: Option<&'a Store>) -> Self {
        Self { store, kind: PhantomData }
    }

    fn cast(object: &'a Arc<dyn Object>) -> Option<&'a K> {
        (&**object as &dyn Any).downcast_ref()
    }

    /// The object with this uid.
    pub(crate) fn get(self, uid: &Uid) -> Option<&'a K> {
        Self::cast(self.store?.get(uid)?)
    }

    /// The object of this name; the namespace is empty for cluster-wide kinds.
    pub(crate) fn by_name(self, namespace: &str, name: &str) -> Option<&'a K> {
        Self::cast(self.store?.by_name(namespace, name)?)
    }

    /// Every object, in no order.
    pub fn iter(self) -> impl Iterator<Item = (&'a Uid, &'a K)> {
        let objects = self.store.into_iter().flat_map(Store::iter);
        objects.filter_map(|(uid, object)| Some((uid, Self::cast(object)?)))
    }

    /// The objects whose controller has this uid, by uid.
    pub(crate) fn owned_by(self, owner: &Uid) -> impl Iterator<Item = &'a K> + use<'a, K> {
        let owned = self.store.and_then(|store| Some((store, store.owned.get(owner)?)));
        owned.into_iter().flat_map(|(store, owned)| {
            owned.iter().filter_map(|uid| store.objects.get(uid)).filter_map(Self::cast)
        })
    }

    /// How many there are.
    pub(crate) fn len(self) -> usize {
        self.store.map_or(0, |store| store.objects.len())
    }

    /// Whether there is none.
    pub(crate) fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether the first list has arrived; before that an empty store means nothing.
    pub(crate) fn synced(self) -> bool {
        self.store.is_some_and(Store::synced)
    }
}
