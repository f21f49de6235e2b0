//! No manifest makes the control plane or the nodes' hosts exceed their memory (SEC-2): random manifests below the
//! API's limit of a request, each as large as its shape allows.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::instance::{DataDir, Instance, WAIT_TIMEOUT};
use podium::base::optional_file::read_optional_bytes;

/// Maximum peak memory of `podium serve`. The watch history may take 96 MiB of it, and copies of templates have 36 MiB as
/// JSON; in 13 runs on two cores the peaks were 292 to 334 MiB.
const SERVE: u64 = 400 << 20;
/// Maximum peak memory of a node's host.
const HOST: u64 = 64 << 20;
/// Maximum length of a request to the API.
const LONGEST: usize = 3 << 20;
/// Manifests of one run; the same ones in each.
const CASES: usize = 48;

/// A manifest and its path.
#[derive(Clone, Debug)]
struct Manifest {
    shape: String,
    path: String,
    text: String,
}

fn manifest(shape: String, path: &str, object: &Value) -> Manifest {
    Manifest { shape, path: path.into(), text: object.to_string() }
}

/// A small pod, in which one part is made large.
fn pod_spec() -> Value {
    json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "busybox",
        "command": ["sleep", "3600"]}]})
}

/// Number of items in a list that the API accepts; it refuses not much longer lists.
const MOST_TAKEN: usize = 9_950;

/// The share of a manifest's size that a part of it takes.
#[derive(Clone, Copy, Debug)]
struct Fill {
    part: f64,
    /// Limits the number of items to what the API accepts.
    is_accepted: bool,
}

/// Returns the number of items of this text in a manifest.
fn items(item: &str, fill: Fill) -> usize {
    let room = (LONGEST - 4096) / (item.len() + 1);
    let most = if fill.is_accepted { room.min(MOST_TAKEN) } else { room };
    ((most as f64) * fill.part) as usize
}

/// Generates a share from almost nothing to the maximum; most often a large one.
fn fill() -> impl Strategy<Value = Fill> {
    let part = prop_oneof![3 => 0.9..1.0, 2 => 0.01..0.9, 1 => 0.0001..0.01];
    (part, any::<bool>()).prop_map(|(part, taken)| Fill { part, is_accepted: taken })
}

/// Workloads with large numbers of pods.
fn huge_workloads() -> impl Strategy<Value = Manifest> {
    let workload = prop::sample::select(vec![
        ("deployments", json!({"replicas": i32::MAX})),
        ("replicasets", json!({"replicas": i32::MAX})),
        (
            "statefulsets",
            json!({"replicas": i32::MAX, "serviceName": "s", "podManagementPolicy": "Parallel"}),
        ),
        (
            "statefulsets",
            json!({"replicas": i32::MAX, "serviceName": "s", "ordinals": {"start": 2_000_000_000}}),
        ),
    ]);
    let large = prop::sample::select(vec![0, 0, 100_000, 1_300_000]);
    let of_apps = (workload, large).prop_map(|((plural, mut spec), large)| {
        spec["selector"] = json!({"matchLabels": {"app": "a"}});
        let mut pod = pod_spec();
        pod["containers"][0]["args"] = json!(["x".repeat(large)]);
        spec["template"] = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod});
        let object = json!({"metadata": {"generateName": "m-"}, "spec": spec});
        manifest(
            format!("{plural} {} of {large}", i32::MAX),
            &format!("/apis/apps/v1/namespaces/default/{plural}"),
            &object,
        )
    });
    let of_batch = prop::sample::select(vec![
        json!({"parallelism": i32::MAX, "completions": i32::MAX}),
        json!({"parallelism": 10_000, "completions": i32::MAX, "completionMode": "Indexed"}),
    ]);
    let jobs = of_batch.prop_map(|mut spec| {
        let mut pod = pod_spec();
        pod["restartPolicy"] = json!("Never");
        spec["template"] = json!({"spec": pod});
        let object = json!({"metadata": {"generateName": "m-"}, "spec": spec});
        manifest("jobs".into(), "/apis/batch/v1/namespaces/default/jobs", &object)
    });
    prop_oneof![of_apps, jobs]
}

/// Pods of very many parts: each is short as text, and a struct of many fields.
fn parts() -> impl Strategy<Value = Manifest> {
    let place = prop::sample::select(vec![
        ("containers", "{}"),
        ("containers", r#"{"name":"x","image":"i"}"#),
        ("initContainers", "{}"),
        ("volumes", "{}"),
        ("volumes", r#"{"name":"v","emptyDir":{}}"#),
        ("tolerations", r#"{"operator":"Exists"}"#),
        ("hostAliases", r#"{"ip":"1.2.3.4"}"#),
        ("imagePullSecrets", r#"{"name":"a"}"#),
        ("tolerations", "{}"),
        ("topologySpreadConstraints", "{}"),
        ("hostAliases", "{}"),
        ("imagePullSecrets", "{}"),
        ("resourceClaims", "{}"),
        ("schedulingGates", r#"{"name":"g"}"#),
        ("readinessGates", "{}"),
    ]);
    (place, fill()).prop_map(|((field, item), fill)| {
        let count = items(item, fill);
        let mut spec = pod_spec();
        spec[field] = serde_json::from_str(&format!("[{}]", vec![item; count].join(","))).unwrap();
        let object = json!({"metadata": {"generateName": "m-"}, "spec": spec});
        manifest(format!("{count} {field} {item}"), "/api/v1/namespaces/default/pods", &object)
    })
}

/// Pods with very many placement rules: the scheduler compares them with every node and pod.
fn placements() -> impl Strategy<Value = Manifest> {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let place = prop::sample::select(vec![
        (format!("/affinity/podAffinity/{required}"), r#"{"topologyKey":"N","labelSelector":{}}"#),
        (format!("/affinity/podAntiAffinity/{required}"), r#"{"topologyKey":"N","labelSelector":{}}"#),
        (
            format!("/affinity/nodeAffinity/{required}/nodeSelectorTerms"),
            r#"{"matchExpressions":[{"key":"N","operator":"Exists"}]}"#,
        ),
        (
            "/topologySpreadConstraints".to_string(),
            r#"{"maxSkew":1,"topologyKey":"N","whenUnsatisfiable":"ScheduleAnyway"}"#,
        ),
        ("/tolerations".to_string(), r#"{"key":"N","operator":"Exists"}"#),
    ]);
    (place, fill()).prop_map(|((pointer, item), fill)| {
        let count = items(&item.replace('N', "k000000"), fill);
        let list: Vec<String> = (0..count).map(|n| item.replace('N', &format!("k{n:06}"))).collect();
        let mut placed: Value = serde_json::from_str(&format!("[{}]", list.join(","))).unwrap();
        let (field, rest) = pointer[1..].split_once('/').unwrap_or((&pointer[1..], ""));
        for key in rest.split('/').filter(|key| !key.is_empty()).rev() {
            placed = json!({key: placed});
        }
        let mut spec = pod_spec();
        spec[field] = placed;
        let object = json!({"metadata": {"generateName": "m-"}, "spec": spec});
        manifest(format!("{count} {pointer} {item}"), "/api/v1/namespaces/default/pods", &object)
    })
}

/// Containers of very many parts.
fn fields() -> impl Strategy<Value = Manifest> {
    let place = prop::sample::select(vec![
        ("env", "{}"),
        ("env", r#"{"name":"A","value":"b"}"#),
        ("args", r#""""#),
        ("args", r#""aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa""#),
        ("ports", "{}"),
        ("volumeMounts", "{}"),
        ("envFrom", "{}"),
        ("volumeDevices", "{}"),
    ]);
    (place, fill()).prop_map(|((field, item), fill)| {
        let count = items(item, fill);
        let mut spec = pod_spec();
        spec["containers"][0][field] =
            serde_json::from_str(&format!("[{}]", vec![item; count].join(","))).unwrap();
        let object = json!({"metadata": {"generateName": "m-"}, "spec": spec});
        manifest(format!("{count} {field} {item}"), "/api/v1/namespaces/default/pods", &object)
    })
}

/// Variables that refer to one another: each is twice as long as the one before.
fn expansions() -> impl Strategy<Value = Manifest> {
    (1..2_000usize, 8..32u32, any::<bool>()).prop_map(|(length, levels, in_arguments)| {
        let mut env = vec![json!({"name": "E0", "value": "x".repeat(length)})];
        env.extend((1..levels).map(|n| {
            let before = format!("$(E{})", n - 1);
            json!({"name": format!("E{n}"), "value": before.repeat(2)})
        }));
        let mut spec = pod_spec();
        spec["containers"][0]["env"] = json!(env);
        if in_arguments {
            spec["containers"][0]["args"] = json!(vec![format!("$(E{})", levels - 1); 100]);
        }
        let object = json!({"metadata": {"generateName": "m-"}, "spec": spec});
        let shape = format!("{levels} levels of {length} bytes");
        manifest(shape, "/api/v1/namespaces/default/pods", &object)
    })
}

/// Metadata and plain objects with very many keys, or with a long one.
fn keys() -> impl Strategy<Value = Manifest> {
    let place = prop::sample::select(vec!["labels", "annotations", "data"]);
    (place, fill(), any::<bool>()).prop_map(|(field, fill, long)| {
        let map: Value = if long {
            json!({"k": "x".repeat(items("", fill))})
        } else {
            let count = items("\"k0000000\":\"v\"", fill);
            (0..count).map(|n| (format!("k{n:07}"), json!("v"))).collect::<serde_json::Map<_, _>>().into()
        };
        let object = if field == "data" {
            json!({"metadata": {"generateName": "m-"}, "data": map})
        } else {
            json!({"metadata": {"generateName": "m-", field: map}})
        };
        let shape = format!("{field} {} long {long}", object.to_string().len());
        manifest(shape, "/api/v1/namespaces/default/configmaps", &object)
    })
}

/// Lists of other kinds.
fn lists() -> impl Strategy<Value = Manifest> {
    let place = prop::sample::select(vec![
        ("/api/v1/namespaces/default/services", "/spec/ports", "{}"),
        ("/api/v1/namespaces/default/endpoints", "/subsets", "{}"),
        ("/apis/networking.k8s.io/v1/namespaces/default/ingresses", "/spec/rules", "{}"),
        ("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", "/spec/ingress", "{}"),
        ("/api/v1/namespaces/default/resourcequotas", "/spec/scopes", "\"\""),
        ("/api/v1/namespaces/default/configmaps", "/metadata/finalizers", "\"a/b\""),
        ("/api/v1/namespaces/default/configmaps", "/metadata/ownerReferences", "{}"),
        ("/api/v1/namespaces/default/configmaps", "/metadata/managedFields", "{}"),
        ("/apis/batch/v1/namespaces/default/jobs", "/spec/podFailurePolicy/rules", "{}"),
        ("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "/spec/metrics", "{}"),
    ]);
    (place, fill()).prop_map(|((path, pointer, item), fill)| {
        let count = items(item, fill);
        let mut object: Value = serde_json::from_str(&format!("[{}]", vec![item; count].join(","))).unwrap();
        for key in pointer.split('/').skip(1).collect::<Vec<_>>().into_iter().rev() {
            object = json!({key: object});
        }
        object["metadata"]["generateName"] = json!("m-");
        manifest(format!("{count} {pointer} {item}"), path, &object)
    })
}

/// Deeply nested values, in a known field and in an unknown one.
fn depths() -> impl Strategy<Value = Manifest> {
    let field = prop::sample::select(vec!["data", "unknown", "spec"]);
    (field, fill(), any::<bool>()).prop_map(|(field, fill, lists)| {
        let (open, close) = if lists { ("[", "]") } else { (r#"{"a":"#, "}") };
        let depth = items(&format!("{open}{close}"), fill);
        let deep = format!("{}0{}", open.repeat(depth), close.repeat(depth));
        let text = format!(r#"{{"metadata":{{"generateName":"m-"}},"{field}":{deep}}}"#);
        Manifest {
            shape: format!("{field} {depth} deep"),
            path: "/api/v1/namespaces/default/configmaps".into(),
            text,
        }
    })
}

fn any_manifest() -> impl Strategy<Value = Manifest> {
    prop_oneof![
        2 => huge_workloads(),
        2 => expansions(),
        3 => parts(),
        2 => placements(),
        3 => fields(),
        2 => keys(),
        2 => lists(),
        1 => depths(),
    ]
}

/// The peak memory of a process, in bytes, without the pages of its program, of which a test build has three times as
/// many; `None` if the process has ended.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    };
    Some(bytes("VmHWM")?.saturating_sub(bytes("RssFile")?))
}

/// The hosts of the nodes below this data directory.
fn hosts(home: &DataDir) -> Vec<u32> {
    let data = home.data_dir().to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_host = |pid: &u32| {
        let line = read_optional_bytes(format!("/proc/{pid}/cmdline"));
        let line = String::from_utf8_lossy(&line);
        line.contains("node-host") && line.contains(&data)
    };
    pids.filter(is_host).collect()
}

/// The response's code and body.
async fn ask(client: &kube::Client, method: &str, path: &str, body: String) -> (u16, Value) {
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    match client.request::<Value>(request.body(body.into_bytes()).unwrap()).await {
        Ok(value) => (200, value),
        Err(kube::Error::Api(status)) => (status.code, Value::Null),
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

/// Returns true if a controller, or the kubelet of its node, has processed the object.
fn is_taken_up(object: &Value) -> bool {
    let status = &object["status"];
    let Some(phase) = status["phase"].as_str() else {
        return status.as_object().is_none_or(|status| !status.is_empty());
    };
    phase != "Pending" || status["containerStatuses"].is_array() || status["conditions"].is_array()
}

async fn case(client: &kube::Client, case: &Manifest) {
    let (code, made) = ask(client, "POST", &case.path, case.text.clone()).await;
    assert!(code < 500, "{}: {code}", case.shape);
    if code >= 400 {
        return;
    }
    let path = format!("{}/{}", case.path, made["metadata"]["name"].as_str().unwrap_or_default());
    until("a controller processes it", || async {
        let (code, object) = ask(client, "GET", &path, String::new()).await;
        code == 404 || is_taken_up(&object)
    })
    .await;
    let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"}).to_string();
    ask(client, "DELETE", &path, options.clone()).await;
    let pods = "/api/v1/namespaces/default/pods";
    until("its pods are gone", || async {
        ask(client, "DELETE", pods, options.clone()).await;
        let (_, left) = ask(client, "GET", &format!("{pods}?limit=1"), String::new()).await;
        left["items"].as_array().is_some_and(Vec::is_empty)
    })
    .await;
}

async fn until<F: Future<Output = bool>>(what: &str, mut look: impl FnMut() -> F) {
    let start = Instant::now();
    loop {
        let before = start.elapsed();
        if look().await {
            return;
        }
        let waited = start.elapsed();
        assert!(waited < WAIT_TIMEOUT, "waited in vain until {what}");
        // A large object takes long to read.
        let interval = waited.saturating_sub(before);
        tokio::time::sleep(interval.clamp(Duration::from_millis(20), Duration::from_secs(1))).await;
    }
}

fn check(instance: &Instance, home: &DataDir, after: &str) {
    let had = peak(instance.pid()).expect("podium serve lives");
    assert!(had <= SERVE, "podium serve had {} MiB after {after}", had >> 20);
    for host in hosts(home) {
        let had = peak(host).unwrap_or(0);
        assert!(had <= HOST, "a node's host had {} MiB after {after}", had >> 20);
    }
}

#[tokio::test]
async fn no_manifest_takes_more_memory_than_there_is_for_it_sec_2() {
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1", "--hollow-nodes", "1"]);
    let client = instance.impatient_client().await;
    let mut runner = TestRunner::deterministic();
    for _ in 0..CASES {
        let manifest = any_manifest().new_tree(&mut runner).unwrap().current();
        assert!(manifest.text.len() <= LONGEST, "{}", manifest.shape);
        case(&client, &manifest).await;
        check(&instance, &home, &manifest.shape);
    }
    instance.stop();
}
