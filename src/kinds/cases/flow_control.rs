//! Validation of priority levels and flow schemas.

use super::*;

#[test]
fn priority_levels_are_exempt_or_limited_api_17() {
    let level = object(
        Kind::PriorityLevelConfiguration,
        "spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {}}}}",
    )
    .to_value();
    assert_eq!(
        level["spec"]["limited"],
        json!({"nominalConcurrencyShares": 30, "lendablePercent": 0, "limitResponse": {"type": "Queue",
            "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50}}})
    );
    let limited = |text: &str| format!("spec: {{type: Limited, limited: {{{text}}}}}");
    for (text, expected) in [
        (limited("limitResponse: {type: Reject}"), vec![]),
        (limited("nominalConcurrencyShares: 0, limitResponse: {type: Reject}"), vec![]),
        (
            "spec: {type: Exempt}".into(),
            vec!["spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"],
        ),
        ("spec: {type: ''}".into(), vec!["spec.type: Required value"]),
        (limited("limitResponse: {type: ''}"), vec!["spec.limited.limitResponse.type: Required value"]),
        (
            format!(
                "metadata: {{annotations: {{flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares: ''}}}}\n{}",
                limited("limitResponse: {type: Reject}")
            ),
            vec![
                "metadata.annotations: Forbidden: annotation 'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares' is forbidden",
            ],
        ),
        (
            "spec: {type: Limited}".into(),
            vec!["spec.limited: Required value: must not be empty when type is Limited"],
        ),
        (
            limited(
                "nominalConcurrencyShares: -1, lendablePercent: 101, borrowingLimitPercent: -1, limitResponse: {type: Wait}",
            ),
            vec![
                "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
                "spec.limited.limitResponse.type: Unsupported value: \"Wait\": supported values: \"Queue\", \"Reject\"",
                "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
                "spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer",
            ],
        ),
        (
            limited("limitResponse: {type: Reject, queuing: {queues: 1}}"),
            vec![
                "spec.limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited",
            ],
        ),
        (
            limited("limitResponse: {type: Queue, queuing: {queues: 4, handSize: 5, queueLengthLimit: -1}}"),
            vec![
                "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive",
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)",
            ],
        ),
        (
            limited("limitResponse: {type: Queue, queuing: {queues: 1024, handSize: 9}}"),
            vec![
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 9: required entropy bits of deckSize 1024 and handSize 9 should not be greater than 60",
            ],
        ),
    ] {
        assert_eq!(
            messages(&validate_create(&object(Kind::PriorityLevelConfiguration, &text))),
            expected,
            "{text}"
        );
    }
    let fixed = object(
        Kind::PriorityLevelConfiguration,
        "metadata: {name: catch-all}\nspec: {type: Limited, limited: {limitResponse: {type: Reject}}}",
    );
    let errors = messages(&validate_create(&fixed));
    assert!(errors[0].ends_with("spec of 'catch-all' must equal the fixed value"), "{errors:?}");
}

#[test]
fn flow_schemas_need_subjects_and_rules_api_17() {
    let of = |rest: &str| format!("spec: {{priorityLevelConfiguration: {{name: l}}, {rest}}}");
    let rule = |subject: &str, rest: &str| of(&format!("rules: [{{subjects: [{subject}], {rest}}}]"));
    let all = "resourceRules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*']}]";
    assert_eq!(object(Kind::FlowSchema, &of("")).to_value()["spec"]["matchingPrecedence"], 1000);
    for (text, expected) in [
        (of(""), vec![]),
        (rule("{kind: User, user: {name: '*'}}", all), vec![]),
        (
            "spec: {priorityLevelConfiguration: {name: ''}, matchingPrecedence: 10001, distinguisherMethod: {type: ByPod}}".into(),
            vec![
                "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000",
                "spec.distinguisherMethod.type: Unsupported value: \"ByPod\": supported values: \"ByNamespace\", \"ByUser\"",
                "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
            ],
        ),
        (
            of("matchingPrecedence: 1"),
            vec!["spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"],
        ),
        (
            rule("{kind: User, group: {name: g}}", ""),
            vec![
                "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
                "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
            ],
        ),
        (
            rule("{kind: Robot}, {kind: ServiceAccount, serviceAccount: {name: '*', namespace: ''}}", all),
            vec![
                "spec.rules[0].subjects[0].kind: Unsupported value: \"Robot\": supported values: \"Group\", \"ServiceAccount\", \"User\"",
                "spec.rules[0].subjects[1].serviceAccount.namespace: Required value: must specify namespace for service account",
            ],
        ),
        (
            rule("{kind: Group, group: {name: g}}", "resourceRules: [{verbs: ['*', get], apiGroups: [], resources: [pods]}]"),
            vec![
                "spec.rules[0].resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs",
                "spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
            ],
        ),
        (
            rule("{kind: Group, group: {name: g}}", "nonResourceRules: [{verbs: [get], nonResourceURLs: [/healthz, healthz, /a*, /a/*]}]"),
            vec![
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: \"healthz\": must start with slash",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[2]: Invalid value: \"/a*\": wildcard can only do suffix matching",
            ],
        ),
    ] {
        assert_eq!(messages(&validate_create(&object(Kind::FlowSchema, &text))), expected, "{text}");
    }
}

#[test]
fn the_verbs_and_places_of_a_flow_schema_are_known_ones_api_17() {
    let rule = |rest: &str| {
        format!(
            "spec: {{priorityLevelConfiguration: {{name: l}}, rules: [{{subjects: [{{kind: Group, group: {{name: g}}}}], {rest}}}]}}"
        )
    };
    let verbs = "\"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \"watch\"";
    check(
        Kind::FlowSchema,
        &[
            (&rule("nonResourceRules: [{verbs: [get, list], nonResourceURLs: [/healthz]}]"), &[]),
            (
                &rule("nonResourceRules: [{verbs: [get, post], nonResourceURLs: ['']}]"),
                &[
                    &format!(
                        "spec.rules[0].nonResourceRules[0].verbs: Unsupported value: [\"get\",\"post\"]: supported values: {verbs}"
                    ),
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"\": must not be empty",
                ],
            ),
            (
                &rule("resourceRules: [{verbs: [get], apiGroups: [''], resources: [pods], namespaces: [A]}]"),
                &[&format!(
                    "spec.rules[0].resourceRules[0].namespaces[0]: Invalid value: \"A\": each member of this list must be '*' or a DNS-1123 label; {DNS_LABEL}"
                )],
            ),
        ],
    );
    for kind in [Kind::FlowSchema, Kind::PriorityLevelConfiguration] {
        check_status(
            kind,
            &[
                ("", "status: {conditions: [{type: Dangling}, {type: Other}]}", &[]),
                (
                    "",
                    "status: {conditions: [{type: Dangling}, {type: ''}, {type: Dangling}]}",
                    &[
                        "status.conditions[1].type: Required value",
                        "status.conditions[2].type: Duplicate value: \"Dangling\"",
                    ],
                ),
            ],
        );
    }
}
