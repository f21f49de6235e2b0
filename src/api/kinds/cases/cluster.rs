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
                "metadata.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: taints must be unique by key and effect pair",
                "metadata.taints[2].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                "status.capacity.cpu: Invalid value: \"x\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                "status.allocatable.cpu: Invalid value: \"x\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ],
        )],
    );
    let node = |cidrs: &str| format!("spec: {{{cidrs}}}");
    let cidr = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    check(
        Kind::Node,
        &[
            (&node("podCIDR: 10.0.0.0/24"), &[]),
            (&node("podCIDRs: [10.0.0.0/24, 'fd00::/64']"), &[]),
            (&node("podCIDR: a"), &[&format!("spec.podCIDRs[0]: Invalid value: \"a\": {cidr}")]),
            (
                &node("podCIDRs: [10.0.0.0/24, 10.0.0.0/24]"),
                &[
                    "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.0.0.0/24\"]: may specify no more than one CIDR for each IP family",
                    "spec.podCIDRs[1]: Duplicate value: \"10.0.0.0/24\"",
                ],
            ),
            (
                "status: {capacity: {pods: 1500m, cpu: 1500m}}",
                &[
                    "status.capacity.pods: Invalid value: \"1500m\": must be an integer",
                    "status.allocatable.pods: Invalid value: \"1500m\": must be an integer",
                ],
            ),
        ],
    );
    check_change(
        Kind::Node,
        &[
            ("spec: {}", &node("podCIDR: 10.0.0.0/24"), &[]),
            (
                &node("podCIDR: 10.0.0.0/24"),
                &node("podCIDR: 10.0.1.0/24"),
                &["spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"],
            ),
        ],
    );
    check(
        Kind::Lease,
        &[
            ("spec: {holderIdentity: a, strategy: example.com/own, preferredHolder: b}", &[]),
            (
                "spec: {holderIdentity: a, preferredHolder: b}",
                &["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"],
            ),
        ],
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
    let endpoint = |more: &str| format!("addressType: IPv4\nendpoints: [{{addresses: [10.0.0.1], {more}}}]");
    check(
        Kind::EndpointSlice,
        &[
            (&endpoint("deprecatedTopology: {zone: a}, hints: {forZones: [{name: a}, {name: b}]}"), &[]),
            (
                &endpoint("hints: {forZones: [{name: a}, {name: a}], forNodes: [{name: a b}]}"),
                &[
                    "endpoints[0].hints.forZones[1].name: Duplicate value: \"a\"",
                    "endpoints[0].hints.forNodes[0].name: Invalid value: \"a b\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                ],
            ),
            (
                "addressType: IPv4\nendpoints: [{addresses: [169.254.0.1]}]",
                &[
                    "endpoints[0].addresses[0]: Invalid value: \"169.254.0.1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)",
                ],
            ),
            ("addressType: IPv4\nports: [{name: a, appProtocol: example.com/x}]", &[]),
            (
                "addressType: IPv4\nports: [{name: a, appProtocol: /x}]",
                &["ports[0].appProtocol: Invalid value: \"/x\": prefix part must be non-empty"],
            ),
        ],
    );
    check(
        Kind::Endpoints,
        &[
            ("subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 80, appProtocol: h2c}]}]", &[]),
            (
                "subsets: [{addresses: [{ip: 224.0.0.1}], ports: [{port: 80, appProtocol: /x}]}]",
                &[
                    "subsets[0].addresses[0].ip: Invalid value: \"224.0.0.1\": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
                    "subsets[0].ports[0].appProtocol: Invalid value: \"/x\": prefix part must be non-empty",
                ],
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
