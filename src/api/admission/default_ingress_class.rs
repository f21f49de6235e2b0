//! DefaultIngressClass: an Ingress without a class, in field or annotation, gets the default one, if there is
//! one.

use k8s_openapi::api::networking::v1::Ingress;

use super::Request;
use crate::ApiError;
use object::Object;
use object::ingress::{CLASS_ANNOTATION, default_class};

#[expect(clippy::unnecessary_wraps, reason = "the shape of every admission plugin")]
pub(super) fn admit(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    if object.get::<Ingress>().is_none_or(names_class) {
        return Ok(());
    }
    let default = default_class(request.api.list_as(None));
    if let (Some(ingress), Some(class)) = (object.get_mut::<Ingress>(), default) {
        ingress.spec.get_or_insert_default().ingress_class_name = Some(class.name().into());
    }
    Ok(())
}

fn names_class(ingress: &Ingress) -> bool {
    let annotations = ingress.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(CLASS_ANNOTATION))
        || ingress.spec.as_ref().is_some_and(|spec| spec.ingress_class_name.is_some())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::networking::v1::IngressClass;
    use serde_json::{Value, json};

    use super::*;
    use crate::test_api::api;

    #[tokio::test(start_paused = true)]
    async fn an_ingress_without_a_class_gets_the_default_one_api_9_net_9() {
        let api = api(&["default"]);
        let class = |name: &str, is_default: &str| {
            let value = json!({"metadata": {"name": name, "annotations":
                {"ingressclass.kubernetes.io/is-default-class": is_default}},
                "spec": {"controller": "example.com/c"}});
            api.create_as::<IngressClass>(serde_json::from_value(value).unwrap()).unwrap();
        };
        let made = |name: &str, class: Value, annotations: Value| {
            let backend = json!({"service": {"name": "a", "port": {"number": 80}}});
            let value = json!({"metadata": {"name": name, "namespace": "default", "annotations": annotations},
                "spec": {"ingressClassName": class, "defaultBackend": backend}});
            let made = api.create_as::<Ingress>(serde_json::from_value(value).unwrap()).unwrap();
            made.spec.as_ref().unwrap().ingress_class_name.clone()
        };
        class("other", "false");
        assert_eq!(made("a", Value::Null, json!({})), None, "there is no default");
        for name in ["b", "a"] {
            class(name, "true");
        }
        assert_eq!(
            made("b", Value::Null, json!({})).as_deref(),
            Some("a"),
            "of two that are as old the first"
        );
        assert_eq!(made("c", json!("other"), json!({})).as_deref(), Some("other"));
        assert_eq!(made("d", Value::Null, json!({"kubernetes.io/ingress.class": "x"})), None);
    }
}
