//! Objects as Kubernetes' messages, written directly through `Serialize`, guided by the type graph.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::ser::{Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer};
use serde_json::Value;

use super::fields::{Entry, fields};
use super::writer::{OpenMessage, put_bytes, put_fixed64, put_number};
use apimachinery::schema::{ObjectType, Scalar, Shape, TypeId, graph};
use base::object_serializer::key_text;

/// The position of a JSON field in its message.
#[derive(Debug, PartialEq, Eq)]
struct FieldLocation {
    /// The field numbers of the nested messages that are inlined in the JSON, down to the one with the field.
    inlined: Vec<u32>,
    number: u32,
}

/// Returns the positions of a type's fields, in the order of the graph; `None` for fields that the message
/// lacks.
fn locations(ty: TypeId) -> &'static [Option<FieldLocation>] {
    static LOCATIONS: OnceLock<Vec<Vec<Option<FieldLocation>>>> = OnceLock::new();
    let all = LOCATIONS.get_or_init(|| {
        let of_type = |ty: &ObjectType| {
            let mut places: Vec<Option<FieldLocation>> = ty.fields.iter().map(|_| None).collect();
            collect(ty.name, &mut Vec::new(), &mut |name, place| {
                if let Ok(at) = ty.fields.binary_search_by(|field| field.name.cmp(name)) {
                    places[at] = Some(place);
                }
            });
            places
        };
        graph().types().map(of_type).collect()
    });
    all.get(ty.index()).map_or(&[], Vec::as_slice)
}

/// Visits every field of a message, and of the nested messages that are inlined in its JSON.
fn collect(message: &str, inlined: &mut Vec<u32>, found: &mut impl FnMut(&str, FieldLocation)) {
    for (number, entry) in fields(message).into_iter().flatten() {
        match entry {
            Entry::Field { name, .. } => {
                found(name, FieldLocation { inlined: inlined.clone(), number: *number });
            }
            Entry::Inline(inner) => {
                let package = message.rsplit_once('.').map_or("", |(package, _)| package);
                inlined.push(*number);
                collect(&format!("{package}.{inner}"), inlined, found);
                inlined.pop();
            }
        }
    }
}

/// Writes the fields of a message.
pub(super) struct Fields<'a> {
    out: &'a mut Vec<u8>,
    ty: TypeId,
    /// The object's `managedFields`, if its serialized metadata lacks them.
    owners: Option<&'a Value>,
    /// The message's start in an enclosing message.
    open: Option<OpenMessage>,
    /// Nested messages that are inlined in the JSON, by the path of their field numbers.
    inlined: BTreeMap<&'static [u32], Vec<u8>>,
    /// The key of the current map entry.
    key: String,
}

impl Fields<'_> {
    fn add<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        let fields = &graph().get(self.ty).fields;
        let Ok(at) = fields.binary_search_by(|field| field.name.cmp(name)) else { return Ok(()) };
        let Some(Some(FieldLocation { inlined, number })) = locations(self.ty).get(at) else { return Ok(()) };
        let owners = if name == "metadata" { self.owners } else { None };
        let out = if inlined.is_empty() {
            &mut *self.out
        } else {
            self.inlined.entry(inlined.as_slice()).or_default()
        };
        write(Field { out, number: *number, shape: &fields[at].shape, owners }, value)
    }

    fn finish(mut self) -> Result<(), Error> {
        if let Some(owners) = self.owners.take()
            && self.open.is_some()
        {
            self.add("managedFields", owners)?;
        }
        // The innermost first: each is a field of the one around it.
        while let Some((path, message)) = self.inlined.pop_last() {
            let Some((number, around)) = path.split_last() else { continue };
            let out =
                if around.is_empty() { &mut *self.out } else { self.inlined.entry(around).or_default() };
            put_bytes(out, *number, &message);
        }
        if let Some(open) = self.open {
            open.close(self.out);
        }
        Ok(())
    }
}

impl SerializeStruct for Fields<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.add(name, value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

impl SerializeMap for Fields<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Error> {
        self.key = key_text(key)?;
        Ok(())
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        let key = std::mem::take(&mut self.key);
        self.add(&key, value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

/// The number of an object that is not a field of another one.
const ROOT: u32 = 0;

/// Writes a field's value under the field's number; for a list, each element. Object fields that the message lacks are
/// left out.
pub(super) struct Field<'a> {
    out: &'a mut Vec<u8>,
    /// The field's number; [`ROOT`] for the whole object.
    number: u32,
    shape: &'a Shape,
    owners: Option<&'a Value>,
}

fn write<T: Serialize + ?Sized>(field: Field<'_>, value: &T) -> Result<(), Error> {
    if *field.shape != Shape::Any {
        return value.serialize(field);
    }
    // A message whose first field is the JSON (`RawExtension`, `FieldsV1`).
    let json = serde_json::to_vec(value).map_err(|_| Error)?;
    if json != b"null" {
        let open = OpenMessage::message(field.out, field.number);
        put_bytes(field.out, 1, &json);
        open.close(field.out);
    }
    Ok(())
}

/// Writes an element of a list or map: a nested list is a message that has its elements as its first field.
fn write_item<T: Serialize + ?Sized>(field: Field<'_>, value: &T) -> Result<(), Error> {
    if !matches!(field.shape, Shape::List(_)) {
        return write(field, value);
    }
    let Field { out, number, shape, owners } = field;
    let open = OpenMessage::message(out, number);
    write(Field { out, number: 1, shape, owners }, value)?;
    open.close(out);
    Ok(())
}

impl<'a> Field<'a> {
    /// Writes a whole object of this shape; `owners` are its `managedFields`, if its serialized metadata lacks them.
    pub(super) fn root(out: &'a mut Vec<u8>, shape: &'a Shape, owners: Option<&'a Value>) -> Self {
        Self { out, number: ROOT, shape, owners }
    }

    fn fields(self) -> Result<Fields<'a>, Error> {
        let Self { out, number, shape: Shape::Object(ty), owners } = self else { return Err(Error) };
        let open = (number != ROOT).then(|| OpenMessage::message(out, number));
        Ok(Fields { out, ty: *ty, owners, open, inlined: BTreeMap::new(), key: String::new() })
    }

    fn integer(self, value: i64) -> Result<(), Error> {
        let Self { out, number, shape: Shape::Scalar(scalar), .. } = self else { return Err(Error) };
        match scalar {
            // Negative numbers take ten bytes, in int32 and int64.
            Scalar::Int32 | Scalar::Int64 => put_number(out, number, value as u64),
            Scalar::Double => put_fixed64(out, number, (value as f64).to_le_bytes()),
            Scalar::IntOrString => {
                let open = OpenMessage::message(out, number);
                put_number(out, 1, 0);
                put_number(out, 2, value as u64);
                put_bytes(out, 3, b"");
                open.close(out);
            }
            Scalar::Quantity => return Field { out, ..self }.text(&value.to_string()),
            _ => return Err(Error),
        }
        Ok(())
    }

    fn text(self, text: &str) -> Result<(), Error> {
        let Self { out, number, shape: Shape::Scalar(scalar), .. } = self else { return Err(Error) };
        match scalar {
            Scalar::String => put_bytes(out, number, text.as_bytes()),
            Scalar::Bytes => put_bytes(out, number, &STANDARD.decode(text).map_err(|_| Error)?),
            Scalar::Quantity => {
                let open = OpenMessage::message(out, number);
                put_bytes(out, 1, text.as_bytes());
                open.close(out);
            }
            Scalar::IntOrString => {
                let open = OpenMessage::message(out, number);
                put_number(out, 1, 1);
                put_number(out, 2, 0);
                put_bytes(out, 3, text.as_bytes());
                open.close(out);
            }
            Scalar::Time | Scalar::MicroTime => {
                let time: Timestamp = text.parse().map_err(|_| Error)?;
                // Seconds since 1970, and nanoseconds, which are never negative.
                let nanoseconds = time.as_nanosecond();
                let open = OpenMessage::message(out, number);
                put_number(out, 1, nanoseconds.div_euclid(1_000_000_000) as u64);
                put_number(out, 2, nanoseconds.rem_euclid(1_000_000_000) as u64);
                open.close(out);
            }
            _ => return Err(Error),
        }
        Ok(())
    }
}

/// The elements of a list.
pub(super) struct Elements<'a> {
    out: &'a mut Vec<u8>,
    number: u32,
    items: &'a Shape,
}

impl SerializeSeq for Elements<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, item: &T) -> Result<(), Error> {
        write_item(Field { out: self.out, number: self.number, shape: self.items, owners: None }, item)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

/// The fields of a message, or the entries of a map.
pub(super) enum Entries<'a> {
    Fields(Fields<'a>),
    Map { out: &'a mut Vec<u8>, number: u32, values: &'a Shape, key: String },
}

impl SerializeMap for Entries<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, name: &T) -> Result<(), Error> {
        match self {
            Self::Fields(fields) => fields.serialize_key(name),
            Self::Map { key, .. } => {
                *key = key_text(name)?;
                Ok(())
            }
        }
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        match self {
            Self::Fields(fields) => fields.serialize_value(value),
            Self::Map { out, number, values, key } => {
                let open = OpenMessage::message(out, *number);
                put_bytes(out, 1, key.as_bytes());
                write_item(Field { out, number: 2, shape: values, owners: None }, value)?;
                open.close(out);
                Ok(())
            }
        }
    }

    fn end(self) -> Result<(), Error> {
        match self {
            Self::Fields(fields) => fields.finish(),
            Self::Map { .. } => Ok(()),
        }
    }
}

impl<'a> Serializer for Field<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Elements<'a>;
    type SerializeTuple = Impossible<(), Error>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Entries<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Impossible<(), Error>;

    base::object_serializer_methods!();

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        if *self.shape != Shape::Scalar(Scalar::Bool) {
            return Err(Error);
        }
        put_number(self.out, self.number, u64::from(value));
        Ok(())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.integer(value)
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.integer(i64::try_from(value).map_err(|_| Error)?)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        match self.shape {
            Shape::Scalar(Scalar::Double) => put_fixed64(self.out, self.number, value.to_le_bytes()),
            Shape::Scalar(Scalar::Quantity) => return self.text(&value.to_string()),
            _ => return Err(Error),
        }
        Ok(())
    }

    fn serialize_str(self, text: &str) -> Result<(), Error> {
        self.text(text)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'a>, Error> {
        let Self { out, number, shape: Shape::List(items), .. } = self else { return Err(Error) };
        Ok(Elements { out, number, items })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries<'a>, Error> {
        match self.shape {
            Shape::Map(values) => {
                Ok(Entries::Map { out: self.out, number: self.number, values, key: String::new() })
            }
            _ => self.fields().map(Entries::Fields),
        }
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields<'a>, Error> {
        self.fields()
    }
}
