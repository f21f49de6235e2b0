//! Following a controller while it is looked at: by a watch where the server has one, by asking again where it has none.

use std::time::Duration;

use futures::TryStreamExt;
use kube::api::{WatchEvent, WatchParams};

use super::ControllerData;
use super::answer::{Answer, fetch, read, refused};
use crate::effect::Outbox;
use crate::resource::ObjectRef;

/// Between two looks at what cannot be followed, or could not be.
const PAUSE: Duration = Duration::from_secs(1);
/// A watch that ends by itself is begun anew: a proxy in between would cut it without a word.
const WATCH_SECONDS: u32 = 290;

/// Tells how it is until the screen is left.
pub(super) async fn follow(out: Outbox, target: ObjectRef) {
    loop {
        let (answer, version) = fetch(&out, &target).await;
        let is_told = matches!(answer, Answer::Told(_));
        out.data(ControllerData::Answer(answer)).await;
        if let Some(version) = version.filter(|_| is_told && target.kind.has_verb("watch"))
            && let Err(error) = watch(&out, &target, &version).await
        {
            // Without the permission to watch, it is asked for as before.
            if !is_refusal(&error) {
                out.data(ControllerData::Answer(refused(&error))).await;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Tells of changes until the watch ends.
async fn watch(out: &Outbox, target: &ObjectRef, version: &str) -> Result<(), kube::Error> {
    let wanted = format!("metadata.name={}", target.name);
    let params = WatchParams::default().fields(&wanted).timeout(WATCH_SECONDS);
    let api = target.api(out.client());
    let events = api.watch(&params, version).await?;
    futures::pin_mut!(events);
    while let Some(event) = events.try_next().await? {
        let answer = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                read(&serde_json::to_value(object).unwrap_or_default())
            }
            WatchEvent::Deleted(_) => Answer::Gone,
            WatchEvent::Bookmark(_) => continue,
            // What has changed is not known any more: it is asked for.
            WatchEvent::Error(_) => break,
        };
        out.data(ControllerData::Answer(answer)).await;
    }
    Ok(())
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 405))
}
