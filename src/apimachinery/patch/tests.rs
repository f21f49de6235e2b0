//! Patches as kubectl sends them, and their results (API-2).

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{PatchError, PatchTarget, PatchType, apply_patch, apply_patch_value};
use crate::ApiError;

const DEPLOYMENT: PatchTarget<'static> = PatchTarget { group: "apps", version: "v1", kind: "Deployment" };
const POD: PatchTarget<'static> = PatchTarget { group: "", version: "v1", kind: "Pod" };
const NODE: PatchTarget<'static> = PatchTarget { group: "", version: "v1", kind: "Node" };
const SERVICE: PatchTarget<'static> = PatchTarget { group: "", version: "v1", kind: "Service" };
const BUDGET: PatchTarget<'static> =
    PatchTarget { group: "policy", version: "v1", kind: "PodDisruptionBudget" };

fn strategic(target: PatchTarget<'_>, live: &Value, patch: &Value) -> Result<Value, PatchError> {
    apply_patch(target, PatchType::StrategicMerge, live, patch.to_string().as_bytes())
}

fn containers(list: &Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": list}}}})
}

#[test]
fn containers_merge_by_name_in_the_patch_s_order_api_2() {
    let live = containers(&json!([
        {"name": "web", "image": "nginx:1.7.9", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"name": "log", "image": "busybox"},
    ]));
    let cases = [
        (
            "set image",
            json!({"$setElementOrder/containers": [{"name": "web"}, {"name": "log"}],
                "containers": [{"name": "log", "image": "busybox:2"}]}),
            json!([
                {"name": "web", "image": "nginx:1.7.9", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                {"name": "log", "image": "busybox:2"},
            ]),
        ),
        (
            "set env: one changed, one gone, one new",
            json!({"$setElementOrder/containers": [{"name": "web"}, {"name": "log"}],
                "containers": [{"name": "web", "$setElementOrder/env": [{"name": "A"}, {"name": "C"}],
                    "env": [{"name": "A", "value": "9"}, {"name": "C", "value": "3"}, {"$patch": "delete", "name": "B"}]}]}),
            json!([
                {"name": "web", "image": "nginx:1.7.9", "env": [{"name": "A", "value": "9"}, {"name": "C", "value": "3"}]},
                {"name": "log", "image": "busybox"},
            ]),
        ),
        (
            "a container added at the end",
            json!({"$setElementOrder/containers": [{"name": "web"}, {"name": "log"}, {"name": "new"}],
                "containers": [{"name": "new", "image": "x", "env": null}]}),
            json!([
                {"name": "web", "image": "nginx:1.7.9", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                {"name": "log", "image": "busybox"},
                {"name": "new", "image": "x"},
            ]),
        ),
        (
            "reordered only",
            json!({"$setElementOrder/containers": [{"name": "log"}, {"name": "web"}]}),
            json!([
                {"name": "log", "image": "busybox"},
                {"name": "web", "image": "nginx:1.7.9", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            ]),
        ),
        (
            "without an order new ones come first",
            json!({"containers": [{"name": "new", "image": "x"}, {"name": "web", "env": null}]}),
            json!([
                {"name": "new", "image": "x"},
                {"name": "web", "image": "nginx:1.7.9"},
                {"name": "log", "image": "busybox"},
            ]),
        ),
        (
            "deleted",
            json!({"containers": [{"$patch": "delete", "name": "web"}]}),
            json!([{"name": "log", "image": "busybox"}]),
        ),
        (
            "replaced as a list",
            json!({"containers": [{"$patch": "replace"}, {"name": "only", "image": "x"}]}),
            json!([{"name": "only", "image": "x"}]),
        ),
        (
            "one replaced as a map",
            json!({"containers": [{"name": "web", "env": [{"$patch": "replace"}], "image": "y"}]}),
            json!([{"name": "web", "image": "y", "env": []}, {"name": "log", "image": "busybox"}]),
        ),
    ];
    for (what, patch, expect) in cases {
        let patched = strategic(DEPLOYMENT, &live, &json!({"spec": {"template": {"spec": patch}}}));
        assert_eq!(patched, Ok(containers(&expect)), "{what}");
    }
}

#[test]
fn patches_of_kubectls_other_commands_apply_api_2() {
    let cases = [
        (
            "label -",
            DEPLOYMENT,
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
            json!({"metadata": {"labels": {"a": null, "never": null, "c": "3"}}}),
            json!({"metadata": {"labels": {"b": "2", "c": "3"}}}),
        ),
        (
            "rollout restart",
            DEPLOYMENT,
            json!({"spec": {"template": {"metadata": {"labels": {"app": "web"}}}}}),
            json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}),
            json!({"spec": {"template": {"metadata": {"labels": {"app": "web"},
                "annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}),
        ),
        (
            "rollout pause",
            DEPLOYMENT,
            json!({"spec": {"replicas": 3}}),
            json!({"spec": {"paused": true}}),
            json!({"spec": {"replicas": 3, "paused": true}}),
        ),
        (
            "Recreate retains only its keys",
            DEPLOYMENT,
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        ),
        (
            "a volume changes its source",
            POD,
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]}}),
            json!({"spec": {"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/x"}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}, {"name": "w", "emptyDir": {}}]}}),
        ),
        (
            "cordon",
            NODE,
            json!({"spec": {"podCIDR": "x"}}),
            json!({"spec": {"unschedulable": true}}),
            json!({"spec": {"podCIDR": "x", "unschedulable": true}}),
        ),
        (
            "uncordon",
            NODE,
            json!({"spec": {"podCIDR": "x", "unschedulable": true}}),
            json!({"spec": {"unschedulable": null}}),
            json!({"spec": {"podCIDR": "x"}}),
        ),
        (
            "taints are replaced",
            NODE,
            json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
            json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}),
            json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}),
        ),
        (
            "conditions merge by type",
            POD,
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}]}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}],
                "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "Initialized"}]}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}]}}),
        ),
        (
            "finalizers are a set",
            POD,
            json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d", "a"],
                "$setElementOrder/finalizers": ["d", "a", "c"]}}),
            json!({"metadata": {"finalizers": ["d", "a", "c"]}}),
        ),
        (
            "args and tolerations are replaced",
            POD,
            json!({"spec": {"tolerations": [{"key": "a"}], "containers": [{"name": "c", "args": ["1", "2"]}]}}),
            json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "c", "args": ["3"]}]}}),
            json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "c", "args": ["3"]}]}}),
        ),
        (
            "service ports merge by port",
            SERVICE,
            json!({"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]}}),
            json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}),
            json!({"spec": {"ports": [{"port": 80, "name": "http", "targetPort": 8080}, {"port": 443, "name": "https"}]}}),
        ),
        (
            "a budget's selector is replaced",
            BUDGET,
            json!({"spec": {"selector": {"matchLabels": {"a": "1"}}}}),
            json!({"spec": {"selector": {"matchLabels": {"b": "2"}}}}),
            json!({"spec": {"selector": {"matchLabels": {"b": "2"}}}}),
        ),
        (
            "a map may be emptied or replaced",
            POD,
            json!({"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}}),
            json!({"metadata": {"labels": {"$patch": "delete"}, "annotations": {"$patch": "replace", "c": "3"}}}),
            json!({"metadata": {"labels": {}, "annotations": {"c": "3"}}}),
        ),
        (
            "directives never reach a new object",
            POD,
            json!({}),
            json!({"spec": {"$retainKeys": ["containers"], "$setElementOrder/containers": [{"name": "a"}],
                "containers": [{"name": "a", "x": null}, {"name": "b", "$patch": "delete"}]}}),
            json!({"spec": {"containers": [{"name": "a"}]}}),
        ),
        (
            "debug adds an ephemeral container",
            POD,
            json!({"spec": {"containers": [{"name": "c"}]}}),
            json!({"spec": {"$setElementOrder/ephemeralContainers": [{"name": "debugger-1"}],
                "ephemeralContainers": [{"name": "debugger-1", "image": "busybox", "stdin": true}]}}),
            json!({"spec": {"containers": [{"name": "c"}],
                "ephemeralContainers": [{"name": "debugger-1", "image": "busybox", "stdin": true}]}}),
        ),
    ];
    for (what, target, live, patch, expect) in cases {
        assert_eq!(strategic(target, &live, &patch), Ok(expect), "{what}");
    }
}

#[test]
fn elements_the_patch_does_not_name_keep_their_place_api_2() {
    let names = |list: &[&str]| Value::Array(list.iter().map(|n| json!({"name": n})).collect());
    // (live, requested order, result)
    let cases: &[(&[&str], &[&str], &[&str])] = &[
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["side", "a", "b"], &["a", "b"], &["side", "a", "b"]),
        (&["a", "side", "b"], &["b", "a"], &["side", "b", "a"]),
        (&["a", "b", "side"], &["a", "b"], &["a", "b", "side"]),
    ];
    for (live, order, expect) in cases {
        let patch = json!({"spec": {"$setElementOrder/containers": names(order)}});
        let patched = strategic(POD, &json!({"spec": {"containers": names(live)}}), &patch);
        assert_eq!(patched, Ok(json!({"spec": {"containers": names(expect)}})), "{live:?} as {order:?}");
    }
}

#[test]
fn refusals_read_as_in_kubernetes_api_2() {
    let live =
        json!({"spec": {"containers": [{"name": "a"}], "volumes": []}, "metadata": {"finalizers": ["x"]}});
    let cases = [
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            422,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [{"$patch": "burn", "name": "a"}]}}),
            422,
            "unknown patch type: burn in map: map[$patch:burn name:a]",
        ),
        (json!({"spec": {"$retainKeys": "x"}}), 400, "invalid patch format of retainKeys"),
        (json!({"spec": {"$retainKeys": ["x"], "y": 1}}), 400, "invalid patch format of retainKeys"),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}}),
            400,
            "invalid patch format of primitive list",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": "x"}}),
            422,
            "expected a []interface {}, but received a string",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": 1.5}}),
            422,
            "expected a []interface {}, but received a float64",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                "containers": [{"name": "b"}, {"name": "a"}]}}),
            400,
            "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n\
             [map[name:a] map[name:b]]\n",
        ),
        (json!([]), 400, "Invalid JSON document"),
    ];
    for (patch, code, text) in cases {
        let error = strategic(POD, &live, &patch).expect_err(text);
        assert_eq!(error.to_string(), text);
        assert_eq!(ApiError::from(error).code(), code, "{text}");
    }
    let custom = PatchTarget { group: "stable.example.com", version: "v1", kind: "CronTab" };
    let unsupported = strategic(custom, &json!({}), &json!({})).expect_err("a custom resource");
    assert_eq!(ApiError::from(unsupported).code(), 415);
    let apply = apply_patch(POD, PatchType::Apply, &json!({}), b"{}").expect_err("not yet");
    assert_eq!(ApiError::from(apply).reason(), "UnsupportedMediaType");
}

#[test]
fn json_and_merge_patches_api_2() {
    let live = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"list": [1, 2, 3]}});
    let json = |patch: Value| apply_patch_value(POD, PatchType::Json, &live, patch);
    assert_eq!(
        json(
            json!([{"op": "replace", "path": "/spec/list/1", "value": 9}, {"op": "remove", "path": "/metadata/labels/a"}])
        ),
        Ok(json!({"metadata": {"labels": {}}, "spec": {"list": [1, 9, 3]}}))
    );
    let errors = [
        (json!([{"op": "remove", "path": "/nowhere"}]), 422),
        (json!([{"op": "test", "path": "/spec/list/0", "value": 7}]), 422),
        (json!([{"op": "burn", "path": "/"}]), 400),
        (json!({}), 400),
        (Value::Array(vec![json!({"op": "test", "path": "", "value": 1}); 10_001]), 413),
    ];
    for (patch, code) in errors {
        assert_eq!(ApiError::from(json(patch.clone()).expect_err("refused")).code(), code, "{patch:.100}");
    }
    let bomb = Value::Array(vec![json!({"op": "copy", "from": "/spec/list", "path": "/spec/list/-"}); 60]);
    assert!(matches!(json(bomb), Err(PatchError::TooLarge(_) | PatchError::Unprocessable(_))));
    let merge = apply_patch(
        POD,
        PatchType::Merge,
        &live,
        br#"{"metadata":{"labels":{"a":null,"b":"2"}},"spec":{"list":[4]}}"#,
    );
    assert_eq!(merge, Ok(json!({"metadata": {"labels": {"b": "2"}}, "spec": {"list": [4]}})));
    let broken = ApiError::from(apply_patch(POD, PatchType::Merge, &live, b"{").expect_err("not JSON"));
    assert_eq!((broken.code(), broken.reason()), (400, "BadRequest"));
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"a": deep});
    }
    let too_deep = apply_patch_value(POD, PatchType::Merge, &live, deep).expect_err("too deep");
    assert_eq!(ApiError::from(too_deep).code(), 400);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        "(a|b|merge|delete|replace)".prop_map(Value::from),
    ];
    let name = "(spec|containers|name|env|metadata|finalizers|labels|volumes|strategy|a|\\$patch|\\$retainKeys\
                |\\$setElementOrder/containers|\\$setElementOrder/finalizers|\\$deleteFromPrimitiveList/finalizers)";
    leaf.prop_recursive(6, 64, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((name, inner), 0..5).prop_map(|e| Value::Object(e.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_patch_panics_and_none_leaves_a_directive_sec_2(live in any_json(), patch in any_json()) {
        let clean = strategic(POD, &json!({}), &live).unwrap_or(Value::Null);
        for patch_type in [PatchType::Json, PatchType::Merge, PatchType::StrategicMerge] {
            let _ = apply_patch_value(POD, patch_type, &live, patch.clone());
            let _ = apply_patch_value(DEPLOYMENT, patch_type, &live, patch.clone());
        }
        if let Ok(patched) = strategic(POD, &clean, &patch) {
            prop_assert!(!patched.to_string().contains("\"$"), "{patched}");
        }
    }

    #[test]
    fn a_patch_applied_twice_changes_nothing_more_api_2(live in any_json(), patch in any_json()) {
        let clean = strategic(POD, &json!({}), &live).unwrap_or(json!({}));
        if let Ok(once) = apply_patch_value(POD, PatchType::Merge, &clean, patch.clone()) {
            prop_assert_eq!(apply_patch_value(POD, PatchType::Merge, &once, patch), Ok(once.clone()));
        }
    }
}

/// Found here, SAFE-10: each element was searched for in the whole list, several times; this took minutes.
#[test]
fn lists_as_long_as_a_body_holds_merge_in_one_pass_safe_10() {
    let list = |value: &str| -> Vec<Value> {
        (0..60_000).map(|n| json!({"name": format!("E{n}"), "value": value})).collect()
    };
    let pod = |value: &str| json!({"spec": {"containers": [{"name": "c", "env": list(value)}]}});
    let patched = apply_patch(
        object::Kind::Pod,
        PatchType::StrategicMerge,
        &pod("old"),
        pod("new").to_string().as_bytes(),
    )
    .unwrap();
    assert_eq!(patched, pod("new"));
    let finalizers =
        |prefix: &str| -> Vec<Value> { (0..60_000).map(|n| json!(format!("{prefix}{n}"))).collect() };
    let map = |names: Vec<Value>| json!({"metadata": {"finalizers": names}});
    let patched = apply_patch(
        object::Kind::ConfigMap,
        PatchType::StrategicMerge,
        &map(finalizers("a")),
        map(finalizers("b")).to_string().as_bytes(),
    )
    .unwrap();
    assert_eq!(patched["metadata"]["finalizers"].as_array().unwrap().len(), 120_000);
}
