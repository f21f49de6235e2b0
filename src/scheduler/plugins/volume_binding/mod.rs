//! VolumeBinding: places a pod on a node that reaches its volumes, and has its pending claims bound or provisioned
//! there before the pod is bound (VOL-2).
//!
//! The plugin's own [`AssumedVolumes`] has the choices that the API does not show yet: no other pod gets these volumes.

mod assumed_volumes;
mod check;
mod pre_bind;

use std::time::Duration;

use parking_lot::Mutex;

use super::volume_changes;
use crate::framework::{BindError, Binding, ChangeType, ClusterChange, Plugin, PluginId, PreBind, PreFilter};
use crate::reason::{Reason, Refusal};
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::{PodClaim, PodInfo};
use crate::state::snapshot::Snapshot;
use assumed_volumes::AssumedVolumes;
use check::Volumes;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use object::SharedObject;
use object::owner::is_terminating;
use object::storage::{
    claim_class, claim_phase, is_created_for, is_fully_bound, volume_name, waits_for_consumer,
};

/// The default time that a decided pod waits for its volumes.
const BIND_TIMEOUT: Duration = Duration::from_mins(10);

pub(crate) struct VolumeBinding {
    /// The time that a decided pod waits for its volumes.
    pub(crate) bind_timeout: Duration,
    account: Mutex<AssumedVolumes>,
}

impl Default for VolumeBinding {
    fn default() -> Self {
        Self { bind_timeout: BIND_TIMEOUT, account: Mutex::default() }
    }
}

impl Plugin for VolumeBinding {
    fn id(&self) -> PluginId {
        PluginId::VolumeBinding
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        if pod.claims.is_empty() {
            return PreFilter::Skip;
        }
        let claims: Result<Vec<_>, _> = pod.claims.iter().map(|used| usable(pod, used, snapshot)).collect();
        let claims = match claims {
            Ok(claims) => claims,
            Err(reason) => return PreFilter::Reject(Refusal::unresolvable(reason)),
        };
        let (bound, free): (Vec<_>, Vec<_>) = claims.into_iter().partition(|claim| is_fully_bound(claim));
        let waits = |claim: &&SharedObject<PersistentVolumeClaim>| {
            let class = snapshot.storage().class(claim_class(claim));
            class.is_some_and(|class| waits_for_consumer(class)) && volume_name(claim).is_none()
        };
        if !free.iter().all(waits) {
            return PreFilter::Reject(Refusal::unresolvable(Reason::UnboundClaims));
        }
        let mut account = self.account.lock();
        account.drop_observed(snapshot);
        let volumes = Volumes::new(&self.account, account.overview(pod), snapshot.storage(), &bound, free);
        if volumes.are_everywhere() {
            return PreFilter::Skip;
        }
        account.propose_for(pod);
        PreFilter::Check(Box::new(volumes))
    }

    fn reserve(&self, pod: &PodInfo, node: &NodeInfo) -> Result<(), String> {
        self.account.lock().reserve(pod, &node.name);
        Ok(())
    }

    fn unreserve(&self, pod: &PodInfo, _node: &str) {
        self.account.lock().unreserve(pod);
    }

    fn pre_bind(&self, binding: &Binding<'_>) -> Result<PreBind, BindError> {
        let Some(reserved) = self.account.lock().reserved(binding.pod) else { return Ok(PreBind::Ready) };
        let fail = |reason: String| BindError::Failed(format!("binding volumes: {reason}"));
        if !reserved.written {
            pre_bind::write(binding, &reserved.choice).map_err(fail)?;
            self.account.lock().mark_written(binding.pod);
        }
        let done = pre_bind::is_done(binding, &reserved.choice).map_err(fail)?;
        Ok(if done { PreBind::Ready } else { PreBind::Wait(self.bind_timeout) })
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        volume_changes::TYPES
    }

    fn is_schedulable_after(&self, pod: &PodInfo, change: &ClusterChange<'_>, _snapshot: &Snapshot) -> bool {
        volume_changes::help(pod, change)
    }
}

/// Returns the claim if the pod may use it at all.
fn usable<'a>(
    pod: &PodInfo,
    used: &PodClaim,
    snapshot: &'a Snapshot,
) -> Result<&'a SharedObject<PersistentVolumeClaim>, Reason> {
    let name = used.name.as_str();
    let Some(claim) = snapshot.storage().claim(&pod.claim_key(used)) else {
        return Err(if used.ephemeral {
            Reason::claim(format!(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
            ))
        } else {
            Reason::claim_not_found(name)
        });
    };
    if claim_phase(claim) == "Lost" {
        let volume = volume_name(claim).unwrap_or_default();
        return Err(Reason::claim(format!(
            "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
        )));
    }
    if is_terminating(&claim.metadata) {
        return Err(Reason::claim(format!("persistentvolumeclaim \"{name}\" is being deleted")));
    }
    if used.ephemeral && !is_created_for(claim, &pod.pod) {
        return Err(Reason::claim(format!(
            "PVC {} was not created for pod {} (pod is not owner)",
            claim.key(),
            pod.key()
        )));
    }
    Ok(claim)
}

#[cfg(test)]
mod tests;
