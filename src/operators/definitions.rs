//! Applies the definitions of Podium's own kinds, again after each change by a user, as operators do.
//!
//! A changed spec is reverted; labels and annotations are the user's. A version in which objects may be stored stays in
//! the definition, unserved, as long as `status.storedVersions` has it. A deleted definition returns after it and the
//! objects of its kind are gone.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
};
use tokio::sync::Notify;

use api::controller_status::Subsystem;
use api::{Api, ApiError};
use base::task::Tasks;
use object::owner::is_terminating;
use object::{Key, Kind};
use reconcile::{Caches, WorkLoop, ignore_not_found, optional};

/// The delay before a failed write is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Applies the definitions until `tasks` end.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks) {
    let changed = Arc::new(Notify::new());
    let notified = changed.clone();
    caches.on_any_change(Kind::CustomResourceDefinition, move |change| {
        if extension::owns(&change.object) {
            notified.notify_one();
        }
    });
    let api = api.acting_as("podium-extension");
    let rounds = WorkLoop::start(&api, "own-definitions", Subsystem::Cluster, tasks);
    let controller = Definitions { api, changed, rounds };
    tasks.spawn_restarting("own-definitions", move || controller.clone().run());
}

/// Applies a definition: creates it, or gives it the desired spec. One that is being deleted stays as it is.
pub fn apply(api: &Api, desired: &CustomResourceDefinition) -> Result<(), ApiError> {
    let key = Key::of(&desired.metadata);
    match optional(api.get_as::<CustomResourceDefinition>(&key))? {
        None => api.create_as(desired.clone()).map(drop),
        Some(stored) if is_terminating(&stored.metadata) => Ok(()),
        Some(_) => ignore_not_found(api.modify::<CustomResourceDefinition>(&key, |stored| {
            stored.spec = spec_for(stored, desired);
            Ok(())
        })),
    }
}

/// Returns the desired spec, with the versions of the stored definition in which objects may be stored.
fn spec_for(
    stored: &CustomResourceDefinition,
    desired: &CustomResourceDefinition,
) -> CustomResourceDefinitionSpec {
    let names = stored.status.iter().flat_map(|status| status.stored_versions.iter().flatten());
    let names: Vec<&String> = names.collect();
    let is_desired = |name: &str| desired.spec.versions.iter().any(|version| version.name == name);
    let others = stored
        .spec
        .versions
        .iter()
        .filter(|version| names.contains(&&version.name) && !is_desired(&version.name));
    let mut spec = desired.spec.clone();
    spec.versions.extend(others.map(|version| CustomResourceDefinitionVersion {
        served: false,
        storage: false,
        ..version.clone()
    }));
    spec
}

#[derive(Clone)]
struct Definitions {
    api: Api,
    changed: Arc<Notify>,
    rounds: Arc<WorkLoop>,
}

impl Definitions {
    async fn run(self) {
        loop {
            let is_applied = self.apply_all();
            tokio::select! {
                () = self.changed.notified() => {}
                () = self.api.clock().sleep_if_some((!is_applied).then_some(RETRY_INTERVAL)) => {}
            }
        }
    }

    /// Returns true if all definitions are applied.
    fn apply_all(&self) -> bool {
        let mut is_applied = true;
        for desired in extension::definitions() {
            let name = desired.metadata.name.clone().unwrap_or_default();
            let round = self.rounds.begin(name.as_str());
            let outcome = apply(&self.api, desired);
            if let Err(error) = &outcome {
                tracing::warn!("cannot apply CustomResourceDefinition {name}: {error}");
                is_applied = false;
            }
            round.ends(outcome);
        }
        is_applied
    }
}
