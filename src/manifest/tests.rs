//! Tests of reading manifests: the documents, and the errors with their positions.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use object::Kind;

/// Reads a text and shows each result on a line: the label and line of a document, or the error.
fn read(text: &str) -> Vec<String> {
    parse(text, "a.yaml")
        .into_iter()
        .map(|result| match result {
            Ok(document) => format!("{} at {}", document.label(), document.line),
            Err(error) => error.to_string(),
        })
        .collect()
}

#[test]
fn every_document_of_a_text_is_read_api_12() {
    for (text, expected) in [
        ("", vec![]),
        ("---\n# nothing\n---\n\n...\n", vec![]),
        ("kind: Pod\nmetadata: {name: a}", vec!["Pod/a at 1"]),
        ("\u{feff}kind: Pod\r\nmetadata:\r\n  name: a\r\n", vec!["Pod/a at 1"]),
        (
            "# first\nkind: Pod\nmetadata: {name: a}\n---\n---\n\nkind: Service\nmetadata:\n  name: b\n",
            vec!["Pod/a at 2", "Service/b at 7"],
        ),
        (
            "--- # comment\nkind: Pod\n... \n---\nkind: Node\n",
            vec!["Pod/(no name) at 2", "Node/(no name) at 5"],
        ),
        ("%YAML 1.2\n---\nkind: Pod\n", vec!["Pod/(no name) at 3"]),
        (
            "{\n\t\"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"a\\/b\\ud83d\\ude00\"}\n}\n",
            vec!["Pod/a/b😀 at 1"],
        ),
        (
            "apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  metadata: {name: a}\n- kind: List\n  items:\n  - kind: Node\n",
            vec!["Pod/a at 4", "Node/(no name) at 8"],
        ),
        ("apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n", vec!["Pod/a at 4"]),
        ("apiVersion: v1\nkind: List\nitems: []\n", vec![]),
        ("kind: ConfigMap\ndata:\n  text: |\n    a\n     ---\n    b\n", vec!["ConfigMap/(no name) at 1"]),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    let list = parse("apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n", "x");
    let value = &list[0].as_ref().unwrap().value;
    assert_eq!(value, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}));
}

#[test]
fn errors_name_file_line_and_column_and_leave_the_other_documents_alone_api_12() {
    for (text, expected) in [
        (
            "kind: Pod\n---\nkind: Node\nkind: Node\n---\nkind: Service\n",
            vec![
                "Pod/(no name) at 1",
                "a.yaml:4:1: key \"kind\" is already set at line 3",
                "Service/(no name) at 6",
            ],
        ),
        ("spec:\n  a: {b: 1, c: 2, b: 3}\n", vec!["a.yaml:2:19: key \"b\" is already set at line 2"]),
        ("{\"a\": 1, \"a\": 2}", vec!["a.yaml:1:10: key \"a\" is already set at line 1"]),
        ("just text", vec!["a.yaml:1:1: expected an object with apiVersion and kind, found a string"]),
        ("- a\n", vec!["a.yaml:1:1: expected an object with apiVersion and kind, found a list"]),
        ("a: .inf", vec!["a.yaml:1:4: .inf is a number that JSON cannot represent"]),
        ("a: 1\n[b]: 2\n", vec!["a.yaml:2:1: a key must be a string, not a list or a map"]),
        ("a: &x [*x]", vec!["a.yaml:1:8: an alias cannot refer to a node that contains it"]),
        ("a: 1\n<<: 2\n", vec!["a.yaml:2:1: << must refer to a map, or to a list of maps"]),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    // The parser may change its texts, but not its positions.
    for (text, place) in [
        ("kind: Pod\nmetadata:\n  name: [a\n", "a.yaml:3:9: "),
        ("kind: Pod\nspec:\n\ta: 1\n", "a.yaml:3:2: "),
        ("a: b: c\n", "a.yaml:1:5: "),
        ("a: \"x\n", "a.yaml:2:1: "),
        ("x: 1\n---\na: *b\n", "a.yaml:3:4: "),
    ] {
        let errors = read(text);
        assert!(errors.last().is_some_and(|e| e.starts_with(place)), "{text:?}: {errors:?}");
    }
}

#[test]
fn text_that_is_not_utf_8_is_rejected_with_its_line_api_12() {
    let error_of = |bytes: &[u8]| parse_bytes(bytes, "f")[0].as_ref().unwrap_err().to_string();
    assert_eq!(
        error_of(b"a: 1\nb: \xff\n"),
        "f: line 2 contains a byte that is not UTF-8; is this a text file?"
    );
    assert_eq!(error_of(b"\xff\xfea\0"), "f: the text is UTF-16; save it as UTF-8");
}

/// Found by fuzzing: JSON allows characters in strings that YAML does not.
#[test]
fn json_may_have_control_characters_in_its_strings_api_12() {
    for text in
        ["{\"a\": \"\u{87}\\\"\u{7f}\\\\\", \"b\u{9f}\": [\"\u{85}\"]}", "[\"\u{80}\"]", "{\"\u{15e9}\": 1}"]
    {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(from_yaml(text).unwrap(), value, "{text:?}");
    }
    assert!(from_yaml("{a: \u{87}}").is_err(), "outside of strings it is no JSON either");
}

/// Files are read strictly, bodies of requests as by Kubernetes (API-2).
#[test]
fn a_duplicate_key_is_refused_in_files_and_reported_in_bodies() {
    let text = "a: {x: 1, x:\n 2}\nb: &b {y: 1}\na: {<<: *b, y: 2, \"y\": *b}\n";
    assert_eq!(read(text), ["a.yaml:1:11: key \"x\" is already set at line 1"]);
    assert!(from_yaml(text).is_err());
    let (value, duplicates) = from_yaml_with_duplicates(text).unwrap();
    assert_eq!(value, json!({"a": {"y": {"y": 1}}, "b": {"y": 1}}));
    let duplicates: Vec<String> = duplicates.iter().map(ToString::to_string).collect();
    let key = |line: usize, key: &str| format!("line {line}: key \"{key}\" already set in map");
    assert_eq!(duplicates, [key(2, "x"), key(4, "y"), key(4, "a")]);
}

#[test]
fn aliases_and_merges_work_and_stay_bounded_sec_2() {
    let value = from_yaml("a: &a {x: 1, y: [2]}\nb: {<<: *a, x: 3}\nc: {<<: [*a, {z: 4}]}\nd: *a\n").unwrap();
    assert_eq!(
        value,
        json!({"a": {"x": 1, "y": [2]}, "b": {"x": 3, "y": [2]}, "c": {"x": 1, "y": [2], "z": 4},
            "d": {"x": 1, "y": [2]}})
    );
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
        let _ = writeln!(bomb, "a{i}: &a{i} [{aliases}]");
    }
    let error = from_yaml(&bomb).unwrap_err().to_string();
    assert!(error.ends_with("the document is too large after its aliases are expanded"), "{error}");
    let deep = format!("{}{}", "[".repeat(150), "]".repeat(150));
    let error = from_yaml(&deep).unwrap_err().to_string();
    assert!(error.contains("nested deeper than 100 levels"), "{error}");
    let mut chain = String::from("a0: &a0 [x]\n");
    for i in 1..100_000 {
        let _ = writeln!(chain, "a{i}: &a{i} [*a{}]", i - 1);
    }
    assert!(from_yaml(&chain).unwrap_err().to_string().contains("nested deeper"));
}

#[test]
fn fields_are_found_where_they_stand_api_12() {
    let text = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    app.kubernetes.io/name: x
spec:
  template:
    spec:
      containers:
      - name: a
      - name: b
        imagee: nginx
        env: [{name: A}, {name: B}]
data:
  a.b[0]: c
";
    let documents = parse(&format!("---\n{text}"), "d.yaml");
    let document = documents[0].as_ref().unwrap();
    for (path, place) in [
        ("kind", "3:1"),
        ("metadata.labels.app.kubernetes.io/name", "6:5"),
        ("metadata.labels[app.kubernetes.io/name]", "6:5"),
        ("spec.template.spec.containers[1].imagee", "13:9"),
        ("spec.template.spec.containers[1].env[1].name", "14:27"),
        ("spec.template.spec.containers[1].env[1]", "14:26"),
        ("data[a.b[0]]", "16:3"),
        // A missing field is reported at the position where it belongs.
        ("spec.template.spec.containers[0].image", "11:9"),
        ("spec.template.spec.containers[7].image", "10:7"),
        ("spec.selector", "7:1"),
        ("status", "2:1"),
        ("", "2:1"),
    ] {
        assert_eq!(document.position(path).to_string(), place, "{path}");
    }
    let error = document.error("spec.template.spec.containers[1].imagee", "unknown field");
    assert_eq!(error.to_string(), "d.yaml:13:9: spec.template.spec.containers[1].imagee: unknown field");
}

#[test]
fn unknown_kinds_name_the_nearest_one_api_12() {
    for (text, expected) in [
        ("apiVersion: apps/v1\nkind: Deployment\n", Ok(Kind::Deployment)),
        (
            "apiVersion: apps/v1\nkind: Deploymnet\n",
            Err(
                "k:2:1: kind: no kind \"Deploymnet\" in version \"apps/v1\", did you mean Deployment (apps/v1)?",
            ),
        ),
        (
            "apiVersion: v1\nkind: pod\n",
            Err("k:2:1: kind: no kind \"pod\" in version \"v1\", did you mean Pod (v1)?"),
        ),
        (
            "apiVersion: v1\nkind: svc\n",
            Err("k:2:1: kind: no kind \"svc\" in version \"v1\", did you mean Service (v1)?"),
        ),
        (
            "apiVersion: apps/v2\nkind: Deployment\n",
            Err("k:1:1: apiVersion: no kind \"Deployment\" in version \"apps/v2\"; use apps/v1"),
        ),
        // A removed version (API-18).
        ("apiVersion: extensions/v1beta1\nkind: Deployment\n", Ok(Kind::Deployment)),
        ("kind: Pod\n", Err("k:1:1: apiVersion: Required value: must be v1 for Pod")),
        ("apiVersion: v1\n", Err("k:1:1: kind: Required value: must be the kind of the object")),
        ("apiVersion: v1\nkind: Spaceship\n", Err("k:2:1: kind: no kind \"Spaceship\" in version \"v1\"")),
    ] {
        let kind = parse(text, "k").remove(0).unwrap().kind().map_err(|e| e.to_string());
        assert_eq!(kind, expected.map_err(str::to_string), "{text}");
    }
}

#[test]
fn documents_are_applied_in_the_order_they_need_each_other_api_12() {
    let text = "kind: Deployment\napiVersion: apps/v1\n---\nkind: Odd\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: b}\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: a}\n---\nkind: Namespace\napiVersion: v1\n";
    let documents = parse(text, "o").into_iter().map(Result::unwrap).collect();
    let order: Vec<_> = in_apply_order(documents).iter().map(Document::label).collect();
    assert_eq!(order, ["Namespace/(no name)", "Pod/b", "Pod/a", "Deployment/(no name)", "Odd/(no name)"]);
}

proptest! {
    #[test]
    fn no_text_panics_sec_2(text in "\\PC{0,60}|[a-c:{}\\[\\],&*<>|!'\"\n\t #%@?~-]{0,80}") {
        for document in parse(&text, "x").into_iter().flatten() {
            let _ = (document.position("a.b[0]"), document.kind());
        }
    }

    #[test]
    fn no_bytes_panic_sec_2(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = parse_bytes(&bytes, "x");
    }

    #[test]
    fn no_path_panics(path in "\\PC{0,30}|[ab.\\[\\]0]{0,20}") {
        let document = parse("a: [{b: {'0.a]': 1}}]", "x").remove(0).unwrap();
        let _ = document.position(&path);
    }
}
