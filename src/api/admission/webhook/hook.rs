//! One compiled webhook of a configuration.

use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use serde_json::Value;

use super::review;
use crate::admission::activation::RequestActivation;
use crate::admission::attributes::{Attributes, Operation};
use crate::admission::matching::{Rules, Selectors};
use crate::webhook_client::{Callee, DEADLINE_EXCEEDED, ReviewVersion, ServiceTarget, Target};
use crate::{Api, ApiError};
use apimachinery::validate::{FieldErrors, Path};
use base::quote::quote;
use kinds::match_conditions::Conditions;
use object::{Kind, Object, ServedKind};

/// Kubernetes' default.
const TIMEOUT_SECONDS: i32 = 10;
/// The limit on requests that wait for the webhooks of one configuration: a quarter of all (`apiserver::webhook_queue`), so
/// that a configuration with webhooks that hang leaves permits for requests that call others.
const MAX_REQUESTS: usize = 16;
/// The limit on a review's response: longer than any valid patch.
const MAX_RESPONSE_BYTES: usize = 3 * 1024 * 1024;

/// A webhook.
pub(super) struct Webhook {
    pub(super) name: String,
    /// The name of its configuration.
    pub(super) configuration: String,
    /// The callee for permits: shared by all webhooks of its configuration.
    pub(super) callee: Callee,
    rules: Rules,
    selectors: Selectors,
    conditions: Conditions,
    /// Its failure policy is `Ignore`.
    pub(super) ignores_failure: bool,
    /// It requests reinvocation when the object changes after its call.
    pub(super) requests_reinvocation: bool,
    /// It has no side effects in dry runs.
    supports_dry_run: bool,
    timeout: Duration,
    pub(super) version: Option<ReviewVersion>,
    target: Result<Target, String>,
}

/// Compiles a webhook of either type.
macro_rules! webhook {
    ($configuration:expr, $hook:expr, $requests_reinvocation:expr) => {
        Webhook {
            name: $hook.name.clone(),
            configuration: $configuration.name().into(),
            callee: Callee::new(
                format!("{}/{}", $configuration.kind().info().plural, $configuration.name()),
                MAX_REQUESTS,
            ),
            rules: Rules::new($hook.rules.as_ref(), $hook.match_policy.as_deref()),
            selectors: Selectors::new($hook.namespace_selector.as_ref(), $hook.object_selector.as_ref()),
            // An invalid condition fails when it is evaluated.
            conditions: Conditions::read(
                &mut FieldErrors::default(),
                &Path::root("matchConditions"),
                $hook.match_conditions.as_deref().unwrap_or_default(),
                false,
            ),
            ignores_failure: $hook.failure_policy.as_deref() == Some("Ignore"),
            requests_reinvocation: $requests_reinvocation,
            supports_dry_run: matches!($hook.side_effects.as_str(), "None" | "NoneOnDryRun"),
            timeout: Duration::from_secs(
                $hook.timeout_seconds.unwrap_or(TIMEOUT_SECONDS).unsigned_abs().into(),
            ),
            version: ReviewVersion::first_of(&$hook.admission_review_versions),
            target: target(&$hook.client_config),
        }
    };
}

/// Returns the webhooks of a configuration of either type, in its order.
pub(super) fn of_configuration(object: &Object) -> Vec<Webhook> {
    if let Some(configuration) = object.get::<MutatingWebhookConfiguration>() {
        let hooks = configuration.webhooks.iter().flatten();
        let compiled =
            hooks.map(|hook| webhook!(object, hook, hook.reinvocation_policy.as_deref() == Some("IfNeeded")));
        return compiled.collect();
    }
    let configuration = object.get::<ValidatingWebhookConfiguration>();
    let hooks = configuration.and_then(|configuration| configuration.webhooks.as_ref());
    hooks.into_iter().flatten().map(|hook| webhook!(object, hook, false)).collect()
}

impl Webhook {
    /// Returns true if a request with one of these operations could match.
    pub(super) fn may_match(&self, operations: &[Operation], kind: Kind, subresource: &str) -> bool {
        self.rules.may_match(operations, kind, subresource)
    }

    /// Returns true if an object in a namespace could match.
    pub(super) fn may_select(&self, api: &Api, namespace: &str) -> bool {
        self.selectors.may_select(api, namespace)
    }

    /// Returns the version in which a request matches; `None` if it does not.
    pub(super) fn matches(
        &self,
        api: &Api,
        attributes: &Attributes<'_>,
    ) -> Result<Option<ServedKind>, ApiError> {
        let Some(matched) = self.rules.matches(api, attributes) else { return Ok(None) };
        if !self.selectors.matches(api, attributes)? {
            return Ok(None);
        }
        if self.conditions.is_empty() {
            return Ok(Some(matched));
        }
        match RequestActivation::of(api, attributes, matched)?
            .conditions_match(&self.conditions, &Value::Null)
        {
            Ok(holds) => Ok(holds.then_some(matched)),
            Err(_) if self.ignores_failure => Ok(None),
            Err(why) => Err(ApiError::forbidden(attributes.resource.kind(), attributes.name, why)),
        }
    }

    /// Refuses a dry run that would have side effects.
    pub(super) fn check_dry_run(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        if attributes.is_dry_run() && !self.supports_dry_run {
            let name = quote(&self.name);
            return Err(ApiError::BadRequest(format!("admission webhook {name} does not support dry run")));
        }
        Ok(())
    }

    /// Returns the call with this `AdmissionRequest`.
    pub(super) fn call(
        &self,
        api: &Api,
        request: Value,
        budget: Option<Duration>,
    ) -> Result<impl Future<Output = Result<Bytes, String>> + Send + 'static + use<>, String> {
        let failed = |reason: String| format!("failed to call webhook: {reason}");
        let version = self.version.ok_or_else(|| failed("no known admission review version".into()))?;
        let target = self.target.as_ref().map_err(|why| failed(why.clone()))?;
        let review = review::request(version, request);
        let timeout = budget.map_or(self.timeout, |patience| patience.min(self.timeout));
        let answered =
            target.call(api, review.to_string().into(), timeout, MAX_RESPONSE_BYTES).map_err(failed)?;
        let hangs = api.is_webhook_hung(&self.configuration);
        Ok(async move {
            if hangs {
                tokio::time::sleep(timeout).await;
                return Err(format!("failed to call webhook: {DEADLINE_EXCEEDED}"));
            }
            answered.await.map_err(|why| format!("failed to call webhook: {why}"))
        })
    }
}

fn target(config: &WebhookClientConfig) -> Result<Target, String> {
    let service = config.service.as_ref().map(|service| ServiceTarget {
        namespace: service.namespace.clone(),
        name: service.name.clone(),
        path: service.path.clone(),
        port: service.port,
    });
    let bundle = config.ca_bundle.as_ref().map_or(&[][..], |bundle| &bundle.0);
    Target::new(config.url.as_deref(), service, bundle)
}
