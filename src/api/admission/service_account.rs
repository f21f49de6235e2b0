//! ServiceAccount: sets every pod's service account, `default` if the pod names none. Mounts a token at the usual path
//! unless the pod opts out (SA-1).

use k8s_openapi::api::core::v1::{
    ConfigMapProjection, Container, DownwardAPIProjection, DownwardAPIVolumeFile, KeyToPath,
    ObjectFieldSelector, Pod, PodSpec, ProjectedVolumeSource, ServiceAccount, ServiceAccountTokenProjection,
    Volume, VolumeMount, VolumeProjection,
};

use super::Request;
use crate::ApiError;
use crate::generated_name::generated_name;
use base::quote::quote;
use object::pod::references;
use object::well_known::annotation;
use object::{Key, Kind, Object};

/// The path where programs look for their token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
/// Kubernetes' value; `identity::issue` explains its oddness.
const EXPIRATION_SECONDS: i64 = 3607;
const MODE: i32 = 0o644;

pub(super) fn admit(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    let api = request.api;
    let (namespace, pod_name) = (object.namespace().to_string(), object.name().to_string());
    let Some(pod) = object.get_mut::<Pod>() else { return Ok(()) };
    // A static pod does not come from the API and has no service account.
    if pod.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(annotation::MIRROR_POD)) {
        return Ok(());
    }
    let Some(spec) = pod.spec.as_mut() else { return Ok(()) };
    let given = [spec.service_account_name.take(), spec.service_account.take()];
    let name = given.into_iter().flatten().find(|name| !name.is_empty()).unwrap_or_else(|| "default".into());
    spec.service_account = Some(name.clone());
    spec.service_account_name = Some(name.clone());
    let account = api.get_as::<ServiceAccount>(&Key::new(namespace.as_str(), name.as_str())).ok();
    // A namespace's default account is created just after the namespace; pods need not wait for it here.
    if account.is_none() && name != "default" {
        let message = format!(
            "error looking up service account {namespace}/{name}: serviceaccount {} not found",
            quote(&name)
        );
        return Err(ApiError::forbidden(Kind::Pod, &pod_name, message));
    }
    if let Some(secrets) = account.as_ref().and_then(|a| a.image_pull_secrets.as_ref())
        && spec.image_pull_secrets.as_ref().is_none_or(Vec::is_empty)
    {
        spec.image_pull_secrets = Some(secrets.clone());
    }
    let of_account = account.as_ref().and_then(|a| a.automount_service_account_token);
    if spec.automount_service_account_token.or(of_account) != Some(false) {
        mount_token(spec);
    }
    Ok(())
}

/// Refuses a mirror pod with a service account or a secret: the static pod behind it runs regardless of the
/// API, so the mirror pod must not give its creator access to secrets that the creator could not read.
pub(super) fn validate(_request: &Request<'_>, object: &Object) -> Result<(), ApiError> {
    let Some(pod) = object.get::<Pod>() else { return Ok(()) };
    let is_mirror = pod.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(annotation::MIRROR_POD));
    let Some(spec) = pod.spec.as_ref().filter(|_| is_mirror) else { return Ok(()) };
    let names = |name: &Option<String>| name.as_ref().is_some_and(|name| !name.is_empty());
    let message = if names(&spec.service_account_name) || names(&spec.service_account) {
        "a mirror pod may not reference service accounts"
    } else if references::secrets(spec).next().is_some() {
        "a mirror pod may not reference secrets"
    } else if references::projected(spec).any(|source| source.service_account_token.is_some()) {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(());
    };
    Err(ApiError::forbidden(Kind::Pod, object.name(), message))
}

fn mount_token(spec: &mut PodSpec) {
    let known = spec.volumes.iter().flatten().find(|v| v.name.starts_with(VOLUME_PREFIX));
    let (volume, is_new) = match known {
        Some(volume) => (volume.name.clone(), false),
        None => (generated_name(VOLUME_PREFIX), true),
    };
    let has_mount = |c: &Container| c.volume_mounts.iter().flatten().any(|m| m.mount_path == MOUNT_PATH);
    let mut used = false;
    let containers = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
    for container in containers.filter(|c| !has_mount(c)) {
        used = true;
        container.volume_mounts.get_or_insert_default().push(VolumeMount {
            name: volume.clone(),
            mount_path: MOUNT_PATH.into(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
    }
    if used && is_new {
        spec.volumes.get_or_insert_default().push(token_volume(volume));
    }
}

fn token_volume(name: String) -> Volume {
    let token = ServiceAccountTokenProjection {
        expiration_seconds: Some(EXPIRATION_SECONDS),
        path: "token".into(),
        ..ServiceAccountTokenProjection::default()
    };
    let certificate_file = KeyToPath { key: "ca.crt".into(), path: "ca.crt".into(), ..KeyToPath::default() };
    let certificate = ConfigMapProjection {
        name: "kube-root-ca.crt".into(),
        items: Some(vec![certificate_file]),
        ..ConfigMapProjection::default()
    };
    let namespace = DownwardAPIVolumeFile {
        path: "namespace".into(),
        field_ref: Some(ObjectFieldSelector {
            api_version: Some("v1".into()),
            field_path: "metadata.namespace".into(),
        }),
        ..DownwardAPIVolumeFile::default()
    };
    let sources = vec![
        VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() },
        VolumeProjection { config_map: Some(certificate), ..VolumeProjection::default() },
        VolumeProjection {
            downward_api: Some(DownwardAPIProjection { items: Some(vec![namespace]) }),
            ..VolumeProjection::default()
        },
    ];
    Volume {
        name,
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(MODE),
            sources: Some(sources),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_api::api;

    fn created(accounts: &[Value], mut pod: Value) -> Result<Value, String> {
        let api = api(&["ns"]);
        for account in accounts {
            let mut account = account.clone();
            account["metadata"]["namespace"] = json!("ns");
            api.create_as::<ServiceAccount>(serde_json::from_value(account).unwrap()).unwrap();
        }
        pod["metadata"]["name"] = json!("p");
        pod["metadata"]["namespace"] = json!("ns");
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let pod = api.create_as(pod).map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(&pod.spec).unwrap())
    }

    fn mounts(spec: &Value, list: &str, index: usize) -> Vec<String> {
        let mounts = spec[list][index]["volumeMounts"].as_array().cloned().unwrap_or_default();
        let shown = |m: &Value| format!("{} {}", m["mountPath"].as_str().unwrap(), m["readOnly"]);
        mounts.iter().map(shown).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn every_container_finds_a_token_at_the_usual_place_sa_1() {
        let own = json!([{"name": "own", "mountPath": MOUNT_PATH}]);
        let spec = json!({"spec": {"volumes": [{"name": "own", "emptyDir": {}}],
            "initContainers": [{"name": "i", "image": "x"}],
            "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x", "volumeMounts": own}]}});
        let spec = created(&[], spec).unwrap();
        assert_eq!(spec["serviceAccountName"], "default");
        assert_eq!(mounts(&spec, "initContainers", 0), [format!("{MOUNT_PATH} true")]);
        assert_eq!(mounts(&spec, "containers", 0), [format!("{MOUNT_PATH} true")]);
        assert_eq!(spec["containers"][1]["volumeMounts"].as_array().unwrap().len(), 1, "its own stays");
        let volume = &spec["volumes"][1];
        assert!(volume["name"].as_str().unwrap().starts_with("kube-api-access-"));
        let token = json!({"expirationSeconds": 3607, "path": "token"});
        assert_eq!(volume["projected"]["sources"][0]["serviceAccountToken"], token);
        assert_eq!(volume["projected"]["defaultMode"], 420);
    }

    #[tokio::test(start_paused = true)]
    async fn the_old_name_of_the_account_counts_where_the_new_one_is_not_given_sa_1() {
        let robots = [json!({"metadata": {"name": "robot"}}), json!({"metadata": {"name": "other"}})];
        for (accounts, expected) in [
            (json!({"serviceAccount": "robot"}), "robot"),
            (json!({"serviceAccount": "robot", "serviceAccountName": "other"}), "other"),
        ] {
            let mut spec = json!({"containers": [{"name": "a", "image": "x"}]});
            spec.as_object_mut().unwrap().extend(accounts.as_object().unwrap().clone());
            let created = created(&robots, json!({"spec": spec})).unwrap();
            assert_eq!(
                (&created["serviceAccountName"], &created["serviceAccount"]),
                (&json!(expected), &json!(expected))
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_mirror_pod_has_no_identity_and_no_secrets_sa_1() {
        let mirror = |spec: Value| {
            let mut pod = json!({"metadata": {"annotations": {annotation::MIRROR_POD: "abc"}},
                "spec": {"nodeName": "node-1", "containers": [{"name": "a", "image": "x"}]}});
            pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            created(&[], pod).map(|spec| spec["serviceAccountName"].clone())
        };
        let volume = |source: Value| json!({"volumes": [{"name": "v", "projected": {"sources": [source]}}]});
        let accounts = "a mirror pod may not reference service accounts";
        let secrets = "a mirror pod may not reference secrets";
        for (spec, refused) in [
            (json!({}), None),
            (volume(json!({"configMap": {"name": "c"}})), None),
            (json!({"serviceAccountName": "default"}), Some(accounts)),
            (json!({"serviceAccount": "default"}), Some(accounts)),
            (json!({"imagePullSecrets": [{"name": "s"}]}), Some(secrets)),
            (json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}), Some(secrets)),
            (volume(json!({"secret": {"name": "s"}})), Some(secrets)),
        ] {
            let expected = match refused {
                Some(why) => Err(format!("pods \"p\" is forbidden: {why}")),
                None => Ok(Value::Null),
            };
            assert_eq!(mirror(spec.clone()), expected, "{spec}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_and_pods_may_decline_and_unknown_accounts_are_refused_sa_1() {
        let account = |mount: bool| {
            json!({"metadata": {"name": "robot"}, "automountServiceAccountToken": mount,
                "imagePullSecrets": [{"name": "registry"}]})
        };
        let pod = |extra: Value| {
            let mut spec =
                json!({"serviceAccountName": "robot", "containers": [{"name": "a", "image": "x"}]});
            spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"spec": spec})
        };
        for (of_account, of_pod, mounted) in [
            (true, json!({}), true),
            (false, json!({}), false),
            (true, json!({"automountServiceAccountToken": false}), false),
            (false, json!({"automountServiceAccountToken": true}), true),
        ] {
            let spec = created(&[account(of_account)], pod(of_pod.clone())).unwrap();
            assert_eq!(!mounts(&spec, "containers", 0).is_empty(), mounted, "{of_account} {of_pod}");
            assert_eq!(spec["volumes"].is_array(), mounted);
            assert_eq!(spec["imagePullSecrets"][0]["name"], "registry");
        }
        assert_eq!(
            created(&[], pod(json!({}))).unwrap_err(),
            "pods \"p\" is forbidden: error looking up service account ns/robot: serviceaccount \"robot\" not found"
        );
    }
}
