//! The overview as it was (CON-19): all its parts at one moment, counted from what the server had then.
//!
//! Invariant: while a moment is shown, nothing of the live stores is. What the server refuses is refused of then as of
//! now, and of lists too long to be counted whole the overview says how much is missing.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Resource;

use super::{Overview, Part};
use crate::command::Command;
use crate::context::Context;
use crate::effect::{Effect, Only, Route, TableRoute};
use crate::message::Data;
use crate::moment::{Go, Moment, When};
use crate::navigate;
use crate::past::{self, Kept, Place, Whose};
use crate::resource::{Kind, ResourceKey};
use crate::scope::Scope;
use crate::screen::object_commands;
use crate::store::Stores;
use crate::toast::Toast;

/// What a step in time brings.
#[derive(Debug)]
pub(super) struct Travelled(Result<(Place, Option<(Stores, Cuts)>), String>);

/// How many objects of each resource are not counted.
type Cuts = Vec<(ResourceKey, usize)>;

/// What is looked at of the past.
#[derive(Debug)]
pub(super) struct Then {
    kept: Kept,
    cuts: Cuts,
}

impl Then {
    /// What the parts read in the place of what is there now.
    pub(super) fn context<'a>(&'a self, now: &Context<'a>) -> Context<'a> {
        self.kept.context(now)
    }

    /// How many objects of a type there were beyond those that are counted.
    pub(super) fn uncounted<K: Resource<DynamicType = ()>>(&self) -> usize {
        let resource = ResourceKey::of::<K>();
        self.cuts.iter().find(|(of, _)| *of == resource).map_or(0, |(_, cut)| *cut)
    }

    /// Whether anybody knows when that was; where not, there is no last minute of it either.
    pub(super) fn is_timed(&self) -> bool {
        self.kept.moment.time.is_some()
    }
}

impl Overview {
    /// The moment that is shown; none is now.
    pub(super) fn shown_moment(&self) -> Option<Moment> {
        self.past.as_ref().map(|then| then.kept.moment)
    }

    /// Asks for the cluster at another moment; what is shown stays until it is there.
    pub(super) fn travel(&mut self, cx: &Context<'_>, go: Go) -> Vec<Effect> {
        if go == Go::Live {
            self.travelling = false;
            self.past = None;
            self.rebuild_events(cx);
            return vec![Effect::Cancel("past")];
        }
        self.travelling = true;
        let (from, now) = (self.shown_moment(), cx.now);
        let lists = lists(cx);
        vec![Effect::task("past", move |out| async move {
            let client = out.client();
            let gone = async {
                let place = past::step(&client, &lists, from, go, now).await?;
                let Some(moment) = place.moment() else { return Ok((place, None)) };
                let (stores, cuts) = past::whole_stores_at(&client, &lists, moment.revision).await?;
                let resources = lists.iter().map(|whose| whose.kind.resource.clone());
                Ok((place, Some((stores, resources.zip(cuts).collect()))))
            };
            let gone = gone.await;
            out.data(Travelled(gone)).await;
        })]
    }

    /// Takes what a step brought.
    pub(super) fn travelled(&mut self, cx: &Context<'_>, data: Data) -> Vec<Effect> {
        let Some(Travelled(gone)) = data.take() else { return Vec::new() };
        // It was under way when the user came back to now.
        if !std::mem::take(&mut self.travelling) {
            return Vec::new();
        }
        let (place, was) = match gone {
            Ok(gone) => gone,
            Err(why) => return vec![Effect::failed(why)],
        };
        let then = was.and_then(|(stores, cuts)| {
            let kept = Kept::new(place, stores, 0)?.refused(cx.links.refusals());
            Some(Then { kept, cuts })
        });
        let Some(then) = then else { return self.travel(cx, Go::Live) };
        let bounds = then.kept.bounds();
        self.past = Some(Box::new(then));
        self.with(cx, Self::rebuild_events);
        bounds.map(|bounds| Effect::Toast(Toast::note(bounds))).into_iter().collect()
    }

    /// Does something with what is shown: with what was where the past is looked at, else with what is.
    pub(super) fn with<T>(&mut self, cx: &Context<'_>, what: impl FnOnce(&mut Self, &Context<'_>) -> T) -> T {
        let Some(then) = self.past.take() else { return what(self, cx) };
        let done = what(self, &then.context(cx));
        self.past = Some(then);
        done
    }

    /// Opens what is under the cursor, as it was at that moment; `cx` is of then.
    pub(super) fn enter_then(&self, cx: &Context<'_>, when: When) -> Vec<Effect> {
        let Some(object) = self.selected_object(cx) else { return Vec::new() };
        let object = match self.part {
            Part::Nodes => {
                let pods = TableRoute::of(cx.catalogue.kind::<Pod>()).only(Only::OnNode(object.name));
                return vec![Effect::open(TableRoute { when: Some(when), ..pods })];
            }
            Part::Events => match navigate::involved_object(cx, &object) {
                Ok(object) => object,
                Err(why) => return vec![Effect::failed(why)],
            },
            Part::Deployments => object,
        };
        vec![Effect::open(Route::DescribeAt(object, when))]
    }

    /// What happened to the object under the cursor: its versions, its timeline.
    pub(super) fn look_back(&self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        object_commands::run(cx, command, self.selected_object(cx), &[], 0)
    }
}

/// What the overview is made of, but for what the server refuses.
fn lists(cx: &Context<'_>) -> Vec<Whose> {
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
            Whose { kind, namespace, name: None }
        })
        .collect()
}
