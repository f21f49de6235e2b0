//! Policy rules: matching requests, and comparing the permissions of rules.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::attributes::{RequestTarget, ResourceAttributes};
use base::quote::quote;

/// The limit on single permissions that are compared. The default role `admin` has some 1 500; lists of
/// verbs, groups and resources in one object could multiply to billions.
const MAX_PERMISSIONS: usize = 20_000;

const ALL: &str = "*";

/// Returns true if a rule allows a verb on a target.
pub(super) fn allows(rule: &PolicyRule, verb: &str, on: RequestTarget<'_>) -> bool {
    if !has(&rule.verbs, verb) {
        return false;
    }
    match on {
        RequestTarget::Path(path) => list(&rule.non_resource_urls).iter().any(|url| covers_path(url, path)),
        RequestTarget::Resource(resource) => {
            has(list(&rule.api_groups), resource.group)
                && covers_resource(list(&rule.resources), &resource)
                && covers_name(list(&rule.resource_names), resource.name)
        }
    }
}

#[expect(clippy::ref_option, reason = "as the fields of a rule are")]
fn list(list: &Option<Vec<String>>) -> &[String] {
    list.as_deref().unwrap_or_default()
}

fn has(list: &[String], one: &str) -> bool {
    list.iter().any(|each| each == ALL || each == one)
}

/// Matches `pods`, `pods/log`, `*/scale` and `*`.
fn covers_resource(list: &[String], attributes: &ResourceAttributes<'_>) -> bool {
    list.iter().any(|each| match (each.split_once('/'), attributes.subresource) {
        _ if each == ALL => true,
        (None, "") => each == attributes.resource,
        (Some((resource, subresource)), requested_subresource) => {
            !requested_subresource.is_empty()
                && subresource == requested_subresource
                && (resource == ALL || resource == attributes.resource)
        }
        (None, _) => false,
    })
}

/// Returns true if the list covers the requested name. An empty list covers all names; a list with names does
/// not cover requests without a name (list, create).
fn covers_name(names: &[String], requested: &str) -> bool {
    names.is_empty() || names.iter().any(|name| name == requested && !requested.is_empty())
}

fn covers_path(url: &str, path: &str) -> bool {
    url == ALL
        || url == path
        || url.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix.trim_end_matches('*')))
}

/// One verb on one resource of one group, by one name or none; or one verb on one path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subrule<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str>, verb: &'a str },
    Path { url: &'a str, verb: &'a str },
}

/// Returns the permissions of `requested` that `held` lacks, combined into few rules; empty if all are
/// covered. Rules that exceed the limit count as not covered.
pub(super) fn covers(held: &[PolicyRule], requested: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut missing = Vec::new();
    let mut looked_at = 0;
    for rule in requested {
        if held.iter().any(|held| covers_whole(held, rule)) {
            continue;
        }
        looked_at += count(rule);
        if looked_at > MAX_PERMISSIONS {
            return requested.to_vec();
        }
        missing.extend(singles(rule).filter(|single| !held.iter().any(|held| covers_single(held, single))));
    }
    compact(missing)
}

fn count(rule: &PolicyRule) -> usize {
    let resources = list(&rule.api_groups).len().saturating_mul(list(&rule.resources).len());
    let resources = resources.saturating_mul(list(&rule.resource_names).len().max(1));
    rule.verbs.len().saturating_mul(resources.saturating_add(list(&rule.non_resource_urls).len()))
}

/// Returns true if one rule covers another, without expanding them into single permissions. This decides most
/// comparisons, because most rules are copies of each other.
fn covers_whole(held: &PolicyRule, requested: &PolicyRule) -> bool {
    let within = |held: &[String], requested: &[String]| {
        held.iter().any(|each| each == ALL) || requested.iter().all(|each| held.contains(each))
    };
    let names = list(&held.resource_names);
    within(&held.verbs, &requested.verbs)
        && within(list(&held.api_groups), list(&requested.api_groups))
        && within(list(&held.resources), list(&requested.resources))
        && within(list(&held.non_resource_urls), list(&requested.non_resource_urls))
        && (names.is_empty()
            || (!list(&requested.resource_names).is_empty()
                && list(&requested.resource_names).iter().all(|name| names.contains(name))))
}

fn singles(rule: &PolicyRule) -> impl Iterator<Item = Subrule<'_>> {
    let names: Vec<Option<&str>> = match list(&rule.resource_names) {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let resources = list(&rule.api_groups).iter().flat_map(move |group| {
        let names = names.clone();
        list(&rule.resources).iter().flat_map(move |resource| {
            names.clone().into_iter().flat_map(move |name| {
                rule.verbs.iter().map(move |verb| Subrule::Resource { group, resource, name, verb })
            })
        })
    });
    let paths = list(&rule.non_resource_urls)
        .iter()
        .flat_map(|url| rule.verbs.iter().map(move |verb| Subrule::Path { url, verb }));
    resources.chain(paths)
}

fn covers_single(held: &PolicyRule, requested: &Subrule<'_>) -> bool {
    match requested {
        Subrule::Path { url, verb } => {
            has(&held.verbs, verb) && list(&held.non_resource_urls).iter().any(|held| covers_path(held, url))
        }
        Subrule::Resource { group, resource, name, verb } => {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let attributes =
                ResourceAttributes { group, resource, subresource, ..ResourceAttributes::default() };
            let names = list(&held.resource_names);
            has(&held.verbs, verb)
                && has(list(&held.api_groups), group)
                && covers_resource(list(&held.resources), &attributes)
                && (names.is_empty() || name.is_some_and(|name| names.iter().any(|held| held == name)))
        }
    }
}

/// Combines permissions on the same target into one rule with all their verbs, sorted.
fn compact(singles: Vec<Subrule<'_>>) -> Vec<PolicyRule> {
    let mut verbs: BTreeMap<Subrule<'_>, Vec<String>> = BTreeMap::new();
    for single in singles {
        let (thing, verb) = match single {
            Subrule::Resource { group, resource, name, verb } => {
                (Subrule::Resource { group, resource, name, verb: "" }, verb)
            }
            Subrule::Path { url, verb } => (Subrule::Path { url, verb: "" }, verb),
        };
        let verbs = verbs.entry(thing).or_default();
        if !verbs.iter().any(|known| known == verb) {
            verbs.push(verb.to_string());
        }
    }
    let one = |text: &str| Some(vec![text.to_string()]);
    let rule = |(thing, verbs)| match thing {
        Subrule::Resource { group, resource, name, .. } => PolicyRule {
            api_groups: one(group),
            resources: one(resource),
            resource_names: name.and_then(one),
            verbs,
            ..PolicyRule::default()
        },
        Subrule::Path { url, .. } => {
            PolicyRule { non_resource_urls: one(url), verbs, ..PolicyRule::default() }
        }
    };
    verbs.into_iter().map(rule).collect()
}

/// Returns a rule in the form of refusals: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
pub(super) fn format_rule(rule: &PolicyRule) -> String {
    let parts = [
        ("APIGroups", list(&rule.api_groups)),
        ("Resources", list(&rule.resources)),
        ("NonResourceURLs", list(&rule.non_resource_urls)),
        ("ResourceNames", list(&rule.resource_names)),
        ("Verbs", &rule.verbs),
    ];
    let parts = parts.iter().filter(|(_, list)| !list.is_empty());
    let parts: Vec<String> = parts.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
    format!("{{{}}}", parts.join(", "))
}

/// Returns a list as Go prints it: `["a" "b"]`.
pub(super) fn quoted(list: &[String]) -> String {
    format!("[{}]", list.iter().map(|text| quote(text)).collect::<Vec<_>>().join(" "))
}
