//! Durable writes, compared with raw append + fdatasync on the same disk (PERF-7).

use std::fs::OpenOptions;
use std::io::{Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::Instant;

use super::report::Report;
use object::Object;
use store::Store;

const FOR: Duration = Duration::from_secs(2);
const CLIENTS: usize = 64;

pub(super) async fn run() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("podium-bench-disk-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let appended = raw(&directory.join("appended"), 0)?;
    let overwritten = raw(&directory.join("overwritten"), 16 << 20)?;
    let one = writes_per_second(&directory.join("one"), 1).await?;
    let many = writes_per_second(&directory.join("many"), CLIENTS).await?;
    std::fs::remove_dir_all(&directory)?;
    Report::against_limit("durable writes, 1 writer", "/s", one, "append+fdatasync", appended);
    // The database's journal does not grow, so that fdatasync omits its metadata; hence the comparison with
    // overwriting.
    Report::against_limit("durable writes, 1 writer", "/s", one, "overwrite+fdatasync", overwritten);
    Report::beside_recorded("durable writes, 1 writer", "/s", one, 1050.0);
    Report::against_limit("durable writes, 64 writers", "/s", many, "append+fdatasync", appended);
    Ok(())
}

/// Measures the time until one kilobyte, appended to a file, is durable, in microseconds.
pub(super) fn sync_micros() -> Result<f64> {
    let path = std::env::temp_dir().join(format!("podium-bench-sync-{}", std::process::id()));
    let rate = raw(&path, 0);
    std::fs::remove_file(&path)?;
    Ok(1e6 / rate?)
}

/// Writes and syncs one kilobyte repeatedly, at the file's end or over this many existing bytes. Returns the rate per
/// second.
fn raw(path: &std::path::Path, there: usize) -> Result<f64> {
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    let record = [b'x'; 1024];
    file.write_all(&vec![0; there])?;
    file.sync_all()?;
    file.rewind()?;
    let (start, mut count) = (Instant::now(), 0_u32);
    while start.elapsed() < FOR {
        if there > 0 && (count as usize + 1).is_multiple_of(there / record.len()) {
            file.rewind()?;
        }
        file.write_all(&record)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

async fn writes_per_second(directory: &std::path::Path, clients: usize) -> Result<f64> {
    let store = Store::open(directory)?;
    let count = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let runtime = tokio::runtime::Handle::current();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let (store, count) = (store.clone(), count.clone());
            runtime.spawn(async move {
                for n in 0.. {
                    if start.elapsed() >= FOR {
                        return;
                    }
                    let Ok(stored) = store.create(record(client, n)) else { return };
                    if store.durable(stored.revision()).await.is_ok() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    futures::future::join_all(tasks).await;
    let rate = count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    Ok(rate)
}

fn record(client: usize, n: usize) -> Object {
    let mut object = Object::new(ConfigMap {
        data: Some([("k".to_string(), "x".repeat(900))].into()),
        ..ConfigMap::default()
    });
    object.meta_mut().name = Some(format!("{client}-{n}"));
    object
}
