//! The hash of a template: `pod-template-hash`.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::hash::{fnv_1a, spelled};
use object::ObjectPart as _;
use object::well_known::label::POD_TEMPLATE_HASH;

/// Returns the hash of a template in Kubernetes' format: FNV-1a (32 bits) in decimal, each digit spelled as a letter.
///
/// `collisions` changes the hash of a template if another template has the same hash.
pub(super) fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    // Maps are sorted and absent fields omitted, so that equal templates are equal bytes.
    let encoding = template.encode();
    let collisions = collisions.map(|count| i64::from(count).to_le_bytes());
    spelled(fnv_1a(&[&encoding, collisions.as_ref().map_or(&[], |bytes| bytes.as_slice())]))
}

/// Returns true if two templates are equal except for their hash label.
pub(super) fn same_template(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    without_hash(a) == without_hash(b)
}

/// Returns a template without the label of its ReplicaSet, as the Deployment has it.
pub(super) fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(meta) = &mut template.metadata {
        if let Some(labels) = &mut meta.labels {
            labels.remove(POD_TEMPLATE_HASH);
        }
        meta.labels = meta.labels.take().filter(|l| !l.is_empty());
        meta.annotations = meta.annotations.take().filter(|a| !a.is_empty());
    }
    template.metadata = template.metadata.filter(|m| *m != ObjectMeta::default());
    template
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
mod tests {
    use serde_json::json;

    use super::*;
    use object::names::ALPHABET;

    fn template(image: &str, labels: serde_json::Value) -> PodTemplateSpec {
        serde_json::from_value(json!({"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": image}]}}))
        .unwrap()
    }

    #[test]
    fn a_hash_looks_like_kubernetes_and_follows_the_template_dep_1() {
        let one = template_hash(&template("nginx:1.7.9", json!({"a": "b"})), None);
        assert!((1..=10).contains(&one.len()) && one.bytes().all(|b| ALPHABET.contains(&b)), "{one}");
        assert_eq!(one, template_hash(&template("nginx:1.7.9", json!({"a": "b"})), None));
        assert_ne!(one, template_hash(&template("nginx:1.9.1", json!({"a": "b"})), None));
        assert_ne!(one, template_hash(&template("nginx:1.7.9", json!({"a": "b"})), Some(1)));
    }

    #[test]
    fn the_hash_label_makes_no_other_template_dep_1() {
        let plain = template("nginx", json!({}));
        assert!(same_template(&plain, &template("nginx", json!({(POD_TEMPLATE_HASH): "x"}))));
        assert!(!same_template(&plain, &template("nginx", json!({"a": "b"}))));
    }
}
