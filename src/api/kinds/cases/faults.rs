//! Faults: what is broken on purpose.

use super::*;

#[test]
fn faults_say_what_is_broken_between_whom_fault_1() {
    const ONE: &str = "must specify exactly one of node, nodeSelector, pod, podSelector with or without namespaceSelector, cidr";
    let both = format!("spec.from: Forbidden: {ONE}");
    let none = format!("spec.to: Required value: {ONE}");
    check(
        Kind::Fault,
        &[
            (
                "spec: {type: Partition, from: {node: a}, to: {nodeSelector: {matchLabels: {a: b}}}, duration: 1h30m}",
                &[],
            ),
            ("spec: {type: Loss, to: {pod: a, namespace: b}, loss: {perMille: 0}}", &[]),
            ("spec: {type: Loss, to: {podSelector: {}, namespaceSelector: {}}, loss: {perMille: 1000}}", &[]),
            ("spec: {type: Latency, from: {cidr: 'fd00::/64'}, latency: {delay: 10s, jitter: 0s}}", &[]),
            ("spec: {type: Rate, from: {node: a}, rate: {bytesPerSecond: 1000}, direction: OneWay}", &[]),
            ("spec: {type: Refuse, from: {node: a}}", &[]),
            ("spec: {}", &["spec.type: Required value"]),
            (
                "spec: {type: PowerOff, from: {node: a}}",
                &[
                    "spec.type: Unsupported value: \"PowerOff\": supported values: \"Latency\", \"Loss\", \"Partition\", \"Rate\", \"Refuse\"",
                ],
            ),
            ("spec: {type: Partition}", &["spec.from: Required value: must specify `from`, `to` or both"]),
            ("spec: {type: Partition, from: {node: a, cidr: 10.0.0.0/8}, to: {}}", &[&both, &none]),
            (
                "spec: {type: Partition, from: {node: a, namespace: b}, direction: Sideways, duration: 0s}",
                &[
                    "spec.direction: Unsupported value: \"Sideways\": supported values: \"Both\", \"OneWay\"",
                    "spec.from.namespace: Forbidden: may only be set beside pod, or podSelector without namespaceSelector",
                    "spec.duration: Invalid value: \"0s\": must be longer than nothing",
                ],
            ),
            (
                "spec: {type: Latency, from: {cidr: here}, loss: {perMille: 1001}, duration: soon}",
                &[
                    "spec.from.cidr: Invalid value: \"here\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                    "spec.latency: Required value: must be set where `type` is Latency",
                    "spec.loss: Forbidden: may only be set where `type` is Loss",
                    "spec.loss.perMille: Invalid value: 1001: must be between 0 and 1000, inclusive",
                    "spec.duration: Invalid value: \"soon\": must be a duration such as 30s or 1h30m",
                ],
            ),
            (
                "spec: {type: Latency, from: {node: a}, latency: {delay: '', jitter: 11s}}",
                &[
                    "spec.latency.delay: Required value",
                    "spec.latency.jitter: Invalid value: \"11s\": must be 10s at most",
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
        ],
    );
    check_change(
        Kind::Fault,
        &[
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
        ],
    );
}
