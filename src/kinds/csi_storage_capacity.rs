//! CSI storage capacities: the storage that a driver has per topology segment. Podium stores them for drivers, but no
//! volume here uses a third-party CSI driver.

use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, names, resources, selector};
use object::storage::UNSET;

impl Resource for CSIStorageCapacity {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("StorageClassName", "The storage class that has this capacity.", |one, _| {
            json!(one.storage_class_name)
        }),
        Column::text("Capacity", "The available capacity.", |one, _| {
            json!(one.capacity.as_ref().map_or(UNSET, |capacity| capacity.0.as_str()))
        }),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        if let Some(topology) = &self.node_topology {
            selector::label_selector(errors, &Path::root("nodeTopology"), topology);
        }
        let class = &self.storage_class_name;
        errors.invalid_each(&Path::root("storageClassName"), class, names::dns_1123_subdomain(class));
        for (field, quantity) in
            [("capacity", &self.capacity), ("maximumVolumeSize", &self.maximum_volume_size)]
        {
            if let Some(quantity) = quantity {
                resources::quantity(errors, &Path::root(field), quantity);
            }
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        errors.immutable(&Path::root("nodeTopology"), &self.node_topology, &old.node_topology);
        errors.immutable(&Path::root("storageClassName"), &self.storage_class_name, &old.storage_class_name);
    }
}
