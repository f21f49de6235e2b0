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

/// Checks the errors of new objects.
fn check(kind: Kind, cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(messages(&validate_create(&object(kind, text))), *expected, "{text}");
    }
}

/// Checks the errors of updates: (old, new, expected).
fn check_change(kind: Kind, cases: &[(&str, &str, &[&str])]) {
    for (old, new, expected) in cases {
        let errors = validate_update(&object(kind, new), &object(kind, old));
        assert_eq!(messages(&errors), *expected, "{old} -> {new}");
    }
}

/// Checks the errors of status updates: (old, new, expected).
fn check_status(kind: Kind, cases: &[(&str, &str, &[&str])]) {
    for (old, new, expected) in cases {
        let errors = validate_status_update(&object(kind, new), &object(kind, old));
        assert_eq!(messages(&errors), *expected, "{old} -> {new}");
    }
}

/// Checks the errors of pods with these fields in their spec and one valid container.
fn check_pod(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        let text = format!("spec:\n  containers: [{{name: c, image: i}}]\n  {}", text.replace('\n', "\n  "));
        assert_eq!(messages(&validate_create(&object(Kind::Pod, &text))), *expected, "{text}");
    }
}

/// Checks the errors of pods with these fields in their only container.
fn check_container(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        let indented = text.replace('\n', "\n    ");
        let text = format!(
            "spec:\n  volumes: [{{name: v}}]\n  containers:\n  - name: c\n    image: i\n    {indented}"
        );
        let errors = messages(&validate_create(&object(Kind::Pod, &text)));
        let errors: Vec<_> =
            errors.iter().map(|e| e.strip_prefix("spec.containers[0].").unwrap_or(e)).collect();
        assert_eq!(errors, *expected, "{text}");
    }
}

const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

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
