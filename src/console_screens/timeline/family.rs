//! The members of an owner tree: from an object up to its top-level owner, and down from there.
//!
//! Invariant: the set of members never shrinks, and has at most [`MAX_MEMBERS`] members.

use std::collections::HashMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use console_data::context::Context;
use console_data::related;
use console_data::resource::{Kind, ObjectRef, Uid};
use console_data::store::Identity;
use console_data::store::event::EventSummary;
use object::ObjectPart as _;
use object::owner::controller_of;

/// Maximum number of members; a larger tree is shown in part.
const MAX_MEMBERS: usize = 2_000;
/// Maximum depth of owner references; it prevents endless loops in cyclic references.
const DEPTH: usize = 8;

/// The members of an owner tree.
#[derive(Debug)]
pub(super) struct Family {
    root: ObjectRef,
    members: HashMap<Uid, ObjectRef>,
}

impl Family {
    /// Starts with one object.
    pub(super) fn of(object: &ObjectRef) -> Self {
        let members = object.uid.iter().map(|uid| (uid.clone(), object.clone())).collect();
        Self { root: object.clone(), members }
    }

    /// Returns the top-level owner.
    pub(super) fn root(&self) -> &ObjectRef {
        &self.root
    }

    /// Returns all members, in no particular order.
    pub(super) fn members(&self) -> impl Iterator<Item = &ObjectRef> {
        self.members.values()
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn member(&self, uid: &Uid) -> Option<&ObjectRef> {
        self.members.get(uid)
    }

    fn put(&mut self, object: ObjectRef) {
        let Some(uid) = object.uid.clone() else { return };
        if self.members.len() < MAX_MEMBERS || self.members.contains_key(&uid) {
            self.members.insert(uid, object);
        }
    }

    /// Adds the owners above the root and the objects that members own, from the stores.
    pub(super) fn grow(&mut self, cx: &Context<'_>) {
        for _ in 0..DEPTH {
            let uid = self.root.uid.as_ref();
            let object = uid.and_then(|uid| cx.stores.object(&self.root.kind.resource, uid));
            let Some(meta) = object.map(|object| object.metadata()) else { break };
            let Some(owner) = controller_of(meta) else { break };
            self.root = related::by_reference(cx.catalogue, owner, meta.namespace.clone());
            self.put(self.root.clone());
        }
        let mut level: Vec<Uid> = self.members.keys().cloned().collect();
        for _ in 0..DEPTH {
            let mut next = Vec::new();
            for (resource, store) in cx.stores.all() {
                let kind = cx.catalogue.kinds().iter().find(|kind| kind.resource == *resource);
                let Some(kind) = kind else { continue };
                for object in level.iter().flat_map(|uid| store.owned_by(uid)) {
                    let object = object.identity().object(kind.clone());
                    let known = object.uid.as_ref().is_none_or(|uid| self.members.contains_key(uid));
                    if !known && self.members.len() < MAX_MEMBERS {
                        next.extend(object.uid.clone());
                        self.put(object);
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            level = next;
        }
    }

    /// Adds an object if a member owns it. Returns the member, if the object is one.
    pub(super) fn adopt_identity(&mut self, kind: &Kind, object: &Identity) -> Option<ObjectRef> {
        let uid = object.uid.as_ref()?;
        if !self.members.contains_key(uid) {
            if !self.members.contains_key(object.controller.as_ref()?) {
                return None;
            }
            self.put(object.object(kind.clone()));
        }
        self.members.get(uid).cloned()
    }

    /// As [`Self::adopt_identity`], for an object as JSON.
    pub(super) fn adopt(&mut self, kind: &Kind, object: &Value) -> Option<ObjectRef> {
        let meta = ObjectMeta::decode(object.get("metadata")?.clone()).ok()?;
        self.adopt_identity(kind, &Identity::of(&meta))
    }

    /// Returns whether an event's object is a member.
    pub(super) fn concerns(&self, about: &EventSummary) -> bool {
        let name = about.about_name.as_deref();
        let namespace = about.about_namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let uid = about.about_uid.as_deref().filter(|uid| !uid.is_empty()).map(Uid::from);
        match uid {
            // Events about nodes have the node's name instead of its uid.
            Some(uid) if self.members.contains_key(&uid) => true,
            Some(uid) if Some(uid.as_str()) != name => false,
            _ => self.members.values().any(|member| {
                Some(member.name.as_str()) == name
                    && Some(member.kind.kind.as_str()) == about.about_kind.as_deref()
                    && member.namespace.as_deref() == namespace
            }),
        }
    }

    /// Returns whether an object is a member.
    pub(super) fn is_of(&self, object: &ObjectRef) -> bool {
        if let Some(uid) = &object.uid {
            return self.members.contains_key(uid);
        }
        self.members.values().any(|member| {
            member.kind.resource == object.kind.resource
                && member.namespace == object.namespace
                && member.name == object.name
        })
    }
}
