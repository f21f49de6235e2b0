//! Finds a volume for a claim.
//!
//! A volume reserved for the claim comes first; otherwise the smallest one that is large enough. The rules are
//! Kubernetes'; the volume controller, which binds at once, and the scheduler, which binds on a pod's node, share them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};

use super::{claim_class, claim_ref, claim_size, is_bound_to, is_reachable_from};
use super::{volume_class, volume_phase, volume_size};
use crate::owner::is_terminating;
use crate::selector::Selector;
use base::sort::SliceOrder;

/// The component that searches for a volume.
#[derive(Clone, Copy, Debug)]
pub enum VolumeRequester<'a> {
    /// The volume controller. If `delayed`, it may use only a volume that is reserved for the claim.
    Controller {
        /// The claim's class waits for the first consumer.
        delayed: bool,
    },
    /// The scheduler, for a pod on this node.
    Scheduler(&'a Node),
}

/// The reason why a volume that a claim names cannot serve it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The volume is terminating.
    #[error("the volume is marked for deletion {0:?}")]
    Terminating(String),
    /// The volume is too small.
    #[error("requested PV is too small")]
    Size,
    /// The storage classes differ.
    #[error("storageClassName does not match")]
    Class,
    /// The VolumeAttributesClasses differ.
    #[error("volumeAttributesClassName does not match")]
    Attributes,
    /// One is a file system and the other a block device.
    #[error("incompatible volumeMode")]
    Mode,
    /// The volume lacks one of the requested access modes.
    #[error("incompatible accessMode")]
    Access,
}

/// Checks that a volume named by the claim can serve it.
pub fn satisfies(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Result<(), Mismatch> {
    if is_terminating(&volume.metadata) {
        Err(Mismatch::Terminating(volume.metadata.name.clone().unwrap_or_default()))
    } else if volume_size(volume) < claim_size(claim) {
        Err(Mismatch::Size)
    } else if volume_class(volume) != claim_class(claim) {
        Err(Mismatch::Class)
    } else if !same_attributes(volume, claim) {
        Err(Mismatch::Attributes)
    } else if !same_mode(volume, claim) {
        Err(Mismatch::Mode)
    } else if !allows_access(volume, claim) {
        Err(Mismatch::Access)
    } else {
        Ok(())
    }
}

/// Returns the volume the controller binds to a claim, preferring those with exactly the requested access modes.
pub fn best_match<'a, V: Deref<Target = PersistentVolume>>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [V],
    delayed: bool,
) -> Option<&'a V> {
    let mut by_access: BTreeMap<(usize, Vec<&str>), Vec<&'a V>> = BTreeMap::new();
    // Most volumes belong to other claims: skip these first.
    let free = |volume: &&'a V| claim_ref(volume).is_none() || is_bound_to(volume, claim);
    for volume in volumes.iter().filter(free).filter(|volume| allows_access(volume, claim)) {
        let mut modes = access_modes(volume);
        modes.order();
        modes.dedup();
        by_access.entry((modes.len(), modes)).or_default().push(volume);
    }
    let seeker = VolumeRequester::Controller { delayed };
    by_access.into_values().find_map(|volumes| find_match(claim, volumes, seeker, &BTreeSet::new()))
}

/// Returns the volume among these for a claim: one reserved for it, or the smallest that fits. Volumes in `claimed` are
/// skipped.
pub fn find_match<'a, V: Deref<Target = PersistentVolume>>(
    claim: &PersistentVolumeClaim,
    volumes: impl IntoIterator<Item = &'a V>,
    seeker: VolumeRequester<'_>,
    claimed: &BTreeSet<String>,
) -> Option<&'a V> {
    let request = Request::of(claim);
    let mut smallest: Option<&'a V> = None;
    for item in volumes {
        let volume: &PersistentVolume = item;
        let is_reserved = is_bound_to(volume, claim);
        if claimed.contains(volume.metadata.name.as_deref().unwrap_or_default())
            || (claim_ref(volume).is_some() && !is_reserved)
            || !request.could_be(volume)
        {
            continue;
        }
        let reachable = match seeker {
            VolumeRequester::Scheduler(node) => is_reachable_from(volume, node),
            VolumeRequester::Controller { .. } => true,
        };
        if is_reserved {
            // A claim with a reserved volume gets no other volume, even if the node cannot reach the reserved one.
            return reachable.then_some(item);
        }
        let smaller = |best: &&V| volume_size(volume) < volume_size(best);
        if request.matches(volume, seeker) && reachable && smallest.as_ref().is_none_or(smaller) {
            smallest = Some(item);
        }
    }
    smallest
}

/// A claim's requirements, read once.
struct Request<'a> {
    claim: &'a PersistentVolumeClaim,
    selector: Option<Selector>,
}

impl<'a> Request<'a> {
    fn of(claim: &'a PersistentVolumeClaim) -> Self {
        let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        Self { claim, selector: selector.map(Selector::from_field) }
    }

    /// Checks the conditions that apply even to a volume reserved for the claim.
    fn could_be(&self, volume: &PersistentVolume) -> bool {
        volume_size(volume) >= claim_size(self.claim)
            && same_mode(volume, self.claim)
            && same_attributes(volume, self.claim)
            && !is_terminating(&volume.metadata)
    }

    fn matches(&self, volume: &PersistentVolume, seeker: VolumeRequester<'_>) -> bool {
        let by_seeker = match seeker {
            VolumeRequester::Controller { delayed } => !delayed,
            VolumeRequester::Scheduler(_) => allows_access(volume, self.claim),
        };
        by_seeker
            && volume_phase(volume) == "Available"
            && self.selector.as_ref().is_none_or(|s| s.matches(volume.metadata.labels.as_ref()))
            && volume_class(volume) == claim_class(self.claim)
    }
}

fn same_attributes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let of_volume = volume.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref());
    let of_claim = claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref());
    of_volume.unwrap_or_default() == of_claim.unwrap_or_default()
}

/// Returns true if both are file systems or both block devices.
pub fn same_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let of_volume = volume.spec.as_ref().and_then(|s| s.volume_mode.as_deref());
    let of_claim = claim.spec.as_ref().and_then(|s| s.volume_mode.as_deref());
    of_volume.unwrap_or("Filesystem") == of_claim.unwrap_or("Filesystem")
}

fn access_modes(volume: &PersistentVolume) -> Vec<&str> {
    let modes = volume.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
    modes.map(String::as_str).collect()
}

/// Returns true if a volume has all access modes the claim requests.
fn allows_access(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let allowed = access_modes(volume);
    let mut requested = claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
    requested.all(|mode| allowed.contains(&mode.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Creates a volume, changed by a JSON merge patch.
    fn volume(name: &str, size: &str, more: &Value) -> Box<PersistentVolume> {
        let mut volume = json!({"metadata": {"name": name}, "status": {"phase": "Available"},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}});
        merge(&mut volume, more);
        serde_json::from_value(volume).unwrap()
    }

    fn claim(size: &str, more: &Value) -> PersistentVolumeClaim {
        let mut claim = json!({"metadata": {"name": "c", "namespace": "n", "uid": "1"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}});
        merge(&mut claim, more);
        serde_json::from_value(claim).unwrap()
    }

    fn merge(to: &mut Value, from: &Value) {
        match (to, from) {
            (Value::Object(to), Value::Object(from)) => {
                for (key, value) in from {
                    merge(to.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (to, from) => *to = from.clone(),
        }
    }

    fn reserved_for(uid: &str) -> Value {
        json!({"spec": {"claimRef": {"namespace": "n", "name": "c", "uid": uid}}})
    }

    #[test]
    fn the_smallest_volume_that_fits_vol_2() {
        let none = json!({});
        let plain = claim("5Gi", &none);
        let rwx = json!({"spec": {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}});
        let class = json!({"spec": {"storageClassName": "slow"}});
        let block = json!({"spec": {"volumeMode": "Block"}});
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        let selecting = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
        let bound = json!({"status": {"phase": "Bound"}});
        let going = json!({"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}});
        let (small, mid, big) =
            (volume("s", "4Gi", &none), volume("m", "5Gi", &none), volume("l", "9Gi", &none));
        for (rule, claim, volumes, expected) in [
            ("large enough", &plain, vec![&small], None),
            ("the smallest", &plain, vec![&small, &big, &mid], Some("m")),
            ("its class", &plain, vec![&volume("v", "5Gi", &class)], None),
            (
                "the class asked for",
                &claim("5Gi", &class),
                vec![&mid, &volume("v", "6Gi", &class)],
                Some("v"),
            ),
            ("its mode", &plain, vec![&volume("v", "5Gi", &block)], None),
            ("the mode asked for", &claim("1Gi", &block), vec![&volume("v", "5Gi", &block)], Some("v")),
            (
                "the access modes asked for",
                &claim("5Gi", &rwx),
                vec![&mid, &volume("v", "8Gi", &rwx)],
                Some("v"),
            ),
            ("no more than asked for", &plain, vec![&volume("v", "5Gi", &rwx), &big], Some("l")),
            ("more if need be", &plain, vec![&volume("v", "5Gi", &rwx), &small], Some("v")),
            ("labels", &claim("5Gi", &selecting), vec![&mid, &volume("v", "8Gi", &labelled)], Some("v")),
            ("phase", &plain, vec![&volume("v", "5Gi", &bound), &big], Some("l")),
            ("going", &plain, vec![&volume("v", "5Gi", &going), &big], Some("l")),
            ("reserved for it", &plain, vec![&mid, &volume("v", "9Gi", &reserved_for("1"))], Some("v")),
            ("reserved by name", &plain, vec![&mid, &volume("v", "9Gi", &reserved_for(""))], Some("v")),
            (
                "reserved for a former one",
                &plain,
                vec![&volume("v", "5Gi", &reserved_for("0")), &big],
                Some("l"),
            ),
            (
                "reserved but too small",
                &plain,
                vec![&volume("v", "1Gi", &reserved_for("1")), &big],
                Some("l"),
            ),
        ] {
            let volumes: Vec<_> = volumes.into_iter().cloned().collect();
            let found = best_match(claim, &volumes, false);
            assert_eq!(found.and_then(|v| v.metadata.name.as_deref()), expected, "{rule}");
        }
        let volumes = [mid.clone(), volume("v", "9Gi", &reserved_for("1"))];
        assert!(best_match(&plain, &volumes[..1], true).is_none(), "it waits for its pod");
        assert!(best_match(&plain, &volumes, true).is_some(), "unless a volume is reserved for it");
    }

    #[test]
    fn on_a_node_only_what_can_be_reached_from_there_vol_2() {
        let node = |name: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"host": name}}})).unwrap()
        };
        let on = |host: &str| {
            json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
            [{"key": "host", "operator": "In", "values": [host]}]}]}}}})
        };
        let mut reserved = on("b");
        merge(&mut reserved, &reserved_for("1"));
        let volumes =
            [volume("a", "5Gi", &on("a")), volume("b", "7Gi", &on("b")), volume("any", "9Gi", &json!({}))];
        let claim = claim("5Gi", &json!({}));
        let found = |volumes: &[Box<PersistentVolume>], host: &str, taken: &[&str]| {
            let taken = taken.iter().map(ToString::to_string).collect();
            find_match(&claim, volumes, VolumeRequester::Scheduler(&node(host)), &taken)
                .and_then(|v| v.metadata.name.clone())
        };
        assert_eq!(found(&volumes, "a", &[]).as_deref(), Some("a"));
        assert_eq!(found(&volumes, "b", &[]).as_deref(), Some("b"));
        assert_eq!(found(&volumes, "c", &[]).as_deref(), Some("any"));
        assert_eq!(found(&volumes, "a", &["a"]).as_deref(), Some("any"));
        let candidates = [volume("reserved", "5Gi", &reserved), volumes[0].clone()];
        assert_eq!(found(&candidates, "b", &[]).as_deref(), Some("reserved"));
        assert_eq!(found(&candidates, "a", &[]), None, "the reserved volume is on another node");
    }

    #[test]
    fn a_volume_requested_by_name_must_match_its_claim_vol_2() {
        let none = json!({});
        let plain = claim("5Gi", &none);
        for (volume, expected) in [
            (volume("v", "5Gi", &none), None),
            (volume("v", "4Gi", &none), Some("requested PV is too small")),
            (
                volume("v", "5Gi", &json!({"spec": {"storageClassName": "x"}})),
                Some("storageClassName does not match"),
            ),
            (volume("v", "5Gi", &json!({"spec": {"volumeMode": "Block"}})), Some("incompatible volumeMode")),
            (
                volume("v", "5Gi", &json!({"spec": {"accessModes": ["ReadOnlyMany"]}})),
                Some("incompatible accessMode"),
            ),
            (
                volume("v", "5Gi", &json!({"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}})),
                Some("the volume is marked for deletion \"v\""),
            ),
        ] {
            assert_eq!(satisfies(&volume, &plain).err().map(|e| e.to_string()).as_deref(), expected);
        }
    }
}
