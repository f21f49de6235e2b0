//! A table at a point in the past (CON-19): rows computed from the server's state then; they do not change.
//!
//! In the table of all workloads each kind is requested separately; the kinds without a response are listed below the
//! rows.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::Table;
use crate::builtin;
use crate::context::Context;
use crate::effect::{Effect, Only};
use crate::message::Data;
use crate::moment::{Go, Moment, WayBack};
use crate::past::{self, Gap, Kept, Place, Whose};
use crate::resource::Kind;
use crate::scope::Scope;
use crate::store::Stores;
use crate::toast::Toast;

/// The result of a step of time travel; only the table knows its content.
#[derive(Debug)]
pub(super) struct Travelled(Result<(Place, Option<ThereWas>), String>);

/// The past state, and its missing parts.
#[derive(Debug)]
enum ThereWas {
    /// Of one kind, with the number of objects beyond those listed.
    OfOne(Stores, usize),
    /// Of several kinds, with the missing parts of each.
    OfSeveral(Stores, Vec<Gap>),
}

impl ThereWas {
    /// The form in which the table shows it.
    fn kept(self, cx: &Context<'_>, place: Place) -> Option<Kept> {
        match self {
            Self::OfOne(stores, cut) => Kept::new(place, stores, cut),
            Self::OfSeveral(stores, gaps) => Some(Kept::new(place, stores, 0)?.of_several(cx, gaps)),
        }
    }
}

impl Table {
    /// The shown point in the past; `None` for the present.
    pub(super) fn shown_moment(&self) -> Option<Moment> {
        self.past.as_ref().map(|kept| kept.moment)
    }

    /// Requests the rows at another point in time; the current rows stay until they arrive.
    pub(super) fn travel(&mut self, cx: &Context<'_>, go: Go) -> Vec<Effect> {
        if go == Go::Live {
            self.travelling = false;
            self.opens_at = None;
            self.past = None;
            self.way_back = WayBack::Now;
            self.marks.clear();
            self.widths.clear();
            self.rebuild(cx);
            return vec![Effect::Cancel("past")];
        }
        self.travelling = true;
        let (from, now) = (self.shown_moment(), cx.now);
        if self.is_mixed() {
            let whose = self.kinds_that_tell(cx).into_iter().map(|kind| self.whose(cx, kind)).collect();
            return vec![Effect::task("past", move |out| async move {
                let gone = past::go_of_several(&out.client(), whose, from, go, now).await;
                let gone = gone
                    .map(|(place, was)| (place, was.map(|(stores, gaps)| ThereWas::OfSeveral(stores, gaps))));
                out.data(Travelled(gone)).await;
            })];
        }
        let lists = self.lists(cx);
        vec![Effect::task("past", move |out| async move {
            let client = out.client();
            let gone = async {
                let place = past::step(&client, std::slice::from_ref(&lists[0].0), from, go, now).await?;
                let Some(moment) = place.moment() else { return Ok((place, None)) };
                let (stores, cut) = past::stores_at(&client, &lists, moment.revision).await?;
                Ok((place, Some(ThereWas::OfOne(stores, cut))))
            };
            let gone = gone.await;
            out.data(Travelled(gone)).await;
        })]
    }

    /// The objects of a kind within the table's scope.
    fn whose(&self, cx: &Context<'_>, kind: Kind) -> Whose {
        let in_scope = match (cx.scope, &self.only) {
            (_, Only::In(name)) | (Scope::One(name), Only::All) => Some(name.clone()),
            (
                _,
                Only::OwnedBy(object) | Only::Selected(object) | Only::Using(object) | Only::About(object),
            ) => object.namespace.clone(),
            _ => None,
        };
        let namespace = in_scope.filter(|_| kind.namespaced);
        Whose { kind, namespace, name: None }
    }

    /// The lists that the rows need, the table's own kind first.
    fn lists(&self, cx: &Context<'_>) -> Vec<(Whose, String)> {
        let of = |kind: Kind| (self.whose(cx, kind), String::new());
        let mut lists = vec![of(self.kind.clone())];
        match &self.only {
            Only::OnNode(node) => lists[0].1 = format!("&fieldSelector=spec.nodeName%3D{node}"),
            // The replica sets determine the pods of a deployment.
            Only::OwnedBy(_) if self.kind.is::<Pod>() => lists.push(of(cx.catalogue.kind::<ReplicaSet>())),
            Only::Selected(by) if builtin::contains(&by.kind.resource) => lists.push(of(by.kind.clone())),
            // A node's row counts its pods.
            _ if self.kind.is::<Node>() => lists.push(of(cx.catalogue.kind::<Pod>())),
            _ => {}
        }
        lists
    }

    /// Applies the result of a step of time travel.
    pub(super) fn travelled(&mut self, cx: &Context<'_>, data: Data) -> Vec<Effect> {
        let Some(Travelled(gone)) = data.take() else { return Vec::new() };
        // The user returned to the present while the request was in flight.
        if !std::mem::take(&mut self.travelling) {
            return Vec::new();
        }
        let opens = self.opens_at.take().is_some();
        match gone {
            // The requested point in time is not available: the table shows the present, without a banner.
            Err(why) if opens => {
                self.way_back = WayBack::Now;
                self.rebuild(cx);
                vec![Effect::failed(why)]
            }
            Err(why) => vec![Effect::failed(why)],
            Ok((place, was)) => {
                let Some(kept) = was.and_then(|was| was.kept(cx, place)) else {
                    return self.travel(cx, Go::Live);
                };
                let bounds = kept.bounds();
                self.past = Some(Box::new(kept));
                self.flashes.clear();
                self.rebuild(cx);
                bounds.map(|bounds| Effect::Toast(Toast::note(bounds))).into_iter().collect()
            }
        }
    }

    /// Calls a function with the shown state: the past one if it is shown, else the present.
    pub(super) fn with<T>(&mut self, cx: &Context<'_>, what: impl FnOnce(&mut Self, &Context<'_>) -> T) -> T {
        let Some(kept) = self.past.take() else { return what(self, cx) };
        let done = what(self, &kept.context(cx));
        self.past = Some(kept);
        done
    }
}
