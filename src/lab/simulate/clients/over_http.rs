//! Clients over HTTP: their requests and responses go through the server's encoding, as those of a user's program do.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Resource};
use serde_json::json;

use super::objects::register_key;
use super::{Client, ClientResult, TIMEOUT, typed};
use object::{Object, Revision};

impl Client<'_> {
    /// Reads a ConfigMap, waits for `thinks`, and writes it unless another client has written it meanwhile.
    pub(super) async fn compare_and_swap_over_http(&self, register: u8, thinks: Duration) -> ClientResult {
        let key = register_key(register);
        let maps: Api<ConfigMap> = Api::namespaced(self.plane.client.clone(), &key.namespace);
        let floor = self.checks.registers.floor(&key, self.plane.start_revision);
        let before = patient(maps.get_opt(&key.name)).await?;
        let shown = before.clone().map(Object::new);
        self.check(self.checks.registers.read(&key, floor, shown.as_ref()));
        tokio::time::sleep(thinks).await;
        let options = PostParams::default();
        let (expected, written) = match before {
            None => {
                let new: ConfigMap =
                    typed(json!({"metadata": {"name": key.name, "namespace": key.namespace},
                    "data": {"count": "1"}}));
                (Revision(0), patient(maps.create(&options, &new)).await?)
            }
            Some(mut next) => {
                let expected = shown.map(|shown| shown.revision()).unwrap_or_default();
                let data = next.data.get_or_insert_default();
                let count: u64 = data.get("count").and_then(|count| count.parse().ok()).unwrap_or(0);
                data.insert("count".into(), (count + 1).to_string());
                (expected, patient(maps.replace(&key.name, &options, &next)).await?)
            }
        };
        let revision = written.meta().resource_version.clone().unwrap_or_default();
        self.check(self.checks.registers.written(&key, expected, &Object::new(written)));
        Ok(format!("at revision {revision}"))
    }

    fn check(&self, wrong: Option<String>) {
        if let Some(wrong) = wrong {
            self.world.trace.violation("linearizable objects", wrong);
        }
    }
}

async fn patient<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(answered) => answered.map_err(|error| error.to_string()),
        Err(_) => Err("unknown outcome: timed out".into()),
    }
}
