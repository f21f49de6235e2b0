//! Validation of ingresses, ingress classes and network policies, and of webhooks, API services and drivers.

use super::*;

#[test]
fn ingresses_say_where_each_path_goes_api_17() {
    Template::new(
        Kind::Ingress,
        "spec:\n  rules:\n  - http:\n      paths:\n      - {…}",
        "spec.rules[0].http.paths[0]",
    )
    .check(
        r#"
path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}
pathType: ImplementationSpecific, backend: {service: {name: s, port: {number: 80}}}
path: /a, pathType: '', backend: {service: {name: s, port: {number: 80}}}
  ! .pathType: Required value: pathType must be specified
path: /a, pathType: ''
  ! .pathType: Required value: pathType must be specified
path: a//b, pathType: Exact, backend: {service: {name: s, port: {number: 80}}}
  ! .path: Invalid value: "a//b": must be an absolute path
  ! .path: Invalid value: "a//b": must not contain '//'
path: /a/.., pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}
  ! .path: Invalid value: "/a/..": cannot end with '/..'
path: /, pathType: Regex, backend: {service: {name: s, port: {number: 80}}}
  ! .pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix"
path: /, pathType: Prefix, backend: {}
  ! .backend: Invalid value: "": resource or service backend is required
path: /, pathType: Prefix, backend: {service: {name: s, port: {}}}
  ! .backend: Required value: port name or number is required
path: /, pathType: Prefix, backend: {service: {name: s, port: {name: http, number: 1}}}
  ! .backend: Invalid value: "": cannot set both port name & port number
path: /, pathType: Prefix, backend: {resource: {kind: '', name: a/b}}
  ! .backend.resource.kind: Required value
  ! .backend.resource.name: Invalid value: "a/b": may not contain '/'
"#,
    );
    check(
        Kind::Ingress,
        r#"
spec: {}
  ! spec: Invalid value: null: either `defaultBackend` or `rules` must be specified
metadata: {annotations: {kubernetes.io/ingress.class: a}}\nspec: {ingressClassName: b, defaultBackend: {service: {name: s, port: {name: p}}}}
  ! annotations.kubernetes.io/ingress.class: Invalid value: "a": must match `ingressClassName` when both are specified
"#,
    );
    Template::new(Kind::Ingress, "spec:\n  rules:\n  - …", "spec.rules[0]").check(
        r#"
host: '*.example.com'
host: 10.0.0.1
  ! .host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address
http: {paths: []}
  ! .http.paths: Required value
"#,
    );
    check_status(
        Kind::Ingress,
        r#"
{}
-> status: {loadBalancer: {ingress: [{ip: x}, {hostname: 10.0.0.1}, {ip: 10.0.0.1}, {hostname: '*.a.b'}, {hostname: a.b}]}}
  ! status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
  ! status.loadBalancer.ingress[1].hostname: Invalid value: "10.0.0.1": must be a DNS name, not an IP address
  ! status.loadBalancer.ingress[3].hostname: Invalid value: "*.a.b": <subdomain>
"#,
    );
}

#[test]
fn ingress_classes_keep_their_controller_api_17() {
    check(
        Kind::IngressClass,
        r#"
spec: {controller: example.com/ingress, parameters: {kind: K, name: p}}
spec: {}
  ! spec.controller: Required value
spec: {controller: nginx}
  ! spec.controller: Invalid value: "nginx": must be a domain-prefixed path (such as "acme.io/foo")
spec: {controller: a.b/c, parameters: {kind: K, name: p, scope: Namespace}}
  ! spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'
spec: {controller: a.b/c, parameters: {kind: K, name: p, scope: Namespace, namespace: ''}}
  ! spec.parameters.namespace: Invalid value: "": <dns-label>
spec: {controller: 'A.b/c d'}
  ! spec.controller: Invalid value: "A.b": <subdomain>
  ! spec.controller: Invalid value: "c d": Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')
spec: {controller: a.b/c, parameters: {kind: K, name: p, namespace: x}}
  ! spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'
"#,
    );
    check_change(
        Kind::IngressClass,
        r#"
spec: {controller: a.b/c}
-> spec: {controller: a.b/d}
  ! spec.controller: Invalid value: "a.b/d": field is immutable
"#,
    );
}

#[test]
fn network_policies_name_peers_and_ports_api_17() {
    let policy =
        object(Kind::NetworkPolicy, "spec: {podSelector: {}, egress: [{ports: [{port: 53}]}]}").to_value();
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
    check(
        Kind::NetworkPolicy,
        r#"
spec: {podSelector: {}}
spec: {podSelector: {}, ingress: [{from: [{}, {ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}]}
  ! spec.ingress[0].from[0]: Required value: must specify a peer
  ! spec.ingress[0].from[1]: Forbidden: may not specify both ipBlock and another peer
spec: {podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 11.0.0.0/16, 10.0.0.0/8]}}, {ipBlock: {cidr: x}}]}]}
  ! spec.egress[0].to[0].ipBlock.except[1]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`
  ! spec.egress[0].to[0].ipBlock.except[2]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`
  ! spec.egress[0].to[1].ipBlock.cidr: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
spec: {podSelector: {}, ingress: [{ports: [{protocol: ICMP}, {port: 9, endPort: 8}, {port: web, endPort: 9}, {endPort: 9}]}]}
  ! spec.ingress[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"
  ! spec.ingress[0].ports[1].endPort: Invalid value: 8: must be greater than or equal to `port`
  ! spec.ingress[0].ports[2].endPort: Invalid value: 9: may not be specified when `port` is non-numeric
  ! spec.ingress[0].ports[3].endPort: Invalid value: 9: may not be specified when `port` is not specified
spec: {podSelector: {}, policyTypes: [Egress, Both]}
  ! spec.policyTypes[1]: Unsupported value: "Both": supported values: "Ingress", "Egress"
"#,
    );
}

#[test]
fn webhooks_are_defaulted_and_checked_api_17() {
    let good = "name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p}}";
    let defaulted = object(
        Kind::MutatingWebhookConfiguration,
        &format!("webhooks: [{{{good}, rules: [{{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}}]}}]"),
    )
    .to_value();
    let webhook = &defaulted["webhooks"][0];
    assert_eq!(
        json!([
            webhook["failurePolicy"],
            webhook["matchPolicy"],
            webhook["timeoutSeconds"],
            webhook["reinvocationPolicy"],
            webhook["namespaceSelector"],
            webhook["clientConfig"]["service"]["port"],
            webhook["rules"][0]["scope"]
        ]),
        json!(["Fail", "Equivalent", 10, "Never", {}, 443, "*"])
    );
    for kind in [Kind::MutatingWebhookConfiguration, Kind::ValidatingWebhookConfiguration] {
        Template::new(kind, "webhooks: [{…}]", "webhooks[0]").check(
            r#"
name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p}}
name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p}}}, {name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p}}
  ! webhooks[1].name: Duplicate value: "a.b.c"
name: a.b, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p}}
  ! .name: Invalid value: "a.b": should be a domain with at least three segments separated by dots
name: a.b.c, sideEffects: Some, admissionReviewVersions: [v9], clientConfig: {service: {name: s, namespace: p}}
  ! .admissionReviewVersions: Invalid value: ["v9"]: must include at least one of v1, v1beta1
  ! .sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"
name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p}}, timeoutSeconds: 31, failurePolicy: Maybe
  ! .failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"
  ! .timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds
name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: 'http://x/y'}
  ! .clientConfig.url: Invalid value: "http://x/y": 'https' is the only allowed URL scheme; got "http"; desired format: https://host[/path]
name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {}
  ! .clientConfig: Required value: exactly one of url or service is required
name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p}}, rules: [{operations: ['*', CREATE], apiGroups: [], apiVersions: [v1], resources: [pods]}]
  ! .rules[0].operations: Invalid value: ["*","CREATE"]: if '*' is present, must not specify other operations
  ! .rules[0].apiGroups: Required value
"#,
        );
    }
}

#[test]
fn the_names_versions_and_paths_of_webhooks_are_well_formed_api_17() {
    Template::new(Kind::ValidatingWebhookConfiguration, "webhooks: [{…}]", "webhooks[0]").check(
        r#"
name: 'a.b.c', sideEffects: None, admissionReviewVersions: [v1, v1beta1, v2], clientConfig: {service: {name: s, namespace: p, path: '/a/b.c/'}}
name: 'A.b', sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p, path: ''}}
  ! .name: Invalid value: "A.b": <subdomain>
name: 'a.b.c', sideEffects: None, admissionReviewVersions: [v1, v1, V2], clientConfig: {service: {name: s, namespace: p, path: '/'}}
  ! .admissionReviewVersions[1]: Invalid value: "v1": duplicate version
  ! .admissionReviewVersions[2]: Invalid value: "V2": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
name: 'a.b.c', sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p, path: '//'}}
  ! .clientConfig.service.path: Invalid value: "//": segment[0] may not be empty
name: 'a.b.c', sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p, path: '/a//b'}}
  ! .clientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty
name: 'a.b.c', sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p, path: '/a/B_c'}}
  ! .clientConfig.service.path: Invalid value: "/a/B_c": segment[1]: <subdomain>
name: 'a.b.c', sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: p, path: 'xa/b'}}
  ! .clientConfig.service.path: Invalid value: "xa/b": must start with a '/'
"#,
    );
}

#[test]
fn the_rules_of_webhooks_name_nothing_that_a_wildcard_means_api_17() {
    Template::new(
        Kind::MutatingWebhookConfiguration,
        "webhooks: [{name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: 'https://a'}, rules: [{operations: [CREATE], …}]}]",
        "webhooks[0].rules[0]",
    )
    .check(
        r#"
apiGroups: [''], apiVersions: [v1], resources: [pods, pods/status, '*/scale']
apiGroups: [''], apiVersions: [v1], resources: ['*', pods/status]
apiGroups: [''], apiVersions: [v1], resources: ['*/*']
apiGroups: [''], apiVersions: [v1], resources: []
  ! .resources: Required value
apiGroups: [''], apiVersions: [v1], resources: [pods, '']
  ! .resources[1]: Required value
apiGroups: [''], apiVersions: [v1], resources: [pods/*, pods/status]
  ! .resources[1]: Invalid value: "pods/status": if 'pods/*' is present, must not specify pods/status
apiGroups: [''], apiVersions: [v1], resources: ['*/status', pods/status]
  ! .resources[1]: Invalid value: "pods/status": if '*/status' is present, must not specify pods/status
apiGroups: [''], apiVersions: [v1], resources: ['*/*', pods]
  ! .resources: Invalid value: ["*/*","pods"]: if '*/*' is present, must not specify other resources
apiGroups: [''], apiVersions: [v1], resources: ['*', pods]
  ! .resources: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources without subresources
apiGroups: ['*', apps], apiVersions: ['*', ''], resources: [pods]
  ! .apiGroups: Invalid value: ["*","apps"]: if '*' is present, must not specify other API groups
  ! .apiVersions: Invalid value: ["*",""]: if '*' is present, must not specify other API versions
  ! .apiVersions[1]: Required value
"#,
    );
}

#[test]
fn mutating_policies_do_not_match_deletions_api_17() {
    check(
        Kind::MutatingAdmissionPolicy,
        r#"
spec: {reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[]'}}], matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE, CONNECT], resources: [pods]}]}}
spec: {reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[]'}}], matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}}
spec: {reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[]'}}], matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [DELETE], resources: [pods]}]}}
  ! spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"
spec: {reinvocationPolicy: Never, mutations: [{applyConfiguration: {expression: 'Object{}'}, patchType: JSONPatch, jsonPatch: {expression: '[]'}}], matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}}
  ! spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch
"#,
    );
    check(
        Kind::MutatingAdmissionPolicyBinding,
        r#"
spec: {policyName: p, matchResources: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}}
spec: {policyName: p, matchResources: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [DELETE], resources: [pods]}]}}
  ! spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"
"#,
    );
}

#[test]
fn audit_annotations_and_messages_of_a_validating_policy_have_bounds_api_17() {
    let note = |key: &str, expression: &str| format!("{{key: {key}, valueExpression: \"{expression}\"}}");
    let many: Vec<String> = (0..21).map(|i| note(&format!("k{i}"), "'v'")).collect();
    Template::new(
        Kind::ValidatingAdmissionPolicy,
        "spec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}, auditAnnotations: […]}",
        "spec.auditAnnotations",
    )
    .check(
        &r#"
{key: a, valueExpression: "'v'"}
{key: a, valueExpression: "'<long>'"}
  ! [0].valueExpression: Required value: must not exceed 5120 bytes in length
<many>
  ! : Invalid value: must not have more than 20 auditAnnotations
"#
        .replace("<many>", &many.join(", "))
        .replace("<long>", &"x".repeat(5 * 1024)),
    );
    check_status(
        Kind::ValidatingAdmissionPolicy,
        r"
<empty>
-> status: {typeChecking: {expressionWarnings: [{fieldRef: ' ', warning: ''}]}, conditions: [{type: A, status: 'True', reason: '', message: '', lastTransitionTime: '2026-11-21T00:00:00Z'}]}
  ! status.typeChecking.expressionWarnings[0].warning: Required value
  ! status.typeChecking.expressionWarnings[0].fieldRef: Required value
  ! status.conditions[0].reason: Required value: must be set
",
    );
}

#[test]
fn api_services_are_named_by_group_and_version_api_17() {
    check(
        Kind::APIService,
        r#"
metadata: {name: v1.a.b}\nspec: {group: a.b, version: v1, groupPriorityMinimum: 100, versionPriority: 10}
metadata: {name: x}\nspec: {group: a.b, version: v1, groupPriorityMinimum: 100, versionPriority: 10}
  ! metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "v1.a.b"
metadata: {name: v1.a.b}\nspec: {group: a.b, version: v1, versionPriority: 1001}
  ! spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000
  ! spec.versionPriority: Invalid value: 1001: must be positive and less than 1000
metadata: {name: v1.a.b}\nspec: {group: a.b, version: v1, groupPriorityMinimum: 100, versionPriority: 10, insecureSkipTLSVerify: true}
  ! spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify
metadata: {name: v1.a.b}\nspec: {group: a.b, version: v1, groupPriorityMinimum: 100, versionPriority: 10, service: {name: s}}
  ! spec.service.namespace: Required value
"#,
    );
}

#[test]
fn drivers_of_volumes_say_what_they_can_api_17() {
    let driver = object(Kind::CSIDriver, "metadata: {name: a.b}\nspec: {}").to_value();
    assert_eq!(driver["spec"]["volumeLifecycleModes"], json!(["Persistent"]));
    assert_eq!(driver["spec"]["fsGroupPolicy"], "ReadWriteOnceWithFSType");
    check(
        Kind::CSIDriver,
        r#"
spec: {}
spec: {volumeLifecycleModes: [Always], tokenRequests: [{audience: a, expirationSeconds: 1}, {audience: a}]}
  ! spec.volumeLifecycleModes: Unsupported value: "Always": supported values: "Persistent", "Ephemeral"
  ! spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes
  ! spec.tokenRequests[1].audience: Duplicate value: "a"
"#,
    );
    check(
        Kind::CSIDriver,
        &r#"
metadata: {name: <long>.csi}\nspec: {}
metadata: {name: A.b}\nspec: {}
  ! metadata.name: Invalid value: "A.b": <subdomain>
spec: {nodeAllocatableUpdatePeriodSeconds: 10, serviceAccountTokenInSecrets: true, tokenRequests: [{audience: a}]}
spec: {fsGroupPolicy: Any, nodeAllocatableUpdatePeriodSeconds: 9, serviceAccountTokenInSecrets: false}
  ! spec.fsGroupPolicy: Unsupported value: "Any": supported values: "File", "None", "ReadWriteOnceWithFSType"
  ! spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds
  ! spec.serviceAccountTokenInSecrets: Invalid value: false: serviceAccountTokenInSecrets is set but no tokenRequests are specified
"#
        .replace("<long>", &"a".repeat(63)),
    );
    check_change(
        Kind::CSIDriver,
        r#"
spec: {attachRequired: true}
-> spec: {attachRequired: false, volumeLifecycleModes: [Ephemeral]}
  ! spec.attachedRequired: Invalid value: false: field is immutable
  ! spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable
"#,
    );
}

#[test]
fn runtime_classes_keep_their_handler_api_17() {
    let class = object(Kind::RuntimeClass, "handler: kata\noverhead: {podFixed: {cpu: 0.5, memory: 1000}}")
        .to_value();
    assert_eq!(class["overhead"]["podFixed"], json!({"cpu": "500m", "memory": "1k"}));
    check(
        Kind::RuntimeClass,
        r#"
handler: runc
handler: Kata_1
  ! handler: Invalid value: "Kata_1": <dns-label>
handler: kata\noverhead: {podFixed: {cpu: -1, foo: 1}}
  ! overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0
  ! overhead.limits[foo]: Invalid value: "foo": must be a standard resource type or fully qualified
  ! overhead.limits[foo]: Invalid value: "foo": must be a standard resource for containers
handler: kata\nscheduling: {tolerations: [{key: a, operator: Exists}, {key: a, operator: Exists}, {key: a, operator: Is}]}
  ! scheduling.tolerations[1]: Duplicate value: {"key":"a","operator":"Exists"}
  ! scheduling.tolerations[2].operator: Unsupported value: "Is": supported values: "Equal", "Exists"
"#,
    );
    check_change(
        Kind::RuntimeClass,
        r#"
handler: a
-> handler: b
  ! handler: Invalid value: "b": field is immutable
"#,
    );
}

#[test]
fn addresses_and_their_ranges_are_written_in_one_way_api_17() {
    check(
        Kind::IPAddress,
        r#"
metadata: {name: '10.0.0.1'}\nspec: {parentRef: {resource: services, namespace: default, name: web}}
metadata: {name: 'fd00::1'}\nspec: {parentRef: {resource: gateways, group: a.b, name: web}}
metadata: {name: 'fd00:0::1'}\nspec: {parentRef: {resource: services, name: web}}
  ! metadata.name: Invalid value: "fd00:0::1": must be a canonical format IP address
metadata: {name: 'web'}\nspec: {parentRef: {resource: '', name: a/b}}
  ! metadata.name: Invalid value: "web": ParseAddr("web"): unable to parse IP
  ! spec.parentRef.resource: Required value
  ! spec.parentRef.name: Invalid value: "a/b": may not contain '/'
"#,
    );
    check(
        Kind::IPAddress,
        r"
metadata: {name: 10.0.0.1}\nspec: {}
  ! spec.parentRef: Required value
",
    );
    check(
        Kind::ServiceCIDR,
        r#"
spec: {cidrs: [10.0.0.0/24, 'fd00::/112']}
spec: {}
  ! spec.cidrs: Required value: at least one CIDR required
spec: {cidrs: [10.0.0.1/24, x]}
  ! spec.cidrs[0]: Invalid value: "10.0.0.1/24": must be in canonical form ("10.0.0.0/24")
  ! spec.cidrs[1]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
spec: {cidrs: [10.0.0.0/24, 10.1.0.0/24]}
  ! spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64
spec: {cidrs: [a, b, c]}
  ! spec.cidrs: Invalid value: {"cidrs":["a","b","c"]}: may only hold up to 2 values
"#,
    );
    check_change(
        Kind::ServiceCIDR,
        r#"
spec: {cidrs: [10.0.0.0/24]}
-> spec: {cidrs: [10.0.0.0/24, 'fd00::/112']}
spec: {cidrs: [10.0.0.0/24]}
-> spec: {cidrs: [10.1.0.0/24]}
  ! spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable
spec: {cidrs: [10.0.0.0/24, 'fd00::/112']}
-> spec: {cidrs: [10.0.0.0/24]}
  ! spec.cidrs: Invalid value: ["10.0.0.0/24"]: field is immutable
"#,
    );
}
