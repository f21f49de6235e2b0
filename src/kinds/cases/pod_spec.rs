//! Validation of pod specs.

use super::*;

#[test]
fn pod_specs_have_rules_api_8() {
    check_pod(
        r#"
<empty>
restartPolicy: Maybe
  ! .restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"
dnsPolicy: X
  ! .dnsPolicy: Unsupported value: "X": supported values: "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"
dnsPolicy: None
  ! .dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None
activeDeadlineSeconds: 0
  ! .activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive
volumes: [{name: a}, {name: a}, {name: B}, {}, {name: d, secret: {}, emptyDir: {}}, {name: e, hostPath: {path: /a/../b, type: X}}]
  ! .volumes[1].name: Duplicate value: "a"
  ! .volumes[2].name: Invalid value: "B": <dns-label>
  ! .volumes[3].name: Required value
  ! .volumes[4].secret: Forbidden: may not specify more than 1 volume type
  ! .volumes[5].hostPath.path: Invalid value: "/a/../b": must not contain '..'
  ! .volumes[5].hostPath.type: Unsupported value: "X": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"
volumes: [{name: a, configMap: {name: x, defaultMode: 9999, items: [{key: k, path: ../../etc/passwd}, {key: '', path: ..x}]}}]
  ! .volumes[0].configMap.defaultMode: Invalid value: 9999: must be a number between 0 and 0777 (octal), both inclusive
  ! .volumes[0].configMap.items[0].path: Invalid value: "../../etc/passwd": must not contain '..'
  ! .volumes[0].configMap.items[1].key: Required value
  ! .volumes[0].configMap.items[1].path: Invalid value: "..x": must not start with '..'
tolerations: [{key: a, operator: Near}, {operator: Equal, value: v}, {operator: Exists, value: v}, {key: k, effect: Nope}, {key: k, effect: NoSchedule, tolerationSeconds: 5}]
  ! .tolerations[0].operator: Unsupported value: "Near": supported values: "Equal", "Exists"
  ! .tolerations[1].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"
  ! .tolerations[2].operator: Invalid value: "v": value must be empty when `operator` is 'Exists'
  ! .tolerations[3].effect: Unsupported value: "Nope": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
  ! .tolerations[4].effect: Invalid value: "NoSchedule": effect must be 'NoExecute' when `tolerationSeconds` is set
hostAliases: [{ip: 1.2.3, hostnames: [A]}]
  ! .hostAliases[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
  ! .hostAliases[0].hostnames[0]: Invalid value: "A": <subdomain>
nodeName: m\nschedulingGates: [{name: a}, {name: a}]
  ! .schedulingGates[1]: Duplicate value: "a"
  ! .nodeName: Forbidden: cannot be set until all schedulingGates have been cleared
ephemeralContainers: [{name: e, image: i}]
  ! .ephemeralContainers: Forbidden: cannot be set on create
overhead: {cpu: x}
  ! .overhead.limits[cpu]: Invalid value: "x": <quantity>
preemptionPolicy: X
  ! .preemptionPolicy: Unsupported value: "X": supported values: "Never", "PreemptLowerPriority"
"#,
    );
}

#[test]
fn placement_has_rules_sch_3_sch_5() {
    check_pod(
        r#"
topologySpreadConstraints:\n- {maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}\n- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 0}\n- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 2, nodeTaintsPolicy: X, matchLabelKeys: [a]}
  ! .topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero
  ! .topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"
  ! .topologySpreadConstraints[1].minDomains: Invalid value: 0: must be greater than zero
  ! .topologySpreadConstraints[2].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway
  ! .topologySpreadConstraints[2].nodeTaintsPolicy: Unsupported value: "X": supported values: "Honor", "Ignore"
  ! .topologySpreadConstraints[2].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set
topologySpreadConstraints:\n- {maxSkew: -1, topologyKey: '', whenUnsatisfiable: Perhaps, nodeAffinityPolicy: Obey}
  ! .topologySpreadConstraints[0].maxSkew: Invalid value: -1: must be greater than zero
  ! .topologySpreadConstraints[0].topologyKey: Required value: can not be empty
  ! .topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Perhaps": supported values: "DoNotSchedule", "ScheduleAnyway"
  ! .topologySpreadConstraints[0].nodeAffinityPolicy: Unsupported value: "Obey": supported values: "Honor", "Ignore"
topologySpreadConstraints:\n- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [app, tier, hash], labelSelector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: Gt, values: ['1']}]}}
  ! .topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector
  ! .topologySpreadConstraints[0].matchLabelKeys[1]: Invalid value: "tier": exists in both matchLabelKeys and labelSelector
  ! .topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator
# The same key may occur twice if one constraint is required and the other preferred.
topologySpreadConstraints:\n- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}\n- {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, podAffinityTerm: {topologyKey: zone}}, {weight: -5, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [a, c], mismatchLabelKeys: [c], namespaces: [A]}}]}}
  ! .affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100
  ! .affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].weight: Invalid value: -5: must be in the range 1-100
  ! .affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].podAffinityTerm.namespace: Invalid value: "A": <dns-label>
  ! .affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].podAffinityTerm.matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector
  ! .affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].podAffinityTerm.matchLabelKeys[1]: Invalid value: "c": exists in both matchLabelKeys and mismatchLabelKeys
affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, mismatchLabelKeys: [a]}]}}
  ! .affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a, b]}, {key: metadata.name, operator: Gt, values: [a]}]}]}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: -1, preference: {matchExpressions: [{key: a, operator: Lt, values: ['7', '8']}]}}]}}
  ! .affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector
  ! .affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[1].operator: Invalid value: "Gt": not a valid selector operator
  ! .affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: -1: must be in the range 1-100
  ! .affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}
  ! .affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, preference: {matchExpressions: [{key: a, operator: Near}, {key: a, operator: Gt, values: [x]}, {key: a, operator: Lt}, {key: a, operator: In}, {key: a, operator: Exists, values: [b]}], matchFields: [{key: metadata.uid, operator: In, values: [a]}]}}]}}
  ! .affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100
  ! .affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator
  ! .affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[1].values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer
  ! .affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[2].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'
  ! .affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[3].values: Required value: must be specified when `operator` is 'In' or 'NotIn'
  ! .affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[4].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'
  ! .affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].key: Invalid value: "metadata.uid": not a valid field selector key
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}}]}}
  ! .affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator
  ! .affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty
"#,
    );
}
