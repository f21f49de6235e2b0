//! kill -9 at any moment loses no acknowledged write (SAFE-2).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, PostParams};

use crate::instance::{DataDir, WAIT_TIMEOUT};

const WRITERS: usize = 8;
const ENOUGH: usize = 200;

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some([("filling".to_string(), "x".repeat(512))].into()),
        ..ConfigMap::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_write_survives_kill_9_safe_2() {
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0"]);
    let client = instance.client().await;
    let stop = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(std::sync::Mutex::new((Vec::new(), Vec::new())));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, stop, acknowledged) = (client.clone(), stop.clone(), acknowledged.clone());
            tokio::spawn(async move {
                let api: Api<ConfigMap> = Api::namespaced(client, "default");
                for n in 0.. {
                    let name = format!("w{writer}-{n}");
                    if stop.load(Ordering::Relaxed)
                        || api.create(&PostParams::default(), &config_map(&name)).await.is_err()
                    {
                        return;
                    }
                    acknowledged.lock().unwrap().0.push(name.clone());
                    // Every third object is deleted again.
                    if n % 3 == 0 && api.delete(&name, &DeleteParams::default()).await.is_ok() {
                        acknowledged.lock().unwrap().1.push(name);
                    }
                }
            })
        })
        .collect();
    let enough = async {
        while acknowledged.lock().unwrap().0.len() < ENOUGH {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, enough).await.expect("enough writes are acknowledged");
    instance.crash();
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }

    let instance = home.start(&["--nodes", "0"]);
    let api: Api<ConfigMap> = Api::namespaced(instance.client().await, "default");
    let there: std::collections::HashSet<String> = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|c| c.metadata.name)
        .collect();
    let (created, deleted) = acknowledged.lock().unwrap().clone();
    for name in &deleted {
        assert!(!there.contains(name), "{name} was deleted");
    }
    // An object with a pending deletion may exist or not.
    for name in created.iter().filter(|name| !deleted.contains(name)) {
        let being_deleted = name.rsplit('-').next().unwrap().parse::<usize>().unwrap() % 3 == 0;
        assert!(being_deleted || there.contains(name), "{name} was acknowledged");
    }
    instance.stop();
}
