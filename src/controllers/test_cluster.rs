//! The cluster of this crate's tests: an API in memory on the manual clock, and the controllers that a test names.
//!
//! Tests that use it need `#[tokio::test(start_paused = true)]`. There are no nodes, and no kubelet changes a pod.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Namespace};
use serde_json::{Value, json};

use super::{Controllers, Settings};
use api::{Api, ApiConfig, WriteOptions};
use base::clock::Clock;
use base::task::Tasks;
use object::config::Limits;
use object::{Key, Object, SharedObject, TypedKind};
use reconcile::Caches;
use store::Store;

pub(crate) struct TestCluster {
    pub(crate) api: Api,
    pub(crate) caches: Caches,
    pub(crate) controllers: Controllers,
    tasks: Tasks,
}

impl TestCluster {
    /// Starts a cluster with the namespace `default` and only these controllers, by their names in the registry.
    pub(crate) fn start(names: &[&str]) -> Self {
        assert!(names.iter().all(|name| Controllers::names().any(|known| known == *name)), "{names:?}");
        let others = Controllers::names().filter(|name| !names.contains(name));
        let settings = Settings { disabled: others.map(Into::into).collect(), ..Settings::default() };
        let config = ApiConfig {
            // Pods need no nodes, and no accounts that a controller would have to create.
            limits: Limits { active_pods: Some(0), ..Limits::default() },
            disabled_admission: vec!["ServiceAccount".into()],
            ..ApiConfig::default()
        };
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let (api, tasks) = (Api::new(Store::ephemeral(), clock, config), Tasks::new());
        let caches = Caches::new(&api, &tasks);
        let controllers = Controllers::start(&api, &caches, &tasks, settings);
        let cluster = Self { api, caches, controllers, tasks };
        cluster.create::<Namespace>(json!({"metadata": {"name": "default"}}));
        cluster
    }

    /// Lets virtual time pass until there are no more writes.
    pub(crate) async fn settle(&self) {
        for _ in 0..2_000 {
            let before = self.api.revision();
            tokio::time::sleep(Duration::from_millis(30)).await;
            if self.api.revision() == before {
                return;
            }
        }
        panic!("the controllers never stop writing");
    }

    /// Lets this much virtual time pass, then settles.
    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.settle().await;
    }

    pub(crate) async fn stop(self) {
        self.controllers.stop().await;
        self.tasks.stop().await;
    }

    /// Creates an object from its manifest.
    pub(crate) fn create<T: TypedKind>(&self, manifest: Value) -> SharedObject<T> {
        let object = Object::from_value(T::kind(), manifest).unwrap();
        let created = self.api.create(object, &WriteOptions::default()).unwrap();
        SharedObject::from_object(&created).unwrap()
    }

    /// Returns the object with this name, in the namespace `default` if its kind is namespaced.
    pub(crate) fn get<T: TypedKind>(&self, name: &str) -> SharedObject<T> {
        self.api.get_as(&key::<T>(name)).unwrap()
    }

    /// Changes the object that [`TestCluster::get`] returns, except for its status.
    pub(crate) fn change<T: TypedKind>(&self, name: &str, mut edit: impl FnMut(&mut T)) {
        let changed = self.api.modify::<T>(&key::<T>(name), |value| {
            edit(value);
            Ok(())
        });
        changed.unwrap();
    }

    /// Returns the messages of events with this reason in the namespace `default`, oldest first.
    pub(crate) fn events(&self, reason: &str) -> Vec<String> {
        let mut events = self.api.list_as::<Event>(Some("default"));
        events.sort_by_key(|event| event.object().revision());
        let of_reason = events.iter().filter(|event| event.reason.as_deref() == Some(reason));
        of_reason.map(|event| event.message.clone().unwrap_or_default()).collect()
    }
}

/// Returns the key of an object of this kind in the namespace `default`.
pub(crate) fn key<T: TypedKind>(name: &str) -> Key {
    Key::new(if T::kind().namespaced() { "default" } else { "" }, name)
}
