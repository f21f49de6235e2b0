//! The pulls that clients requested on a node: each is listed until its end, and a failed one some minutes longer.

use std::collections::BTreeMap;
use std::time::Duration;

use ::object::node_image::NodeImagePull;
use api::ApiError;
use base::sort::CollectMap;

/// The maximum number of requested pulls in progress.
const MAX_RUNNING: usize = 8;
/// The maximum number of failed pulls in the list.
const MAX_FAILED: usize = 16;
/// The time for which the list shows a failed pull.
const FAILURE_SHOWN: Duration = Duration::from_mins(5);
/// The maximum length of an error in the list.
const MAX_ERROR: usize = 2000;

/// The pulls that clients requested on one node, by the image's full name.
#[derive(Debug, Default)]
pub(crate) struct RequestedPulls {
    pulls: BTreeMap<String, RequestedPull>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestedPull {
    Running,
    /// It failed at this time on the monotonic clock, with this error.
    Failed(Duration, String),
}

impl RequestedPulls {
    /// Adds a pull. Returns false if it is already in progress; an error means that too many are.
    pub(crate) fn begin(&mut self, name: &str) -> Result<bool, ApiError> {
        let running = |pull: &&RequestedPull| **pull == RequestedPull::Running;
        if self.pulls.get(name).is_some_and(|pull| running(&pull)) {
            return Ok(false);
        }
        if self.pulls.values().filter(running).count() >= MAX_RUNNING {
            return Err(ApiError::TooManyRequests {
                message: format!("{MAX_RUNNING} requested pulls are in progress on this node"),
                causes: Vec::new(),
                retry_after_seconds: 5,
            });
        }
        self.pulls.insert(name.to_owned(), RequestedPull::Running);
        Ok(true)
    }

    pub(crate) fn end(&mut self, name: &str, result: Result<(), String>, now: Duration) {
        match result {
            Ok(()) => drop(self.pulls.remove(name)),
            Err(mut error) => {
                error = error.replace(['\n', '\r'], " ");
                error.truncate(error.floor_char_boundary(MAX_ERROR));
                self.pulls.insert(name.to_owned(), RequestedPull::Failed(now, error));
            }
        }
        let failed = |pull: &RequestedPull| match pull {
            RequestedPull::Failed(at, _) => Some(*at),
            RequestedPull::Running => None,
        };
        while self.pulls.values().filter_map(failed).count() > MAX_FAILED {
            let times = self.pulls.iter().filter_map(|(name, pull)| Some((failed(pull)?, name.clone())));
            let Some((_, oldest)) = times.min() else { break };
            self.pulls.remove(&oldest);
        }
    }

    /// Returns the pulls that the list shows at this time: `running`, and the requested ones.
    pub(crate) fn shown(&mut self, running: Vec<NodeImagePull>, now: Duration) -> Vec<NodeImagePull> {
        self.pulls.retain(|_, pull| match pull {
            RequestedPull::Running => true,
            RequestedPull::Failed(at, _) => now.saturating_sub(*at) < FAILURE_SHOWN,
        });
        let mut shown: BTreeMap<String, NodeImagePull> = self
            .pulls
            .iter()
            .map(|(name, pull)| {
                let error = match pull {
                    RequestedPull::Running => None,
                    RequestedPull::Failed(_, error) => Some(error.clone()),
                };
                let image = name.clone();
                (name.clone(), NodeImagePull { image, error, ..NodeImagePull::default() })
            })
            .collect_map();
        shown.extend(running.into_iter().map(|pull| (pull.image.clone(), pull)));
        shown.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pulls: &mut RequestedPulls, seconds: u64) -> Vec<(String, Option<String>)> {
        let shown = pulls.shown(Vec::new(), Duration::from_secs(seconds));
        shown.into_iter().map(|pull| (pull.image, pull.error)).collect()
    }

    #[test]
    fn requested_pulls_are_bounded_and_failures_expire_img_13() {
        let mut pulls = RequestedPulls::default();
        for number in 0..MAX_RUNNING {
            assert_eq!(pulls.begin(&format!("i{number}")), Ok(true));
        }
        assert_eq!(pulls.begin("i0"), Ok(false));
        assert!(matches!(pulls.begin("more"), Err(ApiError::TooManyRequests { .. })));
        let now = Duration::from_secs(10);
        for number in 1..MAX_RUNNING {
            pulls.end(&format!("i{number}"), Ok(()), now);
        }
        pulls.end("i0", Err("ä".repeat(MAX_ERROR)), now);
        let error = shown(&mut pulls, 10).pop().and_then(|(_, error)| error);
        assert_eq!(error, Some("ä".repeat(MAX_ERROR / 2)));
        assert_eq!(shown(&mut pulls, 309).len(), 1);
        assert_eq!(shown(&mut pulls, 310), []);
        for number in 0..30 {
            let name = format!("f{number}");
            assert_eq!(pulls.begin(&name), Ok(true));
            pulls.end(&name, Err("no".to_owned()), Duration::from_secs(400 + number));
        }
        let left = shown(&mut pulls, 450);
        assert_eq!(left.len(), MAX_FAILED);
        assert!(left.iter().any(|(name, _)| name == "f29") && left.iter().all(|(name, _)| name != "f0"));
    }

    #[test]
    fn a_running_pull_is_shown_once_img_13() {
        let mut pulls = RequestedPulls::default();
        assert_eq!(pulls.begin("a"), Ok(true));
        let running =
            |image: &str| NodeImagePull { image: image.into(), done_bytes: 5, ..NodeImagePull::default() };
        let shown = pulls.shown(vec![running("a"), running("b")], Duration::ZERO);
        assert_eq!(shown, [running("a"), running("b")]);
    }
}
