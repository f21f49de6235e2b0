//! Pod security through the API.

use serde_json::{Value, json};

use crate::test_api::api;
use crate::warning_recorder::WarningRecorder;
use crate::{Api, Part, WriteOptions};
use object::{Key, Kind, Object};

const PREFIX: &str = "pod-security.kubernetes.io/";

/// The result of a write: the error, or the warnings.
fn warnings_of(
    write: impl FnOnce(&WriteOptions) -> Result<(), crate::ApiError>,
) -> Result<Vec<String>, String> {
    let options = WriteOptions { warnings: WarningRecorder::for_listener(), ..WriteOptions::default() };
    write(&options).map_err(|error| error.to_string())?;
    Ok(options.warnings.take_warnings())
}

fn create(api: &Api, kind: Kind, value: Value) -> Result<Vec<String>, String> {
    warnings_of(|options| api.create(Object::from_value(kind, value).unwrap(), options).map(drop))
}

fn namespace(labels: &[(&str, &str)]) -> Value {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(label, value)| (format!("{PREFIX}{label}"), json!(value))).collect();
    json!({"metadata": {"name": "n", "labels": labels}})
}

/// A pod of one container, with additions to its spec and its container.
fn pod(name: &str, spec: &Value, container: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec});
    let mut given = json!({"name": "c", "image": "pause"});
    given.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    pod["spec"]["containers"] = json!([given]);
    pod
}

fn hardened() -> (Value, Value) {
    let spec =
        json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}});
    let container = json!({"securityContext": {
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}});
    (spec, container)
}

/// The violations of a level in a pod's refusal; empty if it is accepted.
fn violations(level: &[(&str, &str)], metadata: &Value, spec: &Value, container: &Value) -> String {
    let api = api(&[]);
    create(&api, Kind::Namespace, namespace(level)).unwrap();
    let mut pod = pod("p", spec, container);
    pod["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    match create(&api, Kind::Pod, pod) {
        Ok(_) => String::new(),
        Err(error) => error.split_once("\": ").map_or(error.clone(), |(_, violations)| violations.into()),
    }
}

/// Violations of the baseline level by version; texts as in Kubernetes.
#[tokio::test(start_paused = true)]
async fn the_baseline_forbids_ways_to_the_node_api_16() {
    let none = json!({});
    let cases: &[(&str, Value, Value, Value, &str)] = &[
        ("latest", none.clone(), none.clone(), none.clone(), ""),
        (
            "latest",
            none.clone(),
            json!({"hostNetwork": true, "hostPID": true}),
            json!({"securityContext": {"privileged": true}}),
            "host namespaces (hostNetwork=true, hostPID=true), privileged (container \"c\" must not set \
             securityContext.privileged=true)",
        ),
        (
            "latest",
            none.clone(),
            json!({"volumes": [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "hostPath": {"path": "/"}}]}),
            none.clone(),
            "hostPath volumes (volumes \"a\", \"b\")",
        ),
        (
            "latest",
            none.clone(),
            none.clone(),
            json!({"ports": [{"containerPort": 80, "hostPort": 9}, {"containerPort": 81, "hostPort": 80}]}),
            "hostPort (container \"c\" uses hostPorts 80, 9)",
        ),
        (
            "latest",
            none.clone(),
            none.clone(),
            json!({"securityContext": {"capabilities": {"add": ["SYS_TIME", "NET_RAW", "CHOWN"]}}}),
            "non-default capabilities (container \"c\" must not include \"NET_RAW\", \"SYS_TIME\" in \
             securityContext.capabilities.add)",
        ),
        (
            "latest",
            none.clone(),
            none.clone(),
            json!({"livenessProbe": {"httpGet": {"port": 80, "host": "10.0.0.1"}}}),
            "probe or lifecycle host (container \"c\" uses probe or lifecycle host \"10.0.0.1\")",
        ),
        (
            "v1.33",
            none.clone(),
            none.clone(),
            json!({"livenessProbe": {"httpGet": {"port": 80, "host": "10.0.0.1"}}}),
            "",
        ),
        (
            "latest",
            none.clone(),
            json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
            none.clone(),
            "forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            "latest",
            none.clone(),
            json!({"securityContext": {"seLinuxOptions": {"type": "spc_t", "user": "u"}}}),
            json!({"securityContext": {"seLinuxOptions": {"type": "container_engine_t", "role": "r"}}}),
            "seLinuxOptions (pod and container \"c\" set forbidden securityContext.seLinuxOptions: type \"spc_t\"; \
             user may not be set; role may not be set)",
        ),
        (
            "v1.30",
            none.clone(),
            none.clone(),
            json!({"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}}),
            "seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type \
             \"container_engine_t\")",
        ),
        (
            "latest",
            none.clone(),
            json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
            none.clone(),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            "v1.18",
            json!({"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}),
            none.clone(),
            none.clone(),
            "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")",
        ),
        (
            "v1.28",
            none.clone(),
            json!({"securityContext": {"sysctls": [
                {"name": "net.ipv4.tcp_fin_timeout", "value": "1"}, {"name": "net.ipv4.tcp_syncookies", "value": "1"}]}}),
            none.clone(),
            "forbidden sysctls (net.ipv4.tcp_fin_timeout)",
        ),
        (
            "latest",
            none.clone(),
            json!({"hostUsers": true}),
            json!({"securityContext": {"procMount": "Default"}}),
            "",
        ),
    ];
    for (version, metadata, spec, container, expected) in cases {
        let level = [("enforce", "baseline"), ("enforce-version", *version)];
        assert_eq!(violations(&level, metadata, spec, container), *expected, "{version} {spec} {container}");
    }
}

/// Additional requirements of the restricted level.
#[tokio::test(start_paused = true)]
async fn the_restricted_level_takes_hardened_pods_alone_api_16() {
    let none = json!({});
    let level = [("enforce", "restricted")];
    let (spec, container) = hardened();
    assert_eq!(violations(&level, &none, &spec, &container), "");
    assert_eq!(
        violations(&level, &none, &none, &none),
        "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile \
         (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    );
    let with = |more: Value| {
        let mut spec = spec.clone();
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let volumes = json!({"volumes": [
        {"name": "a", "nfs": {"server": "s", "path": "/"}}, {"name": "b", "emptyDir": {}},
        {"name": "h", "hostPath": {"path": "/"}}]});
    assert_eq!(
        violations(&level, &none, &with(volumes), &container),
        "restricted volume types (volumes \"a\", \"h\" use restricted volume types \"hostPath\", \"nfs\")"
    );
    let root = json!({"securityContext": {"runAsUser": 0, "runAsNonRoot": false,
        "seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}});
    assert_eq!(
        violations(&level, &none, &with(root.clone()), &container),
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), runAsUser=0 (pod must not set \
         runAsUser=0)"
    );
    let mut users_of_its_own = root;
    users_of_its_own["hostUsers"] = json!(false);
    assert_eq!(violations(&level, &none, &with(users_of_its_own.clone()), &container), "");
    let old = [("enforce", "restricted"), ("enforce-version", "v1.34")];
    assert!(violations(&old, &none, &with(users_of_its_own), &container).contains("runAsUser=0"));
    // The definition of v1.7 had few requirements.
    let oldest = [("enforce", "restricted"), ("enforce-version", "v1.7")];
    let only_root =
        "runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true)";
    assert_eq!(violations(&oldest, &none, &none, &none), only_root);
}

/// Complete messages, warnings, and workloads.
#[tokio::test(start_paused = true)]
async fn authors_are_refused_or_warned_as_the_labels_say_api_16() {
    let api = api(&[]);
    create(&api, Kind::Namespace, namespace(&[("enforce", "baseline"), ("warn", "restricted")])).unwrap();
    let refused = create(&api, Kind::Pod, pod("p", &json!({"hostIPC": true}), &json!({})));
    assert_eq!(
        refused.unwrap_err(),
        "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostIPC=true)"
    );
    let warned = create(&api, Kind::Pod, pod("p", &json!({}), &json!({}))).unwrap();
    assert_eq!(warned.len(), 1);
    assert!(
        warned[0].starts_with("would violate PodSecurity \"restricted:latest\": allowPrivilegeEscalation")
    );
    // Workloads are never refused.
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("", &json!({"hostIPC": true}), &json!({}))["spec"]});
    let deployment = json!({"metadata": {"name": "d", "namespace": "n"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let warned = create(&api, Kind::Deployment, deployment).unwrap();
    assert!(
        warned[0]
            .starts_with("would violate PodSecurity \"restricted:latest\": host namespaces (hostIPC=true)")
    );
}

/// A change without new images is accepted; an ephemeral container is checked.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_there_is_judged_by_what_is_new_in_it_api_16() {
    let api = api(&[]);
    create(&api, Kind::Namespace, namespace(&[])).unwrap();
    create(&api, Kind::Pod, pod("p", &json!({}), &json!({}))).unwrap();
    let key = Key::new("n", "p");
    let labelled = warnings_of(|options| {
        api.change(Kind::Namespace, &Key::new("", "n"), Part::Main, options, |namespace| {
            let mut namespace = namespace.clone();
            let labels = namespace.meta_mut().labels.get_or_insert_default();
            labels.insert(format!("{PREFIX}enforce"), "restricted".into());
            Ok(namespace)
        })
        .map(drop)
    });
    let expected = [
        "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"restricted:latest\"",
        "p: allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile",
    ];
    assert_eq!(labelled.unwrap(), expected);
    let edit = |part, edit: fn(&mut Value)| {
        warnings_of(|options| {
            api.change(Kind::Pod, &key, part, options, |pod| {
                let mut value = pod.to_value();
                edit(&mut value);
                Ok(Object::from_value(Kind::Pod, value).unwrap())
            })
            .map(drop)
        })
    };
    assert_eq!(edit(Part::Main, |pod| pod["metadata"]["labels"] = json!({"a": "b"})), Ok(Vec::new()));
    let image = edit(Part::Main, |pod| pod["spec"]["containers"][0]["image"] = json!("other"));
    assert!(
        image.unwrap_err().starts_with("pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\"")
    );
    let debugger = edit(Part::EphemeralContainers, |pod| {
        pod["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": "busybox"}]);
    });
    assert!(debugger.unwrap_err().contains("containers \"c\", \"debugger\" must set"));
}

/// Invalid labels are refused if they are new.
#[tokio::test(start_paused = true)]
async fn labels_of_levels_must_be_readable_api_16() {
    let api = api(&[]);
    let bad = namespace(&[("enforce", "none"), ("warn-version", "v1.07")]);
    let expected = "Namespace \"n\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \
                    \"none\": must be one of privileged, baseline, restricted, \
                    metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"v1.07\": must be \
                    \"latest\" or \"v1.x\"]";
    assert_eq!(create(&api, Kind::Namespace, bad).unwrap_err(), expected);
    create(&api, Kind::Namespace, namespace(&[("enforce", "baseline"), ("enforce-version", "v1.99")]))
        .unwrap();
}
