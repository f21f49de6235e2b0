//! Cases of resources: huge pages, devices, and requests of whole pods.

use super::*;

#[test]
fn huge_pages_are_whole_limited_and_not_alone_api_8() {
    let resources = |text: &str| format!("resources: {{{text}}}");
    check_container(&[
        (&resources("limits: {hugepages-2Mi: 4Mi, memory: 1Gi}"), &[]),
        (&resources("limits: {hugepages-2Mi: 4Mi}, requests: {cpu: 1}"), &[]),
        (
            &resources("limits: {hugepages-2Mi: 4Mi}"),
            &["resources: Forbidden: HugePages require cpu or memory"],
        ),
        (
            &resources("limits: {hugepages-2Mi: 3Mi, cpu: 1}"),
            &[
                "resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                "resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            ],
        ),
        (
            &resources("requests: {hugepages-2Mi: 2Mi, cpu: 1}"),
            &["resources.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
        (
            &resources("limits: {hugepages-2Mi: 4Mi, cpu: 1}, requests: {hugepages-2Mi: 2Mi}"),
            &["resources.requests: Invalid value: \"2Mi\": must be equal to hugepages-2Mi limit of 4Mi"],
        ),
        (
            &resources("limits: {pods: 1}"),
            &[
                "resources.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers",
                "resources.requests[pods]: Invalid value: \"pods\": must be a standard resource for containers",
            ],
        ),
    ]);
}

#[test]
fn claims_of_devices_are_the_pods_own_api_8() {
    let pod = |claims: &str, used: &str| {
        format!(
            "spec: {{resourceClaims: [{claims}], containers: [{{name: c, image: i, resources: {{claims: [{used}]}}}}]}}"
        )
    };
    let (one, at) = ("{name: a, resourceClaimName: c}", "spec.containers[0].resources.claims");
    for (text, expected) in [
        (pod(one, "{name: a}"), vec![]),
        (pod(one, "{name: a, request: x}, {name: a, request: z}"), vec![]),
        (pod("{name: a, resourceClaimTemplateName: t}", ""), vec![]),
        (
            pod(one, "{name: b}"),
            vec![format!("{at}[0]: Not found: \"b\": must be one of the names in pod.spec.resourceClaims: a")],
        ),
        (
            pod("", "{name: b}"),
            vec![format!("{at}[0]: Not found: \"b\": must be one of the names in pod.spec.resourceClaims which is empty")],
        ),
        (pod(one, "{name: a}, {name: a}"), vec![format!("{at}[1]: Duplicate value: \"a\"")]),
        (pod(one, "{name: a, request: x}, {name: a}"), vec![format!("{at}[1]: Duplicate value: \"a\"")]),
        (pod(one, "{name: a, request: x}, {name: a, request: x}"), vec![format!("{at}[1]: Duplicate value: \"a/x\"")]),
        (
            pod(&format!("{one}, {one}"), ""),
            vec!["spec.resourceClaims[1].name: Duplicate value: \"a\"".into()],
        ),
        (
            pod("{name: a, resourceClaimName: c, resourceClaimTemplateName: t}", ""),
            vec!["spec.resourceClaims[0]: Invalid value: {\"name\":\"a\",\"resourceClaimName\":\"c\",\"resourceClaimTemplateName\":\"t\"}: at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified".into()],
        ),
        (
            pod("{name: a}", ""),
            vec!["spec.resourceClaims[0]: Invalid value: {\"name\":\"a\"}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`".into()],
        ),
    ] {
        assert_eq!(messages(&validate_create(&object(Kind::Pod, &text))), expected, "{text}");
    }
}

#[test]
fn no_container_asks_for_more_than_its_pod_api_8() {
    let pod = |of_pod: &str, of_container: &str| {
        format!(
            "spec: {{resources: {{{of_pod}}}, containers: [{{name: c, image: i, resources: {{{of_container}}}}}]}}"
        )
    };
    for (text, expected) in [
        (pod("limits: {cpu: 2}, requests: {cpu: 1}", "limits: {cpu: 2}, requests: {cpu: 1}"), vec![]),
        (
            pod("limits: {cpu: 2}, requests: {cpu: 1}", "limits: {cpu: 3}, requests: {cpu: 1}"),
            vec![
                "spec.resources.containers[0][cpu].limits: Invalid value: \"3\": must be less than or equal to pod limits of 2",
            ],
        ),
        (
            pod("requests: {memory: 1Gi}", "requests: {memory: 2Gi}"),
            vec![
                "spec.resources.requests[memory]: Invalid value: \"1Gi\": must be greater than or equal to aggregate container requests of 2Gi",
            ],
        ),
        (
            pod("requests: {cpu: 2}, limits: {cpu: 1}", ""),
            vec![
                "spec.resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            ],
        ),
        (
            pod("limits: {ephemeral-storage: 1}", ""),
            vec![
                "spec.resources.limits[ephemeral-storage]: Unsupported value: \"ephemeral-storage\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
            ],
        ),
        (
            pod("claims: [{name: a}]", ""),
            vec!["spec.resources.claims: Forbidden: claims cannot be set for Resources at pod-level"],
        ),
    ] {
        assert_eq!(messages(&validate_create(&object(Kind::Pod, &text))), expected, "{text}");
    }
}

#[test]
fn names_and_rules_of_pods_have_bounds_api_8() {
    let name = |length: usize| format!("hostnameOverride: {}", "a".repeat(length));
    check_pod(&[
        ("hostnameOverride: a.example.com", &[]),
        ("hostnameOverride: A", &[&format!("spec.hostnameOverride: Invalid value: \"A\": {SUBDOMAIN}")]),
        (&name(64), &[]),
        (&name(65), &["spec.hostnameOverride: Too long: may not be more than 64 bytes"]),
        (
            "hostnameOverride: a\nsetHostnameAsFQDN: true",
            &["spec.setHostnameAsFQDN: Forbidden: may not be true when `hostnameOverride` is set"],
        ),
        ("dnsConfig: {searches: [_tcp.example.com, ., example.com.]}", &[]),
        (
            "dnsPolicy: None\ndnsConfig: {}",
            &[
                "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
            ],
        ),
    ]);
    let rule = |text: &str| format!("restartPolicy: Never\nrestartPolicyRules: [{text}]");
    check_container(&[
        (&rule("{action: Restart, exitCodes: {operator: In, values: [3]}}"), &[]),
        (&rule("{action: RestartAllContainers, exitCodes: {operator: NotIn, values: [0]}}"), &[]),
        (
            "restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [3]}}]",
            &["restartPolicy: Required value: must specify restartPolicy when restart rules are used"],
        ),
        (
            &rule("{action: Stop}"),
            &[
                "restartPolicyRules[0].action: Unsupported value: \"Stop\": supported values: \"Restart\", \"RestartAllContainers\"",
                "restartPolicyRules[0].exitCodes: Required value: must be specified",
            ],
        ),
        (
            &rule("{action: Restart, exitCodes: {operator: Equals, values: [3]}}"),
            &[
                "restartPolicyRules[0].exitCodes.operator: Unsupported value: \"Equals\": supported values: \"In\", \"NotIn\"",
            ],
        ),
    ]);
    let env = |from: &str| format!("env: [{{name: A, valueFrom: {{{from}}}}}]");
    check_container(&[
        (&env("resourceFieldRef: {resource: limits.hugepages-2Mi, divisor: 1Mi}"), &[]),
        (&env("resourceFieldRef: {resource: limits.cpu, divisor: 1m}"), &[]),
        (
            &env("resourceFieldRef: {resource: limits.cpu, divisor: 2}"),
            &[
                "env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
            ],
        ),
        (&env("fileKeyRef: {volumeName: v, path: a/b, key: K}"), &[]),
        (
            &env("fileKeyRef: {path: /a}"),
            &[
                "env[0].valueFrom.fileKeyRef.key: Required value",
                "env[0].valueFrom.fileKeyRef.volumeName: Required value",
                "env[0].valueFrom.fileKeyRef.path: Invalid value: \"/a\": must be a relative path",
            ],
        ),
    ]);
}
