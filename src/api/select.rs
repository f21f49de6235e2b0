//! Selection of objects by labels, and by the fields that their kind supports in field selectors.

use std::borrow::Cow;

use super::{ApiError, Selection};
use kinds::Strategy;
use object::selector::FieldRequirement;
use object::{Kind, Object};

/// Refuses fields that the kind does not support in field selectors.
pub fn check_fields(
    kind: Kind,
    strategy: &dyn Strategy,
    fields: &[FieldRequirement],
) -> Result<(), ApiError> {
    let known = |path: &str| {
        path == "metadata.name"
            || (path == "metadata.namespace" && kind.namespaced())
            || strategy.selectable_fields().iter().any(|field| field == path)
    };
    match fields.iter().find(|field| !known(&field.path)) {
        Some(field) => Err(ApiError::BadRequest(format!("field label not supported: {}", field.path))),
        None => Ok(()),
    }
}

impl Selection {
    /// Returns true if the object is selected.
    pub fn matches(&self, object: &Object) -> bool {
        self.fields.iter().all(|f| (field(object, &f.path) == f.value) == f.equal)
            && self.labels.matches(object.meta().labels.as_ref())
    }
}

/// Returns the text of a selectable field; empty if it is absent.
fn field<'a>(object: &'a Object, path: &str) -> Cow<'a, str> {
    match path {
        "metadata.name" => object.name().into(),
        "metadata.namespace" => object.namespace().into(),
        path => kinds::built_in(object.kind()).field(object, path),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use object::selector::parse_fields;

    /// The conformance test "Events API" needs some of these fields.
    #[test]
    fn objects_are_found_by_the_fields_that_kubernetes_knows_api_2() {
        let pod = json!({"status": {"podIP": "127.1.0.1", "podIPs": [{"ip": "127.1.0.1"}]}});
        let event = |source: Value, reporter: &str| {
            json!({"involvedObject": {}, "source": source,
            "reportingComponent": reporter})
        };
        let named = json!({"metadata": {"name": "n"}});
        for (kind, object, selector, expected) in [
            (Kind::Pod, pod.clone(), "status.podIPs=127.1.0.1", true),
            (Kind::Pod, pod, "status.podIPs=127.1.0.2", false),
            (Kind::ReplicationController, json!({"status": {"replicas": 3}}), "status.replicas=3", true),
            (Kind::ReplicationController, json!({}), "status.replicas=3", false),
            (Kind::Namespace, named.clone(), "name=n", true),
            (Kind::PersistentVolume, named.clone(), "name=m", false),
            (Kind::PersistentVolumeClaim, named, "name=n", true),
            (Kind::Event, event(json!({"component": "a"}), "b"), "source=a", true),
            (Kind::Event, event(json!({"component": "a"}), "b"), "source=b", false),
            (Kind::Event, event(json!({}), "b"), "source=b", true),
            (Kind::Event, event(json!({"component": ""}), "b"), "source=b", true),
        ] {
            let fields = parse_fields(selector).unwrap();
            check_fields(kind, kinds::built_in(kind), &fields).unwrap();
            let selection = Selection { fields, ..Selection::default() };
            let object = Object::from_value(kind, object).unwrap();
            assert_eq!(selection.matches(&object), expected, "{kind} {selector}");
        }
        assert!(
            check_fields(Kind::Pod, kinds::built_in(Kind::Pod), &parse_fields("name=x").unwrap()).is_err()
        );
    }
}
