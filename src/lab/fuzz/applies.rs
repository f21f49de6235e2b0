//! Server-side apply: applying a configuration a second time changes nothing, and its managed fields can be read.

use http::Method;
use serde_json::Value;

use super::http_server::HttpServer;

const APPLY: &str = "application/apply-patch+yaml";

/// Kinds with lists that merge by keys, with sets, with maps, and with none of these.
const KINDS: [(&str, &str, &str); 4] = [
    ("v1", "ConfigMap", "/api/v1/namespaces/default/configmaps/x"),
    ("v1", "Service", "/api/v1/namespaces/default/services/x"),
    ("apps/v1", "Deployment", "/apis/apps/v1/namespaces/default/deployments/x"),
    ("batch/v1", "CronJob", "/apis/batch/v1/namespaces/default/cronjobs/x"),
];

/// Input: one byte selects the kind and the configurations that are applied by force. Then follow configurations as
/// JSON, separated by NULs, of two managers in turn.
pub(super) fn check(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let (api_version, kind, path) = KINDS[usize::from(choice) % KINDS.len()];
    let configurations: Vec<Value> = rest
        .split(|byte| *byte == 0)
        .take(4)
        .filter_map(|text| serde_json::from_slice(text).ok())
        .filter(Value::is_object)
        .collect();
    if configurations.is_empty() {
        return;
    }
    let face = HttpServer::new();
    for (i, mut configuration) in configurations.into_iter().enumerate() {
        configuration["apiVersion"] = api_version.into();
        configuration["kind"] = kind.into();
        let (manager, force) = (i % 2, choice >> (2 + i % 4) & 1 == 1);
        let path = format!("{path}?fieldManager=m{manager}&force={force}");
        let apply = || face.send(Method::PATCH, &path, APPLY, configuration.to_string().as_bytes());
        let (code, applied) = apply();
        if code > 201 {
            continue;
        }
        let (code, again) = apply();
        assert_eq!(code, 200, "{again}");
        assert_eq!(again["metadata"], applied["metadata"], "{configuration}");
        for entry in applied["metadata"]["managedFields"].as_array().into_iter().flatten() {
            assert!(entry["manager"].is_string() && entry["fieldsV1"].is_object(), "{entry}");
        }
    }
}
