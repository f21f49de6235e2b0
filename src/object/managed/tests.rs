//! Sets of paths: the laws of sets, and every way they are written.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn set(value: &Value) -> FieldSet {
    FieldSet::from_fields_v1(value).unwrap()
}

/// Returns the text that objects contain.
fn written(set: &FieldSet) -> String {
    let mut text = Vec::new();
    compact::write_json(&compact::encode(set), &mut text);
    String::from_utf8(text).unwrap()
}

/// Returns the text of a set in the order of its path elements, which a `Value` does not keep.
fn in_order(set: &FieldSet, itself: bool) -> String {
    let itself = (itself && !set.is_empty()).then(|| r#"".":{}"#.to_owned());
    let below = set.nodes().map(|(step, node)| {
        let alone = FieldSet::of(vec![vec![step.clone()]]).to_fields_v1();
        let name = alone.as_object().unwrap().keys().next().cloned();
        format!("{}:{}", json!(name), in_order(&node.below, node.member))
    });
    format!("{{{}}}", itself.into_iter().chain(below).collect::<Vec<_>>().join(","))
}

#[test]
fn sets_are_written_as_kubernetes_writes_them_api_13() {
    let text = concat!(
        r#"{"f:data":{".":{},"f:a":{}},"f:spec":{"f:ports":{"#,
        r#""k:{\"port\":9,\"protocol\":\"TCP\"}":{".":{},"f:name":{}},"#,
        r#""k:{\"port\":80,\"protocol\":\"TCP\"}":{"f:name":{}}},"f:z":{"v:\"x\"":{},"i:3":{}}}}"#
    );
    let value: Value = serde_json::from_str(text).unwrap();
    let set = set(&value);
    assert_eq!((set.to_fields_v1(), written(&set).as_str()), (value, text));
    assert_eq!(compact::decode(&compact::encode(&set)), set);
    let paths: Vec<String> = set.paths().iter().map(|path| path_text(path)).collect();
    assert_eq!(
        paths,
        [
            ".data",
            ".data.a",
            r#".spec.ports[port=9,protocol="TCP"]"#,
            r#".spec.ports[port=9,protocol="TCP"].name"#,
            r#".spec.ports[port=80,protocol="TCP"].name"#,
            r#".spec.z[="x"]"#,
            ".spec.z[3]",
        ]
    );
}

#[test]
fn unknown_steps_are_passed_over_and_bad_ones_refused_api_13() {
    assert_eq!(set(&json!({"x:y": {}, "f:a": {}})), set(&json!({"f:a": {}})));
    for bad in [json!({"f": {}}), json!({"k:x": {}}), json!({"i:x": {}}), json!({"f:a": 1}), json!([])] {
        assert!(FieldSet::from_fields_v1(&bad).is_err(), "{bad}");
    }
    let mut deep = json!({});
    for _ in 0..100_000 {
        let mut above = serde_json::Map::new();
        above.insert("f:a".into(), deep);
        deep = Value::Object(above);
        if above_limit(&deep) {
            break;
        }
    }
    assert!(FieldSet::from_fields_v1(&deep).is_err());
}

/// Returns true once the value is nested deeply enough to be refused; a much deeper one could not be dropped.
fn above_limit(value: &Value) -> bool {
    let (mut depth, mut at) = (0, value);
    while let Some(below) = at.get("f:a") {
        (depth, at) = (depth + 1, below);
    }
    depth > 200
}

#[test]
fn entries_stand_in_kubernetes_order_and_are_shared_api_13() {
    let entry = |name: &str, operation, time| {
        let manager =
            Manager { name: name.into(), operation, api_version: "v1".into(), subresource: String::new() };
        Entry::new(manager, Some(time), &set(&json!({"f:a": {}})))
    };
    let fields = ManagedFields::new(vec![
        entry("b", Operation::Update, 1),
        entry("z", Operation::Apply, 9),
        entry("a", Operation::Update, 1),
    ]);
    let names: Vec<&str> = fields.entries().iter().map(|e| e.manager().name.as_str()).collect();
    assert_eq!(names, ["z", "a", "b"]);
    assert!(Arc::ptr_eq(&fields.entries()[0].fields, &fields.entries()[1].fields));
    let read: Vec<ManagedFieldsEntry> = serde_json::from_value(fields.to_value()).unwrap();
    assert_eq!(ManagedFields::read(&read), Ok(fields));
    assert!(ManagedFields::read(&[ManagedFieldsEntry::default()]).is_err());
}

/// Regression: every name was inserted into a sorted list, which moved the others; this took minutes.
#[test]
fn sets_as_long_as_a_body_holds_are_read_in_one_pass_api_13() {
    // In a shuffled order: a multiplier without a common divisor with the count reaches every number once.
    let names = (0..200_000_u64).map(|n| format!("f:k{}", n * 7_919 % 200_000));
    let value = json!({"f:data": names.map(|name| (name, json!({}))).collect::<serde_json::Map<_, _>>()});
    let read = set(&value);
    assert_eq!(read.paths().len(), 200_000);
    assert!(read.is_subset(&compact::decode(&compact::encode(&read))));
    assert!(read.clone().difference(&read).is_empty());
}

/// Regression: sets of a megabyte stayed after their objects until a thousand had accumulated.
#[test]
fn long_field_sets_and_names_are_not_shared_between_objects_api_13() {
    let long = FieldSet::of((0..1_000).map(|n| [PathElement::field(&format!("{n:065}"))]));
    let entry = |name: &str| {
        let manager = Manager {
            name: name.into(),
            operation: Operation::Apply,
            api_version: "v1".into(),
            subresource: String::new(),
        };
        Entry::new(manager, None, &long)
    };
    let (short, long) = (entry("m"), entry(&"m".repeat(5_000)));
    assert_eq!((Arc::strong_count(&short.fields), Arc::strong_count(&long.manager)), (1, 1));
    assert!(Arc::strong_count(&short.manager) > 1);
}

fn steps() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-d]".prop_map(|name| PathElement::field(&name)),
        (0..3_i64).prop_map(|n| PathElement::key(vec![("k".into(), json!(n))])),
        "[xy]".prop_map(|text| PathElement::value(json!(text))),
        (0..2_i64).prop_map(PathElement::Index),
    ]
}

fn sets() -> impl Strategy<Value = FieldSet> {
    prop::collection::vec(prop::collection::vec(steps(), 1..4), 0..8).prop_map(FieldSet::of)
}

proptest! {
    /// The tree is a set of its paths, in every operation.
    #[test]
    fn sets_obey_the_laws_of_sets_api_13(a in sets(), b in sets()) {
        let all = |set: &FieldSet| set.paths();
        let both = a.intersection(&b);
        prop_assert!(all(&both).iter().all(|path| a.has(path) && b.has(path)));
        prop_assert_eq!(all(&a).iter().filter(|path| b.has(path)).count(), all(&both).len());
        let rest = a.clone().difference(&b);
        prop_assert_eq!(rest.clone().union(both.clone()), a.clone());
        prop_assert!(rest.intersection(&b).is_empty());
        let either = a.clone().union(b.clone());
        prop_assert_eq!(&either, &b.clone().union(a.clone()));
        prop_assert_eq!(&either.difference(&b), &rest);
        prop_assert!(all(&a.clone().recursive_difference(&b)).iter().all(|path| rest.has(path)));
        prop_assert_eq!(a.is_subset(&b), rest.is_empty());
        prop_assert_eq!(FieldSet::of(all(&a)), a);
    }

    #[test]
    fn sets_survive_every_encoding_api_13(a in sets()) {
        prop_assert_eq!(&FieldSet::from_fields_v1(&a.to_fields_v1()).unwrap(), &a);
        prop_assert_eq!(&compact::decode(&compact::encode(&a)), &a);
        prop_assert_eq!(serde_json::from_str::<Value>(&written(&a)).unwrap(), a.to_fields_v1());
        prop_assert_eq!(written(&a), in_order(&a, false));
    }

    /// Operations on two encoded sets return the same as on the sets.
    #[test]
    fn encoded_sets_are_compared_as_sets_api_13(a in sets(), b in sets()) {
        let (x, y) = (compact::encode(&a), compact::encode(&b));
        prop_assert_eq!(compact::contains(&x, &y), b.is_subset(&a));
        prop_assert_eq!(compact::touch(&x, &y), a.nodes().any(|(step, _)| b.at(step).is_some()));
    }
}
