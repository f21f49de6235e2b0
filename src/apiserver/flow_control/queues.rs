//! The core of fair queueing: the assignment of seats. Pure; a waiter is any `W`.
//!
//! A level has its nominal seats, of which it lends a part while they are unused, and it borrows seats that
//! others lend. Within a level, each flow is dealt a hand of queues and uses the shortest, so that a flow
//! that floods fills its own hand, and other flows usually have at least one queue without it. The queue that
//! has used the least of the level's time goes next (start-time fair queueing, Goyal, Vin and Cheng 1996). As
//! Kubernetes' `fairqueuing`, except that lending is computed at every request instead of every ten seconds.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// The assumed duration of a request until it is known, in seat-seconds.
const ESTIMATE: f64 = 0.005;

/// The configuration of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelConfig {
    /// The level's share of all seats, relative to the shares of other levels.
    pub(super) shares: u32,
    /// The percentage of its seats that other levels may use while the level does not.
    pub(super) lendable_percent: u32,
    /// The percentage of its seats that the level may borrow in addition; `None`: unlimited.
    pub(super) borrowing_percent: Option<u32>,
    /// The queues for requests without a seat; `None`: they are refused.
    pub(super) queuing: Option<QueuingConfig>,
}

/// The queues of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueuingConfig {
    pub(super) queues: u32,
    /// The number of queues in a flow's hand.
    pub(super) hand_size: u32,
    /// The limit on requests in one queue.
    pub(super) length_limit: usize,
}

/// The reason why a request gets no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectReason {
    /// All seats are in use, and the level has no queues.
    ConcurrencyLimit,
    /// The queue is full.
    QueueFull,
}

impl RejectReason {
    /// Returns the name in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
        }
    }
}

/// The result of a request's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DispatchResult {
    /// The request has its seats.
    Runs(QueueTicket),
    /// The request waits in a queue.
    Waits(QueueTicket),
    Refused(RejectReason),
}

/// A request's queue, and its identity in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueTicket {
    queue: u32,
    ticket: u64,
    /// The number of seats that the request has, or will have.
    pub(super) seats: u32,
}

/// All levels with limits, and their seats.
#[derive(Debug)]
pub(super) struct PriorityLevels<W> {
    total: u32,
    by_name: BTreeMap<String, Level<W>>,
    tickets: u64,
}

#[derive(Debug)]
struct Level<W> {
    /// `None` once the level is deleted; waiting requests still get their seats.
    config: Option<LevelConfig>,
    nominal: u32,
    /// Seats that the level never lends.
    min_seats: u32,
    max_seats: u32,
    in_use: u32,
    waiting: usize,
    /// Virtual time: the seat-seconds that every queue with demand has received.
    virtual_time: f64,
    queues: HashMap<u32, Queue<W>>,
}

impl<W> Default for Level<W> {
    fn default() -> Self {
        Self {
            config: None,
            nominal: 0,
            min_seats: 0,
            max_seats: 0,
            in_use: 0,
            waiting: 0,
            virtual_time: 0.0,
            queues: HashMap::new(),
        }
    }
}

#[derive(Debug)]
struct Queue<W> {
    waiting: VecDeque<QueuedWaiter<W>>,
    running: u32,
    /// The virtual time that the queue has used.
    used_virtual_time: f64,
}

#[derive(Debug)]
struct QueuedWaiter<W> {
    ticket: QueueTicket,
    waiter: W,
}

impl<W> Queue<W> {
    /// Seats in use or requested.
    fn length(&self) -> u64 {
        u64::from(self.running) + self.waiting.iter().map(|one| u64::from(one.ticket.seats)).sum::<u64>()
    }
}

/// The present load of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) nominal: u32,
    pub(super) in_use: u32,
    pub(super) waiting: usize,
}

impl<W> PriorityLevels<W> {
    /// Starts with `total` seats and no levels.
    pub(super) fn new(total: u32) -> Self {
        Self { total, by_name: BTreeMap::new(), tickets: 0 }
    }

    /// Replaces the levels; returns the waiting requests that get seats as a result. Requests that wait in a
    /// deleted level still get seats that no other level needs.
    pub(super) fn configure(&mut self, configs: &BTreeMap<String, LevelConfig>) -> Vec<(QueueTicket, W)> {
        let shares: u64 = configs.values().map(|config| u64::from(config.shares)).sum();
        for (name, level) in &mut self.by_name {
            if !configs.contains_key(name) {
                (level.config, level.min_seats) = (None, 0);
            }
        }
        self.by_name.retain(|_, level| !level.is_over());
        for (name, config) in configs {
            let level = self.by_name.entry(name.clone()).or_default();
            let part =
                |of: u64, percent: u32| u32::try_from(of * u64::from(percent) / 100).unwrap_or(u32::MAX);
            let nominal = (u64::from(self.total) * u64::from(config.shares)).div_ceil(shares.max(1));
            level.nominal = u32::try_from(nominal).unwrap_or(u32::MAX);
            level.min_seats = level.nominal - part(nominal, config.lendable_percent.min(100));
            level.max_seats = match config.borrowing_percent {
                Some(percent) => level.nominal.saturating_add(part(nominal, percent)),
                None => u32::MAX,
            };
            level.config = Some(*config);
        }
        self.dispatch()
    }

    /// Adds a request of a flow to a level; it requests this number of seats.
    pub(super) fn arrive(&mut self, name: &str, flow: u64, seats: u32, who: W) -> DispatchResult {
        let Some(level) = self.by_name.get(name) else {
            return DispatchResult::Refused(RejectReason::ConcurrencyLimit);
        };
        let seats = seats.clamp(1, level.nominal.max(1));
        let queuing = level.config.and_then(|config| config.queuing);
        let queue = queuing.map_or(0, |queuing| shortest(level, hand(flow, queuing)));
        self.tickets += 1;
        let place = QueueTicket { queue, ticket: self.tickets, seats };
        let is_next = level.waiting == 0;
        if is_next && self.has_capacity(name, seats) {
            if let Some(level) = self.by_name.get_mut(name) {
                level.take(place);
            }
            return DispatchResult::Runs(place);
        }
        let Some(queuing) = queuing else { return DispatchResult::Refused(RejectReason::ConcurrencyLimit) };
        let Some(level) = self.by_name.get_mut(name) else {
            return DispatchResult::Refused(RejectReason::ConcurrencyLimit);
        };
        let queue = level.queue(queue);
        if queue.waiting.len() >= queuing.length_limit {
            return DispatchResult::Refused(RejectReason::QueueFull);
        }
        queue.waiting.push_back(QueuedWaiter { ticket: place, waiter: who });
        level.waiting += 1;
        DispatchResult::Waits(place)
    }

    /// Ends a request that held its seats for this long; returns the waiting requests that get seats as a
    /// result.
    pub(super) fn finish(&mut self, name: &str, place: QueueTicket, took: Duration) -> Vec<(QueueTicket, W)> {
        if let Some(level) = self.by_name.get_mut(name) {
            level.in_use -= place.seats;
            if let Some(queue) = level.queues.get_mut(&place.queue) {
                queue.running -= place.seats;
                queue.used_virtual_time += f64::from(place.seats) * (took.as_secs_f64() - ESTIMATE);
            }
            level.forget(place.queue);
        }
        self.forget(name);
        self.dispatch()
    }

    /// Removes a request if it waits; returns the requests that it held up and that get seats as a result.
    pub(super) fn leave(&mut self, name: &str, place: QueueTicket) -> Vec<(QueueTicket, W)> {
        let Some(level) = self.by_name.get_mut(name) else { return Vec::new() };
        let Some(queue) = level.queues.get_mut(&place.queue) else { return Vec::new() };
        let before = queue.waiting.len();
        queue.waiting.retain(|one| one.ticket.ticket != place.ticket);
        let left = before - queue.waiting.len();
        if left == 0 {
            return Vec::new();
        }
        level.waiting -= left;
        level.forget(place.queue);
        self.forget(name);
        self.dispatch()
    }

    /// Removes a deleted level after its last request.
    fn forget(&mut self, name: &str) {
        if self.by_name.get(name).is_some_and(Level::is_over) {
            self.by_name.remove(name);
        }
    }

    /// Returns the load of each level.
    pub(super) fn loads(&self) -> impl Iterator<Item = (&str, Load)> {
        self.by_name.iter().map(|(name, level)| {
            (name.as_str(), Load { nominal: level.nominal, in_use: level.in_use, waiting: level.waiting })
        })
    }

    /// Returns true if a level may use this many more seats: its own, or unused ones that others lend.
    fn has_capacity(&self, name: &str, seats: u32) -> bool {
        let Some(level) = self.by_name.get(name) else { return false };
        let required = level.in_use.saturating_add(seats);
        // Nominal seats are rounded up, and a request may be as wide as its level: one request is always
        // admitted, even if others keep all seats.
        if required <= level.min_seats || level.in_use == 0 && level.nominal > 0 {
            return true;
        }
        let in_use: u64 = self.by_name.values().map(|level| u64::from(level.in_use)).sum();
        let reserved: u64 = self
            .by_name
            .iter()
            .filter(|(other, _)| other.as_str() != name)
            .map(|(_, level)| u64::from(level.min_seats.saturating_sub(level.in_use)))
            .sum();
        required <= level.max_seats && in_use + u64::from(seats) + reserved <= u64::from(self.total)
    }

    /// Gives seats to waiting requests while there are some: first to levels that use the smallest fraction
    /// of their own.
    fn dispatch(&mut self) -> Vec<(QueueTicket, W)> {
        let mut dispatched = Vec::new();
        loop {
            let mut waiting: Vec<_> = self.by_name.iter().filter(|(_, level)| level.waiting > 0).collect();
            waiting.sort_by(|(_, a), (_, b)| a.use_of_own().total_cmp(&b.use_of_own()));
            let next = waiting.into_iter().find_map(|(name, level)| {
                let queue = level.next()?;
                let seats = level.queues.get(&queue)?.waiting.front()?.ticket.seats;
                self.has_capacity(name, seats).then(|| (name.clone(), queue))
            });
            let taken = next.and_then(|(name, queue)| {
                let level = self.by_name.get_mut(&name)?;
                let waiting = level.queues.get_mut(&queue)?.waiting.pop_front()?;
                level.waiting -= 1;
                level.take(waiting.ticket);
                Some((waiting.ticket, waiting.waiter))
            });
            match taken {
                Some(taken) => dispatched.push(taken),
                None => return dispatched,
            }
        }
    }
}

impl<W> Level<W> {
    /// Returns true if the level is deleted and has no requests.
    fn is_over(&self) -> bool {
        self.config.is_none() && self.in_use == 0 && self.waiting == 0
    }

    fn use_of_own(&self) -> f64 {
        f64::from(self.in_use) / f64::from(self.nominal.max(1))
    }

    fn queue(&mut self, index: u32) -> &mut Queue<W> {
        let now = self.virtual_time;
        self.queues.entry(index).or_insert_with(|| Queue {
            waiting: VecDeque::new(),
            running: 0,
            used_virtual_time: now,
        })
    }

    /// Returns the queue whose first request goes next: the one with the least virtual time, then the oldest
    /// request.
    fn next(&self) -> Option<u32> {
        let waiting = self.queues.iter().filter(|(_, queue)| !queue.waiting.is_empty());
        let first = |queue: &Queue<W>| queue.waiting.front().map_or(u64::MAX, |one| one.ticket.ticket);
        let least = waiting.min_by(|(_, a), (_, b)| {
            a.used_virtual_time.total_cmp(&b.used_virtual_time).then(first(a).cmp(&first(b)))
        });
        least.map(|(index, _)| *index)
    }

    fn take(&mut self, place: QueueTicket) {
        self.in_use += place.seats;
        let now = self.virtual_time;
        let queue = self.queue(place.queue);
        queue.used_virtual_time = queue.used_virtual_time.max(now);
        let began = queue.used_virtual_time;
        queue.running += place.seats;
        queue.used_virtual_time += f64::from(place.seats) * ESTIMATE;
        self.virtual_time = self.virtual_time.max(began);
    }

    /// Removes the queue if it is unused: as in Kubernetes, the time that it has used is forgotten.
    fn forget(&mut self, index: u32) {
        let is_unused = |queue: &Queue<W>| queue.waiting.is_empty() && queue.running == 0;
        if self.queues.get(&index).is_some_and(is_unused) {
            self.queues.remove(&index);
        }
        if self.in_use == 0 && self.waiting == 0 {
            self.queues.clear();
        }
    }
}

/// Returns the shortest queue of a hand.
fn shortest<W>(level: &Level<W>, hand: impl Iterator<Item = u32>) -> u32 {
    hand.min_by_key(|queue| level.queues.get(queue).map_or(0, Queue::length)).unwrap_or(0)
}

/// Returns the queues of a flow's hand, without duplicates: always the same for the same flow.
fn hand(flow: u64, queuing: QueuingConfig) -> impl Iterator<Item = u32> {
    let (mut left, mut dealt) = (flow, Vec::<u32>::new());
    for i in 0..queuing.hand_size.min(queuing.queues) {
        let deck = u64::from(queuing.queues - i);
        let mut card = u32::try_from(left % deck).unwrap_or(0);
        left /= deck;
        // The deck excludes queues that are dealt already.
        let mut place = 0;
        while place < dealt.len() && dealt[place] <= card {
            card += 1;
            place += 1;
        }
        dealt.insert(place, card);
    }
    dealt.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn config(shares: u32, lendable_percent: u32) -> LevelConfig {
        let queuing = QueuingConfig { queues: 16, hand_size: 2, length_limit: 5 };
        LevelConfig { shares, lendable_percent, borrowing_percent: None, queuing: Some(queuing) }
    }

    fn levels(total: u32, configs: &[(&str, LevelConfig)]) -> PriorityLevels<&'static str> {
        let mut levels = PriorityLevels::new(total);
        levels.configure(&configs.iter().map(|(name, config)| ((*name).to_string(), *config)).collect());
        levels
    }

    fn runs(arrival: DispatchResult) -> QueueTicket {
        let DispatchResult::Runs(place) = arrival else { panic!("{arrival:?}") };
        place
    }

    #[test]
    fn seats_are_shared_and_what_is_lent_comes_back_api_17() {
        let mut levels = levels(10, &[("a", config(50, 100)), ("b", config(50, 40))]);
        let nominal: Vec<_> = levels.loads().map(|(name, load)| (name.to_string(), load.nominal)).collect();
        assert_eq!(nominal, [("a".to_string(), 5), ("b".to_string(), 5)]);
        // `b` keeps three of its five seats.
        let of_a: Vec<_> = (0..7).map(|_| runs(levels.arrive("a", 1, 1, "a"))).collect();
        assert!(matches!(levels.arrive("a", 1, 1, "a waits"), DispatchResult::Waits(_)));
        let of_b: Vec<_> = (0..3).map(|_| runs(levels.arrive("b", 1, 1, "b"))).collect();
        assert!(matches!(levels.arrive("b", 1, 1, "b waits"), DispatchResult::Waits(_)));
        let next = |dispatched: Vec<(QueueTicket, &'static str)>| {
            dispatched.into_iter().map(|(_, who)| who).collect::<Vec<_>>()
        };
        assert_eq!(
            next(levels.finish("a", of_a[0], MILLISECOND)),
            ["b waits"],
            "the level that uses less of its own share goes first"
        );
        assert_eq!(next(levels.finish("a", of_a[1], MILLISECOND)), ["a waits"]);
        assert_eq!(next(levels.finish("b", of_b[0], MILLISECOND)), Vec::<&str>::new());
    }

    #[test]
    fn a_level_borrows_no_more_than_it_may_api_17() {
        let mut borrower = config(50, 0);
        borrower.borrowing_percent = Some(20);
        borrower.queuing = None;
        let mut levels = levels(20, &[("a", borrower), ("b", config(50, 100))]);
        for _ in 0..12 {
            runs(levels.arrive("a", 1, 1, ""));
        }
        assert_eq!(levels.arrive("a", 1, 1, ""), DispatchResult::Refused(RejectReason::ConcurrencyLimit));
        assert_eq!(levels.arrive("none", 1, 1, ""), DispatchResult::Refused(RejectReason::ConcurrencyLimit));
    }

    #[test]
    fn a_flood_fills_its_own_queues_and_others_go_between_api_17() {
        let mut levels = levels(1, &[("a", config(1, 0))]);
        let first = runs(levels.arrive("a", 3, 1, "flood"));
        let mut waiting = 0;
        loop {
            match levels.arrive("a", 3, 1, "flood") {
                DispatchResult::Waits(_) => waiting += 1,
                arrival => break assert_eq!(arrival, DispatchResult::Refused(RejectReason::QueueFull)),
            }
        }
        assert_eq!(waiting, 10, "a hand of two queues of five");
        // Another flow has another hand of queues.
        for _ in 0..3 {
            assert!(matches!(levels.arrive("a", 7 + 16 * 9, 1, "other"), DispatchResult::Waits(_)));
        }
        let (mut order, mut running) = (Vec::new(), first);
        for _ in 0..6 {
            let (place, who) = levels.finish("a", running, MILLISECOND).pop().unwrap();
            order.push(who);
            running = place;
        }
        let others = order.iter().filter(|who| **who == "other").count();
        assert_eq!(others, 3, "{order:?}: all of the other's, before the rest of the flood");
    }

    #[test]
    fn a_flow_with_long_requests_waits_longer_api_17() {
        let mut levels = levels(1, &[("a", config(1, 0))]);
        let queues_of = |flow| {
            hand(flow, QueuingConfig { queues: 16, hand_size: 2, length_limit: 5 }).collect::<Vec<_>>()
        };
        let (slow, quick) = (3, 7 + 16 * 9);
        assert!(queues_of(slow).iter().all(|queue| !queues_of(quick).contains(queue)));
        let mut running = (runs(levels.arrive("a", slow, 1, "slow")), "slow");
        for _ in 0..2 {
            levels.arrive("a", slow, 1, "slow");
        }
        for _ in 0..5 {
            levels.arrive("a", quick, 1, "quick");
        }
        let mut order = Vec::new();
        for _ in 0..7 {
            let took = MILLISECOND * if running.1 == "slow" { 100 } else { 10 };
            running = levels.finish("a", running.0, took).pop().unwrap();
            order.push(running.1);
        }
        assert_eq!(order.iter().filter(|who| **who == "quick").count(), 5);
        assert!(order[..4].iter().filter(|who| **who == "quick").count() >= 3, "{order:?}");
    }

    #[test]
    fn cancelled_requests_are_dropped_and_a_removed_level_drains_its_queue_api_17() {
        let mut levels = levels(1, &[("a", config(1, 0))]);
        let first = runs(levels.arrive("a", 1, 1, "first"));
        let DispatchResult::Waits(second) = levels.arrive("a", 1, 1, "second") else { panic!() };
        let DispatchResult::Waits(_) = levels.arrive("a", 1, 1, "third") else { panic!() };
        for _ in 0..2 {
            assert!(levels.leave("a", second).is_empty());
            assert_eq!(levels.loads().next().unwrap().1.waiting, 1);
        }
        levels.configure(&BTreeMap::new());
        assert_eq!(levels.loads().count(), 1);
        let (third, who) = levels.finish("a", first, MILLISECOND).pop().unwrap();
        assert_eq!(who, "third");
        assert!(levels.finish("a", third, MILLISECOND).is_empty());
        levels.configure(&BTreeMap::new());
        assert_eq!(levels.loads().count(), 0);
    }

    #[test]
    fn seats_of_a_removed_level_become_free_api_17() {
        let all = BTreeMap::from([("a".to_string(), config(50, 0)), ("b".to_string(), config(50, 100))]);
        let mut levels = levels(20, &[("a", config(50, 0)), ("b", config(50, 100))]);
        let last = runs(levels.arrive("a", 1, 1, "last"));
        let left = all.into_iter().filter(|(name, _)| name == "b").collect();
        assert!(levels.configure(&left).is_empty());
        let of_b: Vec<_> = (0..19).map(|_| runs(levels.arrive("b", 1, 1, ""))).collect();
        assert!(matches!(levels.arrive("b", 1, 1, "next"), DispatchResult::Waits(_)));
        assert_eq!(levels.finish("a", last, MILLISECOND).len(), 1);
        assert_eq!(levels.loads().map(|(name, _)| name).collect::<Vec<_>>(), ["b"]);
        assert_eq!(of_b.len(), 19);
    }

    #[test]
    fn a_waiting_request_runs_once_its_level_gets_seats_api_17() {
        let none = LevelConfig { borrowing_percent: Some(0), ..config(0, 0) };
        let mut levels = levels(20, &[("a", none), ("b", config(1, 0))]);
        assert!(matches!(levels.arrive("a", 1, 1, "first"), DispatchResult::Waits(_)));
        let more = BTreeMap::from([("a".to_string(), config(10, 0)), ("b".to_string(), config(1, 0))]);
        let dispatched = levels.configure(&more);
        assert_eq!(dispatched.into_iter().map(|(_, who)| who).collect::<Vec<_>>(), ["first"]);
    }

    #[test]
    fn a_flow_that_was_idle_has_no_debt_api_17() {
        let mut levels = levels(1, &[("a", config(1, 0))]);
        let (slow, quick) = (3, 7 + 16 * 9);
        let long = runs(levels.arrive("a", slow, 1, "slow"));
        levels.arrive("a", quick, 1, "quick");
        let mut running = levels.finish("a", long, Duration::from_mins(1)).pop().unwrap().0;
        for _ in 0..10 {
            levels.arrive("a", quick, 1, "quick");
            running = levels.finish("a", running, Duration::from_secs(1)).pop().unwrap().0;
        }
        levels.arrive("a", slow, 1, "slow");
        for _ in 0..3 {
            levels.arrive("a", quick, 1, "quick");
        }
        assert_eq!(levels.finish("a", running, Duration::from_secs(1)).pop().unwrap().1, "slow");
    }

    #[test]
    fn wide_requests_take_many_seats_and_no_more_than_there_are_api_17() {
        let mut levels = levels(4, &[("a", config(1, 0))]);
        let wide = runs(levels.arrive("a", 1, 10, "wide"));
        assert_eq!(wide.seats, 4);
        assert!(matches!(levels.arrive("a", 2, 1, "narrow"), DispatchResult::Waits(_)));
        assert_eq!(levels.finish("a", wide, MILLISECOND).len(), 1);
    }

    /// Regression: the requests behind a wide one that timed out waited until another request ended.
    #[test]
    fn a_wide_request_that_leaves_lets_others_run_api_17() {
        let mut levels = levels(4, &[("a", config(1, 0))]);
        runs(levels.arrive("a", 1, 2, "running"));
        let DispatchResult::Waits(wide) = levels.arrive("a", 1, 4, "wide") else { panic!() };
        assert!(matches!(levels.arrive("a", 1, 1, "narrow"), DispatchResult::Waits(_)));
        let dispatched = levels.leave("a", wide);
        assert_eq!(dispatched.into_iter().map(|(_, who)| who).collect::<Vec<_>>(), ["narrow"]);
    }

    /// Regression: the request waited forever, because all other levels together held more seats than existed.
    #[test]
    fn a_wide_request_of_a_level_that_lends_goes_on_where_seats_are_few_api_17() {
        let others = ["b", "c", "d", "e"].map(|name| (name, config(10, 0)));
        let mut levels = levels(4, &[&[("a", config(40, 90))][..], &others].concat());
        let wide = runs(levels.arrive("a", 1, 10, "wide"));
        assert_eq!(wide.seats, 2);
        for (name, _) in others {
            runs(levels.arrive(name, 1, 1, "its own"));
        }
        assert!(matches!(levels.arrive("a", 1, 1, "next"), DispatchResult::Waits(_)));
        assert_eq!(levels.finish("a", wide, MILLISECOND).len(), 1);
    }

    #[test]
    fn a_hand_is_dealt_without_a_queue_twice_api_17() {
        let queuing = QueuingConfig { queues: 8, hand_size: 8, length_limit: 1 };
        for flow in [0, 1, u64::MAX, 12_345_678_901] {
            let mut dealt: Vec<u32> = hand(flow, queuing).collect();
            dealt.sort_unstable();
            assert_eq!(dealt, (0..8).collect::<Vec<_>>(), "{flow}");
        }
        let few = QueuingConfig { queues: 2, hand_size: 9, length_limit: 1 };
        assert_eq!(hand(5, few).count(), 2);
    }
}
