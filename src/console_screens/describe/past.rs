//! The description of a past state: the object, its events and its relatives at a point in time (CON-12).

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use serde_json::Value;

use super::{Describe, DescribeData};
use console_data::context::Context;
use console_data::past::{self, HistoryScope, PastView, TimePosition};
use console_data::point_in_time::{TimeTravel, WayBack};
use console_data::resource::Kind;
use console_data::store::Stores;
use console_operations::effect::Effect;

/// The result of a step of time travel, or why it failed.
#[derive(Debug)]
pub struct TimeTravelResult(Result<TimeTravelData, String>);

/// The point in time, and the state then; the state is `None` for the present.
type TimeTravelData = (TimePosition, Option<(Option<Value>, Stores, usize)>);

/// The past state that a description shows.
#[derive(Debug)]
pub(super) struct PastDescription {
    /// The object; `None` if it did not exist.
    pub(super) object: Option<Value>,
    /// Its events and relatives.
    pub(super) view: PastView,
}

impl Describe {
    /// Requests another point in time; the current view stays until the result arrives.
    pub(super) fn travel(&mut self, cx: &Context<'_>, go: TimeTravel) -> Vec<Effect> {
        if go == TimeTravel::Live {
            (self.past, self.back_target) = (None, WayBack::Now);
            return vec![Effect::Cancel("past")];
        }
        let (target, now) = (self.target.clone(), cx.now);
        let from = self.past.as_ref().map(|then| then.view.moment);
        let of = |kind: Kind, selector: String| {
            let namespace = target.namespace.clone().filter(|_| kind.namespaced);
            (HistoryScope { kind, namespace, name: None }, selector)
        };
        let about = format!("&fieldSelector=involvedObject.name%3D{}", target.name);
        let mut lists = vec![of(cx.catalogue.kind::<Event>(), about)];
        match target.kind.kind.as_str() {
            "Deployment" => lists.push(of(cx.catalogue.kind::<ReplicaSet>(), String::new())),
            "Node" => {
                let on = format!("&fieldSelector=spec.nodeName%3D{}", target.name);
                lists.push(of(cx.catalogue.kind::<Pod>(), on));
            }
            _ => {}
        }
        vec![Effect::task("past", move |out| async move {
            let client = out.client();
            let request = async {
                let place = past::step(&client, &[HistoryScope::from(&target)], from, go, now).await?;
                let Some(moment) = place.moment() else { return Ok((place, None)) };
                let object = past::object_at(&client, &target, moment.revision).await?;
                let (stores, cut) = past::stores_at(&client, &lists, moment.revision).await?;
                Ok((place, Some((object, stores, cut))))
            };
            let result = request.await;
            out.data(DescribeData::Travelled(Box::new(TimeTravelResult(result)))).await;
        })]
    }

    /// Applies the result of a step of time travel.
    pub(super) fn travelled(&mut self, TimeTravelResult(gone): TimeTravelResult) -> Vec<Effect> {
        let (place, was) = match gone {
            Ok(gone) => gone,
            Err(why) => return vec![Effect::failed(why)],
        };
        self.past = was.and_then(|(object, stores, cut)| {
            Some(Box::new(PastDescription { object, view: PastView::new(place, stores, cut)? }))
        });
        if self.past.is_none() {
            self.back_target = WayBack::Now;
        }
        let bounds = self.past.as_ref().and_then(|then| then.view.bounds());
        bounds.map(Effect::info).into_iter().collect()
    }
}
