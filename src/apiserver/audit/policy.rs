//! The policy of an audit log: the level of detail for each request. Kubernetes' `Policy` of
//! `audit.k8s.io/v1`; the first rule that a request matches decides.

use serde::Deserialize;
use serde_json::Value;

use super::attributes::{AuditAttributes, RequestTarget};
use apimachinery::validate::names::dns_1123_subdomain;
use apimachinery::validate::{self, FieldErrors, Path};

/// The level of detail of a request's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Nothing.
    #[default]
    None,
    /// User, verb, target, time and result.
    Metadata,
    /// Also the request's body.
    Request,
    /// Also the response's body.
    RequestResponse,
}

impl Level {
    const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// Returns the name in events and policies.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// The stage of a request at which an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The request has arrived and is authenticated.
    RequestReceived,
    /// The response has started; only for long-running requests (watches, sessions).
    ResponseStarted,
    /// The response has ended.
    ResponseComplete,
    /// The request panicked and has no response.
    Panic,
}

impl Stage {
    const ALL: [Self; 4] =
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// Returns the name in events and policies.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// The policy's decision on a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) level: Level,
    /// Stages without events.
    omitted: Vec<Stage>,
    /// Bodies are recorded without `managedFields`.
    pub(super) omits_managed_fields: bool,
}

impl Decision {
    /// Returns true if an event is written at this stage.
    pub(super) fn logs_stage(&self, stage: Stage) -> bool {
        self.level != Level::None && !self.omitted.contains(&stage)
    }
}

/// The reason why a policy is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid audit policy: {0}")]
pub struct AuditPolicyError(String);

/// A parsed policy.
#[derive(Clone, Debug)]
pub struct AuditPolicy {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    decision: Decision,
    input: PolicyRuleInput,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PolicyInput {
    api_version: String,
    kind: String,
    /// Unused; declared because unknown fields are errors, and a policy may have metadata.
    #[serde(rename = "metadata")]
    _metadata: Option<Value>,
    rules: Vec<PolicyRuleInput>,
    omit_stages: Vec<String>,
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PolicyRuleInput {
    level: String,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

impl Default for AuditPolicy {
    /// Returns the default policy: metadata of every request, and one event, at the request's end.
    fn default() -> Self {
        let omitted = vec![Stage::RequestReceived];
        let decision = Decision { level: Level::Metadata, omitted, ..Decision::default() };
        Self { rules: vec![Rule { decision, input: PolicyRuleInput::default() }] }
    }
}

impl AuditPolicy {
    /// Parses a policy, YAML or JSON. Unknown fields are errors: a misspelled rule would record the wrong
    /// requests.
    pub fn read(text: &str) -> Result<Self, AuditPolicyError> {
        let value = manifest::from_yaml(text).map_err(|error| AuditPolicyError(error.to_string()))?;
        let given: PolicyInput =
            base::json::from_value(value).map_err(|error| AuditPolicyError(error.to_string()))?;
        if (given.api_version.as_str(), given.kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
            let message =
                format!("expected a Policy of audit.k8s.io/v1, got {} {}", given.api_version, given.kind);
            return Err(AuditPolicyError(message.trim_end().into()));
        }
        if given.rules.is_empty() {
            return Err(AuditPolicyError("loaded illegal policy with 0 rules".into()));
        }
        let mut errors = FieldErrors::default();
        check_stages(&mut errors, &Path::root("omitStages"), &given.omit_stages);
        for (i, rule) in given.rules.iter().enumerate() {
            check(&mut errors, &Path::root("rules").index(i), rule);
        }
        let errors = errors.into_vec();
        if !errors.is_empty() {
            return Err(AuditPolicyError(validate::join(&errors)));
        }
        let of_all = stages(&given.omit_stages);
        let rules = given.rules.into_iter().map(|rule| Rule {
            decision: Decision {
                level: level(&rule.level).unwrap_or_default(),
                omitted: stages(&rule.omit_stages).into_iter().chain(of_all.iter().copied()).collect(),
                omits_managed_fields: rule.omit_managed_fields.unwrap_or(given.omit_managed_fields),
            },
            input: rule,
        });
        Ok(Self { rules: rules.collect() })
    }

    /// Returns the decision for a request: no event if no rule matches.
    pub(super) fn decide(&self, attributes: &AuditAttributes) -> Decision {
        let rule = self.rules.iter().find(|rule| rule.input.matches(attributes));
        rule.map(|rule| rule.decision.clone()).unwrap_or_default()
    }
}

fn level(name: &str) -> Option<Level> {
    Level::ALL.into_iter().find(|level| level.name() == name)
}

fn stages(names: &[String]) -> Vec<Stage> {
    Stage::ALL.into_iter().filter(|stage| names.iter().any(|name| name == stage.name())).collect()
}

fn check_stages(errors: &mut FieldErrors, path: &Path<'_>, names: &[String]) {
    for (i, name) in names.iter().enumerate() {
        errors.one_of(&path.index(i), name, &Stage::ALL.map(Stage::name));
    }
}

/// Kubernetes' `validatePolicyRule`.
fn check(errors: &mut FieldErrors, path: &Path<'_>, rule: &PolicyRuleInput) {
    errors.required_one_of(
        &path.child("level"),
        Some(rule.level.as_str()).filter(|level| !level.is_empty()),
        &Level::ALL.map(Level::name),
    );
    check_stages(errors, &path.child("omitStages"), &rule.omit_stages);
    let urls = path.child("nonResourceURLs");
    let about_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if about_resources && !rule.non_resource_urls.is_empty() {
        let detail = "rules cannot apply to both regular resources and non-resource URLs";
        errors.invalid_itself(&urls, detail);
    }
    for (i, url) in rule.non_resource_urls.iter().enumerate() {
        if url == "*" {
            continue;
        }
        let path = urls.index(i);
        if !url.starts_with('/') {
            let detail = "non-resource URL rules must begin with a '/' character";
            errors.invalid(&path, url, detail);
        }
        if url.strip_suffix('*').unwrap_or(url).contains('*') {
            let detail = "non-resource URL wildcards '*' must be the final character of the rule";
            errors.invalid(&path, url, detail);
        }
    }
    let resources = path.child("resources");
    for (i, of_group) in rule.resources.iter().enumerate() {
        let path = resources.index(i);
        let wrong = dns_1123_subdomain(&of_group.group);
        if !of_group.group.is_empty() && !wrong.is_empty() {
            errors.invalid(&path.child("group"), &of_group.group, wrong.join(", "));
        }
        if !of_group.resource_names.is_empty() && of_group.resources.is_empty() {
            let detail = "using resourceNames requires at least one resource";
            errors.invalid_itself(&path.child("resourceNames"), detail);
        }
    }
}

impl PolicyRuleInput {
    fn matches(&self, attributes: &AuditAttributes) -> bool {
        let is_of =
            |listed: &[String], value: &str| listed.is_empty() || listed.iter().any(|one| one == value);
        let user = attributes.user.as_deref();
        let by_user = (self.users.is_empty() || user.is_some_and(|user| is_of(&self.users, &user.name)))
            && (self.user_groups.is_empty()
                || user.is_some_and(|user| user.groups.iter().any(|group| is_of(&self.user_groups, group))));
        if !by_user || !is_of(&self.verbs, &attributes.verb) {
            return false;
        }
        let about_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        match &attributes.on {
            RequestTarget::Path(path) => {
                let is_meant = |url: &String| match url.strip_suffix('*') {
                    Some(prefix) => path.starts_with(prefix),
                    None => path == url,
                };
                !about_resources
                    && (self.non_resource_urls.is_empty() || self.non_resource_urls.iter().any(is_meant))
            }
            RequestTarget::Resource(resource) => {
                self.non_resource_urls.is_empty()
                    && is_of(&self.namespaces, &resource.namespace)
                    && (self.resources.is_empty()
                        || self.resources.iter().any(|of_group| of_group.matches(resource)))
            }
        }
    }
}

impl GroupResources {
    fn matches(&self, resource: &super::attributes::Resource) -> bool {
        if self.group != resource.group {
            return false;
        }
        let is_meant = |pattern: &String| match (pattern.split_once('/'), resource.subresource.as_str()) {
            (None, "") => pattern == "*" || *pattern == resource.plural,
            (None, _) => pattern == "*",
            (Some(("*", sub)), subresource) => sub == subresource && !subresource.is_empty(),
            (Some((of, "*")), _) => of == resource.plural,
            (Some((of, sub)), subresource) => of == resource.plural && sub == subresource,
        };
        (self.resources.is_empty() || self.resources.iter().any(is_meant))
            && (self.resource_names.is_empty() || self.resource_names.contains(&resource.name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::audit::attributes::Resource;
    use api::identity::User;

    fn level_of(policy: &str, attributes: &AuditAttributes) -> Level {
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{policy}");
        AuditPolicy::read(&text).unwrap().decide(attributes).level
    }

    fn on(resource: &str, subresource: &str) -> AuditAttributes {
        AuditAttributes {
            verb: "get".into(),
            user: Some(Arc::new(User::named("jo", vec!["dev".into()]))),
            on: RequestTarget::Resource(Resource {
                version: "v1".into(),
                plural: resource.into(),
                subresource: subresource.into(),
                namespace: "web".into(),
                name: "a".into(),
                ..Resource::default()
            }),
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides_api_19() {
        let path = |path: &str| AuditAttributes { on: RequestTarget::Path(path.into()), ..on("", "") };
        let anonymous = AuditAttributes { user: None, ..on("pods", "") };
        let pods = on("pods", "");
        for (rule, attributes, matches) in [
            ("{}", &pods, true),
            ("{users: [jo]}", &pods, true),
            ("{users: [al]}", &pods, false),
            ("{users: [jo]}", &anonymous, false),
            ("{userGroups: [ops, dev]}", &pods, true),
            ("{userGroups: [ops]}", &pods, false),
            ("{verbs: [list]}", &pods, false),
            ("{namespaces: [web]}", &pods, true),
            ("{namespaces: ['']}", &pods, false),
            ("{namespaces: [web]}", &path("/version"), false),
            ("{resources: [{group: ''}]}", &pods, true),
            ("{resources: [{group: apps}]}", &pods, false),
            ("{resources: [{resources: [pods]}]}", &pods, true),
            ("{resources: [{resources: [pods]}]}", &on("pods", "log"), false),
            ("{resources: [{resources: ['*']}]}", &on("pods", "log"), true),
            ("{resources: [{resources: ['pods/*']}]}", &on("pods", "log"), true),
            ("{resources: [{resources: ['pods/log']}]}", &pods, false),
            ("{resources: [{resources: ['*/log']}]}", &on("pods", "log"), true),
            ("{resources: [{resources: ['*/log']}]}", &pods, false),
            ("{resources: [{resources: [pods], resourceNames: [a]}]}", &pods, true),
            ("{resources: [{resources: [pods], resourceNames: [b]}]}", &pods, false),
            ("{nonResourceURLs: ['/healthz*', /version]}", &path("/healthz/ping"), true),
            ("{nonResourceURLs: ['/healthz*', /version]}", &path("/version/x"), false),
            ("{nonResourceURLs: ['*']}", &path("/version"), true),
            ("{nonResourceURLs: ['*']}", &pods, false),
        ] {
            let rule = rule.replacen('{', "{level: Request, ", 1);
            let expected = if matches { Level::Request } else { Level::None };
            assert_eq!(level_of(&format!("rules: [{rule}]"), attributes), expected, "{rule}");
        }
        let both = "rules: [{level: None, users: [jo]}, {level: RequestResponse}]";
        assert_eq!(
            (level_of(both, &pods), level_of(both, &anonymous)),
            (Level::None, Level::RequestResponse)
        );
    }

    #[test]
    fn stages_and_managed_fields_are_left_out_api_19() {
        let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                    omitManagedFields: true\nrules:\n- {level: Metadata, verbs: [get], omitStages: [Panic]}\n\
                    - {level: Metadata, omitManagedFields: false}\n";
        let policy = AuditPolicy::read(text).unwrap();
        let first = policy.decide(&on("pods", ""));
        let recorded = Stage::ALL.map(|stage| first.logs_stage(stage));
        assert_eq!((recorded, first.omits_managed_fields), ([false, true, true, false], true));
        let second = policy.decide(&AuditAttributes { verb: "list".into(), ..on("pods", "") });
        assert_eq!((second.logs_stage(Stage::Panic), second.omits_managed_fields), (true, false));
    }

    #[test]
    fn a_policy_that_cannot_be_meant_is_refused_api_19() {
        for (policy, why) in [
            ("kind: Policy\nrules: [{level: None}]", "a Policy of audit.k8s.io/v1"),
            ("apiVersion: audit.k8s.io/v1\nkind: Policy", "0 rules"),
            ("rules: [{level: Most}]", "rules[0].level: Unsupported value: \"Most\""),
            ("rules: [{}]", "rules[0].level: Required value"),
            ("rules: [{level: None, verb: [get]}]", "unknown field `verb`"),
            ("omitStages: [Never]\nrules: [{level: None}]", "omitStages[0]: Unsupported value"),
            (
                "rules: [{level: None, namespaces: [a], nonResourceURLs: [/a]}]",
                "rules cannot apply to both regular resources and non-resource URLs",
            ),
            ("rules: [{level: None, nonResourceURLs: [a]}]", "must begin with a '/' character"),
            ("rules: [{level: None, nonResourceURLs: ['/a*b']}]", "must be the final character"),
            (
                "rules: [{level: None, resources: [{group: A_}]}]",
                "rules[0].resources[0].group: Invalid value",
            ),
            (
                "rules: [{level: None, resources: [{resourceNames: [a]}]}]",
                "using resourceNames requires at least one resource",
            ),
            ("rules: [", "invalid audit policy"),
        ] {
            let head =
                if policy.contains("kind:") { "" } else { "apiVersion: audit.k8s.io/v1\nkind: Policy\n" };
            let error = AuditPolicy::read(&format!("{head}{policy}")).unwrap_err().to_string();
            assert!(error.contains(why), "{policy}: {error}");
        }
    }
}
