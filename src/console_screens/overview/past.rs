//! The overview at a point in the past (CON-19): all its parts at one time, computed from the state that the server had
//! then.
//!
//! Invariant: while a point in the past is shown, no data of the live stores is shown. Kinds that the server refuses
//! now are missing in the past, too; if a list is too long to be counted completely, the overview shows how much is
//! missing.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Resource;

use super::{Overview, OverviewPanel};
use console_data::context::Context;
use console_data::message::Data;
use console_data::past::{self, HistoryScope, PastView, TimePosition};
use console_data::point_in_time::{PointInTime, TimeSelector, TimeTravel};
use console_data::resource::{Kind, ResourceKey};
use console_data::scope::Scope;
use console_data::store::Stores;
use console_operations::effect::{Effect, Route, RowScope, TableRoute};
use console_operations::navigate;

/// The result of a step of time travel.
#[derive(Debug)]
pub(super) struct TimeTravelResult(Result<(TimePosition, Option<(Stores, OmittedCounts)>), String>);

/// The number of objects of each resource that are not counted.
type OmittedCounts = Vec<(ResourceKey, usize)>;

/// The past state that the overview shows.
#[derive(Debug)]
pub(super) struct PastOverview {
    view: PastView,
    cuts: OmittedCounts,
}

impl PastOverview {
    /// Returns the context that the parts read instead of the live one.
    pub(super) fn context<'a>(&'a self, now: &Context<'a>) -> Context<'a> {
        self.view.context(now)
    }

    /// Returns the number of objects of a type beyond those that are counted.
    pub(super) fn uncounted<K: Resource<DynamicType = ()>>(&self) -> usize {
        let resource = ResourceKey::of::<K>();
        self.cuts.iter().find(|(of, _)| *of == resource).map_or(0, |(_, cut)| *cut)
    }
}

impl Overview {
    /// Returns the shown point in the past; `None` for the present.
    pub(super) fn displayed_time(&self) -> Option<PointInTime> {
        self.past.as_ref().map(|then| then.view.moment)
    }

    /// Requests the state at another point in time; the current view stays until it arrives.
    pub(super) fn travel(&mut self, cx: &Context<'_>, go: TimeTravel) -> Vec<Effect> {
        if go == TimeTravel::Live {
            self.travelling = false;
            self.past = None;
            self.rebuild_events(cx);
            return vec![Effect::Cancel("past")];
        }
        self.travelling = true;
        let (from, now) = (self.displayed_time(), cx.now);
        let lists = lists(cx);
        vec![Effect::task("past", move |out| async move {
            let client = out.client();
            let request = async {
                let place = past::step(&client, &lists, from, go, now).await?;
                let Some(moment) = place.moment() else { return Ok((place, None)) };
                let (stores, cuts) = past::whole_stores_at(&client, &lists, moment.revision).await?;
                let resources = lists.iter().map(|scope| scope.kind.resource.clone());
                Ok((place, Some((stores, resources.zip(cuts).collect()))))
            };
            let result = request.await;
            out.data(TimeTravelResult(result)).await;
        })]
    }

    /// Applies the result of a step of time travel.
    pub(super) fn travelled(&mut self, cx: &Context<'_>, data: Data) -> Vec<Effect> {
        let Some(TimeTravelResult(gone)) = data.take() else { return Vec::new() };
        // The user returned to the present while the request was in flight.
        if !std::mem::take(&mut self.travelling) {
            return Vec::new();
        }
        let (place, was) = match gone {
            Ok(gone) => gone,
            Err(why) => return vec![Effect::failed(why)],
        };
        let then = was.and_then(|(stores, cuts)| {
            let view = PastView::new(place, stores, 0)?.refused(cx.links.refusals());
            Some(PastOverview { view, cuts })
        });
        let Some(then) = then else { return self.travel(cx, TimeTravel::Live) };
        let bounds = then.view.bounds();
        self.past = Some(Box::new(then));
        self.with(cx, Self::rebuild_events);
        bounds.map(Effect::info).into_iter().collect()
    }

    /// Calls a function with the shown state: the past one if it is shown, else the present.
    pub(super) fn with<T>(&mut self, cx: &Context<'_>, f: impl FnOnce(&mut Self, &Context<'_>) -> T) -> T {
        let Some(then) = self.past.take() else { return f(self, cx) };
        let done = f(self, &then.context(cx));
        self.past = Some(then);
        done
    }

    /// Opens the object under the cursor at that point in time; `cx` is the context of the past.
    pub(super) fn enter_past(&self, cx: &Context<'_>, when: TimeSelector) -> Vec<Effect> {
        let Some(object) = self.selected_object(cx) else { return Vec::new() };
        let object = match self.part {
            OverviewPanel::Nodes => {
                let pods = TableRoute::of(cx.catalogue.kind::<Pod>()).only(RowScope::OnNode(object.name));
                return vec![Effect::open(TableRoute { when: Some(when), ..pods })];
            }
            OverviewPanel::Events => match navigate::involved_object(cx, &object) {
                Ok(object) => object,
                Err(why) => return vec![Effect::failed(why)],
            },
            OverviewPanel::Deployments => object,
        };
        vec![Effect::open(Route::DescribeAt(object, when))]
    }
}

/// Returns the lists that the overview needs, without those that the server refuses.
fn lists(cx: &Context<'_>) -> Vec<HistoryScope> {
    let kinds: [Kind; 5] = [
        cx.catalogue.kind::<Pod>(),
        cx.catalogue.kind::<Deployment>(),
        cx.catalogue.kind::<ReplicaSet>(),
        cx.catalogue.kind::<Node>(),
        cx.catalogue.kind::<Event>(),
    ];
    let given = kinds.into_iter().filter(|kind| cx.links.refused(&kind.resource).is_none());
    given
        .map(|kind| {
            let namespace = match cx.scope {
                Scope::One(name) if kind.namespaced => Some(name.clone()),
                _ => None,
            };
            HistoryScope { kind, namespace, name: None }
        })
        .collect()
}
