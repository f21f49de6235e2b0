//! Cases of resources: huge pages, devices, and requests of whole pods.

use super::*;

#[test]
fn huge_pages_are_whole_limited_and_not_alone_api_8() {
    check_container(
        r#"
resources: {limits: {hugepages-2Mi: 4Mi, memory: 1Gi}}
resources: {limits: {hugepages-2Mi: 4Mi}, requests: {cpu: 1}}
resources: {limits: {hugepages-2Mi: 4Mi}}
  ! .resources: Forbidden: HugePages require cpu or memory
resources: {limits: {hugepages-2Mi: 3Mi, cpu: 1}}
  ! .resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi
  ! .resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi
resources: {requests: {hugepages-2Mi: 2Mi, cpu: 1}}
  ! .resources.limits: Required value: Limit must be set for non overcommitable resources
resources: {limits: {hugepages-2Mi: 4Mi, cpu: 1}, requests: {hugepages-2Mi: 2Mi}}
  ! .resources.requests: Invalid value: "2Mi": must be equal to hugepages-2Mi limit of 4Mi
resources: {limits: {pods: 1}}
  ! .resources.limits[pods]: Invalid value: "pods": must be a standard resource for containers
  ! .resources.requests[pods]: Invalid value: "pods": must be a standard resource for containers
"#,
    );
}

#[test]
fn claims_of_devices_are_the_pods_own_api_8() {
    check(
        Kind::Pod,
        r#"
spec: {resourceClaims: [{name: a, resourceClaimName: c}], containers: [{name: c, image: i, resources: {claims: [{name: a}]}}]}
spec: {resourceClaims: [{name: a, resourceClaimName: c}], containers: [{name: c, image: i, resources: {claims: [{name: a, request: x}, {name: a, request: z}]}}]}
spec: {resourceClaims: [{name: a, resourceClaimTemplateName: t}], containers: [{name: c, image: i, resources: {claims: []}}]}
spec: {resourceClaims: [{name: a, resourceClaimName: c}], containers: [{name: c, image: i, resources: {claims: [{name: b}]}}]}
  ! spec.containers[0].resources.claims[0]: Not found: "b": must be one of the names in pod.spec.resourceClaims: a
spec: {resourceClaims: [], containers: [{name: c, image: i, resources: {claims: [{name: b}]}}]}
  ! spec.containers[0].resources.claims[0]: Not found: "b": must be one of the names in pod.spec.resourceClaims which is empty
spec: {resourceClaims: [{name: a, resourceClaimName: c}], containers: [{name: c, image: i, resources: {claims: [{name: a}, {name: a}]}}]}
  ! spec.containers[0].resources.claims[1]: Duplicate value: "a"
spec: {resourceClaims: [{name: a, resourceClaimName: c}], containers: [{name: c, image: i, resources: {claims: [{name: a, request: x}, {name: a}]}}]}
  ! spec.containers[0].resources.claims[1]: Duplicate value: "a"
spec: {resourceClaims: [{name: a, resourceClaimName: c}], containers: [{name: c, image: i, resources: {claims: [{name: a, request: x}, {name: a, request: x}]}}]}
  ! spec.containers[0].resources.claims[1]: Duplicate value: "a/x"
spec: {resourceClaims: [{name: a, resourceClaimName: c}, {name: a, resourceClaimName: c}], containers: [{name: c, image: i, resources: {claims: []}}]}
  ! spec.resourceClaims[1].name: Duplicate value: "a"
spec: {resourceClaims: [{name: a, resourceClaimName: c, resourceClaimTemplateName: t}], containers: [{name: c, image: i, resources: {claims: []}}]}
  ! spec.resourceClaims[0]: Invalid value: {"name":"a","resourceClaimName":"c","resourceClaimTemplateName":"t"}: at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified
spec: {resourceClaims: [{name: a}], containers: [{name: c, image: i, resources: {claims: []}}]}
  ! spec.resourceClaims[0]: Invalid value: {"name":"a"}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`
"#,
    );
}

#[test]
fn no_container_asks_for_more_than_its_pod_api_8() {
    check(
        Kind::Pod,
        r#"
spec: {resources: {limits: {cpu: 2}, requests: {cpu: 1}}, containers: [{name: c, image: i, resources: {limits: {cpu: 2}, requests: {cpu: 1}}}]}
spec: {resources: {limits: {cpu: 2}, requests: {cpu: 1}}, containers: [{name: c, image: i, resources: {limits: {cpu: 3}, requests: {cpu: 1}}}]}
  ! spec.resources.containers[0][cpu].limits: Invalid value: "3": must be less than or equal to pod limits of 2
spec: {resources: {requests: {memory: 1Gi}}, containers: [{name: c, image: i, resources: {requests: {memory: 2Gi}}}]}
  ! spec.resources.requests[memory]: Invalid value: "1Gi": must be greater than or equal to aggregate container requests of 2Gi
spec: {resources: {requests: {cpu: 2}, limits: {cpu: 1}}, containers: [{name: c, image: i, resources: {}}]}
  ! spec.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1
spec: {resources: {limits: {ephemeral-storage: 1}}, containers: [{name: c, image: i, resources: {}}]}
  ! spec.resources.limits[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported values: "cpu", "hugepages-", "memory"
spec: {resources: {claims: [{name: a}]}, containers: [{name: c, image: i, resources: {}}]}
  ! spec.resources.claims: Forbidden: claims cannot be set for Resources at pod-level
"#,
    );
}

#[test]
fn names_and_rules_of_pods_have_bounds_api_8() {
    check_pod(
        &r#"
hostnameOverride: a.example.com
hostnameOverride: A
  ! .hostnameOverride: Invalid value: "A": <subdomain>
hostnameOverride: <64-letters>
hostnameOverride: <64-letters>a
  ! .hostnameOverride: Too long: may not be more than 64 bytes
hostnameOverride: a\nsetHostnameAsFQDN: true
  ! .setHostnameAsFQDN: Forbidden: may not be true when `hostnameOverride` is set
dnsConfig: {searches: [_tcp.example.com, ., example.com.]}
dnsPolicy: None\ndnsConfig: {}
  ! .dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None
"#
        .replace("<64-letters>", &"a".repeat(64)),
    );
    check_container(
        r#"
restartPolicy: Never\nrestartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [3]}}]
restartPolicy: Never\nrestartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: NotIn, values: [0]}}]
restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [3]}}]
  ! .restartPolicy: Required value: must specify restartPolicy when restart rules are used
restartPolicy: Never\nrestartPolicyRules: [{action: Stop}]
  ! .restartPolicyRules[0].action: Unsupported value: "Stop": supported values: "Restart", "RestartAllContainers"
  ! .restartPolicyRules[0].exitCodes: Required value: must be specified
restartPolicy: Never\nrestartPolicyRules: [{action: Restart, exitCodes: {operator: Equals, values: [3]}}]
  ! .restartPolicyRules[0].exitCodes.operator: Unsupported value: "Equals": supported values: "In", "NotIn"
"#,
    );
    check_container(
        r#"
env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.hugepages-2Mi, divisor: 1Mi}}}]
env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}]
env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 2}}}]
  ! .env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource
env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: a/b, key: K}}}]
env: [{name: A, valueFrom: {fileKeyRef: {path: /a}}}]
  ! .env[0].valueFrom.fileKeyRef.key: Required value
  ! .env[0].valueFrom.fileKeyRef.volumeName: Required value
  ! .env[0].valueFrom.fileKeyRef.path: Invalid value: "/a": must be a relative path
"#,
    );
}
