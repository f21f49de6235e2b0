//! Follows a controller while its screen is shown: by a watch if the server supports one, else by polling.

use std::time::Duration;

use futures::TryStreamExt;
use kube::api::{WatchEvent, WatchParams};

use super::ControllerData;
use super::response::{ControllerResponse, fetch, read, refused};
use console_data::resource::ObjectRef;
use console_operations::effect::Outbox;

/// Pause between two requests if the controller cannot be watched or the request failed.
const PAUSE: Duration = Duration::from_secs(1);
/// Timeout of a watch, in seconds. It is shorter than the idle timeouts of proxies, which would cut the connection
/// silently.
const WATCH_SECONDS: u32 = 290;

/// Sends the controller's status until the screen is closed.
pub(super) async fn follow(out: Outbox, target: ObjectRef) {
    loop {
        let (answer, version) = fetch(&out, &target).await;
        let has_status = matches!(answer, ControllerResponse::Status(_));
        out.data(ControllerData::Answer(answer)).await;
        if let Some(version) = version.filter(|_| has_status && target.kind.has_verb("watch"))
            && let Err(error) = watch(&out, &target, &version).await
        {
            // Without permission to watch, polling goes on.
            if !is_refusal(&error) {
                out.data(ControllerData::Answer(refused(&error))).await;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Sends each change until the watch ends.
async fn watch(out: &Outbox, target: &ObjectRef, version: &str) -> Result<(), kube::Error> {
    let selector = format!("metadata.name={}", target.name);
    let params = WatchParams::default().fields(&selector).timeout(WATCH_SECONDS);
    let api = target.api(out.client());
    let events = api.watch(&params, version).await?;
    futures::pin_mut!(events);
    while let Some(event) = events.try_next().await? {
        let answer = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => read(&object::json_of(object)),
            WatchEvent::Deleted(_) => ControllerResponse::NotFound,
            WatchEvent::Bookmark(_) => continue,
            // The watch lost track of changes, so that the status is read again.
            WatchEvent::Error(_) => break,
        };
        out.data(ControllerData::Answer(answer)).await;
    }
    Ok(())
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 405))
}
