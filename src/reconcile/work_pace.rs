//! How often one key may be worked on.
//!
//! Work on a key writes, what is written brings it to the queue again, and that ends when the object is as it should be. It
//! does not end where two disagree about that: two copies of a controller whose caches differ, a webhook that undoes what a
//! controller writes. kube-controller-manager may ask its server for twenty things a second; these controllers ask nobody
//! over a network, and would go on as fast as the machine can. So a key that was worked on very often waits a little each time.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// So often it is worked on without any wait.
const AT_ONCE: u32 = 1000;
/// After so long it may be once more.
const EVERY: Duration = Duration::from_millis(2);
/// So many are known before those that are as good as new are forgotten.
const KNOWN: usize = 1024;

/// When what was done for each key is paid for: the generic cell rate algorithm of ATM's traffic management.
#[derive(Debug)]
pub(super) struct WorkPace<K> {
    paid: HashMap<K, Instant>,
    /// How many are known when some are forgotten next.
    full: usize,
}

impl<K: Hash + Eq + Clone> Default for WorkPace<K> {
    fn default() -> Self {
        Self { paid: HashMap::new(), full: KNOWN }
    }
}

impl<K: Hash + Eq + Clone> WorkPace<K> {
    /// When the key may be worked on; none: now.
    pub(super) fn waits(&self, key: &K, now: Instant) -> Option<Instant> {
        let at = *self.paid.get(key)? - EVERY * (AT_ONCE - 1);
        (at > now).then_some(at)
    }

    /// The key is worked on.
    pub(super) fn worked(&mut self, key: &K, now: Instant) {
        if let Some(paid) = self.paid.get_mut(key) {
            *paid = (*paid).max(now) + EVERY;
            return;
        }
        if self.paid.len() >= self.full {
            self.paid.retain(|_, paid| *paid > now);
            self.full = KNOWN.max(self.paid.len() * 2);
        }
        self.paid.insert(key.clone(), now + EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_may_be_worked_on_often_and_then_only_so_often_safe_6() {
        let (mut pace, start) = (WorkPace::default(), Instant::now());
        let mut now = start;
        let mut worked = 0;
        while now < start + Duration::from_secs(1) {
            match pace.waits(&"argued about", now) {
                Some(later) => {
                    assert!(later > now && later <= now + EVERY);
                    now = later;
                }
                None => {
                    pace.worked(&"argued about", now);
                    worked += 1;
                }
            }
        }
        assert_eq!(worked, 1499, "a thousand, and five hundred a second");
        assert_eq!(pace.waits(&"another", now), None);
        let later = now + EVERY * AT_ONCE;
        pace.worked(&"argued about", later);
        assert_eq!(pace.waits(&"argued about", later), None, "it is as good as new");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_worked_on_long_ago_is_forgotten_safe_6() {
        let (mut pace, start) = (WorkPace::default(), Instant::now());
        for n in 0..100 * KNOWN {
            pace.worked(&n, start + EVERY * u32::try_from(n).expect("few"));
        }
        assert!(pace.paid.len() <= KNOWN);
    }
}
