//! Matching of requests to webhooks and policies: their rules and selectors, exactly as in Kubernetes.

use k8s_openapi::api::admissionregistration::v1::{NamedRuleWithOperations, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::attributes::{Attributes, Operation};
use crate::{Api, ApiError};
use object::selector::{Labels, Selector};
use object::{Key, Kind, ServedKind};

/// One rule: a request matches if every field does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Option<String>,
    /// Resource names, for policies only; empty for any.
    names: Vec<String>,
}

impl From<&RuleWithOperations> for Rule {
    fn from(rule: &RuleWithOperations) -> Self {
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        Self {
            operations: list(&rule.operations),
            groups: list(&rule.api_groups),
            versions: list(&rule.api_versions),
            resources: list(&rule.resources),
            scope: rule.scope.clone(),
            names: Vec::new(),
        }
    }
}

impl From<&NamedRuleWithOperations> for Rule {
    fn from(rule: &NamedRuleWithOperations) -> Self {
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        Self {
            operations: list(&rule.operations),
            groups: list(&rule.api_groups),
            versions: list(&rule.api_versions),
            resources: list(&rule.resources),
            scope: rule.scope.clone(),
            names: list(&rule.resource_names),
        }
    }
}

impl Rule {
    /// Returns true if the rule matches the request as if it were in that version.
    fn matches(&self, attributes: &Attributes<'_>, served: ServedKind) -> bool {
        self.is_about(attributes.operation, served, attributes.subresource)
            && self.has_scope(attributes)
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
    }

    fn is_about(&self, operation: Operation, served: ServedKind, subresource: &str) -> bool {
        any_or(&self.operations, operation.name())
            && any_or(&self.groups, served.group())
            && any_or(&self.versions, served.version())
            && self.has_resource(served.kind().info().plural, subresource)
    }

    fn has_resource(&self, plural: &str, subresource: &str) -> bool {
        self.resources.iter().any(|named| {
            let (resource, sub) = named.split_once('/').unwrap_or((named, ""));
            (resource == "*" || resource == plural) && (sub == "*" || sub == subresource)
        })
    }

    fn has_scope(&self, attributes: &Attributes<'_>) -> bool {
        // A request for a namespace has a namespace, its own name, although the object is cluster-scoped.
        let of_cluster = attributes.is_of_namespace() || attributes.namespace.is_empty();
        match self.scope.as_deref() {
            None | Some("*") => true,
            Some("Namespaced") => !of_cluster,
            Some("Cluster") => of_cluster,
            Some(_) => false,
        }
    }
}

fn any_or(listed: &[String], requested: &str) -> bool {
    listed.iter().any(|one| one == "*" || one == requested)
}

/// Rules, and their match policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    /// The match policy is `Equivalent`.
    is_equivalent: bool,
}

impl Rules {
    pub(crate) fn new<'a, R: 'a>(rules: Option<&'a Vec<R>>, match_policy: Option<&str>) -> Self
    where
        Rule: From<&'a R>,
    {
        let rules = rules.into_iter().flatten().map(Rule::from).collect();
        Self { rules, is_equivalent: match_policy == Some("Equivalent") }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the version in which a rule matches the request, preferably the request's own.
    pub(crate) fn matches(&self, api: &Api, attributes: &Attributes<'_>) -> Option<ServedKind> {
        if self.rules.iter().any(|rule| rule.matches(attributes, attributes.resource)) {
            return Some(attributes.resource);
        }
        if !self.is_equivalent || self.rules.is_empty() {
            return None;
        }
        let others = attributes.equivalents(&api.kinds());
        // The first matching rule decides the version.
        self.rules
            .iter()
            .find_map(|rule| others.iter().copied().find(|served| rule.matches(attributes, *served)))
    }

    /// Returns true if a request with one of these operations on a kind or its subresource could match in some version.
    pub(crate) fn may_match(&self, operations: &[Operation], kind: Kind, subresource: &str) -> bool {
        let plural = kind.info().plural;
        self.rules.iter().any(|rule| {
            operations.iter().any(|operation| any_or(&rule.operations, operation.name()))
                && rule.has_resource(plural, subresource)
        })
    }
}

/// The selectors of a webhook or a policy.
#[derive(Clone, Debug)]
pub(crate) struct Selectors {
    namespace: Selector,
    object: Selector,
}

impl Selectors {
    /// Compiles selectors; missing ones select everything.
    pub(crate) fn new(namespace: Option<&LabelSelector>, object: Option<&LabelSelector>) -> Self {
        let read =
            |given: Option<&LabelSelector>| given.map_or_else(Selector::everything, Selector::from_field);
        Self { namespace: read(namespace), object: read(object) }
    }

    /// Returns true if both select the request. A missing namespace is an error, which matters only if the
    /// request matches otherwise.
    pub(crate) fn matches(&self, api: &Api, attributes: &Attributes<'_>) -> Result<bool, ApiError> {
        let namespace = self.has_namespace(api, attributes);
        if namespace == Ok(false) || !self.has_object(attributes) {
            return Ok(false);
        }
        namespace
    }

    /// Returns true if an object in this namespace could be selected.
    pub(crate) fn may_select(&self, api: &Api, namespace: &str) -> bool {
        if self.namespace.is_everything() || namespace.is_empty() {
            return true;
        }
        // If the namespace is missing, the request itself reports the error.
        let namespace = api.get(Kind::Namespace, &Key::new("", namespace));
        namespace.map_or(true, |namespace| self.namespace.matches(namespace.meta().labels.as_ref()))
    }

    fn has_namespace(&self, api: &Api, attributes: &Attributes<'_>) -> Result<bool, ApiError> {
        // A namespace selector never excludes a cluster-scoped object other than a namespace.
        if self.namespace.is_everything()
            || (attributes.namespace.is_empty() && !attributes.is_of_namespace())
        {
            return Ok(true);
        }
        let is_its_own = attributes.is_of_namespace()
            && attributes.subresource.is_empty()
            && matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_its_own {
            return Ok(self.namespace.matches(attributes.object.labels().as_deref()));
        }
        let namespace = api.get(Kind::Namespace, &Key::new("", attributes.namespace))?;
        Ok(self.namespace.matches(namespace.meta().labels.as_ref()))
    }

    fn has_object(&self, attributes: &Attributes<'_>) -> bool {
        let selects = |labels: Option<std::borrow::Cow<'_, Labels>>| {
            labels.is_some_and(|labels| self.object.matches(Some(&labels)))
        };
        self.object.is_everything()
            || selects(attributes.object.labels())
            || selects(attributes.old_object.labels())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::WriteOptions;
    use crate::admission::attributes::{Options, Requester, Subject};
    use crate::test_api::api;
    use object::Object;

    fn of_pod<'a>(operation: Operation, subresource: &'a str, options: &'a WriteOptions) -> Attributes<'a> {
        Attributes {
            operation,
            resource: Kind::Pod.into(),
            subresource,
            namespace: "a",
            name: "p",
            object: Subject::None,
            old_object: Subject::None,
            options: Options::Write(options),
            requester: Requester::Actor("test"),
        }
    }

    fn rules(policy: &str, text: &str) -> Rules {
        let fields: Vec<&str> = text.split(' ').collect();
        let list = |i: usize| fields[i].split(',').map(|one| one.replace("core", "")).collect::<Vec<_>>();
        let rule: RuleWithOperations = serde_json::from_value(json!({
            "operations": list(0), "apiGroups": list(1), "apiVersions": list(2), "resources": list(3),
            "scope": fields.get(4).copied().unwrap_or("*"),
        }))
        .unwrap();
        Rules::new(Some(&vec![rule]), Some(policy))
    }

    #[test]
    fn a_rule_is_about_what_it_names_api_16() {
        let (api, options) = (api(&[]), WriteOptions::default());
        for (rule, operation, subresource, expected) in [
            ("CREATE core v1 pods", Operation::Create, "", true),
            ("CREATE core v1 pods", Operation::Update, "", false),
            ("CREATE core v1 pods", Operation::Create, "status", false),
            ("UPDATE,CREATE core v1 pods", Operation::Update, "", true),
            ("* * * *", Operation::Delete, "", true),
            ("* * * *", Operation::Update, "status", false),
            ("* * * */*", Operation::Update, "status", true),
            ("* * * */*", Operation::Create, "", true),
            ("* * * */status", Operation::Update, "status", true),
            ("* * * */status", Operation::Update, "", false),
            ("* * * pods/*", Operation::Update, "ephemeralcontainers", true),
            ("* * * pods/*", Operation::Create, "", true),
            ("CONNECT core v1 pods/exec", Operation::Connect, "exec", true),
            ("CONNECT core v1 pods/exec", Operation::Connect, "attach", false),
            ("* apps v1 pods", Operation::Create, "", false),
            ("* core v2 pods", Operation::Create, "", false),
            ("* core v1 nodes,pods", Operation::Create, "", true),
            ("* core v1 pods Namespaced", Operation::Create, "", true),
            ("* core v1 pods Cluster", Operation::Create, "", false),
        ] {
            let attributes = of_pod(operation, subresource, &options);
            let matched = rules("Exact", rule).matches(&api, &attributes).is_some();
            assert_eq!(matched, expected, "{rule} {operation:?} {subresource:?}");
        }
    }

    #[test]
    fn a_namespace_belongs_to_the_cluster_and_is_in_itself_api_16() {
        let (api, options) = (api(&[]), WriteOptions::default());
        let make = |name: &str, labels| {
            let value = json!({"metadata": {"name": name, "labels": labels}});
            Object::from_value(Kind::Namespace, value).unwrap()
        };
        api.create(make("a", json!({"exempt": "no"})), &options).unwrap();
        let selectors = |field: &str| {
            let selector: LabelSelector =
                serde_json::from_value(json!({"matchLabels": {"exempt": "no"}})).unwrap();
            let (namespace, object) =
                if field == "namespace" { (Some(&selector), None) } else { (None, Some(&selector)) };
            Selectors::new(namespace, object)
        };
        let relabelled = make("a", json!({"exempt": "yes"}));
        let namespace = Attributes {
            resource: Kind::Namespace.into(),
            name: "a",
            ..of_pod(Operation::Update, "", &options)
        };
        for (scope, expected) in [("Cluster", true), ("Namespaced", false), ("*", true)] {
            let rules = rules("Exact", &format!("* * * namespaces {scope}"));
            assert_eq!(rules.matches(&api, &namespace).is_some(), expected, "{scope}");
        }
        let updated = namespace.with_object(Subject::Object(&relabelled));
        assert_eq!(selectors("namespace").matches(&api, &updated), Ok(false), "by the labels it would have");
        let deleted = Attributes { operation: Operation::Delete, object: Subject::None, ..updated };
        assert_eq!(selectors("namespace").matches(&api, &deleted), Ok(true), "by the labels it has");
        let pod = of_pod(Operation::Create, "", &options);
        assert_eq!(selectors("namespace").matches(&api, &pod), Ok(true));
        let lost = Attributes { namespace: "none", ..pod };
        assert!(selectors("namespace").matches(&api, &lost).unwrap_err().is_not_found());
        let of_cluster = Attributes { resource: Kind::Node.into(), namespace: "", ..pod };
        assert_eq!(selectors("namespace").matches(&api, &of_cluster), Ok(true), "never exempt");
        let stored = make("a", json!({"exempt": "no"}));
        for (object, old, expected) in [
            (Subject::None, Subject::None, false),
            (Subject::Object(&relabelled), Subject::None, false),
            (Subject::Object(&relabelled), Subject::Object(&stored), true),
            (Subject::Object(&stored), Subject::Object(&relabelled), true),
        ] {
            let attributes = Attributes { object, old_object: old, ..namespace };
            assert_eq!(selectors("object").matches(&api, &attributes), Ok(expected), "{attributes:?}");
        }
    }

    #[test]
    fn equivalent_rules_mean_every_version_of_what_they_name_api_16() {
        let (api, options) = (api(&[]), WriteOptions::default());
        let old = ServedKind::from_path("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
        let attributes = Attributes { resource: old, ..of_pod(Operation::Create, "", &options) };
        let rule = "CREATE autoscaling v2 horizontalpodautoscalers";
        assert_eq!(rules("Exact", rule).matches(&api, &attributes), None);
        let stored = ServedKind::Stored(Kind::HorizontalPodAutoscaler);
        assert_eq!(rules("Equivalent", rule).matches(&api, &attributes), Some(stored));
        let both = "CREATE autoscaling v1,v2 horizontalpodautoscalers";
        assert_eq!(rules("Equivalent", both).matches(&api, &attributes), Some(old));
    }
}
