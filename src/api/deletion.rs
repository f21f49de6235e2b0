//! Deleting: at once, with a grace period, or after finalizers.
//!
//! A pod bound to a node is only marked; its kubelet removes it once every process is gone (SAFE-1).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;

use super::admission::{Attributes, Operation, Options, Subject};
use super::served_kinds::Defaults;
use super::write_refusal::write_refusal;
use super::{Api, ApiError, DeleteOptions, Propagation, Selection, admission, definitions};
pub use apimachinery::validate::metadata::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use base::clock;
use object::owner::is_terminating;
use object::{Body, Key, Kind, Object};
use store::WriteError;

/// Namespaces that every cluster has.
pub const PERMANENT_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];
/// The least grace period of a pod that is deleted without force: enough for its node to see the deletion
/// first.
const LEAST_GRACE_SECONDS: i64 = 1;
/// Kubernetes' default for a pod without a grace period.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// The result of a deletion.
#[derive(Clone, Debug)]
pub enum DeleteOutcome {
    /// The object is removed; its last version.
    Removed(Arc<Object>),
    /// The object is marked and will be removed when its grace period and its finalizers are done.
    Terminating(Arc<Object>),
}

impl DeleteOutcome {
    /// Returns the last version, or the marked one.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Removed(object) | Self::Terminating(object) => object,
        }
    }
}

/// The step that a deletion request requires.
#[derive(Debug, PartialEq)]
pub(super) enum DeletionAction {
    Remove,
    Mark(Box<Object>),
    Nothing,
}

/// Returns why no object of this name may be deleted, if that is so.
fn is_permanent(kind: Kind, name: &str) -> Option<&'static str> {
    match kind {
        Kind::Namespace if PERMANENT_NAMESPACES.contains(&name) => Some("this namespace may not be deleted"),
        Kind::PriorityClass if kinds::is_system_priority_class(name) => {
            Some("this is a system priority class and cannot be deleted")
        }
        _ => None,
    }
}

impl Api {
    /// Deletes an object, or marks it as terminating.
    pub fn delete(&self, kind: Kind, key: &Key, options: &DeleteOptions) -> Result<DeleteOutcome, ApiError> {
        self.delete_if(kind, key, options, |current| self.admit_deletion(current, options))
    }

    /// As [`Api::delete`], if `admit` allows it.
    pub(super) fn delete_if(
        &self,
        kind: Kind,
        key: &Key,
        options: &DeleteOptions,
        admit: impl Fn(&Object) -> Result<(), ApiError>,
    ) -> Result<DeleteOutcome, ApiError> {
        if let Some(why) = is_permanent(kind, &key.name) {
            return Err(ApiError::forbidden(kind, &key.name, why));
        }
        loop {
            let current = self.get(kind, key)?;
            options.check_preconditions(&current)?;
            admit(&current)?;
            let step = next_step(&current, options, self.server_clock().now());
            if options.dry_run {
                return Ok(match step {
                    DeletionAction::Remove => DeleteOutcome::Removed(current),
                    DeletionAction::Mark(marked) => DeleteOutcome::Terminating(Arc::new(*marked)),
                    DeletionAction::Nothing => DeleteOutcome::Terminating(current),
                });
            }
            let result = match step {
                DeletionAction::Nothing => return Ok(DeleteOutcome::Terminating(current)),
                DeletionAction::Remove => self.remove(&current).map(DeleteOutcome::Removed),
                DeletionAction::Mark(marked) => {
                    let marked = self.store().replace(*marked, current.revision());
                    marked.inspect(|marked| self.object_stored(marked)).map(DeleteOutcome::Terminating)
                }
            };
            match result {
                Err(WriteError::Conflict(_)) if options.resource_version.is_none() => {}
                other => return other.map_err(|e| write_refusal(e, kind, &key.name)),
            }
        }
    }

    /// Runs the configured admission policies and webhooks for a deletion.
    fn admit_deletion(&self, current: &Object, options: &DeleteOptions) -> Result<(), ApiError> {
        let attributes = Attributes {
            operation: Operation::Delete,
            resource: options.requested.unwrap_or_else(|| self.kinds().served_as(current)),
            subresource: "",
            namespace: if current.kind() == Kind::Namespace { current.name() } else { current.namespace() },
            name: current.name(),
            object: Subject::None,
            old_object: Subject::Object(current),
            options: Options::Delete(options),
            requester: self.requester(options.user.as_deref()),
        };
        admission::admit(self, &attributes)
    }

    /// Deletes every selected object of a kind in a namespace (or everywhere); returns them.
    pub fn delete_collection(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<Vec<Arc<Object>>, ApiError> {
        let mut deleted = Vec::new();
        let objects = self.list(kind, namespace).objects;
        let shown = match options.requested {
            // The selection applies to the version in which the client would see them.
            Some(served) if !selection.is_of_names() => {
                self.in_version_now(objects.clone(), served, Defaults::Filled)?
            }
            _ => objects.clone(),
        };
        for (object, shown) in objects.into_iter().zip(shown) {
            if !selection.matches(&shown) {
                continue;
            }
            match self.delete(kind, &object.key(), options) {
                Ok(gone) => deleted.push(gone.object().clone()),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }

    fn remove(&self, current: &Arc<Object>) -> Result<Arc<Object>, WriteError> {
        let last = self.store().remove(current.kind(), &current.key(), current.revision())?;
        self.release_unused_addresses(&last, None);
        self.object_stored(&last);
        Ok(last)
    }
}

/// Returns true if the object is terminating and nothing delays its removal any more.
pub(super) fn is_over(object: &Object) -> bool {
    is_terminating(object.meta()) && is_done(object)
}

pub(super) fn next_step(current: &Object, options: &DeleteOptions, now: Timestamp) -> DeletionAction {
    let mut next = current.clone();
    apply_propagation(&mut next, options);
    let grace = grace_seconds(current, options);
    let meta = next.meta_mut();
    match (&meta.deletion_timestamp, meta.deletion_grace_period_seconds) {
        // Already terminating: the remaining time may only become shorter.
        (Some(_), Some(left)) if grace >= left => {}
        (Some(at), Some(left)) => {
            let requested_at = at.0.checked_sub(jiff::SignedDuration::from_secs(left)).unwrap_or(at.0);
            let end = requested_at.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(at.0);
            meta.deletion_timestamp = Some(clock::time(end.max(now)));
            meta.deletion_grace_period_seconds = Some(grace);
        }
        (Some(_), None) => {}
        (None, _) => {
            definitions::mark_terminating(&mut next, now);
            let meta = next.meta_mut();
            let end = now.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(now);
            meta.deletion_timestamp = Some(clock::time(end));
            meta.deletion_grace_period_seconds = Some(grace);
            if let Some(generation) = meta.generation.as_mut() {
                *generation += 1;
            }
        }
    }
    if let Some(namespace) = next.get_mut::<Namespace>() {
        namespace.status.get_or_insert_default().phase = Some("Terminating".into());
    }
    if is_done(&next) {
        DeletionAction::Remove
    } else if next == *current {
        DeletionAction::Nothing
    } else {
        DeletionAction::Mark(Box::new(next))
    }
}

/// Sets the finalizer of the propagation policy and removes the other one. As in Kubernetes, the finalizer of an
/// earlier deletion comes before the kind's default.
fn apply_propagation(object: &mut Object, options: &DeleteOptions) {
    let is_propagation =
        |finalizer: &String| finalizer == FOREGROUND_FINALIZER || finalizer == ORPHAN_FINALIZER;
    let finalizers = object.meta().finalizers.as_deref().unwrap_or_default();
    let default = options.default_propagation.filter(|_| !finalizers.iter().any(is_propagation));
    let Some(propagation) = options.propagation.or(default) else { return };
    let desired = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND_FINALIZER),
        Propagation::Orphan => Some(ORPHAN_FINALIZER),
    };
    let finalizers = object.meta_mut().finalizers.get_or_insert_default();
    finalizers.retain(|finalizer| Some(finalizer.as_str()) == desired || !is_propagation(finalizer));
    if let Some(desired) = desired
        && !finalizers.iter().any(|f| f == desired)
    {
        finalizers.push(desired.into());
    }
    if finalizers.is_empty() {
        object.meta_mut().finalizers = None;
    }
}

/// Returns the grace period of a deletion. Only pods that a node may still run get a grace period: at least
/// [`LEAST_GRACE_SECONDS`], and zero only if the request itself demands it. A zero in the pod's spec does not
/// force: the node has to confirm that its processes have exited before a replacement may be created (SAFE-1,
/// STS-3).
fn grace_seconds(object: &Object, options: &DeleteOptions) -> i64 {
    let Body::Pod(pod) = object.body() else { return 0 };
    let spec = pod.spec.as_ref();
    let bound = spec.and_then(|s| s.node_name.as_ref()).is_some_and(|n| !n.is_empty());
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    if !bound || matches!(phase, Some("Succeeded" | "Failed")) {
        return 0;
    }
    match options.grace_period_seconds {
        Some(0) => 0,
        Some(requested) => requested.max(LEAST_GRACE_SECONDS),
        None => {
            let own = spec.and_then(|s| s.termination_grace_period_seconds).unwrap_or(DEFAULT_GRACE_SECONDS);
            own.max(LEAST_GRACE_SECONDS)
        }
    }
}

/// Returns true if nothing delays the removal of a terminating object: finalizers, a grace period, or a
/// namespace's content.
fn is_done(object: &Object) -> bool {
    let meta = object.meta();
    let held = meta.finalizers.as_ref().is_some_and(|f| !f.is_empty())
        || meta.deletion_grace_period_seconds.unwrap_or(0) > 0;
    match object.body() {
        Body::Namespace(namespace) => {
            let content = namespace.spec.as_ref().and_then(|s| s.finalizers.as_ref());
            !held && content.is_none_or(Vec::is_empty)
        }
        _ => !held,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(node: &str, phase: &str, extra_meta: &serde_json::Value) -> Object {
        let mut meta = json!({"name": "p", "namespace": "default", "uid": "u"});
        meta.as_object_mut().unwrap().extend(extra_meta.as_object().unwrap().clone());
        Object::from_value(
            Kind::Pod,
            json!({"metadata": meta, "spec": {"nodeName": node, "containers": [], "terminationGracePeriodSeconds": 30},
                "status": {"phase": phase}}),
        )
        .unwrap()
    }

    fn now() -> Timestamp {
        "2026-11-21T00:00:00Z".parse().unwrap()
    }

    fn marks(step: &DeletionAction) -> (Option<i64>, Option<String>, Vec<String>) {
        let DeletionAction::Mark(object) = step else { panic!("{step:?}") };
        let meta = object.meta();
        (
            meta.deletion_grace_period_seconds,
            meta.deletion_timestamp.as_ref().map(|t| t.0.to_string()),
            meta.finalizers.clone().unwrap_or_default(),
        )
    }

    #[test]
    fn only_a_pod_on_a_node_gets_time_pod_7() {
        let options = DeleteOptions::default();
        let (grace, at, _) = marks(&next_step(&pod("n", "Running", &json!({})), &options, now()));
        assert_eq!((grace, at.as_deref()), (Some(30), Some("2026-11-21T00:00:30Z")));
        for (node, phase) in [("", "Pending"), ("n", "Succeeded"), ("n", "Failed")] {
            assert_eq!(
                next_step(&pod(node, phase, &json!({})), &options, now()),
                DeletionAction::Remove,
                "{node} {phase}"
            );
        }
        let force = DeleteOptions { grace_period_seconds: Some(0), ..options };
        assert_eq!(next_step(&pod("n", "Running", &json!({})), &force, now()), DeletionAction::Remove);
    }

    /// A zero grace period in the spec removed a running pod's object at once.
    #[test]
    fn only_the_request_itself_forces_safe_1() {
        let with_own = |own: i64| {
            let mut object = pod("n", "Running", &json!({}));
            let spec = object.get_mut::<k8s_openapi::api::core::v1::Pod>().unwrap().spec.as_mut().unwrap();
            spec.termination_grace_period_seconds = Some(own);
            object
        };
        for (own, requested, expected) in
            [(0, None, 1), (-5, None, 1), (2, None, 2), (0, Some(-1), 1), (30, Some(-1), 1), (0, Some(7), 7)]
        {
            let options = DeleteOptions { grace_period_seconds: requested, ..DeleteOptions::default() };
            let (grace, _, _) = marks(&next_step(&with_own(own), &options, now()));
            assert_eq!(grace, Some(expected), "own {own}, asked {requested:?}");
        }
        let force = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        assert_eq!(next_step(&with_own(0), &force, now()), DeletionAction::Remove);
    }

    #[test]
    fn grace_can_only_be_shortened_pod_7() {
        let ending = pod(
            "n",
            "Running",
            &json!({"deletionTimestamp": "2026-11-21T00:00:20Z", "deletionGracePeriodSeconds": 30}),
        );
        let with_grace =
            |seconds| DeleteOptions { grace_period_seconds: Some(seconds), ..DeleteOptions::default() };
        assert_eq!(next_step(&ending, &with_grace(60), now()), DeletionAction::Nothing);
        let (grace, at, _) = marks(&next_step(&ending, &with_grace(15), now()));
        assert_eq!((grace, at.as_deref()), (Some(15), Some("2026-11-21T00:00:05Z")));
    }

    #[test]
    fn propagation_becomes_a_finalizer_gc_1() {
        let options = |p| DeleteOptions { propagation: Some(p), ..DeleteOptions::default() };
        for (policy, expected) in
            [(Propagation::Foreground, FOREGROUND_FINALIZER), (Propagation::Orphan, ORPHAN_FINALIZER)]
        {
            let (_, _, finalizers) =
                marks(&next_step(&pod("", "Pending", &json!({})), &options(policy), now()));
            assert_eq!(finalizers, [expected]);
        }
        let held = pod("", "Pending", &json!({"finalizers": ["orphan", "x/y"]}));
        let (_, _, finalizers) = marks(&next_step(&held, &options(Propagation::Background), now()));
        assert_eq!(finalizers, ["x/y"]);
    }

    /// Regression: a second deletion of a Job replaced the first one's foreground finalizer by the default.
    #[test]
    fn a_default_propagation_leaves_an_earlier_finalizer_gc_1() {
        let options =
            DeleteOptions { default_propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
        let finalizers = |before: &[&str]| {
            marks(&next_step(&pod("", "Pending", &json!({"finalizers": before})), &options, now())).2
        };
        assert_eq!(finalizers(&["x/y"]), ["x/y", "orphan"]);
        assert_eq!(finalizers(&["foregroundDeletion"]), ["foregroundDeletion"]);
        assert_eq!(finalizers(&["orphan"]), ["orphan"]);
    }

    /// SAFE-6: found by the simulator (seed 136). The last finalizer and the object are removed in one write:
    /// with two, a crash or a full disk in between left an object that no controller removed any more.
    #[tokio::test]
    async fn an_object_goes_with_its_last_finalizer_in_one_write_safe_6() {
        use k8s_openapi::api::core::v1::ConfigMap;
        use serde_json::json;

        let store = store::Store::ephemeral();
        let api = Api::new(store.clone(), base::clock::Clock::machine(), crate::ApiConfig::default());
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "c", "namespace": "n", "finalizers": ["example.com/wait"]}}),
        ] {
            api.create(Object::from_any_value(object).unwrap(), &crate::WriteOptions::default()).unwrap();
        }
        let key = Key::new("n", "c");
        let mut watcher = api.watch(Kind::ConfigMap, api.revision(), store::Visibility::Applied);
        api.delete(Kind::ConfigMap, &key, &DeleteOptions::default()).unwrap();
        store.faults().fail_after(Some(1));
        let freed = api.modify::<ConfigMap>(&key, |map| {
            map.metadata.finalizers = None;
            map.data = Some([("said".to_string(), "last".to_string())].into());
            Ok(())
        });
        assert!(freed.is_ok());
        assert!(api.get(Kind::ConfigMap, &key).unwrap_err().is_not_found());
        let events: Vec<_> = watcher.take().unwrap();
        assert_eq!(
            events.iter().map(|change| change.kind).collect::<Vec<_>>(),
            [store::ChangeKind::Modified, store::ChangeKind::Deleted]
        );
        let last = events[1].object.get::<ConfigMap>().unwrap();
        assert!(last.data.is_some(), "the deleted version includes the last write");
    }
}
