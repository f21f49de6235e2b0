//! DefaultTolerationSeconds: limits the time that a pod stays on an unreachable or not ready node.

use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};

use super::Request;
use crate::ApiError;
use object::Object;
use object::well_known::taint;

#[expect(clippy::unnecessary_wraps, reason = "the shape of every admission plugin")]
pub(super) fn admit(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    let seconds =
        i64::try_from(request.api.timings().default_toleration_seconds.0.as_secs()).unwrap_or(i64::MAX);
    let Some(pod) = object.get_mut::<Pod>() else { return Ok(()) };
    if let Some(spec) = pod.spec.as_mut() {
        for key in [taint::NOT_READY, taint::UNREACHABLE] {
            tolerate(spec, key, seconds);
        }
    }
    Ok(())
}

fn tolerate(spec: &mut PodSpec, key: &str, seconds: i64) {
    let tolerations = spec.tolerations.get_or_insert_default();
    let covered = tolerations.iter().any(|t| {
        let key_fits = t.key.as_deref().is_none_or(|k| k.is_empty() || k == key);
        let effect_fits = t.effect.as_deref().is_none_or(|e| e.is_empty() || e == "NoExecute");
        key_fits && effect_fits
    });
    if !covered {
        tolerations.push(Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some("NoExecute".into()),
            toleration_seconds: Some(seconds),
            value: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_api::{api_with, without_admission};
    use crate::{Part, WriteOptions};
    use object::{Key, Kind};

    /// The pod as `kubectl replace` sends it: fields set by admission are in no manifest.
    #[tokio::test]
    async fn a_pod_that_is_replaced_by_its_manifest_is_admitted_again_api_9() {
        let api = api_with(without_admission(&["ServiceAccount"]), &["default"]);
        let value = json!({"metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
        let made =
            api.create(Object::from_value(Kind::Pod, value).unwrap(), &WriteOptions::default()).unwrap();
        let given = |pod: &Object| {
            let spec = pod.get::<Pod>().and_then(|pod| pod.spec.clone()).expect("a pod has a spec");
            (spec.tolerations, spec.priority, spec.preemption_policy)
        };
        let before = given(&made);
        assert_eq!((before.0.as_ref().map(Vec::len), before.1), (Some(2), Some(0)));

        let key = Key::new("default", "p");
        let replaced = api.change(Kind::Pod, &key, Part::Main, &WriteOptions::default(), |current| {
            let mut pod = current.clone();
            let spec = pod.get_mut::<Pod>().and_then(|pod| pod.spec.as_mut()).expect("a pod has a spec");
            (spec.tolerations, spec.priority, spec.preemption_policy) = (None, None, None);
            spec.containers[0].image = Some("i:2".into());
            Ok(pod)
        });
        assert_eq!(given(&replaced.unwrap()), before);
    }
}
