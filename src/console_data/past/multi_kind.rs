//! The past of several kinds at once: a kind that cannot be listed becomes a gap, and the others are shown all the
//! same.

use futures::future::join_all;
use jiff::Timestamp;
use kube::Client;

use super::error::{HistoryError, HistoryErrorKind};
use super::history::{HistoryRange, changes_of};
use super::list::whole_list;
use super::{HistoryScope, TimePosition, step};
use crate::links::{Link, Links, UnavailableReason};
use crate::point_in_time::{PointInTime, TimeTravel};
use crate::resource::Kind;
use crate::server_table::Include;
use crate::store::{Change, Delta, Stores};

/// A gap in the past state: a kind that is missing or incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The kind.
    pub kind: Kind,
    /// The extent and the reason.
    pub missing: MissingReason,
}

/// The extent of a gap, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingReason {
    /// The whole kind: the server refuses it to this user.
    Refused(UnavailableReason),
    /// The whole kind: the server no longer retains that state.
    NotRecorded,
    /// The whole kind: the request failed, with this error.
    Unanswered(String),
    /// This many objects beyond the limit.
    Cut(usize),
}

impl Gap {
    fn of(kind: &Kind, unanswered: HistoryError) -> Self {
        let missing = match unanswered.kind {
            HistoryErrorKind::NotAllowed => {
                MissingReason::Refused(UnavailableReason::NotAllowed(unanswered.message))
            }
            HistoryErrorKind::Absent => MissingReason::Refused(UnavailableReason::Absent),
            HistoryErrorKind::NotRecorded => MissingReason::NotRecorded,
            HistoryErrorKind::Failed => MissingReason::Unanswered(unanswered.message),
        };
        Self { kind: kind.clone(), missing }
    }

    /// Returns the number of objects known to be missing.
    pub(super) fn cut(&self) -> usize {
        match self.missing {
            MissingReason::Cut(cut) => cut,
            _ => 0,
        }
    }

    /// Marks the kind as refused, or as an empty list with a visible gap, so that no view waits for it.
    pub(super) fn report_gaps(&self, links: &mut Links, stores: &mut Stores, now: Timestamp) {
        let resource = self.kind.resource.clone();
        match &self.missing {
            MissingReason::Refused(refusal) => {
                links.take(Link::Refused(resource, refusal.clone()), now);
            }
            MissingReason::NotRecorded | MissingReason::Unanswered(_) => {
                stores.apply(Delta::of_table(resource, None, vec![Change::Reset(Vec::new())]));
            }
            MissingReason::Cut(_) => {}
        }
    }
}

/// The state at a point in time, and its gaps.
pub(crate) type PastObjects = (Stores, Vec<Gap>);

/// Moves to another point in time along the changes of these kinds, and requests the whole objects of each. An error if
/// all kinds fail.
pub async fn travel_in_time(
    client: &Client,
    scopes: Vec<HistoryScope>,
    from: Option<PointInTime>,
    go: TimeTravel,
    now: Timestamp,
) -> Result<(TimePosition, Option<PastObjects>), String> {
    let (place, scopes, mut gaps) = match step(client, &scopes, from, go, now).await {
        Ok(place) => (place, scopes, Vec::new()),
        // Finds the kinds that fail; the others continue without them.
        Err(why) => {
            let (scopes, gaps) = split_by_history(client, scopes).await;
            if scopes.is_empty() || gaps.is_empty() {
                return Err(why);
            }
            (step(client, &scopes, from, go, now).await?, scopes, gaps)
        }
    };
    let Some(moment) = place.moment() else { return Ok((place, None)) };
    let lists = scopes.iter().map(|scope| whole_list(client, scope, moment.revision, Include::Object));
    let (mut stores, mut nothing, mut any_listed) = (Stores::default(), None, false);
    for (scope, list) in scopes.iter().zip(join_all(lists).await) {
        match list {
            Ok((pages, cut)) => {
                any_listed = true;
                for page in pages {
                    stores.apply(page);
                }
                if cut > 0 {
                    gaps.push(Gap { kind: scope.kind.clone(), missing: MissingReason::Cut(cut) });
                }
            }
            Err(unanswered) => {
                nothing.get_or_insert_with(|| unanswered.message.clone());
                gaps.push(Gap::of(&scope.kind, unanswered));
            }
        }
    }
    match nothing {
        Some(why) if !any_listed => Err(why),
        _ => Ok((place, Some((stores, gaps)))),
    }
}

/// Returns the kinds with a history, and a gap for each other kind.
async fn split_by_history(client: &Client, scopes: Vec<HistoryScope>) -> (Vec<HistoryScope>, Vec<Gap>) {
    let requests = scopes.iter().map(|scope| changes_of(client, scope, HistoryRange::All, 1));
    let answers = join_all(requests).await;
    let (mut tell, mut gaps) = (Vec::new(), Vec::new());
    for (scope, answer) in scopes.into_iter().zip(answers) {
        match answer {
            Ok(_) => tell.push(scope),
            Err(unanswered) => gaps.push(Gap::of(&scope.kind, unanswered)),
        }
    }
    (tell, gaps)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::past::PastView;
    use crate::past::workload_server::server;
    use crate::resource::ResourceKey;
    use crate::workloads::Workload;

    async fn went(no: &[(Workload, u16, u16)]) -> Result<(Stores, Vec<Gap>), String> {
        let scope = |one: Workload| HistoryScope { kind: one.kind(), namespace: None, name: None };
        let all = Workload::ALL.map(scope).to_vec();
        let now = Timestamp::from_second(1_000_000).unwrap();
        let go = TimeTravel::To(crate::point_in_time::TimeSelector::revision(20));
        let (place, was) = travel_in_time(&server(no), all, None, go, now).await?;
        assert_eq!(place, TimePosition::At(PointInTime::new(20, None)));
        Ok(was.expect("it is not now"))
    }

    #[tokio::test]
    async fn every_kind_tells_of_then_what_it_tells_con_19() {
        let (stores, gaps) = went(&[]).await.unwrap();
        assert_eq!((stores.all().count(), gaps), (8, Vec::new()));
        let rows = crate::rows::workloads::uids(&stores);
        assert_eq!(rows.len(), 8);
        // One kind is forbidden, one is absent, one is no longer retained, and one response is invalid.
        let no = [
            (Workload::Job, 403, 403),
            (Workload::CronJob, 404, 404),
            (Workload::DaemonSet, 200, 410),
            (Workload::StatefulSet, 200, 500),
        ];
        let (stores, gaps) = went(&no).await.unwrap();
        assert_eq!(crate::rows::workloads::uids(&stores).len(), 4);
        let missing =
            |kind: Workload| gaps.iter().find(|gap| gap.kind == kind.kind()).map(|gap| gap.missing.clone());
        assert_eq!(gaps.len(), 4, "{gaps:?}");
        assert_eq!(missing(Workload::CronJob), Some(MissingReason::Refused(UnavailableReason::Absent)));
        let Some(MissingReason::Refused(UnavailableReason::NotAllowed(why))) = missing(Workload::Job) else {
            panic!("{gaps:?}")
        };
        assert_eq!(why, "cannot read the history of Jobs: jobs 403");
        assert_eq!(missing(Workload::DaemonSet), Some(MissingReason::NotRecorded));
        assert!(
            matches!(missing(Workload::StatefulSet), Some(MissingReason::Unanswered(why)) if why == "statefulsets 500")
        );
        // If all kinds fail, there is no past state.
        let all = |history, list| Workload::ALL.map(|kind| (kind, history, list));
        assert_eq!(
            went(&all(403, 403)).await.unwrap_err(),
            "cannot read the history of Deployments: deployments 403"
        );
        let error = went(&all(200, 410)).await.unwrap_err();
        assert_eq!(error, "that is no longer available: deployments 410");
    }

    #[tokio::test]
    async fn kinds_without_history_do_not_stay_loading_con_19() {
        let (mut stores, gaps) =
            went(&[(Workload::DaemonSet, 200, 410), (Workload::Job, 403, 403)]).await.unwrap();
        let (mut links, now) = (Links::default(), Timestamp::from_second(1_000_000).unwrap());
        for gap in &gaps {
            gap.report_gaps(&mut links, &mut stores, now);
        }
        for kind in Workload::ALL {
            let resource = &kind.kind().resource;
            let is_refused = links.refused(resource).is_some();
            assert_eq!(is_refused, kind == Workload::Job, "{kind:?}");
            assert!(is_refused || stores.synced(resource), "{kind:?}");
        }
        let past = PastView::new(TimePosition::At(PointInTime::new(20, None)), stores, 0).unwrap();
        assert!(past.stores.synced(&ResourceKey::of::<Pod>()));
    }
}
