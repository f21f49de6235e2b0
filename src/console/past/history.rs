//! What happened, as `podium.dev` tells it: `/apis/podium.dev/v1alpha1/history` before the path of what it happened to.

use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use super::{Whose, answered, get};
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
pub(crate) async fn changes_of(
    client: &Client,
    whose: &Whose,
    seek: Seek,
    most: usize,
) -> Result<WhatHappened, String> {
    ask(client, whose, seek, most, "&includeObject=None").await
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
) -> Result<WhatHappened, String> {
    let seek = match seek {
        Seek::All => String::new(),
        Seek::Until(When::Revision(revision)) => format!("&until={revision}"),
        Seek::Until(When::Time(time)) => format!("&until={time}"),
        Seek::After(revision) => format!("&after={revision}"),
    };
    let path = format!("{HISTORY}{}?limit={most}{seek}{more}", whose.path(client));
    let answer: Answer = answered(client.request(get(&path)?))
        .await
        .map_err(|why| format!("the past of {} cannot be had: {why}", whose.kind.heading()))?;
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
