//! Tables of objects and of what is wrong with them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::default::apply_defaults;
use crate::manifest::from_yaml;
use crate::object::Kind;

/// Reads and defaults an object; namespace and name are given where the text leaves them out.
fn object(kind: Kind, text: &str) -> Object {
    let mut value = from_yaml(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    if value.is_null() {
        value = json!({});
    }
    let mut object = Object::from_value(kind, value).unwrap_or_else(|e| panic!("{e}: {text}"));
    let meta = object.meta_mut();
    if meta.name.is_none() {
        meta.name = Some("x".into());
    }
    if kind.namespaced() && meta.namespace.is_none() {
        meta.namespace = Some("default".into());
    }
    apply_defaults(&mut object);
    object
}

fn shown(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// What is wrong with new objects.
fn check(kind: Kind, cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(shown(&validate_create(&object(kind, text))), *expected, "{text}");
    }
}

/// What is wrong with changes: (old, new, expected).
fn check_change(kind: Kind, cases: &[(&str, &str, &[&str])]) {
    for (old, new, expected) in cases {
        let errors = validate_update(&object(kind, new), &object(kind, old));
        assert_eq!(shown(&errors), *expected, "{old} -> {new}");
    }
}

/// What is wrong with pods that have a good container and this in their spec.
fn check_pod(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        let text = format!("spec:\n  containers: [{{name: c, image: i}}]\n  {}", text.replace('\n', "\n  "));
        assert_eq!(shown(&validate_create(&object(Kind::Pod, &text))), *expected, "{text}");
    }
}

/// What is wrong with pods whose one container has this.
fn check_container(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        let indented = text.replace('\n', "\n    ");
        let text = format!(
            "spec:\n  volumes: [{{name: v}}]\n  containers:\n  - name: c\n    image: i\n    {indented}"
        );
        let errors = shown(&validate_create(&object(Kind::Pod, &text)));
        let errors: Vec<_> =
            errors.iter().map(|e| e.strip_prefix("spec.containers[0].").unwrap_or(e)).collect();
        assert_eq!(errors, *expected, "{text}");
    }
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The message of a Status, as the API puts it together.
fn message(errors: &[FieldError], kind: Kind, name: &str) -> String {
    format!("{} \"{name}\" is invalid: {}", kind.info().qualified_name(), join(errors))
}

#[test]
fn the_reference_answers_are_given_word_for_word_api_8() {
    let bad_name = object(Kind::ConfigMap, "metadata: {name: Bad_Name}");
    assert_eq!(
        message(&validate_create(&bad_name), Kind::ConfigMap, "Bad_Name"),
        format!("ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": {SUBDOMAIN}")
    );
    let deployment = object(
        Kind::Deployment,
        "metadata: {name: bad}
spec:
  replicas: -1
  selector: {matchLabels: {a: x}}
  template:
    metadata: {labels: {a: b}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: nginx, ports: [{containerPort: 99999}]}]",
    );
    assert_eq!(
        message(&validate_create(&deployment), Kind::Deployment, "bad"),
        "Deployment.apps \"bad\" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, spec.template.metadata.labels: Invalid value: map[string]string{\"a\":\"b\"}: `selector` does not match template `labels`, spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive, spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"]"
    );
    let web = |label: &str| {
        object(
            Kind::Deployment,
            &format!(
                "metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: {label}}}}}
  template: {{metadata: {{labels: {{app: {label}}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}"
            ),
        )
    };
    assert_eq!(
        message(&validate_update(&web("other"), &web("web")), Kind::Deployment, "web"),
        "Deployment.apps \"web\" is invalid: spec.selector: Invalid value: v1.LabelSelector{MatchLabels:map[string]string{\"app\":\"other\"}, MatchExpressions:[]v1.LabelSelectorRequirement(nil)}: field is immutable"
    );
    let duplicate = object(
        Kind::Pod,
        "metadata: {name: dup}
spec:
  containers: [{name: c, image: nginx}]
  initContainers: [{name: c, image: nginx, readinessProbe: {exec: {command: [x]}}}]
  topologySpreadConstraints: [{whenUnsatisfiable: Maybe}]",
    );
    // The probe's own words are newer Kubernetes': the reference shows a memory address there.
    assert_eq!(
        message(&validate_create(&duplicate), Kind::Pod, "dup"),
        "Pod \"dup\" is invalid: [spec.initContainers[0].name: Duplicate value: \"c\", spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always, spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero, spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty, spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Maybe\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"]"
    );
}

#[test]
fn metadata_has_rules_of_its_own_api_5() {
    let huge = format!("metadata: {{annotations: {{a: {}}}}}", "x".repeat(256 * 1024));
    check(
        Kind::ConfigMap,
        &[
            ("", &[]),
            (
                "metadata: {name: '', generateName: A-}",
                &[
                    &format!("metadata.generateName: Invalid value: \"A-\": {SUBDOMAIN}"),
                    "metadata.name: Required value: name or generateName is required",
                ],
            ),
            (
                "metadata: {name: a-, generateName: a-}",
                &[&format!("metadata.name: Invalid value: \"a-\": {SUBDOMAIN}")],
            ),
            (&huge, &["metadata.annotations: Too long: may not be more than 262144 bytes"]),
            (
                "metadata: {labels: {a b: c, d: e f}}",
                &[
                    "metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                    "metadata.labels[d]: Invalid value: \"e f\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                ],
            ),
            (
                "metadata: {finalizers: [mine, a/b, orphan]}",
                &[
                    "metadata.finalizers: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully qualified",
                ],
            ),
            (
                "metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: ''}]}",
                &["metadata.ownerReferences[0].uid: Invalid value: \"\": must not be empty"],
            ),
        ],
    );
    check(
        Kind::Node,
        &[("metadata: {namespace: a}", &["metadata.namespace: Forbidden: not allowed on this type"])],
    );
    check(
        Kind::Service,
        &[(
            "metadata: {name: 0a}\nspec: {ports: [{port: 80}]}",
            &[
                "metadata.name: Invalid value: \"0a\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            ],
        )],
    );
    check_change(
        Kind::ConfigMap,
        &[
            (
                "metadata: {name: a}",
                "metadata: {name: b}",
                &["metadata.name: Invalid value: \"b\": field is immutable"],
            ),
            (
                "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a/b]}",
                "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a/b, c/d]}",
                &[
                    "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}",
                ],
            ),
        ],
    );
}

#[test]
fn containers_have_rules_api_8() {
    check(
        Kind::Pod,
        &[
            ("", &["spec.containers: Required value"]),
            (
                "spec: {containers: [{}, {name: A, image: ' i'}, {name: b, image: i}, {name: b, image: i}]}",
                &[
                    "spec.containers[0].name: Required value",
                    "spec.containers[0].image: Required value",
                    "spec.containers[1].name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                    "spec.containers[1].image: Invalid value: \" i\": must not have leading or trailing whitespace",
                    "spec.containers[3].name: Duplicate value: \"b\"",
                ],
            ),
        ],
    );
    check_container(&[
        (
            "imagePullPolicy: Sometimes",
            &[
                "imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ],
        ),
        (
            "terminationMessagePolicy: Shout",
            &[
                "terminationMessagePolicy: Unsupported value: \"Shout\": supported values: \"FallbackToLogsOnError\", \"File\"",
            ],
        ),
        (
            "ports: [{containerPort: 0}, {containerPort: 1, protocol: ICMP}, {containerPort: 1, name: A_}, {containerPort: 2, hostPort: 70000}]",
            &[
                "ports[0].containerPort: Required value",
                "ports[1].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                "ports[2].name: Invalid value: \"A_\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "ports[2].name: Invalid value: \"A_\": must contain at least one letter (a-z)",
                "ports[3].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            "ports: [{containerPort: 1, hostPort: 5, name: a}, {containerPort: 2, hostPort: 5, name: a}]",
            &["ports[1].name: Duplicate value: \"a\"", "ports[1].hostPort: Duplicate value: \"TCP//5\""],
        ),
        (
            "resources: {requests: {cpu: '2', memory: 1Gi}, limits: {cpu: '1', memory: x, disk: '1'}}",
            &[
                "resources.limits: Invalid value: \"disk\": must be a standard resource for containers",
                "resources.limits[memory]: Invalid value: \"x\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                "resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
                "resources.requests: Invalid value: \"disk\": must be a standard resource for containers",
            ],
        ),
        (
            "resources: {requests: {cpu: '-1'}}",
            &["resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
        ),
        (
            "resources: {requests: {a.com/gpu: '1'}, limits: {a.com/gpu: 1500m}}",
            &[
                "resources.limits[a.com/gpu]: Invalid value: \"1500m\": must be an integer",
                "resources.requests: Invalid value: \"1\": must be equal to a.com/gpu limit of 1500m",
            ],
        ),
        (
            "env: [{name: ''}, {name: a=b}, {name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, valueFrom: {}}]",
            &[
                "env[0].name: Required value",
                "env[1].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
                "env[2].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
                "env[3].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ],
        ),
        (
            "env:\n- {name: A, valueFrom: {fieldRef: {fieldPath: spec.nope}}}\n- {name: B, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}\n- {name: C, valueFrom: {configMapKeyRef: {name: a, key: ../x}}}\n- {name: D, valueFrom: {resourceFieldRef: {resource: limits.gpu}}}\n- {name: E, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a']\"}}}",
            &[
                "env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.nope\": error converting fieldPath: field label not supported: spec.nope",
                "env[1].valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
                "env[2].valueFrom.configMapKeyRef.key: Invalid value: \"../x\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                "env[2].valueFrom.configMapKeyRef.key: Invalid value: \"../x\": must not start with '..'",
                "env[3].valueFrom.resourceFieldRef.resource: Unsupported value: \"limits.gpu\": supported values: \"limits.cpu\", \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", \"requests.ephemeral-storage\", \"requests.memory\"",
            ],
        ),
        (
            "envFrom: [{}, {configMapRef: {name: a}, secretRef: {name: b}}, {secretRef: {}}]",
            &[
                "envFrom[0]: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
                "envFrom[1]: Invalid value: \"\": may not have more than one field specified at a time",
                "envFrom[2].secretRef.name: Required value",
            ],
        ),
        (
            "volumeMounts: [{name: v, mountPath: /a}, {name: w, mountPath: /b}, {name: v, mountPath: /a}, {name: v, mountPath: /c, subPath: ../x}, {name: v, subPath: /x}]",
            &[
                "volumeMounts[1].name: Not found: \"w\"",
                "volumeMounts[2].mountPath: Invalid value: \"/a\": must be unique",
                "volumeMounts[3].subPath: Invalid value: \"../x\": must not contain '..'",
                "volumeMounts[4].mountPath: Required value",
                "volumeMounts[4].subPath: Invalid value: \"/x\": must be a relative path",
            ],
        ),
        (
            "securityContext: {runAsUser: -1, privileged: true, allowPrivilegeEscalation: false}",
            &[
                "securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "securityContext: Invalid value: false: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ],
        ),
    ]);
}

#[test]
fn probes_and_hooks_have_rules_pod_5_pod_6() {
    check_container(&[
        ("livenessProbe: {}", &["livenessProbe: Required value: must specify a handler type"]),
        (
            "livenessProbe: {exec: {}, tcpSocket: {port: 0}}",
            &[
                "livenessProbe.exec.command: Required value",
                "livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
            ],
        ),
        (
            "livenessProbe: {httpGet: {port: 0, scheme: GOPHER}, successThreshold: 2, periodSeconds: -1}",
            &[
                "livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "livenessProbe.httpGet.scheme: Unsupported value: \"GOPHER\": supported values: \"HTTP\", \"HTTPS\"",
                "livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                "livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
        (
            "startupProbe: {grpc: {port: 99999}, terminationGracePeriodSeconds: 0}",
            &[
                "startupProbe.grpc.port: Invalid value: 99999: must be between 1 and 65535, inclusive",
                "startupProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0",
            ],
        ),
        (
            "readinessProbe: {tcpSocket: {port: web--1}, terminationGracePeriodSeconds: 5, successThreshold: 2}",
            &[
                "readinessProbe.tcpSocket.port: Invalid value: \"web--1\": must not contain consecutive hyphens",
                "readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes",
            ],
        ),
        (
            "lifecycle: {preStop: {sleep: {seconds: 31}}, postStart: {}}",
            &[
                "lifecycle.postStart: Required value: must specify a handler type",
                "lifecycle.preStop: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
            ],
        ),
    ]);
    check_pod(&[
        (
            "initContainers: [{name: i, image: i, lifecycle: {}, livenessProbe: {}, startupProbe: {}}]",
            &[
                "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always",
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
                "spec.initContainers[0].startupProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
        (
            "initContainers: [{name: i, image: i, restartPolicy: Always, readinessProbe: {exec: {command: [a]}}}]",
            &[],
        ),
    ]);
}

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
            &[
                "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
            ],
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
                "spec.volumes[4].secret.secretName: Required value",
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
                "spec.overhead[cpu]: Invalid value: \"x\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
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
                "spec.topologySpreadConstraints[1].minDomains: Invalid value: 0: must be greater than 0",
                "spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{zone, DoNotSchedule}\"",
                "spec.topologySpreadConstraints[2].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                "spec.topologySpreadConstraints[2].nodeTaintsPolicy: Unsupported value: \"X\": supported values: \"Honor\", \"Ignore\"",
                "spec.topologySpreadConstraints[2].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
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

#[test]
fn pods_are_mostly_frozen_api_5() {
    let pod = |rest: &str| format!("spec:\n  containers: [{{name: c, image: i}}]\n  {rest}");
    let frozen = |old: &str, new: &str| {
        let errors = validate_update(&object(Kind::Pod, &pod(new)), &object(Kind::Pod, &pod(old)));
        shown(&errors)
    };
    // What may change.
    for (old, new) in [
        ("activeDeadlineSeconds: 5", "activeDeadlineSeconds: 3"),
        ("", "activeDeadlineSeconds: 3"),
        (
            "tolerations: [{key: a}]",
            "tolerations: [{key: a, tolerationSeconds: 5, effect: NoExecute}, {key: b}]",
        ),
        ("tolerations: [{key: a}]", "tolerations: [{key: a}, {key: b}]"),
        ("terminationGracePeriodSeconds: -1", "terminationGracePeriodSeconds: 1"),
        ("schedulingGates: [{name: a}, {name: b}]", "schedulingGates: [{name: b}]"),
        ("schedulingGates: [{name: a}]", "schedulingGates: [{name: a}]\n  nodeSelector: {a: b}"),
        (
            "schedulingGates: [{name: a}]",
            "schedulingGates: [{name: a}]\n  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}",
        ),
    ] {
        let errors = frozen(old, new);
        if new.contains("effect: NoExecute") {
            assert_eq!(
                errors,
                [
                    "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
                ]
            );
        } else {
            assert_eq!(errors, Vec::<String>::new(), "{old} -> {new}");
        }
    }
    let image = |image: &str| {
        object(
            Kind::Pod,
            &format!("spec: {{containers: [{{name: c, image: '{image}', imagePullPolicy: Always}}]}}"),
        )
    };
    assert_eq!(validate_update(&image("b"), &image("a")), []);
    assert_eq!(
        shown(&validate_update(&image(""), &image("a"))),
        ["spec.containers[0].image: Required value"]
    );
    // What may not.
    for (old, new, expected) in [
        (
            "activeDeadlineSeconds: 3",
            "activeDeadlineSeconds: 5",
            "spec.activeDeadlineSeconds: Invalid value: 5: must be less than or equal to previous value",
        ),
        (
            "activeDeadlineSeconds: 3",
            "",
            "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
        ),
        (
            "tolerations: [{key: a}]",
            "tolerations: [{key: b}]",
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ),
        (
            "",
            "schedulingGates: [{name: a}]",
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a'",
        ),
        (
            "schedulingGates: [{name: a}]\n  nodeSelector: {a: b}",
            "schedulingGates: [{name: a}]\n  nodeSelector: {a: c}",
            "spec.nodeSelector: Invalid value: map[string]string{\"a\":\"c\"}: only additions are allowed",
        ),
    ] {
        assert_eq!(frozen(old, new), [expected], "{old} -> {new}");
    }
    for (old, new) in [
        ("", "nodeSelector: {a: b}"),
        ("", "hostname: h"),
        ("terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 1"),
        ("nodeName: a", "nodeName: b"),
    ] {
        let errors = frozen(old, new);
        assert!(
            errors.len() == 1
                && errors[0].starts_with("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, `spec.activeDeadlineSeconds` or `spec.tolerations` (only additions to existing tolerations)\n\u{a0}\u{a0}core.PodSpec{\n"),
            "{errors:?}"
        );
    }
    let two = object(Kind::Pod, "spec: {containers: [{name: c, image: i}, {name: d, image: i}]}");
    let one = object(Kind::Pod, &pod(""));
    assert_eq!(
        shown(&validate_update(&two, &one)),
        ["spec.containers: Forbidden: pod updates may not add or remove containers"]
    );
}

#[test]
fn ephemeral_containers_are_only_added_eph_1() {
    let pod = |list: &str| {
        object(
            Kind::Pod,
            &format!("spec:\n  containers: [{{name: c, image: i}}]\n  ephemeralContainers: [{list}]"),
        )
    };
    for (old, new, expected) in [
        ("", "{name: e, image: i, targetContainerName: c}", &[][..]),
        ("{name: e, image: i}", "{name: e, image: i}, {name: f, image: i}", &[]),
        (
            "{name: e, image: i}",
            "",
            &[
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n",
            ],
        ),
        (
            "{name: e, image: i}",
            "{name: e, image: j}",
            &[
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be changed\n",
            ],
        ),
        (
            "",
            "{name: c, image: '', targetContainerName: x, ports: [{containerPort: 1}], livenessProbe: {}, lifecycle: {}, resources: {limits: {cpu: '1'}}}",
            &[
                "spec.ephemeralContainers[0].image: Required value",
                "spec.ephemeralContainers[0].name: Duplicate value: \"c\"",
                "spec.ephemeralContainers[0].targetContainerName: Not found: \"x\"",
                "spec.ephemeralContainers[0].lifecycle: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers[0].livenessProbe: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
            ],
        ),
    ] {
        let errors = validate_ephemeral_containers_update(&pod(new), &pod(old));
        assert_eq!(shown(&errors), expected, "{old} -> {new}");
    }
}

#[test]
fn a_container_that_ended_stays_ended_pod_4() {
    let pod = |policy: &str, state: &str| {
        object(
            Kind::Pod,
            &format!(
                "spec: {{restartPolicy: {policy}, containers: [{{name: c, image: i}}]}}\nstatus: {{containerStatuses: [{{name: c, image: i, imageID: '', ready: false, restartCount: 0, state: {{{state}}}}}]}}"
            ),
        )
    };
    let told =
        ["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"];
    for (policy, exit_code, allowed) in
        [("Always", 0, true), ("OnFailure", 1, true), ("OnFailure", 0, false), ("Never", 1, false)]
    {
        let old = pod(policy, &format!("terminated: {{exitCode: {exit_code}}}"));
        let errors = shown(&validate_status_update(&pod(policy, "running: {}"), &old));
        assert_eq!(errors, if allowed { &[][..] } else { &told[..] }, "{policy} {exit_code}");
    }
}

#[test]
fn deployments_have_rules_api_8() {
    let deployment = |rest: &str| {
        format!(
            "spec:\n  selector: {{matchLabels: {{a: b}}}}\n  template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}\n  {rest}"
        )
    };
    for (rest, expected) in [
        ("", &[][..]),
        (
            "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}",
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
            ],
        ),
        (
            "strategy: {rollingUpdate: {maxSurge: 0%, maxUnavailable: 0}}",
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
            ],
        ),
        (
            "strategy: {rollingUpdate: {maxSurge: 25, maxUnavailable: 101%}}",
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        ),
        (
            "strategy: {rollingUpdate: {maxSurge: ten, maxUnavailable: -1}}",
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0",
                "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"ten\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            ],
        ),
        (
            "strategy: {type: Recreate, rollingUpdate: {}}",
            &[
                "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
            ],
        ),
        (
            "strategy: {type: Slowly}",
            &[
                "spec.strategy: Unsupported value: \"Slowly\": supported values: \"Recreate\", \"RollingUpdate\"",
            ],
        ),
        (
            "minReadySeconds: -1",
            &["spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            "minReadySeconds: 5\n  progressDeadlineSeconds: 5",
            &["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
        ),
    ] {
        check(Kind::Deployment, &[(&deployment(rest), expected)]);
    }
    check(
        Kind::Deployment,
        &[(
            "spec: {template: {metadata: {labels: {a: b}}, spec: {activeDeadlineSeconds: 5, containers: [{name: c, image: i}]}}}",
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: map[string]string{\"a\":\"b\"}: `selector` does not match template `labels`",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            ],
        )],
    );
    check(
        Kind::ReplicaSet,
        &[(
            "spec: {replicas: -2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}",
            &[
                "spec.replicas: Invalid value: -2: must be greater than or equal to 0",
                "spec.template.spec.containers: Required value",
            ],
        )],
    );
}

#[test]
fn services_have_rules_api_8() {
    check(
        Kind::Service,
        &[
            ("spec: {ports: [{port: 80}]}", &[]),
            ("spec: {}", &["spec.ports: Required value"]),
            ("spec: {clusterIP: None}", &[]),
            (
                "spec: {type: Magic, ports: [{port: 80}]}",
                &[
                    "spec.type: Unsupported value: \"Magic\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
                ],
            ),
            (
                "spec: {ports: [{port: 0}, {port: 80, name: a}, {port: 80, name: a, targetPort: Web}]}",
                &[
                    "spec.ports[0].name: Required value",
                    "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.ports[2].name: Duplicate value: \"a\"",
                    "spec.ports[2].targetPort: Invalid value: \"Web\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    "spec.ports[2]: Duplicate value: {\"name\":\"a\",\"port\":80,\"protocol\":\"TCP\",\"targetPort\":\"Web\"}",
                ],
            ),
            (
                "spec: {ports: [{port: 80, nodePort: 30000}]}",
                &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
            ),
            (
                "spec: {type: ExternalName, clusterIP: 1.2.3.4}",
                &[
                    "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
                    "spec.externalName: Required value",
                ],
            ),
            (
                "spec: {type: NodePort, clusterIP: None, ports: [{port: 80}]}",
                &[
                    "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
                ],
            ),
            (
                "spec: {sessionAffinity: Sticky, ports: [{port: 80}]}",
                &[
                    "spec.sessionAffinity: Unsupported value: \"Sticky\": supported values: \"ClientIP\", \"None\"",
                ],
            ),
            (
                "spec: {externalTrafficPolicy: Local, ports: [{port: 80}]}",
                &[
                    "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
                ],
            ),
        ],
    );
    check_change(
        Kind::Service,
        &[
            (
                "spec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}",
                "spec: {clusterIP: 10.0.0.2, ports: [{port: 80}]}",
                &["spec.clusterIPs[0]: Invalid value: []string{\"10.0.0.2\"}: may not change once set"],
            ),
            (
                "spec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}",
                "spec: {type: ExternalName, externalName: a.b}",
                &[],
            ),
        ],
    );
}

#[test]
fn config_maps_and_secrets_have_rules_api_8() {
    let large = format!("data: {{a: {}}}", "x".repeat(1024 * 1024 + 1));
    check(
        Kind::ConfigMap,
        &[
            ("data: {a.b-c_D: x}", &[]),
            (
                "data: {../etc/passwd: x}",
                &[
                    "data[../etc/passwd]: Invalid value: \"../etc/passwd\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                    "data[../etc/passwd]: Invalid value: \"../etc/passwd\": must not start with '..'",
                ],
            ),
            (
                "data: {a: x}\nbinaryData: {a: eA==}",
                &["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
            ),
            (&large, &["[]: Too long: may not be more than 1048576 bytes"]),
        ],
    );
    let frozen = "Forbidden: field is immutable when `immutable` is set";
    check_change(
        Kind::ConfigMap,
        &[
            (
                "immutable: true\ndata: {a: v}",
                "data: {a: w}",
                &[&format!("immutable: {frozen}"), &format!("data: {frozen}")],
            ),
            ("data: {a: x}", "immutable: true\ndata: {a: w}", &[]),
        ],
    );
    check(
        Kind::Secret,
        &[
            ("stringData: {a: x}", &[]),
            ("stringData: {'..': x}", &["data[..]: Invalid value: \"..\": must not be '..'"]),
            ("type: kubernetes.io/tls", &["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        ],
    );
    check_change(
        Kind::Secret,
        &[("type: a", "type: b", &["type: Invalid value: \"b\": field is immutable"])],
    );
}

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
        shown(&validate_binding(&binding)),
        [
            "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"",
            "target.name: Required value"
        ]
    );
}

/// Objects that are nearly right: real field names with values of any shape.
fn nearly_objects() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "metadata",
        "name",
        "namespace",
        "labels",
        "spec",
        "status",
        "containers",
        "initContainers",
        "image",
        "ports",
        "containerPort",
        "hostPort",
        "env",
        "value",
        "valueFrom",
        "fieldRef",
        "fieldPath",
        "resources",
        "limits",
        "requests",
        "cpu",
        "volumes",
        "hostPath",
        "path",
        "volumeMounts",
        "subPath",
        "livenessProbe",
        "httpGet",
        "port",
        "selector",
        "matchLabels",
        "matchExpressions",
        "operator",
        "key",
        "values",
        "template",
        "replicas",
        "strategy",
        "rollingUpdate",
        "maxSurge",
        "tolerations",
        "affinity",
        "nodeAffinity",
        "type",
        "data",
        "targetPort",
        "taints",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
        "topologySpreadConstraints",
        "maxSkew",
        "ephemeralContainers",
        "addresses",
        "subsets",
        "minAvailable",
        "involvedObject",
        "items",
        "clusterIP",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,8}|[a-z./%=-]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..5)
                .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (k.to_string(), v)).collect())),
        ]
    })
}

/// Puts `value` in place of the part of `object` that `choice` picks.
fn graft(object: &mut Value, choice: usize, value: &Value) {
    let mut paths = Vec::new();
    collect(object, &mut String::new(), &mut paths);
    if let Some(place) = paths.get(choice % paths.len().max(1)).and_then(|p| object.pointer_mut(p)) {
        *place = value.clone();
    }
}

fn collect(value: &Value, path: &mut String, paths: &mut Vec<String>) {
    let length = path.len();
    let mut visit = |key: &str, inner: &Value| {
        path.push('/');
        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        paths.push(path.clone());
        collect(inner, path, paths);
        path.truncate(length);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, inner)| visit(key, inner)),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, inner)| visit(&i.to_string(), inner)),
        _ => {}
    }
}

const WHOLE_POD: &str = "
metadata: {name: p, namespace: default, labels: {a: b}, annotations: {c: d}, ownerReferences: [{apiVersion: v1, kind: Pod, name: o, uid: u, controller: true}]}
spec:
  volumes: [{name: v, configMap: {name: c, items: [{key: k, path: p}]}}, {name: h, hostPath: {path: /x}}, {name: p, projected: {sources: [{serviceAccountToken: {path: t}}]}}]
  containers:
  - name: c
    image: i:1
    ports: [{containerPort: 80, hostPort: 80, name: web, hostIP: 127.0.0.1}]
    env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}]
    envFrom: [{configMapRef: {name: c}}]
    resources: {limits: {cpu: '1', memory: 1Gi}, requests: {cpu: 500m}}
    volumeMounts: [{name: v, mountPath: /v, subPath: s}]
    livenessProbe: {httpGet: {port: web, httpHeaders: [{name: A, value: b}]}}
    lifecycle: {preStop: {sleep: {seconds: 3}}}
    securityContext: {runAsUser: 5}
  initContainers: [{name: i, image: i, restartPolicy: Always}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ['1']}]}]}}}
  tolerations: [{key: a, operator: Exists}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]
  hostAliases: [{ip: 1.2.3.4, hostnames: [a]}]
  schedulingGates: [{name: g}]
  overhead: {cpu: 1m}
";

fn never_panics(value: &Value, old: &Object) {
    for kind in Kind::ALL {
        let Ok(mut object) = Object::from_value(*kind, value.clone()) else { continue };
        apply_defaults(&mut object);
        let _ = join(&validate_create(&object));
        let _ = join(&validate_update(&object, &object.clone()));
        let _ = join(&validate_update(&object, old));
        let _ = join(&validate_status_update(&object, old));
        let _ = join(&validate_ephemeral_containers_update(&object, old));
    }
}

#[test]
fn a_pod_with_everything_is_good_api_8() {
    assert_eq!(shown(&validate_create(&object(Kind::Pod, WHOLE_POD))), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_json_panics_sec_2(value in nearly_objects()) {
        never_panics(&value, &object(Kind::Pod, WHOLE_POD));
    }

    #[test]
    fn no_change_of_a_pod_panics_sec_2(
        grafts in prop::collection::vec((any::<prop::sample::Index>(), nearly_objects()), 1..3)
    ) {
        let mut value = from_yaml(WHOLE_POD).unwrap();
        for (place, graft_value) in &grafts {
            graft(&mut value, place.index(1000), graft_value);
        }
        never_panics(&value, &object(Kind::Pod, WHOLE_POD));
    }
}
