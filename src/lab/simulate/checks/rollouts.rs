//! Rollout bounds (DEP-2), and controllers that create more than their specs desire (SAFE-6).
//!
//! More pods than the bounds allow are wrong at any time. Too few are wrong only while no cause but the rollout removes
//! pods: from the time at which a Deployment was complete until a client scales it or a fault occurs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::History;
use crate::simulate::plan::Bounds;
use base::count::counted;
use object::owner::controller_of;
use object::pod::{is_ready, is_terminal};
use object::{Key, Kind, Object, Uid};

/// The time without faults after which every component has observed the removal of a pod that no rollout removed.
const SETTLES: Duration = Duration::from_secs(2);

/// The checker's state for Deployments.
#[derive(Default)]
pub(crate) struct Rollouts(Mutex<State>);

#[derive(Default)]
struct State {
    limits: BTreeMap<Key, RolloutLimits>,
    /// Deployments that were complete, and that no client or fault has disturbed since.
    steady: BTreeSet<Key>,
    /// The largest `spec.replicas` that each ReplicaSet ever had.
    max_sizes: BTreeMap<Uid, i64>,
    /// Until this instant, a Deployment's observed status may date from before the removal of pods, so it does not show
    /// that the Deployment is complete.
    unsettled_until: Option<Instant>,
    /// The number of faults under way that run each controller twice: both copies may create the missing pods.
    twins: usize,
    /// True until the first fault of a simulation that begins without faults. Meanwhile too few pods are a violation,
    /// too.
    is_calm: bool,
}

#[derive(Clone, Copy)]
struct RolloutLimits {
    /// The maximum number of replicas that was ever requested, since old ReplicaSets may still have that size.
    max_replicas: i64,
    now: i64,
    bounds: Bounds,
}

impl Bounds {
    /// Returns `maxSurge` and `maxUnavailable`.
    pub(crate) fn numbers(self) -> (i64, i64) {
        match self {
            Self::Surge => (1, 0),
            Self::Unavailable => (0, 1),
        }
    }
}

impl Rollouts {
    /// Records that a client creates a Deployment, or changes it, with this number of replicas.
    pub(crate) fn record_request(&self, key: &Key, replicas: i64, bounds: Bounds) {
        let mut state = self.0.lock();
        let limits = state.limits.entry(key.clone()).or_insert(RolloutLimits {
            max_replicas: replicas,
            now: replicas,
            bounds,
        });
        limits.max_replicas = limits.max_replicas.max(replicas);
        if limits.now != replicas {
            limits.now = replicas;
            state.steady.remove(key);
        }
    }

    /// Records that a client scales a Deployment, if the Deployment is known.
    pub(crate) fn scaled(&self, key: &Key, replicas: i64) {
        let bounds = self.0.lock().limits.get(key).map(|limits| limits.bounds);
        if let Some(bounds) = bounds {
            self.record_request(key, replicas, bounds);
        }
    }

    /// Records that a client deletes a Deployment.
    pub(crate) fn deleted(&self, key: &Key) {
        self.0.lock().steady.remove(key);
    }

    /// Records the start or the end of a fault that runs each controller twice; another one may still be under way.
    pub(crate) fn set_twins(&self, run: bool) {
        let mut state = self.0.lock();
        state.twins = if run { state.twins + 1 } else { state.twins.saturating_sub(1) };
    }

    /// Records that the simulation begins without faults.
    pub(crate) fn begin_calm(&self) {
        self.0.lock().is_calm = true;
    }

    /// Records that a fault begins.
    pub(crate) fn end_calm(&self) {
        self.0.lock().is_calm = false;
    }

    /// Records that a cause other than a rollout removes pods.
    pub(crate) fn disturbed(&self) {
        let mut state = self.0.lock();
        state.steady.clear();
        state.unsettled_until = Some(Instant::now() + SETTLES);
    }

    /// Records a changed object. Returns the violations that the change reveals.
    pub(crate) fn changed(&self, object: &Arc<Object>, history: &History) -> Vec<String> {
        let mut wrong = Vec::new();
        let is_calm = self.0.lock().is_calm;
        match object.kind() {
            Kind::Deployment => self.deployment_changed(object),
            Kind::ReplicaSet => {
                let size = object.get::<ReplicaSet>().and_then(|set| set.spec.replicas).unwrap_or(1);
                let mut state = self.0.lock();
                let most = state.max_sizes.entry(object.uid().into()).or_default();
                *most = (*most).max(i64::from(size));
                drop(state);
                wrong.extend(self.too_large(object, history));
            }
            Kind::Pod => {
                wrong.extend(self.too_many(object, history));
                if is_calm {
                    wrong.extend(self.too_few(object, history));
                }
            }
            _ => {}
        }
        wrong
    }

    fn deployment_changed(&self, object: &Arc<Object>) {
        let Some(deployment) = object.get::<Deployment>() else { return };
        let mut state = self.0.lock();
        let key = object.key();
        let is_going = deployment.metadata.deletion_timestamp.is_some();
        let is_desired = state.limits.get(&key).is_none_or(|limits| {
            deployment.spec.replicas.is_none_or(|replicas| i64::from(replicas) == limits.now)
        });
        let is_settled = state.unsettled_until.is_none_or(|until| Instant::now() >= until);
        if is_complete(deployment) && is_desired && is_settled && !is_going {
            state.steady.insert(key);
        } else if is_going || deployment.metadata.generation == Some(1) {
            // Generation 1 means that this is a new Deployment with the name of an earlier one.
            state.steady.remove(&key);
        }
    }

    /// Compares the total size of a Deployment's ReplicaSets with the maximum that its bounds allow.
    fn too_large(&self, object: &Arc<Object>, history: &History) -> Option<String> {
        let owner = controller_of(object.meta())?;
        let key = Key::new(object.namespace(), owner.name.as_str());
        let limits = *self.0.lock().limits.get(&key)?;
        let of_owner = history.objects(Kind::ReplicaSet).into_iter().filter(|set| {
            controller_of(set.meta()).is_some_and(|o| o.uid == owner.uid)
                && set.meta().deletion_timestamp.is_none()
        });
        let sizes = of_owner
            .map(|set| i64::from(set.get::<ReplicaSet>().and_then(|set| set.spec.replicas).unwrap_or(1)));
        let (total, surge) = (sizes.sum::<i64>(), limits.bounds.numbers().0);
        (total > limits.max_replicas + surge).then(|| {
            let most = limits.max_replicas;
            format!(
                "the ReplicaSets of {key} have {}; at most {most} were requested, and maxSurge is {surge}",
                counted(total, "replica")
            )
        })
    }

    /// Compares the number of a ReplicaSet's pods with the largest size it ever had.
    fn too_many(&self, object: &Arc<Object>, history: &History) -> Option<String> {
        let owner = controller_of(object.meta()).filter(|owner| owner.kind == "ReplicaSet")?;
        let count = history.objects(Kind::Pod).iter().filter(|pod| is_active_of(pod, &owner.uid)).count();
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut state = self.0.lock();
        let twins = state.twins > 0;
        let most = state.max_sizes.get_mut(owner.uid.as_str())?;
        if twins {
            *most = count.max(*most);
        }
        let most = *most;
        (count > most).then(|| {
            format!(
                "ReplicaSet {}/{} has {}, but never requested more than {most}",
                object.namespace(),
                owner.name,
                counted(count, "pod")
            )
        })
    }

    fn too_few(&self, object: &Arc<Object>, history: &History) -> Option<String> {
        let app = object.meta().labels.as_ref()?.get("app")?;
        let key = Key::new(object.namespace(), app.as_str());
        let state = self.0.lock();
        let limits = *state.limits.get(&key).filter(|_| state.steady.contains(&key))?;
        drop(state);
        let serves = |pod: &Arc<Object>| {
            pod.namespace() == object.namespace()
                && pod.meta().labels.as_ref().and_then(|labels| labels.get("app")) == Some(app)
                && pod.meta().deletion_timestamp.is_none()
                && pod.get::<Pod>().is_some_and(is_ready)
        };
        let serving = i64::try_from(history.objects(Kind::Pod).iter().filter(|pod| serves(pod)).count());
        let (serving, least) = (serving.unwrap_or(i64::MAX), limits.now - limits.bounds.numbers().1);
        (serving < least)
            .then(|| format!("{key} has {}; at least {least} must be", counted(serving, "ready pod")))
    }
}

fn is_active_of(pod: &Arc<Object>, owner: &str) -> bool {
    pod.meta().deletion_timestamp.is_none()
        && controller_of(pod.meta()).is_some_and(|o| o.uid == owner)
        && pod.get::<Pod>().is_some_and(|pod| !is_terminal(pod))
}

/// Returns true if the Deployment's status shows the size and the template of its spec.
pub(super) fn is_complete(deployment: &Deployment) -> bool {
    let desired = deployment.spec.replicas.unwrap_or(1);
    let Some(status) = &deployment.status else { return false };
    status.observed_generation == deployment.metadata.generation
        && [status.replicas, status.updated_replicas, status.available_replicas]
            .iter()
            .all(|count| count.unwrap_or(0) == desired)
}

#[cfg(test)]
mod tests {
    use api::{Change, ChangeKind};
    use serde_json::json;

    use super::*;

    const OWNER: &str = "11111111-1111-1111-1111-111111111111";

    fn observe<T: object::TypedKind + serde::de::DeserializeOwned>(
        rollouts: &Rollouts,
        history: &History,
        revision: u64,
        mut value: serde_json::Value,
    ) -> Vec<String> {
        value["metadata"]["resourceVersion"] = json!(revision.to_string());
        let object = Arc::new(Object::new(serde_json::from_value::<T>(value).unwrap()));
        let change = Change::new(object::Revision(revision), ChangeKind::Added, object.clone(), None);
        assert_eq!(history.changed(&change), None);
        rollouts.changed(&object, history)
    }

    #[test]
    fn controllers_that_run_twice_do_so_until_the_last_fault_is_over_fault_3() {
        let (rollouts, history) = (Rollouts::default(), History::default());
        let set = json!({"metadata": {"name": "web", "namespace": "open", "uid": OWNER},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}});
        assert_eq!(observe::<ReplicaSet>(&rollouts, &history, 1, set), Vec::<String>::new());
        let pod = |number: u64| {
            let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": OWNER,
                "controller": true});
            let name = format!("web-{number}");
            let pod = json!({"metadata": {"name": name, "namespace": "open", "ownerReferences": [owner]}});
            observe::<Pod>(&rollouts, &history, number, pod)
        };
        assert_eq!(pod(2), Vec::<String>::new());
        rollouts.set_twins(true);
        rollouts.set_twins(true);
        assert_eq!(pod(3), Vec::<String>::new());
        rollouts.set_twins(false);
        assert_eq!(pod(4), Vec::<String>::new(), "the other fault goes on");
        rollouts.set_twins(false);
        assert_eq!(pod(5).len(), 1, "a surplus pod is a violation again");
    }
}
