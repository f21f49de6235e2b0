//! The relation between IngressClasses and Ingresses.

use k8s_openapi::api::networking::v1::IngressClass;

use super::SharedObject;

/// The annotation with an Ingress's class, from before there was a field for it.
pub const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// The annotation that makes an IngressClass the class of Ingresses that name none.
pub const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";
/// The class that Podium's own controller serves.
pub const OUR_CLASS: &str = "podium";
/// The name of Podium's own controller in `spec.controller` of its class.
pub const OUR_CONTROLLER: &str = "podium.dev/ingress";

/// Returns the class for Ingresses that name none: of several defaults the newest, of these the first by name.
pub fn default_class(classes: Vec<SharedObject<IngressClass>>) -> Option<SharedObject<IngressClass>> {
    let is_default = |class: &SharedObject<IngressClass>| {
        let annotations = class.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(DEFAULT_CLASS)).is_some_and(|value| value == "true")
    };
    let age = |class: &IngressClass| class.metadata.creation_timestamp.clone();
    let first = |a: &SharedObject<IngressClass>, b: &SharedObject<IngressClass>| {
        age(b).cmp(&age(a)).then_with(|| a.name().cmp(b.name()))
    };
    classes.into_iter().filter(is_default).min_by(first)
}
