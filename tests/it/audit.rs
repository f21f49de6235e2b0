//! The audit log of a running server (API-19).

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::Value;

use crate::data_dirs::podium;
use crate::instance::DataDir;

async fn create(client: kube::Client, name: &str) {
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let map = serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap();
    api.create(&PostParams::default(), &map).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_and_a_start_leave_a_whole_log_api_19() {
    let home = DataDir::new();
    let (log, policy) = (home.path("audit.log"), home.path("policy.yaml"));
    let rules = "rules: [{level: Metadata, resources: [{resources: [configmaps]}], verbs: [create]}]\n";
    let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n";
    std::fs::write(&policy, format!("{head}{rules}")).unwrap();
    let config = home.path("config.yaml");
    std::fs::write(
        &config,
        format!("audit: {{logPath: /nowhere/at/all, policyFile: {}}}\n", policy.display()),
    )
    .unwrap();
    let (log_path, config) = (log.to_str().unwrap(), config.to_str().unwrap());
    for name in ["first", "second"] {
        // A flag takes precedence over the config file.
        let instance = home.start(&["--nodes", "0", "--config", config, "--audit-log-path", log_path]);
        create(instance.client().await, name).await;
        instance.stop();
    }
    let text = std::fs::read_to_string(&log).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ours: Vec<&Value> = events.iter().filter(|e| e["objectRef"]["namespace"] == "default").collect();
    let names: Vec<&Value> = ours.iter().map(|event| &event["objectRef"]["name"]).collect();
    assert_eq!(names, ["first", "second"]);
    assert!(ours.iter().all(|event| event["sourceIPs"] == serde_json::json!(["127.0.0.1"])), "{ours:?}");
    assert!(ours.iter().all(|event| event["responseStatus"]["code"] == 201), "{ours:?}");
}

#[test]
fn a_log_that_cannot_be_is_a_reason_not_to_start_api_19() {
    let home = DataDir::new();
    let policy = home.path("policy.yaml");
    std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]\n").unwrap();
    let policy = policy.to_str().unwrap();
    for (arguments, expected) in [
        (
            vec!["--audit-policy-file", policy],
            "the audit log: cannot use the policy: no log file; set one with --audit-log-path".into(),
        ),
        (
            vec!["--audit-log-path", "-", "--audit-policy-file", policy],
            format!("{policy}: invalid audit policy: rules[0].level: Unsupported value: \"All\""),
        ),
        (vec!["--audit-log-path", "/nonexistent/audit.log"], "/nonexistent/audit.log: No such file".into()),
    ] {
        let (code, stdout, stderr) = podium(&home, &[&["serve", "--nodes", "0"], &arguments[..]].concat());
        assert!(stderr.contains(&expected), "{arguments:?}: {stderr}");
        assert_eq!((code, stdout.as_str()), (Some(1), ""));
    }
}
