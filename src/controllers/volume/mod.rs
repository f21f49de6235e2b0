//! Volumes and claims (VOL-2): binding, provisioning, expansion and protection.
//!
//! Each controller here is one of Kubernetes': `attach` attaches disks to nodes, `binder` binds claims and volumes,
//! `provisioner` creates volumes on demand as an external provisioner would, `expander` expands claims, `protection`
//! delays the deletion of objects in use, `ephemeral` creates the claims of pods with ephemeral volumes. They
//! communicate only through objects.

pub(super) mod attach;
pub(super) mod binder;
pub(super) mod ephemeral;
pub(super) mod expander;
pub(super) mod protection;
pub(super) mod provisioner;
mod request;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Sets an annotation.
fn annotate(meta: &mut ObjectMeta, key: &str, value: &str) {
    meta.annotations.get_or_insert_with(BTreeMap::new).insert(key.into(), value.into());
}
