//! The default capacity of a node.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use base::sort::CollectMap;
use object::quantity::{Amount, ResourceList};

/// Kubernetes' default.
const MAX_PODS: i64 = 110;

fn quantities(list: [(&str, Quantity); 4]) -> ResourceList {
    list.into_iter().map(|(name, amount)| (name.to_string(), amount)).collect_map()
}

/// Returns the machine's capacity. Every node that runs processes offers all of it, since they share the machine.
pub(super) fn machine(data_dir: &std::path::Path) -> ResourceList {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as i64;
    let info = rustix::system::sysinfo();
    let memory = (info.totalram as i64).saturating_mul(i64::from(info.mem_unit.max(1)));
    let disk = match rustix::fs::statvfs(data_dir) {
        Ok(fs) => (fs.f_blocks as i64).saturating_mul(fs.f_frsize as i64),
        Err(error) => {
            tracing::warn!("cannot read the size of the disk of {}: {error}", data_dir.display());
            0
        }
    };
    let ki = |bytes: i64| Amount::from_units(bytes / 1024 * 1024).to_binary();
    quantities([
        ("cpu", Amount::from_units(cores).to_decimal()),
        ("memory", ki(memory)),
        ("ephemeral-storage", ki(disk)),
        ("pods", Amount::from_units(MAX_PODS).to_decimal()),
    ])
}

/// Returns the default capacity of a hollow node: that of a large machine.
pub fn hollow() -> ResourceList {
    quantities([
        ("cpu", Quantity("32".into())),
        ("memory", Quantity("256Gi".into())),
        ("ephemeral-storage", Quantity("100Gi".into())),
        ("pods", Amount::from_units(MAX_PODS).to_decimal()),
    ])
}
