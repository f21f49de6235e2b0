//! The changes that would make a pod's volumes available on a node: part of [`hints`](crate::explain::hints).

use k8s_openapi::api::core::v1::PersistentVolume;

use crate::explain::required_change::RequiredChange;
use crate::plugins::located;
use crate::reason::Reason;
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::{PodClaim, PodInfo};
use crate::state::snapshot::Snapshot;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use object::SharedObject;
use object::owner::is_terminating;
use object::storage::{
    claim_class, claim_phase, claim_size, is_fully_bound, is_reachable_from, volume_name, waits_for_consumer,
};

/// Returns the change that would resolve a refusal because of volumes; `None` for other reasons.
pub(crate) fn change(
    pod: &PodInfo,
    snapshot: &Snapshot,
    node: &NodeInfo,
    reason: &Reason,
) -> Option<RequiredChange> {
    let storage = snapshot.storage();
    let of = |used: &PodClaim| storage.claim(&pod.claim_key(used));
    let claims = || pod.claims.iter().filter_map(of);
    let volumes = || claims().filter_map(|claim| storage.volume(volume_name(claim)?));
    let name = |claim: &SharedObject<PersistentVolumeClaim>| claim.name().to_string();
    Some(match reason {
        Reason::Claim(_) => match pod.claims.iter().find(|used| of(used).is_none()) {
            // The ephemeral volume controller will create the claim.
            Some(missing) if missing.ephemeral => return None,
            Some(missing) => RequiredChange::CreateClaim(missing.name.clone()),
            None => {
                let useless = |claim: &&SharedObject<_>| {
                    claim_phase(claim) == "Lost" || is_terminating(&claim.metadata)
                };
                RequiredChange::ReplaceClaim(name(claims().find(useless)?))
            }
        },
        Reason::ClaimInUse => {
            let alone = |claim: &&SharedObject<PersistentVolumeClaim>| {
                let modes = claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
                modes.into_iter().any(|mode| mode == "ReadWriteOncePod") && storage.users(&claim.key()) > 0
            };
            RequiredChange::FreeClaim(name(claims().find(alone)?))
        }
        Reason::UnboundClaims => {
            let waits = |claim: &PersistentVolumeClaim| {
                storage.class(claim_class(claim)).is_some_and(|class| waits_for_consumer(class))
            };
            let unbound = claims().find(|claim| !is_fully_bound(claim) && !waits(claim))?;
            provide(unbound)
        }
        Reason::NoVolumeToBind => provide(claims().find(|claim| volume_name(claim).is_none())?),
        Reason::VolumeNodeAffinityConflict => {
            let is_unreachable =
                |volume: &&SharedObject<PersistentVolume>| !is_reachable_from(volume, &node.node);
            RequiredChange::MeetVolumeAffinity(volumes().find(is_unreachable)?.name().to_string())
        }
        Reason::VolumeZone => {
            let misplaced = located(pod, snapshot).into_iter().find(|located| !located.allows(node))?;
            RequiredChange::MoveToVolume {
                volume: misplaced.volume,
                label: format!("{}={}", misplaced.label, misplaced.value),
            }
        }
        Reason::VolumeMissing => {
            let missing =
                claims().find(|claim| volume_name(claim).is_some_and(|name| storage.volume(name).is_none()));
            RequiredChange::ReplaceClaim(name(missing?))
        }
        _ => return None,
    })
}

fn provide(claim: &SharedObject<PersistentVolumeClaim>) -> RequiredChange {
    RequiredChange::ProvideVolume {
        claim: claim.name().to_string(),
        class: claim_class(claim).to_string(),
        size: claim_size(claim).to_binary().0,
    }
}
