//! Chores: events expire, watch history is compacted.

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;

use crate::api::{Api, DeleteOptions};
use crate::base::clock::since;
use crate::base::task::Tasks;
use crate::object::{Kind, Revision};

/// How often the chores are done.
const EVERY: Duration = Duration::from_mins(1);
/// Watch history is kept for so many rounds: five minutes, as Kubernetes compacts.
const HISTORY_ROUNDS: usize = 5;

pub(super) fn start(api: &Api, tasks: &Tasks) {
    let api = api.clone();
    tasks.spawn_restarting("housekeeping", move || run(api.clone()));
}

async fn run(api: Api) {
    let mut rounds: VecDeque<Revision> = VecDeque::new();
    loop {
        api.clock().sleep(EVERY).await;
        expire_events(&api);
        rounds.push_back(api.revision());
        if rounds.len() > HISTORY_ROUNDS
            && let Some(oldest) = rounds.pop_front()
        {
            api.compact(oldest);
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
