//! Issuing tokens: `serviceaccounts/token`, and the tokens that kubelets fetch for their pods.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{
    BoundObjectReference, TokenRequest, TokenRequestSpec, TokenRequestStatus,
};
use k8s_openapi::api::core::v1::{Node, Pod, Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::jwt::{AccountClaims, BoundObjectRef, Claims};
use crate::{Api, ApiError};
use apimachinery::validate::{FieldErrors, Path};
use base::clock::time;
use object::{Key, Kind, SharedObject, TypedKind};

/// The lifetime of a token whose request names none.
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
/// Pods request this odd number: their tokens remain valid for longer, for programs that never read them
/// again.
const EXTENDED_REQUEST_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

/// Returns the errors in the spec of a token request.
fn check_spec(spec: &TokenRequestSpec) -> FieldErrors {
    let path = Path::root("spec.expirationSeconds");
    let seconds = spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
    let mut errors = FieldErrors::default();
    if seconds < MIN_SECONDS {
        errors.invalid(&path, &seconds, "may not specify a duration less than 10 minutes");
    } else if seconds > MAX_SECONDS {
        errors.invalid(&path, &seconds, "may not specify a duration larger than 2^32 seconds");
    }
    errors
}

/// Returns the errors in the metadata of a token request, which may leave out the account's name and namespace.
fn check_metadata(meta: &ObjectMeta, account: &Key) -> FieldErrors {
    let path = Path::root("metadata");
    let fields = [("name", &meta.name, &account.name), ("namespace", &meta.namespace, &account.namespace)];
    let mut errors = FieldErrors::default();
    for (field, given, expected) in fields {
        let given = given.as_deref().unwrap_or_default();
        if !given.is_empty() && given != expected {
            let detail = format!("must match the service account {field} if specified");
            errors.invalid(&path.child(field), given, detail);
        }
    }
    errors
}

impl Api {
    /// Issues a token for a service account; returns the request with its status.
    pub fn issue_token(&self, account: &Key, request: TokenRequest) -> Result<TokenRequest, ApiError> {
        let of: SharedObject<ServiceAccount> = self.get_as(account)?;
        let (kind, group) = ("TokenRequest", "authentication.k8s.io");
        check_metadata(&request.metadata, account).refuse_request(kind, group, &account.name)?;
        let mut spec = request.spec.unwrap_or_default();
        check_spec(&spec).refuse_request(kind, group, "")?;
        let issuer = self.issuer();
        let mut audiences = spec.audiences.take().unwrap_or_default();
        if audiences.is_empty() {
            audiences = vec![issuer.clone()];
        }
        let seconds = spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
        let now = self.server_clock().now().as_second();
        let bound = self.bind_token(account, spec.bound_object_ref.as_mut())?;
        let extended = seconds == EXTENDED_REQUEST_SECONDS
            && bound.pod.is_some()
            && audiences.iter().all(|a| *a == issuer);
        let bound = AccountClaims {
            namespace: account.namespace.clone(),
            account: BoundObjectRef { name: of.name().into(), uid: of.uid().into() },
            warn_after: extended.then(|| now.saturating_add(seconds)),
            ..bound
        };
        let expires_at = now.saturating_add(if extended { EXTENDED_SECONDS } else { seconds });
        let claims = Claims::new(&issuer, audiences.clone(), now, expires_at, bound);
        let token = self.inner.signer.sign(&claims).map_err(ApiError::Internal)?;
        let expires = Timestamp::from_second(now)
            .and_then(|at| at.checked_add(SignedDuration::from_secs(seconds)))
            .unwrap_or(Timestamp::MAX);
        (spec.audiences, spec.expiration_seconds) = (Some(audiences), Some(seconds));
        Ok(TokenRequest {
            metadata: ObjectMeta {
                name: Some(account.name.clone()),
                namespace: Some(account.namespace.clone()),
                creation_timestamp: Some(self.server_clock().time()),
                ..request.metadata
            },
            spec: Some(spec),
            status: Some(TokenRequestStatus {
                expiration_timestamp: Some(time(expires)),
                token: Some(token),
            }),
        })
    }

    /// Returns the claims that bind a token to an object; empty if it is bound to its account only.
    fn bind_token(
        &self,
        account: &Key,
        reference: Option<&mut BoundObjectReference>,
    ) -> Result<AccountClaims, ApiError> {
        let mut claims = AccountClaims::default();
        let Some(reference) = reference else { return Ok(claims) };
        let name = reference.name.clone().unwrap_or_default();
        let version = reference.api_version.clone().unwrap_or_default();
        match (reference.kind.as_deref().unwrap_or_default(), version.as_str()) {
            ("Pod", "v1") => {
                let pod: SharedObject<Pod> = self.named(&account.namespace, &name, reference)?;
                let spec = pod.spec.as_ref();
                let its = spec.and_then(|s| s.service_account_name.as_deref()).unwrap_or_default();
                if its != account.name {
                    return Err(ApiError::BadRequest(format!(
                        "cannot bind token for serviceaccount \"{}\" to pod running with different \
                         serviceaccount name.",
                        account.name
                    )));
                }
                let node = spec.and_then(|s| s.node_name.as_deref()).filter(|n| !n.is_empty());
                let node = node.and_then(|n| self.get_as::<Node>(&Key::new("", n)).ok());
                claims.node = node.map(|n| BoundObjectRef { name: n.name().into(), uid: n.uid().into() });
                claims.pod = Some(BoundObjectRef { name, uid: pod.uid().into() });
            }
            ("Secret", "v1") => {
                let secret: SharedObject<Secret> = self.named(&account.namespace, &name, reference)?;
                claims.secret = Some(BoundObjectRef { name, uid: secret.uid().into() });
            }
            ("Node", "v1") => {
                let node: SharedObject<Node> = self.named("", &name, reference)?;
                claims.node = Some(BoundObjectRef { name, uid: node.uid().into() });
            }
            (kind, version) => {
                return Err(ApiError::BadRequest(format!(
                    "cannot bind token to object of type {version}, Kind={kind}"
                )));
            }
        }
        Ok(claims)
    }

    fn named<T: TypedKind>(
        &self,
        namespace: &str,
        name: &str,
        reference: &mut BoundObjectReference,
    ) -> Result<SharedObject<T>, ApiError> {
        let object: SharedObject<T> = self.get_as(&Key::new(namespace, name))?;
        let uid = reference.uid.get_or_insert_default();
        if uid.is_empty() {
            *uid = object.uid().into();
        } else if uid != object.uid() {
            return Err(ApiError::conflict(
                T::kind(),
                name,
                format!(
                    "the UID in the bound object reference ({uid}) does not match the UID in record. The object \
                     might have been deleted and then recreated"
                ),
            ));
        }
        Ok(object)
    }

    /// Issues a token for a pod on behalf of its kubelet: the token is of the pod's service account and bound to the
    /// pod. Returns the token and its expiry.
    pub fn token_for_pod(
        &self,
        pod: &SharedObject<Pod>,
        audience: Option<&str>,
        seconds: Option<i64>,
    ) -> Result<(String, Timestamp), ApiError> {
        let spec = pod.spec.as_ref();
        let account = spec.and_then(|s| s.service_account_name.as_deref()).unwrap_or("default");
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: audience.filter(|a| !a.is_empty()).map(|a| vec![a.to_string()]),
                expiration_seconds: seconds,
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".into()),
                    kind: Some(Kind::Pod.info().name.into()),
                    name: Some(pod.name().into()),
                    uid: Some(pod.uid().into()),
                }),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let issued = self.issue_token(&Key::new(pod.namespace(), account), request)?;
        let status = issued.status.unwrap_or_default();
        let expires = status.expiration_timestamp.map_or(Timestamp::MAX, |at| at.0);
        Ok((status.token.unwrap_or_default(), expires))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::DeleteOptions;
    use crate::identity::TokenError;
    use crate::test_api;

    fn api() -> Api {
        let api = test_api::api(&["ns"]);
        for name in ["default", "robot"] {
            let account = json!({"metadata": {"name": name, "namespace": "ns"}});
            api.create_as::<ServiceAccount>(serde_json::from_value(account).unwrap()).unwrap();
        }
        api
    }

    fn pod(api: &Api, name: &str) -> SharedObject<Pod> {
        let pod = json!({"metadata": {"name": name, "namespace": "ns"},
            "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "busybox"}]}});
        api.create_as(serde_json::from_value(pod).unwrap()).unwrap()
    }

    fn request(spec: serde_json::Value) -> TokenRequest {
        TokenRequest { spec: Some(serde_json::from_value(spec).unwrap()), ..TokenRequest::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_works_until_it_expires_or_its_pod_goes_sa_1() {
        let api = api();
        let pod = pod(&api, "p");
        let (token, expires) = api.token_for_pod(&pod, None, Some(600)).unwrap();
        assert_eq!(expires.to_string(), "2026-11-21T00:10:00Z");
        let (user, audiences) = api.authenticate(&token, &[]).unwrap();
        assert_eq!(user.name, "system:serviceaccount:ns:robot");
        assert!(user.groups.contains(&"system:serviceaccounts:ns".to_string()));
        assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
        assert_eq!(audiences, [api.issuer()]);
        tokio::time::sleep(Duration::from_secs(599)).await;
        assert!(api.authenticate(&token, &[]).is_ok());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(api.authenticate(&token, &[]), Err(TokenError::Expired));

        let (token, expires) = api.token_for_pod(&pod, None, Some(3607)).unwrap();
        assert_eq!(expires.to_string(), "2026-11-21T01:10:07Z");
        tokio::time::sleep(Duration::from_hours(2)).await;
        assert!(api.authenticate(&token, &[]).is_ok(), "for programs that never read it again");
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        api.delete(Kind::Pod, &pod.key(), &now).unwrap();
        assert_eq!(api.authenticate(&token, &[]), Err(TokenError::Invalidated));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_dies_with_its_account_also_when_one_of_the_same_name_follows_sa_1() {
        let api = api();
        let key = Key::new("ns", "robot");
        let token = api.issue_token(&key, TokenRequest::default()).unwrap().status.unwrap().token.unwrap();
        assert!(api.authenticate(&token, &[]).is_ok());
        api.delete(Kind::ServiceAccount, &key, &DeleteOptions::default()).unwrap();
        let account = json!({"metadata": {"name": "robot", "namespace": "ns"}});
        api.create_as::<ServiceAccount>(serde_json::from_value(account).unwrap()).unwrap();
        assert_eq!(api.authenticate(&token, &[]), Err(TokenError::Invalidated));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_request_that_names_another_account_is_refused_sa_1() {
        let api = api();
        let key = Key::new("ns", "robot");
        let issue = |metadata: Value| {
            let request = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            api.issue_token(&key, request).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(issue(json!({"name": "robot", "namespace": "ns"})), Ok(()));
        assert_eq!(issue(json!({"name": "", "namespace": ""})), Ok(()));
        let refused = "TokenRequest.authentication.k8s.io \"robot\" is invalid: [metadata.name: Invalid value: \
             \"default\": must match the service account name if specified, metadata.namespace: Invalid value: \"other\": \
             must match the service account namespace if specified]";
        assert_eq!(issue(json!({"name": "default", "namespace": "other"})), Err(refused.into()));
    }

    #[tokio::test(start_paused = true)]
    async fn token_requests_are_checked_and_audiences_stay_separate_sa_1() {
        let api = api();
        let key = Key::new("ns", "robot");
        let vault = api.issue_token(&key, request(json!({"audiences": ["vault"]}))).unwrap();
        let token = vault.status.unwrap().token.unwrap();
        assert!(matches!(api.authenticate(&token, &[]), Err(TokenError::Audience { .. })));
        assert!(api.authenticate(&token, &["vault".into()]).is_ok());
        let pod = pod(&api, "p");
        let bound = |kind: &str, name: &str, uid: &str| json!({"audiences": [], "boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid}});
        for (account, spec, expected) in [
            (
                "robot",
                json!({"audiences": [], "expirationSeconds": 10}),
                "may not specify a duration less than 10 minutes",
            ),
            (
                "robot",
                json!({"audiences": [], "expirationSeconds": 5_000_000_000_i64}),
                "may not specify a duration larger than 2^32 seconds",
            ),
            ("missing", json!({"audiences": []}), "serviceaccounts \"missing\" not found"),
            ("robot", bound("Pod", "gone", ""), "pods \"gone\" not found"),
            ("robot", bound("Pod", "p", "other"), "does not match the UID in record"),
            ("default", bound("Pod", "p", pod.uid()), "different serviceaccount name"),
            ("robot", bound("ConfigMap", "p", ""), "cannot bind token to object of type v1, Kind=ConfigMap"),
        ] {
            let error = api.issue_token(&Key::new("ns", account), request(spec)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
