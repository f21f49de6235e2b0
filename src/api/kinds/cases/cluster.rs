//! The kinds with few rules.

use super::*;

#[test]
fn the_other_kinds_have_rules_api_8() {
    check(
        Kind::PodDisruptionBudget,
        &[
            (
                "spec: {minAvailable: 1, maxUnavailable: 1}",
                &[
                    "spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and maxUnavailable cannot be both set",
                ],
            ),
            (
                "spec: {minAvailable: 120%, unhealthyPodEvictionPolicy: X}",
                &[
                    "spec.minAvailable: Invalid value: \"120%\": must not be greater than 100%",
                    "spec.unhealthyPodEvictionPolicy: Unsupported value: \"X\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
                ],
            ),
        ],
    );
    check(
        Kind::PriorityClass,
        &[
            ("value: 1000000000", &[]),
            (
                "value: 1000000001",
                &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
            ),
            (
                "metadata: {name: system-mine}\nvalue: 1",
                &[
                    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class",
                ],
            ),
            ("metadata: {name: system-node-critical}\nvalue: 2000001000", &[]),
            (
                "value: 1\npreemptionPolicy: X",
                &[
                    "preemptionPolicy: Unsupported value: \"X\": supported values: \"Never\", \"PreemptLowerPriority\"",
                ],
            ),
        ],
    );
    check_change(
        Kind::PriorityClass,
        &[("value: 1", "value: 2", &["value: Forbidden: may not be changed in an update."])],
    );
    check(
        Kind::Node,
        &[(
            "spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}, {key: b, effect: X}]}\nstatus: {capacity: {cpu: x}}",
            &[
                "spec.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: taints must be unique by key and effect pair",
                "spec.taints[2].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                "status.capacity[cpu]: Invalid value: \"x\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                "status.allocatable[cpu]: Invalid value: \"x\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ],
        )],
    );
    check(
        Kind::Lease,
        &[(
            "spec: {leaseDurationSeconds: 0}",
            &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
        )],
    );
    check(
        Kind::Event,
        &[
            ("involvedObject: {kind: Pod, namespace: default}", &[]),
            ("involvedObject: {kind: Node}", &[]),
            (
                "involvedObject: {kind: Pod, namespace: other}",
                &["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"],
            ),
        ],
    );
    check(
        Kind::EndpointSlice,
        &[(
            "addressType: IPv4\nendpoints: [{addresses: [::1]}, {addresses: []}]\nports: [{port: 80}, {port: 81}]",
            &[
                "endpoints[0].addresses[0]: Invalid value: \"::1\": must be an IPv4 address",
                "endpoints[1].addresses: Required value: must contain at least 1 address",
                "ports[1].name: Duplicate value: \"\"",
            ],
        )],
    );
    check(
        Kind::Endpoints,
        &[(
            "subsets: [{ports: [{port: 80}]}]",
            &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
        )],
    );
    check(Kind::ServiceAccount, &[("", &[])]);
    let binding =
        Binding { target: serde_json::from_value(json!({"kind": "Pod"})).unwrap(), ..Binding::default() };
    assert_eq!(
        shown(&binding_errors(&binding)),
        [
            "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"",
            "target.name: Required value"
        ]
    );
}
