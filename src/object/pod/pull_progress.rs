//! The progress of image pulls, as the messages of waiting containers carry it.
//!
//! Kubernetes has no field for it. The kubelet writes it into the message of a container that waits for its image, and
//! clients read it from there: [`PullProgress`] is both the writer and the reader of that text. A message of any other
//! form, such as another kubelet's, has no progress.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// The bytes of a megabyte, the unit of the text.
const MEGABYTE: u64 = 1_000_000;
/// The precision of the text: a tenth of a megabyte.
const TENTH: u64 = MEGABYTE / 10;

/// The progress of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullProgress {
    /// The downloaded bytes.
    pub done: u64,
    /// The bytes to download; `None` until they are known.
    pub total: Option<u64>,
}

impl PullProgress {
    /// Returns the downloaded share, from 0 to 1; `None` until the total is known.
    pub fn share(self) -> Option<f64> {
        let total = self.total.filter(|total| *total > 0)?;
        Some((self.done as f64 / total as f64).min(1.0))
    }

    /// Returns the downloaded share in whole percent, rounded down.
    pub fn percent(self) -> Option<u8> {
        self.share().map(|share| (share * 100.0) as u8)
    }
}

/// `12.3 of 45.6 MB`, or `12.3 MB` while the total is not known.
impl fmt::Display for PullProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = |bytes: u64| (bytes / MEGABYTE, bytes / TENTH % 10);
        let (whole, part) = tenths(self.done);
        write!(f, "{whole}.{part}")?;
        if let Some(total) = self.total {
            let (whole, part) = tenths(total);
            write!(f, " of {whole}.{part}")?;
        }
        f.write_str(" MB")
    }
}

/// The text is not the progress of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the progress of a pull")]
pub struct InvalidProgress;

impl FromStr for PullProgress {
    type Err = InvalidProgress;

    fn from_str(text: &str) -> Result<Self, InvalidProgress> {
        let amounts = text.strip_suffix(" MB").ok_or(InvalidProgress)?;
        match amounts.split_once(" of ") {
            Some((done, total)) => Ok(Self { done: bytes(done)?, total: Some(bytes(total)?) }),
            None => Ok(Self { done: bytes(amounts)?, total: None }),
        }
    }
}

/// Reads `12.3` as bytes.
fn bytes(text: &str) -> Result<u64, InvalidProgress> {
    let (whole, part) = text.split_once('.').ok_or(InvalidProgress)?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() != 1 {
        return Err(InvalidProgress);
    }
    let (whole, part): (u64, u64) =
        (whole.parse().map_err(|_| InvalidProgress)?, part.parse().map_err(|_| InvalidProgress)?);
    whole.checked_mul(MEGABYTE).and_then(|bytes| bytes.checked_add(part * TENTH)).ok_or(InvalidProgress)
}

/// Returns the progress of the pull for which a container waits; `None` if it does not wait for one, or if its kubelet
/// does not report it.
pub fn container_pull_progress(status: &ContainerStatus) -> Option<PullProgress> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    waiting_pull_progress(waiting.reason.as_deref()?, waiting.message.as_deref()?)
}

/// Returns the progress of a pull, from the reason and the message of a waiting container.
pub fn waiting_pull_progress(reason: &str, message: &str) -> Option<PullProgress> {
    matches!(reason, "ContainerCreating" | "PodInitializing").then(|| message.parse().ok()).flatten()
}

/// Returns the progress of all pulls for which a pod's containers wait, together: the total is known once it is for
/// each of them.
pub fn pod_pull_progress(pod: &Pod) -> Option<PullProgress> {
    let status = pod.status.as_ref()?;
    let all = [&status.init_container_statuses, &status.container_statuses];
    let pulls = all.into_iter().flatten().flatten().filter_map(container_pull_progress);
    pulls.reduce(|one, other| PullProgress {
        done: one.done.saturating_add(other.done),
        total: one.total.zip(other.total).map(|(one, other)| one.saturating_add(other)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn progress(done: u64, total: Option<u64>) -> PullProgress {
        PullProgress { done, total }
    }

    #[test]
    fn the_text_of_a_pull_reads_back_img_8() {
        for (of, text) in [
            (progress(0, None), "0.0 MB"),
            (progress(12_300_000, None), "12.3 MB"),
            (progress(12_300_000, Some(45_600_000)), "12.3 of 45.6 MB"),
            (progress(0, Some(0)), "0.0 of 0.0 MB"),
            (
                progress(u64::MAX / TENTH * TENTH, Some(u64::MAX / TENTH * TENTH)),
                "18446744073709.5 of 18446744073709.5 MB",
            ),
        ] {
            assert_eq!((of.to_string().as_str(), text.parse()), (text, Ok(of)));
        }
        assert_eq!(progress(1_299_999, Some(40_050_000)).to_string(), "1.2 of 40.0 MB");
    }

    #[test]
    fn other_messages_have_no_progress_img_8() {
        for text in [
            "", " MB", "12 MB", "12.34 MB", "1.2 GB", "-1.2 MB", "+1.2 MB", "1.2 of MB",
            "1.2 of 3.4 of 5.6 MB", "1.2 of 3.4 MB ", "99999999999999999999.0 MB", "pulling image",
        ] {
            assert_eq!(text.parse::<PullProgress>(), Err(InvalidProgress), "{text}");
        }
        assert_eq!(waiting_pull_progress("ErrImagePull", "1.2 of 3.4 MB"), None);
    }

    #[test]
    fn the_share_is_whole_percent_con_4() {
        for (of, percent) in [
            (progress(0, Some(10)), Some(0)),
            (progress(43_900_000, Some(100_000_000)), Some(43)),
            (progress(10, Some(10)), Some(100)),
            (progress(20, Some(10)), Some(100)),
            (progress(5, Some(0)), None),
            (progress(5, None), None),
        ] {
            assert_eq!(of.percent(), percent, "{of:?}");
        }
    }

    #[test]
    fn the_pulls_of_a_pod_count_together_con_4() {
        let waits = |message: &str| {
            json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "ContainerCreating", "message": message}}})
        };
        let of = |messages: &[&str]| {
            let statuses: Vec<_> = messages.iter().map(|message| waits(message)).collect();
            let pod: Pod =
                serde_json::from_value(json!({"status": {"containerStatuses": statuses}})).expect("a pod");
            pod_pull_progress(&pod)
        };
        assert_eq!(
            of(&["1.0 of 4.0 MB", "", "2.0 of 6.0 MB"]),
            Some(progress(3 * MEGABYTE, Some(10 * MEGABYTE)))
        );
        assert_eq!(of(&["1.0 of 4.0 MB", "2.0 MB"]), Some(progress(3 * MEGABYTE, None)));
        assert_eq!(of(&["waits for a volume", ""]), None);
    }
}
