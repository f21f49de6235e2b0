//! Validation of device classes, claims, claim templates and slices.

use super::*;

const C_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";

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
    let at = |text: &str| format!("spec.devices.{text}");
    let gpu = "requests: [{name: a, exactly: {deviceClassName: gpu}}]";
    for (text, expected) in [
        (of(""), vec![]),
        (of(gpu), vec![]),
        (
            of("requests: [{name: a}, {name: A, exactly: {deviceClassName: gpu, count: -1}}]"),
            vec![
                at(&format!("requests[0]: Required value: {ONE}")),
                at(&format!("requests[1].name: Invalid value: \"A\": {DNS_LABEL}")),
                at("requests[1].exactly.count: Invalid value: -1: must be greater than zero"),
            ],
        ),
        (
            of(
                "requests: [{name: a, exactly: {deviceClassName: '', allocationMode: Some}}, {name: a, exactly: {deviceClassName: gpu, allocationMode: All, count: 2}}]",
            ),
            vec![
                at("requests[0].exactly.deviceClassName: Required value"),
                at(
                    "requests[0].exactly.allocationMode: Unsupported value: \"Some\": supported values: \"All\", \"ExactCount\"",
                ),
                at(
                    "requests[1].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
                ),
                at("requests[1]: Duplicate value: \"a\""),
            ],
        ),
        (
            of(
                "requests: [{name: a, exactly: {deviceClassName: gpu, selectors: [{}, {cel: {expression: ''}}]}}]",
            ),
            vec![
                at("requests[0].exactly.selectors[0].cel: Required value"),
                at("requests[0].exactly.selectors[1].cel.expression: Required value"),
            ],
        ),
        (
            of(&format!("{gpu}, constraints: [{{requests: [b], matchAttribute: x}}, {{}}]")),
            vec![
                at(
                    "constraints[0].requests[0]: Invalid value: \"b\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                ),
                at(
                    "constraints[0].matchAttribute: Invalid value: \"x\": a fully qualified name must be a domain and a name separated by a slash",
                ),
                at(
                    "constraints[1]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
                ),
            ],
        ),
        (
            of(&format!(
                "{gpu}, config: [{{}}, {{requests: [a], opaque: {{driver: a.b, parameters: [1]}}}}]"
            )),
            vec![
                at("config[0].opaque: Required value"),
                at(
                    "config[1].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object",
                ),
            ],
        ),
        (
            of(
                "requests: [{name: a, exactly: {deviceClassName: g}, firstAvailable: [{name: s, deviceClassName: g}]}, {name: b, firstAvailable: [{name: s, deviceClassName: g}, {name: s, deviceClassName: g}]}]",
            ),
            vec![
                at(&format!("requests[0]: Invalid value: null: {ONE}, but multiple fields are set")),
                at("requests[1].firstAvailable[1]: Duplicate value: \"s\""),
            ],
        ),
        (
            of(&format!("{gpu}, constraints: [{{requests: [a/b/c, a, a], distinctAttribute: a.b/Model_1}}]")),
            vec![
                at(
                    "constraints[0].requests[0]: Invalid value: \"a/b/c\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                ),
                at("constraints[0].requests[2]: Duplicate value: \"a\""),
            ],
        ),
        (
            of(&format!("{gpu}, constraints: [{{matchAttribute: A_b/model-1}}, {{matchAttribute: /}}]")),
            vec![
                at(&format!("constraints[0].matchAttribute: Invalid value: \"A_b\": {SUBDOMAIN}")),
                at(&format!("constraints[0].matchAttribute: Invalid value: \"model-1\": {C_IDENTIFIER}")),
                at("constraints[1].matchAttribute: Invalid value: \"\": the domain must not be empty"),
                at("constraints[1].matchAttribute: Invalid value: \"\": the name must not be empty"),
            ],
        ),
    ] {
        assert_eq!(messages(&validate_create(&object(Kind::ResourceClaim, &text))), expected, "{text}");
        let template = format!("spec: {{{text}}}");
        let expected: Vec<_> = expected.iter().map(|e| format!("spec.{e}")).collect();
        assert_eq!(
            messages(&validate_create(&object(Kind::ResourceClaimTemplate, &template))),
            expected,
            "{text}"
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
        &[(
            "spec: {}",
            "spec: {}\nstatus: {reservedFor: [{resource: pods, name: p, uid: u}, {resource: pods, name: q, uid: u}]}",
            &[
                "status.reservedFor[1]: Duplicate value: \"u\"",
                "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
            ],
        )],
    );
}

#[test]
fn classes_slices_and_taints_of_devices_are_checked_api_17() {
    check(
        Kind::DeviceClass,
        &[
            (
                "spec: {selectors: [{cel: {expression: 'device.driver == \"a.b\"'}}], extendedResourceName: a.b/gpu}",
                &[],
            ),
            ("{}", &[]),
            (
                "spec: {config: [{}], extendedResourceName: gpu}",
                &[
                    "spec.config[0].opaque: Required value",
                    "spec.extendedResourceName: Invalid value: \"gpu\": must be a valid extended resource name",
                ],
            ),
        ],
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
    for (text, expected) in [
        (format!("{pool}, nodeName: node-1"), vec![]),
        (
            pool.to_string(),
            vec![
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
            ],
        ),
        (
            "driver: '', pool: {name: '', generation: -1, resourceSliceCount: 0}, allNodes: true".into(),
            vec![
                "spec.driver: Required value",
                "spec.pool.name: Required value",
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
            ],
        ),
        (
            format!(
                "{pool}, allNodes: true, devices: [{{name: d, attributes: {{a: {{}}}}, taints: [{{key: k, effect: Never}}]}}, {{name: d}}]"
            ),
            vec![
                "spec.devices[0].attributes[a]: Invalid value: \"\": exactly one value must be specified",
                "spec.devices[0].taints[0].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
                "spec.devices[1]: Duplicate value: \"d\"",
            ],
        ),
    ] {
        let text = format!("spec: {{{text}}}");
        assert_eq!(messages(&validate_create(&object(Kind::ResourceSlice, &text))), expected, "{text}");
    }
    check(
        Kind::DeviceTaintRule,
        &[
            ("spec: {deviceSelector: {driver: a.b}, taint: {key: a.b/bad, effect: NoExecute}}", &[]),
            (
                "spec: {taint: {key: '', effect: ''}}",
                &[
                    "spec.taint.key: Invalid value: \"\": name part must be non-empty",
                    "spec.taint.key: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                    "spec.taint.effect: Required value",
                ],
            ),
            (
                "spec: {deviceSelector: {driver: A.b, pool: 'a//b', device: ''}, taint: {key: k, effect: None}}",
                &[
                    &format!("spec.deviceSelector.pool: Invalid value: \"\": {SUBDOMAIN}"),
                    &format!("spec.deviceSelector.device: Invalid value: \"\": {DNS_LABEL}"),
                ],
            ),
        ],
    );
}

#[test]
fn a_slice_says_where_its_devices_are_and_what_they_have_api_17() {
    let slice = |rest: &str| {
        format!("spec: {{driver: a.b, pool: {{name: p, generation: 1, resourceSliceCount: 1}}, {rest}}}")
    };
    let device = |rest: &str| slice(&format!("allNodes: true, devices: [{{name: d, {rest}}}]"));
    let each = |rest: &str| slice(&format!("perDeviceNodeSelection: true, devices: [{{name: d{rest}}}]"));
    let places =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let own = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let one = "exactly one value must be specified";
    let at = |text: &str| format!("spec.devices[0].{text}");
    let many: Vec<String> = (0..65).map(|i| format!("{{name: d{i}}}")).collect();
    let many = many.join(", ");
    for (text, expected) in [
        (slice(&format!("allNodes: true, devices: [{many}]")), vec![]),
        (
            slice(&format!("allNodes: true, devices: [{many}, {{name: t, taints: [{{key: k, effect: None}}]}}]")),
            vec!["spec.devices: Too many: 66: must have at most 64 items".to_string()],
        ),
        (
            slice("nodeName: '', allNodes: false, perDeviceNodeSelection: false"),
            vec![
                "spec.nodeName: Invalid value: \"\": must be either unset or set to a non-empty string".into(),
                "spec.allNodes: Invalid value: false: must be either unset or set to true".into(),
                "spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true".into(),
                format!("spec: Required value: {places}"),
            ],
        ),
        (
            slice("nodeName: m, allNodes: true"),
            vec![format!(
                "spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {places}, but multiple fields are set"
            )],
        ),
        (
            slice("nodeSelector: {nodeSelectorTerms: []}"),
            vec![
                "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term"
                    .into(),
                "spec.nodeSelector.nodeSelectorTerms: Invalid value: []: must have exactly one node selector term"
                    .into(),
            ],
        ),
        (each(", nodeName: m"), vec![]),
        (each(""), vec![format!("spec.devices[0]: Required value: {own}")]),
        (
            each(", nodeName: m, allNodes: true"),
            vec![format!("spec.devices[0]: Invalid value: \"{{`nodeName`, `allNodes`}}\": {own}")],
        ),
        (
            device("nodeName: m"),
            vec![
                "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
                    .into(),
            ],
        ),
        (
            device("attributes: {a.b/model: {string: x}, ok: {version: 1.2.3-rc.1+build.5}, list: {ints: [1, 2]}}"),
            vec![],
        ),
        (
            device(&format!(
                "attributes: {{a-b: {{bool: true}}, both: {{bool: true, int: 1}}, long: {{string: {}}}, none: {{strings: []}}, v: {{version: '1.02.3'}}}}",
                "x".repeat(65)
            )),
            vec![
                at(&format!("attributes: Invalid value: \"a-b\": {C_IDENTIFIER}")),
                at(&format!("attributes[both]: Invalid value: {{\"bool\":true,\"int\":1}}: {one}")),
                at("attributes[long].string: Too long: may not be more than 64 bytes"),
                at("attributes[none].strings: Invalid value: []: must not be empty if specified"),
                at(
                    "attributes[v].version: Invalid value: \"1.02.3\": must be a string compatible with semver.org spec 2.0.0",
                ),
            ],
        ),
        (
            device("capacity: {memory: {value: 1Gi, requestPolicy: {default: 1Mi}}}"),
            vec![at("capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true")],
        ),
        (
            device("allowMultipleAllocations: true, capacity: {memory: {value: 1Gi, requestPolicy: {default: 1Mi}}}"),
            vec![],
        ),
        (
            device("consumesCounters: [{counterSet: c, counters: {}}, {counterSet: C, counters: {M: {value: 1}}}]"),
            vec![
                at("consumesCounters[0].counters: Required value"),
                at(&format!("consumesCounters[1].counterSet: Invalid value: \"C\": {DNS_LABEL}")),
                at(&format!("consumesCounters[1].counters: Invalid value: \"M\": {DNS_LABEL}")),
            ],
        ),
        (
            device("bindingConditions: [a, a], bindingFailureConditions: [a]"),
            vec![
                at("bindingConditions[1]: Duplicate value: \"a\""),
                at(
                    "bindingFailureConditions[0]: Invalid value: \"a\": bindingFailureConditions must not overlap with bindingConditions",
                ),
            ],
        ),
        (
            device("bindingConditions: [a]"),
            vec![at(
                "bindingFailureConditions: Invalid value: []: bindingFailureConditions are required to use bindingConditions",
            )],
        ),
        (
            slice("allNodes: true, sharedCounters: [{name: c, counters: {m: {value: 1Gi}}}]"),
            vec![],
        ),
        (
            slice("allNodes: true, devices: [], sharedCounters: [{name: c, counters: {m: {value: 1Gi}}}, {name: c, counters: {m: {value: 1Gi}}}]"),
            vec![
                "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed".into(),
                "spec.sharedCounters[1]: Duplicate value: \"c\"".into(),
            ],
        ),
    ] {
        assert_eq!(messages(&validate_create(&object(Kind::ResourceSlice, &text))), expected, "{text}");
    }
}

#[test]
fn an_allocation_fits_its_claim_and_stays_api_17() {
    let claim = "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: g}}]}}";
    let with = |status: &str| format!("{claim}\nstatus: {{{status}}}");
    let result = |text: &str| format!("allocation: {{devices: {{results: [{text}]}}}}");
    let got = result("{request: a, driver: a.b, pool: p, device: d}");
    let user = "reservedFor: [{resource: pods, name: p, uid: u}]";
    let device = |text: &str| format!("{got}, devices: [{{driver: a.b, pool: p, device: d, {text}}}]");
    check_status(
        Kind::ResourceClaim,
        &[
            (claim, &with(&format!("{got}, {user}")), &[]),
            (&with(&got), &with(&format!("{got}, {user}")), &[]),
            (
                claim,
                &with(&result("{request: b, driver: '', pool: '', device: D, shareID: x}")),
                &[
                    "status.allocation.devices.results[0].request: Invalid value: \"b\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                    "status.allocation.devices.results[0].driver: Required value",
                    "status.allocation.devices.results[0].pool: Required value",
                    &format!(
                        "status.allocation.devices.results[0].device: Invalid value: \"D\": {DNS_LABEL}"
                    ),
                    "status.allocation.devices.results[0].shareID: Invalid value: \"x\": uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters",
                ],
            ),
            (
                claim,
                &with(
                    "allocation: {devices: {config: [{source: Elsewhere, opaque: {driver: a.b, parameters: {}}}]}}",
                ),
                &[
                    "status.allocation.devices.config[0].source: Unsupported value: \"Elsewhere\": supported values: \"FromClaim\", \"FromClass\"",
                ],
            ),
            (
                &with(&got),
                &with(&result("{request: a, driver: a.b, pool: p, device: e}")),
                &[
                    "status.allocation: Invalid value: {\"devices\":{\"results\":[{\"device\":\"e\",\"driver\":\"a.b\",\"pool\":\"p\",\"request\":\"a\"}]}}: field is immutable",
                ],
            ),
            (
                &with(&got),
                &format!(
                    "metadata: {{deletionTimestamp: '2026-11-21T00:00:00Z'}}\n{}",
                    with(&format!("{got}, {user}"))
                ),
                &[
                    "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
                ],
            ),
            (
                &with(&got),
                &with(&device(
                    "data: {a: 1}, networkData: {interfaceName: eth0, ips: [10.0.0.5/24, 'fd00::1/64']}",
                )),
                &[],
            ),
            (
                &with(&got),
                &with(
                    &device("data: [1], networkData: {ips: [10.0.0.5, 'fd00:0::1/64']}")
                        .replace("device: d, data", "device: e, data"),
                ),
                &[
                    "status.devices[0]: Invalid value: \"a.b/p/e\": must be an allocated device in the claim",
                    "status.devices[0].data: Invalid value: \"<value omitted>\": must be a valid JSON object",
                    "status.devices[0].networkData.ips[0]: Invalid value: \"10.0.0.5\": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
                    "status.devices[0].networkData.ips[1]: Invalid value: \"fd00:0::1/64\": must be in canonical form (\"fd00::1/64\")",
                ],
            ),
        ],
    );
}
