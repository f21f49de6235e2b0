//! No field of the main kinds is ignored silently (API-17): each is acted on, warned about on write, or refused.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::effective_fields::{ACTED, RULES_ALONE, TestedFields};
use super::{Client, MAPS, PODS, STRATEGIC};
use crate::discovery;
use api::served_kinds::Kinds;
use api::warnings::fields::{INERT, ValueCondition, object_in};
use apimachinery::schema::{TypeId, graph};
use object::Kind;

/// The kinds whose fields are checked.
const ROOTS: [(&str, &str, &str); 9] = [
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
    ("", "v1", "PersistentVolumeClaim"),
    ("apps", "v1", "DaemonSet"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("batch", "v1", "Job"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
];

/// The fields of every document: the version and kind in which a client sends the others.
const OF_EVERY_DOCUMENT: [&str; 2] = ["apiVersion", "kind"];

const EPHEMERAL: &str = "api.core.v1.EphemeralContainer";

/// The fields that an ephemeral container must not have, with an example value each.
fn refused() -> Vec<(&'static str, Value)> {
    vec![
        ("lifecycle", json!({"preStop": {"sleep": {"seconds": 1}}})),
        ("livenessProbe", json!({"tcpSocket": {"port": 80}})),
        ("ports", json!([{"containerPort": 80}])),
        ("readinessProbe", json!({"tcpSocket": {"port": 80}})),
        ("resizePolicy", json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}])),
        ("resources", json!({"limits": {"cpu": "1"}})),
        ("restartPolicy", json!("Always")),
        (
            "restartPolicyRules",
            json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]),
        ),
        ("startupProbe", json!({"tcpSocket": {"port": 80}})),
    ]
}

/// Every field that a client can set in one of the kinds, by type; excluding fields below inert or refused
/// ones.
fn all_fields() -> BTreeSet<(&'static str, &'static str)> {
    let roots: Vec<TypeId> = ROOTS
        .iter()
        .map(|(group, version, kind)| graph().root(group, version, kind).unwrap_or_else(|| panic!("{kind}")))
        .collect();
    let ends: BTreeSet<(&str, &str)> = INERT
        .iter()
        .map(|inert| (inert.of, inert.field))
        .chain(refused().into_iter().map(|(field, _)| (EPHEMERAL, field)))
        .collect();
    let (mut seen, mut next) = (BTreeSet::new(), roots.clone());
    let mut visited = BTreeSet::new();
    while let Some(id) = next.pop() {
        if !visited.insert(id.index()) {
            continue;
        }
        let (type_, top) = (graph().get(id), roots.contains(&id));
        for field in &type_.fields {
            if top && (field.name == "status" || OF_EVERY_DOCUMENT.contains(&field.name)) {
                continue;
            }
            seen.insert((type_.name, field.name));
            if !ends.contains(&(type_.name, field.name)) {
                next.extend(object_in(&field.shape));
            }
        }
    }
    seen
}

/// The tests of a table, by type and field.
fn tests_of(
    table: &[(&'static str, &'static [TestedFields])],
) -> BTreeMap<(&'static str, &'static str), &'static str> {
    let rows = table.iter().flat_map(|(of, shown)| {
        shown.iter().flat_map(move |(test, fields)| fields.iter().map(move |field| ((*of, *field), *test)))
    });
    rows.collect()
}

#[test]
fn each_field_of_the_main_kinds_is_acted_on_warned_about_or_refused_api_17() {
    let (all, acted, rules) = (all_fields(), tests_of(ACTED), tests_of(RULES_ALONE));
    let inert: BTreeSet<(&str, &str)> = INERT.iter().map(|inert| (inert.of, inert.field)).collect();
    let refused: BTreeSet<(&str, &str)> = refused().iter().map(|(field, _)| (EPHEMERAL, *field)).collect();
    let mut wrong = Vec::new();
    for place in &all {
        let answers = [
            acted.contains_key(place),
            rules.contains_key(place),
            inert.contains(place),
            refused.contains(place),
        ];
        match answers.iter().filter(|is| **is).count() {
            1 => {}
            0 => wrong.push(format!("{}.{} is in no table: decide what happens to it", place.0, place.1)),
            _ => wrong.push(format!("{}.{} is in several tables", place.0, place.1)),
        }
    }
    for (of, field) in acted.keys().chain(rules.keys()).filter(|place| !all.contains(place)) {
        wrong.push(format!(
            "{of}.{field} is in the table of fields acted on, or with rules alone, and in no schema"
        ));
    }
    for (of, field) in inert {
        let known = graph().named(of).is_some_and(|id| graph().get(id).field(field).is_some());
        if !known {
            wrong.push(format!("{of}.{field} is in the table of fields without effect, and in no schema"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `hostIPC` as code writes it: `host_ipc`.
fn snake_case(name: &str) -> String {
    let (mut out, mut after_small) = (String::new(), false);
    for c in name.chars() {
        if c.is_ascii_uppercase() && after_small {
            out.push('_');
        }
        after_small = !c.is_ascii_uppercase();
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// The sources below a directory, with their paths.
fn sources(directory: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("effective_fields.rs")
        {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

/// Directories with tests of refusal, defaulting, conversion or display, which do not prove a field's effect.
const NO_EFFECTS: [&str; 12] = [
    "src/kinds", "src/apimachinery/validate", "src/apimachinery/default", "src/api/warnings",
    "src/apiserver/table", "src/api/admission/pod_security", "src/object/versions", "src/console",
    "src/console_toolkit", "src/console_data", "src/console_operations", "src/console_screens",
];

#[test]
fn the_tests_that_show_fields_in_action_exist_and_name_the_field_api_17() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("tests"), &mut files);
    let mut by_test: HashMap<&str, Vec<(bool, &str)>> = HashMap::new();
    for (path, file) in &files {
        let shows_effects = !NO_EFFECTS.iter().any(|place| path.starts_with(root.join(place)));
        for after in file.split("fn ").skip(1) {
            let name =
                after.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            by_test.entry(name).or_default().push((shows_effects, file));
        }
    }
    let check = |((of, field), test): ((&str, &str), &str), effects: bool| {
        let Some(files) = by_test.get(test) else { return Some(format!("{of}.{field}: no test {test}")) };
        let named = |(_, file): &&(bool, &str)| file.contains(field) || file.contains(&snake_case(field));
        let Some((shows_effects, _)) = files.iter().filter(named).max() else {
            return Some(format!("{of}.{field}: the file of {test} does not name it"));
        };
        (effects && !shows_effects).then(|| format!("{of}.{field}: {test} shows no effect"))
    };
    let acted = tests_of(ACTED).into_iter().filter_map(|row| check(row, true));
    let rules = tests_of(RULES_ALONE).into_iter().filter_map(|row| check(row, false));
    let wrong: Vec<String> = acted.chain(rules).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A document that sets a field without effect.
enum Example {
    /// Fields of a pod's spec.
    Pod(Value),
    /// Fields of a container.
    Container(Value),
    /// Fields of a debug container.
    Debugger(Value),
    /// Fields of a volume source.
    Volume(Value),
    /// Fields of a claim's spec.
    Claim(Value),
    /// Fields of a job's spec.
    Job(Value),
    /// A metric of an autoscaler.
    Metric(Value),
}

fn examples() -> Vec<(&'static str, &'static str, Example)> {
    use Example::{Claim, Container, Debugger, Job, Metric, Pod, Volume};
    let security = |field: &str, value: Value| json!({"securityContext": {field: value}});
    let device = json!({"volumeDevices": [{"name": "claim", "devicePath": "/dev/x"}]});
    let items = |of: &str| json!({of: {"name": "m", "items": [{"key": "k", "path": "p", "user": 7}]}});
    let projected = |source: Value| Volume(json!({"projected": {"sources": [source]}}));
    let disk = |kind: &str| json!({kind: {"volumeID": "x"}});
    vec![
        (
            "PodSpec",
            "evictionResponders",
            Pod(json!({"evictionResponders": [{"name": "example.com/r", "priority": 1}]})),
        ),
        ("PodSpec", "os", Pod(json!({"os": {"name": "windows"}}))),
        (
            "PodSpec",
            "resourceClaims",
            Pod(json!({"resourceClaims": [{"name": "d", "resourceClaimName": "d"}]})),
        ),
        ("PodSpec", "schedulingGroup", Pod(json!({"schedulingGroup": {"podGroupName": "g"}}))),
        (
            "ResourceRequirements",
            "claims",
            Pod(json!({"resourceClaims": [{"name": "d", "resourceClaimName": "d"}],
                "containers": [{"name": "c", "image": "busybox", "resources": {"claims": [{"name": "d"}]}}]})),
        ),
        (
            "PodSecurityContext",
            "appArmorProfile",
            Pod(security("appArmorProfile", json!({"type": "RuntimeDefault"}))),
        ),
        (
            "PodSecurityContext",
            "seLinuxChangePolicy",
            Pod(security("seLinuxChangePolicy", json!("Recursive"))),
        ),
        ("PodSecurityContext", "seLinuxOptions", Pod(security("seLinuxOptions", json!({"level": "s0"})))),
        (
            "PodSecurityContext",
            "windowsOptions",
            Pod(
                json!({"os": {"name": "windows"}, "securityContext": {"windowsOptions": {"runAsUserName": "u"}}}),
            ),
        ),
        (
            "SecurityContext",
            "appArmorProfile",
            Container(security("appArmorProfile", json!({"type": "Localhost", "localhostProfile": "p"}))),
        ),
        ("SecurityContext", "seLinuxOptions", Container(security("seLinuxOptions", json!({"level": "s0"})))),
        (
            "SecurityContext",
            "windowsOptions",
            Pod(json!({"os": {"name": "windows"}, "containers": [{"name": "c", "image": "busybox",
                "securityContext": {"windowsOptions": {"runAsUserName": "u"}}}]})),
        ),
        ("Container", "volumeDevices", Container(device.clone())),
        ("EphemeralContainer", "volumeDevices", Debugger(device)),
        ("GRPCAction", "mode", Container(json!({"livenessProbe": {"grpc": {"port": 80, "mode": "TLS"}}}))),
        (
            "HTTPGetAction",
            "protocol",
            Container(json!({"livenessProbe": {"httpGet": {"port": 80, "protocol": "HTTP2"}}})),
        ),
        (
            "VolumeMount",
            "bindMountOptions",
            Container(
                json!({"volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]}),
            ),
        ),
        (
            "VolumeMount",
            "mountPropagation",
            Container(
                json!({"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "HostToContainer"}]}),
            ),
        ),
        ("Volume", "awsElasticBlockStore", Volume(disk("awsElasticBlockStore"))),
        ("Volume", "azureDisk", Volume(json!({"azureDisk": {"diskName": "d", "diskURI": "https://x/d"}}))),
        ("Volume", "azureFile", Volume(json!({"azureFile": {"secretName": "s", "shareName": "n"}}))),
        ("Volume", "cephfs", Volume(json!({"cephfs": {"monitors": ["10.0.0.1:6789"]}}))),
        ("Volume", "cinder", Volume(disk("cinder"))),
        ("Volume", "csi", Volume(json!({"csi": {"driver": "csi.example.com"}}))),
        ("Volume", "fc", Volume(json!({"fc": {"targetWWNs": ["500a0982991b8dc5"], "lun": 2}}))),
        ("Volume", "flexVolume", Volume(json!({"flexVolume": {"driver": "example.com/d"}}))),
        ("Volume", "flocker", Volume(json!({"flocker": {"datasetName": "d"}}))),
        ("Volume", "gcePersistentDisk", Volume(json!({"gcePersistentDisk": {"pdName": "d"}}))),
        ("Volume", "gitRepo", Volume(json!({"gitRepo": {"repository": "https://example.com/r.git"}}))),
        ("Volume", "glusterfs", Volume(json!({"glusterfs": {"endpoints": "e", "path": "p"}}))),
        (
            "Volume",
            "iscsi",
            Volume(
                json!({"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:d", "lun": 0}}),
            ),
        ),
        ("Volume", "nfs", Volume(json!({"nfs": {"server": "s", "path": "/p"}}))),
        ("Volume", "photonPersistentDisk", Volume(json!({"photonPersistentDisk": {"pdID": "d"}}))),
        ("Volume", "portworxVolume", Volume(disk("portworxVolume"))),
        ("Volume", "quobyte", Volume(json!({"quobyte": {"registry": "10.0.0.1:7861", "volume": "v"}}))),
        ("Volume", "rbd", Volume(json!({"rbd": {"monitors": ["10.0.0.1:6789"], "image": "i"}}))),
        (
            "Volume",
            "scaleIO",
            Volume(json!({"scaleIO": {"gateway": "https://g", "system": "s", "secretRef": {"name": "s"},
                "volumeName": "v"}})),
        ),
        ("Volume", "storageos", Volume(json!({"storageos": {"volumeName": "v"}}))),
        ("Volume", "vsphereVolume", Volume(json!({"vsphereVolume": {"volumePath": "p"}}))),
        (
            "ConfigMapVolumeSource",
            "defaultUser",
            Volume(json!({"configMap": {"name": "m", "defaultUser": 7}})),
        ),
        ("DownwardAPIVolumeSource", "defaultUser", Volume(json!({"downwardAPI": {"defaultUser": 7}}))),
        (
            "ProjectedVolumeSource",
            "defaultUser",
            Volume(json!({"projected": {"defaultUser": 7, "sources": [{"configMap": {"name": "m"}}]}})),
        ),
        (
            "SecretVolumeSource",
            "defaultUser",
            Volume(json!({"secret": {"secretName": "s", "defaultUser": 7}})),
        ),
        (
            "DownwardAPIVolumeFile",
            "user",
            Volume(json!({"downwardAPI": {"items": [{"path": "n", "user": 7,
                "fieldRef": {"fieldPath": "metadata.name"}}]}})),
        ),
        ("KeyToPath", "user", Volume(items("configMap"))),
        (
            "ServiceAccountTokenProjection",
            "user",
            projected(json!({"serviceAccountToken": {"path": "t", "expirationSeconds": 3600, "user": 7}})),
        ),
        (
            "VolumeProjection",
            "clusterTrustBundle",
            projected(json!({"clusterTrustBundle": {"name": "b", "path": "ca.pem"}})),
        ),
        (
            "VolumeProjection",
            "podCertificate",
            projected(json!({"podCertificate": {"signerName": "example.com/s", "keyType": "ED25519",
                "credentialBundlePath": "b.pem"}})),
        ),
        (
            "PersistentVolumeClaimSpec",
            "dataSource",
            Claim(json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}})),
        ),
        (
            "PersistentVolumeClaimSpec",
            "dataSourceRef",
            Claim(json!({"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "other"}})),
        ),
        (
            "PersistentVolumeClaimSpec",
            "volumeAttributesClassName",
            Claim(json!({"volumeAttributesClassName": "a"})),
        ),
        (
            "VolumeResourceRequirements",
            "limits",
            Claim(json!({"resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}}})),
        ),
        (
            "MetricSpec",
            "pods",
            Metric(json!({"type": "Pods", "pods": {"metric": {"name": "requests"},
                "target": {"type": "AverageValue", "averageValue": "1k"}}})),
        ),
        (
            "MetricSpec",
            "object",
            Metric(json!({"type": "Object", "object": {"metric": {"name": "requests"},
                "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
                "target": {"type": "Value", "value": "1k"}}})),
        ),
        (
            "MetricSpec",
            "external",
            Metric(json!({"type": "External", "external": {"metric": {"name": "queue"},
                "target": {"type": "Value", "value": "30"}}})),
        ),
        (
            "MetricTarget",
            "value",
            Metric(json!({"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "AverageValue", "averageValue": "1", "value": "2"}}})),
        ),
        ("PersistentVolumeClaimSpec", "volumeMode", Claim(json!({"volumeMode": "Block"}))),
        (
            "JobSpec",
            "scheduling",
            Job(json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2,
                "scheduling": {"schedulingPolicy": {"gang": {"minCount": 2}}}})),
        ),
    ]
}

fn merged(mut document: Value, more: &Value) -> Value {
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    document
}

fn pod(name: &str, more: &Value) -> Value {
    let spec = json!({"containers": [{"name": "c", "image": "busybox"}], "volumes": [
        {"name": "v", "emptyDir": {}}, {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}}]});
    json!({"metadata": {"name": name}, "spec": merged(spec, more)})
}

#[tokio::test(start_paused = true)]
async fn each_field_without_effect_is_answered_with_its_warning_api_17() {
    let client = Client::new().await;
    let examples = examples();
    for inert in INERT {
        let short = inert.of.rsplit('.').next().unwrap();
        let shown = examples.iter().any(|(of, field, _)| *of == short && *field == inert.field);
        assert!(shown, "no example sets {short}.{}", inert.field);
    }
    let container = |more: &Value| merged(json!({"name": "c", "image": "busybox"}), more);
    for (at, (of, field, example)) in examples.iter().enumerate() {
        let name = format!("p-{at}");
        let answered = match example {
            Example::Pod(more) => client.post(PODS, &pod(&name, more)).await,
            Example::Container(more) => {
                client.post(PODS, &pod(&name, &json!({"containers": [container(more)]}))).await
            }
            Example::Volume(source) => {
                let volume = merged(json!({"name": "x"}), source);
                client.post(PODS, &pod(&name, &json!({"volumes": [volume]}))).await
            }
            Example::Debugger(more) => {
                assert_eq!(client.post(PODS, &pod(&name, &json!({}))).await.code, 201);
                let debugger = merged(json!({"name": "d", "image": "busybox"}), more);
                let patch = json!({"spec": {"ephemeralContainers": [debugger]}});
                client.patch(&format!("{PODS}/{name}/ephemeralcontainers"), STRATEGIC, &patch).await
            }
            Example::Claim(more) => {
                let spec =
                    json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
                let claim = json!({"metadata": {"name": name}, "spec": merged(spec, more)});
                client.post("/api/v1/namespaces/default/persistentvolumeclaims", &claim).await
            }
            Example::Job(more) => {
                let template =
                    json!({"spec": {"restartPolicy": "Never", "containers": [container(&json!({}))]}});
                let job =
                    json!({"metadata": {"name": name}, "spec": merged(json!({"template": template}), more)});
                client.post("/apis/batch/v1/namespaces/default/jobs", &job).await
            }
            Example::Metric(metric) => {
                let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
                let scaler = json!({"metadata": {"name": name},
                    "spec": {"maxReplicas": 3, "scaleTargetRef": target, "metrics": [metric]}});
                let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
                client.post(path, &scaler).await
            }
        };
        assert!(matches!(answered.code, 200 | 201), "{of}.{field}: {answered:?}");
        let inert = INERT.iter().find(|inert| inert.field == *field && inert.of.ends_with(&format!(".{of}")));
        let expected = format!(".{field}: {}", inert.unwrap().text);
        let is_warned = answered.warnings.iter().any(|warning| warning.contains(&expected));
        assert!(is_warned, "{of}.{field}: {expected:?} is not in {:?}", answered.warnings);
    }
    let more = json!({"hostUsers": true, "os": {"name": "linux"},
        "securityContext": {"seccompProfile": {"type": "Unconfined"}}});
    let plain = client.post(PODS, &pod("plain", &more)).await;
    assert_eq!((plain.code, plain.warnings), (201, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn forbidden_fields_of_debug_containers_are_refused_eph_1_api_17() {
    let client = Client::new().await;
    assert_eq!(client.post(PODS, &pod("p", &json!({}))).await.code, 201);
    for (field, value) in refused() {
        let debugger = json!({"name": "d", "image": "busybox", field: value});
        let patch = json!({"spec": {"ephemeralContainers": [debugger]}});
        let answered = client.patch(&format!("{PODS}/p/ephemeralcontainers"), STRATEGIC, &patch).await;
        let expected =
            format!("spec.ephemeralContainers[0].{field}: Forbidden: cannot be set for an Ephemeral");
        assert!(answered.code == 422 && answered.message().contains(&expected), "{field}: {answered:?}");
    }
}

/// The metadata fields that a client sets, by which its objects are found.
#[tokio::test(start_paused = true)]
async fn metadata_names_and_finds_objects_api_2() {
    let client = Client::new().await;
    let made =
        client.post(MAPS, &json!({"metadata": {"generateName": "m-", "labels": {"app": "web"}}})).await;
    let name = made.body["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.len() > 2 && name.starts_with("m-"), "{made:?}");
    assert_eq!(client.post(MAPS, &json!({"metadata": {"name": "plain"}})).await.code, 201);
    let other_namespace = client.post(MAPS, &json!({"metadata": {"name": "x", "namespace": "other"}})).await;
    assert_eq!(other_namespace.code, 400, "{other_namespace:?}");
    for (path, found) in [
        (format!("{MAPS}?labelSelector=app=web"), vec![name.as_str()]),
        (format!("{MAPS}?labelSelector=app!=web"), vec!["plain"]),
        (format!("{MAPS}?fieldSelector=metadata.name=plain"), vec!["plain"]),
        ("/api/v1/namespaces/other/configmaps".to_owned(), vec![]),
    ] {
        let list = client.get(&path).await;
        let names: Vec<&str> = list.body["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|map| map["metadata"]["name"].as_str())
            .collect();
        assert_eq!(names, found, "{path}");
    }
    assert_eq!(client.get(&format!("{MAPS}/{name}")).await.body["metadata"]["namespace"], "default");
}

#[test]
fn label_selectors_of_objects_match_by_labels_and_expressions_api_2() {
    let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
    let both = json!({"matchLabels": {"x": "y"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]});
    for (selector, (key, value), expected) in [
        (json!({"matchLabels": {"a": "b"}}), ("a", "b"), true),
        (json!({"matchLabels": {"a": "b"}}), ("a", "c"), false),
        (expression("In", &["b", "c"]), ("a", "c"), true),
        (expression("In", &["b", "c"]), ("a", "d"), false),
        (expression("In", &["b", "c"]), ("x", "c"), false),
        (expression("NotIn", &["b"]), ("a", "b"), false),
        (expression("NotIn", &["b"]), ("x", "b"), true),
        (expression("Exists", &[]), ("a", ""), true),
        (expression("Exists", &[]), ("x", ""), false),
        (expression("DoesNotExist", &[]), ("a", ""), false),
        (expression("DoesNotExist", &[]), ("x", ""), true),
        (both, ("a", "b"), false),
    ] {
        let field = serde_json::from_value(selector.clone()).unwrap();
        let labels = [(key.to_string(), value.to_string())].into();
        let matches = object::selector::Selector::from_field(&field).matches(Some(&labels));
        assert_eq!(matches, expected, "{selector} on {key}={value}");
    }
}

/// The metadata fields that a client may send and that the server ignores.
#[tokio::test(start_paused = true)]
async fn fields_of_the_system_are_the_servers_to_write_api_5() {
    let client = Client::new().await;
    let sent = json!({"metadata": {"name": "m", "uid": "mine", "generation": 7, "selfLink": "/mine",
        "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5}});
    let answered = client.post(MAPS, &sent).await;
    assert_eq!(answered.code, 201, "{answered:?}");
    let metadata = &answered.body["metadata"];
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"] {
        assert_eq!(metadata[field], Value::Null, "{field}");
    }
    for field in ["uid", "creationTimestamp", "resourceVersion", "managedFields"] {
        assert!(
            !metadata[field].is_null() && metadata[field] != sent["metadata"][field],
            "{field}: {metadata}"
        );
    }
}

const BEGIN: &str =
    "<!-- generated: UPDATE_DIFFERENCES=1 cargo test -p podium-apiserver --lib differences -->\n";
const END: &str = "<!-- end of the generated part -->\n";

/// Kinds that are implemented in part, with the limit. Every other kind whose writes carry a warning is only
/// stored.
const PARTLY: [(Kind, &str); 4] = [
    (Kind::NetworkPolicy, "enforced unless pods share the machine's network"),
    (Kind::CSIDriver, "only the driver `disk.podium.dev`; pods with volumes of other drivers stay pending"),
    (Kind::VolumeAttachment, "only those of the driver `disk.podium.dev`"),
    (Kind::ServiceCIDR, "only the range `kubernetes`, which the cluster was started with"),
];

/// Kinds that are only stored, although their writes carry no warning: drivers write them, not users.
const STORED: [(Kind, &str); 2] = [
    (Kind::CSINode, "CSI drivers have no effect here"),
    (Kind::CSIStorageCapacity, "CSI drivers have no effect here"),
];

/// A cell of the table: the extent to which Podium implements a kind.
fn extent_of(kind: Option<Kind>) -> String {
    let Some(kind) = kind else { return "yes".into() };
    let limit = |list: &[(Kind, &str)]| {
        list.iter().find(|(listed, _)| *listed == kind).map(|(_, text)| (*text).to_owned())
    };
    if let Some(text) = limit(&PARTLY) {
        return format!("partly: {text}");
    }
    let warning = kinds::built_in(kind).warning().map(str::to_owned);
    limit(&STORED).or(warning).map_or_else(|| "yes".into(), |text| format!("no: {text}"))
}

/// Every served kind: its group, verbs and subresources, and the extent of its implementation.
fn table_of_kinds() -> String {
    const ALL: usize = 8;
    let mut out = String::from("| group | kind | verbs | subresources | acted on |\n|---|---|---|---|---|\n");
    for served in discovery::served(&Kinds::default()) {
        for resource in &served.resources {
            let kind = Kind::all().find(|kind| {
                !kind.is_custom()
                    && kind.info().name == resource.kind
                    && kind.info().plural == resource.plural
            });
            let verbs = if resource.verbs.len() == ALL { "all".into() } else { resource.verbs.join(", ") };
            let parts = resource.parts.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
            let (group, name) = (served.group_version(), resource.kind);
            let _ = writeln!(out, "| {group} | {name} | {verbs} | {parts} | {} |", extent_of(kind));
        }
    }
    out
}

/// Fields that are stored without effect, by the warning that a write gets.
fn table_of_fields() -> String {
    let mut out = String::from("| field | warning |\n|---|---|\n");
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    for inert in INERT {
        let short = inert.of.rsplit('.').next().unwrap_or(inert.of);
        let field = format!("`{short}.{}`", inert.field);
        let shown = match inert.when {
            ValueCondition::Set => field,
            ValueCondition::Is(value) => format!("{field} `{value}`"),
            ValueCondition::IsNot(value) => format!("{field} other than `{value}`"),
            ValueCondition::FieldIsNot(part, value) => {
                format!("{field} with another `{part}` than `{value}`")
            }
        };
        match rows.iter_mut().find(|(text, _)| *text == inert.text) {
            Some((_, fields)) => fields.push(shown),
            None => rows.push((inert.text, vec![shown])),
        }
    }
    for (text, fields) in rows {
        let _ = writeln!(out, "| {} | {text} |", fields.join(", "));
    }
    out
}

/// Compares the generated part of a document with `expected`, or writes it.
fn check(document: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/differences").join(document);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the comment at the start of the generated part");
    let (written, after) = rest.split_once(END).expect("the comment at its end");
    if std::env::var_os("UPDATE_DIFFERENCES").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, expected, "UPDATE_DIFFERENCES=1 writes docs/differences/{document} anew");
}

#[test]
fn differences_list_every_kind_and_whether_it_is_acted_on_api_7_api_17() {
    check("overview.md", &table_of_kinds());
}

#[test]
fn differences_list_every_field_without_effect_api_17() {
    check("fields.md", &table_of_fields());
}
