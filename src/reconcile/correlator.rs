//! Event correlation: similar events are combined, and each component's events about one object are rate-limited. The
//! rules and numbers are those of client-go's `EventCorrelator`.
//!
//! Pure; never looks at the API.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use object::Key;

/// The most entries a map retains; before it exceeds them it drops the half that was used least recently.
const REMEMBERED: usize = 4096;
/// The most entries for a component of one node: it records events for a hundred pods, and there may be thousands of
/// nodes.
const REMEMBERED_ON_A_NODE: usize = 512;
/// The number of events with the same reason and different texts from which on they are combined into one.
const SIMILAR: usize = 10;
/// The longest time between two similar events; after a longer pause they are counted again from one.
const SIMILAR_WITHIN: Duration = Duration::from_mins(10);
/// The number of events about one object that may be recorded at once.
const BURST: f64 = 25.0;
/// The time after which one more event may be recorded.
const REFILL: Duration = Duration::from_mins(5);
const COMBINED: &str = "(combined from similar events): ";

/// An event's type: information or a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Information.
    Normal,
    /// A problem that may need attention.
    Warning,
}

impl EventType {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event before it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NewEvent {
    pub(super) about: InvolvedObject,
    pub(super) field_path: Option<String>,
    pub(super) type_: EventType,
    pub(super) reason: String,
    pub(super) message: String,
}

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct InvolvedObject {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// The identity of an event: the hash of the whole event, or of its object, type and reason once similar events are
/// combined. It is a hash because texts may be long and events many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct EventKey(u64);

/// An event that passed the limits and is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CorrelateResult {
    pub(super) same: EventKey,
    /// The message to record; it has a prefix if the event is a combination.
    pub(super) message: String,
    /// The existing Event object with the same identity.
    pub(super) recorded: Option<Key>,
}

/// The events that one component has recorded.
pub(super) struct Correlator {
    hashes: RandomState,
    recorded: LruCache<Key>,
    similar: LruCache<Texts>,
    budgets: LruCache<Budget>,
}

/// The hashed texts of similar events.
#[derive(Default)]
struct Texts {
    last: Duration,
    texts: Vec<u64>,
}

/// The rate limit of one object's events.
struct Budget {
    tokens: f64,
    at: Duration,
}

impl Correlator {
    /// Creates a correlator with the limits of a cluster component, or of a component on one node.
    pub(super) fn new(on_a_node: bool) -> Self {
        let most = if on_a_node { REMEMBERED_ON_A_NODE } else { REMEMBERED };
        Self {
            hashes: RandomState::new(),
            recorded: LruCache::new(most),
            similar: LruCache::new(most),
            budgets: LruCache::new(most),
        }
    }

    /// Decides at `now` (monotonic) how to record an event; `None` if the rate limit is exceeded.
    pub(super) fn admit(&mut self, event_of: &NewEvent, now: Duration) -> Option<CorrelateResult> {
        let (same, message) = self.combined(event_of, now);
        let about = self.hashes.hash_one(&event_of.about);
        let budget = self.budgets.get_or_insert(about, || Budget { tokens: BURST, at: now });
        if !budget.take(now) {
            return None;
        }
        let recorded = self.recorded.get(same.0).cloned();
        Some(CorrelateResult { same, message, recorded })
    }

    fn combined(&mut self, event_of: &NewEvent, now: Duration) -> (EventKey, String) {
        let similar = self.hashes.hash_one((&event_of.about, event_of.type_, &event_of.reason));
        let text = self.hashes.hash_one(&event_of.message);
        let known = self.similar.get_or_insert(similar, Texts::default);
        if now.saturating_sub(known.last) > SIMILAR_WITHIN {
            known.texts.clear();
        }
        known.last = now;
        if !known.texts.contains(&text) {
            known.texts.push(text);
        }
        if known.texts.len() < SIMILAR {
            return (EventKey(self.hashes.hash_one(event_of)), event_of.message.clone());
        }
        // Keeps the list below `SIMILAR` entries.
        known.texts.pop();
        (EventKey(similar), format!("{COMBINED}{}", event_of.message))
    }

    /// Notes the Event object that records events of this identity.
    pub(super) fn recorded_as(&mut self, same: EventKey, event: Key) {
        self.recorded.insert(same.0, event);
    }
}

impl Budget {
    fn take(&mut self, now: Duration) -> bool {
        let refilled = now.saturating_sub(self.at).as_secs_f64() / REFILL.as_secs_f64();
        self.tokens = (self.tokens + refilled).min(BURST);
        self.at = now;
        let has = self.tokens >= 1.0;
        if has {
            self.tokens -= 1.0;
        }
        has
    }
}

/// A bounded map from hashes that drops the least recently used entries.
struct LruCache<V> {
    entries: HashMap<u64, (V, u64)>,
    tick: u64,
    capacity: usize,
}

impl<V> LruCache<V> {
    fn new(most: usize) -> Self {
        Self { entries: HashMap::new(), tick: 0, capacity: most }
    }

    fn get(&mut self, key: u64) -> Option<&V> {
        self.tick += 1;
        let (value, used) = self.entries.get_mut(&key)?;
        *used = self.tick;
        Some(value)
    }

    fn insert(&mut self, key: u64, value: V) {
        self.entries.remove(&key);
        self.get_or_insert(key, || value);
    }

    fn get_or_insert(&mut self, key: u64, value: impl FnOnce() -> V) -> &mut V {
        self.tick += 1;
        if self.entries.len() >= self.capacity && !self.entries.contains_key(&key) {
            let mut used: Vec<u64> = self.entries.values().map(|(_, used)| *used).collect();
            let (_, median, _) = used.select_nth_unstable(self.capacity / 2);
            let oldest = *median;
            self.entries.retain(|_, (_, used)| *used >= oldest);
        }
        let (value, used) = self.entries.entry(key).or_insert_with(|| (value(), 0));
        *used = self.tick;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event_of(name: &str, reason: &str, message: &str) -> NewEvent {
        let about = InvolvedObject {
            kind: "Pod".into(),
            namespace: "default".into(),
            name: name.into(),
            uid: name.into(),
        };
        NewEvent {
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
        let mut correlator = Correlator::new(false);
        let mut recorded = Vec::new();
        for n in 0..14 {
            let admitted =
                correlator.admit(&event_of("p", "Failed", &format!("number {n}")), SECOND * n).unwrap();
            correlator.recorded_as(admitted.same, Key::new("default", admitted.message.as_str()));
            recorded.push(admitted);
        }
        assert!(
            recorded[..9].iter().all(|event| event.recorded.is_none() && event.message.starts_with("number"))
        );
        assert_eq!(recorded[9].message, "(combined from similar events): number 9");
        assert_eq!(recorded[9].recorded, None, "the first of the combined ones");
        assert!(
            recorded[10..].iter().all(|event| event.same == recorded[9].same && event.recorded.is_some())
        );
        let other = correlator.admit(&event_of("p", "Other", "number 20"), SECOND * 20).unwrap();
        assert_eq!(other.message, "number 20", "another reason is no similar event");
        let later = correlator.admit(&event_of("p", "Failed", "number 21"), SECOND * 14 + SIMILAR_WITHIN * 2);
        assert_eq!(later.unwrap().message, "number 21", "after a while they are recorded one by one again");
    }

    #[test]
    fn events_of_one_object_are_limited_by_its_budget_api_11() {
        let mut correlator = Correlator::new(false);
        let mut recorded =
            |name: &str, now: Duration| correlator.admit(&event_of(name, "Failed", "no"), now).is_some();
        assert_eq!((0..100).filter(|_| recorded("p", SECOND)).count(), 25);
        assert!(recorded("q", SECOND), "another object has a budget of its own");
        assert!(!recorded("p", SECOND + REFILL / 2));
        assert!(recorded("p", SECOND + REFILL));
        assert!(!recorded("p", SECOND + REFILL));
    }

    #[test]
    fn it_remembers_no_more_than_its_bound_api_11() {
        let mut correlator = Correlator::new(false);
        for n in 0..3 * REMEMBERED {
            let admitted = correlator.admit(&event_of(&n.to_string(), "Failed", "no"), SECOND).unwrap();
            correlator.recorded_as(admitted.same, Key::new("default", "e"));
        }
        let sizes = [
            correlator.recorded.entries.len(),
            correlator.similar.entries.len(),
            correlator.budgets.entries.len(),
        ];
        assert!(sizes.iter().all(|size| *size <= REMEMBERED), "{sizes:?}");
        let last = event_of(&(3 * REMEMBERED - 1).to_string(), "Failed", "no");
        assert!(correlator.admit(&last, SECOND).unwrap().recorded.is_some(), "the newest is remembered");
    }
}
