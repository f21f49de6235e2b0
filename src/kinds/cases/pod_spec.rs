//! Validation of pod specs.

use super::*;

#[test]
fn pod_specs_have_rules_api_8() {
    check_pod(&[
        ("", &[]),
        (
            "restartPolicy: Maybe",
            &[
                "spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            ],
        ),
        (
            "dnsPolicy: X",
            &[
                "spec.dnsPolicy: Unsupported value: \"X\": supported values: \"ClusterFirst\", \"ClusterFirstWithHostNet\", \"Default\", \"None\"",
            ],
        ),
        (
            "dnsPolicy: None",
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            "activeDeadlineSeconds: 0",
            &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
    ]);
    check_pod(&[
        (
            "volumes: [{name: a}, {name: a}, {name: B}, {}, {name: d, secret: {}, emptyDir: {}}, {name: e, hostPath: {path: /a/../b, type: X}}]",
            &[
                "spec.volumes[1].name: Duplicate value: \"a\"",
                "spec.volumes[2].name: Invalid value: \"B\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.volumes[3].name: Required value",
                "spec.volumes[4].secret: Forbidden: may not specify more than 1 volume type",
                "spec.volumes[5].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                "spec.volumes[5].hostPath.type: Unsupported value: \"X\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            ],
        ),
        (
            "volumes: [{name: a, configMap: {name: x, defaultMode: 9999, items: [{key: k, path: ../../etc/passwd}, {key: '', path: ..x}]}}]",
            &[
                "spec.volumes[0].configMap.defaultMode: Invalid value: 9999: must be a number between 0 and 0777 (octal), both inclusive",
                "spec.volumes[0].configMap.items[0].path: Invalid value: \"../../etc/passwd\": must not contain '..'",
                "spec.volumes[0].configMap.items[1].key: Required value",
                "spec.volumes[0].configMap.items[1].path: Invalid value: \"..x\": must not start with '..'",
            ],
        ),
        (
            "tolerations: [{key: a, operator: Near}, {operator: Equal, value: v}, {operator: Exists, value: v}, {key: k, effect: Nope}, {key: k, effect: NoSchedule, tolerationSeconds: 5}]",
            &[
                "spec.tolerations[0].operator: Unsupported value: \"Near\": supported values: \"Equal\", \"Exists\"",
                "spec.tolerations[1].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                "spec.tolerations[2].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
                "spec.tolerations[3].effect: Unsupported value: \"Nope\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                "spec.tolerations[4].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            ],
        ),
        (
            "hostAliases: [{ip: 1.2.3, hostnames: [A]}]",
            &[
                "spec.hostAliases[0].ip: Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                &format!("spec.hostAliases[0].hostnames[0]: Invalid value: \"A\": {SUBDOMAIN}"),
            ],
        ),
        (
            "nodeName: m\nschedulingGates: [{name: a}, {name: a}]",
            &[
                "spec.schedulingGates[1]: Duplicate value: \"a\"",
                "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
            ],
        ),
        (
            "ephemeralContainers: [{name: e, image: i}]",
            &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
        (
            "overhead: {cpu: x}",
            &[
                "spec.overhead.limits[cpu]: Invalid value: \"x\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ],
        ),
        (
            "preemptionPolicy: X",
            &[
                "spec.preemptionPolicy: Unsupported value: \"X\": supported values: \"Never\", \"PreemptLowerPriority\"",
            ],
        ),
    ]);
}

#[test]
fn placement_has_rules_sch_3_sch_5() {
    check_pod(&[
        (
            "topologySpreadConstraints:\n- {maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}\n- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 0}\n- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 2, nodeTaintsPolicy: X, matchLabelKeys: [a]}",
            &[
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{zone, DoNotSchedule}\"",
                "spec.topologySpreadConstraints[1].minDomains: Invalid value: 0: must be greater than zero",
                "spec.topologySpreadConstraints[2].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                "spec.topologySpreadConstraints[2].nodeTaintsPolicy: Unsupported value: \"X\": supported values: \"Honor\", \"Ignore\"",
                "spec.topologySpreadConstraints[2].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ],
        ),
        (
            "topologySpreadConstraints:\n- {maxSkew: -1, topologyKey: '', whenUnsatisfiable: Perhaps, nodeAffinityPolicy: Obey}",
            &[
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: -1: must be greater than zero",
                "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Perhaps\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
                "spec.topologySpreadConstraints[0].nodeAffinityPolicy: Unsupported value: \"Obey\": supported values: \"Honor\", \"Ignore\"",
            ],
        ),
        (
            "topologySpreadConstraints:\n- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [app, tier, hash], labelSelector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: Gt, values: ['1']}]}}",
            &[
                "spec.topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: \"app\": exists in both matchLabelKeys and labelSelector",
                "spec.topologySpreadConstraints[0].matchLabelKeys[1]: Invalid value: \"tier\": exists in both matchLabelKeys and labelSelector",
                "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator: Invalid value: \"Gt\": not a valid selector operator",
            ],
        ),
        // The same key may occur twice if one constraint is required and the other preferred.
        (
            "topologySpreadConstraints:\n- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}\n- {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}",
            &[],
        ),
        (
            "affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, podAffinityTerm: {topologyKey: zone}}, {weight: -5, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [a, c], mismatchLabelKeys: [c], namespaces: [A]}}]}}",
            &[
                "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
                "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].weight: Invalid value: -5: must be in the range 1-100",
                &format!(
                    "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].podAffinityTerm.namespace: Invalid value: \"A\": {DNS_LABEL}"
                ),
                "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].podAffinityTerm.matchLabelKeys[0]: Invalid value: \"a\": exists in both matchLabelKeys and labelSelector",
                "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].podAffinityTerm.matchLabelKeys[1]: Invalid value: \"c\": exists in both matchLabelKeys and mismatchLabelKeys",
            ],
        ),
        (
            "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, mismatchLabelKeys: [a]}]}}",
            &[
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ],
        ),
        (
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a, b]}, {key: metadata.name, operator: Gt, values: [a]}]}]}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: -1, preference: {matchExpressions: [{key: a, operator: Lt, values: ['7', '8']}]}}]}}",
            &[
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[1].operator: Invalid value: \"Gt\": not a valid selector operator",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: -1: must be in the range 1-100",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
            ],
        ),
        (
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}",
            &[
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
            ],
        ),
        (
            "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, preference: {matchExpressions: [{key: a, operator: Near}, {key: a, operator: Gt, values: [x]}, {key: a, operator: Lt}, {key: a, operator: In}, {key: a, operator: Exists, values: [b]}], matchFields: [{key: metadata.uid, operator: In, values: [a]}]}}]}}",
            &[
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[1].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[2].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[3].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[4].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].key: Invalid value: \"metadata.uid\": not a valid field selector key",
            ],
        ),
        (
            "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}}]}}",
            &[
                "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].operator: Invalid value: \"Gt\": not a valid selector operator",
                "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty",
            ],
        ),
    ]);
}
