//! DefaultTolerationSeconds: how long a pod stays on a node that is gone.

use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};

use super::Request;
use crate::ApiError;
use object::Object;
use object::well_known::taint;

#[expect(clippy::unnecessary_wraps, reason = "the shape of every admission plugin")]
pub(super) fn admit(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    let seconds = i64::try_from(request.api.timings().default_toleration.0.as_secs()).unwrap_or(i64::MAX);
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
