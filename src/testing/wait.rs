//! Waits for a condition in the cluster, for a bounded time on its clock.

use std::time::Duration;

use api::{Api, Visibility};
use object::Kind;

use super::error::Error;

/// The timeout of every wait, on the cluster's clock. It is long enough for a busy machine.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// The polling interval for conditions without an event.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until `look` returns a value. `look` is called at each change of the kind, and at least once per [`LOOK`]. If
/// it never does, the error contains the text of `describe`.
pub(super) async fn until<T>(
    api: &Api,
    kind: Kind,
    describe: impl Fn() -> String,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T, Error> {
    let waiting = async {
        let mut watcher = api.watch(kind, api.revision(), Visibility::Applied);
        loop {
            if let Some(found) = look() {
                return found;
            }
            // The result does not matter: after an event, a timeout or an expired watch, the next round calls `look`
            // again.
            let _ = tokio::time::timeout(LOOK, watcher.next()).await;
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, waiting).await;
    waited.map_err(|_| Error::Late { condition: describe(), waited: TIMEOUT })
}
