//! Tables of objects and their validation errors, by kind.

mod batch;
mod cluster;
mod config;
mod container;
mod daemon_set;
mod defaults;
mod definitions;
mod devices;
mod flow_control;
mod hostile;
mod limits;
mod metadata;
mod networking;
mod pod_resize;
mod pod_resources;
mod pod_spec;
mod pod_update;
mod roles;
mod security;
mod service;
mod stateful_set;
mod status;
mod storage;
mod updates;
mod volume_sources;
mod workload;

use serde_json::{Value, json};

use super::*;
use apimachinery::validate::join;
use manifest::from_yaml;

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    built_in(new.kind()).update_errors(new, old)
}

fn validate_status_update(new: &Object, old: &Object) -> Vec<FieldError> {
    built_in(new.kind()).status_errors(new, old)
}

/// Reads and defaults an object, and supplies a missing namespace and name.
fn object(kind: Kind, text: &str) -> Object {
    let mut value = from_yaml(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    if value.is_null() {
        value = json!({});
    }
    let mut object = Object::from_value(kind, value).unwrap_or_else(|e| panic!("{e}: {text}"));
    let meta = object.meta_mut();
    if meta.name.is_none() {
        meta.name = Some("x".into());
    }
    if kind.namespaced() && meta.namespace.is_none() {
        meta.namespace = Some("default".into());
    }
    apply_defaults(&mut object);
    object
}

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// A case of a table: an object, its new version in tables of updates, and the errors.
#[derive(Debug)]
struct Case {
    text: String,
    new: Option<String>,
    errors: Vec<String>,
}

impl Case {
    fn new_text(&self) -> &str {
        self.new.as_deref().unwrap_or_else(|| panic!("no new version: {self:?}"))
    }
}

/// Reads a table of cases:
///
/// ```text
/// # A comment.
/// metadata: {name: a}\ndata: {k: v}
/// -> metadata: {name: b}\ndata: {k: v}
///   ! metadata.name: Invalid value: "b": field is immutable
/// ```
///
/// A line that is not indented is an object, or with `->` its new version. In both, `\n` is a line break, and `<empty>`
/// is no text at all. The indented lines are the errors, in order; [`RULES`] replaces their placeholders.
fn read_cases(table: &str) -> Vec<Case> {
    let object = |text: &str| if text == "<empty>" { String::new() } else { text.replace("\\n", "\n") };
    let mut cases: Vec<Case> = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(new) = line.strip_prefix("->") {
            let case = cases.last_mut().filter(|case| case.new.is_none() && case.errors.is_empty());
            let case = case.unwrap_or_else(|| panic!("not below an object: {line}"));
            case.new = Some(object(new.strip_prefix(' ').unwrap_or(new)));
        } else if line.starts_with(' ') {
            let error = line.trim_start().strip_prefix("! ");
            let error = error.unwrap_or_else(|| panic!("no `!` before an error: {line}"));
            let error = RULES.iter().fold(error.to_owned(), |text, &(name, rule)| text.replace(name, rule));
            cases.last_mut().unwrap_or_else(|| panic!("not below an object: {line}")).errors.push(error);
        } else {
            cases.push(Case { text: object(line), new: None, errors: Vec::new() });
        }
    }
    assert!(!cases.is_empty(), "no cases: {table}");
    cases
}

/// Objects that have their cases in place of the `…` in a text.
struct Template<'a> {
    kind: Kind,
    text: &'a str,
    path: &'a str,
}

impl<'a> Template<'a> {
    /// Errors of cases that begin with `.`, `[` or `:` are relative to the path of a field.
    const fn new(kind: Kind, text: &'a str, path: &'a str) -> Self {
        Self { kind, text, path }
    }

    /// Returns the text of a case's object. All lines of the case begin in the column of the `…`.
    fn fill(&self, case: &str) -> String {
        let (before, after) = self.text.split_once('…').expect("a template has a place for its cases");
        let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1);
        format!("{before}{}{after}", case.replace('\n', &format!("\n{}", " ".repeat(column))))
    }

    fn object(&self, case: &str) -> Object {
        object(self.kind, &self.fill(case))
    }

    fn expected(&self, case: &Case) -> Vec<String> {
        let path = |error: &str| if error.starts_with(['.', '[', ':']) { self.path } else { "" };
        case.errors.iter().map(|error| format!("{}{error}", path(error))).collect()
    }

    /// Checks the errors of new objects.
    fn check(&self, table: &str) {
        for case in read_cases(table) {
            assert_eq!(case.new, None, "{case:?}");
            let errors = validate_create(&self.object(&case.text));
            assert_eq!(messages(&errors), self.expected(&case), "{case:?}");
        }
    }

    /// Checks the errors of updates.
    fn check_change(&self, table: &str) {
        for case in read_cases(table) {
            let errors = validate_update(&self.object(case.new_text()), &self.object(&case.text));
            assert_eq!(messages(&errors), self.expected(&case), "{case:?}");
        }
    }

    /// Checks the errors of status updates.
    fn check_status(&self, table: &str) {
        for case in read_cases(table) {
            let errors = validate_status_update(&self.object(case.new_text()), &self.object(&case.text));
            assert_eq!(messages(&errors), self.expected(&case), "{case:?}");
        }
    }
}

/// Checks the errors of new objects.
fn check(kind: Kind, table: &str) {
    Template::new(kind, "…", "").check(table);
}

/// Checks the errors of updates.
fn check_change(kind: Kind, table: &str) {
    Template::new(kind, "…", "").check_change(table);
}

/// Checks the errors of status updates.
fn check_status(kind: Kind, table: &str) {
    Template::new(kind, "…", "").check_status(table);
}

/// Checks the errors of pods with these fields in their spec and one valid container.
fn check_pod(table: &str) {
    Template::new(Kind::Pod, "spec:\n  containers: [{name: c, image: i}]\n  …", "spec").check(table);
}

/// Checks the errors of pods with these fields in their only container.
fn check_container(table: &str) {
    let text = "spec:\n  volumes: [{name: v}]\n  containers:\n  - name: c\n    image: i\n    …";
    Template::new(Kind::Pod, text, "spec.containers[0]").check(table);
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Placeholders in the errors of tables, and the texts of rules that they stand for.
#[rustfmt::skip]
const RULES: &[(&str, &str)] = &[
    ("<dns-label>", "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"),
    ("<subdomain>", SUBDOMAIN),
    ("<qualified-name>", "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"),
    ("<c-identifier>", "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"),
    ("<config-key>", "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"),
    ("<quantity>", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
];

/// The message of a Status, as the API composes it.
fn message(errors: &[FieldError], kind: Kind, name: &str) -> String {
    format!("{} \"{name}\" is invalid: {}", kind.info().qualified_name(), join(errors))
}

#[test]
fn the_reference_answers_are_given_word_for_word_api_8() {
    let bad_name = object(Kind::ConfigMap, "metadata: {name: Bad_Name}");
    assert_eq!(
        message(&validate_create(&bad_name), Kind::ConfigMap, "Bad_Name"),
        format!("ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": {SUBDOMAIN}")
    );
    let deployment = object(
        Kind::Deployment,
        "metadata: {name: bad}
spec:
  replicas: -1
  selector: {matchLabels: {a: x}}
  template:
    metadata: {labels: {a: b}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: nginx, ports: [{containerPort: 99999}]}]",
    );
    assert_eq!(
        message(&validate_create(&deployment), Kind::Deployment, "bad"),
        "Deployment.apps \"bad\" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`, spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive, spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"]"
    );
    let web = |label: &str| {
        object(
            Kind::Deployment,
            &format!(
                "metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: {label}}}}}
  template: {{metadata: {{labels: {{app: {label}}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}"
            ),
        )
    };
    assert_eq!(
        message(&validate_update(&web("other"), &web("web")), Kind::Deployment, "web"),
        "Deployment.apps \"web\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"other\"}}: field is immutable"
    );
    let duplicate = object(
        Kind::Pod,
        "metadata: {name: dup}
spec:
  containers: [{name: c, image: nginx}]
  initContainers: [{name: c, image: nginx, readinessProbe: {exec: {command: [x]}}}]
  topologySpreadConstraints: [{whenUnsatisfiable: Maybe}]",
    );
    // The text about the probe is that of a newer Kubernetes; the reference has a memory address there.
    assert_eq!(
        message(&validate_create(&duplicate), Kind::Pod, "dup"),
        "Pod \"dup\" is invalid: [spec.initContainers[0].name: Duplicate value: \"c\", spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always, spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero, spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty, spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Maybe\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"]"
    );
}
