//! A digest of any serializable value, to detect differences between versions. The order of map entries does
//! not matter.

use std::collections::hash_map::RandomState;
use std::fmt::Error;
use std::hash::{BuildHasher, Hash};
use std::sync::LazyLock;

use serde::ser::{Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer};

use base::object_serializer::key_text;

/// Random for each process, so that no client can construct two values with the same digest.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Returns the digest of some bytes or of a value that is neither map nor list.
pub(super) fn of(value: impl Hash) -> u64 {
    KEYS.hash_one(value)
}

/// Returns the digest of a value.
pub(super) fn digest<T: ?Sized + Serialize>(value: &T) -> Result<u64, Error> {
    value.serialize(Digest)
}

/// Computes the digest of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digest;

/// The type of a digested value, so that `1` and `"1"` differ.
#[derive(Hash)]
enum DigestKind {
    Null,
    Bool,
    Integer,
    Float,
    Text,
    List,
    Map,
}

/// The digest of a map so far.
#[derive(Debug, Default)]
pub(super) struct MapDigest {
    entries: usize,
    sum: u64,
    /// The key of the current entry.
    key: u64,
}

impl MapDigest {
    /// Adds an entry.
    pub(super) fn add<T: ?Sized + Serialize>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        self.put(of(name), digest(value)?);
        Ok(())
    }

    fn put(&mut self, name: u64, value: u64) {
        self.sum = self.sum.wrapping_add(of((name, value)));
        self.entries += 1;
    }

    /// Returns the digest of the whole.
    pub(super) fn finish(&self) -> u64 {
        of((DigestKind::Map, self.entries, self.sum))
    }
}

impl SerializeStruct for MapDigest {
    type Ok = u64;
    type Error = Error;

    fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.add(name, value)
    }

    fn end(self) -> Result<u64, Error> {
        Ok(self.finish())
    }
}

impl SerializeMap for MapDigest {
    type Ok = u64;
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Error> {
        self.key = of(key_text(key)?.as_str());
        Ok(())
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        self.put(self.key, digest(value)?);
        Ok(())
    }

    fn end(self) -> Result<u64, Error> {
        Ok(self.finish())
    }
}

/// The digest of a list so far.
#[derive(Debug)]
pub(super) struct ListDigest {
    items: usize,
    state: u64,
}

impl ListDigest {
    pub(super) fn new() -> Self {
        Self { items: 0, state: 0 }
    }

    /// Adds an element.
    pub(super) fn add<T: ?Sized + Serialize>(&mut self, item: &T) -> Result<(), Error> {
        self.state = of((self.state, digest(item)?));
        self.items += 1;
        Ok(())
    }

    /// Returns the digest of the whole.
    pub(super) fn finish(&self) -> u64 {
        of((DigestKind::List, self.items, self.state))
    }
}

impl SerializeSeq for ListDigest {
    type Ok = u64;
    type Error = Error;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, item: &T) -> Result<(), Error> {
        self.add(item)
    }

    fn end(self) -> Result<u64, Error> {
        Ok(self.finish())
    }
}

impl Serializer for Digest {
    type Ok = u64;
    type Error = Error;
    type SerializeSeq = ListDigest;
    type SerializeTuple = Impossible<u64, Error>;
    type SerializeTupleStruct = Impossible<u64, Error>;
    type SerializeTupleVariant = Impossible<u64, Error>;
    type SerializeMap = MapDigest;
    type SerializeStruct = MapDigest;
    type SerializeStructVariant = Impossible<u64, Error>;

    fn serialize_bool(self, value: bool) -> Result<u64, Error> {
        Ok(of((DigestKind::Bool, value)))
    }

    fn serialize_i64(self, value: i64) -> Result<u64, Error> {
        Ok(of((DigestKind::Integer, i128::from(value))))
    }

    fn serialize_u64(self, value: u64) -> Result<u64, Error> {
        Ok(of((DigestKind::Integer, i128::from(value))))
    }

    fn serialize_f64(self, value: f64) -> Result<u64, Error> {
        Ok(of((DigestKind::Float, value.to_bits())))
    }

    fn serialize_str(self, value: &str) -> Result<u64, Error> {
        Ok(of((DigestKind::Text, value)))
    }

    fn serialize_unit(self) -> Result<u64, Error> {
        Ok(of(DigestKind::Null))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<ListDigest, Error> {
        Ok(ListDigest::new())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<MapDigest, Error> {
        Ok(MapDigest::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<MapDigest, Error> {
        Ok(MapDigest::default())
    }

    base::object_serializer_methods!();
}
