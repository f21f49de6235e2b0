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
    Template::new(
        Kind::PriorityLevelConfiguration,
        "spec: {type: Limited, limited: {…}}",
        "spec.limited",
    )
    .check(
        r#"
limitResponse: {type: Reject}
nominalConcurrencyShares: 0, limitResponse: {type: Reject}
limitResponse: {type: ''}
  ! .limitResponse.type: Required value
nominalConcurrencyShares: -1, lendablePercent: 101, borrowingLimitPercent: -1, limitResponse: {type: Wait}
  ! .nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer
  ! .limitResponse.type: Unsupported value: "Wait": supported values: "Queue", "Reject"
  ! .lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive
  ! .borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer
limitResponse: {type: Reject, queuing: {queues: 1}}
  ! .limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited
limitResponse: {type: Queue, queuing: {queues: 4, handSize: 5, queueLengthLimit: -1}}
  ! .limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive
  ! .limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)
limitResponse: {type: Queue, queuing: {queues: 1024, handSize: 9}}
  ! .limitResponse.queuing.handSize: Invalid value: 9: required entropy bits of deckSize 1024 and handSize 9 should not be greater than 60
"#,
    );
    check(
        Kind::PriorityLevelConfiguration,
        r#"
spec: {type: Exempt}
  ! spec.type: Invalid value: "Exempt": must be 'Exempt' if and only if `name` is 'exempt'
spec: {type: ''}
  ! spec.type: Required value
metadata: {annotations: {flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares: ''}}\nspec: {type: Limited, limited: {limitResponse: {type: Reject}}}
  ! metadata.annotations: Forbidden: annotation 'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares' is forbidden
spec: {type: Limited}
  ! spec.limited: Required value: must not be empty when type is Limited
"#,
    );
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
    assert_eq!(object(Kind::FlowSchema, &of("")).to_value()["spec"]["matchingPrecedence"], 1000);
    check(
        Kind::FlowSchema,
        r#"
spec: {priorityLevelConfiguration: {name: l}, }
spec: {priorityLevelConfiguration: {name: ''}, matchingPrecedence: 10001, distinguisherMethod: {type: ByPod}}
  ! spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000
  ! spec.distinguisherMethod.type: Unsupported value: "ByPod": supported values: "ByNamespace", "ByUser"
  ! spec.priorityLevelConfiguration.name: Required value: must reference a priority level
spec: {priorityLevelConfiguration: {name: l}, matchingPrecedence: 1}
  ! spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1
"#,
    );
    Template::new(
        Kind::FlowSchema,
        "spec: {priorityLevelConfiguration: {name: l}, rules: [{…}]}",
        "spec.rules[0]",
    )
    .check(
        r#"
subjects: [{kind: User, user: {name: '*'}}], resourceRules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*']}]
subjects: [{kind: User, group: {name: g}}],
  ! .subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'
  ! .subjects[0].user: Required value: user is required when subject kind is 'User'
  ! : Required value: at least one of resourceRules and nonResourceRules has to be non-empty
subjects: [{kind: Robot}, {kind: ServiceAccount, serviceAccount: {name: '*', namespace: ''}}], resourceRules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*']}]
  ! .subjects[0].kind: Unsupported value: "Robot": supported values: "Group", "ServiceAccount", "User"
  ! .subjects[1].serviceAccount.namespace: Required value: must specify namespace for service account
subjects: [{kind: Group, group: {name: g}}], resourceRules: [{verbs: ['*', get], apiGroups: [], resources: [pods]}]
  ! .resourceRules[0].verbs: Invalid value: ["*","get"]: if '*' is present, must not specify other verbs
  ! .resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group
  ! .resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace
subjects: [{kind: Group, group: {name: g}}], nonResourceRules: [{verbs: [get], nonResourceURLs: [/healthz, healthz, /a*, /a/*]}]
  ! .nonResourceRules[0].nonResourceURLs[1]: Invalid value: "healthz": must start with slash
  ! .nonResourceRules[0].nonResourceURLs[2]: Invalid value: "/a*": wildcard can only do suffix matching
"#,
    );
}

#[test]
fn the_verbs_and_places_of_a_flow_schema_are_known_ones_api_17() {
    Template::new(
        Kind::FlowSchema,
        "spec: {priorityLevelConfiguration: {name: l}, rules: [{subjects: [{kind: Group, group: {name: g}}], …}]}",
        "spec.rules[0]",
    )
    .check(
        r#"
nonResourceRules: [{verbs: [get, list], nonResourceURLs: [/healthz]}]
nonResourceRules: [{verbs: [get, post], nonResourceURLs: ['']}]
  ! .nonResourceRules[0].verbs: Unsupported value: ["get","post"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"
  ! .nonResourceRules[0].nonResourceURLs[0]: Invalid value: "": must not be empty
resourceRules: [{verbs: [get], apiGroups: [''], resources: [pods], namespaces: [A]}]
  ! .resourceRules[0].namespaces[0]: Invalid value: "A": each member of this list must be '*' or a DNS-1123 label; <dns-label>
"#,
    );
    for kind in [Kind::FlowSchema, Kind::PriorityLevelConfiguration] {
        check_status(
            kind,
            r#"
<empty>
-> status: {conditions: [{type: Dangling}, {type: Other}]}
<empty>
-> status: {conditions: [{type: Dangling}, {type: ''}, {type: Dangling}]}
  ! status.conditions[1].type: Required value
  ! status.conditions[2].type: Duplicate value: "Dangling"
"#,
        );
    }
}
