//! Validation of ingresses, ingress classes and network policies, and of webhooks, API services and drivers.

use super::*;

#[test]
fn ingresses_say_where_each_path_goes_api_17() {
    let spec = |rules: &str| format!("spec:\n  rules:\n  - {}", rules.replace('\n', "\n    "));
    let backend = "backend: {service: {name: s, port: {number: 80}}}";
    let path = |text: &str| spec(&format!("http:\n  paths:\n  - {{{text}}}"));
    let at = |text: &str| format!("spec.rules[0].http.paths[0].{text}");
    for (text, expected) in [
        (path(&format!("path: /, pathType: Prefix, {backend}")), vec![]),
        (path(&format!("pathType: ImplementationSpecific, {backend}")), vec![]),
        (
            "spec: {}".into(),
            vec!["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified".to_string()],
        ),
        (spec("host: '*.example.com'"), vec![]),
        (
            spec("host: 10.0.0.1"),
            vec!["spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address".into()],
        ),
        (spec("http: {paths: []}"), vec!["spec.rules[0].http.paths: Required value".into()]),
        (
            path(&format!("path: /a, pathType: '', {backend}")),
            vec![at("pathType: Required value: pathType must be specified")],
        ),
        (
            path("path: /a, pathType: ''"),
            vec![at("pathType: Required value: pathType must be specified")],
        ),
        (
            path(&format!("path: a//b, pathType: Exact, {backend}")),
            vec![
                at("path: Invalid value: \"a//b\": must be an absolute path"),
                at("path: Invalid value: \"a//b\": must not contain '//'"),
            ],
        ),
        (
            path(&format!("path: /a/.., pathType: Prefix, {backend}")),
            vec![at("path: Invalid value: \"/a/..\": cannot end with '/..'")],
        ),
        (
            path(&format!("path: /, pathType: Regex, {backend}")),
            vec![at(
                "pathType: Unsupported value: \"Regex\": supported values: \"Exact\", \"ImplementationSpecific\", \"Prefix\"",
            )],
        ),
        (
            path("path: /, pathType: Prefix, backend: {}"),
            vec![at("backend: Invalid value: \"\": resource or service backend is required")],
        ),
        (
            path("path: /, pathType: Prefix, backend: {service: {name: s, port: {}}}"),
            vec![at("backend: Required value: port name or number is required")],
        ),
        (
            path("path: /, pathType: Prefix, backend: {service: {name: s, port: {name: http, number: 1}}}"),
            vec![at("backend: Invalid value: \"\": cannot set both port name & port number")],
        ),
        (
            path("path: /, pathType: Prefix, backend: {resource: {kind: '', name: a/b}}"),
            vec![
                at("backend.resource.kind: Required value"),
                at("backend.resource.name: Invalid value: \"a/b\": may not contain '/'"),
            ],
        ),
        (
            "metadata: {annotations: {kubernetes.io/ingress.class: a}}\nspec: {ingressClassName: b, defaultBackend: {service: {name: s, port: {name: p}}}}".into(),
            vec!["annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when both are specified".into()],
        ),
    ] {
        assert_eq!(messages(&validate_create(&object(Kind::Ingress, &text))), expected, "{text}");
    }
    check_status(
        Kind::Ingress,
        &[(
            "{}",
            "status: {loadBalancer: {ingress: [{ip: x}, {hostname: 10.0.0.1}, {ip: 10.0.0.1}, {hostname: '*.a.b'}, {hostname: a.b}]}}",
            &[
                "status.loadBalancer.ingress[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "status.loadBalancer.ingress[1].hostname: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
                &format!("status.loadBalancer.ingress[3].hostname: Invalid value: \"*.a.b\": {SUBDOMAIN}"),
            ],
        )],
    );
}

#[test]
fn ingress_classes_keep_their_controller_api_17() {
    check(
        Kind::IngressClass,
        &[
            ("spec: {controller: example.com/ingress, parameters: {kind: K, name: p}}", &[]),
            ("spec: {}", &["spec.controller: Required value"]),
            (
                "spec: {controller: nginx}",
                &[
                    "spec.controller: Invalid value: \"nginx\": must be a domain-prefixed path (such as \"acme.io/foo\")",
                ],
            ),
            (
                "spec: {controller: a.b/c, parameters: {kind: K, name: p, scope: Namespace}}",
                &["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
            ),
            (
                "spec: {controller: a.b/c, parameters: {kind: K, name: p, scope: Namespace, namespace: ''}}",
                &[&format!("spec.parameters.namespace: Invalid value: \"\": {DNS_LABEL}")],
            ),
            (
                "spec: {controller: 'A.b/c d'}",
                &[
                    &format!("spec.controller: Invalid value: \"A.b\": {SUBDOMAIN}"),
                    "spec.controller: Invalid value: \"c d\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
                ],
            ),
            (
                "spec: {controller: a.b/c, parameters: {kind: K, name: p, namespace: x}}",
                &["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
            ),
        ],
    );
    check_change(
        Kind::IngressClass,
        &[(
            "spec: {controller: a.b/c}",
            "spec: {controller: a.b/d}",
            &["spec.controller: Invalid value: \"a.b/d\": field is immutable"],
        )],
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
        &[
            ("spec: {podSelector: {}}", &[]),
            (
                "spec: {podSelector: {}, ingress: [{from: [{}, {ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}]}",
                &[
                    "spec.ingress[0].from[0]: Required value: must specify a peer",
                    "spec.ingress[0].from[1]: Forbidden: may not specify both ipBlock and another peer",
                ],
            ),
            (
                "spec: {podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 11.0.0.0/16, 10.0.0.0/8]}}, {ipBlock: {cidr: x}}]}]}",
                &[
                    "spec.egress[0].to[0].ipBlock.except[1]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
                    "spec.egress[0].to[0].ipBlock.except[2]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
                    "spec.egress[0].to[1].ipBlock.cidr: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                ],
            ),
            (
                "spec: {podSelector: {}, ingress: [{ports: [{protocol: ICMP}, {port: 9, endPort: 8}, {port: web, endPort: 9}, {endPort: 9}]}]}",
                &[
                    "spec.ingress[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
                    "spec.ingress[0].ports[1].endPort: Invalid value: 8: must be greater than or equal to `port`",
                    "spec.ingress[0].ports[2].endPort: Invalid value: 9: may not be specified when `port` is non-numeric",
                    "spec.ingress[0].ports[3].endPort: Invalid value: 9: may not be specified when `port` is not specified",
                ],
            ),
            (
                "spec: {podSelector: {}, policyTypes: [Egress, Both]}",
                &[
                    "spec.policyTypes[1]: Unsupported value: \"Both\": supported values: \"Ingress\", \"Egress\"",
                ],
            ),
        ],
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
        for (text, expected) in [
            (good.to_string(), vec![]),
            (format!("{good}}}, {{{good}"), vec!["webhooks[1].name: Duplicate value: \"a.b.c\""]),
            (
                good.replace("a.b.c", "a.b"),
                vec![
                    "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
                ],
            ),
            (
                good.replace("None", "Some").replace("[v1]", "[v9]"),
                vec![
                    "webhooks[0].admissionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1",
                    "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
                ],
            ),
            (
                format!("{good}, timeoutSeconds: 31, failurePolicy: Maybe"),
                vec![
                    "webhooks[0].failurePolicy: Unsupported value: \"Maybe\": supported values: \"Fail\", \"Ignore\"",
                    "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                ],
            ),
            (
                good.replace("{service: {name: s, namespace: p}}", "{url: 'http://x/y'}"),
                vec![
                    "webhooks[0].clientConfig.url: Invalid value: \"http://x/y\": 'https' is the only allowed URL scheme; got \"http\"; desired format: https://host[/path]",
                ],
            ),
            (
                good.replace("{service: {name: s, namespace: p}}", "{}"),
                vec!["webhooks[0].clientConfig: Required value: exactly one of url or service is required"],
            ),
            (
                format!(
                    "{good}, rules: [{{operations: ['*', CREATE], apiGroups: [], apiVersions: [v1], resources: [pods]}}]"
                ),
                vec![
                    "webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations",
                    "webhooks[0].rules[0].apiGroups: Required value",
                ],
            ),
        ] {
            let object = object(kind, &format!("webhooks: [{{{text}}}]"));
            assert_eq!(messages(&validate_create(&object)), expected, "{text}");
        }
    }
}

#[test]
fn the_names_versions_and_paths_of_webhooks_are_well_formed_api_17() {
    let label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let webhook = |name: &str, versions: &str, path: &str| {
        format!(
            "webhooks: [{{name: '{name}', sideEffects: None, admissionReviewVersions: [{versions}], clientConfig: {{service: {{name: s, namespace: p, path: '{path}'}}}}}}]"
        )
    };
    let path = |given: &str, detail: &str| {
        vec![format!("webhooks[0].clientConfig.service.path: Invalid value: \"{given}\": {detail}")]
    };
    for (text, expected) in [
        (webhook("a.b.c", "v1, v1beta1, v2", "/a/b.c/"), vec![]),
        (webhook("A.b", "v1", ""), vec![format!("webhooks[0].name: Invalid value: \"A.b\": {SUBDOMAIN}")]),
        (
            webhook("a.b.c", "v1, v1, V2", "/"),
            vec![
                "webhooks[0].admissionReviewVersions[1]: Invalid value: \"v1\": duplicate version"
                    .to_string(),
                format!("webhooks[0].admissionReviewVersions[2]: Invalid value: \"V2\": {label}"),
            ],
        ),
        (webhook("a.b.c", "v1", "//"), path("//", "segment[0] may not be empty")),
        (webhook("a.b.c", "v1", "/a//b"), path("/a//b", "segment[1] may not be empty")),
        (webhook("a.b.c", "v1", "/a/B_c"), path("/a/B_c", &format!("segment[1]: {SUBDOMAIN}"))),
        (webhook("a.b.c", "v1", "xa/b"), path("xa/b", "must start with a '/'")),
    ] {
        let object = object(Kind::ValidatingWebhookConfiguration, &text);
        assert_eq!(messages(&validate_create(&object)), expected, "{text}");
    }
}

#[test]
fn the_rules_of_webhooks_name_nothing_that_a_wildcard_means_api_17() {
    let rule = |groups: &str, versions: &str, resources: &str| {
        format!(
            "webhooks: [{{name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {{url: 'https://a'}}, rules: [{{operations: [CREATE], apiGroups: [{groups}], apiVersions: [{versions}], resources: [{resources}]}}]}}]"
        )
    };
    let of = |resources: &str| rule("''", "v1", resources);
    for (text, expected) in [
        (of("pods, pods/status, '*/scale'"), vec![]),
        (of("'*', pods/status"), vec![]),
        (of("'*/*'"), vec![]),
        (of(""), vec!["resources: Required value"]),
        (of("pods, ''"), vec!["resources[1]: Required value"]),
        (
            of("pods/*, pods/status"),
            vec![
                "resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
            ],
        ),
        (
            of("'*/status', pods/status"),
            vec![
                "resources[1]: Invalid value: \"pods/status\": if '*/status' is present, must not specify pods/status",
            ],
        ),
        (
            of("'*/*', pods"),
            vec![
                "resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources",
            ],
        ),
        (
            of("'*', pods"),
            vec![
                "resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
            ],
        ),
        (
            rule("'*', apps", "'*', ''", "pods"),
            vec![
                "apiGroups: Invalid value: [\"*\",\"apps\"]: if '*' is present, must not specify other API groups",
                "apiVersions: Invalid value: [\"*\",\"\"]: if '*' is present, must not specify other API versions",
                "apiVersions[1]: Required value",
            ],
        ),
    ] {
        let object = object(Kind::MutatingWebhookConfiguration, &text);
        let expected: Vec<_> = expected.iter().map(|e| format!("webhooks[0].rules[0].{e}")).collect();
        assert_eq!(messages(&validate_create(&object)), expected, "{text}");
    }
}

#[test]
fn mutating_policies_do_not_match_deletions_api_17() {
    let of = |field: &str, operations: &str| {
        format!(
            "{field}: {{resourceRules: [{{apiGroups: [''], apiVersions: [v1], operations: [{operations}], resources: [pods]}}]}}"
        )
    };
    let policy = |operations: &str| {
        format!(
            "spec: {{reinvocationPolicy: Never, mutations: [{{patchType: JSONPatch, jsonPatch: {{expression: '[]'}}}}], {}}}",
            of("matchConstraints", operations)
        )
    };
    let binding = |operations: &str| format!("spec: {{policyName: p, {}}}", of("matchResources", operations));
    let detail =
        "Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"";
    check(
        Kind::MutatingAdmissionPolicy,
        &[
            (&policy("CREATE, UPDATE, CONNECT"), &[]),
            (&policy("'*'"), &[]),
            (&policy("DELETE"), &[&format!("spec.matchConstraints.resourceRules.operations: {detail}")]),
            (
                &policy("CREATE")
                    .replace("{patchType", "{applyConfiguration: {expression: 'Object{}'}, patchType"),
                &[
                    "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
                ],
            ),
        ],
    );
    check(
        Kind::MutatingAdmissionPolicyBinding,
        &[
            (&binding("CREATE"), &[]),
            (&binding("DELETE"), &[&format!("spec.matchResources.resourceRules.operations: {detail}")]),
        ],
    );
}

#[test]
fn audit_annotations_and_messages_of_a_validating_policy_have_bounds_api_17() {
    let policy = |annotations: &str| {
        format!(
            "spec: {{matchConstraints: {{resourceRules: [{{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}}]}}, auditAnnotations: [{annotations}]}}"
        )
    };
    let note = |key: &str, expression: &str| format!("{{key: {key}, valueExpression: \"{expression}\"}}");
    let long = format!("'{}'", "x".repeat(5 * 1024));
    let many: Vec<String> = (0..21).map(|i| note(&format!("k{i}"), "'v'")).collect();
    check(
        Kind::ValidatingAdmissionPolicy,
        &[
            (&policy(&note("a", "'v'")), &[]),
            (
                &policy(&note("a", &long)),
                &[
                    "spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length",
                ],
            ),
            (
                &policy(&many.join(", ")),
                &["spec.auditAnnotations: Invalid value: must not have more than 20 auditAnnotations"],
            ),
        ],
    );
    check_status(
        Kind::ValidatingAdmissionPolicy,
        &[(
            "",
            "status: {typeChecking: {expressionWarnings: [{fieldRef: ' ', warning: ''}]}, conditions: [{type: A, status: 'True', reason: '', message: '', lastTransitionTime: '2026-11-21T00:00:00Z'}]}",
            &[
                "status.typeChecking.expressionWarnings[0].warning: Required value",
                "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
                "status.conditions[0].reason: Required value: must be set",
            ],
        )],
    );
}

#[test]
fn api_services_are_named_by_group_and_version_api_17() {
    let named = |name: &str, spec: &str| format!("metadata: {{name: {name}}}\nspec: {{{spec}}}");
    let good = "group: a.b, version: v1, groupPriorityMinimum: 100, versionPriority: 10";
    for (text, expected) in [
        (named("v1.a.b", good), vec![]),
        (
            named("x", good),
            vec!["metadata.name: Invalid value: \"x\": must be `spec.version+\".\"+spec.group`: \"v1.a.b\""],
        ),
        (
            named("v1.a.b", "group: a.b, version: v1, versionPriority: 1001"),
            vec![
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
            ],
        ),
        (
            named("v1.a.b", &format!("{good}, insecureSkipTLSVerify: true")),
            vec![
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ],
        ),
        (
            named("v1.a.b", &format!("{good}, service: {{name: s}}")),
            vec!["spec.service.namespace: Required value"],
        ),
    ] {
        assert_eq!(messages(&validate_create(&object(Kind::APIService, &text))), expected, "{text}");
    }
}

#[test]
fn drivers_of_volumes_say_what_they_can_api_17() {
    let driver = object(Kind::CSIDriver, "metadata: {name: a.b}\nspec: {}").to_value();
    assert_eq!(driver["spec"]["volumeLifecycleModes"], json!(["Persistent"]));
    assert_eq!(driver["spec"]["fsGroupPolicy"], "ReadWriteOnceWithFSType");
    check(
        Kind::CSIDriver,
        &[
            ("spec: {}", &[]),
            (
                "spec: {volumeLifecycleModes: [Always], tokenRequests: [{audience: a, expirationSeconds: 1}, {audience: a}]}",
                &[
                    "spec.volumeLifecycleModes: Unsupported value: \"Always\": supported values: \"Persistent\", \"Ephemeral\"",
                    "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
                    "spec.tokenRequests[1].audience: Duplicate value: \"a\"",
                ],
            ),
        ],
    );
    let name = |name: &str| format!("metadata: {{name: {name}}}\nspec: {{}}");
    check(
        Kind::CSIDriver,
        &[
            (&name(&format!("{}.csi", "a".repeat(63))), &[]),
            (&name("A.b"), &[&format!("metadata.name: Invalid value: \"A.b\": {SUBDOMAIN}")]),
            (
                "spec: {nodeAllocatableUpdatePeriodSeconds: 10, serviceAccountTokenInSecrets: true, tokenRequests: [{audience: a}]}",
                &[],
            ),
            (
                "spec: {fsGroupPolicy: Any, nodeAllocatableUpdatePeriodSeconds: 9, serviceAccountTokenInSecrets: false}",
                &[
                    "spec.fsGroupPolicy: Unsupported value: \"Any\": supported values: \"File\", \"None\", \"ReadWriteOnceWithFSType\"",
                    "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
                    "spec.serviceAccountTokenInSecrets: Invalid value: false: serviceAccountTokenInSecrets is set but no tokenRequests are specified",
                ],
            ),
        ],
    );
    check_change(
        Kind::CSIDriver,
        &[(
            "spec: {attachRequired: true}",
            "spec: {attachRequired: false, volumeLifecycleModes: [Ephemeral]}",
            &[
                "spec.attachedRequired: Invalid value: false: field is immutable",
                "spec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: field is immutable",
            ],
        )],
    );
}

#[test]
fn runtime_classes_keep_their_handler_api_17() {
    let class = object(Kind::RuntimeClass, "handler: kata\noverhead: {podFixed: {cpu: 0.5, memory: 1000}}")
        .to_value();
    assert_eq!(class["overhead"]["podFixed"], json!({"cpu": "500m", "memory": "1k"}));
    check(
        Kind::RuntimeClass,
        &[
            ("handler: runc", &[]),
            ("handler: Kata_1", &[&format!("handler: Invalid value: \"Kata_1\": {DNS_LABEL}")]),
            (
                "handler: kata\noverhead: {podFixed: {cpu: -1, foo: 1}}",
                &[
                    "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                    "overhead.limits[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
                    "overhead.limits[foo]: Invalid value: \"foo\": must be a standard resource for containers",
                ],
            ),
            (
                "handler: kata\nscheduling: {tolerations: [{key: a, operator: Exists}, {key: a, operator: Exists}, {key: a, operator: Is}]}",
                &[
                    "scheduling.tolerations[1]: Duplicate value: {\"key\":\"a\",\"operator\":\"Exists\"}",
                    "scheduling.tolerations[2].operator: Unsupported value: \"Is\": supported values: \"Equal\", \"Exists\"",
                ],
            ),
        ],
    );
    check_change(
        Kind::RuntimeClass,
        &[("handler: a", "handler: b", &["handler: Invalid value: \"b\": field is immutable"])],
    );
}

#[test]
fn addresses_and_their_ranges_are_written_in_one_way_api_17() {
    let of =
        |name: &str, rest: &str| format!("metadata: {{name: '{name}'}}\nspec: {{parentRef: {{{rest}}}}}");
    for (text, expected) in [
        (of("10.0.0.1", "resource: services, namespace: default, name: web"), vec![]),
        (of("fd00::1", "resource: gateways, group: a.b, name: web"), vec![]),
        (
            of("fd00:0::1", "resource: services, name: web"),
            vec!["metadata.name: Invalid value: \"fd00:0::1\": must be a canonical format IP address"],
        ),
        (
            of("web", "resource: '', name: a/b"),
            vec![
                "metadata.name: Invalid value: \"web\": ParseAddr(\"web\"): unable to parse IP",
                "spec.parentRef.resource: Required value",
                "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
    ] {
        assert_eq!(messages(&validate_create(&object(Kind::IPAddress, &text))), expected, "{text}");
    }
    check(Kind::IPAddress, &[("metadata: {name: 10.0.0.1}\nspec: {}", &["spec.parentRef: Required value"])]);
    check(
        Kind::ServiceCIDR,
        &[
            ("spec: {cidrs: [10.0.0.0/24, 'fd00::/112']}", &[]),
            ("spec: {}", &["spec.cidrs: Required value: at least one CIDR required"]),
            (
                "spec: {cidrs: [10.0.0.1/24, x]}",
                &[
                    "spec.cidrs[0]: Invalid value: \"10.0.0.1/24\": must be in canonical form (\"10.0.0.0/24\")",
                    "spec.cidrs[1]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                ],
            ),
            (
                "spec: {cidrs: [10.0.0.0/24, 10.1.0.0/24]}",
                &[
                    "spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
                ],
            ),
            (
                "spec: {cidrs: [a, b, c]}",
                &["spec.cidrs: Invalid value: {\"cidrs\":[\"a\",\"b\",\"c\"]}: may only hold up to 2 values"],
            ),
        ],
    );
    check_change(
        Kind::ServiceCIDR,
        &[
            ("spec: {cidrs: [10.0.0.0/24]}", "spec: {cidrs: [10.0.0.0/24, 'fd00::/112']}", &[]),
            (
                "spec: {cidrs: [10.0.0.0/24]}",
                "spec: {cidrs: [10.1.0.0/24]}",
                &["spec.cidrs[0]: Invalid value: \"10.1.0.0/24\": field is immutable"],
            ),
            (
                "spec: {cidrs: [10.0.0.0/24, 'fd00::/112']}",
                "spec: {cidrs: [10.0.0.0/24]}",
                &["spec.cidrs: Invalid value: [\"10.0.0.0/24\"]: field is immutable"],
            ),
        ],
    );
}
