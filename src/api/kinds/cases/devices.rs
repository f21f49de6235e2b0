//! Devices that pods claim: classes, claims, their templates, and what drivers say they have.

use super::*;

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
                at("requests[1].name: Duplicate value: \"a\""),
                at(
                    "requests[1].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
                ),
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
                at("constraints[0].matchAttribute: Invalid value: \"x\": must include a domain"),
                at("constraints[1].matchAttribute: Required value"),
            ],
        ),
        (
            of(&format!(
                "{gpu}, config: [{{}}, {{requests: [a], opaque: {{driver: a.b, parameters: [1]}}}}]"
            )),
            vec![
                at("config[0].opaque: Required value"),
                at("config[1].opaque.parameters: Invalid value: [1]: must be a valid JSON object"),
            ],
        ),
    ] {
        assert_eq!(shown(&validate_create(&object(Kind::ResourceClaim, &text))), expected, "{text}");
        let template = format!("spec: {{{text}}}");
        let expected: Vec<_> = expected.iter().map(|e| format!("spec.{e}")).collect();
        assert_eq!(
            shown(&validate_create(&object(Kind::ResourceClaimTemplate, &template))),
            expected,
            "{text}"
        );
    }
    let many: Vec<_> = (0..33).map(|n| format!("{{name: r{n}, exactly: {{deviceClassName: g}}}}")).collect();
    let many = of(&format!("requests: [{}]", many.join(", ")));
    assert_eq!(
        shown(&validate_create(&object(Kind::ResourceClaim, &many))),
        ["spec.devices.requests: Too many: 33: must have at most 32 items"]
    );
    let changed =
        validate_update(&object(Kind::ResourceClaim, &of(gpu)), &object(Kind::ResourceClaim, &of("")));
    assert!(shown(&changed)[0].ends_with("field is immutable"), "{changed:?}");
    check_status(
        Kind::ResourceClaim,
        &[(
            "spec: {}",
            "spec: {}\nstatus: {reservedFor: [{resource: pods, name: p, uid: u}, {resource: pods, name: q, uid: u}]}",
            &[
                "status.reservedFor[1].uid: Duplicate value: \"u\"",
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
                "spec.pool.generation: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            format!(
                "{pool}, allNodes: true, devices: [{{name: d, attributes: {{a: {{}}}}, taints: [{{key: k, effect: Never}}]}}, {{name: d}}]"
            ),
            vec![
                "spec.devices[0].attributes[a]: Invalid value: {}: exactly one value must be specified",
                "spec.devices[0].taints[0].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
                "spec.devices[1].name: Duplicate value: \"d\"",
            ],
        ),
    ] {
        let text = format!("spec: {{{text}}}");
        assert_eq!(shown(&validate_create(&object(Kind::ResourceSlice, &text))), expected, "{text}");
    }
    check(
        Kind::DeviceTaintRule,
        &[
            ("spec: {deviceSelector: {driver: a.b}, taint: {key: a.b/bad, effect: NoExecute}}", &[]),
            (
                "spec: {taint: {key: '', effect: ''}}",
                &["spec.taint.key: Required value", "spec.taint.effect: Required value"],
            ),
        ],
    );
}
