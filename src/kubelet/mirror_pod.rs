//! Mirror pods: they show static pods in the API. They are read-only views: changes to a mirror do not reach the pod,
//! and a deleted mirror is created again.

use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use api::{Api, ApiError, DeleteOptions};
use object::pod::{is_from_file, is_mirror};
use object::well_known::annotation::MIRROR_POD;
use object::{Key, Kind, Revision, SharedObject};
use reconcile::ignore_gone;

pub(super) const HASH: &str = "kubernetes.io/config.hash";
pub(super) const SEEN: &str = "kubernetes.io/config.seen";

/// Returns true if the pod came from a manifest of its node.
pub(super) fn is_static(pod: &Pod) -> bool {
    is_from_file(pod) && !is_mirror(pod)
}

/// The static pod that an object of the API mirrors, by its hash.
pub(super) fn hash(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(MIRROR_POD).map(String::as_str)
}

/// The kubelet's knowledge of a static pod's mirror. A pass may write the status while the watch reports a change: a
/// mirror that is deleted meanwhile must not be taken for the one that was written.
#[derive(Clone, Debug, Default)]
pub(super) struct Mirror {
    /// The mirror's object.
    pub(super) object: Option<SharedObject<Pod>>,
    /// The newest revision of it that was observed.
    last_revision: Revision,
    /// Counts the observed changes.
    change_count: u64,
}

impl Mirror {
    /// The mirror that existed before any change was observed.
    pub(super) fn of(object: Option<SharedObject<Pod>>) -> Self {
        Self { object, ..Self::default() }
    }

    /// Notes that the mirror was created or changed; returns true if this version is new.
    pub(super) fn mirror_changed(&mut self, mirror: &SharedObject<Pod>) -> bool {
        let news = self.object.as_ref().is_none_or(|known| mirror.revision() > known.revision());
        self.record(mirror);
        if news {
            self.object = Some(mirror.clone());
        }
        news
    }

    /// Notes that a mirror was deleted; returns true if it was the pod's current mirror.
    pub(super) fn mirror_deleted(&mut self, mirror: &SharedObject<Pod>) -> bool {
        let this = self.object.as_ref().is_none_or(|known| known.uid() == mirror.uid());
        self.record(mirror);
        if this {
            self.object = None;
        }
        this
    }

    /// Stores the mirror that a pass which started from `known` has left. If the watch has reported changes since then,
    /// they are newer, unless the pass has created another mirror.
    pub(super) fn keep(&mut self, known: &Self, object: Option<SharedObject<Pod>>) {
        let made = object.as_ref().is_some_and(|mirror| {
            mirror.revision() > self.last_revision
                && known.object.as_ref().is_none_or(|old| old.uid() != mirror.uid())
        });
        if made || self.change_count == known.change_count {
            self.object = object;
        }
    }

    fn record(&mut self, mirror: &SharedObject<Pod>) {
        self.change_count += 1;
        self.last_revision = self.last_revision.max(mirror.revision());
    }
}

/// Creates the mirror of a static pod.
pub(super) fn create(api: &Api, pod: &SharedObject<Pod>, node: &str) -> Result<SharedObject<Pod>, ApiError> {
    let mut annotations = pod.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(MIRROR_POD.into(), pod.uid().into());
    let owner = api.get_as::<NodeObject>(&Key::new("", node)).ok().map(|node| OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: node.name().into(),
        uid: node.uid().into(),
        controller: Some(true),
        ..OwnerReference::default()
    });
    api.create_as(Pod {
        metadata: ObjectMeta {
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            labels: pod.metadata.labels.clone(),
            annotations: Some(annotations),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: pod.spec.clone(),
        status: None,
    })
}

/// Removes a mirror without a grace period: a mirror has no processes.
pub(super) fn remove(api: &Api, mirror: &SharedObject<Pod>) -> Result<(), ApiError> {
    let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::uid(mirror.uid()) };
    ignore_gone(api.delete(Kind::Pod, &mirror.key(), &options))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mirror(text: &str) -> SharedObject<Pod> {
        let (uid, revision) = text.split_at(1);
        let metadata = json!({"name": "web", "uid": uid, "resourceVersion": revision});
        SharedObject::from_value(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    /// `+` is a pod that the watch shows, `-` a deletion, `=` the result of the pass (`=` alone: no pod); a letter is a
    /// uid, a number a revision.
    #[test]
    fn watch_events_during_a_pass_are_not_lost_pod_15() {
        for (case, known, meanwhile, expected) in [
            ("its own write", "a1", "=a2", "a2"),
            ("its own write, heard first", "a1", "+a2 =a2", "a2"),
            ("its own write, heard later", "a1", "=a2 +a2", "a2"),
            ("a client deletes it", "a1", "+a3 =a2", "a3"),
            ("a client deletes it, nothing was written", "a1", "+a2 =a1", "a2"),
            ("it goes", "a1", "+a2 -a3 =a1", ""),
            ("it goes, known by an old version only", "a1", "-a1 =a2", ""),
            ("another is made", "a1", "-a2 =b3", "b3"),
            ("another is made, heard first", "a1", "-a2 +b3 =b3", "b3"),
            ("another is made and deleted", "a1", "-a2 +b3 +b4 =b3", "b4"),
            ("another is made and gone", "a1", "-a2 +b3 -b5 =b3", ""),
            ("it is found gone", "a1", "=", ""),
            ("it is found gone, but there is another", "a1", "+b4 =", "b4"),
            ("there was none", "", "=a2", "a2"),
        ] {
            let mut now = Mirror::of((!known.is_empty()).then(|| mirror(known)));
            let known = now.clone();
            for word in meanwhile.split(' ') {
                let (what, version) = word.split_at(1);
                match what {
                    "+" => drop(now.mirror_changed(&mirror(version))),
                    "-" => drop(now.mirror_deleted(&mirror(version))),
                    _ => now.keep(&known, (!version.is_empty()).then(|| mirror(version))),
                }
            }
            let result = now.object.map(|m| format!("{}{}", m.uid(), m.revision())).unwrap_or_default();
            assert_eq!(result, expected, "{case}");
        }
    }
}
