//! The API over HTTPS, compared with an empty response over the same connection (PERF-4).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use tokio::time::Instant;

use super::disk;
use super::instance::Instance;
use super::report::{Report, percentile_micros};

const SAMPLES: usize = 1000;
const CLIENTS: usize = 32;
/// Number of creates that watchers must see.
const WATCHED: usize = 200;
/// Interval between two requests, on an otherwise idle machine.
const SELDOM: Duration = Duration::from_millis(50);

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some([("k".to_string(), "x".repeat(900))].into()),
        ..ConfigMap::default()
    }
}

pub(super) async fn run() -> Result<()> {
    let instance = Instance::start(&["--nodes", "0"]).await?;
    let client = instance.client().await?;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());

    // Warms up the connection and the code on both sides.
    empty_responses(&client, SAMPLES, Duration::ZERO).await?;
    let floor = empty_responses(&client, SAMPLES, Duration::ZERO).await?;

    let mut create = Vec::new();
    for n in 0..SAMPLES {
        let object = config_map(&format!("c{n}"));
        let start = Instant::now();
        api.create(&PostParams::default(), &object).await?;
        create.push(start.elapsed());
    }
    let p50 = percentile_micros(&mut create, 0.5);
    Report::against_limit("create, durable, 1 client, p50", "us", p50, "empty HTTPS answer", floor);
    Report::beside_recorded("create, durable, 1 client, p50", "us", p50, 1800.0);
    Report::alone("create, durable, 1 client, p99", "us", percentile_micros(&mut create, 0.99));

    let floor = empty_responses(&client, SAMPLES, Duration::ZERO).await?;
    let mut get = Vec::new();
    for n in 0..SAMPLES {
        let name = format!("c{n}");
        let start = Instant::now();
        api.get(&name).await?;
        get.push(start.elapsed());
    }
    let p50 = percentile_micros(&mut get, 0.5);
    Report::against_limit("get, p50", "us", p50, "empty HTTPS answer", floor);
    Report::beside_recorded("get, 1 client", "/s", 1e6 / p50, 2409.0);
    Report::alone("get, p99", "us", percentile_micros(&mut get, 0.99));

    let start = Instant::now();
    let mut lists = 0;
    while start.elapsed() < Duration::from_secs(1) {
        api.list(&ListParams::default()).await?;
        lists += 1;
    }
    let rate = f64::from(lists) / start.elapsed().as_secs_f64();
    Report::beside_recorded("list of 1 000 objects", "/s", rate, 25.0);

    let rate = creates_per_second(&instance).await?;
    Report::beside_recorded("create, durable, 32 clients", "/s", rate, 1417.0);
    let sync = disk::sync_micros()?;
    for (what, watchers) in [("create to watcher, p50", 1), ("create to 100 watchers, p50", 100)] {
        let p50 = watch_delivery(&instance, watchers, Duration::ZERO).await?;
        Report::against_limit(what, "us", p50, "append+fdatasync", sync);
    }
    // With pauses between requests the processors sleep and have to wake up at each step, so the reference is measured
    // with the same pauses.
    let floor = empty_responses(&client, 200, SELDOM).await?;
    for (what, watchers) in
        [("create to watcher, 20 a second, p50", 1), ("create to 100 watchers, 20 a second, p50", 100)]
    {
        let p50 = watch_delivery(&instance, watchers, SELDOM).await?;
        Report::against_limit(what, "us", p50, "empty HTTPS answer, 20 a second", floor);
    }
    instance.stop().await
}

/// Returns the median time of an empty response over the same connection, with this interval between requests.
async fn empty_responses(client: &kube::Client, count: usize, every: Duration) -> Result<f64> {
    let mut samples = Vec::new();
    for _ in 0..count {
        tokio::time::sleep(every).await;
        let start = Instant::now();
        client.request_text(http::Request::get("/healthz").body(Vec::new())?).await?;
        samples.push(start.elapsed());
    }
    Ok(percentile_micros(&mut samples, 0.5))
}

async fn creates_per_second(instance: &Instance) -> Result<f64> {
    let count = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let api: Api<ConfigMap> = Api::default_namespaced(instance.client().await?);
        let count = count.clone();
        clients.push(tokio::spawn(async move {
            for n in 0.. {
                let object = config_map(&format!("m{client}-{n}"));
                if start.elapsed() > Duration::from_secs(2)
                    || api.create(&PostParams::default(), &object).await.is_err()
                {
                    return;
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    futures::future::join_all(clients).await;
    Ok(count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}

/// Measures the median time from sending a create to receiving its event in a watch, with this many watches and this
/// interval between creates.
async fn watch_delivery(instance: &Instance, watchers: usize, every: Duration) -> Result<f64> {
    let api: Api<ConfigMap> = Api::default_namespaced(instance.client().await?);
    let version = api.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let (seen, mut all_seen) = tokio::sync::mpsc::unbounded_channel();
    let mut watching = tokio::task::JoinSet::new();
    for _ in 0..watchers {
        let api: Api<ConfigMap> = Api::default_namespaced(instance.client().await?);
        let mut events = Box::pin(api.watch(&WatchParams::default(), &version).await?);
        let seen = seen.clone();
        watching.spawn(async move {
            while let Ok(Some(event)) = events.try_next().await {
                if let WatchEvent::Added(_) = event
                    && seen.send(Instant::now()).is_err()
                {
                    return;
                }
            }
        });
    }
    drop(seen);
    let mut samples = Vec::new();
    for n in 0..WATCHED {
        tokio::time::sleep(every).await;
        let object = config_map(&format!("w{watchers}-{}-{n}", every.as_millis()));
        let start = Instant::now();
        let create = tokio::spawn({
            let api = api.clone();
            async move { api.create(&PostParams::default(), &object).await.map(drop) }
        });
        for _ in 0..watchers {
            let at = all_seen.recv().await.context("the watches ended")?;
            samples.push(at.saturating_duration_since(start));
        }
        create.await??;
    }
    watching.shutdown().await;
    Ok(percentile_micros(&mut samples, 0.5))
}
