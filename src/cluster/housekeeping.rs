//! Chores: events expire, watch history is compacted.

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;

use crate::api::{Api, DeleteOptions};
use crate::base::clock::since;
use crate::base::task::Tasks;
use crate::object::{Kind, Revision};

/// How often the chores are done, unless watch history is kept for a short time only.
const EVERY: Duration = Duration::from_mins(1);
/// How many times while a change is kept it is looked for those that are too old.
const LOOKS: u32 = 5;

pub(super) fn start(api: &Api, tasks: &Tasks) {
    let api = api.clone();
    tasks.spawn_restarting("housekeeping", move || run(api.clone()));
}

async fn run(api: Api) {
    let keep = api.timings().watch_history.0;
    let every = EVERY.min(keep / LOOKS).max(Duration::from_millis(1));
    let mut seen: VecDeque<(Duration, Revision)> = VecDeque::new();
    loop {
        api.clock().sleep(every).await;
        expire_events(&api);
        let now = api.clock().monotonic();
        seen.push_back((now, api.revision()));
        while let Some((_, revision)) = seen.pop_front_if(|(at, _)| now.saturating_sub(*at) >= keep) {
            api.compact(revision);
        }
    }
}

/// Removes events that last happened longer ago than events are kept (API-11).
fn expire_events(api: &Api) {
    let (now, keep) = (api.clock().now(), api.timings().event_time_to_live.0);
    for event in api.list_as::<Event>(None) {
        let last = event.last_timestamp.as_ref().or(event.metadata.creation_timestamp.as_ref());
        if last.is_some_and(|last| since(now, last.0) > keep) {
            // Fails only when it is gone already.
            let _ = api.delete(Kind::Event, &event.key(), &DeleteOptions::uid(event.uid()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ApiConfig;
    use crate::base::clock::Clock;
    use crate::store::Store;
    use k8s_openapi::api::core::v1::Namespace;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    /// RELIABILITY-FOUND 14, API-4: history is bounded by time, as etcd's is.
    #[tokio::test(start_paused = true)]
    async fn changes_are_kept_for_five_minutes() {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(Store::ephemeral(), clock.clone(), ApiConfig::default());
        let tasks = Tasks::new();
        start(&api, &tasks);
        let resumed = || api.watch(Kind::Namespace, Revision(0), crate::api::Visibility::Applied).take();
        let metadata = ObjectMeta { name: Some("default".into()), ..ObjectMeta::default() };
        api.create_as(Namespace { metadata, ..Namespace::default() }).unwrap();
        clock.sleep(Duration::from_secs(290)).await;
        assert_eq!(resumed().unwrap().len(), 1);
        clock.sleep(Duration::from_secs(80)).await;
        assert!(resumed().is_err(), "a watch from before gets 410");
        tasks.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_kept_for_an_hour_api_11() {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(Store::ephemeral(), clock.clone(), ApiConfig::default());
        let meta = |name: &str| ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        api.create_as(Namespace { metadata: meta("default"), ..Namespace::default() }).unwrap();
        let tasks = Tasks::new();
        start(&api, &tasks);
        let last_timestamp = Some(clock.time());
        api.create_as(Event { metadata: meta("e"), last_timestamp, ..Event::default() }).unwrap();
        clock.sleep(Duration::from_secs(3590)).await;
        assert_eq!(api.count(Kind::Event), 1);
        clock.sleep(Duration::from_mins(2)).await;
        assert_eq!(api.count(Kind::Event), 0);
        tasks.stop().await;
    }
}
