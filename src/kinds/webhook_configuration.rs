//! The configurations of admission webhooks, mutating and validating. `api::admission::webhook` calls the webhooks.

use std::collections::HashSet;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::client_config::{self, ServiceView};
use super::columns::Column;
use super::match_conditions::Conditions;
use super::resource::Resource;
use apimachinery::default::{set, set_text};
use apimachinery::validate::{FieldErrors, Path, names, selector};

const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
pub(super) const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
/// The range of a webhook's timeout, in seconds.
const TIMEOUTS: std::ops::RangeInclusive<i32> = 1..=30;
/// The maximum number of match conditions in all webhooks of a configuration: the client that writes it waits while
/// they are compiled.
const MAX_ALL_CONDITIONS: usize = 1024;
/// The fields that both kinds of webhooks share.
struct Webhook<'a> {
    name: &'a str,
    review_versions: &'a [String],
    side_effects: &'a str,
    failure_policy: Option<&'a str>,
    match_policy: Option<&'a str>,
    timeout_seconds: Option<i32>,
    namespace_selector: Option<&'a LabelSelector>,
    object_selector: Option<&'a LabelSelector>,
    client_config: &'a WebhookClientConfig,
    rules: &'a [RuleWithOperations],
    match_conditions: &'a [MatchCondition],
}

/// Returns the shared fields of a mutating or validating webhook.
macro_rules! view {
    ($of:expr) => {
        Webhook {
            name: &$of.name,
            review_versions: &$of.admission_review_versions,
            side_effects: &$of.side_effects,
            failure_policy: $of.failure_policy.as_deref(),
            match_policy: $of.match_policy.as_deref(),
            timeout_seconds: $of.timeout_seconds,
            namespace_selector: $of.namespace_selector.as_ref(),
            object_selector: $of.object_selector.as_ref(),
            client_config: &$of.client_config,
            rules: $of.rules.as_deref().unwrap_or_default(),
            match_conditions: $of.match_conditions.as_deref().unwrap_or_default(),
        }
    };
}

/// Fills in the defaults of a mutating or validating webhook.
macro_rules! apply_defaults {
    ($of:expr) => {
        set_text(&mut $of.failure_policy, "Fail");
        set_text(&mut $of.match_policy, "Equivalent");
        set(&mut $of.timeout_seconds, 10);
        set(&mut $of.namespace_selector, LabelSelector::default());
        set(&mut $of.object_selector, LabelSelector::default());
        if let Some(service) = &mut $of.client_config.service {
            set(&mut service.port, 443);
        }
        for rule in $of.rules.iter_mut().flatten() {
            set_text(&mut rule.scope, "*");
        }
    };
}

impl Resource for MutatingWebhookConfiguration {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::number("Webhooks", WEBHOOKS, |c, _| count(c.webhooks.as_ref())),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        for webhook in self.webhooks.iter_mut().flatten() {
            set_text(&mut webhook.reinvocation_policy, "Never");
            apply_defaults!(webhook);
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let list = Path::root("webhooks");
        for (path, webhook) in list.each(self.webhooks.iter().flatten()) {
            if let Some(policy) = &webhook.reinvocation_policy {
                errors.one_of(&path.child("reinvocationPolicy"), policy, REINVOCATION_POLICIES);
            }
        }
        validate(errors, self.webhooks.iter().flatten().map(|webhook| view!(webhook)));
    }
}

impl Resource for ValidatingWebhookConfiguration {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::number("Webhooks", WEBHOOKS, |c, _| count(c.webhooks.as_ref())),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        for webhook in self.webhooks.iter_mut().flatten() {
            apply_defaults!(webhook);
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validate(errors, self.webhooks.iter().flatten().map(|webhook| view!(webhook)));
    }
}

const WEBHOOKS: &str = "Webhooks indicates the number of webhooks registered in this configuration";

fn count<T>(webhooks: Option<&Vec<T>>) -> Value {
    json!(webhooks.map_or(0, Vec::len))
}

fn validate<'a>(errors: &mut FieldErrors, webhooks: impl Iterator<Item = Webhook<'a>>) {
    let list = Path::root("webhooks");
    let mut seen = HashSet::new();
    let mut conditions = 0;
    for (path, webhook) in list.each(webhooks) {
        conditions += webhook.match_conditions.len();
        if conditions > MAX_ALL_CONDITIONS {
            errors.too_many(&list, conditions, MAX_ALL_CONDITIONS);
            return;
        }
        one(errors, &path, &webhook);
        if !webhook.name.is_empty() && !seen.insert(webhook.name) {
            errors.duplicate(&path.child("name"), webhook.name);
        }
    }
}

fn one(errors: &mut FieldErrors, path: &Path<'_>, webhook: &Webhook<'_>) {
    let at = path.child("name");
    if webhook.name.is_empty() {
        errors.required(&at, "");
    } else {
        let wrong = names::dns_1123_subdomain(webhook.name);
        if wrong.is_empty() && webhook.name.split('.').count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            errors.invalid(&at, webhook.name, detail);
        }
        errors.invalid_each(&at, webhook.name, wrong);
    }
    let at = path.child("admissionReviewVersions");
    let missing = "must specify one of v1, v1beta1";
    client_config::review_versions(errors, &at, webhook.review_versions, missing, true);
    match webhook.side_effects {
        "" => errors.required(&path.child("sideEffects"), "must specify one of None, NoneOnDryRun"),
        given => errors.one_of(&path.child("sideEffects"), given, SIDE_EFFECTS),
    }
    for (field, value, supported) in [
        ("failurePolicy", webhook.failure_policy, FAILURE_POLICIES),
        ("matchPolicy", webhook.match_policy, MATCH_POLICIES),
    ] {
        if let Some(value) = value {
            errors.one_of(&path.child(field), value, supported);
        }
    }
    if let Some(seconds) = webhook.timeout_seconds
        && !TIMEOUTS.contains(&seconds)
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&path.child("timeoutSeconds"), &seconds, detail);
    }
    for (field, own) in
        [("namespaceSelector", webhook.namespace_selector), ("objectSelector", webhook.object_selector)]
    {
        if let Some(own) = own {
            selector::label_selector(errors, &path.child(field), own);
        }
    }
    let service = webhook.client_config.service.as_ref().map(|service| ServiceView {
        namespace: &service.namespace,
        name: &service.name,
        path: service.path.as_deref(),
        port: service.port,
    });
    let url = webhook.client_config.url.as_deref();
    client_config::validate(errors, &path.child("clientConfig"), url, service);
    for (i, own) in webhook.rules.iter().enumerate() {
        RuleView {
            operations: own.operations.as_deref(),
            groups: own.api_groups.as_deref(),
            versions: own.api_versions.as_deref(),
            resources: own.resources.as_deref(),
            scope: own.scope.as_deref(),
        }
        .validate(errors, &path.child("rules").index(i));
    }
    Conditions::read(errors, &path.child("matchConditions"), webhook.match_conditions, false);
}

/// A rule of a webhook or a policy.
pub(super) struct RuleView<'a> {
    pub(super) operations: Option<&'a [String]>,
    pub(super) groups: Option<&'a [String]>,
    pub(super) versions: Option<&'a [String]>,
    pub(super) resources: Option<&'a [String]>,
    pub(super) scope: Option<&'a str>,
}

impl RuleView<'_> {
    pub(super) fn validate(&self, errors: &mut FieldErrors, path: &Path<'_>) {
        for (field, list, others) in [
            ("operations", self.operations, "operations"),
            ("apiGroups", self.groups, "API groups"),
            ("apiVersions", self.versions, "API versions"),
        ] {
            let list = list.unwrap_or_default();
            let at = path.child(field);
            if list.is_empty() {
                errors.required(&at, "");
            }
            if list.len() > 1 && list.iter().any(|one| one == "*") {
                let detail = format!("if '*' is present, must not specify other {others}");
                errors.invalid(&at, &list.to_vec(), detail);
            }
        }
        for (i, operation) in self.operations.iter().copied().flatten().enumerate() {
            errors.one_of(&path.child("operations").index(i), operation, OPERATIONS);
        }
        for (i, version) in self.versions.iter().copied().flatten().enumerate() {
            if version.is_empty() {
                errors.required(&path.child("apiVersions").index(i), "");
            }
        }
        resources(errors, &path.child("resources"), self.resources.unwrap_or_default());
        if let Some(scope) = self.scope {
            errors.one_of(&path.child("scope"), scope, SCOPES);
        }
    }
}

/// Validates resources and subresources; a wildcard must not stand beside the resources that it includes.
fn resources(errors: &mut FieldErrors, list: &Path<'_>, resources: &[String]) {
    if resources.is_empty() {
        errors.required(list, "");
    }
    let (mut all_of_resource, mut all_of_name) = (HashSet::new(), HashSet::new());
    // As in Kubernetes, the last resource without a subresource decides, and earlier ones do not count.
    let mut has_plain = false;
    for (path, given) in list.each(resources.iter()) {
        let Some((resource, name)) = given.split_once('/') else {
            if given.is_empty() {
                errors.required(&path, "");
            } else {
                has_plain = given != "*";
            }
            continue;
        };
        if all_of_resource.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {given}");
            errors.invalid(&path, given, detail);
        }
        if all_of_name.contains(name) {
            let detail = format!("if '*/{name}' is present, must not specify {given}");
            errors.invalid(&path, given, detail);
        }
        if name == "*" {
            all_of_resource.insert(resource);
        }
        if resource == "*" {
            all_of_name.insert(name);
        }
    }
    let has = |wildcard: &str| resources.iter().any(|given| given == wildcard);
    if resources.len() > 1 && has("*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.invalid(list, &resources.to_vec(), detail);
    }
    if has("*") && has_plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(list, &resources.to_vec(), detail);
    }
}
