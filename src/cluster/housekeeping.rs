//! Chores: removes expired and surplus events, and compacts the watch history.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use api::controller_status::Subsystem;
use api::{Api, DeleteOptions};
use base::clock::{saturating_after, since};
use base::sort::SliceOrder;
use base::task::Tasks;
use object::{Kind, Revision, SharedObject};
use reconcile::WorkLoop;

/// The interval of the chores, unless the watch history covers only a short time.
const EVERY: Duration = Duration::from_mins(1);
/// The number of checks for expired changes during the time that a change is retained.
const LOOKS: u32 = 5;

/// The interval at which surplus events are checked.
const COUNT_EVENTS_EVERY: Duration = Duration::from_secs(5);
/// The number of retained events, unless `limits.events` sets it.
const EVENTS: usize = 10_000;

/// Starts the removal of expired changes from the watch history and of surplus events.
pub fn start(api: &Api, tasks: &Tasks) {
    let keeper = api.clone();
    let rounds = WorkLoop::start(api, "housekeeping", Subsystem::Cluster, tasks);
    tasks.spawn_restarting("housekeeping", move || run(keeper.clone(), rounds.clone()));
    let most = api.config().limits.events.unwrap_or(EVENTS);
    if most > 0 {
        let api = api.clone();
        let rounds = WorkLoop::start(&api, "events-limit", Subsystem::Cluster, tasks);
        tasks.spawn_restarting("events-limit", move || hold_events(api.clone(), most, rounds.clone()));
    }
}

/// Removes the events that last happened longest ago, so that at most `most` remain.
async fn hold_events(api: Api, most: usize, rounds: Arc<WorkLoop>) {
    loop {
        api.clock().sleep(COUNT_EVENTS_EVERY).await;
        let too_many = api.count(Kind::Event).saturating_sub(most);
        if too_many == 0 {
            continue;
        }
        let round = rounds.begin(format!("{too_many} events above the limit"));
        let mut events = api.list_as::<Event>(None);
        let latest = latest_time(&api);
        events.order_by_cached_key(|event| last_happened(event, latest));
        for event in events.iter().take(too_many) {
            remove(&api, event);
        }
        round.ends(Ok::<(), &str>(()));
    }
}

fn remove(api: &Api, event: &SharedObject<Event>) {
    // The deletion fails only if the event is already deleted.
    let _ = api.delete(Kind::Event, &event.key(), &DeleteOptions::uid(event.uid()));
}

/// Returns the latest time that counts as an event's. Clients write these times, and a node's clock may be ahead.
fn latest_time(api: &Api) -> Timestamp {
    saturating_after(api.clock().now(), api.timings().event_ttl.0)
}

/// Returns the time at which an event last happened. Times after `latest` do not count.
fn last_happened(event: &Event, latest: Timestamp) -> Option<Timestamp> {
    let of_series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let of_clients = [of_series.map(|time| time.0), event.last_timestamp.as_ref().map(|time| time.0)];
    let last = of_clients.into_iter().flatten().filter(|time| *time <= latest).max();
    last.or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

async fn run(api: Api, rounds: Arc<WorkLoop>) {
    let keep = api.timings().watch_history_retention.0;
    let every = EVERY.min(keep / LOOKS).max(Duration::from_millis(1));
    let mut seen: VecDeque<(Duration, Revision)> = VecDeque::new();
    loop {
        api.clock().sleep(every).await;
        let round = rounds.begin("expired events and watch history");
        expire_events(&api);
        let now = api.clock().monotonic();
        seen.push_back((now, api.revision()));
        while let Some((_, revision)) = seen.pop_front_if(|(at, _)| now.saturating_sub(*at) >= keep) {
            api.compact(revision);
        }
        round.ends(Ok::<(), &str>(()));
    }
}

/// Removes events that last happened longer ago than the retention time (API-11).
fn expire_events(api: &Api) {
    let (now, keep, latest) = (api.clock().now(), api.timings().event_ttl.0, latest_time(api));
    for event in api.list_as::<Event>(None) {
        if last_happened(&event, latest).is_some_and(|last| since(now, last) > keep) {
            remove(api, &event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::ApiConfig;
    use base::clock::Clock;
    use k8s_openapi::api::core::v1::{EventSeries, Namespace};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
    use store::Store;

    /// History is bounded by time, as etcd's is (API-4).
    #[tokio::test(start_paused = true)]
    async fn changes_stay_available_for_five_minutes() {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(Store::ephemeral(), clock.clone(), ApiConfig::default());
        let tasks = Tasks::new();
        start(&api, &tasks);
        let resumed = || api.watch(Kind::Namespace, Revision(0), api::Visibility::Applied).take();
        let metadata = ObjectMeta { name: Some("default".into()), ..ObjectMeta::default() };
        api.create_as(Namespace { metadata, ..Namespace::default() }).unwrap();
        clock.sleep(Duration::from_secs(290)).await;
        assert_eq!(resumed().unwrap().len(), 1);
        clock.sleep(Duration::from_secs(80)).await;
        assert!(resumed().is_err(), "a watch from before gets 410");
        tasks.stop().await;
    }

    /// SAFE-10: a busy cluster records a hundred events a second; an hour of them would fill the memory.
    #[tokio::test(start_paused = true)]
    async fn the_oldest_events_make_room_for_newer_ones_safe_10() {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let limits = object::config::Limits { events: Some(10), ..Default::default() };
        let api = Api::new(Store::ephemeral(), clock.clone(), ApiConfig { limits, ..ApiConfig::default() });
        let meta = |name: String| ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        api.create_as(Namespace { metadata: meta("default".into()), ..Namespace::default() }).unwrap();
        let tasks = Tasks::new();
        start(&api, &tasks);
        for n in 0..15 {
            let last_timestamp = Some(Time(clock.now() - Duration::from_secs(100 - n)));
            api.create_as(Event { metadata: meta(format!("e{n}")), last_timestamp, ..Event::default() })
                .unwrap();
        }
        // The oldest event occurs once more.
        api.modify::<Event>(&object::Key::new("default", "e0"), |event| {
            event.last_timestamp = Some(clock.time());
            Ok(())
        })
        .unwrap();
        clock.sleep(COUNT_EVENTS_EVERY * 2).await;
        let mut remaining: Vec<String> =
            api.list_as::<Event>(None).iter().map(|event| event.key().name).collect();
        remaining.sort();
        assert_eq!(remaining, ["e0", "e10", "e11", "e12", "e13", "e14", "e6", "e7", "e8", "e9"]);
        tasks.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_deleted_after_an_hour_api_11() {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(Store::ephemeral(), clock.clone(), ApiConfig::default());
        let meta = |name: &str| ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        api.create_as(Namespace { metadata: meta("default"), ..Namespace::default() }).unwrap();
        let tasks = Tasks::new();
        start(&api, &tasks);
        let last_timestamp = Some(clock.time());
        api.create_as(Event { metadata: meta("e"), last_timestamp, ..Event::default() }).unwrap();
        // An event of events.k8s.io that occurs again after half an hour.
        let last_observed_time = Some(MicroTime(clock.now() + Duration::from_mins(30)));
        let series = Some(EventSeries { count: Some(2), last_observed_time });
        api.create_as(Event { metadata: meta("series"), series, ..Event::default() }).unwrap();
        // A client's time in the far future does not preserve an event.
        let last_timestamp = Some(Time("9999-01-01T00:00:00Z".parse().unwrap()));
        api.create_as(Event { metadata: meta("future"), last_timestamp, ..Event::default() }).unwrap();
        clock.sleep(Duration::from_secs(3590)).await;
        assert_eq!(api.count(Kind::Event), 3);
        clock.sleep(Duration::from_mins(2)).await;
        assert_eq!(api.count(Kind::Event), 1);
        clock.sleep(Duration::from_mins(30)).await;
        assert_eq!(api.count(Kind::Event), 0);
        tasks.stop().await;
    }
}
