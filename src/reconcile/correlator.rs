//! Which events are told: similar ones become one, and no component tells of one object without end. The rules and
//! numbers are those of client-go's `EventCorrelator`.
//!
//! Pure; never looks at the API.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::recorder::EventType;
use crate::object::Key;

/// What is remembered of each sort; the oldest half is forgotten beyond that.
const REMEMBERED: usize = 4096;
/// So many events with the same reason, each of another text, are told one by one; then they are combined.
const SIMILAR: usize = 10;
/// Similar events are those that come within this time of the one before.
const SIMILAR_WITHIN: Duration = Duration::from_mins(10);
/// Events about one object at once.
const BURST: f64 = 25.0;
/// After those, one so often.
const REFILL: Duration = Duration::from_mins(5);
const COMBINED: &str = "(combined from similar events): ";

/// What an event says, and of what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Said {
    pub(super) about: About,
    pub(super) field_path: Option<String>,
    pub(super) type_: EventType,
    pub(super) reason: String,
    pub(super) message: String,
}

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct About {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// What makes two events the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Same {
    /// They say the same.
    Said(Said),
    /// They are of the same sort, about the same object.
    Similar(Similar),
}

/// A sort of events about one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Similar {
    about: About,
    type_: EventType,
    reason: String,
}

/// An event that is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) same: Same,
    /// Its text.
    pub(super) message: String,
    /// The Event object that tells of the same already.
    pub(super) told: Option<Key>,
}

/// What was said before by one component.
#[derive(Default)]
pub(super) struct Correlator {
    told: Recent<Same, Key>,
    similar: Recent<Similar, Texts>,
    budgets: Recent<About, Budget>,
}

/// The texts of similar events.
#[derive(Default)]
struct Texts {
    last: Duration,
    /// Hashes: texts may be long.
    texts: HashSet<u64>,
}

/// How many more events about an object may be told.
struct Budget {
    left: f64,
    at: Duration,
}

impl Correlator {
    /// What is to be told of an event at this time of the monotonic clock; nothing when there is too much of it.
    pub(super) fn admit(&mut self, said: Said, now: Duration) -> Option<Admitted> {
        let (same, message) = self.combined(said, now);
        let about = match &same {
            Same::Said(said) => &said.about,
            Same::Similar(similar) => &similar.about,
        };
        let budget = self.budgets.get_or_insert(about.clone(), || Budget { left: BURST, at: now });
        if !budget.take(now) {
            return None;
        }
        let told = self.told.get(&same).cloned();
        Some(Admitted { same, message, told })
    }

    fn combined(&mut self, said: Said, now: Duration) -> (Same, String) {
        let similar = Similar { about: said.about.clone(), type_: said.type_, reason: said.reason.clone() };
        let known = self.similar.get_or_insert(similar.clone(), Texts::default);
        if now.saturating_sub(known.last) > SIMILAR_WITHIN {
            known.texts.clear();
        }
        known.last = now;
        known.texts.insert(hash_of(&said.message));
        if known.texts.len() < SIMILAR {
            let message = said.message.clone();
            return (Same::Said(said), message);
        }
        // Room for the next one: the set never grows beyond this.
        if let Some(any) = known.texts.iter().next().copied() {
            known.texts.remove(&any);
        }
        (Same::Similar(similar), format!("{COMBINED}{}", said.message))
    }

    /// Such an event is told by this Event object.
    pub(super) fn told_by(&mut self, same: Same, event: Key) {
        self.told.insert(same, event);
    }
}

impl Budget {
    fn take(&mut self, now: Duration) -> bool {
        let refilled = now.saturating_sub(self.at).as_secs_f64() / REFILL.as_secs_f64();
        self.left = (self.left + refilled).min(BURST);
        self.at = now;
        let has = self.left >= 1.0;
        if has {
            self.left -= 1.0;
        }
        has
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// A map that forgets what was not used for longest.
struct Recent<K, V> {
    entries: HashMap<K, (V, u64)>,
    turn: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), turn: 0 }
    }
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    fn get(&mut self, key: &K) -> Option<&V> {
        self.turn += 1;
        let (value, used) = self.entries.get_mut(key)?;
        *used = self.turn;
        Some(value)
    }

    fn insert(&mut self, key: K, value: V) {
        self.entries.remove(&key);
        self.get_or_insert(key, || value);
    }

    fn get_or_insert(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        self.turn += 1;
        if self.entries.len() >= REMEMBERED && !self.entries.contains_key(&key) {
            let mut used: Vec<u64> = self.entries.values().map(|(_, used)| *used).collect();
            let (_, median, _) = used.select_nth_unstable(REMEMBERED / 2);
            let oldest = *median;
            self.entries.retain(|_, (_, used)| *used >= oldest);
        }
        let (value, used) = self.entries.entry(key).or_insert_with(|| (value(), 0));
        *used = self.turn;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, reason: &str, message: &str) -> Said {
        let about =
            About { kind: "Pod".into(), namespace: "default".into(), name: name.into(), uid: name.into() };
        Said {
            about,
            field_path: None,
            type_: EventType::Warning,
            reason: reason.into(),
            message: message.into(),
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_tenth_similar_event_and_those_after_it_are_combined_api_11() {
        let mut correlator = Correlator::default();
        let mut told = Vec::new();
        for n in 0..14 {
            let admitted = correlator.admit(said("p", "Failed", &format!("number {n}")), SECOND * n).unwrap();
            correlator.told_by(admitted.same.clone(), Key::new("default", admitted.message.as_str()));
            told.push(admitted);
        }
        assert!(told[..9].iter().all(|event| event.told.is_none() && event.message.starts_with("number")));
        assert_eq!(told[9].message, "(combined from similar events): number 9");
        assert_eq!(told[9].told, None, "the first of the combined ones");
        assert!(told[10..].iter().all(|event| event.same == told[9].same && event.told.is_some()));
        let other = correlator.admit(said("p", "Other", "number 20"), SECOND * 20).unwrap();
        assert_eq!(other.message, "number 20", "another reason is no similar event");
        let later = correlator.admit(said("p", "Failed", "number 21"), SECOND * 14 + SIMILAR_WITHIN * 2);
        assert_eq!(later.unwrap().message, "number 21", "after a while they are told one by one again");
    }

    #[test]
    fn of_one_object_no_more_is_told_than_its_budget_api_11() {
        let mut correlator = Correlator::default();
        let mut told =
            |name: &str, now: Duration| correlator.admit(said(name, "Failed", "no"), now).is_some();
        assert_eq!((0..100).filter(|_| told("p", SECOND)).count(), 25);
        assert!(told("q", SECOND), "another object has a budget of its own");
        assert!(!told("p", SECOND + REFILL / 2));
        assert!(told("p", SECOND + REFILL));
        assert!(!told("p", SECOND + REFILL));
    }

    #[test]
    fn it_remembers_no_more_than_its_bound_api_11() {
        let mut correlator = Correlator::default();
        for n in 0..3 * REMEMBERED {
            let admitted = correlator.admit(said(&n.to_string(), "Failed", "no"), SECOND).unwrap();
            correlator.told_by(admitted.same, Key::new("default", "e"));
        }
        let sizes = [
            correlator.told.entries.len(),
            correlator.similar.entries.len(),
            correlator.budgets.entries.len(),
        ];
        assert!(sizes.iter().all(|size| *size <= REMEMBERED), "{sizes:?}");
        let last = said(&(3 * REMEMBERED - 1).to_string(), "Failed", "no");
        assert!(correlator.admit(last, SECOND).unwrap().told.is_some(), "the newest is remembered");
    }
}
