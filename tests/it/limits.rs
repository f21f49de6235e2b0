//! Quotas, limit ranges, presets and autoscalers by an unmodified kubectl (API-6, API-7, QUO-1, HPA-1, PP-1).

use serde_json::{Value, json};

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::needs;

fn apply(instance: &Instance, home: &DataDir, manifest: &Value) {
    let path = home.path("manifest.json");
    std::fs::write(&path, manifest.to_string()).unwrap();
    instance.kubectl(&["apply", "-f", path.to_str().unwrap()]);
}

fn get(instance: &Instance, arguments: &[&str]) -> Value {
    let mut all = vec!["get"];
    all.extend(arguments);
    all.extend(["-o", "json"]);
    serde_json::from_str(&instance.kubectl(&all)).unwrap()
}

/// One line of a text, with single spaces.
fn line(text: &str, start: &str) -> String {
    let found = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
    found.filter(|l| l.starts_with(start)).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn kubectl_knows_quotas_presets_and_autoscalers_of_both_versions_api_6() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0", "--hollow-nodes", "1"]);
    quotas(&instance, &home);
    presets(&instance, &home);
    autoscalers(&instance, &home);
    events(&instance);
}

fn quotas(instance: &Instance, home: &DataDir) {
    instance.kubectl(&["create", "namespace", "team"]);
    instance.kubectl(&[
        "-n",
        "team",
        "create",
        "quota",
        "few",
        "--hard=pods=1,requests.cpu=1,count/configmaps=3",
    ]);
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r", "namespace": "team"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": 2}, "defaultRequest": {"cpu": 0.5}}]}});
    apply(instance, home, &range);
    instance.kubectl(&["-n", "team", "run", "one", "--image=busybox", "--", "sleep", "600"]);
    let refused = instance.kubectl_output(&["-n", "team", "run", "two", "--image=busybox"]);
    assert!(!refused.status.success());
    assert_eq!(
        String::from_utf8_lossy(&refused.stderr).trim(),
        "Error from server (Forbidden): pods \"two\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, \
         limited: pods=1"
    );
    let described = instance.kubectl(&["-n", "team", "describe", "quota", "few"]);
    assert_eq!(
        ["pods", "requests.cpu", "count/configmaps"].map(|name| line(&described, name)),
        ["pods 1 1", "requests.cpu 500m 1", "count/configmaps 1 3"]
    );
    let described = instance.kubectl(&["-n", "team", "describe", "limits", "r"]);
    assert_eq!(line(&described, "Container"), "Container cpu - 2 500m 2 -");
}

fn presets(instance: &Instance, home: &DataDir) {
    let preset = json!({"apiVersion": "settings.k8s.io/v1alpha1", "kind": "PodPreset",
        "metadata": {"name": "allow-database"}, "spec": {"selector": {"matchLabels": {"role": "frontend"}},
            "env": [{"name": "DB_PORT", "value": "6379"}]}});
    apply(instance, home, &preset);
    instance.kubectl(&["run", "website", "--image=busybox", "--labels=role=frontend", "--", "sleep", "600"]);
    let website = get(instance, &["pod", "website"]);
    assert_eq!(website["spec"]["containers"][0]["env"], json!([{"name": "DB_PORT", "value": "6379"}]));
    let explained = instance.kubectl(&["explain", "podpresets.spec"]);
    assert!(explained.contains("volumeMounts"), "{explained}");
    assert!(line(&instance.kubectl(&["get", "podpresets"]), "allow-database").len() > "allow-database".len());
}

fn autoscalers(instance: &Instance, home: &DataDir) {
    instance.kubectl(&["create", "deployment", "web", "--image=nginx"]);
    instance.kubectl(&["autoscale", "deployment", "web", "--cpu-percent=50", "--min=2", "--max=5"]);
    let stored = get(instance, &["hpa", "web"]);
    assert_eq!(stored["apiVersion"], "autoscaling/v2");
    assert_eq!(stored["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    let old = get(instance, &["horizontalpodautoscalers.v1.autoscaling", "web"]);
    assert_eq!(old["apiVersion"], "autoscaling/v1");
    assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 50);
    // The same object, in any of its versions.
    let patch = json!({"spec": {"targetCPUUtilizationPercentage": 70}}).to_string();
    instance.kubectl(&[
        "patch",
        "horizontalpodautoscalers.v1.autoscaling",
        "web",
        "--type=merge",
        "-p",
        &patch,
    ]);
    let stored = get(instance, &["hpa", "web"]);
    assert_eq!(stored["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 70);
    let other = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "old"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "absent"}, "maxReplicas": 3}});
    apply(instance, home, &other);
    assert_eq!(
        get(instance, &["horizontalpodautoscalers.v1.autoscaling", "old"])["spec"]["targetCPUUtilizationPercentage"],
        80
    );
    wait_for("the autoscaler to raise the size", || {
        (get(instance, &["deployment", "web"])["spec"]["replicas"] == 2).then_some(())
    });
    let described = instance.kubectl(&["describe", "hpa", "web"]);
    let scaled = "New size: 2; reason: Current number of replicas below Spec.MinReplicas";
    assert!(described.contains(scaled) && described.contains("SuccessfulRescale"), "{described}");
    assert!(line(&instance.kubectl(&["get", "hpa"]), "web").starts_with("web Deployment/web cpu: "));
}

fn events(instance: &Instance) {
    let new = get(
        instance,
        &["events.events.k8s.io", "--field-selector", "regarding.name=web,reason=SuccessfulRescale"],
    );
    let event = &new["items"][0];
    assert_eq!(
        (&event["apiVersion"], &event["regarding"]["kind"]),
        (&json!("events.k8s.io/v1"), &json!("HorizontalPodAutoscaler"))
    );
    let core = get(instance, &["events", "--field-selector", "reason=SuccessfulRescale"]);
    assert_eq!(core["items"][0]["message"], event["note"]);
}
