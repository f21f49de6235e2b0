//! Containers, their probes and hooks.

use super::*;

#[test]
fn containers_have_rules_api_8() {
    check(
        Kind::Pod,
        r#"
<empty>
  ! spec.containers: Required value
spec: {containers: [{}, {name: A, image: ' i'}, {name: b, image: i}, {name: b, image: i}]}
  ! spec.containers[0].name: Required value
  ! spec.containers[0].image: Required value
  ! spec.containers[1].name: Invalid value: "A": <dns-label>
  ! spec.containers[1].image: Invalid value: " i": must not have leading or trailing whitespace
  ! spec.containers[3].name: Duplicate value: "b"
"#,
    );
    check_container(
        r#"
imagePullPolicy: Sometimes
  ! .imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"
terminationMessagePolicy: Shout
  ! .terminationMessagePolicy: Unsupported value: "Shout": supported values: "FallbackToLogsOnError", "File"
ports: [{containerPort: 0}, {containerPort: 1, protocol: ICMP}, {containerPort: 1, name: A_}, {containerPort: 2, hostPort: 70000}]
  ! .ports[0].containerPort: Required value
  ! .ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"
  ! .ports[2].name: Invalid value: "A_": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
  ! .ports[2].name: Invalid value: "A_": must contain at least one letter (a-z)
  ! .ports[3].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive
ports: [{containerPort: 1, hostPort: 5, name: a}, {containerPort: 2, hostPort: 5, name: a}]
  ! .ports[1].name: Duplicate value: "a"
  ! .ports[1].hostPort: Duplicate value: "TCP//5"
resources: {requests: {cpu: '2', memory: 1Gi}, limits: {cpu: '1', memory: x, disk: '1'}}
  ! .resources.limits[disk]: Invalid value: "disk": must be a standard resource type or fully qualified
  ! .resources.limits[disk]: Invalid value: "disk": must be a standard resource for containers
  ! .resources.limits[memory]: Invalid value: "x": <quantity>
  ! .resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1
  ! .resources.requests[disk]: Invalid value: "disk": must be a standard resource type or fully qualified
  ! .resources.requests[disk]: Invalid value: "disk": must be a standard resource for containers
resources: {requests: {cpu: '-1'}}
  ! .resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0
resources: {requests: {a.com/gpu: '1'}, limits: {a.com/gpu: 1500m}}
  ! .resources.limits[a.com/gpu]: Invalid value: "1500m": must be an integer
  ! .resources.requests: Invalid value: "1": must be equal to a.com/gpu limit of 1500m
env: [{name: ''}, {name: a=b}, {name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, valueFrom: {}}]
  ! .env[0].name: Required value
  ! .env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='
  ! .env[2].valueFrom: Invalid value: "": may not be specified when `value` is not empty
  ! .env[3].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`
env:\n- {name: A, valueFrom: {fieldRef: {fieldPath: spec.nope}}}\n- {name: B, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}\n- {name: C, valueFrom: {configMapKeyRef: {name: a, key: ../x}}}\n- {name: D, valueFrom: {resourceFieldRef: {resource: limits.gpu}}}\n- {name: E, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a']"}}}
  ! .env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nope": error converting fieldPath: field label not supported: spec.nope
  ! .env[1].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"
  ! .env[2].valueFrom.configMapKeyRef.key: Invalid value: "../x": <config-key>
  ! .env[2].valueFrom.configMapKeyRef.key: Invalid value: "../x": must not start with '..'
  ! .env[3].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.gpu": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"
env:\n- {name: A, valueFrom: {fileKeyRef: {}}}\n- {name: B, valueFrom: {fileKeyRef: {key: a=b, volumeName: v, path: ../x}}}
  ! .env[0].valueFrom.fileKeyRef.key: Required value
  ! .env[0].valueFrom.fileKeyRef.volumeName: Required value
  ! .env[0].valueFrom.fileKeyRef.path: Required value
  ! .env[1].valueFrom.fileKeyRef.key: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='
  ! .env[1].valueFrom.fileKeyRef.path: Invalid value: "../x": must not contain '..'
envFrom: [{}, {configMapRef: {name: a}, secretRef: {name: b}}, {secretRef: {}}]
  ! .envFrom[0]: Invalid value: "": must specify one of: `configMapRef` or `secretRef`
  ! .envFrom[1]: Invalid value: "": may not have more than one field specified at a time
  ! .envFrom[2].secretRef.name: Required value
volumeMounts: [{name: v, mountPath: /a}, {name: w, mountPath: /b}, {name: v, mountPath: /a}, {name: v, mountPath: /c, subPath: ../x}, {name: v, subPath: /x}]
  ! .volumeMounts[1].name: Not found: "w"
  ! .volumeMounts[2].mountPath: Invalid value: "/a": must be unique
  ! .volumeMounts[3].subPath: Invalid value: "../x": must not contain '..'
  ! .volumeMounts[4].mountPath: Required value
  ! .volumeMounts[4].subPath: Invalid value: "/x": must be a relative path
securityContext: {runAsUser: -1, privileged: true, allowPrivilegeEscalation: false}
  ! .securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive
  ! .securityContext: Invalid value: false: cannot set `allowPrivilegeEscalation` to false and `privileged` to true
"#,
    );
}

#[test]
fn probes_and_hooks_have_rules_pod_5_pod_6() {
    check_container(
        r#"
livenessProbe: {}
  ! .livenessProbe: Required value: must specify a handler type
livenessProbe: {exec: {}, tcpSocket: {port: 0}}
  ! .livenessProbe.exec.command: Required value
  ! .livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type
livenessProbe: {httpGet: {port: 0, scheme: GOPHER}, successThreshold: 2, periodSeconds: -1}
  ! .livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive
  ! .livenessProbe.httpGet.scheme: Unsupported value: "GOPHER": supported values: "HTTP", "HTTPS"
  ! .livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0
  ! .livenessProbe.successThreshold: Invalid value: 2: must be 1
startupProbe: {grpc: {port: 99999}, terminationGracePeriodSeconds: 0}
  ! .startupProbe.grpc.port: Invalid value: 99999: must be between 1 and 65535, inclusive
  ! .startupProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0
readinessProbe: {tcpSocket: {port: web--1}, terminationGracePeriodSeconds: 5, successThreshold: 2}
  ! .readinessProbe.tcpSocket.port: Invalid value: "web--1": must not contain consecutive hyphens
  ! .readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes
lifecycle: {preStop: {sleep: {seconds: 31}}, postStart: {}}
  ! .lifecycle.postStart: Required value: must specify a handler type
  ! .lifecycle.preStop: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)
"#,
    );
    check_pod(
        r"
initContainers: [{name: i, image: i, lifecycle: {}, livenessProbe: {}, startupProbe: {}}]
  ! .initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always
  ! .initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always
  ! .initContainers[0].startupProbe: Forbidden: may not be set for init containers without restartPolicy=Always
initContainers: [{name: i, image: i, restartPolicy: Always, readinessProbe: {exec: {command: [a]}}}]
",
    );
}

#[test]
fn kernel_settings_have_rules_pod_16() {
    check(
        Kind::Pod,
        r#"
spec: {containers: [{name: c, image: i}], securityContext: {sysctls: [{name: net.ipv4.tcp_rmem, value: '1'}, {name: kernel/shm_rmid_forced, value: '1'}]}}
spec: {containers: [{name: c, image: i}], securityContext: {sysctls: [{name: a, value: x}, {name: '', value: x}, {name: a, value: z}, {name: A.b, value: x}]}}
  ! spec.securityContext.sysctls[1].name: Required value
  ! spec.securityContext.sysctls[2].name: Duplicate value: "a"
  ! spec.securityContext.sysctls[3].name: Invalid value: "A.b": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$
spec: {containers: [{name: c, image: i}], securityContext: {sysctls: [{name: net.ipv4.tcp_rmem, value: '1'}, {name: kernel/shm_rmid_forced, value: '1'}]}, hostNetwork: true, hostIPC: true}
  ! spec.securityContext.sysctls[0].name: Invalid value: "net.ipv4.tcp_rmem": may not be specified when 'hostNetwork' is true
  ! spec.securityContext.sysctls[1].name: Invalid value: "kernel/shm_rmid_forced": may not be specified when 'hostIPC' is true
"#,
    );
}
