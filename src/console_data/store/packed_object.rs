//! Compression of objects that are numerous: the fields that tables need for all of them stay unpacked, the rest is
//! unpacked when an object is read.

use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use serde_json::Value;

use super::any_object::{Identity, Object, path_of};
use super::interner::{Interner, Labels};
use super::text::{PackedText, Packer};
use crate::decoded;
use crate::resource::{Kind, ObjectRef, Uid};
use object::TypedKind;

pub trait PackedKind: Resource<DynamicType = ()> + TypedKind {
    /// The unpacked part.
    type Summary: Debug + Send + Sync;

    /// Extracts the unpacked part of an object.
    fn summarize(&self, interner: &mut Interner) -> Self::Summary;
}

#[derive(Debug)]
pub struct PackedObject<K: PackedKind> {
    pub uid: Uid,
    /// Namespace and name, separated by a slash.
    path: Arc<str>,
    /// Its resource version if that is a number, else 0.
    pub revision: u64,
    /// The creation time.
    pub created: Option<Timestamp>,
    /// Its owner with `controller: true`.
    pub controller: Option<Arc<OwnerReference>>,
    pub labels: Arc<Labels>,
    /// The unpacked part that is specific to the kind.
    pub summary: K::Summary,
    text: PackedText,
    whole: OnceLock<Box<K>>,
}

impl<K: PackedKind> PackedObject<K> {
    /// Returns the namespace; `None` for cluster-wide kinds.
    pub fn namespace(&self) -> Option<&str> {
        let (namespace, _) = self.path.split_once('/')?;
        Some(namespace).filter(|namespace| !namespace.is_empty())
    }

    /// Returns a reference to the object.
    pub fn object(&self, kind: Kind) -> ObjectRef {
        self.identity().object(kind)
    }

    pub fn name(&self) -> &str {
        self.path.split_once('/').map_or("", |(_, name)| name)
    }

    /// Returns the whole object; unpacks it.
    pub(super) fn unpacked(&self) -> &K {
        self.whole.get_or_init(|| {
            let whole = decoded::from_slice(&self.text.unpack());
            Box::new(whole.expect("the packed bytes are an object of this kind"))
        })
    }
}

impl<K: PackedKind> Object for PackedObject<K> {
    fn metadata(&self) -> &ObjectMeta {
        self.unpacked().meta()
    }

    fn to_json(&self) -> Value {
        serde_json::from_slice(&self.text.unpack()).expect("an object is packed as JSON")
    }

    fn identity(&self) -> Identity {
        let controller = self.controller.as_ref().map(|owner| Uid::from(owner.uid.as_str()));
        Identity { uid: Some(self.uid.clone()), path: self.path.clone(), controller }
    }

    fn whole(&self) -> &dyn Any {
        self.unpacked()
    }

    fn is_packed(&self) -> bool {
        self.whole.get().is_none()
    }

    fn drop_unpacked(&mut self) {
        self.whole.take();
    }
}

/// Packs the objects of one watch.
#[derive(Debug, Default)]
pub struct ObjectPacker {
    interner: Interner,
    packer: Packer,
}

impl ObjectPacker {
    /// Reports whether objects of this type are packed.
    pub(crate) fn packs<K: 'static>() -> bool {
        [TypeId::of::<Pod>(), TypeId::of::<Event>()].contains(&TypeId::of::<K>())
    }

    /// Returns the object in the store's form: packed, if its kind is numerous.
    pub fn keep<K: Object>(&mut self, object: Arc<K>) -> Arc<dyn Object> {
        self.keep_any(&*object.clone(), object)
    }

    fn keep_any(&mut self, value: &dyn Any, object: Arc<dyn Object>) -> Arc<dyn Object> {
        let packed = match (value.downcast_ref::<Pod>(), value.downcast_ref::<Event>()) {
            (Some(pod), _) => self.pack(pod),
            (None, Some(event)) => self.pack(event),
            (None, None) => None,
        };
        packed.unwrap_or(object)
    }

    /// Packs an object; `None` if it has no uid and so cannot be stored.
    fn pack<K: PackedKind>(&mut self, object: &K) -> Option<Arc<dyn Object>> {
        let meta = object.meta();
        let uid = Uid::from(meta.uid.as_deref()?);
        let path = path_of(meta);
        let mut owners = meta.owner_references.iter().flatten();
        let controller = owners.find(|owner| owner.controller == Some(true));
        Some(Arc::new(PackedObject::<K> {
            uid,
            path,
            revision: meta.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            controller: controller.map(|owner| self.interner.owner(owner)),
            labels: self.interner.labels(meta.labels.as_ref()),
            summary: object.summarize(&mut self.interner),
            text: self.packer.pack(&object.encode()),
            whole: OnceLock::new(),
        }))
    }
}
