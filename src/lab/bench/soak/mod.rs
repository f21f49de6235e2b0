//! The soak: all uses of a cluster run at once, at a rate that makes minutes stand for hours, and Podium's resources
//! must not grow.

mod churn;
mod measure;
mod report;

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::instance::Instance;
use measure::Sample;
use report::{FLAT_WITHIN, SoakReport};

/// Time for the watch history, caches and allocator to fill; growth in it does not count. The watch history covers five
/// minutes, as with etcd's compaction. In a shorter run, a third of its length counts instead.
const SETTLING: Duration = Duration::from_mins(5);

/// Interval between two printed rows.
const ROW: Duration = Duration::from_mins(1);

/// Minimum number of rows of a short run.
const LEAST_ROWS: u32 = 9;

/// Runs the churn for this long and evaluates the resources; fails if any has grown.
pub(super) async fn run(length: Duration) -> Result<()> {
    let arguments = ["--nodes", "3", "--hollow-nodes", "20"];
    let instance = Instance::start(&arguments).await?;
    let client = instance.client().await?;
    let stop = CancellationToken::new();
    let churn = churn::start(&client, &stop);
    let samples = watch(&instance, &client, length).await;
    stop.cancel();
    let counts = churn.end().await;
    let samples = samples?;
    println!("{counts}");
    instance.stop().await?;
    let settling = SETTLING.min(length / 3);
    let verdict = SoakReport::of(&samples, settling);
    println!("{verdict}");
    if verdict.is_flat() {
        return Ok(());
    }
    bail!(
        "Podium's use of resources has grown by more than {:.0} % since minute {:.1}",
        FLAT_WITHIN * 100.0,
        settling.as_secs_f64() / 60.0
    )
}

/// Takes a sample each minute, or more often in a short run; prints each as a row and returns all.
async fn watch(instance: &Instance, client: &kube::Client, length: Duration) -> Result<Vec<Sample>> {
    let (start, between) = (Instant::now(), ROW.min(length / LEAST_ROWS));
    let mut samples = Vec::new();
    println!("{}", Sample::HEADING);
    while samples.last().is_none_or(|sample: &Sample| sample.after < length) {
        tokio::time::sleep(between).await;
        let sample = Sample::take(instance, client, start.elapsed()).await?;
        println!("{sample}");
        samples.push(sample);
    }
    Ok(samples)
}
