//! Validation of faults, and their columns.

use super::*;

#[test]
fn faults_of_the_network_need_a_type_and_two_peers_fault_1() {
    const ONE: &str = "must specify exactly one of node, nodeSelector, pod, podSelector with or without namespaceSelector, cidr";
    let both = format!("spec.from: Forbidden: {ONE}");
    let none = format!("spec.to: Required value: {ONE}");
    check::<Fault>(&[
        (
            "spec: {type: Partition, from: {node: a}, to: {nodeSelector: {matchLabels: {a: b}}}, duration: 1h30m}",
            &[],
        ),
        ("spec: {type: Loss, to: {pod: a, namespace: b}, loss: {perMille: 0}}", &[]),
        ("spec: {type: Loss, to: {podSelector: {}, namespaceSelector: {}}, loss: {perMille: 1000}}", &[]),
        ("spec: {type: Latency, from: {cidr: 'fd00::/64'}, latency: {delay: 10s, jitter: 0s}}", &[]),
        ("spec: {type: Rate, from: {node: a}, rate: {bytesPerSecond: 1000}, direction: OneWay}", &[]),
        ("spec: {type: Refuse, from: {node: a}}", &[]),
        ("spec: {}", &["spec.type: Required value", UNCHECKED]),
        (
            "spec: {type: Fire, from: {node: a}}",
            &[
                "spec.type: Unsupported value: \"Fire\": supported values: \"ClockSkew\", \"Crash\", \"Disk\", \"ImagePull\", \"Latency\", \"Loss\", \"OutOfMemory\", \"Partition\", \"Pause\", \"PowerOff\", \"Rate\", \"Refuse\", \"VolumeFull\", \"Webhook\"",
            ],
        ),
        (
            "spec: {type: Partition, from: {node: a}, target: {node: a}}",
            &["spec.target: Forbidden: may not be set for network faults"],
        ),
        ("spec: {type: Partition}", &["spec.from: Required value: must specify `from`, `to` or both"]),
        ("spec: {type: Partition, from: {node: a, cidr: 10.0.0.0/8}, to: {}}", &[&both, &none]),
        (
            "spec: {type: Partition, from: {node: a, namespace: b}, direction: Sideways, duration: 0s}",
            &[
                "spec.direction: Unsupported value: \"Sideways\": supported values: \"Both\", \"OneWay\"",
                "spec.from.namespace: Forbidden: may only be set with pod, or with podSelector and no namespaceSelector",
                "spec.duration: Invalid value: \"0s\": must be greater than 0",
            ],
        ),
        (
            "spec: {type: Latency, from: {cidr: here}, loss: {perMille: 1001}, duration: soon}",
            &[
                "spec.from.cidr: Invalid value: \"here\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                "spec.latency: Required value: must be set if `type` is Latency",
                "spec.loss: Forbidden: may only be set if `type` is Loss",
                "spec.loss.perMille: Invalid value: 1001: must be between 0 and 1000, inclusive",
                "spec.duration: Invalid value: \"soon\": must be a duration such as 30s or 1h30m",
            ],
        ),
        (
            "spec: {type: Latency, from: {node: a}, latency: {delay: '', jitter: 11s}}",
            &[
                "spec.latency.delay: Required value: must not be empty",
                "spec.latency.jitter: Invalid value: \"11s\": must be at most 10s",
            ],
        ),
        (
            "spec: {type: Rate, from: {node: a}, rate: {bytesPerSecond: 999}}",
            &[
                "spec.rate.bytesPerSecond: Invalid value: 999: must be between 1000 and 100000000000, inclusive",
            ],
        ),
        (
            "spec: {type: Refuse, from: {node: a}, refuse: {with: Silence}}",
            &[
                "spec.refuse.with: Unsupported value: \"Silence\": supported values: \"Prohibited\", \"Reset\", \"Unreachable\"",
            ],
        ),
    ]);
    check_change::<Fault>(&[
        (
            "spec: {type: Refuse, from: {node: a}}",
            "spec: {type: Refuse, from: {node: a}, refuse: {with: Reset}}",
            &[],
        ),
        (
            "spec: {type: Partition, from: {node: a}}",
            "spec: {type: Partition, from: {node: b}}",
            &["spec: Forbidden: field is immutable"],
        ),
    ]);
}

#[test]
fn faults_of_a_target_name_a_component_or_nodes_fault_1() {
    check::<Fault>(&[
        ("spec: {type: Crash, target: {component: kubelet, node: a}, duration: 30s}", &[]),
        ("spec: {type: Crash, target: {component: kubelet, nodeSelector: {matchLabels: {a: b}}}}", &[]),
        ("spec: {type: Crash, target: {component: scheduler}}", &[]),
        ("spec: {type: Pause, target: {component: controllers}}", &[]),
        ("spec: {type: Pause, target: {component: store}}", &[]),
        ("spec: {type: Pause, target: {component: job}}", &[]),
        ("spec: {type: PowerOff, target: {node: a}}", &[]),
        ("spec: {type: PowerOff, target: {nodeSelector: {}}}", &[]),
        ("spec: {type: Disk, target: {node: a}, disk: {failure: Full}}", &[]),
        ("spec: {type: Disk, target: {component: store}, disk: {failure: Slow, delay: 200ms}}", &[]),
        ("spec: {type: Disk, target: {component: store}, disk: {failure: Failing}, duration: 30s}", &[]),
        ("spec: {type: ClockSkew, target: {component: kubelet, node: a}, skew: {by: -5m}}", &[]),
        ("spec: {type: ClockSkew, target: {node: a}, skew: {by: 8760h}}", &[]),
        ("spec: {type: ClockSkew, target: {component: controllers}, skew: {by: 1s}}", &[]),
        ("spec: {type: OutOfMemory, target: {pod: a, namespace: b, container: c}}", &[]),
        ("spec: {type: OutOfMemory, target: {podSelector: {}}}", &[]),
        ("spec: {type: VolumeFull, target: {claim: a, namespace: b}, duration: 30s}", &[]),
        ("spec: {type: VolumeFull, target: {pod: a, volume: v, namespace: b}}", &[]),
        (
            "spec: {type: VolumeFull, target: {pod: a}}",
            &["spec.target: Required value: must specify claim, or pod and volume"],
        ),
        (
            "spec: {type: VolumeFull, target: {claim: a, pod: b, volume: c}}",
            &[
                "spec.target.pod: Forbidden: may not be set with `claim`",
                "spec.target.volume: Forbidden: may not be set with `claim`",
            ],
        ),
        (
            "spec: {type: OutOfMemory, target: {pod: a, volume: b}}",
            &["spec.target.volume: Forbidden: may not be set if `type` is OutOfMemory"],
        ),
        ("spec: {type: Webhook, target: {webhook: a.b}}", &[]),
        ("spec: {type: ImagePull, image: {delay: 30s, failing: true, pattern: '*/web:*'}}", &[]),
        ("spec: {type: ImagePull, target: {node: a}, image: {failing: true}}", &[]),
        ("spec: {type: Crash}", &["spec.target: Required value: must specify a component"]),
        (
            "spec: {type: Crash, target: {component: kubelet}}",
            &["spec.target: Required value: must specify node or nodeSelector for the kubelet"],
        ),
        (
            "spec: {type: Crash, target: {component: kubelet, node: a, nodeSelector: {}}}",
            &["spec.target.nodeSelector: Forbidden: may not be set with the name"],
        ),
        (
            "spec: {type: Crash, target: {component: scheduler, node: a}}",
            &[
                "spec.target.node: Forbidden: may only be set with the component kubelet, or without a component if `type` is Disk or ClockSkew",
            ],
        ),
        (
            "spec: {type: Crash, target: {component: store}}",
            &[
                "spec.target.component: Invalid value: the store is part of the control plane and cannot crash alone",
            ],
        ),
        (
            "spec: {type: Pause, target: {component: A_b}, from: {node: a}, direction: Both}",
            &[
                "spec.from: Forbidden: may only be set for network faults",
                "spec.direction: Forbidden: may only be set for network faults",
                "spec.target.component: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        (
            "spec: {type: PowerOff, target: {pod: a, component: kubelet}}",
            &[
                "spec.target.component: Forbidden: may not be set if `type` is PowerOff",
                "spec.target.pod: Forbidden: may not be set if `type` is PowerOff",
            ],
        ),
        ("spec: {type: PowerOff}", &["spec.target: Required value: must specify node or nodeSelector"]),
        (
            "spec: {type: Disk, target: {component: scheduler}, disk: {failure: Wet}}",
            &[
                "spec.target.component: Invalid value: must be store if `type` is Disk; for a kubelet's disk, specify its node",
                "spec.disk.failure: Unsupported value: \"Wet\": supported values: \"Failing\", \"Full\", \"Slow\"",
            ],
        ),
        (
            "spec: {type: Disk, target: {component: store}, disk: {failure: Full, delay: 1s}}",
            &[
                "spec.duration: Required value: must be set if the store refuses writes: it would also refuse to delete the fault",
                "spec.disk.delay: Forbidden: may only be set if `failure` is Slow",
            ],
        ),
        (
            "spec: {type: Disk, target: {component: store}, disk: {failure: Full}, duration: 61m}",
            &["spec.duration: Invalid value: must be at most 1h if the store refuses writes"],
        ),
        (
            "spec: {type: Disk, target: {node: a}, disk: {failure: Slow}, skew: {by: 0s}}",
            &[
                "spec.skew: Forbidden: may only be set if `type` is ClockSkew",
                "spec.disk.delay: Required value: must be set if `failure` is Slow",
                "spec.skew.by: Invalid value: \"0s\": must not be 0",
            ],
        ),
        (
            "spec: {type: Disk, target: {node: a}, disk: {failure: Slow, delay: 61s}}",
            &["spec.disk.delay: Invalid value: \"61s\": must be at most 1m0s"],
        ),
        (
            "spec: {type: ClockSkew, target: {component: job}, skew: {by: -8761h}}",
            &[
                "spec.target.component: Invalid value: all controllers share one clock: specify controllers",
                "spec.skew.by: Invalid value: \"-8761h\": must be between -8760h and 8760h (one year)",
            ],
        ),
        (
            "spec: {type: OutOfMemory, target: {webhook: a}, duration: 1s}",
            &[
                "spec.duration: Forbidden: may not be set if `type` is OutOfMemory: the fault happens once",
                "spec.target.webhook: Forbidden: may not be set if `type` is OutOfMemory",
                "spec.target: Required value: must specify pod or podSelector",
            ],
        ),
        (
            "spec: {type: VolumeFull, target: {namespace: b}}",
            &["spec.target: Required value: must specify claim, or pod and volume"],
        ),
        (
            "spec: {type: VolumeFull, target: {claim: A, node: a}}",
            &[
                "spec.target.node: Forbidden: may not be set if `type` is VolumeFull",
                "spec.target.claim: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        (
            "spec: {type: OutOfMemory, target: {pod: a, claim: b}}",
            &["spec.target.claim: Forbidden: may not be set if `type` is OutOfMemory"],
        ),
        ("spec: {type: Webhook, target: {}}", &["spec.target: Required value: must specify webhook"]),
        (
            "spec: {type: ImagePull, image: {delay: 0s, pattern: ''}}",
            &[
                "spec.image.delay: Invalid value: \"0s\": must be greater than 0",
                "spec.image.pattern: Required value: must not be empty",
            ],
        ),
        (
            "spec: {type: ImagePull, image: {failing: false}}",
            &["spec.image: Required value: must specify delay, failing or both"],
        ),
    ]);
}

#[test]
fn the_selectors_of_faults_are_label_selectors_fault_1() {
    const AT: &str = "spec.from.podSelector.matchExpressions[0]";
    let api = api();
    let errors = |requirement: &str| {
        let selector = format!("{{matchExpressions: [{requirement}]}}");
        errors_of::<Fault>(&api, &format!("spec: {{type: Partition, from: {{podSelector: {selector}}}}}"))
    };
    for (requirement, expected) in [
        ("{key: a.b/c, operator: In, values: [d]}", None),
        ("{key: a, operator: Exists}", None),
        (
            "{key: a, operator: In}",
            Some("values: Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        ),
        (
            "{key: a, operator: DoesNotExist, values: [b]}",
            Some("values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
        ),
        (
            "{key: a, operator: Like}",
            Some("operator: Invalid value: \"Like\": not a valid selector operator"),
        ),
    ] {
        let expected: Vec<String> = expected.iter().map(|error| format!("{AT}.{error}")).collect();
        assert_eq!(errors(requirement), expected, "{requirement}");
    }
    for (requirement, at) in [
        ("{key: 'a b', operator: Exists}", "key: Invalid value: \"a b\": name part must consist of"),
        ("{key: a, operator: In, values: ['-']}", "values[0]: Invalid value: \"-\": a valid label must be"),
    ] {
        let found = errors(requirement);
        assert!(found.len() == 1 && found[0].starts_with(&format!("{AT}.{at}")), "{found:?}");
    }
    let labels =
        errors_of::<Fault>(&api, "spec: {type: Partition, from: {nodeSelector: {matchLabels: {a: '-'}}}}");
    assert!(
        labels[0].starts_with("spec.from.nodeSelector.matchLabels[a]: Invalid value: \"-\""),
        "{labels:?}"
    );
}
