//! RuntimeClass: a pod names one that there is, or none. None can be made here (node.k8s.io is not served), so a pod
//! that names one is refused rather than run by something else.

use k8s_openapi::api::core::v1::Pod;

use super::Request;
use crate::ApiError;
use base::quote::quote;
use object::{Kind, Object};

pub(super) fn admit(_request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    let Some(spec) = object.get::<Pod>().and_then(|pod| pod.spec.as_ref()) else { return Ok(()) };
    let refuse =
        |why: String| Err(ApiError::forbidden(Kind::Pod, object.name(), format!("pod rejected: {why}")));
    if let Some(class) = spec.runtime_class_name.as_ref().filter(|class| !class.is_empty()) {
        return refuse(format!("RuntimeClass {} not found", quote(class)));
    }
    if spec.overhead.as_ref().is_some_and(|overhead| !overhead.is_empty()) {
        return refuse("Pod Overhead set without corresponding RuntimeClass defined Overhead".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{Api, ApiConfig};
    use base::clock::Clock;
    use store::Store;

    /// API-FOUND 13, API-17: a pod that asked for gVisor ran without it.
    #[tokio::test(start_paused = true)]
    async fn a_pod_of_a_runtime_class_that_is_not_there_is_refused_api_17() {
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
        let namespace = json!({"metadata": {"name": "default"}});
        api.create_as::<k8s_openapi::api::core::v1::Namespace>(serde_json::from_value(namespace).unwrap())
            .unwrap();
        let made = |extra: Value| {
            let mut pod = json!({"metadata": {"name": "p", "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "x"}]}});
            pod["spec"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
            api.create_as(pod).map(drop).map_err(|error| (error.code(), error.to_string()))
        };
        let refused = |why: &str| Err((403, format!("pods \"p\" is forbidden: pod rejected: {why}")));
        assert_eq!(made(json!({"runtimeClassName": "gvisor"})), refused("RuntimeClass \"gvisor\" not found"));
        assert_eq!(
            made(json!({"overhead": {"cpu": "1"}})),
            refused("Pod Overhead set without corresponding RuntimeClass defined Overhead")
        );
        assert_eq!(made(json!({"runtimeClassName": ""})), Ok(()));
    }
}
