//! A table at a point in the past (CON-19): the rows are computed from the state that the server had then, and do not
//! change.
//!
//! In the table of all workloads each kind is requested separately; the kinds without a response are listed below the
//! rows.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::Table;
use console_data::builtin_kinds;
use console_data::context::Context;
use console_data::message::Data;
use console_data::past::{self, Gap, HistoryScope, PastView, TimePosition};
use console_data::point_in_time::{PointInTime, TimeTravel, WayBack};
use console_data::resource::Kind;
use console_data::scope::Scope;
use console_data::store::Stores;
use console_operations::effect::{Effect, ImageUse, RowScope};

/// The result of a step of time travel; only the table knows its content.
#[derive(Debug)]
pub(super) struct TimeTravelResult(Result<(TimePosition, Option<PastTable>), String>);

/// The past state, and its missing parts.
#[derive(Debug)]
enum PastTable {
    /// Objects of one kind, and the number of objects beyond those listed.
    OfOne(Stores, usize),
    /// Objects of several kinds, and the missing parts of each.
    OfSeveral(Stores, Vec<Gap>),
}

impl PastTable {
    /// Returns the past state in the form that the table shows; `None` for the present.
    fn into_view(self, cx: &Context<'_>, place: TimePosition) -> Option<PastView> {
        match self {
            Self::OfOne(stores, cut) => PastView::new(place, stores, cut),
            Self::OfSeveral(stores, gaps) => Some(PastView::new(place, stores, 0)?.of_several(cx, gaps)),
        }
    }
}

impl Table {
    /// Returns the shown point in the past; `None` for the present.
    pub(super) fn displayed_time(&self) -> Option<PointInTime> {
        self.past.as_ref().map(|past| past.moment)
    }

    /// Requests the rows at another point in time; the current rows stay until they arrive.
    pub(super) fn travel(&mut self, cx: &Context<'_>, go: TimeTravel) -> Vec<Effect> {
        if go == TimeTravel::Live {
            self.travelling = false;
            self.opens_at = None;
            self.past = None;
            self.back_target = WayBack::Now;
            self.marks.clear();
            self.widths.get_mut().clear();
            self.rebuild(cx);
            return vec![Effect::Cancel("past")];
        }
        self.travelling = true;
        let (from, now) = (self.displayed_time(), cx.now);
        if self.is_mixed() {
            let scopes =
                self.kinds_with_history(cx).into_iter().map(|kind| self.history_scope(cx, kind)).collect();
            return vec![Effect::task("past", move |out| async move {
                let result = past::travel_in_time(&out.client(), scopes, from, go, now).await;
                let result = result.map(|(place, was)| {
                    (place, was.map(|(stores, gaps)| PastTable::OfSeveral(stores, gaps)))
                });
                out.data(TimeTravelResult(result)).await;
            })];
        }
        let lists = self.lists(cx);
        vec![Effect::task("past", move |out| async move {
            let client = out.client();
            let request = async {
                let place = past::step(&client, std::slice::from_ref(&lists[0].0), from, go, now).await?;
                let Some(moment) = place.moment() else { return Ok((place, None)) };
                let (stores, cut) = past::stores_at(&client, &lists, moment.revision).await?;
                Ok((place, Some(PastTable::OfOne(stores, cut))))
            };
            let result = request.await;
            out.data(TimeTravelResult(result)).await;
        })]
    }

    /// Returns the objects of a kind within the table's scope.
    fn history_scope(&self, cx: &Context<'_>, kind: Kind) -> HistoryScope {
        let in_scope = match (cx.scope, &self.only) {
            (_, RowScope::In(name)) | (Scope::One(name), RowScope::All) => Some(name.clone()),
            (
                _,
                RowScope::OwnedBy(object)
                | RowScope::Selected(object)
                | RowScope::Using(object)
                | RowScope::About(object),
            ) => object.namespace.clone(),
            _ => None,
        };
        let namespace = in_scope.filter(|_| kind.namespaced);
        HistoryScope { kind, namespace, name: None }
    }

    /// Returns the lists that the rows need, the table's own kind first.
    fn lists(&self, cx: &Context<'_>) -> Vec<(HistoryScope, String)> {
        let of = |kind: Kind| (self.history_scope(cx, kind), String::new());
        let mut lists = vec![of(self.kind.clone())];
        match &self.only {
            RowScope::OnNode(node) | RowScope::UsingImage(ImageUse { node, .. }) => {
                lists[0].1 = format!("&fieldSelector=spec.nodeName%3D{node}");
            }
            // The replica sets determine the pods of a deployment.
            RowScope::OwnedBy(_) if self.kind.is::<Pod>() => {
                lists.push(of(cx.catalogue.kind::<ReplicaSet>()));
            }
            RowScope::Selected(by) if builtin_kinds::contains(&by.kind.resource) => {
                lists.push(of(by.kind.clone()));
            }
            // A node's row counts its pods.
            _ if self.kind.is::<Node>() => lists.push(of(cx.catalogue.kind::<Pod>())),
            _ => {}
        }
        lists
    }

    /// Applies the result of a step of time travel.
    pub(super) fn travelled(&mut self, cx: &Context<'_>, data: Data) -> Vec<Effect> {
        let Some(TimeTravelResult(gone)) = data.take() else { return Vec::new() };
        // The user returned to the present while the request was in flight.
        if !std::mem::take(&mut self.travelling) {
            return Vec::new();
        }
        let opens = self.opens_at.take().is_some();
        match gone {
            // The requested point in time is not available: the table shows the present, without a banner.
            Err(why) if opens => {
                self.back_target = WayBack::Now;
                self.rebuild(cx);
                vec![Effect::failed(why)]
            }
            Err(why) => vec![Effect::failed(why)],
            Ok((place, was)) => {
                let Some(past) = was.and_then(|was| was.into_view(cx, place)) else {
                    return self.travel(cx, TimeTravel::Live);
                };
                let bounds = past.bounds();
                self.past = Some(Box::new(past));
                self.flashes.clear();
                self.rebuild(cx);
                bounds.map(Effect::info).into_iter().collect()
            }
        }
    }

    /// Calls a function with the shown state: the past one if it is shown, else the present.
    pub(super) fn with<T>(&mut self, cx: &Context<'_>, f: impl FnOnce(&mut Self, &Context<'_>) -> T) -> T {
        let Some(past) = self.past.take() else { return f(self, cx) };
        let done = f(self, &past.context(cx));
        self.past = Some(past);
        done
    }
}
