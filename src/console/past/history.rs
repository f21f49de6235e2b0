//! What happened, as `podium.dev` tells it: `/apis/podium.dev/v1alpha1/history` before the path of what it happened to.

use futures::future::try_join_all;
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use super::Whose;
use super::answer::{Unanswered, answered, get};
use crate::moment::{Moment, When};
use crate::resource::ObjectRef;

/// Where it is told.
const HISTORY: &str = "/apis/podium.dev/v1alpha1/history";

/// Which changes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seek {
    /// The newest of all.
    All,
    /// The newest up to a moment.
    Until(When),
    /// The oldest after a revision.
    After(u64),
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: String,
    /// When.
    pub moment: Moment,
    /// The object as the change left it; of one that was deleted, as it was last. Null where it was not asked for.
    pub object: Value,
}

/// Changes, and what there is besides.
#[derive(Clone, Debug)]
pub(crate) struct WhatHappened {
    /// Of the whole cluster, as the answer was given.
    pub(crate) revision: u64,
    /// Every change after this revision is kept.
    after: u64,
    /// When that was.
    begins: Option<Timestamp>,
    /// The revision up to which was asked.
    pub(crate) until: u64,
    /// Changes that are kept and not told.
    pub(crate) older: usize,
    /// Changes after the last one told.
    pub(crate) newer: usize,
    /// Oldest first.
    pub(crate) items: Vec<Told>,
}

impl WhatHappened {
    /// The first state that is kept.
    pub(crate) fn beginning(&self) -> Moment {
        // There is no list at revision zero: before the first write there was nothing.
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

/// When changes were, without the objects.
pub(super) async fn changes_of(
    client: &Client,
    whose: &Whose,
    seek: Seek,
    most: usize,
) -> Result<WhatHappened, Unanswered> {
    ask(client, whose, seek, most, "&includeObject=None").await
}

/// The same of several kinds, as if they were one.
///
/// They are asked at once, and each answers as of its own moment: only what all of them know is told.
pub(crate) async fn changes_of_all(
    client: &Client,
    whose: &[Whose],
    seek: Seek,
    most: usize,
) -> Result<WhatHappened, String> {
    let answers = try_join_all(whose.iter().map(|whose| changes_of(client, whose, seek, most))).await?;
    merged(answers, seek, most)
        .ok_or_else(|| "there is nothing here whose past could be asked for".to_owned())
}

/// What several answers to the same question say together; none of no answer.
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
    // What one of them told of a moment that another did not yet know.
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

/// The newest changes with their objects, oldest first; and since when they are all there are, where that is known.
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
        words: format!("the past of {} cannot be had: {}", whose.kind.heading(), why.words),
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

/// The versions of one object, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    /// Each with the object.
    pub items: Vec<Told>,
    /// How many older ones are kept and not told.
    pub older: usize,
}

/// The versions of one object: the newest, or those after a revision.
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
        // The newest of all of them; what had to give way is still older.
        let all = merged(vec![pods(), nodes()], Seek::All, 2).unwrap();
        assert_eq!((revisions(&all), all.older, all.newer), (vec![30, 31], 4, 4));
        // Only from where all of them are kept, and only as far as all of them know.
        assert_eq!(all.beginning(), Moment { revision: 8, time: Timestamp::from_second(8).ok() });
        assert_eq!((all.revision, all.until), (30, 30));
        let until = Seek::Until(When::Revision(40));
        let all = merged(vec![pods(), nodes()], until, 1).unwrap();
        assert_eq!(revisions(&all), [30], "31 is a change that the pods' answer may be older than");
        // The oldest after a moment: what had to give way is newer.
        let all = merged(vec![nodes(), pods()], Seek::After(9), 1).unwrap();
        assert_eq!((revisions(&all), all.older, all.newer), (vec![10], 2, 7));
        assert!(merged(Vec::new(), Seek::All, 1).is_none());
    }
}
