//! Selects the Ingresses that this controller serves.

use std::collections::HashSet;

use k8s_openapi::api::networking::v1::{Ingress, IngressClass};

use object::SharedObject;
use object::ingress::{CLASS_ANNOTATION, OUR_CLASS, OUR_CONTROLLER, default_class};

/// The classes that this controller serves.
pub(super) struct Classes {
    served: HashSet<String>,
    /// It also serves Ingresses without a class.
    serves_default: bool,
}

impl Classes {
    pub(super) fn of(all: Vec<SharedObject<IngressClass>>) -> Self {
        let is_own = |class: &IngressClass| {
            class.spec.as_ref().and_then(|spec| spec.controller.as_deref()) == Some(OUR_CONTROLLER)
        };
        let served = all.iter().filter(|class| is_own(class)).map(|class| class.name().to_string()).collect();
        Self { served, serves_default: default_class(all).is_some_and(|class| is_own(&class)) }
    }

    /// Returns whether an Ingress is to be served: by the class it names, by the annotation that preceded the field, or
    /// by default.
    pub(super) fn include(&self, ingress: &Ingress) -> bool {
        let field = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref());
        let annotations = ingress.metadata.annotations.as_ref();
        match (annotations.and_then(|all| all.get(CLASS_ANNOTATION)).map(String::as_str), field) {
            // The annotation works without an IngressClass object.
            (Some(annotation), _) => annotation == OUR_CLASS || self.served.contains(annotation),
            (None, Some(field)) => self.served.contains(field),
            (None, None) => self.serves_default,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_ingress_is_ours_by_its_class_net_9() {
        let class = |name: &str, controller: &str, is_default: bool| {
            let value = json!({"metadata": {"name": name, "annotations":
                {"ingressclass.kubernetes.io/is-default-class": is_default.to_string()}},
                "spec": {"controller": controller}});
            SharedObject::from_value(serde_json::from_value::<IngressClass>(value).unwrap())
        };
        let own_classes = |is_default: bool| {
            vec![class("podium", OUR_CONTROLLER, is_default), class("nginx", "k8s.io/ingress-nginx", false)]
        };
        let check =
            |classes: Vec<SharedObject<IngressClass>>, field: Value, annotation: Value, expected: bool| {
                let value =
                    json!({"metadata": {"annotations": annotation}, "spec": {"ingressClassName": field}});
                let ingress: Ingress = serde_json::from_value(value).unwrap();
                assert_eq!(Classes::of(classes).include(&ingress), expected, "{ingress:?}");
            };
        let by = |class: &str| json!({"kubernetes.io/ingress.class": class});
        check(own_classes(true), json!("podium"), json!({}), true);
        check(own_classes(true), json!("nginx"), json!({}), false);
        check(own_classes(true), json!("other"), json!({}), false);
        check(own_classes(true), json!(null), json!({}), true);
        check(own_classes(false), json!(null), json!({}), false);
        check(own_classes(false), json!(null), by("podium"), true);
        check(own_classes(true), json!(null), by("nginx"), false);
        check(Vec::new(), json!(null), by("podium"), true);
        check(Vec::new(), json!("podium"), json!({}), false);
    }
}
