//! Responses decode to the values they were encoded from (API-19).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value, json};

use super::fields::{Entry, fields};
use super::*;
use ::object::managed::ManagedFields;
use ::object::{Kind, Object, ServedKind};
use apimachinery::schema::{ObjectType, Scalar, Shape};

/// The depth of example values: recursive types end there.
const DEPTH: usize = 12;

/// The fields of a message, including those of messages that are inlined in its JSON.
fn named(message: &str) -> Vec<&'static str> {
    let of_entry = |(_, entry): (&u32, &'static Entry)| match entry {
        Entry::Field { name, .. } => vec![*name],
        Entry::Inline(inner) => {
            let package = message.rsplit_once('.').unwrap().0;
            named(&format!("{package}.{inner}"))
        }
    };
    fields(message).into_iter().flatten().flat_map(of_entry).collect()
}

fn filled_object(ty: &ObjectType, depth: usize) -> Value {
    let known = named(ty.name);
    let fields = ty.fields.iter().filter(|field| known.contains(&field.name));
    fields.map(|field| (field.name.to_string(), filled(&field.shape, depth))).collect::<Map<_, _>>().into()
}

/// A value with all fields set, so that every lost field is noticed.
fn filled(shape: &Shape, depth: usize) -> Value {
    match shape {
        Shape::Any => json!({"any": [1, "x", null]}),
        Shape::Object(id) if depth < DEPTH => filled_object(graph().get(*id), depth + 1),
        Shape::Object(_) => json!({}),
        Shape::List(items) => json!([filled(items, depth), filled(items, depth)]),
        Shape::Map(values) => json!({"a": filled(values, depth), "b": filled(values, depth)}),
        Shape::Scalar(scalar) => match scalar {
            Scalar::String => "text \u{e4}".into(),
            Scalar::Bytes => "AP8B".into(),
            Scalar::Time => "1969-12-31T23:59:58Z".into(),
            Scalar::MicroTime => "2026-11-23T01:02:03.000450Z".into(),
            Scalar::Int32 => (-7).into(),
            Scalar::Int64 => (-(1_i64 << 40)).into(),
            Scalar::Double => 1.5.into(),
            Scalar::Bool => true.into(),
            Scalar::IntOrString => "25%".into(),
            Scalar::Quantity => "100m".into(),
        },
    }
}

#[test]
fn every_field_of_every_kind_is_read_back_api_19() {
    let mut kinds = 0;
    for kind in Kind::BUILT_IN {
        let info = kind.info();
        if !has_form(ServedKind::Stored(*kind)) {
            // Those that `has_form` excludes, or that have no protobuf form in Kubernetes.
            assert!(
                ["apiextensions.k8s.io", "apiregistration.k8s.io", "podium.dev"].contains(&info.group)
                    || *kind == Kind::PodPreset,
                "{kind}"
            );
            continue;
        }
        kinds += 1;
        let ty = graph().root(info.group, info.version, info.name).unwrap();
        let mut value = filled_object(graph().get(ty), 0);
        value["apiVersion"] = info.api_version().into();
        value["kind"] = info.name.into();
        let written = of_value(&value).unwrap_or_else(|| panic!("{kind} cannot be written"));
        let read = decode(&written).unwrap();
        assert_eq!(read, value, "{kind}");
    }
    assert!(kinds > 50, "{kinds}");
}

#[test]
fn an_object_with_its_owners_and_a_list_are_read_back_api_19() {
    let value = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "a", "labels": {"app": "web"},
            "creationTimestamp": "2026-11-23T00:00:00Z"},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1"}}, "env": [{"name": "A", "value": ""}],
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5}}],
            "volumes": [{"name": "v", "emptyDir": {}}]},
        "status": {"phase": "Running", "hostIPs": [{"ip": "127.0.0.1"}]},
    });
    let mut pod = Object::from_value(Kind::Pod, value).unwrap();
    let entries = json!([{"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "time": "2026-11-23T00:00:00Z", "fieldsV1": {"f:spec": {"f:containers": {}}}}]);
    let entries: Vec<ManagedFieldsEntry> = serde_json::from_value(entries).unwrap();
    pod.set_managed_fields(ManagedFields::read(&entries).unwrap());
    let served = ServedKind::Stored(Kind::Pod);
    let message = object(served, &pod).unwrap();
    let read = decode(&enveloped("v1", "Pod", &message)).unwrap();
    let mut expected = pod.to_value();
    // An empty string and its absence are equal.
    expected["spec"]["containers"][0]["env"][0].as_object_mut().unwrap().remove("value");
    assert_eq!(read, expected);

    let metadata = json!({"resourceVersion": "7", "continue": "x", "remainingItemCount": 3});
    let item = item_head(message.len()).len() + message.len();
    let ListFrame { head, tail } = list_frame("v1", "PodList", &metadata, 2 * item).unwrap();
    let mut list = head;
    for _ in 0..2 {
        list.extend(item_head(message.len()));
        list.extend(&message);
    }
    list.extend(tail);
    let envelope = list.strip_prefix(MAGIC).unwrap();
    let mut parts = Reader::new(envelope);
    let (mut numbers, mut raw) = (Vec::new(), &[][..]);
    while let Some((number, payload)) = parts.next().unwrap() {
        numbers.push(number);
        if let (2, Payload::Bytes(bytes)) = (number, payload) {
            raw = bytes;
        }
    }
    assert_eq!(numbers, [1, 2, 3, 4]);
    let mut items = Reader::new(raw);
    let Some((1, Payload::Bytes(own))) = items.next().unwrap() else { panic!("no metadata") };
    let list_meta = graph().named("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta").unwrap();
    assert_eq!(read_message(list_meta, own).unwrap(), metadata);
    let mut count = 0;
    while let Some((number, payload)) = items.next().unwrap() {
        assert_eq!((number, payload), (2, Payload::Bytes(&message)));
        count += 1;
    }
    assert_eq!(count, 2);
}

#[test]
fn an_event_stands_behind_its_length_api_19() {
    let event = event("ADDED", b"object");
    let (length, message) = event.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, message.len());
    let mut reader = Reader::new(message);
    assert_eq!(reader.next().unwrap(), Some((1, Payload::Bytes(b"ADDED"))));
    let Some((2, Payload::Bytes(raw))) = reader.next().unwrap() else { panic!("no object") };
    assert_eq!(Reader::new(raw).next().unwrap(), Some((1, Payload::Bytes(b"object"))));
}
