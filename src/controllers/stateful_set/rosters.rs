//! The rosters of all StatefulSets between their turns.
//!
//! A set of a thousand pods that come one after the other has thousands of turns; each may cost what has
//! changed since the turn before, and a glance at the rest. Follows the changes that it is told of; never
//! looks at the API.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

use super::roster::Roster;
use crate::api::Change;
use crate::object::owner::controller_of;
use crate::object::{Shared, Uid};

/// The rosters of all sets, between their turns.
#[derive(Default)]
pub(super) struct Rosters {
    /// What the next turn has to take in. A set has an entry from its first turn on.
    news: Mutex<HashMap<Uid, News>>,
    kept: Mutex<HashMap<Uid, Roster>>,
}

/// What happened to a set's pods since its last turn.
#[derive(Default)]
pub(super) struct News {
    /// The last change of each pod, by name.
    pub(super) pods: BTreeMap<String, Change>,
    /// Ordinals whose claims changed.
    pub(super) claims: BTreeSet<i32>,
}

impl Rosters {
    /// Follows a pod's change: of its controller's roster, and of the one it had before.
    pub(super) fn observe(&self, change: &Change) {
        let mut all = self.news.lock();
        for object in change.previous.iter().chain([&change.object]) {
            if let Some(news) = controller_of(object.meta()).and_then(|owner| all.get_mut(&owner.uid)) {
                news.pods.insert(change.object.name().to_string(), change.clone());
            }
        }
    }

    /// A claim of the pod with this ordinal changed.
    pub(super) fn claim_changed(&self, set: &str, ordinal: i32) {
        if let Some(news) = self.news.lock().get_mut(set) {
            news.claims.insert(ordinal);
        }
    }

    /// The set's roster with all that was observed; `list` is asked for its pods when there is none.
    ///
    /// Who does not [keep](Self::keep) it makes the next turn list again.
    pub(super) fn take(&self, set: &str, list: impl FnOnce() -> Vec<Shared<Pod>>) -> Roster {
        let news = std::mem::take(self.news.lock().entry(set.to_string()).or_default());
        let kept = self.kept.lock().remove(set);
        match kept {
            Some(mut roster) => {
                roster.take_in(set, news);
                roster
            }
            // The list shows all that is in the news, and maybe more.
            None => Roster::of(list()),
        }
    }

    /// Keeps the roster for the set's next turn.
    pub(super) fn keep(&self, set: &str, roster: Roster) {
        // A set that was forgotten meanwhile has no news, and no next turn.
        if self.news.lock().contains_key(set) {
            self.kept.lock().insert(set.to_string(), roster);
        }
    }

    /// The set is gone.
    pub(super) fn forget(&self, set: &str) {
        self.news.lock().remove(set);
        self.kept.lock().remove(set);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::api::apps::v1::StatefulSet;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::ChangeKind;
    use crate::object::{Kind, Object, Revision};

    fn set() -> Shared<StatefulSet> {
        let value = json!({"metadata": {"name": "web", "uid": "set", "generation": 1},
            "spec": {"selector": {}, "serviceName": "", "template": {}}});
        Shared::from_value(serde_json::from_value(value).unwrap())
    }

    #[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
    fn pod(name: &str, revision: u64, owner: Value) -> Arc<Object> {
        let value = json!({"metadata": {"name": name, "uid": name, "resourceVersion": revision.to_string(),
            "ownerReferences": owner}, "spec": {"containers": []}, "status": {"phase": "Running"}});
        Arc::new(Object::from_value(Kind::Pod, value).unwrap())
    }

    fn by(uid: &str) -> Value {
        let kind = ("apps/v1", "StatefulSet");
        json!([{"apiVersion": kind.0, "kind": kind.1, "name": "web", "uid": uid, "controller": true}])
    }

    fn change(
        kind: ChangeKind,
        revision: u64,
        object: &Arc<Object>,
        previous: Option<&Arc<Object>>,
    ) -> Change {
        Change { revision: Revision(revision), kind, object: object.clone(), previous: previous.cloned() }
    }

    /// `ordinal@revision` of the pods after a turn that seats what is fresh and keeps the roster.
    fn turn(rosters: &Rosters, list: &[&Arc<Object>]) -> String {
        let pods = list.iter().filter_map(|object| Shared::from_object(object)).collect();
        let mut roster = rosters.take("set", || pods);
        let fresh: Vec<_> = roster.take_fresh().collect();
        for pod in fresh {
            roster.seat(&set(), pod);
        }
        roster.look(&set(), Timestamp::UNIX_EPOCH);
        let told: Vec<String> = roster
            .seats()
            .map(|(ordinal, seat)| format!("{ordinal}@{}", seat.pod.object().revision().0))
            .collect();
        rosters.keep("set", roster);
        told.join(" ")
    }

    #[test]
    fn a_roster_follows_its_pods_and_lists_only_once_sts_1() {
        use ChangeKind::{Added, Deleted, Modified};
        let rosters = Rosters::default();
        let (zero, one) = (pod("web-0", 1, by("set")), pod("web-1", 2, by("set")));
        rosters.observe(&change(Added, 1, &zero, None));
        assert_eq!(turn(&rosters, &[&zero, &one]), "0@1 1@2", "what it missed was listed");
        assert_eq!(turn(&rosters, &[]), "0@1 1@2");
        // The event of what was listed comes late.
        rosters.observe(&change(Added, 2, &one, None));
        assert_eq!(turn(&rosters, &[]), "0@1 1@2");
        let newer = pod("web-0", 5, by("set"));
        rosters.observe(&change(Modified, 5, &newer, Some(&zero)));
        rosters.observe(&change(Deleted, 6, &one, None));
        assert_eq!(turn(&rosters, &[]), "0@5");
        // Deleted and made anew between two turns.
        let again = pod("web-0", 8, by("set"));
        rosters.observe(&change(Deleted, 7, &newer, None));
        rosters.observe(&change(Added, 8, &again, None));
        assert_eq!(turn(&rosters, &[]), "0@8");
        // Released, and adopted by another.
        let other = pod("web-0", 9, by("other"));
        rosters.observe(&change(Modified, 9, &other, Some(&again)));
        assert_eq!(turn(&rosters, &[]), "");
        // A list made up for a missed watch: the deletion has the revision of what is gone.
        let last = pod("web-2", 11, by("set"));
        rosters.observe(&change(Added, 11, &last, None));
        assert_eq!(turn(&rosters, &[]), "2@11");
        rosters.observe(&change(Deleted, 11, &last, None));
        assert_eq!(turn(&rosters, &[]), "");
    }

    #[test]
    fn a_turn_that_came_to_nothing_lists_again_and_a_set_that_is_gone_is_forgotten_sts_1() {
        let rosters = Rosters::default();
        let zero = pod("web-0", 1, by("set"));
        drop(rosters.take("set", Vec::new));
        assert_eq!(turn(&rosters, &[&zero]), "0@1");
        let roster = rosters.take("set", Vec::new);
        rosters.forget("set");
        rosters.keep("set", roster);
        assert!(rosters.kept.lock().is_empty() && rosters.news.lock().is_empty());
    }

    #[test]
    fn what_is_known_of_claims_ends_with_their_change_or_the_set_s_sts_1() {
        let rosters = Rosters::default();
        let pods: Vec<_> = (0..3).map(|n| pod(&format!("web-{n}"), 1, by("set"))).collect();
        turn(&rosters, &pods.iter().collect::<Vec<_>>());
        let sound = |all: bool| {
            let mut roster = rosters.take("set", Vec::new);
            let mut set = (*set()).clone();
            set.metadata.generation = Some(if all { 1 } else { 2 });
            roster.look(&set, Timestamp::UNIX_EPOCH);
            let told: Vec<bool> = roster.seats().map(|(_, seat)| seat.claims_are_sound).collect();
            for (_, seat) in roster.seats_mut() {
                seat.claims_are_sound = true;
            }
            rosters.keep("set", roster);
            told
        };
        assert_eq!(sound(true), [false; 3]);
        assert_eq!(sound(true), [true; 3]);
        rosters.claim_changed("set", 1);
        assert_eq!(sound(true), [true, false, true]);
        assert_eq!(sound(false), [false; 3], "another generation may ask for other owners");
    }
}
