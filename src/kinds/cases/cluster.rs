//! Validation of the kinds with few rules.

use super::*;

#[test]
fn the_other_kinds_have_rules_api_8() {
    check(
        Kind::PodDisruptionBudget,
        r#"
metadata: {name: Web_1}\nspec: {maxUnavailable: 1}
metadata: {name: a/b}\nspec: {maxUnavailable: 1}
  ! metadata.name: Invalid value: "a/b": may not contain '/'
spec: {minAvailable: 1, maxUnavailable: 1}
  ! spec: Invalid value: {"maxUnavailable":1,"minAvailable":1}: minAvailable and maxUnavailable cannot be both set
spec: {minAvailable: 120%, unhealthyPodEvictionPolicy: X}
  ! spec.minAvailable: Invalid value: "120%": must not be greater than 100%
  ! spec.unhealthyPodEvictionPolicy: Unsupported value: "X": supported values: "AlwaysAllow", "IfHealthyBudget"
"#,
    );
    check_status(
        Kind::PodDisruptionBudget,
        r#"
<empty>
-> status: {conditions: [{type: A, status: 'True', reason: Good, message: '', lastTransitionTime: '2026-11-21T00:00:00Z'}, {type: a.b/C, status: 'True', reason: Good, message: '', lastTransitionTime: '2026-11-21T00:00:00Z'}]}
<empty>
-> status: {conditions: [{type: A, status: 'True', reason: Good, message: '', lastTransitionTime: '2026-11-21T00:00:00Z'}, {type: A, status: 'True', reason: Good, message: '', lastTransitionTime: '2026-11-21T00:00:00Z'}]}
  ! status.conditions[1].type: Duplicate value: "A"
<empty>
-> status: {conditions: [{type: A, status: Sure, reason: not-good, message: '', lastTransitionTime: '2026-11-21T00:00:00Z'}]}
  ! status.conditions[0].status: Unsupported value: "Sure": supported values: "False", "True", "Unknown"
  ! status.conditions[0].reason: Invalid value: "not-good": a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')
<empty>
-> status: {conditions: [{observedGeneration: -1, type: A, status: 'True', reason: '', message: '', lastTransitionTime: '2026-11-21T00:00:00Z'}]}
  ! status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero
  ! status.conditions[0].reason: Required value: must be set
<empty>
-> status: {disruptionsAllowed: -1, expectedPods: -1}
  ! status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0
  ! status.expectedPods: Invalid value: -1: must be greater than or equal to 0
"#,
    );
    check(
        Kind::PriorityClass,
        r#"
value: 1000000000
value: 1000000001
  ! value: Forbidden: maximum allowed value of a user defined priority is 1000000000
metadata: {name: system-mine}\nvalue: 1
  ! metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class
metadata: {name: system-node-critical}\nvalue: 2000001000
value: 1\npreemptionPolicy: X
  ! preemptionPolicy: Unsupported value: "X": supported values: "Never", "PreemptLowerPriority"
"#,
    );
    check_change(
        Kind::PriorityClass,
        r#"
value: 1
-> value: 2
  ! value: Forbidden: may not be changed in an update.
value: 1
-> value: 1\nglobalDefault: true\ndescription: d
value: 1
-> value: 1\npreemptionPolicy: Never
  ! preemptionPolicy: Invalid value: "Never": field is immutable
"#,
    );
    check(
        Kind::Node,
        r#"
spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}, {key: b, effect: X}]}\nstatus: {capacity: {cpu: x}}
  ! metadata.taints[1]: Duplicate value: {"effect":"NoSchedule","key":"a"}: taints must be unique by key and effect pair
  ! metadata.taints[2].effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
  ! status.capacity.cpu: Invalid value: "x": <quantity>
  ! status.allocatable.cpu: Invalid value: "x": <quantity>
"#,
    );
    check(
        Kind::Node,
        r#"
spec: {podCIDR: 10.0.0.0/24}
spec: {podCIDRs: [10.0.0.0/24, 'fd00::/64']}
spec: {podCIDR: a}
  ! spec.podCIDRs[0]: Invalid value: "a": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
spec: {podCIDRs: [10.0.0.0/24, 10.0.0.0/24]}
  ! spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.0.0/24"]: may specify no more than one CIDR for each IP family
  ! spec.podCIDRs[1]: Duplicate value: "10.0.0.0/24"
status: {capacity: {pods: 1500m, cpu: 1500m}}
  ! status.capacity.pods: Invalid value: "1500m": must be an integer
  ! status.allocatable.pods: Invalid value: "1500m": must be an integer
"#,
    );
    check_change(
        Kind::Node,
        r#"
spec: {}
-> spec: {podCIDR: 10.0.0.0/24}
spec: {podCIDR: 10.0.0.0/24}
-> spec: {podCIDR: 10.0.1.0/24}
  ! spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid
"#,
    );
    check(
        Kind::Lease,
        r#"
spec: {holderIdentity: a, strategy: example.com/own, preferredHolder: b}
spec: {holderIdentity: ''}
spec: {leaseTransitions: -1, strategy: Newest}
  ! spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0
  ! spec.strategy.strategy: Unsupported value: "Newest": supported values: "OldestEmulationVersion"
spec: {holderIdentity: a, preferredHolder: b}
  ! spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined
spec: {leaseDurationSeconds: 0}
  ! spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0
"#,
    );
    check(
        Kind::Event,
        r#"
involvedObject: {kind: Pod, namespace: default}
involvedObject: {kind: Node}
involvedObject: {kind: Pod, namespace: other}
  ! involvedObject.namespace: Invalid value: "other": does not match event.namespace
"#,
    );
    check(
        Kind::EndpointSlice,
        r#"
addressType: IPv4\nendpoints: [{addresses: [10.0.0.1], deprecatedTopology: {zone: a}, hints: {forZones: [{name: a}, {name: b}]}}]
addressType: IPv4\nendpoints: [{addresses: [10.0.0.1], hints: {forZones: [{name: a}, {name: a}], forNodes: [{name: a b}]}}]
  ! endpoints[0].hints.forZones[1].name: Duplicate value: "a"
  ! endpoints[0].hints.forNodes[0].name: Invalid value: "a b": <subdomain>
addressType: IPv4\nendpoints: [{addresses: [169.254.0.1]}]
  ! endpoints[0].addresses[0]: Invalid value: "169.254.0.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)
addressType: IPv6\nendpoints: [{addresses: [10.0.0.1, x]}]
  ! endpoints[0].addresses: Invalid value: "10.0.0.1": must be an IPv6 address
  ! endpoints[0].addresses[1]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
addressType: FQDN\nendpoints: [{addresses: [a.example.com, b.example.com., db, 'A.b', '']}]
  ! endpoints[0].addresses[2]: Invalid value: "db": should be a domain with at least two segments separated by dots
  ! endpoints[0].addresses[3]: Invalid value: "A.b": <subdomain>
  ! endpoints[0].addresses[4]: Required value
addressType: IPv4\nports: [{name: a, appProtocol: example.com/x}]
addressType: IPv4\nports: [{name: a, appProtocol: /x}]
  ! ports[0].appProtocol: Invalid value: "/x": prefix part must be non-empty
"#,
    );
    check(
        Kind::Endpoints,
        r#"
subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 80, appProtocol: h2c}]}]
subsets: [{addresses: [{ip: 224.0.0.1}], ports: [{port: 80, appProtocol: /x}]}]
  ! subsets[0].addresses[0].ip: Invalid value: "224.0.0.1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)
  ! subsets[0].ports[0].appProtocol: Invalid value: "/x": prefix part must be non-empty
"#,
    );
    check(
        Kind::EndpointSlice,
        r#"
addressType: IPv4\nendpoints: [{addresses: [::1]}, {addresses: []}]\nports: [{port: 80}, {port: 81}]
  ! endpoints[0].addresses: Invalid value: "::1": must be an IPv4 address
  ! endpoints[1].addresses: Required value: must contain at least 1 address
  ! ports[1].name: Duplicate value: ""
"#,
    );
    check_change(
        Kind::EndpointSlice,
        r#"
addressType: IPv4\nendpoints: [{addresses: ['169.254.0.1']}]\nports: [{port: 80}]
-> addressType: IPv4\nendpoints: [{addresses: ['169.254.0.1']}]\nports: [{port: 81}]
addressType: IPv4\nendpoints: [{addresses: ['169.254.0.1']}]\nports: [{port: 80}]
-> addressType: IPv4\nendpoints: [{addresses: ['169.254.0.2']}]\nports: [{port: 80}]
  ! endpoints[0].addresses[0]: Invalid value: "169.254.0.2": may not be in the link-local range (169.254.0.0/16, fe80::/10)
addressType: IPv4
-> addressType: IPv6
  ! addressType: Invalid value: "IPv6": field is immutable
"#,
    );
    check(
        Kind::Endpoints,
        r"
subsets: [{ports: [{port: 80}]}]
  ! subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`
",
    );
    check(
        Kind::ServiceAccount,
        r"
<empty>
",
    );
    let binding =
        Binding { target: serde_json::from_value(json!({"kind": "Pod"})).unwrap(), ..Binding::default() };
    assert_eq!(
        messages(&binding_errors(&binding)),
        [
            "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"",
            "target.name: Required value"
        ]
    );
}

#[test]
fn a_namespaces_phase_and_finalizers_follow_its_deletion_api_10() {
    check(
        Kind::Namespace,
        r#"
spec: {finalizers: [kubernetes, example.com/own]}
spec: {finalizers: [own]}
  ! spec.finalizers[0]: Invalid value: "own": name is neither a standard finalizer name nor is it fully qualified
"#,
    );
    check_status(
        Kind::Namespace,
        r#"
metadata: {}\nstatus: {phase: Active}
-> metadata: {}\nstatus: {phase: Active}
metadata: {}\nstatus: {phase: Active}
-> metadata: {}\nstatus: {phase: Terminating}
  ! status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty
metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {phase: Active}
-> metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {phase: Terminating}
metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {phase: Terminating}
-> metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {phase: Active}
  ! status.Phase: Invalid value: "Active": may only be 'Terminating' if `deletionTimestamp` is not empty
"#,
    );
}
