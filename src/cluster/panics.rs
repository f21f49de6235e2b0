//! Reports contained panics: a component that panics continues after the failed attempt, but the failure must not be
//! silent.
//!
//! Each panic is logged when it happens, counted as `podium_panics_total` in `/metrics`, and recorded as an event of
//! the namespace `kube-system`.

use std::collections::BTreeMap;

use api::Api;
use base::panics::{PanicSource, Panics};
use base::task::Tasks;
use k8s_openapi::api::core::v1::Namespace;
use object::Key;
use reconcile::Recorder;

pub(super) fn start(api: &Api, tasks: &Tasks) {
    let api = api.acting_as("podium-self-check");
    tasks.spawn("panics", run(api));
}

async fn run(api: Api) {
    let recorder = Recorder::new(&api, "podium-self-check");
    let mut receiver = api.contained().subscribe();
    let mut reported = BTreeMap::new();
    loop {
        receiver.borrow_and_update();
        let all = api.contained().all();
        for (part, panics) in &all {
            report_panic(&api, &recorder, *part, panics, reported.get(part));
        }
        reported = all;
        if receiver.changed().await.is_err() {
            return;
        }
    }
}

fn report_panic(
    api: &Api,
    recorder: &Recorder,
    (what, name): PanicSource,
    panics: &Panics,
    reported: Option<&Panics>,
) {
    let more = panics.count - reported.map_or(0, |reported| reported.count);
    if more == 0 {
        return;
    }
    api.metrics().self_checks().panicked(what, name, more);
    // Without the namespace there is no object for the event; the log has the panic.
    if let Ok(namespace) = api.get_as::<Namespace>(&Key::new("", "kube-system")) {
        let message = format!("The {what} {name:?} panicked and continues: {}", panics.last);
        recorder.warning(namespace.object(), "Panicked", message);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use api::ApiConfig;
    use base::clock::Clock;
    use k8s_openapi::api::core::v1::{ConfigMap, Event};
    use reconcile::{Caches, Controller, ReconcileError, Reconciler};
    use store::Store;

    use super::*;

    /// Panics on the key `bad` until `remaining` is 0.
    struct PanickingReconciler {
        remaining: AtomicU32,
        done: tokio::sync::watch::Sender<Vec<String>>,
    }

    impl Reconciler for PanickingReconciler {
        type Key = Key;

        fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
            let left = self.remaining.load(Ordering::SeqCst);
            if &*key.name == "bad" && left > 0 {
                self.remaining.store(left - 1, Ordering::SeqCst);
                panic!("index out of bounds");
            }
            self.done.send_modify(|done| done.push(key.name.clone()));
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_panicking_controller_continues_and_is_reported_safe_6() {
        let clock = Clock::starting_at("2026-11-24T00:00:00Z".parse().unwrap());
        let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
        let metadata = |namespace: &str, name: &str| Key::new(namespace, name).metadata();
        for name in ["default", "kube-system"] {
            let namespace = Namespace { metadata: metadata("", name), ..Namespace::default() };
            api.create_as(namespace).unwrap();
        }
        let tasks = Tasks::noting(api.contained());
        let caches = Caches::new(&api, &tasks);
        start(&api, &tasks);
        let done = tokio::sync::watch::Sender::new(Vec::new());
        let mut finished = done.subscribe();
        let unsteady = |_| PanickingReconciler { remaining: AtomicU32::new(2), done };
        Controller::new("unsteady", &caches, unsteady).for_::<ConfigMap>().run(&tasks);
        for name in ["bad", "good"] {
            let map = ConfigMap { metadata: metadata("default", name), ..ConfigMap::default() };
            api.create_as(map).unwrap();
        }
        let done = finished.wait_for(|done| done.iter().any(|name| name == "bad")).await.unwrap().clone();
        assert_eq!(done.first().map(String::as_str), Some("good"), "another object does not wait for it");
        api.clock().sleep(Duration::from_secs(1)).await;
        let events = api.list_as::<Event>(None);
        let reported: Vec<_> = events
            .iter()
            .filter(|event| event.reason.as_deref() == Some("Panicked"))
            .filter_map(|event| event.message.clone())
            .collect();
        assert_eq!(reported, [r#"The controller "unsteady" panicked and continues: index out of bounds"#]);
        tasks.stop().await;
    }
}
