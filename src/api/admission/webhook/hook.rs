//! One compiled webhook of a configuration.

use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use super::review::{self, Version};
use crate::admission::activation::RequestActivation;
use crate::admission::attributes::{Attributes, Operation};
use crate::admission::matching::{Rules, Selectors};
use crate::webhook_client::{Callee, DEADLINE_EXCEEDED, ServiceTarget, Target};
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
    pub(super) version: Option<Version>,
    target: Result<Target, String>,
}

/// The common fields of both types.
struct WebhookAccessor<'a> {
    kind: &'static str,
    configuration: &'a str,
    name: &'a str,
    rules: Option<&'a Vec<RuleWithOperations>>,
    match_policy: Option<&'a str>,
    namespace_selector: Option<&'a LabelSelector>,
    object_selector: Option<&'a LabelSelector>,
    match_conditions: Option<&'a Vec<MatchCondition>>,
    failure_policy: Option<&'a str>,
    reinvocation_policy: Option<&'a str>,
    side_effects: &'a str,
    timeout_seconds: Option<i32>,
    versions: &'a [String],
    client_config: &'a WebhookClientConfig,
}

macro_rules! given {
    ($in:expr, $of:expr, $reinvocation:expr) => {
        Webhook::new(&WebhookAccessor {
            kind: $in.kind().info().plural,
            configuration: $in.name(),
            name: &$of.name,
            rules: $of.rules.as_ref(),
            match_policy: $of.match_policy.as_deref(),
            namespace_selector: $of.namespace_selector.as_ref(),
            object_selector: $of.object_selector.as_ref(),
            match_conditions: $of.match_conditions.as_ref(),
            failure_policy: $of.failure_policy.as_deref(),
            reinvocation_policy: $reinvocation,
            side_effects: &$of.side_effects,
            timeout_seconds: $of.timeout_seconds,
            versions: &$of.admission_review_versions,
            client_config: &$of.client_config,
        })
    };
}

/// Returns the webhooks of a configuration of either type, in its order.
pub(super) fn of_configuration(object: &Object) -> Vec<Webhook> {
    if let Some(configuration) = object.get::<MutatingWebhookConfiguration>() {
        let hooks = configuration.webhooks.iter().flatten();
        return hooks.map(|hook| given!(object, hook, hook.reinvocation_policy.as_deref())).collect();
    }
    let configuration = object.get::<ValidatingWebhookConfiguration>();
    let hooks = configuration.and_then(|configuration| configuration.webhooks.as_ref());
    hooks.into_iter().flatten().map(|hook| given!(object, hook, None)).collect()
}

impl Webhook {
    fn new(given: &WebhookAccessor<'_>) -> Self {
        let seconds = given.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
        Self {
            name: given.name.into(),
            configuration: given.configuration.into(),
            callee: Callee::new(format!("{}/{}", given.kind, given.configuration), MAX_REQUESTS),
            rules: Rules::new(given.rules, given.match_policy),
            selectors: Selectors::new(given.namespace_selector, given.object_selector),
            // An invalid condition fails when it is evaluated.
            conditions: Conditions::read(
                &mut FieldErrors::default(),
                &Path::root("matchConditions"),
                given.match_conditions.map_or(&[], Vec::as_slice),
                false,
            ),
            ignores_failure: given.failure_policy == Some("Ignore"),
            requests_reinvocation: given.reinvocation_policy == Some("IfNeeded"),
            supports_dry_run: matches!(given.side_effects, "None" | "NoneOnDryRun"),
            timeout: Duration::from_secs(seconds.unsigned_abs().into()),
            version: Version::first_of(given.versions),
            target: target(given.client_config),
        }
    }

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
