//! Validation of device classes, claims, claim templates and slices.

use super::*;

#[test]
fn claims_say_which_devices_and_how_many_api_17() {
    let claim = object(
        Kind::ResourceClaim,
        "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu, tolerations: [{key: k}]}}, {name: b, firstAvailable: [{name: s, deviceClassName: gpu, allocationMode: All}]}]}}",
    )
    .to_value();
    let requests = &claim["spec"]["devices"]["requests"];
    assert_eq!(
        requests[0]["exactly"],
        json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1,
            "tolerations": [{"key": "k", "operator": "Equal"}]})
    );
    assert_eq!(requests[1]["firstAvailable"][0]["count"], Value::Null);
    let of = |devices: &str| format!("spec: {{devices: {{{devices}}}}}");
    let gpu = "requests: [{name: a, exactly: {deviceClassName: gpu}}]";
    for (kind, text, path) in [
        (Kind::ResourceClaim, "spec: {devices: {…}}", "spec.devices"),
        (Kind::ResourceClaimTemplate, "spec: {spec: {devices: {…}}}", "spec.spec.devices"),
    ] {
        Template::new(kind, text, path).check(
            r#"
<empty>
requests: [{name: a, exactly: {deviceClassName: gpu}}]
requests: [{name: a}, {name: A, exactly: {deviceClassName: gpu, count: -1}}]
  ! .requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required
  ! .requests[1].name: Invalid value: "A": <dns-label>
  ! .requests[1].exactly.count: Invalid value: -1: must be greater than zero
requests: [{name: a, exactly: {deviceClassName: '', allocationMode: Some}}, {name: a, exactly: {deviceClassName: gpu, allocationMode: All, count: 2}}]
  ! .requests[0].exactly.deviceClassName: Required value
  ! .requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"
  ! .requests[1].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'
  ! .requests[1]: Duplicate value: "a"
requests: [{name: a, exactly: {deviceClassName: gpu, selectors: [{}, {cel: {expression: ''}}]}}]
  ! .requests[0].exactly.selectors[0].cel: Required value
  ! .requests[0].exactly.selectors[1].cel.expression: Required value
requests: [{name: a, exactly: {deviceClassName: gpu}}], constraints: [{requests: [b], matchAttribute: x}, {}]
  ! .constraints[0].requests[0]: Invalid value: "b": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
  ! .constraints[0].matchAttribute: Invalid value: "x": a fully qualified name must be a domain and a name separated by a slash
  ! .constraints[1]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set
requests: [{name: a, exactly: {deviceClassName: gpu}}], config: [{}, {requests: [a], opaque: {driver: a.b, parameters: [1]}}]
  ! .config[0].opaque: Required value
  ! .config[1].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object
requests: [{name: a, exactly: {deviceClassName: g}, firstAvailable: [{name: s, deviceClassName: g}]}, {name: b, firstAvailable: [{name: s, deviceClassName: g}, {name: s, deviceClassName: g}]}]
  ! .requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set
  ! .requests[1].firstAvailable[1]: Duplicate value: "s"
requests: [{name: a, exactly: {deviceClassName: gpu}}], constraints: [{requests: [a/b/c, a, a], distinctAttribute: a.b/Model_1}]
  ! .constraints[0].requests[0]: Invalid value: "a/b/c": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
  ! .constraints[0].requests[2]: Duplicate value: "a"
requests: [{name: a, exactly: {deviceClassName: gpu}}], constraints: [{matchAttribute: A_b/model-1}, {matchAttribute: /}]
  ! .constraints[0].matchAttribute: Invalid value: "A_b": <subdomain>
  ! .constraints[0].matchAttribute: Invalid value: "model-1": <c-identifier>
  ! .constraints[1].matchAttribute: Invalid value: "": the domain must not be empty
  ! .constraints[1].matchAttribute: Invalid value: "": the name must not be empty
"#,
        );
    }
    let many: Vec<_> = (0..33).map(|n| format!("{{name: r{n}, exactly: {{deviceClassName: g}}}}")).collect();
    let many = of(&format!("requests: [{}]", many.join(", ")));
    assert_eq!(
        messages(&validate_create(&object(Kind::ResourceClaim, &many))),
        ["spec.devices.requests: Too many: 33: must have at most 32 items"]
    );
    let changed =
        validate_update(&object(Kind::ResourceClaim, &of(gpu)), &object(Kind::ResourceClaim, &of("")));
    assert!(messages(&changed)[0].ends_with("field is immutable"), "{changed:?}");
    check_status(
        Kind::ResourceClaim,
        r#"
spec: {}
-> spec: {}\nstatus: {reservedFor: [{resource: pods, name: p, uid: u}, {resource: pods, name: q, uid: u}]}
  ! status.reservedFor[1]: Duplicate value: "u"
  ! status.reservedFor: Forbidden: may not be specified when `allocated` is not set
"#,
    );
}

#[test]
fn classes_slices_and_taints_of_devices_are_checked_api_17() {
    check(
        Kind::DeviceClass,
        r#"
spec: {selectors: [{cel: {expression: 'device.driver == "a.b"'}}], extendedResourceName: a.b/gpu}
{}
spec: {config: [{}], extendedResourceName: gpu}
  ! spec.config[0].opaque: Required value
  ! spec.extendedResourceName: Invalid value: "gpu": must be a valid extended resource name
"#,
    );
    let pool = "driver: a.b, pool: {name: p, generation: 1, resourceSliceCount: 1}";
    let slice = object(
        Kind::ResourceSlice,
        &format!(
            "spec: {{{pool}, allNodes: true, devices: [{{name: d, capacity: {{memory: {{value: 1000}}}}}}]}}"
        ),
    )
    .to_value();
    assert_eq!(slice["spec"]["devices"][0]["capacity"]["memory"]["value"], "1k");
    check(
        Kind::ResourceSlice,
        r#"
spec: {driver: a.b, pool: {name: p, generation: 1, resourceSliceCount: 1}, nodeName: node-1}
spec: {driver: a.b, pool: {name: p, generation: 1, resourceSliceCount: 1}}
  ! spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required
spec: {driver: '', pool: {name: '', generation: -1, resourceSliceCount: 0}, allNodes: true}
  ! spec.driver: Required value
  ! spec.pool.name: Required value
  ! spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero
  ! spec.pool.generation: Invalid value: -1: must be greater than or equal to zero
spec: {driver: a.b, pool: {name: p, generation: 1, resourceSliceCount: 1}, allNodes: true, devices: [{name: d, attributes: {a: {}}, taints: [{key: k, effect: Never}]}, {name: d}]}
  ! spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified
  ! spec.devices[0].taints[0].effect: Unsupported value: "Never": supported values: "NoExecute", "NoSchedule", "None"
  ! spec.devices[1]: Duplicate value: "d"
"#,
    );
    check(
        Kind::DeviceTaintRule,
        r#"
spec: {deviceSelector: {driver: a.b}, taint: {key: a.b/bad, effect: NoExecute}}
spec: {taint: {key: '', effect: ''}}
  ! spec.taint.key: Invalid value: "": name part must be non-empty
  ! spec.taint.key: Invalid value: "": <qualified-name>
  ! spec.taint.effect: Required value
spec: {deviceSelector: {driver: A.b, pool: 'a//b', device: ''}, taint: {key: k, effect: None}}
  ! spec.deviceSelector.pool: Invalid value: "": <subdomain>
  ! spec.deviceSelector.device: Invalid value: "": <dns-label>
"#,
    );
}

#[test]
fn a_slice_says_where_its_devices_are_and_what_they_have_api_17() {
    let slice = |rest: &str| {
        format!("spec: {{driver: a.b, pool: {{name: p, generation: 1, resourceSliceCount: 1}}, {rest}}}")
    };
    let many: Vec<String> = (0..65).map(|i| format!("{{name: d{i}}}")).collect();
    let many = many.join(", ");
    Template::new(Kind::ResourceSlice, &slice("…"), "spec").check(
        &r#"
allNodes: true, devices: [<many>]
allNodes: true, devices: [<many>, {name: t, taints: [{key: k, effect: None}]}]
  ! .devices: Too many: 66: must have at most 64 items
nodeName: '', allNodes: false, perDeviceNodeSelection: false
  ! .nodeName: Invalid value: "": must be either unset or set to a non-empty string
  ! .allNodes: Invalid value: false: must be either unset or set to true
  ! .perDeviceNodeSelection: Invalid value: false: must be either unset or set to true
  ! : Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required
nodeName: m, allNodes: true
  ! : Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set
nodeSelector: {nodeSelectorTerms: []}
  ! .nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term
  ! .nodeSelector.nodeSelectorTerms: Invalid value: []: must have exactly one node selector term
perDeviceNodeSelection: true, devices: [{name: d, nodeName: m}]
perDeviceNodeSelection: true, devices: [{name: d}]
  ! .devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec
perDeviceNodeSelection: true, devices: [{name: d, nodeName: m, allNodes: true}]
  ! .devices[0]: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec
allNodes: true, sharedCounters: [{name: c, counters: {m: {value: 1Gi}}}]
allNodes: true, devices: [], sharedCounters: [{name: c, counters: {m: {value: 1Gi}}}, {name: c, counters: {m: {value: 1Gi}}}]
  ! : Invalid value: "": only one of `sharedCounters` or `devices` is allowed
  ! .sharedCounters[1]: Duplicate value: "c"
"#
        .replace("<many>", &many),
    );
    Template::new(
        Kind::ResourceSlice,
        &slice("allNodes: true, devices: [{name: d, …}]"),
        "spec.devices[0]",
    )
    .check(
        &r#"
nodeName: m
  ! : Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec
attributes: {a.b/model: {string: x}, ok: {version: 1.2.3-rc.1+build.5}, list: {ints: [1, 2]}}
attributes: {a-b: {bool: true}, both: {bool: true, int: 1}, long: {string: <long>}, none: {strings: []}, v: {version: '1.02.3'}}
  ! .attributes: Invalid value: "a-b": <c-identifier>
  ! .attributes[both]: Invalid value: {"bool":true,"int":1}: exactly one value must be specified
  ! .attributes[long].string: Too long: may not be more than 64 bytes
  ! .attributes[none].strings: Invalid value: []: must not be empty if specified
  ! .attributes[v].version: Invalid value: "1.02.3": must be a string compatible with semver.org spec 2.0.0
capacity: {memory: {value: 1Gi, requestPolicy: {default: 1Mi}}}
  ! .capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true
allowMultipleAllocations: true, capacity: {memory: {value: 1Gi, requestPolicy: {default: 1Mi}}}
consumesCounters: [{counterSet: c, counters: {}}, {counterSet: C, counters: {M: {value: 1}}}]
  ! .consumesCounters[0].counters: Required value
  ! .consumesCounters[1].counterSet: Invalid value: "C": <dns-label>
  ! .consumesCounters[1].counters: Invalid value: "M": <dns-label>
bindingConditions: [a, a], bindingFailureConditions: [a]
  ! .bindingConditions[1]: Duplicate value: "a"
  ! .bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions
bindingConditions: [a]
  ! .bindingFailureConditions: Invalid value: []: bindingFailureConditions are required to use bindingConditions
"#
        .replace("<long>", &"x".repeat(65)),
    );
}

#[test]
fn an_allocation_fits_its_claim_and_stays_api_17() {
    check_status(
        Kind::ResourceClaim,
        r#"
spec: {devices: {requests: [{name: a, exactly: {deviceClassName: g}}]}}
-> spec: {devices: {requests: [{name: a, exactly: {deviceClassName: g}}]}}\nstatus: {allocation: {devices: {results: [{request: a, driver: a.b, pool: p, device: d}]}}, reservedFor: [{resource: pods, name: p, uid: u}]}
spec: {devices: {requests: [{name: a, exactly: {deviceClassName: g}}]}}
-> spec: {devices: {requests: [{name: a, exactly: {deviceClassName: g}}]}}\nstatus: {allocation: {devices: {results: [{request: b, driver: '', pool: '', device: D, shareID: x}]}}}
  ! status.allocation.devices.results[0].request: Invalid value: "b": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
  ! status.allocation.devices.results[0].driver: Required value
  ! status.allocation.devices.results[0].pool: Required value
  ! status.allocation.devices.results[0].device: Invalid value: "D": <dns-label>
  ! status.allocation.devices.results[0].shareID: Invalid value: "x": uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters
spec: {devices: {requests: [{name: a, exactly: {deviceClassName: g}}]}}
-> spec: {devices: {requests: [{name: a, exactly: {deviceClassName: g}}]}}\nstatus: {allocation: {devices: {config: [{source: Elsewhere, opaque: {driver: a.b, parameters: {}}}]}}}
  ! status.allocation.devices.config[0].source: Unsupported value: "Elsewhere": supported values: "FromClaim", "FromClass"
spec: {devices: {requests: [{name: a, exactly: {deviceClassName: g}}]}}\nstatus: {allocation: {devices: {results: [{request: a, driver: a.b, pool: p, device: d}]}}}
-> metadata: {deletionTimestamp: '2026-11-21T00:00:00Z'}\nspec: {devices: {requests: [{name: a, exactly: {deviceClassName: g}}]}}\nstatus: {allocation: {devices: {results: [{request: a, driver: a.b, pool: p, device: d}]}}, reservedFor: [{resource: pods, name: p, uid: u}]}
  ! status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set
"#,
    );
    Template::new(
        Kind::ResourceClaim,
        "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: g}}]}}\nstatus: {…}",
        "status",
    )
    .check_status(
        r#"
allocation: {devices: {results: [{request: a, driver: a.b, pool: p, device: d}]}}
-> allocation: {devices: {results: [{request: a, driver: a.b, pool: p, device: d}]}}, reservedFor: [{resource: pods, name: p, uid: u}]
allocation: {devices: {results: [{request: a, driver: a.b, pool: p, device: d}]}}
-> allocation: {devices: {results: [{request: a, driver: a.b, pool: p, device: e}]}}
  ! .allocation: Invalid value: {"devices":{"results":[{"device":"e","driver":"a.b","pool":"p","request":"a"}]}}: field is immutable
allocation: {devices: {results: [{request: a, driver: a.b, pool: p, device: d}]}}
-> allocation: {devices: {results: [{request: a, driver: a.b, pool: p, device: d}]}}, devices: [{driver: a.b, pool: p, device: d, data: {a: 1}, networkData: {interfaceName: eth0, ips: [10.0.0.5/24, 'fd00::1/64']}}]
allocation: {devices: {results: [{request: a, driver: a.b, pool: p, device: d}]}}
-> allocation: {devices: {results: [{request: a, driver: a.b, pool: p, device: d}]}}, devices: [{driver: a.b, pool: p, device: e, data: [1], networkData: {ips: [10.0.0.5, 'fd00:0::1/64']}}]
  ! .devices[0]: Invalid value: "a.b/p/e": must be an allocated device in the claim
  ! .devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object
  ! .devices[0].networkData.ips[0]: Invalid value: "10.0.0.5": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)
  ! .devices[0].networkData.ips[1]: Invalid value: "fd00:0::1/64": must be in canonical form ("fd00::1/64")
"#,
    );
}
