//! Quotas, limit ranges, autoscalers and pod presets.

use super::*;

#[test]
fn quotas_have_rules_quo_1() {
    check(
        Kind::ResourceQuota,
        r#"
spec: {hard: {pods: 3, requests.cpu: 500m, count/jobs.batch: 2, requests.example.com/gpu: 1}}
spec: {scopes: [NotBestEffort, Terminating], hard: {pods: 3, cpu: 1}}
spec: {hard: {pods: 1.5, memory: -1}}
  ! spec.hard[memory]: Invalid value: "-1": must be greater than or equal to 0
  ! spec.hard[pods]: Invalid value: "1500m": must be an integer
spec: {hard: {widgets: 1}}
  ! spec.hard[widgets]: Invalid value: "widgets": must be a standard resource type or fully qualified
  ! spec.hard[widgets]: Invalid value: "widgets": must be a standard resource for quota
spec: {scopes: [BestEffort, NotBestEffort, Odd], hard: {pods: 3}}
  ! spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: unsupported scope
  ! spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: conflicting scopes
spec: {scopes: [BestEffort], hard: {cpu: 3}}
  ! spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource
spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In}]}, hard: {pods: 3}}
  ! spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector
spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Odd}]}, hard: {pods: 3}}
  ! spec.scopeSelector.matchExpressions.operator: Invalid value: "Odd": not a valid selector operator
"#,
    );
    check_change(
        Kind::ResourceQuota,
        r"
spec: {scopes: [BestEffort], hard: {pods: 3}}
-> spec: {scopes: [BestEffort], hard: {pods: 4}}
spec: {scopes: [BestEffort], hard: {pods: 3}}
-> spec: {hard: {pods: 3}}
  ! spec.scopes: Invalid value: []: field is immutable
",
    );
}

#[test]
fn limit_ranges_have_rules_and_defaults_quo_1() {
    check(
        Kind::LimitRange,
        r#"
spec: {limits: [{type: Container, max: {cpu: 1}, min: {cpu: 100m}, maxLimitRequestRatio: {cpu: 3}}]}
spec: {limits: [{type: Container, max: {cpu: 1}, min: {cpu: 2}}]}
  ! spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1
  ! spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1
  ! spec.limits[0].default[cpu]: Invalid value: "1": min value 2 is greater than default value 1
spec: {limits: [{type: Container, default: {cpu: 1}, defaultRequest: {cpu: 2}}]}
  ! spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than default limit value 1
spec: {limits: [{type: Pod, default: {cpu: 1}}, {type: Pod, max: {cpu: 1}}]}
  ! spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'
  ! spec.limits[1].type: Duplicate value: "Pod"
spec: {limits: [{type: Volume, max: {storage: 1}}]}
  ! spec.limits[0].type: Invalid value: "Volume": must be a standard limit type or fully qualified
spec: {limits: [{type: PersistentVolumeClaim, default: {storage: 1}}]}
  ! spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided
spec: {limits: [{type: Pod, min: {cpu: 1}, max: {cpu: 2}, maxLimitRequestRatio: {cpu: 4, memory: 0.5}}]}
  ! spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "4": ratio 4 is greater than max/min = 2.000000
  ! spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: "500m": ratio 500m is less than 1
"#,
    );
    let defaulted = |item: &str| {
        let value = object(Kind::LimitRange, &format!("spec: {{limits: [{item}]}}")).to_value();
        let item = &value["spec"]["limits"][0];
        (item["default"].clone(), item["defaultRequest"].clone())
    };
    // The maximum becomes the default limit, and the default limit, or else the minimum, becomes the default request.
    let (limit, request) = defaulted("{type: Container, max: {cpu: 2}, min: {cpu: 1, memory: 1Mi}}");
    assert_eq!((limit, request), (json!({"cpu": "2"}), json!({"cpu": "2", "memory": "1Mi"})));
    assert_eq!(defaulted("{type: Pod, max: {cpu: 2}}"), (Value::Null, Value::Null));
}

#[test]
fn autoscalers_have_rules_and_defaults_hpa_1() {
    let spec = |rest: &str| {
        format!(
            "spec:\n  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}\n  maxReplicas: 5\n  {rest}"
        )
    };
    Template::new(Kind::HorizontalPodAutoscaler, &spec("…"), "spec").check(
        r#"
<empty>
minReplicas: 0
  ! .minReplicas: Invalid value: 0: must be greater than or equal to 1
minReplicas: 6
  ! .maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`
metrics: [{type: Resource}]
  ! .metrics[0].resource: Required value: must populate information for the given metric source
metrics: [{type: Odd, resource: {name: cpu, target: {type: Utilization}}}]
  ! .metrics[0].type: Unsupported value: "Odd": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"
  ! .metrics[0].resource: Forbidden: must populate the given metric source only
metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization}}}]
  ! .metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization
metrics: [{type: Resource, resource: {name: cpu, target: {type: Some, averageUtilization: 0, averageValue: 0}}}]
  ! .metrics[0].resource.target.type: Invalid value: "Some": must be either Utilization, Value, or AverageValue
  ! .metrics[0].resource.target.averageValue: Invalid value: "0": must be positive
  ! .metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0
  ! .metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization
metrics: [{type: Pods, pods: {metric: {name: a/b}, target: {type: AverageValue}}}]
  ! .metrics[0].pods.metric.name: Invalid value: "a/b": may not contain '/'
  ! .metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue
metrics: [{type: Pods, pods: {metric: {name: a}, target: {type: AverageValue, averageValue: 0}}}]
  ! .metrics[0].pods.target.averageValue: Invalid value: "0": must be positive
metrics: [{type: ContainerResource, containerResource: {name: cpu, container: c, target: {type: Utilization, averageUtilization: 50}}}]
metrics: [{type: ContainerResource, containerResource: {name: pods, container: C, target: {type: Utilization, averageUtilization: 50}}}]
  ! .metrics[0].containerResource.name: Invalid value: "pods": must be a standard resource for containers
  ! .metrics[0].containerResource.container: Invalid value: "C": <dns-label>
metrics: [{type: Object, object: {describedObject: {apiVersion: a/b/c, kind: K, name: m}, metric: {name: q}, target: {type: Value}}}]
  ! .metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c
  ! .metrics[0].object.target.averageValue: Required value: must set either a target value or averageValue
metrics: [{type: External, external: {metric: {name: q}, target: {type: Value, value: 1, averageValue: 1}}}]
  ! .metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod target
behavior: {scaleDown: {stabilizationWindowSeconds: 3601, selectPolicy: Most, tolerance: -1, policies: [{type: Pods, value: 0, periodSeconds: 1801}]}}
  ! .behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600
  ! .behavior.scaleDown.selectPolicy: Unsupported value: "Most": supported values: "Disabled", "Max", "Min"
  ! .behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero
  ! .behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800
  ! .behavior.scaleDown.tolerance: Invalid value: "-1": must be greater than or equal to 0
behavior: {scaleUp: {policies: []}}
  ! .behavior.scaleUp.policies: Required value: must specify at least one Policy
"#,
    );
    check(
        Kind::HorizontalPodAutoscaler,
        r#"
spec: {maxReplicas: 0, scaleTargetRef: {kind: '', name: ..}}
  ! spec.maxReplicas: Invalid value: 0: must be greater than 0
  ! spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`
  ! spec.scaleTargetRef.kind: Required value
  ! spec.scaleTargetRef.name: Invalid value: "..": may not be '..'
  ! spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group
"#,
    );
    Template::new(
        Kind::HorizontalPodAutoscaler,
        "spec: {maxReplicas: 3, scaleTargetRef: {…, name: m}}",
        "spec.scaleTargetRef",
    )
    .check(
        r#"
apiVersion: v1, kind: ReplicationController
kind: ReplicationController
apiVersion: v1, kind: Deployment
  ! .apiVersion: Invalid value: "v1": apiVersion must specify API group
apiVersion: a/b/c, kind: K
  ! .apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c
"#,
    );
    check_change(
        Kind::HorizontalPodAutoscaler,
        r#"
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: v1, kind: Deployment, name: m}}
-> spec: {maxReplicas: 4, scaleTargetRef: {apiVersion: v1, kind: Deployment, name: m}}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: m}}
-> spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: v1, kind: Deployment, name: m}}
  ! spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group
"#,
    );
    let behavior = |text: &str| {
        object(Kind::HorizontalPodAutoscaler, &spec(text)).to_value()["spec"]["behavior"].clone()
    };
    assert_eq!(behavior(""), Value::Null);
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]});
    let down =
        json!({"selectPolicy": "Min", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]});
    assert_eq!(
        behavior("behavior: {scaleDown: {selectPolicy: Min}}"),
        json!({"scaleUp": up, "scaleDown": down})
    );
}

#[test]
fn pod_presets_have_rules_pp_1() {
    check(
        Kind::PodPreset,
        r#"
spec: {env: [{name: A, value: b}]}
spec: {volumeMounts: [{name: of-the-pod, mountPath: /x}]}
spec: {selector: {matchLabels: {'a b': c}}, env: [{value: b}], volumes: [{name: Bad, emptyDir: {}}]}
  ! spec.selector.matchLabels: Invalid value: "a b": <qualified-name>
  ! spec.volumes[0].name: Invalid value: "Bad": <dns-label>
  ! spec.env[0].name: Required value
"#,
    );
}
