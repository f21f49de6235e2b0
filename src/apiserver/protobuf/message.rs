//! Decodes a message into a JSON object, guided by the type graph.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::fields::{Entry, fields};
use super::wire::{Payload, Reader};
use super::{ProtobufError, utf8};
use apimachinery::schema::{ObjectType, Scalar, Shape, TypeId, graph};
use base::sort::CollectMap;

/// Deeper than any object that has a protobuf form.
const MAX_DEPTH: usize = 48;

/// Reads a message of this type.
pub(super) fn read_message(ty: TypeId, bytes: &[u8]) -> Result<Value, ProtobufError> {
    object(ty, bytes, 0)
}

fn object(ty: TypeId, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let object = graph().get(ty);
    let mut entries = Map::new();
    read_into(&mut entries, object, object.name, bytes, depth)?;
    Ok(Value::Object(entries))
}

/// Reads the fields of `message` into the JSON of `holder`; they differ for inlined messages.
fn read_into(
    entries: &mut Map<String, Value>,
    holder: &ObjectType,
    message: &str,
    bytes: &[u8],
    depth: usize,
) -> Result<(), ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::TooDeep);
    }
    let Some(numbers) = fields(message) else { return Ok(()) };
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match numbers.get(&number) {
            // Unknown fields are ignored, as in every protobuf reader.
            None => {}
            Some(Entry::Inline(inner)) => {
                let Payload::Bytes(bytes) = payload else { return Err(wrong_wire(inner, payload)) };
                let package = message.rsplit_once('.').map_or("", |(package, _)| package);
                read_into(entries, holder, &format!("{package}.{inner}"), bytes, depth + 1)?;
            }
            Some(Entry::Field { name, pointer }) => {
                if let Some(field) = holder.field(name) {
                    let keep_zero = *pointer;
                    Target { entries, name, keep_zero, depth }.read(&field.shape, payload)?;
                }
            }
        }
    }
    Ok(())
}

fn wrong_wire(field: &str, payload: Payload<'_>) -> ProtobufError {
    ProtobufError::WrongWire { field: field.to_string(), wire: payload.wire_type() }
}

/// The destination of one field's value.
struct Target<'a> {
    entries: &'a mut Map<String, Value>,
    name: &'static str,
    keep_zero: bool,
    depth: usize,
}

impl Target<'_> {
    fn read(self, shape: &Shape, payload: Payload<'_>) -> Result<(), ProtobufError> {
        match shape {
            Shape::List(items) => self.read_element(items, payload),
            Shape::Map(values) => self.read_entry(values, payload),
            shape => {
                let value = single(self.name, shape, payload, self.depth)?;
                if !value.is_null() && (self.keep_zero || !is_zero(shape, &value)) {
                    self.entries.insert(self.name.into(), value);
                }
                Ok(())
            }
        }
    }

    /// Reads one element of a list, or several numbers packed into one payload.
    fn read_element(self, items: &Shape, payload: Payload<'_>) -> Result<(), ProtobufError> {
        let mut elements = Vec::new();
        let numbers = matches!(items, Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Bool));
        match payload {
            Payload::Bytes(packed) if numbers => {
                let mut reader = Reader::new(packed);
                while let Some(number) = reader.next_packed()? {
                    elements.push(single(self.name, items, Payload::Varint(number), self.depth)?);
                }
            }
            payload => elements.push(single(self.name, items, payload, self.depth)?),
        }
        match self.entries.entry(self.name).or_insert_with(|| Value::Array(Vec::new())) {
            Value::Array(list) => list.extend(elements),
            other => *other = Value::Array(elements),
        }
        Ok(())
    }

    /// Reads one entry of a map: a message of key and value.
    fn read_entry(self, values: &Shape, payload: Payload<'_>) -> Result<(), ProtobufError> {
        let Payload::Bytes(bytes) = payload else { return Err(wrong_wire(self.name, payload)) };
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader::new(bytes);
        while let Some((number, payload)) = reader.next()? {
            match (number, payload) {
                (1, Payload::Bytes(text)) => key = utf8(text, self.name)?,
                (2, payload) => value = Some(single(self.name, values, payload, self.depth)?),
                _ => {}
            }
        }
        let value = value.unwrap_or_else(|| zero(values));
        match self.entries.entry(self.name).or_insert_with(|| Value::Object(Map::new())) {
            Value::Object(map) => {
                map.insert(key, value);
            }
            other => *other = Value::Object([(key, value)].collect_map()),
        }
        Ok(())
    }
}

/// Reads one value; null for an unset time.
fn single(name: &str, shape: &Shape, payload: Payload<'_>, depth: usize) -> Result<Value, ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::TooDeep);
    }
    match (shape, payload) {
        (Shape::Object(ty), Payload::Bytes(bytes)) => object(*ty, bytes, depth + 1),
        (Shape::Any, Payload::Bytes(bytes)) => embedded(name, bytes),
        // A list or map that is itself an element is a message of its own, with field 1.
        (Shape::List(items), Payload::Bytes(bytes)) => {
            let mut elements = Vec::new();
            let mut reader = Reader::new(bytes);
            while let Some((number, payload)) = reader.next()? {
                if number == 1 {
                    elements.push(single(name, items, payload, depth + 1)?);
                }
            }
            Ok(Value::Array(elements))
        }
        (Shape::Scalar(scalar), payload) => leaf(name, *scalar, payload),
        (_, payload) => Err(wrong_wire(name, payload)),
    }
}

fn leaf(name: &str, scalar: Scalar, payload: Payload<'_>) -> Result<Value, ProtobufError> {
    let value = match (scalar, payload) {
        (Scalar::Int32, Payload::Varint(n)) => Value::from(n as i32),
        (Scalar::Int64, Payload::Varint(n)) => Value::from(n as i64),
        (Scalar::Bool, Payload::Varint(n)) => Value::from(n != 0),
        (Scalar::Double, Payload::Fixed64(bytes)) => Value::from(f64::from_le_bytes(bytes)),
        (Scalar::String, Payload::Bytes(bytes)) => Value::from(utf8(bytes, name)?),
        (Scalar::Bytes, Payload::Bytes(bytes)) => Value::from(STANDARD.encode(bytes)),
        (Scalar::Time, Payload::Bytes(bytes)) => time(name, bytes, 0)?,
        (Scalar::MicroTime, Payload::Bytes(bytes)) => time(name, bytes, 6)?,
        (Scalar::Quantity, Payload::Bytes(bytes)) => {
            let mut text = String::new();
            let mut reader = Reader::new(bytes);
            while let Some((number, payload)) = reader.next()? {
                if let (1, Payload::Bytes(bytes)) = (number, payload) {
                    text = utf8(bytes, name)?;
                }
            }
            Value::from(text)
        }
        (Scalar::IntOrString, Payload::Bytes(bytes)) => int_or_string(name, bytes)?,
        (_, payload) => return Err(wrong_wire(name, payload)),
    };
    Ok(value)
}

fn int_or_string(name: &str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((tag, payload)) = reader.next()? {
        match (tag, payload) {
            (1, Payload::Varint(n)) => is_text = n == 1,
            (2, Payload::Varint(n)) => number = n as i32,
            (3, Payload::Bytes(bytes)) => text = utf8(bytes, name)?,
            _ => {}
        }
    }
    Ok(if is_text { Value::from(text) } else { Value::from(number) })
}

/// Reads seconds and nanoseconds; an empty message is no time at all.
fn time(name: &str, bytes: &[u8], digits: usize) -> Result<Value, ProtobufError> {
    let (mut seconds, mut nanoseconds) = (0i64, 0i32);
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Varint(n)) => seconds = n as i64,
            (2, Payload::Varint(n)) => nanoseconds = n as i32,
            _ => {}
        }
    }
    if (seconds, nanoseconds) == (0, 0) {
        return Ok(Value::Null);
    }
    let invalid = || ProtobufError::InvalidContent(name.to_string());
    let time = Timestamp::new(seconds, nanoseconds).map_err(|_| invalid())?.to_zoned(TimeZone::UTC);
    let fraction =
        if digits == 0 { String::new() } else { format!(".{:06}", time.subsec_nanosecond() / 1000) };
    Ok(Value::from(format!("{}{fraction}Z", time.strftime("%Y-%m-%dT%H:%M:%S"))))
}

/// Reads embedded JSON (`RawExtension`, `FieldsV1`): a message whose first field is the text.
fn embedded(name: &str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut value = Value::Null;
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        if let (1, Payload::Bytes(json)) = (number, payload)
            && !json.is_empty()
        {
            value =
                serde_json::from_slice(json).map_err(|_| ProtobufError::InvalidContent(name.to_string()))?;
        }
    }
    Ok(value)
}

fn is_zero(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::Scalar(_), Value::String(text)) => text.is_empty(),
        (Shape::Scalar(_), Value::Bool(yes)) => !yes,
        (Shape::Scalar(_), Value::Number(number)) => number.as_f64() == Some(0.0),
        _ => false,
    }
}

/// Returns the value of a map entry without one.
fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString) => Value::from(0),
        Shape::Scalar(Scalar::Bool) => Value::from(false),
        Shape::Scalar(_) => Value::from(""),
        Shape::List(_) => Value::Array(Vec::new()),
        Shape::Object(_) | Shape::Map(_) => Value::Object(Map::new()),
        Shape::Any => Value::Null,
    }
}
