//! Which containers of this machine's nodes have a loaded image as their root: read from what the nodes' hosts
//! wrote down, so that it is known whether they run or not.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::SandboxSpec;
use super::protocol::Launch;

/// A container as its host keeps it; only what is asked for here.
#[derive(Deserialize)]
struct Kept {
    launch: Launch,
}

/// A sandbox as its host keeps it; only what is asked for here.
#[derive(Deserialize)]
struct KeptSandbox {
    spec: SandboxSpec,
}

/// `container NAME of pod NAMESPACE/NAME`, of every node below `nodes`, for each container with this root.
pub fn containers_with_root(nodes: &Path, root: &Path) -> Vec<String> {
    let below = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path());
    let mut users = Vec::new();
    for pod in below(nodes).flat_map(|node| below(&node.join("pods"))) {
        let sandbox = fs::read(pod.join("sandbox.json")).unwrap_or_default();
        let Ok(sandbox) = serde_json::from_slice::<KeptSandbox>(&sandbox) else { continue };
        for container in below(&pod) {
            let record = fs::read(container.join("record.json")).unwrap_or_default();
            if let Ok(kept) = serde_json::from_slice::<Kept>(&record)
                && kept.launch.image_root.as_deref() == Some(root)
            {
                let (name, spec) = (&kept.launch.spec.name, &sandbox.spec);
                users.push(format!("container {name} of pod {}/{}", spec.namespace, spec.name));
            }
        }
    }
    users.sort();
    users
}
