//! No JSON makes validation panic (SEC-2).

use proptest::prelude::*;
use serde_json::Value;

use super::{
    Kind, Object, apply_defaults, ephemeral_containers_errors, messages, object, validate_create,
    validate_status_update, validate_update,
};
use apimachinery::validate::join;
use manifest::from_yaml;

/// Generates objects that are nearly valid: real field names with values of any shape.
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

/// Replaces the part of `object` that `choice` selects with `value`.
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
  volumes: [{name: v, configMap: {name: c, items: [{key: k, path: p}]}}, {name: h, hostPath: {path: /x}}, {name: p, projected: {sources: [{serviceAccountToken: {path: t}}]}}, {name: i, iscsi: {targetPortal: t, iqn: 'iqn.2001-04.com.example:a', lun: 1, initiatorName: eui.0123456789abcdef}}, {name: q, quobyte: {registry: 'a:1', volume: v}}, {name: d, csi: {driver: d}}]
  serviceAccountName: a
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
    for kind in Kind::BUILT_IN {
        let Ok(mut object) = Object::from_value(*kind, value.clone()) else { continue };
        apply_defaults(&mut object);
        let _ = join(&validate_create(&object));
        let _ = join(&validate_update(&object, &object.clone()));
        let _ = join(&validate_update(&object, old));
        let _ = join(&validate_status_update(&object, old));
        let _ = join(&ephemeral_containers_errors(&object, old));
    }
}

#[test]
fn a_pod_with_everything_is_good_api_8() {
    assert_eq!(messages(&validate_create(&object(Kind::Pod, WHOLE_POD))), Vec::<String>::new());
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
