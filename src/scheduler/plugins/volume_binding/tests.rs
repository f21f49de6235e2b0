//! Claims and volumes in scenarios: the filtering, reservations and preparation by VolumeBinding.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::VolumeBinding;

use crate::core::CoreAction;
use crate::framework::Attempt;
use crate::plugins::PrioritySort;
use crate::plugins::test_volumes::{claim, volume, with_claim};
use crate::profile::Profile;
use crate::test_cluster::Cluster;
use crate::test_objects::node;
use object::SharedObject;

/// Nodes `a` and `b`, each with its name as label `host`, and the classes `late`, `hand` and `now`.
fn cluster() -> Cluster {
    cluster_with(Profile::default())
}

fn cluster_with(profile: Profile) -> Cluster {
    let one = |name: &str| {
        node(json!({"metadata": {"name": name, "labels": {"host": name}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}))
    };
    let mut cluster = Cluster::with_profile(&[one("a"), one("b")], profile);
    for (name, mode, provisioner) in [
        ("late", "WaitForFirstConsumer", "podium.dev/directory"),
        ("hand", "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
        ("now", "Immediate", "podium.dev/directory"),
    ] {
        cluster.class(
            &json!({"metadata": {"name": name}, "volumeBindingMode": mode, "provisioner": provisioner}),
        );
    }
    cluster
}

fn of_class(name: &str, class: &str) -> Value {
    claim(name, &json!({"spec": {"storageClassName": class}}))
}

const NOT_HELPFUL: &str = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";

#[test]
fn a_claim_that_cannot_be_used_keeps_its_pod_waiting_sch_3() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}});
    let bound = |volume: &str| claim("c", &json!({"spec": {"volumeName": volume}}));
    let mut lost = bound("gone");
    lost["status"]["phase"] = json!("Lost");
    for (given, reason) in [
        (None, "persistentvolumeclaim \"c\" not found"),
        (Some(claim("c", &going)), "persistentvolumeclaim \"c\" is being deleted"),
        (Some(lost), "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"gone\""),
        (Some(of_class("c", "now")), "pod has unbound immediate PersistentVolumeClaims"),
        (Some(of_class("c", "")), "pod has unbound immediate PersistentVolumeClaims"),
        (Some(bound("gone")), "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
        (Some(of_class("c", "hand")), "2 node(s) didn't find available persistent volumes to bind"),
    ] {
        let mut cluster = cluster();
        if let Some(claim) = &given {
            cluster.claim(claim);
        }
        cluster.pod("p", with_claim("c"));
        assert_eq!(cluster.step(), format!("p: 0/2 nodes are available: {reason}. {NOT_HELPFUL}"));
    }
    let mut cluster = cluster();
    let own = json!({"volumes": [{"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]});
    cluster.pod("p", own.clone());
    let waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-own\"";
    assert_eq!(cluster.step(), format!("p: 0/2 nodes are available: {waiting}. {NOT_HELPFUL}"));
    cluster.after(60).claim(&of_class("p-own", "late"));
    let outcome = cluster.step();
    assert!(
        outcome.contains("PVC default/p-own was not created for pod default/p (pod is not owner)"),
        "{outcome}"
    );
}

#[test]
fn a_pod_follows_its_bound_volume_sch_3() {
    let mut cluster = cluster();
    cluster.claim(&claim("c", &json!({"spec": {"volumeName": "v"}})));
    cluster.volume(&volume("v", "1Gi", "", "b"));
    cluster.pod("p", with_claim("c"));
    assert_eq!(cluster.step(), "p -> b");
    cluster.claim(&claim("d", &json!({"spec": {"volumeName": "w"}})));
    cluster.volume(&volume("w", "1Gi", "", "c"));
    cluster.pod("q", with_claim("d"));
    assert_eq!(
        cluster.step(),
        format!("q: 0/2 nodes are available: 2 node(s) had volume node affinity conflict. {NOT_HELPFUL}")
    );
    // Only changes of its own claims wake it.
    cluster.after(60).claim(&of_class("another", "late"));
    assert_eq!(cluster.step(), "-");
    cluster.volume(&volume("w", "1Gi", "", "a"));
    assert_eq!(cluster.step(), "q -> a");
}

#[test]
fn a_waiting_claim_gets_the_smallest_volume_of_its_pods_node_vol_2() {
    let mut cluster = cluster();
    for (name, size, host) in [("big", "9Gi", "b"), ("small", "2Gi", "b"), ("tiny", "1Mi", "a")] {
        cluster.volume(&volume(name, size, "hand", host));
    }
    for name in ["c", "d", "e"] {
        cluster.claim(&of_class(name, "hand"));
        cluster.pod(&format!("pod-{name}"), with_claim(name));
    }
    assert_eq!(cluster.step(), "pod-c -> b");
    // The reservation for the first pod excludes others, although no volume shows it yet.
    let Some(CoreAction::Bind { attempt, node }) = cluster.core.step(cluster.now) else {
        panic!("big is left")
    };
    assert_eq!((attempt.pod.uid(), &*node), ("pod-d", "b"));
    let outcome = cluster.step();
    assert!(
        outcome.starts_with("pod-e: 0/2 nodes are available: 2 node(s) didn't find available"),
        "{outcome}"
    );
    // A pod that is not placed after all releases its volume, and so does a deleted one.
    cluster.core.bind_failed(attempt, cluster.now);
    cluster.after(60).volume(&volume("big", "9Gi", "hand", "b"));
    let mut next: Vec<String> = vec![cluster.step(), cluster.step()];
    next.sort();
    assert_eq!(next[0], "pod-d -> b");
    assert!(next[1].starts_with("pod-e: 0/2"), "{next:?}");
    cluster.core.pod_deleted("pod-c", cluster.now);
    cluster.after(60).volume(&volume("small", "2Gi", "hand", "b"));
    assert_eq!(cluster.step(), "pod-e -> b");
}

#[test]
fn a_volume_is_made_where_the_class_allows_vol_2() {
    let mut cluster = cluster();
    cluster.class(&json!({"metadata": {"name": "only-b"}, "volumeBindingMode": "WaitForFirstConsumer",
        "provisioner": "x", "allowedTopologies": [{"matchLabelExpressions": [{"key": "host", "values": ["b"]}]}]}));
    cluster.claim(&of_class("c", "only-b"));
    cluster.pod("p", with_claim("c"));
    assert_eq!(cluster.step(), "p -> b");
    // Another pod with the same claim follows, while the claim itself does not show it yet.
    cluster.claim(&of_class("shared", "late"));
    cluster.pod("first", with_claim("shared"));
    let first = cluster.step();
    let place = first.strip_prefix("first -> ").unwrap().to_string();
    for n in 0..3 {
        let name = format!("other-{n}");
        cluster.pod(&name, with_claim("shared"));
        assert_eq!(cluster.step(), format!("{name} -> {place}"));
    }
    // The node chosen before a restart still applies.
    let mut chosen = of_class("d", "late");
    chosen["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!("a");
    cluster.claim(&chosen);
    cluster.pod("q", with_claim("d"));
    assert_eq!(cluster.step(), "q -> a");
}

#[test]
fn pods_without_claims_cost_nothing_and_bound_ones_anywhere_neither_sch_3() {
    let mut cluster = cluster();
    cluster.claim(&claim("c", &json!({"spec": {"volumeName": "v"}})));
    cluster.volume(&volume("v", "1Gi", "", ""));
    for (name, spec) in [("plain", json!({})), ("bound", with_claim("c"))] {
        let mut spec = spec;
        spec["nodeSelector"] = json!({"host": "nowhere"});
        cluster.pod(name, spec);
        cluster.step();
        let verdict = cluster.verdicts.lock().get(name).unwrap();
        let plugins: Vec<&str> = verdict
            .table
            .rows()
            .flat_map(|row| row.verdicts().map(|(p, _)| p.name()).collect::<Vec<_>>())
            .collect();
        assert!(!plugins.contains(&"VolumeBinding"), "{name}: {plugins:?}");
    }
}

/// An event in a cluster with pending claims.
#[derive(Clone, Debug)]
enum Event {
    Volume { name: u8, size: u8, host: u8 },
    Pod { name: u8, size: u8 },
    Fails(u8),
    Deleted(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..8u8, 1..6u8, 0..3u8).prop_map(|(name, size, host)| Event::Volume { name, size, host }),
        4 => (0..8u8, 1..5u8).prop_map(|(name, size)| Event::Pod { name, size }),
        1 => (0..8u8).prop_map(Event::Fails),
        1 => (0..8u8).prop_map(Event::Deleted),
    ]
}

/// A cluster and a model of it by the rules.
struct Model {
    cluster: Cluster,
    plugin: Arc<VolumeBinding>,
    /// Size and host (`None`: every node) by volume.
    volumes: BTreeMap<String, (u8, Option<&'static str>)>,
    /// The requested size by claim.
    claims: BTreeMap<String, u8>,
    /// Decided pods that are not bound yet, with the volume reserved for each.
    decided: BTreeMap<String, (Attempt, String)>,
}

impl Model {
    fn new() -> Self {
        let plugin = Arc::new(VolumeBinding::default());
        let profile = Profile::of(vec![Arc::new(PrioritySort), plugin.clone()]);
        let cluster = cluster_with(profile);
        let (volumes, claims, decided) = Default::default();
        Self { cluster, plugin, volumes, claims, decided }
    }

    fn apply_event(&mut self, event: &Event) {
        match event {
            // Reserved volumes do not change meanwhile.
            Event::Volume { name, .. } if self.decided.values().any(|(_, v)| *v == format!("v{name}")) => {}
            Event::Volume { name, size, host } => {
                let (name, host) = (format!("v{name}"), ["", "a", "b"][usize::from(*host)]);
                self.cluster.volume(&volume(&name, &format!("{size}Gi"), "hand", host));
                self.volumes.insert(name, (*size, Some(host).filter(|h| !h.is_empty())));
            }
            Event::Pod { name, .. } if self.claims.contains_key(&format!("p{name}")) => {}
            Event::Pod { name, size } => {
                let name = format!("p{name}");
                let more = json!({"spec": {"storageClassName": "hand",
                    "resources": {"requests": {"storage": format!("{size}Gi")}}}});
                self.cluster.claim(&claim(&name, &more));
                self.cluster.pod(&name, with_claim(&name));
                self.claims.insert(name, *size);
            }
            Event::Fails(name) => {
                if let Some((attempt, _)) = self.decided.remove(&format!("p{name}")) {
                    self.cluster.core.bind_failed(attempt, self.cluster.now);
                }
            }
            Event::Deleted(name) => {
                let name = format!("p{name}");
                self.cluster.core.pod_deleted(&name, self.cluster.now);
                self.decided.remove(&name);
                self.claims.remove(&name);
            }
        }
    }

    /// Returns the volumes a claim of this size could get on a node, smallest first.
    fn free(&self, size: u8, node: &str) -> Vec<(u8, String)> {
        let promised: Vec<&String> = self.decided.values().map(|(_, volume)| volume).collect();
        let fits = |(name, (has, host)): (&String, &(u8, Option<&str>))| {
            let free = *has >= size && host.is_none_or(|h| h == node) && !promised.contains(&name);
            free.then(|| (*has, name.clone()))
        };
        let mut free: Vec<_> = self.volumes.iter().filter_map(fits).collect();
        free.sort();
        free
    }

    /// Compares every due decision with the rules.
    fn decide(&mut self) {
        self.cluster.after(20);
        while let Some(step) = self.cluster.core.step(self.cluster.now) {
            match step {
                CoreAction::Bind { attempt, node } => {
                    let name = attempt.pod.uid().to_string();
                    let reserved = self.plugin.account.lock().reserved(&attempt.pod).unwrap();
                    let [(_, promised)] = reserved.choice.bind.as_slice() else { panic!("{reserved:?}") };
                    let free = self.free(self.claims[&name], &node);
                    assert_eq!(free.first().map(|(size, _)| *size), Some(self.volumes[promised].0), "{name}");
                    assert!(free.iter().any(|(_, volume)| volume == promised), "{promised} was not free");
                    self.decided.insert(name, (attempt, promised.clone()));
                }
                CoreAction::Unschedulable { pod, message, .. } => {
                    let size = self.claims[pod.uid()];
                    for node in ["a", "b"] {
                        assert_eq!(self.free(size, node), [], "{} could go to {node}: {message}", pod.uid());
                    }
                }
                CoreAction::Failed { message, .. } | CoreAction::Panicked { message, .. } => {
                    panic!("{message}")
                }
            }
        }
    }
}

proptest! {
    /// VOL-2, SCH-3: after any history, a pod gets the smallest free volume of its node, and waits only if no node
    /// has one.
    #[test]
    fn no_pod_gets_a_volume_reserved_for_another_vol_2(events in prop::collection::vec(event(), 1..40)) {
        let mut model = Model::new();
        for event in &events {
            model.apply_event(event);
            model.decide();
        }
    }
}

/// VOL-2: PreBind writes a reservation once, waits for the binding, and gives up if the reservation is withdrawn.
#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_after_its_claims_vol_2() {
    use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

    use crate::framework::{Binding, Plugin, PreBind, PreFilter};
    use crate::state::pod_info::PodInfo;
    use crate::state::snapshot::Snapshot;
    use crate::test_objects::named_pod;
    use api::{Api, ApiConfig, WriteOptions};
    use base::clock::Clock;
    use object::storage::{BIND_COMPLETED, SELECTED_NODE};
    use object::{Key, Kind, Object};
    use store::Store;

    let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
    let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
    let create = |kind, value: Value| {
        api.create(Object::from_value(kind, value).unwrap(), &WriteOptions::default()).unwrap()
    };
    create(Kind::Namespace, json!({"metadata": {"name": "default"}}));
    create(Kind::Node, json!({"metadata": {"name": "a", "labels": {"host": "a"}}}));
    for (name, provisioner) in [("hand", "kubernetes.io/no-provisioner"), ("late", "podium.dev/directory")] {
        create(
            Kind::StorageClass,
            json!({"metadata": {"name": name}, "volumeBindingMode": "WaitForFirstConsumer",
                "provisioner": provisioner}),
        );
    }
    let mut by_hand = volume("v", "2Gi", "hand", "a");
    by_hand["spec"]["hostPath"] = json!({"path": "/srv"});
    create(Kind::PersistentVolume, by_hand);
    let key = Key::new("default", "c");
    api.modify_status::<PersistentVolume>(&Key::new("", "v"), |v| {
        v.status.get_or_insert_default().phase = Some("Available".into());
        Ok(())
    })
    .unwrap();
    create(Kind::PersistentVolumeClaim, of_class("c", "hand"));
    create(Kind::PersistentVolumeClaim, of_class("d", "late"));

    let mut snapshot = Snapshot::new();
    snapshot.set_node(api.get_as(&Key::new("", "a")).unwrap());
    let storage = snapshot.storage_mut();
    api.list_as(None).into_iter().for_each(|class| storage.set_class(class));
    api.list_as(None).into_iter().for_each(|volume| storage.set_volume(volume));
    api.list_as(None).into_iter().for_each(|claim| storage.set_claim(claim));
    let plugin = VolumeBinding::default();
    let mut spec = with_claim("c");
    let second = json!({"name": "more", "persistentVolumeClaim": {"claimName": "d"}});
    spec["volumes"].as_array_mut().unwrap().push(second);
    let pod = PodInfo::new(named_pod("p", spec));
    {
        let PreFilter::Check(check) = plugin.pre_filter(&pod, &snapshot) else {
            panic!("it has something to say")
        };
        check.check(&snapshot.nodes()[0]).unwrap();
    }
    plugin.reserve(&pod, &snapshot.nodes()[0]).unwrap();
    let binding = Binding { api: &api, pod: &pod, node: "a" };
    assert_eq!(plugin.pre_bind(&binding), Ok(PreBind::Wait(plugin.bind_timeout)));
    let bound: SharedObject<PersistentVolume> = api.get_as(&Key::new("", "v")).unwrap();
    assert_eq!(bound.spec.as_ref().unwrap().claim_ref.as_ref().unwrap().name.as_deref(), Some("c"));
    let chosen: SharedObject<PersistentVolumeClaim> = api.get_as(&Key::new("default", "d")).unwrap();
    assert_eq!(chosen.metadata.annotations.as_ref().unwrap()[SELECTED_NODE], "a");
    let revision = api.revision();
    assert_eq!(plugin.pre_bind(&binding), Ok(PreBind::Wait(plugin.bind_timeout)));
    assert_eq!(api.revision(), revision, "nothing is written twice");

    for (key, volume) in [(&key, "v"), (&Key::new("default", "d"), "pvc-d")] {
        api.modify::<PersistentVolumeClaim>(key, |claim| {
            claim.spec.as_mut().unwrap().volume_name = Some(volume.into());
            claim.metadata.annotations.get_or_insert_default().insert(BIND_COMPLETED.into(), "yes".into());
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(plugin.pre_bind(&binding), Ok(PreBind::Wait(plugin.bind_timeout)), "pvc-d is not there yet");
    let mut made = volume("pvc-d", "1Gi", "late", "");
    made["spec"]["hostPath"] = json!({"path": "/d"});
    create(Kind::PersistentVolume, made);
    assert_eq!(plugin.pre_bind(&binding), Ok(PreBind::Ready));

    api.modify::<PersistentVolumeClaim>(&Key::new("default", "d"), |claim| {
        claim.metadata.annotations.as_mut().unwrap().remove(SELECTED_NODE);
        Ok(())
    })
    .unwrap();
    let taken_back = plugin.pre_bind(&binding).unwrap_err().to_string();
    assert_eq!(taken_back, "binding volumes: provisioning failed for PVC \"d\"");
    plugin.unreserve(&pod, "a");
    assert_eq!(plugin.pre_bind(&binding), Ok(PreBind::Ready), "nothing is promised any more");
}
