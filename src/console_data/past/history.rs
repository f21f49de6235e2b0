//! The change history that `podium.dev` serves: `/apis/podium.dev/v1alpha1/history` followed by the path of the
//! objects.

use futures::future::try_join_all;
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use super::HistoryScope;
use super::error::{HistoryError, answered, get};
use crate::point_in_time::{PointInTime, TimeSelector};
use crate::resource::ObjectRef;
use base::sort::SliceOrder;

/// The path of the history.
const HISTORY: &str = "/apis/podium.dev/v1alpha1/history";

/// The changes to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryRange {
    /// The newest ones.
    All,
    /// The newest changes up to a point in time.
    Until(TimeSelector),
    /// The oldest changes after a revision.
    After(u64),
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEvent {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: String,
    /// The time of the change.
    pub moment: PointInTime,
    /// The object after the change; for a deletion, its last state. Null if it was not requested.
    pub object: Value,
}

/// Changes, and the bounds of the history.
#[derive(Clone, Debug)]
pub(crate) struct ChangeHistory {
    /// The cluster's revision at the time of the response.
    pub(crate) revision: u64,
    /// The history is complete after this revision.
    after: u64,
    /// The time of the revision `after`.
    begins: Option<Timestamp>,
    /// The revision up to which changes were requested.
    pub(crate) until: u64,
    /// The number of older changes that are retained but not listed.
    pub(crate) older: usize,
    /// The number of changes after the last one listed.
    pub(crate) newer: usize,
    /// The changes, oldest first.
    pub(crate) items: Vec<HistoryEvent>,
}

impl ChangeHistory {
    /// Returns the first state that is retained.
    pub(crate) fn beginning(&self) -> PointInTime {
        // A list at revision zero is invalid: before the first write there was nothing.
        PointInTime { revision: self.after.max(1), time: self.begins, is_earliest: true }
    }
}

#[derive(Deserialize)]
struct HistoryResponse {
    metadata: Meta,
    #[serde(default)]
    after: String,
    #[serde(default)]
    begins: Option<Timestamp>,
    #[serde(default)]
    until: String,
    #[serde(default)]
    older: usize,
    #[serde(default)]
    newer: usize,
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    resource_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    resource_version: String,
    #[serde(default)]
    time: Option<Timestamp>,
    #[serde(default)]
    object: Value,
}

/// Requests the times of changes, without the objects.
pub(super) async fn changes_of(
    client: &Client,
    scope: &HistoryScope,
    seek: HistoryRange,
    limit: usize,
) -> Result<ChangeHistory, HistoryError> {
    request(client, scope, seek, limit, "&includeObject=None").await
}

/// As [`changes_of`], for several kinds combined.
///
/// The requests run in parallel, and each response has its own revision: only changes that all of them cover are
/// returned.
pub(crate) async fn changes_of_all(
    client: &Client,
    scopes: &[HistoryScope],
    seek: HistoryRange,
    limit: usize,
) -> Result<ChangeHistory, String> {
    let answers = try_join_all(scopes.iter().map(|scope| changes_of(client, scope, seek, limit))).await?;
    merged(answers, seek, limit).ok_or_else(|| "nothing here has a history".to_owned())
}

/// Merges several responses to the same request; `None` if there are no responses.
fn merged(answers: Vec<ChangeHistory>, seek: HistoryRange, most: usize) -> Option<ChangeHistory> {
    let mut answers = answers.into_iter();
    let mut all = answers.next()?;
    for answer in answers {
        if answer.after > all.after {
            (all.after, all.begins) = (answer.after, answer.begins);
        }
        all.revision = all.revision.min(answer.revision);
        all.until = all.until.min(answer.until);
        all.older += answer.older;
        all.newer += answer.newer;
        all.items.extend(answer.items);
    }
    all.items.order_by_key(|event| event.moment.revision);
    // Drops changes that are newer than another kind's response.
    if let HistoryRange::Until(_) = seek {
        let until = all.until;
        all.items.retain(|event| event.moment.revision <= until);
    }
    let over = all.items.len().saturating_sub(most);
    if let HistoryRange::After(_) = seek {
        all.items.truncate(most);
        all.newer += over;
    } else {
        all.items.drain(..over);
        all.older += over;
    }
    Some(all)
}

/// Requests the newest changes with their objects, oldest first; also returns the time since which they are complete,
/// if known.
pub async fn changes_with_objects(
    client: &Client,
    scope: &HistoryScope,
    limit: usize,
) -> Result<(Vec<HistoryEvent>, Option<Timestamp>), String> {
    let history = request(client, scope, HistoryRange::All, limit, "").await?;
    let first = history.items.first().and_then(|first| first.moment.time);
    let since = if history.older > 0 { first } else { history.begins };
    Ok((history.items, since))
}

async fn request(
    client: &Client,
    scope: &HistoryScope,
    seek: HistoryRange,
    limit: usize,
    more: &str,
) -> Result<ChangeHistory, HistoryError> {
    let seek = match seek {
        HistoryRange::All => String::new(),
        HistoryRange::Until(TimeSelector::Point(point)) => format!("&until={}", point.revision),
        HistoryRange::Until(TimeSelector::Time(time)) => format!("&until={time}"),
        HistoryRange::After(revision) => format!("&after={revision}"),
    };
    let path = format!("{HISTORY}{}?limit={limit}{seek}{more}", scope.path(client));
    let answer: HistoryResponse =
        answered(client.request(get(&path)?)).await.map_err(|why| HistoryError {
            message: format!("cannot read the history of {}: {}", scope.kind.heading(), why.message),
            ..why
        })?;
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    let revision = number(&answer.metadata.resource_version);
    let items = answer.items.into_iter().map(|item| HistoryEvent {
        kind: item.kind,
        moment: PointInTime::new(number(&item.resource_version), item.time),
        object: item.object,
    });
    Ok(ChangeHistory {
        revision,
        after: number(&answer.after),
        begins: answer.begins,
        until: if answer.until.is_empty() { revision } else { number(&answer.until) },
        older: answer.older,
        newer: answer.newer,
        items: items.collect(),
    })
}

/// The versions of an object, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    /// The versions, each with the object.
    pub items: Vec<HistoryEvent>,
    /// The number of older versions that are retained but not listed.
    pub older: usize,
}

/// Requests the versions of an object: the newest, or those after a revision.
pub async fn versions(
    client: &Client,
    object: &ObjectRef,
    after: Option<u64>,
    limit: usize,
) -> Result<Versions, String> {
    let seek = after.map_or(HistoryRange::All, HistoryRange::After);
    let history = request(client, &HistoryScope::from(object), seek, limit, "").await?;
    Ok(Versions { items: history.items, older: history.older })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(revision: u64, after: u64, items: &[u64]) -> ChangeHistory {
        let event = |revision: &u64| HistoryEvent {
            kind: "MODIFIED".to_owned(),
            moment: PointInTime::new(*revision, None),
            object: Value::Null,
        };
        let begins = Timestamp::from_second(after as i64).ok();
        let items = items.iter().map(event).collect();
        ChangeHistory { revision, after, begins, until: revision, older: 1, newer: 2, items }
    }

    #[test]
    fn several_kinds_have_one_past_con_19() {
        let pods = || response(30, 5, &[10, 30]);
        let nodes = || response(32, 8, &[20, 31]);
        let revisions =
            |all: &ChangeHistory| all.items.iter().map(|event| event.moment.revision).collect::<Vec<_>>();
        // The newest of both; the ones that do not fit count as older.
        let all = merged(vec![pods(), nodes()], HistoryRange::All, 2).unwrap();
        assert_eq!((revisions(&all), all.older, all.newer), (vec![30, 31], 4, 4));
        // The result covers only the range that both responses cover.
        let time = Timestamp::from_second(8).ok();
        assert_eq!(all.beginning(), PointInTime { revision: 8, time, is_earliest: true });
        assert_eq!((all.revision, all.until), (30, 30));
        let until = HistoryRange::Until(TimeSelector::revision(40));
        let all = merged(vec![pods(), nodes()], until, 1).unwrap();
        assert_eq!(revisions(&all), [30], "31 is a change that the pods' answer may be older than");
        // The oldest after a revision; the ones that do not fit count as newer.
        let all = merged(vec![nodes(), pods()], HistoryRange::After(9), 1).unwrap();
        assert_eq!((revisions(&all), all.older, all.newer), (vec![10], 2, 7));
        assert!(merged(Vec::new(), HistoryRange::All, 1).is_none());
    }
}
