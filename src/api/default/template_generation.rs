//! The number of a DaemonSet's template: Kubernetes' first API counted its changes in a field, which today's
//! keeps in an annotation and the pods in a label.

use k8s_openapi::api::apps::v1::DaemonSet;

use crate::object::Object;

/// The annotation on DaemonSets.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Numbers a DaemonSet's template: 1 (or what the client says) for a new one, one more with each change. A
/// client cannot change the number of an old one. Runs when the defaults are in place.
pub fn number_template(new: &mut Object, old: Option<&Object>) {
    let Some(set) = new.get_mut::<DaemonSet>() else { return };
    let number = match old.and_then(|old| old.get::<DaemonSet>()) {
        None => number_of(set),
        Some(old) if old.spec.template == set.spec.template => number_of(old),
        Some(old) => number_of(old).saturating_add(1),
    };
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(TEMPLATE_GENERATION.to_string(), number.to_string());
}

fn number_of(set: &DaemonSet) -> i64 {
    let annotation = set.metadata.annotations.as_ref().and_then(|a| a.get(TEMPLATE_GENERATION));
    annotation.and_then(|number| number.parse().ok()).unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::Kind;

    fn set(image: &str, number: Option<&str>) -> Object {
        let annotations = number.map(|n| json!({TEMPLATE_GENERATION: n}));
        let value: Value = json!({"metadata": {"name": "d", "annotations": annotations},
            "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        Object::from_value(Kind::DaemonSet, value).unwrap()
    }

    #[test]
    fn each_change_of_the_template_is_counted_and_only_that_ds_1() {
        for (rule, new, old, expected) in [
            ("a new one", set("a", None), None, "1"),
            ("a copy of another", set("a", Some("7")), None, "7"),
            ("nonsense", set("a", Some("many")), None, "1"),
            ("less than nothing", set("a", Some("-3")), None, "1"),
            ("the same template", set("a", None), Some(set("a", Some("3"))), "3"),
            ("a number of the client's", set("a", Some("9")), Some(set("a", Some("3"))), "3"),
            ("another template", set("b", Some("3")), Some(set("a", Some("3"))), "4"),
            ("one that was not counted yet", set("b", None), Some(set("a", None)), "2"),
        ] {
            let mut new = new;
            number_template(&mut new, old.as_ref());
            assert_eq!(new.meta().annotations.as_ref().unwrap()[TEMPLATE_GENERATION], expected, "{rule}");
        }
    }
}
