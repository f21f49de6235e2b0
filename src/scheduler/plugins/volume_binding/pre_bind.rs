//! Writes the choices for a pod's claims to the API, and checks that they are carried out.
//!
//! The volume controller then binds and provisions. If it cannot, it removes the annotation with the selected node, and
//! the pod is scheduled again.

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};

use super::assumed_volumes::PodVolumes;
use crate::framework::Binding;
use api::{Api, ApiError};
use object::storage::{
    SELECTED_NODE, annotation, claim_ref, claim_uid, is_bound_to, is_fully_bound, is_reachable_from,
    keep_for, volume_name,
};
use object::{Key, Kind, SharedObject};

/// Reserves the chosen volumes for their claims, and sets the selected node of each claim to provision.
pub(super) fn write(binding: &Binding<'_>, choice: &PodVolumes) -> Result<(), String> {
    let describe = |error: ApiError| error.to_string();
    for (claim, volume) in &choice.bind {
        let claim = binding.api.get_as::<PersistentVolumeClaim>(claim).map_err(describe)?;
        let marked = binding.api.modify::<PersistentVolume>(&Key::new("", volume.as_str()), |fresh| {
            if claim_ref(fresh).is_some() && !is_bound_to(fresh, &claim) {
                return Err(ApiError::modified(Kind::PersistentVolume, volume));
            }
            keep_for(fresh, &claim);
            Ok(())
        });
        marked.map_err(describe)?;
    }
    for claim in &choice.provision {
        let marked = binding.api.modify::<PersistentVolumeClaim>(claim, |fresh| {
            let annotations = fresh.metadata.annotations.get_or_insert_default();
            annotations.insert(SELECTED_NODE.into(), binding.node.into());
            Ok(())
        });
        marked.map_err(describe)?;
    }
    Ok(())
}

/// Returns true if all claims are bound; an error if one will not be.
pub(super) fn is_done(binding: &Binding<'_>, choice: &PodVolumes) -> Result<bool, String> {
    let api = binding.api;
    let node = api.get_as::<Node>(&Key::new("", binding.node));
    let node = node.map_err(|error| format!("failed to get node \"{}\": {error}", binding.node))?;
    let mut done = true;
    for (claim, volume) in &choice.bind {
        let claim = claim_of(api, claim, "failed to check binding")?;
        let volume = api.get_as::<PersistentVolume>(&Key::new("", volume.as_str()));
        let volume = volume.map_err(|error| format!("failed to check binding: {error}"))?;
        near(&volume, &node)?;
        if claim_ref(&volume).and_then(claim_uid).is_none() {
            return Err(format!("ClaimRef got reset for pv \"{}\"", volume.name()));
        }
        done &= is_fully_bound(&claim);
    }
    for claim in &choice.provision {
        let claim = claim_of(api, claim, "failed to check provisioning pvc")?;
        if annotation(&claim.metadata, SELECTED_NODE) != Some(binding.node) {
            return Err(format!("provisioning failed for PVC \"{}\"", claim.name()));
        }
        let volume = volume_name(&claim).map(|name| api.get_as::<PersistentVolume>(&Key::new("", name)));
        match volume {
            Some(Ok(volume)) => near(&volume, &node)?,
            Some(Err(_)) => done = false,
            None => {}
        }
        done &= is_fully_bound(&claim);
    }
    Ok(done)
}

fn claim_of(api: &Api, key: &Key, doing: &str) -> Result<SharedObject<PersistentVolumeClaim>, String> {
    api.get_as(key).map_err(|error| format!("{doing}: {error}"))
}

fn near(volume: &SharedObject<PersistentVolume>, node: &SharedObject<Node>) -> Result<(), String> {
    if is_reachable_from(volume, node) {
        return Ok(());
    }
    let (volume, node) = (volume.name(), node.name());
    Err(format!("pv \"{volume}\" node affinity doesn't match node \"{node}\": no matching NodeSelectorTerms"))
}
