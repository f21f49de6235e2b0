//! CSI nodes: the CSI drivers that a node has. Podium stores them for drivers, but no volume here uses a third-party
//! CSI driver.

use std::collections::HashSet;

use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver};
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::storage::driver_name;
use apimachinery::validate::{FieldErrors, Path, names};

/// The maximum size of the id by which a driver knows a node.
const MAX_NODE_ID_BYTES: usize = 256;

impl Resource for CSINode {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::number(
            "Drivers",
            "Drivers indicates the number of CSI drivers registered on the node.",
            |node, _| json!(node.spec.drivers.len()),
        ),
        Column::age(),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        let list = Path::root("spec.drivers");
        let mut seen = HashSet::new();
        for (path, one) in list.each(self.spec.drivers.iter()) {
            driver(errors, &path, one);
            errors.unique(&mut seen, &path.child("name"), &one.name);
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        for new in &self.spec.drivers {
            if old.spec.drivers.iter().any(|old| old.name == new.name && !same_driver(old, new)) {
                let shown = object::json_of(new);
                errors.invalid(&Path::root("spec.drivers"), &shown, "field is immutable");
            }
        }
    }
}

/// Returns whether two entries are equal but for the number of volumes, the only field that may change.
fn same_driver(old: &CSINodeDriver, new: &CSINodeDriver) -> bool {
    CSINodeDriver { allocatable: new.allocatable.clone(), ..old.clone() } == *new
}

fn driver(errors: &mut FieldErrors, path: &Path<'_>, driver: &CSINodeDriver) {
    driver_name(errors, &path.child("name"), &driver.name);
    let id = path.child("nodeID");
    if driver.node_id.is_empty() {
        errors.required(&id, "");
    } else if driver.node_id.len() > MAX_NODE_ID_BYTES {
        errors.invalid(&id, &driver.node_id, format!("must be {MAX_NODE_ID_BYTES} characters or less"));
    }
    if let Some(count) = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count) {
        errors.non_negative(&path.child("allocatable.count"), count);
    }
    // Kubernetes' error names the driver instead of the list of its keys.
    let mut seen = HashSet::new();
    for key in driver.topology_keys.iter().flatten() {
        errors.required_name(path, key, names::qualified_name);
        errors.unique(&mut seen, path, key);
    }
}
