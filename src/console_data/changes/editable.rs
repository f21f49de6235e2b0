//! The editable part of an object. The editor does not show fields that the server owns; they are added again before
//! the object is sent.

use serde_json::Value;

/// Metadata that only the server writes.
const OWNED: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"];

/// Removes the fields that the server owns; status has an endpoint of its own, which the editor does not use.
pub fn strip(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in OWNED {
            metadata.remove(field);
        }
    }
    object
}

/// Adds the server's fields of the base version to the edited part. The resourceVersion makes the server refuse the
/// write if another client was faster, the uid if the object was replaced.
pub fn whole(typed: &Value, base: &Value) -> Value {
    let mut object = typed.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["resourceVersion", "uid", "creationTimestamp", "generation"] {
            if let Some(value) = base["metadata"].get(field) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
    }
    if let (Some(status), Some(fields)) = (base.get("status"), object.as_object_mut()) {
        fields.insert("status".to_owned(), status.clone());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// CON-11: the edited text has no fields of the server's, and none of them is lost.
    #[test]
    fn fields_of_the_server_are_hidden_from_the_text_and_not_lost() {
        let object = json!({ "kind": "Pod",
            "metadata": { "name": "web", "uid": "u1", "resourceVersion": "7", "managedFields": [{}] },
            "spec": { "x": 1 }, "status": { "phase": "Running" } });
        let mut typed = strip(&object);
        assert_eq!(typed, json!({ "kind": "Pod", "metadata": { "name": "web" }, "spec": { "x": 1 } }));
        typed["spec"]["x"] = json!(2);
        assert_eq!(
            whole(&typed, &object),
            json!({ "kind": "Pod", "metadata": { "name": "web", "uid": "u1", "resourceVersion": "7" },
                "spec": { "x": 2 }, "status": { "phase": "Running" } })
        );
    }
}
