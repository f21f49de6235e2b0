//! A model of one pod between two writers, the API's user and the kubelet's pass, with the watch and the node's host
//! beside them: it tries every interleaving of their steps.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{PendingUpdates, PodEvent, PodUpdate};
use object::{Revision, SharedObject};

/// A user's actions on the pod, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UserAction {
    Annotate,
    SetImage,
    /// Deletes it with a grace period: the kubelet removes the object.
    Delete,
    /// Deletes it at once.
    ForceDelete,
    /// Another client writes the status: a controller fails the pod.
    Fail,
}

/// The pod in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    revision: u64,
    annotation: u64,
    image: u64,
    deleted: bool,
    failed: bool,
    /// The running state in the kubelet's status.
    running: bool,
}

impl Object {
    fn shared(self) -> SharedObject<Pod> {
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": self.revision.to_string(),
                "annotations": {"a": self.annotation.to_string()}},
            "spec": {"containers": [{"name": "c", "image": self.image.to_string()}],
                "volumes": [{"name": "info", "downwardAPI": {"items": [
                    {"path": "a", "fieldRef": {"fieldPath": "metadata.annotations"}}]}}]},
            "status": {"phase": if self.failed { "Failed" } else if self.running { "Running" } else { "Pending" }},
        });
        if self.deleted {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T00:00:00Z");
        }
        SharedObject::from_value(serde_json::from_value(pod).unwrap())
    }

    fn read(pod: &Pod) -> Self {
        let text = |path: &str| {
            serde_json::to_value(pod)
                .unwrap()
                .pointer(path)
                .and_then(|v| v.as_str()?.parse().ok())
                .unwrap_or(0)
        };
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
        Self {
            revision: text("/metadata/resourceVersion"),
            annotation: text("/metadata/annotations/a"),
            image: text("/spec/containers/0/image"),
            deleted: pod.metadata.deletion_timestamp.is_some(),
            failed: phase == Some("Failed"),
            running: phase == Some("Running"),
        }
    }

    /// The fields that a kubelet acts upon.
    fn relevant_fields(self) -> (u64, bool, bool) {
        (self.image, self.deleted, self.failed)
    }
}

/// The progress of a pass.
#[derive(Clone, Debug)]
enum PassStage {
    /// It has requested the host to start or stop the container, by its input.
    Requested,
    /// The host has responded.
    Answered,
    /// Its status is written.
    Written,
}

#[derive(Clone, Debug)]
struct ModelState {
    object: Option<Object>,
    revision: u64,
    acts: Vec<UserAction>,
    /// Changes that the watch has not delivered yet; none is the deletion.
    watch: Vec<Option<Object>>,
    pending: Option<PendingUpdates>,
    pass: Option<(PassStage, PodUpdate)>,
    /// The version that the container on the node was created from.
    container: Option<u64>,
    volume_content: Option<u64>,
    /// The kubelet has removed the object: no container of the pod may start any more.
    ended: bool,
    /// The host has an event to deliver: the container ended by itself.
    may_exit: bool,
    exit_reported: bool,
    trace: Vec<&'static str>,
}

type Key = (Option<Object>, usize, Vec<Option<Object>>, String);

impl ModelState {
    fn new(acts: &[UserAction]) -> Self {
        let object =
            Object { revision: 1, annotation: 0, image: 0, deleted: false, failed: false, running: false };
        Self {
            object: Some(object),
            revision: 1,
            acts: acts.iter().rev().copied().collect(),
            watch: vec![Some(object)],
            pending: None,
            pass: None,
            container: None,
            volume_content: None,
            ended: false,
            may_exit: true,
            exit_reported: false,
            trace: Vec::new(),
        }
    }

    fn key(&self) -> Key {
        let pending = self
            .pending
            .as_ref()
            .map(|i| (Object::read(&i.pod), i.deleted, i.changed, format!("{:?}", i.events)));
        let pass = self.pass.as_ref().map(|(step, taken)| {
            (format!("{step:?}"), Object::read(&taken.pod), taken.deleted, format!("{:?}", taken.events))
        });
        let rest = format!(
            "{pending:?} {pass:?} {:?} {:?} {} {} {}",
            self.container, self.volume_content, self.may_exit, self.exit_reported, self.ended
        );
        (self.object, self.acts.len(), self.watch.clone(), rest)
    }

    /// A write of the API: the next revision, delivered to the watch.
    fn write(&mut self, change: impl FnOnce(&mut Object)) {
        let Some(object) = &mut self.object else { return };
        let before = *object;
        change(object);
        if *object != before {
            self.revision += 1;
            object.revision = self.revision;
            self.watch.push(Some(*object));
        }
    }

    fn remove(&mut self) {
        if self.object.take().is_some() {
            self.revision += 1;
            self.watch.push(None);
        }
    }

    /// Returns the states that one step of any actor leads to.
    fn next(&self) -> Vec<ModelState> {
        let mut all = Vec::new();
        let mut step = |name: &'static str, change: &dyn Fn(&mut ModelState)| {
            let mut world = self.clone();
            change(&mut world);
            world.trace.push(name);
            all.push(world);
        };
        if let Some(act) = self.acts.last() {
            step("user", &|world| {
                world.acts.pop();
                match act {
                    UserAction::Annotate => world.write(|o| o.annotation += 1),
                    UserAction::SetImage => world.write(|o| o.image += 1),
                    UserAction::Delete => world.write(|o| o.deleted = true),
                    UserAction::Fail => world.write(|o| o.failed = true),
                    UserAction::ForceDelete => world.remove(),
                }
            });
        }
        if !self.watch.is_empty() {
            step("watch", &|world| match world.watch.remove(0) {
                Some(object) => match &mut world.pending {
                    Some(pending) => pending.pod_updated(&object.shared()),
                    // Like `PodWorkers::see`, this ignores a pod that the API no longer has.
                    None if world.object.is_some() => {
                        world.pending = Some(PendingUpdates::new(object.shared()));
                    }
                    None => {}
                },
                None => {
                    if let Some(pending) = &mut world.pending {
                        pending.object_deleted();
                    }
                }
            });
        }
        if self.may_exit && self.container.is_some() {
            step("exit", &|world| {
                // The host restarts it here, so that only the report matters.
                (world.may_exit, world.exit_reported) = (false, true);
            });
        }
        if self.exit_reported && self.pending.is_some() {
            step("host tells", &|world| {
                world.exit_reported = false;
                world.pending.as_mut().unwrap().push(PodEvent::Resync);
            });
        }
        match (&self.pending, &self.pass) {
            (Some(pending), None) if pending.is_dirty() => step("pass", &|world| {
                world.pass = Some((PassStage::Requested, world.pending.as_mut().unwrap().take()));
            }),
            (Some(_), Some(_)) => step("pass goes on", &ModelState::go_on),
            _ => {}
        }
        all
    }

    fn go_on(&mut self) {
        let (step, taken) = self.pass.take().unwrap();
        let planned = Object::read(&taken.pod);
        let ends = taken.deleted || planned.deleted || planned.failed;
        match step {
            PassStage::Requested => {
                assert!(ends || !self.ended, "a pod that has ended runs again: {:#?}", self.trace);
                self.container = (!ends).then_some(planned.image);
                if !ends
                    && (self.volume_content.is_none()
                        || taken.events.iter().any(|n| matches!(n, PodEvent::Refresh)))
                {
                    self.volume_content = Some(planned.annotation);
                }
                self.pass = Some((PassStage::Answered, taken));
            }
            PassStage::Answered => {
                let onto = self.object.map(|object| object.revision);
                if let (Some(onto), false) = (onto, taken.deleted) {
                    let running = self.container.is_some();
                    self.write(|object| object.running = running && !object.failed);
                    let written = self.object.unwrap().shared();
                    self.pending.as_mut().unwrap().wrote(Revision(onto), &written);
                }
                self.pass = Some((PassStage::Written, taken));
            }
            PassStage::Written if taken.deleted => self.pending = None,
            PassStage::Written if planned.deleted => {
                self.remove();
                (self.pending, self.ended) = (None, true);
            }
            PassStage::Written => {}
        }
    }

    /// No actor has work left: the requested state must be reached.
    fn check(&self) {
        let trace = || format!("{:#?}", self.trace);
        let Some(object) = self.object else {
            assert!(self.container.is_none(), "the object is gone and its container runs: {}", trace());
            assert!(self.pending.is_none(), "the object is gone and its slot is left: {}", trace());
            return;
        };
        assert!(!object.deleted, "the object is deleted and no actor ends it: {}", trace());
        let known = Object::read(self.pending.as_ref().expect("a pod that lives is in the table").pod());
        assert_eq!(
            known.relevant_fields(),
            object.relevant_fields(),
            "the newest version is not known: {}",
            trace()
        );
        let expected = (!object.failed).then_some(object.image);
        assert_eq!(self.container, expected, "the newest version was not planned for: {}", trace());
        if !object.failed {
            assert_eq!(
                self.volume_content,
                Some(object.annotation),
                "the volume shows an old annotation: {}",
                trace()
            );
        }
    }
}

/// In any order of the user's writes, the pass's steps, the watch and the host, a deleted pod is removed in the end,
/// and for a live pod the newest version is planned.
#[test]
fn any_interleaving_of_create_delete_status_write_and_host_answer_ends_with_the_pod_gone() {
    use UserAction::{Annotate, Delete, Fail, ForceDelete, SetImage};
    let scripts: [&[UserAction]; 9] = [
        &[Delete],
        &[ForceDelete],
        &[Annotate],
        &[SetImage],
        &[Fail],
        &[Annotate, Delete],
        &[SetImage, Annotate],
        &[Fail, Delete],
        &[Delete, ForceDelete],
    ];
    let mut seen_of = BTreeMap::new();
    for script in scripts {
        let mut seen = BTreeSet::new();
        let mut open = vec![ModelState::new(script)];
        while let Some(world) = open.pop() {
            if !seen.insert(world.key()) {
                continue;
            }
            let next = world.next();
            if next.is_empty() {
                world.check();
            }
            open.extend(next);
        }
        seen_of.insert(format!("{script:?}"), seen.len());
    }
    assert!(seen_of.values().all(|states| *states > 50), "{seen_of:?}");
}
