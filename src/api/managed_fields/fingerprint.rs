//! The fields of an object as field ownership sees them, sorted and compact ([`object::managed::compact`]),
//! computed from the typed value in one pass: without digests for the field set of a new object, with a
//! digest of each leaf to compare versions.
//!
//! It excludes fields that no entry contains: the object's identity, and fields that the API sets.

use std::fmt::Error;
use std::mem::take;
use std::ops::Range;

use serde::ser::{Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer};
use serde_json::Value;

use super::always_encoded::AlwaysEncoded;
use super::digest::{self, Digest, ListDigest, MapDigest, digest};
use super::types::{Json, OwnershipKind, Type};
use apimachinery::schema::ObjectType;
use base::object_serializer::key_text;
use object::Object;
use object::managed::PathElement;
use object::managed::compact::{FieldName, NodeOffset, Writer};

/// Fields at the top of every object that have no owner.
pub(super) const NOT_OWNED: [&str; 2] = ["apiVersion", "kind"];
/// Fields in the metadata of every object that have no owner; sorted.
pub(super) const NOT_OWNED_METADATA: [&str; 9] = [
    "clusterName", "creationTimestamp", "generation", "managedFields", "name", "namespace",
    "resourceVersion", "selfLink", "uid",
];

/// A value that can be fingerprinted.
pub(super) trait Content {
    /// Serializes it.
    fn walk(&self, walk: FingerprintWriter<'_, '_>) -> Result<Element, Error>;
}

impl Content for Object {
    fn walk(&self, walk: FingerprintWriter<'_, '_>) -> Result<Element, Error> {
        self.serialize_content(walk)
    }
}

impl Content for Value {
    fn walk(&self, walk: FingerprintWriter<'_, '_>) -> Result<Element, Error> {
        self.serialize(walk)
    }
}

/// Returns the field set of a new object.
pub(super) fn fields(of: Type<'_>, object: &impl Content) -> Vec<u8> {
    written(of, false, &[], object)
}

/// Returns the fields of an object with their digests, except for the top-level fields in `without`.
pub(super) fn fingerprint(of: Type<'_>, without: &[&str], object: &impl Content) -> Vec<u8> {
    written(of, true, without, object)
}

fn written(of: Type<'_>, digests: bool, without: &[&str], object: &impl Content) -> Vec<u8> {
    let mut to = Writer::default();
    let level = Level::Object(without);
    let walk = FingerprintWriter {
        to: &mut to,
        digests,
        at: None,
        of,
        level,
        always: AlwaysEncoded::of_object(of),
        keys: &[],
    };
    object.walk(walk).expect("objects are maps of JSON");
    to.end();
    to.into_bytes()
}

/// The position of a value in an object.
#[derive(Clone, Copy, Debug)]
enum Level<'a> {
    /// The object itself; these top-level fields are left out.
    Object(&'a [&'a str]),
    Metadata,
    Below,
}

/// The observed properties of a value.
#[derive(Debug, Default)]
pub(super) struct Element {
    is_map: bool,
    /// The values of the key fields, if the value is an element of a keyed list.
    keys: Vec<(Box<str>, Value)>,
}

/// Writes one value.
#[derive(Debug)]
pub(super) struct FingerprintWriter<'w, 'a> {
    to: &'w mut Writer,
    digests: bool,
    /// The value's node; `None` for the object itself.
    at: Option<NodeOffset>,
    of: Type<'a>,
    level: Level<'w>,
    /// The fields that are always present in the value.
    always: AlwaysEncoded,
    /// The names of requested key fields.
    keys: &'w [&'w str],
}

impl<'w, 'a> FingerprintWriter<'w, 'a> {
    fn leaf(self, digest: impl FnOnce() -> Result<u64, Error>) -> Result<Element, Error> {
        let Some(at) = self.at else { return Err(Error) };
        if self.digests {
            let digest = digest()?;
            self.to.digest(at, digest, false);
        }
        Ok(Element::default())
    }

    /// Writes an element of a list with these key fields; `None` if it has none of them.
    fn keyed_element<T: ?Sized + Serialize>(
        &mut self,
        names: &[&str],
        item: &T,
    ) -> Result<Option<PathElement>, Error> {
        let at = self.to.element();
        self.to.member(at);
        let Element { is_map, mut keys } = item.serialize(FingerprintWriter {
            to: self.to,
            digests: self.digests,
            at: Some(at),
            of: self.of.item(),
            level: Level::Below,
            always: AlwaysEncoded::default(),
            keys: names,
        })?;
        for name in names.iter().filter(|_| is_map) {
            if !keys.iter().any(|(there, _)| **there == **name)
                && let Some(value) = self.of.key_default(name)
            {
                keys.push(((*name).into(), value));
            }
        }
        if keys.is_empty() {
            self.to.forget(at);
            return Ok(None);
        }
        let step = PathElement::key(keys);
        self.to.set_key(at, &step);
        Ok(Some(step))
    }

    /// Writes an element of a set; `None` if it is a map or list.
    fn value_element<T: ?Sized + Serialize>(
        &mut self,
        owned: &OwnershipKind<'a>,
        item: &T,
    ) -> Result<Option<PathElement>, Error> {
        let value = serde_json::to_value(item).map_err(|_| Error)?;
        let Ok(step) = self.of.step_to(owned, &value) else { return Ok(None) };
        let at = self.to.value(&step);
        self.to.member(at);
        if self.digests {
            self.to.digest(at, digest(&value)?, false);
        }
        Ok(Some(step))
    }

    fn map(self) -> Fields<'w, 'a> {
        let is_whole = self.of.owned_as(Json::Map) != OwnershipKind::Map;
        let inner = if is_whole { Inner::Whole(MapDigest::default()) } else { Inner::Parts };
        let (start, element) = (self.to.position(), Element { is_map: true, keys: Vec::new() });
        let (named, last, key) = (self.of.named_fields(), String::new(), String::new());
        Fields { walk: self, element, inner, start, named, behind: 0, last, is_sorted: true, count: 0, key }
    }
}

/// The representation of a map's fields.
#[derive(Debug)]
enum Inner {
    /// As one leaf.
    Whole(MapDigest),
    /// One by one.
    Parts,
}

/// Writes the fields of a map or struct.
#[derive(Debug)]
pub(super) struct Fields<'w, 'a> {
    walk: FingerprintWriter<'w, 'a>,
    element: Element,
    inner: Inner,
    start: usize,
    /// The fields of the type, and the position from which the next one is searched.
    named: Option<&'static ObjectType>,
    behind: usize,
    /// The previous name, for types without named fields.
    last: String,
    is_sorted: bool,
    count: usize,
    /// The key of the current entry.
    key: String,
}

impl Fields<'_, '_> {
    fn add<T: ?Sized + Serialize>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        self.count += 1;
        if self.walk.keys.contains(&name) {
            self.element.keys.push((name.into(), serde_json::to_value(value).map_err(|_| Error)?));
        }
        if let Inner::Whole(whole) = &mut self.inner {
            return if self.walk.digests { whole.add(name, value) } else { Ok(()) };
        }
        let FingerprintWriter { to, digests, of, level, always, .. } = &mut self.walk;
        let is_left_out = match level {
            Level::Object(without) => NOT_OWNED.contains(&name) || without.contains(&name),
            Level::Metadata => NOT_OWNED_METADATA.binary_search(&name).is_ok(),
            Level::Below => false,
        };
        if is_left_out {
            return Ok(());
        }
        let named = self.named.and_then(|named| named.field_behind(name, &mut self.behind));
        let (field, number) = if let Some(field) = named {
            (Type::Shape(&field.shape, field.merge), field.number)
        } else {
            // Fields usually arrive in the order of the type's sorted names; this name is not among the
            // remaining ones.
            self.is_sorted &= self.named.is_none() && (self.last.as_str() < name || self.last.is_empty());
            self.last.clear();
            self.last.push_str(name);
            (of.field(name).0, FieldName::of(name))
        };
        let is_metadata = matches!(level, Level::Object(_)) && name == "metadata";
        let always_in = always.field(name, field);
        let at = to.field(name, number);
        let before = to.position();
        if always_in.is_none() {
            to.member(at);
        }
        value.serialize(FingerprintWriter {
            to,
            digests: *digests,
            at: Some(at),
            of: field,
            level: if is_metadata { Level::Metadata } else { Level::Below },
            always: always_in.unwrap_or_default(),
            keys: &[],
        })?;
        // The mere presence of the field has no owner.
        if !*digests && !to.is_member(at) && to.position() == before {
            to.forget(at);
        }
        Ok(())
    }

    fn finish(self) -> Element {
        let Self { walk, element, inner, start, is_sorted, count, .. } = self;
        let FingerprintWriter { to, digests, at, .. } = walk;
        if !is_sorted {
            to.resort(start);
        }
        let Some(at) = at else { return element };
        match inner {
            Inner::Whole(whole) => {
                if count > 0 {
                    to.member(at);
                }
                if digests {
                    to.digest(at, whole.finish(), false);
                }
            }
            Inner::Parts if count == 0 => {
                if digests {
                    to.digest(at, MapDigest::default().finish(), true);
                }
            }
            Inner::Parts => to.end_below(at, start),
        }
        element
    }
}

fn digest_of_bytes(bytes: &[u8]) -> u64 {
    digest::of(bytes)
}

impl SerializeStruct for Fields<'_, '_> {
    type Ok = Element;
    type Error = Error;

    fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.add(name, value)
    }

    fn end(self) -> Result<Element, Error> {
        Ok(self.finish())
    }
}

impl SerializeMap for Fields<'_, '_> {
    type Ok = Element;
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Error> {
        self.key = key_text(key)?;
        Ok(())
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        let key = take(&mut self.key);
        self.add(&key, value)
    }

    fn end(self) -> Result<Element, Error> {
        Ok(self.finish())
    }
}

/// Writes the elements of a list.
#[derive(Debug)]
pub(super) struct Items<'w, 'a> {
    walk: FingerprintWriter<'w, 'a>,
    inner: ListItems<'a>,
    start: usize,
    count: usize,
    /// The elements written so far, and their positions.
    steps: Vec<(PathElement, Range<usize>)>,
}

/// The representation of a list's elements.
#[derive(Debug)]
enum ListItems<'a> {
    /// As one leaf.
    Whole(ListDigest),
    /// One by one.
    Each(OwnershipKind<'a>),
}

impl SerializeSeq for Items<'_, '_> {
    type Ok = Element;
    type Error = Error;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, item: &T) -> Result<(), Error> {
        self.count += 1;
        let walk = &mut self.walk;
        let before = walk.to.position();
        let step = match &mut self.inner {
            ListItems::Whole(whole) if walk.digests => return whole.add(item),
            ListItems::Whole(_) => return Ok(()),
            ListItems::Each(OwnershipKind::Keyed(names)) => walk.keyed_element(names, item)?,
            ListItems::Each(owned) => walk.value_element(owned, item)?,
        };
        // An element without an identity has no owner.
        let Some(step) = step else { return Ok(()) };
        self.steps.push((step, before..self.walk.to.position()));
        Ok(())
    }

    fn end(self) -> Result<Element, Error> {
        let Self { walk, inner, start, count, steps } = self;
        let FingerprintWriter { to, digests, at: Some(at), .. } = walk else { return Err(Error) };
        match inner {
            ListItems::Whole(whole) if digests => to.digest(at, whole.finish(), false),
            ListItems::Whole(_) => {}
            ListItems::Each(_) if count == 0 => {
                if digests {
                    to.digest(at, ListDigest::new().finish(), true);
                }
            }
            ListItems::Each(_) => {
                to.sort(start, steps, digests.then_some(digest_of_bytes as fn(&[u8]) -> u64));
                to.end_below(at, start);
            }
        }
        Ok(Element::default())
    }
}

impl<'w, 'a> Serializer for FingerprintWriter<'w, 'a> {
    type Ok = Element;
    type Error = Error;
    type SerializeSeq = Items<'w, 'a>;
    type SerializeTuple = Impossible<Element, Error>;
    type SerializeTupleStruct = Impossible<Element, Error>;
    type SerializeTupleVariant = Impossible<Element, Error>;
    type SerializeMap = Fields<'w, 'a>;
    type SerializeStruct = Fields<'w, 'a>;
    type SerializeStructVariant = Impossible<Element, Error>;

    fn serialize_bool(self, value: bool) -> Result<Element, Error> {
        self.leaf(|| Digest.serialize_bool(value))
    }

    fn serialize_i64(self, value: i64) -> Result<Element, Error> {
        self.leaf(|| Digest.serialize_i64(value))
    }

    fn serialize_u64(self, value: u64) -> Result<Element, Error> {
        self.leaf(|| Digest.serialize_u64(value))
    }

    fn serialize_f64(self, value: f64) -> Result<Element, Error> {
        self.leaf(|| Digest.serialize_f64(value))
    }

    fn serialize_str(self, value: &str) -> Result<Element, Error> {
        self.leaf(|| Digest.serialize_str(value))
    }

    fn serialize_unit(self) -> Result<Element, Error> {
        let is_leaf = self.of.owned_as(Json::Null) == OwnershipKind::Leaf;
        let Some(at) = self.at else { return Err(Error) };
        if self.digests {
            self.to.digest(at, Digest.serialize_unit()?, !is_leaf);
        }
        Ok(Element::default())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'w, 'a>, Error> {
        let inner = match self.of.owned_as(Json::List) {
            OwnershipKind::Leaf | OwnershipKind::Map => ListItems::Whole(ListDigest::new()),
            each => ListItems::Each(each),
        };
        let start = self.to.position();
        Ok(Items { walk: self, inner, start, count: 0, steps: Vec::new() })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Fields<'w, 'a>, Error> {
        Ok(self.map())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields<'w, 'a>, Error> {
        Ok(self.map())
    }

    base::object_serializer_methods!();
}
