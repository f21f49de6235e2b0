//! The change history that `podium.dev` serves: `/apis/podium.dev/v1alpha1/history` followed by the path of the
//! objects.

use futures::future::try_join_all;
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use super::Whose;
use super::answer::{Unanswered, answered, get};
use crate::moment::{Moment, When};
use crate::resource::ObjectRef;

/// The path of the history.
const HISTORY: &str = "/apis/podium.dev/v1alpha1/history";

/// The changes to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seek {
    /// The newest ones.
    All,
    /// The newest ones up to a point in time.
    Until(When),
    /// The oldest ones after a revision.
    After(u64),
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: String,
    /// The time of the change.
    pub moment: Moment,
    /// The object after the change; for a deletion, its last state. Null if it was not requested.
    pub object: Value,
}

/// Changes, and the bounds of the history.
#[derive(Clone, Debug)]
pub(crate) struct WhatHappened {
    /// The cluster's revision at the time of the response.
    pub(crate) revision: u64,
    /// The history is complete after this revision.
    after: u64,
    /// The time of that revision.
    begins: Option<Timestamp>,
    /// The revision up to which changes were requested.
    pub(crate) until: u64,
    /// The number of older changes that are retained but not listed.
    pub(crate) older: usize,
    /// The number of changes after the last one listed.
    pub(crate) newer: usize,
    /// The changes, oldest first.
    pub(crate) items: Vec<Told>,
}

impl WhatHappened {
    /// Returns the first state that is retained.
    pub(crate) fn beginning(&self) -> Moment {
        // A list at revision zero is invalid: before the first write there was nothing.
        Moment { revision: self.after.max(1), time: self.begins }
    }
}

#[derive(Deserialize)]
struct Answer {
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
    whose: &Whose,
    seek: Seek,
    most: usize,
) -> Result<WhatHappened, Unanswered> {
    ask(client, whose, seek, most, "&includeObject=None").await
}

/// As [`changes_of`], for several kinds combined.
///
/// The requests run in parallel, and each response has its own revision: only changes that all of them cover are
/// returned.
pub(crate) async fn changes_of_all(
    client: &Client,
    whose: &[Whose],
    seek: Seek,
    most: usize,
) -> Result<WhatHappened, String> {
    let answers = try_join_all(whose.iter().map(|whose| changes_of(client, whose, seek, most))).await?;
    merged(answers, seek, most).ok_or_else(|| "nothing here has a history".to_owned())
}

/// Merges several responses to the same request; `None` if there are no responses.
fn merged(answers: Vec<WhatHappened>, seek: Seek, most: usize) -> Option<WhatHappened> {
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
    all.items.sort_by_key(|told| told.moment.revision);
    // Drops changes that are newer than another kind's response.
    if let Seek::Until(_) = seek {
        let until = all.until;
        all.items.retain(|told| told.moment.revision <= until);
    }
    let over = all.items.len().saturating_sub(most);
    if let Seek::After(_) = seek {
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
pub(crate) async fn changes_with_objects(
    client: &Client,
    whose: &Whose,
    most: usize,
) -> Result<(Vec<Told>, Option<Timestamp>), String> {
    let told = ask(client, whose, Seek::All, most, "").await?;
    let first = told.items.first().and_then(|first| first.moment.time);
    let since = if told.older > 0 { first } else { told.begins };
    Ok((told.items, since))
}

async fn ask(
    client: &Client,
    whose: &Whose,
    seek: Seek,
    most: usize,
    more: &str,
) -> Result<WhatHappened, Unanswered> {
    let seek = match seek {
        Seek::All => String::new(),
        Seek::Until(When::Revision(revision)) => format!("&until={revision}"),
        Seek::Until(When::Time(time)) => format!("&until={time}"),
        Seek::After(revision) => format!("&after={revision}"),
    };
    let path = format!("{HISTORY}{}?limit={most}{seek}{more}", whose.path(client));
    let answer: Answer = answered(client.request(get(&path)?)).await.map_err(|why| Unanswered {
        words: format!("cannot read the history of {}: {}", whose.kind.heading(), why.words),
        ..why
    })?;
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    let revision = number(&answer.metadata.resource_version);
    let items = answer.items.into_iter().map(|item| Told {
        kind: item.kind,
        moment: Moment { revision: number(&item.resource_version), time: item.time },
        object: item.object,
    });
    Ok(WhatHappened {
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
    pub items: Vec<Told>,
    /// The number of older versions that are retained but not listed.
    pub older: usize,
}

/// Requests the versions of an object: the newest, or those after a revision.
pub async fn versions(
    client: &Client,
    object: &ObjectRef,
    after: Option<u64>,
    most: usize,
) -> Result<Versions, String> {
    let seek = after.map_or(Seek::All, Seek::After);
    let told = ask(client, &Whose::from(object), seek, most, "").await?;
    Ok(Versions { items: told.items, older: told.older })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(revision: u64, after: u64, items: &[u64]) -> WhatHappened {
        let told = |revision: &u64| Told {
            kind: "MODIFIED".to_owned(),
            moment: Moment { revision: *revision, time: None },
            object: Value::Null,
        };
        let begins = Timestamp::from_second(after as i64).ok();
        let items = items.iter().map(told).collect();
        WhatHappened { revision, after, begins, until: revision, older: 1, newer: 2, items }
    }

    #[test]
    fn several_kinds_have_one_past_con_19() {
        let pods = || answer(30, 5, &[10, 30]);
        let nodes = || answer(32, 8, &[20, 31]);
        let revisions =
            |all: &WhatHappened| all.items.iter().map(|told| told.moment.revision).collect::<Vec<_>>();
        // The newest of both; the ones that do not fit count as older.
        let all = merged(vec![pods(), nodes()], Seek::All, 2).unwrap();
        assert_eq!((revisions(&all), all.older, all.newer), (vec![30, 31], 4, 4));
        // The result covers only the range that both responses cover.
        assert_eq!(all.beginning(), Moment { revision: 8, time: Timestamp::from_second(8).ok() });
        assert_eq!((all.revision, all.until), (30, 30));
        let until = Seek::Until(When::Revision(40));
        let all = merged(vec![pods(), nodes()], until, 1).unwrap();
        assert_eq!(revisions(&all), [30], "31 is a change that the pods' answer may be older than");
        // The oldest after a revision; the ones that do not fit count as newer.
        let all = merged(vec![nodes(), pods()], Seek::After(9), 1).unwrap();
        assert_eq!((revisions(&all), all.older, all.newer), (vec![10], 2, 7));
        assert!(merged(Vec::new(), Seek::All, 1).is_none());
    }
}
